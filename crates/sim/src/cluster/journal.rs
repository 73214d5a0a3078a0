//! The coordinator's journal: batches that are committed at once or later. When the coordinator dies in between, some of them are kept.

use super::{Cluster, Event};
use crate::check::Check;
use hanare_protocol::coordinator::{BatchNumber, Commits, Record};
use std::collections::VecDeque;
use std::convert::Infallible;

/// The journal, which outlives the coordinator.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Records that are committed.
    pub records: Vec<Record>,
    committed: BatchNumber,
    /// The last batch that may be committed by now.
    due: BatchNumber,
    /// Batches that are not committed, in order.
    pending: VecDeque<Vec<Record>>,
}

impl Journal {
    /// The last batch.
    fn last(&self) -> BatchNumber {
        BatchNumber(self.committed.0 + self.pending.len() as u64)
    }

    /// True if some batch is not committed.
    pub fn is_behind(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The journals that may be left when the coordinator is gone.
    pub fn possible(&self) -> impl Iterator<Item = impl Iterator<Item = Record> + '_> {
        (0..=self.pending.len()).map(|kept| self.records.iter().chain(self.pending.iter().take(kept).flatten()).cloned())
    }

    /// The next batch is committed, if it is time; returns its records.
    fn commit(&mut self) -> Option<Vec<Record>> {
        let batch = if self.committed < self.due { self.pending.pop_front()? } else { return None };
        self.committed.0 += 1;
        self.records.extend(batch.iter().cloned());
        Some(batch)
    }
}

impl Commits for Journal {
    type Error = Infallible;

    fn append(&mut self, records: Vec<Record>) -> Result<BatchNumber, Infallible> {
        if !records.is_empty() {
            self.pending.push_back(records);
        }
        Ok(self.last())
    }

    fn committed(&self) -> BatchNumber {
        self.committed
    }
}

impl Cluster {
    /// The journal has news: batches are committed some time after they were appended.
    pub(super) fn plan_commits(&mut self) {
        let last = self.journal.last();
        let Some(home) = self.home_mut().filter(|home| home.planned < last) else { return };
        let life = home.life;
        home.planned = last;
        match self.course.is_rough.then(|| self.course.dice.pick(&[0, 0, 0, 1, 20, 400])) {
            None | Some(0) => self.journal.due = last,
            Some(after) => {
                self.count("commits that came late");
                self.at(after, Event::Commit { life, through: last.0 });
            }
        }
    }

    pub(super) fn on_commit(&mut self, life: u64, through: u64) -> Check {
        if self.home().is_none_or(|home| home.life != life) {
            return Ok(());
        }
        self.journal.due = self.journal.due.max(BatchNumber(through));
        self.drain_home(self.home_at)
    }

    /// Commits the next batch that is due. Outputs behind it are acted on before the next one, so that the model knows no more than they.
    pub(super) fn commit_next(&mut self) -> Result<bool, String> {
        let Some(batch) = self.journal.commit() else { return Ok(false) };
        self.checks.begin_batch(self.course.now_ms);
        for record in &batch {
            self.checks.on_record(record)?;
            self.count("records");
        }
        self.on_journaled(&batch)?;
        self.note_homes(&batch);
        Ok(true)
    }

    /// The coordinator is gone. Of the batches that were not committed the first few are kept, or none.
    pub(super) fn settle_journal(&mut self) -> Check {
        let kept = self.course.dice.between(0, self.journal.pending.len() as u64);
        self.journal.due = BatchNumber(self.journal.committed.0 + kept);
        while self.commit_next()? {}
        if self.journal.is_behind() {
            self.count("batches lost with their coordinator");
        }
        self.journal.pending.clear();
        Ok(())
    }

    /// Sometimes the journal is replaced by its snapshot.
    pub(super) fn compact_sometimes(&mut self) {
        if let Some(home) = self.homes.get(&self.home_at)
            && self.course.is_rough
            && !self.journal.is_behind()
            && self.course.dice.chance(20)
        {
            self.journal.records = home.coordinator.snapshot();
            self.count("journals compacted");
        }
    }
}
