/* A part of hanare_parmacs.h: the same macros as threads of one process, for programs that are to be compared with themselves.
 * Needs no library but that of POSIX threads; programs define HANARE_PARMACS_THREADS and include hanare_parmacs.h.
 *
 * Processes are threads, and variables are shared. PROCESS_COUNT is the number of processors. Memory of G_MALLOC is populated, on pages of
 * the usual length.
 */
#ifndef HANARE_PARMACS_THREADS_H
#define HANARE_PARMACS_THREADS_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HPM_THREAD_COUNT_MAX = 256, HPM_PAGE_LEN = 4096 };

typedef void (*hpm_function)(void);

typedef struct hpm_thread {
    pthread_t thread;
    hpm_function function;
    size_t number;
} hpm_thread;

typedef struct hpm_state {
    hpm_thread threads[HPM_THREAD_COUNT_MAX]; /* main's is the first, and is not used */
    size_t created;
    pthread_key_t number; /* of the calling thread, as a pointer */
    int is_open;
} hpm_state;

extern hpm_state hpm;

#define MAIN_ENV hpm_state hpm;
#define EXTERN_ENV

__attribute__((noreturn)) static inline void hpm_stop(const char *what)
{
    fprintf(stderr, "hanare_parmacs: %s\n", what);
    exit(1);
}

static inline void hpm_begin(void)
{
    if (hpm.is_open || pthread_key_create(&hpm.number, NULL) != 0)
        hpm_stop("MAIN_INITENV was called twice, or there is no memory");
    hpm.is_open = 1;
}

static inline void *hpm_malloc(size_t size)
{
    void *memory = NULL;
    if (posix_memalign(&memory, size < HPM_PAGE_LEN ? 64 : HPM_PAGE_LEN, size > 0 ? size : 1) != 0)
        hpm_stop("no memory");
    return memset(memory, 0, size);
}

static inline void *hpm_run_thread(void *one)
{
    hpm_thread *thread = (hpm_thread *)one;
    pthread_setspecific(hpm.number, (void *)thread->number);
    thread->function();
    return NULL;
}

static inline void hpm_start(hpm_function function, size_t count)
{
    for (; count > 0; count--) {
        if (!hpm.is_open || hpm.created + 1 == HPM_THREAD_COUNT_MAX)
            hpm_stop("CREATE before MAIN_INITENV, or of too many processes");
        hpm_thread *one = &hpm.threads[++hpm.created];
        one->function = function, one->number = hpm.created;
        if (pthread_create(&one->thread, NULL, hpm_run_thread, one) != 0)
            hpm_stop("no thread can be made");
    }
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
    for (; hpm.created > 0; hpm.created--)
        pthread_join(hpm.threads[hpm.created].thread, NULL);
}

/* A flag, a count that only grows, or a barrier's arrivals. */
typedef struct hpm_word {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t arrived, round;
    int is_set;
} hpm_word;

static inline void hpm_word_init(hpm_word *word)
{
    memset(word, 0, sizeof *word);
    pthread_mutex_init(&word->mutex, NULL);
    pthread_cond_init(&word->changed, NULL);
}

static inline void hpm_meet(hpm_word *barrier, size_t count)
{
    pthread_mutex_lock(&barrier->mutex);
    size_t round = barrier->round;
    if (++barrier->arrived == count) {
        barrier->arrived = 0, barrier->round++;
        pthread_cond_broadcast(&barrier->changed);
    }
    while (barrier->round == round)
        pthread_cond_wait(&barrier->changed, &barrier->mutex);
    pthread_mutex_unlock(&barrier->mutex);
}

static inline void hpm_set_pause(hpm_word *pause, int is_set)
{
    pthread_mutex_lock(&pause->mutex);
    pause->is_set = is_set;
    pthread_cond_broadcast(&pause->changed);
    pthread_mutex_unlock(&pause->mutex);
}

static inline void hpm_wait_pause(hpm_word *pause)
{
    pthread_mutex_lock(&pause->mutex);
    while (!pause->is_set)
        pthread_cond_wait(&pause->changed, &pause->mutex);
    pthread_mutex_unlock(&pause->mutex);
}

static inline void hpm_locks_init(pthread_mutex_t *locks, size_t count)
{
    for (size_t k = 0; k < count; k++)
        pthread_mutex_init(&locks[k], NULL);
}

static inline unsigned long hpm_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long)now.tv_sec * 1000000ul + (unsigned long)now.tv_nsec / 1000ul;
}

#define HPM_FIRST(first, ...) first
#define HPM_THIRD(first, second, third, ...) third
#define HPM_CREATE_1(function) hpm_start((hpm_function)(function), 1)
#define HPM_CREATE_2(function, p) hpm_create((hpm_function)(function), (size_t)(p))

#define MAIN_INITENV(...) { hpm_begin(); }
#define CREATE(...) { HPM_THIRD(__VA_ARGS__, HPM_CREATE_2, HPM_CREATE_1, 0)(__VA_ARGS__); }
#define WAIT_FOR_END(p) { (void)(p); hpm_wait_for_end(); }
#define MAIN_END

#define G_MALLOC(size) hpm_malloc((size_t)(size))
#define NU_MALLOC(size, node) ((void)(node), hpm_malloc((size_t)(size)))
#define G_FREE(...) { free(HPM_FIRST(__VA_ARGS__, 0)); }
#define G_TOUCH(ptr, len) { (void)(ptr), (void)(len); }
#define G_BRING(ptr, len) { (void)(ptr), (void)(len); }

#define LOCKDEC(l) pthread_mutex_t l;
#define LOCKINIT(l) { hpm_locks_init(&(l), 1); }
#define LOCK(l) { pthread_mutex_lock(&(l)); }
#define UNLOCK(l) { pthread_mutex_unlock(&(l)); }
#define ALOCKDEC(l, n) pthread_mutex_t l[n];
#define ALOCKINIT(l, n) { hpm_locks_init(l, (size_t)(n)); }
#define ALOCK(l, k) { pthread_mutex_lock(&(l)[k]); }
#define AULOCK(l, k) { pthread_mutex_unlock(&(l)[k]); }

#define BARDEC(b) hpm_word b;
#define BARINIT(...) { hpm_word_init(&(HPM_FIRST(__VA_ARGS__, 0))); }
#define BARRIER(b, p) { hpm_meet(&(b), (size_t)(p)); }

#define CONDVARDEC(c) pthread_cond_t c;
#define CONDVARINIT(c) { pthread_cond_init(&(c), NULL); }
#define CONDVARWAIT(c, l) { pthread_cond_wait(&(c), &(l)); }
#define CONDVARSIGNAL(c) { pthread_cond_signal(&(c)); }
#define CONDVARBCAST(c) { pthread_cond_broadcast(&(c)); }

#define PAUSEDEC(e) hpm_word e;
#define PAUSEINIT(e) { hpm_word_init(&(e)); }
#define SETPAUSE(e) { hpm_set_pause(&(e), 1); }
#define CLEARPAUSE(e) { hpm_set_pause(&(e), 0); }
#define WAITPAUSE(e) { hpm_wait_pause(&(e)); }

#define GET_PID(n) { (n) = (size_t)pthread_getspecific(hpm.number); }
#define GET_HOME(n) { (n) = 0; }
#define PROCESS_COUNT ((size_t)sysconf(_SC_NPROCESSORS_ONLN))
#define CLOCK(t) { (t) = hpm_clock(); }

#endif
