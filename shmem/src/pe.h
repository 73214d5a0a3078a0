/* pe.h: what the files of the library share: this PE, its peers, and where symmetric memory is. docs/openshmem.md has the whole. */
#ifndef SHMEM_PE_H
#define SHMEM_PE_H

#include "hanare.h"
#include "shmem.h"

/* Teams at once, with the two that are always there. */
#define TEAM_COUNT_MAX 64
/* Words of a team or active set that are no counters of a sync: see struct set. */
#define WORD_COUNT (SHMEM_SYNC_SIZE - 3)
#define WORD_VALUE (SHMEM_SYNC_SIZE - 2)
#define WORD_SECOND (SHMEM_SYNC_SIZE - 1)

/* Memory of the library in each PE's region: for each team the words that its operations need. All are 0 between operations. */
struct area {
    long sync[TEAM_COUNT_MAX][SHMEM_SYNC_SIZE];
};

/* Another PE, or this one. Opened at the first use. */
struct peer {
    hanare_region *region; /* NULL until it is opened */
    char *base;            /* where its region is mapped; NULL where it lies on another node */
    uint64_t gid;
    uint32_t node;
};

/* The PE of this process. shmem_init sets it; nothing changes it until shmem_finalize. */
struct job {
    hanare_pool *pool; /* NULL outside of init and finalize */
    int me;
    int size;
    int thread_level;
    struct peer *peers;
    uint64_t len;         /* of each PE's region */
    char *heap;           /* where this PE's region is mapped for programs: one address in all PEs */
    struct area *area;    /* in it */
    char *statics;        /* the program's own writable memory */
    uint64_t statics_len; /* 0 where it has none */
    uint64_t statics_at;  /* its offset in the region */
};
extern struct job job;

/* Ends the job with a message. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Ends the job where a call of hanare.h failed. */
int checked(int code);

/* Symmetric memory of a PE: a pointer where this host has it, else a place in a region. */
struct target {
    char *ptr;
    hanare_region *region;
    uint64_t offset;
};

/* Finds the target of a symmetric address at PE `pe`. An address that is not symmetric, or a PE that does not exist, ends the job. */
struct target target_of(const volatile void *symmetric, int pe);
/* The offset of an address in this PE's region, or UINT64_MAX where it is not symmetric. */
uint64_t offset_of(const volatile void *symmetric);

/* statics.c: finds the program's writable memory; moves it into `shared`, of this PE's region; takes it back into memory of its own. */
void statics_find(char **start, uint64_t *len);
void statics_share(char *shared);
void statics_unshare(void);
/* Maps the `len` bytes of shared memory at `from` a second time, at `to`. */
void map_twice(char *from, uint64_t len, char *to);

/* move.c */
void put_bytes(void *dest, const void *source, size_t len, int pe);
void get_bytes(void *dest, const void *source, size_t len, int pe);
/* Put and get, done after complete(), which waits for all commands under way and orders this processor's stores. */
void begin_put(void *dest, const void *source, size_t len, int pe);
void begin_get(void *dest, const void *source, size_t len, int pe);
void complete(void);
struct stride {
    ptrdiff_t dest;
    ptrdiff_t source;
};
void put_strided(void *dest, const void *source, struct stride by, size_t count, size_t size, int pe);
void get_strided(void *dest, const void *source, struct stride by, size_t count, size_t size, int pe);

/* atomic.c: operations of hanare.h (HANARE_ADD ... HANARE_LOAD) on elements of 4 or 8 bytes; the element before. */
uint64_t fetch_op(const volatile void *dest, int operation, uint64_t operand, size_t size, int pe);
uint64_t compare_swap(void *dest, uint64_t expected, uint64_t desired, size_t size, int pe);

/* wait.c: looks how many processors there are for the PEs; a step of a wait, the n-th. */
void waits_begin(void);
void relax(unsigned *n);
/* Waits until an own word is at least `value`. */
void wait_word(volatile long *word, long value);

/* PEs that do something together: a team or an active set. */
struct set {
    int first; /* in the world */
    int stride;
    int size;
    int me;     /* this PE's number in it */
    long *sync; /* symmetric: counters of syncs, and WORD_...; 0 between operations */
};

static inline int pe_of(const struct set *set, int number) { return set->first + number * set->stride; }

/* collective.c: all of `set` are here; earlier stores and calls of each are done where they go. */
void sync_set(const struct set *set);
/* An active set: PEs from `start` on, 2^log_stride apart. */
struct set active_set(int start, int log_stride, int size, long *sync);

/* team.c: the set of a team, or NULL for SHMEM_TEAM_INVALID. */
const struct set *set_of(shmem_team_t team);
void teams_begin(void);
/* The world's PE of a number in a context's team. */
int ctx_pe(shmem_ctx_t ctx, int pe);
/* Shows a value of this PE to all of the set, until the next sync of the set. */
void publish(const struct set *set, int word, long value);
long published(const struct set *set, int word, int number);

#endif
