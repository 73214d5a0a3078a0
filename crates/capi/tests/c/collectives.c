/* Collective operations among ranks, and among parties of a group. */
#include "expect.h"

enum { COUNT = 40000, MOST = 16 };

static void among(hanare_group *group)
{
    static double sums[COUNT];
    static int32_t from[MOST * 3], into[MOST * 3];
    int me = hanare_group_number(group), parties = hanare_group_parties(group), root = parties - 1;
    EXPECT(me >= 0 && me < parties && parties <= MOST);
    for (int i = 0; i < COUNT; i++)
        sums[i] = me + i;
    EXPECT_OK(hanare_all_reduce(group, sums, COUNT, HANARE_F64, HANARE_ADD));
    for (int i = 0; i < COUNT; i++)
        EXPECT(sums[i] == (double)parties * i + parties * (parties - 1) / 2);
    uint8_t least[3] = {(uint8_t)(200 + me), 3, (uint8_t)(250 - me)};
    EXPECT_OK(hanare_reduce_to(group, least, 3, HANARE_U8, HANARE_MIN, (uint32_t)root));
    if (me == root)
        EXPECT(least[0] == 200 && least[1] == 3 && least[2] == 250 - root);
    char word[6] = "none";
    if (me == 0)
        memcpy(word, "hello", sizeof word);
    EXPECT_OK(hanare_broadcast(group, word, sizeof word, 0));
    EXPECT(strcmp(word, "hello") == 0);

    int32_t own[3] = {me, 10 * me, -me};
    EXPECT_OK(hanare_gather(group, own, sizeof own, me == root ? into : NULL, (uint32_t)root));
    for (int k = 0; k < parties && me == root; k++)
        EXPECT(into[3 * k] == k && into[3 * k + 1] == 10 * k && into[3 * k + 2] == -k);
    int32_t back[3] = {7, 7, 7};
    EXPECT_OK(hanare_scatter(group, me == root ? into : NULL, back, sizeof back, (uint32_t)root));
    EXPECT(memcmp(own, back, sizeof own) == 0);
    EXPECT_OK(hanare_all_gather(group, own, sizeof own, into));
    for (int k = 0; k < parties; k++)
        EXPECT(into[3 * k] == k && into[3 * k + 2] == -k);
    for (int k = 0; k < parties; k++)
        from[k] = 100 * me + k;
    EXPECT_OK(hanare_all_to_all(group, from, into, sizeof from[0]));
    for (int k = 0; k < parties; k++)
        EXPECT(into[k] == 100 * k + me);
}

static void refusals(hanare_pool *pool, hanare_group *group)
{
    hanare_group *none = NULL;
    float value = 1;
    EXPECT_ERROR(hanare_group_open(pool, NULL, 77, &none), HANARE_ERR_BAD_ARGUMENT, "parties is 77");
    EXPECT_ERROR(hanare_group_open(pool, "g", 0, &none), HANARE_ERR_BAD_GROUP, "at least 1");
    EXPECT_ERROR(hanare_group_open(pool, "g", 1, NULL), HANARE_ERR_BAD_ARGUMENT, "group is NULL");
    EXPECT(none == NULL);
    EXPECT_ERROR(hanare_group_close(NULL), HANARE_ERR_BAD_ARGUMENT, "group is NULL");
    EXPECT_ERROR(hanare_broadcast(group, &value, sizeof value, 99), HANARE_ERR_BAD_GROUP, "no party 99");
    EXPECT_ERROR(hanare_all_reduce(group, &value, 1, HANARE_F32, HANARE_XOR), HANARE_ERR_BAD_ELEMENT, "xor");
    EXPECT_ERROR(hanare_all_reduce(group, &value, 1, 99, HANARE_ADD), HANARE_ERR_BAD_ARGUMENT, "element 99");
    EXPECT_ERROR(hanare_all_reduce(group, NULL, 1, HANARE_F32, HANARE_ADD), HANARE_ERR_BAD_ARGUMENT, "values is NULL");
    EXPECT_ERROR(hanare_all_gather(group, &value, SIZE_MAX, &value), HANARE_ERR_BAD_ARGUMENT, "len");
}

int main(void)
{
    hanare_pool *pool;
    hanare_group *job, *named;
    EXPECT_OK(hanare_attach(&pool));
    EXPECT_OK(hanare_group_open(pool, NULL, 0, &job));
    EXPECT(hanare_group_number(job) == hanare_rank(pool));
    refusals(pool, job);
    for (int round = 0; round < 3; round++)
        among(job);
    EXPECT_OK(hanare_group_open(pool, "named", (uint32_t)hanare_ranks(pool), &named));
    among(named);
    EXPECT_OK(hanare_group_close(named));
    EXPECT_OK(hanare_group_close(job));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
