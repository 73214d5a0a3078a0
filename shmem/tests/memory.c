/* Symmetric memory: heap and statics, put and get of each form, with and without a context. */
#include "expect.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static long in_data = 7;
static long in_bss;
static char name[] = "variables keep their values";
static char page_of_zeros[3 * 4096];
static int numbers[64];

static void variables(int me, int next)
{
    EXPECT(in_data == 7 && in_bss == 0 && strcmp(name, "variables keep their values") == 0);
    shmem_barrier_all();
    shmem_long_p(&in_data, 100 + me, next);
    shmem_putmem(&page_of_zeros[5000], "far", 4, next);
    shmem_barrier_all();
    int before = (me + shmem_n_pes() - 1) % shmem_n_pes();
    EXPECT(in_data == 100 + before && shmem_long_g(&in_data, next) == 100 + me);
    EXPECT(strcmp(&page_of_zeros[5000], "far") == 0 && page_of_zeros[4999] == 0);
    EXPECT(shmem_addr_accessible(&in_bss, next) && !shmem_addr_accessible(&me, next) && !shmem_pe_accessible(shmem_n_pes()));
    EXPECT(shmem_ptr(&in_bss, me) == &in_bss && shmem_ptr(&me, me) == NULL);
    long *there = shmem_ptr(&in_bss, next);
    if (there != NULL)
        *there = 5;
    shmem_barrier_all();
    EXPECT(shmem_ptr(&in_bss, before) == NULL || in_bss == 5);
}

static void heap(int me, int next)
{
    /* Each PE tells the next where its block is: at one address in all. */
    static void *told;
    char *block = shmem_malloc(1000);
    void *mine = block;
    shmem_putmem(&told, &mine, sizeof mine, next);
    shmem_barrier_all();
    EXPECT(told == block);
    EXPECT((uintptr_t)block % 8 == 0 && shmem_malloc(0) == NULL && shmem_malloc((size_t)1 << 50) == NULL);
    char *aligned = shmem_align(65536, 10);
    EXPECT((uintptr_t)aligned % 65536 == 0 && shmem_align(3, 10) == NULL);
    long *zeros = shmem_calloc(100, sizeof *zeros);
    for (int at = 0; at < 100; at++)
        EXPECT(zeros[at] == 0);
    memset(block, me, 1000);
    block = shmem_realloc(block, 200000);
    for (int at = 0; at < 1000; at++)
        EXPECT(block[at] == (char)me);
    shmem_free(zeros);
    shmem_free(aligned);
    shmem_free(block);
    shmem_free(NULL);
    /* What was given back is given out again: a heap of 64 MiB has room for a thousand blocks of 40 MiB, one after another. */
    for (int round = 0; round < 20; round++) {
        char *large = shmem_malloc(40 << 20);
        EXPECT(large != NULL);
        shmem_free(large);
    }
}

static void strides(int me, int next)
{
    int from[64], back[64];
    for (int at = 0; at < 64; at++)
        from[at] = me * 1000 + at, numbers[at] = -1, back[at] = -2;
    int before = (me + shmem_n_pes() - 1) % shmem_n_pes();
    shmem_barrier_all();
    shmem_int_iput(numbers, from, 3, 2, 10, next);
    shmem_barrier_all();
    for (int at = 0; at < 64; at++)
        EXPECT(numbers[at] == (at % 3 == 0 && at < 30 ? before * 1000 + at / 3 * 2 : -1));
    shmem_int_iget(back, numbers, 2, 3, 10, next);
    for (int at = 0; at < 64; at++)
        EXPECT(back[at] == (at % 2 == 0 && at < 20 ? me * 1000 + at : -2));
    shmem_barrier_all();
    shmem_iput(numbers, from, 1, 1, 64, next);
    shmem_barrier_all();
    shmem_get_nbi(back, numbers, 64, next);
    shmem_quiet();
    EXPECT(memcmp(back, from, sizeof back) == 0);
    shmem_barrier_all();
    shmem_put128(numbers, from, 16, next);
    shmem_ctx_put16_nbi(SHMEM_CTX_DEFAULT, &numbers[1], "ab", 1, next);
    shmem_barrier_all();
    EXPECT(numbers[63] == before * 1000 + 63 && memcmp(&numbers[1], "ab", 2) == 0);
}

/* Types of each length, by the names without a type. */
static void elements(int me, int next)
{
    static char c;
    static short s;
    static float f;
    static double d;
    static long double l;
    static unsigned long long u;
    int before = (me + shmem_n_pes() - 1) % shmem_n_pes();
    shmem_p(&c, (char)(me + 1), next);
    shmem_p(&s, (short)(me + 2), next);
    shmem_p(&f, me + 0.5f, next);
    shmem_p(&d, me + 0.25, next);
    shmem_p(&l, me + 0.125L, next);
    shmem_p(SHMEM_CTX_DEFAULT, &u, UINT64_MAX - (unsigned)me, next);
    shmem_barrier_all();
    EXPECT(c == (char)(before + 1) && s == before + 2 && f == before + 0.5f && d == before + 0.25);
    EXPECT(l == before + 0.125L && u == UINT64_MAX - (unsigned)before);
    EXPECT(shmem_g(&d, next) == me + 0.25 && shmem_g(SHMEM_CTX_DEFAULT, &s, next) == me + 2);
}

/* More commands than are under way at a time: after quiet a third PE finds the bytes of all of them, by its own way to them. */
static void many_commands(int me, int next)
{
    enum { COMMANDS = 100, PART = 8192 };
    static uint64_t rounds_done;
    int size = shmem_n_pes(), before = (me + size - 1) % size, after_next = (next + 1) % size;
    int *there = shmem_malloc(COMMANDS * PART * sizeof *there), *here = malloc(COMMANDS * PART * sizeof *here);
    EXPECT(there != NULL && here != NULL);
    for (int round = 0; round < 5; round++) {
        for (int at = 0; at < COMMANDS * PART; at++)
            here[at] = at + me + round;
        for (int command = 0; command < COMMANDS; command++)
            shmem_int_put_nbi(&there[command * PART], &here[command * PART], PART, next);
        shmem_quiet();
        shmem_uint64_atomic_inc(&rounds_done, before);
        shmem_uint64_wait_until(&rounds_done, SHMEM_CMP_GT, (uint64_t)round);
        /* The last first: it is the last to come where nobody waits. */
        for (int command = COMMANDS - 1; command >= 0; command--)
            shmem_int_get_nbi(&here[command * PART], &there[command * PART], PART, after_next);
        shmem_quiet();
        for (int at = 0; at < COMMANDS * PART; at++)
            EXPECT(here[at] == at + next + round);
        shmem_barrier_all();
    }
    free(here);
    shmem_free(there);
}

int main(void)
{
    int provided;
    EXPECT(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) == 0 && provided == SHMEM_THREAD_MULTIPLE);
    int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes();
    variables(me, next);
    heap(me, next);
    strides(me, next);
    elements(me, next);
    many_commands(me, next);
    shmem_finalize();
    /* Variables are the program's own again, with their values. */
    if (numbers[63] % 1000 != 63 || strcmp(name, "variables keep their values") != 0 || page_of_zeros[0] != 0)
        return 2;
    return 0;
}
