//! What clients ask of each other through a node: locks and the data bound to them, named groups, barriers of jobs, words waited for, a region's heap, ports of queues. One postcard value in
//! the body of a [`Kind::Sync`](super::head::Kind::Sync), and one in the body of its answer.
//!
//! A client numbers its locks and its places in groups itself, each number once in its life. A node tells them apart by the
//! connection that they came on and that number; when the connection ends they end with it, so nothing is taken twice by a
//! request that is repeated on another connection.

use super::queue::{ArrayAt, QueueRequest};
use crate::entry::{DataGrant, Publication, Stamp};
use crate::id::{Grant, JobId, PartyName, Slot};
use crate::limits::QUEUE_READY_COUNT_MAX;
use serde::{Deserialize, Serialize};

pub use crate::group::Arrival;
pub use crate::lock::Mode;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SyncRequest {
    /// Takes a lock, at the pool's home; answered by [`SyncAnswer::Granted`] or [`SyncAnswer::Busy`].
    Lock {
        /// Its name.
        name: String,
        /// How.
        mode: Mode,
        /// The client's number of this taking.
        number: u64,
        /// The client's number of the thread that takes it: it may not take the lock twice.
        thread: u64,
        /// How long to wait for it in milliseconds: `None` for ever, zero not at all (then `Busy` is no error).
        bound_ms: Option<u64>,
        /// The version that the client has of what is bound to the lock.
        known: Option<Stamp>,
    },
    /// Says what is about to be put at its homes of what is bound to a lock; answered by [`SyncAnswer::Published`].
    Publish {
        /// The number that the lock was taken by.
        number: u64,
        /// What was changed.
        publication: Publication,
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
    /// Becomes a party of a group, at the pool's home; answered by [`SyncAnswer::Joined`].
    Join {
        /// The group's name.
        name: String,
        /// How many parties the group has.
        parties: u32,
        /// The client's number of this place.
        number: u64,
        /// What others call it, should it go.
        client: PartyName,
    },
    /// Says who may use a name of locks and groups, at the pool's home; answered by [`SyncAnswer::Done`].
    Permit {
        /// The name.
        name: String,
        /// As a file's mode bits.
        mode: u32,
    },
    /// Arrives at its group's barrier; answered by [`SyncAnswer::Done`] when all have.
    Meet {
        /// The number of its place.
        number: u64,
    },
    /// Leaves its group; answered by [`SyncAnswer::Done`].
    Leave {
        /// The number of its place.
        number: u64,
    },
    /// Waits until a word of an extent is as wanted, at the extent's node; answered by [`SyncAnswer::Word`].
    Wait {
        /// The extent's slot.
        slot: Slot,
        /// The right to read it.
        grant: Grant,
        /// The word's first byte in the extent; a multiple of its length.
        offset: u64,
        /// What is waited for.
        until: Wait,
        /// How long in milliseconds; `None` for ever.
        bound_ms: Option<u64>,
    },
    /// Takes a block of a region's heap, at the node of the region's first extent; answered by [`SyncAnswer::Block`].
    Allocate {
        /// The first extent's slot.
        slot: Slot,
        /// The right to write it.
        grant: Grant,
        /// The region's length in bytes: the first to allocate decides how far the heap reaches.
        region_len: u64,
        /// Bytes wanted.
        len: u64,
        /// What the offset is to be a multiple of: a power of two.
        align: u64,
    },
    /// Gives a block back; answered by [`SyncAnswer::Done`].
    Free {
        /// The first extent's slot.
        slot: Slot,
        /// The right to write it.
        grant: Grant,
        /// The region's length in bytes.
        region_len: u64,
        /// The block's first byte in the region.
        offset: u64,
    },
    /// Gives up waiting for a lock, whether or not it was granted meanwhile; answered by [`SyncAnswer::Done`], and what it waited
    /// for by [`Error::NotInTime`](crate::Error::NotInTime) where it was not.
    Withdraw {
        /// The number of the taking.
        number: u64,
    },
    /// A rank arrives at its job's barrier, at the pool's home; answered by [`SyncAnswer::Done`] when all have. It may be repeated.
    Arrive(Arrival),
    /// A port of a queue asks something, at the node that holds the queue; answered by [`SyncAnswer::Lane`] or [`SyncAnswer::Done`].
    Queue(ArrayAt, QueueRequest),
    /// Waits until a rank of a job has died, at the pool's home; answered by [`Error::RankGone`](crate::Error::RankGone) alone. Once on a
    /// connection. It may be repeated.
    AwaitDeath {
        /// The job.
        job: JobId,
    },
}

impl SyncRequest {
    /// Whether it must not be carried out twice.
    pub fn is_once(&self) -> bool {
        !matches!(self, SyncRequest::Arrive(_) | SyncRequest::AwaitDeath { .. })
    }
}

/// A node's answer to a [`SyncRequest`]. What it refuses it answers as any request: by an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "it lives from a message to who asked")]
pub enum SyncAnswer {
    /// It was done.
    Done,
    /// The lock was taken.
    Granted {
        /// Whether the last one to have it exclusively ended without giving it back: what it protects may be half-written.
        abandoned: bool,
        /// What is bound to it, and what of that has changed.
        data: Option<Box<DataGrant>>,
    },
    /// The changes may be put at their homes.
    Published {
        /// The version that the release will be.
        stamp: Stamp,
    },
    /// Others have the lock.
    Busy,
    /// The word is as wanted.
    Word {
        /// The word that was seen.
        seen: u64,
    },
    /// A block was taken.
    Block {
        /// Its first byte in the region.
        offset: u64,
    },
    /// A place in a group.
    Joined {
        /// The number of its sitting.
        sitting: u64,
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
        /// How many there are: of more than [`QUEUE_READY_COUNT_MAX`] the others come the next time.
        count: u8,
        /// Their numbers, and zeros.
        queues: [u64; QUEUE_READY_COUNT_MAX],
    },
}

/// A word of a region, with its length: little-endian, at an offset that is a multiple of the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// 4 bytes.
    U32(u32),
    /// 8 bytes.
    U64(u64),
}

impl Word {
    /// Its length in bytes.
    pub fn len(self) -> u64 {
        match self {
            Word::U32(_) => 4,
            Word::U64(_) => 8,
        }
    }

    /// Always false: a word has bytes.
    pub fn is_empty(self) -> bool {
        false
    }

    fn value(self) -> u64 {
        match self {
            Word::U32(value) => value.into(),
            Word::U64(value) => value,
        }
    }
}

/// What is waited for of a word. Words are compared as unsigned numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// It is this.
    Equal(Word),
    /// It is not this.
    NotEqual(Word),
    /// It is this or more.
    AtLeast(Word),
}

impl Wait {
    /// The word that is compared with.
    pub fn word(self) -> Word {
        let (Wait::Equal(word) | Wait::NotEqual(word) | Wait::AtLeast(word)) = self;
        word
    }

    /// Whether a word that was `seen` is as wanted.
    pub fn is_met(self, seen: u64) -> bool {
        match self {
            Wait::Equal(word) => seen == word.value(),
            Wait::NotEqual(word) => seen != word.value(),
            Wait::AtLeast(word) => seen >= word.value(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::entry::{BoundRange, BoundShape, Condition, Stores};
    use crate::id::Gid;
    use crate::limits::{BOUND_SHAPE_COUNT_MAX, NAME_LEN_MAX, RELEASE_LEN_MAX, RELEASE_RANGE_COUNT_MAX, SYNC_LEN_MAX};
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
        let lock = SyncRequest::Lock { name, mode: Mode::Shared, number, thread: number, bound_ms: Some(number), known };
        let publication = Publication { changes: longest_changes(), binding: Some(longest_binding()) };
        for longest in [lock, SyncRequest::Publish { number, publication }] {
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
        // A grant carries the changes of earlier releases or those to be redone by the byte, and of the others the ranges alone.
        let grant = |changes, condition| {
            let stamp = Stamp { life: u64::MAX, version: u64::MAX };
            let data = DataGrant { stamp, bound: Some(longest_binding()), changes, condition };
            SyncAnswer::Granted { abandoned: true, data: Some(Box::new(data)) }
        };
        let ranges = Stores::Ranges(longest_changes().ranges().unwrap().to_vec());
        for longest in [ready, grant(longest_changes(), Condition::Whole), grant(ranges, Condition::Redo(longest_changes()))] {
            let bytes = control::encode(&longest);
            assert!(bytes.len() as u64 <= SYNC_LEN_MAX, "{} bytes", bytes.len());
            assert_eq!(control::decode(&bytes), Ok(longest));
        }
    }

    #[test]
    fn a_word_is_met_as_its_name_says() {
        let word = Word::U32(7);
        let met = |until: Wait| [6, 7, 8].map(|seen| until.is_met(seen));
        assert_eq!(met(Wait::Equal(word)), [false, true, false]);
        assert_eq!(met(Wait::NotEqual(word)), [true, false, true]);
        assert_eq!(met(Wait::AtLeast(word)), [false, true, true]);
    }
}
