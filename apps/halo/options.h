/* The options that the halo programs share, and the line they print. */
#ifndef HALO_OPTIONS_H
#define HALO_OPTIONS_H

#include "../kit/line.h"
#include "../kit/words.h"
#include "halo.h"

typedef struct options {
    size_t side, sweeps;
    const char *dims, *mode;
    int check, json;
} options;

/* The first of `modes` is taken where none is named. */
static inline options read_options(int argc, char **argv, const char *modes, const char *mode)
{
    options o = {32, 20, "3d", mode, 0, 0};
    const word words[] = {
        {"", NULL, &o.side, NULL, NULL},
        {"--sweeps", NULL, &o.sweeps, NULL, NULL},
        {"--dims", NULL, NULL, &o.dims, "3d|4d"},
        {"--mode", NULL, NULL, &o.mode, modes},
        {"--check", &o.check, NULL, NULL, NULL},
        {"--json", &o.json, NULL, NULL, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    read_words(argc, argv, words);
    return o;
}

static inline int dims_of(const options *o) { return o->dims[0] - '0'; }

static inline line begin_line(const options *o, const char *variant, int ranks)
{
    line to = line_begin(o->json, "halo", variant);
    line_text(to, "dims", o->dims);
    line_text(to, "mode", o->mode);
    line_count(to, "side", o->side);
    line_count(to, "sweeps", o->sweeps);
    line_count(to, "ranks", (unsigned long long)ranks);
    return to;
}

/* Ends the line with what the check found, where it was asked for; returns the exit status. */
static inline int end_line(const options *o, line to, size_t wrong)
{
    if (o->check) {
        line_count(to, "wrong", wrong);
        line_count(to, "ok", wrong == 0);
    }
    line_end(to);
    return o->check && wrong != 0;
}

#endif
