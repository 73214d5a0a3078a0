/* Several ranks: each puts to its neighbour's part of one region, and finds its own part filled after the barrier. */
/* FEATURE: D2-F8 RF-F5 */
#include "expect.h"

enum { PART = 10000, ROUNDS = 20 };

int main(void)
{
    hanare_pool *pool;
    hanare_region *region;
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    options.placement = "interleave=4096";
    EXPECT_OK(hanare_attach(&pool));
    int rank = hanare_rank(pool), ranks = hanare_ranks(pool);
    EXPECT(ranks > 1 && rank >= 0 && rank < ranks);
    EXPECT_OK(hanare_create_or_attach(pool, "ring", (uint64_t)ranks * PART, &options, &region));
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *mine = noise(PART, (unsigned)(round * 100 + rank));
        unsigned char *wanted = noise(PART, (unsigned)(round * 100 + (rank + ranks - 1) % ranks)), into[PART];
        EXPECT_OK(hanare_put(region, (uint64_t)((rank + 1) % ranks) * PART, mine, PART));
        EXPECT_OK(hanare_barrier(pool));
        EXPECT_OK(hanare_get(region, (uint64_t)rank * PART, into, PART));
        EXPECT(memcmp(into, wanted, PART) == 0);
        EXPECT_OK(hanare_barrier(pool));
        free(mine);
        free(wanted);
    }
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
