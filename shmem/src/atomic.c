/* Atomic operations: the processor's where this host has the PE's memory, updates by its node elsewhere. Both are one step to each other. */
#include "pe.h"

#include <string.h>

#define APPLY(WORD, OPERAND)                                                                                                        \
    switch (operation) {                                                                                                            \
    case HANARE_ADD: return __atomic_fetch_add(WORD, OPERAND, __ATOMIC_SEQ_CST);                                                    \
    case HANARE_AND: return __atomic_fetch_and(WORD, OPERAND, __ATOMIC_SEQ_CST);                                                    \
    case HANARE_OR: return __atomic_fetch_or(WORD, OPERAND, __ATOMIC_SEQ_CST);                                                      \
    case HANARE_XOR: return __atomic_fetch_xor(WORD, OPERAND, __ATOMIC_SEQ_CST);                                                    \
    case HANARE_SWAP: return __atomic_exchange_n(WORD, OPERAND, __ATOMIC_SEQ_CST);                                                  \
    default: return __atomic_load_n(WORD, __ATOMIC_SEQ_CST);                                                                        \
    }

uint64_t fetch_op(const volatile void *dest, int operation, uint64_t operand, size_t size, int pe)
{
    struct target target = target_of(dest, pe);
    if (target.ptr != NULL && size == sizeof(uint32_t)) {
        uint32_t *word = (uint32_t *)target.ptr;
        APPLY(word, (uint32_t)operand)
    }
    if (target.ptr != NULL) {
        uint64_t *word = (uint64_t *)target.ptr;
        APPLY(word, operand)
    }
    uint64_t old = 0;
    hanare_shape word = hanare_shape_contiguous(target.offset, size);
    /* Numbers are little-endian in regions and here: the first bytes of 8 are those of 4. */
    checked(hanare_fetch(target.region, &word, size == sizeof old ? HANARE_U64 : HANARE_U32, operation, &operand, size, &old, size));
    return old;
}

uint64_t compare_swap(void *dest, uint64_t expected, uint64_t desired, size_t size, int pe)
{
    struct target target = target_of(dest, pe);
    if (target.ptr != NULL && size == sizeof(uint32_t)) {
        uint32_t old = (uint32_t)expected;
        __atomic_compare_exchange_n((uint32_t *)target.ptr, &old, (uint32_t)desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return old;
    }
    if (target.ptr != NULL) {
        uint64_t old = expected;
        __atomic_compare_exchange_n((uint64_t *)target.ptr, &old, desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return old;
    }
    uint64_t old = 0;
    hanare_shape word = hanare_shape_contiguous(target.offset, size);
    checked(hanare_compare_and_swap(target.region, &word, size == sizeof old ? HANARE_U64 : HANARE_U32, &expected, &desired, &old, size));
    return old;
}

/* Values of 4 and 8 bytes, floating-point numbers too, as the bits of a word. */
static uint64_t bits_of(const void *value, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, value, size);
    return bits;
}

#define RETURN_VALUE(TYPE, BITS)                                                                                                    \
    uint64_t bits = BITS;                                                                                                           \
    TYPE result;                                                                                                                    \
    memcpy(&result, &bits, sizeof result);                                                                                          \
    return result;
#define OP(DEST, OPERATION, VALUE, PE) fetch_op(DEST, OPERATION, bits_of(&(VALUE), sizeof(VALUE)), sizeof(VALUE), PE)

/* A call that returns the element before, and its form that stores it at `fetch`. */
#define FETCHING(NAME, TYPE, PREFIX, CALL, OPERATION, PE, ...)                                                                      \
    TYPE shmem_##PREFIX##NAME##_atomic_##CALL(__VA_ARGS__ TYPE *dest, TYPE value, int pe)                                           \
    {                                                                                                                               \
        RETURN_VALUE(TYPE, OP(dest, OPERATION, value, PE))                                                                          \
    }                                                                                                                               \
    void shmem_##PREFIX##NAME##_atomic_##CALL##_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest, TYPE value, int pe)                        \
    {                                                                                                                               \
        uint64_t bits = OP(dest, OPERATION, value, PE);                                                                             \
        memcpy(fetch, &bits, sizeof value);                                                                                         \
    }
#define PLAIN(NAME, TYPE, PREFIX, CALL, OPERATION, PE, ...)                                                                         \
    void shmem_##PREFIX##NAME##_atomic_##CALL(__VA_ARGS__ TYPE *dest, TYPE value, int pe) { OP(dest, OPERATION, value, PE); }

#define EXTENDED(NAME, TYPE, PREFIX, PE, ...)                                                                                       \
    TYPE shmem_##PREFIX##NAME##_atomic_fetch(__VA_ARGS__ const TYPE *source, int pe)                                                \
    {                                                                                                                               \
        RETURN_VALUE(TYPE, fetch_op(source, HANARE_LOAD, 0, sizeof(TYPE), PE))                                                      \
    }                                                                                                                               \
    void shmem_##PREFIX##NAME##_atomic_fetch_nbi(__VA_ARGS__ TYPE *fetch, const TYPE *source, int pe)                               \
    {                                                                                                                               \
        uint64_t bits = fetch_op(source, HANARE_LOAD, 0, sizeof(TYPE), PE);                                                         \
        memcpy(fetch, &bits, sizeof(TYPE));                                                                                         \
    }                                                                                                                               \
    PLAIN(NAME, TYPE, PREFIX, set, HANARE_SWAP, PE, __VA_ARGS__)                                                                    \
    FETCHING(NAME, TYPE, PREFIX, swap, HANARE_SWAP, PE, __VA_ARGS__)
#define STANDARD(NAME, TYPE, PREFIX, PE, ...)                                                                                       \
    TYPE shmem_##PREFIX##NAME##_atomic_compare_swap(__VA_ARGS__ TYPE *dest, TYPE cond, TYPE value, int pe)                          \
    {                                                                                                                               \
        return (TYPE)compare_swap(dest, bits_of(&cond, sizeof cond), bits_of(&value, sizeof value), sizeof value, PE);              \
    }                                                                                                                               \
    void shmem_##PREFIX##NAME##_atomic_compare_swap_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe)         \
    {                                                                                                                               \
        *fetch = (TYPE)compare_swap(dest, bits_of(&cond, sizeof cond), bits_of(&value, sizeof value), sizeof value, PE);            \
    }                                                                                                                               \
    void shmem_##PREFIX##NAME##_atomic_inc(__VA_ARGS__ TYPE *dest, int pe) { fetch_op(dest, HANARE_ADD, 1, sizeof *dest, PE); }     \
    TYPE shmem_##PREFIX##NAME##_atomic_fetch_inc(__VA_ARGS__ TYPE *dest, int pe)                                                    \
    {                                                                                                                               \
        return (TYPE)fetch_op(dest, HANARE_ADD, 1, sizeof *dest, PE);                                                               \
    }                                                                                                                               \
    void shmem_##PREFIX##NAME##_atomic_fetch_inc_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest, int pe)                                   \
    {                                                                                                                               \
        *fetch = (TYPE)fetch_op(dest, HANARE_ADD, 1, sizeof *dest, PE);                                                             \
    }                                                                                                                               \
    WITH_FETCH(NAME, TYPE, PREFIX, add, HANARE_ADD, PE, __VA_ARGS__)
#define WITH_FETCH(NAME, TYPE, PREFIX, CALL, OPERATION, PE, ...)                                                                    \
    PLAIN(NAME, TYPE, PREFIX, CALL, OPERATION, PE, __VA_ARGS__)                                                                     \
    FETCHING(NAME, TYPE, PREFIX, fetch_##CALL, OPERATION, PE, __VA_ARGS__)
#define BITS(NAME, TYPE, PREFIX, PE, ...)                                                                                           \
    WITH_FETCH(NAME, TYPE, PREFIX, and, HANARE_AND, PE, __VA_ARGS__) WITH_FETCH(NAME, TYPE, PREFIX, or, HANARE_OR, PE, __VA_ARGS__) \
    WITH_FETCH(NAME, TYPE, PREFIX, xor, HANARE_XOR, PE, __VA_ARGS__)

#define BOTH(KIND, NAME, TYPE) KIND(NAME, TYPE, , pe, ) KIND(NAME, TYPE, ctx_, ctx_pe(ctx, pe), shmem_ctx_t ctx, )
/* With the names that OpenSHMEM 1.3 had. */
#define EXTENDED_BOTH(NAME, TYPE)                                                                                                   \
    BOTH(EXTENDED, NAME, TYPE)                                                                                                      \
    TYPE shmem_##NAME##_fetch(const TYPE *source, int pe) { return shmem_##NAME##_atomic_fetch(source, pe); }                       \
    void shmem_##NAME##_set(TYPE *dest, TYPE value, int pe) { shmem_##NAME##_atomic_set(dest, value, pe); }                         \
    TYPE shmem_##NAME##_swap(TYPE *dest, TYPE value, int pe) { return shmem_##NAME##_atomic_swap(dest, value, pe); }
#define STANDARD_BOTH(NAME, TYPE)                                                                                                   \
    BOTH(STANDARD, NAME, TYPE)                                                                                                      \
    TYPE shmem_##NAME##_cswap(TYPE *dest, TYPE cond, TYPE value, int pe)                                                            \
    {                                                                                                                               \
        return shmem_##NAME##_atomic_compare_swap(dest, cond, value, pe);                                                           \
    }                                                                                                                               \
    TYPE shmem_##NAME##_fadd(TYPE *dest, TYPE value, int pe) { return shmem_##NAME##_atomic_fetch_add(dest, value, pe); }           \
    TYPE shmem_##NAME##_finc(TYPE *dest, int pe) { return shmem_##NAME##_atomic_fetch_inc(dest, pe); }                              \
    void shmem_##NAME##_add(TYPE *dest, TYPE value, int pe) { shmem_##NAME##_atomic_add(dest, value, pe); }                         \
    void shmem_##NAME##_inc(TYPE *dest, int pe) { shmem_##NAME##_atomic_inc(dest, pe); }
#define BITS_BOTH(NAME, TYPE) BOTH(BITS, NAME, TYPE)
SHMEM_EACH_AMO_EXTENDED(EXTENDED_BOTH)
SHMEM_EACH_AMO(STANDARD_BOTH)
SHMEM_EACH_AMO_BITS(BITS_BOTH)
