/* Waits for own symmetric memory, which others change: loads, first at once, then further apart. */
#define _GNU_SOURCE 1
#include "pe.h"

#include <sched.h>
#include <time.h>

/* Steps of a wait that only pause: many where each PE may have a processor, few where PEs need each other's. Further ones give the
 * processor to others, later ones sleep. */
#define PAUSES_ALONE 2000
#define PAUSES 20
#define YIELDS 20000
#define NAP_NS 50000

static unsigned pauses = PAUSES;

void waits_begin(void)
{
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable) == 0 && CPU_COUNT(&usable) >= job.size)
        pauses = PAUSES_ALONE;
}

void relax(unsigned *n)
{
    ++*n;
    if (*n < pauses) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (*n < YIELDS) {
        sched_yield();
    } else {
        struct timespec nap = {0, NAP_NS};
        nanosleep(&nap, NULL);
        *n = YIELDS;
    }
}

void wait_word(volatile long *word, long value)
{
    unsigned steps = 0;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
        relax(&steps);
}

#define IS(HAVE, CMP, VALUE)                                                                                                        \
    ((CMP) == SHMEM_CMP_EQ   ? (HAVE) == (VALUE)                                                                                    \
     : (CMP) == SHMEM_CMP_NE ? (HAVE) != (VALUE)                                                                                    \
     : (CMP) == SHMEM_CMP_GT ? (HAVE) > (VALUE)                                                                                     \
     : (CMP) == SHMEM_CMP_GE ? (HAVE) >= (VALUE)                                                                                    \
     : (CMP) == SHMEM_CMP_LT ? (HAVE) < (VALUE)                                                                                     \
                             : (HAVE) <= (VALUE))

/* Where this thread begins to look for any element: behind the last that it found, so that each has its turn. */
static _Thread_local size_t turn;

/* look_NAME: counts elements, of those whose status is 0, that are as wanted, and lists them. Element k is compared with
 * values[k * step]. *waited is how many have status 0. Where `most` is 1 it takes turns. */
#define TYPED(NAME, TYPE)                                                                                                           \
    static size_t look_##NAME(volatile TYPE *ivars, size_t nelems, size_t *indices, size_t most, const int *status, int cmp,        \
                              const TYPE *values, size_t step, size_t *waited)                                                      \
    {                                                                                                                               \
        size_t found = 0, begin = most == 1 && nelems > 1 ? turn % nelems : 0;                                                      \
        *waited = 0;                                                                                                                \
        for (size_t k = 0; k < nelems && found < most; k++) {                                                                       \
            size_t at = begin + k < nelems ? begin + k : begin + k - nelems;                                                        \
            if (status != NULL && status[at] != 0)                                                                                  \
                continue;                                                                                                           \
            ++*waited;                                                                                                              \
            TYPE have = __atomic_load_n(&ivars[at], __ATOMIC_ACQUIRE);                                                              \
            if (!IS(have, cmp, values[at * step]))                                                                                  \
                continue;                                                                                                           \
            if (indices != NULL)                                                                                                    \
                indices[found] = at;                                                                                                \
            found++;                                                                                                                \
            turn = at + 1;                                                                                                          \
        }                                                                                                                           \
        return found;                                                                                                               \
    }                                                                                                                               \
    int shmem_##NAME##_test(volatile TYPE *ivar, int cmp, TYPE value)                                                               \
    {                                                                                                                               \
        size_t waited;                                                                                                              \
        return (int)look_##NAME(ivar, 1, NULL, 1, NULL, cmp, &value, 0, &waited);                                                   \
    }                                                                                                                               \
    void shmem_##NAME##_wait_until(volatile TYPE *ivar, int cmp, TYPE value)                                                        \
    {                                                                                                                               \
        unsigned steps = 0;                                                                                                         \
        while (!shmem_##NAME##_test(ivar, cmp, value))                                                                              \
            relax(&steps);                                                                                                          \
    }                                                                                                                               \
    MANY(NAME, TYPE, , TYPE value, &value, 0) MANY(NAME, TYPE, _vector, TYPE *values, values, 1)
/* Six calls with one value for all elements, or with a vector of values. Without any element to wait for none of them waits. */
#define MANY(NAME, TYPE, SUFFIX, LAST, VALUES, STEP)                                                                                \
    int shmem_##NAME##_test_all##SUFFIX(volatile TYPE *ivars, size_t nelems, const int *status, int cmp, LAST)                      \
    {                                                                                                                               \
        size_t waited;                                                                                                              \
        return look_##NAME(ivars, nelems, NULL, nelems, status, cmp, VALUES, STEP, &waited) == waited;                              \
    }                                                                                                                               \
    size_t shmem_##NAME##_test_any##SUFFIX(volatile TYPE *ivars, size_t nelems, const int *status, int cmp, LAST)                   \
    {                                                                                                                               \
        size_t waited, index;                                                                                                       \
        return look_##NAME(ivars, nelems, &index, 1, status, cmp, VALUES, STEP, &waited) > 0 ? index : SIZE_MAX;                    \
    }                                                                                                                               \
    size_t shmem_##NAME##_test_some##SUFFIX(volatile TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, LAST) \
    {                                                                                                                               \
        size_t waited;                                                                                                              \
        return look_##NAME(ivars, nelems, indices, nelems, status, cmp, VALUES, STEP, &waited);                                     \
    }                                                                                                                               \
    void shmem_##NAME##_wait_until_all##SUFFIX(volatile TYPE *ivars, size_t nelems, const int *status, int cmp, LAST)               \
    {                                                                                                                               \
        unsigned steps = 0;                                                                                                         \
        size_t waited;                                                                                                              \
        while (look_##NAME(ivars, nelems, NULL, nelems, status, cmp, VALUES, STEP, &waited) < waited)                               \
            relax(&steps);                                                                                                          \
    }                                                                                                                               \
    size_t shmem_##NAME##_wait_until_any##SUFFIX(volatile TYPE *ivars, size_t nelems, const int *status, int cmp, LAST)             \
    {                                                                                                                               \
        unsigned steps = 0;                                                                                                         \
        size_t waited, index = SIZE_MAX;                                                                                            \
        while (look_##NAME(ivars, nelems, &index, 1, status, cmp, VALUES, STEP, &waited) == 0 && waited > 0)                        \
            relax(&steps);                                                                                                          \
        return index;                                                                                                               \
    }                                                                                                                               \
    size_t shmem_##NAME##_wait_until_some##SUFFIX(volatile TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                                                  LAST)                                                                             \
    {                                                                                                                               \
        unsigned steps = 0;                                                                                                         \
        size_t waited, found;                                                                                                       \
        while ((found = look_##NAME(ivars, nelems, indices, nelems, status, cmp, VALUES, STEP, &waited)) == 0 && waited > 0)        \
            relax(&steps);                                                                                                          \
        return found;                                                                                                               \
    }
SHMEM_EACH_WAIT(TYPED)

uint64_t shmem_signal_fetch(const uint64_t *sig_addr) { return __atomic_load_n(sig_addr, __ATOMIC_ACQUIRE); }

uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t value)
{
    unsigned steps = 0;
    uint64_t have;
    while (have = shmem_signal_fetch(sig_addr), !IS(have, cmp, value))
        relax(&steps);
    return have;
}
