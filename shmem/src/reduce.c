/* Reductions. Between two syncs each PE combines the sources of all, in the order of the set, in memory of its own. Then it stores the
 * result, which may be where its source was. Elements are combined in one order, so all PEs have the same bits. */
#include "pe.h"

#include <stdlib.h>
#include <string.h>

/* Combines `count` elements of `from` into those of `into`. */
typedef void combine_fn(void *into, const void *from, size_t count);

/* Results of as many bytes are divided: each PE combines its part of the elements, and puts it to all. Shorter ones each PE combines for
 * itself, which takes a sync less. */
#define DIVIDED_LEN_MIN (32u << 10)

/* Ends the job where there is no memory for the result. */
static int reduce(const struct set *set, char *dest, const char *source, size_t count, size_t size, combine_fn *combine)
{
    if (set == NULL)
        return -1;
    int is_divided = set->size > 2 && count * size >= DIVIDED_LEN_MIN;
    size_t begin = is_divided ? count * (size_t)set->me / (size_t)set->size : 0;
    size_t end = is_divided ? count * ((size_t)set->me + 1) / (size_t)set->size : count;
    size_t at = begin * size, len = (end - begin) * size;
    /* A small result needs no allocation. */
    char small[1024] __attribute__((aligned(16)));
    char *result = len <= sizeof small / 2 ? small : malloc(2 * len);
    if (result == NULL)
        die("no memory for a reduction of %zu bytes", len);
    char *fetched = result + len;
    sync_set(set);
    for (int number = 0; number < set->size && len > 0; number++) {
        int pe = pe_of(set, number);
        const char *from = pe == job.me ? source + at : target_of(source + at, pe).ptr;
        if (from == NULL) {
            get_bytes(number == 0 ? result : fetched, source + at, len, pe);
            from = fetched;
        } else if (number == 0) {
            memcpy(result, from, len);
        }
        if (number > 0)
            combine(result, from, end - begin);
    }
    sync_set(set);
    if (is_divided) {
        for (int step = 0; step < set->size; step++)
            begin_put(dest + at, result, len, pe_of(set, (set->me + step) % set->size));
        sync_set(set);
    } else {
        memcpy(dest, result, len);
    }
    if (result != small)
        free(result);
    return 0;
}

#define COMBINE(NAME, TYPE, OP, EXPRESSION)                                                                                         \
    static void OP##_##NAME(void *into, const void *from, size_t count)                                                             \
    {                                                                                                                               \
        TYPE *left = into;                                                                                                          \
        const TYPE *right = from;                                                                                                   \
        for (size_t at = 0; at < count; at++) {                                                                                     \
            TYPE a = left[at], b = right[at];                                                                                       \
            left[at] = (TYPE)(EXPRESSION);                                                                                          \
        }                                                                                                                           \
    }
#define TEAM_CALL(NAME, TYPE, OP)                                                                                                   \
    int shmem_##NAME##_##OP##_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)                             \
    {                                                                                                                               \
        return reduce(set_of(team), (char *)dest, (const char *)source, nreduce, sizeof(TYPE), OP##_##NAME);                                              \
    }
#define ACTIVE_SET(NAME, TYPE, OP)                                                                                                  \
    void shmem_##NAME##_##OP##_to_all(TYPE *dest, const TYPE *source, int nreduce, int PE_start, int logPE_stride, int PE_size,     \
                                      TYPE *pWrk, long *pSync)                                                                      \
    {                                                                                                                               \
        (void)pWrk;                                                                                                                 \
        struct set set = active_set(PE_start, logPE_stride, PE_size, pSync);                                                        \
        reduce(&set, (char *)dest, (const char *)source, (size_t)nreduce, sizeof(TYPE), OP##_##NAME);                                                     \
    }

#define COMBINE_BITS(NAME, TYPE) COMBINE(NAME, TYPE, and, a & b) COMBINE(NAME, TYPE, or, a | b) COMBINE(NAME, TYPE, xor, a ^ b)
#define COMBINE_ORDER(NAME, TYPE) COMBINE(NAME, TYPE, max, a > b ? a : b) COMBINE(NAME, TYPE, min, a < b ? a : b)
#define COMBINE_SUM(NAME, TYPE) COMBINE(NAME, TYPE, sum, a + b) COMBINE(NAME, TYPE, prod, a * b)
SHMEM_EACH_REDUCE_BITS(COMBINE_BITS)
COMBINE_BITS(short, short)
COMBINE_BITS(int, int)
COMBINE_BITS(long, long)
COMBINE_BITS(longlong, long long)
SHMEM_EACH_REDUCE_ORDER(COMBINE_ORDER)
SHMEM_EACH_REDUCE_SUM(COMBINE_SUM)

#define TEAM_BITS(NAME, TYPE) TEAM_CALL(NAME, TYPE, and) TEAM_CALL(NAME, TYPE, or) TEAM_CALL(NAME, TYPE, xor)
#define TEAM_ORDER(NAME, TYPE) TEAM_CALL(NAME, TYPE, max) TEAM_CALL(NAME, TYPE, min)
#define TEAM_SUM(NAME, TYPE) TEAM_CALL(NAME, TYPE, sum) TEAM_CALL(NAME, TYPE, prod)
SHMEM_EACH_REDUCE_BITS(TEAM_BITS)
SHMEM_EACH_REDUCE_ORDER(TEAM_ORDER)
SHMEM_EACH_REDUCE_SUM(TEAM_SUM)

#define ACTIVE_BITS(NAME, TYPE) ACTIVE_SET(NAME, TYPE, and) ACTIVE_SET(NAME, TYPE, or) ACTIVE_SET(NAME, TYPE, xor)
#define ACTIVE_ORDER(NAME, TYPE) ACTIVE_SET(NAME, TYPE, max) ACTIVE_SET(NAME, TYPE, min)
#define ACTIVE_SUM(NAME, TYPE) ACTIVE_SET(NAME, TYPE, sum) ACTIVE_SET(NAME, TYPE, prod)
SHMEM_EACH_TO_ALL_BITS(ACTIVE_BITS)
SHMEM_EACH_TO_ALL_ORDER(ACTIVE_ORDER)
SHMEM_EACH_TO_ALL_SUM(ACTIVE_SUM)
