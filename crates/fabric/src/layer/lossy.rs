//! Loses, repeats, delays and corrupts whole messages as they are sent: the part of the fault layer that unreliable lines need.

use super::fault::FaultPlan;
use crate::link::{Link, LinkError};
use hanare_memory::Window;
use hanare_protocol::wire::head::{HEAD_LEN, Head};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::VecDeque;

/// A message with a body of its own.
struct Copied {
    head: Head,
    body: Vec<u8>,
}

impl Copied {
    /// The body as a window. The vector is not touched until the link has sent it.
    fn window(&self) -> Window {
        // SAFETY: it is only read, and kept in `Lossy` until the link has nothing unsent; moving the vector leaves its bytes where
        // they are.
        unsafe { Window::of(&self.body) }
    }
}

/// What is done to messages, and those that are kept for it.
pub(super) struct Lossy {
    plan: FaultPlan,
    /// Its own, so that these faults do not move the others.
    prng: Pcg64,
    /// To be sent after the next message, or at the second look.
    late: VecDeque<(Copied, u32)>,
    /// Given to the link, which may be reading them.
    given: Vec<Copied>,
}

impl Lossy {
    pub(super) fn new(plan: &FaultPlan) -> Lossy {
        Lossy { plan: *plan, prng: Pcg64::seed_from_u64(!plan.seed), late: VecDeque::new(), given: Vec::new() }
    }

    /// Bytes that are late.
    pub(super) fn late_len(&self) -> u64 {
        self.late.iter().map(|(message, _)| (HEAD_LEN + message.body.len()) as u64).sum()
    }

    /// Sends a message, or what becomes of it.
    ///
    /// # Safety
    /// As for [`Link::send`].
    pub(super) unsafe fn send(&mut self, link: &mut impl Link, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        let chances = [self.plan.drop, self.plan.duplicate, self.plan.reorder, self.plan.corrupt];
        // All are drawn each time, so that one chance does not move the others' faults.
        let [drops, duplicates, reorders, corrupts] = chances.map(|chance| self.prng.random_bool(chance));
        let copied = if drops || duplicates || reorders || corrupts { copy(head, body) } else { None };
        let Some(mut copied) = copied else {
            // SAFETY: the caller's promise is passed on.
            unsafe { link.send(head, body) }?;
            return self.send_late(link, 0);
        };
        if drops {
            return Ok(());
        }
        if corrupts && !copied.body.is_empty() {
            let bit = self.prng.random_range(0..copied.body.len() * 8);
            copied.body[bit / 8] ^= 1 << (bit % 8);
        }
        if reorders {
            self.late.push_back((copied, 2));
            return Ok(());
        }
        if duplicates {
            let again = Copied { head: copied.head, body: copied.body.clone() };
            self.give(link, again)?;
        }
        self.give(link, copied)?;
        self.send_late(link, 0)
    }

    /// A look: what has been late for two of them goes, and what the link has sent is forgotten.
    pub(super) fn release(&mut self, link: &mut impl Link) -> Result<(), LinkError> {
        if link.unsent_len() == 0 {
            self.given.clear();
        }
        self.late.iter_mut().for_each(|(_, looks)| *looks = looks.saturating_sub(1));
        self.send_late(link, 1)
    }

    /// Sends what is late: all of it after another message, what has waited long enough at a look.
    fn send_late(&mut self, link: &mut impl Link, look: u32) -> Result<(), LinkError> {
        while self.late.front().is_some_and(|(_, looks)| look == 0 || *looks == 0) {
            let Some((message, _)) = self.late.pop_front() else { break };
            self.give(link, message)?;
        }
        Ok(())
    }

    fn give(&mut self, link: &mut impl Link, message: Copied) -> Result<(), LinkError> {
        // SAFETY: the bytes are kept until the link has sent them; the link is dropped before this.
        unsafe { link.send(&message.head, &[message.window()]) }?;
        self.given.push(message);
        Ok(())
    }
}

/// A copy of a message, where its body is given whole and can be read.
fn copy(head: &Head, body: &[Window]) -> Option<Copied> {
    let len: usize = body.iter().map(|window| window.len()).sum();
    if len as u64 != head.body_len {
        return None;
    }
    let mut bytes = vec![0; len];
    let mut at = 0;
    for window in body {
        window.read_into(&mut bytes[at..at + window.len()]).ok()?;
        at += window.len();
    }
    Some(Copied { head: *head, body: bytes })
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, FaultPlan};
    use crate::conformance::{SHM, Store, body, head, send};
    use crate::link::Link;
    use hanare_protocol::wire::head::Head;

    /// What arrives of `count` messages, sent in pairs, under the plan.
    fn outcome(plan: FaultPlan, count: u64) -> Vec<(Head, Vec<u8>)> {
        let (one, mut other) = SHM.pair();
        let mut one = Fault::over(one, plan).unwrap();
        let mut store = Store::new();
        let bytes: Vec<Vec<u8>> = (0..count).map(|seq| body(seq, 100)).collect();
        for (seq, bytes) in bytes.iter().enumerate() {
            send(&mut one, seq as u64, bytes).unwrap();
            if seq % 2 == 1 {
                for _ in 0..3 {
                    one.progress(&mut Store::new()).unwrap();
                    other.progress(&mut store).unwrap();
                }
            }
        }
        assert_eq!(one.unsent_len(), 0);
        store.messages
    }

    fn seqs(plan: FaultPlan, count: u64) -> Vec<u64> {
        outcome(plan, count).into_iter().map(|(head, _)| head.seq).collect()
    }

    #[test]
    fn messages_are_dropped_repeated_and_late() {
        let none = FaultPlan::none(5);
        assert!(seqs(FaultPlan { drop: 1.0, ..none }, 6).is_empty());
        assert_eq!(seqs(FaultPlan { duplicate: 1.0, ..none }, 3), [0, 0, 1, 1]);
        let some = seqs(FaultPlan { reorder: 0.3, ..none }, 200);
        assert!(some.windows(2).any(|pair| pair[0] > pair[1]), "none was late: {some:?}");
        let mut sorted = some.clone();
        sorted.sort();
        assert_eq!(sorted, (0..200).collect::<Vec<_>>(), "late ones are not lost");
        let some = seqs(FaultPlan { drop: 0.3, ..none }, 200);
        assert!(some.len() < 200 && some.len() > 50 && some.is_sorted(), "{some:?}");
    }

    #[test]
    fn a_corrupt_body_differs_in_one_bit_and_the_sender_s_does_not() {
        let messages = outcome(FaultPlan { corrupt: 1.0, ..FaultPlan::none(5) }, 4);
        assert_eq!(messages.len(), 4);
        for (seq, (got, bytes)) in messages.iter().enumerate() {
            assert_eq!(*got, head(seq as u64, 100));
            let flips: u32 = bytes.iter().zip(body(seq as u64, 100)).map(|(one, other)| (one ^ other).count_ones()).sum();
            assert_eq!(flips, 1);
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_faults() {
        for seed in 0..5 {
            let plan = FaultPlan { drop: 0.1, duplicate: 0.1, reorder: 0.2, corrupt: 0.1, ..FaultPlan::none(seed) };
            assert_eq!(outcome(plan, 40), outcome(plan, 40), "seed {seed}");
        }
    }
}
