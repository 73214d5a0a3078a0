/* Bodies that attract each other, by the method of Barnes and Hut, written for threads: a tree of pointers in shared memory.
 *
 *     nbody [COUNT] [--steps S] [--processes P] [--check] [--json]
 *
 * Space is cut into 512 boxes. In each step every process makes the subtrees of some boxes that lie together, in memory of its own part;
 * all then link the 512 subtrees to tops of their own, and each computes the forces on its bodies through pointers to all subtrees.
 * A subtree depends on its box's bodies alone, in their order: any number of processes gives the same bits.
 */
#include "../kit/ported.h"
#include <math.h>

MAIN_ENV

enum { DIMENSIONS = 3, CHILD_COUNT = 8, LEAF_BODIES = 8, TOP_LEVELS = 3, BOX_COUNT = 512, TOP_NODE_COUNT = 73, DEPTH_MAX = 60 };

static const double TIME_STEP = 1e-3, SOFTENING = 1e-4, OPENING = 0.5;

typedef struct node {
    double middle[DIMENSIONS], half; /* its cube */
    double centre[DIMENSIONS], mass; /* of what is in it */
    struct node *child[CHILD_COUNT]; /* NULL where nothing is */
    uint32_t body[LEAF_BODIES];      /* of a leaf */
    uint32_t count;                  /* bodies of a leaf; LEAF_BODIES + 1: no leaf */
} node;

/* What a process says of its bodies and nodes: the corners of the box around the ones, how many there are of the others; on a page of
 * its own. */
typedef struct extent {
    double low[DIMENSIONS], high[DIMENSIONS];
    size_t node_count;
    char rest[PORTED_PAGE_LEN - 2 * DIMENSIONS * sizeof(double) - sizeof(size_t)];
} extent;

/* A position, and the mass. */
typedef struct place {
    double at[DIMENSIONS], mass;
} place;

typedef struct world {
    place *places;
    double (*velocities)[DIMENSIONS];
    extent *extents;
    node **boxes; /* the 512 subtrees, in the order of their places in space; NULL where nothing is */
    char *nodes;  /* each process's nodes on pages of its own */
    size_t nodes_max, processes;
} world;

/* What a process keeps for itself. */
typedef struct maker {
    const world *w;
    size_t p;
    node *nodes;
    size_t node_count;
    uint16_t *box_of; /* each body's box in this step */
    node top[TOP_NODE_COUNT];
    double (*forces)[DIMENSIONS]; /* on its bodies */
    double middle[DIMENSIONS], half;
} maker;

static size_t body_count = 1 << 15, step_count = 4, process_count;
static world shared;
static ported_share *shares;
BARDEC(all_here)

static size_t first_body(const world *w, size_t p) { return ported_first(body_count, p, w->processes); }

/* Which of 2 x 2 x 2 parts around a middle. */
static size_t part_of(const double *at, const double *middle)
{
    return (size_t)(at[0] >= middle[0]) << 2 | (size_t)(at[1] >= middle[1]) << 1 | (size_t)(at[2] >= middle[2]);
}

static void set_cube(node *n, const double *middle, double half)
{
    memset(n, 0, sizeof *n);
    memcpy(n->middle, middle, sizeof n->middle);
    n->half = half;
}

/* The cube of part `part` of a cube. */
static void set_part(node *n, const double *middle, double half, size_t part)
{
    double to[DIMENSIONS];
    for (size_t d = 0; d < DIMENSIONS; d++)
        to[d] = middle[d] + ((part >> (DIMENSIONS - 1 - d) & 1) != 0 ? half / 2 : -half / 2);
    set_cube(n, to, half / 2);
}

static node *take_node(maker *m)
{
    if (m->node_count == m->w->nodes_max) {
        fprintf(stderr, "nbody: more nodes of the tree than there is memory for\n");
        exit(1);
    }
    return &m->nodes[m->node_count++];
}

/* ---- The tree --------------------------------------------------------------------------------------------------- */

/* The box of a position: the way down from the root, three bits a level. */
static size_t box_of(const maker *m, const double *at)
{
    double middle[DIMENSIONS], half = m->half;
    size_t box = 0;
    memcpy(middle, m->middle, sizeof middle);
    for (int level = 0; level < TOP_LEVELS; level++) {
        size_t part = part_of(at, middle);
        half /= 2;
        for (size_t d = 0; d < DIMENSIONS; d++)
            middle[d] += (part >> (DIMENSIONS - 1 - d) & 1) != 0 ? half : -half;
        box = box << DIMENSIONS | part;
    }
    return box;
}

/* Puts a body into the subtree at `to`. A leaf that is full becomes the parent of leaves. */
static void insert(maker *m, node *to, uint32_t body, int depth)
{
    const place *places = m->w->places;
    while (to->count > LEAF_BODIES) {
        size_t part = part_of(places[body].at, to->middle);
        if (to->child[part] == NULL) {
            to->child[part] = take_node(m);
            set_part(to->child[part], to->middle, to->half, part);
        }
        to = to->child[part], depth++;
    }
    if (to->count < LEAF_BODIES) {
        to->body[to->count++] = body;
        return;
    }
    if (depth > DEPTH_MAX) {
        fprintf(stderr, "nbody: more bodies at one place than a leaf holds\n");
        exit(1);
    }
    to->count = LEAF_BODIES + 1;
    for (size_t k = 0; k < LEAF_BODIES; k++)
        insert(m, to, to->body[k], depth);
    insert(m, to, body, depth);
}

/* Adds a part's mass to its parent's. */
static void weigh_part(node *n, const double *at, double mass)
{
    n->mass += mass;
    for (size_t d = 0; d < DIMENSIONS; d++)
        n->centre[d] += mass * at[d];
}

/* Computes masses and their centres, from the leaves up. */
static void weigh(const place *places, node *n)
{
    for (size_t k = 0; n->count <= LEAF_BODIES && k < n->count; k++)
        weigh_part(n, places[n->body[k]].at, places[n->body[k]].mass);
    for (size_t part = 0; n->count > LEAF_BODIES && part < CHILD_COUNT; part++)
        if (n->child[part] != NULL) {
            weigh(places, n->child[part]);
            weigh_part(n, n->child[part]->centre, n->child[part]->mass);
        }
    for (size_t d = 0; d < DIMENSIONS; d++)
        n->centre[d] /= n->mass;
}

/* The root's cube, around all bodies. */
static void find_root(maker *m)
{
    extent all = m->w->extents[0];
    for (size_t p = 1; p < m->w->processes; p++)
        for (size_t d = 0; d < DIMENSIONS; d++) {
            all.low[d] = fmin(all.low[d], m->w->extents[p].low[d]);
            all.high[d] = fmax(all.high[d], m->w->extents[p].high[d]);
        }
    m->half = 0;
    for (size_t d = 0; d < DIMENSIONS; d++) {
        m->middle[d] = (all.low[d] + all.high[d]) / 2;
        m->half = fmax(m->half, (all.high[d] - all.low[d]) / 2 * (1 + 1e-9) + 1e-12);
    }
}

/* Makes this process's subtrees: those of boxes, in their order, that have its share of the bodies. */
static void make_boxes(maker *m)
{
    const world *w = m->w;
    size_t counts[BOX_COUNT] = {0}, before = 0, first = BOX_COUNT, last = 0;
    node *mine[BOX_COUNT] = {NULL};
    find_root(m);
    for (size_t i = 0; i < body_count; i++)
        counts[m->box_of[i] = (uint16_t)box_of(m, w->places[i].at)]++;
    for (size_t box = 0; box < BOX_COUNT; before += counts[box++])
        if (before * w->processes / body_count == m->p || (before == body_count && m->p + 1 == w->processes)) {
            first = box < first ? box : first;
            last = box + 1;
        }
    m->node_count = 0;
    for (size_t i = 0; i < body_count; i++) {
        size_t box = m->box_of[i];
        if (box < first || box >= last)
            continue;
        if (mine[box] == NULL) {
            mine[box] = take_node(m);
            double middle[DIMENSIONS], half = m->half;
            memcpy(middle, m->middle, sizeof middle);
            for (int level = TOP_LEVELS - 1; level >= 0; level--, half /= 2) {
                set_part(mine[box], middle, half, box >> (DIMENSIONS * level) & (CHILD_COUNT - 1));
                memcpy(middle, mine[box]->middle, sizeof middle);
            }
        }
        insert(m, mine[box], (uint32_t)i, 0);
    }
    for (size_t box = first; box < last; box++) {
        if (mine[box] != NULL)
            weigh(w->places, mine[box]);
        w->boxes[box] = mine[box];
    }
    w->extents[m->p].node_count = m->node_count;
}

static node *nodes_of(const world *w, size_t p) { return (node *)(void *)(w->nodes + p * ported_pages(w->nodes_max * sizeof(node))); }

/* Links the subtrees from `first` on, which a node at `level` is over, to a top of this process's own; NULL where nothing is. */
static node *link_top(maker *m, const double *middle, double half, int level, size_t first, size_t *used)
{
    size_t each = (size_t)1 << (DIMENSIONS * (TOP_LEVELS - 1 - level));
    node *n = &m->top[(*used)++], cube;
    set_cube(n, middle, half);
    n->count = LEAF_BODIES + 1;
    for (size_t part = 0; part < CHILD_COUNT; part++) {
        set_part(&cube, middle, half, part);
        n->child[part] = level + 1 == TOP_LEVELS ? m->w->boxes[first + part]
                                                 : link_top(m, cube.middle, cube.half, level + 1, first + part * each, used);
        if (n->child[part] != NULL)
            weigh_part(n, n->child[part]->centre, n->child[part]->mass);
    }
    for (size_t d = 0; d < DIMENSIONS && n->mass > 0; d++)
        n->centre[d] /= n->mass;
    return n->mass > 0 ? n : NULL;
}

/* ---- Forces ----------------------------------------------------------------------------------------------------- */

static void pull(double *force, const double *from, const double *at, double mass)
{
    double apart[DIMENSIONS], square = SOFTENING;
    for (size_t d = 0; d < DIMENSIONS; d++) {
        apart[d] = at[d] - from[d];
        square += apart[d] * apart[d];
    }
    double strength = mass / (square * sqrt(square));
    for (size_t d = 0; d < DIMENSIONS; d++)
        force[d] += strength * apart[d];
}

/* Adds the pull of a subtree's bodies: as one where it is small for its distance. */
static void attract(const place *places, const node *n, const double *from, double *force)
{
    double square = 0;
    for (size_t d = 0; d < DIMENSIONS; d++)
        square += (n->centre[d] - from[d]) * (n->centre[d] - from[d]);
    if (4 * n->half * n->half < OPENING * OPENING * square) {
        pull(force, from, n->centre, n->mass);
        return;
    }
    if (n->count <= LEAF_BODIES) {
        for (size_t k = 0; k < n->count; k++)
            pull(force, from, places[n->body[k]].at, places[n->body[k]].mass);
        return;
    }
    for (size_t part = 0; part < CHILD_COUNT; part++)
        if (n->child[part] != NULL)
            attract(places, n->child[part], from, force);
}

/* Moves this process's bodies, by the forces on them where there are some, and says where they are. */
static void advance(maker *m, int has_forces)
{
    const world *w = m->w;
    extent around = {{1e300, 1e300, 1e300}, {-1e300, -1e300, -1e300}, 0, {0}};
    size_t first = first_body(w, m->p);
    for (size_t i = first; i < first_body(w, m->p + 1); i++)
        for (size_t d = 0; d < DIMENSIONS; d++) {
            if (has_forces) {
                w->velocities[i][d] += TIME_STEP * m->forces[i - first][d];
                w->places[i].at[d] += TIME_STEP * w->velocities[i][d];
            }
            around.low[d] = fmin(around.low[d], w->places[i].at[d]);
            around.high[d] = fmax(around.high[d], w->places[i].at[d]);
        }
    w->extents[m->p] = around;
}

static maker *begin_maker(const world *w, size_t p)
{
    maker *m = (maker *)ported_own(sizeof *m);
    m->w = w, m->p = p;
    m->nodes = nodes_of(w, p);
    m->box_of = (uint16_t *)ported_own(body_count * sizeof *m->box_of);
    m->forces = (double(*)[DIMENSIONS])ported_own((first_body(w, p + 1) - first_body(w, p) + 1) * sizeof *m->forces);
    return m;
}

static void end_maker(maker *m)
{
    free(m->box_of), free(m->forces), free(m);
}

static void compute_forces(maker *m)
{
    size_t used = 0, first = first_body(m->w, m->p);
    const node *root = link_top(m, m->middle, m->half, 0, 0, &used);
    for (size_t i = first; i < first_body(m->w, m->p + 1); i++) {
        memset(m->forces[i - first], 0, sizeof m->forces[0]);
        attract(m->w->places, root, m->w->places[i].at, m->forces[i - first]);
    }
}

static void work(void)
{
    size_t p;
    GET_PID(p);
    ported_note(&shares[p], 0);
    maker *m = begin_maker(&shared, p);
    place *mine = shared.places + first_body(&shared, p);
    size_t mine_len = (first_body(&shared, p + 1) - first_body(&shared, p)) * sizeof *mine;
    advance(m, 0);
    for (size_t step = 0; step < step_count; step++) {
        BARRIER(all_here, process_count)
        G_BRING(shared.places, body_count * sizeof *shared.places)
        G_TOUCH(m->nodes, m->node_count * sizeof *m->nodes)
        make_boxes(m);
        BARRIER(all_here, process_count)
        for (size_t of = 0; of < process_count; of++)
            G_BRING(nodes_of(&shared, of), shared.extents[of].node_count * sizeof(node))
        compute_forces(m);
        BARRIER(all_here, process_count)
        G_TOUCH(mine, mine_len)
        advance(m, 1);
    }
    end_maker(m);
    ported_note(&shares[p], 1);
}

/* ---- Main ------------------------------------------------------------------------------------------------------- */

static size_t boxes_len(void) { return BOX_COUNT * sizeof(node *); }

/* Nodes for each process: there are about half as many as bodies, and boxes have different numbers of bodies. */
static size_t nodes_max(size_t processes) { return 2 * (body_count + BOX_COUNT) / processes + 1024; }

/* A ball that is denser towards its middle, its bodies in the order of boxes in space: neighbours are one process's. */
static void fill(const world *w)
{
    size_t counts[BOX_COUNT + 1] = {0};
    maker cube;
    memset(&cube, 0, sizeof cube);
    cube.half = 1;
    for (int is_placing = 0; is_placing < 2; is_placing++)
        for (size_t i = 0; i < body_count; i++) {
            double at[DIMENSIONS], square = 0;
            for (size_t d = 0; d < DIMENSIONS; d++) {
                at[d] = 2 * ported_spread(4 * i + d) - 1;
                square += at[d] * at[d];
            }
            double shrink = sqrt(square / DIMENSIONS);
            for (size_t d = 0; d < DIMENSIONS; d++)
                at[d] *= shrink;
            size_t box = box_of(&cube, at);
            if (is_placing) {
                place *to = &w->places[counts[box]++];
                memcpy(to->at, at, sizeof at);
                to->mass = (1 + ported_spread(4 * i + 3)) / (double)body_count;
            } else
                counts[box + 1]++;
            for (size_t k = 0; !is_placing && i + 1 == body_count && k < BOX_COUNT; k++)
                counts[k + 1] += counts[k];
        }
    memset(w->velocities, 0, body_count * sizeof *w->velocities);
}

static uint64_t result_of(const world *w) { return ported_fold(0, w->places, body_count * sizeof *w->places); }

/* The result of one process in memory of its own. */
static uint64_t right_result(void)
{
    world w = {(place *)ported_own(body_count * sizeof *w.places), (double(*)[DIMENSIONS])ported_own(body_count * sizeof *w.velocities),
               (extent *)ported_own(sizeof *w.extents), (node **)ported_own(boxes_len()), NULL, nodes_max(1), 1};
    w.nodes = (char *)ported_own(ported_pages(w.nodes_max * sizeof(node)));
    fill(&w);
    maker *m = begin_maker(&w, 0);
    advance(m, 0);
    for (size_t step = 0; step < step_count; step++) {
        make_boxes(m);
        compute_forces(m);
        advance(m, 1);
    }
    uint64_t result = result_of(&w);
    end_maker(m);
    free(w.places), free(w.velocities), free(w.extents), free(w.boxes), free(w.nodes);
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
    MAIN_INITENV(body_count * (sizeof(place) + 24) + nodes_max(1) * sizeof(node)
                 + PORTED_PROCESS_COUNT_MAX * (1025 * sizeof(node) + 8 * PORTED_PAGE_LEN))
    process_count = shared.processes = ported_processes(argv[0], process_count);
    shared.places = (place *)G_MALLOC(body_count * sizeof *shared.places);
    shared.velocities = (double(*)[DIMENSIONS])G_MALLOC(body_count * sizeof *shared.velocities);
    shared.extents = (extent *)G_MALLOC(process_count * sizeof *shared.extents);
    shared.boxes = (node **)G_MALLOC(boxes_len());
    shared.nodes_max = nodes_max(process_count);
    shared.nodes = (char *)G_MALLOC(process_count * ported_pages(shared.nodes_max * sizeof(node)));
    shares = (ported_share *)G_MALLOC(process_count * sizeof *shares);
    BARINIT(all_here)
    fill(&shared);

    CLOCK(start)
    CREATE(work, process_count)
    WAIT_FOR_END(process_count)
    CLOCK(end)

    line to = ported_line(json, "nbody", process_count, (double)(end - start) / 1e6, shares);
    line_count(to, "count", body_count);
    int status = ported_end(to, result_of(&shared), check, check ? right_result() : 0);
    MAIN_END
    return status;
}
