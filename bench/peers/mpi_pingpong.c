/* A message there and back. `mpirun -n 2 mpi_pingpong LENGTH:COUNT...`: rank 0 prints `pingpong NANOSECONDS...`, half of the median of
 * COUNT round trips for each length in bytes. What comes back is looked at.
 */
#define _DEFAULT_SOURCE
#include "figures.h"
#include <mpi.h>

enum { COUNT_MAX = 100000 };

static double time_one(unsigned char *bytes, unsigned char *back, int len, long rounds, int rank)
{
    static double times[COUNT_MAX];
    for (int at = 0; at < len; at++)
        bytes[at] = (unsigned char)(at * 7 + rank), back[at] = 0;
    for (long k = -rounds / 10 - 1; k < rounds; k++) {
        double start = now_ns();
        if (rank == 0)
            MPI_Send(bytes, len, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
        MPI_Recv(back, len, MPI_BYTE, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(bytes, len, MPI_BYTE, 0, 7, MPI_COMM_WORLD);
        if (k >= 0)
            times[k] = (now_ns() - start) / 2;
    }
    for (int at = 0; at < len; at++)
        if (back[at] != (unsigned char)(at * 7 + 1 - rank)) {
            fprintf(stderr, "error: other bytes came back\n");
            exit(1);
        }
    return median(times, (size_t)rounds);
}

int main(int argc, char **argv)
{
    int rank, figure_count = 0;
    double figures[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int k = 1; k < argc && figure_count < 64; k++) {
        unsigned long len;
        long rounds;
        if (sscanf(argv[k], "%lu:%ld", &len, &rounds) != 2 || rounds < 1 || rounds > COUNT_MAX)
            continue;
        unsigned char *bytes = malloc(len), *back = malloc(len);
        if (!bytes || !back)
            die("memory");
        figures[figure_count++] = time_one(bytes, back, (int)len, rounds, rank);
        free(bytes);
        free(back);
    }
    if (rank == 0) {
        printf("pingpong");
        for (int k = 0; k < figure_count; k++)
            printf(" %.1f", figures[k]);
        printf("\n");
        fflush(stdout);
    }
    return MPI_Finalize();
}
