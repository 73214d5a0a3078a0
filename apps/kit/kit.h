/* Macros by which programs that were written for threads, in the manner of the PARMACS and ANL macros that SPLASH's
 * programs use, run as ranks of `hanare run` on shared memory of several nodes.
 *
 *   MAIN_ENV                        once, outside of all functions, without a semicolon; EXTERN_ENV in other sources
 *   MAIN_INITENV(bytes)             first in main: attaches; `bytes` of memory to share
 *   G_MALLOC(size), G_FREE(ptr)     shared memory, zero when it is first used, by any process at any time
 *   LOCKDEC(l) LOCKINIT(l) LOCK(l) UNLOCK(l); ALOCKDEC(l, n) ALOCKINIT(l, n) ALOCK(l, k) AULOCK(l, k)
 *   BARDEC(b) BARINIT(b, p) BARRIER(b, p)
 *   CREATE(function, p)             runs function in p processes, this one among them
 *   WAIT_FOR_END(p)                 waits until all have returned from it
 *   CLOCK(t)                        microseconds since some instant
 *   MAIN_END                        last in main
 *
 * What differs from threads
 * -------------------------
 * Processes  p is the number of ranks, PROCESS_COUNT. Rank 0 runs main; the others stay in MAIN_INITENV, run the function
 *            that each CREATE names, and end with MAIN_END.
 * Variables  globals are each process's own, as with the macros' versions over fork. Those that the others
 *            need are handed over by CREATE: GLOBAL(variable) for plain ones, GLOBAL_POINTER(variable) for pointers to
 *            shared memory, both before CREATE. They belong to the program, not to a library that it loads.
 * Pointers   shared memory is at another address in each process, so pointers into it that are stored in it are stored
 *            as KIT_OFFSET(ptr) and read by KIT_POINTER(type, offset).
 * Errors     a call that fails prints hanare_last_error() and ends the process; the launcher then ends the others.
 */
#ifndef KIT_H
#define KIT_H

#include "job.h"

enum { KIT_GLOBAL_COUNT_MAX = 64, KIT_GLOBAL_BYTES_MAX = 16384 };

/* How long LOCK waits for a lock until it calls the program stuck. */
#define KIT_LOCK_MS UINT64_C(600000)

/* A variable that CREATE hands over. Its place is told by its distance from the kit's own variable, because the program
 * is loaded at another address in each process. */
typedef struct kit_global {
    uint64_t distance, len;
    uint64_t is_pointer; /* its value is an offset + 1 in the heap, or 0 for NULL */
} kit_global;

/* What rank 0 tells the others when it calls CREATE. */
typedef struct kit_order {
    uint64_t function; /* its distance from kit_anchor */
    uint64_t count, bytes_len;
    kit_global globals[KIT_GLOBAL_COUNT_MAX];
    char bytes[KIT_GLOBAL_BYTES_MAX];
} kit_order;

typedef struct kit_state {
    job j;
    mapped heap;
    hanare_region *orders; /* the order, then the number of locks made */
    char orders_name[128];
    struct {
        void *at;
        uint64_t len, is_pointer;
    } globals[KIT_GLOBAL_COUNT_MAX];
    size_t global_count;
    hanare_held **held; /* by a lock's number; NULL where this process does not hold it */
    size_t held_count;
} kit_state;

extern kit_state kit;
void kit_anchor(void);

#define MAIN_ENV                                                                                                               \
    kit_state kit;                                                                                                             \
    void kit_anchor(void) {}
#define EXTERN_ENV

typedef void (*kit_function)(void);

static inline void kit_stop(const char *what)
{
    fprintf(stderr, "kit: %s\n", what);
    exit(1);
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

static inline uint64_t kit_offset(const void *ptr) { return (uint64_t)((const char *)ptr - kit.heap.ptr); }

static inline void *kit_pointer(uint64_t offset) { return kit.heap.ptr + offset; }

static inline void *kit_malloc(size_t size)
{
    uint64_t offset;
    job_must(hanare_malloc(kit.heap.region, size, &offset));
    return kit_pointer(offset);
}

static inline void kit_free(const void *ptr) { job_must(hanare_free(kit.heap.region, kit_offset(ptr))); }

#define KIT_OFFSET(ptr) kit_offset(ptr)
#define KIT_POINTER(type, offset) ((type *)kit_pointer(offset))
#define G_MALLOC(size) kit_malloc(size)
#define G_FREE(ptr) kit_free(ptr)

/* ---- Locks ------------------------------------------------------------------------------------------------------ */

/* A lock, in shared memory: it has a name in the pool that holds this number, from 1. */
typedef struct kit_lock {
    uint64_t number;
} kit_lock;

static inline void kit_lock_init(kit_lock *locks, size_t count)
{
    uint64_t first;
    job_must(hanare_fetch_add(kit.orders, sizeof(kit_order), count, &first));
    for (size_t k = 0; k < count; k++)
        locks[k].number = first + k + 1;
}

/* Where this process keeps the handle of a lock that it holds. */
static inline hanare_held **kit_held(const kit_lock *lock)
{
    size_t number = (size_t)lock->number;
    if (number == 0)
        kit_stop("a lock was used before its LOCKINIT");
    if (number >= kit.held_count) {
        size_t count = 2 * number;
        hanare_held **held = (hanare_held **)realloc(kit.held, count * sizeof *held);
        if (held == NULL)
            kit_stop("no memory for locks");
        for (size_t k = kit.held_count; k < count; k++)
            held[k] = NULL;
        kit.held = held, kit.held_count = count;
    }
    return &kit.held[number];
}

static inline void kit_take(const kit_lock *lock)
{
    char name[192];
    hanare_held **held = kit_held(lock);
    if (*held != NULL)
        kit_stop("a process took a lock that it holds");
    snprintf(name, sizeof name, "%s-%llu", kit.orders_name, (unsigned long long)lock->number);
    job_must(hanare_lock(kit.j.pool, name, HANARE_EXCLUSIVE, KIT_LOCK_MS, held));
}

static inline void kit_leave(const kit_lock *lock)
{
    hanare_held **held = kit_held(lock);
    if (*held == NULL)
        kit_stop("a process gave back a lock that it does not hold");
    job_must(hanare_unlock(*held));
    *held = NULL;
}

#define LOCKDEC(l) kit_lock l;
#define LOCKINIT(l) kit_lock_init(&(l), 1)
#define LOCK(l) kit_take(&(l))
#define UNLOCK(l) kit_leave(&(l))
#define ALOCKDEC(l, n) kit_lock l[n];
#define ALOCKINIT(l, n) kit_lock_init(l, n)
#define ALOCK(l, k) kit_take(&(l)[k])
#define AULOCK(l, k) kit_leave(&(l)[k])

/* ---- Barriers --------------------------------------------------------------------------------------------------- */

/* How many processes meet. */
typedef struct kit_barrier {
    uint64_t count;
} kit_barrier;

static inline void kit_barrier_init(kit_barrier *barrier, size_t count)
{
    if (count != (size_t)kit.j.ranks) {
        fprintf(stderr, "kit: a barrier of %lu processes, but the job has %d ranks: start it with `hanare run -n %lu`\n",
                (unsigned long)count, kit.j.ranks, (unsigned long)count);
        exit(1);
    }
    barrier->count = count;
}

static inline void kit_meet(const kit_barrier *barrier)
{
    if (barrier->count == 0)
        kit_stop("a barrier was used before its BARINIT");
    job_meet(&kit.j);
}

#define BARDEC(b) kit_barrier b;
#define BARINIT(b, p) kit_barrier_init(&(b), (size_t)(p))
#define BARRIER(b, p) kit_meet(&(b))

/* ---- Processes -------------------------------------------------------------------------------------------------- */

static inline void kit_global_add(void *at, size_t len, int is_pointer)
{
    if (kit.global_count == KIT_GLOBAL_COUNT_MAX)
        kit_stop("more GLOBALs than KIT_GLOBAL_COUNT_MAX: put them in one struct");
    kit.globals[kit.global_count].at = at;
    kit.globals[kit.global_count].len = len;
    kit.globals[kit.global_count++].is_pointer = (uint64_t)is_pointer;
}

#define GLOBAL(variable) kit_global_add(&(variable), sizeof(variable), 0)
#define GLOBAL_POINTER(variable) kit_global_add(&(variable), sizeof(variable), 1)
#define PROCESS_COUNT (kit.j.ranks)

/* Ends this process's part of the job. */
static inline void kit_end(void)
{
    job_unmap(&kit.j, &kit.heap);
    job_must(hanare_close(kit.orders));
    job_must(hanare_barrier(kit.j.pool));
    if (kit.j.rank == 0)
        job_must(hanare_remove(kit.j.pool, kit.orders_name));
    job_end(&kit.j);
    free(kit.held);
}

/* Takes the variables that rank 0 handed over. */
static inline void kit_take_globals(const kit_order *order)
{
    const char *from = order->bytes;
    for (uint64_t k = 0; k < order->count; k++) {
        const kit_global *global = &order->globals[k];
        void *at = (void *)((uintptr_t)&kit + (uintptr_t)global->distance);
        if (global->is_pointer) {
            uint64_t offset;
            memcpy(&offset, from, sizeof offset);
            void *ptr = offset == 0 ? NULL : kit_pointer(offset - 1);
            memcpy(at, &ptr, sizeof ptr);
        } else
            memcpy(at, from, (size_t)global->len);
        from += global->len;
    }
}

/* The life of a process other than rank 0: it does what each CREATE says until MAIN_END, and ends. */
static inline void kit_serve(void)
{
    kit_order *order = (kit_order *)malloc(sizeof *order);
    if (order == NULL)
        kit_stop("no memory for the order");
    for (;;) {
        job_meet(&kit.j);
        job_must(hanare_get(kit.orders, 0, order, sizeof *order));
        if (order->function == 0)
            break;
        kit_take_globals(order);
        ((kit_function)((uintptr_t)kit_anchor + (uintptr_t)(order->function - 1)))();
        job_meet(&kit.j);
    }
    free(order);
    kit_end();
    exit(0);
}

static inline void kit_begin(size_t bytes)
{
    kit.j = job_begin("kit");
    kit.orders = job_region(&kit.j, "orders", sizeof(kit_order) + sizeof(uint64_t), NULL, kit.orders_name,
                            sizeof kit.orders_name);
    kit.heap = job_map(&kit.j, "heap", (bytes + PAGE_LEN - 1) / PAGE_LEN * PAGE_LEN, NULL, HANARE_COHERENT);
    if (kit.j.rank != 0)
        kit_serve();
}

/* Puts the variables to hand over into the order. */
static inline void kit_fill_order(kit_order *order)
{
    for (size_t k = 0; k < kit.global_count; k++) {
        kit_global *global = &order->globals[order->count++];
        global->distance = (uint64_t)((uintptr_t)kit.globals[k].at - (uintptr_t)&kit);
        global->len = kit.globals[k].len;
        global->is_pointer = kit.globals[k].is_pointer;
        if (order->bytes_len + global->len > KIT_GLOBAL_BYTES_MAX)
            kit_stop("GLOBALs of more bytes than KIT_GLOBAL_BYTES_MAX: put them into shared memory");
        char *to = order->bytes + order->bytes_len;
        if (global->is_pointer) {
            void *ptr;
            memcpy(&ptr, kit.globals[k].at, sizeof ptr);
            uint64_t offset = ptr == NULL ? 0 : kit_offset(ptr) + 1;
            memcpy(to, &offset, sizeof offset);
        } else
            memcpy(to, kit.globals[k].at, (size_t)global->len);
        order->bytes_len += global->len;
    }
}

/* Sends the others to work; NULL sends them home. */
static inline void kit_send(kit_function function)
{
    kit_order *order = (kit_order *)calloc(1, sizeof *order);
    if (order == NULL)
        kit_stop("no memory for the order");
    if (function != NULL) {
        order->function = (uint64_t)((uintptr_t)function - (uintptr_t)kit_anchor) + 1;
        kit_fill_order(order);
    }
    job_must(hanare_put(kit.orders, 0, order, sizeof *order));
    free(order);
    job_meet(&kit.j);
}

static inline void kit_create(kit_function function, size_t count)
{
    kit_barrier all;
    kit_barrier_init(&all, count);
    kit_send(function);
    function();
}

static inline unsigned long kit_clock(void) { return (unsigned long)(seconds() * 1e6); }

#define MAIN_INITENV(bytes) kit_begin((size_t)(bytes))
#define CREATE(function, p) kit_create(function, (size_t)(p))
#define WAIT_FOR_END(p) job_meet(&kit.j)
#define CLOCK(t) ((t) = kit_clock())
#define MAIN_END (kit_send(NULL), kit_end())

#endif
