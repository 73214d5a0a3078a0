/* Locks: a queue of PEs in the 8 bytes of the lock. Each PE waits in its own memory, and is served in turn.
 *
 *   first 4 bytes    at the lock's home alone: the last PE of the queue, plus 1; 0 where nobody has the lock
 *   last 4 bytes     at each PE: the PE behind it in the queue, plus 1; and WAITS until the PE before it gives the lock on
 *
 * Threads of one PE take turns by a lock of their own. */
#include "pe.h"

#define WAITS UINT32_C(0x80000000)

/* The home depends on the address, so that locks lie apart. */
static int home_of(const long *lock) { return (int)(offset_of(lock) / sizeof *lock % (uint64_t)job.size); }
static uint32_t *last_of(long *lock) { return (uint32_t *)lock; }
static uint32_t *own_of(long *lock) { return (uint32_t *)lock + 1; }

void shmem_set_lock(long *lock)
{
    uint32_t me = (uint32_t)job.me + 1;
    __atomic_store_n(own_of(lock), WAITS, __ATOMIC_SEQ_CST);
    uint32_t before = (uint32_t)fetch_op(last_of(lock), HANARE_SWAP, me, sizeof me, home_of(lock));
    if (before == 0) {
        __atomic_fetch_and(own_of(lock), ~WAITS, __ATOMIC_SEQ_CST);
        return;
    }
    fetch_op(own_of(lock), HANARE_OR, me, sizeof me, (int)before - 1);
    unsigned steps = 0;
    while (__atomic_load_n(own_of(lock), __ATOMIC_ACQUIRE) & WAITS)
        relax(&steps);
}

int shmem_test_lock(long *lock)
{
    __atomic_store_n(own_of(lock), 0, __ATOMIC_SEQ_CST);
    return compare_swap(last_of(lock), 0, (uint32_t)job.me + 1, sizeof(uint32_t), home_of(lock)) != 0;
}

void shmem_clear_lock(long *lock)
{
    uint32_t me = (uint32_t)job.me + 1, next;
    complete();
    if (__atomic_load_n(own_of(lock), __ATOMIC_ACQUIRE) == 0 && compare_swap(last_of(lock), me, 0, sizeof me, home_of(lock)) == me)
        return;
    /* Somebody is behind, and may not have said so yet. */
    unsigned steps = 0;
    while ((next = __atomic_load_n(own_of(lock), __ATOMIC_ACQUIRE)) == 0)
        relax(&steps);
    __atomic_store_n(own_of(lock), 0, __ATOMIC_SEQ_CST);
    fetch_op(own_of(lock), HANARE_AND, (uint32_t)~WAITS, sizeof next, (int)next - 1);
}
