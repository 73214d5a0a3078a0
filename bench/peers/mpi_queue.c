/* Blocks of 64 B between processes. `mpirun -n RANKS mpi_queue CASE COUNT PACED`:
 *
 *     one    rank 1 sends to rank 0; then PACED blocks at half of that rate, each with the time at which it was due
 *     four   ranks 1 to 4 send to rank 0
 *     fan    rank 0 sends to ranks 1 to 4 in turn
 *     pairs  rank 1 sends to rank 0, rank 3 to rank 2
 *
 * Rank 0 prints `queue CASE MILLIONS-A-SECOND`, and of `one` the median and the 99.9th percentile of how late blocks came, in ns. */
#define _DEFAULT_SOURCE
#include "figures.h"
#include <mpi.h>

enum { BLOCK_WORDS = 8 };

static void send_blocks(int first, int last, long count, double pace)
{
    double begun = now_ns();
    double block[BLOCK_WORDS] = {0};
    for (long k = 0; k < count; k++) {
        block[0] = (double)k;
        if (pace > 0) {
            block[1] = begun + (double)k * pace;
            while (now_ns() < block[1])
                ;
        }
        for (int to = first; to <= last; to++)
            MPI_Send(block, BLOCK_WORDS, MPI_DOUBLE, to, 0, MPI_COMM_WORLD);
    }
}

/* From when to when; how late each came into `late` where there is one. */
static void take_blocks(int from, long count, long each, double span[2], double *late)
{
    double block[BLOCK_WORDS], sum = 0, writers = (double)(count / each);
    for (long k = 0; k < count; k++) {
        MPI_Recv(block, BLOCK_WORDS, MPI_DOUBLE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (k == 0)
            span[0] = now_ns();
        sum += block[0];
        if (late)
            late[k] = now_ns() - block[1];
    }
    span[1] = now_ns();
    if (sum != writers * ((double)each * (double)(each - 1) / 2)) {
        fprintf(stderr, "error: the blocks that came are not those that were sent\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    int rank;
    const char *what = argc > 3 ? argv[1] : "";
    long count = argc > 3 ? atol(argv[2]) : 0, paced = argc > 3 ? atol(argv[3]) : 0, all = count;
    double span[2] = {1e300, 0}, first, last, rate;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(what, "fan")) {
        all = 4 * count;
        if (rank == 0)
            send_blocks(1, 4, count, 0);
        else
            take_blocks(0, count, count, span, NULL);
    } else if (!strcmp(what, "pairs")) {
        all = 2 * count;
        if (rank % 2)
            send_blocks(rank - 1, rank - 1, count, 0);
        else
            take_blocks(rank + 1, count, count, span, NULL);
    } else {
        all = strcmp(what, "four") ? count : 4 * count;
        if (rank)
            send_blocks(0, 0, count, 0);
        else
            take_blocks(MPI_ANY_SOURCE, all, count, span, NULL);
    }
    MPI_Allreduce(&span[0], &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&span[1], &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    rate = (double)all / (last - first) * 1e3;
    if (!strcmp(what, "one")) {
        double *late = malloc((size_t)paced * sizeof *late);
        if (rank)
            send_blocks(0, 0, paced, 2e3 / rate);
        else {
            take_blocks(1, paced, paced, span, late);
            qsort(late, (size_t)paced, sizeof *late, by_size);
            printf("queue one %.3f %.1f %.1f\n", rate, late[(paced - 1) / 2], late[paced - 1 - paced / 1000]);
        }
    } else if (rank == 0)
        printf("queue %s %.3f\n", what, rate);
    fflush(stdout);
    return MPI_Finalize();
}
