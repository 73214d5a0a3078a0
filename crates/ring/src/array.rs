//! An array of queues in shared memory: decides which sleepers to wake when something was committed or freed.
//!
//! A queue's bell is a word with five values. Zero, as in untouched memory, calls for the board. So an idle queue costs its reader nothing.
//! A writer finds its way to a reader that waits for a million of them. A reader on another host waits at the queue's node, which no futex
//! wakes. The writer is told to ring the node.
//!
//! ```text
//! reader:  bell = ASLEEP, REMOTE or BOARD; fence; look; park    writer:  commit; fence; if bell calls { tell the board; bell = AWAKE; wake }
//! ```
//!
//! Either the reader's look sees what was committed, or the writer sees the bell. A reader that attends its queue (AWAKE) seldom goes to
//! sleep. It then uses a heavy fence, so that the writer's is light. A reader of many queues leaves a queue whenever that is empty. While
//! it looks (WATCHED), the writer's fence is the strong one. A reader on another host has messages between its announcement and its look,
//! which take longer than a store takes to be seen. The writer tells the board before it takes the bell. If it dies in between, the bell is
//! left to the next writer. A reader that sleeps looks again unasked from time to time.

use crate::board::Board;
use crate::lane::LaneLayout;
use crate::layout::WORD_LEN;
use crate::park::{self, Bell};
use crate::words::{Exchange, Shared, Words};
use hanare_protocol::queue::layout::{NEWS_AT, QueueForm, READER_BELL_AT, ROOM_BELL_AT, SET_BELL_AT};
use std::time::Duration;

/// Value of a bell whose reader learns of its queue from the board.
pub const BOARD: u64 = 0;
/// The queue's reader sleeps on the bell.
const ASLEEP: u64 = 1;
/// The queue's reader will look by itself, and uses the heavy fence before it does so no more.
const AWAKE: u64 = 2;
/// The queue's reader is on another host, and waits at the queue's node until the bell changes.
pub const REMOTE: u64 = 3;
/// The queue's reader has learnt of it from the board, or is about to, and will look.
const WATCHED: u64 = 4;

/// The set's bell, and that of writers: somebody of this host sleeps.
const LOCAL_BIT: u64 = 1;
/// In the same bells: somebody waits at the node until the bell is zero.
const REMOTE_BIT: u64 = 2;
/// Value that a remote side stores to the set's bell, or to that of writers. It keeps the bit of this host's sleepers.
pub const ALL_ASLEEP: u64 = LOCAL_BIT | REMOTE_BIT;

/// Sleepers that a commit must wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The empty set.
    Nobody,
    /// The queue's reader.
    Reader,
    /// Sleepers for any queue of the array.
    Set,
    /// Sleepers for the queue at its node.
    Remote,
    /// Sleepers for any queue, some of them at the node.
    SetRemote,
}

/// An array of queues in words of its own.
#[derive(Clone, Debug)]
pub struct Array<W> {
    words: W,
    form: QueueForm,
    /// First byte of the first queue, and bytes of each. Kept here, because each unit needs them.
    queues_at: u64,
    queue_len: u64,
    board: Board<W>,
}

impl<W: Exchange + Clone> Array<W> {
    /// The array that begins at the first of the words, which were checked to hold it.
    pub fn new(words: W, form: QueueForm, count: u64) -> Array<W> {
        let len = form.array_len(count).expect("the form was checked");
        assert!(words.count() * WORD_LEN >= len as usize, "an array lies in its words");
        let (queues_at, queue_len) = (form.queue_at(count, 0), form.queue_len());
        Array { board: Board::new(words.clone(), 0, count), words, form, queues_at, queue_len }
    }

    /// The words.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// The board.
    pub fn board(&self) -> &Board<W> {
        &self.board
    }

    /// First byte of a queue.
    #[inline]
    pub fn queue_at(&self, queue: u64) -> u64 {
        self.queues_at.saturating_add(queue.saturating_mul(self.queue_len))
    }

    /// A lane's layout.
    pub fn place(&self, queue: u64, lane: u32) -> LaneLayout {
        LaneLayout::new(&self.form, self.queue_at(queue), lane)
    }

    #[inline]
    fn word(&self, queue: u64, at: u64) -> usize {
        (self.queue_at(queue) + at) as usize / WORD_LEN
    }

    /// Reader: has the queue, and looks by itself.
    pub fn attend(&self, queue: u64) {
        self.words.store(self.word(queue, READER_BELL_AT), AWAKE);
    }

    /// Reader: announces sleep; passes [`Array::fence`] and looks once more before it parks.
    pub fn announce(&self, queue: u64) {
        self.words.swap(self.word(queue, READER_BELL_AT), ASLEEP);
    }

    /// Reader: announcements, at this array and any other, are visible to writers before the caller's next looks.
    ///
    /// **Cost**: a system call.
    pub fn fence(&self) {
        // ORDERING: pairs with the light fences in `committed` and `tell_writers`, and the fence in `ring`.
        self.words.heavy_fence();
    }

    /// Reader: announces sleep; looks once more before it parks. **Cost**: a system call.
    pub fn doze(&self, queue: u64) {
        self.announce(queue);
        self.fence();
    }

    /// Reader: leaves the queue to the board; looks once more.
    pub fn leave(&self, queue: u64) {
        self.words.swap(self.word(queue, READER_BELL_AT), BOARD);
        // ORDERING: pairs with the fence in `call`: the bell is visible before the caller's next look is made.
        self.words.fence();
    }

    /// Leaves the queue to the board for a reader that has gone and left its bell as it was. **Cost**: a system call.
    pub fn hand_over(&self, queue: u64) {
        self.words.swap(self.word(queue, READER_BELL_AT), BOARD);
        // ORDERING: pairs with the light fence in `committed`, because the reader may have attended the queue.
        self.words.heavy_fence();
    }

    /// Writer: has committed something to the queue. Returns the sleepers to wake.
    ///
    /// **Cost**: a load of a line that changes only when the reader sleeps. While one of many reads the queue, a fence and another load.
    #[inline]
    pub fn committed(&self, queue: u64) -> Wake {
        // ORDERING: pairs with the heavy fence in `fence`.
        self.words.light_fence();
        let bell = self.word(queue, READER_BELL_AT);
        match self.words.load(bell) {
            AWAKE => Wake::Nobody,
            _ => self.call(queue, bell),
        }
    }

    fn call(&self, queue: u64, bell: usize) -> Wake {
        // ORDERING: pairs with the fence in `leave`.
        self.words.fence();
        loop {
            let old = self.words.load(bell);
            let (new, wake) = match old {
                AWAKE | WATCHED => return Wake::Nobody,
                ASLEEP => (AWAKE, Wake::Reader),
                REMOTE => (AWAKE, Wake::Remote),
                _ => {
                    self.board.set(queue);
                    (WATCHED, Wake::Set)
                }
            };
            if self.words.compare_exchange(bell, old, new).is_err() {
                continue;
            }
            if wake != Wake::Set {
                return wake;
            }
            // The reader may have taken it from the board, looked and left meanwhile.
            return self.call_set(queue);
        }
    }

    /// Puts a queue on the board, whatever its bell says, and returns the sleepers to wake. For the home of a writer that may have died
    /// between its change of the bell and this step.
    pub fn call_set(&self, queue: u64) -> Wake {
        self.board.set(queue);
        match self.ring(SET_WORD) {
            0 => Wake::Nobody,
            who if who & REMOTE_BIT == 0 => Wake::Set,
            _ => Wake::SetRemote,
        }
    }

    /// Takes and clears the bits of a bell of several sleepers. Earlier stores are visible to their looks.
    #[inline]
    fn ring(&self, word: usize) -> u64 {
        // ORDERING: pairs with the heavy fence in `fence`.
        self.words.fence();
        if self.words.load(word) == 0 { 0 } else { self.words.swap(word, 0) }
    }

    /// Announces sleep at a bell of several sleepers, and keeps the bits of others.
    fn announce_at(&self, word: usize) {
        let mut old = self.words.load(word);
        while let Err(found) = self.words.compare_exchange(word, old, old | LOCAL_BIT) {
            old = found;
        }
    }

    /// Reader of all queues: announces sleep; passes [`Array::fence`], and takes from the board once more before it parks.
    pub fn announce_set(&self) {
        self.announce_at(SET_WORD);
    }

    /// Writer: announces sleep for want of room; looks once more before it parks. **Cost**: a system call.
    pub fn doze_writer(&self, queue: u64) {
        self.announce_at(self.word(queue, ROOM_BELL_AT));
        self.fence();
    }

    /// Count of the home's changes to the lanes' lines. **Cost**: a load of the bell's line, which each commit looks at.
    #[inline]
    pub fn news(&self, queue: u64) -> u64 {
        // ORDERING: pairs with the store in `tell_news`: later reads of the lines find them as of this count, or later.
        self.words.load(self.word(queue, NEWS_AT))
    }

    /// Home: has changed what stands in the lanes' lines.
    pub fn tell_news(&self, queue: u64) {
        let word = self.word(queue, NEWS_AT);
        self.words.store(word, self.words.load(word).wrapping_add(1));
    }

    /// The bell of a queue's reader, or of sleepers for any queue.
    pub fn bell(&self, queue: Option<u64>) -> Bell<W> {
        let word = queue.map_or(SET_WORD, |queue| self.word(queue, READER_BELL_AT));
        Bell::new(self.words.clone(), word, queue.map(|_| ASLEEP))
    }
}

/// Word index of the bell of sleepers for any queue.
const SET_WORD: usize = SET_BELL_AT as usize / WORD_LEN;

impl Array<Shared> {
    /// Writer: has committed something; wakes sleepers of this host. True: somebody waits at the array's node, which has to be rung.
    #[inline]
    #[must_use]
    pub fn tell_reader(&self, queue: u64) -> bool {
        match self.committed(queue) {
            Wake::Nobody => false,
            other => self.wake(queue, other),
        }
    }

    /// Wakes the sleepers that [`Array::committed`] or [`Array::call_set`] returned. True: somebody waits at the array's node, which has to
    /// be rung.
    #[cold]
    pub fn wake(&self, queue: u64, whom: Wake) -> bool {
        match whom {
            Wake::Nobody | Wake::Remote => {}
            Wake::Reader => park::wake(&self.words, self.word(queue, READER_BELL_AT)),
            Wake::Set | Wake::SetRemote => park::wake(&self.words, SET_WORD),
        }
        matches!(whom, Wake::Remote | Wake::SetRemote)
    }

    /// Reader: has freed something; wakes writers that wait for room. True: one of them waits at the array's node.
    #[inline]
    #[must_use]
    pub fn tell_writers(&self, queue: u64) -> bool {
        let word = self.word(queue, ROOM_BELL_AT);
        // ORDERING: pairs with the heavy fence in `doze_writer`.
        self.words.light_fence();
        self.words.load(word) != 0 && self.wake_writers(word)
    }

    #[cold]
    fn wake_writers(&self, word: usize) -> bool {
        let who = self.ring(word);
        if who != 0 {
            park::wake(&self.words, word);
        }
        who & REMOTE_BIT != 0
    }

    /// Writer: sleeps after [`Array::doze_writer`].
    pub fn sleep_writer(&self, queue: u64, timeout: Duration) {
        let word = self.word(queue, ROOM_BELL_AT);
        let value = self.words.load(word);
        if value != 0 {
            park::park(&self.words, word, value, timeout);
        }
    }
}
