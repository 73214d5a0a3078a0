/* A table in chunks on all nodes: each rank fills its rows, rank 0 sums all of them where they lie and fetches one column.
 *
 *     hanare run --nodes 2 ./table
 */
#include <hanare.h>
#include <stdio.h>

enum { ROWS = 512, COLUMNS = 512 };

static int failed(void)
{
    fprintf(stderr, "%s\n", hanare_last_error());
    return 1;
}

int main(void)
{
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    const uint64_t row_len = COLUMNS * sizeof(double);
    hanare_pool *pool;
    hanare_region *table;

    options.placement = "interleave=65536";
    if (hanare_attach(&pool) < 0 || hanare_create_or_attach(pool, "example-table", ROWS * row_len, &options, &table) < 0)
        return failed();

    for (int row = hanare_rank(pool); row < ROWS; row += hanare_ranks(pool)) {
        hanare_shape whole = hanare_shape_contiguous((uint64_t)row * row_len, row_len);
        double number = row;
        if (hanare_fill(table, &whole, &number, sizeof number) < 0)
            return failed();
    }
    if (hanare_barrier(pool) < 0)
        return failed();

    if (hanare_rank(pool) == 0) {
        hanare_shape all = hanare_shape_contiguous(0, ROWS * row_len);
        hanare_strided column = {7 * sizeof(double), sizeof(double), ROWS, row_len};
        hanare_summary summary;
        double numbers[ROWS];

        summary.struct_size = sizeof summary;
        /* Only the sum travels; of the column 512 numbers do, in one message for each node. */
        if (hanare_reduce(table, &all, HANARE_F64, NULL, &summary) < 0
            || hanare_get_strided(table, &column, numbers, sizeof numbers) < 0)
            return failed();
        printf("sum %.0f, column 7 ends with %.0f\n", summary.sum, numbers[ROWS - 1]);
    }
    return hanare_barrier(pool) < 0 || hanare_detach(pool) < 0;
}
