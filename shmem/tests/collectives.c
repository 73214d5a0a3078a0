/* Teams, contexts and collective operations, of teams and of active sets. */
#include "expect.h"

#include <complex.h>
#include <stdint.h>
#include <string.h>

enum { COUNT = 40, PES_MAX = 64 };
static long source[COUNT * PES_MAX], dest[COUNT * PES_MAX * 2];
static long sync_words[SHMEM_SYNC_SIZE], work[COUNT];

/* Each operation on a team, in the team's numbers. */
static void on_team(shmem_team_t team)
{
    int me = shmem_team_my_pe(team), size = shmem_team_n_pes(team);
    for (int root = 0; root < size; root++) {
        source[0] = 10 * me, source[1] = me, dest[0] = dest[1] = -1;
        EXPECT(shmem_broadcast(team, dest, source, 2, root) == 0 && dest[0] == 10 * root && dest[1] == root);
    }
    for (int at = 0; at < COUNT * size; at++)
        source[at] = me * 10000 + at;
    EXPECT(shmem_fcollect(team, dest, source, COUNT) == 0);
    for (int at = 0; at < COUNT * size; at++)
        EXPECT(dest[at] == at / COUNT * 10000 + at % COUNT);
    /* PE k has k + 1 elements. */
    EXPECT(shmem_collect(team, dest, source, (size_t)me + 1) == 0);
    for (int pe = 0, at = 0; pe < size; pe++)
        for (int k = 0; k <= pe; k++, at++)
            EXPECT(dest[at] == pe * 10000 + k);
    EXPECT(shmem_alltoall(team, dest, source, COUNT) == 0);
    for (int at = 0; at < COUNT * size; at++)
        EXPECT(dest[at] == at / COUNT * 10000 + me * COUNT + at % COUNT);
    memset(dest, 0, sizeof dest);
    EXPECT(shmem_alltoalls(team, dest, source, 2, 1, 3) == 0);
    for (int at = 0; at < 3 * size; at++)
        EXPECT(dest[2 * at] == at / 3 * 10000 + me * 3 + at % 3 && dest[2 * at + 1] == 0);
    EXPECT(shmem_sum_reduce(team, dest, source, COUNT) == 0);
    for (int at = 0; at < COUNT; at++)
        EXPECT(dest[at] == size * (size - 1) / 2 * 10000 + (long)size * at);
    /* The result may be where the source was. */
    EXPECT(shmem_max_reduce(team, source, source, COUNT) == 0 && source[1] == (size - 1) * 10000 + 1);
    /* So many that each PE combines a part of them. */
    static int many[20001], sums[20001];
    for (int at = 0; at < 20001; at++)
        many[at] = me + at;
    EXPECT(shmem_sum_reduce(team, sums, many, 20001) == 0 && shmem_sum_reduce(team, many, many, 20001) == 0);
    for (int at = 0; at < 20001; at++)
        EXPECT(sums[at] == size * (size - 1) / 2 + size * at && many[at] == sums[at]);
    static unsigned char bytes;
    bytes = (unsigned char)(1 << me % 8);
    EXPECT(shmem_uchar_or_reduce(team, &bytes, &bytes, 1) == 0 && bytes == (size >= 8 ? 255 : (1 << size) - 1));
    static double _Complex number;
    number = 1 + me * I;
    EXPECT(shmem_sum_reduce(team, &number, &number, 1) == 0 && number == size + size * (size - 1) / 2 * I);
    EXPECT(shmem_team_sync(team) == 0);
}

static void splits(int me, int size)
{
    shmem_team_t odd, even, row, column, back;
    shmem_team_config_t config = {3};
    EXPECT(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (size + 1) / 2, &config, SHMEM_TEAM_NUM_CONTEXTS, &even) == 0);
    EXPECT((even != SHMEM_TEAM_INVALID) == (me % 2 == 0) && (me % 2 || shmem_team_my_pe(even) == me / 2));
    EXPECT(shmem_team_translate_pe(even, 0, SHMEM_TEAM_WORLD) == (me % 2 ? -1 : 0));
    if (size > 1) {
        EXPECT(shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, size / 2, NULL, 0, &odd) == 0);
        if (odd != SHMEM_TEAM_INVALID)
            on_team(odd);
        shmem_team_destroy(odd);
    }
    if (even != SHMEM_TEAM_INVALID) {
        EXPECT(shmem_team_get_config(even, SHMEM_TEAM_NUM_CONTEXTS, &config) == 0 && config.num_contexts == 3);
        on_team(even);
        EXPECT(shmem_team_split_strided(even, shmem_team_n_pes(even) - 1, -1, shmem_team_n_pes(even), NULL, 0, &back) == 0);
        EXPECT(shmem_team_my_pe(back) == shmem_team_n_pes(even) - 1 - me / 2);
        on_team(back);
        shmem_team_destroy(back);
    }
    shmem_team_destroy(even);
    EXPECT(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &row, NULL, 0, &column) == 0);
    EXPECT(shmem_team_my_pe(row) == me % 2 && shmem_team_my_pe(column) == me / 2);
    on_team(row);
    on_team(column);
    /* A context's numbers are its team's. */
    shmem_ctx_t ctx;
    EXPECT(shmem_team_create_ctx(column, SHMEM_CTX_PRIVATE, &ctx) == 0);
    EXPECT(shmem_ctx_get_team(ctx, &back) == 0 && back == column);
    source[0] = me;
    shmem_barrier_all();
    EXPECT(shmem_g(ctx, &source[0], shmem_team_n_pes(column) - 1) == shmem_team_translate_pe(column, shmem_team_n_pes(column) - 1, SHMEM_TEAM_WORLD));
    shmem_ctx_destroy(ctx);
    shmem_team_destroy(row);
    shmem_team_destroy(column);
    EXPECT(shmem_team_create_ctx(column, 0, &ctx) != 0 && ctx == SHMEM_CTX_INVALID);
    EXPECT(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, size + 1, NULL, 0, &row) != 0 && row == SHMEM_TEAM_INVALID);
    /* Numbers of teams come back: more teams than there are at once. */
    for (int round = 0; round < 200; round++) {
        EXPECT(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, size, NULL, 0, &row) == 0 && shmem_team_my_pe(row) == me);
        shmem_team_destroy(row);
    }
    EXPECT(shmem_team_my_pe(SHMEM_TEAM_SHARED) >= 0 && shmem_team_n_pes(SHMEM_TEAM_SHARED) <= size);
    for (int pe = 0; pe < shmem_team_n_pes(SHMEM_TEAM_SHARED); pe++)
        EXPECT(shmem_team_ptr(SHMEM_TEAM_SHARED, source, pe) != NULL);
}

/* The calls with a pSync, whose words are as before afterwards. */
static void on_active_set(int me, int size)
{
    for (int at = 0; at < COUNT * size; at++)
        source[at] = me * 10000 + at, dest[at] = -1;
    shmem_barrier(0, 0, size, sync_words);
    shmem_broadcast64(dest, source, 3, size - 1, 0, 0, size, sync_words);
    EXPECT(dest[2] == (me == size - 1 ? -1 : (size - 1) * 10000 + 2));
    shmem_collect64(dest, source, (size_t)me + 1, 0, 0, size, sync_words);
    for (int pe = 0, at = 0; pe < size; pe++)
        for (int k = 0; k <= pe; k++, at++)
            EXPECT(dest[at] == pe * 10000 + k);
    shmem_fcollect32(dest, source, 2, 0, 0, size, sync_words);
    EXPECT(dest[size - 1] == (size - 1) * 10000);
    if (me % 2 == 0) {
        shmem_long_min_to_all(dest, source, COUNT, 0, 1, (size + 1) / 2, work, sync_words);
        EXPECT(dest[5] == 5);
        shmem_sync(0, 1, (size + 1) / 2, sync_words);
    }
    shmem_sync_all();
    shmem_alltoalls64(dest, source, 1, 1, 2, 0, 0, size, sync_words);
    EXPECT(dest[2 * size - 1] == (size - 1) * 10000 + 2 * me + 1);
    shmem_barrier_all();
    for (int at = 0; at < SHMEM_SYNC_SIZE; at++)
        EXPECT(sync_words[at] == SHMEM_SYNC_VALUE);
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), size = shmem_n_pes();
    EXPECT(size <= PES_MAX);
    on_team(SHMEM_TEAM_WORLD);
    splits(me, size);
    on_active_set(me, size);
    EXPECT(shmem_long_broadcast(SHMEM_TEAM_INVALID, dest, source, 1, 0) != 0 && shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1);
    shmem_finalize();
    return 0;
}
