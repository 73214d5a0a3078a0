/* hanare_parmacs.h: programs that were written for threads, as ranks on many hosts.
 *
 * The macros are those of ANL and PARMACS, in which the programs of SPLASH are written. The ranks of `hanare run -n N -- PROGRAM` take the
 * part of threads; shared memory is a region that all of them have mapped coherently, at one address. With HANARE_PARMACS_THREADS
 * defined the same macros make threads of one process (hanare_parmacs_threads.h), for a comparison. docs/porting.md is a guide.
 *
 *   MAIN_ENV                  once, outside of all functions, in the source with main; EXTERN_ENV in the others. No semicolon
 *   MAIN_INITENV(bytes)       in main: attaches, with so many bytes to share; 0: 64 MiB. MAIN_INITENV(, bytes) is the same
 *   CREATE(function, p)       runs function in p processes, this one among them
 *   CREATE(function)          runs function in one process more; main calls it itself, too
 *   WAIT_FOR_END(p)           waits until all that were created have returned
 *   MAIN_END                  last in main; as good as to return from main
 *   G_MALLOC(size) G_FREE(ptr) NU_MALLOC(size, node)    shared memory, zero when it is first used, by any process at any time
 *   G_TOUCH(ptr, len)         takes the pages of a range for writing, together, where stores would take one after another. Also before a
 *                             system call stores to shared memory, as read and fread do: it would fail with EFAULT
 *   G_BRING(ptr, len)         brings the pages of a range for reading, together; also before a system call reads them
 *   LOCKDEC(l) LOCKINIT(l) LOCK(l) UNLOCK(l)            ALOCKDEC(l, n) ALOCKINIT(l, n) ALOCK(l, k) AULOCK(l, k)
 *   BARDEC(b) BARINIT(b) BARRIER(b, p)                  p processes meet, always the same; BARINIT(b, p) is the same
 *   CONDVARDEC(c) CONDVARINIT(c) CONDVARWAIT(c, l) CONDVARSIGNAL(c) CONDVARBCAST(c)    as POSIX has them: wait in a loop
 *   PAUSEDEC(e) PAUSEINIT(e) SETPAUSE(e) CLEARPAUSE(e) WAITPAUSE(e)                    a flag, and waiting until it is set
 *   GET_PID(n) GET_HOME(n)    this process's number, from 0; its node's number
 *   PROCESS_COUNT             how many processes there can be: the job's ranks
 *   CLOCK(t)                  microseconds since some instant
 *
 * Differences from threads
 * ------------------------
 * main       is run by rank 0. The others stay in MAIN_INITENV, run the function that CREATE names, and end with the program. Every rank
 *            runs the part of main before MAIN_INITENV, with the same arguments.
 * Variables  created processes get a copy of all variables, as after fork, taken when CREATE is called. Bytes to be shared afterwards
 *            must lie in G_MALLOC's memory. hanare_parmacs_globals.h tells what a copy has. Memory of malloc, and variables of main's own
 *            stack, are rank 0's alone; where a variable points there, rank 0 prints a line that says so.
 * Pointers   to shared memory may lie in shared memory, and in variables. So may locks, barriers, conditions and pauses.
 * Locks      are words in shared memory; a process that takes one twice, or gives back another's, is stopped with a line that says so.
 *            Where a process dies the others' waits end, and so does the job.
 * Pages      memory crosses between hosts by pages of 4096 bytes: different processes had better write to different pages.
 * Threads    a process calls these macros from one thread.
 * Errors     a call that fails prints what happened, and ends the process; the launcher then ends the job.
 *
 * Build      as any program of hanare.h, with the shared library. C99 or C++17, include it first, or define _DEFAULT_SOURCE.
 */
#ifndef HANARE_PARMACS_H
#define HANARE_PARMACS_H

#if !defined _DEFAULT_SOURCE && !defined _FEATURES_H
#define _DEFAULT_SOURCE
#endif

#ifdef HANARE_PARMACS_THREADS
#include <hanare_parmacs_threads.h>
#else

#include <hanare.h>
#include <hanare_parmacs_globals.h>
#include <time.h>
#include <unistd.h>

#ifndef CLOCK_MONOTONIC
#error "include hanare_parmacs.h before other headers, or define _DEFAULT_SOURCE"
#endif

/* On which nodes shared memory lies, as hanare_create takes it; NULL: on rank 0's. A program may define it. */
#ifndef HANARE_PARMACS_PLACEMENT
#define HANARE_PARMACS_PLACEMENT NULL
#endif

enum { HPM_NAME_LEN = 160, HPM_PAGE_LEN = 4096 };

#define HPM_BYTES_DEFAULT ((size_t)64 << 20)
#define HPM_BYTES_MORE ((size_t)64 << 10)

/* What rank 0 tells another rank to do. In the region of orders the ranks' orders come first, then the words by which they say that
 * they have done them, then how many barriers there are, then rank 0's build. */
typedef struct hpm_order {
    uint64_t number;   /* from 1; written last */
    uint64_t function; /* its address in the program + 1; 0: the end */
    uint64_t image;    /* which image of the variables goes with it */
} hpm_order;

typedef struct hpm_state {
    hanare_pool *pool;
    hanare_region *heap, *orders;
    char *shared; /* the heap's first byte */
    size_t shared_len;
    size_t rank, ranks;
    hpm_globals globals;
    uint64_t *ordered;      /* rank 0: the number of the last order of each rank */
    size_t created;         /* rank 0: how many processes have been created and not waited for, rank 0 not counted */
    uint64_t image, images; /* rank 0: the last image, and the last one that is removed */
    int is_noted, is_over; /* rank 0: it has told of variables that point to its own memory; the job has ended */
    double wait_s; /* seconds in barriers, and for locks, conditions and pauses */
} hpm_state;

extern hpm_state hpm;

#define MAIN_ENV hpm_state hpm;
#define EXTERN_ENV

typedef void (*hpm_function)(void);

static inline double hpm_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Ends the rank where a call failed. */
static inline void hpm_must(int code)
{
    if (code < 0)
        hpm_stop(hanare_last_error());
}

/* A name that no other job has. */
static inline void hpm_name(char *name, const char *what, uint64_t number)
{
    const char *job = getenv("HANARE_JOB");
    if (job != NULL && *job != 0)
        snprintf(name, HPM_NAME_LEN, "parmacs-%s-%s-%llu", job, what, (unsigned long long)number);
    else
        snprintf(name, HPM_NAME_LEN, "parmacs-alone-%ld-%s-%llu", (long)getpid(), what, (unsigned long long)number);
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

static inline int hpm_is_shared(const void *ptr) { return (uintptr_t)ptr - (uintptr_t)hpm.shared < hpm.shared_len; }

static inline uint64_t hpm_offset(const void *ptr)
{
    if (!hpm_is_shared(ptr))
        hpm_stop("a pointer that is none of G_MALLOC's, or MAIN_INITENV was not called");
    return (uint64_t)((const char *)ptr - hpm.shared);
}

static inline void *hpm_malloc(size_t size)
{
    uint64_t offset;
    if (hpm.heap == NULL)
        hpm_stop("G_MALLOC before MAIN_INITENV");
    /* What is longer than a page shares no page with others. */
    int is_long = size >= HPM_PAGE_LEN;
    size_t len = is_long ? (size + HPM_PAGE_LEN - 1) / HPM_PAGE_LEN * HPM_PAGE_LEN : size;
    int code = hanare_malloc_aligned(hpm.heap, len > 0 ? len : 1, is_long ? HPM_PAGE_LEN : 64, &offset);
    if (code == HANARE_ERR_HEAP_FULL)
        fprintf(stderr, "hanare_parmacs: MAIN_INITENV(bytes) says how much memory is shared\n");
    hpm_must(code);
    return hpm.shared + offset;
}

static inline void hpm_free(const void *ptr) { hpm_must(hanare_free(hpm.heap, hpm_offset(ptr))); }

static inline void hpm_touch(const void *ptr, size_t len) { hpm_must(hanare_touch_range_to_write(hpm.heap, hpm_offset(ptr), len)); }

static inline void hpm_bring(const void *ptr, size_t len) { hpm_must(hanare_touch_range(hpm.heap, hpm_offset(ptr), len)); }

/* ---- Words, locks, conditions, pauses --------------------------------------------------------------------------- */

/* A word in shared memory, by itself or elsewhere: so what holds one may be a variable as well as shared. */
typedef struct hpm_word {
    uint64_t at; /* its offset in shared memory; 0 before its INIT */
    uint64_t word;
} hpm_word;

static inline void hpm_word_init(hpm_word *words, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        uint64_t *word = hpm_is_shared(&words[k].word) ? &words[k].word : (uint64_t *)hpm_malloc(sizeof *word);
        words[k].at = hpm_offset(word);
        __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    }
}

static inline uint64_t *hpm_word_of(const hpm_word *word)
{
    if (word->at == 0 || word->at % sizeof word->at != 0 || word->at >= hpm.shared_len)
        hpm_stop("a lock, condition or pause was used before its INIT");
    return (uint64_t *)(void *)(hpm.shared + word->at);
}

/* Waits until the word is as wanted. The library looks again and again, ever more seldom, and whether all ranks live. */
static inline void hpm_wait_word(const hpm_word *word, int how, uint64_t value)
{
    double start = hpm_seconds();
    hpm_must(hanare_wait_word(hpm.heap, word->at, sizeof value, how, value, HANARE_FOREVER));
    hpm.wait_s += hpm_seconds() - start;
}

/* The holder's number + 1 is in the word, or 0. */
static inline void hpm_lock(const hpm_word *lock)
{
    uint64_t *word = hpm_word_of(lock), me = hpm.rank + 1, was = 0;
    while (!__atomic_compare_exchange_n(word, &was, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (was == me)
            hpm_stop("a process took a lock that it holds");
        hpm_wait_word(lock, HANARE_WAIT_EQUAL, 0);
        was = 0;
    }
}

static inline void hpm_unlock(const hpm_word *lock)
{
    uint64_t *word = hpm_word_of(lock);
    if (__atomic_load_n(word, __ATOMIC_RELAXED) != hpm.rank + 1)
        hpm_stop("a process gave back a lock that it does not hold");
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

/* The word counts signals. A signal wakes all: waits are in loops. */
static inline void hpm_condition_wait(const hpm_word *condition, const hpm_word *lock)
{
    uint64_t seen = __atomic_load_n(hpm_word_of(condition), __ATOMIC_RELAXED);
    hpm_unlock(lock);
    hpm_wait_word(condition, HANARE_WAIT_NOT_EQUAL, seen);
    hpm_lock(lock);
}

static inline void hpm_signal(const hpm_word *condition) { __atomic_fetch_add(hpm_word_of(condition), 1, __ATOMIC_RELEASE); }

static inline void hpm_set_pause(const hpm_word *pause, uint64_t is_set) { __atomic_store_n(hpm_word_of(pause), is_set, __ATOMIC_RELEASE); }

static inline void hpm_wait_pause(const hpm_word *pause)
{
    if (__atomic_load_n(hpm_word_of(pause), __ATOMIC_ACQUIRE) == 0)
        hpm_wait_word(pause, HANARE_WAIT_NOT_EQUAL, 0);
}

/* ---- Barriers --------------------------------------------------------------------------------------------------- */

/* Where words lie in the region of orders. */
static inline uint64_t hpm_order_at(size_t rank) { return rank * sizeof(hpm_order); }
static inline uint64_t hpm_done_at(size_t rank) { return hpm_order_at(hpm.ranks) + rank * sizeof(uint64_t); }
static inline uint64_t hpm_barriers_at(void) { return hpm_done_at(hpm.ranks); }
static inline uint64_t hpm_build_at(void) { return hpm_done_at(hpm.ranks + 1); }
static inline uint64_t hpm_orders_len(void) { return hpm_done_at(hpm.ranks + 2); }

/* A barrier's number, from 1. */
typedef struct hpm_barrier {
    uint64_t number;
} hpm_barrier;

static inline void hpm_barrier_init(hpm_barrier *barrier)
{
    hpm_must(hanare_fetch_add(hpm.orders, hpm_barriers_at(), 1, &barrier->number));
    barrier->number++;
}

/* All ranks meet at the job's barrier, others as a group of the barrier's own name. */
static inline void hpm_meet(const hpm_barrier *barrier, size_t count)
{
    char name[HPM_NAME_LEN];
    double start = hpm_seconds();
    if (barrier->number == 0)
        hpm_stop("a barrier was used before its BARINIT");
    if (count == 0 || count > hpm.ranks)
        hpm_stop("a BARRIER of more processes than the job has ranks: start it by `hanare run -n` with as many");
    if (count == hpm.ranks)
        hpm_must(hanare_barrier(hpm.pool));
    else if (count > 1) {
        hpm_name(name, "barrier", barrier->number);
        hpm_must(hanare_group_barrier(hpm.pool, name, (uint32_t)count));
    }
    hpm.wait_s += hpm_seconds() - start;
}

/* ---- Processes -------------------------------------------------------------------------------------------------- */

/* Has another rank run a function with the variables of an image. */
static inline void hpm_send(size_t rank, hpm_function function, uint64_t image)
{
    hpm_order order = {++hpm.ordered[rank], 0, image};
    if (function != NULL)
        order.function = (uint64_t)((uintptr_t)function - hpm.globals.base) + 1;
    uint64_t at = hpm_order_at(rank), rest = sizeof order.number;
    hpm_must(hanare_put_signal(hpm.orders, at + rest, &order.function, sizeof order - rest, hpm.orders, at, HANARE_SWAP, order.number));
}

/* Ends this rank's part of the job, for all ranks. */
static inline void hpm_leave(void)
{
    char name[HPM_NAME_LEN];
    hpm_must(hanare_close(hpm.heap));
    hpm_must(hanare_close(hpm.orders));
    hpm_must(hanare_barrier(hpm.pool));
    if (hpm.rank == 0) {
        hpm_name(name, "heap", 0);
        hpm_must(hanare_remove(hpm.pool, name));
        hpm_name(name, "orders", 0);
        hpm_must(hanare_remove(hpm.pool, name));
    }
    hpm_must(hanare_detach(hpm.pool));
    hpm.heap = hpm.orders = NULL;
}

/* Rank 0's end. Where it ends while others are at work it has failed: they are told so because it does not detach. */
static inline void hpm_end(void)
{
    if (hpm.is_over || hpm.heap == NULL || hpm.created > 0)
        return;
    hpm.is_over = 1;
    for (size_t rank = 1; rank < hpm.ranks; rank++)
        hpm_send(rank, NULL, 0);
    hpm_leave();
}

static inline void hpm_take_variables(uint64_t number)
{
    char name[HPM_NAME_LEN];
    hanare_region *region;
    hpm_name(name, "image", number);
    hpm_must(hanare_open(hpm.pool, name, HANARE_READ, &region));
    size_t len = (size_t)hanare_len(region);
    hpm_image *image = (hpm_image *)hpm_grow(NULL, len);
    hpm_must(hanare_get(region, 0, image, len));
    hpm_must(hanare_close(region));
    hpm_put_image(&hpm.globals, image, len);
    free(image);
}

/* The life of a rank other than 0: it does what each CREATE says until the end. */
static inline void hpm_serve(void)
{
    uint64_t at = hpm_order_at(hpm.rank);
    hpm_order order;
    for (uint64_t number = 1;; number++) {
        hpm_must(hanare_wait_word(hpm.orders, at, sizeof number, HANARE_WAIT_AT_LEAST, number, HANARE_FOREVER));
        hpm_must(hanare_get(hpm.orders, at, &order, sizeof order));
        if (order.function == 0)
            break;
        hpm_take_variables(order.image);
        ((hpm_function)(hpm.globals.base + (uintptr_t)(order.function - 1)))();
        hpm_must(hanare_swap(hpm.orders, hpm_done_at(hpm.rank), number, NULL));
    }
    hpm_leave();
    exit(0);
}

/* Makes the regions on rank 0, and opens them on all. */
static inline void hpm_share(size_t bytes)
{
    char name[HPM_NAME_LEN];
    void *shared;
    uint64_t build;
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    if (hpm.rank == 0) {
        hpm_name(name, "orders", 0);
        hpm_must(hanare_create(hpm.pool, name, hpm_orders_len(), NULL, &hpm.orders));
        hpm_must(hanare_put(hpm.orders, hpm_build_at(), &hpm.globals.build, sizeof build));
        options.placement = HANARE_PARMACS_PLACEMENT;
        /* It is mapped coherently. */
        options.copies = 1;
        /* The heap finds a block where one that is an eighth longer would fit. */
        bytes += bytes / 8 + HPM_BYTES_MORE;
        hpm_name(name, "heap", 0);
        hpm_must(hanare_create(hpm.pool, name, bytes / HPM_PAGE_LEN * HPM_PAGE_LEN, &options, &hpm.heap));
    }
    hpm_must(hanare_barrier(hpm.pool));
    if (hpm.rank != 0) {
        hpm_name(name, "orders", 0);
        hpm_must(hanare_open(hpm.pool, name, HANARE_WRITE, &hpm.orders));
        hpm_must(hanare_get(hpm.orders, hpm_build_at(), &build, sizeof build));
        if (build != hpm.globals.build)
            hpm_stop("rank 0 runs another build of the program: start the same file on all hosts");
        hpm_name(name, "heap", 0);
        hpm_must(hanare_open(hpm.pool, name, HANARE_WRITE, &hpm.heap));
    }
    hpm_must(hanare_map_shared_at(hpm.heap, HANARE_COHERENT, HANARE_SAME_ADDRESS, &shared, &hpm.shared_len));
    hpm.shared = (char *)shared;
}

static inline void hpm_begin(size_t bytes)
{
    if (hpm.pool != NULL)
        hpm_stop("MAIN_INITENV was called twice");
    int code = hanare_attach(&hpm.pool);
    if (code == HANARE_ERR_NO_NODE)
        fprintf(stderr, "hanare_parmacs: start the program by `hanare run -n 4 -- PROGRAM`: it runs on as many processes\n");
    hpm_must(code);
    hpm.rank = (size_t)hanare_rank(hpm.pool), hpm.ranks = (size_t)hanare_ranks(hpm.pool);
    hpm_find(&hpm.globals);
    hpm_cut(&hpm.globals, (uintptr_t)&hpm, (uintptr_t)(&hpm + 1));
    hpm_keep_twin(&hpm.globals);
    hpm_share(bytes > 0 ? bytes : HPM_BYTES_DEFAULT);
    if (hpm.rank != 0)
        hpm_serve();
    hpm.ordered = (uint64_t *)calloc(hpm.ranks, sizeof *hpm.ordered);
    if (hpm.ordered == NULL || atexit(hpm_end) != 0)
        hpm_stop("no memory");
}

/* Puts the variables as they are into a region of the next number. */
static inline void hpm_give_variables(void)
{
    char name[HPM_NAME_LEN];
    hanare_region *region;
    hpm_image *image = hpm_take_image(&hpm.globals, hpm.shared, hpm.shared_len);
    if (image->own_count > 0 && !hpm.is_noted) {
        hpm.is_noted = 1;
        fprintf(stderr, "hanare_parmacs: note: %llu of the program's variables point to memory of rank 0 alone (malloc, its stack), the "
                "first at %llx (`nm -n` names it): other processes must not use them; G_MALLOC gives memory that all have\n",
                (unsigned long long)image->own_count, (unsigned long long)image->own_first);
    }
    hpm_name(name, "image", ++hpm.image);
    hpm_must(hanare_create(hpm.pool, name, image->len, NULL, &region));
    hpm_must(hanare_put(region, 0, image, (size_t)image->len));
    hpm_must(hanare_close(region));
    free(image);
}

/* Starts `count` processes more. */
static inline void hpm_start(hpm_function function, size_t count)
{
    if (hpm.heap == NULL || hpm.rank != 0)
        hpm_stop("CREATE is called by main alone, after MAIN_INITENV");
    if (count > hpm.ranks - 1 - hpm.created) {
        size_t all = hpm.created + count + 1;
        char line[HPM_NAME_LEN];
        snprintf(line, sizeof line, "CREATE makes %lu processes of %lu ranks: start it by `hanare run -n %lu -- PROGRAM`",
                 (unsigned long)all, (unsigned long)hpm.ranks, (unsigned long)all);
        hpm_stop(line);
    }
    if (count > 0)
        hpm_give_variables();
    for (; count > 0; count--)
        hpm_send(++hpm.created, function, hpm.image);
}

static inline void hpm_create(hpm_function function, size_t count)
{
    if (count == 0)
        hpm_stop("CREATE of no process");
    hpm_start(function, count - 1);
    function();
}

static inline void hpm_wait_for_end(void)
{
    char name[HPM_NAME_LEN];
    double start = hpm_seconds();
    for (size_t rank = 1; rank <= hpm.created; rank++)
        hpm_must(hanare_wait_word(hpm.orders, hpm_done_at(rank), sizeof(uint64_t), HANARE_WAIT_AT_LEAST, hpm.ordered[rank],
                                  HANARE_FOREVER));
    hpm.created = 0;
    while (hpm.images < hpm.image) {
        hpm_name(name, "image", ++hpm.images);
        hpm_must(hanare_remove(hpm.pool, name));
    }
    hpm.wait_s += hpm_seconds() - start;
}

/* ---- The macros ------------------------------------------------------------------------------------------------- */

/* In braces, as the macros' other versions have them, because programs leave out semicolons. */
#define HPM_FIRST(first, ...) first
#define HPM_THIRD(first, second, third, ...) third
#define HPM_BEGIN_1(bytes) hpm_begin((size_t)(bytes))
#define HPM_BEGIN_2(any, bytes) hpm_begin((size_t)(bytes))
#define HPM_CREATE_1(function) hpm_start((hpm_function)(function), 1)
#define HPM_CREATE_2(function, p) hpm_create((hpm_function)(function), (size_t)(p))

#define MAIN_INITENV(...) { HPM_THIRD(__VA_ARGS__, HPM_BEGIN_2, HPM_BEGIN_1, 0)(__VA_ARGS__); }
#define CREATE(...) { HPM_THIRD(__VA_ARGS__, HPM_CREATE_2, HPM_CREATE_1, 0)(__VA_ARGS__); }
#define WAIT_FOR_END(p) { (void)(p); hpm_wait_for_end(); }
#define MAIN_END { hpm_end(); }

#define G_MALLOC(size) hpm_malloc((size_t)(size))
#define NU_MALLOC(size, node) ((void)(node), hpm_malloc((size_t)(size)))
#define G_FREE(...) { hpm_free(HPM_FIRST(__VA_ARGS__, 0)); }
#define G_TOUCH(ptr, len) { hpm_touch(ptr, (size_t)(len)); }
#define G_BRING(ptr, len) { hpm_bring(ptr, (size_t)(len)); }

#define LOCKDEC(l) hpm_word l;
#define LOCKINIT(l) { hpm_word_init(&(l), 1); }
#define LOCK(l) { hpm_lock(&(l)); }
#define UNLOCK(l) { hpm_unlock(&(l)); }
#define ALOCKDEC(l, n) hpm_word l[n];
#define ALOCKINIT(l, n) { hpm_word_init(l, (size_t)(n)); }
#define ALOCK(l, k) { hpm_lock(&(l)[k]); }
#define AULOCK(l, k) { hpm_unlock(&(l)[k]); }

#define BARDEC(b) hpm_barrier b;
#define BARINIT(...) { hpm_barrier_init(&(HPM_FIRST(__VA_ARGS__, 0))); }
#define BARRIER(b, p) { hpm_meet(&(b), (size_t)(p)); }

#define CONDVARDEC(c) hpm_word c;
#define CONDVARINIT(c) { hpm_word_init(&(c), 1); }
#define CONDVARWAIT(c, l) { hpm_condition_wait(&(c), &(l)); }
#define CONDVARSIGNAL(c) { hpm_signal(&(c)); }
#define CONDVARBCAST(c) { hpm_signal(&(c)); }

#define PAUSEDEC(e) hpm_word e;
#define PAUSEINIT(e) { hpm_word_init(&(e), 1); }
#define SETPAUSE(e) { hpm_set_pause(&(e), 1); }
#define CLEARPAUSE(e) { hpm_set_pause(&(e), 0); }
#define WAITPAUSE(e) { hpm_wait_pause(&(e)); }

#define GET_PID(n) { (n) = hpm.rank; }
#define GET_HOME(n) { (n) = hanare_node(hpm.pool); }
#define PROCESS_COUNT (hpm.ranks)
#define CLOCK(t) { (t) = (unsigned long)(hpm_seconds() * 1e6); }

#endif
#endif
