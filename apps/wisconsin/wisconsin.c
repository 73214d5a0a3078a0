/* Queries 1 to 4, 6 and 7 of the Wisconsin benchmark over tables in files, in mapped files or in regions, by one rank or
 * several on several nodes.
 *
 *   tenk1   COUNT tuples; each rank works on its share of them, in order
 *   onek    1000 tuples
 *
 * Each query reads its tables whole, because there is no index. Joins are nested loops over tuples that were selected
 * before. A query's rows are counted and summed, so that all stores and numbers of ranks can be compared.
 * Run by `hanare run --nodes 2 -n 2 -- wisconsin --store regions`.
 */
/* FEATURE: D2-F20 */
#define _DEFAULT_SOURCE
#define _XOPEN_SOURCE 700
#include "../kit/job.h"
#include "../kit/words.h"
#include "tuple.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ONEK = 1000, RANK_COUNT_MAX = 64, QUERY_COUNT = 7 };

/* Tuples that are read at once: about 64 KiB. */
enum { CHUNK = 65536 / sizeof(tuple) };

typedef enum store { FILES, MAPPED, REGIONS } store;

/* A table. In regions each rank has its share in one of its own, on its node. */
typedef struct table {
    const char *name;
    store in;
    size_t count;
    char path[512];
    int fd;
    const tuple *ptr;
    hanare_region *parts[RANK_COUNT_MAX];
    char names[RANK_COUNT_MAX][128];
    size_t part_count, part_len; /* regions, and tuples of each but the last */
} table;

/* What a query finds. */
typedef struct found {
    uint64_t rows, sum, least;
} found;

/* Tuples that were selected. */
typedef struct selection {
    tuple *at;
    size_t count, room;
} selection;

static void stop(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- Tables ----------------------------------------------------------------------------------------------------- */

/* Writes `count` tuples from `first` on. */
static void put(table *t, const tuple *from, size_t first, size_t count)
{
    if (t->in == REGIONS) {
        size_t part = first / t->part_len;
        job_must(hanare_put(t->parts[part], (first - part * t->part_len) * sizeof(tuple), from, count * sizeof(tuple)));
        return;
    }
    const char *at = (const char *)from;
    for (size_t left = count * sizeof(tuple); left > 0;) {
        ssize_t done = write(t->fd, at, left);
        if (done <= 0)
            stop(t->path);
        at += done;
        left -= (size_t)done;
    }
}

/* Writes a rank's share; of files, rank 0 writes all. */
static void fill(job *j, table *t)
{
    size_t from = t->in == REGIONS ? t->part_len * (size_t)j->rank : 0, to = from + t->part_len;
    if (t->in != REGIONS)
        to = j->rank == 0 ? t->count : 0;
    if (to > t->count)
        to = t->count;
    uint32_t *random = shuffled(t->count);
    tuple *chunk = malloc(CHUNK * sizeof *chunk);
    if (random == NULL || chunk == NULL)
        stop("wisconsin");
    for (size_t first = from; first < to;) {
        size_t count = to - first < CHUNK ? to - first : CHUNK;
        for (size_t k = 0; k < count; k++)
            chunk[k] = tuple_of(random[first + k], (uint32_t)(first + k));
        put(t, chunk, first, count);
        first += count;
    }
    free(chunk);
    free(random);
}

/* Makes a table and writes it. */
static void make(job *j, table *t, const char *name, size_t count, store in, const char *folder)
{
    t->name = name, t->in = in, t->count = count, t->fd = -1, t->ptr = NULL;
    t->part_count = in == REGIONS && count > ONEK ? (size_t)j->ranks : 1;
    t->part_len = (count + t->part_count - 1) / t->part_count;
    if (in == REGIONS) {
        for (int turn = 0; turn < j->ranks; turn++) {
            size_t part = (size_t)turn;
            char what[64];
            snprintf(what, sizeof what, "%s-%lu", name, (unsigned long)part);
            /* Each rank makes its own, and the others find it. */
            for (int is_other = 0; is_other < 2 && part < t->part_count; is_other++) {
                if ((j->rank != turn) == is_other)
                    t->parts[part] =
                        job_region(j, what, t->part_len * sizeof(tuple), "local", t->names[part], sizeof t->names[part]);
                job_meet(j);
            }
        }
    } else {
        snprintf(t->path, sizeof t->path, "%s/%s", folder, name);
        if (j->rank == 0 && (t->fd = open(t->path, O_CREAT | O_TRUNC | O_WRONLY, 0600)) < 0)
            stop(t->path);
    }
    if (in != REGIONS || t->part_count > 1 || j->rank == 0)
        fill(j, t);
    if (t->fd >= 0 && (fsync(t->fd) != 0 || close(t->fd) != 0))
        stop(t->path);
    t->fd = -1;
    job_meet(j);
}

/* Opens a table's file for a query. */
static void begin(table *t)
{
    if (t->in == REGIONS)
        return;
    if ((t->fd = open(t->path, O_RDONLY)) < 0)
        stop(t->path);
    if (t->in != MAPPED)
        return;
    void *ptr = mmap(NULL, t->count * sizeof(tuple), PROT_READ, MAP_SHARED, t->fd, 0);
    if (ptr == MAP_FAILED)
        stop(t->path);
    t->ptr = ptr;
}

static void end(table *t)
{
    if (t->ptr != NULL && munmap((void *)(uintptr_t)t->ptr, t->count * sizeof(tuple)) != 0)
        stop(t->path);
    if (t->fd >= 0 && close(t->fd) != 0)
        stop(t->path);
    t->ptr = NULL, t->fd = -1;
}

/* Has the kernel forget what it keeps of a file, so that the next query reads the disk. */
static void cool(const table *t)
{
    if (t->in == REGIONS)
        return;
    int fd = open(t->path, O_RDONLY);
    if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0 || close(fd) != 0)
        stop(t->path);
}

/* `count` tuples from `first` on, at most CHUNK of them; in `room` where they do not lie in memory. */
static const tuple *tuples(const table *t, size_t first, size_t count, tuple *room)
{
    if (t->in == MAPPED)
        return t->ptr + first;
    if (t->in == REGIONS) {
        for (size_t at = first, left = count; left > 0;) {
            size_t part = at / t->part_len, begin_of = part * t->part_len;
            size_t here = t->part_len - (at - begin_of) < left ? t->part_len - (at - begin_of) : left;
            job_must(hanare_get(t->parts[part], (at - begin_of) * sizeof(tuple), room + (at - first), here * sizeof(tuple)));
            at += here;
            left -= here;
        }
        return room;
    }
    char *into = (char *)room;
    for (size_t done = 0, len = count * sizeof(tuple); done < len;) {
        ssize_t now = pread(t->fd, into + done, len - done, (off_t)(first * sizeof(tuple) + done));
        if (now <= 0)
            stop(t->path);
        done += (size_t)now;
    }
    return room;
}

/* ---- Queries ---------------------------------------------------------------------------------------------------- */

/* Tables and what a query goes by. */
typedef struct work {
    table *tenk1, *onek;
    size_t from, to; /* this rank's share of tenk1 */
    int is_as_printed; /* query 6 compares by "not equal" */
    selection t2, o;
    found now;
} work;

/* Counts a row of the result, and sums what it holds. */
static void row(work *w, const tuple *t)
{
    const uint32_t *numbers = &t->unique1;
    uint64_t sum = 0;
    for (int k = 0; k < 13; k++)
        sum = sum * 31 + numbers[k];
    for (int k = 0; k < STRING_LEN; k++)
        sum = sum * 31 + (unsigned char)t->stringu1[k] + (unsigned char)t->stringu2[k] + (unsigned char)t->string4[k];
    w->now.sum += sum;
}

static void select_tuple(selection *to, const tuple *t)
{
    if (to->count == to->room) {
        to->room = to->room * 2 + 1024;
        to->at = realloc(to->at, to->room * sizeof *to->at);
        if (to->at == NULL)
            stop("wisconsin");
    }
    to->at[to->count++] = *t;
}

typedef void (*visit)(work *w, const tuple *t);

static void scan(work *w, const table *t, size_t from, size_t to, visit each)
{
    tuple *room = malloc(CHUNK * sizeof *room);
    if (room == NULL)
        stop("wisconsin");
    while (from < to) {
        size_t count = to - from < CHUNK ? to - from : CHUNK;
        const tuple *at = tuples(t, from, count, room);
        for (size_t k = 0; k < count; k++)
            each(w, at + k);
        from += count;
    }
    free(room);
}

static void q1(work *w, const tuple *t)
{
    if (t->unique2 > 301 && t->unique2 < 402)
        w->now.rows++, row(w, t);
}

static void q2(work *w, const tuple *t)
{
    if (t->unique1 > 647 && t->unique1 < 65648)
        w->now.rows++, row(w, t);
}

static void q3(work *w, const tuple *t)
{
    if (t->unique2 == 2001)
        w->now.rows++, row(w, t);
}

/* What a join takes of t1 and t2. As printed, query 6 compares by "not equal"; public versions have "less". */
static int is_joined(const work *w, const tuple *t) { return w->is_as_printed ? t->unique2 != 1000 : t->unique2 < 1000; }

static void select_t2(work *w, const tuple *t)
{
    if (is_joined(w, t))
        select_tuple(&w->t2, t);
}

static void select_o(work *w, const tuple *t) { select_tuple(&w->o, t); }

static void q4(work *w, const tuple *t1)
{
    for (size_t k = 0; k < w->t2.count; k++)
        if (w->t2.at[k].unique2 == t1->unique2)
            w->now.rows++, row(w, t1), row(w, &w->t2.at[k]);
}

static void q6(work *w, const tuple *t1)
{
    if (!is_joined(w, t1))
        return;
    for (size_t o = 0; o < w->o.count; o++) {
        if (w->o.at[o].unique2 != t1->unique2)
            continue;
        for (size_t k = 0; k < w->t2.count; k++)
            if (w->t2.at[k].unique2 == t1->unique2)
                w->now.rows++, row(w, t1), row(w, &w->o.at[o]);
    }
}

static void q7(work *w, const tuple *t)
{
    w->now.least = t->unique2 < w->now.least ? t->unique2 : w->now.least;
    w->now.rows = 1;
}

/* A query's last scan; 0 where there is none of that number. */
static visit query_of(int number)
{
    static const visit QUERIES[QUERY_COUNT] = {q1, q2, q3, q4, 0, q6, q7};
    return QUERIES[number - 1];
}

static void query(work *w, int number)
{
    begin(w->tenk1);
    if (number == 4 || number == 6)
        scan(w, w->tenk1, 0, w->tenk1->count, select_t2);
    if (number == 6) {
        begin(w->onek);
        scan(w, w->onek, 0, w->onek->count, select_o);
        end(w->onek);
    }
    scan(w, w->tenk1, w->from, w->to, query_of(number));
    end(w->tenk1);
}

/* What all ranks found together; rank 0 alone gets it. */
static found total(job *j, hanare_region *results, const found *own)
{
    found all = {0, 0, UINT64_MAX}, of[RANK_COUNT_MAX];
    job_must(hanare_put(results, (uint64_t)j->rank * sizeof *own, own, sizeof *own));
    job_meet(j);
    if (j->rank == 0)
        job_must(hanare_get(results, 0, of, (size_t)j->ranks * sizeof *own));
    for (int rank = 0; j->rank == 0 && rank < j->ranks; rank++) {
        all.rows += of[rank].rows;
        all.sum += of[rank].sum;
        all.least = of[rank].least < all.least ? of[rank].least : all.least;
    }
    job_meet(j);
    return all;
}

/* The rows that the definitions of the tables give. */
static uint64_t right(int number, size_t count)
{
    size_t upto = count < 65648 ? count : 65648;
    switch (number) {
    case 1: return 100;
    case 2: return upto - 648;
    default: return number == 4 || number == 6 ? ONEK : 1;
    }
}

/* Runs one query and says how long it took. Whether its rows are right. */
static int run(job *j, work *w, hanare_region *results, int number, const char *name, int is_cold, int is_json)
{
    w->now = (found){0, 0, UINT64_MAX};
    w->t2.count = w->o.count = 0;
    if (is_cold)
        cool(w->tenk1), cool(w->onek);
    job_meet(j);
    double start = seconds();
    query(w, number);
    job_meet(j);
    double spent = seconds() - start;
    found all = total(j, results, &w->now);
    if (j->rank != 0)
        return 1;
    /* Of query 7 each rank has a row. */
    uint64_t rows = number == 7 ? all.rows / (uint64_t)j->ranks : all.rows;
    char what[16];
    snprintf(what, sizeof what, "Q%d", number);
    line to = line_begin(is_json, "wisconsin", what);
    line_text(to, "store", name);
    line_count(to, "ranks", (unsigned long long)j->ranks);
    line_count(to, "tuples", w->tenk1->count);
    line_number(to, "seconds", spent);
    line_count(to, "rows", rows);
    line_count(to, "sum", number == 7 ? all.least : all.sum);
    line_end(to);
    int is_right = rows == right(number, w->tenk1->count) && (number != 7 || all.least == 0);
    if (!is_right)
        fprintf(stderr, "wisconsin: query %d found %lu rows\n", number, (unsigned long)rows);
    return is_right;
}

static void forget(job *j, table *t)
{
    job_meet(j);
    for (size_t part = 0; t->in == REGIONS && part < t->part_count; part++) {
        job_must(hanare_close(t->parts[part]));
        if (j->rank == 0)
            job_must(hanare_remove(j->pool, t->names[part]));
    }
    if (t->in != REGIONS && j->rank == 0 && unlink(t->path) != 0)
        stop(t->path);
}

int main(int argc, char **argv)
{
    size_t count = 1 << 19;
    const char *name = "regions", *folder = ".";
    int is_cold = 0, as_printed = 0, each = 0, json = 0, is_right = 1;
    const word words[] = {
        {"", NULL, &count, NULL, NULL},
        {"--store", NULL, NULL, &name, "files|mapped|regions"},
        {"--dir", NULL, NULL, &folder, NULL},
        {"--each", &each, NULL, NULL, NULL},
        {"--cold", &is_cold, NULL, NULL, NULL},
        {"--as-printed", &as_printed, NULL, NULL, NULL},
        {"--json", &json, NULL, NULL, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    read_words(argc, argv, words);
    job j = job_begin("wisconsin");
    if (j.ranks > RANK_COUNT_MAX || count < 2002) {
        fprintf(stderr, "wisconsin: at least 2002 tuples, at most %d ranks\n", (int)RANK_COUNT_MAX);
        return 2;
    }
    char own[256];
    snprintf(own, sizeof own, each ? "%s/%d" : "%s", folder, j.rank);
    store in = name[0] == 'f' ? FILES : name[0] == 'm' ? MAPPED : REGIONS;
    static table tenk1, onek;
    make(&j, &tenk1, "tenk1", count, in, own);
    make(&j, &onek, "onek", ONEK, in, own);
    char results_name[128];
    hanare_region *results =
        job_region(&j, "results", RANK_COUNT_MAX * sizeof(found), NULL, results_name, sizeof results_name);
    size_t share = (count + (size_t)j.ranks - 1) / (size_t)j.ranks, from = share * (size_t)j.rank;
    work w;
    memset(&w, 0, sizeof w);
    w.tenk1 = &tenk1, w.onek = &onek;
    w.from = from < count ? from : count;
    w.to = w.from + share < count ? w.from + share : count;
    for (int number = 1; number <= QUERY_COUNT; number++)
        if (query_of(number))
            w.is_as_printed = as_printed && number == 6,
            is_right &= run(&j, &w, results, number, name, is_cold, json);
    free(w.t2.at);
    free(w.o.at);
    forget(&j, &tenk1);
    forget(&j, &onek);
    job_must(hanare_close(results));
    if (j.rank == 0)
        job_must(hanare_remove(j.pool, results_name));
    job_end(&j);
    return !is_right;
}
