//! An array of queues in shared memory: whom to wake when something was committed or freed.
//!
//! A queue's bell is a word with three values. Zero, as in memory that nobody has touched, calls for the board: so an idle queue costs its
//! reader nothing, and a writer finds its way to a reader that waits for a million of them.
//!
//! ```text
//! reader:  bell = ASLEEP or BOARD; fence; look; park        writer:  commit; fence; if bell != AWAKE { tell the board; bell = AWAKE; wake }
//! ```
//!
//! Either the reader's look sees what was committed, or the writer sees the bell. The writer tells the board before it takes the bell, so
//! that one that dies in between leaves the bell to the next. A reader that sleeps looks again unasked from time to time.

use crate::bell::Flag;
use crate::board::Board;
use crate::lane::Place;
use crate::layout::WORD_LEN;
use crate::park;
use crate::words::{Exchange, Shared};
use hanare_protocol::queue::layout::{QueueForm, READER_BELL_AT, ROOM_BELL_AT, SET_BELL_AT};
use std::time::Duration;

/// Who reads the queue learns of it from the board.
const BOARD: u64 = 0;
/// The queue's reader sleeps on the bell.
const ASLEEP: u64 = 1;
/// The queue's reader will look by itself.
const AWAKE: u64 = 2;

/// Whom a commit has to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Nobody.
    Nobody,
    /// The queue's reader.
    Reader,
    /// Who waits for any queue of the array.
    Set,
}

/// An array of queues in words of its own.
#[derive(Clone, Debug)]
pub struct Array<W> {
    words: W,
    form: QueueForm,
    count: u64,
    board: Board<W>,
}

impl<W: Exchange + Clone> Array<W> {
    /// The array that begins at the first of the words, which were checked to hold it.
    pub fn new(words: W, form: QueueForm, count: u64) -> Array<W> {
        let len = form.array_len(count).expect("the form was checked");
        assert!(words.count() * WORD_LEN >= len as usize, "an array lies in its words");
        Array { board: Board::new(words.clone(), 0, count), words, form, count }
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
    pub fn queue_at(&self, queue: u64) -> u64 {
        self.form.queue_at(self.count, queue)
    }

    /// Where a lane lies.
    pub fn place(&self, queue: u64, lane: u32) -> Place {
        Place::new(&self.form, self.queue_at(queue), lane)
    }

    fn word(&self, queue: u64, at: u64) -> usize {
        (self.queue_at(queue) + at) as usize / WORD_LEN
    }

    /// Reader: has the queue, and looks by itself.
    pub fn attend(&self, queue: u64) {
        self.words.store(self.word(queue, READER_BELL_AT), AWAKE);
    }

    /// Reader: announces sleep; looks once more before it parks.
    pub fn doze(&self, queue: u64) {
        self.ask_to_be_told(queue, ASLEEP);
    }

    /// Reader: leaves the queue to the board; looks once more.
    pub fn leave(&self, queue: u64) {
        self.ask_to_be_told(queue, BOARD);
    }

    fn ask_to_be_told(&self, queue: u64, how: u64) {
        self.words.swap(self.word(queue, READER_BELL_AT), how);
        // ORDERING: pairs with the fence in `committed`: the bell is visible before the caller's next look is made.
        self.words.fence();
    }

    /// Writer: has committed something to the queue. Says whom to wake.
    ///
    /// **Cost**: a fence and a load of a line that changes only when the reader sleeps.
    #[inline]
    pub fn committed(&self, queue: u64) -> Wake {
        // ORDERING: pairs with the fence in `ask_to_be_told`.
        self.words.fence();
        let bell = self.word(queue, READER_BELL_AT);
        match self.words.load(bell) {
            AWAKE => Wake::Nobody,
            _ => self.call(queue, bell),
        }
    }

    #[cold]
    fn call(&self, queue: u64, bell: usize) -> Wake {
        if self.words.load(bell) == BOARD {
            self.board.set(queue);
        }
        match self.words.swap(bell, AWAKE) {
            AWAKE => Wake::Nobody,
            ASLEEP => Wake::Reader,
            _ => {
                // The bell may have become the board's after the look.
                self.board.set(queue);
                if self.set_bell().ring() { Wake::Set } else { Wake::Nobody }
            }
        }
    }

    /// The bell of who waits for any queue.
    pub fn set_bell(&self) -> Flag<W> {
        Flag::at(self.words.clone(), SET_BELL_AT as usize / WORD_LEN)
    }

    /// The bell of writers that wait for room in the queue.
    pub fn room_bell(&self, queue: u64) -> Flag<W> {
        Flag::at(self.words.clone(), self.word(queue, ROOM_BELL_AT))
    }
}

impl Array<Shared> {
    /// Writer: has committed something; wakes who has to know.
    #[inline]
    pub fn tell_reader(&self, queue: u64) {
        match self.committed(queue) {
            Wake::Nobody => {}
            Wake::Reader => park::wake(&self.words, self.word(queue, READER_BELL_AT)),
            Wake::Set => park::wake(&self.words, SET_BELL_AT as usize / WORD_LEN),
        }
    }

    /// Reader: has freed something; wakes writers that wait for room.
    #[inline]
    pub fn tell_writers(&self, queue: u64) {
        if self.room_bell(queue).ring() {
            park::wake(&self.words, self.word(queue, ROOM_BELL_AT));
        }
    }

    /// Reader: sleeps after [`Array::doze`] until something is committed, for `bound` at most.
    pub fn sleep_reader(&self, queue: u64, bound: Duration) {
        park::park(&self.words, self.word(queue, READER_BELL_AT), ASLEEP, bound);
    }

    /// Writer: sleeps after it has dozed at the [`Array::room_bell`].
    pub fn sleep_writer(&self, queue: u64, bound: Duration) {
        park::park(&self.words, self.word(queue, ROOM_BELL_AT), 1, bound);
    }

    /// Reader of all queues: sleeps after it has dozed at the [`Array::set_bell`].
    pub fn sleep_set(&self, bound: Duration) {
        park::park(&self.words, SET_BELL_AT as usize / WORD_LEN, 1, bound);
    }
}
