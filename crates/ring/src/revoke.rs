//! A right that programs use without a message, and that their node takes back: who uses it at this moment, and how often it was taken.
//!
//! ```text
//! thread:  seat: one more; barrier; look at the generation; work, or go another way; seat: one less
//! node:    generation: one more; barrier; look at the seats: who is there began before
//! ```
//!
//! Either the thread's look sees the new generation, or the node's look sees the thread: never neither. A seat counts how often it was left,
//! too, so a thread that the node sees there again began later.
//!
//! The barrier of the thread, on the way of every command, is left out where the node makes one in the threads of the program
//! ([`hanare_memory::barrier`]).
//!
//! What a program stores here is its own word for what it does, and no other program's: one that lies harms what it may write anyway. A
//! thread that is stopped at its seat is seen there for as long; the seats of a program that has ended are not looked at.

use crate::layout::{LINE_LEN, WORD_LEN};
use crate::words::Exchange;
use hanare_memory::seat;
use std::sync::atomic::{Ordering, compiler_fence};

/// Generations: each region has one of them, and shares it with others. A program looks again at a right when another's was taken.
pub const GENERATION_COUNT: usize = 64;

const LINE_WORDS: usize = LINE_LEN / WORD_LEN;

/// Word index of what the node says of itself: whether it makes barriers in other processes.
const BARRIERS: usize = 0;
const GENERATIONS: usize = LINE_WORDS;
const SEATS: usize = GENERATIONS + GENERATION_COUNT;
const SEAT_COUNT: usize = seat::SHARED + 1;

/// Bytes of the words of one program.
pub const REVOKE_LEN: usize = (SEATS + SEAT_COUNT * LINE_WORDS) * WORD_LEN;

/// Low bits of a seat: how many commands of its thread are under way, one inside the other. Above them: how often it was left.
const DEPTH: u64 = 0xffff;
const LEFT_ONCE: u64 = DEPTH + 1;

const _: () = assert!(GENERATION_COUNT.is_multiple_of(LINE_WORDS), "seats begin on a line of their own");

/// The words that a program and its node share about rights.
#[derive(Clone, Debug)]
pub struct Revoke<W> {
    words: W,
    /// Whether the node makes this side's barriers.
    is_light: bool,
}

/// Threads that were at work when rights were taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered(Vec<(usize, u64)>);

fn generation_at(region: u64) -> usize {
    GENERATIONS + (region % GENERATION_COUNT as u64) as usize
}

fn seat_at(seat: usize) -> usize {
    SEATS + seat.min(seat::SHARED) * LINE_WORDS
}

impl<W: Exchange> Revoke<W> {
    /// The node's side, of memory of zeros. `makes_barriers` if it makes them in other processes.
    pub fn make(words: W, makes_barriers: bool) -> Revoke<W> {
        words.store(BARRIERS, u64::from(makes_barriers));
        Revoke { words, is_light: false }
    }

    /// The program's side. `admits_barriers` if others make them in its threads.
    pub fn open(words: W, admits_barriers: bool) -> Revoke<W> {
        let is_light = admits_barriers && words.load(BARRIERS) == 1;
        Revoke { words, is_light }
    }

    /// The thread of that seat begins a command. It looks at the generation afterwards, and before it touches a byte.
    ///
    /// **Cost**: a store to a line of its own; a full barrier, unless the node makes it; at the shared seat an exchange.
    #[inline]
    pub fn enter(&self, seat: usize) {
        let word = seat_at(seat);
        if seat == seat::SHARED {
            self.change(word, |now| now.wrapping_add(1));
        } else {
            self.words.store(word, self.words.load(word).wrapping_add(1));
        }
        // ORDERING: pairs with the node's barrier behind `revoke`: the store is visible to its look at the seats, or our look at the
        // generation sees that it was raised.
        if self.is_light { compiler_fence(Ordering::SeqCst) } else { self.words.fence() }
    }

    /// The command is done.
    #[inline]
    pub fn leave(&self, seat: usize) {
        let word = seat_at(seat);
        // ORDERING: pairs with the node's look: what the command wrote is visible to who sees that it is done.
        if seat == seat::SHARED {
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

    /// How often rights on this region, and on those that share its word, were taken back.
    #[inline]
    pub fn generation(&self, region: u64) -> u64 {
        self.words.load(generation_at(region))
    }

    /// Node: takes the right on a region back. Its barrier follows, in all processes, and then [`Revoke::entered`].
    pub fn revoke(&self, region: u64) {
        let word = generation_at(region);
        self.words.store(word, self.words.load(word).wrapping_add(1));
        self.words.fence();
    }

    /// Node: the threads that are at work, on any region.
    ///
    /// **Cost**: a look at some 100 lines.
    pub fn entered(&self) -> Entered {
        let seats = (0..SEAT_COUNT).map(|seat| (seat, self.words.load(seat_at(seat))));
        Entered(seats.filter(|(_, word)| word & DEPTH != 0).collect())
    }

    /// Node: whether all of them have left their seats since.
    pub fn have_left(&self, entered: &mut Entered) -> bool {
        entered.0.retain(|(seat, then)| {
            let now = self.words.load(seat_at(*seat));
            now & DEPTH != 0 && now / LEFT_ONCE == then / LEFT_ONCE
        });
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

    const REGION: u64 = 70;

    fn both() -> (Steps, Revoke<Steps>, Revoke<Steps>) {
        let memory = Steps::new(REVOKE_LEN);
        let node = Revoke::make(memory.other_process(), true);
        let program = Revoke::open(memory.clone(), true);
        assert!(program.is_light && !Revoke::open(memory.clone(), false).is_light);
        (memory, node, program)
    }

    #[test]
    fn who_was_there_is_waited_for_and_who_came_later_is_not() {
        let (_, node, program) = both();
        let before = program.generation(REGION);
        program.enter(3);
        program.enter(3);
        program.enter(seat::SHARED);
        node.revoke(REGION);
        assert_ne!(program.generation(REGION), before);
        assert_ne!(program.generation(REGION % GENERATION_COUNT as u64), 0, "others share the word");
        assert_eq!(program.generation(REGION + 1), 0);
        let mut entered = node.entered();
        program.leave(3);
        program.leave(seat::SHARED);
        assert!(!node.have_left(&mut entered), "one command is inside the other");
        program.leave(3);
        program.enter(3);
        assert!(node.have_left(&mut entered), "it began later");
        assert!(!node.have_left(&mut node.entered()));
    }

    #[test]
    fn a_program_that_dies_at_any_store_is_seen_at_its_seat_or_not_at_all() {
        for stores in 0..3 {
            let (memory, node, program) = both();
            memory.stop_after(stores);
            program.enter(0);
            program.leave(0);
            assert_eq!(node.have_left(&mut node.entered()), stores != 1);
        }
    }

    #[test]
    fn rubbish_in_the_words_is_read_and_written_without_harm() {
        let (memory, node, program) = both();
        for word in 0..REVOKE_LEN / WORD_LEN {
            crate::words::Words::store(&memory, word, u64::MAX);
        }
        node.revoke(REGION);
        let mut entered = node.entered();
        assert_eq!(entered.0.len(), SEAT_COUNT);
        for seat in 0..SEAT_COUNT {
            program.enter(seat);
            program.leave(seat);
        }
        node.have_left(&mut entered);
    }
}
