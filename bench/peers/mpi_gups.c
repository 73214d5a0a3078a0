/* Random xor updates of 64-bit words, in batches that are complete at the target before the next one begins.
 * `mpirun -n 2 mpi_gups local|remote FIRST_BYTES SECOND_BYTES BATCH...`: ns for each update, the table being both ranks' parts.
 *
 * Three ways: a call of MPI_Accumulate for each word, one for each rank with an indexed datatype, and MPI_Fetch_and_op.
 */
#define _DEFAULT_SOURCE
#include "window.h"

enum { BATCH_MAX = 1 << 16, STEP_COUNT = 64 };
static const double BUDGET_NS = 100e6;

typedef struct gups {
    window *at;
    size_t words[2]; /* of each rank */
    size_t batch;
    uint64_t random;
    uint64_t operands[BATCH_MAX], olds[BATCH_MAX];
    int batch_count;
    char **batches;
} gups;

/* The rank that holds a random word, and where in its part. */
static int choose(gups *g, size_t *word)
{
    *word = next_random(&g->random) % (g->words[0] + g->words[1]);
    if (*word < g->words[0])
        return 0;
    *word -= g->words[0];
    return 1;
}

static void accumulate(gups *g)
{
    size_t word;
    for (size_t k = 0; k < g->batch; k++) {
        int rank = choose(g, &word);
        MPI_Accumulate(&g->operands[k], 1, MPI_UINT64_T, rank, (MPI_Aint)word * 8, 1, MPI_UINT64_T, MPI_BXOR, g->at->handle);
    }
    MPI_Win_flush_all(g->at->handle);
}

static void fetch_and_op(gups *g)
{
    size_t word;
    for (size_t k = 0; k < g->batch; k++) {
        int rank = choose(g, &word);
        MPI_Fetch_and_op(&g->operands[k], &g->olds[k], MPI_UINT64_T, rank, (MPI_Aint)word * 8, MPI_BXOR, g->at->handle);
    }
    MPI_Win_flush_all(g->at->handle);
}

static void indexed(gups *g)
{
    static int lists[2][BATCH_MAX];
    int counts[2] = {0, 0};
    size_t word;
    for (size_t k = 0; k < g->batch; k++) {
        int rank = choose(g, &word);
        lists[rank][counts[rank]++] = (int)word;
    }
    for (int rank = 0; rank < 2; rank++) {
        MPI_Datatype type;
        if (counts[rank] == 0)
            continue;
        MPI_Type_create_indexed_block(counts[rank], 1, lists[rank], MPI_UINT64_T, &type);
        MPI_Type_commit(&type);
        MPI_Accumulate(g->operands, counts[rank], MPI_UINT64_T, rank, 0, 1, type, MPI_BXOR, g->at->handle);
        MPI_Type_free(&type);
    }
    MPI_Win_flush_all(g->at->handle);
}

/* A step has several batches where they are short. */
static size_t step_count(const gups *g)
{
    return g->batch < STEP_COUNT ? STEP_COUNT / g->batch : 1;
}

#define STEP(way)                                                                                                              \
    static void step_##way(void *state)                                                                                        \
    {                                                                                                                          \
        for (size_t k = 0; k < step_count(state); k++)                                                                         \
            way(state);                                                                                                        \
    }
STEP(accumulate)
STEP(fetch_and_op)
STEP(indexed)

static void turn(void *state)
{
    gups *g = state;
    for (int k = 0; k < g->batch_count; k++) {
        g->batch = strtoull(g->batches[k], NULL, 10);
        if (g->batch < 1 || g->batch > BATCH_MAX)
            MPI_Abort(MPI_COMM_WORLD, 2);
        double updates = (double)(step_count(g) * g->batch);
        print_figure("accumulate", g->batch, time_step(step_accumulate, g, BUDGET_NS) / updates);
        print_figure("fetch", g->batch, time_step(step_fetch_and_op, g, BUDGET_NS) / updates);
        print_figure("indexed", g->batch, time_step(step_indexed, g, BUDGET_NS) / updates);
    }
}

int main(int argc, char **argv)
{
    static gups g = {.random = 88172645463325252};
    MPI_Init(&argc, &argv);
    if (argc < 5)
        MPI_Abort(MPI_COMM_WORLD, 2);
    size_t first = strtoull(argv[2], NULL, 10), second = strtoull(argv[3], NULL, 10);
    window at = open_window(argv[1], first, second);
    g.at = &at;
    g.words[0] = first / 8, g.words[1] = second / 8;
    g.batch_count = argc - 4, g.batches = argv + 4;
    for (size_t k = 0; k < BATCH_MAX; k++)
        g.operands[k] = next_random(&g.random);
    take_turns(&at, turn, &g);
    return MPI_Finalize();
}
