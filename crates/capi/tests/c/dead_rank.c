/* Rank 1 ends without a word after the first barrier: the others' next barrier ends with an error that names it, and so
 * does every later one. */
/* FEATURE: D2-F8 */
#define _DEFAULT_SOURCE
#include "expect.h"
#include <signal.h>
#include <unistd.h>

int main(void)
{
    hanare_pool *pool;
    EXPECT_OK(hanare_attach(&pool));
    EXPECT_OK(hanare_barrier(pool));
    if (hanare_rank(pool) == 1)
        kill(getpid(), SIGKILL);
    EXPECT_ERROR(hanare_barrier(pool), HANARE_ERR_RANK_GONE, "rank 1");
    EXPECT_ERROR(hanare_barrier(pool), HANARE_ERR_RANK_GONE, "rank 1");
    EXPECT_OK(hanare_detach(pool));
    return 0;
}
