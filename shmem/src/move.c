/* Put and get: copies where this host has the PE's memory, commands to its node elsewhere.
 *
 * A call returns when the bytes are at their home. Calls whose names end in _nbi begin commands, and quiet and fence wait for them. So many
 * are under way at a time. */
#include "pe.h"

#include <pthread.h>
#include <string.h>

/* Commands under way at a time, of all threads and contexts. One more waits for all. */
#define COMMAND_COUNT_MAX 64

static pthread_mutex_t commands_lock = PTHREAD_MUTEX_INITIALIZER;
static hanare_request *commands[COMMAND_COUNT_MAX];
static size_t command_count;

static void complete_locked(void)
{
    checked(hanare_wait_all(commands, command_count));
    __atomic_store_n(&command_count, 0, __ATOMIC_RELEASE);
}

void complete(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&command_count, __ATOMIC_ACQUIRE) == 0)
        return;
    pthread_mutex_lock(&commands_lock);
    complete_locked();
    pthread_mutex_unlock(&commands_lock);
}

static void begin(hanare_request *command)
{
    pthread_mutex_lock(&commands_lock);
    if (command_count == COMMAND_COUNT_MAX)
        complete_locked();
    commands[command_count] = command;
    __atomic_store_n(&command_count, command_count + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&commands_lock);
}

void put_bytes(void *dest, const void *source, size_t len, int pe)
{
    if (len == 0)
        return;
    struct target target = target_of(dest, pe);
    if (target.ptr != NULL)
        memcpy(target.ptr, source, len);
    else
        checked(hanare_put(target.region, target.offset, source, len));
}

void get_bytes(void *dest, const void *source, size_t len, int pe)
{
    if (len == 0)
        return;
    struct target target = target_of(source, pe);
    if (target.ptr != NULL)
        memcpy(dest, target.ptr, len);
    else
        checked(hanare_get(target.region, target.offset, dest, len));
}

void begin_put(void *dest, const void *source, size_t len, int pe)
{
    struct target target = {NULL, NULL, 0};
    hanare_request *command;
    if (len == 0 || (target = target_of(dest, pe)).ptr != NULL) {
        put_bytes(dest, source, len, pe);
    } else {
        checked(hanare_put_nb(target.region, target.offset, source, len, &command));
        begin(command);
    }
}

void begin_get(void *dest, const void *source, size_t len, int pe)
{
    struct target target = {NULL, NULL, 0};
    hanare_request *command;
    if (len == 0 || (target = target_of(source, pe)).ptr != NULL) {
        get_bytes(dest, source, len, pe);
    } else {
        checked(hanare_get_nb(target.region, target.offset, dest, len, &command));
        begin(command);
    }
}

/* Copies elements; strides are in elements. */
static void copy_strided(char *dest, const char *source, struct stride by, size_t count, size_t size)
{
    for (size_t at = 0; at < count; at++, dest += by.dest * (ptrdiff_t)size, source += by.source * (ptrdiff_t)size)
        memcpy(dest, source, size);
}

/* Elements of one side of a strided command. */
static hanare_shape elements(uint64_t offset, ptrdiff_t stride, size_t count, size_t size)
{
    return hanare_shape_strided(offset, size, count, (uint64_t)stride * size);
}

/* Bytes from the first element's begin to the last one's end. */
static size_t span_len(ptrdiff_t stride, size_t count, size_t size) { return ((count - 1) * (size_t)stride + 1) * size; }

void put_strided(void *dest, const void *source, struct stride by, size_t count, size_t size, int pe)
{
    if (count == 0)
        return;
    struct target target = target_of(dest, pe);
    if (target.ptr != NULL) {
        copy_strided(target.ptr, source, by, count, size);
        return;
    }
    hanare_shape there = elements(target.offset, by.dest, count, size), here = elements(0, by.source, count, size);
    checked(hanare_put_shape(target.region, &there, source, span_len(by.source, count, size), &here));
}

void get_strided(void *dest, const void *source, struct stride by, size_t count, size_t size, int pe)
{
    if (count == 0)
        return;
    struct target target = target_of(source, pe);
    if (target.ptr != NULL) {
        copy_strided(dest, target.ptr, by, count, size);
        return;
    }
    hanare_shape there = elements(target.offset, by.source, count, size), here = elements(0, by.dest, count, size);
    checked(hanare_get_shape(target.region, &there, dest, span_len(by.dest, count, size), &here));
}

/* Puts bytes, then sets or adds to the signal: who sees the signal sees the bytes. */
static void put_signal(void *dest, const void *source, size_t len, uint64_t *signal, uint64_t value, int operation, int pe)
{
    int update = operation == SHMEM_SIGNAL_ADD ? HANARE_ADD : HANARE_SWAP;
    struct target word = target_of(signal, pe);
    if (word.ptr == NULL && len > 0) {
        checked(hanare_put_signal(word.region, target_of(dest, pe).offset, source, len, word.region, word.offset, update, value));
        return;
    }
    put_bytes(dest, source, len, pe);
    fetch_op(signal, update, value, sizeof *signal, pe);
}

/* Puts one element, in one step. */
static void put_one(void *dest, const void *value, size_t size, int pe)
{
    struct target target = target_of(dest, pe);
    /* memcpy may store a word twice, and take back what its reader stored meanwhile. */
    if (target.ptr != NULL && size == 8 && (uintptr_t)target.ptr % 8 == 0) {
        uint64_t bits;
        memcpy(&bits, value, 8);
        __atomic_store_n((uint64_t *)target.ptr, bits, __ATOMIC_RELEASE);
    } else if (target.ptr != NULL && size == 4 && (uintptr_t)target.ptr % 4 == 0) {
        uint32_t bits;
        memcpy(&bits, value, 4);
        __atomic_store_n((uint32_t *)target.ptr, bits, __ATOMIC_RELEASE);
    } else if (target.ptr == NULL && (size == 4 || size == 8) && target.offset % size == 0) {
        uint64_t bits = 0;
        memcpy(&bits, value, size);
        fetch_op(dest, HANARE_SWAP, bits, size, pe);
    } else {
        put_bytes(dest, value, size, pe);
    }
}

void shmem_fence(void) { complete(); }
void shmem_quiet(void) { complete(); }

void shmem_ctx_fence(shmem_ctx_t ctx)
{
    (void)ctx;
    complete();
}

void shmem_ctx_quiet(shmem_ctx_t ctx)
{
    (void)ctx;
    complete();
}

/* The calls of one type, by the length of an element: SIZE. PE is the world's PE. */
#define CALLS(NAME, TYPE, SIZE, PREFIX, PE, ...)                                                                                    \
    void shmem_##PREFIX##put##NAME(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, int pe)                               \
    {                                                                                                                               \
        put_bytes(dest, source, nelems * (SIZE), PE);                                                                               \
    }                                                                                                                               \
    void shmem_##PREFIX##get##NAME(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, int pe)                               \
    {                                                                                                                               \
        get_bytes(dest, source, nelems * (SIZE), PE);                                                                               \
    }                                                                                                                               \
    void shmem_##PREFIX##put##NAME##_nbi(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, int pe)                         \
    {                                                                                                                               \
        begin_put(dest, source, nelems * (SIZE), PE);                                                                               \
    }                                                                                                                               \
    void shmem_##PREFIX##get##NAME##_nbi(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, int pe)                         \
    {                                                                                                                               \
        begin_get(dest, source, nelems * (SIZE), PE);                                                                               \
    }                                                                                                                               \
    void shmem_##PREFIX##put##NAME##_signal(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, uint64_t *sig_addr,          \
                                            uint64_t signal, int sig_op, int pe)                                                    \
    {                                                                                                                               \
        put_signal(dest, source, nelems * (SIZE), sig_addr, signal, sig_op, PE);                                                    \
    }                                                                                                                               \
    void shmem_##PREFIX##put##NAME##_signal_nbi(__VA_ARGS__ TYPE *dest, const TYPE *source, size_t nelems, uint64_t *sig_addr,      \
                                                uint64_t signal, int sig_op, int pe)                                                \
    {                                                                                                                               \
        put_signal(dest, source, nelems * (SIZE), sig_addr, signal, sig_op, PE);                                                    \
    }
#define STRIDED_CALLS(NAME, TYPE, SIZE, PREFIX, PE, ...)                                                                            \
    void shmem_##PREFIX##iput##NAME(__VA_ARGS__ TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) \
    {                                                                                                                               \
        put_strided(dest, source, (struct stride){dst, sst}, nelems, SIZE, PE);                                                     \
    }                                                                                                                               \
    void shmem_##PREFIX##iget##NAME(__VA_ARGS__ TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) \
    {                                                                                                                               \
        get_strided(dest, source, (struct stride){dst, sst}, nelems, SIZE, PE);                                                     \
    }
#define ONE(NAME, TYPE, PREFIX, PE, ...)                                                                                            \
    void shmem_##PREFIX##NAME##_p(__VA_ARGS__ TYPE *dest, TYPE value, int pe) { put_one(dest, &value, sizeof value, PE); }          \
    TYPE shmem_##PREFIX##NAME##_g(__VA_ARGS__ const TYPE *source, int pe)                                                           \
    {                                                                                                                               \
        TYPE value;                                                                                                                 \
        get_bytes(&value, source, sizeof value, PE);                                                                                \
        return value;                                                                                                               \
    }
#define BOTH(NAME, TYPE, SIZE, PREFIX)                                                                                              \
    CALLS(NAME, TYPE, SIZE, PREFIX, pe, ) CALLS(NAME, TYPE, SIZE, ctx_##PREFIX, ctx_pe(ctx, pe), shmem_ctx_t ctx, )
#define STRIDED_BOTH(NAME, TYPE, SIZE, PREFIX)                                                                                      \
    STRIDED_CALLS(NAME, TYPE, SIZE, PREFIX, pe, ) STRIDED_CALLS(NAME, TYPE, SIZE, ctx_##PREFIX, ctx_pe(ctx, pe), shmem_ctx_t ctx, )
#define TYPED(NAME, TYPE)                                                                                                           \
    BOTH(, TYPE, sizeof(TYPE), NAME##_) STRIDED_BOTH(, TYPE, sizeof(TYPE), NAME##_)                                                 \
    ONE(NAME, TYPE, , pe, ) ONE(NAME, TYPE, ctx_, ctx_pe(ctx, pe), shmem_ctx_t ctx, )
#define SIZED(BITS) BOTH(BITS, void, BITS / 8, ) STRIDED_BOTH(BITS, void, BITS / 8, )
SHMEM_EACH_RMA(TYPED)
SHMEM_EACH_WIDTH(SIZED)
BOTH(mem, void, 1, )
