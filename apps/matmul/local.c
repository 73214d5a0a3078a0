/* The matrix product of the drivers paper's figure 2: three matrices in pool memory, and the loops of main memory.
 * Run by `hanare run -- ./local 1024`.
 */
/* FEATURE: D2-F19 */
#define _DEFAULT_SOURCE
#include "options.h"
#include <dimmnet.h>

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    size_t size = o.n * o.n * sizeof(double);
    if (dn_init(argc, argv) < 0)
        return 1;
    double *a = (double *)dn_malloc(size), *b = (double *)dn_malloc(size), *c = (double *)dn_malloc(size);
    if (a == NULL || b == NULL || c == NULL)
        return 1;
    matrix_fill(a, o.n, 1);
    matrix_fill(b, o.n, 2);
    memset(c, 0, size);

    double start = seconds();
    product_of(&o)(o.n, 0, o.n, a, b, c);
    double product_s = seconds() - start;

    outcome was = {"region", 1, product_s, product_s, 0, 0, 0};
    int status = print_outcome(&o, &was, a, b, c);
    dn_free(a);
    dn_free(b);
    dn_free(c);
    return dn_finalize() < 0 ? 1 : status;
}
