/* The job: its PEs' regions, from shmem_init to shmem_finalize, and where symmetric memory is.
 *
 * Each PE makes one region on its own node. In it are, as blocks of one heap (hanare_malloc on PE 0's region): the library's own words, the
 * program's statics, and what shmem_malloc gives out. A block has one offset in all regions. */
#define _GNU_SOURCE 1
#include "pe.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

/* Where each PE has its own region: far from what kernels and sanitizers take. */
#define HEAP_ADDRESS ((char *)0x200000000000)
/* Bytes of symmetric heap, unless SHMEM_SYMMETRIC_SIZE tells. */
#define HEAP_LEN_DEFAULT (64u << 20)
#define PAGE_LEN 4096u

struct job job;
static char region_name[64];

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "shmem: PE %d: ", job.me);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    if (job.pool != NULL)
        hanare_abort(job.pool, 1);
    exit(1);
}

int checked(int code)
{
    if (code < 0)
        die("%s", hanare_last_error());
    return code;
}

static uint64_t page_up(uint64_t len) { return (len + PAGE_LEN - 1) / PAGE_LEN * PAGE_LEN; }

/* Reads SHMEM_SYMMETRIC_SIZE: a number, with a fraction or not, and K, M, G or T behind it. */
static uint64_t heap_len(void)
{
    const char *text = getenv("SHMEM_SYMMETRIC_SIZE");
    if (text == NULL || *text == '\0')
        return HEAP_LEN_DEFAULT;
    char *end;
    double len = strtod(text, &end);
    const char *units = "KMGT", *unit = strchr(units, *end & ~0x20);
    if (*end != '\0' && unit != NULL) {
        for (const char *at = units; at <= unit; at++)
            len *= 1024;
        end++;
    }
    if (*end != '\0' || !(len > 0) || len > (double)(UINT64_C(1) << 44))
        die("SHMEM_SYMMETRIC_SIZE is '%s', which is no size such as 64M", text);
    return (uint64_t)len;
}

/* What PEs tell each other at the beginning. */
struct greeting {
    uint64_t gid, len, statics_len;
    uint64_t node;
};

static void meet(hanare_group *group)
{
    struct greeting own = {hanare_gid(job.peers[job.me].region), job.len, job.statics_len, (uint64_t)checked(hanare_node(job.pool))};
    struct greeting *all = calloc((size_t)job.size, sizeof *all);
    if (all == NULL)
        die("no memory");
    checked(hanare_all_gather(group, &own, sizeof own, all));
    for (int pe = 0; pe < job.size; pe++) {
        if (all[pe].len != own.len || all[pe].statics_len != own.statics_len)
            die("PE %d has other symmetric memory (%" PRIu64 " bytes, %" PRIu64 " of statics; here %" PRIu64 ", %" PRIu64
                "): all PEs run one program with one SHMEM_SYMMETRIC_SIZE",
                pe, all[pe].len, all[pe].statics_len, own.len, own.statics_len);
        job.peers[pe].gid = all[pe].gid;
        job.peers[pe].node = (uint32_t)all[pe].node;
    }
    free(all);
}

/* Makes this PE's region. Its name is unlike any other; PEs open each other's by number. */
static void make_region(void)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        die("no random bytes");
    snprintf(region_name, sizeof region_name, "shmem.%016" PRIx64 ".%d", random, job.me);
    struct peer *own = &job.peers[job.me];
    /* Programs have pointers into it. */
    hanare_create_options options = HANARE_CREATE_OPTIONS_INIT;
    options.copies = 1;
    int code = hanare_create(job.pool, region_name, job.len, &options, &own->region);
    if (code == HANARE_ERR_POOL_FULL)
        die("%s; it is for %" PRIu64 " bytes of variables, the rest for SHMEM_SYMMETRIC_SIZE; oshrun --memory starts a larger pool",
            hanare_last_error(), job.statics_len);
    checked(code);
    void *base;
    size_t len;
    checked(hanare_map(own->region, &base, &len));
    own->base = base;
    void *wanted = mmap(HEAP_ADDRESS, job.len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (wanted != HEAP_ADDRESS)
        die("%" PRIu64 " bytes at %p, where all PEs have their symmetric heap, are not free", job.len, (void *)HEAP_ADDRESS);
    map_twice(own->base, job.len, HEAP_ADDRESS);
    job.heap = HEAP_ADDRESS;
}

int shmem_init_thread(int requested, int *provided)
{
    if (job.pool == NULL) {
        checked(hanare_use_as(HANARE_FACE_OPENSHMEM));
        checked(hanare_attach(&job.pool));
        job.me = checked(hanare_rank(job.pool));
        job.size = checked(hanare_ranks(job.pool));
        job.peers = calloc((size_t)job.size, sizeof *job.peers);
        if (job.peers == NULL)
            die("no memory");
        statics_find(&job.statics, &job.statics_len);
        job.len = page_up(heap_len()) + page_up(job.statics_len) + page_up(sizeof(struct area)) + PAGE_LEN;
        make_region();
        hanare_group *group;
        checked(hanare_group_open(job.pool, NULL, 0, &group));
        meet(group);
        uint64_t places[2] = {0, 0};
        if (job.me == 0) {
            checked(hanare_malloc_aligned(job.peers[0].region, page_up(sizeof(struct area)), PAGE_LEN, &places[0]));
            if (job.statics_len > 0)
                checked(hanare_malloc_aligned(job.peers[0].region, job.statics_len, PAGE_LEN, &places[1]));
        }
        checked(hanare_broadcast(group, places, sizeof places, 0));
        job.area = (struct area *)(job.heap + places[0]);
        job.statics_at = places[1];
        if (job.statics_len > 0)
            statics_share(job.peers[job.me].base + job.statics_at);
        waits_begin();
        teams_begin();
        checked(hanare_group_close(group));
        checked(hanare_barrier(job.pool));
    }
    job.thread_level = requested;
    if (provided != NULL)
        *provided = requested;
    return 0;
}

void shmem_init(void) { shmem_init_thread(SHMEM_THREAD_SINGLE, NULL); }

void shmem_finalize(void)
{
    if (job.pool == NULL)
        return;
    shmem_barrier_all();
    for (int pe = 0; pe < job.size; pe++) {
        if (pe != job.me && job.peers[pe].region != NULL)
            checked(hanare_close(job.peers[pe].region));
    }
    /* All bytes of the program are its own again before their region goes. */
    if (job.statics_len > 0)
        statics_unshare();
    munmap(job.heap, job.len);
    checked(hanare_barrier(job.pool));
    checked(hanare_close(job.peers[job.me].region));
    checked(hanare_remove(job.pool, region_name));
    free(job.peers);
    hanare_pool *pool = job.pool;
    job = (struct job){.me = job.me, .size = job.size};
    checked(hanare_detach(pool));
}

void start_pes(int npes)
{
    (void)npes;
    if (job.pool == NULL) {
        shmem_init();
        atexit(shmem_finalize);
    }
}

void shmem_global_exit(int status)
{
    if (job.pool != NULL)
        hanare_abort(job.pool, status);
    exit(status);
}

/* Opens a peer's region, and maps it where it is on this host. */
static __attribute__((noinline, cold)) hanare_region *open_peer(struct peer *peer)
{
    static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&opening);
    if (peer->region == NULL) {
        hanare_region *region;
        checked(hanare_open_gid(job.pool, peer->gid, HANARE_WRITE, &region));
        if (hanare_is_local(region)) {
            void *base;
            size_t len;
            checked(hanare_map(region, &base, &len));
            peer->base = base;
        }
        /* ORDERING: pairs with the load in target_of, which then sees the base. */
        __atomic_store_n(&peer->region, region, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&opening);
    return peer->region;
}

uint64_t offset_of(const volatile void *symmetric)
{
    uint64_t in_heap = (uintptr_t)symmetric - (uintptr_t)job.heap;
    if (in_heap < job.len)
        return in_heap;
    uint64_t in_statics = (uintptr_t)symmetric - (uintptr_t)job.statics;
    return in_statics < job.statics_len ? job.statics_at + in_statics : UINT64_MAX;
}

struct target target_of(const volatile void *symmetric, int pe)
{
    uint64_t offset = offset_of(symmetric);
    if (offset == UINT64_MAX || (unsigned)pe >= (unsigned)job.size) {
        if (job.pool == NULL)
            die("a call before shmem_init or after shmem_finalize");
        if (offset == UINT64_MAX)
            die("%p is no symmetric address: neither of the symmetric heap nor a global or static variable of the program", (void *)symmetric);
        die("there is no PE %d; there are %d", pe, job.size);
    }
    struct peer *peer = &job.peers[pe];
    hanare_region *region = __atomic_load_n(&peer->region, __ATOMIC_ACQUIRE);
    if (__builtin_expect(region == NULL, 0))
        region = open_peer(peer);
    return (struct target){peer->base == NULL ? NULL : peer->base + offset, region, offset};
}

void shmem_query_thread(int *provided) { *provided = job.thread_level; }
int shmem_my_pe(void) { return job.me; }
int shmem_n_pes(void) { return job.size; }
int _my_pe(void) { return job.me; }
int _num_pes(void) { return job.size; }
int shmem_pe_accessible(int pe) { return pe >= 0 && pe < job.size; }
int shmem_addr_accessible(const void *addr, int pe) { return shmem_pe_accessible(pe) && offset_of(addr) != UINT64_MAX; }

void *shmem_ptr(const void *dest, int pe)
{
    if (!shmem_addr_accessible(dest, pe))
        return NULL;
    return pe == job.me ? (void *)dest : target_of(dest, pe).ptr;
}

void shmem_info_get_version(int *major, int *minor)
{
    *major = SHMEM_MAJOR_VERSION;
    *minor = SHMEM_MINOR_VERSION;
}

void shmem_info_get_name(char *name) { strcpy(name, SHMEM_VENDOR_STRING); }

/* For tools that measure; none is here. */
void shmem_pcontrol(int level, ...) { (void)level; }
