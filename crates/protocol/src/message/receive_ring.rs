//! A receive ring is memory at a receiver's host for bodies of one sender. The sender alone gives it out.
//!
//! ```text
//! [ a byte for each of 64 slots | block | block |      free      | block | ... ]
//! ```
//!
//! The sender takes a block without asking. It takes a slot for it, and a *turn*, which is not the value of the slot's byte. The message's
//! header names place, slot and turn. The receiver stores the turn in the byte when it drops the body. So the sender sees that the block is
//! free. A body for which the ring has no room lands in a heap, which costs messages.
//!
//! Bytes in a receive ring are input. A writer of them can have bodies of its sender overwritten, and no others.

use crate::limits::{MESSAGE_RING_LEN_MAX, PAGE_LEN};
use crate::queue::layout::LINE_LEN;
use std::collections::VecDeque;

/// Most blocks of a ring that are taken at a time. Its first line has a byte for each.
pub const SLOT_COUNT: usize = LINE_LEN as usize;

/// Bytes after which a ring is used from its beginning again, if that is free. They are four bodies of 64 KiB, whose pages are touched
/// soon.
const ROUND_LEN: u64 = 256 << 10;

/// Bytes of each sender's ring, where receive memory has `receive_len` bytes and there are `parties`. 0 where it would be too short to use.
pub fn receive_ring_len(receive_len: u64, parties: u32) -> u64 {
    let share = receive_len.checked_div(parties.into()).unwrap_or(0).min(MESSAGE_RING_LEN_MAX);
    let lines = share.checked_div(LINE_LEN).unwrap_or(0);
    // The table, and a body of more than a page.
    if share > LINE_LEN.saturating_add(PAGE_LEN) { lines.saturating_mul(LINE_LEN) } else { 0 }
}

/// Location of a body in a receive ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveLocation {
    /// Its first byte, from the ring's beginning.
    pub at: u64,
    /// The slot of its block, which is where the slot's byte is, too.
    pub slot: u8,
    /// Value of that byte when the block is free.
    pub turn: u8,
}

#[derive(Clone, Copy, Debug)]
struct ReceiveBlock {
    place: ReceiveLocation,
    len: u64,
}

/// A sender's state for its receive ring.
#[derive(Debug)]
pub struct ReceiveRing {
    len: u64,
    /// Taken blocks, the oldest first.
    blocks: VecDeque<ReceiveBlock>,
    /// Value of each slot's byte at the last look.
    turns: [u8; SLOT_COUNT],
    /// End of the block that was taken last.
    end: u64,
}

impl ReceiveRing {
    /// A ring of `len` zero bytes.
    pub fn new(len: u64) -> ReceiveRing {
        ReceiveRing { len, blocks: VecDeque::new(), turns: [0; SLOT_COUNT], end: LINE_LEN }
    }

    /// Room for a body; `None` where there is none now.
    pub fn take(&mut self, body_len: u64) -> Option<ReceiveLocation> {
        let len = body_len.max(1).checked_next_multiple_of(LINE_LEN)?;
        let at = self.room(len)?;
        let slot = (0..SLOT_COUNT).find(|slot| self.blocks.iter().all(|block| usize::from(block.place.slot) != *slot))?;
        let place = ReceiveLocation { at, slot: slot as u8, turn: self.turns[slot].wrapping_add(1) };
        self.blocks.push_back(ReceiveBlock { place, len });
        self.end = at.saturating_add(len);
        Some(place)
    }

    /// A place of `len` bytes beside the taken blocks: behind the last, and round after [`ROUND_LEN`]. A block that was just dropped is
    /// in its receiver's cache, and a write there takes half as long again. The whole of a long ring would take more of the caches.
    fn room(&self, len: u64) -> Option<u64> {
        let fits = |at: u64, limit: u64| at.checked_add(len).is_some_and(|end| end <= limit);
        let round = self.len.min(ROUND_LEN);
        let (Some(first), Some(last)) = (self.blocks.front(), self.blocks.back()) else {
            let at = if fits(self.end, round) { self.end } else { LINE_LEN };
            return fits(at, self.len).then_some(at);
        };
        let (begin, end) = (first.place.at, last.place.at.saturating_add(last.len));
        match begin <= last.place.at {
            true if fits(end, round) => Some(end),
            true if fits(LINE_LEN, begin) => Some(LINE_LEN),
            true => fits(end, self.len).then_some(end),
            // Taken blocks go round the ring's end.
            false => fits(end, begin).then_some(end),
        }
    }

    /// Takes note of the slots' bytes: blocks are free whose turns they are.
    pub fn look(&mut self, bytes: &[u8; SLOT_COUNT]) {
        let turns = &mut self.turns;
        self.blocks.retain(|ReceiveBlock { place, .. }| {
            let is_free = bytes[usize::from(place.slot)] == place.turn;
            if is_free {
                turns[usize::from(place.slot)] = place.turn;
            }
            !is_free
        });
    }

    /// A block of which nobody heard is free.
    pub fn give_back(&mut self, place: ReceiveLocation) {
        self.blocks.retain(|block| block.place != place);
    }

    /// True if no block is taken.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rings_share_the_receive_memory_and_are_not_too_short() {
        assert_eq!(receive_ring_len(1 << 20, 2), 1 << 19);
        assert_eq!(receive_ring_len(1 << 30, 2), MESSAGE_RING_LEN_MAX);
        assert_eq!(receive_ring_len(100_000, 3), 33_280);
        assert_eq!(receive_ring_len(8192, 2), 0);
        assert_eq!(receive_ring_len(8192, 0), 0);
    }

    #[test]
    fn a_free_block_is_used_again_with_another_turn() {
        let mut ring = ReceiveRing::new(1024);
        let first = ring.take(500).unwrap();
        assert_eq!(first, ReceiveLocation { at: 64, slot: 0, turn: 1 });
        assert_eq!(ring.take(500), None, "no room beside it");
        let mut bytes = [0; SLOT_COUNT];
        ring.look(&bytes);
        assert!(!ring.is_empty());
        bytes[0] = 1;
        ring.look(&bytes);
        assert_eq!(ring.take(900), Some(ReceiveLocation { at: 64, slot: 0, turn: 2 }));
        // Its byte has the turn of before.
        ring.look(&bytes);
        assert!(!ring.is_empty());
    }

    #[test]
    fn a_block_is_used_again_after_a_round() {
        let mut ring = ReceiveRing::new(4 * ROUND_LEN);
        let len = ROUND_LEN / 4;
        let mut places = Vec::new();
        for turn in 1..=7 {
            let place = ring.take(len).unwrap();
            let mut bytes = [0; SLOT_COUNT];
            bytes[usize::from(place.slot)] = place.turn;
            ring.look(&bytes);
            assert!(ring.is_empty() && place.turn == turn);
            places.push(place.at);
        }
        // The table is in the first line.
        assert_eq!(places[..3], [LINE_LEN, LINE_LEN + len, LINE_LEN + 2 * len]);
        assert_eq!(places[3..6], places[..3]);
        assert_eq!(ring.take(2 * ROUND_LEN).map(|place| place.at), Some(LINE_LEN), "longer than a round");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u64),
        /// The receiver is done with one.
        Drop(prop::sample::Index),
        Look,
        GiveBack(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..3000).prop_map(Step::Take),
            any::<prop::sample::Index>().prop_map(Step::Drop),
            Just(Step::Look),
            any::<prop::sample::Index>().prop_map(Step::GiveBack),
        ]
    }

    proptest! {
        /// Blocks that anybody may still read never overlap, and lie in the ring beyond the table. All of it is free in the end.
        #[test]
        fn what_is_read_is_not_given_out(steps in prop::collection::vec(step(), 1..200)) {
            const LEN: u64 = 8192;
            let mut ring = ReceiveRing::new(LEN);
            let mut bytes = [0u8; SLOT_COUNT];
            let mut read: Vec<(ReceiveLocation, u64)> = Vec::new();
            for step in steps {
                match step {
                    Step::Take(len) => {
                        if let Some(place) = ring.take(len) {
                            prop_assert!(place.at >= LINE_LEN && place.at + len <= LEN && place.at % LINE_LEN == 0);
                            for (other, other_len) in &read {
                                let is_apart = place.at + len.max(1) <= other.at || other.at + other_len <= place.at;
                                prop_assert!(is_apart && other.slot != place.slot, "{:?} {:?}", place, other);
                            }
                            prop_assert!(bytes[usize::from(place.slot)] != place.turn);
                            read.push((place, len.max(1)));
                        }
                    }
                    Step::Drop(index) if !read.is_empty() => {
                        let (place, _) = read.swap_remove(index.index(read.len()));
                        bytes[usize::from(place.slot)] = place.turn;
                    }
                    Step::GiveBack(index) if !read.is_empty() => {
                        ring.give_back(read.swap_remove(index.index(read.len())).0);
                    }
                    Step::Look => ring.look(&bytes),
                    Step::Drop(_) | Step::GiveBack(_) => {}
                }
            }
            read.iter().for_each(|(place, _)| bytes[usize::from(place.slot)] = place.turn);
            ring.look(&bytes);
            prop_assert!(ring.is_empty());
            prop_assert!(ring.take(LEN - LINE_LEN).is_some());
        }
    }
}
