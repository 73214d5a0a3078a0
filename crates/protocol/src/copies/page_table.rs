//! Hosts that map an extent coherently, as all of its holders know them. The next home asks those hosts for their pages.

use crate::id::{Epoch, Incarnation, NodeId, Rights};
use crate::limits::PAGE_HOST_ADDRESS_LEN_MAX;
use crate::page::{Page, Version};
use crate::wire::Malformed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A host that maps the extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MappingHost {
    /// Its key in messages to it.
    pub key: u64,
    /// Its membership at each home.
    pub share: u64,
    /// Its node.
    pub node: NodeId,
    /// The epoch of that node.
    pub epoch: Epoch,
    /// The process.
    pub process: Incarnation,
    /// Network address of the node.
    pub address: String,
    /// The user whose programs it shares the region with, where they only read it.
    pub readers: Option<u32>,
    /// Its rights.
    pub rights: Rights,
}

/// A change that has its place among the writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PageChange {
    /// A host is about to map the extent.
    Joins(MappingHost),
    /// A host has left, or is lost.
    Leaves {
        /// Its key.
        key: u64,
    },
    /// All hosts have handed their pages over. The home begins anew, and counts versions from the first.
    Begins,
}

impl PageChange {
    /// Refuses a change that no home makes.
    pub fn check(&self) -> Result<(), Malformed> {
        match self {
            PageChange::Joins(host) if host.address.len() > PAGE_HOST_ADDRESS_LEN_MAX => {
                Err(Malformed("a host with a long address"))
            }
            _ => Ok(()),
        }
    }
}

/// The hosts, and the versions in which pages came home.
///
/// **Cost**: some 20 bytes for each page that came home since the home began; 100 for each host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageTable {
    hosts: BTreeMap<u64, MappingHost>,
    versions: BTreeMap<Page, Version>,
}

impl PageTable {
    /// Refuses a table that no home has. **Errors**: [`Malformed`], with the reason.
    pub fn check(&self) -> Result<(), Malformed> {
        self.hosts.values().try_for_each(|host| PageChange::Joins(host.clone()).check())
    }

    /// A change comes.
    pub fn change(&mut self, change: &PageChange) {
        match change {
            PageChange::Joins(host) => drop(self.hosts.insert(host.key, host.clone())),
            PageChange::Leaves { key } => drop(self.hosts.remove(key)),
            PageChange::Begins => *self = PageTable::default(),
        }
    }

    /// A page came home. A host whose home was lost may send it again: no newer version is in that, and it is void.
    pub fn note(&mut self, page: Page, version: Version) {
        self.versions.insert(page, version);
    }

    /// The hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &MappingHost> {
        self.hosts.values()
    }

    /// The versions in which pages came home.
    pub fn versions(&self) -> &BTreeMap<Page, Version> {
        &self.versions
    }

    /// True if no host maps the extent.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(key: u64) -> MappingHost {
        let (node, address) = (NodeId(key as u32), "a".repeat(key as usize));
        MappingHost {
            key,
            share: key,
            node,
            epoch: Epoch(1),
            process: Incarnation(1),
            address,
            readers: None,
            rights: Rights::Write,
        }
    }

    #[test]
    fn hosts_come_and_go_and_a_new_beginning_forgets_all() {
        let mut table = PageTable::default();
        [1, 2].into_iter().for_each(|key| table.change(&PageChange::Joins(host(key))));
        table.change(&PageChange::Leaves { key: 1 });
        table.note(Page(3), Version(7));
        assert_eq!(table.hosts().map(|host| host.key).collect::<Vec<u64>>(), [2]);
        assert_eq!(table.versions().get(&Page(3)), Some(&Version(7)));
        table.change(&PageChange::Begins);
        assert_eq!(table, PageTable::default());
    }

    #[test]
    fn an_address_has_a_bound() {
        assert!(PageChange::Joins(host(9)).check().is_ok());
        assert!(PageChange::Joins(host(PAGE_HOST_ADDRESS_LEN_MAX as u64 + 1)).check().is_err());
    }
}
