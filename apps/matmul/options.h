/* The options that the matrix programs share, and the line they print. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "../kit/clock.h"
#include "matrix.h"
#include <stdio.h>
#include <string.h>

typedef struct options {
    size_t n;            /* rows and columns */
    const char *order;   /* "ijk" or "ikj" */
    const char *pages;   /* plain: "4k" or "huge" */
    size_t processes;    /* plain: how many share the rows */
    int loaded;          /* distributed: A and B are in the pool already */
    int strided;         /* vector: columns of B by one strided load, or element by element */
    int check;           /* compare with the sequential product */
    const char *a, *b, *c; /* distributed: names of the regions */
    const char *mode;    /* mapped: "coherent" or "explicit" */
} options;

static inline void usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [N] [--order ijk|ikj] [--check] [--pages 4k|huge] [--processes P] [--no-stride] [--loaded]\n"
            "       [--a NAME] [--b NAME] [--c NAME] [--mode coherent|explicit]\n",
            program);
    exit(2);
}

static inline size_t number(const char *program, const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != 0 || value == 0 || value > 32768) {
        fprintf(stderr, "%s: '%s' is no number from 1 to 32768\n", program, text);
        exit(2);
    }
    return value;
}

static inline options read_options(int argc, char **argv)
{
    options o;
    memset(&o, 0, sizeof o);
    o.n = 1024; /* SOURCE: [D2 Table 6] */
    o.order = "ijk";
    o.pages = "4k";
    o.processes = 1;
    o.strided = 1;
    o.a = "A", o.b = "B", o.c = "C";
    o.mode = "coherent";
    for (int at = 1; at < argc; at++) {
        const char *word = argv[at], *value = at + 1 < argc ? argv[at + 1] : NULL;
        const char **text = !strcmp(word, "--order")   ? &o.order
                            : !strcmp(word, "--pages") ? &o.pages
                            : !strcmp(word, "--a")     ? &o.a
                            : !strcmp(word, "--b")     ? &o.b
                            : !strcmp(word, "--c")     ? &o.c
                            : !strcmp(word, "--mode")  ? &o.mode
                                                       : NULL;
        if (text != NULL && value != NULL)
            *text = value, at++;
        else if (!strcmp(word, "--processes") && value != NULL)
            o.processes = number(argv[0], value), at++;
        else if (!strcmp(word, "--loaded"))
            o.loaded = 1;
        else if (!strcmp(word, "--no-stride"))
            o.strided = 0;
        else if (!strcmp(word, "--check"))
            o.check = 1;
        else if (word[0] != '-')
            o.n = number(argv[0], word);
        else
            usage(argv[0]);
    }
    if ((strcmp(o.order, "ijk") && strcmp(o.order, "ikj")) || (strcmp(o.pages, "4k") && strcmp(o.pages, "huge"))
        || (strcmp(o.mode, "coherent") && strcmp(o.mode, "explicit")))
        usage(argv[0]);
    return o;
}

static inline product_fn product_of(const options *o) { return strcmp(o->order, "ijk") ? product_ikj : product_ijk; }

/* What a run came to. Bytes and messages are those between hosts, of the rank that prints. */
typedef struct outcome {
    const char *variant;
    int ranks;
    double product_s; /* from every rank's start of the product until all of C is where it is read */
    double whole_s;   /* with bringing A and B to where they are multiplied */
    unsigned long long bytes_sent, bytes_received, messages_sent;
} outcome;

/* Prints one line of key=value words; returns the exit status: 1 where a check found a wrong element. */
static inline int print_outcome(const options *o, const outcome *was, const double *a, const double *b, const double *c)
{
    size_t wrong = 0;
    printf("matmul variant=%s n=%lu ranks=%d order=%s product_s=%.6f whole_s=%.6f bytes_sent=%llu bytes_received=%llu "
           "messages_sent=%llu",
           was->variant, (unsigned long)o->n, was->ranks, o->order, was->product_s, was->whole_s, was->bytes_sent,
           was->bytes_received, was->messages_sent);
    if (o->check) {
        wrong = matrix_wrong(o->n, a, b, c);
        printf(" wrong=%lu", (unsigned long)wrong);
    }
    printf("\n");
    return wrong != 0;
}

#endif
