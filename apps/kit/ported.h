/* What the programs share that were written for threads: numbers to begin with, shares of work, and the line that each prints.
 *
 * They are written in the macros of hanare_parmacs.h. Compiled with HANARE_PARMACS_THREADS they are threads of one process, without
 * it ranks of `hanare run`; nothing else differs. Results do not depend on the number of processes, bit for bit.
 */
#ifndef KIT_PORTED_H
#define KIT_PORTED_H

#include <hanare_parmacs.h>

#include "line.h"
#include "words.h"

enum { PORTED_PROCESS_COUNT_MAX = 64, PORTED_PAGE_LEN = 4096 };

#ifdef HANARE_PARMACS_THREADS
#define PORTED_VARIANT "threads"
#else
#define PORTED_VARIANT "ranks"
#endif

/* Where a process's time went, on a page of its own. */
typedef struct ported_share {
    double wait_s, bytes;
    char rest[PORTED_PAGE_LEN - 2 * sizeof(double)];
} ported_share;

/* Number k of an input (splitmix64). */
static inline uint64_t ported_number(uint64_t k)
{
    uint64_t z = (k + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A number in [0, 1) that depends on `k`. */
static inline double ported_spread(uint64_t k) { return (double)(ported_number(k) >> 11) / 9007199254740992.0; }

/* The first of `count` things that is process p's; that of the process behind the last is `count`. */
static inline size_t ported_first(size_t count, size_t p, size_t processes) { return count * p / processes; }

/* Bytes up to whole pages: what different processes write lies on different ones. */
static inline size_t ported_pages(size_t len) { return (len + PORTED_PAGE_LEN - 1) / PORTED_PAGE_LEN * PORTED_PAGE_LEN; }

/* Memory that is this process's alone; the program ends without. */
static inline void *ported_own(size_t len)
{
    void *memory = calloc(len, 1);
    if (memory == NULL) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return memory;
}

/* How many processes there are to be: as many as asked for, or as there can be. */
static inline size_t ported_processes(const char *program, size_t asked)
{
    size_t processes = asked > 0 ? asked : PROCESS_COUNT;
    if (processes > PORTED_PROCESS_COUNT_MAX) {
        fprintf(stderr, "%s: %lu processes are more than %d\n", program, (unsigned long)processes, PORTED_PROCESS_COUNT_MAX);
        exit(2);
    }
    return processes;
}

/* Called by each process first, and last. */
static inline void ported_note(ported_share *mine, int is_end)
{
#ifdef HANARE_PARMACS_THREADS
    (void)mine, (void)is_end;
#else
    hanare_traffic traffic;
    traffic.struct_size = sizeof traffic;
    hpm_must(hanare_get_traffic(hpm.pool, &traffic));
    double bytes = (double)traffic.bytes_sent + (double)traffic.bytes_received, sign = is_end ? 1 : -1;
    mine->wait_s += sign * hpm.wait_s, mine->bytes += sign * bytes;
#endif
}

/* The line's beginning, with what all programs say of a run: the mean of all processes' waits, and the bytes of all. */
static inline line ported_line(int is_json, const char *program, size_t processes, double took_s, const ported_share *shares)
{
    double wait_s = 0, bytes = 0;
    for (size_t p = 0; p < processes; p++)
        wait_s += shares[p].wait_s / (double)processes, bytes += shares[p].bytes;
    line to = line_begin(is_json, program, PORTED_VARIANT);
    line_count(to, "processes", processes);
    line_number(to, "seconds", took_s);
    line_number(to, "compute_s", took_s - wait_s);
    line_number(to, "wait_s", wait_s);
    line_number(to, "bytes", bytes);
    return to;
}

/* Ends the line with the result and, where it was asked for, whether it is that of a run by one; returns the exit status. */
static inline int ported_end(line to, uint64_t result, int check, uint64_t right)
{
    char text[32];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)result);
    line_text(to, "result", text);
    if (check)
        line_count(to, "ok", result == right);
    line_end(to);
    return check && result != right;
}

/* Folds the bits of numbers into a result. */
static inline uint64_t ported_fold(uint64_t result, const void *numbers, size_t len)
{
    for (size_t k = 0; k + sizeof result <= len; k += sizeof result) {
        uint64_t word;
        memcpy(&word, (const char *)numbers + k, sizeof word);
        result = ported_number(result ^ word);
    }
    return result;
}

#endif
