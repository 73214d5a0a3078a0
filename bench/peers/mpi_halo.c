/* The MPI version of apps/halo, beside which the bench runs that on regions. */
#include "../../apps/halo/mpi.c"
