//! Opening, changing and removing regions, and answering requests that were carried out before.

use super::asks::{AskKey, Task};
use super::naming::{self, Event, Growth};
use super::records::{Effect, Record, RegionRecord};
use super::roster::Phase;
use super::{Coordinator, Step, permission, quota};
use crate::error::{Error, Result};
use crate::id::{Asker, Gid, Grant, NodeId, Rights, Slot};
use crate::tenant::check_full;
use crate::wire::control::{Answer, Changes, Made, RegionView, Which};
use std::collections::{BTreeMap, BTreeSet};

impl Coordinator {
    /// Opens a region for a user.
    pub(super) fn open(&self, which: &Which, user: &Asker, rights: Option<Rights>) -> Step {
        match which {
            Which::Name(name) => self.open_named(name, user, rights),
            Which::Gid(gid) => match self.ledger.regions.get(gid) {
                Some(region) => self.open_region(region, user, rights),
                // A region of another space is refused in the same words (`permission`).
                None => Error::UnknownRegion { name: gid.to_string() }.into(),
            },
        }
    }

    /// Opens the region of that name.
    pub(super) fn open_named(&self, name: &str, user: &Asker, rights: Option<Rights>) -> Step {
        if self.growths.values().any(|growth| !growth.grows && growth.name == name) {
            return Step::Park;
        }
        let Some(region) = self.ledger.region_named(name) else { return unknown(name).into() };
        self.open_region(region, user, rights)
    }

    pub(super) fn open_region(&self, region: &RegionRecord, user: &Asker, rights: Option<Rights>) -> Step {
        match permission::rights(region, user, rights) {
            Ok(rights) => self.view(region, rights, Made::Found),
            Err(error) => error.into(),
        }
    }

    /// Changes what is kept with a region's name, or the name.
    pub(super) fn alter(&mut self, now_ms: u64, key: AskKey, user: &Asker, name: &str, changes: &Changes) -> Step {
        let region = match self.settled_region(name) {
            Ok(Some(region)) => region,
            Ok(None) => return Step::Park,
            Err(error) => return error.into(),
        };
        if changes.name.as_ref().is_some_and(|to| self.growths.values().any(|growth| growth.name == *to)) {
            return Step::Park;
        }
        if let Err(error) = self.may_alter(region, user, changes) {
            return self.refused_plan(error);
        }
        let (gid, mut changes) = (region.gid, changes.clone());
        // A name that it has already is no change.
        changes.name = changes.name.filter(|to| to != name);
        let has_other_copies = changes.copies.is_some();
        self.record(Record::Altered { gid, changes, by: key });
        if has_other_copies {
            self.fit_copies(now_ms, gid);
        }
        self.changed = true;
        Step::Done(Ok(Answer::Ok))
    }

    fn may_alter(&self, region: &RegionRecord, user: &Asker, changes: &Changes) -> Result<()> {
        permission::may_decide(region, user, "change")?;
        changes.mode.map_or(Ok(()), permission::check_mode)?;
        if let Some(name) = &changes.name {
            check_full(name)?;
            if let Some(other) = self.ledger.region_named(name).filter(|other| other.gid != region.gid) {
                return Err(Error::NameTaken { name: name.clone(), len: other.layout.len() });
            }
        }
        changes.copies.map_or(Ok(()), |copies| self.may_have_copies(region, copies))?;
        let (owner, copies) = (changes.owner.unwrap_or(region.owner), changes.copies.unwrap_or(region.copies));
        changes.owner.map_or(Ok(()), |owner| permission::may_give(region, user, owner))?;
        let is_given = owner.uid != region.owner.uid;
        if is_given {
            quota::check_count(owner.uid, self.owned_or_asked(owner.uid))?;
        }
        let all = |copies: u8| region.layout.len().saturating_mul(copies.max(1).into());
        let more = all(copies).saturating_sub(if is_given { 0 } else { all(region.copies) });
        if more > 0 {
            quota::check(self.quota_of(owner.uid), owner.uid, self.used_or_asked(owner.uid), more)?;
        }
        let mut attributes = region.attributes.clone();
        attributes.alter(&changes.attributes);
        attributes.check()?;
        let uid = changes.owner.unwrap_or(region.owner).uid;
        let own = if uid == region.owner.uid { region.attributes.len_bytes() as u64 } else { 0 };
        let is_more = uid != region.owner.uid || attributes.len_bytes() as u64 > own;
        if is_more {
            quota::check_noted(uid, self.noted(uid).saturating_sub(own), attributes.len_bytes() as u64)?;
        }
        self.check_journal()
    }

    /// Removes a region; its nodes are ordered to free its extents. It is answered when they have: see `removals`.
    pub(super) fn remove(&mut self, now_ms: u64, key: AskKey, user: &Asker, name: &str) -> Step {
        let region = match self.settled_region(name) {
            Ok(Some(region)) => region.clone(),
            Ok(None) => return Step::Park,
            Err(error) => return error.into(),
        };
        if let Err(error) = permission::may_decide(&region, user, "remove") {
            return error.into();
        }
        let orders = self.remove_region(now_ms, key, &region);
        self.await_nodes(now_ms, key, orders)
    }

    /// Removes a region of which nothing is being made. Returns the nodes that are to free its extents, each with its order.
    pub(super) fn remove_region(&mut self, now_ms: u64, key: AskKey, region: &RegionRecord) -> Vec<(NodeId, Option<u64>)> {
        let from = naming::phase(&self.ledger, None, region.gid);
        self.record(Record::Removed { gid: region.gid, by: key });
        self.assert_step(from, Event::Remove, region.gid);
        self.forget_holders(now_ms, region.gid);
        self.changed = true;
        self.free_extents(now_ms, region)
    }

    /// Orders the nodes of a region that is no more to free what they have of it. Returns them, each with its order if it is a member.
    pub(super) fn free_extents(&mut self, now_ms: u64, region: &RegionRecord) -> Vec<(NodeId, Option<u64>)> {
        let mut slots: BTreeMap<NodeId, Vec<Slot>> = BTreeMap::new();
        for extent in region.all_extents().filter(|extent| !region.lost.contains(&extent.node)) {
            slots.entry(extent.node).or_default().push(extent.slot);
        }
        slots.into_iter().map(|(node, slots)| (node, self.free(now_ms, node, slots))).collect()
    }

    /// A region of which nothing is being made; `None` while something is.
    pub(super) fn settled_region(&self, name: &str) -> Result<Option<&RegionRecord>> {
        let is_busy = |growth: &Growth| growth.name == name;
        match self.ledger.region_named(name) {
            _ if self.growths.values().any(is_busy) => Ok(None),
            Some(region) if self.copied.is_changing(region.gid) => Ok(None),
            Some(region) => Ok(Some(region)),
            None => Err(unknown(name)),
        }
    }

    /// Answers a request that was carried out before.
    pub(super) fn recall(&self, task: &Task, effect: Effect) -> Step {
        let region = |gid: Gid| self.ledger.regions.get(&gid);
        match effect {
            Effect::Changed | Effect::TenantRemoved => Step::Done(Ok(Answer::Ok)),
            Effect::Created(gid) | Effect::Renewed(gid) => match region(gid) {
                // The creator of a region may use it, whatever its mode says of later opens.
                Some(region) => {
                    let made = if matches!(effect, Effect::Renewed(_)) { Made::Renewed } else { Made::New };
                    self.view(region, Rights::Write, made)
                }
                None => Step::from(gone(task)),
            },
            Effect::Resized(gid) => match region(gid) {
                Some(region) => match permission::rights(region, &task.user, None) {
                    Ok(rights) => self.view(region, rights, Made::Found),
                    Err(error) => error.into(),
                },
                None => Step::from(gone(task)),
            },
        }
    }

    /// A region as a client sees it: with grants, and where to find the nodes.
    fn view(&self, region: &RegionRecord, rights: Rights, made: Made) -> Step {
        if let Some(node) = region.lost.first() {
            return Error::RegionLost { region: region.name.clone(), node: *node }.into();
        }
        let nodes: BTreeSet<NodeId> = region.layout.extents().map(|extent| extent.node).collect();
        if self.waits_for_home(region) || self.copied.is_changing(region.gid) {
            return Step::Park;
        }
        for node in &nodes {
            match self.usable(&region.name, *node) {
                Ok(true) => {}
                Ok(false) => return Step::Park,
                Err(error) => return error.into(),
            }
        }
        let grants = region.layout.extents().map(|extent| self.grant(extent.node, extent.slot, rights));
        let Some(grants) = grants.collect::<Option<Vec<Grant>>>() else { return Step::Park };
        let nodes = nodes.into_iter().filter_map(|node| self.node_address(node)).collect();
        let RegionRecord { name, gid, owner, mode, layout, attributes, .. } = region.clone();
        // A region's home may change with a single copy, too.
        let copies = if region.holders.is_empty() { 1 } else { region.copies.max(2) };
        let view = RegionView { name, gid, owner, mode, rights, layout, grants, nodes, copies, attributes, made };
        Step::Done(Ok(Answer::Region(view)))
    }

    /// True if a node's extents can be used; `false` while that is uncertain.
    fn usable(&self, region: &str, node: NodeId) -> Result<bool> {
        let lost = |reason: &str| Err(Error::NodeLost { node, reason: reason.to_owned() });
        match self.roster.phase(node) {
            Phase::Member => Ok(self.roster.seat(node).is_some_and(|seat| seat.grants.is_some())),
            Phase::Awaited => Ok(false),
            Phase::Silent => lost("it ended or does not answer, and has not come back"),
            Phase::Closed => lost("its connection closed"),
            Phase::Absent | Phase::Dead | Phase::Left => Err(Error::RegionLost { region: region.to_owned(), node }),
        }
    }

    /// The grant that a node gave for an extent.
    fn grant(&self, node: NodeId, slot: Slot, rights: Rights) -> Option<Grant> {
        let grants = self.roster.seat(node)?.grants.as_ref()?.get(&slot)?;
        Some(match rights {
            Rights::Read => grants.read,
            Rights::Write => grants.write,
        })
    }
}

pub(super) fn unknown(name: &str) -> Error {
    // No region has a name that is none, and who asks for one is told so in one line.
    check_full(name).err().unwrap_or_else(|| Error::UnknownRegion { name: name.to_owned() })
}

/// The answer to a request that the program's own node has to answer.
pub(super) fn not_forwarded(task: &Task) -> Error {
    let reason = "a node forwards a request that it must answer itself".to_owned();
    Error::Garbage { peer: task.node.to_string(), reason }
}

/// The answer to a repeated request whose region somebody has removed since.
fn gone(task: &Task) -> Error {
    match &task.what {
        crate::wire::control::Request::Create { name, .. } | crate::wire::control::Request::Resize { name, .. } => unknown(name),
        _ => unknown(""),
    }
}
