/* The same product in main memory, by one process or several: what the region versions are measured against. */
/* FEATURE: D2-F19 */
#define _DEFAULT_SOURCE
#include "options.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Zero bytes on pages of the kind asked for, seen by children that are forked later. */
static double *take(const options *o, size_t size, int flags)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    if (memory == MAP_FAILED) {
        perror("plain: mmap");
        exit(1);
    }
    madvise(memory, size, strcmp(o->pages, "huge") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    memset(memory, 0, size);
    return (double *)memory;
}

/* Runs the product in o->processes processes, this one included, and waits for all. */
static int run(const options *o, const double *a, const double *b, double *c)
{
    int failed = 0, status;
    for (size_t rank = 1; rank < o->processes; rank++) {
        pid_t child = fork();
        if (child < 0) {
            perror("plain: fork");
            exit(1);
        }
        if (child == 0) {
            rows mine = rows_of(o->n, rank, o->processes);
            product_of(o)(o->n, mine.first, mine.last, a, b, c);
            _exit(0);
        }
    }
    rows mine = rows_of(o->n, 0, o->processes);
    product_of(o)(o->n, mine.first, mine.last, a, b, c);
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    size_t size = o.n * o.n * sizeof(double);
    double *a = take(&o, size, MAP_PRIVATE), *b = take(&o, size, MAP_PRIVATE);
    double *c = take(&o, size, o.processes > 1 ? MAP_SHARED : MAP_PRIVATE);
    matrix_fill(a, o.n, 1);
    matrix_fill(b, o.n, 2);

    double start = seconds();
    int failed = run(&o, a, b, c);
    double product_s = seconds() - start;

    outcome was = {"plain", (int)o.processes, product_s, product_s, 0, 0, 0};
    return print_outcome(&o, &was, a, b, c) || failed;
}
