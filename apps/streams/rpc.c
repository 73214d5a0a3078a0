/* Remote procedure calls in fixed blocks: rank 0 serves, the others call. A call is a block to the server's queue, and its answer one to
 * the caller's. Run by `hanare run --nodes 2 -n 3 -- rpc 10000`.
 */
/* FEATURE: VQ-F29 */
#define _DEFAULT_SOURCE
#include "../kit/words.h"
#include "ports.h"

enum { ADD = 1, GCD, END };

typedef struct call {
    uint32_t procedure, from;
    uint64_t number, first, second, answer;
    uint64_t unused[3];
} call;

static uint64_t gcd(uint64_t a, uint64_t b) { return b == 0 ? a : gcd(b, a % b); }

static uint64_t answer_of(const call *c) { return c->procedure == ADD ? c->first + c->second : gcd(c->first, c->second); }

/* Answers until every caller has said that this was all; returns how many calls there were. */
static uint64_t serve(job *j, ports *p)
{
    uint64_t served = 0;
    for (int callers = j->ranks - 1; callers > 0;) {
        call c;
        size_t len;
        job_must(hanare_queue_receive(p->in, &c, sizeof c, &len, HANARE_FOREVER));
        if (c.procedure == END) {
            callers--;
            continue;
        }
        c.answer = answer_of(&c), served++;
        job_must(hanare_queue_send(ports_to(j, p, (int)c.from), &c, sizeof c, HANARE_FOREVER));
    }
    return served;
}

/* Returns how many answers were wrong. */
static uint64_t call_often(job *j, ports *p, size_t count)
{
    uint64_t wrong = 0;
    call c, answer;
    memset(&c, 0, sizeof c);
    c.from = (uint32_t)j->rank;
    for (size_t k = 0; k < count; k++) {
        size_t len;
        c.procedure = k % 2 ? GCD : ADD, c.number = k;
        c.first = (k + 1) * 360, c.second = (k + (uint64_t)j->rank) * 84;
        job_must(hanare_queue_send(ports_to(j, p, 0), &c, sizeof c, HANARE_FOREVER));
        job_must(hanare_queue_receive(p->in, &answer, sizeof answer, &len, HANARE_FOREVER));
        wrong += answer.number != k || answer.from != c.from || answer.answer != answer_of(&c);
    }
    c.procedure = END;
    job_must(hanare_queue_send(ports_to(j, p, 0), &c, sizeof c, HANARE_FOREVER));
    return wrong;
}

int main(int argc, char **argv)
{
    size_t count = 10000;
    int json = 0;
    uint64_t served = 0, wrong = 0;
    const word words[] = {{"", NULL, &count, NULL, NULL}, {"--json", &json, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
    hanare_queue_options options = HANARE_QUEUE_OPTIONS_INIT;
    read_words(argc, argv, words);
    job j = job_begin("rpc");
    options.ports = (uint32_t)j.ranks, options.block = sizeof(call);
    ports p = ports_begin(&j, &options);

    job_start(&j);
    if (j.rank == 0)
        served = serve(&j, &p);
    else
        wrong = call_often(&j, &p, count);
    times was = job_stop(&j);

    if (j.rank == 0 || wrong != 0) {
        line to = line_begin(json, "rpc", "blocks");
        line_count(to, "ranks", (unsigned long long)j.ranks);
        line_count(to, "calls", served);
        line_count(to, "wrong", wrong);
        line_number(to, "seconds", was.seconds);
        line_number(to, "us_per_call", served > 0 ? was.seconds * 1e6 / (double)served * (j.ranks - 1) : 0);
        line_end(to);
    }
    ports_end(&j, &p);
    job_end(&j);
    return wrong != 0;
}
