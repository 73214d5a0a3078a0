/* The virtual queue paper's matrix product: rows of B stream from processor to processor.
 *
 * Each rank keeps its rows of A and C. A row of B begins at the rank that has it and passes all others, each of which takes it from its
 * queue, adds what it is worth to its rows of C, and hands it on. A row is one stream of blocks, committed together.
 * Run by `hanare run --nodes 2 -n 2 -- product 256 --check`.
 *
 * SOURCE: [VQ §5] 256 x 256 doubles in blocks of 4; here blocks of 8, which are a cache line.
 */
/* FEATURE: VQ-F27 VQ-F29 */
#define _DEFAULT_SOURCE
#include "../kit/words.h"
#include "ports.h"

enum { BLOCK = 8 };

typedef struct product {
    job j;
    ports p;
    size_t n, first, last; /* rows of this rank */
    double *a, *c, *row;
} product;

/* Whole numbers so small that every sum is exact, whatever its order. */
static double a_of(size_t i, size_t k) { return (double)((i * 7 + k * 3) % 11) - 5; }
static double b_of(size_t k, size_t j) { return (double)((k * 5 + j * 13) % 17) - 8; }

static size_t first_of(const product *p, int rank) { return p->n * (size_t)rank / (size_t)p->j.ranks; }

static void hand_on(product *p, int to)
{
    hanare_queue_writer *writer = ports_to(&p->j, &p->p, to);
    for (size_t at = 0; at < p->n; at += BLOCK) {
        void *unit;
        job_must(hanare_queue_claim(writer, BLOCK * sizeof(double), HANARE_FOREVER, &unit));
        memcpy(unit, p->row + at, BLOCK * sizeof(double));
        job_must(hanare_queue_keep(writer));
    }
    job_must(hanare_queue_commit(writer));
}

static void take(product *p)
{
    for (size_t at = 0; at < p->n; at += BLOCK) {
        const void *unit;
        size_t len;
        job_must(hanare_queue_see(p->p.in, HANARE_FOREVER, &unit, &len));
        memcpy(p->row + at, unit, BLOCK * sizeof(double));
    }
    job_must(hanare_queue_release(p->p.in));
}

static void add(product *p, size_t k)
{
    for (size_t i = 0; i < p->last - p->first; i++)
        for (size_t j = 0; j < p->n; j++)
            p->c[i * p->n + j] += p->a[i * p->n + k] * p->row[j];
}

/* A rank first sends and uses its own rows, one at a time, and after each what others have sent by then would wait; so it takes as
 * many from the rank before as that one has sent. */
static void run(product *p)
{
    int ranks = p->j.ranks, next = (p->j.rank + 1) % ranks, owner = p->j.rank;
    for (int hop = 0; hop < ranks; hop++, owner = (owner + ranks - 1) % ranks)
        for (size_t k = first_of(p, owner); k < first_of(p, owner + 1); k++) {
            if (hop > 0)
                take(p);
            else
                for (size_t j = 0; j < p->n; j++)
                    p->row[j] = b_of(k, j);
            if (hop + 1 < ranks)
                hand_on(p, next);
            add(p, k);
        }
}

static size_t wrong_of(const product *p)
{
    size_t wrong = 0;
    for (size_t i = p->first; i < p->last; i++)
        for (size_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (size_t k = 0; k < p->n; k++)
                sum += a_of(i, k) * b_of(k, j);
            wrong += sum != p->c[(i - p->first) * p->n + j];
        }
    return wrong;
}

int main(int argc, char **argv)
{
    product p;
    int check = 0, json = 0;
    memset(&p, 0, sizeof p);
    p.n = 256;
    const word words[] = {{"", NULL, &p.n, NULL, NULL}, {"--check", &check, NULL, NULL, NULL}, {"--json", &json, NULL, NULL, NULL},
                          {NULL, NULL, NULL, NULL, NULL}};
    hanare_queue_options options = HANARE_QUEUE_OPTIONS_INIT;
    read_words(argc, argv, words);
    p.n = (p.n + BLOCK - 1) / BLOCK * BLOCK;
    p.j = job_begin("product");
    p.first = first_of(&p, p.j.rank), p.last = first_of(&p, p.j.rank + 1);
    p.a = (double *)malloc((p.last - p.first + 1) * p.n * sizeof(double));
    p.c = (double *)calloc((p.last - p.first + 1) * p.n, sizeof(double));
    p.row = (double *)malloc(p.n * sizeof(double));
    if (p.a == NULL || p.c == NULL || p.row == NULL)
        return 1;
    for (size_t i = p.first; i < p.last; i++)
        for (size_t k = 0; k < p.n; k++)
            p.a[(i - p.first) * p.n + k] = a_of(i, k);
    /* All rows of a rank may wait at the next one, so that no circle of ranks waits for room. */
    options.block = BLOCK * sizeof(double), options.ports = 1, options.depth = (uint32_t)(p.n / BLOCK * 2);
    options.overflow = HANARE_OVERFLOW_SPILL;
    p.p = ports_begin(&p.j, &options);

    job_start(&p.j);
    run(&p);
    times was = job_stop(&p.j);

    size_t wrong = check ? wrong_of(&p) : 0;
    if (p.j.rank == 0 || wrong != 0) {
        line to = line_begin(json, "product", "streams");
        line_count(to, "n", p.n);
        line_count(to, "ranks", (unsigned long long)p.j.ranks);
        line_number(to, "seconds", was.seconds);
        line_number(to, "mflops", 2.0 * (double)p.n * (double)p.n * (double)p.n / was.seconds / 1e6);
        if (check)
            line_count(to, "wrong", wrong);
        line_end(to);
    }
    free(p.a), free(p.c), free(p.row);
    ports_end(&p.j, &p.p);
    job_end(&p.j);
    return wrong != 0;
}
