//! The inputs and outputs of a home.

use crate::copies::{CopyInput, CopyOutput};
use crate::pages::{PageInput, PageMemory, PageOutput};
use crate::waiter::Waiter;
use hanare_protocol::Result;
use hanare_protocol::id::{ClientId, JobId, NodeId, Rank, User};
use hanare_protocol::lock::{Claimant, Recalled};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};

/// An event that a home hears of.
pub enum Input<'a, P: PageMemory> {
    /// A program asks for something on a link.
    Request {
        /// Receiver of the reply.
        waiter: Waiter,
        /// Its client and user, as the link's greeting proved them.
        from: (ClientId, User),
        /// The request.
        request: SyncRequest,
    },
    /// A link ended: its locks go to others, and nobody is told anything there.
    LinkGone {
        /// The link.
        link: u64,
    },
    /// A node says whether one of its clients has a lock whose lease was recalled.
    LeaseAnswer {
        /// The client.
        client: ClientId,
        /// The number of the taking.
        number: u64,
        /// The node's answer.
        recalled: Recalled,
    },
    /// The node is a member of its pool, or not any more.
    Member(bool),
    /// The node of that number is the pool's home of names, or not any more. Said where keepers hold the pool's journal: the home may change.
    PoolHome(NodeId, bool),
    /// A rank of a job is gone.
    RankGone {
        /// The job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// Number of the job's ranks, where that is known.
        ranks: Option<u32>,
        /// Why it is gone.
        reason: String,
        /// True for a death, false for an end in good order.
        died: bool,
    },
    /// An event of shared regions.
    Pages(PageInput<'a, P>),
    /// An event of extents with copies.
    Copies(CopyInput<'a>),
    /// Extents are no more.
    Freed,
    /// Bytes may have changed: words that requests wait for are looked at.
    Changed,
    /// Time has passed.
    Tick,
}

impl<'a, P: PageMemory> From<PageInput<'a, P>> for Input<'a, P> {
    fn from(input: PageInput<'a, P>) -> Input<'a, P> {
        Input::Pages(input)
    }
}

impl<'a, P: PageMemory> From<CopyInput<'a>> for Input<'a, P> {
    fn from(input: CopyInput<'a>) -> Input<'a, P> {
        Input::Copies(input)
    }
}

/// An order of a home to its driver.
pub enum Output<P: PageMemory> {
    /// An order of locks, groups, words, heaps and queues.
    Sync(SyncOutput),
    /// An order of shared regions.
    Pages(PageOutput<P>),
    /// An order of extents with copies. Commands are named by their links.
    Copies(CopyOutput<u64>),
}

/// An order of the parts of a home that serve [`SyncRequest`].
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are answers, and a box for each would be an allocation a request")]
pub enum SyncOutput {
    /// Answer a request.
    Answer(Waiter, Result<SyncAnswer>),
    /// Ask a client's node whether the client has a lock of which it has the lease.
    Recall {
        /// The client.
        client: ClientId,
        /// The number of the taking.
        number: u64,
    },
    /// Log that no node said whether a lock is held. The lock counts as abandoned.
    LeaseLost(Claimant),
}

/// Sizes of a home's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Locks that somebody has or waits for, or that a program abandoned.
    pub locks: usize,
    /// Leases of locks.
    pub leases: usize,
    /// Requests that wait for a lock or a condition.
    pub lock_waits: usize,
    /// Requests that wait for words.
    pub word_waits: usize,
}
