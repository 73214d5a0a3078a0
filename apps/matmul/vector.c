/* The matrix product of the drivers paper's figure 3: A, B and C lie one after another in vector memory; rows come by
 * contiguous loads, columns of B by one strided load (or, with --no-stride, element by element).
 * Two defects of the figure as printed are put right: the sum goes to element j of the row, and starts from zero.
 * Run by `HANARE_SODIMM=64M hanare run -- ./vector 1024`.
 */
/* FEATURE: D2-F11 D2-F19 */
#define _DEFAULT_SOURCE
#include "options.h"
#include <dimmnet.h>

enum { CODE_DOUBLE = 3 };

/* Loads column j of B, which begins at byte `b`. */
static int load_column(const options *o, double *column, size_t b, size_t j)
{
    size_t step = o->n * sizeof(double);
    if (o->strided)
        return VLS(column, b + j * sizeof(double), CODE_DOUBLE, o->n, step);
    for (size_t k = 0; k < o->n; k++) {
        int code = VL(column + k, b + k * step + j * sizeof(double), sizeof(double));
        if (code < 0)
            return code;
    }
    return 0;
}

static int product(const options *o, double *row, double *column, double *result)
{
    size_t step = o->n * sizeof(double), matrix = o->n * step;
    int code = 0;
    for (size_t i = 0; i < o->n && code == 0; i++) {
        code = VL(row, i * step, step);
        for (size_t j = 0; j < o->n && code == 0; j++) {
            double sum = 0;
            code = load_column(o, column, matrix, j);
            for (size_t k = 0; k < o->n; k++)
                sum += row[k] * column[k];
            result[j] = sum;
        }
        if (code == 0)
            code = VS(result, 2 * matrix + i * step, step);
    }
    return code;
}

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    size_t matrix = o.n * o.n * sizeof(double);
    double *a = (double *)malloc(matrix), *b = (double *)malloc(matrix), *c = (double *)malloc(matrix);
    double *row = (double *)malloc(3 * o.n * sizeof(double));
    if (a == NULL || b == NULL || c == NULL || row == NULL || dn_init(argc, argv) < 0)
        return 1;
    matrix_fill(a, o.n, 1);
    matrix_fill(b, o.n, 2);
    if (VS(a, 0, matrix) < 0 || VS(b, matrix, matrix) < 0)
        return 1;

    double start = seconds();
    int code = product(&o, row, row + o.n, row + 2 * o.n);
    double product_s = seconds() - start;
    if (code < 0 || VL(c, 2 * matrix, matrix) < 0)
        return 1;

    outcome was = {o.strided ? "vector-stride" : "vector-no-stride", 1, product_s, product_s, 0, 0, 0};
    int status = print_outcome(&o, &was, a, b, c);
    free(a);
    free(b);
    free(c);
    free(row);
    return dn_finalize() < 0 ? 1 : status;
}
