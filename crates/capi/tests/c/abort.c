/* A job of which one rank ends all the others. Words: the rank, and the status that it chooses. */
#include "expect.h"

int main(int count, char **words)
{
    hanare_pool *pool;
    EXPECT(count >= 3);
    EXPECT_OK(hanare_attach(&pool));
    EXPECT_OK(hanare_barrier(pool));
    EXPECT_ERROR(hanare_abort(NULL, 1), HANARE_ERR_BAD_ARGUMENT, "pool");
    if (hanare_rank(pool) == atoi(words[1])) {
        /* Not ended by a line break, and still in the C library's buffer. */
        printf("chosen");
        hanare_abort(pool, atoi(words[2]));
    }
    /* The others wait for one that never comes. */
    int code = hanare_barrier(pool);
    fprintf(stderr, "rank %d was told %d\n", hanare_rank(pool), code);
    return code == HANARE_ERR_RANK_GONE ? 77 : 1;
}
