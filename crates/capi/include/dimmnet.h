/* dimmnet.h: the calls of the DIMMnet-2 drivers paper on regions of the pool, for C99 and C++17.
 *
 * Two families, usable together:
 *
 *   dn_*                 shared regions with explicit consistency (ATR-DSM): load and store through a pointer,
 *                        dn_flush what you wrote, dn_update before you read what others wrote
 *   VL VS VLS VSS        vector commands on this rank's own vector memory, its "SO-DIMM"
 *   RVL RVS              the same on another rank's
 *
 * Start programs with `hanare run -n RANKS -- ./program`.
 *
 * Rules of every call
 * -------------------
 * Return     0 (or a number of at least 0) for success, a negative HANARE_ERR_… of hanare.h for failure; dn_malloc
 *            returns NULL.
 * Errors     one line on the standard error output that names call, region, offset and limit; hanare_last_error()
 *            has the same line.
 * Threads    the process is one rank: its threads share it. All calls may run in several threads at once, and beside
 *            loads and stores to regions. A thread must not block SIGBUS: its first touch of an absent page would end
 *            the process.
 * fork       a child is no rank: it must not make these calls, and has no regions: touching one is SIGSEGV.
 *
 * Source: "Implementation and Evaluation of DIMMnet-2 Device Drivers for Microsoft Windows", Tables 1 and 2.
 */
#ifndef DIMMNET_H
#define DIMMNET_H

#include "hanare.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The rank --------------------------------------------------------------------------------------------------- */

/* FEATURE: D2-F5 */

/* Attaches to this host's node and takes this process's rank.
 *
 * When       first. Calling it again changes nothing. The arguments are the program's and are not changed.
 * Errors     NO_NODE, VERSION_MISMATCH, BAD_SETTING.
 */
int dn_init(int argc, char **argv);

/* This process's rank; 0 is the parent. BAD_USE before dn_init. Never blocks. */
int dn_getrank(void);

/* How many ranks there are. BAD_USE before dn_init. Never blocks. */
int dn_getnodesum(void);

/* FEATURE: D2-F8 */

/* Waits until every rank is here.
 *
 * When       every rank calls it equally often. A writer calls dn_flush first; a reader that has the region already
 *            calls dn_update after it (a reader that calls dn_malloc only after it need not).
 * Blocking   without a bound.
 * Errors     RANK_GONE when a rank ended: the line names it.
 */
int dn_barrier(void);

/* Gives back all regions and vector memory, and detaches. Named regions stay in the pool with what was flushed.
 *
 * When       last; after it dn_init may be called again. A program that ends without it loses only what it did not
 *            flush.
 */
int dn_finalize(void);

/* ---- Shared regions --------------------------------------------------------------------------------------------- */

/* FEATURE: D2-F6 D2-F7 */

/* Creates the named shared region, or attaches to it when it exists with the same size; returns a pointer to it.
 *
 * Placement  as HANARE_PLACE says (local, node=K, interleave=BYTES); by default on the node of the rank that creates it.
 * Ownership  the pointer is valid until dn_free or dn_finalize. The name stays in the pool: `hanare region rm`.
 * Again      a rank that has the region gets the same pointer, and calls dn_free as often. Later flushes of others are
 *            seen after dn_update.
 * Ordering   bytes that lie on this host's node are mapped in place: stores there are seen by other ranks of the
 *            host at once. Bytes on other nodes are this process's own pages, brought when they are first touched.
 * System     a system call (read, write) fails with EFAULT on pages that are not here: move such bytes through a
 *            buffer of the program.
 * Cost       creation does not wait for memory. A page of another node is brought once, when it is touched. Where the
 *            program goes from page to page the next pages come ahead. A page with stores since the last dn_flush takes
 *            its length twice (the page and its twin). Beyond HANARE_FRAMES pages go home to make room.
 * Errors     BAD_NAME, BAD_LENGTH (0, or it exists with another size), POOL_FULL, NO_PERMISSION, NODE_LOST; BAD_USE where
 *            programs of any host have it mapped HANARE_COHERENT; SYSTEM where
 *            this kernel cannot map memory of other nodes (userfaultfd is forbidden, or older than Linux 5.19). A touch
 *            of a page whose node is lost writes a line that names region, offset and node, and raises SIGBUS.
 */
void *dn_malloc_named(const char *name, size_t size);

/* Allocates `size` bytes of this host's node, zero, for this rank alone; dn_free gives them back to the pool. */
void *dn_malloc_local(size_t size);

/* Gives a region back, by the pointer that dn_malloc returned. Stores to other nodes' bytes that were not flushed are
 * lost. An unnamed region ceases to exist. dn_free(NULL) does nothing. */
int dn_free(void *ptr);

/* Makes this rank's stores to the region that holds `ptr` visible to the others.
 *
 * Ordering   of other nodes' bytes exactly those are sent that differ from the twin: the page as it came, or as it was at
 *            the last dn_flush or dn_update. So stores of two ranks to different bytes of one region, even of one page, both
 *            survive. Stores may be seen before they are flushed, where their page made room for others.
 * Cost       a look at 4 bytes a page; reads each page that was stored to and its twin; about one message each way for
 *            64 such pages. The first store to a page afterwards costs a copy of it.
 * Errors     BAD_ARGUMENT when `ptr` is in no region; NODE_LOST, TIMEOUT, NO_PERMISSION. After a failure dn_flush may be
 *            called again: what was not acknowledged is still different from the twin.
 */
int dn_flush(void *ptr);

/* Brings the region that holds `ptr` up to date: stale bytes are discarded and read again from their home.
 *
 * Ordering   bytes that this rank has stored and not flushed yet are kept, wherever they lie.
 * Cost       pages of other nodes cross when they are touched again, those with stores that were not flushed at once;
 *            bytes of this host's node cost nothing.
 * Errors     as dn_flush.
 */
int dn_update(void *ptr);

/* Messages and bytes of this process's dn_* and V* calls between hosts so far, as hanare_get_traffic. */
int dn_traffic(hanare_traffic *traffic);

/* ---- Vector memory ---------------------------------------------------------------------------------------------- */

/* FEATURE: D2-F11 D2-F12 */

/* Every rank has vector memory of HANARE_SODIMM bytes (default 64M) on its own node, zero at first, and gone with the
 * rank. It is the region dimmnet.JOB.RANK. A job of several ranks has it from dn_init on, a single program from its first
 * call here (which makes dn_init unnecessary).
 *
 * Arguments  `host` is the program's memory; `offset` and `len` count bytes of vector memory.
 * Ownership  `host` is used only during the call.
 * Blocking   V* never wait; RV* wait for one round trip when that rank is on another node.
 * Errors     OUT_OF_RANGE beyond the vector memory; BAD_SHAPE; POOL_FULL when there is no memory for it.
 */

/* Other libraries may use the papers' short names, so in the library they begin with dn_. */
#define DN_NAMED(name) __asm__("dn_" #name)

int VL(void *host, size_t offset, size_t len) DN_NAMED(VL);       /* load: vector memory to host */
int VS(const void *host, size_t offset, size_t len) DN_NAMED(VS); /* store: host to vector memory */

/* Strided load and store: `count` elements of 2^code bytes, the first at `offset`, `stride` bytes from one to the
 * next; contiguous on the host's side. Code 0 is a byte, 3 is 8 bytes, 6 is 64 bytes. At most 6. */
int VLS(void *host, size_t offset, int code, size_t count, size_t stride) DN_NAMED(VLS);
int VSS(const void *host, size_t offset, int code, size_t count, size_t stride) DN_NAMED(VSS);

/* Load and store on the vector memory of `rank`, which may be the caller's own. RVS returns when the bytes are there.
 * Errors: as above; BAD_ARGUMENT when there is no such rank; BAD_USE when it has no vector memory yet
 * or any more. */
int RVL(int rank, void *host, size_t offset, size_t len) DN_NAMED(RVL);
int RVS(int rank, const void *host, size_t offset, size_t len) DN_NAMED(RVS);

#ifdef __cplusplus
}

/* dn_malloc(name, size) is the named shared form, dn_malloc(size) the unnamed local one. */
inline void *dn_malloc(const char *name, size_t size) { return dn_malloc_named(name, size); }
inline void *dn_malloc(size_t size) { return dn_malloc_local(size); }
#else
/* dn_malloc(name, size) is the named shared form, dn_malloc(size) the unnamed local one: the count of arguments picks. */
#define DN_MALLOC_PICK(first, second, form, ...) form
#define dn_malloc(...) DN_MALLOC_PICK(__VA_ARGS__, dn_malloc_named, dn_malloc_local, 0)(__VA_ARGS__)
#endif

#endif
