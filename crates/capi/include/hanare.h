/* hanare.h: memory in addition to main memory, for C99 and C++17.
 *
 * A pool is the RAM that nodes lend; a region is a named range of it. This header has the vector commands
 * (put, get, copy), naming, mapping of local bytes, and the job's barrier. dimmnet.h has the calls of the
 * DIMMnet-2 papers on top of the same regions.
 *
 *     hanare_pool *pool;
 *     hanare_region *region;
 *     if (hanare_attach(&pool) < 0 || hanare_create_or_attach(pool, "greeting", 4096, NULL, &region) < 0) {
 *         fprintf(stderr, "%s\n", hanare_last_error());
 *         return 1;
 *     }
 *     hanare_put(region, 0, "good morning", 13);
 *
 * Build with `pkg-config --cflags --libs hanare`; start the program with `hanare run -- ./program`.
 *
 * What holds for every call
 * -------------------------
 * Return     0 (or a number of at least 0, where a call says so) for success, a negative HANARE_ERR_… for failure.
 *            A call that fails leaves its result pointers as they were.
 * Errors     hanare_last_error() tells in words what happened to which region, at which offset and limit, and what
 *            to do next. A NULL where none is allowed is refused with HANARE_ERR_BAD_ARGUMENT. No call aborts the
 *            program or throws.
 * Threads    any thread may make any call on any handle, at the same time as others; the calls that take a handle
 *            away (hanare_detach, hanare_close, hanare_unmap, hanare_wait) must be the last on that handle.
 * Ownership  strings and options that go in are read during the call and stay the caller's. A handle that comes out
 *            is the caller's until the call that takes it away. A region keeps its pool attached: handles may be
 *            given back in any order.
 * Blocking   a call on bytes of other nodes waits for their answer, at most HANARE_ANSWER_MS (10 s). A dead node is
 *            reported sooner. hanare_barrier waits for live ranks as long as it takes. A call that never waits says so.
 * fork       a child must not use its parent's handles: it attaches anew.
 *
 * The numbers below never change; new ones are added at the end.
 */
#ifndef HANARE_H
#define HANARE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What went wrong -------------------------------------------------------------------------------------------- */

#define HANARE_OK 0
#define HANARE_ERR_UNKNOWN_REGION (-1)    /* no region of that name */
#define HANARE_ERR_NAME_TAKEN (-2)        /* a region of that name exists */
#define HANARE_ERR_BAD_NAME (-3)          /* the name is empty, too long, or holds a byte that a file name cannot */
#define HANARE_ERR_BAD_LENGTH (-4)        /* zero, smaller than the region is, or another than an existing region's */
#define HANARE_ERR_BAD_PLACEMENT (-5)     /* no such node, or a chunk that is no power of two of at least a page */
#define HANARE_ERR_OUT_OF_RANGE (-6)      /* some byte lies beyond the region's end; nothing was moved */
#define HANARE_ERR_BAD_SHAPE (-7)         /* blocks overlap, a product overflows, or the buffer's length differs */
#define HANARE_ERR_NO_PERMISSION (-8)     /* the user may not do that to the region */
#define HANARE_ERR_QUOTA_EXCEEDED (-9)    /* the user's quota would be exceeded */
#define HANARE_ERR_POOL_FULL (-10)        /* not that much free memory where the placement wants it */
#define HANARE_ERR_LIMIT_REACHED (-11)    /* a named limit of the pool was reached */
#define HANARE_ERR_NODE_LOST (-12)        /* a node is gone; a put may or may not have happened */
#define HANARE_ERR_REGION_LOST (-13)      /* the region's bytes went with their node */
#define HANARE_ERR_GRANT_REFUSED (-14)    /* the region was opened before its node came back: open it again */
#define HANARE_ERR_NO_NODE (-15)          /* no node answers on this host */
#define HANARE_ERR_NO_COORDINATOR (-16)   /* naming fails for now; open regions stay usable */
#define HANARE_ERR_TIMEOUT (-17)          /* no answer within the bound; it may or may not have happened */
#define HANARE_ERR_RANK_GONE (-18)        /* a rank of the job ended while others wait for it */
#define HANARE_ERR_VERSION_MISMATCH (-19) /* the other side is another build */
#define HANARE_ERR_KEY_REFUSED (-20)      /* a side lacks the pool's key */
#define HANARE_ERR_GARBAGE (-21)          /* a peer sent something that makes no sense */
#define HANARE_ERR_BAD_USE (-22)          /* the region cannot be used that way */
#define HANARE_ERR_BAD_SETTING (-23)      /* a HANARE_… variable has no usable value */
#define HANARE_ERR_SYSTEM (-24)           /* the operating system refused something */
#define HANARE_ERR_BAD_ARGUMENT (-25)     /* NULL, not UTF-8, or a number that means nothing */
#define HANARE_ERR_DEFECT (-26)           /* a defect of this library was caught at its border: please report it */
#define HANARE_ERR_OTHER (-27)            /* an error younger than this header: its message says what */
#define HANARE_ERR_BAD_DIMENSION (-28)    /* a dimension of a sub-array leads out of the region; nothing was moved */
#define HANARE_ERR_BAD_INDEX (-29)        /* an index names a block beyond the region's end; nothing was moved */
#define HANARE_ERR_BAD_ELEMENT (-30)      /* elements of that kind, or at that place, do not go with the operation */
#define HANARE_ERR_BROKEN_NOT_DONE (-31)  /* the connection broke under an update, which did not happen */
#define HANARE_ERR_BROKEN_DONE (-32)      /* it broke when the update was done: only the answer is lost */
#define HANARE_ERR_BROKEN (-33)           /* it broke, and the update may or may not have happened */

/* The message of the calling thread's last failed call, beginning with the name of that call.
 *
 * Return     a string, empty if no call of this thread failed yet. Never NULL.
 * Ownership  the library's; valid until the thread's next failed call. A call that succeeds leaves it.
 * Blocking   never.
 */
const char *hanare_last_error(void);

/* Whether the call that returned `code` can succeed later without being changed: 1 or 0. Never blocks. */
int hanare_may_retry(int code);

#define HANARE_HAPPENED_NO 0      /* nothing was done */
#define HANARE_HAPPENED_YES 1     /* all of it was done */
#define HANARE_HAPPENED_UNKNOWN 2 /* it may have been done, in part or whole */

/* Whether the call that returned `code` did what it was to do: one of HANARE_HAPPENED_…. Of a call on bytes of several
 * nodes it says what is known of the part that failed; the others' parts may have been done. Never blocks. */
int hanare_happened(int code);

/* The version of the library at run time, as "0.1.0". The library's own; never blocks. */
const char *hanare_version(void);

/* ---- Handles ---------------------------------------------------------------------------------------------------- */

typedef struct hanare_pool hanare_pool;       /* an attachment to this host's node */
typedef struct hanare_region hanare_region;   /* an open region */
typedef struct hanare_request hanare_request; /* a put or get under way */

/* ---- Pool ------------------------------------------------------------------------------------------------------- */

/* Attaches to this host's node, and takes the rank that the launcher gave.
 *
 * When       first. Reads HANARE_NODE, HANARE_RANK, HANARE_RANKS, HANARE_JOB.
 * Ownership  *pool is the caller's until hanare_detach.
 * Errors     NO_NODE, VERSION_MISMATCH, BAD_SETTING, BAD_ARGUMENT.
 */
int hanare_attach(hanare_pool **pool);

/* Attaches to the node at `address`: the path of its socket, or @NAME. The client is no rank of any job.
 *
 * Otherwise as hanare_attach.
 */
int hanare_attach_to(const char *address, hanare_pool **pool);

/* Gives the attachment back. Regions still open keep working until they are closed. Never blocks. */
int hanare_detach(hanare_pool *pool);

/* This client's number in its job, from 0; 0 outside a job. Never blocks. */
int hanare_rank(const hanare_pool *pool);

/* How many ranks the job has; 1 outside a job. Never blocks. */
int hanare_ranks(const hanare_pool *pool);

/* The number of this host's node. Never blocks. */
int hanare_node(const hanare_pool *pool);

/* Waits until every rank of the job is here.
 *
 * When       every rank calls it equally often. Outside a job it returns at once.
 * Blocking   until the last rank arrives, without a bound.
 * Ordering   puts of any rank that ended before its call are visible to all after theirs.
 * Errors     RANK_GONE when a rank ended (the message names it): no later barrier can complete either. NODE_LOST.
 */
int hanare_barrier(hanare_pool *pool);

/* Orders: every put of this client before the call is done at its home before any put or get after it. */
int hanare_fence(hanare_pool *pool);

/* Waits until all earlier writes of this client, by command or by store to a map, are visible at their home.
 *
 * Errors     NODE_LOST, TIMEOUT.
 */
int hanare_flush(hanare_pool *pool);

/* What this client has sent and received over links: loads and stores to a map are not counted. */
typedef struct hanare_traffic {
    size_t struct_size; /* sizeof(hanare_traffic), set by the caller */
    uint64_t messages_sent;
    uint64_t bytes_sent;
    uint64_t messages_received;
    uint64_t bytes_received;
} hanare_traffic;

/* Fills *traffic with the counts since the attachment. Set traffic->struct_size first. Never blocks. */
int hanare_get_traffic(const hanare_pool *pool, hanare_traffic *traffic);

/* ---- Naming ----------------------------------------------------------------------------------------------------- */

typedef struct hanare_create_options {
    size_t struct_size;    /* sizeof(hanare_create_options), set by the caller */
    const char *placement; /* "local", "node=K" or "interleave=BYTES"; NULL is "local" */
    uint32_t mode;         /* who may read and write: the bits of a file's mode */
} hanare_create_options;

/* What NULL options stand for: on this host's node, for this user only. */
#define HANARE_CREATE_OPTIONS_INIT {sizeof(hanare_create_options), NULL, 0600}

/* Creates a region of `len` bytes, all zero.
 *
 * Ownership  *region is the caller's until hanare_close. Closing does not remove the region: its name stays.
 * Errors     NAME_TAKEN, BAD_NAME, BAD_LENGTH (0), BAD_PLACEMENT, POOL_FULL, QUOTA_EXCEEDED, NO_COORDINATOR.
 */
int hanare_create(hanare_pool *pool, const char *name, uint64_t len, const hanare_create_options *options,
                  hanare_region **region);

/* Creates a region, or opens the one that has this name and length. hanare_was_created tells which.
 *
 * Errors     as hanare_create, but BAD_LENGTH where a region of that name has another length.
 */
int hanare_create_or_attach(hanare_pool *pool, const char *name, uint64_t len, const hanare_create_options *options,
                            hanare_region **region);

#define HANARE_MOST 0  /* the most that the user may do */
#define HANARE_READ 1  /* get, and map for reading */
#define HANARE_WRITE 2 /* get and put, and map for writing */

/* Opens a region for HANARE_READ, HANARE_WRITE or HANARE_MOST.
 *
 * Ownership  *region is the caller's until hanare_close.
 * Errors     UNKNOWN_REGION, NO_PERMISSION, REGION_LOST, NO_COORDINATOR.
 */
int hanare_open(hanare_pool *pool, const char *name, int rights, hanare_region **region);

/* Gives a region handle back, with its map if it has one; the bytes stay in the pool. Never waits for requests:
 * those under way keep what they need. */
int hanare_close(hanare_region *region);

/* Removes a region from the pool. Maps of it stay valid until they go; everything else on it fails from now on.
 *
 * Errors     UNKNOWN_REGION, NO_PERMISSION, NO_COORDINATOR.
 */
int hanare_remove(hanare_pool *pool, const char *name);

/* Makes a region longer; the new bytes are zero and no old byte moves. Handles opened before keep the old length.
 *
 * Ownership  *region is a new handle with the new length, the caller's until hanare_close; NULL if not wanted.
 * Errors     UNKNOWN_REGION, BAD_LENGTH (shorter than it is), POOL_FULL, QUOTA_EXCEEDED, NO_PERMISSION.
 */
int hanare_resize(hanare_pool *pool, const char *name, uint64_t len, hanare_region **region);

typedef struct hanare_region_stat {
    size_t struct_size;  /* sizeof(hanare_region_stat), set by the caller */
    uint64_t gid;        /* global id, never used twice */
    uint64_t len;        /* bytes */
    uint32_t owner;      /* user id */
    uint32_t mode;       /* as a file's mode */
    uint32_t node_count; /* how many nodes hold bytes of it */
    int32_t lost_node;   /* a node that is gone with bytes of it, or -1 */
    char name[256];      /* ends with a zero byte */
    char placement[64];  /* as it was asked for; ends with a zero byte */
} hanare_region_stat;

/* Describes the region `name`. Set stat->struct_size first.
 *
 * Errors     UNKNOWN_REGION, NO_COORDINATOR.
 */
int hanare_stat(hanare_pool *pool, const char *name, hanare_region_stat *stat);

/* Called for each region of a listing; `stat` is valid during the call. A return other than 0 ends the listing. */
typedef int (*hanare_list_fn)(const hanare_region_stat *stat, void *closure);

/* Calls `each` for every region of the pool, in name order, on the calling thread.
 *
 * Return     0, or what `each` returned last if that was not 0. `each` may make any call of this header.
 * Errors     NO_COORDINATOR.
 */
int hanare_list(hanare_pool *pool, hanare_list_fn each, void *closure);

/* The region's length in bytes through this handle, or a negative code. Never blocks. */
int64_t hanare_len(const hanare_region *region);

/* 1 if all bytes lie on this host's node, 0 if not. Never blocks. */
int hanare_is_local(const hanare_region *region);

/* 1 if the call that gave this handle made the region, 0 if it was there. Never blocks. */
int hanare_was_created(const hanare_region *region);

/* ---- Put, get, copy --------------------------------------------------------------------------------------------- */

/* Copies `len` bytes at `from` to the region at `offset`.
 *
 * Return     0 when the bytes are at their home: a get by anyone finds them.
 * Ownership  the bytes at `from` are the caller's and must not change during the call.
 * Blocking   not on local bytes; one round trip to each other node that holds some, all at the same time.
 * Errors     OUT_OF_RANGE, NO_PERMISSION, NODE_LOST, REGION_LOST, GRANT_REFUSED, TIMEOUT.
 */
int hanare_put(hanare_region *region, uint64_t offset, const void *from, size_t len);

/* Copies `len` bytes of the region at `offset` to `into`. Otherwise as hanare_put; after a failure the bytes at
 * `into` are unspecified. */
int hanare_get(hanare_region *region, uint64_t offset, void *into, size_t len);

/* `count` blocks of `block` bytes, the first at `offset`, each `stride` bytes after the one before. */
typedef struct hanare_strided {
    uint64_t offset;
    uint64_t block;
    uint64_t count;
    uint64_t stride; /* at least `block` when there are several blocks */
} hanare_strided;

/* Scatters `from_len` bytes over the blocks of `shape`, in order: one message to each node, whatever the count.
 *
 * Errors     as hanare_put; BAD_SHAPE when blocks overlap or from_len is not block times count.
 */
int hanare_put_strided(hanare_region *region, const hanare_strided *shape, const void *from, size_t from_len);

/* Gathers the blocks of `shape` into the `into_len` bytes at `into`, in order: one message to each node. Errors as
 * hanare_put_strided. */
int hanare_get_strided(hanare_region *region, const hanare_strided *shape, void *into, size_t into_len);

/* Copies blocks of one region to blocks of another (or of the same).
 *
 * Cost       within a node the bytes stay there: one message each way. Between nodes they pass through this program, in
 *            pieces.
 * Ordering   overlapping source and target of one region give unspecified bytes there.
 * Errors     as hanare_put; BAD_SHAPE when the shapes have different amounts of bytes; BAD_USE when the regions were
 *            opened through different attachments.
 */
int hanare_copy(hanare_region *from, const hanare_strided *from_shape, hanare_region *to,
                const hanare_strided *to_shape);

/* Starts a put and returns.
 *
 * Ownership  the bytes at `from` belong to the library, unchanged and allocated, until hanare_wait returns; *request is
 *            the caller's until hanare_wait. The region may be closed meanwhile.
 * Blocking   never waits for an answer. Local bytes are moved at once.
 * Errors     as hanare_put, where they can be known at once; the others come from hanare_wait.
 */
int hanare_put_nb(hanare_region *region, uint64_t offset, const void *from, size_t len, hanare_request **request);

/* Starts a get and returns. The bytes at `into` belong to the library until hanare_wait returns. Otherwise as
 * hanare_put_nb. */
int hanare_get_nb(hanare_region *region, uint64_t offset, void *into, size_t len, hanare_request **request);

/* Waits for a request and takes it away, whatever comes of it.
 *
 * Return     0 when the bytes are there.
 * Errors     as hanare_put.
 */
int hanare_wait(hanare_request *request);

/* 1 if hanare_wait would return at once, 0 if not. Moves what has arrived; never waits. The request stays the caller's. */
int hanare_test(hanare_request *request);

/* ---- Map -------------------------------------------------------------------------------------------------------- */

/* Maps a region that lies wholly on this host's node: *ptr is its first byte, *len its length.
 *
 * Ownership  the mapping is valid until hanare_unmap or hanare_close, whichever comes first. Mapping twice gives the
 *            same pointer.
 * Ordering   loads and stores are what they are between threads: other clients of this host see them at once.
 *            Storing through a map of a region opened for reading ends the program with SIGSEGV.
 * Errors     BAD_USE when some bytes are on other nodes (dn_malloc of dimmnet.h keeps a copy of those).
 */
int hanare_map(hanare_region *region, void **ptr, size_t *len);

/* Gives the mapping back; nobody may load or store through it any more. Errors: BAD_USE when there is none. */
int hanare_unmap(hanare_region *region);

#ifdef __cplusplus
}
#endif
#endif
