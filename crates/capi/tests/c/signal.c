/* Ranks on two nodes: words read in one step, words of 128 bits, puts with a signal, and a wait for all that was started. */
/* FEATURE: RF-F4 */
#include "expect.h"

enum { ROUNDS = 300, LEN = 70000 };

/* Rank 1 puts blocks, each with a signal; rank 0 waits for the word, and finds no older byte. */
static void signals(hanare_pool *pool, hanare_region *bytes, hanare_region *words, int rank)
{
    unsigned char *mine = (unsigned char *)malloc(LEN);
    EXPECT(mine != NULL);
    for (int round = 1; round <= ROUNDS; round++) {
        if (rank == 1) {
            memset(mine, round & 0xff, LEN);
            EXPECT_OK(hanare_put_signal(bytes, 100, mine, LEN, words, 8, round % 2 ? HANARE_SWAP : HANARE_ADD,
                                        round % 2 ? (uint64_t)round : 1));
            EXPECT_OK(hanare_wait_word(words, 16, 8, HANARE_WAIT_AT_LEAST, (uint64_t)round, HANARE_FOREVER));
        } else if (rank == 0) {
            uint64_t seen;
            EXPECT_OK(hanare_wait_word(words, 8, 8, HANARE_WAIT_AT_LEAST, (uint64_t)round, HANARE_FOREVER));
            EXPECT_OK(hanare_read_word(words, 8, &seen));
            EXPECT(seen == (uint64_t)round);
            EXPECT_OK(hanare_get(bytes, 100, mine, LEN));
            for (int at = 0; at < LEN; at++)
                EXPECT(mine[at] == (round & 0xff));
            EXPECT_OK(hanare_swap(words, 16, (uint64_t)round, NULL));
        }
    }
    free(mine);
    EXPECT_OK(hanare_barrier(pool));
}

/* Both ranks add to both halves of a word of 128 bits by compare-and-swap: no addition is lost, no half is older. */
static void wide(hanare_pool *pool, hanare_region *words, int ranks)
{
    hanare_shape at = hanare_shape_contiguous(32, 16);
    uint64_t operand[2] = {0, 0}, seen[2], next[2], old[2];
    for (int round = 0; round < ROUNDS; round++) {
        do {
            EXPECT_OK(hanare_fetch(words, &at, HANARE_U128, HANARE_LOAD, operand, 16, seen, 16));
            EXPECT(seen[1] == 3 * seen[0]);
            next[0] = seen[0] + 1, next[1] = seen[1] + 3;
            EXPECT_OK(hanare_compare_and_swap(words, &at, HANARE_U128, seen, next, old, 16));
        } while (memcmp(old, seen, 16) != 0);
    }
    EXPECT_OK(hanare_barrier(pool));
    EXPECT_OK(hanare_fetch(words, &at, HANARE_U128, HANARE_LOAD, operand, 16, seen, 16));
    EXPECT(seen[0] == (uint64_t)(ranks * ROUNDS) && seen[1] == 3 * seen[0]);
    EXPECT_OK(hanare_barrier(pool));
    hanare_shape odd = hanare_shape_contiguous(40, 16);
    EXPECT_ERROR(hanare_fetch(words, &odd, HANARE_U128, HANARE_LOAD, operand, 16, seen, 16), HANARE_ERR_BAD_ELEMENT, "multiple of 16");
    hanare_summary summary;
    summary.struct_size = sizeof summary;
    EXPECT_ERROR(hanare_reduce(words, &at, HANARE_U128, NULL, &summary), HANARE_ERR_BAD_ELEMENT, "64 bits");
    EXPECT_ERROR(hanare_update(words, &at, HANARE_U128, HANARE_LOAD, operand, 16), HANARE_ERR_BAD_ELEMENT, "fetch");
}

/* A handle that only reads reads words, and is refused all else. */
static void reads(hanare_pool *pool, const char *name)
{
    hanare_region *region;
    uint64_t value = 7, zero[2] = {0, 0}, wide[2];
    hanare_shape at = hanare_shape_contiguous(32, 16);
    EXPECT_OK(hanare_open(pool, name, HANARE_READ, &region));
    EXPECT_OK(hanare_read_word(region, 8, &value));
    EXPECT(value == ROUNDS);
    EXPECT_OK(hanare_fetch(region, &at, HANARE_U128, HANARE_LOAD, zero, 16, wide, 16));
    EXPECT(wide[1] == 3 * wide[0] && wide[0] > 0);
    EXPECT_ERROR(hanare_fetch_add(region, 8, 1, NULL), HANARE_ERR_BAD_USE, "reading");
    EXPECT_ERROR(hanare_put_signal(region, 0, "x", 1, region, 8, HANARE_SWAP, 1), HANARE_ERR_BAD_USE, "reading");
    EXPECT_ERROR(hanare_read_word(region, 9, &value), HANARE_ERR_BAD_ELEMENT, "multiple of 8");
    EXPECT_ERROR(hanare_read_word(region, 8, NULL), HANARE_ERR_BAD_ARGUMENT, "value");
    EXPECT_OK(hanare_close(region));
}

/* hanare_flush waits for all that was started; what is asked for afterwards is there at once. */
static void flush(hanare_pool *pool, hanare_region *bytes)
{
    enum { COUNT = 20 };
    hanare_request *requests[COUNT];
    unsigned char *mine = noise(LEN, 5), *back = (unsigned char *)malloc(LEN);
    EXPECT(back != NULL);
    for (int at = 0; at < COUNT; at++)
        EXPECT_OK(hanare_put_nb(bytes, 0, mine, LEN, &requests[at]));
    EXPECT_OK(hanare_flush(pool));
    for (int at = 0; at < COUNT; at++)
        EXPECT(hanare_test(requests[at]) == 1);
    EXPECT_OK(hanare_wait_all(requests, COUNT));
    EXPECT_OK(hanare_get(bytes, 0, back, LEN));
    EXPECT(memcmp(mine, back, LEN) == 0);
    free(mine);
    free(back);
}

int main(void)
{
    hanare_pool *pool;
    hanare_region *bytes, *words;
    hanare_create_options there = HANARE_CREATE_OPTIONS_INIT;
    EXPECT_OK(hanare_attach(&pool));
    int rank = hanare_rank(pool), ranks = hanare_ranks(pool);
    there.placement = "node=0";
    EXPECT_OK(hanare_create_or_attach(pool, "bytes", 1 << 20, &there, &bytes));
    EXPECT_OK(hanare_create_or_attach(pool, "words", 1 << 17, &there, &words));
    EXPECT_OK(hanare_barrier(pool));
    signals(pool, bytes, words, rank);
    wide(pool, words, ranks);
    reads(pool, "words");
    EXPECT_OK(hanare_barrier(pool));
    if (rank == 1)
        flush(pool, bytes);
    EXPECT_OK(hanare_barrier(pool));
    EXPECT_OK(hanare_close(bytes));
    EXPECT_OK(hanare_close(words));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
