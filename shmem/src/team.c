/* Teams and contexts. A team has a number, the same in all its PEs: the number of its words in each PE's area. A context is a team and
 * nothing else, because calls are complete when they return. */
#include "pe.h"

#include <stdlib.h>
#include <string.h>

struct team {
    struct set set;
    int is_there;
    int num_contexts;
};

/* A handle is the number of a team here, which is that of its words and one more. */
static struct team teams[TEAM_COUNT_MAX + 1];

struct shmem_ctx {
    shmem_team_t team;
    struct set set;
};

static shmem_team_t begin(int number, struct set set, int num_contexts)
{
    set.sync = job.area->sync[number];
    teams[number + 1] = (struct team){set, 1, num_contexts};
    return (shmem_team_t)(uintptr_t)(number + 1);
}

/* PEs of this host's node: a team where their numbers are evenly spaced, else each alone. */
static struct set neighbours(void)
{
    struct set set = {.first = -1, .stride = 1};
    for (int pe = 0; pe < job.size; pe++) {
        if (job.peers[pe].node != job.peers[job.me].node)
            continue;
        if (pe == job.me)
            set.me = set.size;
        if (set.size == 0)
            set.first = pe;
        else if (set.size == 1)
            set.stride = pe - set.first;
        else if (pe != pe_of(&set, set.size))
            return (struct set){job.me, 1, 1, 0, NULL};
        set.size++;
    }
    return set;
}

void teams_begin(void)
{
    begin(0, (struct set){0, 1, job.size, job.me, NULL}, 0);
    begin(1, neighbours(), 0);
}

static struct team *team_of(shmem_team_t handle)
{
    uintptr_t number = (uintptr_t)handle;
    return number > 0 && number <= TEAM_COUNT_MAX && teams[number].is_there ? &teams[number] : NULL;
}

const struct set *set_of(shmem_team_t handle)
{
    struct team *team = team_of(handle);
    return team == NULL ? NULL : &team->set;
}

int shmem_team_my_pe(shmem_team_t team)
{
    const struct set *set = set_of(team);
    return set == NULL ? -1 : set->me;
}

int shmem_team_n_pes(shmem_team_t team)
{
    const struct set *set = set_of(team);
    return set == NULL ? -1 : set->size;
}

int shmem_team_get_config(shmem_team_t handle, long config_mask, shmem_team_config_t *config)
{
    struct team *team = team_of(handle);
    if (team == NULL)
        return -1;
    if (config_mask & SHMEM_TEAM_NUM_CONTEXTS)
        config->num_contexts = team->num_contexts;
    return 0;
}

/* The number in a set of the world's PE, or -1. */
static int number_of(const struct set *set, int pe)
{
    int steps = set->stride == 0 ? 0 : (pe - set->first) / set->stride;
    return steps >= 0 && steps < set->size && pe_of(set, steps) == pe ? steps : -1;
}

int shmem_team_translate_pe(shmem_team_t from, int pe, shmem_team_t to)
{
    const struct set *source = set_of(from), *dest = set_of(to);
    return source == NULL || dest == NULL || pe < 0 || pe >= source->size ? -1 : number_of(dest, pe_of(source, pe));
}

void publish(const struct set *set, int word, long value) { __atomic_store_n(&set->sync[word], value, __ATOMIC_RELEASE); }

long published(const struct set *set, int word, int number)
{
    return (long)fetch_op(&set->sync[word], HANARE_LOAD, 0, sizeof(long), pe_of(set, number));
}

/* Agrees with all PEs of a team on a number that none of them has a team of; -1 where there is none. */
static int agree(const struct set *parent)
{
    uint64_t free_numbers = 0;
    for (int number = 0; number < TEAM_COUNT_MAX; number++)
        free_numbers |= (uint64_t)!teams[number + 1].is_there << number;
    publish(parent, WORD_VALUE, (long)free_numbers);
    sync_set(parent);
    for (int number = 0; number < parent->size; number++)
        free_numbers &= (uint64_t)published(parent, WORD_VALUE, number);
    sync_set(parent);
    return free_numbers == 0 ? -1 : __builtin_ctzll(free_numbers);
}

/* Part of a team, in the team's numbers. */
struct part {
    int start, stride, size;
};

/* Begins the team of a part, if this PE is in it. */
static shmem_team_t split(const struct set *parent, struct part part, int number, const shmem_team_config_t *config, long mask)
{
    struct set set = {pe_of(parent, part.start), parent->stride * part.stride, part.size, 0, NULL};
    set.me = number_of(&set, job.me);
    int num_contexts = config != NULL && (mask & SHMEM_TEAM_NUM_CONTEXTS) ? config->num_contexts : 0;
    return set.me < 0 ? SHMEM_TEAM_INVALID : begin(number, set, num_contexts);
}

int shmem_team_split_strided(shmem_team_t parent, int start, int stride, int size, const shmem_team_config_t *config,
                             long config_mask, shmem_team_t *team)
{
    const struct set *set = set_of(parent);
    *team = SHMEM_TEAM_INVALID;
    if (set == NULL || size < 1 || start < 0 || start >= set->size || (stride == 0 && size > 1))
        return -1;
    long long last = start + (long long)stride * (size - 1);
    if (last < 0 || last >= set->size)
        return -1;
    int number = agree(set);
    if (number < 0)
        return -1;
    *team = split(set, (struct part){start, stride, size}, number, config, config_mask);
    return 0;
}

int shmem_team_split_2d(shmem_team_t parent, int xrange, const shmem_team_config_t *xaxis_config, long xaxis_mask,
                        shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config, long yaxis_mask,
                        shmem_team_t *yaxis_team)
{
    const struct set *set = set_of(parent);
    *xaxis_team = *yaxis_team = SHMEM_TEAM_INVALID;
    if (set == NULL || xrange < 1)
        return -1;
    if (xrange > set->size)
        xrange = set->size;
    int x = set->me % xrange, y = set->me / xrange;
    int row = y * xrange, row_len = set->size - row < xrange ? set->size - row : xrange;
    int column_len = (set->size - x + xrange - 1) / xrange;
    /* Rows have no PE in common, nor have columns: one number does for all of them. */
    int number = agree(set);
    if (number < 0)
        return -1;
    *xaxis_team = split(set, (struct part){row, 1, row_len}, number, xaxis_config, xaxis_mask);
    number = agree(set);
    if (number < 0) {
        shmem_team_destroy(*xaxis_team);
        *xaxis_team = SHMEM_TEAM_INVALID;
        return -1;
    }
    *yaxis_team = split(set, (struct part){x, xrange, column_len}, number, yaxis_config, yaxis_mask);
    return 0;
}

void shmem_team_destroy(shmem_team_t handle)
{
    struct team *team = team_of(handle);
    if (team != NULL && handle != SHMEM_TEAM_WORLD && handle != SHMEM_TEAM_SHARED)
        team->is_there = 0;
}

void *shmem_team_ptr(shmem_team_t team, const void *dest, int pe)
{
    const struct set *set = set_of(team);
    return set == NULL || pe < 0 || pe >= set->size ? NULL : shmem_ptr(dest, pe_of(set, pe));
}

int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx)
{
    (void)options;
    const struct set *set = set_of(team);
    struct shmem_ctx *made = set == NULL ? NULL : malloc(sizeof *made);
    *ctx = SHMEM_CTX_INVALID;
    if (made == NULL)
        return -1;
    *made = (struct shmem_ctx){team, *set};
    *ctx = made;
    return 0;
}

int shmem_ctx_create(long options, shmem_ctx_t *ctx) { return shmem_team_create_ctx(SHMEM_TEAM_WORLD, options, ctx); }

void shmem_ctx_destroy(shmem_ctx_t ctx)
{
    if (ctx == SHMEM_CTX_INVALID || ctx == SHMEM_CTX_DEFAULT)
        return;
    complete();
    free(ctx);
}

int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team)
{
    *team = ctx == SHMEM_CTX_INVALID ? SHMEM_TEAM_INVALID : ctx == SHMEM_CTX_DEFAULT ? SHMEM_TEAM_WORLD : ctx->team;
    return *team == SHMEM_TEAM_INVALID ? -1 : 0;
}

int ctx_pe(shmem_ctx_t ctx, int pe)
{
    if (ctx == SHMEM_CTX_DEFAULT)
        return pe;
    if (ctx == SHMEM_CTX_INVALID)
        die("a call with SHMEM_CTX_INVALID");
    if (pe < 0 || pe >= ctx->set.size)
        die("there is no PE %d in the context's team of %d", pe, ctx->set.size);
    return pe_of(&ctx->set, pe);
}
