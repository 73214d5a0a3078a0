/* Vector commands on this host's memory run without the operating system: under seccomp's strict mode, where any system
 * call but read, write and exit ends the process, they still do their work. Exit status 77: no seccomp here.
 */
/* FEATURE: D2-F9 D2-F11 */
#define _DEFAULT_SOURCE
#include "expect.h"
#include <dimmnet.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LEN = 1 << 20 };

int main(void)
{
    hanare_pool *pool;
    hanare_region *region;
    hanare_strided column = {8, 8, 1000, 1024};
    unsigned char *from = noise(LEN, 1), *into = noise(LEN, 2);
    EXPECT_OK(hanare_attach(&pool));
    EXPECT_OK(hanare_create(pool, "quiet", LEN, NULL, &region));
    /* The first use maps; from then on memory is all there is. */
    EXPECT_OK(VS(from, 0, LEN));
    EXPECT_OK(VL(into, 0, LEN));
    EXPECT_OK(hanare_put(region, 0, from, LEN));
    EXPECT_OK(hanare_get(region, 0, into, LEN));
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        return 77;
    int failed = 0;
    for (int round = 0; round < 100; round++) {
        failed |= VS(from, 1, 8) | VL(into, 0, LEN) | VLS(into, 8, 3, 1000, 1024) | VSS(from, 8, 3, 1000, 1024);
        failed |= hanare_put(region, 0, from, LEN) | hanare_get(region, 8, into, 8);
        failed |= hanare_get_strided(region, &column, into, 8000) | hanare_fence(pool);
        failed |= dn_getrank() | hanare_rank(pool);
    }
    failed |= memcmp(into, from + 8, 8) | memcmp(into + 8, from + 1032, 8);
    syscall(SYS_exit, failed != 0);
    return 1;
}
