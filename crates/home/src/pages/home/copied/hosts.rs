//! Hosts of a home whose bytes have copies: all holders know them.

use super::super::{HomePages, PageHome, garbage};
use super::{KnownHost, PageWrite};
use hanare_protocol::Result;
use hanare_protocol::copies::{MappingHost, PageChange, PageTable};
use hanare_protocol::id::Rights;
use hanare_protocol::page::membership::{Joiner, Life};
use hanare_protocol::page::{HostId, Returning};
use std::collections::BTreeSet;

impl<H: HomePages> PageHome<H> {
    /// The home of a region in the place of one that was lost. All hosts are asked for their pages first.
    pub fn in_place_of_another(mut self, table: &PageTable, is_lost: impl Fn(&MappingHost) -> bool) -> PageHome<H> {
        let Some(copied) = &mut self.copied else { return self };
        let mut hosts = Vec::new();
        for host in table.hosts() {
            let life = Life { epoch: host.epoch, process: Some(host.process) };
            let MappingHost { key, share, node, rights, readers, .. } = *host;
            let who = Joiner { node, life, address: host.address.clone(), key, readers };
            let (number, _) = self.sharers.join(who, (share, rights), false);
            copied.known.insert(key, KnownHost { share, rights, outcome: Some(Ok(())) });
            hosts.push((number, is_lost(host)));
        }
        let me = self.routes.node();
        self.sharers.begin_return(me, me);
        self.returning = Some(Returning::without_directory(hosts.iter().map(|(host, _)| *host), table.versions().clone()));
        hosts.into_iter().filter(|(_, is_lost)| *is_lost).for_each(|(host, _)| drop(self.on_handed_over(host, true)));
        self
    }

    /// The memberships of its hosts.
    pub fn shares(&self) -> Vec<(u64, HostId)> {
        self.sharers.iter().map(|(host, sharer)| (sharer.share, host)).collect()
    }

    /// A host that is lost, and whose writes are under way, leaves when these have ended. Returns true if it waits.
    pub(in crate::pages) fn loses_later(&mut self, host: HostId) -> bool {
        let Some(copied) = &mut self.copied else { return false };
        copied.coming.remove(&host);
        copied.has_writes_of(host) && {
            copied.losing.insert(host);
            true
        }
    }

    /// Lost hosts whose writes have ended.
    pub fn next_lost(&mut self) -> Option<HostId> {
        let copied = self.copied.as_mut()?;
        let host = copied.losing.iter().copied().find(|host| !copied.has_writes_of(*host))?;
        copied.losing.remove(&host);
        Some(host)
    }

    /// A host has handed over all, and leaves when all holders have its writes. Returns true if it waits for that.
    pub(in crate::pages) fn leaves_later(&mut self, host: HostId) -> bool {
        let Some(copied) = self.copied.as_mut().filter(|copied| copied.has_writes_of(host)) else { return false };
        copied.leaving.insert(host);
        true
    }

    /// The next host that has handed over all, and whose writes all holders have.
    pub fn next_left(&mut self) -> Option<HostId> {
        let copied = self.copied.as_mut()?;
        let host = copied.leaving.iter().copied().find(|host| !copied.has_writes_of(*host))?;
        copied.leaving.remove(&host);
        Some(host)
    }

    /// A host wants to join: all holders are told of it first. Returns its membership when they know; `None` while they are told.
    ///
    /// **Errors**: why they will not.
    pub fn make_known(&mut self, who: &Joiner, rights: Rights, draw: impl FnOnce() -> Result<u64>) -> Result<Option<u64>> {
        let Some(copied) = &mut self.copied else { return draw().map(Some) };
        if let Some(known) = copied.known.get_mut(&who.key).filter(|known| known.rights >= rights) {
            return match known.outcome.take_if(|outcome| outcome.is_err()) {
                Some(failed) => {
                    copied.known.remove(&who.key);
                    failed.map(|()| None)
                }
                None => Ok(known.outcome.is_some().then_some(known.share)),
            };
        }
        let share = match copied.known.get(&who.key) {
            Some(known) => known.share,
            None => draw()?,
        };
        let process = who.life.process.ok_or_else(|| garbage("a host of no process".to_owned()))?;
        let (key, node, epoch, address, readers) = (who.key, who.node, who.life.epoch, who.address.clone(), who.readers);
        copied.known.insert(key, KnownHost { share, rights, outcome: None });
        let host = MappingHost { key, share, node, epoch, process, address, readers, rights };
        copied.write(PageWrite::Hosts(PageChange::Joins(host)));
        Ok(None)
    }

    /// True if holders know a host that has not joined.
    pub fn has_unjoined(&self) -> bool {
        self.copied.as_ref().is_some_and(|copied| copied.known.len() > self.sharers.count())
    }

    /// Hosts that gave up before they were let in, as those that do not wait by their keys. The holders forget them.
    pub fn forget_unjoined(&mut self, waiting: &BTreeSet<u64>) {
        let Some(copied) = self.copied.as_ref().filter(|_| self.returning.is_none()) else { return };
        let gone = copied
            .known
            .iter()
            .filter(|(key, known)| known.outcome.is_some() && !waiting.contains(key) && !self.sharers.knows(**key));
        for key in gone.map(|(key, _)| *key).collect::<Vec<u64>>() {
            self.make_unknown(key);
        }
    }

    /// A host has left: the holders forget it.
    pub(in crate::pages) fn make_unknown(&mut self, key: u64) {
        if let Some(copied) = &mut self.copied
            && copied.known.remove(&key).is_some()
        {
            copied.write(PageWrite::Hosts(PageChange::Leaves { key }));
        }
    }
}
