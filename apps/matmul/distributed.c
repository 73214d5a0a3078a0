/* The matrix product of the drivers paper's figure 4, by several ranks on several nodes: rank 0 fills A and B and
 * flushes; each rank makes a band of rows of C and flushes; rank 0 updates before it reads them.
 * Put right against the figure: rows that n / ranks leaves over are made too, and rank 0 updates C.
 * Run by `hanare run --nodes 2 -n 2 -- ./distributed 1024`. With --loaded A and B are in the pool already.
 */
/* FEATURE: D2-F5 D2-F6 D2-F7 D2-F8 D2-F19 */
#define _DEFAULT_SOURCE
#include "options.h"
#include <dimmnet.h>

typedef struct matrices {
    double *a, *b, *c;
} matrices;

static int attach(const options *o, matrices *m)
{
    size_t size = o->n * o->n * sizeof(double);
    m->a = (double *)dn_malloc(o->a, size);
    m->b = (double *)dn_malloc(o->b, size);
    m->c = (double *)dn_malloc(o->c, size);
    return m->a != NULL && m->b != NULL && m->c != NULL ? 0 : -1;
}

/* Rank 0 makes the matrices before the barrier; the others attach to them after it. */
static int begin(const options *o, matrices *m)
{
    if (dn_getrank() != 0)
        return dn_barrier() < 0 ? -1 : attach(o, m);
    if (attach(o, m) < 0)
        return -1;
    if (!o->loaded) {
        matrix_fill(m->a, o->n, 1);
        matrix_fill(m->b, o->n, 2);
    }
    if (dn_flush(m->a) < 0 || dn_flush(m->b) < 0 || dn_flush(m->c) < 0)
        return -1;
    return dn_barrier();
}

/* This rank's rows, and everybody's at rank 0 when it returns. */
static int multiply(const options *o, const matrices *m)
{
    rows mine = rows_of(o->n, (size_t)dn_getrank(), (size_t)dn_getnodesum());
    product_of(o)(o->n, mine.first, mine.last, m->a, m->b, m->c);
    if (dn_flush(m->c) < 0 || dn_barrier() < 0)
        return -1;
    return dn_getrank() == 0 ? dn_update(m->c) : 0;
}

int main(int argc, char **argv)
{
    options o = read_options(argc, argv);
    matrices m;
    hanare_traffic traffic;
    traffic.struct_size = sizeof traffic;
    if (dn_init(argc, argv) < 0)
        return 1;
    double start = seconds();
    /* The second barrier makes the product's time that of all ranks together, without bringing A and B. */
    if (begin(&o, &m) < 0 || dn_barrier() < 0)
        return 1;
    double middle = seconds();
    if (multiply(&o, &m) < 0 || dn_traffic(&traffic) < 0)
        return 1;
    double end = seconds();

    outcome was = {"distributed", dn_getnodesum(), end - middle, end - start, traffic.bytes_sent,
                   traffic.bytes_received, traffic.messages_sent};
    int status = 0, rank = dn_getrank();
    if (rank == 0)
        status = print_outcome(&o, &was, m.a, m.b, m.c);
    else
        printf("matmul-traffic rank=%d bytes_sent=%llu bytes_received=%llu messages_sent=%llu\n", rank, was.bytes_sent,
               was.bytes_received, was.messages_sent);
    if (dn_free(m.a) < 0 || dn_free(m.b) < 0 || dn_free(m.c) < 0 || dn_finalize() < 0)
        return 1;
    return status;
}
