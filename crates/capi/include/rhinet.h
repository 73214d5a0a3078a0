/* rhinet.h: the primitives of RHiNET/NI-NPC on regions of the pool, for C99 and C++17.
 *
 *   push, pull        the program's memory to and from a location (GID, offset)
 *   push page         a page, which a line of the page cache may keep and send again
 *   send              to another party's registered buffer; rhinet_sendto and its kin on top of it
 *
 * Start programs with `hanare run -n RANKS -- ./program`.
 *
 *     rhinet_options options = RHINET_OPTIONS_INIT;
 *     hanare_group_open(pool, NULL, 0, &job);
 *     rhinet_open(pool, job, &options, &net);
 *     rhinet_push_page(net, page, hanare_gid(region), 0, RHINET_PAGE_CACHING, 7);
 *     rhinet_push_page(net, NULL, hanare_gid(region), 4096, RHINET_SEND_FROM_CACHE, 7);
 *
 * The rules of hanare.h hold for every call: return codes, hanare_last_error(), ownership, threads.
 *
 * Source: "Implementation and Evaluation of a Software Distributed Shared Memory System by a Optical Network Interface with FPGA".
 */
#ifndef RHINET_H
#define RHINET_H

#include "hanare.h"
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rhinet rhinet; /* a party's network interface */

/* FEATURE: RF-F9 RF-F17 */

#define RHINET_POLL 0  /* a waiter for a message looks again and again, and yields the processor in between */
#define RHINET_SLEEP 1 /* after a short while of that it sleeps until a message comes */

typedef struct rhinet_options {
    size_t struct_size;   /* sizeof(rhinet_options), set by the caller */
    uint32_t lines;       /* lines of the page cache, 4 KiB each; up to 1048576 */
    int completion;       /* RHINET_POLL or RHINET_SLEEP */
    uint64_t landing_len; /* bytes for messages of more than a page that have come and were not received; the same at all parties */
} rhinet_options;

/* The paper's 16 MiB of page cache, and its way of waiting. */
#define RHINET_OPTIONS_INIT {sizeof(rhinet_options), 4096, RHINET_POLL, 1 << 20}

/* Opens this party's interface. All parties of the group do so at once.
 *
 * Ownership  *net is the caller's until rhinet_close. The page cache lies on this host's node, and goes with it. The group may be
 *            closed before.
 * Errors     as hanare_mailbox_open and hanare_create; LIMIT_REACHED for no line, or too many.
 */
int rhinet_open(hanare_pool *pool, hanare_group *group, const rhinet_options *options, rhinet **net);

/* Closes the interface. Messages that were not received are gone. The handle is gone whatever is returned. */
int rhinet_close(rhinet *net);

/* ---- Push and pull ---------------------------------------------------------------------------------------------- */

/* Writes memory to the region that has the number `gid` (hanare_gid), or reads it from there. Returns when the bytes are there.
 *
 * Cost       as hanare_put and hanare_get; the first use of a region also asks the coordinator. The interface keeps it open then.
 * Errors     theirs, and those of hanare_open_gid.
 */
int rhinet_push(rhinet *net, const void *from, size_t len, uint64_t gid, uint64_t offset);
int rhinet_pull(rhinet *net, void *into, size_t len, uint64_t gid, uint64_t offset);

/* FEATURE: RF-F7 RF-F10 RF-F11 */

#define RHINET_NORMAL 0          /* the page at `page` */
#define RHINET_PAGE_CACHING 1    /* the same, and `line` keeps it */
#define RHINET_SEND_FROM_CACHE 2 /* what `line` keeps; `page` is not looked at */

/* Pushes a page of 4096 bytes to `offset`, a multiple of 4096. Nothing is matched or replaced by itself: the caller names the line.
 *
 * Cost       of RHINET_SEND_FROM_CACHE: the page's node fetches the line from this host's node. No byte passes through the program.
 * Errors     OUT_OF_RANGE for a line that there is not; BAD_USE for one that keeps no page, and for another offset; BAD_ARGUMENT
 *            for another mode, or NULL where a page is read; as rhinet_push.
 */
int rhinet_push_page(rhinet *net, const void *page, uint64_t gid, uint64_t offset, int mode, uint32_t line);

/* FEATURE: RF-F24 */

/* Counts of a line so far. */
typedef struct rhinet_line {
    size_t struct_size; /* sizeof(rhinet_line), set by the caller */
    uint64_t fills;     /* how often a page was stored in it */
    uint64_t hits;      /* how often one was sent from it */
    uint32_t is_filled; /* 1 where it keeps a page */
    uint32_t unused;
} rhinet_line;

/* Fills *stat for a line. Set stat->struct_size first. Never blocks. Errors: OUT_OF_RANGE. */
int rhinet_get_line(const rhinet *net, uint32_t line, rhinet_line *stat);

/* ---- Send ------------------------------------------------------------------------------------------------------- */

/* FEATURE: RF-F8 */

/* Names the buffer into which rhinet_arrived puts messages; a NULL one of 0 bytes names none.
 *
 * Ownership  the bytes are the library's during calls of rhinet_arrived alone, and must last until another is registered, or
 *            rhinet_close.
 */
int rhinet_register(rhinet *net, void *buffer, size_t len);

/* Sends `len` bytes to party `to`. Returns when they are in memory of that one's host.
 *
 * Errors     as hanare_send.
 */
int rhinet_send(rhinet *net, uint32_t to, const void *from, size_t len);

/* Waits for the next message, bound_ms milliseconds at most, and puts it at the begin of the registered buffer: *from is the party
 * that sent it, *len its bytes. Messages of one party come in the order in which they were sent.
 *
 * Errors     NOT_IN_TIME; BAD_USE where no buffer is registered; BAD_ARGUMENT for a message that is longer than the buffer, which stays
 *            the next; as hanare_receive.
 */
int rhinet_arrived(rhinet *net, uint64_t bound_ms, uint32_t *from, size_t *len);

/* FEATURE: RF-F12 */

/* As sendto, sendmsg and recvfrom of sockets, with parties in place of addresses; the same messages as those of rhinet_send. They
 * return the bytes that were sent or received, or a negative code. The parts of rhinet_sendmsg are one message. */
int64_t rhinet_sendto(rhinet *net, const void *from, size_t len, uint32_t to);
int64_t rhinet_sendmsg(rhinet *net, const struct iovec *parts, size_t count, uint32_t to);

/* Receives the next message into `into`, which has `room` bytes; *from, where it is not NULL, is the party that sent it. Errors: as
 * rhinet_arrived. */
int64_t rhinet_recvfrom(rhinet *net, void *into, size_t room, uint32_t *from, uint64_t bound_ms);

#ifdef __cplusplus
}
#endif

#endif
