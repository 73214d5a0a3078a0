/* Programs on many hosts count in one word by plain pointer.
 *
 *     hanare run --nodes 3 ./count          prints 3000
 */
#include <hanare.h>
#include <stdio.h>

int main(void)
{
    hanare_pool *pool;
    hanare_region *region;
    void *memory;
    size_t len;

    if (hanare_attach(&pool) < 0 || hanare_create_or_attach(pool, "example-count", 4096, NULL, &region) < 0
        || hanare_map_shared(region, HANARE_COHERENT, &memory, &len) < 0) {
        fprintf(stderr, "%s\n", hanare_last_error());
        return 1;
    }
    /* The same instruction as between threads; the page goes from host to host by itself. */
    for (int i = 0; i < 1000; i++)
        __atomic_fetch_add((uint64_t *)memory, 1, __ATOMIC_SEQ_CST);

    if (hanare_barrier(pool) < 0) {
        fprintf(stderr, "%s\n", hanare_last_error());
        return 1;
    }
    if (hanare_rank(pool) == 0)
        printf("%llu\n", (unsigned long long)__atomic_load_n((uint64_t *)memory, __ATOMIC_SEQ_CST));
    return hanare_detach(pool) < 0;
}
