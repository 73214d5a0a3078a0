/* An empty barrier. `mpirun -n 2 mpi_barrier`: rank 0 prints `barrier NANOSECONDS`, the median of many. */
#define _DEFAULT_SOURCE
#include "figures.h"
#include <mpi.h>

enum { COUNT = 3000, WARM_COUNT = 200 };

int main(int argc, char **argv)
{
    static double times[COUNT];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 0; k < WARM_COUNT; k++)
        MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < COUNT; k++) {
        double start = now_ns();
        MPI_Barrier(MPI_COMM_WORLD);
        times[k] = now_ns() - start;
    }
    if (rank == 0) {
        printf("barrier %.1f\n", median(times, COUNT));
        fflush(stdout);
    }
    return MPI_Finalize();
}
