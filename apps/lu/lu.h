/* LU decomposition of a square matrix by Doolittle's way, without pivoting: A = L U, L with ones on its diagonal, both in
 * A's place. One source of loops for main memory, threads, ranks and MPI.
 *
 * Rows go in blocks. When a block is factored (its rows eliminated by each other), every row below is eliminated by all
 * of the block's rows while it is in the cache. An element is touched in the same order of pivots whatever the block and
 * whoever does it, so all versions give the same bits.
 */
#ifndef LU_H
#define LU_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct matrix {
    double *a;    /* row after row */
    size_t n;     /* rows and columns */
    size_t step;  /* elements from row to row: whole pages, so that two ranks' rows share none */
    size_t block; /* rows of a block */
} matrix;

enum { LU_PAGE_DOUBLES = 512 };

static inline size_t lu_step(size_t n) { return (n + LU_PAGE_DOUBLES - 1) / LU_PAGE_DOUBLES * LU_PAGE_DOUBLES; }

static inline size_t lu_len_bytes(const matrix *m) { return m->n * m->step * sizeof(double); }

static inline double *lu_row(const matrix *m, size_t i) { return m->a + i * m->step; }

static inline size_t lu_blocks(const matrix *m) { return (m->n + m->block - 1) / m->block; }

/* The first row of block b; of the block after the last, n. */
static inline size_t lu_first(const matrix *m, size_t b) { return b * m->block < m->n ? b * m->block : m->n; }

/* Blocks are dealt in turn, so that all have work to the end. */
static inline size_t lu_owner(size_t block, size_t ranks) { return block % ranks; }

/* Fills block b with numbers in [-1, 1) that depend on their position (splitmix64), and a diagonal so heavy that no pivot
 * is needed. */
static inline void lu_fill(const matrix *m, size_t b)
{
    for (size_t i = lu_first(m, b); i < lu_first(m, b + 1); i++)
        for (size_t j = 0; j < m->n; j++) {
            uint64_t z = (i * m->n + j + 1) * UINT64_C(0xbf58476d1ce4e5b9);
            z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
            z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
            z ^= z >> 31;
            lu_row(m, i)[j] = (double)(int64_t)z / 9223372036854775808.0 + (i == j ? (double)m->n : 0.0);
        }
}

/* Eliminates element k of a row by pivot row k: two flops for each element beyond. */
static inline void lu_eliminate(double *restrict row, const double *restrict pivot, size_t k, size_t n)
{
    double factor = row[k] / pivot[k];
    row[k] = factor;
    for (size_t j = k + 1; j < n; j++)
        row[j] -= factor * pivot[j];
}

/* Factors block b, whose rows all earlier blocks have eliminated. */
static inline void lu_factor(const matrix *m, size_t b)
{
    for (size_t k = lu_first(m, b); k < lu_first(m, b + 1); k++)
        for (size_t i = k + 1; i < lu_first(m, b + 1); i++)
            lu_eliminate(lu_row(m, i), lu_row(m, k), k, m->n);
}

/* Eliminates the rows of block b by those of the factored block `by`. */
static inline void lu_update(const matrix *m, size_t b, size_t by)
{
    for (size_t i = lu_first(m, b); i < lu_first(m, b + 1); i++)
        for (size_t k = lu_first(m, by); k < lu_first(m, by + 1); k++)
            lu_eliminate(lu_row(m, i), lu_row(m, k), k, m->n);
}

/* One rank's step, when block s is factored: its blocks after s are eliminated. The next block comes first and is
 * factored: the owner's call of `ready` may tell others while the rest is done. */
static inline void lu_step_of(const matrix *m, size_t s, size_t rank, size_t ranks, void (*ready)(void *, size_t),
                              void *closure)
{
    for (size_t b = s + 1; b < lu_blocks(m); b++) {
        if (lu_owner(b, ranks) != rank)
            continue;
        lu_update(m, b, s);
        if (b == s + 1) {
            lu_factor(m, b);
            if (ready != NULL)
                ready(closure, b);
        }
    }
}

/* The whole decomposition by one. */
static inline void lu_alone(const matrix *m)
{
    lu_factor(m, 0);
    for (size_t s = 0; s + 1 < lu_blocks(m); s++)
        lu_step_of(m, s, 0, 1, NULL, NULL);
}

/* The greatest difference of m from a decomposition made anew in main memory, row by row (blocks of one); HUGE_VAL
 * without memory, or where an element is no number. */
static inline double lu_max_difference(const matrix *m)
{
    matrix right = *m;
    double most = 0;
    right.block = 1;
    right.a = (double *)malloc(lu_len_bytes(m));
    if (right.a == NULL)
        return HUGE_VAL;
    for (size_t b = 0; b < lu_blocks(&right); b++)
        lu_fill(&right, b);
    lu_alone(&right);
    for (size_t i = 0; i < m->n; i++)
        for (size_t j = 0; j < m->n; j++) {
            double difference = fabs(lu_row(m, i)[j] - lu_row(&right, i)[j]);
            most = difference <= most ? most : isnan(difference) ? HUGE_VAL : difference;
        }
    free(right.a);
    return most;
}

/* The greatest difference of L U from the matrix that was decomposed, in sixteen rows of it; no bits are promised here.
 * HUGE_VAL without memory, or where an element is no number. */
static inline double lu_max_residual(const matrix *m)
{
    matrix before = *m;
    double most = 0;
    before.a = (double *)malloc(lu_len_bytes(m));
    double *row = (double *)malloc(m->n * sizeof(double));
    for (size_t b = 0; before.a != NULL && b < lu_blocks(m); b++)
        lu_fill(&before, b);
    for (size_t i = 0; before.a != NULL && row != NULL && i < m->n; i += m->n / 16 + 1) {
        for (size_t j = 0; j < m->n; j++)
            row[j] = -lu_row(&before, i)[j];
        for (size_t k = 0; k <= i; k++)
            for (size_t j = k; j < m->n; j++)
                row[j] += (k < i ? lu_row(m, i)[k] : 1.0) * lu_row(m, k)[j];
        for (size_t j = 0; j < m->n; j++)
            most = fabs(row[j]) <= most ? most : isnan(row[j]) ? HUGE_VAL : fabs(row[j]);
    }
    most = before.a == NULL || row == NULL ? HUGE_VAL : most;
    free(before.a);
    free(row);
    return most;
}

#endif
