/* Flushes to node 1 (HANARE_PLACE) until that node is gone: the code says so, and what was stored is still there. */
/* FEATURE: D2-F7 */
#define _DEFAULT_SOURCE
#include "expect.h"
#include <dimmnet.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    enum { LEN = 1 << 16 };
    EXPECT_OK(dn_init(argc, argv));
    unsigned char *far = (unsigned char *)dn_malloc("far", LEN), *near = (unsigned char *)dn_malloc(LEN);
    EXPECT(far != NULL && near != NULL);
    /* What was never touched is not here, and cannot be once the node is gone. */
    unsigned char count = 1;
    memset(far, count, LEN);
    EXPECT_OK(dn_flush(far));
    printf("ready\n");
    fflush(stdout);
    int code;
    double last = seconds();
    do {
        memset(far, ++count, LEN);
        double begun = seconds();
        code = dn_flush(far);
        last = code == 0 ? begun : last;
    } while (code == 0);
    double took = seconds() - last;
    EXPECT(code == HANARE_ERR_NODE_LOST);
    /* Nothing was acknowledged, so a second flush does not pretend that nothing is left to do. */
    EXPECT_ERROR(dn_flush(far), HANARE_ERR_NODE_LOST, "node 1");
    EXPECT_ERROR(dn_update(far), HANARE_ERR_NODE_LOST, "node 1");
    for (int at = 0; at < LEN; at++)
        EXPECT(far[at] == count);
    memset(near, 5, LEN);
    EXPECT_OK(dn_flush(near));
    EXPECT_OK(dn_free(near));
    EXPECT_OK(dn_free(far));
    printf("noticed %.3f\n", took);
    return 0;
}
