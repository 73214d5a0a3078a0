/* Collective operations of teams and active sets, over put, get and atomic operations.
 *
 * A sync is a dissemination barrier. In round k each PE adds 1 to a counter of the PE that is 2^k further. It waits for 1 in its own, and
 * takes it off. So the counters are 0 between syncs. A PE that is a sync ahead makes a 2 of the 1; none is two ahead.
 *
 * Data go between two syncs: after the first all sources are there, and each PE begins to get what it needs. The second waits for that,
 * and says that all have it. */
#include "pe.h"

void sync_set(const struct set *set)
{
    if (set == NULL)
        die("a call of all PEs before shmem_init or after shmem_finalize");
    complete();
    long *counter = set->sync;
    for (int step = 1; step < set->size; step *= 2, counter++) {
        fetch_op(counter, HANARE_ADD, 1, sizeof *counter, pe_of(set, (set->me + step) % set->size));
        wait_word(counter, 1);
        __atomic_fetch_sub(counter, 1, __ATOMIC_SEQ_CST);
    }
}

struct set active_set(int start, int log_stride, int size, long *sync)
{
    int stride = 1 << log_stride, me = (job.me - start) / stride;
    if (start < 0 || size < 1 || me < 0 || me >= size || start + me * stride != job.me || start + (size - 1) * stride >= job.size)
        die("the active set of %d PEs from %d, each %d further, has not got PE %d, or is none", size, start, stride, job.me);
    return (struct set){start, stride, size, me, sync};
}

void shmem_sync_all(void) { sync_set(set_of(SHMEM_TEAM_WORLD)); }
void shmem_barrier_all(void) { sync_set(set_of(SHMEM_TEAM_WORLD)); }

int shmem_team_sync(shmem_team_t team)
{
    const struct set *set = set_of(team);
    if (set == NULL)
        return -1;
    sync_set(set);
    return 0;
}

void (shmem_sync)(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
    struct set set = active_set(PE_start, logPE_stride, PE_size, pSync);
    sync_set(&set);
}

void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
    struct set set = active_set(PE_start, logPE_stride, PE_size, pSync);
    sync_set(&set);
}

/* The root's elements come to all others, and to its own dest where `to_root`. */
static int broadcast(const struct set *set, void *dest, const void *source, size_t len, int root, int to_root)
{
    if (set == NULL || root < 0 || root >= set->size)
        return -1;
    sync_set(set);
    if ((set->me != root || to_root) && (set->me != root || dest != source))
        get_bytes(dest, source, len, pe_of(set, root));
    sync_set(set);
    return 0;
}

/* Blocks of all PEs, one behind the other, each as long as its PE says. */
static int collect(const struct set *set, char *dest, const void *source, size_t len)
{
    if (set == NULL)
        return -1;
    publish(set, WORD_COUNT, (long)len);
    sync_set(set);
    for (int number = 0; number < set->size; number++) {
        size_t part = (size_t)published(set, WORD_COUNT, number);
        begin_get(dest, source, part, pe_of(set, number));
        dest += part;
    }
    sync_set(set);
    publish(set, WORD_COUNT, 0);
    return 0;
}

static int fcollect(const struct set *set, char *dest, const void *source, size_t len)
{
    if (set == NULL)
        return -1;
    sync_set(set);
    for (int number = 0; number < set->size; number++)
        begin_get(dest + (size_t)number * len, source, len, pe_of(set, number));
    sync_set(set);
    return 0;
}

/* Block k of each PE's source goes to PE k; elements lie `by` apart. */
static int alltoalls(const struct set *set, char *dest, const char *source, struct stride by, size_t count, size_t size)
{
    if (set == NULL)
        return -1;
    sync_set(set);
    const char *from = source + (ptrdiff_t)((size_t)set->me * count * size) * by.source;
    for (int step = 0; step < set->size; step++) {
        int number = (set->me + step) % set->size;
        char *into = dest + (ptrdiff_t)((size_t)number * count * size) * by.dest;
        if (by.dest == 1 && by.source == 1)
            begin_get(into, from, count * size, pe_of(set, number));
        else
            get_strided(into, from, by, count, size, pe_of(set, number));
    }
    sync_set(set);
    return 0;
}

#define ADJACENT ((struct stride){1, 1})
#define TEAM_CALLS(BEFORE, AFTER, TYPE, SIZE)                                                                                       \
    int shmem_##BEFORE##broadcast##AFTER(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, int PE_root)             \
    {                                                                                                                               \
        return broadcast(set_of(team), dest, source, nelems * (SIZE), PE_root, 1);                                                  \
    }                                                                                                                               \
    int shmem_##BEFORE##collect##AFTER(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)                            \
    {                                                                                                                               \
        return collect(set_of(team), (char *)dest, source, nelems * (SIZE));                                                        \
    }                                                                                                                               \
    int shmem_##BEFORE##fcollect##AFTER(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)                           \
    {                                                                                                                               \
        return fcollect(set_of(team), (char *)dest, source, nelems * (SIZE));                                                       \
    }                                                                                                                               \
    int shmem_##BEFORE##alltoall##AFTER(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)                           \
    {                                                                                                                               \
        return alltoalls(set_of(team), (char *)dest, (const char *)source, ADJACENT, nelems, SIZE);                                 \
    }                                                                                                                               \
    int shmem_##BEFORE##alltoalls##AFTER(shmem_team_t team, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst,           \
                                         size_t nelems)                                                                             \
    {                                                                                                                               \
        return alltoalls(set_of(team), (char *)dest, (const char *)source, (struct stride){dst, sst}, nelems, SIZE);                \
    }
#define TYPED(NAME, TYPE) TEAM_CALLS(NAME##_, , TYPE, sizeof(TYPE))
SHMEM_EACH_RMA(TYPED)
TEAM_CALLS(, mem, void, 1)

/* An active set's root leaves its own dest as it is. */
#define ACTIVE_SET(BITS)                                                                                                            \
    void shmem_broadcast##BITS(void *dest, const void *source, size_t nelems, int PE_root, int PE_start, int logPE_stride,          \
                               int PE_size, long *pSync)                                                                            \
    {                                                                                                                               \
        struct set set = active_set(PE_start, logPE_stride, PE_size, pSync);                                                            \
        broadcast(&set, dest, source, nelems * (BITS / 8), PE_root, 0);                                                             \
    }                                                                                                                               \
    void shmem_collect##BITS(void *dest, const void *source, size_t nelems, int PE_start, int logPE_stride, int PE_size,            \
                             long *pSync)                                                                                           \
    {                                                                                                                               \
        struct set set = active_set(PE_start, logPE_stride, PE_size, pSync);                                                            \
        collect(&set, dest, source, nelems * (BITS / 8));                                                                           \
    }                                                                                                                               \
    void shmem_fcollect##BITS(void *dest, const void *source, size_t nelems, int PE_start, int logPE_stride, int PE_size,           \
                              long *pSync)                                                                                          \
    {                                                                                                                               \
        struct set set = active_set(PE_start, logPE_stride, PE_size, pSync);                                                            \
        fcollect(&set, dest, source, nelems * (BITS / 8));                                                                          \
    }                                                                                                                               \
    void shmem_alltoall##BITS(void *dest, const void *source, size_t nelems, int PE_start, int logPE_stride, int PE_size,           \
                              long *pSync)                                                                                          \
    {                                                                                                                               \
        struct set set = active_set(PE_start, logPE_stride, PE_size, pSync);                                                            \
        alltoalls(&set, dest, source, ADJACENT, nelems, BITS / 8);                                                                  \
    }                                                                                                                               \
    void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int PE_start,           \
                               int logPE_stride, int PE_size, long *pSync)                                                          \
    {                                                                                                                               \
        struct set set = active_set(PE_start, logPE_stride, PE_size, pSync);                                                            \
        alltoalls(&set, dest, source, (struct stride){dst, sst}, nelems, BITS / 8);                                                 \
    }
ACTIVE_SET(32)
ACTIVE_SET(64)
