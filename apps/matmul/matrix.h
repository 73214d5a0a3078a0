/* Matrices to multiply: the same ones in every program for one n, and how right a product of them is. */
#ifndef MATRIX_H
#define MATRIX_H

#include "product.h"
#include <stdint.h>
#include <stdlib.h>

/* Fills n by n elements with numbers in [-1, 1) that depend on seed and position (splitmix64). */
static inline void matrix_fill(double *matrix, size_t n, uint64_t seed)
{
    for (size_t at = 0; at < n * n; at++) {
        uint64_t z = seed * UINT64_C(0x9e3779b97f4a7c15) + (at + 1) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
        matrix[at] = (double)(int64_t)z / 9223372036854775808.0;
    }
}

/* How many elements of c differ, in any bit, from the sequential product of a and b; n * n + 1 without memory. */
static inline size_t matrix_wrong(size_t n, const double *a, const double *b, const double *c)
{
    double *right = (double *)malloc(n * n * sizeof *right);
    size_t wrong = 0;
    if (right == NULL)
        return n * n + 1;
    product_ikj(n, 0, n, a, b, right);
    for (size_t at = 0; at < n * n; at++)
        wrong += !(right[at] == c[at]);
    free(right);
    return wrong;
}

#endif
