/* Bodies that attract each other, written as SPLASH's programs are for threads: a state in shared memory, locks, barriers,
 * and bodies taken from a common store of work. The macros of hanare_parmacs.h make ranks of its processes.
 *
 *     bodies [COUNT] [--steps S] [--check] [--json]
 *
 * Every force is summed in the order of the bodies, so that any number of processes gives the same bits; --check compares
 * with a run by one in main memory.
 */
#include "ported.h"
#include <math.h>

MAIN_ENV

enum { DIMENSIONS = 3, CHUNK = 16 };

/* Structure of arrays: position, velocity and force of all bodies, one array for each dimension; masses. */
typedef struct bodies {
    double *position[DIMENSIONS], *velocity[DIMENSIONS], *force[DIMENSIONS], *mass;
} bodies;

typedef struct shared_state {
    LOCKDEC(work_lock)
    ALOCKDEC(peak_locks, DIMENSIONS)
    BARDEC(barrier)
    long next_body;           /* under work_lock: the first that nobody has taken in this step */
    double peak[DIMENSIONS];  /* under peak_locks: the greatest speed of any body at any time */
    long taken[PORTED_PROCESS_COUNT_MAX];           /* under work_lock: bodies that each process took */
} shared_state;

static shared_state *global;
static double *memory; /* all arrays, one after another */
static ported_share *shares;
static size_t body_count = 512, step_count = 4, process_count;

static const double TIME_STEP = 1e-3, SOFTENING = 1e-4;

static bodies bodies_in(double *at)
{
    bodies b;
    for (int d = 0; d < DIMENSIONS; d++) {
        b.position[d] = at + (size_t)(3 * d) * body_count;
        b.velocity[d] = at + (size_t)(3 * d + 1) * body_count;
        b.force[d] = at + (size_t)(3 * d + 2) * body_count;
    }
    b.mass = at + (size_t)(3 * DIMENSIONS) * body_count;
    return b;
}

static size_t bodies_len(void) { return (3 * DIMENSIONS + 1) * body_count * sizeof(double); }

static void begin(const bodies *b)
{
    for (size_t i = 0; i < body_count; i++) {
        for (int d = 0; d < DIMENSIONS; d++) {
            b->position[d][i] = ported_spread(i * 8 + (size_t)d);
            b->velocity[d][i] = 0;
        }
        b->mass[i] = (1 + ported_spread(i * 8 + 7)) / (double)body_count;
    }
}

/* The force on body i by all, for a unit of its mass. */
static void attract(const bodies *b, size_t i)
{
    double force[DIMENSIONS] = {0};
    for (size_t k = 0; k < body_count; k++) {
        double apart[DIMENSIONS], square = SOFTENING;
        for (int d = 0; d < DIMENSIONS; d++) {
            apart[d] = b->position[d][k] - b->position[d][i];
            square += apart[d] * apart[d];
        }
        double pull = b->mass[k] / (square * sqrt(square));
        for (int d = 0; d < DIMENSIONS; d++)
            force[d] += pull * apart[d];
    }
    for (int d = 0; d < DIMENSIONS; d++)
        b->force[d][i] = force[d];
}

/* Moves body i and raises `peak` to its speed. */
static void advance(const bodies *b, size_t i, double *peak)
{
    for (int d = 0; d < DIMENSIONS; d++) {
        b->velocity[d][i] += TIME_STEP * b->force[d][i];
        b->position[d][i] += TIME_STEP * b->velocity[d][i];
        peak[d] = fmax(peak[d], fabs(b->velocity[d][i]));
    }
}

/* Takes the next bodies that nobody has; false when none is left. */
static int take(size_t id, size_t *first, size_t *last)
{
    LOCK(global->work_lock);
    *first = (size_t)global->next_body;
    *last = *first + CHUNK < body_count ? *first + CHUNK : body_count;
    global->next_body = (long)*last;
    global->taken[id] += (long)(*last - *first);
    UNLOCK(global->work_lock);
    return *first < *last;
}

/* What each process does. */
static void work(void)
{
    bodies b = bodies_in(memory);
    double peak[DIMENSIONS] = {0};
    size_t first, last;
    size_t id;
    GET_PID(id);
    ported_note(&shares[id], 0);
    for (size_t step = 0; step < step_count; step++) {
        while (take(id, &first, &last))
            for (size_t i = first; i < last; i++)
                attract(&b, i);
        BARRIER(global->barrier, process_count);
        if (id == 0)
            global->next_body = 0;
        for (size_t i = id * body_count / process_count; i < (id + 1) * body_count / process_count; i++)
            advance(&b, i, peak);
        BARRIER(global->barrier, process_count);
    }
    for (int d = 0; d < DIMENSIONS; d++) {
        ALOCK(global->peak_locks, d);
        global->peak[d] = fmax(global->peak[d], peak[d]);
        AULOCK(global->peak_locks, d);
    }
    ported_note(&shares[id], 1);
}

static uint64_t result_of(const double *all, const double *peak)
{
    return ported_fold(ported_fold(0, all, bodies_len()), peak, DIMENSIONS * sizeof *peak);
}

/* The result of one process in memory of its own. */
static uint64_t right_result(void)
{
    double *own = (double *)ported_own(bodies_len()), peak[DIMENSIONS] = {0};
    bodies b = bodies_in(own);
    begin(&b);
    for (size_t step = 0; step < step_count; step++) {
        for (size_t i = 0; i < body_count; i++)
            attract(&b, i);
        for (size_t i = 0; i < body_count; i++)
            advance(&b, i, peak);
    }
    uint64_t result = result_of(own, peak);
    free(own);
    return result;
}

int main(int argc, char **argv)
{
    unsigned long start, end;
    int check = 0, json = 0;
    const word words[] = {
        {"", NULL, &body_count, NULL, NULL},               {"--steps", NULL, &step_count, NULL, NULL},
        {"--processes", NULL, &process_count, NULL, NULL}, {"--check", &check, NULL, NULL, NULL},
        {"--json", &json, NULL, NULL, NULL},               {NULL, NULL, NULL, NULL, NULL},
    };
    read_words(argc, argv, words);
    MAIN_INITENV(bodies_len() + sizeof(shared_state) + PORTED_PROCESS_COUNT_MAX * sizeof(ported_share) + (1 << 16));
    process_count = ported_processes(argv[0], process_count);
    global = (shared_state *)G_MALLOC(sizeof *global);
    memory = (double *)G_MALLOC(bodies_len());
    shares = (ported_share *)G_MALLOC(process_count * sizeof *shares);
    LOCKINIT(global->work_lock);
    ALOCKINIT(global->peak_locks, DIMENSIONS);
    BARINIT(global->barrier, process_count);
    bodies b = bodies_in(memory);
    begin(&b);

    CLOCK(start);
    CREATE(work, process_count);
    WAIT_FOR_END(process_count);
    CLOCK(end);

    size_t taken = 0;
    for (size_t id = 0; id < process_count; id++)
        taken += (size_t)global->taken[id];
    line to = ported_line(json, "bodies", process_count, (double)(end - start) / 1e6, shares);
    line_count(to, "count", body_count);
    line_count(to, "taken", taken);
    int status = ported_end(to, result_of(memory, global->peak), check, check ? right_result() : 0);
    G_FREE(memory);
    G_FREE(global);
    MAIN_END;
    return status;
}
