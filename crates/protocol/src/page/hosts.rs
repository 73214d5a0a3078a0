//! Hosts of a shared extent, numbered, and sets of them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// A host's number at one extent's directory: its position in the list of hosts that map the extent.
///
/// The home gives it, and tells the hosts which node in which epoch has it. Another life of a node gets another number, because messages
/// for the old life may still be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostId(pub u16);

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {}", self.0)
    }
}

/// Number of hosts that a set holds without memory of its own.
pub const INLINE_COUNT: u16 = u64::BITS as u16;

/// A set of hosts: a bitmap for the first 64, a tree for those above.
///
/// **Cost**: 32 bytes, and nothing on the heap while all numbers are below [`INLINE_COUNT`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hosts {
    low: u64,
    high: BTreeSet<u16>,
}

impl Hosts {
    /// The empty set.
    pub const NONE: Hosts = Hosts { low: 0, high: BTreeSet::new() };

    /// The set of a bitmap of the first 64 hosts and of others above.
    pub fn from_parts(low: u64, high: BTreeSet<u16>) -> Hosts {
        debug_assert!(high.iter().all(|host| *host >= INLINE_COUNT));
        Hosts { low, high }
    }

    /// The bitmap of the first 64 hosts.
    pub fn low(&self) -> u64 {
        self.low
    }

    /// The hosts above those.
    pub fn high(&self) -> &BTreeSet<u16> {
        &self.high
    }

    /// The hosts above those, taken out.
    pub fn into_high(self) -> BTreeSet<u16> {
        self.high
    }

    /// A set of one host.
    pub fn one(host: HostId) -> Hosts {
        let mut hosts = Hosts::NONE;
        hosts.insert(host);
        hosts
    }

    /// True for the empty set.
    pub fn is_empty(&self) -> bool {
        self.low == 0 && self.high.is_empty()
    }

    /// The number of hosts in it.
    pub fn count(&self) -> usize {
        self.low.count_ones() as usize + self.high.len()
    }

    /// True if `host` is in it.
    pub fn has(&self, host: HostId) -> bool {
        match host.0 < INLINE_COUNT {
            true => self.low >> host.0 & 1 == 1,
            false => self.high.contains(&host.0),
        }
    }

    /// Puts `host` in.
    pub fn insert(&mut self, host: HostId) {
        match host.0 < INLINE_COUNT {
            true => self.low |= 1 << host.0,
            false => drop(self.high.insert(host.0)),
        }
    }

    /// Takes `host` out. Returns true if it was in.
    pub fn remove(&mut self, host: HostId) -> bool {
        let was = self.has(host);
        match host.0 < INLINE_COUNT {
            true => self.low &= !(1 << host.0),
            false => drop(self.high.remove(&host.0)),
        }
        was
    }

    /// All but `host`.
    pub fn without(&self, host: HostId) -> Hosts {
        let mut hosts = self.clone();
        hosts.remove(host);
        hosts
    }

    /// Takes out all that are in `others`.
    pub fn subtract(&mut self, others: &Hosts) {
        self.low &= !others.low;
        self.high.retain(|host| !others.high.contains(host));
    }

    /// Everybody, the lowest number first.
    pub fn iter(&self) -> impl Iterator<Item = HostId> + '_ {
        let low = (0..INLINE_COUNT).filter(|host| self.low >> host & 1 == 1);
        low.chain(self.high.iter().copied()).map(HostId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_of_hosts_is_a_set(steps in prop::collection::vec((0..3u8, 0..130u16), 0..60)) {
            let (mut hosts, mut model) = (Hosts::NONE, BTreeSet::new());
            for (step, host) in steps {
                match step {
                    0 => prop_assert_eq!(hosts.remove(HostId(host)), model.remove(&host)),
                    _ => {
                        hosts.insert(HostId(host));
                        model.insert(host);
                    }
                }
                prop_assert_eq!(hosts.has(HostId(host)), model.contains(&host));
                prop_assert_eq!((hosts.count(), hosts.is_empty()), (model.len(), model.is_empty()));
            }
            prop_assert!(hosts.iter().map(|host| host.0).eq(model.iter().copied()));
            let odd = hosts.iter().filter(|host| host.0 % 2 == 1).fold(Hosts::NONE, |mut odd, host| { odd.insert(host); odd });
            hosts.subtract(&odd);
            prop_assert!(hosts.iter().all(|host| host.0 % 2 == 0));
        }
    }
}
