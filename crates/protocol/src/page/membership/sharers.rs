//! The hosts that map a region, as one of its homes knows them.
//!
//! A number is not used twice, except the home's own host's: a host that left leaves a hole. A host that joins again by the same key is
//! the same sharer. A host that joins by another key has begun again, and its earlier sharer is gone.
//!
//! A sharer that leaves while pages which it passed on are on their way *drains*. Their receivers may ask for them again, and the home
//! would look for the page at the wrong host.

use super::life::{Life, Over};
use super::table::{SHARER, SharerEvent, SharerPhase};
use crate::id::{NodeId, Rights};
use crate::limits::ASK_AGAIN_MS;
use crate::page::hosts::HostId;
use crate::table;
use std::collections::BTreeSet;

/// A host that wants to join.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Joiner {
    /// Its node.
    pub node: NodeId,
    /// Its life.
    pub life: Life,
    /// Its network address.
    pub address: String,
    /// Its key in messages.
    pub key: u64,
    /// The user whose programs it shares the region with, where they only read it.
    pub readers: Option<u32>,
}

/// A host that maps the region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sharer {
    /// The host.
    pub who: Joiner,
    /// The number of its membership.
    pub share: u64,
    /// Its rights.
    pub rights: Rights,
    /// The others that it knows.
    knows: BTreeSet<HostId>,
    phase: SharerPhase,
    /// When it was asked last by a home that is back.
    asked_ms: Option<u64>,
}

/// The hosts that map a region at one home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sharers {
    own: HostId,
    /// Indexed by number.
    hosts: Vec<Option<Sharer>>,
}

impl Sharers {
    /// No hosts; `own` is the number of the home's own host, 0.
    pub fn new(own: HostId) -> Sharers {
        Sharers { own, hosts: vec![None; usize::from(own.0) + 1] }
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (HostId, &Sharer)> {
        self.hosts.iter().enumerate().filter_map(|(at, sharer)| Some((HostId(at as u16), sharer.as_ref()?)))
    }

    /// The host of a number.
    pub fn get(&self, host: HostId) -> Option<&Sharer> {
        self.hosts.get(usize::from(host.0))?.as_ref()
    }

    /// True if no host maps the region.
    pub fn is_empty(&self) -> bool {
        self.hosts.iter().all(Option::is_none)
    }

    /// The number of hosts.
    pub fn count(&self) -> usize {
        self.hosts.iter().flatten().count()
    }

    /// True if the numbers for hosts are used up.
    pub fn is_full(&self) -> bool {
        self.hosts.len() > usize::from(u16::MAX)
    }

    /// Takes a host in, by a membership that was drawn for it. Returns its number and the membership that it has.
    pub fn join(&mut self, who: Joiner, (share, rights): (u64, Rights), is_own: bool) -> (HostId, u64) {
        let known = self.iter().find(|(_, sharer)| sharer.who.key == who.key).map(|(host, _)| host);
        if let Some(host) = known
            && let Some(sharer) = &mut self.hosts[usize::from(host.0)]
        {
            sharer.rights = sharer.rights.max(rights);
            sharer.take(SharerEvent::Join);
            return (host, sharer.share);
        }
        let phase = table::next(SHARER, SharerPhase::Nobody, SharerEvent::Join).expect("anybody may join");
        let sharer = Some(Sharer { who, share, rights, knows: BTreeSet::new(), phase, asked_ms: None });
        if is_own {
            self.hosts[usize::from(self.own.0)] = sharer;
            return (self.own, share);
        }
        self.hosts.push(sharer);
        (HostId(self.hosts.len() as u16 - 1), share)
    }

    /// The hosts by which the node that joins was known before.
    pub fn earlier(&self, who: &Joiner) -> Vec<HostId> {
        let was = |sharer: &Sharer| {
            sharer.who.key != who.key && (sharer.who.life.epoch != who.life.epoch || sharer.who.readers == who.readers)
        };
        let is_other = |(host, sharer): &(HostId, &Sharer)| *host != self.own && sharer.who.node == who.node && was(sharer);
        self.iter().filter(is_other).map(|(host, _)| host).collect()
    }

    /// The hosts of those lives of a node that are over.
    pub fn over(&self, node: NodeId, over: Over) -> Vec<HostId> {
        let is_over = |sharer: &Sharer| sharer.who.node == node && sharer.who.life.is_over(over);
        self.iter().filter(|(_, sharer)| is_over(sharer)).map(|(host, _)| host).collect()
    }

    /// True if a life of the node that is not over maps the region.
    pub fn has_live(&self, node: NodeId, over: Over) -> bool {
        self.iter().any(|(_, sharer)| sharer.who.node == node && !sharer.who.life.is_over(over))
    }

    /// True if a host has that key.
    pub fn knows(&self, key: u64) -> bool {
        self.iter().any(|(_, sharer)| sharer.who.key == key)
    }

    /// A host has let go of everything. Returns it if it goes. While pages that it passed on are under way it stays, in
    /// [`Sharers::draining`], until the next call.
    pub fn leave(&mut self, host: HostId, is_passing_on: bool) -> Option<Sharer> {
        let event = if is_passing_on { SharerEvent::LeaveEarly } else { SharerEvent::Leave };
        self.end(host, event)
    }

    /// A host is lost with its node. Returns it.
    pub fn lose(&mut self, host: HostId) -> Option<Sharer> {
        self.end(host, SharerEvent::Lose)
    }

    fn end(&mut self, host: HostId, event: SharerEvent) -> Option<Sharer> {
        let slot = self.hosts.get_mut(usize::from(host.0))?;
        let is_over = slot.as_mut()?.take(event) && slot.as_ref()?.phase == SharerPhase::Nobody;
        let gone = slot.take_if(|_| is_over)?;
        if host == self.own {
            // When it comes again it keeps its number, but not its key.
            for other in self.hosts.iter_mut().flatten() {
                other.knows.remove(&host);
            }
        }
        Some(gone)
    }

    /// The hosts that leave when what they passed on has come.
    pub fn draining(&self) -> impl Iterator<Item = HostId> {
        self.iter().filter(|(_, sharer)| sharer.phase == SharerPhase::Draining).map(|(host, _)| host)
    }

    /// The home's node was taken for lost under the number `was`, and is back as `is`. All hosts are asked for their pages.
    pub fn begin_return(&mut self, was: NodeId, is: NodeId) {
        for sharer in self.hosts.iter_mut().flatten() {
            if sharer.who.node == was {
                sharer.who.node = is;
            }
            sharer.take(SharerEvent::Return);
            sharer.asked_ms = None;
        }
    }

    /// Hosts that have not replied to the returned home.
    pub fn awaited(&self) -> impl Iterator<Item = HostId> {
        self.iter().filter(|(_, sharer)| sharer.phase == SharerPhase::Awaited).map(|(host, _)| host)
    }

    /// Hosts to ask at `now_ms`. They are asked repeatedly, because late news of the loss makes a host drop its reply.
    pub fn due(&mut self, now_ms: u64) -> Vec<HostId> {
        let is_due = |sharer: &Sharer| sharer.asked_ms.is_none_or(|asked| now_ms.saturating_sub(asked) >= ASK_AGAIN_MS);
        let due: Vec<HostId> = self.awaited().filter(|host| self.get(*host).is_some_and(is_due)).collect();
        for host in &due {
            if let Some(sharer) = &mut self.hosts[usize::from(host.0)] {
                sharer.asked_ms = Some(now_ms);
            }
        }
        due
    }

    /// A host has answered to the home that is back, or is lost. Returns whether it was awaited.
    pub fn answer(&mut self, host: HostId) -> bool {
        let sharer = self.hosts.get_mut(usize::from(host.0)).and_then(Option::as_mut);
        sharer.is_some_and(|sharer| sharer.take(SharerEvent::Answer))
    }

    /// The home begins anew: nobody maps it. Returns the shares that are over.
    pub fn end_return(&mut self) -> Vec<u64> {
        let mut shares = Vec::new();
        for sharer in self.hosts.iter_mut().flatten() {
            sharer.take(SharerEvent::End);
            shares.push(sharer.share);
        }
        self.hosts = vec![None; usize::from(self.own.0) + 1];
        shares
    }

    /// A host is to be told who another is, unless it knows. Returns that other.
    pub fn introduce(&mut self, to: HostId, named: HostId) -> Option<Sharer> {
        let other = self.get(named).filter(|_| named != to)?.clone();
        let sharer = self.hosts.get_mut(usize::from(to.0))?.as_mut()?;
        sharer.knows.insert(named).then_some(other)
    }
}

impl Sharer {
    fn take(&mut self, event: SharerEvent) -> bool {
        let next = table::next(SHARER, self.phase, event);
        self.phase = next.unwrap_or(self.phase);
        next.is_some()
    }
}
