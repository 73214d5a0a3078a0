/* What the peer programs share: the clock, and the lines they print: `KEY NANOSECONDS`, one for each figure. */
#ifndef FIGURES_H
#define FIGURES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline void print_figure(const char *what, size_t size, double ns)
{
    printf("%s_%lu %.1f\n", what, (unsigned long)size, ns);
    fflush(stdout);
}

/* Operations of `size` bytes in one measurement: about as many bytes for each size, so that none takes long. */
static inline long rounds_of(size_t size, long rounds)
{
    long fewer = rounds / (long)(1 + size / 4096);
    return fewer < 20 ? 20 : fewer;
}

static inline int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The middle value; sorts what it is given. A mean would count every time slice that others take. */
static inline double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return values[(count - 1) / 2];
}

/* Tells the bench that this turn's figures are complete; for programs that take several turns. */
static inline void end_turn(void)
{
    puts(".");
    fflush(stdout);
}

/* The median time of a step in ns, repeated for about `budget_ns` but three times at least; the first is not counted. */
static inline double time_step(void (*step)(void *), void *state, double budget_ns)
{
    enum { STEP_COUNT_MAX = 1000 };
    static double times[STEP_COUNT_MAX];
    size_t count = 0;
    double begin = now_ns();
    step(state);
    while (count < STEP_COUNT_MAX && (count < 3 || now_ns() - begin < budget_ns)) {
        double start = now_ns();
        step(state);
        times[count++] = now_ns() - start;
    }
    return median(times, count);
}

/* Lists of `count` indices that are used in turn: so many that none finds its elements in a cache. */
enum { LIST_COUNT_MAX = 256 };
static inline int list_count_of(size_t count)
{
    size_t lists = ((size_t)1 << 20) / (count ? count : 1);
    return lists < 4 ? 4 : lists > LIST_COUNT_MAX ? LIST_COUNT_MAX : (int)lists;
}

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static inline void die(const char *what)
{
    perror(what);
    exit(1);
}

static const size_t SIZES[] = {8, 4096, 1 << 20};
enum { SIZE_COUNT = 3, SIZE_MAX_BYTES = 1 << 20 };

/* Batches of a measurement whose operations are too short for a clock of their own. */
enum { BATCH_COUNT = 20 };

#endif
