/* Sums of vectors of doubles at all ranks. `mpirun -n N mpi_all_reduce LENGTH:COUNT...`: rank 0 prints `all_reduce NANOSECONDS...`,
 * the median of COUNT operations for each length in bytes. The sums are looked at.
 */
#define _DEFAULT_SOURCE
#include "figures.h"
#include <mpi.h>

enum { COUNT_MAX = 10000 };

static double time_one(double *from, double *into, size_t count, long rounds, int rank)
{
    static double times[COUNT_MAX];
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (long k = -rounds / 10 - 1; k < rounds; k++) {
        for (size_t i = 0; i < count && k < 0; i++)
            from[i] = rank + (double)i;
        double start = now_ns();
        MPI_Allreduce(from, into, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (k >= 0)
            times[k] = now_ns() - start;
    }
    for (size_t i = 0; i < count; i++)
        if (into[i] != (double)ranks * (double)i + ranks * (ranks - 1) / 2) {
            fprintf(stderr, "the sum is wrong\n");
            exit(1);
        }
    return median(times, (size_t)rounds);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double figures[64];
    int figure_count = 0;
    for (int k = 1; k < argc && figure_count < 64; k++) {
        unsigned long len;
        long rounds;
        if (sscanf(argv[k], "%lu:%ld", &len, &rounds) != 2 || rounds < 1 || rounds > COUNT_MAX)
            continue;
        double *from = calloc(len, 1), *into = calloc(len, 1);
        if (!from || !into)
            die("memory");
        figures[figure_count++] = time_one(from, into, len / sizeof *from, rounds, rank);
        free(from);
        free(into);
    }
    if (rank == 0) {
        printf("all_reduce");
        for (int k = 0; k < figure_count; k++)
            printf(" %.1f", figures[k]);
        printf("\n");
        fflush(stdout);
    }
    return MPI_Finalize();
}
