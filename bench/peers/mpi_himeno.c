/* The MPI version of apps/himeno, beside which the bench runs those on mapped memory. */
#include "../../apps/himeno/mpi.c"
