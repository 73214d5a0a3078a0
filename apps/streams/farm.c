/* A task farm whose workers steal from each other: in how many ways N queens stand on a board without attacking each other.
 *
 * A task is a board whose first rows are filled. A worker takes its newest task; where more than a few rows are open it makes a task of
 * each place in the next row, else it counts. One that has none asks another, by a block to that one's queue, and is given its oldest
 * task, which is the largest. All is over when the count of open tasks, a word of the pool, is 0.
 * Run by `hanare run --nodes 2 -n 4 -- farm 12 --check`.
 */
/* FEATURE: VQ-F30 */
#define _DEFAULT_SOURCE
#include "../kit/words.h"
#include "ports.h"

enum { QUEENS_MAX = 16, TASK_COUNT_MAX = QUEENS_MAX * QUEENS_MAX, WAIT_MS = 20 };
enum { STEAL = 1, TASK, NONE };

typedef struct task {
    uint32_t row, columns, left, right; /* rows filled; columns and diagonals that are attacked in the next */
} task;

typedef struct block {
    uint32_t kind, from;
    task given;
    uint32_t unused[10];
} block;

typedef struct farm {
    job j;
    ports p;
    hanare_region *words; /* open tasks, solutions, tasks that were stolen */
    char name[128];
    task tasks[TASK_COUNT_MAX]; /* the oldest first */
    size_t first, last;
    uint32_t queens, spread; /* rows up to which tasks are split */
    int64_t grown;           /* tasks made less tasks done, since the word was told */
    uint64_t solutions, stolen;
    uint32_t victim;
} farm;

static uint64_t count(const farm *f, task t)
{
    uint32_t all = (1u << f->queens) - 1, open = all & ~(t.columns | t.left | t.right);
    uint64_t found = t.row == f->queens;
    for (; open != 0 && t.row < f->queens; open &= open - 1) {
        uint32_t place = open & -open;
        task next = {t.row + 1, t.columns | place, (t.left | place) << 1, (t.right | place) >> 1};
        found += count(f, next);
    }
    return found;
}

static void work(farm *f)
{
    task t = f->tasks[--f->last];
    uint32_t open = ((1u << f->queens) - 1) & ~(t.columns | t.left | t.right);
    f->grown--;
    if (t.row >= f->spread) {
        f->solutions += count(f, t);
        return;
    }
    for (; open != 0; open &= open - 1) {
        uint32_t place = open & -open;
        task next = {t.row + 1, t.columns | place, (t.left | place) << 1, (t.right | place) >> 1};
        f->tasks[f->last++] = next, f->grown++;
    }
}

/* Tells the pool by how much the open tasks have grown. A worker with tasks has told of as many as it has, or of one more at least: so
 * the word is 0 only when nobody has any. */
static void tell(farm *f)
{
    if (f->grown != 0)
        job_must(hanare_fetch_add(f->words, 0, (uint64_t)f->grown, NULL));
    f->grown = 0;
}

static void send(farm *f, uint32_t to, uint32_t kind, const task *given)
{
    block b;
    memset(&b, 0, sizeof b);
    b.kind = kind, b.from = (uint32_t)f->j.rank;
    if (given != NULL)
        b.given = *given;
    job_must(hanare_queue_send(ports_to(&f->j, &f->p, (int)to), &b, sizeof b, HANARE_FOREVER));
}

/* Answers those who ask; returns 1 when this one's own question was answered. */
static int listen(farm *f, uint64_t bound_ms)
{
    block b;
    size_t len;
    for (;; bound_ms = 0) {
        int code = hanare_queue_receive(f->p.in, &b, sizeof b, &len, bound_ms);
        if (code == HANARE_ERR_NOT_IN_TIME)
            return 0;
        job_must(code);
        if (b.kind == STEAL && f->last > f->first) {
            tell(f);
            send(f, b.from, TASK, &f->tasks[f->first++]);
        } else if (b.kind == STEAL) {
            send(f, b.from, NONE, NULL);
        } else {
            if (b.kind == TASK)
                f->tasks[f->last++] = b.given, f->stolen++;
            return 1;
        }
    }
}

/* Asks the others in turn until one gives a task; returns 0 when there are none any more. */
static int steal(farm *f)
{
    uint64_t open;
    tell(f);
    f->first = f->last = 0;
    for (;;) {
        job_must(hanare_read_word(f->words, 0, &open));
        if (open == 0)
            return 0;
        f->victim = (f->victim + 1) % (uint32_t)f->j.ranks;
        if (f->victim == (uint32_t)f->j.rank)
            continue;
        send(f, f->victim, STEAL, NULL);
        /* One that has ended does not answer; then nothing is open. */
        while (!listen(f, WAIT_MS)) {
            job_must(hanare_read_word(f->words, 0, &open));
            if (open == 0)
                return 0;
        }
        if (f->last > f->first)
            return 1;
    }
}

static void run(farm *f)
{
    task empty = {0, 0, 0, 0};
    if (f->j.rank == 0) {
        f->tasks[f->last++] = empty;
        job_must(hanare_put(f->words, 0, (const uint64_t[]){1}, sizeof(uint64_t)));
    }
    job_must(hanare_barrier(f->j.pool));
    do
        while (f->last > f->first) {
            work(f);
            listen(f, 0);
        }
    while (steal(f));
    job_must(hanare_fetch_add(f->words, 8, f->solutions, NULL));
    job_must(hanare_fetch_add(f->words, 16, f->stolen, NULL));
}

int main(int argc, char **argv)
{
    static farm f;
    /* SOURCE: OEIS A000170 */
    const uint64_t known[QUEENS_MAX + 1] = {1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712, 365596, 2279184, 14772512};
    size_t queens = 12;
    int check = 0, json = 0, status = 0;
    const word words[] = {{"", NULL, &queens, NULL, NULL}, {"--check", &check, NULL, NULL, NULL}, {"--json", &json, NULL, NULL, NULL},
                          {NULL, NULL, NULL, NULL, NULL}};
    hanare_queue_options options = HANARE_QUEUE_OPTIONS_INIT;
    uint64_t found[3];
    read_words(argc, argv, words);
    if (queens > QUEENS_MAX) {
        fprintf(stderr, "farm: at most %d queens\n", QUEENS_MAX);
        return 2;
    }
    f.queens = (uint32_t)queens, f.spread = f.queens > 6 ? f.queens - 6 : 0;
    f.j = job_begin("farm");
    options.ports = (uint32_t)f.j.ranks, options.overflow = HANARE_OVERFLOW_SPILL;
    f.words = job_region(&f.j, "words", sizeof found, NULL, f.name, sizeof f.name);
    f.p = ports_begin(&f.j, &options);
    f.victim = (uint32_t)f.j.rank;

    job_start(&f.j);
    run(&f);
    times was = job_stop(&f.j);

    if (f.j.rank == 0) {
        job_must(hanare_get(f.words, 0, found, sizeof found));
        line to = line_begin(json, "farm", "queens");
        line_count(to, "queens", queens);
        line_count(to, "ranks", (unsigned long long)f.j.ranks);
        line_count(to, "solutions", found[1]);
        line_count(to, "stolen", found[2]);
        line_number(to, "seconds", was.seconds);
        status = check && found[1] != known[queens];
        if (check)
            line_count(to, "ok", status == 0);
        line_end(to);
    }
    ports_end(&f.j, &f.p);
    job_must(hanare_close(f.words));
    if (f.j.rank == 0)
        job_must(hanare_remove(f.j.pool, f.name));
    job_end(&f.j);
    return status;
}
