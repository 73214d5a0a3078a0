/* Gets from a region on node 1 until that node is gone: the code says so, and the rest of the pool goes on. */
#define _DEFAULT_SOURCE
#include "expect.h"
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(void)
{
    hanare_pool *pool;
    hanare_region *near, *far;
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    unsigned char into[4096], *from = noise(4096, 1);
    options.placement = "node=1";
    EXPECT_OK(hanare_attach(&pool));
    EXPECT_OK(hanare_create(pool, "near", 1 << 20, NULL, &near));
    EXPECT_OK(hanare_create(pool, "far", 1 << 20, &options, &far));
    EXPECT_OK(hanare_put(far, 0, from, 4096));
    printf("ready\n");
    fflush(stdout);
    int code;
    double last = seconds();
    /* What was got before the node went is right; nothing is ever silently empty. */
    while ((code = hanare_get(far, 0, into, 4096)) == 0) {
        EXPECT(memcmp(into, from, 4096) == 0);
        last = seconds();
    }
    double took = seconds() - last;
    EXPECT_ERROR(hanare_get(far, 0, into, 4096), HANARE_ERR_NODE_LOST, "node 1");
    EXPECT(code == HANARE_ERR_NODE_LOST);
    EXPECT_OK(hanare_put(near, 8, from, 4096));
    EXPECT_OK(hanare_get(near, 8, into, 4096));
    EXPECT(memcmp(into, from, 4096) == 0);
    printf("noticed %.3f\n", took);
    return 0;
}
