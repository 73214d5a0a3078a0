//! The words of a program's leases of locks, in memory that it shares with its node. The rules are those of
//! [`hanare_protocol::lock::lease`], each step one exchange.
//!
//! ```text
//! word 0: time until which the leases hold, in nanoseconds of the host's monotonic clock; zero for never
//! from the next line on: a word for each lock
//! ```
//!
//! The program alone begins and ends a word; the node only takes leases back. A program that writes anything else harms only programs
//! that take the same locks. It could harm these without the words, too.
//!
//! | module | decides |
//! |---|---|
//! | [`table`] | a program: which word is of which lock |
//! | [`clients`] | a node: what it answers for all its programs, also for those that have ended |

pub mod clients;
pub mod table;

use crate::layout::{LINE_LEN, WORD_LEN};
use crate::words::Exchange;
use hanare_protocol::limits::LEASE_COUNT;
use hanare_protocol::lock::Recalled;
use hanare_protocol::lock::lease::{LeaseEvent, LeasePhase, LeaseWord};

const LINE_WORDS: usize = LINE_LEN / WORD_LEN;

/// Bytes of the words of one program.
pub const LEASES_LEN: usize = (LINE_WORDS + LEASE_COUNT) * WORD_LEN;

/// The words of a program's leases.
#[derive(Clone, Debug)]
pub struct Leases<W> {
    words: W,
    /// Word index of the first.
    base: usize,
}

impl<W: Exchange> Leases<W> {
    /// Leases that begin at a word of this memory: at first all of them are zero.
    pub fn new(words: W, base: usize) -> Leases<W> {
        Leases { words, base }
    }

    /// The memory that they lie in.
    pub fn words(&self) -> &W {
        &self.words
    }

    fn at(&self, slot: usize) -> usize {
        self.base + LINE_WORDS + slot % LEASE_COUNT
    }

    /// True if leases hold at that time. The caller asks after it took a lock, and before it keeps one.
    #[inline]
    pub fn holds(&self, now_ns: u64) -> bool {
        now_ns < self.words.load(self.base)
    }

    /// Node: sets the time until which leases hold.
    pub fn hold_until(&self, until_ns: u64) {
        self.words.store(self.base, until_ns);
    }

    /// Program: begins an empty word for a taking. False where the word is in use.
    pub fn ask(&self, slot: usize, number: u64) -> bool {
        let empty = LeaseWord { number, phase: LeasePhase::Empty };
        let Some(asked) = empty.after(LeaseEvent::Ask).filter(|_| LeaseWord::has_room(number)) else { return false };
        self.words.compare_exchange(self.at(slot), 0, asked.to_word()).is_ok()
    }

    /// Program: the state of a word that it began; `Empty` where it is another taking's.
    #[inline]
    pub fn phase(&self, slot: usize, number: u64) -> LeasePhase {
        let found = LeaseWord::from_word(self.words.load(self.at(slot)));
        if found.number == number { found.phase } else { LeasePhase::Empty }
    }

    /// Program: an event of a word that it began. Returns the state after it; `Err` has the state that does not allow it, `Empty` where the
    /// word is another taking's.
    ///
    /// **Ordering**: a side that finds the state sees all that was stored before. **Cost**: an exchange.
    #[inline]
    pub fn step(&self, slot: usize, number: u64, event: LeaseEvent) -> Result<LeasePhase, LeasePhase> {
        let word = self.at(slot);
        let mut now = self.words.load(word);
        loop {
            let found = LeaseWord::from_word(now);
            if found.number != number {
                return Err(LeasePhase::Empty);
            }
            let Some(next) = found.after(event) else { return Err(found.phase) };
            match self.words.compare_exchange(word, now, next.to_word()) {
                Ok(_) => return Ok(next.phase),
                Err(other) => now = other,
            }
        }
    }

    /// Node: takes back the lease of taking `number`. **Cost**: a look at each word.
    pub fn recall(&self, number: u64) -> Recalled {
        let is_its = |slot: &usize| {
            let word = LeaseWord::from_word(self.words.load(self.at(*slot)));
            word.number == number && word.phase != LeasePhase::Empty
        };
        (0..LEASE_COUNT).find(is_its).map_or(Recalled::Unknown, |slot| self.recall_at(slot, number))
    }

    fn recall_at(&self, slot: usize, number: u64) -> Recalled {
        self.step(slot, number, LeaseEvent::Recall).map_or(Recalled::Unknown, |phase| LeaseWord { number, phase }.recalled())
    }

    /// Node: takes all leases back. Returns the number and the outcome of each. **Cost**: a look at each word.
    pub fn recall_all(&self) -> Vec<(u64, Recalled)> {
        let mut all = Vec::new();
        for slot in 0..LEASE_COUNT {
            let word = LeaseWord::from_word(self.words.load(self.at(slot)));
            if word.phase != LeasePhase::Empty {
                all.push((word.number, self.recall_at(slot, word.number)));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Steps;
    use LeaseEvent::{End, Keep, Lend, Take};
    use LeasePhase::{Asked, Empty, Gone, Held, Kept, Wanted};

    fn both() -> (Steps, Leases<Steps>, Leases<Steps>) {
        let memory = Steps::new(LEASES_LEN + WORD_LEN);
        let node = Leases::new(memory.other_process(), 1);
        (memory.clone(), Leases::new(memory, 1), node)
    }

    #[test]
    fn a_lock_is_kept_and_taken_until_it_is_recalled() {
        let (_, program, node) = both();
        assert!(!program.holds(0));
        node.hold_until(10);
        assert!(program.holds(9) && !program.holds(10));
        assert!(program.ask(3, 7) && !program.ask(3, 8), "it is in use");
        assert_eq!(program.step(3, 7, Take), Err(Asked));
        assert_eq!(program.step(3, 8, Lend), Err(Empty), "it is another's");
        for (event, phase) in [(Lend, Held), (Keep, Kept), (Take, Held), (Keep, Kept)] {
            assert_eq!(program.step(3, 7, event), Ok(phase));
        }
        assert_eq!(node.recall(8), Recalled::Unknown);
        for _ in 0..2 {
            assert_eq!(node.recall(7), Recalled::Kept);
        }
        assert_eq!(program.step(3, 7, Take), Err(Gone));
        assert_eq!(program.step(3, 7, End), Ok(Empty));
        assert_eq!(node.recall(7), Recalled::Unknown);
    }

    #[test]
    fn a_recall_that_overtakes_the_grant_or_finds_the_holder_is_seen_when_the_lock_is_given_back() {
        let (_, program, node) = both();
        assert!(program.ask(0, 0) && program.ask(1, 1) && program.ask(LEASE_COUNT - 1, 77));
        assert!(!program.ask(2, u64::MAX));
        assert_eq!(program.step(1, 1, Lend), Ok(Held));
        let held = |number| (number, Recalled::Held);
        for _ in 0..2 {
            assert_eq!(node.recall_all(), [held(0), held(1), held(77)]);
        }
        assert_eq!(program.step(0, 0, Lend), Ok(Wanted));
        assert_eq!(program.step(0, 0, Keep), Err(Wanted));
        assert_eq!(program.step(1, 1, Keep), Err(Wanted));
        assert_eq!(program.step(1, 1, End), Ok(Empty));
    }

    /// A program's steps with one lock, each an exchange at most.
    fn life(program: &Leases<Steps>) {
        program.ask(5, 9);
        for event in [Lend, Keep, Take, Keep] {
            let _ = program.step(5, 9, event);
        }
    }

    #[test]
    fn a_program_that_dies_at_any_step_held_the_lock_or_kept_it() {
        let outcomes = [Recalled::Unknown, Recalled::Held, Recalled::Held, Recalled::Kept, Recalled::Held, Recalled::Kept];
        for (stores, recalled) in outcomes.into_iter().enumerate() {
            let (memory, program, node) = both();
            memory.stop_after(stores);
            life(&program);
            assert_eq!((node.recall(9), node.recall(9)), (recalled, recalled), "after {stores} stores");
        }
    }

    #[test]
    fn rubbish_in_the_words_is_read_and_written_without_harm() {
        let (memory, program, node) = both();
        for rubbish in [u64::MAX, u64::MAX - 2] {
            for word in 0..LEASES_LEN / WORD_LEN {
                crate::words::Words::store(&memory, 1 + word, rubbish);
            }
            node.recall_all();
            node.recall(u64::MAX);
            node.hold_until(1);
            for slot in [0, LEASE_COUNT - 1, usize::MAX] {
                program.ask(slot, 1);
                let _ = program.step(slot, 1, Take);
            }
        }
    }
}
