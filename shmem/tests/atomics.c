/* Atomic operations, signals, waits and locks: nothing is lost, whoever is faster. */
#include "expect.h"

#include <stdint.h>
#include <string.h>

enum { ROUNDS = 200 };

static void counters(int me, int size)
{
    static int ints;
    static unsigned long long longs, bits;
    static double real;
    for (int round = 0; round < ROUNDS; round++) {
        for (int pe = 0; pe < size; pe++) {
            shmem_int_atomic_inc(&ints, pe);
            shmem_ulonglong_atomic_fetch_add(&longs, UINT64_C(1) << 32, pe);
        }
    }
    shmem_atomic_or(&bits, 1ull << me, 0);
    shmem_barrier_all();
    EXPECT(ints == ROUNDS * size && longs == (uint64_t)ROUNDS * (unsigned)size << 32);
    EXPECT(shmem_atomic_fetch(&bits, 0) == (1ull << size) - 1);
    shmem_barrier_all();
    EXPECT(shmem_atomic_fetch_xor(&bits, 1ull << me, 0) >> me & 1);
    /* One of all takes the word; the others see who. */
    int taken_by = shmem_int_atomic_compare_swap(&ints, ROUNDS * size, -1 - me, 0);
    shmem_barrier_all();
    int winner = -1 - shmem_int_atomic_fetch(&ints, 0);
    EXPECT(winner >= 0 && winner < size && (taken_by == ROUNDS * size) == (winner == me) && shmem_g(&bits, 0) == 0);
    shmem_atomic_set(&real, 1.5 + me, (me + 1) % size);
    shmem_barrier_all();
    EXPECT(real == 1.5 + (me + size - 1) % size && shmem_double_atomic_swap(&real, 0, me) != 0 && real == 0);
    static long owner = 1;
    EXPECT(shmem_atomic_compare_swap(&owner, 1L, 1L << 40, me) == 1 && shmem_atomic_compare_swap(&owner, 1L, 3L, me) == 1L << 40);
    EXPECT(owner == 1L << 40);
    unsigned old = 0;
    static unsigned word = 6;
    shmem_atomic_fetch_and_nbi(SHMEM_CTX_DEFAULT, &old, &word, 3u, me);
    shmem_quiet();
    EXPECT(old == 6 && word == 2 && shmem_fadd(&word, 3u, me) == 2 && shmem_finc(&word, me) == 5 && shmem_fetch(&word, me) == 6);
}

/* Who sees the signal sees the bytes. */
static void signals(int me, int size)
{
    static uint64_t signal;
    static long block[256];
    int next = (me + 1) % size;
    long from[256];
    for (long round = 1; round <= 50; round++) {
        for (int at = 0; at < 256; at++)
            from[at] = round * 1000 + at;
        if (round % 2 == 1)
            shmem_long_put_signal(block, from, 256, &signal, (uint64_t)round, SHMEM_SIGNAL_SET, next);
        else
            shmem_putmem_signal_nbi(block, from, sizeof from, &signal, 1, SHMEM_SIGNAL_ADD, next);
        EXPECT(shmem_signal_wait_until(&signal, SHMEM_CMP_GE, (uint64_t)round) == (uint64_t)round);
        for (int at = 0; at < 256; at++)
            EXPECT(block[at] == round * 1000 + at);
        shmem_barrier_all();
    }
    EXPECT(shmem_signal_fetch(&signal) == 50);
}

static void waits(int me, int size)
{
    static int flags[256];
    int status[256] = {0}, wanted[256];
    size_t indices[256];
    EXPECT(size <= 256 && shmem_int_wait_until_any(flags, 0, NULL, SHMEM_CMP_EQ, 1) == SIZE_MAX);
    EXPECT(shmem_int_test_any(flags, (size_t)size, NULL, SHMEM_CMP_NE, 0) == SIZE_MAX);
    EXPECT(!shmem_test_all(flags, (size_t)size, NULL, SHMEM_CMP_GT, 0) && shmem_test(&flags[me], SHMEM_CMP_LE, 0));
    shmem_barrier_all();
    for (int pe = 0; pe < size; pe++) {
        shmem_int_p(&flags[me], me + 1, pe);
        wanted[pe] = pe + 1;
    }
    size_t seen = 0;
    while (seen < (size_t)size) {
        size_t index = shmem_int_wait_until_any_vector(flags, (size_t)size, status, SHMEM_CMP_EQ, wanted);
        EXPECT(index < (size_t)size && flags[index] == (int)index + 1 && status[index] == 0);
        status[index] = 1;
        seen++;
    }
    EXPECT(shmem_int_test_some(flags, (size_t)size, indices, status, SHMEM_CMP_NE, 0) == 0);
    EXPECT(shmem_int_wait_until_some(flags, (size_t)size, indices, NULL, SHMEM_CMP_NE, 0) == (size_t)size);
    shmem_int_wait_until_all_vector(flags, (size_t)size, NULL, SHMEM_CMP_EQ, wanted);
    /* An element has its turn, whatever others do. */
    int found[256] = {0};
    for (int round = 0; round < size; round++)
        found[shmem_int_test_any(flags, (size_t)size, NULL, SHMEM_CMP_GE, 1)]++;
    for (int pe = 0; pe < size; pe++)
        EXPECT(found[pe] == 1);
}

/* A counter that is read and written in two steps, under locks with homes at different PEs. */
static void locks(int me, int size)
{
    static long lock[3], sum[3];
    for (int round = 0; round < ROUNDS; round++) {
        int at = round % 3;
        if (round % 2 == 0)
            shmem_set_lock(&lock[at]);
        else
            while (shmem_test_lock(&lock[at]) != 0)
                continue;
        long before = shmem_long_g(&sum[at], 0);
        shmem_long_p(&sum[at], before + 1, 0);
        shmem_clear_lock(&lock[at]);
    }
    shmem_barrier_all();
    EXPECT(me != 0 || sum[0] + sum[1] + sum[2] == (long)ROUNDS * size);
    EXPECT(lock[0] == 0 && lock[1] == 0 && lock[2] == 0);
    shmem_barrier_all();
    if (me == 0)
        shmem_set_lock(&lock[0]);
    shmem_barrier_all();
    EXPECT(me == 0 || shmem_test_lock(&lock[0]) != 0);
    shmem_barrier_all();
    if (me == 0)
        shmem_clear_lock(&lock[0]);
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), size = shmem_n_pes();
    counters(me, size);
    signals(me, size);
    waits(me, size);
    locks(me, size);
    shmem_finalize();
    return 0;
}
