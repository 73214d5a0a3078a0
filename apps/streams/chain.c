/* A stream program: each rank is a kernel between two streams, and works on a strip of a vector while its neighbours work on those before and
 * behind it: vector chaining from process to process. Rank 0 makes the stream, the last one sums it up.
 *
 *     rank 0: make, kernel ──> rank 1: kernel ──> ... ──> last rank: kernel, sum
 *
 * A strip is seen where it came, and what a kernel makes of it is filled in where it goes. Run by `hanare run --nodes 2 -n 3 -- chain 10000`.
 */
/* FEATURE: VQ-F29 */
#define _DEFAULT_SOURCE
#include "../kit/words.h"
#include "ports.h"

enum { STRIP = 64, DEPTH = 64 };

/* What a rank makes of a number: exact for the numbers here, so that any order of work gives the same bits. */
static double kernel(int rank, double x) { return rank % 2 ? x * 0.5 + rank : x + 3 * rank; }

static double made(size_t strip, size_t at) { return (double)(strip * STRIP + at); }

static void work(int rank, const double *from, double *to)
{
    for (size_t at = 0; at < STRIP; at++)
        to[at] = kernel(rank, from[at]);
}

/* Has strips pass this rank; the sum of what leaves the last one. */
static double stream(job *j, ports *p, size_t strips)
{
    int is_last = j->rank + 1 == j->ranks;
    hanare_queue_writer *out = is_last ? NULL : ports_to(j, p, j->rank + 1);
    double own[STRIP], result[STRIP], sum = 0;
    for (size_t strip = 0; strip < strips; strip++) {
        const void *in = own;
        void *place = result;
        size_t len;
        if (j->rank > 0)
            job_must(hanare_queue_see(p->in, HANARE_FOREVER, &in, &len));
        else
            for (size_t at = 0; at < STRIP; at++)
                own[at] = made(strip, at);
        if (!is_last)
            job_must(hanare_queue_claim(out, sizeof result, HANARE_FOREVER, &place));
        work(j->rank, (const double *)in, (double *)place);
        /* The next strip is worked on while this one is on its way. */
        if (!is_last)
            job_must(hanare_queue_commit_nb(out));
        for (size_t at = 0; is_last && at < STRIP; at++)
            sum += result[at];
        if (j->rank > 0)
            job_must(hanare_queue_release(p->in));
    }
    if (!is_last)
        job_must(hanare_queue_commit(out));
    return sum;
}

/* The same by a plain loop. */
static double plain(int ranks, size_t strips)
{
    double sum = 0;
    for (size_t strip = 0; strip < strips; strip++)
        for (size_t at = 0; at < STRIP; at++) {
            double x = made(strip, at);
            for (int rank = 0; rank < ranks; rank++)
                x = kernel(rank, x);
            sum += x;
        }
    return sum;
}

int main(int argc, char **argv)
{
    size_t strips = 10000;
    int json = 0, is_wrong = 0;
    const word words[] = {{"", NULL, &strips, NULL, NULL}, {"--json", &json, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
    hanare_queue_options options = HANARE_QUEUE_OPTIONS_INIT;
    read_words(argc, argv, words);
    job j = job_begin("chain");
    options.ports = 1, options.block = STRIP * sizeof(double), options.depth = DEPTH;
    ports p = ports_begin(&j, &options);

    job_start(&j);
    double sum = stream(&j, &p, strips);
    times was = job_stop(&j);

    if (j.rank + 1 == j.ranks) {
        is_wrong = sum != plain(j.ranks, strips);
        line to = line_begin(json, "chain", "strips");
        line_count(to, "ranks", (unsigned long long)j.ranks);
        line_count(to, "strips", (unsigned long long)strips);
        line_count(to, "wrong", (unsigned long long)is_wrong);
        line_number(to, "seconds", was.seconds);
        line_end(to);
    }
    ports_end(&j, &p);
    job_end(&j);
    return is_wrong;
}
