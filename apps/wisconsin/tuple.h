/* Tuples of the Wisconsin benchmark as the drivers paper has them: 148 bytes, 13 integers of 4 bytes and 3 strings of 32.
 * SOURCE: [drivers paper, figures 10 and 11; table 7, whose 18944 pages are 2^19 such tuples] */
#ifndef WISCONSIN_TUPLE_H
#define WISCONSIN_TUPLE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { STRING_LEN = 32, LETTERS = 7 };

typedef struct tuple {
    uint32_t unique1; /* each number below the count once, in random order */
    uint32_t unique2; /* the same in order */
    uint32_t two, four, ten, twenty, hundred, thousand, twothousand, fivethous, tenthous; /* unique1 modulo these */
    uint32_t odd, even;
    char stringu1[STRING_LEN], stringu2[STRING_LEN]; /* letters of the two numbers */
    char string4[STRING_LEN];                        /* four strings in turn */
} tuple;

/* A tuple has no gaps: a table is as long as its tuples. */
typedef char tuple_has_148_bytes[sizeof(tuple) == 148 ? 1 : -1];

/* The numbers below `count` in random order, the same in every run. NULL where there is no memory. */
static inline uint32_t *shuffled(size_t count)
{
    uint32_t *all = malloc(count * sizeof *all);
    uint64_t state = UINT64_C(88172645463325252);
    for (size_t k = 0; all != NULL && k < count; k++)
        all[k] = (uint32_t)k;
    for (size_t k = count; all != NULL && k > 1; k--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t with = (size_t)(state % k);
        uint32_t other = all[k - 1];
        all[k - 1] = all[with];
        all[with] = other;
    }
    return all;
}

/* A number as letters. */
static inline void spell(char *text, uint32_t number)
{
    memset(text, 'x', STRING_LEN);
    for (int at = LETTERS - 1; at >= 0; at--, number /= 26)
        text[at] = (char)('A' + number % 26);
}

static inline tuple tuple_of(uint32_t unique1, uint32_t unique2)
{
    tuple t;
    t.unique1 = unique1, t.unique2 = unique2;
    t.two = unique1 % 2, t.four = unique1 % 4, t.ten = unique1 % 10, t.twenty = unique1 % 20;
    t.hundred = unique1 % 100, t.thousand = unique1 % 1000, t.twothousand = unique1 % 2000;
    t.fivethous = unique1 % 5000, t.tenthous = unique1 % 10000;
    t.odd = t.hundred * 2, t.even = t.hundred * 2 + 1;
    spell(t.stringu1, unique1);
    spell(t.stringu2, unique2);
    memset(t.string4, 'x', STRING_LEN);
    memset(t.string4, "AHOV"[unique2 % 4], 4);
    return t;
}

#endif
