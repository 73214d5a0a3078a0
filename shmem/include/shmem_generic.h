/* shmem_generic.h: the names without a type, for C11 programs; shmem.h includes it.
 *
 * _Generic takes the typed function. The first argument decides, or the second where the first is a context. Pointers to constant
 * elements are sources of get and fetch.
 */
#ifndef SHMEM_GENERIC_H
#define SHMEM_GENERIC_H

/* Types that C tells apart; others, as size_t, are one of them. */
#define SHMEM_PICK_POINTER_(T, NAME, PREFIX, CALL) T * : shmem_##PREFIX##NAME##_##CALL, const T * : shmem_##PREFIX##NAME##_##CALL,
#define SHMEM_PICK_INTS_(PREFIX, CALL)                                                                                              \
    SHMEM_PICK_POINTER_(int, int, PREFIX, CALL) SHMEM_PICK_POINTER_(long, long, PREFIX, CALL)                                       \
    SHMEM_PICK_POINTER_(long long, longlong, PREFIX, CALL) SHMEM_PICK_BITS_(PREFIX, CALL)
#define SHMEM_PICK_BITS_(PREFIX, CALL)                                                                                              \
    SHMEM_PICK_POINTER_(unsigned int, uint, PREFIX, CALL) SHMEM_PICK_POINTER_(unsigned long, ulong, PREFIX, CALL)                   \
    SHMEM_PICK_POINTER_(unsigned long long, ulonglong, PREFIX, CALL)
#define SHMEM_PICK_EXTENDED_(PREFIX, CALL)                                                                                          \
    SHMEM_PICK_POINTER_(float, float, PREFIX, CALL) SHMEM_PICK_POINTER_(double, double, PREFIX, CALL) SHMEM_PICK_INTS_(PREFIX, CALL)
#define SHMEM_PICK_RMA_(PREFIX, CALL)                                                                                               \
    SHMEM_PICK_POINTER_(long double, longdouble, PREFIX, CALL) SHMEM_PICK_POINTER_(char, char, PREFIX, CALL)                        \
    SHMEM_PICK_POINTER_(signed char, schar, PREFIX, CALL) SHMEM_PICK_POINTER_(unsigned char, uchar, PREFIX, CALL)                   \
    SHMEM_PICK_POINTER_(short, short, PREFIX, CALL) SHMEM_PICK_POINTER_(unsigned short, ushort, PREFIX, CALL)                       \
    SHMEM_PICK_EXTENDED_(PREFIX, CALL)
/* Bitwise atomics are for the signed types of exact width, too: int32_t is int, int64_t is long. */
#define SHMEM_PICK_AMO_BITS_(PREFIX, CALL)                                                                                          \
    int32_t * : shmem_##PREFIX##int32_##CALL, int64_t * : shmem_##PREFIX##int64_##CALL, SHMEM_PICK_BITS_(PREFIX, CALL)

/* The function for the arguments: `SET` is one of the lists above, `CALL` the end of the name. */
void shmem_no_such_type_(void);
#define SHMEM_PICK_(SET, CALL, FIRST, SECOND, ...)                                                                                  \
    _Generic((FIRST), SET(, CALL) shmem_ctx_t : _Generic((SECOND), SET(ctx_, CALL) default : shmem_no_such_type_))
#define SHMEM_CALL_(SET, CALL, ...) SHMEM_PICK_(SET, CALL, __VA_ARGS__, 0)(__VA_ARGS__)

#define shmem_put(...) SHMEM_CALL_(SHMEM_PICK_RMA_, put, __VA_ARGS__)
#define shmem_get(...) SHMEM_CALL_(SHMEM_PICK_RMA_, get, __VA_ARGS__)
#define shmem_put_nbi(...) SHMEM_CALL_(SHMEM_PICK_RMA_, put_nbi, __VA_ARGS__)
#define shmem_get_nbi(...) SHMEM_CALL_(SHMEM_PICK_RMA_, get_nbi, __VA_ARGS__)
#define shmem_iput(...) SHMEM_CALL_(SHMEM_PICK_RMA_, iput, __VA_ARGS__)
#define shmem_iget(...) SHMEM_CALL_(SHMEM_PICK_RMA_, iget, __VA_ARGS__)
#define shmem_p(...) SHMEM_CALL_(SHMEM_PICK_RMA_, p, __VA_ARGS__)
#define shmem_g(...) SHMEM_CALL_(SHMEM_PICK_RMA_, g, __VA_ARGS__)
#define shmem_put_signal(...) SHMEM_CALL_(SHMEM_PICK_RMA_, put_signal, __VA_ARGS__)
#define shmem_put_signal_nbi(...) SHMEM_CALL_(SHMEM_PICK_RMA_, put_signal_nbi, __VA_ARGS__)

#define shmem_atomic_fetch(...) SHMEM_CALL_(SHMEM_PICK_EXTENDED_, atomic_fetch, __VA_ARGS__)
#define shmem_atomic_fetch_nbi(...) SHMEM_CALL_(SHMEM_PICK_EXTENDED_, atomic_fetch_nbi, __VA_ARGS__)
#define shmem_atomic_set(...) SHMEM_CALL_(SHMEM_PICK_EXTENDED_, atomic_set, __VA_ARGS__)
#define shmem_atomic_swap(...) SHMEM_CALL_(SHMEM_PICK_EXTENDED_, atomic_swap, __VA_ARGS__)
#define shmem_atomic_swap_nbi(...) SHMEM_CALL_(SHMEM_PICK_EXTENDED_, atomic_swap_nbi, __VA_ARGS__)
#define shmem_atomic_compare_swap(...) SHMEM_CALL_(SHMEM_PICK_INTS_, atomic_compare_swap, __VA_ARGS__)
#define shmem_atomic_compare_swap_nbi(...) SHMEM_CALL_(SHMEM_PICK_INTS_, atomic_compare_swap_nbi, __VA_ARGS__)
#define shmem_atomic_inc(...) SHMEM_CALL_(SHMEM_PICK_INTS_, atomic_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc(...) SHMEM_CALL_(SHMEM_PICK_INTS_, atomic_fetch_inc, __VA_ARGS__)
#define shmem_atomic_fetch_inc_nbi(...) SHMEM_CALL_(SHMEM_PICK_INTS_, atomic_fetch_inc_nbi, __VA_ARGS__)
#define shmem_atomic_add(...) SHMEM_CALL_(SHMEM_PICK_INTS_, atomic_add, __VA_ARGS__)
#define shmem_atomic_fetch_add(...) SHMEM_CALL_(SHMEM_PICK_INTS_, atomic_fetch_add, __VA_ARGS__)
#define shmem_atomic_fetch_add_nbi(...) SHMEM_CALL_(SHMEM_PICK_INTS_, atomic_fetch_add_nbi, __VA_ARGS__)
#define shmem_atomic_and(...) SHMEM_CALL_(SHMEM_PICK_AMO_BITS_, atomic_and, __VA_ARGS__)
#define shmem_atomic_fetch_and(...) SHMEM_CALL_(SHMEM_PICK_AMO_BITS_, atomic_fetch_and, __VA_ARGS__)
#define shmem_atomic_fetch_and_nbi(...) SHMEM_CALL_(SHMEM_PICK_AMO_BITS_, atomic_fetch_and_nbi, __VA_ARGS__)
#define shmem_atomic_or(...) SHMEM_CALL_(SHMEM_PICK_AMO_BITS_, atomic_or, __VA_ARGS__)
#define shmem_atomic_fetch_or(...) SHMEM_CALL_(SHMEM_PICK_AMO_BITS_, atomic_fetch_or, __VA_ARGS__)
#define shmem_atomic_fetch_or_nbi(...) SHMEM_CALL_(SHMEM_PICK_AMO_BITS_, atomic_fetch_or_nbi, __VA_ARGS__)
#define shmem_atomic_xor(...) SHMEM_CALL_(SHMEM_PICK_AMO_BITS_, atomic_xor, __VA_ARGS__)
#define shmem_atomic_fetch_xor(...) SHMEM_CALL_(SHMEM_PICK_AMO_BITS_, atomic_fetch_xor, __VA_ARGS__)
#define shmem_atomic_fetch_xor_nbi(...) SHMEM_CALL_(SHMEM_PICK_AMO_BITS_, atomic_fetch_xor_nbi, __VA_ARGS__)
/* Deprecated. */
#define shmem_fetch(...) shmem_atomic_fetch(__VA_ARGS__)
#define shmem_set(...) shmem_atomic_set(__VA_ARGS__)
#define shmem_swap(...) shmem_atomic_swap(__VA_ARGS__)
#define shmem_cswap(...) shmem_atomic_compare_swap(__VA_ARGS__)
#define shmem_fadd(...) shmem_atomic_fetch_add(__VA_ARGS__)
#define shmem_finc(...) shmem_atomic_fetch_inc(__VA_ARGS__)
#define shmem_add(...) shmem_atomic_add(__VA_ARGS__)
#define shmem_inc(...) shmem_atomic_inc(__VA_ARGS__)

/* By the type of what a pointer points to. */
#define SHMEM_PICK_VALUE_(T, NAME, CALL) T : shmem_##NAME##_##CALL
#define SHMEM_PICK_UNSIGNED_VALUE_(CALL)                                                                                            \
    SHMEM_PICK_VALUE_(unsigned short, ushort, CALL), SHMEM_PICK_VALUE_(unsigned int, uint, CALL),                                   \
        SHMEM_PICK_VALUE_(unsigned long, ulong, CALL), SHMEM_PICK_VALUE_(unsigned long long, ulonglong, CALL)
#define SHMEM_PICK_WAIT_(CALL)                                                                                                      \
    SHMEM_PICK_VALUE_(short, short, CALL), SHMEM_PICK_VALUE_(int, int, CALL), SHMEM_PICK_VALUE_(long, long, CALL),                  \
        SHMEM_PICK_VALUE_(long long, longlong, CALL), SHMEM_PICK_UNSIGNED_VALUE_(CALL)
#define SHMEM_PICK_ORDER_(CALL)                                                                                                     \
    SHMEM_PICK_VALUE_(float, float, CALL), SHMEM_PICK_VALUE_(double, double, CALL),                                                 \
        SHMEM_PICK_VALUE_(long double, longdouble, CALL), SHMEM_PICK_VALUE_(char, char, CALL),                                      \
        SHMEM_PICK_VALUE_(signed char, schar, CALL), SHMEM_PICK_VALUE_(unsigned char, uchar, CALL), SHMEM_PICK_WAIT_(CALL)
#define SHMEM_PICK_SUM_(CALL)                                                                                                       \
    SHMEM_PICK_VALUE_(float _Complex, complexf, CALL), SHMEM_PICK_VALUE_(double _Complex, complexd, CALL), SHMEM_PICK_ORDER_(CALL)
#define SHMEM_PICK_REDUCE_BITS_(CALL)                                                                                               \
    SHMEM_PICK_VALUE_(unsigned char, uchar, CALL), SHMEM_PICK_VALUE_(int8_t, int8, CALL), SHMEM_PICK_VALUE_(int16_t, int16, CALL),  \
        SHMEM_PICK_VALUE_(int32_t, int32, CALL), SHMEM_PICK_VALUE_(int64_t, int64, CALL), SHMEM_PICK_UNSIGNED_VALUE_(CALL)
#define SHMEM_BY_VALUE_(SET, CALL, POINTER) _Generic(*(POINTER), SET(CALL))

#define shmem_wait_until(ivar, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, wait_until, ivar)(ivar, __VA_ARGS__)
#define shmem_wait_until_all(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, wait_until_all, ivars)(ivars, __VA_ARGS__)
#define shmem_wait_until_any(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, wait_until_any, ivars)(ivars, __VA_ARGS__)
#define shmem_wait_until_some(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, wait_until_some, ivars)(ivars, __VA_ARGS__)
#define shmem_wait_until_all_vector(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, wait_until_all_vector, ivars)(ivars, __VA_ARGS__)
#define shmem_wait_until_any_vector(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, wait_until_any_vector, ivars)(ivars, __VA_ARGS__)
#define shmem_wait_until_some_vector(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, wait_until_some_vector, ivars)(ivars, __VA_ARGS__)
#define shmem_test(ivar, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, test, ivar)(ivar, __VA_ARGS__)
#define shmem_test_all(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, test_all, ivars)(ivars, __VA_ARGS__)
#define shmem_test_any(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, test_any, ivars)(ivars, __VA_ARGS__)
#define shmem_test_some(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, test_some, ivars)(ivars, __VA_ARGS__)
#define shmem_test_all_vector(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, test_all_vector, ivars)(ivars, __VA_ARGS__)
#define shmem_test_any_vector(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, test_any_vector, ivars)(ivars, __VA_ARGS__)
#define shmem_test_some_vector(ivars, ...) SHMEM_BY_VALUE_(SHMEM_PICK_WAIT_, test_some_vector, ivars)(ivars, __VA_ARGS__)

#define shmem_broadcast(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_ORDER_, broadcast, dest)(team, dest, __VA_ARGS__)
#define shmem_collect(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_ORDER_, collect, dest)(team, dest, __VA_ARGS__)
#define shmem_fcollect(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_ORDER_, fcollect, dest)(team, dest, __VA_ARGS__)
#define shmem_alltoall(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_ORDER_, alltoall, dest)(team, dest, __VA_ARGS__)
#define shmem_alltoalls(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_ORDER_, alltoalls, dest)(team, dest, __VA_ARGS__)
#define shmem_and_reduce(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_REDUCE_BITS_, and_reduce, dest)(team, dest, __VA_ARGS__)
#define shmem_or_reduce(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_REDUCE_BITS_, or_reduce, dest)(team, dest, __VA_ARGS__)
#define shmem_xor_reduce(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_REDUCE_BITS_, xor_reduce, dest)(team, dest, __VA_ARGS__)
#define shmem_max_reduce(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_ORDER_, max_reduce, dest)(team, dest, __VA_ARGS__)
#define shmem_min_reduce(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_ORDER_, min_reduce, dest)(team, dest, __VA_ARGS__)
#define shmem_sum_reduce(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_SUM_, sum_reduce, dest)(team, dest, __VA_ARGS__)
#define shmem_prod_reduce(team, dest, ...) SHMEM_BY_VALUE_(SHMEM_PICK_SUM_, prod_reduce, dest)(team, dest, __VA_ARGS__)

/* A team, or an active set. */
#define SHMEM_FIRST_(FIRST, ...) (FIRST)
#define shmem_sync(...) _Generic(SHMEM_FIRST_(__VA_ARGS__, 0), shmem_team_t : shmem_team_sync, default : shmem_sync)(__VA_ARGS__)

#endif
