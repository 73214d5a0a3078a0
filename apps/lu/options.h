/* The options that the LU programs share, and the line they print. */
#ifndef LU_OPTIONS_H
#define LU_OPTIONS_H

#include "../kit/line.h"
#include "../kit/words.h"
#include "lu.h"

typedef struct options {
    size_t n, block;
    size_t threads;    /* threads: how many */
    const char *mode;  /* mapped: how memory is shared */
    const char *pages; /* plain, threads: the kind of pages */
    int check, json;
} options;

static inline options read_options(int argc, char **argv)
{
    /* 16 rows a block: a meeting is cheap beside a block's work, and few rows are left over when blocks are dealt. */
    options o = {2048, 16, 2, "coherent", "4k", 0, 0};
    const word words[] = {
        {"", NULL, &o.n, NULL, NULL},
        {"--block", NULL, &o.block, NULL, NULL},
        {"--threads", NULL, &o.threads, NULL, NULL},
        {"--mode", NULL, NULL, &o.mode, "coherent|explicit"},
        {"--pages", NULL, NULL, &o.pages, "4k|huge"},
        {"--check", &o.check, NULL, NULL, NULL},
        {"--json", &o.json, NULL, NULL, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    read_words(argc, argv, words);
    if (o.n > 32768) {
        fprintf(stderr, "%s: %lu rows are more than 32768\n", argv[0], (unsigned long)o.n);
        exit(2);
    }
    return o;
}

static inline matrix matrix_of(const options *o)
{
    matrix m = {NULL, o->n, lu_step(o->n), o->block};
    return m;
}

static inline line begin_line(const options *o, const char *variant, size_t ranks)
{
    line to = line_begin(o->json, "lu", variant);
    line_count(to, "n", o->n);
    line_count(to, "block", o->block);
    line_count(to, "ranks", ranks);
    return to;
}

/* The residual that rounding may leave. The diagonal is about n, and so are the products' sums. */
static inline double residual_max(const options *o) { return (double)o->n * (double)o->n * 1e-15; }

/* Ends the line, with the check where it was asked for; returns the exit status: 1 where any bit differs from the
 * sequential run, or L U from A by more than rounding. */
static inline int end_line(const options *o, line to, const matrix *m)
{
    int status = 0;
    if (o->check) {
        double difference = lu_max_difference(m), residual = lu_max_residual(m);
        line_number(to, "max_difference", difference);
        line_number(to, "max_residual", residual);
        status = difference != 0 || residual > residual_max(o);
        line_count(to, "ok", status == 0);
    }
    line_end(to);
    return status;
}

#endif
