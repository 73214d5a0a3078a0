/* Put, get, strided, copy, non-blocking, on a region of the placement that the argument says. */
/* FEATURE: D3-F1 RF-F5 RF-F6 */
#include "expect.h"

enum { LEN = 1 << 20 };

static void contiguous(hanare_region *region)
{
    unsigned char *from = noise(LEN, 1), *into = noise(LEN, 2);
    EXPECT_OK(hanare_put(region, 0, from, LEN));
    EXPECT_OK(hanare_get(region, 0, into, LEN));
    EXPECT(memcmp(from, into, LEN) == 0);
    EXPECT_OK(hanare_put(region, 4093, "abcdef", 6));
    EXPECT_OK(hanare_get(region, 4092, into, 8));
    EXPECT(into[0] == from[4092] && memcmp(into + 1, "abcdef", 6) == 0 && into[7] == from[4099]);
    EXPECT_OK(hanare_get(region, LEN, NULL, 0));
    free(from);
    free(into);
}

static void strided(hanare_region *region)
{
    hanare_strided column = {40, 8, 500, 2000};
    unsigned char *from = noise(4000, 3), *into = noise(4000, 4), *rows = noise(LEN, 5);
    EXPECT_OK(hanare_put(region, 0, rows, LEN));
    EXPECT_OK(hanare_put_strided(region, &column, from, 4000));
    EXPECT_OK(hanare_get_strided(region, &column, into, 4000));
    EXPECT(memcmp(from, into, 4000) == 0);
    EXPECT_OK(hanare_get(region, 0, into, 2048));
    EXPECT(memcmp(into, rows, 40) == 0 && memcmp(into + 40, from, 8) == 0);
    EXPECT(memcmp(into + 48, rows + 48, 1992) == 0 && memcmp(into + 2040, from + 8, 8) == 0);
    free(from);
    free(into);
    free(rows);
}

static void non_blocking(hanare_region *region)
{
    hanare_request *requests[16];
    unsigned char *from = noise(16 * 1000, 6), *into = noise(16 * 1000, 7);
    for (int at = 0; at < 16; at++)
        EXPECT_OK(hanare_put_nb(region, (uint64_t)at * 5000, from + at * 1000, 1000, &requests[at]));
    for (int at = 15; at >= 0; at--)
        EXPECT_OK(hanare_wait(requests[at]));
    for (int at = 0; at < 16; at++)
        EXPECT_OK(hanare_get_nb(region, (uint64_t)at * 5000, into + at * 1000, 1000, &requests[at]));
    for (int at = 0; at < 16; at++) {
        int done;
        while ((done = hanare_test(requests[at])) == 0)
            continue;
        EXPECT(done == 1);
        EXPECT_OK(hanare_wait(requests[at]));
    }
    EXPECT(memcmp(from, into, 16 * 1000) == 0);
    free(from);
    free(into);
}

static void copy(hanare_pool *pool, hanare_region *region)
{
    hanare_region *other;
    hanare_strided column = {0, 16, 100, 4096}, row = {8, 1600, 1, 1600};
    unsigned char *from = noise(1600, 8), into[1600];
    EXPECT_OK(hanare_create(pool, "copy", 8192, NULL, &other));
    EXPECT_OK(hanare_put_strided(region, &column, from, 1600));
    EXPECT_OK(hanare_copy(region, &column, other, &row));
    EXPECT_OK(hanare_get(other, 8, into, 1600));
    EXPECT(memcmp(from, into, 1600) == 0);
    EXPECT_OK(hanare_close(other));
    EXPECT_OK(hanare_remove(pool, "copy"));
    free(from);
}

static int count_region(const hanare_region_stat *stat, void *closure)
{
    *(int *)closure += !strcmp(stat->name, "commands") && stat->len == LEN;
    return 0;
}

static int stop_at_first(const hanare_region_stat *stat, void *closure)
{
    (void)closure;
    return stat->len > 0 ? 42 : 0;
}

static void naming(hanare_pool *pool, hanare_region *region, const char *placement)
{
    hanare_region *again;
    hanare_region_stat stat;
    hanare_node_bytes lies[2];
    int count = 0;
    stat.struct_size = sizeof stat;
    EXPECT_OK(hanare_stat(pool, "commands", &stat));
    EXPECT(stat.len == LEN && stat.mode == 0640 && stat.lost_node == -1 && stat.gid != 0);
    EXPECT(!strcmp(stat.name, "commands") && !strcmp(stat.placement, placement));
    int nodes = hanare_stat_nodes(pool, "commands", lies, 2);
    EXPECT(nodes == (int)stat.node_count && hanare_stat_nodes(pool, "commands", NULL, 0) == nodes);
    EXPECT(nodes == 1 ? lies[0].bytes == LEN : lies[0].bytes + lies[1].bytes == LEN && lies[0].node < lies[1].node);
    EXPECT_OK(hanare_list(pool, count_region, &count));
    EXPECT(count == 1 && hanare_list(pool, stop_at_first, NULL) == 42);
    EXPECT(hanare_len(region) == LEN && hanare_was_created(region) == 1);
    EXPECT_OK(hanare_create_or_attach(pool, "commands", LEN, NULL, &again));
    EXPECT(hanare_was_created(again) == 0 && hanare_is_local(again) == hanare_is_local(region));
    EXPECT_OK(hanare_close(again));
}

static void resizing(hanare_pool *pool, hanare_region *region)
{
    hanare_region *longer;
    unsigned char last[8] = {1, 2, 3, 4, 5, 6, 7, 8}, zero[8] = {0}, into[8];
    EXPECT_OK(hanare_put(region, LEN - 8, last, 8));
    EXPECT_OK(hanare_resize(pool, "commands", LEN + 8192, &longer));
    EXPECT(hanare_len(longer) == LEN + 8192 && hanare_len(region) == LEN);
    EXPECT_OK(hanare_get(longer, LEN - 8, into, 8));
    EXPECT(memcmp(into, last, 8) == 0);
    EXPECT_OK(hanare_get(longer, LEN + 8184, into, 8));
    EXPECT(memcmp(into, zero, 8) == 0);
    EXPECT_OK(hanare_close(longer));
}

/* Where all bytes are here: the map is the region. Elsewhere mapping is refused. */
static void mapping(hanare_region *region)
{
    void *ptr;
    size_t len;
    char text[5];
    if (!hanare_is_local(region)) {
        EXPECT_ERROR(hanare_map(region, &ptr, &len), HANARE_ERR_BAD_USE, "'commands'");
        return;
    }
    EXPECT_OK(hanare_map(region, &ptr, &len));
    EXPECT(len == LEN);
    memcpy((char *)ptr + 777, "hello", 5);
    EXPECT_OK(hanare_get(region, 777, text, 5));
    EXPECT(memcmp(text, "hello", 5) == 0);
    EXPECT_OK(hanare_put(region, 777, "world", 5));
    EXPECT(memcmp((char *)ptr + 777, "world", 5) == 0);
    EXPECT_OK(hanare_unmap(region));
    EXPECT_ERROR(hanare_unmap(region), HANARE_ERR_BAD_USE, "not mapped");
}

int main(int argc, char **argv)
{
    hanare_pool *pool;
    hanare_region *region;
    hanare_traffic traffic;
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    EXPECT(argc == 2);
    options.placement = argv[1];
    options.mode = 0640;
    EXPECT_OK(hanare_attach(&pool));
    EXPECT(hanare_rank(pool) == 0 && hanare_ranks(pool) == 1 && hanare_node(pool) == 0);
    EXPECT_OK(hanare_create(pool, "commands", LEN, &options, &region));
    contiguous(region);
    strided(region);
    non_blocking(region);
    copy(pool, region);
    naming(pool, region, argv[1]);
    mapping(region);
    resizing(pool, region);
    EXPECT_OK(hanare_fence(pool));
    EXPECT_OK(hanare_flush(pool));
    EXPECT_OK(hanare_barrier(pool));
    traffic.struct_size = sizeof traffic;
    EXPECT_OK(hanare_get_traffic(pool, &traffic));
    EXPECT(hanare_is_local(region) || traffic.bytes_sent > LEN);
    EXPECT_OK(hanare_remove(pool, "commands"));
    EXPECT_OK(hanare_detach(pool));
    EXPECT_OK(hanare_close(region));
    return 0;
}
