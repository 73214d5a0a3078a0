//! Records that a keeper's build can read. An older keeper has a file that it can read, or ends. Others let it take no part where it cannot read
//! the log.

use super::Keepers;
use crate::check::{Check, check};
use crate::cluster::process::{address, name};
use crate::cluster::releases::{LAST, ReleaseEvent, needed_by};
use crate::cluster::{Cluster, Defect, Event};
use hanare_protocol::coordinator::Batch;
use hanare_protocol::keeper_list::{KeeperList, KnownKeepers, ListedKeeper};

/// Part of 10,000 first younger records after which some keeper goes back at once.
const BACK_CHANCE: u64 = 5_000;

fn is_younger(batch: &Batch) -> bool {
    needed_by(&batch.records) > LAST
}

impl Keepers {
    fn is_keeper(&self, host: usize) -> bool {
        host < self.count
    }
}

impl Cluster {
    /// The list of keepers, as a leader's coordinator is told it: each is reached.
    pub(in crate::cluster) fn known_keepers(&self) -> KnownKeepers {
        let count = self.keepers.as_ref().map_or(0, |keepers| keepers.count);
        let seat = |host: usize| ListedKeeper { address: address(host), disk: Some(host as u128 + 1) };
        let seats = (0..count).map(|host| (host as u64 + 1, seat(host))).collect();
        KnownKeepers { list: KeeperList { edition: 1, seats }, reached: (1..=count as u64).collect() }
    }

    /// True if an older process of a host would be a keeper, while a younger record may be decided. Its operator waits.
    pub(in crate::cluster) fn is_younger_under_way(&self, host: usize) -> bool {
        let Some(keepers) = self.keepers.as_ref().filter(|keepers| keepers.is_keeper(host)) else { return false };
        keepers.pending.iter().chain(&keepers.late).any(|proposal| is_younger(&proposal.batch))
    }

    /// True if the file of a keeper at that host has younger records.
    pub(in crate::cluster) fn file_is_younger(&self, host: usize) -> bool {
        let keepers = self.keepers.as_ref().filter(|keepers| keepers.is_keeper(host));
        keepers.is_some_and(|keepers| keepers.younger_from.is_some_and(|from| keepers.filed[host] > from))
    }

    /// True if the others let a keeper take part that begins: its build can read all that is decided.
    pub(super) fn can_read(&self, host: usize) -> bool {
        let needs_younger = self.keepers.as_ref().is_some_and(|keepers| needed_by(keepers.truth.records()) > LAST);
        !needs_younger || self.speaks(host) > LAST || self.has(Defect::AnyKeeperReads)
    }

    /// The first younger entry is decided: all keepers can read it. Some host goes back just then.
    pub(super) fn judge_entry(&mut self, batch: &Batch) -> Check {
        let (Some(releases), Some(keepers)) = (&mut self.releases, &mut self.keepers) else { return Ok(()) };
        if keepers.younger_from.is_some() || !is_younger(batch) {
            return Ok(());
        }
        keepers.younger_from = Some(keepers.log.len());
        let older = (0..keepers.count).find(|host| releases.spoke[*host] <= LAST);
        check(older.is_none(), || format!("keeper {older:?} speaks {LAST}, and something younger is decided"))?;
        if releases.dice.chance(BACK_CHANCE) {
            let node = releases.dice.below(keepers.count as u64) as usize;
            self.at(0, Event::Release(ReleaseEvent::Back { node }));
        }
        Ok(())
    }

    /// A keeper has read what it has read: its build can.
    pub(super) fn judge_read(&self, host: usize) -> Check {
        let Some(keepers) = &self.keepers else { return Ok(()) };
        let read = keepers.running.get(&host).map_or(0, |keeper| keeper.read);
        let is_beyond = keepers.younger_from.is_some_and(|from| read > from) && self.speaks(host) <= LAST;
        check(!is_beyond, || format!("{} gets a record of the log that it cannot read", name(host)))
    }
}
