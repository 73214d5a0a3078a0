/* What the MPI peers share: a window, and turns on demand.
 *
 * `PROGRAM local|remote ...`: a shared window on one host, or a window whose ranks are told to talk as if on two. The second
 * rank sleeps between turns. During a turn it makes progress all the time, without which MPI's one-sided operations do not
 * move; but Open MPI's on a shared window do, so there it sleeps and both CPUs are free.
 */
#ifndef WINDOW_H
#define WINDOW_H

#include "figures.h"
#include <mpi.h>
#include <unistd.h>

typedef struct window {
    MPI_Win handle;
    char *own; /* this rank's part */
    int rank;
    int needs_progress; /* of the target, during operations */
} window;

/* Opens a window whose first rank has `first_len` bytes and whose second has `second_len`, all zero. */
static inline window open_window(const char *kind, size_t first_len, size_t second_len)
{
    int is_shared = strcmp(kind, "local") == 0;
    window at = {.needs_progress = 1};
    MPI_Info info;
    void *own;
    MPI_Comm_rank(MPI_COMM_WORLD, &at.rank);
    size_t len = at.rank == 0 ? first_len : second_len;
    /* What GUPS may promise; the others accumulate nothing. */
    MPI_Info_create(&info);
    MPI_Info_set(info, "accumulate_ops", "same_op_no_op");
    MPI_Info_set(info, "accumulate_ordering", "none");
#ifdef OPEN_MPI
    at.needs_progress = !is_shared;
#endif
    if (is_shared)
        MPI_Win_allocate_shared((MPI_Aint)len, 1, info, MPI_COMM_WORLD, &own, &at.handle);
    else
        MPI_Win_allocate((MPI_Aint)len, 1, info, MPI_COMM_WORLD, &own, &at.handle);
    MPI_Info_free(&info);
    at.own = own;
    memset(at.own, 0, len);
    MPI_Barrier(MPI_COMM_WORLD);
    if (at.rank == 0)
        MPI_Win_lock_all(0, at.handle);
    return at;
}

static inline void wait_asleep(MPI_Request *request)
{
    int is_done = 0;
    for (MPI_Test(request, &is_done, MPI_STATUS_IGNORE); !is_done; MPI_Test(request, &is_done, MPI_STATUS_IGNORE))
        usleep(5000);
}

/* Takes a turn on rank 0 for every line that it reads, and closes the window at the end of its input. */
static inline void take_turns(window *at, void (*turn)(void *), void *state)
{
    char line[64];
    MPI_Request request;
    for (int go = 1; go;) {
        if (at->rank == 0)
            go = fgets(line, sizeof line, stdin) != NULL;
        MPI_Ibcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
        wait_asleep(&request);
        if (go && at->rank == 0) {
            turn(state);
            end_turn();
        }
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        if (at->needs_progress)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        else
            wait_asleep(&request);
    }
    if (at->rank == 0)
        MPI_Win_unlock_all(at->handle);
    MPI_Win_free(&at->handle);
}

#endif
