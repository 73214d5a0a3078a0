/* shmem.h: OpenSHMEM 1.5 over hanare.h, for C99, C11 and C++.
 *
 * The calls are those of the OpenSHMEM specification, whose words this header keeps: a PE is a rank of the job, symmetric memory is
 * memory that lies at one place in each PE. docs/openshmem.md has what is refused. Build with oshcc, start with oshrun.
 *
 * Typed functions are declared by lists of types: SHMEM_EACH_RMA(X) calls X(name, type) for each. C11 programs have the names without a
 * type, too: shmem_put(dest, source, nelems, pe). These are macros of shmem_generic.h.
 */
#ifndef SHMEM_H
#define SHMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* ---- Numbers ---------------------------------------------------------------------------------------------------- */

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_MAX_NAME_LEN 64
#define SHMEM_VENDOR_STRING "Hanare OpenSHMEM"

enum { SHMEM_THREAD_SINGLE, SHMEM_THREAD_FUNNELED, SHMEM_THREAD_SERIALIZED, SHMEM_THREAD_MULTIPLE };
enum { SHMEM_CMP_EQ = 1, SHMEM_CMP_NE, SHMEM_CMP_GT, SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE };
enum { SHMEM_SIGNAL_SET = 1, SHMEM_SIGNAL_ADD };

#define SHMEM_CTX_SERIALIZED 1L
#define SHMEM_CTX_PRIVATE 2L
#define SHMEM_CTX_NOSTORE 4L
#define SHMEM_TEAM_NUM_CONTEXTS 1L
#define SHMEM_MALLOC_ATOMICS_REMOTE 1L
#define SHMEM_MALLOC_SIGNAL_REMOTE 2L

/* Words of a pSync, for all operations on active sets. */
#define SHMEM_SYNC_VALUE 0L
#define SHMEM_SYNC_SIZE 24
#define SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

/* Handles. The constants are numbers, so that programs need no variable of the library. */
typedef struct shmem_team *shmem_team_t;
typedef struct shmem_ctx *shmem_ctx_t;
typedef struct shmem_team_config {
    int num_contexts;
} shmem_team_config_t;

#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)
#define SHMEM_TEAM_SHARED ((shmem_team_t)2)
#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)

/* ---- Types ------------------------------------------------------------------------------------------------------ */

#define SHMEM_EACH_EXACT_(X)                                                                                                        \
    X(int8, int8_t) X(int16, int16_t) X(int32, int32_t) X(int64, int64_t) X(uint8, uint8_t) X(uint16, uint16_t)                     \
    X(uint32, uint32_t) X(uint64, uint64_t) X(size, size_t)
#define SHMEM_EACH_FLOAT_(X) X(float, float) X(double, double) X(longdouble, long double)
#define SHMEM_EACH_UNSIGNED_(X)                                                                                                     \
    X(uchar, unsigned char) X(ushort, unsigned short) X(uint, unsigned int) X(ulong, unsigned long)                                 \
    X(ulonglong, unsigned long long)
#define SHMEM_EACH_SIGNED_(X)                                                                                                       \
    X(char, char) X(schar, signed char) X(short, short) X(int, int) X(long, long) X(longlong, long long) X(ptrdiff, ptrdiff_t)
#define SHMEM_EACH_COMPLEX_(X) X(complexf, float _Complex) X(complexd, double _Complex)

/* put, get and collective operations. */
#define SHMEM_EACH_RMA(X) SHMEM_EACH_FLOAT_(X) SHMEM_EACH_SIGNED_(X) SHMEM_EACH_UNSIGNED_(X) SHMEM_EACH_EXACT_(X)
/* Atomic fetch, set and swap. */
#define SHMEM_EACH_AMO_EXTENDED(X) X(float, float) X(double, double) SHMEM_EACH_AMO(X)
/* Atomic add, increment and compare-and-swap. */
#define SHMEM_EACH_AMO(X)                                                                                                           \
    X(int, int) X(long, long) X(longlong, long long) X(uint, unsigned int) X(ulong, unsigned long)                                  \
    X(ulonglong, unsigned long long) X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t) X(uint64, uint64_t)                    \
    X(size, size_t) X(ptrdiff, ptrdiff_t)
/* Atomic and, or, xor. */
#define SHMEM_EACH_AMO_BITS(X)                                                                                                      \
    X(uint, unsigned int) X(ulong, unsigned long) X(ulonglong, unsigned long long) X(int32, int32_t) X(int64, int64_t)              \
    X(uint32, uint32_t) X(uint64, uint64_t)
/* Waits and tests. */
#define SHMEM_EACH_WAIT(X) X(short, short) X(ushort, unsigned short) SHMEM_EACH_AMO(X)
/* Reductions of teams: and, or, xor; max, min; sum, prod. */
#define SHMEM_EACH_REDUCE_BITS(X) SHMEM_EACH_UNSIGNED_(X) SHMEM_EACH_EXACT_(X)
#define SHMEM_EACH_REDUCE_ORDER(X) SHMEM_EACH_RMA(X)
#define SHMEM_EACH_REDUCE_SUM(X) SHMEM_EACH_RMA(X) SHMEM_EACH_COMPLEX_(X)
/* Reductions of active sets: and, or, xor; max, min; sum, prod. */
#define SHMEM_EACH_TO_ALL_BITS(X) X(short, short) X(int, int) X(long, long) X(longlong, long long)
#define SHMEM_EACH_TO_ALL_ORDER(X) SHMEM_EACH_TO_ALL_BITS(X) SHMEM_EACH_FLOAT_(X)
#define SHMEM_EACH_TO_ALL_SUM(X) SHMEM_EACH_TO_ALL_ORDER(X) SHMEM_EACH_COMPLEX_(X)
/* Widths of untyped put and get, in bits. */
#define SHMEM_EACH_WIDTH(X) X(8) X(16) X(32) X(64) X(128)

/* ---- Start, end, queries ---------------------------------------------------------------------------------------- */

void shmem_init(void);
int shmem_init_thread(int requested, int *provided);
void shmem_finalize(void);
void shmem_global_exit(int status) __attribute__((noreturn));
void shmem_query_thread(int *provided);
int shmem_my_pe(void);
int shmem_n_pes(void);
int shmem_pe_accessible(int pe);
int shmem_addr_accessible(const void *addr, int pe);
void *shmem_ptr(const void *dest, int pe);
void shmem_info_get_version(int *major, int *minor);
void shmem_info_get_name(char *name);
void shmem_pcontrol(int level, ...);
/* Deprecated. */
void start_pes(int npes);
int _my_pe(void);
int _num_pes(void);

/* ---- Symmetric heap --------------------------------------------------------------------------------------------- */

void *shmem_malloc(size_t size);
void *shmem_malloc_with_hints(size_t size, long hints);
void *shmem_calloc(size_t count, size_t size);
void *shmem_align(size_t alignment, size_t size);
void *shmem_realloc(void *ptr, size_t size);
void shmem_free(void *ptr);

/* ---- Teams and contexts ----------------------------------------------------------------------------------------- */

int shmem_team_my_pe(shmem_team_t team);
int shmem_team_n_pes(shmem_team_t team);
int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t *config);
int shmem_team_translate_pe(shmem_team_t from, int pe, shmem_team_t to);
int shmem_team_split_strided(shmem_team_t parent, int start, int stride, int size, const shmem_team_config_t *config,
                             long config_mask, shmem_team_t *team);
int shmem_team_split_2d(shmem_team_t parent, int xrange, const shmem_team_config_t *xaxis_config, long xaxis_mask,
                        shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask,
                        shmem_team_t *yaxis_team);
void shmem_team_destroy(shmem_team_t team);
void *shmem_team_ptr(shmem_team_t team, const void *dest, int pe);
int shmem_ctx_create(long options, shmem_ctx_t *ctx);
int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx);
void shmem_ctx_destroy(shmem_ctx_t ctx);
int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team);

/* ---- Put and get ------------------------------------------------------------------------------------------------ */

void shmem_putmem(void *dest, const void *source, size_t nelems, int pe);
void shmem_getmem(void *dest, const void *source, size_t nelems, int pe);
void shmem_putmem_nbi(void *dest, const void *source, size_t nelems, int pe);
void shmem_getmem_nbi(void *dest, const void *source, size_t nelems, int pe);
void shmem_putmem_signal(void *dest, const void *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe);
void shmem_putmem_signal_nbi(void *dest, const void *source, size_t nelems, uint64_t *sig_addr, uint64_t signal, int sig_op, int pe);
void shmem_ctx_putmem(shmem_ctx_t ctx, void *dest, const void *source, size_t nelems, int pe);
void shmem_ctx_getmem(shmem_ctx_t ctx, void *dest, const void *source, size_t nelems, int pe);
void shmem_ctx_putmem_nbi(shmem_ctx_t ctx, void *dest, const void *source, size_t nelems, int pe);
void shmem_ctx_getmem_nbi(shmem_ctx_t ctx, void *dest, const void *source, size_t nelems, int pe);
void shmem_ctx_putmem_signal(shmem_ctx_t ctx, void *dest, const void *source, size_t nelems, uint64_t *sig_addr, uint64_t signal,
                             int sig_op, int pe);
void shmem_ctx_putmem_signal_nbi(shmem_ctx_t ctx, void *dest, const void *source, size_t nelems, uint64_t *sig_addr, uint64_t signal,
                                 int sig_op, int pe);

/* Each call is declared twice: without a context, and with one as the first of `...`. */
#define SHMEM_PUT_GET_(NAME, TYPE, PREFIX, ...)                                                                                     \
    void shmem_##PREFIX##put##NAME(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, int pe);                              \
    void shmem_##PREFIX##get##NAME(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, int pe);                              \
    void shmem_##PREFIX##put##NAME##_nbi(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, int pe);                        \
    void shmem_##PREFIX##get##NAME##_nbi(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, int pe);                        \
    void shmem_##PREFIX##iput##NAME(__VA_ARGS__ TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe); \
    void shmem_##PREFIX##iget##NAME(__VA_ARGS__ TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe); \
    void shmem_##PREFIX##put##NAME##_signal(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, uint64_t *sig_addr,          \
                                            uint64_t signal, int sig_op, int pe);                                                   \
    void shmem_##PREFIX##put##NAME##_signal_nbi(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, uint64_t *sig_addr,      \
                                                uint64_t signal, int sig_op, int pe);
#define SHMEM_ONE_(NAME, TYPE)                                                                                                      \
    void shmem_##NAME##_p(TYPE *dest, TYPE value, int pe);                                                                          \
    TYPE shmem_##NAME##_g(const TYPE *source, int pe);                                                                              \
    void shmem_ctx_##NAME##_p(shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe);                                                     \
    TYPE shmem_ctx_##NAME##_g(shmem_ctx_t ctx, const TYPE *source, int pe);
#define SHMEM_TYPED_(NAME, TYPE)                                                                                                    \
    SHMEM_PUT_GET_(, TYPE, NAME##_, ) SHMEM_PUT_GET_(, TYPE, ctx_##NAME##_, shmem_ctx_t ctx, ) SHMEM_ONE_(NAME, TYPE)
#define SHMEM_SIZED_(BITS) SHMEM_PUT_GET_(BITS, void, , ) SHMEM_PUT_GET_(BITS, void, ctx_, shmem_ctx_t ctx, )
SHMEM_EACH_RMA(SHMEM_TYPED_)
SHMEM_EACH_WIDTH(SHMEM_SIZED_)

/* ---- Order ------------------------------------------------------------------------------------------------------ */

void shmem_fence(void);
void shmem_quiet(void);
void shmem_ctx_fence(shmem_ctx_t ctx);
void shmem_ctx_quiet(shmem_ctx_t ctx);

/* ---- Atomic operations ------------------------------------------------------------------------------------------ */

#define SHMEM_AMO_EXTENDED_(NAME, TYPE, PREFIX, ...)                                                                                \
    TYPE shmem_##PREFIX##NAME##_atomic_fetch(__VA_ARGS__ const TYPE *source, int pe);                                               \
    void shmem_##PREFIX##NAME##_atomic_fetch_nbi(__VA_ARGS__ TYPE *fetch, const TYPE *source, int pe);                              \
    void shmem_##PREFIX##NAME##_atomic_set(__VA_ARGS__ TYPE *dest, TYPE value, int pe);                                             \
    TYPE shmem_##PREFIX##NAME##_atomic_swap(__VA_ARGS__ TYPE *dest, TYPE value, int pe);                                            \
    void shmem_##PREFIX##NAME##_atomic_swap_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest, TYPE value, int pe);
#define SHMEM_AMO_(NAME, TYPE, PREFIX, ...)                                                                                         \
    TYPE shmem_##PREFIX##NAME##_atomic_compare_swap(__VA_ARGS__ TYPE *dest, TYPE cond, TYPE value, int pe);                         \
    void shmem_##PREFIX##NAME##_atomic_compare_swap_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe);        \
    void shmem_##PREFIX##NAME##_atomic_inc(__VA_ARGS__ TYPE *dest, int pe);                                                         \
    TYPE shmem_##PREFIX##NAME##_atomic_fetch_inc(__VA_ARGS__ TYPE *dest, int pe);                                                   \
    void shmem_##PREFIX##NAME##_atomic_fetch_inc_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest, int pe);                                  \
    SHMEM_AMO_OP_(NAME, TYPE, PREFIX, add, __VA_ARGS__)
#define SHMEM_AMO_BITS_(NAME, TYPE, PREFIX, ...)                                                                                    \
    SHMEM_AMO_OP_(NAME, TYPE, PREFIX, and, __VA_ARGS__) SHMEM_AMO_OP_(NAME, TYPE, PREFIX, or, __VA_ARGS__)                          \
    SHMEM_AMO_OP_(NAME, TYPE, PREFIX, xor, __VA_ARGS__)
#define SHMEM_AMO_OP_(NAME, TYPE, PREFIX, OP, ...)                                                                                  \
    void shmem_##PREFIX##NAME##_atomic_##OP(__VA_ARGS__ TYPE *dest, TYPE value, int pe);                                            \
    TYPE shmem_##PREFIX##NAME##_atomic_fetch_##OP(__VA_ARGS__ TYPE *dest, TYPE value, int pe);                                      \
    void shmem_##PREFIX##NAME##_atomic_fetch_##OP##_nbi(__VA_ARGS__ TYPE *fetch, TYPE *dest, TYPE value, int pe);
#define SHMEM_AMO_EXTENDED_BOTH_(NAME, TYPE)                                                                                        \
    SHMEM_AMO_EXTENDED_(NAME, TYPE, , ) SHMEM_AMO_EXTENDED_(NAME, TYPE, ctx_, shmem_ctx_t ctx, )                                    \
    TYPE shmem_##NAME##_fetch(const TYPE *source, int pe);                                                                          \
    void shmem_##NAME##_set(TYPE *dest, TYPE value, int pe);                                                                        \
    TYPE shmem_##NAME##_swap(TYPE *dest, TYPE value, int pe);
#define SHMEM_AMO_BOTH_(NAME, TYPE)                                                                                                 \
    SHMEM_AMO_(NAME, TYPE, , ) SHMEM_AMO_(NAME, TYPE, ctx_, shmem_ctx_t ctx, )                                                      \
    TYPE shmem_##NAME##_cswap(TYPE *dest, TYPE cond, TYPE value, int pe);                                                           \
    TYPE shmem_##NAME##_fadd(TYPE *dest, TYPE value, int pe);                                                                       \
    TYPE shmem_##NAME##_finc(TYPE *dest, int pe);                                                                                   \
    void shmem_##NAME##_add(TYPE *dest, TYPE value, int pe);                                                                        \
    void shmem_##NAME##_inc(TYPE *dest, int pe);
#define SHMEM_AMO_BITS_BOTH_(NAME, TYPE) SHMEM_AMO_BITS_(NAME, TYPE, , ) SHMEM_AMO_BITS_(NAME, TYPE, ctx_, shmem_ctx_t ctx, )
SHMEM_EACH_AMO_EXTENDED(SHMEM_AMO_EXTENDED_BOTH_)
SHMEM_EACH_AMO(SHMEM_AMO_BOTH_)
SHMEM_EACH_AMO_BITS(SHMEM_AMO_BITS_BOTH_)

/* ---- Waits, tests, signals, locks ------------------------------------------------------------------------------- */

#define SHMEM_WAIT_(NAME, TYPE)                                                                                                     \
    void shmem_##NAME##_wait_until(volatile TYPE *ivar, int cmp, TYPE value);                                                       \
    int shmem_##NAME##_test(volatile TYPE *ivar, int cmp, TYPE value);                                                              \
    SHMEM_WAIT_MANY_(NAME, TYPE, , TYPE value) SHMEM_WAIT_MANY_(NAME, TYPE, _vector, TYPE *values)
#define SHMEM_WAIT_MANY_(NAME, TYPE, SUFFIX, LAST)                                                                                  \
    void shmem_##NAME##_wait_until_all##SUFFIX(volatile TYPE *ivars, size_t nelems, const int *status, int cmp, LAST);              \
    size_t shmem_##NAME##_wait_until_any##SUFFIX(volatile TYPE *ivars, size_t nelems, const int *status, int cmp, LAST);            \
    size_t shmem_##NAME##_wait_until_some##SUFFIX(volatile TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, \
                                                  LAST);                                                                            \
    int shmem_##NAME##_test_all##SUFFIX(volatile TYPE *ivars, size_t nelems, const int *status, int cmp, LAST);                     \
    size_t shmem_##NAME##_test_any##SUFFIX(volatile TYPE *ivars, size_t nelems, const int *status, int cmp, LAST);                  \
    size_t shmem_##NAME##_test_some##SUFFIX(volatile TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, LAST);
SHMEM_EACH_WAIT(SHMEM_WAIT_)

uint64_t shmem_signal_fetch(const uint64_t *sig_addr);
uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t value);
void shmem_set_lock(long *lock);
void shmem_clear_lock(long *lock);
int shmem_test_lock(long *lock);

/* ---- Collective operations -------------------------------------------------------------------------------------- */

void shmem_barrier_all(void);
void shmem_sync_all(void);
int shmem_team_sync(shmem_team_t team);
void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync);
void shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync);

#define SHMEM_COLLECTIVE_(NAME, TYPE)                                                                                               \
    int shmem_##NAME##_broadcast(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, int PE_root);                    \
    int shmem_##NAME##_collect(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems);                                   \
    int shmem_##NAME##_fcollect(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems);                                  \
    int shmem_##NAME##_alltoall(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems);                                  \
    int shmem_##NAME##_alltoalls(shmem_team_t team, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems);
SHMEM_EACH_RMA(SHMEM_COLLECTIVE_)
int shmem_broadcastmem(shmem_team_t team, void *dest, const void *source, size_t nelems, int PE_root);
int shmem_collectmem(shmem_team_t team, void *dest, const void *source, size_t nelems);
int shmem_fcollectmem(shmem_team_t team, void *dest, const void *source, size_t nelems);
int shmem_alltoallmem(shmem_team_t team, void *dest, const void *source, size_t nelems);
int shmem_alltoallsmem(shmem_team_t team, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems);
#define SHMEM_ACTIVE_SET_(BITS)                                                                                                     \
    void shmem_broadcast##BITS(void *dest, const void *source, size_t nelems, int PE_root, int PE_start, int logPE_stride,          \
                               int PE_size, long *pSync);                                                                           \
    void shmem_collect##BITS(void *dest, const void *source, size_t nelems, int PE_start, int logPE_stride, int PE_size,            \
                             long *pSync);                                                                                          \
    void shmem_fcollect##BITS(void *dest, const void *source, size_t nelems, int PE_start, int logPE_stride, int PE_size,           \
                              long *pSync);                                                                                         \
    void shmem_alltoall##BITS(void *dest, const void *source, size_t nelems, int PE_start, int logPE_stride, int PE_size,           \
                              long *pSync);                                                                                         \
    void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int PE_start,           \
                               int logPE_stride, int PE_size, long *pSync);
SHMEM_ACTIVE_SET_(32)
SHMEM_ACTIVE_SET_(64)

#define SHMEM_REDUCE_(NAME, TYPE, OP) int shmem_##NAME##_##OP##_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce);
#define SHMEM_REDUCE_BITS_(NAME, TYPE) SHMEM_REDUCE_(NAME, TYPE, and) SHMEM_REDUCE_(NAME, TYPE, or) SHMEM_REDUCE_(NAME, TYPE, xor)
#define SHMEM_REDUCE_ORDER_(NAME, TYPE) SHMEM_REDUCE_(NAME, TYPE, max) SHMEM_REDUCE_(NAME, TYPE, min)
#define SHMEM_REDUCE_SUM_(NAME, TYPE) SHMEM_REDUCE_(NAME, TYPE, sum) SHMEM_REDUCE_(NAME, TYPE, prod)
SHMEM_EACH_REDUCE_BITS(SHMEM_REDUCE_BITS_)
SHMEM_EACH_REDUCE_ORDER(SHMEM_REDUCE_ORDER_)
SHMEM_EACH_REDUCE_SUM(SHMEM_REDUCE_SUM_)
#define SHMEM_TO_ALL_(NAME, TYPE, OP)                                                                                               \
    void shmem_##NAME##_##OP##_to_all(TYPE *dest, const TYPE *source, int nreduce, int PE_start, int logPE_stride, int PE_size,     \
                                      TYPE *pWrk, long *pSync);
#define SHMEM_TO_ALL_BITS_(NAME, TYPE) SHMEM_TO_ALL_(NAME, TYPE, and) SHMEM_TO_ALL_(NAME, TYPE, or) SHMEM_TO_ALL_(NAME, TYPE, xor)
#define SHMEM_TO_ALL_ORDER_(NAME, TYPE) SHMEM_TO_ALL_(NAME, TYPE, max) SHMEM_TO_ALL_(NAME, TYPE, min)
#define SHMEM_TO_ALL_SUM_(NAME, TYPE) SHMEM_TO_ALL_(NAME, TYPE, sum) SHMEM_TO_ALL_(NAME, TYPE, prod)
SHMEM_EACH_TO_ALL_BITS(SHMEM_TO_ALL_BITS_)
SHMEM_EACH_TO_ALL_ORDER(SHMEM_TO_ALL_ORDER_)
SHMEM_EACH_TO_ALL_SUM(SHMEM_TO_ALL_SUM_)

#pragma GCC visibility pop

#ifdef __cplusplus
}
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#include "shmem_generic.h"
#endif

#endif
