/* dn_malloc, dn_flush, dn_update on several ranks of several nodes. */
/* FEATURE: D2-F5 D2-F6 D2-F7 D2-F8 */
#include "expect.h"
#include <dimmnet.h>

enum { ROWS = 64, ROW = 1000 };

static uint64_t sent(void)
{
    hanare_traffic traffic;
    traffic.struct_size = sizeof traffic;
    EXPECT_OK(dn_traffic(&traffic));
    return traffic.bytes_sent;
}

/* Every rank stores its own rows; rows share pages with those of other ranks, and all survive. */
static void rows_of_all_survive(int rank, int ranks)
{
    unsigned char *table = (unsigned char *)dn_malloc("table", ROWS * ROW);
    EXPECT(table != NULL);
    EXPECT_OK(dn_barrier());
    for (int row = rank; row < ROWS; row += ranks)
        memset(table + row * ROW, row + 1, ROW);
    EXPECT_OK(dn_flush(table + 5));
    EXPECT_OK(dn_barrier());
    EXPECT_OK(dn_update(table));
    for (int at = 0; at < ROWS * ROW; at++)
        EXPECT(table[at] == at / ROW + 1);
    EXPECT_OK(dn_barrier());
    EXPECT_OK(dn_free(table));
}

/* Single bytes of one word, by different ranks. */
static void bytes_of_one_word_survive(int rank, int ranks)
{
    unsigned char *word = (unsigned char *)dn_malloc("word", 4096);
    EXPECT(word != NULL && ranks <= 8);
    EXPECT_OK(dn_barrier());
    word[rank] = (unsigned char)(100 + rank);
    EXPECT_OK(dn_flush(word));
    EXPECT_OK(dn_barrier());
    EXPECT_OK(dn_update(word));
    for (int at = 0; at < ranks; at++)
        EXPECT(word[at] == 100 + at);
    EXPECT_OK(dn_free(word));
}

/* What is stored and not flushed survives an update, and is seen by others only after the flush. */
static void own_stores_survive_an_update(int rank)
{
    unsigned char *page = (unsigned char *)dn_malloc("page", 8192);
    EXPECT(page != NULL);
    EXPECT_OK(dn_barrier());
    if (rank == 0)
        page[0] = 1;
    else
        page[rank] = 2;
    if (rank == 0)
        EXPECT_OK(dn_flush(page));
    EXPECT_OK(dn_barrier());
    EXPECT_OK(dn_update(page));
    EXPECT(page[0] == 1 && (rank == 0 || page[rank] == 2));
    EXPECT_OK(dn_flush(page));
    EXPECT_OK(dn_barrier());
    EXPECT_OK(dn_update(page));
    EXPECT(page[0] == 1 && page[1] == 2);
    EXPECT_OK(dn_free(page));
}

/* A rank on another node sends what it changed and little more. */
static void only_changes_are_sent(int rank)
{
    size_t size = 1 << 20;
    unsigned char *large = NULL;
    if (rank == 0)
        large = (unsigned char *)dn_malloc("large", size);
    EXPECT_OK(dn_barrier());
    if (rank != 0)
        large = (unsigned char *)dn_malloc("large", size);
    EXPECT(large != NULL);
    if (rank == 1) {
        for (size_t at = 0; at < size; at += 1024)
            large[at] = 7;
        uint64_t before = sent();
        EXPECT_OK(dn_flush(large));
        uint64_t first = sent() - before;
        EXPECT(first > 1024 && first < 1024 + 500);
        EXPECT_OK(dn_flush(large));
        EXPECT(sent() - before == first);
    }
    EXPECT_OK(dn_barrier());
    EXPECT_OK(dn_update(large));
    for (size_t at = 0; at < size; at++)
        EXPECT(large[at] == (at % 1024 == 0 ? 7 : 0));
    EXPECT_OK(dn_free(large));
}

/* Unnamed memory is each rank's own, and outlives other regions' coming and going. */
static void unnamed_is_private(int rank)
{
    enum { LEN = 1 << 20 };
    unsigned char *mine = (unsigned char *)dn_malloc(LEN), *other;
    EXPECT(mine != NULL && mine[0] == 0 && mine[LEN - 1] == 0);
    memset(mine, rank + 50, LEN);
    EXPECT_OK(dn_flush(mine));
    for (int round = 0; round < 8; round++) {
        other = (unsigned char *)dn_malloc(LEN);
        EXPECT(other != NULL);
        for (int at = 0; at < LEN; at++)
            EXPECT(other[at] == 0);
        memset(other, 99, LEN);
        EXPECT_OK(dn_free(other));
    }
    EXPECT_OK(dn_barrier());
    EXPECT_OK(dn_update(mine));
    for (int at = 0; at < LEN; at++)
        EXPECT(mine[at] == rank + 50);
    EXPECT_OK(dn_free(mine));
}

/* Who attaches later finds what was flushed, without an update. */
static void late_attachment_is_current(int rank)
{
    int *numbers = NULL;
    if (rank == 0) {
        numbers = (int *)dn_malloc("numbers", 100 * sizeof *numbers);
        EXPECT(numbers != NULL);
        for (int at = 0; at < 100; at++)
            numbers[at] = at * at;
        EXPECT_OK(dn_flush(numbers));
    }
    EXPECT_OK(dn_barrier());
    if (rank != 0)
        numbers = (int *)dn_malloc("numbers", 100 * sizeof *numbers);
    EXPECT(numbers != NULL);
    for (int at = 0; at < 100; at++)
        EXPECT(numbers[at] == at * at);
    EXPECT_OK(dn_free(numbers));
}

static void bad_input(void)
{
    char local;
    void *region = dn_malloc("refused", 4096);
    EXPECT(region != NULL);
    EXPECT(dn_malloc("refused", 8192) == NULL && strstr(hanare_last_error(), "dn_malloc: region 'refused'") != NULL);
    EXPECT(dn_malloc("empty", 0) == NULL && strstr(hanare_last_error(), "'empty'") != NULL);
    EXPECT(dn_malloc_named(NULL, 8) == NULL && strstr(hanare_last_error(), "name is NULL") != NULL);
    EXPECT(dn_malloc((size_t)1 << 50) == NULL && strstr(hanare_last_error(), "dn_malloc: ") != NULL);
    EXPECT_ERROR(dn_flush(&local), HANARE_ERR_BAD_ARGUMENT, "in no region");
    EXPECT_ERROR(dn_update(NULL), HANARE_ERR_BAD_ARGUMENT, "in no region");
    EXPECT_ERROR(dn_free((char *)region + 1), HANARE_ERR_BAD_ARGUMENT, "no pointer that dn_malloc returned");
    EXPECT_OK(dn_free(region));
    EXPECT_ERROR(dn_free(region), HANARE_ERR_BAD_ARGUMENT, "freed already");
    EXPECT_OK(dn_free(NULL));
}

int main(int argc, char **argv)
{
    EXPECT_ERROR(dn_getrank(), HANARE_ERR_BAD_USE, "dn_init");
    EXPECT_ERROR(dn_barrier(), HANARE_ERR_BAD_USE, "dn_init");
    EXPECT_OK(dn_init(argc, argv));
    EXPECT_OK(dn_init(argc, argv));
    int rank = dn_getrank(), ranks = dn_getnodesum();
    EXPECT(ranks > 1 && rank < ranks);
    rows_of_all_survive(rank, ranks);
    bytes_of_one_word_survive(rank, ranks);
    own_stores_survive_an_update(rank);
    if (argc == 1)
        only_changes_are_sent(rank);
    unnamed_is_private(rank);
    late_attachment_is_current(rank);
    if (rank == 0)
        bad_input();
    EXPECT_OK(dn_barrier());
    EXPECT_OK(dn_finalize());
    EXPECT_ERROR(dn_getrank(), HANARE_ERR_BAD_USE, "dn_init");
    return 0;
}
