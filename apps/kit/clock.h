/* The clock of all programs. A source that includes this defines _DEFAULT_SOURCE first. */
#ifndef KIT_CLOCK_H
#define KIT_CLOCK_H

#include <time.h>

/* Seconds since some instant, monotonic. */
static inline double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#endif
