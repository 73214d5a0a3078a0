/* MPI_Get and MPI_Put on a shared window, both ranks on this host: `mpirun -n 2 mpi_window ROUNDS`.
 * Rank 0 reads and writes rank 1's part of the window; rank 1 sleeps meanwhile, so that both CPUs are free.
 */
#define _DEFAULT_SOURCE
#include "figures.h"
#include <mpi.h>
#include <unistd.h>

typedef int (*operation)(const void *, size_t, MPI_Win);

static int get(const void *buffer, size_t size, MPI_Win window)
{
    return MPI_Get((void *)buffer, (int)size, MPI_BYTE, 1, 0, (int)size, MPI_BYTE, window);
}

static int put(const void *buffer, size_t size, MPI_Win window)
{
    return MPI_Put(buffer, (int)size, MPI_BYTE, 1, 0, (int)size, MPI_BYTE, window);
}

/* The median over batches of an operation's mean time. */
static double measure(operation run, void *buffer, size_t size, MPI_Win window, long rounds)
{
    double means[BATCH_COUNT];
    long each = rounds / BATCH_COUNT < 1 ? 1 : rounds / BATCH_COUNT;
    for (int batch = -BATCH_COUNT / 10; batch < BATCH_COUNT; batch++) {
        double start = now_ns();
        for (long k = 0; k < each; k++) {
            run(buffer, size, window);
            MPI_Win_flush(1, window);
        }
        if (batch >= 0)
            means[batch] = (now_ns() - start) / (double)each;
    }
    return median(means, BATCH_COUNT);
}

int main(int argc, char **argv)
{
    int rank;
    void *part, *buffer = aligned_alloc(4096, SIZE_MAX_BYTES); /* as for the others: see the bench */
    MPI_Win window;
    MPI_Request done;
    long rounds = argc > 1 ? atol(argv[1]) : 100000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate_shared(SIZE_MAX_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &window);
    memset(part, rank, SIZE_MAX_BYTES);
    memset(buffer, 7, SIZE_MAX_BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock_all(0, window);
        for (int k = 0; k < SIZE_COUNT; k++) {
            long count = rounds_of(SIZES[k], rounds);
            print_figure("get", SIZES[k], measure(get, buffer, SIZES[k], window, count));
            print_figure("put", SIZES[k], measure(put, buffer, SIZES[k], window, count));
        }
        MPI_Win_unlock_all(window);
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &done);
    for (int is_done = 0; !is_done; usleep(1000))
        MPI_Test(&done, &is_done, MPI_STATUS_IGNORE);
    MPI_Win_free(&window);
    free(buffer);
    return MPI_Finalize();
}
