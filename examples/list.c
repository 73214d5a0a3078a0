/* A linked list that programs on all hosts grow: blocks of a heap in a region, offsets for pointers, a lock by name.
 *
 *     hanare run --nodes 2 ./list
 */
#include <hanare.h>
#include <stdio.h>

struct item {
    uint64_t next; /* offset of the next one; 0 ends the list */
    uint64_t rank;
};

static int failed(void)
{
    fprintf(stderr, "%s\n", hanare_last_error());
    return 1;
}

int main(void)
{
    hanare_pool *pool;
    hanare_region *head, *heap;
    hanare_held *held;
    struct item item;
    uint64_t first, block;
    int taken;

    if (hanare_attach(&pool) < 0 || hanare_create_or_attach(pool, "example-head", 4096, NULL, &head) < 0
        || hanare_create_or_attach(pool, "example-heap", 1u << 20, NULL, &heap) < 0)
        return failed();

    /* The lock's next holder is told where this one dies: then the list may be half-changed. */
    if ((taken = hanare_lock(pool, "example-list", HANARE_EXCLUSIVE, HANARE_FOREVER, &held)) < 0)
        return failed();
    if (taken == HANARE_ABANDONED)
        fprintf(stderr, "a program died while it changed the list\n");
    item.rank = (uint64_t)hanare_rank(pool);
    if (hanare_malloc(heap, sizeof item, &block) < 0 || hanare_get(head, 0, &item.next, sizeof item.next) < 0
        || hanare_put(heap, block, &item, sizeof item) < 0)
        return failed();
    /* Offset 0 is a block as any other, so the head holds the offset and 1. */
    first = block + 1;
    if (hanare_put(head, 0, &first, sizeof first) < 0 || hanare_unlock(held) < 0 || hanare_barrier(pool) < 0)
        return failed();

    if (hanare_rank(pool) == 0) {
        int count = 0;
        if (hanare_get(head, 0, &first, sizeof first) < 0)
            return failed();
        while (first != 0) {
            if (hanare_get(heap, first - 1, &item, sizeof item) < 0)
                return failed();
            first = item.next;
            count++;
        }
        printf("%d items\n", count);
    }
    return hanare_barrier(pool) < 0 || hanare_detach(pool) < 0;
}
