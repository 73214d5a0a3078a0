//! Messages between two nodes arrive once each, in any order, whatever their connections lose or repeat; pages need no more.
//!
//! A courier stands at each end of a pair of lives of nodes. Messages are numbered, and the other end confirms those that it has heard.
//! Unconfirmed ones are sent again over a new connection, and from time to time. A courier ends with one of the two lives.

use crate::id::Incarnation;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Numbers that one end has heard: all up to one, and some beyond.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Receipt {
    /// All numbers up to this, counted from 1.
    pub up_to: u64,
    /// Numbers heard beyond, in order; few, because the gap fills up.
    pub beyond: Vec<u64>,
}

/// A pair's end.
///
/// **Cost**: what is sent stays here until it is confirmed. An owner that bounds it asks [`Courier::unconfirmed_count`] before it begins
/// something new. No allocation for messages that are heard in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Courier<M> {
    sent: u64,
    unconfirmed: BTreeMap<u64, M>,
    heard: Receipt,
    beyond: BTreeSet<u64>,
    /// Messages that were heard and are not to be confirmed yet.
    held: BTreeSet<u64>,
    /// Messages that arrived since the last receipt.
    owes: u32,
}

impl<M> Default for Courier<M> {
    fn default() -> Courier<M> {
        Courier {
            sent: 0,
            unconfirmed: BTreeMap::new(),
            heard: Receipt::default(),
            beyond: BTreeSet::new(),
            held: BTreeSet::new(),
            owes: 0,
        }
    }
}

impl<M> Courier<M> {
    /// Numbers a message, and keeps it until it is confirmed.
    pub fn send(&mut self, message: M) -> u64 {
        self.sent += 1;
        self.unconfirmed.insert(self.sent, message);
        self.sent
    }

    /// Messages that may not have been heard, the oldest first. The driver sends them again over a new connection, or after a while without
    /// confirmation.
    pub fn unconfirmed(&self) -> impl Iterator<Item = (u64, &M)> {
        self.unconfirmed.iter().map(|(number, message)| (*number, message))
    }

    /// Number of unconfirmed messages.
    pub fn unconfirmed_count(&self) -> usize {
        self.unconfirmed.len()
    }

    /// A message of the other end arrives. Returns true if it is heard for the first time; the caller drops a repetition.
    pub fn hear(&mut self, number: u64) -> bool {
        self.owes = self.owes.saturating_add(1);
        if number <= self.heard.up_to {
            return false;
        }
        if number > self.heard.up_to + 1 {
            return self.beyond.insert(number);
        }
        self.heard.up_to = number;
        while self.beyond.first() == Some(&(self.heard.up_to + 1)) {
            self.beyond.pop_first();
            self.heard.up_to += 1;
        }
        true
    }

    /// A message that was heard is not confirmed before [`Courier::let_go`]: the other end keeps it as long.
    pub fn hold(&mut self, number: u64) {
        self.held.insert(number);
    }

    /// A message is held no more.
    pub fn let_go(&mut self, number: u64) {
        self.held.remove(&number);
    }

    /// The receipt for the other end, if something arrived after the last one. It goes with the next message, or by itself after a while.
    pub fn receipt(&mut self) -> Option<Receipt> {
        self.receipt_after(1)
    }

    /// [`Courier::receipt`], if that many messages arrived after the last one.
    pub fn receipt_after(&mut self, count: u32) -> Option<Receipt> {
        let is_due = self.owes >= count.max(1);
        self.owes = if is_due { 0 } else { self.owes };
        is_due.then(|| {
            let up_to = self.held.first().map_or(self.heard.up_to, |held| self.heard.up_to.min(held.saturating_sub(1)));
            let beyond = self.beyond.iter().copied().filter(|number| !self.held.contains(number)).collect();
            Receipt { up_to, beyond }
        })
    }

    /// Takes a receipt of the other end. Receipts may be lost, repeated and overtaken.
    pub fn confirm(&mut self, receipt: &Receipt) {
        self.unconfirmed = self.unconfirmed.split_off(&receipt.up_to.saturating_add(1));
        for number in &receipt.beyond {
            self.unconfirmed.remove(number);
        }
    }
}

/// Decides whether a node that is reached again is the one that was talked to before.
///
/// Another life at the same address means that the life before is over, and its state is gone. Messages to the old life would reach one
/// that knows nothing of them, and nobody would answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answering(Option<Incarnation>);

impl Answering {
    /// The node names the life that answers. Returns true if that is another life than before.
    pub fn hear(&mut self, life: Incarnation) -> bool {
        self.0.replace(life).is_some_and(|before| before != life)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn another_life_is_known() {
        let mut answering = Answering::default();
        assert!(!answering.hear(Incarnation(1)), "the first");
        assert!(!answering.hear(Incarnation(1)), "the same");
        assert!(answering.hear(Incarnation(2)));
        assert!(!answering.hear(Incarnation(2)));
    }

    proptest! {
        #[test]
        fn every_message_is_heard_once(steps in prop::collection::vec((0..5u8, any::<prop::sample::Index>()), 1..300)) {
            let (mut here, mut there) = (Courier::default(), Courier::<u64>::default());
            // Messages on the wire: each may arrive, arrive again, or get lost.
            let (mut wire, mut receipts, mut heard, mut sent) = (Vec::new(), Vec::new(), BTreeSet::new(), 0u64);
            for (step, index) in steps {
                match step {
                    0 => {
                        sent += 1;
                        wire.push((here.send(sent), sent));
                    }
                    1 | 2 if !wire.is_empty() => {
                        let at = index.index(wire.len());
                        let (number, message) = if step == 1 { wire.swap_remove(at) } else { wire[at] };
                        prop_assert_eq!(there.hear(number), heard.insert(message));
                    }
                    3 => receipts.extend(there.receipt()),
                    _ if !receipts.is_empty() => here.confirm(&receipts[index.index(receipts.len())]),
                    _ => drop(wire.pop()),
                }
                prop_assert!(here.unconfirmed().all(|(_, message)| *message <= sent));
            }
            let again: Vec<(u64, u64)> = here.unconfirmed().map(|(number, message)| (number, *message)).collect();
            for (number, message) in again {
                prop_assert_eq!(there.hear(number), heard.insert(message));
            }
            prop_assert!(heard.iter().copied().eq(1..=sent), "all have arrived");
            here.confirm(&there.receipt().unwrap_or(Receipt { up_to: sent, beyond: Vec::new() }));
            prop_assert_eq!(here.unconfirmed_count(), 0);
        }
    }
}
