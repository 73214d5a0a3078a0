/* The calls on mapped memory of several nodes, locks and the heap in a region, as hanare.h declares them. */
#ifndef KIT_SHARED_H
#define KIT_SHARED_H

#include <hanare.h>

#ifndef HANARE_COHERENT
#define HANARE_EXPLICIT 1
#define HANARE_COHERENT 2
#define HANARE_EXCLUSIVE 1
#define HANARE_FOREVER UINT64_MAX
#define HANARE_WAIT_AT_LEAST 3

typedef struct hanare_lock_handle hanare_lock_handle;

extern int hanare_map_shared(hanare_region *region, int consistency, void **ptr, size_t *len);
extern int hanare_flush_range(hanare_region *region, uint64_t offset, uint64_t len);
extern int hanare_update_range(hanare_region *region, uint64_t offset, uint64_t len);
extern int hanare_lock(hanare_pool *pool, const char *name, int how, uint64_t bound_ms, hanare_lock_handle **lock);
extern int hanare_unlock(hanare_lock_handle *lock);
extern int hanare_wait_word(hanare_region *region, uint64_t offset, size_t size, int how, uint64_t value, uint64_t bound_ms);
extern int hanare_malloc(hanare_region *region, size_t size, uint64_t *offset);
extern int hanare_free(hanare_region *region, uint64_t offset);
#endif

#endif
