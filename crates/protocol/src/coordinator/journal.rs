//! The ledger that records build which outlive the coordinator's process.
//!
//! The ledger changes by [`Ledger::apply`] only, in life as in replay, so a restart sees exactly what was journaled.

use super::asks::AskKey;
use super::records::{Effect, Ended, ExtentCopies, NodeRecord, Record, RegionRecord, TenantRecord};
use crate::copies::Term;
use crate::id::{Gid, Incarnation, NodeId, Slot};
use crate::placement::{Extent, Span};
use crate::tenant::TENANT_NUMBERS;
use crate::versions::OLDEST;
use crate::wire::control::Changes;
use crate::wire::copies::CopiedExtent;
use std::collections::{BTreeMap, BTreeSet};

/// Number of GIDs that one record reserves: a create costs one record, not two.
pub(super) const GID_RESERVE: u64 = 1024;

/// Most superseded lives of a node that are remembered, so that a message of one is not taken for a new life.
const PAST_COUNT_MAX: usize = 16;

/// The durable state.
///
/// - Every name in `names` is a region's, and every region has its name there: no two regions share one.
/// - `extents` holds each extent whose bytes are there, once.
/// - `used` and `allotted` are the sums over regions and over `extents`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    pub life: u64,
    /// The name of the coordinator's own node in that life.
    pub home: String,
    /// The nodes of earlier coordinators that have not joined a later one.
    pub deposed: BTreeSet<NodeId>,
    pub gids_below: u64,
    pub nodes: BTreeMap<NodeId, NodeRecord>,
    pub node_next: u32,
    pub regions: BTreeMap<Gid, RegionRecord>,
    pub names: BTreeMap<String, Gid>,
    pub extents: BTreeMap<(NodeId, Slot), (Gid, u64)>,
    /// Bytes of regions by owner.
    pub used: BTreeMap<u32, u64>,
    /// Regions by owner.
    pub owned: BTreeMap<u32, u64>,
    /// Bytes of attributes of regions by owner.
    pub noted: BTreeMap<u32, u64>,
    /// Bytes of extents by node.
    pub allotted: BTreeMap<NodeId, u64>,
    pub effects: BTreeMap<AskKey, Effect>,
    /// Nodes that are drained, with the only nodes that get what they hold; none for any.
    pub draining: BTreeMap<NodeId, BTreeSet<NodeId>>,
    /// Regions whose nodes are to end the order of writes.
    pub ending: BTreeSet<Gid>,
    /// Tenants by number, and their numbers by name.
    pub tenants: BTreeMap<u32, TenantRecord>,
    pub tenant_numbers: BTreeMap<String, u32>,
    /// Number of tenants that there ever were.
    pub tenants_ever: u32,
}

/// A region's part of its owner's sums.
struct OwnerUsage {
    uid: u32,
    len: u64,
    noted: u64,
}

impl OwnerUsage {
    fn of(region: &RegionRecord) -> OwnerUsage {
        let len = region.layout.len().saturating_mul(region.copies.max(1).into());
        OwnerUsage { uid: region.owner.uid, len, noted: region.attributes.len_bytes() as u64 }
    }
}

impl Ledger {
    /// The first version of the wire that knows all that is in the ledger.
    pub fn since(&self) -> u32 {
        if self.tenants_ever > 0 { 28 } else { OLDEST }
    }

    /// Takes a record in.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Started { life, home, deposed } => {
                (self.life, self.home, self.deposed) = (*life, home.clone(), deposed.clone());
            }
            Record::GidsReserved { below } => self.gids_below = *below,
            Record::Node(node) => self.apply_node(node),
            Record::EpochEnded { node, how } => self.apply_ended(*node, *how),
            Record::NodeForgotten { node } => {
                self.node_next = self.node_next.max(node.0.saturating_add(1));
                self.nodes.remove(node);
                self.draining.remove(node);
            }
            Record::Created { region, by, instead } => self.apply_created(region, *by, *instead),
            Record::Altered { gid, changes, by } => self.apply_altered(*gid, changes, *by),
            Record::Resized { gid, span, holders, by } => self.apply_resized(*gid, (span, holders), *by),
            Record::Held { extent, home, holders } => self.apply_held(*extent, home, holders),
            Record::TakesCopies { gid } => self.apply_takes_copies(*gid),
            Record::EndsCopies { gid } => {
                self.regions.entry(*gid).and_modify(|region| region.holders.clear());
                self.ending.insert(*gid);
            }
            Record::CopiesEnded { gid } => drop(self.ending.remove(gid)),
            Record::Removed { gid, by } => {
                self.remove(*gid);
                self.effects.insert(*by, Effect::Changed);
            }
            Record::Lost { gid, node } => self.apply_lost(*gid, *node),
            Record::Drains { node, to } => drop(self.draining.insert(*node, to.clone())),
            Record::DrainEnded { node } => drop(self.draining.remove(node)),
            Record::Keepers { by, .. } => self.effects.extend(by.map(|by| (by, Effect::Changed))),
            Record::Done { by, effect } => {
                self.effects.insert(*by, *effect);
            }
            Record::Tenant { tenant, by } => {
                self.count_tenant(tenant.number);
                self.tenant_numbers.insert(tenant.name.clone(), tenant.number);
                self.tenants.insert(tenant.number, tenant.clone());
                self.effects.extend(by.map(|by| (by, Effect::Changed)));
            }
            Record::TenantRemoved { number, by } => {
                self.count_tenant(*number);
                if let Some(tenant) = self.tenants.remove(number) {
                    self.tenant_numbers.remove(&tenant.name);
                }
                self.effects.extend(by.map(|by| (by, Effect::TenantRemoved)));
            }
        }
    }

    fn count_tenant(&mut self, number: u32) {
        let count = number.saturating_sub(*TENANT_NUMBERS.start()).saturating_add(1);
        self.tenants_ever = self.tenants_ever.max(count);
    }

    /// The number of the next tenant; no tenant's where all were given.
    pub fn tenant_next(&self) -> u32 {
        TENANT_NUMBERS.start().saturating_add(self.tenants_ever)
    }

    /// The tenant of a name.
    pub fn tenant_named(&self, name: &str) -> Option<&TenantRecord> {
        self.tenant_numbers.get(name).and_then(|number| self.tenants.get(number))
    }

    fn apply_node(&mut self, node: &NodeRecord) {
        self.deposed.remove(&node.node);
        self.node_next = self.node_next.max(node.node.0.saturating_add(1));
        let mut node = node.clone();
        let surplus = node.past.len().saturating_sub(PAST_COUNT_MAX);
        node.past.drain(..surplus);
        let (id, incarnation, has_extents) = (node.node, node.incarnation, node.has_extents);
        let before = self.nodes.insert(id, node).map(|node| node.incarnation);
        if let Some(before) = before.filter(|before| *before != incarnation) {
            if !has_extents {
                self.lose_extents(id);
            }
            // The operator means the process that it saw.
            self.draining.remove(&id);
            self.forget_deeds(before);
        }
    }

    fn apply_ended(&mut self, node: NodeId, how: Ended) {
        self.deposed.remove(&node);
        if let Some(record) = self.nodes.get_mut(&node) {
            record.ended = Some(how);
        }
        if how == Ended::Left {
            self.lose_extents(node);
        }
    }

    fn apply_created(&mut self, region: &RegionRecord, by: Option<AskKey>, instead: Option<Gid>) {
        let gid = region.gid;
        if let Some(lost) = instead {
            self.remove(lost);
        }
        let before = self.names.insert(region.name.clone(), gid);
        assert_eq!(before, None, "two regions of one name");
        self.charge(&OwnerUsage::of(region));
        for extent in region.all_extents().filter(|extent| !region.lost.contains(&extent.node)) {
            self.hold(gid, extent);
        }
        self.regions.insert(gid, region.clone());
        if let Some(by) = by {
            self.effects.insert(by, if instead.is_some() { Effect::Renewed(gid) } else { Effect::Created(gid) });
        }
    }

    fn apply_resized(&mut self, gid: Gid, (span, holders): (&Span, &[ExtentCopies]), by: AskKey) {
        for extent in span.extents.iter().chain(holders.iter().flat_map(|holders| &holders.copies)) {
            self.hold(gid, extent);
        }
        let region = self.regions.get_mut(&gid).expect("only a region that exists grows");
        add(self.used.entry(region.owner.uid).or_default(), span.len.saturating_mul(region.copies.max(1).into()));
        region.layout.spans.push(span.clone());
        region.holders.extend_from_slice(holders);
        self.effects.insert(by, Effect::Resized(gid));
    }

    fn apply_takes_copies(&mut self, gid: Gid) {
        if let Some(region) = self.regions.get_mut(&gid).filter(|region| region.holders.is_empty()) {
            let alone = ExtentCopies { term: Term::FIRST, copies: Vec::new() };
            region.holders = region.layout.extents().map(|_| alone.clone()).collect();
            self.ending.remove(&gid);
        }
    }

    /// An extent has this home and these copies. Others that held it hold it no more.
    fn apply_held(&mut self, CopiedExtent { gid, index }: CopiedExtent, home: &Extent, holders: &ExtentCopies) {
        let Some(region) = self.regions.get_mut(&gid) else { return };
        let index = index as usize;
        let (Some(at), Some(known)) = (region.layout.extents_mut().nth(index), region.holders.get_mut(index)) else { return };
        let before: Vec<Extent> = std::iter::once(std::mem::replace(at, *home)).chain(known.copies.drain(..)).collect();
        known.clone_from(holders);
        let after: Vec<Extent> = std::iter::once(*home).chain(holders.copies.iter().copied()).collect();
        before.iter().filter(|extent| !after.contains(extent)).for_each(|extent| self.let_go(gid, extent.node, extent.slot));
        after.iter().filter(|extent| !before.contains(extent)).for_each(|extent| self.hold(gid, extent));
    }

    fn apply_altered(&mut self, gid: Gid, changes: &Changes, by: AskKey) {
        let region = self.regions.get_mut(&gid).expect("only a region that exists is altered");
        let before = OwnerUsage::of(region);
        if let Some(name) = &changes.name {
            self.names.remove(&region.name);
            let taken = self.names.insert(name.clone(), gid);
            assert_eq!(taken, None, "two regions of one name");
            region.name.clone_from(name);
        }
        region.mode = changes.mode.unwrap_or(region.mode);
        region.copies = changes.copies.unwrap_or(region.copies);
        region.attributes.alter(&changes.attributes);
        region.owner = changes.owner.unwrap_or(region.owner);
        let after = OwnerUsage::of(region);
        self.discharge(&before);
        self.charge(&after);
        self.effects.insert(by, Effect::Changed);
    }

    /// A user has one region more.
    fn charge(&mut self, share: &OwnerUsage) {
        add(self.used.entry(share.uid).or_default(), share.len);
        add(self.owned.entry(share.uid).or_default(), 1);
        if share.noted > 0 {
            add(self.noted.entry(share.uid).or_default(), share.noted);
        }
    }

    /// A user has one region less.
    fn discharge(&mut self, share: &OwnerUsage) {
        sub(&mut self.used, share.uid, share.len);
        sub(&mut self.owned, share.uid, 1);
        if share.noted > 0 {
            sub(&mut self.noted, share.uid, share.noted);
        }
    }

    fn remove(&mut self, gid: Gid) {
        let region = self.regions.remove(&gid).expect("only a region that exists is removed");
        self.names.remove(&region.name);
        self.ending.remove(&gid);
        self.discharge(&OwnerUsage::of(&region));
        for extent in region.all_extents().filter(|extent| !region.lost.contains(&extent.node)) {
            self.let_go(gid, extent.node, extent.slot);
        }
    }

    fn apply_lost(&mut self, gid: Gid, node: NodeId) {
        let Some(region) = self.regions.get_mut(&gid) else { return };
        if region.lost.insert(node) {
            let slots: Vec<_> = region.all_extents().filter(|extent| extent.node == node).map(|extent| extent.slot).collect();
            slots.into_iter().for_each(|slot| self.let_go(gid, node, slot));
        }
    }

    /// All extents of a node are gone with its process. Those with other holders go on: [`Record::Held`] follows.
    fn lose_extents(&mut self, node: NodeId) {
        let gids: BTreeSet<Gid> =
            self.held_by(node).map(|(_, gid, _)| gid).filter(|gid| self.regions[gid].is_lost_with(node, |_| false)).collect();
        gids.into_iter().for_each(|gid| self.apply_lost(gid, node));
    }

    fn hold(&mut self, gid: Gid, extent: &Extent) {
        if extent.slot == Slot::VOID {
            return;
        }
        let before = self.extents.insert((extent.node, extent.slot), (gid, extent.len));
        assert_eq!(before, None, "{} of {} is in two regions", extent.slot, extent.node);
        add(self.allotted.entry(extent.node).or_default(), extent.len);
    }

    /// The region has that extent no more. The slot may have another region's by now.
    fn let_go(&mut self, gid: Gid, node: NodeId, slot: Slot) {
        if let Some((_, len)) = self.extents.get(&(node, slot)).copied().filter(|(of, _)| *of == gid) {
            self.extents.remove(&(node, slot));
            sub(&mut self.allotted, node, len);
        }
    }

    /// The extents on a node whose bytes are there, by slot.
    pub fn held_by(&self, node: NodeId) -> impl Iterator<Item = (Slot, Gid, u64)> {
        let range = (node, Slot(0))..=(node, Slot(u32::MAX));
        self.extents.range(range).map(|((_, slot), (gid, len))| (*slot, *gid, *len))
    }

    /// Forgets what requests of a life did; nobody can ask again.
    fn forget_deeds(&mut self, incarnation: Incarnation) {
        self.settle(incarnation, u64::MAX);
    }

    /// Forgets requests of a life below a number.
    pub fn settle(&mut self, incarnation: Incarnation, below: u64) {
        let keys = AskKey { incarnation, request: 0 }..AskKey { incarnation, request: below };
        let settled: Vec<AskKey> = self.effects.range(keys).map(|(key, _)| *key).collect();
        settled.iter().for_each(|key| {
            self.effects.remove(key);
        });
    }

    /// The node of a name.
    pub fn node_named(&self, name: &str) -> Option<&NodeRecord> {
        self.nodes.values().find(|node| node.name == name)
    }

    /// The region of a name.
    pub fn region_named(&self, name: &str) -> Option<&RegionRecord> {
        self.names.get(name).map(|gid| &self.regions[gid])
    }

    /// The record that a coordinator of that node begins with.
    pub fn begin(&self, home: &str) -> Record {
        let (mut next, is_other) = (self.deposed.clone(), self.home != home);
        next.extend(self.node_named(&self.home).filter(|_| is_other).map(|node| node.node));
        if let Some(own) = self.node_named(home) {
            next.remove(&own.node);
        }
        Record::Started { life: self.life.saturating_add(1), home: home.to_owned(), deposed: next }
    }

    fn started(&self) -> Record {
        Record::Started { life: self.life, home: self.home.clone(), deposed: self.deposed.clone() }
    }

    /// The shortest list of records that builds this ledger.
    pub fn snapshot(&self) -> Vec<Record> {
        let mut records = vec![self.started(), Record::GidsReserved { below: self.gids_below }];
        // No number of a node that was forgotten is given to another.
        records.extend(self.node_next.checked_sub(1).map(|last| Record::NodeForgotten { node: NodeId(last) }));
        let last = self.tenants_ever.checked_sub(1).map(|last| TENANT_NUMBERS.start().saturating_add(last));
        records.extend(last.map(|number| Record::TenantRemoved { number, by: None }));
        records.extend(self.tenants.values().map(|tenant| Record::Tenant { tenant: tenant.clone(), by: None }));
        records.extend(self.nodes.values().cloned().map(Record::Node));
        records.extend(self.draining.iter().map(|(node, to)| Record::Drains { node: *node, to: to.clone() }));
        records.extend(self.regions.values().map(|region| Record::Created { region: region.clone(), by: None, instead: None }));
        records.extend(self.ending.iter().map(|gid| Record::EndsCopies { gid: *gid }));
        records.extend(self.effects.iter().map(|(by, effect)| Record::Done { by: *by, effect: *effect }));
        records
    }

    /// Number of records of [`Ledger::snapshot`].
    pub fn snapshot_len(&self) -> usize {
        let (nodes, tenants) = (self.node_next.min(1) as usize, self.tenants_ever.min(1) as usize);
        [2, nodes, self.nodes.len(), tenants, self.tenants.len(), self.draining.len(), self.regions.len(), self.ending.len()]
            .into_iter()
            .fold(self.effects.len(), usize::saturating_add)
    }
}

/// Adds to a sum.
fn add(sum: &mut u64, len: u64) {
    *sum = sum.saturating_add(len);
}

/// Subtracts from a sum; a sum of zero is not kept.
fn sub<K: Ord + Copy>(sums: &mut BTreeMap<K, u64>, key: K, len: u64) {
    let sum = sums.get_mut(&key).expect("what was added is there");
    *sum = sum.saturating_sub(len);
    if *sum == 0 {
        sums.remove(&key);
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::attributes::Attributes;
    use crate::id::{Epoch, User};
    use crate::placement::{Layout, Placement};

    fn node(number: u32, incarnation: u128, epoch: u64) -> Record {
        Record::Node(NodeRecord {
            node: NodeId(number),
            name: format!("n{number}"),
            address: String::new(),
            incarnation: Incarnation(incarnation),
            epoch: Epoch(epoch),
            ended: None,
            past: Vec::new(),
            has_extents: false,
        })
    }

    fn region(gid: u64, name: &str, slots: &[(u32, u32)]) -> Record {
        let extents: Vec<_> =
            slots.iter().map(|(node, slot)| Extent { node: NodeId(*node), slot: Slot(*slot), len: 4096 }).collect();
        let span = Span { len: 4096 * extents.len() as u64, chunk: 4096, extents };
        let region = RegionRecord {
            gid: Gid(gid),
            name: name.to_owned(),
            placement: Placement::Local,
            owner: User { uid: 7, gid: 7 },
            mode: 0o600,
            layout: Layout { spans: vec![span] },
            copies: 1,
            holders: Vec::new(),
            lost: BTreeSet::new(),
            attributes: Attributes::from_iter([("unit", "K")]),
        };
        Record::Created { instead: None, region, by: Some(AskKey { incarnation: Incarnation(9), request: gid }) }
    }

    #[test]
    fn a_snapshot_builds_the_same_ledger() {
        let mut ledger = Ledger::default();
        let owner = Some(User { uid: 8, gid: 8 });
        let renamed = Changes { name: Some("d".to_owned()), owner, mode: Some(0o644), ..Changes::default() };
        let removed = Record::Removed { gid: Gid(2), by: AskKey { incarnation: Incarnation(9), request: 5 } };
        let records = [
            Record::Started { life: 3, home: "n0".to_owned(), deposed: BTreeSet::from([NodeId(4)]) },
            Record::GidsReserved { below: 1024 },
            node(0, 1, 1),
            node(1, 2, 4),
            region(1, "a", &[(0, 0), (1, 0)]),
            region(2, "b", &[(0, 1)]),
            removed,
            node(1, 3, 5),
            node(7, 7, 1),
            Record::NodeForgotten { node: NodeId(7) },
            Record::Drains { node: NodeId(1), to: BTreeSet::from([NodeId(0)]) },
            Record::Drains { node: NodeId(0), to: BTreeSet::new() },
            Record::DrainEnded { node: NodeId(0) },
            region(3, "c", &[(0, 2)]),
            Record::TakesCopies { gid: Gid(3) },
            Record::EndsCopies { gid: Gid(3) },
            Record::EndsCopies { gid: Gid(1) },
            Record::CopiesEnded { gid: Gid(1) },
            Record::Altered { gid: Gid(3), changes: renamed, by: AskKey { incarnation: Incarnation(9), request: 6 } },
        ];
        records.iter().for_each(|record| ledger.apply(record));
        assert_eq!(ledger.regions[&Gid(1)].lost, BTreeSet::from([NodeId(1)]));
        assert_eq!((ledger.used[&7], ledger.allotted.get(&NodeId(1))), (8192, None));
        assert_eq!((ledger.used[&8], ledger.owned[&8], ledger.region_named("c").is_none()), (4096, 1, true));
        assert_eq!((ledger.region_named("d").unwrap().mode, ledger.node_next), (0o644, 8));
        assert_eq!((ledger.ending.len(), ledger.regions[&Gid(3)].holders.len()), (1, 0));
        let mut again = Ledger::default();
        ledger.snapshot().iter().for_each(|record| again.apply(record));
        assert_eq!(again, ledger);
        assert_eq!(ledger.snapshot().len(), ledger.snapshot_len());
    }

    #[test]
    fn nodes_of_deposed_coordinators_are_known_until_they_join_a_later_one() {
        let mut ledger = Ledger::default();
        let deposed = |ledger: &Ledger| ledger.deposed.iter().map(|node| node.0).collect::<Vec<_>>();
        let begin = |ledger: &mut Ledger, home: &str| ledger.apply(&ledger.begin(home));
        begin(&mut ledger, "n0");
        [node(0, 1, 1), node(1, 2, 1), node(2, 3, 1)].iter().for_each(|record| ledger.apply(record));
        begin(&mut ledger, "n0");
        assert_eq!(deposed(&ledger), [] as [u32; 0], "it began again");
        begin(&mut ledger, "n1");
        begin(&mut ledger, "n2");
        assert_eq!(deposed(&ledger), [0, 1]);
        ledger.apply(&node(1, 2, 1));
        begin(&mut ledger, "n0");
        assert_eq!((deposed(&ledger), ledger.life), (vec![2], 5));
        ledger.apply(&Record::EpochEnded { node: NodeId(2), how: Ended::Closed });
        assert_eq!(deposed(&ledger), [] as [u32; 0]);
    }

    #[test]
    fn a_node_that_comes_back_in_the_same_life_loses_nothing() {
        let mut ledger = Ledger::default();
        let records =
            [node(1, 2, 4), region(1, "a", &[(1, 0)]), Record::EpochEnded { node: NodeId(1), how: Ended::Closed }, node(1, 2, 5)];
        records.iter().for_each(|record| ledger.apply(record));
        assert!(ledger.regions[&Gid(1)].lost.is_empty());
        assert_eq!(ledger.held_by(NodeId(1)).count(), 1);
    }

    #[test]
    fn records_survive_their_encoding() {
        let record = region(1, "a", &[(0, 0)]);
        let bytes = crate::wire::control::encode(&record);
        assert_eq!(crate::wire::control::decode::<Record>(&bytes), Ok(record));
    }
}
