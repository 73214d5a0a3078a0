//! Invariants of each writer's blocks, whatever happens to connections and programs.

use super::block::Block;
use crate::check::{Check, check};
use hanare_protocol::queue::PortId;
use std::collections::BTreeMap;

/// A naive account of every writer's life.
#[derive(Debug, Default)]
pub(super) struct Judge {
    writers: BTreeMap<PortId, Account>,
}

#[derive(Debug, Default)]
struct Account {
    /// The number of its queue's home.
    home: usize,
    /// Blocks that count.
    accepted: u64,
    /// Blocks that were read and freed.
    freed: u64,
}

impl Judge {
    /// A writer was told, or would have been, that so many of its blocks count.
    pub fn on_appended(&mut self, home: usize, writer: PortId, accepted: u64) {
        let account = self.writers.entry(writer).or_default();
        (account.home, account.accepted) = (home, accepted);
    }

    /// A block was read and freed.
    pub fn on_freed(&mut self, block: Block) -> Check {
        let account = self.writers.entry(block.writer).or_default();
        account.freed += 1;
        let (freed, accepted) = (account.freed, account.accepted);
        check(block.number == freed, || format!("{block:?} was read in place of number {freed}"))?;
        check(freed <= accepted, || format!("{block:?} was read, and {accepted} count"))
    }

    /// A program saw a block after another of the same writer in one go.
    pub fn on_seen(before: Option<u64>, block: Block) -> Check {
        let follows = before.is_none_or(|before| block.number == before + 1);
        check(follows, || format!("{block:?} was seen after number {before:?}"))
    }

    /// A writer is told what counts: never less than it was told before.
    pub fn on_told(known: u64, accepted: u64) -> Check {
        check(accepted >= known, || format!("{accepted} blocks count where {known} did"))
    }

    /// A home has died, and what it held is gone.
    pub fn on_home_death(&mut self, home: usize) {
        self.writers.retain(|_, account| account.home != home);
    }

    /// All is quiet: every block that counts was read.
    pub fn at_rest(&self, waiting: u64) -> Check {
        check(waiting == 0, || format!("{waiting} blocks were never read"))?;
        self.writers.iter().try_for_each(|(writer, account)| {
            check(account.accepted == account.freed, || format!("of {writer:?}'s blocks {account:?}"))
        })
    }
}
