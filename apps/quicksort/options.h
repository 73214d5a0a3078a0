/* The options that the sorting programs share, and the line they print. */
#ifndef SORT_OPTIONS_H
#define SORT_OPTIONS_H

#include "../kit/line.h"
#include "../kit/words.h"
#include "sort.h"

typedef struct options {
    size_t count;
    size_t threads;    /* threads: how many */
    const char *mode;  /* mapped: how memory is shared */
    const char *pages; /* plain, threads: the kind of pages */
    int check, json;
} options;

static inline options read_options(int argc, char **argv)
{
    options o = {16777216, 2, "coherent", "4k", 0, 0};
    const word words[] = {
        {"", NULL, &o.count, NULL, NULL},
        {"--threads", NULL, &o.threads, NULL, NULL},
        {"--mode", NULL, NULL, &o.mode, "coherent|explicit"},
        {"--pages", NULL, NULL, &o.pages, "4k|huge"},
        {"--check", &o.check, NULL, NULL, NULL},
        {"--json", &o.json, NULL, NULL, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    read_words(argc, argv, words);
    if (o.threads > SORT_RANKS_MAX) {
        fprintf(stderr, "%s: %lu threads are more than %d\n", argv[0], (unsigned long)o.threads, SORT_RANKS_MAX);
        exit(2);
    }
    return o;
}

static inline line begin_line(const options *o, const char *variant, size_t ranks)
{
    line to = line_begin(o->json, "quicksort", variant);
    line_count(to, "count", o->count);
    line_count(to, "ranks", ranks);
    return to;
}

/* Ends the line, with the check where it was asked for; returns the exit status: 1 where the numbers are not sorted or not
 * those of the input. */
static inline int end_line(const options *o, line to, const uint32_t *sorted)
{
    size_t wrong = 0;
    if (o->check) {
        wrong = sort_wrong(sorted, o->count);
        line_count(to, "wrong", wrong);
        line_count(to, "ok", wrong == 0);
    }
    line_end(to);
    return wrong != 0;
}

#endif
