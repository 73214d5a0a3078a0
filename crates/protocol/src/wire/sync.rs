//! Requests for what clients share, through a node: locks and their bound data, groups, jobs' barriers, awaited words, a region's heap,
//! queues' ports. One postcard value in the body of a [`Kind::Sync`](super::head::Kind::Sync), and one in that of its reply.
//!
//! A client numbers its locks and its group memberships itself, each number once in its life. A node tells them apart by the connection
//! that they came on and that number. When the connection ends they end with it, so a request that is repeated on another connection
//! takes nothing twice.

mod word;

pub use word::{Wait, WaitedWord, Word};

use super::carried::{BroughtPages, Carried, ExtentAddress};
use super::queue::{ArrayAt, QueueRequest};
use super::stores::StorePart;
use crate::copies::{Comparison, DigestCall, UpdateCall};
use crate::entry::{DataGrant, Publication, Stamp};
use crate::heap::{HeapAnswer, HeapCall};
use crate::id::{Grant, JobId, PartyName, Slot};
use crate::limits::QUEUE_READY_COUNT_MAX;
use serde::{Deserialize, Serialize};

pub use crate::group::Arrival;
pub use crate::lock::Mode;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncRequest {
    /// Takes a lock, at its home; answered by [`SyncAnswer::Granted`] or [`SyncAnswer::Busy`].
    Lock {
        /// The address of the lock or group.
        address: SyncAddress,
        /// The lock's mode.
        mode: Mode,
        /// The client's number of this taking.
        number: u64,
        /// The client's number of the thread that takes it: it may not take the lock twice.
        thread: u64,
        /// Time to wait for it in milliseconds: `None` for ever, zero not at all (then `Busy` is no error).
        bound_ms: Option<u64>,
        /// The version that the client has of what is bound to the lock.
        known: Option<Stamp>,
        /// The client's wish for a lease.
        lease: LeaseWish,
    },
    /// Says what is about to be put at its homes of what is bound to a lock; answered by [`SyncAnswer::Published`].
    Publish {
        /// The number that the lock was taken by.
        number: u64,
        /// The changes.
        publication: Publication,
    },
    /// Gives a lock back with all changes, which lie at the lock's home and are put there. It does the work of `Publish`, the puts and
    /// `Unlock`. Answered by [`SyncAnswer::Released`].
    Release {
        /// The number that the lock was taken by.
        number: u64,
        /// The changes, with their bytes.
        publication: Publication,
        /// Addresses of its ranges.
        places: Vec<ExtentAddress>,
        /// True if the client would keep its lease.
        keeps: bool,
    },
    /// Says that what a dead holder left half-done was redone; answered by [`SyncAnswer::Done`].
    Redone {
        /// The number that the lock was taken by.
        number: u64,
    },
    /// Gives a lock back; answered by [`SyncAnswer::Done`].
    Unlock {
        /// The number it was taken by.
        number: u64,
    },
    /// Gives back a lock that the client has alone, and waits to have it again once somebody notifies that condition. Answered by
    /// [`SyncAnswer::Woken`].
    Sleep {
        /// The number that the lock was taken by.
        number: u64,
        /// The condition: of each lock, any number.
        condition: u64,
        /// The number of the taking by which the client has the lock afterwards.
        next: u64,
        /// The client's number of the thread that waits.
        thread: u64,
        /// Time to wait for a notice in milliseconds; `None` for ever. The lock itself is waited for as long as others have it.
        bound_ms: Option<u64>,
        /// The version that the client has of what is bound to the lock.
        known: Option<Stamp>,
    },
    /// Has those go on who wait for a condition of a lock that the client has alone; answered by [`SyncAnswer::Done`].
    Notify {
        /// The number that the lock was taken by.
        number: u64,
        /// The condition.
        condition: u64,
        /// All of them, or the one that has waited longest.
        all: bool,
    },
    /// Becomes a party of a group, at its home; answered by [`SyncAnswer::Joined`].
    Join {
        /// The group's address.
        address: SyncAddress,
        /// Number of parties in the group.
        parties: u32,
        /// The client's number of this place.
        number: u64,
        /// The party's name for others, should it go.
        client: PartyName,
    },
    /// Says who may use a name of locks and groups, at the pool's home; answered by [`SyncAnswer::Done`].
    Permit {
        /// The name.
        name: String,
        /// Rights, as a file's mode bits.
        mode: u32,
    },
    /// Arrives at a barrier, perhaps with bytes of this node; answered by [`SyncAnswer::Done`] or [`Met`](SyncAnswer::Met) when all have.
    Arrive(Party, Option<Box<Carried>>),
    /// Leaves its group; answered by [`SyncAnswer::Done`].
    Leave {
        /// The number of its place.
        number: u64,
    },
    /// Waits until one of some words is as wanted, at the node of their extents; answered by [`SyncAnswer::Word`].
    Wait {
        /// The words: at least one, at most [`WAIT_WORD_COUNT_MAX`](crate::limits::WAIT_WORD_COUNT_MAX).
        words: Vec<WaitedWord>,
        /// Time in milliseconds; `None` for ever.
        bound_ms: Option<u64>,
    },
    /// Takes or gives back blocks of a region's heap, at the node of the region's first extent; answered by [`SyncAnswer::Blocks`].
    Heap {
        /// The first extent's slot.
        slot: Slot,
        /// The right to write it.
        grant: Grant,
        /// The call. The heap reaches as far as the longest region that a call told of.
        call: HeapCall,
        /// The number of the client's call, where the region has copies: it counts once.
        once: Option<UpdateCall>,
    },
    /// Asks how long a block is; answered by [`SyncAnswer::BlockLen`].
    BlockLen {
        /// The first extent's slot.
        slot: Slot,
        /// The right to write it.
        grant: Grant,
        /// The block's first byte in the region.
        offset: u64,
    },
    /// Compares copies of an extent with their home, at the home; answered by [`SyncAnswer::Compared`]. An extent without copies has none to
    /// compare.
    Compare {
        /// The extent's slot.
        slot: Slot,
        /// The right to read it; to write it, where copies that differ are dropped.
        grant: Grant,
        /// The pages.
        call: DigestCall,
    },
    /// Gives up waiting for a lock, whether or not it was granted meanwhile. Answered by [`SyncAnswer::Done`]. If it was not granted,
    /// [`Error::NotInTime`](crate::Error::NotInTime) answers the request before.
    Withdraw {
        /// The number of the taking.
        number: u64,
    },
    /// A port of a queue asks something, at the node that holds the queue; answered by [`SyncAnswer::Lane`] or [`SyncAnswer::Done`].
    Queue(ArrayAt, QueueRequest),
    /// Waits until a rank of a job has died, at the pool's home; answered by [`Error::RankGone`](crate::Error::RankGone) alone. Once on a
    /// connection. It may be repeated.
    AwaitDeath {
        /// The job.
        job: JobId,
    },
    /// Stores to an extent with copies, at its home, a part of those that count together; answered by [`SyncAnswer::Done`]. Since version 28.
    Store {
        /// The extent's slot.
        slot: Slot,
        /// The right to write it.
        grant: Grant,
        /// The part.
        part: StorePart,
    },
}

impl SyncRequest {
    /// The first version of the wire that has [`SyncRequest::Store`].
    pub const STORES_SINCE: u32 = 28;

    /// True if it takes blocks or gives some back.
    pub fn changes_heap(&self) -> bool {
        matches!(self, SyncRequest::Heap { .. })
    }

    /// True if it must not be carried out twice. The next home knows a numbered call by itself.
    pub fn is_once(&self) -> bool {
        !matches!(
            self,
            SyncRequest::Arrive(Party::Rank(_), None)
                | SyncRequest::AwaitDeath { .. }
                | SyncRequest::BlockLen { .. }
                | SyncRequest::Compare { .. }
                | SyncRequest::Heap { once: Some(_), .. }
                | SyncRequest::Store { .. }
        )
    }
}

/// A party that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Party {
    /// A place in a group, at the group's home, by the number that it was joined with.
    Place(u64),
    /// A rank of a job, at the pool's home.
    Rank(Arrival),
}

/// Address of a lock or a group at its home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncAddress {
    /// A name, at the pool's home.
    Name(String),
    /// A byte of an extent, at the extent's node. The byte itself is neither read nor written.
    Byte {
        /// The extent's slot.
        slot: Slot,
        /// The right to write the extent; for who shares a lock, to read it.
        grant: Grant,
        /// The byte's place in the extent.
        offset: u64,
    },
}

/// A client's wish for a lease, in its claim for a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseWish {
    /// True if it would keep the lock when it gives it back.
    pub keeps: bool,
    /// The taking of the client's earlier lease of the lock, if it has and keeps the lock by that one no more.
    pub returns: Option<u64>,
}

/// A node's answer to a [`SyncRequest`]. What it refuses it answers as any request: by an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "it lives from a message to who asked")]
pub enum SyncAnswer {
    /// Done.
    Done,
    /// The lock was taken.
    Granted {
        /// True if the last exclusive holder ended without giving it back: the data under it may be half-written.
        abandoned: bool,
        /// Data bound to it, and the part of that which has changed.
        data: Option<Box<DataGrant>>,
        /// True if the client may keep it when it gives it back: see [`lease`](crate::lock::lease).
        leased: bool,
    },
    /// The changes may be put at their homes.
    Published {
        /// The version that the release will be.
        stamp: Stamp,
    },
    /// The changes are at their homes, as that version. True if the client still has the lock: it is leased to it, and nobody wants it.
    Released(Stamp, bool),
    /// Others have the lock.
    Busy,
    /// The lock was taken again after a wait for a condition.
    Woken {
        /// True if somebody notified the condition; else the time was over.
        notified: bool,
        /// See [`SyncAnswer::Granted`].
        abandoned: bool,
        /// See [`SyncAnswer::Granted`].
        data: Option<Box<DataGrant>>,
    },
    /// All parties of a barrier have arrived, and these are the pages that were wanted.
    Met(Box<BroughtPages>),
    /// A word is as wanted.
    Word {
        /// Index among those that were named.
        index: u8,
        /// The word that was seen.
        seen: u64,
    },
    /// The answers to the wishes of a call on a heap.
    Blocks(Vec<HeapAnswer>),
    /// Length of a block.
    BlockLen {
        /// In bytes.
        len: u64,
    },
    /// Copies were compared.
    Compared(Box<Comparison>),
    /// A place in a group.
    Joined {
        /// The number of its group instance.
        instance: u64,
        /// The party's number in it, from 0.
        party: u32,
    },
    /// A writer's lane.
    Lane {
        /// Its number.
        lane: u32,
        /// Units that count, of those that it appended there before its connection broke.
        accepted: u64,
    },
    /// Queues that have something.
    Ready {
        /// Number of ready queues. Beyond [`QUEUE_READY_COUNT_MAX`] the others come the next time.
        count: u8,
        /// Their numbers, and zeros.
        queues: [u64; QUEUE_READY_COUNT_MAX],
    },
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::entry::{BoundRange, BoundShape, Condition, Stores};
    use crate::id::Gid;
    use crate::limits::{
        BOUND_SHAPE_COUNT_MAX, NAME_LEN_MAX, RELEASE_LEN_MAX, RELEASE_RANGE_COUNT_MAX, SYNC_LEN_MAX, WAIT_WORD_COUNT_MAX,
    };
    use crate::shape::Strided;
    use crate::wire::control;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_refused(bytes: Vec<u8>) {
            let _ = control::decode::<SyncRequest>(&bytes);
            let _ = control::decode::<SyncAnswer>(&bytes);
        }
    }

    #[test]
    fn the_longest_request_is_within_its_limit() {
        let name = "x".repeat(NAME_LEN_MAX);
        let known = Some(Stamp { life: u64::MAX, version: u64::MAX });
        let number = u64::MAX;
        let lease = LeaseWish { keeps: true, returns: Some(number) };
        let (address, mode) = (SyncAddress::Name(name), Mode::OneOf(u32::MAX));
        let lock = SyncRequest::Lock { address, mode, number, thread: number, bound_ms: Some(number), known, lease };
        let publication = Publication { changes: longest_changes(), binding: Some(longest_binding()) };
        let word = WaitedWord {
            slot: Slot(u32::MAX),
            grant: Grant([255; 16]),
            offset: u64::MAX,
            until: Wait::Less(Word::I64(i64::MIN)),
        };
        let words = SyncRequest::Wait { words: vec![word; WAIT_WORD_COUNT_MAX], bound_ms: Some(u64::MAX) };
        let place = ExtentAddress { slot: Slot(u32::MAX), grant: Grant([255; 16]), offset: u64::MAX };
        let places = vec![place; RELEASE_RANGE_COUNT_MAX];
        let release = SyncRequest::Release { number, publication: publication.clone(), places, keeps: true };
        for longest in [lock, SyncRequest::Publish { number, publication }, release, words] {
            let bytes = control::encode(&longest);
            assert!(bytes.len() as u64 <= SYNC_LEN_MAX, "{} bytes", bytes.len());
            assert_eq!(control::decode(&bytes), Ok(longest));
        }
    }

    fn longest_changes() -> Stores {
        let range = BoundRange { gid: Gid(u64::MAX), offset: u64::MAX, len: u64::MAX };
        Stores::Bytes(vec![range; RELEASE_RANGE_COUNT_MAX], vec![u8::MAX; RELEASE_LEN_MAX])
    }

    fn longest_binding() -> Vec<BoundShape> {
        let shape = Strided { offset: u64::MAX, block: u64::MAX, count: u64::MAX, stride: u64::MAX };
        vec![BoundShape { gid: Gid(u64::MAX), shape }; BOUND_SHAPE_COUNT_MAX]
    }

    #[test]
    fn the_longest_answer_is_within_its_limit() {
        let ready = SyncAnswer::Ready { count: u8::MAX, queues: [u64::MAX; QUEUE_READY_COUNT_MAX] };
        // A grant carries by the byte the changes of earlier releases, or those to be redone. Of the others it carries the ranges alone.
        let grant = |changes, condition| {
            let stamp = Stamp { life: u64::MAX, version: u64::MAX };
            let data = DataGrant { stamp, bound: Some(longest_binding()), changes, condition };
            SyncAnswer::Granted { abandoned: true, data: Some(Box::new(data)), leased: true }
        };
        let ranges = Stores::Ranges(longest_changes().ranges().unwrap().to_vec());
        for longest in [ready, grant(longest_changes(), Condition::Whole), grant(ranges, Condition::Redo(longest_changes()))] {
            let bytes = control::encode(&longest);
            assert!(bytes.len() as u64 <= SYNC_LEN_MAX, "{} bytes", bytes.len());
            assert_eq!(control::decode(&bytes), Ok(longest));
        }
    }
}
