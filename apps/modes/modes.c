/* Which way of sharing memory suits what: three loads, each in the three ways, one line for each.
 *
 *     modes [--rounds R] [--mode coherent|explicit|entry] [--load columns|table|records] [--json]
 *
 *   columns   ranks sweep over their own columns of a matrix whose rows are a page long, and then meet: every page is written by all
 *   table     rank 0 changes a page of a table, and all read the whole table
 *   records   ranks change a few words of records of some pages, each record under its own lock
 *
 * Every load checks what it reads; a rank that finds something else ends the job.
 */
#define _DEFAULT_SOURCE
#include "../kit/job.h"
#include "../kit/words.h"

enum { ROWS = 64, SWEEPS = 10, ROW_LEN = PAGE_LEN / sizeof(uint64_t) };
enum { TABLE_PAGES = 512, RECORDS = 16, RECORD_LEN = 4 * PAGE_LEN + 64, CHANGED_EVERY = 1024 };

typedef struct run {
    job j;
    mapped memory;
    int consistency;
    size_t rounds;
} run;

static const char *const MODE_NAMES[] = {"", "explicit", "coherent", "entry"};

/* Ends the job where a load reads something else than it should. */
static void expect(const char *load, uint64_t found, uint64_t wanted)
{
    if (found == wanted)
        return;
    fprintf(stderr, "modes: %s: read %llu where %llu was stored\n", load, (unsigned long long)found, (unsigned long long)wanted);
    exit(1);
}

/* What is not under a lock is flushed and updated in both ways that are not coherent. */
static void publish(run *r, const void *at, size_t len)
{
    if (r->consistency != HANARE_COHERENT)
        job_must(hanare_flush_range(r->memory.region, (uint64_t)((const char *)at - r->memory.ptr), len));
}

static void refresh(run *r, const void *at, size_t len)
{
    if (r->consistency != HANARE_COHERENT)
        job_must(hanare_update_range(r->memory.region, (uint64_t)((const char *)at - r->memory.ptr), len));
}

static uint64_t *words(const run *r) { return (uint64_t *)(void *)r->memory.ptr; }

/* Each round a rank adds to its columns of all rows, sweep by sweep, and reads its right neighbour's after the meeting. */
static void columns(run *r)
{
    size_t ranks = (size_t)r->j.ranks, rank = (size_t)r->j.rank, width = ROW_LEN / ranks, next = (rank + 1) % ranks;
    for (uint64_t round = 1; round <= r->rounds; round++) {
        for (size_t k = 0; k < SWEEPS * ROWS; k++)
            for (size_t column = rank * width; column < (rank + 1) * width; column++)
                words(r)[k % ROWS * ROW_LEN + column] += 1;
        publish(r, r->memory.ptr, ROWS * PAGE_LEN);
        job_meet(&r->j);
        refresh(r, r->memory.ptr, ROWS * PAGE_LEN);
        for (size_t row = 0; row < ROWS; row++)
            for (size_t k = next * width; k < (next + 1) * width; k++)
                expect("columns", words(r)[row * ROW_LEN + k], SWEEPS * round);
        job_meet(&r->j);
    }
}

/* Each round rank 0 stores to one page; all read one word of each page. */
static void table(run *r)
{
    for (uint64_t round = 1; round <= r->rounds; round++) {
        uint64_t *changed = words(r) + round % TABLE_PAGES * ROW_LEN, sum = 0;
        if (r->j.rank == 0) {
            *changed += 1;
            publish(r, changed, sizeof *changed);
        }
        job_meet(&r->j);
        if (r->j.rank != 0)
            refresh(r, r->memory.ptr, TABLE_PAGES * PAGE_LEN);
        for (size_t page = 0; page < TABLE_PAGES; page++)
            sum += words(r)[page * ROW_LEN];
        expect("table", sum, round);
        job_meet(&r->j);
    }
}

/* The lock of a record. */
static hanare_held *take(run *r, size_t record)
{
    char name[160];
    hanare_held *held;
    snprintf(name, sizeof name, "%s-%lu", r->memory.name, (unsigned long)record);
    job_must(hanare_lock(r->j.pool, name, HANARE_EXCLUSIVE, HANARE_FOREVER, &held));
    return held;
}

/* Ranks add to a word of each KiB of a record, each beginning with another record; at the end each such word has been added to once by
 * each rank and round. */
static void records(run *r)
{
    for (size_t record = 0; r->consistency == HANARE_ENTRY && r->j.rank == 0 && record < RECORDS; record++) {
        hanare_part part = {r->memory.region, record * RECORD_LEN, RECORD_LEN};
        hanare_held *held = take(r, record);
        job_must(hanare_bind(held, &part, 1));
        job_must(hanare_unlock(held));
    }
    job_meet(&r->j);
    for (uint64_t round = 0; round < r->rounds; round++)
        for (size_t k = 0; k < RECORDS; k++) {
            size_t record = (k + (size_t)r->j.rank * RECORDS / (size_t)r->j.ranks) % RECORDS;
            uint64_t *at = words(r) + record * RECORD_LEN / sizeof *at;
            hanare_held *held = take(r, record);
            if (r->consistency == HANARE_EXPLICIT)
                refresh(r, at, RECORD_LEN);
            for (size_t word = 0; word < RECORD_LEN / sizeof *at; word += CHANGED_EVERY / sizeof *at)
                at[word] += 1;
            if (r->consistency == HANARE_EXPLICIT)
                publish(r, at, RECORD_LEN);
            job_must(hanare_unlock(held));
        }
    job_meet(&r->j);
    for (size_t record = 0; record < RECORDS; record++) {
        hanare_held *held = take(r, record);
        if (r->consistency == HANARE_EXPLICIT)
            refresh(r, r->memory.ptr, RECORDS * RECORD_LEN);
        expect("records", words(r)[record * RECORD_LEN / sizeof(uint64_t)], r->rounds * (uint64_t)r->j.ranks);
        job_must(hanare_unlock(held));
    }
}

static const struct {
    const char *name;
    size_t len;
    void (*run)(run *r);
} LOADS[] = {{"columns", ROWS * PAGE_LEN, columns}, {"table", TABLE_PAGES * PAGE_LEN, table}, {"records", RECORDS * RECORD_LEN, records}};

int main(int argc, char **argv)
{
    run r;
    int json = 0;
    const char *mode = "all", *load = "all";
    memset(&r, 0, sizeof r);
    r.rounds = 20;
    const word options[] = {
        {"--rounds", NULL, &r.rounds, NULL, NULL},
        {"--mode", NULL, NULL, &mode, "all|coherent|explicit|entry"},
        {"--load", NULL, NULL, &load, "all|columns|table|records"},
        {"--json", &json, NULL, NULL, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    read_words(argc, argv, options);
    r.j = job_begin("modes");
    for (size_t k = 0; k < sizeof LOADS / sizeof *LOADS; k++)
        for (r.consistency = HANARE_EXPLICIT; r.consistency <= HANARE_ENTRY; r.consistency++) {
            const char *name = MODE_NAMES[r.consistency];
            if ((strcmp(load, "all") && strcmp(load, LOADS[k].name)) || (strcmp(mode, "all") && strcmp(mode, name)))
                continue;
            char what[64];
            snprintf(what, sizeof what, "%s-%s", LOADS[k].name, name);
            r.memory = job_map(&r.j, what, LOADS[k].len, NULL, r.consistency);
            job_start(&r.j);
            LOADS[k].run(&r);
            times was = job_stop(&r.j);
            if (r.j.rank == 0) {
                line to = line_begin(json, "modes", LOADS[k].name);
                line_text(to, "mode", name);
                line_count(to, "ranks", (unsigned long long)r.j.ranks);
                line_count(to, "rounds", r.rounds);
                line_number(to, "seconds", was.seconds);
                line_number(to, "wait_s", was.wait_s);
                line_number(to, "bytes", was.bytes);
                line_end(to);
            }
            job_unmap(&r.j, &r.memory);
        }
    job_end(&r.j);
    return 0;
}
