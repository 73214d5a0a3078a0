/* hanare.h: memory in addition to main memory, for C99 and C++17.
 *
 * A pool is the RAM that nodes lend; a region is a named range of it. This header has regions and their names, and the
 * vector commands (put, get, copy, fill, compare, reduce, update, on shapes of any kind) with batches of them. It maps
 * regions on any nodes. It has barriers, locks, waits for words, collective operations, messages, queues, dictionaries,
 * stores, and heaps in regions. dimmnet.h has the calls of the DIMMnet-2 papers on top of the same regions.
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
 * Rules of every call
 * -------------------
 * Return     0 (or a number of at least 0, where a call says so) for success, a negative HANARE_ERR_… for failure.
 *            A call that fails leaves its result pointers as they were.
 * Errors     hanare_last_error() tells in words what happened to which region, at which offset and limit, and what
 *            to do next. A NULL where none is allowed is refused with HANARE_ERR_BAD_ARGUMENT. No call aborts the
 *            program or throws.
 * Threads    any thread may make any call on any handle, at the same time as others. A call that ends a handle must be
 *            the last on it: hanare_detach, hanare_close, hanare_unmap, hanare_wait, hanare_batch_drop, hanare_unlock,
 *            and all calls whose names end in _close.
 * Ownership  strings and options that go in are read during the call and stay the caller's. A handle that comes out
 *            is the caller's until the call that ends it. A region keeps its pool attached: handles may be given back
 *            in any order.
 * Blocking   a call on bytes of other nodes waits for their reply, at most HANARE_ANSWER_MS (10 s). A dead node is
 *            reported sooner. hanare_barrier and hanare_group_barrier wait for live ranks and parties as long as it
 *            takes. A call with a bound_ms waits that number of milliseconds at most. A call that never waits says so.
 * fork       a child attaches again: calls with its parent's handles fail with BAD_USE, and leave the parent alone.
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
#define HANARE_ERR_NOT_IN_TIME (-34)      /* a lock or a word did not come within the bound; nothing was changed */
#define HANARE_ERR_LOCK_LOST (-35)        /* the connection broke under a lock: others may have had it since */
#define HANARE_ERR_LOCK_MISUSED (-36)     /* this thread has the lock already, or has not got it */
#define HANARE_ERR_BAD_GROUP (-37)        /* the group has another number of parties, or all of them */
#define HANARE_ERR_PARTY_GONE (-38)       /* a party of the group left or ended while others need it */
#define HANARE_ERR_NO_BLOCK (-39)         /* no block of the heap begins there: freed before, or never given out */
#define HANARE_ERR_HEAP_FULL (-40)        /* the heap has no free block that is long enough */
#define HANARE_ERR_IS_MAPPED (-41)        /* programs have it mapped coherently, so that its memory is not reached as it is */
#define HANARE_ERR_PAGE_LOST (-42)        /* bytes of a page went with the host that stored them; the region's rest is there */
#define HANARE_ERR_NO_ATTRIBUTE (-43)     /* the region has no attribute of that name */
#define HANARE_ERR_NO_QUEUE (-44)         /* no queue is there, or its memory makes no sense */
#define HANARE_ERR_QUEUE_FULL (-45)       /* the queue has no room, nor its spill: its reader has to read first */
#define HANARE_ERR_SECOND_READER (-46)    /* another program reads the queue */
#define HANARE_ERR_NOT_A_WRITER (-47)     /* the lane is not this writer's any more: open another */
#define HANARE_ERR_BAD_BLOCK (-48)        /* a block of another length than the queue's, or a record beyond its longest */
#define HANARE_ERR_WRITER_GONE (-49)      /* a writer died; all that it had committed was read */
#define HANARE_ERR_READER_GONE (-50)      /* the reader died while this writer waits for room */
#define HANARE_ERR_NOT_TRUSTED (-51)      /* a user made the region that this program does not trust: see hanare_trusting */
#define HANARE_ERR_TOO_OLD (-52)          /* a node of the pool is of an older build that does not know the request */
#define HANARE_ERR_TENANT_REFUSED (-53)   /* the pool has no tenant of that name and key: see HANARE_TENANT */
#define HANARE_ERR_TENANT_GONE (-54)      /* the program's tenant was removed from the pool */

/* The message of the calling thread's last failed call, beginning with the name of that call.
 *
 * Return     a string, empty if no call of this thread failed yet. Never NULL.
 * Ownership  the library's; valid until the thread's next failed call. A call that succeeds leaves it.
 * Blocking   never.
 */
const char *hanare_last_error(void);

/* The meaning of a code, as in the list above: "no such region" and the like, without the details of hanare_last_error().
 * The library's own; never NULL, never blocks. Any number of at least 0 is success. */
const char *hanare_strerror(int code);

/* A code's name, as "HANARE_ERR_TIMEOUT"; "unknown" for a number that is no code. Otherwise as hanare_strerror. */
const char *hanare_code_name(int code);

/* 1 if the call that returned `code` can succeed later without being changed, else 0. Never blocks. */
int hanare_may_retry(int code);

#define HANARE_HAPPENED_NO 0      /* nothing was done */
#define HANARE_HAPPENED_YES 1     /* all of it was done */
#define HANARE_HAPPENED_UNKNOWN 2 /* it may have been done, in part or whole */

/* Tells whether the call that returned `code` was done: one of HANARE_HAPPENED_…. After a call on bytes of several nodes
 * that is about the part that failed; the other parts may have been done. Never blocks. */
int hanare_happened(int code);

/* The version of the library at run time, as "0.1.0". The library's own; never blocks. */
const char *hanare_version(void);

/* ---- Handles ---------------------------------------------------------------------------------------------------- */

typedef struct hanare_pool hanare_pool;       /* an attachment to this host's node */
typedef struct hanare_region hanare_region;   /* an open region */
typedef struct hanare_request hanare_request; /* a command or batch under way */
typedef struct hanare_held hanare_held;       /* a lock that is held */
typedef struct hanare_group hanare_group;     /* a place among parties */
typedef struct hanare_mailbox hanare_mailbox; /* a party's messages */
typedef struct hanare_message hanare_message; /* one that was received */
typedef struct hanare_queue hanare_queue;     /* an open queue */
typedef struct hanare_queue_writer hanare_queue_writer; /* a writer of a queue */
typedef struct hanare_queue_reader hanare_queue_reader; /* its reader */
typedef struct hanare_dict hanare_dict;       /* an open dictionary */
typedef struct hanare_dict_walk hanare_dict_walk; /* how far a walk over its keys has come */
typedef struct hanare_store hanare_store;     /* an open store */

/* ---- Pool ------------------------------------------------------------------------------------------------------- */

/* Attaches to this host's node, and takes the rank that the launcher gave.
 *
 * When       first. Reads HANARE_NODE, HANARE_TENANT, HANARE_RANK, HANARE_RANKS, HANARE_JOB.
 * Ownership  *pool is the caller's until hanare_detach.
 * Errors     NO_NODE, VERSION_MISMATCH, BAD_SETTING, BAD_ARGUMENT, TENANT_REFUSED.
 */
int hanare_attach(hanare_pool **pool);

/* Attaches to the node at `address`: the path of its socket, or @NAME. The client is no rank of any job.
 *
 * Otherwise as hanare_attach.
 */
int hanare_attach_to(const char *address, hanare_pool **pool);

/* The same as a program of the tenant whose file that is, whatever HANARE_TENANT says. NULL for `address`: the node of the settings.
 *
 * Errors     as hanare_attach; TENANT_REFUSED, after a second, where the pool has no tenant of that name and key; BAD_SETTING for the file.
 */
int hanare_attach_as(const char *address, const char *tenant_file, hanare_pool **pool);

/* Faces of the pool, by which nodes count commands (hanare node --prometheus). */
enum {
    HANARE_FACE_C = 4,
    HANARE_FACE_FORTRAN = 5,
    HANARE_FACE_OPENSHMEM = 7
};

/* Says by which face this program uses the pool: for libraries that stand on this one. Without it, it is HANARE_FACE_C.
 *
 * When       before the first call that attaches. The first to say so counts.
 * Errors     BAD_ARGUMENT for a number that is no HANARE_FACE.
 */
int hanare_use_as(int face);

/* Gives the attachment back. Regions still open keep working until they are closed. Groups and mailboxes that the program opened over
 * this handle are left in good order: their messages arrive, and calls on them fail with BAD_USE until they are closed. A program that
 * ends afterwards has not died, whatever it has open. A program that ends without this call counts as killed: its last messages may be
 * lost.
 *
 * Blocking   until other hosts have what groups and mailboxes sent to them.
 * Errors     NODE_LOST where stores through a map that is still there were lost (hanare_map_shared); the handle is gone all the same.
 */
int hanare_detach(hanare_pool *pool);

#define HANARE_ANYONE ((uint32_t)-1) /* all users */

/* Gives another handle of the same attachment, which trusts regions of other users, too.
 *
 * A name belongs to the user that first makes a region of it. So calls that take a region for more than bytes refuse a region of another
 * user: hanare_create_or_attach, hanare_queue_open, hanare_dict_open, hanare_store_open, groups, mailboxes, all of dimmnet.h and rhinet.h.
 * hanare_open does not. It gives bytes, which their owner may have made up, as those of a file. hanare_stat names the owner.
 *
 * users      numbers of users beside this program's own; HANARE_ANYONE for all users. NULL for none.
 * count      how many they are.
 * trusting   gets the handle, which is detached before `pool` is. To detach it ends no group or mailbox.
 * Blocking   never.
 * Errors     BAD_ARGUMENT. The calls named above refuse others with NOT_TRUSTED, and do nothing then.
 */
int hanare_trusting(hanare_pool *pool, const uint32_t *users, size_t count, hanare_pool **trusting);

/* This client's number in its job, from 0; 0 outside a job. Never blocks. */
int hanare_rank(const hanare_pool *pool);

/* The number of ranks of the job; 1 outside a job. Never blocks. */
int hanare_ranks(const hanare_pool *pool);

/* The number of this host's node. Never blocks. */
int hanare_node(const hanare_pool *pool);

/* Waits until every rank of the job is here.
 *
 * When       every rank calls it equally often. Outside a job it returns at once.
 * Blocking   until the last rank arrives, without a bound.
 * Ordering   puts of any rank that ended before its call are visible to all after theirs.
 * Errors     RANK_GONE when a rank ended (the message names it): no later barrier can complete either. NODE_LOST, also where
 *            stores of this program were lost (hanare_map_shared): it has not arrived then.
 */
int hanare_barrier(hanare_pool *pool);

/* Ends this program, and the whole job that it is a rank of, with `status`: its lowest 8 bits, as of exit(). What the C library
 * holds of this program's output is written first.
 *
 *   hanare run   on one host or several: the other ranks get SIGTERM at once, and SIGKILL 5 s later. The status is that of
 *                `hanare run`, 0 too; where another rank had failed before, that one's stays.
 *   mpirun       ends the job unless the status is 0. srun does where --kill-on-bad-exit is set. Under both, and any other launcher,
 *                barriers and waits of the other ranks end with RANK_GONE.
 *   no job       this program ends, as by exit().
 *
 * Return     only with BAD_ARGUMENT, for a NULL pool.
 * Blocking   half a second at most under `hanare run`; else at most HANARE_ANSWER_MS, where the pool's coordinator is away.
 */
int hanare_abort(hanare_pool *pool, int status);

/* Orders: every put of this client before the call is done at its home before any put or get after it. */
int hanare_fence(hanare_pool *pool);

/* Waits until all earlier writes of this client, by command or by store to a map, are visible at their home. That includes writes that
 * any thread has started (hanare_put_nb, hanare_batch_start). Requests keep their handles and their outcome: hanare_wait then returns at
 * once, with results, and gives buffers back.
 *
 * Errors     NODE_LOST, TIMEOUT.
 */
int hanare_flush(hanare_pool *pool);

/* Messages and bytes of this client over links. Loads and stores to a map are not counted. */
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

/* A value that a region's owner keeps with its name, for all programs that open it: 4096 bytes of names and values in all.
 *
 * An array is described in the terms of a .npy file's header, each written as Python writes it: "descr" (<f8, or the list of a
 * record's fields), "fortran_order" (True or False), "shape" ((1024, 3)). `hanare region ls` shows it, `hanare region cp` saves it. */
typedef struct hanare_attribute {
    const char *name;
    const void *value;
    size_t len; /* bytes of the value */
} hanare_attribute;

typedef struct hanare_create_options {
    size_t struct_size;    /* sizeof(hanare_create_options), set by the caller */
    /* "local", "node=K", "interleave=BYTES", "nodes=K,L-M:BYTES", or "near": to the host that uses it most; NULL is "local" */
    const char *placement;
    uint32_t mode;         /* who may read and write: the bits of a file's mode. Root may do all, whatever the mode says */
    uint32_t refuse_lost;  /* 1: hanare_create_or_attach fails for a region whose bytes are lost, and does not make it anew */
    const hanare_attribute *attributes; /* kept with the region's name; NULL if attribute_count is 0 */
    size_t attribute_count;
    uint32_t copies; /* how many nodes hold each byte, 1 to 3; 0 is what `hanare run --copies` says, else 1. From 2 on no answered
                        write is lost with a node. The region
                        is mapped HANARE_COHERENT only where it is one extent, and its queues do not spill */
} hanare_create_options;

/* The options that NULL stands for: on this host's node, for this user only. */
#define HANARE_CREATE_OPTIONS_INIT {sizeof(hanare_create_options), NULL, 0600, 0, NULL, 0, 0}

/* Creates a region of `len` bytes, all zero.
 *
 * Ownership  *region is the caller's until hanare_close. Closing does not remove the region: its name stays.
 * Errors     NAME_TAKEN, BAD_NAME, BAD_LENGTH (0), BAD_PLACEMENT, POOL_FULL, QUOTA_EXCEEDED, NO_COORDINATOR.
 */
int hanare_create(hanare_pool *pool, const char *name, uint64_t len, const hanare_create_options *options,
                  hanare_region **region);

/* Creates a region, or opens the region that has this name and length. hanare_was_created tells which. A region of this user whose
 * bytes went with their node is made again, all zero, unless options->refuse_lost is 1.
 *
 * Errors     as hanare_create, but BAD_LENGTH where a region of that name has another length; NOT_TRUSTED where another user made it
 *            (hanare_trusting); REGION_LOST where the bytes of such a region went with their node.
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

/* Opens the region that has the number `gid` (hanare_gid), whatever its name is by now. Otherwise as hanare_open. */
int hanare_open_gid(hanare_pool *pool, uint64_t gid, int rights, hanare_region **region);

/* Gives a region handle back, with its map if it has one; the bytes stay in the pool. Never waits for requests:
 * those under way keep what they need. Errors: those of hanare_unmap, if it has a map; the handle is gone all the same. */
int hanare_close(hanare_region *region);

/* Removes a region from the pool. Maps of it stay valid until they go; everything else on it fails from
 * now on, at each node that is a member of the pool. Waits until its nodes have let go of it; for a node that is
 * silent or gone until its lease is over, some seconds.
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

#define HANARE_SAME ((uint32_t)-1) /* leave it as it is */

/* What hanare_alter changes. */
typedef struct hanare_changes {
    size_t struct_size; /* sizeof(hanare_changes), set by the caller */
    const char *name;   /* the region's name from now on; NULL: the same */
    uint32_t mode;      /* HANARE_SAME, or the bits of a file's mode */
    uint32_t uid;       /* HANARE_SAME for both, or whose it is from now on */
    uint32_t gid;
    const hanare_attribute *attributes; /* set; those whose value is NULL are taken away */
    size_t attribute_count;
    uint32_t copies; /* 0: the same, or how many nodes hold each byte, as in hanare_create_options. Copies are made while programs go on */
} hanare_changes;

/* Changes nothing. */
#define HANARE_CHANGES_INIT {sizeof(hanare_changes), NULL, HANARE_SAME, HANARE_SAME, HANARE_SAME, NULL, 0, 0}

/* Changes name, mode, owner, attributes or number of copies of the region `name`: all that is asked, or nothing. Open handles keep the rights that they were
 * opened with, and find the region under its new name.
 *
 * Errors     UNKNOWN_REGION, NO_PERMISSION (for all but its owner and root; for all but root, where another user is to own it),
 *            NAME_TAKEN, BAD_NAME, LIMIT_REACHED (too many bytes of attributes), QUOTA_EXCEEDED, NO_COORDINATOR, BAD_PLACEMENT (a number
 *            of copies that the pool cannot have), POOL_FULL.
 */
int hanare_alter(hanare_pool *pool, const char *name, const hanare_changes *changes);

typedef struct hanare_region_stat {
    size_t struct_size;  /* sizeof(hanare_region_stat), set by the caller */
    uint64_t gid;        /* global id, never used twice */
    uint64_t len;        /* bytes */
    uint32_t owner;      /* user id */
    uint32_t mode;       /* as a file's mode */
    uint32_t node_count; /* how many nodes hold bytes of it */
    int32_t lost_node;   /* a node that is gone with bytes of it, or -1 */
    char name[256];      /* ends with a zero byte */
    char placement[192]; /* as it was asked for, to be given to hanare_create again; ends with a zero byte */
    uint32_t copies;       /* how many nodes are to hold each byte */
    uint32_t whole_copies; /* how many hold all of the extent that has the fewest */
} hanare_region_stat;

/* Describes the region `name`. Set stat->struct_size first.
 *
 * Errors     UNKNOWN_REGION, NO_COORDINATOR.
 */
int hanare_stat(hanare_pool *pool, const char *name, hanare_region_stat *stat);

/* Bytes of a region on one node. */
typedef struct hanare_node_bytes {
    uint32_t node;
    uint64_t bytes;
} hanare_node_bytes;

/* Lists the nodes that have bytes of the region `name`, with the number of bytes on each, in order of the nodes' numbers. The node of a
 * byte follows from the placement in hanare_stat: "interleave=BYTES" has the length of its chunks, "nodes=K,L-M:BYTES" also the nodes of
 * chunk 0, 1, 2 ...
 *
 * Return     how many nodes there are, whatever `max` is; the first `max` of them are written to `nodes`, which may be NULL if
 *            max is 0.
 * Errors     UNKNOWN_REGION, NO_COORDINATOR, BAD_ARGUMENT.
 */
int hanare_stat_nodes(hanare_pool *pool, const char *name, hanare_node_bytes *nodes, size_t max);

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

#define HANARE_FOUND 0   /* it was there */
#define HANARE_CREATED 1 /* no region had the name */
#define HANARE_RENEWED 2 /* a region had the name whose bytes are lost: this one took its place, all zero */

/* Tells whether the call that gave this handle made the region: one of the three above. Never blocks. */
int hanare_was_created(const hanare_region *region);

/* The region's number, which no other region ever gets; 0 for a NULL handle. Never blocks. */
uint64_t hanare_gid(const hanare_region *region);

/* Writes the value of an attribute as the region had it when it was opened: its first `max` bytes, without a zero byte behind them.
 *
 * Return     the bytes of the value, whatever `max` is; `into` may be NULL if that is 0.
 * Errors     NO_ATTRIBUTE.
 */
int hanare_get_attribute(const hanare_region *region, const char *name, void *into, size_t max);

/* ---- Put, get, copy --------------------------------------------------------------------------------------------- */

/* Gets and puts at the same time
 * ------------------------------
 * Each single byte that a get returns is one that somebody put there. Of several bytes, even of an aligned word, a part may be older than
 * the rest, because bytes travel in packets of any length. For words that others change meanwhile use hanare_read_word, hanare_fetch_...
 * and hanare_swap, which read and change them in one step. A get that begins after a put has returned sees all of it.
 */

/* Copies `len` bytes at `from` to the region at `offset`.
 *
 * Return     0 when the bytes are at their home: a get by anyone finds them.
 * Ownership  the bytes at `from` are the caller's and must not change during the call.
 * Blocking   not on local bytes; one round trip to each other node that holds some, all at the same time.
 * Errors     OUT_OF_RANGE, BAD_USE (the handle was opened for reading; NO_PERMISSION comes from calls that open), NODE_LOST,
 *            REGION_LOST, PAGE_LOST, GRANT_REFUSED, TIMEOUT.
 */
int hanare_put(hanare_region *region, uint64_t offset, const void *from, size_t len);

/* Copies `len` bytes to the region as hanare_put, then updates the 64-bit word at `signal_offset` (a multiple of 8) of
 * `signal_region`, which may be the same: HANARE_SWAP sets it to `value`, HANARE_ADD counts, other operations likewise. A program that
 * sees the new word, by hanare_wait_word or hanare_read_word, sees the bytes.
 *
 * Cost       where bytes and word are on one other node, one message each way; else as the put, and then the update.
 * Errors     as hanare_put and hanare_update. Where one of the two is refused before a byte moves, neither is done.
 */
int hanare_put_signal(hanare_region *region, uint64_t offset, const void *from, size_t len, hanare_region *signal_region,
                      uint64_t signal_offset, int operation, uint64_t value);

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
 * Cost       one message each way for each node that receives bytes. They go from node to node, or stay within one, and
 *            none passes through this program, but for small copies within this host's mapped memory.
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
 * Cost       what is left to wait for. Where other programs have the region mapped HANARE_COHERENT the commands are carried
 *            out here, through a map of this program's own: making it once for a handle takes milliseconds, at most
 *            HANARE_ANSWER_MS and a second; then as loads and stores through hanare_map_shared.
 * Errors     as hanare_put.
 */
int hanare_wait(hanare_request *request);

/* Waits for `count` requests and takes all of them away, whatever comes of each: their places are NULL afterwards, and a place that was
 * NULL before is none.
 *
 * Return     0 when all bytes are there; else the code of the first that failed, whose message hanare_last_error() has.
 * Errors     as hanare_wait.
 */
int hanare_wait_all(hanare_request **requests, size_t count);

/* 1 if hanare_wait would return at once, 0 if not. Moves what has arrived and waits for no answer; only where other programs
 * have the region mapped HANARE_COHERENT it carries the commands out, as hanare_wait does. The request stays the caller's. */
int hanare_test(hanare_request *request);

/* ---- Shapes ----------------------------------------------------------------------------------------------------- */

/* FEATURE: D3-F13 D3-F25 */

/* A shape: the bytes of a region, or of a buffer, that a command touches. It is a list of blocks of equal length. Block by
 * block they form the shape's stream, of block times (number of blocks) bytes. Commands move and compare streams.
 *
 *   strided    `count` blocks, each `stride` bytes after the one before, without overlap
 *   sub-array  of up to 8 dimensions, the slowest first. Strides may be negative or zero, so blocks come in any order.
 *              `offset` is that of the first block in order, not of the lowest
 *   indexed    number k is at offset + indices[k] * stride; 32- or 64-bit indices, blocks of 1 to 4096 bytes
 *
 * Blocks of sub-arrays and indexed shapes may repeat and overlap: of several writes to a byte the last in order stays,
 * while updates (below) all count. A copy's target must not name a byte twice.
 *
 * Make shapes with the functions below: a caller that fills the struct itself sets struct_size and zeroes the rest.
 */
enum { HANARE_STRIDED = 1, HANARE_SUBARRAY = 2, HANARE_INDEXED32 = 3, HANARE_INDEXED64 = 4 };
enum { HANARE_DIM_COUNT_MAX = 8 };

typedef struct hanare_dim {
    uint64_t count; /* steps in this dimension */
    int64_t stride; /* bytes from one step to the next */
} hanare_dim;

typedef struct hanare_shape {
    size_t struct_size;  /* sizeof(hanare_shape) */
    uint32_t kind;       /* HANARE_STRIDED … HANARE_INDEXED64 */
    uint32_t dim_count;  /* sub-array: dimensions in `dims` */
    uint64_t offset;     /* first byte of the first block; of index 0 */
    uint64_t block;      /* bytes of a block */
    uint64_t count;      /* strided: blocks; indexed: indices */
    uint64_t stride;     /* strided: bytes from block to block; indexed: bytes of one index step */
    const void *indices; /* indexed: the caller's list, not copied: it must stay as long as the command's buffers */
    hanare_dim dims[HANARE_DIM_COUNT_MAX]; /* sub-array: the slowest first */
} hanare_shape;

/* `count` blocks of `block` bytes, the first at `offset`, each `stride` bytes after the one before. */
static inline hanare_shape hanare_shape_strided(uint64_t offset, uint64_t block, uint64_t count, uint64_t stride)
{
    hanare_shape shape;
    shape.struct_size = sizeof shape;
    shape.kind = HANARE_STRIDED;
    shape.dim_count = 0;
    shape.offset = offset;
    shape.block = block;
    shape.count = count;
    shape.stride = stride;
    shape.indices = NULL;
    for (int at = 0; at < HANARE_DIM_COUNT_MAX; at++)
        shape.dims[at].count = 0, shape.dims[at].stride = 0;
    return shape;
}

/* `len` bytes at `offset`. */
static inline hanare_shape hanare_shape_contiguous(uint64_t offset, uint64_t len)
{
    return hanare_shape_strided(offset, len, 1, len);
}

/* Blocks of `block` bytes in `dim_count` dimensions, copied from `dims`, the slowest first. */
static inline hanare_shape hanare_shape_subarray(uint64_t offset, uint64_t block, uint32_t dim_count,
                                                 const hanare_dim *dims)
{
    hanare_shape shape = hanare_shape_strided(offset, block, 0, 0);
    shape.kind = HANARE_SUBARRAY;
    shape.dim_count = dim_count; /* beyond 8 the command that gets it refuses */
    for (uint32_t at = 0; at < dim_count && at < HANARE_DIM_COUNT_MAX; at++)
        shape.dims[at] = dims[at];
    return shape;
}

/* Elements of `element` bytes of an array that begins at `offset`, by their indices. */
static inline hanare_shape hanare_shape_indexed32(uint64_t offset, uint64_t element, uint64_t count,
                                                  const uint32_t *indices)
{
    hanare_shape shape = hanare_shape_strided(offset, element, count, element);
    shape.kind = HANARE_INDEXED32;
    shape.indices = indices;
    return shape;
}

/* The same with 64-bit indices. */
static inline hanare_shape hanare_shape_indexed64(uint64_t offset, uint64_t element, uint64_t count,
                                                  const uint64_t *indices)
{
    hanare_shape shape = hanare_shape_strided(offset, element, count, element);
    shape.kind = HANARE_INDEXED64;
    shape.indices = indices;
    return shape;
}

/* Rules of the commands on shapes
 * -------------------------------
 * Cost       one message each way for each node touched, whatever the shape; an index list travels, 4 or 8 bytes each.
 *            On bytes of this host no message, but for regions below 64 KiB that are seldom used. Work is done at the
 *            memory's side.
 * Ordering   none among the blocks of one command, nor among the commands of one batch, but as said above for blocks
 *            that repeat. A command that begins when another was answered comes after it, whoever sent the two. A command
 *            that failed, or whose program was killed, is not carried out after a later one was answered.
 * Errors     OUT_OF_RANGE, BAD_SHAPE, BAD_DIMENSION, BAD_INDEX (each names what is wrong; nothing was moved);
 *            NO_PERMISSION, BAD_USE, NODE_LOST, REGION_LOST, PAGE_LOST, GRANT_REFUSED, TIMEOUT; LIMIT_REACHED.
 */

/* Writes the bytes at `from` to the blocks of `shape`.
 *
 * from_shape which blocks of the `from_len` bytes, as many bytes in all; NULL: all of them, in order. With one, a halo
 *            is one command.
 */
int hanare_put_shape(hanare_region *region, const hanare_shape *shape, const void *from, size_t from_len,
                     const hanare_shape *from_shape);

/* Reads the blocks of `shape` into the `into_len` bytes at `into`, or into those blocks of them that `into_shape` names;
 * other bytes stay as they are. After a failure the named bytes are unspecified. */
int hanare_get_shape(hanare_region *region, const hanare_shape *shape, void *into, size_t into_len,
                     const hanare_shape *into_shape);

/* Copies as hanare_copy, between shapes of any kind. */
int hanare_copy_shape(hanare_region *from, const hanare_shape *from_shape, hanare_region *to,
                      const hanare_shape *to_shape);

/* Fills the stream of `shape` with the `pattern_len` bytes at `pattern` (at most 256 KiB), over and over.
 *
 * Cost       the pattern travels, not the bytes.
 * Errors     BAD_SHAPE when the stream is no whole number of patterns.
 */
int hanare_fill(hanare_region *region, const hanare_shape *shape, const void *pattern, size_t pattern_len);

#define HANARE_EQUAL UINT64_MAX /* the position that hanare_compare gives where there is no difference */

/* Compares the stream of `shape` with the `len` bytes at `bytes`, as many.
 *
 * *position  the position in the stream of the first byte that differs, or HANARE_EQUAL.
 * Cost       the bytes travel to the nodes, a few come back from each.
 */
int hanare_compare(hanare_region *region, const hanare_shape *shape, const void *bytes, size_t len, uint64_t *position);

/* ---- Numbers ---------------------------------------------------------------------------------------------------- */

/* Kinds of numbers in regions, little-endian. Blocks of commands that take one are whole numbers of elements. */
enum {
    HANARE_U8 = 1,
    HANARE_I8 = 2,
    HANARE_U16 = 3,
    HANARE_I16 = 4,
    HANARE_U32 = 5,
    HANARE_I32 = 6,
    HANARE_U64 = 7,
    HANARE_I64 = 8,
    HANARE_F32 = 9, /* IEEE 754 binary32 */
    HANARE_F64 = 10, /* IEEE 754 binary64 */
    HANARE_U128 = 11 /* for hanare_update, hanare_fetch and hanare_compare_and_swap alone */
};

/* A range of numbers that a reduction takes: from low to high, both included. The pair of the element's kind counts:
 * signed_… for HANARE_I8 to I64, unsigned_… for U8 to U64, float_… for F32 and F64. NaN is in no range. */
typedef struct hanare_range {
    size_t struct_size; /* sizeof(hanare_range), set by the caller */
    int64_t signed_low;
    int64_t signed_high;
    uint64_t unsigned_low;
    uint64_t unsigned_high;
    double float_low;
    double float_high;
} hanare_range;

static inline hanare_range hanare_range_signed(int64_t low, int64_t high)
{
    hanare_range range = {sizeof(hanare_range), low, high, 0, 0, 0.0, 0.0};
    return range;
}

static inline hanare_range hanare_range_unsigned(uint64_t low, uint64_t high)
{
    hanare_range range = {sizeof(hanare_range), 0, 0, low, high, 0.0, 0.0};
    return range;
}

static inline hanare_range hanare_range_float(double low, double high)
{
    hanare_range range = {sizeof(hanare_range), 0, 0, 0, 0, low, high};
    return range;
}

/* The result of a reduction. Least and greatest are in the pair of the element's kind, the other pairs are 0; all are 0
 * where count is 0. */
typedef struct hanare_summary {
    size_t struct_size; /* sizeof(hanare_summary), set by the caller */
    uint64_t count;     /* numbers in the range */
    double sum;         /* the exact sum, rounded once to the nearest double */
    uint64_t sum_low;   /* of whole numbers the exact sum, in 128 bits of two's complement: the low 64 … */
    int64_t sum_high;   /* … and the high 64; of floating-point numbers 0 */
    int64_t signed_min;
    int64_t signed_max;
    uint64_t unsigned_min;
    uint64_t unsigned_max;
    double float_min;
    double float_max;
} hanare_summary;

/* Counts the elements of `shape` in the range, and tells their sum, least and greatest: a scan whose table stays where
 * it is. Set summary->struct_size first; a NULL range leaves out nothing but NaN.
 *
 * Return     0; the summary is the same, bit for bit, however the region lies on nodes.
 * Cost       less than 1 KiB for each node touched.
 * Errors     BAD_ELEMENT where a block is no whole number of elements.
 */
int hanare_reduce(hanare_region *region, const hanare_shape *shape, int element, const hanare_range *range,
                  hanare_summary *summary);

/* The operation of an update on an element and its operand. */
enum {
    HANARE_ADD = 1, /* the sum; whole numbers wrap around */
    HANARE_MIN = 2, /* the lesser; of floating-point numbers the one that is no NaN */
    HANARE_MAX = 3, /* the greater; likewise */
    HANARE_AND = 4, /* bitwise, as the next two: for whole numbers */
    HANARE_OR = 5,
    HANARE_XOR = 6,
    HANARE_SWAP = 7, /* the operand */
    HANARE_LOAD = 8  /* the element as it is: for hanare_fetch, whose operands mean nothing then. The right to read is enough */
};

/* Rules of updates
 * ----------------
 * Elements   of 32, 64 or 128 bits, each at a multiple of its length. Those of 128 bits need a processor with cmpxchg16b and AVX
 *            at the memory's side: most of x86-64 since 2011. Else BAD_ELEMENT.
 * Operands   one element's bytes, for all; or one for each element of the stream, in order.
 * Atomicity  each element is updated in one step. No update, fetch or swap of any program divides it, nor the processor's
 *            atomic instructions through a map. The command as a whole is not one step.
 * Errors     BAD_ELEMENT. An update is never sent twice. Where its connection breaks, the node is asked for its outcome.
 *            The call then ends with BROKEN_NOT_DONE, BROKEN_DONE or, where nobody can know, BROKEN.
 */

/* FEATURE: RF-F4 */

/* Updates every element of `shape`. Repeated indices all count. */
int hanare_update(hanare_region *region, const hanare_shape *shape, int element, int operation, const void *operands,
                  size_t operands_len);

/* As hanare_update; `olds` gets the elements before it, in order: olds_len is the stream's length. */
int hanare_fetch(hanare_region *region, const hanare_shape *shape, int element, int operation, const void *operands,
                 size_t operands_len, void *olds, size_t olds_len);

/* Swaps every element of `shape` for that of `desired` where it equals that of `expected`, bit for bit; `olds` gets the
 * elements before. All three have `len` bytes, the stream's length; `olds` may not overlap the others. */
int hanare_compare_and_swap(hanare_region *region, const hanare_shape *shape, int element, const void *expected,
                            const void *desired, void *olds, size_t len);

/* Reads the 64-bit word at `offset`, a multiple of 8, in one step, into *value: never a mix of two values that others put there by
 * the calls of this section, hanare_put_signal, or atomic stores through a map. What was written before the word is seen after it.
 *
 * Cost       on this host a load, where the region is mapped; else one message each way. A handle opened for reading will do.
 * Errors     as hanare_get; BAD_ELEMENT at an odd offset.
 */
int hanare_read_word(hanare_region *region, uint64_t offset, uint64_t *value);

/* hanare_fetch and hanare_compare_and_swap on the 64-bit word at `offset`, a multiple of 8. *old gets the word before; NULL if not wanted.
 *
 * Cost       on this host a processor's instruction, where the region is mapped; else one message each way.
 */
int hanare_fetch_add(hanare_region *region, uint64_t offset, uint64_t operand, uint64_t *old);
int hanare_fetch_and(hanare_region *region, uint64_t offset, uint64_t operand, uint64_t *old);
int hanare_fetch_or(hanare_region *region, uint64_t offset, uint64_t operand, uint64_t *old);
int hanare_fetch_xor(hanare_region *region, uint64_t offset, uint64_t operand, uint64_t *old);
int hanare_swap(hanare_region *region, uint64_t offset, uint64_t operand, uint64_t *old);
int hanare_compare_and_swap_word(hanare_region *region, uint64_t offset, uint64_t expected, uint64_t desired,
                                 uint64_t *old);

/* The commands of these two sections, begun and not waited for: *request is for hanare_wait. Arguments are those of the call without _nb.
 *
 * Return     at once: 0 when the command is under way. What it tells (a position, a summary, elements before) is there after
 *            hanare_wait.
 * Ownership  buffers, index lists and variables for results belong to the library until hanare_wait returns; shapes, ranges and region
 *            handles are needed only during the call.
 * Cost       one allocation; local bytes are moved at once. Many at a time are cheaper as a batch: one message for each node.
 * Errors     those of the call without _nb that can be known at once, and then nothing was begun; the others come from hanare_wait.
 */
int hanare_put_shape_nb(hanare_region *region, const hanare_shape *shape, const void *from, size_t from_len,
                        const hanare_shape *from_shape, hanare_request **request);
int hanare_get_shape_nb(hanare_region *region, const hanare_shape *shape, void *into, size_t into_len,
                        const hanare_shape *into_shape, hanare_request **request);
int hanare_copy_shape_nb(hanare_region *from, const hanare_shape *from_shape, hanare_region *to,
                         const hanare_shape *to_shape, hanare_request **request);
int hanare_fill_nb(hanare_region *region, const hanare_shape *shape, const void *pattern, size_t pattern_len,
                   hanare_request **request);
int hanare_compare_nb(hanare_region *region, const hanare_shape *shape, const void *bytes, size_t len, uint64_t *position,
                      hanare_request **request);
int hanare_reduce_nb(hanare_region *region, const hanare_shape *shape, int element, const hanare_range *range,
                     hanare_summary *summary, hanare_request **request);
int hanare_update_nb(hanare_region *region, const hanare_shape *shape, int element, int operation, const void *operands,
                     size_t operands_len, hanare_request **request);
int hanare_fetch_nb(hanare_region *region, const hanare_shape *shape, int element, int operation, const void *operands,
                    size_t operands_len, void *olds, size_t olds_len, hanare_request **request);
int hanare_compare_and_swap_nb(hanare_region *region, const hanare_shape *shape, int element, const void *expected,
                               const void *desired, void *olds, size_t len, hanare_request **request);

/* ---- Batches ---------------------------------------------------------------------------------------------------- */

/* Commands of any mix, run together: one message each way for each node that any of them touches.
 *
 *     hanare_batch *batch;
 *     hanare_batch_begin(pool, &batch);
 *     hanare_batch_put(batch, region, &north, tile, tile_len, &north_edge);
 *     hanare_batch_get(batch, region, &south, tile, tile_len, &south_edge);
 *     for (int step = 0; step < steps; step++) {
 *         hanare_batch_run(batch);
 *         compute(tile);
 *     }
 *     hanare_batch_drop(batch);
 *
 * Adding     checks the command as the call itself would, and moves nothing. A command that is refused leaves the
 *            batch as it was.
 * Running    as often as wanted, with what the buffers hold then. A batch's commands are not ordered among each other.
 * Ownership  buffers, index lists and variables for results stay the caller's: they must be there whenever the batch
 *            is run, and belong to the library from hanare_batch_start until hanare_wait. Shapes, ranges and region handles
 *            are needed only while a command is added.
 */
typedef struct hanare_batch hanare_batch;

/* Begins an empty batch. *batch is the caller's until hanare_batch_drop. Never blocks. */
int hanare_batch_begin(hanare_pool *pool, hanare_batch **batch);

/* Add a command: arguments and errors as for the call of that name (hanare_put_shape and so on). Never block. */
int hanare_batch_put(hanare_batch *batch, hanare_region *region, const hanare_shape *shape, const void *from,
                     size_t from_len, const hanare_shape *from_shape);
int hanare_batch_get(hanare_batch *batch, hanare_region *region, const hanare_shape *shape, void *into, size_t into_len,
                     const hanare_shape *into_shape);
int hanare_batch_copy(hanare_batch *batch, hanare_region *from, const hanare_shape *from_shape, hanare_region *to,
                      const hanare_shape *to_shape);
int hanare_batch_fill(hanare_batch *batch, hanare_region *region, const hanare_shape *shape, const void *pattern,
                      size_t pattern_len);
int hanare_batch_compare(hanare_batch *batch, hanare_region *region, const hanare_shape *shape, const void *bytes,
                         size_t len, uint64_t *position);
int hanare_batch_reduce(hanare_batch *batch, hanare_region *region, const hanare_shape *shape, int element,
                        const hanare_range *range, hanare_summary *summary);
int hanare_batch_update(hanare_batch *batch, hanare_region *region, const hanare_shape *shape, int element,
                        int operation, const void *operands, size_t operands_len);
int hanare_batch_fetch(hanare_batch *batch, hanare_region *region, const hanare_shape *shape, int element,
                       int operation, const void *operands, size_t operands_len, void *olds, size_t olds_len);
int hanare_batch_compare_and_swap(hanare_batch *batch, hanare_region *region, const hanare_shape *shape, int element,
                                  const void *expected, const void *desired, void *olds, size_t len);

/* Runs the commands of the batch.
 *
 * Return     0 when all are done, with their results told.
 * Blocking   one round trip to each other node touched, all at the same time.
 * Errors     the first that any command met; others may have been done all the same. Results are told only with 0.
 */
int hanare_batch_run(hanare_batch *batch);

/* Begins the commands of the batch and returns: hanare_wait ends the request and tells results. The batch may be dropped
 * meanwhile, but must not be run again before hanare_wait. Commands on this host's memory are done at once.
 *
 * Blocking   never waits for an answer.
 */
int hanare_batch_start(hanare_batch *batch, hanare_request **request);

/* Takes the batch away. Requests of it that are under way go on. Never blocks. */
int hanare_batch_drop(hanare_batch *batch);

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

#define HANARE_EXPLICIT 1 /* stores are seen elsewhere after hanare_flush_range there and hanare_update_range here */
#define HANARE_COHERENT 2 /* what threads on one machine get: x86-TSO, atomics are atomic */
#define HANARE_ENTRY 3    /* bytes bound to a lock (hanare_bind) come with it, and are seen elsewhere after hanare_unlock */

/* Maps a region on whatever nodes it lies: *ptr is its first byte, *len its length. Pages come to the thread that touches them.
 *
 * When       by every program that uses the region by pointer; all of them in the same way. To change the way all unmap
 *            it, meet at a barrier, and map it again. No other thread of this program uses the region during this call.
 * Ownership  valid until hanare_unmap or hanare_close, whichever comes first. Mapping twice gives the same pointer. A child
 *            made by fork has no mapping.
 * Ordering   HANARE_COHERENT: as between threads of one process, C11 atomics and locks included. HANARE_EXPLICIT: as the two
 *            calls below say; stores of several programs to different bytes of one page all survive. HANARE_ENTRY: the holder
 *            of a lock sees the bytes bound to it as the last holder left them; all others are as for HANARE_EXPLICIT.
 *            Puts, gets and all other commands on a region that is mapped HANARE_COHERENT see and change the same bytes.
 * Threads    a thread that blocks SIGBUS calls hanare_admit_thread first, or ends the program by its first touch.
 * System     a system call that is given absent pages fails with EFAULT: hanare_touch_range first, or hanare_touch_range_to_write
 *            where it writes to them.
 * Cost       no byte moves; a few connections to each node that holds a part. A touch of a page that is not here: one message
 *            each way, less in sequence.
 * Errors     BAD_USE when programs have it mapped otherwise (the line says how, and how many), or reach its memory as it is;
 *            NODE_LOST, SYSTEM (this kernel cannot, or forbids it: `hanare info` tells; coherent needs Linux 6.4, others 6.1). Touching a
 *            page whose node is lost writes a line to the standard error output and ends the program with SIGBUS.
 * Losses     a node that is cut off for longer than its lease, and comes back, gets the newest bytes of its pages from the hosts
 *            that have them; their maps end. Stores of a host that was cut off itself, or stores for a dead node, may be lost.
 *            Others get PAGE_LOST for such a page, never older bytes. The program that stored there gets NODE_LOST from
 *            hanare_barrier, hanare_group_barrier, hanare_unlock, hanare_flush, hanare_unmap, hanare_close or hanare_detach.
 * Source     [D2 Table 1] dn_malloc, [EU 1].
 */
int hanare_map_shared(hanare_region *region, int consistency, void **ptr, size_t *len);

#define HANARE_SAME_ADDRESS ((void *)1) /* the address that the region has in all programs, or BAD_USE */

/* As hanare_map_shared, at an address: HANARE_SAME_ADDRESS, or a multiple of 4096. NULL stands for HANARE_SAME_ADDRESS where that is free
 * in this program, else for any other address, as hanare_map_shared chooses it.
 *
 * When       pointers into the region are to lie in shared memory: with HANARE_SAME_ADDRESS they are good in every rank that maps it so,
 *            on every host. A block of hanare_malloc is at *ptr + offset then, in all of them.
 * Errors     BAD_USE where something else is at the address, or this program has the region mapped elsewhere.
 */
int hanare_map_shared_at(hanare_region *region, int consistency, void *address, void **ptr, size_t *len);

/* Makes this program's stores to a range visible at their home; nothing to do where the map is HANARE_COHERENT. Where the region has
 * copies, all nodes that hold its bytes have the stores then. Where the map is also HANARE_COHERENT, they have all its stores.
 *
 * Cost       one message each way for each node and 512 changed pages, with the bytes that changed. Errors: OUT_OF_RANGE, BAD_USE,
 *            NODE_LOST, TIMEOUT.
 */
int hanare_flush_range(hanare_region *region, uint64_t offset, uint64_t len);

/* Lets this program see what others have made visible in a range, as soon as it touches it; its own stores that were not
 * flushed stay. Nothing to do where the map is HANARE_COHERENT.
 *
 * Cost       one message each way for each node, with 20 bytes for each page that is here; pages that have changed come again.
 * Errors     as hanare_flush_range; pages of a node that did not answer are as they were.
 */
int hanare_update_range(hanare_region *region, uint64_t offset, uint64_t len);

/* Brings the pages of a range here, for a system call that reads them; they may be taken again at any time. Errors: as
 * hanare_flush_range. */
int hanare_touch_range(hanare_region *region, uint64_t offset, uint64_t len);

/* The same for system calls that write to the range, as read(2) from a file into the mapping: each page is this host's to write, and no
 * byte of it changes. Where another host takes a page back before the system call is at it, that fails with EFAULT: touch again and go on.
 *
 * Errors     as for hanare_put; NODE_LOST; BAD_USE where it is mapped for reading.
 */
int hanare_touch_range_to_write(hanare_region *region, uint64_t offset, uint64_t len);

/* Lets SIGBUS through on the calling thread. Never fails. */
void hanare_admit_thread(void);

/* Gives the mapping back; nobody may load or store through it any more. When it returns 0, all stores are at home, or with another program
 * of this host that has it mapped. Stores to an HANARE_EXPLICIT mapping that were not flushed are lost. Errors: BAD_USE when there is no
 * mapping. NODE_LOST where stores are lost: the home, or this host, was cut off or is gone; it is unmapped all the same. */
int hanare_unmap(hanare_region *region);

/* ---- Locks, groups, words --------------------------------------------------------------------------------------- */

/* Rules of locks and groups
 * -------------------------
 * Places     a name, or a byte of a region. A lock or a group exists as long as somebody uses it; any client of the pool may.
 *            Names are as regions' are, apart from those. A byte is neither read nor written: as many locks as there are bytes.
 * Rights     on names: hanare_permit. A program that may write a region may use locks and groups at its bytes; a program that may
 *            read it may share a lock.
 * Home       the node that the others joined keeps locks and groups of names; the node of a byte keeps those at that byte. A call
 *            costs one message each way to it, and the wait. A lock that this program takes again and again, and nobody else wants,
 *            costs no message and no system call. A lock at a byte does so only on the node that the others joined.
 * Ordering   puts that have returned, and stores to a map, before hanare_unlock are seen by the next holder; before
 *            hanare_group_barrier, by all parties after it. Requests under way are not: hanare_wait or hanare_flush first.
 * Ends       a lock goes on to others, and a party is gone, when its process ends or its connection breaks.
 */

#define HANARE_FOREVER UINT64_MAX /* a bound_ms that is never over */

#define HANARE_EXCLUSIVE 1 /* nobody else has it */
#define HANARE_SHARED 2    /* others may share it */

/* `count` threads may have it: a semaphore of that many places. A caller with another count, or another mode, waits until nobody has it.
 * The place of a holder that dies goes to the next, who gets HANARE_ABANDONED. */
#define HANARE_ONE_OF(count) (-(int)(count))

#define HANARE_ABANDONED 1 /* what hanare_lock returns to the first after a holder that died, or may be inside still */

/* Takes the lock `name`, for the calling thread, exclusively or shared; waits for `bound_ms` milliseconds at most (0:
 * not at all), and half a second more for a home that does not answer. Callers are served in the order in which they
 * come: a caller that would share does not overtake one that waits to have it alone.
 *
 * Return     0, or HANARE_ABANDONED when the last one that had it exclusively ended without hanare_unlock: the lock is
 *            the caller's all the same, but what it protects may be half-written. No other call is told. When the
 *            pool's home was started again it does not know who had which lock: the first to take each is told the same,
 *            and the one before may be inside until it calls hanare_unlock, which tells it LOCK_LOST.
 * Ownership  *held is the caller's until hanare_unlock.
 * Errors     NOT_IN_TIME; BAD_NAME; LOCK_MISUSED when this thread has the lock already: it would wait for itself, and a
 *            shared lock does not become exclusive. NO_PERMISSION when the name is another user's (hanare_permit).
 *            LOCK_LOST, once for each lock that this thread lost since its last call because the connection broke.
 *            NODE_LOST.
 */
int hanare_lock(hanare_pool *pool, const char *name, int mode, uint64_t bound_ms, hanare_held **held);

/* As hanare_lock, at a byte of a region: also a lock for what lies there. It goes with the region.
 *
 * Errors     as hanare_lock, and OUT_OF_RANGE; BAD_USE where the region was opened for reading and the lock is not to be shared;
 *            UNKNOWN_REGION where the region is removed, also while the lock is waited for.
 */
int hanare_lock_at(hanare_region *region, uint64_t offset, int mode, uint64_t bound_ms, hanare_held **held);

/* Gives a lock back that the caller has exclusively, waits until a condition of it is notified, for `bound_ms` milliseconds at
 * most, and takes it again. A condition is any number: the offset of what is waited for is a good one.
 *
 * When       in a loop that looks at what is waited for: others may have had the lock first.
 * Ordering   those that wait for a condition go on in the order in which they came, each when it has the lock.
 * Return     0, or HANARE_ABANDONED as hanare_lock: a lock whose holder dies wakes all that wait for its conditions.
 * Errors     NOT_IN_TIME: nobody notified it within the bound; the lock is held again. LOCK_MISUSED where it is not held
 *            exclusively: it is held as before. After all others it is not held any more: LOCK_LOST, UNKNOWN_REGION, NODE_LOST, and
 *            those of bytes that are bound to it. The handle is for hanare_unlock in any case.
 */
int hanare_wait_condition(hanare_held *held, uint64_t condition, uint64_t bound_ms);

/* Notifies the thread that has waited longest for a condition of a lock that the caller has exclusively, or all if `all` is not 0. They
 * go on once the caller has given the lock back. Cost: one message each way. Errors: LOCK_MISUSED, LOCK_LOST. */
int hanare_notify(const hanare_held *held, uint64_t condition, int all);

/* Sets the users that may use a name of locks and groups, as mode bits: r shares the lock, r and w together take it alone and
 * join the group. A name belongs to the user that used it first, with mode 0600, until the pool's home ends; root may do all.
 * Of a user's groups the primary one counts.
 *
 * Errors     NO_PERMISSION when the name is another user's; BAD_SETTING for a mode beyond 0777; BAD_NAME, LIMIT_REACHED,
 *            NODE_LOST.
 */
int hanare_permit(hanare_pool *pool, const char *name, uint32_t mode);

/* Gives a lock back; the handle is gone whatever is returned.
 *
 * Errors     LOCK_LOST when the connection broke meanwhile: others may have had the lock before this call, told that it
 *            was abandoned. NODE_LOST where stores of this program were lost (hanare_map_shared).
 */
int hanare_unlock(hanare_held *held);

/* Waits until all `parties` of the group `name` are here. Each handle from hanare_attach is one party: it joins by its
 * first call for that name, and leaves by hanare_detach or an error. Threads that meet attach each for itself.
 *
 * Blocking   until the last party arrives, without a bound.
 * Errors     PARTY_GONE when a party left or ended (the message names its rank, process and node): those who call again begin
 *            a new group with those who come anew. BAD_GROUP when others gave another number, or when all parties are there
 *            without this one. NO_PERMISSION when the name is another user's (hanare_permit). BAD_NAME, NODE_LOST (as hanare_barrier).
 */
int hanare_group_barrier(hanare_pool *pool, const char *name, uint32_t parties);

/* A range of a region that is mapped by hanare_map_shared. */
typedef struct hanare_part {
    hanare_region *region;
    uint64_t offset;
    uint64_t len;
} hanare_part;

/* Binds ranges of regions that are mapped HANARE_ENTRY to a lock that the caller has exclusively. They replace the earlier ranges from
 * hanare_unlock on, and are brought here at once. Earlier stores to them, of any program, must be flushed before (hanare_flush_range).
 * Without a range the lock has no data any more.
 *
 * When       once, by any program. The next holders of the lock have these bytes as the last holder left them, in all their maps of
 *            the regions. Ranges of two locks may lie in one page.
 * Ordering   the exclusive holder stores to them. Nobody sees its stores before hanare_unlock, all see them from then on, and nobody
 *            ever if the holder dies before. The lock is then HANARE_ABANDONED, with the bytes of the last release.
 * Cost       that of hanare_update_range for what was not bound before. From then on hanare_lock brings what has changed with the
 *            lock (more than 256 KiB: from its nodes); hanare_unlock, after stores, costs a message each way more to the pool's
 *            home, with what was stored, and as hanare_flush_range.
 * Errors     BAD_USE when a region is not mapped HANARE_ENTRY; LOCK_MISUSED when the lock is shared; LIMIT_REACHED for more than 64
 *            ranges; OUT_OF_RANGE, NODE_LOST, TIMEOUT.
 * Source     [RF 3.4].
 */
int hanare_bind(hanare_held *held, const hanare_part *parts, size_t part_count);

/* 1 if bytes that are bound to the lock are a mixture of two releases, else 0. That is so where its last holder died while it sent more
 * than 256 KiB to their nodes, until an exclusive holder gives the lock back. 1 once where a region of what the last holder was about to
 * send is removed or lost. */
int hanare_is_torn(const hanare_held *held);

/* A hanare_group_barrier that carries bytes. This party's stores to the parts that it gives are visible before it arrives. The parts that
 * it takes are here, with the stores of others, when it goes on.
 *
 * Cost       one message each way for parts that lie whole in one extent at the barrier's home: stores to one region, parts of 256 KiB
 *            each way, and of their pages 64 KiB that were stored to, or are sure to come; of those that are taken the pages that
 *            changed come. All others cost as hanare_flush_range, hanare_group_barrier and hanare_touch_range, all of which comes.
 * Errors     theirs. After any of them this party has left the group, and the others are told.
 */
int hanare_group_barrier_with(hanare_pool *pool, const char *name, uint32_t parties, const hanare_part *gives, size_t give_count,
                              const hanare_part *takes, size_t take_count);

/* ---- Collective operations -------------------------------------------------------------------------------------- */

/* Rules of collective operations
 * ------------------------------
 * Parties    are the ranks of a job, or programs that joined under a name, numbered from 0. Every party calls the same operations
 *            in the same order, with the same lengths, elements, operators and roots. Threads of a party take turns.
 * Result     the same, bit for bit, whatever arrives first: vectors are combined in the order of the parties of each host,
 *            then in that of hosts.
 * Cost       parties of a host exchange through shared memory. Between hosts each 128 KiB cost a message for each host; gather,
 *            scatter and all-to-all cost one for each block. The first operation of a group makes a region for each party.
 * Blocking   until those that a party depends on have done their part, without a bound.
 * Errors     BAD_GROUP for a root that is no party, before anything happens, and at all parties where their calls do not
 *            fit together; RANK_GONE or PARTY_GONE at all parties when one is gone that others need. After those two the
 *            group does no further operation: close it. BAD_ELEMENT; LIMIT_REACHED for more than 256 parties; NODE_LOST.
 */

/* Opens the group of the ranks of this program's job, where name is NULL and parties is 0 or their number; else joins a group of
 * that name, as hanare_group_barrier does, in a place of its own.
 *
 * Ownership  *group is the caller's until hanare_group_close.
 * Errors     BAD_GROUP, BAD_NAME, NODE_LOST.
 */
int hanare_group_open(hanare_pool *pool, const char *name, uint32_t parties, hanare_group **group);

/* As hanare_group_open, for the group at a byte of a region, which is kept at the byte's node. Errors: and OUT_OF_RANGE; BAD_USE
 * where the region was opened for reading; UNKNOWN_REGION where it is removed, also while others are waited for. */
int hanare_group_open_at(hanare_region *region, uint64_t offset, uint32_t parties, hanare_group **group);

/* A barrier of the group: waits until all its parties are here. Errors: as hanare_group_barrier; after PARTY_GONE close the group
 * and open it anew. */
int hanare_group_meet(hanare_group *group);

/* Leaves a group. The handle is gone whatever is returned. */
int hanare_group_close(hanare_group *group);

/* This party's number: its rank, or how many had joined before. Never blocks. */
int hanare_group_number(const hanare_group *group);

/* How many parties the group has. Never blocks. */
int hanare_group_parties(const hanare_group *group);

/* Gives all parties the root's `len` bytes. */
int hanare_broadcast(hanare_group *group, void *values, size_t len, uint32_t root);

/* Sets `count` elements of each party to what the operator makes of those of all. Elements are of any kind, HANARE_U8 to
 * HANARE_F64; operators HANARE_ADD to HANARE_XOR, bitwise ones for whole numbers. */
int hanare_all_reduce(hanare_group *group, void *values, size_t count, int element, int op);

/* As hanare_all_reduce, for the root alone; elsewhere `values` is no result afterwards. */
int hanare_reduce_to(hanare_group *group, void *values, size_t count, int element, int op, uint32_t root);

/* Brings `len` bytes of each party to the root's `into`, in the order of the parties. Elsewhere `into` is not looked at. */
int hanare_gather(hanare_group *group, const void *own, size_t len, void *into, uint32_t root);

/* Gives each party its `len` bytes of the root's `from`, which has a block for each. Elsewhere `from` is not looked at. */
int hanare_scatter(hanare_group *group, const void *from, void *own, size_t len, uint32_t root);

/* Brings `len` bytes of each party to all, in the order of the parties. */
int hanare_all_gather(hanare_group *group, const void *own, size_t len, void *into);

/* Gives each party its block of `len` bytes of each: block k of `from` goes to party k, block k of `into` comes from it. */
int hanare_all_to_all(hanare_group *group, const void *from, void *into, size_t len);

/* ---- Messages --------------------------------------------------------------------------------------------------- */

#define HANARE_ANY (-1) /* any party, or any tag */

/* The envelope of a message. */
typedef struct hanare_envelope {
    size_t struct_size; /* sizeof(hanare_envelope), set by the caller */
    uint32_t from;      /* the party that sent it */
    uint32_t context;   /* keeps the messages of libraries and phases apart */
    uint32_t tag;       /* what it is for */
    uint32_t head_len;  /* bytes of its head, at most 48 */
    uint64_t body_len;  /* bytes of its body */
} hanare_envelope;

/* Opens this party's mailbox. All parties of the group do so at once, with the same receive_len: bytes of receive memory on each
 * party's host, in which bodies of more than a page lie until hanare_message_close.
 *
 * Ownership  *mailbox is the caller's until hanare_mailbox_close. Bodies in the receive memory go with it: read them before.
 * Order      messages of one sender that fit one receive are received in the order in which they were sent; receives that fit one
 *            message get it in the order in which they were posted.
 * Threads    of a party take turns, also while one of them waits.
 * Errors     as hanare_create and hanare_group_barrier; LIMIT_REACHED for more than 256 parties.
 */
int hanare_mailbox_open(hanare_group *group, uint64_t receive_len, hanare_mailbox **mailbox);

/* How a mailbox is opened. */
typedef struct hanare_mailbox_options {
    size_t struct_size;   /* sizeof(hanare_mailbox_options), set by the caller */
    uint64_t landing_len; /* bytes of receive memory: receive_len of hanare_mailbox_open */
    const char *purpose;  /* a word, or NULL: a group has one mailbox of a purpose at a time */
    uint32_t fetch_parts; /* 1: receivers fetch what hanare_send_part sends, of more than a page. Each party may choose */
} hanare_mailbox_options;

/* The options of hanare_mailbox_open(group, 1 << 20, ...). */
#define HANARE_MAILBOX_OPTIONS_INIT {sizeof(hanare_mailbox_options), 1 << 20, NULL, 0}

/* As hanare_mailbox_open, with options.
 *
 * With fetch_parts, hanare_send_part and hanare_send_part_nb send the head alone. Any call of the receiver to its mailbox that finds the
 * head begins to fetch the body, if its receive memory has room. The part must stay as it is until hanare_mailbox_settle, or
 * hanare_wait_sent of that send, has returned: both wait for calls of the receiver to its mailbox. Where the region's node is gone, the
 * receiver of the message gets NODE_LOST or REGION_LOST, and the receive is over.
 */
int hanare_mailbox_open_with(hanare_group *group, const hanare_mailbox_options *options, hanare_mailbox **mailbox);

/* Gives a mailbox back. What nobody received is gone. The handle is gone whatever is returned. */
int hanare_mailbox_close(hanare_mailbox *mailbox);

/* Waits until all sent messages are in memory of their receivers' hosts. If the program is killed before, its messages may be lost.
 * Errors: those of hanare_send, for one party that a message did not reach; those of others follow at the next calls. */
int hanare_mailbox_settle(hanare_mailbox *mailbox);

/* Sends a message with a head of at most 48 bytes and a body to party `to`. Returns when it is on its way, whether or not somebody
 * receives it: head and body are the caller's again. See hanare_mailbox_settle.
 *
 * Blocking   with a body of more than a page until it is in memory of the receiver's host; never for the receiver itself.
 * Errors     BAD_GROUP for a party that does not exist; LIMIT_REACHED for too long a head, or a body longer than the receive memory;
 *            HEAP_FULL where bodies that were not closed fill that: nothing was sent. RANK_GONE or PARTY_GONE where the receiver is
 *            gone, then or by a message before; QUEUE_FULL; NODE_LOST.
 */
int hanare_send(hanare_mailbox *mailbox, uint32_t to, uint32_t context, uint32_t tag, const void *head, size_t head_len,
                const void *body, size_t body_len);

/* As hanare_send, with bytes of a region as the body. More than a page of them are sent by the node that holds them, and this program's
 * processor never touches them. Fewer bytes are read first, and go with their head. Errors: those of hanare_copy, too. */
int hanare_send_part(hanare_mailbox *mailbox, uint32_t to, uint32_t context, uint32_t tag, const void *head, size_t head_len,
                     hanare_region *region, const hanare_shape *part);

/* Begin to send, as hanare_send and hanare_send_part, and return: *send is the send's number, for hanare_wait_sent. Messages
 * arrive in the order in which their sends were begun. A mailbox sends only in its calls: a program that computes for long calls
 * hanare_wait_sent with a bound of 0 now and then. hanare_mailbox_close waits for sends under way.
 *
 * Ownership  the head is copied. The bytes at `body`, and a shape's index list, belong to the library, unchanged and allocated, until
 *            hanare_wait_sent has told of the send, or the mailbox is closed. The region may be closed meanwhile.
 * Blocking   of a body of more than a page for its place at the receiver's node; never until it is there.
 * Errors     those of hanare_send that can be known at once: nothing was begun. The others come from hanare_wait_sent.
 */
int hanare_send_nb(hanare_mailbox *mailbox, uint32_t to, uint32_t context, uint32_t tag, const void *head, size_t head_len,
                   const void *body, size_t body_len, uint64_t *send);
int hanare_send_part_nb(hanare_mailbox *mailbox, uint32_t to, uint32_t context, uint32_t tag, const void *head,
                        size_t head_len, hanare_region *region, const hanare_shape *part, uint64_t *send);

/* Waits until one of `count` sends is over, for bound_ms milliseconds at most: HANARE_FOREVER, or 0 to test. Its place among them is
 * *index, where that is not NULL, also if that send failed; its number means nothing any more.
 *
 * Errors     NOT_IN_TIME, after which all go on, and *index is as it was; those of hanare_send, of that send; BAD_GROUP for one of
 *            which was told already.
 */
int hanare_wait_sent(hanare_mailbox *mailbox, const uint64_t *sends, size_t count, uint64_t bound_ms, size_t *index);

/* Posts a receive of a message from party `from` with that tag, each of them HANARE_ANY if wanted, in that context. *receive is its
 * number, for hanare_wait_message and hanare_cancel. Never waits for a sender. */
int hanare_post(hanare_mailbox *mailbox, int64_t from, uint32_t context, int64_t tag, uint64_t *receive);

/* Waits until one of `count` receives has its message, which is *message then; its place among them is *index, where that is not
 * NULL. For bound_ms milliseconds at most: HANARE_FOREVER, or 0 to test.
 *
 * Ownership  *message is the caller's until hanare_message_close. The receive is over then.
 * Errors     NOT_IN_TIME, after which all stay posted; BAD_GROUP for a receive that is over; RANK_GONE or PARTY_GONE where the
 *            message has not come and its sender is gone, or any party that died where it may come from anybody.
 */
int hanare_wait_message(hanare_mailbox *mailbox, const uint64_t *receives, size_t count, uint64_t bound_ms, size_t *index,
                        hanare_message **message);

/* Posts a receive and waits for its message; takes it back where none comes. Errors: as hanare_wait_message. */
int hanare_receive(hanare_mailbox *mailbox, int64_t from, uint32_t context, int64_t tag, uint64_t bound_ms,
                   hanare_message **message);

/* Returns 1 and fills *envelope where such a receive would get a message now, else 0. Takes nothing. */
int hanare_probe(hanare_mailbox *mailbox, int64_t from, uint32_t context, int64_t tag, hanare_envelope *envelope);

/* Takes a receive back: returns 1, or 0 where its message has come, which is received still. Errors: BAD_GROUP for one that is over. */
int hanare_cancel(hanare_mailbox *mailbox, uint64_t receive);

/* Fills *envelope, and *head with where the head's bytes are, if it is not NULL: good until hanare_message_close. Never blocks. */
int hanare_message_envelope(const hanare_message *message, hanare_envelope *envelope, const void **head);

/* Copies `len` bytes of the body from byte `at` on. Errors: OUT_OF_RANGE. */
int hanare_message_read(const hanare_message *message, uint64_t at, void *into, size_t len);

/* Puts the body to the blocks of a shape that has as many bytes, in a region on any node. A body of more than a page goes there by the
 * nodes: what hanare_send_part gathered from a sub-array is scattered to another. Errors: as hanare_copy. */
int hanare_message_scatter(const hanare_message *message, hanare_region *region, const hanare_shape *blocks);

/* Gives a message back, and the memory in which its body lies. The handle is gone whatever is returned. */
int hanare_message_close(hanare_message *message);

/* ---- Words ------------------------------------------------------------------------------------------------------ */

#define HANARE_WAIT_EQUAL 1     /* until the word is `value` */
#define HANARE_WAIT_NOT_EQUAL 2 /* until it is not */
#define HANARE_WAIT_AT_LEAST 3  /* until it is `value` or more */
#define HANARE_WAIT_AT_MOST 4   /* until it is `value` or less */
#define HANARE_WAIT_GREATER 5   /* until it is more than `value` */
#define HANARE_WAIT_LESS 6      /* until it is less than `value` */
#define HANARE_WAIT_SIGNED 0x100 /* with one of these, by |: both are numbers with a sign, and `value` is one cast to uint64_t */

/* Waits until the word of `size` bytes (2, 4 or 8) at `offset`, a multiple of that, is as `how` and `value` say; for
 * `bound_ms` milliseconds at most.
 *
 * Cost       on memory that is mapped here, loads, further and further apart, up to a millisecond. Else one message each
 *            way: the word's node looks after each command of a client, and every millisecond.
 * Ordering   what was written before the word is seen after the call. A word that changes and changes back while nobody
 *            looks is not seen: wait for one that stays, as a count that grows.
 * Errors     NOT_IN_TIME; OUT_OF_RANGE; BAD_ELEMENT at an odd offset; UNKNOWN_REGION when the region is removed
 *            meanwhile, where it is not mapped; NODE_LOST; RANK_GONE where the wait lasts and a rank of this program's job
 *            has died: it failed, or ended without hanare_detach.
 */
int hanare_wait_word(hanare_region *region, uint64_t offset, size_t size, int how, uint64_t value, uint64_t bound_ms);

/* A word, and what is waited for: as the arguments of hanare_wait_word. */
typedef struct hanare_word {
    uint64_t offset;
    size_t size;
    int how;
    uint64_t value;
} hanare_word;

/* Waits until one of `count` words of a region, at most 8, is as wanted: *which is its place among them.
 *
 * Cost       as hanare_wait_word where all are on one node, or on this host; else each node is asked in turn, some milliseconds each.
 * Errors     as hanare_wait_word; LIMIT_REACHED for no word, or more than 8.
 */
int hanare_wait_any_word(hanare_region *region, const hanare_word *words, size_t count, uint64_t bound_ms,
                         size_t *which);

/* Waits until all of `count` words, at most 8, were found as wanted, one right after the other.
 *
 * Cost       as hanare_wait_word for each. Errors: as hanare_wait_any_word.
 */
int hanare_wait_all_words(hanare_region *region, const hanare_word *words, size_t count, uint64_t bound_ms);

/* ---- Heap ------------------------------------------------------------------------------------------------------- */

/* Takes a block of `size` bytes of the region, used as a heap: *offset is its first byte, a multiple of 64, the same for
 * all who open the region. Its bytes are what they were.
 *
 * When       on a region that is given out in no other way. Its first 64 bytes are never given out: offset 0 can stand
 *            for no block, and programs keep there where to begin. After a resize the heap reaches to the end of the region as the
 *            handle of this call was opened.
 * Ownership  the block is anybody's who knows it, until hanare_free; with the region all blocks go. A program that ends
 *            leaves its blocks taken.
 * Cost       one message each way to the node of the region's first byte.
 * Errors     HEAP_FULL (the message says what is free); BAD_SETTING for 0 bytes; BAD_USE on a region opened for reading;
 *            NODE_LOST; BROKEN_DONE and BROKEN when a block may have been taken that nobody knows.
 */
int hanare_malloc(hanare_region *region, uint64_t size, uint64_t *offset);

/* As hanare_malloc, with an offset that is a multiple of `align`, a power of two: of 4096, for bytes that are to share no page with others'
 * where the size is one, too. Errors: and BAD_SETTING for another align. */
int hanare_malloc_aligned(hanare_region *region, uint64_t size, uint64_t align, uint64_t *offset);

/* Gives back the block that begins at `offset`, whoever took it.
 *
 * Errors     NO_BLOCK where none begins there, as when it is given back twice; otherwise as hanare_malloc.
 */
int hanare_free(hanare_region *region, uint64_t offset);

/* *size is how many bytes the block has that begins at `offset`: as many as were asked for, or some more, all of which may be used.
 *
 * Errors     as hanare_free.
 */
int hanare_block_size(hanare_region *region, uint64_t offset, uint64_t *size);

/* ---- Queues ----------------------------------------------------------------------------------------------------- */

#define HANARE_OVERFLOW_REFUSE 0 /* what finds no room is refused: QUEUE_FULL */
#define HANARE_OVERFLOW_WAIT 1   /* its writer waits until the reader has made room */
#define HANARE_OVERFLOW_SPILL 2  /* it goes to other memory of the queue's node, and comes back in order */

/* The form of a queue. One of block and record is 0. */
typedef struct hanare_queue_options {
    size_t struct_size;    /* sizeof(hanare_queue_options), set by the caller */
    uint32_t block;        /* blocks of so many bytes, 16 to 4096; or */
    uint32_t record;       /* records of up to so many bytes */
    uint32_t depth;        /* how many wait for each writer before it overflows */
    uint32_t ports;        /* writers at once */
    int overflow;          /* HANARE_OVERFLOW_... */
    uint32_t mode;         /* who may use it: the bits of a file's mode; readers need the right to write, too */
    uint64_t count;        /* how many queues, in one region */
    const char *placement; /* "local" or "node=K"; NULL is "local" */
    uint32_t copies;       /* how many nodes hold each byte, as in hanare_create_options; such queues do not spill */
} hanare_queue_options;

/* Blocks of 64 bytes, 64 for each of 4 writers, who wait for room. */
#define HANARE_QUEUE_OPTIONS_INIT {sizeof(hanare_queue_options), 64, 0, 64, 4, HANARE_OVERFLOW_WAIT, 0600, 1, NULL, 0}

/* Creates a queue, or options->count of them, as a region of that name: hanare_remove removes it. *queue is the first.
 *
 * Units (blocks or records) of one writer are received in the order of their commits, each once and whole; between
 * writers there is no order. An idle queue costs no descriptor, no thread, and at most 256 bytes beyond its blocks for
 * one writer. From 2 copies on no unit that was committed is lost with a node, and each is received once.
 *
 * Ownership  *queue is the caller's until hanare_queue_close.
 * Errors     BAD_SETTING for options that no queue can have; BAD_USE for a placement on several nodes, and for copies of a queue that spills;
 *            else as hanare_create.
 */
int hanare_queue_create(hanare_pool *pool, const char *name, const hanare_queue_options *options, hanare_queue **queue);

/* Makes options->count queues in a region from byte `offset` on, a multiple of 64; hanare_queue_open finds them there. What
 * was there is gone. Of the options mode, placement and copies are the region's, and not looked at.
 *
 * Errors     BAD_SETTING; OUT_OF_RANGE; BAD_USE for a region on several nodes, or opened for reading.
 */
int hanare_queue_make(hanare_region *region, uint64_t offset, const hanare_queue_options *options);

/* Opens queue number `index` of those that begin at byte `offset` of a region: 0 and 0 for a queue by its name.
 *
 * Ownership  *queue is the caller's until hanare_queue_close.
 * Errors     NO_QUEUE; NOT_TRUSTED where another user made it (hanare_trusting); else as hanare_open.
 */
int hanare_queue_open(hanare_pool *pool, const char *name, uint64_t offset, uint64_t index, hanare_queue **queue);

/* Gives a handle back; the queue stays, and so do its writers and readers. Never waits. */
int hanare_queue_close(hanare_queue *queue);

/* Fills *waiting with the blocks that are committed and not freed; of a queue of records with their bytes. */
int hanare_queue_waiting(hanare_queue *queue, uint64_t *waiting);

/* Becomes a writer, in a lane of its own.
 *
 * Ownership  *writer is the caller's until hanare_queue_writer_close. What a writer's program had not committed when it
 *            died is gone; it delays nobody.
 * Errors     LIMIT_REACHED where as many write as the queue has ports; IS_MAPPED; NODE_LOST.
 */
int hanare_queue_writer_open(hanare_queue *queue, hanare_queue_writer **writer);

/* Leaves the queue; what was kept is committed. The handle is gone whatever is returned. Errors: as hanare_queue_commit. */
int hanare_queue_writer_close(hanare_queue_writer *writer);

/* Sends a unit. Waits for room at most bound_ms where the queue's overflow is to wait: HANARE_FOREVER, 0 not at all.
 *
 * Blocking   as said; on the queue's host no system call while there is room and the reader is awake.
 * Errors     BAD_BLOCK for another length than the queue's; QUEUE_FULL; NOT_IN_TIME; READER_GONE where the reader died
 *            and none took its place; NODE_LOST.
 */
int hanare_queue_send(hanare_queue_writer *writer, const void *unit, size_t len, uint64_t bound_ms);

/* Takes room for a unit of `len` bytes, to be filled at *unit: on the queue's host that is the queue itself.
 *
 * Ownership  *unit is good until the next call on the writer. A unit that is claimed and not committed is abandoned by the
 *            next claim.
 * Errors     as hanare_queue_send.
 */
int hanare_queue_claim(hanare_queue_writer *writer, size_t len, uint64_t bound_ms, void **unit);

/* Adds the claimed unit to those of the next commit: several go in one store, or one message. */
int hanare_queue_keep(hanare_queue_writer *writer);

/* Commits the claimed unit and all that were kept: the reader sees them from here on. Waits for those of hanare_queue_commit_nb, too.
 *
 * Errors     QUEUE_FULL where the queue's node has no room to spill, QUOTA_EXCEEDED where its user has none: what was not committed
 *            is given up. NOT_A_WRITER where this program was taken for dead and another has its lane; NODE_LOST.
 */
int hanare_queue_commit(hanare_queue_writer *writer);

/* As hanare_queue_commit, and does not wait for the node of a queue on another host: the units are on their way, in their order, and count
 * once whatever becomes of the connection. A program that is killed before hanare_queue_commit may lose what has not left its host.
 *
 * Errors     those of hanare_queue_commit, of these units or of earlier ones, here or at a later call: who calls that one last
 *            misses none.
 */
int hanare_queue_commit_nb(hanare_queue_writer *writer);

/* Gives the claimed unit up; what was kept stays kept. */
int hanare_queue_abandon(hanare_queue_writer *writer);

/* Becomes the reader, and goes on at the first unit that the reader before has not freed.
 *
 * Ownership  *reader is the caller's until hanare_queue_reader_close.
 * Errors     SECOND_READER; IS_MAPPED; NODE_LOST.
 */
int hanare_queue_reader_open(hanare_queue *queue, hanare_queue_reader **reader);

/* Leaves the queue; what was not freed stays for the next reader. The handle is gone whatever is returned. */
int hanare_queue_reader_close(hanare_queue_reader *reader);

/* Receives the next unit into `into`, which has `room` bytes; *len is the unit's length.
 *
 * Blocking   waits for one at most bound_ms: HANARE_FOREVER, 0 not at all.
 * Errors     NOT_IN_TIME; BAD_ARGUMENT where there is too little room: *len says how much it needs, and the unit stays.
 *            WRITER_GONE, once, where a writer died and all that it had committed was received. NODE_LOST.
 */
int hanare_queue_receive(hanare_queue_reader *reader, void *into, size_t room, size_t *len, uint64_t bound_ms);

/* Shows the next unit where it lies: on the queue's host in the queue itself. Several may be seen before they are released.
 *
 * Ownership  *unit is good until hanare_queue_release.
 * Errors     as hanare_queue_receive.
 */
int hanare_queue_see(hanare_queue_reader *reader, uint64_t bound_ms, const void **unit, size_t *len);

/* Gives a descriptor for poll, epoll and event loops: readable once something may be there to receive. Call it before each
 * wait, when nothing was there: it gives the same descriptor, unreadable until something comes, or readable at once where
 * something has come. Wait for it, do not read it.
 *
 *     while (hanare_queue_receive(reader, ..., 0) == HANARE_OK) ...;  hanare_queue_fd(reader, &fd);  poll(fd)
 *
 * Ownership  *fd is the reader's, until hanare_queue_reader_close.
 * Blocking   never, on the queue's host; else for answers of the queue's node.
 * Errors     SYSTEM; as hanare_queue_receive.
 */
int hanare_queue_fd(hanare_queue_reader *reader, int *fd);

/* Frees all units that were seen: their writers have the room again. */
int hanare_queue_release(hanare_queue_reader *reader);

/* ---- Dictionaries ----------------------------------------------------------------------------------------------- */

/* A dictionary has values by keys, for any number of programs in C, Rust and Python on all hosts. It needs no server and no lock. Each
 * call is one step to all programs: a value is seen whole, old or new, whoever is killed meanwhile. A child made by fork opens it again.
 *
 * Errors     of all calls: NODE_LOST and REGION_LOST where bytes went with a node; NOT_TRUSTED where another user made a part; GARBAGE for
 *            memory that no program of the pool wrote; NOT_IN_TIME where others change the same keys all the time. Of calls that write:
 *            POOL_FULL, QUOTA_EXCEEDED.
 */

#define HANARE_KEY_TEXT 's'   /* UTF-8: a str of Python */
#define HANARE_KEY_BYTES 'b'  /* any bytes: bytes of Python */
#define HANARE_KEY_NUMBER 'i' /* decimal digits, behind a '-' where it is negative: an int of Python */

/* A key. Two are equal where type and bytes are. Python's other keys (floats, None, tuples) have types of their own: hanare_dict_next tells
 * them, and the other calls take them as they were told. */
typedef struct hanare_key {
    int type;          /* HANARE_KEY_... */
    const void *bytes; /* the caller's, read during the call */
    size_t len;        /* how many they are */
} hanare_key;

/* The key that is the text, which ends with a zero byte. */
static inline hanare_key hanare_key_text(const char *text)
{
    hanare_key key;
    key.type = HANARE_KEY_TEXT;
    key.bytes = text;
    for (key.len = 0; text[key.len] != 0; key.len++) {
    }
    return key;
}

#define HANARE_VALUE_PLAIN 0 /* bytes as they are: bytes of Python */
#define HANARE_VALUE_JSON 3  /* JSON in UTF-8: a str, number, bool, None, list or dict of Python */
#define HANARE_VALUE_ARRAY 4 /* an array of NumPy; docs/dictionaries.md has its form */

/* How a dictionary is made. */
typedef struct hanare_dict_options {
    size_t struct_size;    /* sizeof(hanare_dict_options), set by the caller */
    const char *placement; /* as for hanare_create; NULL is "local" */
    uint64_t buckets;      /* words of its table at first; it grows with the keys */
    uint64_t memory;       /* bytes of its first heap, at least 4096; each further one is twice as long */
    uint32_t mode;         /* who may read and write: the bits of a file's mode */
    uint32_t copies;       /* how many nodes hold each byte, 1 to 3; 0 is 1. From 2 on the dictionary outlives a node */
} hanare_dict_options;

/* 16,384 words, 16 MiB, on this host, for its user. */
#define HANARE_DICT_OPTIONS_INIT {sizeof(hanare_dict_options), NULL, 1 << 14, 16 << 20, 0600, 1}

/* Opens the dictionary of that name, or makes it as `options` say; NULL for HANARE_DICT_OPTIONS_INIT.
 *
 * Ownership  *dict is the caller's until hanare_dict_close.
 * Errors     BAD_USE where a region of that name is no dictionary; BAD_SETTING; else as hanare_create.
 */
int hanare_dict_open(hanare_pool *pool, const char *name, const hanare_dict_options *options, hanare_dict **dict);

/* Gives the handle back; the dictionary stays. Blocks that the program keeps for its next writes go back with it. */
int hanare_dict_close(hanare_dict *dict);

/* Reads a key's value into the first of `room` bytes.
 *
 * Return     1, or 0 where there is no such key. *len is the value's length. Where that is more than `room`, nothing was read.
 * kind       gets a HANARE_VALUE_... or a kind of Python's own (pickles); may be NULL.
 * Cost       on this host one copy; else one message each way for a short value whose place the program has seen, two where it has not,
 *            two more for a long one.
 */
int hanare_dict_get(hanare_dict *dict, hanare_key key, void *into, size_t room, size_t *len, int *kind);

/* Sets a key's value to `len` bytes of that kind: HANARE_VALUE_PLAIN, or another whose form they have.
 *
 * Cost       on this host none or two messages to its node; else two messages each way, one right after the key was looked at.
 * Errors     BAD_SETTING for bytes that no key of that type has; LIMIT_REACHED for 4 GiB or more.
 */
int hanare_dict_set(hanare_dict *dict, hanare_key key, int kind, const void *value, size_t len);

/* Takes a key and its value away. Return: 1, or 0 where there is no such key. Cost: as hanare_dict_set. */
int hanare_dict_remove(hanare_dict *dict, hanare_key key);

/* Tells the next key of a walk over all. Each key that is there all the time comes once; those that come and go meanwhile may come.
 *
 * walk       *walk is NULL at first. The call keeps in it how far the walk has come, and makes it NULL again at the end.
 * key        its bytes are the library's, until the next call with that walk.
 * Return     1, or 0 at the end. After an error the walk can go on; hanare_dict_walk_close ends it early.
 * Threads    one at a time for each walk.
 */
int hanare_dict_next(hanare_dict *dict, hanare_dict_walk **walk, hanare_key *key);

/* Ends a walk before its end. */
int hanare_dict_walk_close(hanare_dict_walk *walk);

/* Frees memory that killed programs took and no key leads to; *unlinked, if it is not NULL, gets its number of bytes.
 *
 * Cost       all of the dictionary is copied; writers wait meanwhile. Writes do the same by themselves before they take memory for more.
 * Errors     POOL_FULL and QUOTA_EXCEEDED where there is not as much memory as the dictionary has; all is as it was then.
 */
int hanare_dict_sweep(hanare_dict *dict, uint64_t *unlinked);

/* Removes the dictionary from the pool, for all programs. The handle is the caller's still. */
int hanare_dict_destroy(hanare_dict *dict);

/* ---- Stores ----------------------------------------------------------------------------------------------------- */

/* A store has values by keys in memory of a given size, for any number of programs in C, Rust and Python on all hosts. Where a put finds no
 * room, other keys leave. Keys are those of dictionaries; values are bytes. Each call is one step to all programs: a value is seen whole, old
 * or new, and never another key's. A child made by fork opens it again.
 *
 * bound_ms   HANARE_FOREVER, or the milliseconds after which a read counts as a miss. On this host reads wait for nobody, and have no bound.
 * ttl_ms     the milliseconds after which a key ends, 0 at once; HANARE_FOREVER for no end.
 * Errors     of all calls: NODE_LOST and REGION_LOST where bytes went with a node; NOT_TRUSTED where another user made a part; GARBAGE for
 *            memory that no program of the pool wrote; NOT_IN_TIME where others change the same keys all the time; BAD_SETTING for bytes that
 *            no key of that type has.
 */

/* How a store is made. */
typedef struct hanare_store_options {
    size_t struct_size;    /* sizeof(hanare_store_options), set by the caller */
    const char *placement; /* as for hanare_create; NULL is "local" */
    const char *evict;     /* the keys that leave first: "lru", "lfu" or "ttl"; NULL is "lru". With "ttl" keys without an end stay */
    uint64_t bytes;        /* memory for keys and values, at least 64 KiB; it is taken at once. The index takes 3 % more */
    uint64_t entries;      /* expected number of keys; 0 for one for each KiB */
    uint32_t mode;         /* who may read and write: the bits of a file's mode */
    uint32_t copies;       /* how many nodes hold each byte, 1 to 3; 0 is 1 */
} hanare_store_options;

/* 64 MiB on this host, for its user; the longest unused keys leave first. */
#define HANARE_STORE_OPTIONS_INIT {sizeof(hanare_store_options), NULL, NULL, 64 << 20, 0, 0600, 1}

/* Opens the store of that name, or makes it as `options` say; NULL for HANARE_STORE_OPTIONS_INIT.
 *
 * Ownership  *store is the caller's until hanare_store_close.
 * Errors     BAD_USE where a region of that name is no store; BAD_SETTING; else as hanare_create.
 */
int hanare_store_open(hanare_pool *pool, const char *name, const hanare_store_options *options, hanare_store **store);

/* Gives the handle back; the store stays. Blocks that the program keeps for its next puts go back with it. */
int hanare_store_close(hanare_store *store);

/* Reads a key's value into the first of `room` bytes. It counts as a use.
 *
 * Return     1, or 0 where there is no such key, or bound_ms is over. *len is the value's length. Where that is more than `room`, nothing
 *            was read.
 * Cost       on this host one copy; else one message each way for a short value whose place the program has seen, two where it has not;
 *            one more for a value of more than 1 KiB. A bound takes two changes of threads and a copy.
 */
int hanare_store_get(hanare_store *store, hanare_key key, void *into, size_t room, size_t *len, uint64_t bound_ms);

/* Where a value of many goes. */
typedef struct hanare_buffer {
    void *into;   /* the caller's, apart from all others of the call */
    size_t room;  /* how many bytes it has */
    size_t len;   /* gets the value's length. Where that is more than `room`, nothing was read */
    int is_there; /* gets 1, or 0 where there is no such key, or bound_ms is over */
} hanare_buffer;

/* As hanare_store_get, of `count` keys. A buffer whose key is not there may have other bytes than before.
 *
 * Cost       three messages to each node for each 256 keys; none on this host.
 */
int hanare_store_get_many(hanare_store *store, const hanare_key *keys, hanare_buffer *buffers, size_t count, uint64_t bound_ms);

/* Tells which keys are there; each counts as a use.
 *
 * there      gets 1 or 0 for each of `count` keys; may be NULL.
 * prefix     gets how many, from the first on, are all there; may be NULL.
 * Cost       two messages to each node for each 256 keys. With `there` NULL those behind a missing one are not asked for.
 */
int hanare_store_exists(hanare_store *store, const hanare_key *keys, size_t count, int *there, size_t *prefix, uint64_t bound_ms);

/* Sets a key's value to `len` bytes, and when the key ends. A pin stays.
 *
 * Cost       on this host none to four messages to its node; else three each way, five for more than 1 KiB, and some six more where keys leave.
 * Errors     HEAP_FULL where there is no room, because all keys that could leave are pinned: at once, and the key has its old value or none.
 *            LIMIT_REACHED for a value that is longer than one of the store's heaps. TIMEOUT where bound_ms is over: the value may or may
 *            not be there.
 */
int hanare_store_put(hanare_store *store, hanare_key key, const void *value, size_t len, uint64_t ttl_ms, uint64_t bound_ms);

/* Bytes of a value. */
typedef struct hanare_value {
    const void *bytes; /* the caller's, read during the call */
    size_t len;
} hanare_value;

/* As hanare_store_put, of `count` keys, by few messages. Of a key that stands twice, the later value stays.
 *
 * done       gets 1 for each key that has its value, and 0 where there was no room; may be NULL. Of a batch that is
 *            longer than the store, some keys find none.
 * Cost       on this host up to four messages for each 256 keys; else five to eight, and five more where keys leave.
 * Return     how many have their values. Errors: as hanare_store_put, but HEAP_FULL. What was put before an error is there.
 */
int hanare_store_put_many(hanare_store *store, const hanare_key *keys, const hanare_value *values, size_t count, uint64_t ttl_ms, int *done);

/* Takes a key away. Return: 1, or 0 where there is no such key. */
int hanare_store_remove(hanare_store *store, hanare_key key);

/* Takes `count` keys away, by few messages. done: gets 1 for each that was there, and 0 for others; may be NULL. Return: how many were there. */
int hanare_store_remove_many(hanare_store *store, const hanare_key *keys, size_t count, int *done);

/* Keeps a key from leaving for so many milliseconds; the latest end of all pins counts. It keeps no key from ending or being replaced.
 * Return: 1, or 0 where there is no such key. */
int hanare_store_pin(hanare_store *store, hanare_key key, uint64_t for_ms);

/* Ends all pins of a key. Return: 1, or 0 where there is no such key. */
int hanare_store_unpin(hanare_store *store, hanare_key key);

/* Sets when a key ends. Return: 1, or 0 where there is no such key. */
int hanare_store_expire(hanare_store *store, hanare_key key, uint64_t ttl_ms);

/* Tells in how many milliseconds a key ends; HANARE_FOREVER where it has no end. Return: 1, or 0 where there is no such key. */
int hanare_store_ttl(hanare_store *store, hanare_key key, uint64_t *ttl_ms);

/* Tells the stamp of a key's value: two different values of a key have different ones, but for one chance in 2^32. The stamp of a key that is not there is 0.
 * Return: 1, or 0 where there is no such key. No use of the key. */
int hanare_store_stamp(hanare_store *store, hanare_key key, uint64_t *stamp);

/* Waits until a key's value is another than that of *stamp: it was put, removed, evicted, or has ended.
 *
 * Take the stamp, then read the value, then watch: no change is missed. A value that changes and changes back before the call looks is not
 * seen. A put of the same bytes, or a sweep, may end the call. No use of the key.
 *
 * Return     1, and *stamp is the value's of now; or 0 where bound_ms is over.
 * Cost       on this host looks at a word, 1 ms apart at most; else a message each way and one or two for a look at the value; as much again each
 *            2 s, and for each change of another key of the same word. Each 2 s one message to the coordinator.
 * Errors     UNKNOWN_REGION where the store was removed; LIMIT_REACHED where too many wait for words of one node.
 */
int hanare_store_watch(hanare_store *store, hanare_key key, uint64_t *stamp, uint64_t bound_ms);

/* Memory of a store. */
typedef struct hanare_store_memory {
    size_t struct_size; /* sizeof(hanare_store_memory), set by the caller */
    uint64_t bytes;     /* of the store, for keys and values */
    uint64_t linked;    /* that keys and values take */
    uint64_t unlinked;  /* that nobody links: other programs keep them for their next puts, or were killed */
    uint64_t keys;      /* how many there are */
} hanare_store_memory;

/* Counts the memory. Set memory->struct_size first. Cost: the whole index is read. */
int hanare_store_stat(hanare_store *store, hanare_store_memory *memory);

/* Takes all keys away. */
int hanare_store_clear(hanare_store *store);

/* Frees memory that killed programs took and no key leads to.
 *
 * Cost       the store is copied to as much other memory; writers wait meanwhile.
 * Errors     POOL_FULL and QUOTA_EXCEEDED where that is not there; all is as it was then.
 */
int hanare_store_sweep(hanare_store *store);

/* Removes the store from the pool, for all programs. The handle is the caller's still. */
int hanare_store_destroy(hanare_store *store);

#ifdef __cplusplus
}
#endif
#endif
