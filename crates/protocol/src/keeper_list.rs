//! The list of a pool's keepers.
//!
//! Each list has an *edition*, counted from 1, and elections of its own. A keeper is known by the name of its disk, which has its promises. A
//! keeper with another disk is another keeper. A place without a disk waits for one: that of the next node that joins the pool there.

use crate::limits::{KEEPER_ADDRESS_LEN_MAX, KEEPER_COUNT_MAX, KEEPER_COUNT_MIN};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A keeper's place in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedKeeper {
    /// The address, as nodes are told it.
    pub address: String,
    /// The name of its disk; `None` where it waits for one.
    pub disk: Option<u128>,
}

/// The keepers of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeeperList {
    /// Counted from 1; 0 for keepers that an operator has named, and that have not begun.
    pub edition: u32,
    /// The keepers by number. A number that is free in one edition may be another keeper's in the next.
    pub seats: BTreeMap<u64, ListedKeeper>,
}

impl KeeperList {
    /// The keepers as an operator named them, in this order.
    pub fn named(addresses: &[String]) -> KeeperList {
        let seat = |address: &String| ListedKeeper { address: address.clone(), disk: None };
        KeeperList { edition: 0, seats: (1..).zip(addresses.iter().map(seat)).collect() }
    }

    /// True if it can be a list that keepers agreed on: from another process it is input.
    pub fn is_sound(&self) -> bool {
        let addresses: BTreeSet<&str> = self.seats.values().map(|seat| seat.address.as_str()).collect();
        let disks: BTreeSet<u128> = self.seats.values().filter_map(|seat| seat.disk).collect();
        self.edition > 0
            && (KEEPER_COUNT_MIN..=KEEPER_COUNT_MAX).contains(&self.seats.len())
            && self.seats.keys().all(|number| (1..=KEEPER_COUNT_MAX as u64).contains(number))
            && addresses.len() == self.seats.len()
            && addresses.iter().all(|address| address.len() <= KEEPER_ADDRESS_LEN_MAX)
            && disks.len() == self.numbers().count()
            && disks.len() >= KEEPER_COUNT_MIN
    }

    /// The number of the keeper with that disk.
    pub fn number_of(&self, disk: u128) -> Option<u64> {
        self.seats.iter().find(|(_, seat)| seat.disk == Some(disk)).map(|(number, _)| *number)
    }

    /// The number of the keeper at that address.
    pub fn number_at(&self, address: &str) -> Option<u64> {
        self.seats.iter().find(|(_, seat)| seat.address == address).map(|(number, _)| *number)
    }

    /// The numbers of the keepers that take part: those with a disk.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.seats.iter().filter(|(_, seat)| seat.disk.is_some()).map(|(number, _)| *number)
    }

    /// The addresses, in order of the numbers.
    pub fn addresses(&self) -> Vec<String> {
        self.seats.values().map(|seat| seat.address.clone()).collect()
    }

    /// The same in the next edition, to be changed.
    pub fn next(&self) -> KeeperList {
        KeeperList { edition: self.edition.saturating_add(1), seats: self.seats.clone() }
    }

    /// Gives a place to a disk, or frees it for the next one.
    pub fn set_disk(&mut self, number: u64, disk: Option<u128>) {
        self.seats.entry(number).and_modify(|seat| seat.disk = disk);
    }
}

/// The keepers, as the leader knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownKeepers {
    /// The list of today; of edition 0 where one node alone has the journal.
    pub list: KeeperList,
    /// The numbers of those that were heard of lately, the leader's among them.
    pub reached: BTreeSet<u64>,
}
