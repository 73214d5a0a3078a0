//! Lost disks of keepers: decides when another disk may take the place of one.
//!
//! A keeper's disk has the promises by which keepers agree. A keeper without it could promise the opposite, and what a majority has taken
//! would be lost. So a new disk begins empty, and counts from the record [`Record::DiskReplaced`] on:
//!
//! 1. An operator says that a disk is lost and that no process has it open. The coordinator refuses that while it hears of the keeper.
//! 2. The record is decided by the other keepers. All entries before it are then at a majority without that disk.
//! 3. A keeper that reads the decided record hears nothing more of the old disk. It takes the next disk in that place. So the new disk's vote
//!    counts only for keepers that have the record. These have all entries, too, for which the old disk can have voted.

use super::Coordinator;
use super::records::Record;
use crate::error::{Error, Result};
use crate::wire::control::Answer;
use std::collections::BTreeMap;

/// A keeper, by the knowledge of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeeperDisk {
    /// The name of its disk, if it has told one since the last was lost.
    pub disk: Option<u128>,
    /// True if it was heard of lately, and for the keeper that leads.
    pub is_reached: bool,
}

/// The keepers by address.
pub type KeeperDisks = BTreeMap<String, KeeperDisk>;

impl Coordinator {
    /// The keepers of the pool, as they are now.
    pub fn set_keepers(&mut self, keepers: KeeperDisks) {
        self.keepers = keepers;
    }

    /// Gives a keeper's place to the disk that comes next.
    pub(super) fn replace_disk(&mut self, address: &str) -> Result<Answer> {
        let refuse = |reason: String| {
            Err(Error::BadSetting { key: "the keeper to replace".to_owned(), value: address.to_owned(), reason })
        };
        let Some(keeper) = self.keepers.get(address) else {
            let known: Vec<&str> = self.keepers.keys().map(String::as_str).collect();
            return refuse(match known.is_empty() {
                true => "one node keeps this pool's names; it has no keepers".to_owned(),
                false => format!("the keepers are {}", known.join(", ")),
            });
        };
        if keeper.is_reached {
            return refuse("it answers, so its disk is not lost; end its process first, then wait for 2 s".to_owned());
        }
        // Without a disk it has its place free already.
        if let Some(disk) = keeper.disk.filter(|disk| !self.ledger.lost_disks.contains(disk)) {
            self.record(Record::DiskReplaced { disk });
        }
        Ok(Answer::Ok)
    }
}
