/* Locks, barriers of a group, words waited for, and a heap, among ranks. With "die" rank 1 ends while it holds a lock. */
#include "expect.h"

enum { ROUNDS = 30, BLOCK = 1000 };

static void refusals(hanare_pool *pool, hanare_region *region)
{
    hanare_held *held = NULL, *twice = NULL;
    uint64_t offset = 7;
    EXPECT_ERROR(hanare_lock(pool, "mine", 7, 0, &held), HANARE_ERR_BAD_ARGUMENT, "mode 7");
    EXPECT_ERROR(hanare_lock(pool, "a/b", HANARE_SHARED, 0, &held), HANARE_ERR_BAD_NAME, "'a/b'");
    EXPECT_ERROR(hanare_lock(pool, "mine", HANARE_SHARED, 0, NULL), HANARE_ERR_BAD_ARGUMENT, "held is NULL");
    EXPECT_ERROR(hanare_unlock(NULL), HANARE_ERR_BAD_ARGUMENT, "held is NULL");
    EXPECT_OK(hanare_lock(pool, "mine", HANARE_SHARED, HANARE_FOREVER, &held));
    EXPECT_ERROR(hanare_lock(pool, "mine", HANARE_EXCLUSIVE, HANARE_FOREVER, &twice), HANARE_ERR_LOCK_MISUSED, "'mine'");
    EXPECT(twice == NULL);
    EXPECT_OK(hanare_unlock(held));
    EXPECT_OK(hanare_permit(pool, "mine", 0660));
    EXPECT_ERROR(hanare_permit(pool, "mine", 07777), HANARE_ERR_BAD_SETTING, "mode");
    EXPECT_ERROR(hanare_permit(pool, "a/b", 0660), HANARE_ERR_BAD_NAME, "'a/b'");
    EXPECT_OK(hanare_group_barrier(pool, "alone", 1));
    EXPECT_ERROR(hanare_group_barrier(pool, "alone", 2), HANARE_ERR_BAD_GROUP, "has 1 parties");
    EXPECT_ERROR(hanare_wait_word(region, 0, 3, HANARE_WAIT_EQUAL, 0, 0), HANARE_ERR_BAD_ARGUMENT, "size 3");
    EXPECT_ERROR(hanare_wait_word(region, 0, 8, 9, 0, 0), HANARE_ERR_BAD_ARGUMENT, "how 9");
    EXPECT_ERROR(hanare_wait_word(region, 0, 4, HANARE_WAIT_EQUAL, UINT64_MAX, 0), HANARE_ERR_BAD_ARGUMENT, "value");
    EXPECT_ERROR(hanare_wait_word(region, 4, 8, HANARE_WAIT_EQUAL, 0, 0), HANARE_ERR_BAD_ELEMENT, "offset 4");
    EXPECT_ERROR(hanare_wait_word(region, 8, 8, HANARE_WAIT_EQUAL, 99, 3), HANARE_ERR_NOT_IN_TIME, "3 ms");
    /* The word at 8 is 0: less than 1, and more than -1. */
    size_t which = 7;
    uint64_t minus = (uint64_t)-1;
    EXPECT_OK(hanare_wait_word(region, 8, 2, HANARE_WAIT_LESS, 1, 0));
    EXPECT_OK(hanare_wait_word(region, 8, 8, HANARE_WAIT_SIGNED | HANARE_WAIT_GREATER, minus, 0));
    EXPECT_ERROR(hanare_wait_word(region, 8, 4, HANARE_WAIT_SIGNED | HANARE_WAIT_AT_MOST, minus, 0), HANARE_ERR_NOT_IN_TIME, "");
    hanare_word words[2] = {{8, 4, HANARE_WAIT_EQUAL, 9}, {8, 4, HANARE_WAIT_EQUAL, 0}};
    EXPECT_OK(hanare_wait_any_word(region, words, 2, 0, &which));
    EXPECT(which == 1);
    EXPECT_ERROR(hanare_wait_all_words(region, words, 2, 2), HANARE_ERR_NOT_IN_TIME, "");
    EXPECT_OK(hanare_wait_all_words(region, words + 1, 1, 0));
    EXPECT_ERROR(hanare_wait_any_word(region, words, 0, 0, &which), HANARE_ERR_LIMIT_REACHED, "8");
    EXPECT_ERROR(hanare_malloc(region, 0, &offset), HANARE_ERR_BAD_SETTING, "len");
    EXPECT_ERROR(hanare_malloc(region, UINT64_MAX, &offset), HANARE_ERR_HEAP_FULL, "'shared'");
    EXPECT_ERROR(hanare_malloc(region, 8, NULL), HANARE_ERR_BAD_ARGUMENT, "offset is NULL");
    EXPECT_ERROR(hanare_free(region, 0), HANARE_ERR_NO_BLOCK, "offset 0");
    EXPECT_ERROR(hanare_block_size(region, 0, &offset), HANARE_ERR_NO_BLOCK, "offset 0");
    EXPECT(offset == 7);
}

/* Each adds to a count that only the lock protects. */
static void count(hanare_pool *pool, hanare_region *region, uint64_t at)
{
    for (int round = 0; round < ROUNDS; round++) {
        hanare_held *held;
        uint64_t sum;
        EXPECT_OK(hanare_lock(pool, "count", HANARE_EXCLUSIVE, HANARE_FOREVER, &held));
        EXPECT_OK(hanare_get(region, at, &sum, sizeof sum));
        sum++;
        EXPECT_OK(hanare_put(region, at, &sum, sizeof sum));
        EXPECT_OK(hanare_unlock(held));
    }
}

/* Locks, places, conditions and a group at bytes of a region: the ranks pass a token on, in the order of their numbers. */
static void in_region(hanare_pool *pool, hanare_region *region, uint64_t token, int rank, int ranks)
{
    hanare_held *held = NULL, *place, *more = NULL;
    hanare_group *group;
    uint64_t turn;
    EXPECT_ERROR(hanare_lock_at(region, UINT64_MAX, HANARE_EXCLUSIVE, 0, &held), HANARE_ERR_OUT_OF_RANGE, "'shared'");
    EXPECT_ERROR(hanare_lock_at(region, 1, 0, 0, &held), HANARE_ERR_BAD_ARGUMENT, "mode 0");
    EXPECT_ERROR(hanare_group_open_at(region, 1, 0, &group), HANARE_ERR_BAD_GROUP, "");
    EXPECT_OK(hanare_group_open_at(region, 1, (uint32_t)ranks, &group));
    EXPECT_OK(hanare_group_meet(group));
    for (int round = 0; round < ROUNDS; round++) {
        EXPECT_OK(hanare_lock_at(region, token, HANARE_EXCLUSIVE, HANARE_FOREVER, &held));
        EXPECT_OK(hanare_get(region, token, &turn, sizeof turn));
        while (turn != (uint64_t)(round * ranks + rank)) {
            EXPECT_OK(hanare_wait_condition(held, (uint64_t)rank, HANARE_FOREVER));
            EXPECT_OK(hanare_get(region, token, &turn, sizeof turn));
        }
        turn++;
        EXPECT_OK(hanare_put(region, token, &turn, sizeof turn));
        EXPECT_OK(hanare_notify(held, (uint64_t)((rank + 1) % ranks), round % 2));
        EXPECT_OK(hanare_unlock(held));
    }
    EXPECT_OK(hanare_group_meet(group));
    if (rank == 0) {
        EXPECT_OK(hanare_lock_at(region, token, HANARE_EXCLUSIVE, HANARE_FOREVER, &held));
        EXPECT_ERROR(hanare_wait_condition(held, 7, 3), HANARE_ERR_NOT_IN_TIME, "condition 7");
        EXPECT_OK(hanare_unlock(held));
        EXPECT_OK(hanare_lock_at(region, token, HANARE_ONE_OF(1), 0, &place));
        EXPECT_ERROR(hanare_notify(place, 7, 1), HANARE_ERR_LOCK_MISUSED, "");
        EXPECT_ERROR(hanare_wait_condition(place, 7, 0), HANARE_ERR_LOCK_MISUSED, "");
        EXPECT_ERROR(hanare_lock_at(region, token, HANARE_ONE_OF(1), 0, &more), HANARE_ERR_LOCK_MISUSED, "'shared+");
        EXPECT_OK(hanare_unlock(place));
    }
    EXPECT_OK(hanare_lock(pool, "places", HANARE_ONE_OF(ranks), HANARE_FOREVER, &place));
    EXPECT_OK(hanare_group_meet(group));
    EXPECT_OK(hanare_unlock(place));
    EXPECT_OK(hanare_group_close(group));
    EXPECT(more == NULL);
}

/* A barrier carries what each stored in its own part of a mapped region. */
static void carry(hanare_pool *pool, int rank, int ranks)
{
    hanare_region *region;
    void *ptr;
    size_t len, each = 5000;
    EXPECT_OK(hanare_create_or_attach(pool, "carried", each * (size_t)ranks, NULL, &region));
    hanare_part mine = {region, each * (size_t)rank, each}, all = {region, 0, each * (size_t)ranks}, beyond = {region, 1, UINT64_MAX};
    char own[32]; /* a group of this rank alone */
    snprintf(own, sizeof own, "rank-%d", rank);
    EXPECT_ERROR(hanare_group_barrier_with(pool, own, 1, &mine, 1, NULL, 0), HANARE_ERR_BAD_USE, "hanare_map_shared");
    EXPECT_OK(hanare_map_shared(region, HANARE_EXPLICIT, &ptr, &len));
    EXPECT_OK(hanare_group_barrier(pool, "carry", (uint32_t)ranks));
    for (int round = 1; round <= ROUNDS; round++) {
        memset((char *)ptr + mine.offset, round, each);
        EXPECT_OK(hanare_group_barrier_with(pool, "carry", (uint32_t)ranks, &mine, 1, &all, 1));
        for (size_t at = 0; at < len; at += 499)
            EXPECT(((volatile char *)ptr)[at] == round);
        EXPECT_OK(hanare_group_barrier_with(pool, "carry", (uint32_t)ranks, NULL, 0, NULL, 0));
    }
    EXPECT_ERROR(hanare_group_barrier_with(pool, own, 1, &beyond, 1, NULL, 0), HANARE_ERR_OUT_OF_RANGE, "'carried'");
    EXPECT_ERROR(hanare_group_barrier_with(pool, own, 1, NULL, 1, NULL, 0), HANARE_ERR_BAD_ARGUMENT, "gives is NULL");
    EXPECT_OK(hanare_close(region));
}

/* A count whose bytes come with their lock, beside those of another in the same page. */
static void bound(hanare_pool *pool, int rank, int ranks)
{
    hanare_region *region;
    hanare_held *held;
    void *ptr;
    size_t len;
    EXPECT_OK(hanare_create_or_attach(pool, "bound", 8192, NULL, &region));
    hanare_part counts[2] = {{region, 8, 8}, {region, 4096, 8}};
    EXPECT_OK(hanare_lock(pool, "bound", HANARE_EXCLUSIVE, HANARE_FOREVER, &held));
    EXPECT_ERROR(hanare_bind(held, counts, 2), HANARE_ERR_BAD_USE, "hanare_map_shared");
    EXPECT_ERROR(hanare_bind(NULL, NULL, 0), HANARE_ERR_BAD_ARGUMENT, "held is NULL");
    EXPECT_OK(hanare_map_shared(region, HANARE_ENTRY, &ptr, &len));
    if (rank == 0)
        EXPECT_OK(hanare_bind(held, counts, 2));
    EXPECT(hanare_is_torn(held) == 0);
    EXPECT_OK(hanare_unlock(held));
    EXPECT_OK(hanare_group_barrier(pool, "bound", (uint32_t)ranks));
    EXPECT_OK(hanare_lock(pool, "bound", HANARE_SHARED, HANARE_FOREVER, &held));
    EXPECT_ERROR(hanare_bind(held, counts, 2), HANARE_ERR_LOCK_MISUSED, "'bound'");
    EXPECT_OK(hanare_unlock(held));
    volatile uint64_t *near = (volatile uint64_t *)((char *)ptr + 8), *far = (volatile uint64_t *)((char *)ptr + 4096);
    for (int round = 0; round < ROUNDS; round++) {
        EXPECT_OK(hanare_lock(pool, "bound", HANARE_EXCLUSIVE, HANARE_FOREVER, &held));
        EXPECT(*near == *far);
        *near += 1;
        *far += 1;
        EXPECT_OK(hanare_unlock(held));
    }
    EXPECT_OK(hanare_group_barrier(pool, "bound", (uint32_t)ranks));
    EXPECT_OK(hanare_lock(pool, "bound", HANARE_SHARED, HANARE_FOREVER, &held));
    EXPECT(*near == (uint64_t)ranks * ROUNDS && *far == *near);
    EXPECT_OK(hanare_unlock(held));
    EXPECT_OK(hanare_close(region));
}

/* Rank 1 ends with the lock; the next one is told, and the group fails with its name. */
static void die(hanare_pool *pool, int rank, int ranks)
{
    hanare_held *held;
    if (rank == 1)
        EXPECT_OK(hanare_lock(pool, "fatal", HANARE_EXCLUSIVE, HANARE_FOREVER, &held));
    EXPECT_OK(hanare_group_barrier(pool, "all", (uint32_t)ranks));
    if (rank == 1)
        _Exit(9);
    EXPECT_ERROR(hanare_group_barrier(pool, "all", (uint32_t)ranks), HANARE_ERR_PARTY_GONE, "group 'all' (rank 1, process ");
    int got = hanare_lock(pool, "fatal", HANARE_EXCLUSIVE, HANARE_FOREVER, &held);
    EXPECT(got == HANARE_OK || got == HANARE_ABANDONED);
    EXPECT_OK(hanare_unlock(held));
    /* Those who are left go on without it. */
    EXPECT_OK(hanare_group_barrier(pool, "all", (uint32_t)ranks - 1));
}

int main(int argc, char **argv)
{
    hanare_pool *pool;
    hanare_region *region;
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    uint64_t block;
    unsigned char into[BLOCK];
    EXPECT_OK(hanare_attach(&pool));
    int rank = hanare_rank(pool), ranks = hanare_ranks(pool);
    if (argc > 1 && strcmp(argv[1], "die") == 0) {
        die(pool, rank, ranks);
        return 0;
    }
    options.placement = "interleave=65536";
    EXPECT_OK(hanare_create_or_attach(pool, "shared", 1 << 20, &options, &region));
    if (rank == 0) {
        refusals(pool, region);
        EXPECT_OK(hanare_malloc(region, 4096, &block)); /* a count, a turn, and a block's offset for each rank */
        hanare_shape zeros = hanare_shape_contiguous(block, 4096);
        EXPECT_OK(hanare_fill(region, &zeros, "", 1));
        EXPECT_OK(hanare_put(region, 0, &block, sizeof block));
    }
    EXPECT_OK(hanare_wait_word(region, 0, 8, HANARE_WAIT_NOT_EQUAL, 0, HANARE_FOREVER));
    uint64_t root;
    EXPECT_OK(hanare_get(region, 0, &root, sizeof root));
    EXPECT(root >= 64 && root % 64 == 0);

    in_region(pool, region, root + 1024, rank, ranks);
    carry(pool, rank, ranks);
    bound(pool, rank, ranks);
    count(pool, region, root);
    EXPECT_OK(hanare_group_barrier(pool, "all", (uint32_t)ranks));
    EXPECT_OK(hanare_wait_word(region, root, 8, HANARE_WAIT_EQUAL, (uint64_t)ranks * ROUNDS, 0));

    /* In turn, each takes a block for its neighbour, who finds it filled and gives it back. */
    EXPECT_OK(hanare_wait_word(region, root + 8, 8, HANARE_WAIT_EQUAL, (uint64_t)rank, HANARE_FOREVER));
    unsigned char *mine = noise(BLOCK, (unsigned)rank), *wanted = noise(BLOCK, (unsigned)((rank + ranks - 1) % ranks));
    EXPECT_OK(hanare_malloc(region, BLOCK, &block));
    EXPECT_OK(hanare_put(region, block, mine, BLOCK));
    EXPECT_OK(hanare_put(region, root + 64 + 8 * (uint64_t)((rank + 1) % ranks), &block, sizeof block));
    uint64_t next = (uint64_t)rank + 1;
    EXPECT_OK(hanare_put(region, root + 8, &next, sizeof next));
    EXPECT_OK(hanare_wait_word(region, root + 8, 8, HANARE_WAIT_AT_LEAST, (uint64_t)ranks, HANARE_FOREVER));
    EXPECT_OK(hanare_get(region, root + 64 + 8 * (uint64_t)rank, &block, sizeof block));
    EXPECT_OK(hanare_get(region, block, into, BLOCK));
    EXPECT(memcmp(into, wanted, BLOCK) == 0);
    EXPECT_OK(hanare_free(region, block));
    EXPECT_ERROR(hanare_free(region, block), HANARE_ERR_NO_BLOCK, "'shared'");

    free(mine);
    free(wanted);
    EXPECT_OK(hanare_group_barrier(pool, "all", (uint32_t)ranks));
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
