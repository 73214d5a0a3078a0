/* 8-byte elements at a stride in the other rank's part, by MPI_Get with a vector datatype.
 * `mpirun -n 2 mpi_strided local|remote RANGE/STRIDE...`, in bytes: ns for all elements of each range.
 */
#define _DEFAULT_SOURCE
#include "window.h"

static const double BUDGET_NS = 60e6;

typedef struct strided {
    window *at;
    size_t range, stride, count;
    MPI_Datatype type;
    uint64_t *into;
    int case_count;
    char **cases;
} strided;

static void get(void *state)
{
    strided *s = state;
    MPI_Get(s->into, (int)s->count, MPI_UINT64_T, 1, 0, 1, s->type, s->at->handle);
    MPI_Win_flush(1, s->at->handle);
}

static void parse(const char *text, strided *s)
{
    char *slash;
    s->range = strtoull(text, &slash, 10);
    s->stride = *slash == '/' ? strtoull(slash + 1, NULL, 10) : 0;
    if (s->stride < 8)
        MPI_Abort(MPI_COMM_WORLD, 2);
    s->count = s->range / s->stride;
}

static void turn(void *state)
{
    strided *s = state;
    for (int k = 0; k < s->case_count; k++) {
        parse(s->cases[k], s);
        MPI_Type_vector((int)s->count, 1, (int)(s->stride / 8), MPI_UINT64_T, &s->type);
        MPI_Type_commit(&s->type);
        s->into = calloc(s->count, sizeof *s->into);
        printf("get_%zu_%zu %.1f\n", s->range, s->stride, time_step(get, s, BUDGET_NS));
        free(s->into);
        MPI_Type_free(&s->type);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    strided s = {.case_count = argc - 2, .cases = argv + 2};
    size_t len = 0;
    for (int k = 0; k < s.case_count; k++) {
        parse(s.cases[k], &s);
        len = s.range > len ? s.range : len;
    }
    window at = open_window(argv[1], 0, len);
    s.at = &at;
    take_turns(&at, turn, &s);
    return MPI_Finalize();
}
