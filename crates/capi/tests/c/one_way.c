/* A region that ranks have by dn_malloc is mapped in no other way, on any host; and the other way round. */
#include "expect.h"
#include <dimmnet.h>

enum { LEN = 1 << 20 };

static hanare_region *attached(hanare_pool **pool)
{
    hanare_region *region = NULL;
    EXPECT_OK(hanare_attach(pool));
    EXPECT_OK(hanare_create_or_attach(*pool, "one-way", LEN, NULL, &region));
    return region;
}

static void coherent_is_refused(hanare_region *region)
{
    void *ptr = NULL;
    size_t len = 0;
    EXPECT_ERROR(hanare_map_shared(region, HANARE_COHERENT, &ptr, &len), HANARE_ERR_BAD_USE, "mapped in one way at a time");
    EXPECT(strstr(hanare_last_error(), "explicit") != NULL && ptr == NULL);
}

int main(int argc, char **argv)
{
    EXPECT_OK(dn_init(argc, argv));
    int rank = dn_getrank();
    char *table = rank == 0 ? (char *)dn_malloc("one-way", LEN) : NULL;
    EXPECT(rank != 0 || table != NULL);
    EXPECT_OK(dn_barrier());
    hanare_pool *pool = NULL;
    hanare_region *region = attached(&pool);
    /* While rank 0 alone has it: on its own host, on the home, and elsewhere. */
    coherent_is_refused(region);
    EXPECT_OK(dn_barrier());
    if (rank != 0)
        EXPECT((table = (char *)dn_malloc("one-way", LEN)) != NULL);
    /* Twice is the same, and is freed twice. */
    EXPECT((char *)dn_malloc("one-way", LEN) == table);
    EXPECT_OK(dn_barrier());
    table[rank * 5000] = (char)(rank + 1);
    EXPECT_OK(dn_free(table));
    coherent_is_refused(region);
    EXPECT_OK(dn_flush(table));
    EXPECT_OK(dn_barrier());
    EXPECT_OK(dn_free(table));
    EXPECT_ERROR(dn_free(table), HANARE_ERR_BAD_ARGUMENT, "freed already");
    EXPECT_OK(dn_barrier());
    /* When all have let go of it, coherent is the one way, and dn_malloc is refused. */
    void *ptr = NULL;
    size_t len = 0;
    EXPECT_OK(hanare_map_shared(region, HANARE_COHERENT, &ptr, &len));
    for (int other = 0; other < dn_getnodesum(); other++)
        EXPECT(((char *)ptr)[other * 5000] == other + 1);
    EXPECT_OK(dn_barrier());
    EXPECT(dn_malloc("one-way", LEN) == NULL && strstr(hanare_last_error(), "coherent") != NULL);
    EXPECT_OK(dn_barrier());
    EXPECT_OK(hanare_unmap(region));
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_detach(pool));
    EXPECT_OK(dn_finalize());
    return 0;
}
