/* A job of ranks on mapped memory: attaching, regions that all ranks map, meetings, and where the time went.
 *
 * Every function is for all ranks, in the same order, unless it says otherwise. A call that fails prints
 * hanare_last_error() and ends the rank; the launcher then ends the others.
 */
#ifndef KIT_JOB_H
#define KIT_JOB_H

#include "clock.h"
#include "line.h"
#include <hanare.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_LEN = 4096 };

/* Where a rank's time went, in seconds, and its bytes on links. */
typedef struct times {
    double seconds;   /* from the meeting at the start to that at the end */
    double compute_s; /* what the other two leave */
    double fault_s;   /* bringing bytes from others, or taking pages for writing */
    double wait_s;    /* in meetings */
    double bytes;     /* moved between this rank and nodes, by messages */
} times;

typedef struct job {
    hanare_pool *pool;
    const char *program;
    int rank, ranks;
    times now;             /* of this rank, since job_start */
    hanare_region *ledger; /* times of all ranks, each in a row of its own */
    char ledger_name[128];
} job;

/* A region that all ranks have mapped. */
typedef struct mapped {
    hanare_region *region;
    char *ptr; /* its first byte; another address in each rank */
    size_t len;
    int consistency;
    char name[128];
} mapped;

/* Ends the program where a call failed. */
static inline void job_must(int code)
{
    if (code >= 0)
        return;
    fprintf(stderr, "%s\n", hanare_last_error());
    exit(1);
}

/* A region that belongs to this job: its name holds the job's number, so that no other job meets it. */
static inline hanare_region *job_region(job *j, const char *what, size_t len, const char *placement, char *name,
                                        size_t name_len)
{
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    hanare_region *region;
    const char *number = getenv("HANARE_JOB");
    options.placement = placement;
    options.copies = 1; /* programs map it in the mode that they are told */
    snprintf(name, name_len, "%s-%s-%s", j->program, what, number != NULL && *number ? number : "alone");
    job_must(hanare_create_or_attach(j->pool, name, len, &options, &region));
    return region;
}

/* What a --mode names. */
#define JOB_MODES "coherent|explicit"
static inline int job_consistency(const char *mode) { return strcmp(mode, "explicit") ? HANARE_COHERENT : HANARE_EXPLICIT; }

/* Waits for all ranks; alone, for nobody. */
static inline void job_meet(job *j)
{
    if (j->ranks == 1)
        return;
    double start = seconds();
    job_must(hanare_barrier(j->pool));
    j->now.wait_s += seconds() - start;
}

static inline job job_begin(const char *program)
{
    job j;
    memset(&j, 0, sizeof j);
    j.program = program;
    job_must(hanare_attach(&j.pool));
    j.rank = hanare_rank(j.pool);
    j.ranks = hanare_ranks(j.pool);
    j.ledger = job_region(&j, "ledger", (size_t)j.ranks * sizeof(times), NULL, j.ledger_name, sizeof j.ledger_name);
    return j;
}

/* Bytes of each node in turn such that every rank has `part` bytes close by: the next power of two. */
static inline const char *job_interleave(size_t part)
{
    static char text[64];
    size_t chunk = 65536;
    while (chunk < part)
        chunk *= 2;
    snprintf(text, sizeof text, "interleave=%lu", (unsigned long)chunk);
    return text;
}

/* A count in the pool, of 64 bits and 0 at first, for whose growth ranks wait. */
typedef struct tally {
    hanare_region *region;
    char name[128];
} tally;

static inline tally job_tally(job *j, const char *what)
{
    tally t;
    t.region = job_region(j, what, sizeof(uint64_t), NULL, t.name, sizeof t.name);
    return t;
}

/* Makes the count `count`, which is more than it was. What this rank stored and published before is seen by who waits for
 * it. One rank alone calls it. */
static inline void job_raise(const tally *t, uint64_t count) { job_must(hanare_put(t->region, 0, &count, sizeof count)); }

/* Waits until the count is at least `count`. One rank alone may call it. */
static inline void job_wait_for(job *j, const tally *t, uint64_t count)
{
    double start = seconds();
    job_must(hanare_wait_word(t->region, 0, sizeof count, HANARE_WAIT_AT_LEAST, count, HANARE_FOREVER));
    j->now.wait_s += seconds() - start;
}

/* Removes it. */
static inline void job_end_tally(job *j, tally *t)
{
    job_must(hanare_close(t->region));
    job_must(hanare_barrier(j->pool));
    if (j->rank == 0)
        job_must(hanare_remove(j->pool, t->name));
}

static inline hanare_traffic job_traffic(const job *j)
{
    hanare_traffic traffic;
    traffic.struct_size = sizeof traffic;
    job_must(hanare_get_traffic(j->pool, &traffic));
    return traffic;
}

static inline double job_bytes(const job *j)
{
    hanare_traffic traffic = job_traffic(j);
    return (double)traffic.bytes_sent + (double)traffic.bytes_received;
}

enum { JOB_PLACE_TRIES = 8 };

/* Rank 0 makes the region such that its first chunk is on rank 0's node, so that those that follow are on the nodes of the
 * ranks that follow. An interleaved region begins on another node each time, and only a byte that is brought without a
 * message is here: so it is made again until one is. On a pool where that never happens, wherever it lies. */
static inline void job_place(job *j, const char *what, size_t len, const char *placement)
{
    char name[128], byte;
    for (int at = 0; j->rank == 0 && at < JOB_PLACE_TRIES; at++) {
        hanare_region *region = job_region(j, what, len, placement, name, sizeof name);
        uint64_t before = job_traffic(j).messages_sent;
        job_must(hanare_get(region, 0, &byte, sizeof byte));
        int is_here = job_traffic(j).messages_sent == before;
        job_must(hanare_close(region));
        if (is_here)
            break;
        if (at + 1 < JOB_PLACE_TRIES)
            job_must(hanare_remove(j->pool, name));
    }
    job_must(hanare_barrier(j->pool));
}

/* Makes a region of zero bytes, or opens the one that another rank of this job made, and maps it. */
static inline mapped job_map(job *j, const char *what, size_t len, const char *placement, int consistency)
{
    mapped s;
    void *ptr;
    memset(&s, 0, sizeof s);
    s.consistency = consistency;
    if (j->ranks > 1 && placement != NULL && strncmp(placement, "interleave", 10) == 0)
        job_place(j, what, len, placement);
    s.region = job_region(j, what, len, placement, s.name, sizeof s.name);
    job_must(hanare_map_shared(s.region, consistency, &ptr, &s.len));
    s.ptr = (char *)ptr;
    return s;
}

/* Gives the mapping back and removes the region; nobody may touch it after the call began. */
static inline void job_unmap(job *j, mapped *s)
{
    job_must(hanare_barrier(j->pool));
    job_must(hanare_close(s->region));
    job_must(hanare_barrier(j->pool));
    if (j->rank == 0)
        job_must(hanare_remove(j->pool, s->name));
}

/* Others may read these bytes of this rank's after the next meeting. One rank alone may call it. */
static inline void job_publish(job *j, const mapped *m, const void *at, size_t len)
{
    if (m->consistency != HANARE_EXPLICIT || len == 0)
        return;
    double start = seconds();
    job_must(hanare_flush_range(m->region, (uint64_t)((const char *)at - m->ptr), len));
    j->now.fault_s += seconds() - start;
}

/* From here on this rank sees what others published of these bytes before the last meeting. One rank alone may call it. */
static inline void job_update(job *j, const mapped *m, const void *at, size_t len)
{
    if (m->consistency != HANARE_EXPLICIT || len == 0)
        return;
    double start = seconds();
    job_must(hanare_update_range(m->region, (uint64_t)((const char *)at - m->ptr), len));
    j->now.fault_s += seconds() - start;
}

/* Reads one byte of each page, so that what bringing them costs is known as such. One rank alone may call it. */
static inline void job_touch(job *j, const void *at, size_t len)
{
    const volatile char *byte = (const volatile char *)at;
    if (len == 0)
        return;
    double start = seconds();
    for (size_t step = 0; step < len; step += PAGE_LEN)
        (void)byte[step];
    (void)byte[len - 1];
    j->now.fault_s += seconds() - start;
}

/* Both: brings what others published before the last meeting. One rank alone may call it. */
static inline void job_refresh(job *j, const mapped *m, const void *at, size_t len)
{
    job_update(j, m, at, len);
    job_touch(j, at, len);
}

/* Takes these bytes' pages for writing: stores one byte of each again. Nobody else may be writing these bytes. One rank
 * alone may call it. */
static inline void job_claim(job *j, void *at, size_t len)
{
    volatile char *byte = (volatile char *)at;
    if (len == 0)
        return;
    double start = seconds();
    for (size_t step = 0; step < len; step += PAGE_LEN)
        byte[step] = byte[step];
    byte[len - 1] = byte[len - 1];
    j->now.fault_s += seconds() - start;
}

/* Starts the clock of all ranks together. */
static inline void job_start(job *j)
{
    job_meet(j);
    memset(&j->now, 0, sizeof j->now);
    j->now.bytes = -job_bytes(j);
    j->now.seconds = -seconds();
}

/* Stops it when the last rank is done. On rank 0 the result has the longest time of all ranks, the mean of its three
 * parts, and the bytes of all; on others it is their own. */
static inline times job_stop(job *j)
{
    job_meet(j);
    times all = j->now;
    all.seconds += seconds();
    all.bytes += job_bytes(j);
    all.compute_s = all.seconds - all.fault_s - all.wait_s;
    job_must(hanare_put(j->ledger, (uint64_t)j->rank * sizeof all, &all, sizeof all));
    job_must(hanare_barrier(j->pool));
    for (int rank = 1; rank < j->ranks && j->rank == 0; rank++) {
        times one;
        job_must(hanare_get(j->ledger, (uint64_t)rank * sizeof one, &one, sizeof one));
        all.seconds = one.seconds > all.seconds ? one.seconds : all.seconds;
        all.compute_s += one.compute_s, all.fault_s += one.fault_s, all.wait_s += one.wait_s, all.bytes += one.bytes;
    }
    if (j->rank == 0)
        all.compute_s /= j->ranks, all.fault_s /= j->ranks, all.wait_s /= j->ranks;
    return all;
}

/* What every program says of its time, as part of its line. */
static inline void line_times(line to, const times *was)
{
    line_number(to, "seconds", was->seconds);
    line_number(to, "compute_s", was->compute_s);
    line_number(to, "fault_s", was->fault_s);
    line_number(to, "wait_s", was->wait_s);
    line_number(to, "bytes", was->bytes);
}

/* Ends this rank's part of the job. */
static inline void job_end(job *j)
{
    job_must(hanare_close(j->ledger));
    job_must(hanare_barrier(j->pool));
    if (j->rank == 0)
        job_must(hanare_remove(j->pool, j->ledger_name));
    job_must(hanare_detach(j->pool));
}

#endif
