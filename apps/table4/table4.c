/* Euphoria's table 4: a thousand copies of 4 KB by loads and stores, from own or other memory to own or other memory.
 *
 * Rank 0 copies; the last rank is the other, whose node's memory is "other": it has stored to it before, so that the blocks are
 * dirty there, as they were for a processor of the paper's machine. Each copy takes a block of its own, so that
 * none was brought by the one before.
 * Run by `hanare run --nodes 2 -n 2 -- table4`. With one rank, or ranks on one node, "other" is the same node (nodes=1).
 */
/* FEATURE: EU-F19 */
#define _DEFAULT_SOURCE
#include "../kit/job.h"
#include "../kit/words.h"

enum { BLOCK_LEN = 4096 };

/* A placement of source and target, and what the paper measured: seconds for 1000 copies. SOURCE: [Euphoria, Table 4] */
typedef struct placement {
    const char *name;
    int from_other, to_other;
    double paper_s;
} placement;
static const placement PLACEMENTS[] = {
    {"own-to-own", 0, 0, 0.280},
    {"own-to-other", 0, 1, 28.2},
    {"other-to-own", 1, 0, 20.1},
    {"other-to-other", 1, 1, 62.5},
};
enum { PLACEMENT_COUNT = sizeof PLACEMENTS / sizeof *PLACEMENTS };

/* The byte that position `at` of a source has. */
static char byte_of(size_t at) { return (char)((at * 167 + at / BLOCK_LEN * 13 + 1) & 0xff); }

/* The numbers of the nodes on which the first and the last rank are. */
static void find_nodes(job *j, int32_t *nodes)
{
    char name[128];
    int32_t node = (int32_t)hanare_node(j->pool);
    hanare_region *region = job_region(j, "nodes", 2 * sizeof node, NULL, name, sizeof name);
    if (j->rank == 0)
        job_must(hanare_put(region, 0, &node, sizeof node));
    if (j->rank == j->ranks - 1)
        job_must(hanare_put(region, sizeof node, &node, sizeof node));
    job_meet(j);
    job_must(hanare_get(region, 0, nodes, 2 * sizeof node));
    job_meet(j);
    job_must(hanare_close(region));
    if (j->rank == 0)
        job_must(hanare_remove(j->pool, name));
}

/* Makes a region on a node, all of it stored to by the rank that is there. */
static mapped make(job *j, const char *what, size_t len, const int32_t *nodes, int is_other, int consistency)
{
    char place[32];
    snprintf(place, sizeof place, "node=%d", (int)nodes[is_other]);
    mapped m = job_map(j, what, len, place, consistency);
    if (j->rank == (is_other ? j->ranks - 1 : 0)) {
        for (size_t at = 0; at < len; at++)
            m.ptr[at] = byte_of(at);
        job_publish(j, &m, m.ptr, len);
    }
    job_meet(j);
    return m;
}

/* One placement: seconds for `count` copies by rank 0. *wrong gets how many bytes of the target, as all see them, are not
 * the source's. */
static double measure(job *j, const placement *p, size_t count, const int32_t *nodes, int consistency, size_t *wrong)
{
    size_t len = count * BLOCK_LEN;
    mapped from = make(j, "from", len, nodes, p->from_other, consistency);
    mapped to = make(j, "to", len, nodes, p->to_other, consistency);
    double spent = 0;
    if (j->rank == 0) {
        double start = seconds();
        job_update(j, &from, from.ptr, len);
        job_update(j, &to, to.ptr, len);
        /* Blocks change places: the target had the same bytes, and a copy that did nothing would pass. */
        for (size_t at = 0; at < len; at += BLOCK_LEN)
            memcpy(to.ptr + at, from.ptr + (len - BLOCK_LEN - at), BLOCK_LEN);
        job_publish(j, &to, to.ptr, len);
        spent = seconds() - start;
    }
    job_meet(j);
    *wrong = 0;
    if (j->rank == j->ranks - 1) {
        job_refresh(j, &to, to.ptr, len);
        for (size_t at = 0; at < len; at++) {
            size_t block = at / BLOCK_LEN * BLOCK_LEN;
            *wrong += to.ptr[at] != byte_of(len - BLOCK_LEN - block + at % BLOCK_LEN);
        }
    }
    job_unmap(j, &from);
    job_unmap(j, &to);
    return spent;
}

int main(int argc, char **argv)
{
    size_t count = 1000, wrong = 0; /* SOURCE: [Euphoria, Table 4] */
    const char *mode = "coherent";
    int json = 0;
    const word words[] = {
        {"", NULL, &count, NULL, NULL},
        {"--mode", NULL, NULL, &mode, "coherent|explicit"},
        {"--json", &json, NULL, NULL, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    read_words(argc, argv, words);
    job j = job_begin("table4");
    int32_t nodes[2];
    find_nodes(&j, nodes);
    double first = 0;
    for (int at = 0; at < PLACEMENT_COUNT; at++) {
        size_t now;
        double spent = measure(&j, &PLACEMENTS[at], count, nodes, job_consistency(mode), &now);
        wrong += now;
        if (j.rank != 0)
            continue;
        first = at == 0 ? spent : first;
        line to = line_begin(json, "table4", PLACEMENTS[at].name);
        line_text(to, "mode", mode);
        line_count(to, "nodes", nodes[0] == nodes[1] ? 1 : 2);
        line_count(to, "copies", count);
        line_number(to, "seconds", spent);
        line_number(to, "ratio", spent / first);
        line_number(to, "paper_s", PLACEMENTS[at].paper_s);
        line_number(to, "paper_ratio", PLACEMENTS[at].paper_s / PLACEMENTS[0].paper_s);
        line_end(to);
    }
    job_end(&j);
    if (wrong != 0)
        fprintf(stderr, "table4: %lu bytes of the targets are wrong\n", (unsigned long)wrong);
    return wrong != 0;
}
