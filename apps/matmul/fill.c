/* Writes two matrices to multiply as .npy files: `fill N A.npy B.npy`. */
#define _DEFAULT_SOURCE
#include "npy.h"
#include "options.h"

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s N A.npy B.npy\n", argv[0]);
        return 2;
    }
    size_t n = number(argv[0], argv[1]);
    double *matrix = (double *)malloc(n * n * sizeof *matrix);
    if (matrix == NULL) {
        perror(argv[0]);
        return 1;
    }
    for (int seed = 1; seed <= 2; seed++) {
        matrix_fill(matrix, n, (uint64_t)seed);
        if (npy_write(argv[seed + 1], matrix, n) < 0)
            return 1;
    }
    free(matrix);
    return 0;
}
