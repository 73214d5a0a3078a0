/* The calls on mapped memory, locks and the heap over those that put, get and map: for tests of the programs alone.
 *
 * Coherent mappings are those of this host's memory. An Explicit mapping is a copy of this program's own, even of local
 * bytes, so that a program which forgets to flush or to update reads what is old on one node too.
 */
#define _DEFAULT_SOURCE
#include "../../../../apps/kit/shared.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_COUNT_MAX = 16 };

/* A region's bytes as this program sees them, and as they were when flush or update looked last. */
typedef struct copy {
    hanare_region *region;
    char *bytes, *twin;
} copy;
static copy copies[COPY_COUNT_MAX];

int hanare_map_shared(hanare_region *region, int consistency, void **ptr, size_t *len)
{
    if (consistency == HANARE_COHERENT)
        return hanare_map(region, ptr, len);
    for (copy *c = copies; c < copies + COPY_COUNT_MAX; c++) {
        /* A closed region's copy has the handle of the region that took its place. */
        if (c->region != NULL && c->region != region)
            continue;
        free(c->bytes);
        free(c->twin);
        *len = (size_t)hanare_len(region);
        c->region = region;
        c->bytes = (char *)malloc(*len);
        c->twin = (char *)malloc(*len);
        int code = hanare_get(region, 0, c->bytes, *len);
        memcpy(c->twin, c->bytes, *len);
        *ptr = c->bytes;
        return code;
    }
    return HANARE_ERR_LIMIT_REACHED;
}

static copy *copy_of(hanare_region *region, uint64_t offset, uint64_t len)
{
    for (copy *c = copies; c < copies + COPY_COUNT_MAX; c++)
        if (c->region == region && offset <= (uint64_t)hanare_len(region) && len <= (uint64_t)hanare_len(region) - offset)
            return c;
    fprintf(stderr, "shim: no Explicit mapping has these bytes\n");
    return NULL;
}

int hanare_flush_range(hanare_region *region, uint64_t offset, uint64_t len)
{
    copy *c = copy_of(region, offset, len);
    if (c == NULL)
        return HANARE_ERR_BAD_USE;
    for (uint64_t at = offset, end = offset + len; at < end;) {
        uint64_t first = at;
        while (at < end && c->bytes[at] != c->twin[at])
            at++;
        if (at > first) {
            int code = hanare_put(region, first, c->bytes + first, at - first);
            if (code < 0)
                return code;
            memcpy(c->twin + first, c->bytes + first, at - first);
        }
        while (at < end && c->bytes[at] == c->twin[at])
            at++;
    }
    return 0;
}

int hanare_update_range(hanare_region *region, uint64_t offset, uint64_t len)
{
    copy *c = copy_of(region, offset, len);
    char *now = (char *)malloc(len);
    int code = c == NULL ? HANARE_ERR_BAD_USE : hanare_get(region, offset, now, len);
    for (uint64_t at = 0; code == 0 && at < len; at++) {
        if (c->bytes[offset + at] == c->twin[offset + at])
            c->bytes[offset + at] = now[at];
        c->twin[offset + at] = now[at];
    }
    free(now);
    return code;
}

/* A word in a region of its own, taken by exchange. */
struct hanare_lock_handle {
    hanare_region *region;
};

int hanare_lock(hanare_pool *pool, const char *name, int how, uint64_t bound_ms, hanare_lock_handle **lock)
{
    char of[256];
    hanare_region *region;
    uint64_t before = 1;
    (void)how, (void)bound_ms;
    snprintf(of, sizeof of, "lock-%s", name);
    int code = hanare_create_or_attach(pool, of, 64, NULL, &region);
    while (code == 0 && before != 0) {
        code = hanare_swap(region, 0, 1, &before);
        if (before != 0)
            sched_yield();
    }
    if (code < 0)
        return code;
    *lock = (hanare_lock_handle *)malloc(sizeof **lock);
    (*lock)->region = region;
    return 0;
}

int hanare_unlock(hanare_lock_handle *lock)
{
    int code = hanare_swap(lock->region, 0, 0, NULL);
    hanare_close(lock->region);
    free(lock);
    return code;
}

int hanare_wait_word(hanare_region *region, uint64_t offset, size_t size, int how, uint64_t value, uint64_t bound_ms)
{
    uint64_t now = 0;
    int code;
    (void)how, (void)bound_ms;
    while ((code = hanare_get(region, offset, &now, size)) == 0 && now < value)
        sched_yield();
    return code;
}

/* Bytes from the front; how many is the region's last word. Nothing is used twice. */
int hanare_malloc(hanare_region *region, size_t size, uint64_t *offset)
{
    uint64_t last = (uint64_t)hanare_len(region) - 8, wanted = (size + 63) / 64 * 64;
    int code = hanare_fetch_add(region, last, wanted, offset);
    return code == 0 && *offset + wanted > last ? HANARE_ERR_POOL_FULL : code;
}

int hanare_free(hanare_region *region, uint64_t offset)
{
    return offset < (uint64_t)hanare_len(region) ? 0 : HANARE_ERR_OUT_OF_RANGE;
}
