//! A node's memory: slots, lengths, and grants of an epoch; and the bytes.

use super::memory::{ExtentDefects, SimExtent};
use crate::dice::Dice;
use hanare_home::{Bytes, Memory as HomeMemory};
use hanare_protocol::error::{Error, Result};
use hanare_protocol::id::{Epoch, Gid, Grant, NodeId, Rights, Slot};
use hanare_protocol::usage::{Usage, UsedElsewhere};
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::control::{Memory, ReportedExtent};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that each node lends, where regions are to fill it; and where copies are to find room.
pub(crate) const LENT: u64 = 1 << 20;
pub(crate) const MUCH_LENT: u64 = 64 << 20;

/// The memory of one node process. Slots are reused, the lowest first, to make mistakes about them show.
#[derive(Debug)]
pub(crate) struct Lender {
    pub epoch: Epoch,
    pub extents: BTreeMap<Slot, ReportedExtent>,
    bytes: BTreeMap<Slot, SimExtent>,
    usage: BTreeMap<Slot, Usage>,
    /// Extents that are made ready for copies: commands on them are refused.
    closed: BTreeSet<Slot>,
    /// Bytes that it lends where its host has memory enough, and those that it lends now.
    lent_max: u64,
    lent: u64,
    /// True while the node is a member by its own clock.
    pub has_lease: bool,
    /// Versions of the wire that the node speaks.
    pub versions: Versions,
    /// Defects of its extents.
    pub defects: ExtentDefects,
    /// A defect: it tells nobody that its host runs short.
    pub hides_shortage: bool,
    grants: Dice,
}

impl Lender {
    pub fn new(life: u64, lent: u64, versions: Versions) -> Lender {
        let (extents, bytes, usage, closed) = Default::default();
        Lender {
            epoch: Epoch(0),
            extents,
            bytes,
            usage,
            closed,
            lent_max: lent,
            lent,
            has_lease: false,
            versions,
            defects: ExtentDefects::default(),
            hides_shortage: false,
            grants: Dice::new(life << 32),
        }
    }

    pub fn memory(&self) -> Memory {
        let (lent, lent_max) = (if self.hides_shortage { self.lent_max } else { self.lent }, self.lent_max);
        let (used, versions) = (self.used(), self.versions);
        Memory { lent, lent_max, populated: lent, used, page: 4096, versions, ..Memory::default() }
    }

    /// The host runs short of memory, so that half of what is used has to leave; or it does not any more.
    pub fn set_short(&mut self, is_short: bool) {
        self.lent = if is_short { self.used() / 2 } else { self.lent_max };
    }

    /// Bytes that are to leave.
    pub fn overhang(&self) -> u64 {
        self.used().saturating_sub(self.lent)
    }

    fn used(&self) -> u64 {
        self.extents.values().map(|extent| extent.len).sum()
    }

    fn grant(&mut self) -> Grant {
        Grant((u128::from(self.grants.next()) << 64 | u128::from(self.grants.next())).to_le_bytes())
    }

    /// Makes extents, all or none.
    pub fn make(&mut self, gid: Gid, lens: &[u64], is_copied: bool) -> Result<Vec<ReportedExtent>> {
        let (asked, free) = (lens.iter().sum::<u64>(), self.lent.saturating_sub(self.used()));
        if asked > free {
            return Err(Error::PoolFull { asked, free, withheld: 0 });
        }
        let mut made = Vec::new();
        for len in lens {
            let slot = (0..).map(Slot).find(|slot| !self.extents.contains_key(slot)).expect("slots do not end");
            let extent = ReportedExtent { slot, gid, len: *len, read: self.grant(), write: self.grant() };
            self.extents.insert(slot, extent);
            let bytes = SimExtent::new(gid, slot, *len, self.defects);
            if is_copied {
                bytes.set_copied(true);
            }
            self.bytes.insert(slot, bytes);
            made.push(extent);
        }
        Ok(made)
    }

    /// Frees extents. Returns false if it has not all of them.
    pub fn free(&mut self, slots: &[Slot]) -> bool {
        slots.iter().for_each(|slot| drop((self.bytes.remove(slot), self.usage.remove(slot))));
        slots.iter().all(|slot| self.extents.remove(slot).is_some())
    }

    /// A program of that node's host moves bytes of an extent.
    pub fn moved(&mut self, slot: Slot, by: NodeId, len: u64) {
        self.usage.entry(slot).or_default().moved(by, len);
    }

    /// Ends a round. Returns the extents that programs of another host use most.
    pub fn end_round(&mut self, here: NodeId) -> Vec<UsedElsewhere> {
        let round = |(slot, usage): (&Slot, &mut Usage)| {
            let extent = self.extents.get(slot)?;
            Some(UsedElsewhere { gid: extent.gid, slot: *slot, by: usage.round(here, extent.len, false)? })
        };
        self.usage.iter_mut().filter_map(round).collect()
    }

    /// Refuses commands on extents that are made ready for copies.
    pub fn close(&mut self, slots: impl Iterator<Item = Slot>) {
        self.closed.extend(slots);
    }

    /// True if commands have one of these extents open that has no copies.
    pub fn is_in_use(&self, slots: impl Iterator<Item = Slot>) -> bool {
        let mut extents = slots.filter_map(|slot| self.bytes.get(&slot));
        extents.any(|extent| !extent.is_copied() && extent.is_in_use())
    }

    /// No extent is made ready any more.
    pub fn reopen(&mut self) {
        self.closed.clear();
    }

    /// Makes extents ready for copies, or ends that: their grants are new ones. Says of each whether it has changed. `None` where one is gone.
    pub fn make_ready(&mut self, slots: impl Iterator<Item = Slot>, is_ready: bool) -> Option<Vec<(ReportedExtent, bool)>> {
        let mut ready = Vec::new();
        for slot in slots {
            self.closed.remove(&slot);
            let bytes = self.bytes.get(&slot)?.clone();
            let is_new = bytes.is_copied() != is_ready;
            bytes.set_copied(is_ready);
            self.renew(slot);
            ready.push((*self.extents.get(&slot)?, is_new));
        }
        Some(ready)
    }

    /// The bytes of an extent.
    pub fn bytes(&self, gid: Gid, slot: Slot) -> Option<&SimExtent> {
        self.bytes.get(&slot).filter(|extent| extent.gid() == gid)
    }

    /// True if this node answers for the extent.
    fn is_home(&self, extent: &SimExtent) -> bool {
        !extent.is_copied() || (extent.is_open() && self.has_lease)
    }

    /// All extents with copies.
    pub fn all_copied(&self) -> impl Iterator<Item = &SimExtent> {
        self.bytes.values().filter(|extent| extent.is_copied())
    }

    fn renew(&mut self, slot: Slot) {
        let (read, write) = (self.grant(), self.grant());
        if let Some(extent) = self.extents.get_mut(&slot) {
            (extent.read, extent.write) = (read, write);
        }
    }

    /// Begins an epoch: every grant is made anew.
    pub fn regrant(&mut self, epoch: Epoch) -> Vec<ReportedExtent> {
        self.epoch = epoch;
        let slots: Vec<Slot> = self.extents.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.renew(slot));
        self.extents.values().copied().collect()
    }

    /// The region that a grant opens here, if it opens one.
    pub fn opens(&self, slot: Slot, grant: Grant) -> Option<Gid> {
        let extent = self.extents.get(&slot)?;
        (extent.read == grant || extent.write == grant).then_some(extent.gid)
    }
}

/// Extents with copies answer while their home is open, and the node has its lease.
impl HomeMemory for Lender {
    type Extent = SimExtent;

    fn open(&self, slot: Slot, grant: Grant, _need: Rights) -> Result<SimExtent> {
        let gid = self.opens(slot, grant);
        let extent = self.bytes.get(&slot).filter(|_| gid.is_some() && !self.closed.contains(&slot)).cloned();
        let extent = extent.filter(|extent| self.is_home(extent));
        extent.ok_or(Error::GrantRefused { gid: gid.unwrap_or(Gid(0)), node: NodeId(0) })
    }

    fn find(&self, gid: Gid, slot: Slot) -> Option<SimExtent> {
        self.bytes(gid, slot).cloned()
    }

    fn has(&self, gid: Gid, slot: Slot) -> bool {
        self.extents.get(&slot).is_some_and(|extent| extent.gid == gid)
    }

    fn answers(&self, gid: Gid, slot: Slot) -> bool {
        self.bytes(gid, slot).is_none_or(|extent| self.is_home(extent))
    }
}
