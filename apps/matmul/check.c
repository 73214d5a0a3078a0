/* Multiplies A and B one row after another in main memory and compares every element with C:
 * `check A.npy B.npy C.npy`. Exit status 0 when all are the same to the last bit.
 */
#define _DEFAULT_SOURCE
#include "npy.h"
#include "options.h"

int main(int argc, char **argv)
{
    double *matrix[3];
    size_t n[3];
    if (argc != 4) {
        fprintf(stderr, "usage: %s A.npy B.npy C.npy\n", argv[0]);
        return 2;
    }
    for (int at = 0; at < 3; at++) {
        matrix[at] = npy_read(argv[at + 1], &n[at]);
        if (matrix[at] == NULL)
            return 1;
        if (n[at] != n[0]) {
            fprintf(stderr, "%s: %lu rows, but %s has %lu\n", argv[at + 1], (unsigned long)n[at], argv[1],
                    (unsigned long)n[0]);
            return 1;
        }
    }
    double start = seconds();
    size_t wrong = matrix_wrong(n[0], matrix[0], matrix[1], matrix[2]);
    printf("check n=%lu wrong=%lu sequential_s=%.6f\n", (unsigned long)n[0], (unsigned long)wrong, seconds() - start);
    for (int at = 0; at < 3; at++)
        free(matrix[at]);
    return wrong != 0;
}
