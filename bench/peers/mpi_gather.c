/* Random 8-byte elements of the other rank's part: with an indexed datatype, and with 64 outstanding MPI_Rget.
 * `mpirun -n 2 mpi_gather local|remote TABLE_BYTES COUNT...`: ns for each element in lists of each COUNT.
 *
 * The datatypes of a list are made before the clock starts, as for a list that is used again and again.
 */
#define _DEFAULT_SOURCE
#include "window.h"

enum { OUTSTANDING = 64, RGET_COUNT_MAX = 1 << 11 };
static const double BUDGET_NS = 100e6;

typedef struct gather {
    window *at;
    size_t element_count; /* of the table */
    size_t count;         /* of a list */
    int *lists[LIST_COUNT_MAX];
    MPI_Datatype types[LIST_COUNT_MAX];
    int next; /* list */
    uint64_t *into;
    int list_kinds; /* how many COUNTs */
    char **counts;
} gather;

static void get_indexed(void *state)
{
    gather *g = state;
    MPI_Get(g->into, (int)g->count, MPI_UINT64_T, 1, 0, 1, g->types[g->next++ % list_count_of(g->count)], g->at->handle);
    MPI_Win_flush(1, g->at->handle);
}

static size_t rget_count(const gather *g)
{
    return g->count < RGET_COUNT_MAX ? g->count : RGET_COUNT_MAX;
}

static void get_each(void *state)
{
    gather *g = state;
    MPI_Request requests[OUTSTANDING];
    int slot, *list = g->lists[g->next++ % list_count_of(g->count)];
    size_t count = rget_count(g);
    for (size_t k = 0; k < count; k++) {
        if (k < OUTSTANDING)
            slot = (int)k;
        else
            MPI_Waitany(OUTSTANDING, requests, &slot, MPI_STATUS_IGNORE);
        MPI_Rget(&g->into[k], 1, MPI_UINT64_T, 1, (MPI_Aint)list[k] * 8, 1, MPI_UINT64_T, g->at->handle, &requests[slot]);
    }
    for (size_t k = 0; k < count && k < OUTSTANDING; k++)
        MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
}

static void make_lists(gather *g, uint64_t *random)
{
    for (int list = 0; list < list_count_of(g->count); list++) {
        g->lists[list] = malloc(g->count * sizeof(int));
        for (size_t k = 0; k < g->count; k++)
            g->lists[list][k] = (int)(next_random(random) % g->element_count);
        MPI_Type_create_indexed_block((int)g->count, 1, g->lists[list], MPI_UINT64_T, &g->types[list]);
        MPI_Type_commit(&g->types[list]);
    }
}

static void drop_lists(gather *g)
{
    for (int list = 0; list < list_count_of(g->count); list++) {
        MPI_Type_free(&g->types[list]);
        free(g->lists[list]);
    }
}

static void turn(void *state)
{
    gather *g = state;
    uint64_t random = 88172645463325252;
    for (int kind = 0; kind < g->list_kinds; kind++) {
        g->count = strtoull(g->counts[kind], NULL, 10);
        g->into = calloc(g->count, sizeof *g->into);
        make_lists(g, &random);
        print_figure("indexed", g->count, time_step(get_indexed, g, BUDGET_NS) / (double)g->count);
        print_figure("rget", g->count, time_step(get_each, g, BUDGET_NS) / (double)rget_count(g));
        drop_lists(g);
        free(g->into);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    size_t len = strtoull(argv[2], NULL, 10);
    window at = open_window(argv[1], 0, len);
    gather g = {.at = &at, .element_count = len / 8, .list_kinds = argc - 3, .counts = argv + 3};
    take_turns(&at, turn, &g);
    return MPI_Finalize();
}
