//! The reign of one keeper: numbers its batches, and decides which passes of its coordinator may be told, and when the reign is over.
//!
//! A pass with records is a batch of the log. It may be told when the batch is decided. A pass without records waits for a round of questions
//! ([`LeaderRounds`](super::LeaderRounds)). A batch behind it proves as much.

use super::commit::BatchNumber;
use super::records::Record;
use super::reign::{Batch, Reign};
use std::collections::VecDeque;

/// Time after which a reign ends whose batch no majority has. Nodes then hear that there is no coordinator.
const STALL_MS: u64 = 2_000;

/// Part of a keeper in its reign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Another keeper leads, or nobody.
    None,
    /// Its reign's first batch is not decided yet.
    Begins,
    /// The reign of this keeper.
    Reigns(Reign),
}

/// A pass of the coordinator of a reign, until it may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Its batch has that number.
    Batch(u64),
    /// Without records: a round proves that this keeper still leads.
    Round(u64),
}

/// The reign of the keeper here.
#[derive(Clone, Debug)]
pub struct OwnReign {
    reign: Reign,
    /// The number of the next batch.
    next: u64,
    /// Number of batches that are decided.
    decided: u64,
    /// Passes that wait, in order.
    passes: VecDeque<Pass>,
    /// Number of passes that may be told.
    told: u64,
    /// Since when a pass waits while none may be told.
    since_ms: u64,
}

impl OwnReign {
    /// A reign begins. Returns its first batch, to be appended.
    pub fn begin(reign: Reign, now_ms: u64) -> (OwnReign, Batch) {
        let mut ours = OwnReign { reign, next: 0, decided: 0, passes: VecDeque::new(), told: 0, since_ms: now_ms };
        let (_, first) = ours.append(Vec::new(), false, now_ms);
        (ours, first)
    }

    /// Its name.
    pub fn reign(&self) -> Reign {
        self.reign
    }

    /// The keeper's part, while the reign is not over.
    pub fn rule(&self) -> Rule {
        if self.decided == 0 { Rule::Begins } else { Rule::Reigns(self.reign) }
    }

    /// True if the reign is over: a later one is today's, or a pass waits for too long.
    pub fn is_over(&self, today: Reign, now_ms: u64) -> bool {
        let is_stalled = self.waits() && now_ms.saturating_sub(self.since_ms) > STALL_MS;
        is_stalled || today > self.reign
    }

    /// A pass with records. Returns its number, and the batch to append. One that is not appended leaves a gap: the reign stalls and ends.
    pub fn append(&mut self, records: Vec<Record>, is_whole: bool, now_ms: u64) -> (BatchNumber, Batch) {
        let number = self.next;
        self.next = number.saturating_add(1);
        let pass = self.begin_pass(Pass::Batch(number), now_ms);
        (pass, Batch { reign: self.reign, number, is_whole, records })
    }

    /// A pass without records, which that round proves. Returns its number.
    pub fn ask(&mut self, round: u64, now_ms: u64) -> BatchNumber {
        self.begin_pass(Pass::Round(round), now_ms)
    }

    fn begin_pass(&mut self, pass: Pass, now_ms: u64) -> BatchNumber {
        if !self.waits() {
            self.since_ms = now_ms;
        }
        self.passes.push_back(pass);
        BatchNumber(self.told.saturating_add(self.passes.len() as u64))
    }

    /// A batch that counts was read in the decided log; `proved` is the last round that a majority answered.
    pub fn on_decided(&mut self, batch: &Batch, proved: u64, now_ms: u64) {
        if batch.reign == self.reign {
            self.decided = batch.number.saturating_add(1);
            self.settle(proved, now_ms);
        }
    }

    /// Passes go whose batches are decided, or whose rounds are over. A batch behind a pass proves as much as a round.
    pub fn settle(&mut self, proved: u64, now_ms: u64) {
        let is_decided = |pass: &Pass| matches!(pass, Pass::Batch(number) if *number < self.decided);
        let behind = self.passes.iter().rposition(is_decided).map_or(0, |at| at.saturating_add(1));
        let may_go = |pass: &Pass| matches!(pass, Pass::Round(round) if *round <= proved);
        let more = self.passes.iter().skip(behind).take_while(|pass| may_go(pass)).count();
        let count = behind.saturating_add(more);
        if count > 0 {
            self.passes.drain(..count);
            (self.told, self.since_ms) = (self.told.saturating_add(count as u64), now_ms);
        }
    }

    /// The last pass that may be told, and all before it.
    pub fn committed(&self) -> BatchNumber {
        BatchNumber(self.told)
    }

    /// True if a pass may not be told yet.
    pub fn waits(&self) -> bool {
        !self.passes.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;

    fn begin() -> (OwnReign, Batch) {
        OwnReign::begin(Reign { edition: 1, term: 3, keeper: 1, life: 1, turn: 1 }, 0)
    }

    #[test]
    fn passes_are_told_in_order_by_their_batches_and_by_rounds_of_their_time() {
        let (mut ours, first) = begin();
        assert_eq!((first.number, ours.rule(), ours.committed()), (0, Rule::Begins, BatchNumber(0)));
        ours.on_decided(&first, 0, 10);
        assert_eq!((ours.rule(), ours.committed()), (Rule::Reigns(first.reign), BatchNumber(1)));
        let (two, batch) = ours.append(Vec::new(), false, 20);
        let (three, four) = (ours.ask(1, 20), ours.ask(2, 20));
        assert_eq!((two, three, four), (BatchNumber(2), BatchNumber(3), BatchNumber(4)));
        ours.settle(1, 30);
        assert_eq!(ours.committed(), BatchNumber(1), "the round says nothing of the batch before it");
        ours.on_decided(&batch, 1, 40);
        assert_eq!((ours.committed(), ours.waits()), (BatchNumber(3), true));
        let (five, last) = ours.append(Vec::new(), false, 50);
        ours.on_decided(&last, 1, 60);
        assert_eq!((ours.committed(), ours.waits()), (five, false), "a batch behind proves as much as a round");
    }

    #[test]
    fn a_reign_is_over_by_a_later_one_and_by_a_pass_that_waits() {
        let (mut ours, first) = begin();
        let later = Reign { term: 4, ..first.reign };
        assert!(ours.is_over(later, 0) && !ours.is_over(first.reign, STALL_MS) && ours.is_over(first.reign, STALL_MS + 1));
        ours.on_decided(&first, 0, STALL_MS);
        assert!(!ours.is_over(first.reign, 9 * STALL_MS), "nothing waits");
        ours.ask(1, 9 * STALL_MS);
        assert!(!ours.is_over(first.reign, 10 * STALL_MS) && ours.is_over(first.reign, 11 * STALL_MS));
    }

    #[test]
    fn a_batch_of_another_reign_decides_nothing() {
        let (mut ours, first) = begin();
        ours.on_decided(&Batch { reign: Reign { turn: 2, ..first.reign }, ..first }, 9, 0);
        assert_eq!((ours.rule(), ours.committed()), (Rule::Begins, BatchNumber(0)));
    }
}
