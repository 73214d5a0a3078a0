//! A right that programs use without a message, and that their node takes back: who uses it at this moment, and how often it was taken.
//!
//! ```text
//! thread:  seat: one more; barrier; look at the generation; work, or go another way; seat: one less
//! node:    generation: one more; barrier; look at the seats: who is there began before
//! ```
//!
//! Either the thread's look sees the later generation, or the node's look sees the thread: never neither. A slot counts how often it was
//! left, too, so a thread that the node sees there again began later. And it names the region, so a stopped thread delays its own region
//! alone.
//!
//! Threads without a slot of their own share two. They take the one that the node names. While the node waits for threads there, it names
//! the other one: threads that come one after the other would keep one slot taken for ever.
//!
//! The barrier of the thread, on the way of every command, is a light one where the node has the kernel pass one for both
//! ([`crate::words`]).
//!
//! A program's stores here are its own word for its acts, and no other program's: a lying one harms memory that it may write anyway. A
//! thread that is stopped at its slot is seen there for as long. Slots of a program that has ended are not looked at.

use crate::layout::{LINE_LEN, WORD_LEN};
use crate::words::Exchange;
use hanare_memory::thread_slot;

/// Generations: each region has one of them, and shares it with others. A program looks again at a right when another's was taken.
pub const GENERATION_COUNT: usize = 64;

const LINE_WORDS: usize = LINE_LEN / WORD_LEN;

/// Word index of what the node says of itself: whether it has other processes pass a barrier.
const BARRIERS: usize = 0;
/// Word index of which shared seat threads take that come: its lowest bit.
const TURN: usize = 1;
const GENERATIONS: usize = LINE_WORDS;
const SEATS: usize = GENERATIONS + GENERATION_COUNT;
/// Slots of threads, and the shared ones.
const SEAT_COUNT: usize = thread_slot::SHARED + 2;

/// Bytes of the words of one program.
pub const REVOKE_LEN: usize = (SEATS + SEAT_COUNT * LINE_WORDS) * WORD_LEN;

/// Low bits of a seat: how many commands of its thread are under way, one inside the other. Above them: how often it was left.
const DEPTH: u64 = 0xffff;
const LEFT_ONCE: u64 = DEPTH + 1;

/// Word of a seat: its region, or [`ANY`].
const REGION: usize = 1;
/// Several regions at once.
const ANY: u64 = u64::MAX;

const _: () = assert!(GENERATION_COUNT.is_multiple_of(LINE_WORDS), "seats begin on a line of their own");

/// The words that a program and its node share about rights.
#[derive(Clone, Debug)]
pub struct Revoke<W> {
    words: W,
    /// True if the node's barrier is one for this side, too.
    is_light: bool,
}

/// Threads that were at work when rights were taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered(Vec<(usize, u64)>);

#[inline]
fn generation_at(region: u64) -> usize {
    GENERATIONS + (region % GENERATION_COUNT as u64) as usize
}

#[inline]
fn seat_at(seat: usize) -> usize {
    SEATS + seat.min(SEAT_COUNT - 1) * LINE_WORDS
}

impl<W: Exchange> Revoke<W> {
    /// The node's side, of memory of zeros. `fences_others` if its barriers are those of other processes, too.
    pub fn make(words: W, fences_others: bool) -> Revoke<W> {
        words.store(BARRIERS, u64::from(fences_others));
        Revoke { words, is_light: false }
    }

    /// The program's side.
    pub fn open(words: W) -> Revoke<W> {
        let is_light = words.load(BARRIERS) == 1;
        Revoke { words, is_light }
    }

    /// The thread of that seat begins a command on a region. It looks at the generation afterwards, and before it touches a byte. Returns the
    /// seat that it leaves when it is done.
    ///
    /// **Cost**: two stores to a line of its own; a full barrier, unless the node makes it; at a shared seat an exchange.
    #[inline]
    pub fn enter(&self, seat: usize, region: u64) -> usize {
        let seat = if seat < thread_slot::SHARED { seat } else { self.shared_seat() };
        let word = seat_at(seat);
        if seat >= thread_slot::SHARED {
            self.change(word, |now| now.wrapping_add(1));
        } else {
            let now = self.words.load(word);
            let is_only = now & DEPTH == 0 || self.words.load(word + REGION) == region;
            // ORDERING: the region is there before the thread is.
            self.words.store(word + REGION, if is_only { region } else { ANY });
            self.words.store(word, now.wrapping_add(1));
        }
        // ORDERING: pairs with the node's `barrier`: the store is visible to its look at the seats, or our look at the
        // generation sees that it was raised.
        if self.is_light {
            self.words.light_fence()
        } else {
            self.words.fence()
        }
        seat
    }

    /// The shared seat that threads take which come at this moment.
    fn shared_seat(&self) -> usize {
        thread_slot::SHARED + (self.words.load(TURN) & 1) as usize
    }

    /// The command is done that [`Revoke::enter`] began at that seat.
    #[inline]
    pub fn leave(&self, seat: usize) {
        let word = seat_at(seat);
        // ORDERING: pairs with the node's look: what the command wrote is visible to who sees that it is done.
        if seat >= thread_slot::SHARED {
            self.change(word, left);
        } else {
            self.words.store(word, left(self.words.load(word)));
        }
    }

    /// Others of the process, or of its children, change the word meanwhile.
    fn change(&self, word: usize, next: impl Fn(u64) -> u64) {
        let mut now = self.words.load(word);
        while let Err(found) = self.words.compare_exchange(word, now, next(now)) {
            now = found;
        }
    }

    /// Count of revocations of rights on this region, and on those that share its word.
    #[inline]
    pub fn generation(&self, region: u64) -> u64 {
        self.words.load(generation_at(region))
    }

    /// Node: takes the right on a region back. A [`Revoke::barrier`] follows, of these words or of another program's, and then
    /// [`Revoke::entered`].
    pub fn revoke(&self, region: u64) {
        let word = generation_at(region);
        self.words.store(word, self.words.load(word).wrapping_add(1));
    }

    /// Node: what was stored before is seen by the next look of each thread, or the thread is seen at its seat.
    ///
    /// **Cost**: a system call, and an interrupt of each processor that runs a program of the pool: some microseconds.
    pub fn barrier(&self) {
        self.words.heavy_fence();
    }

    /// Node: the threads that are at work on a region, or may be.
    ///
    /// **Cost**: a look at some 100 lines.
    pub fn entered(&self, region: u64) -> Entered {
        let seats = (0..SEAT_COUNT).map(|seat| (seat, self.words.load(seat_at(seat))));
        // A region that is read here and is of a later command is that of a thread that has left since.
        let is_there =
            |seat: usize| seat >= thread_slot::SHARED || [region, ANY].contains(&self.words.load(seat_at(seat) + REGION));
        Entered(seats.filter(|(seat, word)| word & DEPTH != 0 && is_there(*seat)).collect())
    }

    /// Node: whether all of them have left their seats since. Threads that come to a shared seat which is waited for are sent to the other
    /// one, when that is empty.
    pub fn have_left(&self, entered: &mut Entered) -> bool {
        entered.0.retain(|(seat, then)| {
            let now = self.words.load(seat_at(*seat));
            now & DEPTH != 0 && now / LEFT_ONCE == then / LEFT_ONCE
        });
        let (taken, shared) = (self.shared_seat(), [thread_slot::SHARED, thread_slot::SHARED + 1]);
        let is_empty = |seat: &usize| self.words.load(seat_at(*seat)) & DEPTH == 0;
        if entered.0.iter().any(|(seat, _)| *seat == taken) && shared.iter().filter(|seat| **seat != taken).all(is_empty) {
            self.words.store(TURN, self.words.load(TURN).wrapping_add(1));
        }
        entered.0.is_empty()
    }
}

/// A seat with one command less.
#[inline]
fn left(now: u64) -> u64 {
    let left = now.wrapping_sub(1);
    if left & DEPTH == 0 { left.wrapping_add(LEFT_ONCE) } else { left }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Steps;

    const HERE: u64 = 70;

    fn both() -> (Steps, Revoke<Steps>, Revoke<Steps>) {
        let memory = Steps::new(REVOKE_LEN);
        let node = Revoke::make(memory.other_process(), true);
        let program = Revoke::open(memory.clone());
        assert!(program.is_light);
        (memory, node, program)
    }

    #[test]
    fn who_was_there_is_waited_for_and_who_came_later_is_not() {
        let (_, node, program) = both();
        let before = program.generation(HERE);
        program.enter(3, HERE);
        program.enter(3, HERE);
        let shared = program.enter(thread_slot::SHARED, HERE + 1);
        node.revoke(HERE);
        assert_ne!(program.generation(HERE), before);
        assert_ne!(program.generation(HERE % GENERATION_COUNT as u64), 0, "others share the word");
        assert_eq!(program.generation(HERE + 1), 0);
        let mut entered = node.entered(HERE);
        program.leave(3);
        program.leave(shared);
        assert!(!node.have_left(&mut entered), "one command is inside the other");
        program.leave(3);
        program.enter(3, HERE);
        assert!(node.have_left(&mut entered), "it began later");
        assert!(!node.have_left(&mut node.entered(HERE)));
    }

    #[test]
    fn who_is_at_another_region_is_not_waited_for_and_who_is_at_both_is() {
        let (_, node, program) = both();
        program.enter(3, HERE + 1);
        assert!(node.have_left(&mut node.entered(HERE)));
        program.enter(3, HERE);
        let mut entered = node.entered(HERE);
        program.leave(3);
        assert!(!node.have_left(&mut entered));
        program.leave(3);
        program.enter(3, HERE + 1);
        assert!(node.have_left(&mut entered) && node.have_left(&mut node.entered(HERE)));
    }

    #[test]
    fn threads_that_take_turns_at_a_shared_seat_keep_nobody_waiting() {
        let (_, node, program) = both();
        for _ in 0..4 {
            let mut at = program.enter(thread_slot::SHARED, HERE);
            let (mut entered, mut other) = (node.entered(HERE), node.entered(HERE + 1));
            // Somebody is there at any moment, of this region and of others.
            let has_left = (0..4).any(|_| {
                let next = program.enter(thread_slot::SHARED, HERE + 1);
                program.leave(at);
                at = next;
                node.have_left(&mut entered) & node.have_left(&mut other)
            });
            assert!(has_left);
            program.leave(at);
        }
    }

    #[test]
    fn who_is_stopped_at_a_shared_seat_is_waited_for_while_others_come_and_go() {
        let (_, node, program) = both();
        let stopped = program.enter(thread_slot::SHARED, HERE);
        let mut entered = node.entered(HERE);
        for _ in 0..4 {
            let at = program.enter(thread_slot::SHARED, HERE);
            assert!(!node.have_left(&mut entered));
            program.leave(at);
        }
        program.leave(stopped);
        assert!(node.have_left(&mut entered));
    }

    #[test]
    fn a_program_that_dies_at_any_store_is_seen_at_its_seat_or_not_at_all() {
        for stores in 0..4 {
            let (memory, node, program) = both();
            memory.stop_after(stores);
            program.enter(0, HERE);
            program.leave(0);
            assert_eq!(node.have_left(&mut node.entered(HERE)), stores != 2);
        }
    }

    #[test]
    fn rubbish_in_the_words_is_read_and_written_without_harm() {
        let (memory, node, program) = both();
        for word in 0..REVOKE_LEN / WORD_LEN {
            crate::words::Words::store(&memory, word, u64::MAX);
        }
        node.revoke(HERE);
        let mut entered = node.entered(HERE);
        assert_eq!(entered.0.len(), SEAT_COUNT);
        for seat in 0..SEAT_COUNT {
            let seat = program.enter(seat, HERE);
            program.leave(seat);
        }
        node.have_left(&mut entered);
    }
}
