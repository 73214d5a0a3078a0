//! Every limit of the pool, each with its reason. Reaching one is a normal return value, never a hang.

mod copies;
mod heap;
mod keepers;
mod machine;
mod tenants;

pub use {copies::*, heap::*, keepers::*, machine::*, tenants::*};

/// Bytes of a page, the unit of sharing. [D2 §6] and every kernel we run on.
pub const PAGE_LEN: u64 = 4096;

/// Longest region name in bytes; fits a file name when the pool is mounted as a directory.
pub const NAME_LEN_MAX: usize = 255;

/// Most bytes of a region's attributes, names and values together: a .npy file's header. A page of a listing holds some thousand of these.
pub const ATTRIBUTES_LEN_MAX: usize = 4096;

/// Regions below this share an extent file until one is mapped. So a million small ones need no million descriptors.
pub const SMALL_REGION_LEN: u64 = 64 << 10;
/// Smallest interleave chunk: a page, so that a chunk can be mapped where it lies.
pub const CHUNK_LEN_MIN: u64 = PAGE_LEN;

/// Most nodes of a pool: placement lists and status stay a message of a few pages.
pub const NODE_COUNT_MAX: usize = 1024;

/// Most regions that a pool's status names because they cannot leave nodes whose hosts run short of memory: some 100 KiB with their reasons.
pub const SHORTAGE_REGION_COUNT_MAX: usize = 64;

/// Most nodes that one placement names: its text fits in the 192 bytes that C programs get. More are `interleave`, over all.
pub const PLACEMENT_NODE_COUNT_MAX: usize = 32;

/// Most ranks of a job: a barrier's arrival set is 8 KiB at most.
pub const RANK_COUNT_MAX: u32 = 65_536;

/// Most jobs whose barriers are remembered at once; beyond it broken ones are forgotten first.
pub const JOB_COUNT_MAX: usize = 4096;

/// Most locks that are held, waited for or abandoned at once; beyond it those that were abandoned are forgotten first.
pub const LOCK_COUNT_MAX: usize = 65_536;
/// Most takings of locks at once, granted or waiting, of all clients together: some 100 MiB at a pool's home.
pub const CLAIM_COUNT_MAX: usize = 1 << 20;
/// Most takings of locks, and as many places in groups, on one connection: no client fills the pool's tables alone.
pub const LINK_CLAIM_COUNT_MAX: usize = LOCK_COUNT_MAX / 16;

/// Locks that are leased to one program at once. Each has a word, in two pages that the program shares with its node.
pub const LEASE_COUNT: usize = 1016;
/// Most locks at a home with which it still grants leases. Locks that are only kept take no room of held ones.
pub const LEASED_LOCK_COUNT_MAX: usize = LOCK_COUNT_MAX / 2;
/// Takings of a lock by messages before a program asks for a lease: many locks are taken once.
pub const LEASE_TAKING_COUNT: u32 = 2;
/// The same after recalls, at most; it doubles with each. A recall costs some messages between nodes, so one in so many pairs is little.
pub const LEASE_TAKING_COUNT_MAX: u32 = 64;

/// Most names of locks of which a program remembers how often it took them: some 100 bytes each.
pub const LEASE_NAME_COUNT_MAX: usize = 4096;

/// Time that the pool's home waits for a node's reply about a lock's lease: that node's lease, and as much for clocks and stalls.
pub const RECALL_MS: u64 = 2 * LEASE_MS;
/// The same at other homes, while they are members. The coordinator may hold the question up for a lease, and the answer for another.
pub const FAR_RECALL_MS: u64 = 2 * RECALL_MS;

/// Most ended programs whose leases of locks a node remembers: their homes ask at once.
pub const ENDED_LEASE_PROGRAM_COUNT_MAX: usize = 256;

/// Most names of locks and groups that have an owner, in use or not. Each takes a few hundred bytes at the pool's home.
pub const NAME_COUNT_MAX: usize = 4 * LOCK_COUNT_MAX;

/// Most names of locks and groups of one user: no user takes all locks.
pub const USER_NAME_COUNT_MAX: usize = LOCK_COUNT_MAX / 4;

/// Most takings of locks of one user.
pub const USER_CLAIM_COUNT_MAX: usize = CLAIM_COUNT_MAX / 4;

/// Most places of one user in groups, and so most of its groups: others have room for as many.
pub const USER_PLACE_COUNT_MAX: usize = GROUP_COUNT_MAX / 2;

/// Most jobs with a barrier that ranks of one user began.
pub const USER_JOB_COUNT_MAX: usize = JOB_COUNT_MAX / 4;

/// Most ranks that wait at barriers on one connection: a program is one rank, of one job.
pub const LINK_ARRIVAL_COUNT_MAX: usize = 64;

/// Most named groups at once.
pub const GROUP_COUNT_MAX: usize = 65_536;

/// Most words of one node that are waited for at once: all are looked at every [`WORD_LOOK_MS`].
pub const WORD_WAIT_COUNT_MAX: usize = 4096;

/// Most words that one wait names: they stay within [`SYNC_LEN_MAX`].
pub const WAIT_WORD_COUNT_MAX: usize = 8;

/// Most of those on one connection.
pub const LINK_WORD_COUNT_MAX: usize = WORD_WAIT_COUNT_MAX / 4;

/// Most of those of one user.
pub const USER_WORD_COUNT_MAX: usize = WORD_WAIT_COUNT_MAX / 4 * 3;

/// Time between looks at a word that no command changes: its other clients may store to it directly.
pub const WORD_LOOK_MS: u64 = 1;

/// Time between looks for a dead rank of the job while a rank waits for a word. For a remote word that is a few messages a second.
pub const DEATH_LOOK_MS: u64 = 200;

/// Shortest and longest block of a queue: two words, and a page. [VQ §3: tens of bytes]
pub const QUEUE_BLOCK_LEN_MIN: u32 = 16;
/// See [`QUEUE_BLOCK_LEN_MIN`].
pub const QUEUE_BLOCK_LEN_MAX: u32 = PAGE_LEN as u32;

/// Longest record of a queue: what is longer is put into a region, and its place sent.
pub const QUEUE_RECORD_LEN_MAX: u32 = 1 << 20;

/// Most units in a lane of a queue: beyond, they are a backlog, which the spill is for.
pub const QUEUE_DEPTH_MAX: u32 = 1 << 20;

/// Most bytes of a lane: two lanes of the longest blocks fit a host that lends little.
pub const QUEUE_LANE_LEN_MAX: u64 = 1 << 30;

/// Most writers of a queue at once: a reader that finds nothing has looked at each lane.
pub const QUEUE_PORT_COUNT_MAX: u32 = 1024;

/// Most queues of an array.
pub const QUEUE_COUNT_MAX: u64 = 1 << 24;

/// Most writers, and most readers, of one array's queues at once, and most ports of one connection. Each takes some 100 bytes.
pub const QUEUE_CLAIM_COUNT_MAX: usize = 1 << 20;

/// Most ports of queues of one connection. Each is 100 bytes at its node, which looks at all of them when the connection ends.
pub const QUEUE_LINK_PORT_COUNT_MAX: usize = 65_536;

/// Most ports of programs that are gone in one call on queues with copies: some 20 KiB.
pub const QUEUE_GONE_COUNT_MAX: usize = 1024;

/// Bytes of the pieces in which pool memory is taken for spilled units: small, because most spills are short.
pub const QUEUE_SPILL_LEN: u64 = SMALL_REGION_LEN / 2;

/// Most bytes that a node asks for ahead for what queues spill for a user. A writer of a GB a second waits for none. Small quotas: 1/64.
pub const SPILL_AHEAD_LEN_MAX: u64 = 1 << 20;

/// Time that a node refuses to spill for a user beyond its quota before it asks the coordinator again.
pub const SPILL_REFUSED_MS: u64 = 100;

/// Most bytes of one append, its numbers included; below it, a batch is a message of its own.
pub const QUEUE_APPEND_LEN_MAX: u64 = 2 << 20;

/// Most appends of a port that were sent and not answered. Answers come several at a time, and nobody waits for one.
pub const QUEUE_BEGUN_COUNT_MAX: usize = 32;

/// Most answers, for which nobody waits, that a node holds back. Half of [`QUEUE_BEGUN_COUNT_MAX`] holds no sender up.
pub const LATER_ANSWER_COUNT_MAX: usize = QUEUE_BEGUN_COUNT_MAX / 2;

/// Time that a node delays a reply: a few round trips over TCP.
pub const LATER_ANSWER_US: u64 = 100;

/// Longest append whose answer may wait: those that may be under way at once are few otherwise.
pub const QUEUE_LATER_LEN_MAX: usize = PAGE_LEN as usize;

/// Most bytes of them: three of a vector's longest parts, as many as a group's lane holds.
pub const QUEUE_BEGUN_LEN_MAX: usize = 400 << 10;

/// Most queues with something in one answer to who reads an array on another host.
pub const QUEUE_READY_COUNT_MAX: usize = 32;

/// Most arrays and single queues of one set. A thread of Linux sleeps at so many words at once, and at one more to be called back.
pub const QUEUE_SET_SOURCE_COUNT_MAX: usize = 127;

/// Time that a side of a queue sleeps before it looks again. A writer may die between its commit and the wake.
pub const QUEUE_NAP_MS: u64 = 50;

/// Most pauses that a reader lets a writer get ahead: half a microsecond, some twenty blocks.
pub const QUEUE_LAG_COUNT_MAX: u32 = 8;

/// Longest head of a message: what an entry of a head buffer holds beside the envelope. [D3 §3.3: 64 B less 16]
pub const MESSAGE_HEAD_LEN_MAX: usize = 48;

/// Longest body that goes with its head: a page. A longer one lands in memory of its own.
pub const MESSAGE_INLINE_LEN_MAX: usize = PAGE_LEN as usize;

/// Longest receive ring of one sender at a receiver's host: a few bodies of 1 MiB.
pub const MESSAGE_RING_LEN_MAX: u64 = 4 << 20;

/// Heads of one sender that wait in their lane before further ones are spilled.
pub const MESSAGE_DEPTH: u32 = 16;

/// Most messages that have come to a party and that no receive wanted. Each takes some 100 bytes, beside a body of up to a page.
pub const MESSAGE_KEPT_COUNT_MAX: usize = 65_536;

/// Most sends of a party that were begun and whose outcomes nobody asked for. Each takes some 200 bytes, beside its body.
pub const MESSAGE_BEGUN_COUNT_MAX: usize = 65_536;

/// Most bodies that a party fetches at a time. So many keep a link busy; each is a command at the party's own node.
pub const MESSAGE_FETCH_COUNT_MAX: usize = 16;

/// Most regions that a party keeps open because it fetched bodies from them, and may again.
pub const MESSAGE_REGION_COUNT_MAX: usize = 16;

/// Most lines of a page cache: 4 GiB of this host, as a region. The paper's has 4096. [RF §3.3]
pub const PAGE_CACHE_LINE_COUNT_MAX: u32 = 1 << 20;

/// Longest sleep of a party while a body that it sends, or fetches, is on its way. An event of the body, or of its queue, wakes it.
pub const MESSAGE_NAP_MS: u64 = 1;

/// Most parties of a group that collective operations: each has a lane for each other.
pub const COLLECTIVE_PARTY_COUNT_MAX: u32 = 256;

/// Most bytes of a vector that go between two parties at once, in groups of at most [`COLLECTIVE_FEW_COUNT`] parties. It is half of
/// [`STAGE_LEN`]. One is taken while the next comes.
pub const COLLECTIVE_LEN_MAX: u32 = 128 << 10;

/// The same in larger groups, where each party has more lanes.
pub const COLLECTIVE_LEN_OF_MANY: u32 = 32 << 10;

/// See [`COLLECTIVE_LEN_MAX`]: lanes of a party take 6 MiB then.
pub const COLLECTIVE_FEW_COUNT: u32 = 16;

/// Vectors below this are not divided among hosts: a second message costs more than it saves.
pub const COLLECTIVE_SHORT_LEN: usize = 64 << 10;

/// Longest message of what clients share: what a release of a lock changed, at the longest. All others are a name, and a few numbers.
pub const SYNC_LEN_MAX: u64 = RELEASE_LEN_MAX as u64 + (32 << 10);

/// Most locks with data at once: some KiB each at a pool's home, beside the lines of their releases.
pub const BOUND_LOCK_COUNT_MAX: usize = LOCK_COUNT_MAX / 16;

/// Most of those of one user.
pub const USER_BOUND_LOCK_COUNT_MAX: usize = BOUND_LOCK_COUNT_MAX / 4;

/// Most bytes of grants with bound data that one connection gets at once. From a quarter on, its takers fetch the bytes of changes.
pub const LINK_GRANT_LEN_MAX: u64 = 4 << 20;

/// Most shapes that are bound to one lock: they go with a grant.
pub const BOUND_SHAPE_COUNT_MAX: usize = 64;

/// Most blocks of those: each is looked at when the lock is given back.
pub const BOUND_BLOCK_COUNT_MAX: usize = 4096;

/// Most bytes of a release that go with the lock. What is more goes by the regions' homes alone, and is torn when its holder dies meanwhile.
pub const RELEASE_LEN_MAX: usize = STAGE_LEN;

/// Most ranges of a release. It is one for each page that goes with the lock, and as many again for pages that two locks share.
pub const RELEASE_RANGE_COUNT_MAX: usize = 128;

/// Most releases of one lock that are remembered: a taker that missed more takes all bound bytes for changed.
pub const RELEASE_COUNT_MAX: usize = 16;

/// Lines of 4 KiB in which releases of all locks are kept at a pool's home: 16 MiB. [RF §3.3]
pub const RELEASE_LINE_COUNT_MAX: usize = 4096;

/// Most of those for one user's releases that are under way, or whose holder died meanwhile. They stay until the lock goes on.
pub const USER_STAGED_LINE_COUNT_MAX: usize = RELEASE_LINE_COUNT_MAX / 4;

/// Most requests of one node that its coordinator works on or remembers at once.
pub const ASK_COUNT_MAX: usize = 65_536;

/// Changes of regions that the coordinator has begun lately for one user, while other users ask for such changes, too. Nobody waits for more
/// of another user's.
pub const USER_WORK_COUNT: usize = 1;

/// Time for which such a change counts. A longer one waits for a node, and costs the coordinator nothing.
pub const USER_WORK_MS: u64 = 25;

/// Time for which a user counts after its last such request. A program that makes one region after the other is still there between two.
pub const USER_ASKED_MS: u64 = 1000;

/// Most regions of a pool.
pub const REGION_COUNT_MAX: usize = 4 << 20;

/// Most bytes of attributes of all regions of one user: they lie in the coordinator's memory and in its journal. Those of each region may
/// be [`ATTRIBUTES_LEN_MAX`] as long as there are no more than 65 536.
pub const USER_ATTRIBUTES_LEN_MAX: u64 = (ATTRIBUTES_LEN_MAX as u64) << 16;

/// Most regions of one user: no user takes all names, and a journal of them stays below a GiB.
pub const USER_REGION_COUNT_MAX: u64 = REGION_COUNT_MAX as u64 / 4;

/// Longest region in bytes: 16 TiB. A host that maps one reserves 8 bytes for each page, here 32 GiB of addresses.
pub const REGION_LEN_MAX: u64 = 1 << 44;

/// Most spans of a region: one at creation and one for each resize.
pub const SPAN_COUNT_MAX: usize = 256;

/// Most requests that wait for one page at its home. Each node asks once; gets and puts by command come beside these.
pub const PAGE_QUEUE_MAX: usize = 4 * NODE_COUNT_MAX;

/// Most pages of one request to a home. Two such requests under way fill a link, and a program waits for the first alone.
pub const PAGES_ASKED_MAX: usize = 64;

/// Most hosts that wait to join at a node's homes: a thousand hosts for each of a few regions.
pub const JOIN_QUEUE_COUNT_MAX: usize = 4 * NODE_COUNT_MAX;

/// Most hosts that a node's homes fenced and still tell so: a thousand hosts for each of many regions. One that goes from the list unheard
/// keeps copies that are not good.
pub const FENCED_COUNT_MAX: usize = 16 * NODE_COUNT_MAX;

/// Fewest frames that a mapping works with: a message of pages that come, and one of pages that go.
pub const FRAME_COUNT_MIN: u64 = 128;

/// Most commands in one message: descriptors of a batch stay within 256 KiB.
pub const BATCH_COUNT_MAX: usize = 4096;

/// Largest body of a message that carries commands: 1 TiB, beyond any extent worth one message. It guards against a garbage length.
pub const BODY_LEN_MAX: u64 = 1 << 40;

/// Longest head of the file in which a node keeps its extents, if it has as many as a pool has regions.
pub const KEPT_HEAD_LEN_MAX: u64 = 64 * REGION_COUNT_MAX as u64;

/// Largest control message: a list of [`REGION_COUNT_MAX`] regions comes in pages of fewer than this.
pub const CONTROL_LEN_MAX: usize = 16 << 20;

/// Largest request of a client to its node. The longest is a region's layout and grants, which stay below for some 30 000 extents.
pub const REQUEST_LEN_MAX: usize = 1 << 20;

/// Most descriptors in one request: a mapping brings its userfaultfd.
pub const REQUEST_FD_COUNT_MAX: usize = 1;

/// Requests of one client that are answered in a row before others have their turn.
pub const CLIENT_TURN_COUNT: usize = 8;

/// Requests of one data link beside commands that are taken before others have their turn: each takes some microseconds.
pub const LINK_TURN_COUNT: usize = 64;

/// Time that a client may leave a reply unread before it is cut off. Nobody waits longer for a reply.
pub const UNREAD_MS: u64 = ANSWER_MS;

/// Most supplementary groups of a user that count: each request tells the coordinator of them.
pub const USER_GROUP_COUNT_MAX: usize = 256;

/// Most clients of one user at a node: beyond 5000 programs a host, with room.
pub const USER_CLIENT_COUNT_MAX: usize = 8192;

/// Time that a node without descriptors takes no new clients: an attaching program hardly notices.
pub const ACCEPT_PAUSE_MS: u64 = 100;

/// Control messages taken from one peer in a row, in number and in bytes, before others have their turn.
pub const PEER_TURN_COUNT: usize = 256;
/// The bytes that go with [`PEER_TURN_COUNT`].
pub const PEER_TURN_LEN: usize = 1 << 20;

/// Most bytes of control messages that wait for a peer to read; beyond, it is taken for dead.
pub const PEER_UNREAD_LEN_MAX: usize = 64 << 20;

/// Most regions in one page of a listing, so that a page stays within [`CONTROL_LEN_MAX`].
pub const LIST_PAGE_COUNT_MAX: usize = 4096;

/// Runs of pages that a home names as going to and fro. A screen holds so many, and one program's data has no more.
pub const PAGE_RUN_COUNT_MAX: usize = 8;

/// Mappings that are over, of which a node remembers the pages that went to and fro. A job's end tells them.
pub const PAST_MAPPING_COUNT_MAX: usize = 64;

/// Most regions, programs, and locks that one look at a node shows; how many there are is told beside.
pub const LOOK_COUNT_MAX: usize = 256;

/// Holders of a lock, and those that wait for it, that a look names.
pub const LOOK_CLAIM_COUNT_MAX: usize = 16;

/// Most cells of a map of a region's pages: those of a terminal of 200 columns and 60 rows.
pub const MAP_CELL_COUNT_MAX: usize = 12_000;

/// Longest question of what a node has, and longest answer: that of [`LOOK_COUNT_MAX`] locks with the longest names stays below.
pub const LOOK_LEN_MAX: u64 = 2 << 20;

/// Largest piece staged at once when a strided command is gathered or scattered: half of a usual L2 cache.
pub const STAGE_LEN: usize = 256 << 10;

/// Most dimensions of a sub-array. Array libraries use no more in practice; its description stays within two cache lines.
pub const DIM_COUNT_MAX: usize = 8;

/// Longest block of an indexed shape: a page. Longer ones gain nothing over several commands.
pub const BLOCK_LEN_MAX: u64 = PAGE_LEN;

/// Most bytes of lists (dimensions, indices) in one message: what a node holds for one client at once. Longer lists go in several messages.
pub const LIST_LEN_MAX: u64 = 4 << 20;

/// Most bytes that updates of one message may answer with, held by the node until they have left.
pub const OLD_LEN_MAX: u64 = 4 << 20;

/// Most bytes of operands that a node holds until a message is whole. They are patterns, ranges, addresses, and single operands.
pub const HELD_LEN_MAX: u64 = 4 << 20;

/// Time to wait for a peer's reply, unless set otherwise (`HANARE_ANSWER_MS`).
pub const ANSWER_MS: u64 = 10_000;

/// Most repetitions of a call whose grants are refused.
pub const GRANT_REFUSAL_COUNT_MAX: u32 = 8;

/// A pause of a node's service after which it first looks whose peers are gone. A dead client's successor needs longer to start, and a
/// turn that moves a fair share of bytes is shorter.
pub const PAUSE_MS: u64 = 10;

/// Time after its bound within which the reply to a bounded wait may come. A live node says by itself that the bound is over. Longer than a
/// round trip and a pause of a busy machine, and short beside the usual bound.
pub const LATE_MS: u64 = 500;

/// Time between a home's notices to a host that it is back or fenced it, until the host replies. A few fit into a lease.
pub const ASK_AGAIN_MS: u64 = 1_000;
/// Most keys of a pool at once: one, and those that it replaces while hosts learn of it. An acceptor's hello names as many.
pub const KEY_COUNT_MAX: usize = 4;

/// Time between a node's looks at the file with the pool's key.
pub const KEY_LOOK_MS: u64 = 1_000;

/// Time for an unauthenticated peer's hello: it has nothing to wait for.
pub const GREETING_MS: u64 = 1_000;

/// Time from there to its proof, if no other peer wants its place. A client asks its own node, which may be busy.
pub const PROVING_MS: u64 = ANSWER_MS / 2;

/// Most strangers that are greeted at once, each with a descriptor; others wait in the listener's queue.
pub const GREETING_COUNT_MAX: usize = 256;

/// Most of those from one address: seven silent addresses leave room for an eighth.
pub const HOST_GREETING_COUNT_MAX: usize = GREETING_COUNT_MAX / 8;

/// Most connections at once whose sides agree on a fabric, each with a thread. They have the pool's key behind them.
pub const AGREEING_COUNT_MAX: usize = 128;

/// Time to reach a node whose connection broke, and then to learn what became of an update. A live node says so at once, and the caller
/// has waited for its reply already.
pub const ASK_MS: u64 = 2_000;

/// Time that a node is a member without renewing. A killed node must be reported within 5 s: lease and one tick stay below.
pub const LEASE_MS: u64 = 3_000;

/// Time to dial a node whose connection broke before it counts as gone. With the time to notice, a killed node is known within 5 s. A page
/// that is under way from such a node is waited for no longer.
pub const REACH_MS: u64 = 3_500;

/// Time from a failed try to reach a node to the next. It is short enough to be back within a lease, and no load.
pub const DIAL_AGAIN_MS: u64 = 100;

/// Most memberships that a node remembers at homes that took their pages back. These may ask again, or get pages on the way.
pub const RETURNED_COUNT_MAX: usize = 256;

/// Time from a reply to a member's next renewal: often enough for its lease to survive an outage of [`OUTAGE_MS`].
pub const RENEW_MS: u64 = LEASE_MS / 12;

/// Time to the repetition of an unanswered message: three tries before a lease ends. Renewals that pile up unanswered would make the
/// kernel wait longer and longer before it sends the first again.
pub const REPEAT_MS: u64 = LEASE_MS / 3;

/// Time that a node stays in the list of nodes after it has gone for good and nothing of it is left. Somebody may look for it.
pub const FORGET_MS: u64 = 600_000;

/// Outage between a member and the coordinator that causes no loss: the time to find another path.
pub const OUTAGE_MS: u64 = 2_000;

/// Time after the outage until messages of its beginning arrive. If the kernel can be told to wait a second at most, it tries again after
/// 0.2, 0.6, 1.4, 2.4 s. Else it does after 0.2, 0.4 and so on up to 1.4, 1.8 and 2.6 s. \[measured\]
const AGAIN_MS: u64 = 600;

/// Time that a host keeps a page for its programs while another waits for it, in microseconds. Enough to get the pages of a program's
/// loop together and to use them some times. Far below any bound of a reply. \[measured\]
pub const PAGE_HOLD_US: u32 = 4_000;

/// Time for a live node to make extents: the requester still gets the refusal within its own bound.
pub const MAKE_MS: u64 = ANSWER_MS / 2;

/// Longest time for which a node refuses programs an extent that is made ready for copies.
pub const READY_MS: u64 = 500;

/// Pause iterations before a waiter begins to yield. [measured: below a line's transfer time nothing is gained by more]
pub const SPIN_PAUSE_COUNT: u32 = 20;
/// Time that a waiter checks and yields before it parks: about the cost of one wake across CPUs.
pub const SPIN_YIELD_US: u64 = 50;
/// Time that a client checks and yields for a node's reply: a parked node's wake and the way back. Less would cost a second wake.
pub const SPIN_ANSWER_US: u64 = 2 * SPIN_YIELD_US;

/// Steps of all ranks in a question of `what-if`: more take minutes.
pub const WHAT_IF_STEP_COUNT_MAX: u64 = 20_000_000;
/// Repetitions of a phase of a pattern: more is a typing error more often than a wish.
pub const WHAT_IF_REPEAT_COUNT_MAX: u64 = 1_000_000_000;
/// Processors of a host in a question: more than any machine has.
pub const WHAT_IF_CORE_COUNT_MAX: usize = 4096;
/// Spans of a timeline of `what-if`: a viewer opens no more in a few seconds.
pub const WHAT_IF_SPAN_COUNT_MAX: usize = 200_000;
/// Bytes of a rank's recorded timeline that is read: it is held in memory as a whole.
pub const WHAT_IF_RECORDING_LEN_MAX: u64 = 1 << 30;

const _: () = {
    assert!(REPEAT_MS * 3 <= LEASE_MS, "a lease must survive two lost renewals");
    assert!(RENEW_MS + OUTAGE_MS + AGAIN_MS <= LEASE_MS, "a lease survives an outage that begins just before a renewal");
    assert!(LEASE_MS + RENEW_MS < 5_000, "a killed node is reported within 5 s");
    assert!(REACH_MS >= LEASE_MS, "who is a member still is dialed");
    assert!(DIAL_AGAIN_MS * 10 < REACH_MS, "a node is tried several times before it is given up");
    assert!(
        2 * LEASE_MS + RENEW_MS < ANSWER_MS,
        "after a restart the coordinator has heard of every node before an asker gives up"
    );
    assert!(LEASE_MS < ANSWER_MS, "a dead node is known before its answer is given up");
    assert!(SMALL_REGION_LEN.is_multiple_of(PAGE_LEN) && CHUNK_LEN_MIN.is_multiple_of(PAGE_LEN));
    assert!(BATCH_COUNT_MAX * 64 <= STAGE_LEN, "the descriptors of a batch fit one staging buffer");
};

/// Most bytes of addresses that a program of `--main-memory` reserves. A table of them is 8 MiB, untouched until it is used.
pub const ARENA_LEN_MAX: u64 = 256 << 30;
/// Most blocks that such a program gives back at once: its keeper holds them until it has.
pub const FREE_BLOCK_COUNT_MAX: u64 = 1024;
/// Most ranges of pages that such a program is asked to take out at once. To wake it costs as much as to take 40 pages out.
pub const ZAP_COUNT_MAX: usize = 256;
