/* LU in main memory by one thread: what all other versions are measured against. Run `lu-plain 2048`. */
#define _DEFAULT_SOURCE
#include "../kit/clock.h"
#include "../kit/pages.h"
#include "options.h"

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    matrix m = matrix_of(&o);
    m.a = (double *)take_pages(lu_len_bytes(&m), o.pages);
    for (size_t b = 0; b < lu_blocks(&m); b++)
        lu_fill(&m, b);

    double start = seconds();
    lu_alone(&m);
    double end = seconds();

    line to = begin_line(&o, "plain", 1);
    line_number(to, "seconds", end - start);
    return end_line(&o, to, &m);
}
