/* The primitives of rhinet.h among ranks. The first argument names how messages are waited for. */
#include "expect.h"
#include <rhinet.h>

enum { PAGE = 4096, PAGES = 32, LINES = 8 };

static void expect_page(rhinet *net, uint64_t gid, uint64_t page, const unsigned char *wanted)
{
    unsigned char found[PAGE];
    EXPECT_OK(rhinet_pull(net, found, PAGE, gid, page * PAGE));
    EXPECT(memcmp(found, wanted, PAGE) == 0);
}

static void expect_line(rhinet *net, uint32_t line, uint32_t is_filled, uint64_t fills, uint64_t hits)
{
    rhinet_line stat = {sizeof stat, 9, 9, 9, 0};
    EXPECT_OK(rhinet_get_line(net, line, &stat));
    EXPECT(stat.is_filled == is_filled && stat.fills == fills && stat.hits == hits);
}

/* A page is pushed once by the program, and from its line to pages on every node after that, whatever the program does with its own. */
static void pages(hanare_pool *pool, rhinet *net, int rank)
{
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    hanare_region *region;
    hanare_traffic before = {sizeof before, 0, 0, 0, 0}, after = before;
    char name[32];
    unsigned char *page = noise(PAGE, (unsigned)rank), *other = noise(PAGE, 77);
    options.placement = "interleave=4096";
    snprintf(name, sizeof name, "pages-%d", rank);
    EXPECT_OK(hanare_create(pool, name, PAGES * PAGE, &options, &region));
    uint64_t gid = hanare_gid(region);
    EXPECT_OK(rhinet_push_page(net, page, gid, 3 * PAGE, RHINET_NORMAL, 0));
    expect_page(net, gid, 3, page);
    expect_line(net, 0, 0, 0, 0);
    EXPECT_ERROR(rhinet_push_page(net, NULL, gid, 0, RHINET_SEND_FROM_CACHE, 0), HANARE_ERR_BAD_USE, "line 0 holds no page");
    EXPECT_OK(rhinet_push_page(net, other, gid, 0, RHINET_PAGE_CACHING, 5));
    EXPECT_OK(rhinet_push_page(net, page, gid, 4 * PAGE, RHINET_PAGE_CACHING, 5));
    EXPECT_OK(rhinet_push_page(net, other, gid, 5 * PAGE, RHINET_PAGE_CACHING, LINES - 1));
    expect_page(net, gid, 4, page);
    EXPECT_OK(hanare_get_traffic(pool, &before));
    for (uint64_t at = 6; at < PAGES; at++)
        EXPECT_OK(rhinet_push_page(net, NULL, gid, at * PAGE, RHINET_SEND_FROM_CACHE, at % 2 ? 5 : LINES - 1));
    EXPECT_OK(hanare_get_traffic(pool, &after));
    EXPECT(after.bytes_sent - before.bytes_sent < (PAGES - 6) * 1024);
    for (uint64_t at = 6; at < PAGES; at++)
        expect_page(net, gid, at, at % 2 ? page : other);
    expect_line(net, 5, 1, 2, (PAGES - 6) / 2);
    expect_line(net, LINES - 1, 1, 1, (PAGES - 6) / 2);
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_remove(pool, name));
    free(page);
    free(other);
}

/* Every rank sends to every other by all three calls; what comes is whole and in its sender's order. */
static void messages(rhinet *net, int rank, int ranks)
{
    unsigned char buffer[9000], *bytes = noise(9000, 3);
    struct iovec parts[3] = {{bytes, 10}, {bytes + 10, 0}, {bytes + 10, 7000}};
    int count[16] = {0};
    for (int k = 1; k < ranks; k++) {
        uint32_t to = (uint32_t)((rank + k) % ranks);
        EXPECT_OK(rhinet_send(net, to, bytes, 9));
        EXPECT(rhinet_sendto(net, bytes, 9000, to) == 9000);
        EXPECT(rhinet_sendmsg(net, parts, 3, to) == 7010);
    }
    EXPECT_OK(rhinet_register(net, buffer, sizeof buffer));
    for (int k = 0; k < 3 * (ranks - 1); k++) {
        uint32_t from = 99;
        size_t len = 0;
        memset(buffer, 0, sizeof buffer);
        if (k % 2)
            EXPECT_OK(rhinet_arrived(net, 20000, &from, &len));
        else
            len = (size_t)rhinet_recvfrom(net, buffer, sizeof buffer, &from, 20000);
        EXPECT(from < (uint32_t)ranks && (int)from != rank && count[from] < 3);
        EXPECT(len == (count[from] == 0 ? 9 : count[from] == 1 ? 9000 : 7010));
        EXPECT(memcmp(buffer, bytes, len) == 0);
        count[from]++;
    }
    EXPECT(rhinet_recvfrom(net, buffer, sizeof buffer, NULL, 2) == HANARE_ERR_NOT_IN_TIME);
    /* To oneself; one that is too long for its room stays the next. */
    EXPECT_OK(rhinet_send(net, (uint32_t)rank, bytes, 300));
    EXPECT(rhinet_recvfrom(net, buffer, 299, NULL, 20000) == HANARE_ERR_BAD_ARGUMENT);
    EXPECT(strstr(hanare_last_error(), "rhinet_recvfrom: ") == hanare_last_error());
    EXPECT(rhinet_recvfrom(net, buffer, 300, NULL, 20000) == 300);
    free(bytes);
}

static void refusals(hanare_pool *pool, hanare_group *job, rhinet *net)
{
    rhinet_options options = RHINET_OPTIONS_INIT;
    rhinet *none = NULL;
    rhinet_line stat = {sizeof stat, 0, 0, 0, 0};
    unsigned char page[PAGE] = {0};
    uint32_t from;
    size_t len;
    EXPECT_ERROR(rhinet_arrived(net, 0, &from, &len), HANARE_ERR_BAD_USE, "no buffer is registered");
    EXPECT_ERROR(rhinet_push_page(net, page, (uint64_t)1 << 60, 0, RHINET_PAGE_CACHING, 0), HANARE_ERR_UNKNOWN_REGION, "");
    EXPECT_ERROR(rhinet_get_line(net, LINES, &stat), HANARE_ERR_OUT_OF_RANGE, "page cache");
    EXPECT_ERROR(rhinet_push_page(net, page, 1, 0, 3, 0), HANARE_ERR_BAD_ARGUMENT, "mode 3");
    EXPECT_ERROR(rhinet_push_page(net, NULL, 1, 0, RHINET_NORMAL, 0), HANARE_ERR_BAD_ARGUMENT, "page is NULL");
    EXPECT_ERROR(rhinet_send(net, 99, page, 1), HANARE_ERR_BAD_GROUP, "no party 99");
    EXPECT(rhinet_sendto(net, NULL, 1, 0) == HANARE_ERR_BAD_ARGUMENT);
    options.completion = 7;
    EXPECT_ERROR(rhinet_open(pool, job, &options, &none), HANARE_ERR_BAD_ARGUMENT, "completion 7");
    options.completion = RHINET_POLL, options.lines = 0;
    EXPECT_ERROR(rhinet_open(pool, job, &options, &none), HANARE_ERR_LIMIT_REACHED, "lines");
    EXPECT_ERROR(rhinet_open(pool, NULL, &options, &none), HANARE_ERR_BAD_ARGUMENT, "group is NULL");
    EXPECT_ERROR(rhinet_close(NULL), HANARE_ERR_BAD_ARGUMENT, "net is NULL");
    EXPECT(none == NULL);
}

/* Lines out of range and pages at odd places, on a region that is there. */
static void bad_pages(hanare_pool *pool, rhinet *net, int rank)
{
    unsigned char page[PAGE] = {0};
    hanare_region *region;
    char name[32];
    snprintf(name, sizeof name, "bad-%d", rank);
    EXPECT_OK(hanare_create(pool, name, 2 * PAGE, NULL, &region));
    uint64_t gid = hanare_gid(region);
    EXPECT_ERROR(rhinet_push_page(net, page, gid, 0, RHINET_PAGE_CACHING, LINES), HANARE_ERR_OUT_OF_RANGE, "page cache");
    EXPECT_ERROR(rhinet_push_page(net, page, gid, 0, RHINET_SEND_FROM_CACHE, LINES), HANARE_ERR_OUT_OF_RANGE, "page cache");
    EXPECT_ERROR(rhinet_push_page(net, page, gid, 64, RHINET_NORMAL, 0), HANARE_ERR_BAD_USE, "multiple of 4096");
    EXPECT_ERROR(rhinet_push_page(net, page, gid, 2 * PAGE, RHINET_PAGE_CACHING, 0), HANARE_ERR_OUT_OF_RANGE, name);
    expect_line(net, 0, 0, 0, 0);
    EXPECT_OK(hanare_close(region));
    EXPECT_OK(hanare_remove(pool, name));
}

int main(int argc, char **argv)
{
    hanare_pool *pool;
    hanare_group *job;
    hanare_mailbox *beside;
    rhinet *net;
    rhinet_options options = RHINET_OPTIONS_INIT;
    options.lines = LINES;
    options.completion = argc > 1 && strcmp(argv[1], "sleep") == 0 ? RHINET_SLEEP : RHINET_POLL;
    EXPECT_OK(hanare_attach(&pool));
    int rank = hanare_rank(pool), ranks = hanare_ranks(pool);
    EXPECT_OK(hanare_group_open(pool, NULL, 0, &job));
    EXPECT_OK(hanare_mailbox_open(job, 4096, &beside));
    EXPECT_OK(rhinet_open(pool, job, &options, &net));
    refusals(pool, job, net);
    bad_pages(pool, net, rank);
    pages(pool, net, rank);
    messages(net, rank, ranks);
    EXPECT_OK(hanare_barrier(pool));
    EXPECT_OK(rhinet_close(net));
    EXPECT_OK(hanare_mailbox_close(beside));
    EXPECT_OK(hanare_group_close(job));
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
