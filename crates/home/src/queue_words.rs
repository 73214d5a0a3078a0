//! Queues' memory as a home reaches it: over mapped extents in a node, over vectors in the simulator.

use hanare_protocol::Result;
use hanare_protocol::queue::layout::LINE_LEN;
use hanare_protocol::queue::{QueueForm, Ring, Store};

/// The memory of one extent, where arrays of queues may begin.
pub trait QueueMemory {
    /// The words of an array.
    type Words: QueueWords;

    /// The extent's length in bytes.
    fn len_bytes(&self) -> u64;

    /// Reads the line at byte `at`, which lies inside.
    fn line(&self, at: u64) -> Result<[u8; LINE_LEN as usize]>;

    /// The words of an array that lies inside: its first byte, and its length.
    fn words(&self, range: (u64, u64), form: QueueForm, count: u64) -> Self::Words;
}

/// The words of one array of queues. Programs of the home's host read and write them at the same time.
///
/// - Positions are bytes from the array's first one, and multiples of a word's length.
/// - Queues and lanes lie in the array: the home checks their numbers.
pub trait QueueWords {
    /// Spilled units of a lane.
    type Store: Store;
    /// The memory of a lane, with the place of its next unit.
    type Lane: Ring;

    /// The first byte of a queue.
    fn queue_at(&self, queue: u64) -> u64;

    /// Reads a word. **Ordering**: acquire.
    fn load(&self, at: u64) -> u64;

    /// Writes a word. **Ordering**: release.
    fn store(&self, at: u64, value: u64);

    /// Writes a word, and returns what it was. **Ordering**: one order with all exchanges of that word.
    fn swap(&self, at: u64, value: u64) -> u64;

    /// The memory of a lane. **Errors**: [`hanare_protocol::Error::NoQueue`] for positions that make no sense.
    fn lane(&self, queue: u64, lane: u32) -> Result<Self::Lane>;

    /// Frees a lane up to a position that its reader says. **Errors**: as for [`QueueWords::lane`].
    fn free_to(&self, queue: u64, lane: u32, head: u64) -> Result<()>;

    /// Counts a change of the lanes' lines of a queue. **Ordering**: after the change.
    fn tell_news(&self, queue: u64);

    /// Counts in the tail what a writer that is gone has committed.
    fn settle_tail(&self, queue: u64, lane: u32);

    /// Notes on the board that a queue has something.
    fn put_on_board(&self, queue: u64);

    /// Takes queues that have something from the board, at most `most`.
    fn take_from_board(&self, most: usize) -> Vec<u64>;

    /// Wakes the reader of a queue. Requests that wait for words at the home are looked at after the turn.
    fn tell_reader(&self, queue: u64);

    /// Wakes writers of a queue that wait for room.
    fn tell_writers(&self, queue: u64);

    /// Puts a queue on the board, whatever its bell says, and wakes who waits for any queue.
    fn call_set(&self, queue: u64);

    /// Leaves a queue whose reader is gone to the board.
    fn hand_over(&self, queue: u64);

    /// Room for a lane's spilled units.
    fn spill(&self) -> Self::Store;
}
