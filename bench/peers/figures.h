/* What the peer programs share: the clock, and the lines they print: `KEY NANOSECONDS`, one for each figure. */
#ifndef FIGURES_H
#define FIGURES_H

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
