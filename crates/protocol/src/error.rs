//! The one error type of the pool: the event, its object, the limit, and the user's next step.

mod afterwards;
mod phrases;

pub use crate::happened::Happened;
use crate::id::{ClientId, Gid, NodeId, Rank, who};
pub use crate::malformed::Corrupt;
use crate::size::{Size, Withheld};
use crate::versions::Versions;
use phrases::{bad_group, quota_of};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Shorthand for results of the pool.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in operation. Programmer errors are assertions instead.
///
/// An error travels: a node's refusal reaches the client as it was made. [`Error::happened`] tells whether the failed call did anything.
/// [`Error::may_retry`] is true if the same call can succeed later.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Error {
    /// No region of that name (or it was removed).
    #[error("region '{name}' does not exist; `hanare region ls` lists those that do")]
    UnknownRegion {
        /// The name asked for.
        name: String,
    },
    /// A region of that name exists.
    #[error("region '{name}' exists already ({:#}); open it, or take another name", Size(*len))]
    NameTaken {
        /// The name.
        name: String,
        /// Length of the region that has it, in bytes.
        len: u64,
    },
    /// The name is empty, too long, or holds a byte that a file name cannot.
    #[error("'{name}' is no region name: {reason}")]
    BadName {
        /// The name as given.
        name: String,
        /// The fault in it.
        reason: String,
    },
    /// The length is zero, smaller than the region is, or another than an existing region's.
    #[error("region '{name}' cannot have a length of {:#}: {reason}", Size(*len))]
    BadLength {
        /// The region.
        name: String,
        /// The length asked for, in bytes.
        len: u64,
        /// The fault in it.
        reason: String,
    },
    /// The placement names no such node, or a chunk that is no power of two of at least a page.
    #[error("placement '{placement}' cannot be used: {reason}")]
    BadPlacement {
        /// The placement as written.
        placement: String,
        /// The fault in it.
        reason: String,
    },
    /// Some byte of the range lies beyond the region's end.
    #[error("{len} bytes at offset {offset} leave region '{region}' of {limit} bytes; nothing was moved")]
    OutOfRange {
        /// The region.
        region: String,
        /// First byte asked for.
        offset: u64,
        /// Bytes from the first to the last asked for.
        len: u64,
        /// The region's length in bytes.
        limit: u64,
    },
    /// A stride that makes blocks overlap, a product that overflows, or a buffer of another length than the shape.
    #[error("shape of {count} blocks of {block} bytes every {stride} bytes cannot be used on region '{region}': {reason}")]
    BadShape {
        /// The region.
        region: String,
        /// Bytes of a block.
        block: u64,
        /// Number of blocks.
        count: u64,
        /// Bytes from one block's start to the next.
        stride: u64,
        /// The fault in it.
        reason: String,
    },
    /// A dimension of a sub-array leads out of the region, or a product overflows.
    #[error(
        "dimension {dimension} ({count} steps of {stride} bytes) of a shape on region '{region}' cannot be used: {reason}; nothing was moved"
    )]
    BadDimension {
        /// The region, or the buffer.
        region: String,
        /// The dimension; 0 is the slowest.
        dimension: u32,
        /// Its steps.
        count: u64,
        /// Bytes from one step to the next.
        stride: i64,
        /// The fault in it.
        reason: String,
    },
    /// An index names a block beyond the region's end.
    #[error(
        "index {index} (number {position} of the list) names a block of {block} bytes beyond region '{region}' of {limit} bytes; nothing was moved"
    )]
    BadIndex {
        /// The region, or the buffer.
        region: String,
        /// Its position in the list, from 0.
        position: u64,
        /// The index.
        index: u64,
        /// Bytes of a block.
        block: u64,
        /// The region's length in bytes.
        limit: u64,
    },
    /// Elements of that kind, at that place, do not go with that operation.
    #[error("{operation} on elements of {element} in region '{region}': {reason}; nothing was done")]
    BadElement {
        /// The region.
        region: String,
        /// The operation.
        operation: String,
        /// The kind of elements.
        element: String,
        /// The fault.
        reason: String,
    },
    /// The connection broke while a command that must not be repeated was under way.
    #[error("the connection to {node} broke during {what} ({reason}): the command {happened}")]
    Broken {
        /// The node.
        node: NodeId,
        /// The command.
        what: String,
        /// Manner of the break.
        reason: String,
        /// The node's word on it, if it could be asked.
        happened: Happened,
    },
    /// The user may not do that to the region, or to the name of a lock or group.
    #[error("{} may not {what} '{region}' (owner {owner}, mode {mode:04o})", who(*uid))]
    NoPermission {
        /// The region, or the name.
        region: String,
        /// The refused act: read, write, remove …
        what: String,
        /// The requesting user.
        uid: u32,
        /// The owner.
        owner: u32,
        /// Its mode bits.
        mode: u32,
    },
    /// The user's quota would be exceeded.
    #[error(
        "{} would own {} more than the {} there are, over the quota of {}; remove regions or ask for a larger {}",
        who(*uid), Size(*asked), Size(*used), Size(*limit), quota_of(*uid)
    )]
    QuotaExceeded {
        /// The user.
        uid: u32,
        /// Bytes asked for.
        asked: u64,
        /// Bytes in use.
        used: u64,
        /// The quota in bytes.
        limit: u64,
    },
    /// Nodes have not that much free memory where the placement wants it.
    #[error(
        "the pool cannot take {}: {} are free where the placement allows{}; add a node, or remove regions",
        Size(*asked), Size(*free), Withheld(*withheld)
    )]
    PoolFull {
        /// Bytes asked for.
        asked: u64,
        /// Bytes free on the nodes that the placement names.
        free: u64,
        /// Bytes that those nodes do not lend at present, because their hosts run short of memory.
        withheld: u64,
    },
    /// A named limit of `limits` was reached.
    #[error("{what}: the limit is {limit}")]
    LimitReached {
        /// The limited things.
        what: String,
        /// The limit.
        limit: u64,
    },
    /// The node's process or host is gone, or its lease ended.
    #[error("{node} is lost ({reason}); its bytes are out of reach")]
    NodeLost {
        /// The node.
        node: NodeId,
        /// The sign by which it was noticed.
        reason: String,
    },
    /// The node that held these bytes went, and the bytes with it.
    #[error("region '{region}' is lost: its bytes on {node} went with that node; remove it and create it again")]
    RegionLost {
        /// The region.
        region: String,
        /// The node that held them.
        node: NodeId,
    },
    /// The grant is of an older epoch, of another extent, or was never given.
    #[error("{node} refuses the grant for {gid}: it is not of this epoch or not for this extent; open the region again")]
    GrantRefused {
        /// The region as the client named it.
        gid: Gid,
        /// The node that refused.
        node: NodeId,
    },
    /// No node answers on this host.
    #[error("no node answers at {address} ({reason}); start one with `hanare node`, or run under `hanare run`")]
    NoNode {
        /// The socket tried.
        address: String,
        /// The system's message.
        reason: String,
    },
    /// The coordinator is away: naming fails, data go on.
    #[error("the coordinator does not answer ({reason}); open regions stay usable, try again when it is back")]
    NoCoordinator {
        /// The sign by which it was noticed.
        reason: String,
    },
    /// A peer did not answer within the bound.
    #[error("no answer from {peer} to {what} within {after_ms} ms; it may or may not have happened")]
    Timeout {
        /// The silent peer.
        peer: String,
        /// The request.
        what: String,
        /// The bound in milliseconds.
        after_ms: u64,
    },
    /// A rank of the job ended while others wait for it.
    #[error("{rank} of this job has ended ({reason}); no barrier can complete any more")]
    RankGone {
        /// The rank.
        rank: Rank,
        /// Manner of the end.
        reason: String,
    },
    /// The other side speaks another version of the wire.
    #[error("wire version {theirs} at {peer}, {ours} here, and none in common: bring the older build of hanare up to date")]
    VersionMismatch {
        /// The other side.
        peer: String,
        /// Our versions.
        ours: Versions,
        /// Theirs.
        theirs: Versions,
    },
    /// The other side, or somebody else whom the request concerns, is of an older build that does not know it.
    #[error("{peer} speaks wire version {speaks}, and this needs {needs}: bring it up to date first")]
    TooOld {
        /// The side, or the node, of the older build.
        peer: String,
        /// The newest version that it speaks.
        speaks: u32,
        /// The version that knows the request.
        needs: u32,
    },
    /// The peer could not prove that it has the pool's key.
    #[error(
        "{peer} has not the key of this pool: copy the coordinator's key file to this host (by default \
        ~/.local/state/hanare/pool.key, mode 0600), or name it with --key or HANARE_KEY"
    )]
    KeyRefused {
        /// The other side.
        peer: String,
    },
    /// A peer sent something that no correct one sends; its connection was closed.
    #[error("{peer} sent something that makes no sense ({reason}); the connection was closed")]
    Garbage {
        /// The other side.
        peer: String,
        /// The fault.
        reason: String,
    },
    /// The region may not be used that way.
    #[error("region '{region}' cannot be used so: {reason}")]
    BadUse {
        /// The region.
        region: String,
        /// The fault, and the right way.
        reason: String,
    },
    /// Its extents are reached through its pages alone while programs share it coherently.
    #[error("{gid} is mapped coherently: map it so too, use commands, or wait until the last mapping is gone")]
    IsMapped {
        /// The region.
        gid: Gid,
    },
    /// A setting, an address or a file has no usable value.
    #[error("{key} cannot be '{value}': {reason}")]
    BadSetting {
        /// The setting or argument.
        key: String,
        /// The value as given.
        value: String,
        /// The fault, and the right way.
        reason: String,
    },
    /// The operating system refused something.
    #[error("{what}: {reason}")]
    System {
        /// The tried call.
        what: String,
        /// The system's message.
        reason: String,
    },
    /// The awaited event did not come within the caller's bound.
    #[error("{what} did not come within {after_ms} ms; nothing was changed: wait longer, or see who holds it up")]
    NotInTime {
        /// The awaited event.
        what: String,
        /// The bound in milliseconds.
        after_ms: u64,
    },
    /// The connection that held a lock ended, so the lock went to others while its holder went on.
    #[error("lock '{name}' was lost ({reason}): others may have had it since; look at what it protects, then take it again")]
    LockLost {
        /// The lock.
        name: String,
        /// The manner.
        reason: String,
    },
    /// A lock was taken twice by one thread, in another mode than it is held, or given back without being held.
    #[error("lock '{name}' cannot be used so: {reason}")]
    LockMisused {
        /// The lock.
        name: String,
        /// The fault, and the right way.
        reason: String,
    },
    /// A group has another number of parties, is complete without this one, or is met twice by one party.
    #[error("{}: {reason}", bad_group(.name, *.asked, *.parties))]
    BadGroup {
        /// The group.
        name: String,
        /// The number of parties that was asked for.
        asked: u32,
        /// The number that it has.
        parties: u32,
        /// The fault, and the right way.
        reason: String,
    },
    /// A party of a group went while others need it.
    #[error("{party} is gone from group '{group}' ({reason}); leave the group and join it anew to go on without it")]
    PartyGone {
        /// The group.
        group: String,
        /// The party.
        party: ClientId,
        /// Manner of its going.
        reason: String,
    },
    /// No block of the region's heap begins there: it was given back before, or never given out.
    #[error("no block of the heap in region '{region}' begins at offset {offset}: it was freed before, or not allocated there")]
    NoBlock {
        /// The region.
        region: String,
        /// The offset.
        offset: u64,
    },
    /// The heap has no free block that is long enough.
    #[error(
        "the heap in region '{region}' has no free block for {:#}: {} are free, at most {} together; free some, or create a longer region",
        Size(*asked), Size(*free), Size(*largest)
    )]
    HeapFull {
        /// The region.
        region: String,
        /// Bytes asked for.
        asked: u64,
        /// Bytes free in all.
        free: u64,
        /// A length that is sure to be found.
        largest: u64,
    },
    /// No queue is there, or one that makes no sense.
    #[error("no queue is at offset {offset} of region '{region}': {reason}")]
    NoQueue {
        /// The region.
        region: String,
        /// The offset where it was looked for.
        offset: u64,
        /// The fault.
        reason: String,
    },
    /// The lane has no room, and the queue's overflow has none left either.
    #[error("queue {queue} is full: its reader has to read before more is written")]
    QueueFull {
        /// The queue.
        queue: String,
    },
    /// Another program reads the queue.
    #[error("queue {queue} has a reader already; it has one at a time")]
    SecondReader {
        /// The queue.
        queue: String,
    },
    /// The lane belongs to another writer, or to none.
    #[error("lane {lane} of queue {queue} is not this writer's (any more): open another port")]
    NotAWriter {
        /// The queue.
        queue: String,
        /// The lane.
        lane: u32,
    },
    /// A block has another length than the queue's, or a record is too long.
    #[error("{len} bytes cannot be sent through queue {queue}: its blocks have {limit}, or its records at most as many")]
    BadBlock {
        /// The queue.
        queue: String,
        /// Its length in bytes.
        len: u64,
        /// The length of the queue's blocks, or of its longest record.
        limit: u64,
    },
    /// A writer died; all that it had committed was read.
    #[error("the writer of lane {lane} of queue {queue} has died; what it had committed was read")]
    WriterGone {
        /// The queue.
        queue: String,
        /// Its lane.
        lane: u32,
    },
    /// The reader died while this writer waits for room; another reader may come.
    #[error("the reader of queue {queue} has died, and no other has come: nothing makes room")]
    ReaderGone {
        /// The queue.
        queue: String,
    },
    /// A page's newest bytes went with the host that had stored to it; the page's home is there.
    #[error(
        "the newest bytes at offset {offset} of region '{region}' went with the host that stored them; its home, {home}, is there, and gives the rest: save what is needed of it, then remove the region and create it again"
    )]
    PageLost {
        /// The region.
        region: String,
        /// The page's first byte in the region.
        offset: u64,
        /// The page's home.
        home: NodeId,
    },
    /// The region was made by a user whose regions this program does not believe in.
    #[error(
        "region '{region}' was made by user {owner}, not by you (user {uid}), so nothing was read of it or written to it; to use it all the same say \
        that you trust that user: trust={owner} in Python, --trust {owner} at the command, Trust::and_user({owner}) in Rust, hanare_trusting in C"
    )]
    NotTrusted {
        /// The region.
        region: String,
        /// The user that owns it.
        owner: u32,
        /// The user of this program.
        uid: u32,
    },
    /// The pool has no such tenant, or the key is not its own: which of both is not told. Since version 28.
    #[error(
        "tenant '{tenant}' is refused: the pool has none of that name with the key in the file that HANARE_TENANT names; ask the pool's operator \
         for a fresh file (`hanare tenant key {tenant} --key-file FILE`)"
    )]
    TenantRefused {
        /// The tenant's name as given.
        tenant: String,
    },
    /// The program's tenant is removed from the pool. Since version 28.
    #[error(
        "this program's tenant (number {number}) was removed from the pool: end the program, or start it with another HANARE_TENANT"
    )]
    TenantGone {
        /// The tenant's number as a user.
        number: u32,
    },
}

#[cfg(test)]
mod tests;
