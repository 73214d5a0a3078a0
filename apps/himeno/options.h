/* The options that the Himeno programs share, and the line they print. */
#ifndef HIMENO_OPTIONS_H
#define HIMENO_OPTIONS_H

#include "../kit/line.h"
#include "../kit/words.h"
#include "himeno.h"
#include <math.h>

typedef struct options {
    const char *size;
    size_t sweeps;
    size_t threads;    /* threads: how many */
    const char *mode;  /* mapped: how memory is shared */
    const char *pages; /* plain, threads: the kind of pages */
    int check, json;
} options;

static inline options read_options(int argc, char **argv)
{
    options o = {"M", 20, 2, "coherent", "4k", 0, 0};
    const word words[] = {
        {"", NULL, NULL, &o.size, "XS|S|M|L"},
        {"--sweeps", NULL, &o.sweeps, NULL, NULL},
        {"--threads", NULL, &o.threads, NULL, NULL},
        {"--mode", NULL, NULL, &o.mode, "coherent|explicit"},
        {"--pages", NULL, NULL, &o.pages, "4k|huge"},
        {"--check", &o.check, NULL, NULL, NULL},
        {"--json", &o.json, NULL, NULL, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    read_words(argc, argv, words);
    return o;
}

static inline line begin_line(const options *o, const char *variant, size_t ranks)
{
    line to = line_begin(o->json, "himeno", variant);
    line_text(to, "size", o->size);
    line_count(to, "sweeps", o->sweeps);
    line_count(to, "ranks", ranks);
    return to;
}

/* Compares with a run by one in main memory: how many pressures differ in any bit; all of them without memory. *gosa gets
 * that run's. */
static inline size_t himeno_wrong(const options *o, const float *pressure, double *gosa)
{
    grid g = himeno_grid(o->size);
    size_t points = g.i * himeno_plane(&g), wrong = 0;
    float *right = (float *)malloc(himeno_len_bytes(&g));
    float *memory = (float *)malloc(himeno_share_len_bytes(&g, himeno_share(&g, 0, 1)));
    double *sums = (double *)malloc(g.i * sizeof(double));
    if (right == NULL || memory == NULL || sums == NULL)
        wrong = points;
    else
        *gosa = himeno_alone(&g, o->sweeps, right, memory, sums);
    for (size_t at = 0; at < points && wrong != points; at++)
        wrong += !(pressure[at] == right[at]);
    free(right);
    free(memory);
    free(sums);
    return wrong;
}

/* Ends the line with the speed, the sum of squares, and the check where it was asked for; returns the exit status: 1 where
 * any bit differs. */
static inline int end_line(const options *o, line to, double seconds, double gosa, const float *pressure)
{
    grid g = himeno_grid(o->size);
    int status = 0;
    line_number(to, "mflops", himeno_flops(&g) * (double)o->sweeps / seconds / 1e6);
    line_number(to, "gosa", gosa);
    if (o->check) {
        double right = NAN;
        size_t wrong = himeno_wrong(o, pressure, &right);
        line_count(to, "wrong", wrong);
        line_number(to, "gosa_sequential", right);
        status = wrong != 0 || !(gosa == right);
        line_count(to, "ok", status == 0);
    }
    line_end(to);
    return status;
}

#endif
