/* The matrix product's loops, one source for main memory and for regions, so that only the memory differs.
 *
 * Matrices are n by n doubles, row after row. Each function makes rows [first, last) of C = A * B, and adds the terms
 * of an element in the order of k, so that all of them give the same bits.
 */
#ifndef PRODUCT_H
#define PRODUCT_H

#include <stddef.h>

/* SOURCE: [D2 fig. 2] the loop order i, j, k: B is walked down its columns. */
static inline void product_ijk(size_t n, size_t first, size_t last, const double *a, const double *b, double *c)
{
    for (size_t i = first; i < last; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}

/* The order that walks every matrix along its rows. */
static inline void product_ikj(size_t n, size_t first, size_t last, const double *a, const double *b, double *c)
{
    for (size_t i = first; i < last; i++) {
        for (size_t j = 0; j < n; j++)
            c[i * n + j] = 0;
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
}

typedef void (*product_fn)(size_t n, size_t first, size_t last, const double *a, const double *b, double *c);

/* A rank's rows. The first n % ranks ranks take one row more, so that none is dropped. */
typedef struct rows {
    size_t first, last;
} rows;

static inline rows rows_of(size_t n, size_t rank, size_t ranks)
{
    size_t step = n / ranks, rest = n % ranks;
    rows mine;
    mine.first = rank * step + (rank < rest ? rank : rest);
    mine.last = mine.first + step + (rank < rest);
    return mine;
}

#endif
