/* The symmetric heap: blocks of hanare_malloc on PE 0's region, at one offset in all regions. PE 0 takes and gives them back, and tells
 * the others. */
#include "pe.h"

#include <string.h>

/* Tells all PEs what PE 0 says; a sync of the world. */
static uint64_t told(uint64_t own)
{
    const struct set *world = set_of(SHMEM_TEAM_WORLD);
    if (world == NULL)
        die("a call of the symmetric heap before shmem_init or after shmem_finalize");
    if (job.me == 0)
        publish(world, WORD_SECOND, (long)own);
    sync_set(world);
    uint64_t value = (uint64_t)published(world, WORD_SECOND, 0);
    sync_set(world);
    return value;
}

void *shmem_align(size_t alignment, size_t size)
{
    if (size == 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return NULL;
    uint64_t offset = 0;
    if (job.me == 0) {
        int code = hanare_malloc_aligned(job.peers[0].region, size, alignment < 64 ? 64 : alignment, &offset);
        if (code != HANARE_ERR_HEAP_FULL && code != HANARE_ERR_BAD_SETTING)
            checked(code);
    }
    offset = told(offset);
    return offset == 0 ? NULL : job.heap + offset;
}

void *shmem_malloc(size_t size) { return shmem_align(64, size); }

void *shmem_malloc_with_hints(size_t size, long hints)
{
    (void)hints;
    return shmem_malloc(size);
}

void *shmem_calloc(size_t count, size_t size)
{
    size_t len;
    if (__builtin_mul_overflow(count, size, &len))
        return NULL;
    void *ptr = shmem_malloc(len);
    if (ptr != NULL) {
        memset(ptr, 0, len);
        shmem_barrier_all();
    }
    return ptr;
}

void shmem_free(void *ptr)
{
    if (ptr == NULL)
        return;
    shmem_barrier_all();
    if (job.me == 0)
        checked(hanare_free(job.peers[0].region, offset_of(ptr)));
}

void *shmem_realloc(void *ptr, size_t size)
{
    if (ptr == NULL)
        return shmem_malloc(size);
    if (size == 0) {
        shmem_free(ptr);
        return NULL;
    }
    uint64_t room = 0;
    if (job.me == 0)
        checked(hanare_block_size(job.peers[0].region, offset_of(ptr), &room));
    room = told(room);
    if (size <= room)
        return ptr;
    void *longer = shmem_malloc(size);
    if (longer != NULL) {
        memcpy(longer, ptr, room);
        shmem_free(ptr);
    }
    return longer;
}
