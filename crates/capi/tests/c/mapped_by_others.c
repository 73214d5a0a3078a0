/* Commands of one rank, begun and not waited for, on a region that the other maps coherently: the pages show each of them, once.
 * The map, and the handle that joins it, are made anew in each round. */
/* FEATURE: EU-F17 */
#include "expect.h"

/* A word of each of the first pages counts; puts go to the pages behind. */
enum { PAGE = 4096, PAGES = 16, LEN = 24 * PAGE, ROUNDS = 6, EACH = 8, FAR = 20 * PAGE - 40 };

/* Takes the region handle away while a request is under way. */
static void counts(hanare_pool *pool, hanare_region *region, hanare_region *plain, int round)
{
    unsigned char *bytes = noise(2 * PAGE, (unsigned)round), back[2 * PAGE], copied[200];
    uint64_t one = 1, olds[EACH][PAGES], position;
    hanare_request *requests[EACH], *put, *get, *all;
    hanare_shape words = hanare_shape_strided(64, 8, PAGES, PAGE), range = hanare_shape_contiguous(FAR, 2 * PAGE);
    hanare_shape from = hanare_shape_contiguous(FAR, 200), to = hanare_shape_contiguous(PAGE - 9, 200);
    hanare_summary summary;
    hanare_batch *batch;

    EXPECT_OK(hanare_put_nb(region, FAR, bytes, 2 * PAGE, &put));
    for (int k = 0; k < EACH; k++) {
        EXPECT_OK(hanare_batch_begin(pool, &batch));
        EXPECT_OK(hanare_batch_fetch(batch, region, &words, HANARE_U64, HANARE_ADD, &one, sizeof one, olds[k], sizeof olds[k]));
        EXPECT_OK(hanare_batch_start(batch, &requests[k]));
        EXPECT_OK(hanare_batch_drop(batch));
    }
    int done;
    while ((done = hanare_test(requests[EACH / 2])) == 0)
        continue;
    EXPECT(done == 1);
    for (int k = EACH - 1; k >= 0; k--)
        EXPECT_OK(hanare_wait(requests[k]));
    for (int page = 0; page < PAGES; page++)
        for (int k = 1; k < EACH; k++)
            EXPECT(olds[k][page] > olds[k - 1][page]);
    EXPECT_OK(hanare_wait(put));
    EXPECT_OK(hanare_get_nb(region, FAR, back, sizeof back, &get));
    EXPECT_OK(hanare_wait(get));
    EXPECT(memcmp(back, bytes, sizeof back) == 0);

    summary.struct_size = sizeof summary;
    EXPECT_OK(hanare_batch_begin(pool, &batch));
    EXPECT_OK(hanare_batch_compare(batch, region, &range, back, sizeof back, &position));
    EXPECT_OK(hanare_batch_reduce(batch, region, &range, HANARE_U8, NULL, &summary));
    EXPECT_OK(hanare_batch_copy(batch, region, &from, plain, &to));
    EXPECT_OK(hanare_batch_start(batch, &all));
    EXPECT_OK(hanare_batch_drop(batch));
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_wait(all));
    EXPECT(summary.count == 2 * PAGE);
    EXPECT_OK(hanare_get(plain, PAGE - 9, copied, sizeof copied));
    EXPECT(memcmp(copied, back, sizeof copied) == 0);
    free(bytes);
}

static void adds(hanare_region *region)
{
    void *ptr;
    size_t len;
    EXPECT_OK(hanare_map_shared(region, HANARE_COHERENT, &ptr, &len));
    EXPECT(len == LEN);
    for (int page = 0; page < PAGES; page++)
        __atomic_fetch_add((uint64_t *)((unsigned char *)ptr + page * PAGE + 64), 1, __ATOMIC_SEQ_CST);
}

int main(int argc, char **argv)
{
    hanare_pool *pool;
    hanare_region *region, *plain;
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    EXPECT(argc == 2);
    options.placement = argv[1];
    EXPECT_OK(hanare_attach(&pool));
    int rank = hanare_rank(pool);
    EXPECT_OK(hanare_create_or_attach(pool, "plain", LEN, &options, &plain));
    EXPECT_OK(hanare_create_or_attach(pool, "mapped", LEN, &options, &region));
    EXPECT_OK(hanare_close(region));
    for (int round = 0; round < ROUNDS; round++) {
        EXPECT_OK(hanare_barrier(pool));
        EXPECT_OK(hanare_open(pool, "mapped", HANARE_MOST, &region));
        if (rank == 1)
            adds(region);
        /* In every second round both go on at once. */
        if (round % 2 == 0)
            EXPECT_OK(hanare_barrier(pool));
        if (rank == 0)
            counts(pool, region, plain, round);
        if (round % 2 == 0)
            EXPECT_OK(hanare_barrier(pool));
        if (rank == 1)
            EXPECT_OK(hanare_close(region));
    }
    EXPECT_OK(hanare_barrier(pool));
    EXPECT_OK(hanare_open(pool, "mapped", HANARE_MOST, &region));
    for (int page = 0; page < PAGES; page++) {
        uint64_t seen;
        EXPECT_OK(hanare_get(region, (uint64_t)page * PAGE + 64, &seen, sizeof seen));
        EXPECT(seen == ROUNDS * (EACH + 1));
    }
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_close(plain));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
