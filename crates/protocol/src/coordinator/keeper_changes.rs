//! Changes of the list of keepers: decides which an operator may make, and which disk gets a place that waits for one.
//!
//! A change is one record of the common log, [`Record::Keepers`], which ends the list's edition. All that is decided behind it in that edition is
//! void. The history up to there is the base of the next edition. No keeper takes part in an edition before it has the base. So nothing that
//! was answered is lost, whoever is in the next list.

use super::asks::AskKey;
use super::records::Record;
use super::{Coordinator, Step};
use crate::error::{Error, Result};
use crate::id::NodeId;
use crate::keeper_list::{KeeperList, KnownKeepers, ListedKeeper};
use crate::limits::{KEEPER_COUNT_MAX, KEEPER_COUNT_MIN};
use crate::wire::control::{Answer, KeeperChange, ToNode};
use std::collections::{BTreeMap, BTreeSet};

/// The keepers and the members that can be some, as the coordinator knows them.
#[derive(Clone, Debug, Default)]
pub(super) struct Keepers {
    known: KnownKeepers,
    /// Disks of members that can be keepers.
    disks: BTreeMap<NodeId, u128>,
    /// True once this coordinator has changed the list. The next one goes on with that.
    changes: bool,
}

impl Keepers {
    /// A node is a member no more, or another process is.
    pub fn forget(&mut self, node: NodeId) {
        self.disks.remove(&node);
    }
}

fn refused(what: &str, address: &str, reason: String) -> Error {
    Error::BadSetting { key: format!("the keeper to {what}"), value: address.to_owned(), reason }
}

impl Coordinator {
    /// The keepers of the pool, as they are now.
    pub fn set_keepers(&mut self, keepers: KnownKeepers) {
        self.keepers.known = keepers;
    }

    /// A member can be a keeper, or not. It hears the list of today.
    pub(super) fn on_keeper(&mut self, node: NodeId, disk: Option<u128>) {
        match disk {
            Some(disk) => drop(self.keepers.disks.insert(node, disk)),
            None => drop(self.keepers.disks.remove(&node)),
        }
        let list = self.keepers.known.list.clone();
        if list.edition > 0 {
            self.send(node, ToNode::Keepers(list));
        }
    }

    /// The address of a keeper that is no member at present, if there is one.
    pub(super) fn absent_keeper(&self) -> Option<String> {
        let is_there = |address: &String| {
            let is_at = |node: NodeId| self.ledger.nodes.get(&node).is_some_and(|record| record.address == *address);
            self.roster.members().any(|(node, _)| is_at(node))
        };
        self.keepers.known.list.addresses().into_iter().find(|address| !is_there(address))
    }

    /// The disk of the member at that address.
    fn disk_at(&self, address: &str) -> Option<u128> {
        let is_there = |node: &NodeId| self.ledger.nodes.get(node).is_some_and(|record| record.address == address);
        self.roster.members().map(|(node, _)| node).filter(is_there).find_map(|node| self.keepers.disks.get(&node).copied())
    }

    /// Changes the list as an operator says. The answer is that of the next edition's coordinator, because this one's reign is over.
    pub(super) fn change_keepers(&mut self, key: AskKey, address: &str, change: KeeperChange) -> Step {
        let (what, next) = match change {
            KeeperChange::Add => ("add", self.with_keeper(address)),
            KeeperChange::Remove => ("remove", self.without_keeper(address)),
            KeeperChange::Replace => ("replace", self.with_another_disk(address)),
        };
        let reached = |next: Option<KeeperList>| match next {
            Some(next) => self.may_begin(&next).map(|()| Some(next)),
            None => Ok(None),
        };
        match next.and_then(reached) {
            Ok(Some(list)) => {
                self.change_to(list, Some(key));
                Step::Done(Ok(Answer::Ok))
            }
            Ok(None) => Step::Done(Ok(Answer::Ok)),
            Err(reason) => Step::Done(Err(refused(what, address, reason))),
        }
    }

    fn change_to(&mut self, list: KeeperList, by: Option<AskKey>) {
        self.keepers.changes = true;
        self.record(Record::Keepers { list, by });
    }

    /// Checks that the next list has a majority, and that no other change is under way.
    fn may_begin(&self, next: &KeeperList) -> Result<(), String> {
        if self.keepers.changes {
            return Err("another change of the keepers is under way; say it again in some seconds".to_owned());
        }
        let known = &self.keepers.known;
        let members: BTreeSet<u128> =
            self.roster.members().filter_map(|(node, _)| self.keepers.disks.get(&node)).copied().collect();
        // A keeper of today is heard, or not. A new one is a member.
        let is_reached = |number: &u64| {
            let disk = next.seats.get(number).and_then(|seat| seat.disk);
            let is_known = known.list.seats.get(number).is_some_and(|seat| seat.disk == disk);
            if is_known { known.reached.contains(number) } else { disk.is_some_and(|disk| members.contains(&disk)) }
        };
        let (numbers, reached) = (next.numbers().count(), next.numbers().filter(is_reached).count());
        if reached > numbers / 2 {
            return Ok(());
        }
        Err(format!("{reached} of {numbers} keepers would be reached then, and no majority; start the others first"))
    }

    fn today(&self) -> Result<&KeeperList, String> {
        let list = &self.keepers.known.list;
        if list.edition == 0 {
            return Err("one node keeps this pool's names; it has no keepers (see `hanare node --keepers`)".to_owned());
        }
        Ok(list)
    }

    fn number_at(&self, address: &str) -> Result<u64, String> {
        let list = self.today()?;
        list.number_at(address).ok_or_else(|| format!("the keepers are {}", list.addresses().join(", ")))
    }

    /// The list with one more; `None` where it is there.
    fn with_keeper(&self, address: &str) -> Result<Option<KeeperList>, String> {
        let list = self.today()?;
        if list.number_at(address).is_some() {
            return Ok(None);
        }
        if list.seats.len() >= KEEPER_COUNT_MAX {
            return Err(format!("there are {KEEPER_COUNT_MAX} keepers, and no more may be; remove one first"));
        }
        let disk = self.disk_at(address).ok_or_else(|| {
            "no node of this pool that could be a keeper is reached there; start it with `hanare node --listen` that address and \
             --keepers, and see `hanare status`"
                .to_owned()
        })?;
        if let Some(number) = list.number_of(disk) {
            return Err(format!("it is the keeper at {}", list.seats[&number].address));
        }
        let mut next = list.next();
        let free = (1..).find(|number| !list.seats.contains_key(number)).unwrap_or(1);
        next.seats.insert(free, ListedKeeper { address: address.to_owned(), disk: Some(disk) });
        Ok(Some(next))
    }

    fn without_keeper(&self, address: &str) -> Result<Option<KeeperList>, String> {
        let number = self.number_at(address)?;
        let mut next = self.today()?.next();
        next.seats.remove(&number);
        if next.numbers().count() < KEEPER_COUNT_MIN {
            return Err(format!("a pool with keepers has {KEEPER_COUNT_MIN} at least; add another one first"));
        }
        Ok(Some(next))
    }

    /// The list with another disk at a keeper's seat; `None` where it waits for one.
    fn with_another_disk(&self, address: &str) -> Result<Option<KeeperList>, String> {
        let number = self.number_at(address)?;
        let list = self.today()?;
        let Some(lost) = list.seats[&number].disk else { return Ok(None) };
        if self.keepers.known.reached.contains(&number) {
            return Err("it answers, so its disk is not lost; end its process first, then wait for 2 s".to_owned());
        }
        let mut next = list.next();
        next.set_disk(number, self.disk_at(address).filter(|disk| *disk != lost && list.number_of(*disk).is_none()));
        if next.numbers().count() < KEEPER_COUNT_MIN {
            return Err(format!("a pool with keepers has {KEEPER_COUNT_MIN} disks at least; add another keeper first"));
        }
        Ok(Some(next))
    }

    /// Gives a seat without a disk that of a member at its address.
    pub(super) fn fill_seat(&mut self) {
        let list = &self.keepers.known.list;
        if self.keepers.changes || list.edition == 0 || self.journal_is_full {
            return;
        }
        let disk_for = |(number, address): (u64, &str)| {
            let disk = self.disk_at(address).filter(|disk| list.number_of(*disk).is_none())?;
            let mut next = list.next();
            next.set_disk(number, Some(disk));
            Some(next)
        };
        let free =
            list.seats.iter().filter(|(_, seat)| seat.disk.is_none()).map(|(number, seat)| (*number, seat.address.as_str()));
        let next = free.filter_map(disk_for).find(|next| self.may_begin(next).is_ok());
        if let Some(next) = next {
            self.change_to(next, None);
        }
    }
}
