/* What shared memory by pages does worst, written for threads: processes sweep over their own columns of a matrix whose rows are a page
 * long, so that every page is written by all of them all the time.
 *
 *     columns [ROWS] [--sweeps S] [--processes P] [--check] [--json]
 */
#include "../kit/ported.h"

MAIN_ENV

enum { ROW_COUNT = PORTED_PAGE_LEN / sizeof(uint64_t) };

static size_t row_count = 256, sweep_count = 1000, process_count;
static uint64_t *matrix;
static ported_share *shares;
BARDEC(all_here)

/* Folds the sweep into process p's numbers of every row. */
static void sweep(uint64_t *rows, size_t number, size_t p, size_t processes)
{
    for (size_t row = 0; row < row_count; row++)
        for (size_t k = ported_first(ROW_COUNT, p, processes); k < ported_first(ROW_COUNT, p + 1, processes); k++)
            rows[row * ROW_COUNT + k] = ported_number(rows[row * ROW_COUNT + k] ^ number);
}

static void work(void)
{
    size_t p;
    GET_PID(p)
    ported_note(&shares[p], 0);
    for (size_t number = 0; number < sweep_count; number++)
        sweep(matrix, number, p, process_count);
    BARRIER(all_here, process_count)
    ported_note(&shares[p], 1);
}

static uint64_t result_of(const uint64_t *rows) { return ported_fold(0, rows, row_count * PORTED_PAGE_LEN); }

/* The result of one process in memory of its own. */
static uint64_t right_result(void)
{
    uint64_t *own = (uint64_t *)ported_own(row_count * PORTED_PAGE_LEN);
    for (size_t number = 0; number < sweep_count; number++)
        sweep(own, number, 0, 1);
    uint64_t result = result_of(own);
    free(own);
    return result;
}

int main(int argc, char **argv)
{
    unsigned long start, end;
    int check = 0, json = 0;
    const word words[] = {
        {"", NULL, &row_count, NULL, NULL},                {"--sweeps", NULL, &sweep_count, NULL, NULL},
        {"--processes", NULL, &process_count, NULL, NULL}, {"--check", &check, NULL, NULL, NULL},
        {"--json", &json, NULL, NULL, NULL},               {NULL, NULL, NULL, NULL, NULL},
    };
    read_words(argc, argv, words);
    MAIN_INITENV((row_count + PORTED_PROCESS_COUNT_MAX + 1) * PORTED_PAGE_LEN)
    process_count = ported_processes(argv[0], process_count);
    matrix = (uint64_t *)G_MALLOC(row_count * PORTED_PAGE_LEN);
    shares = (ported_share *)G_MALLOC(process_count * sizeof *shares);
    BARINIT(all_here)

    CLOCK(start)
    CREATE(work, process_count)
    WAIT_FOR_END(process_count)
    CLOCK(end)

    line to = ported_line(json, "columns", process_count, (double)(end - start) / 1e6, shares);
    line_count(to, "count", row_count);
    int status = ported_end(to, result_of(matrix), check, check ? right_result() : 0);
    MAIN_END
    return status;
}
