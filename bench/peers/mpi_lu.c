/* The MPI version of apps/lu, beside which the bench runs those on mapped memory. */
#include "../../apps/lu/mpi.c"
