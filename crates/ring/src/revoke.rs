//! A right that programs use without a message, and that their node takes back. The words say which threads use it at this moment, and
//! how often it was taken back.
//!
//! ```text
//! thread:  slot: one more; barrier; look at the generation; work, or go another way; slot: one less
//! node:    generation: one more; barrier; look at the slots: who is there began before
//! ```
//!
//! Either the thread's look sees the later generation, or the node's look sees the thread: never neither. A slot counts how often it was
//! left, too, so a thread that the node sees there again began later. And it names the region, so a stopped thread delays its own region
//! alone.
//!
//! Threads without a slot of their own share two slots. The node names the slot that they take. While the node waits for threads at one, it
//! names the other. Threads that come one after the other would keep one slot taken for ever.
//!
//! Each command passes the thread's barrier. It is a light one where the node makes the kernel pass a barrier for both sides
//! ([`crate::words`]).
//!
//! A program's stores here speak for this program alone: a lying program harms memory that it may write anyway. A thread that is stopped
//! at its slot is seen there for as long. Slots of a program that has ended are not looked at.

use crate::layout::{LINE_LEN, WORD_LEN};
use crate::words::Exchange;
use hanare_memory::thread_slot;

/// Number of generations. Regions share them, so a program also looks at a right again when that of another region was taken.
pub const GENERATION_COUNT: usize = 64;

const LINE_WORDS: usize = LINE_LEN / WORD_LEN;

/// Word index of a flag: 1 if the node makes other processes pass a barrier.
const BARRIERS: usize = 0;
/// Word index of a number whose lowest bit names the shared slot that threads take.
const TURN: usize = 1;
const GENERATIONS: usize = LINE_WORDS;
const SLOTS: usize = GENERATIONS + GENERATION_COUNT;
/// Slots of threads, and the shared ones.
const SLOT_COUNT: usize = thread_slot::SHARED + 2;

/// Bytes of the words of one program.
pub const REVOKE_LEN: usize = (SLOTS + SLOT_COUNT * LINE_WORDS) * WORD_LEN;

/// Low bits of a slot: number of commands of its thread under way, one inside the other. Above them: how often the slot was left.
const DEPTH: u64 = 0xffff;
const LEFT_ONCE: u64 = DEPTH + 1;

/// Word of a slot: its region, or [`ANY`].
const REGION: usize = 1;
/// Several regions at once.
const ANY: u64 = u64::MAX;

const _: () = assert!(GENERATION_COUNT.is_multiple_of(LINE_WORDS), "slots begin on a line of their own");

/// The words that a program and its node share about rights.
#[derive(Clone, Debug)]
pub struct Revoke<W> {
    words: W,
    /// True if the node's barrier is one for this side, too.
    is_light: bool,
}

/// Regions that a program's threads worked on between two looks of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    /// Regions that slots name: for each thread, that of its last command.
    pub regions: Vec<u64>,
    /// True if there may be others: threads without a slot of their own, or with commands inside commands, have worked.
    pub may_be_others: bool,
}

/// The slots as a look of the node found them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenSlots(Vec<u64>);

/// Threads that were at work when rights were taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered(Vec<(usize, u64)>);

#[inline]
fn generation_at(region: u64) -> usize {
    GENERATIONS + (region % GENERATION_COUNT as u64) as usize
}

#[inline]
fn slot_at(slot: usize) -> usize {
    SLOTS + slot.min(SLOT_COUNT - 1) * LINE_WORDS
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

    /// Announces that the thread of that slot begins a command on a region. The thread looks at the generation afterwards, and before it
    /// touches a byte. Returns the slot for [`Revoke::leave`].
    ///
    /// **Cost**: two stores to a line of its own. A full barrier, unless the node makes it; at a shared slot an exchange.
    #[inline]
    pub fn enter(&self, slot: usize, region: u64) -> usize {
        let slot = if slot < thread_slot::SHARED { slot } else { self.shared_slot() };
        let word = slot_at(slot);
        if slot >= thread_slot::SHARED {
            self.change(word, |now| now.wrapping_add(1));
        } else {
            let now = self.words.load(word);
            let is_only = now & DEPTH == 0 || self.words.load(word + REGION) == region;
            // ORDERING: the region is there before the thread is.
            self.words.store(word + REGION, if is_only { region } else { ANY });
            self.words.store(word, now.wrapping_add(1));
        }
        // ORDERING: pairs with the node's `barrier`: the store is visible to its look at the slots, or our look at the
        // generation sees that it was raised.
        if self.is_light {
            self.words.light_fence()
        } else {
            self.words.fence()
        }
        slot
    }

    /// The shared slot that threads take at this moment.
    fn shared_slot(&self) -> usize {
        thread_slot::SHARED + (self.words.load(TURN) & 1) as usize
    }

    /// Ends the command that [`Revoke::enter`] began at that slot.
    #[inline]
    pub fn leave(&self, slot: usize) {
        let word = slot_at(slot);
        // ORDERING: pairs with the node's look: a node that sees the command done sees what it wrote.
        if slot >= thread_slot::SHARED {
            self.change(word, left);
        } else {
            self.words.store(word, left(self.words.load(word)));
        }
    }

    /// Changes a word that other threads of the process, or of its children, change at the same time.
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

    /// Node: after this, each thread's next look sees the earlier stores, or the node sees the thread at its slot.
    ///
    /// **Cost**: a system call, and an interrupt of each processor that runs a program of the pool: some microseconds.
    pub fn barrier(&self) {
        self.words.heavy_fence();
    }

    /// Node: the threads that are at work on a region, or may be.
    ///
    /// **Cost**: a look at some 100 lines.
    pub fn entered(&self, region: u64) -> Entered {
        let slots = (0..SLOT_COUNT).map(|slot| (slot, self.words.load(slot_at(slot))));
        // If the region read here is that of a later command, the thread has left the earlier one.
        let is_there =
            |slot: usize| slot >= thread_slot::SHARED || [region, ANY].contains(&self.words.load(slot_at(slot) + REGION));
        Entered(slots.filter(|(slot, word)| word & DEPTH != 0 && is_there(*slot)).collect())
    }

    /// Node: the regions that threads have worked on since the look before. A program may lie about them.
    ///
    /// **Cost**: a look at some 100 lines.
    pub fn worked(&self, seen: &mut SeenSlots) -> Worked {
        seen.0.resize(SLOT_COUNT, 0);
        let mut worked = Worked::default();
        for (slot, before) in seen.0.iter_mut().enumerate() {
            let now = self.words.load(slot_at(slot));
            if std::mem::replace(before, now) == now && now & DEPTH == 0 {
                continue;
            }
            match self.words.load(slot_at(slot) + REGION) {
                region if slot < thread_slot::SHARED && region != ANY => worked.regions.push(region),
                _ => worked.may_be_others = true,
            }
        }
        worked
    }

    /// If the node waits for the shared slot in use and the other one is empty, it sends new threads there.
    pub fn have_left(&self, entered: &mut Entered) -> bool {
        entered.0.retain(|(slot, then)| {
            let now = self.words.load(slot_at(*slot));
            now & DEPTH != 0 && now / LEFT_ONCE == then / LEFT_ONCE
        });
        let (taken, shared) = (self.shared_slot(), [thread_slot::SHARED, thread_slot::SHARED + 1]);
        let is_empty = |slot: &usize| self.words.load(slot_at(*slot)) & DEPTH == 0;
        if entered.0.iter().any(|(slot, _)| *slot == taken) && shared.iter().filter(|slot| **slot != taken).all(is_empty) {
            self.words.store(TURN, self.words.load(TURN).wrapping_add(1));
        }
        entered.0.is_empty()
    }
}

/// A slot with one command less.
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
    fn threads_that_take_turns_at_a_shared_slot_keep_nobody_waiting() {
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
    fn who_is_stopped_at_a_shared_slot_is_waited_for_while_others_come_and_go() {
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
    fn a_program_that_dies_at_any_store_is_seen_at_its_slot_or_not_at_all() {
        for stores in 0..4 {
            let (memory, node, program) = both();
            memory.stop_after(stores);
            program.enter(0, HERE);
            program.leave(0);
            assert_eq!(node.have_left(&mut node.entered(HERE)), stores != 2);
        }
    }

    #[test]
    fn a_look_finds_the_regions_of_last_commands_since_the_look_before() {
        let (_, node, program) = both();
        let mut seen = SeenSlots::default();
        let work = |slot: usize, region: u64| {
            let at = program.enter(slot, region);
            program.leave(at);
        };
        assert_eq!(node.worked(&mut seen), Worked::default());
        work(3, HERE);
        work(3, HERE + 1);
        work(5, HERE);
        assert_eq!(node.worked(&mut seen), Worked { regions: vec![HERE + 1, HERE], may_be_others: false });
        assert_eq!(node.worked(&mut seen), Worked::default());
        work(thread_slot::SHARED, HERE);
        assert_eq!(node.worked(&mut seen), Worked { regions: vec![], may_be_others: true });
        program.enter(2, HERE);
        for _ in 0..2 {
            assert_eq!(node.worked(&mut seen).regions, [HERE], "it is under way");
        }
    }

    #[test]
    fn rubbish_in_the_words_is_read_and_written_without_harm() {
        let (memory, node, program) = both();
        for word in 0..REVOKE_LEN / WORD_LEN {
            crate::words::Words::store(&memory, word, u64::MAX);
        }
        node.revoke(HERE);
        assert!(node.worked(&mut SeenSlots::default()).may_be_others);
        let mut entered = node.entered(HERE);
        assert_eq!(entered.0.len(), SLOT_COUNT);
        for slot in 0..SLOT_COUNT {
            let slot = program.enter(slot, HERE);
            program.leave(slot);
        }
        node.have_left(&mut entered);
    }
}
