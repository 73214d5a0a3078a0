/* k-means, written for threads: points that lie around centres are divided among clusters, again and again.
 *
 *     kmeans [COUNT] [--clusters K] [--rounds R] [--processes P] [--check] [--json]
 *
 * Each process assigns its points and adds them up by chunks; after a barrier every process adds the chunks' sums in their order, so that
 * all have the same centres. Sums of even and odd rounds lie apart: one barrier a round is enough.
 */
#include "../kit/ported.h"

MAIN_ENV

enum { DIMENSIONS = 8, CHUNK_COUNT = 16, CLUSTER_COUNT_MAX = 256 };

/* The sum of a cluster's points in a chunk, and their number. */
typedef struct sum {
    double of[DIMENSIONS], count;
} sum;

typedef struct clustering {
    double *points;      /* DIMENSIONS numbers each */
    uint32_t *cluster_of; /* each point's cluster */
    char *sums[2];       /* of even and odd rounds: each process's chunks on pages of their own */
} clustering;

static size_t point_count = 1 << 18, cluster_count = 16, round_count = 20, process_count;
static clustering shared;
static ported_share *shares;
BARDEC(all_here)

static size_t first_chunk(size_t p, size_t processes) { return ported_first(CHUNK_COUNT, p, processes); }
static size_t first_point(size_t chunk) { return ported_first(point_count, chunk, CHUNK_COUNT); }

/* Bytes of one process's sums. */
static size_t sums_len(size_t processes)
{
    return ported_pages((CHUNK_COUNT / processes + 1) * cluster_count * sizeof(sum));
}

static sum *sums_of(const clustering *c, size_t round, size_t p, size_t processes)
{
    return (sum *)(void *)(c->sums[round % 2] + p * sums_len(processes));
}

static void fill(const clustering *c)
{
    for (size_t i = 0; i < point_count; i++)
        for (size_t d = 0; d < DIMENSIONS; d++) {
            double centre = ported_spread((ported_number(i) % cluster_count) * DIMENSIONS + d);
            c->points[i * DIMENSIONS + d] = centre + (ported_spread(i * DIMENSIONS + d + 1000003) - 0.5) / 4;
        }
}

static size_t nearest(const double *point, const double *centres)
{
    size_t best = 0;
    double least = 1e300;
    for (size_t k = 0; k < cluster_count; k++) {
        double square = 0;
        for (size_t d = 0; d < DIMENSIONS; d++) {
            double apart = point[d] - centres[k * DIMENSIONS + d];
            square += apart * apart;
        }
        if (square < least)
            least = square, best = k;
    }
    return best;
}

/* Assigns a chunk's points, and adds them up. */
static void assign(const clustering *c, size_t chunk, const double *centres, sum *sums)
{
    memset(sums, 0, cluster_count * sizeof *sums);
    for (size_t i = first_point(chunk); i < first_point(chunk + 1); i++) {
        const double *point = c->points + i * DIMENSIONS;
        sum *to = &sums[nearest(point, centres)];
        c->cluster_of[i] = (uint32_t)(to - sums);
        for (size_t d = 0; d < DIMENSIONS; d++)
            to->of[d] += point[d];
        to->count += 1;
    }
}

/* Centres from the sums of all chunks; a cluster without points stays where it is. */
static void move_centres(const clustering *c, size_t round, size_t processes, double *centres)
{
    sum total[CLUSTER_COUNT_MAX];
    memset(total, 0, sizeof total);
    for (size_t p = 0; p < processes; p++) {
        const sum *sums = sums_of(c, round, p, processes);
        size_t count = first_chunk(p + 1, processes) - first_chunk(p, processes);
        for (size_t k = 0; k < count * cluster_count; k++) {
            for (size_t d = 0; d < DIMENSIONS; d++)
                total[k % cluster_count].of[d] += sums[k].of[d];
            total[k % cluster_count].count += sums[k].count;
        }
    }
    for (size_t k = 0; k < cluster_count; k++)
        for (size_t d = 0; d < DIMENSIONS && total[k].count > 0; d++)
            centres[k * DIMENSIONS + d] = total[k].of[d] / total[k].count;
}

/* Process p's part of a round up to the barrier. */
static void assign_all(const clustering *c, size_t round, size_t p, size_t processes, const double *centres)
{
    sum *sums = sums_of(c, round, p, processes);
    for (size_t chunk = first_chunk(p, processes); chunk < first_chunk(p + 1, processes); chunk++, sums += cluster_count)
        assign(c, chunk, centres, sums);
}

static void work(void)
{
    double centres[CLUSTER_COUNT_MAX * DIMENSIONS];
    size_t p;
    GET_PID(p);
    ported_note(&shares[p], 0);
    memcpy(centres, shared.points, cluster_count * DIMENSIONS * sizeof *centres);
    for (size_t round = 0; round < round_count; round++) {
        G_TOUCH(sums_of(&shared, round, p, process_count), sums_len(process_count))
        assign_all(&shared, round, p, process_count, centres);
        BARRIER(all_here, process_count)
        G_BRING(shared.sums[round % 2], process_count * sums_len(process_count))
        move_centres(&shared, round, process_count, centres);
    }
    ported_note(&shares[p], 1);
}

static uint64_t result_of(const clustering *c)
{
    return ported_fold(0, c->cluster_of, point_count * sizeof *c->cluster_of);
}

/* The result of one process in memory of its own. */
static uint64_t right_result(void)
{
    double centres[CLUSTER_COUNT_MAX * DIMENSIONS];
    char *sums = (char *)ported_own(sums_len(1));
    clustering own = {(double *)ported_own(point_count * DIMENSIONS * sizeof(double)),
                      (uint32_t *)ported_own((point_count + 1) * sizeof(uint32_t)), {sums, sums}};
    fill(&own);
    memcpy(centres, own.points, cluster_count * DIMENSIONS * sizeof *centres);
    for (size_t round = 0; round < round_count; round++) {
        assign_all(&own, round, 0, 1, centres);
        move_centres(&own, round, 1, centres);
    }
    uint64_t result = result_of(&own);
    free(own.points), free(own.cluster_of), free(sums);
    return result;
}

int main(int argc, char **argv)
{
    unsigned long start, end;
    int check = 0, json = 0;
    const word words[] = {
        {"", NULL, &point_count, NULL, NULL},          {"--clusters", NULL, &cluster_count, NULL, NULL},
        {"--rounds", NULL, &round_count, NULL, NULL},  {"--processes", NULL, &process_count, NULL, NULL},
        {"--check", &check, NULL, NULL, NULL},         {"--json", &json, NULL, NULL, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    read_words(argc, argv, words);
    if (cluster_count > CLUSTER_COUNT_MAX || cluster_count > point_count) {
        fprintf(stderr, "kmeans: more clusters than %d, or than points\n", CLUSTER_COUNT_MAX);
        return 2;
    }
    size_t points_len = point_count * DIMENSIONS * sizeof(double), clusters_len = (point_count + 1) * sizeof(uint32_t);
    MAIN_INITENV(points_len + clusters_len + PORTED_PROCESS_COUNT_MAX * (2 * sums_len(1) + sizeof(ported_share)) + ((size_t)1 << 20));
    process_count = ported_processes(argv[0], process_count);
    shared.points = (double *)G_MALLOC(points_len);
    shared.cluster_of = (uint32_t *)G_MALLOC(clusters_len);
    shared.sums[0] = (char *)G_MALLOC(process_count * sums_len(process_count));
    shared.sums[1] = (char *)G_MALLOC(process_count * sums_len(process_count));
    shares = (ported_share *)G_MALLOC(process_count * sizeof *shares);
    BARINIT(all_here);
    fill(&shared);

    CLOCK(start);
    CREATE(work, process_count);
    WAIT_FOR_END(process_count);
    CLOCK(end);

    line to = ported_line(json, "kmeans", process_count, (double)(end - start) / 1e6, shares);
    line_count(to, "count", point_count);
    int status = ported_end(to, result_of(&shared), check, check ? right_result() : 0);
    MAIN_END;
    return status;
}
