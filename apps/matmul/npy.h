/* Square matrices of doubles in .npy files (NumPy's format, version 1.0, little-endian, row after row). */
#ifndef NPY_H
#define NPY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* SOURCE: [NumPy, NEP 1] magic, version, length of the text, a Python dictionary padded with spaces to 64 bytes. */
static inline int npy_write(const char *path, const double *matrix, size_t n)
{
    unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
    char text[119];
    int len = snprintf(text, sizeof text, "{'descr': '<f8', 'fortran_order': False, 'shape': (%lu, %lu), }",
                       (unsigned long)n, (unsigned long)n);
    memset(text + len, ' ', sizeof text - (size_t)len);
    text[117] = '\n';
    FILE *file = fopen(path, "wb");
    int failed = file == NULL || fwrite(start, 10, 1, file) != 1 || fwrite(text, 118, 1, file) != 1
                 || fwrite(matrix, sizeof(double), n * n, file) != n * n;
    if (file != NULL)
        failed |= fclose(file) != 0;
    if (failed)
        perror(path);
    return failed ? -1 : 0;
}

/* Reads a matrix and its n. The result is the caller's to free; NULL after a line on stderr. */
static inline double *npy_read(const char *path, size_t *n)
{
    unsigned char start[10];
    char text[65536];
    unsigned long rows = 0, columns = 0;
    double *matrix = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return NULL;
    }
    if (fread(start, 10, 1, file) == 1 && memcmp(start, "\x93NUMPY\x01", 7) == 0) {
        size_t len = start[8] + 256u * start[9];
        if (len < sizeof text && fread(text, len, 1, file) == 1) {
            text[len] = 0;
            const char *shape = strstr(text, "'shape': (");
            if (strstr(text, "'<f8'") && strstr(text, "False") && shape != NULL)
                if (sscanf(shape, "'shape': (%lu, %lu)", &rows, &columns) != 2)
                    rows = 0;
        }
    }
    if (rows > 0 && rows == columns && rows <= 32768) {
        matrix = (double *)malloc(rows * rows * sizeof(double));
        if (matrix != NULL && fread(matrix, sizeof(double), rows * rows, file) != rows * rows) {
            free(matrix);
            matrix = NULL;
        }
    }
    fclose(file);
    if (matrix == NULL)
        fprintf(stderr, "%s: not a whole .npy file of a square matrix of doubles, row after row\n", path);
    *n = rows;
    return matrix;
}

#endif
