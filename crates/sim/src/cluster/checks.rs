//! Invariants of every moment, judged by a naive model that sees only what crosses the machines' borders.
//!
//! The model is fed with durable records and with what clients asked; it shares no code with the coordinator's own ledger.

use crate::check::{Check, check};
use hanare_protocol::coordinator::{AskKey, Coordinator, Ended, Record, RegionRecord};
use hanare_protocol::id::{Epoch, Gid, Grant, Incarnation, NodeId, Slot};
use hanare_protocol::wire::control::{RegionView, Request};
use std::collections::{BTreeMap, BTreeSet};

/// A region as the model sees it.
#[derive(Debug)]
struct Seen {
    name: String,
    uid: u32,
    len: u64,
    /// Each extent with the life of the node that made it.
    extents: Vec<(NodeId, Slot, u64, Incarnation)>,
}

/// The model.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    regions: BTreeMap<Gid, Seen>,
    /// Regions that the last batch removed: outputs of its pass may show them as they were before.
    removed: BTreeMap<Gid, Seen>,
    gids: BTreeSet<Gid>,
    lives: BTreeMap<NodeId, Incarnation>,
    ended: BTreeSet<(NodeId, Epoch)>,
    asked: BTreeMap<AskKey, (u32, Request)>,
    carried_out: BTreeSet<AskKey>,
    /// The epoch in which a grant was made, and for which extent.
    grants: BTreeMap<[u8; 16], (NodeId, Epoch, Gid)>,
}

impl Checks {
    /// A client asks.
    pub fn on_asked(&mut self, key: AskKey, uid: u32, what: &Request) {
        self.asked.insert(key, (uid, what.clone()));
    }

    /// A node makes a grant.
    pub fn on_granted(&mut self, grant: Grant, node: NodeId, epoch: Epoch, gid: Gid) {
        self.grants.insert(grant.0, (node, epoch, gid));
    }

    /// The next batch of records is committed.
    pub fn begin_batch(&mut self) {
        self.removed.clear();
    }

    /// A record of the batch.
    pub fn on_record(&mut self, record: &Record) -> Check {
        match record {
            Record::Node(node) => {
                self.lives.insert(node.node, node.incarnation);
                Ok(())
            }
            Record::EpochEnded { node, how: Ended::Left } => {
                self.lives.insert(*node, Incarnation(0));
                Ok(())
            }
            Record::Created { region, by: Some(by), instead } => {
                if let Some(lost) = instead {
                    self.on_replaced(*lost, region)?;
                }
                self.on_created(region, *by)
            }
            Record::Resized { gid, span, by, .. } => {
                self.on_carried_out(*by, |what| matches!(what, Request::Resize { .. }))?;
                let seen = self.regions.get_mut(gid).ok_or_else(|| format!("{gid} grew without existing"))?;
                seen.len += span.len;
                seen.extents.extend(span.extents.iter().map(|e| (e.node, e.slot, e.len, self.lives[&e.node])));
                Ok(())
            }
            Record::Removed { gid, by } => {
                let seen = self.regions.remove(gid).ok_or_else(|| format!("{gid} was removed without existing"))?;
                self.on_carried_out(*by, |what| matches!(what, Request::Remove { name } if *name == seen.name))?;
                self.removed.insert(*gid, seen);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A region takes the place of another: of one that was its owner's, and lost bytes with the life of a node.
    fn on_replaced(&mut self, lost: Gid, region: &RegionRecord) -> Check {
        let seen = self.regions.remove(&lost).ok_or_else(|| format!("{lost} was replaced without existing"))?;
        check(seen.name == region.name && seen.uid == region.owner.uid, || format!("{region:?} replaces {seen:?}"))?;
        self.removed.insert(lost, seen);
        Ok(())
    }

    fn on_created(&mut self, region: &RegionRecord, by: AskKey) -> Check {
        let (name, len) = (&region.name, region.layout.len());
        check(self.gids.insert(region.gid), || format!("{} was used twice", region.gid))?;
        check(self.regions.values().all(|seen| seen.name != *name), || format!("two regions are named '{name}'"))?;
        let asked =
            |what: &Request| matches!(what, Request::Create { name: asked, len: bytes, .. } if asked == name && *bytes == len);
        self.on_carried_out(by, asked)?;
        let uid = self.asked[&by].0;
        check(uid == region.owner.uid, || format!("region '{name}' belongs to {}, not to {uid}", region.owner.uid))?;
        let extents = region.layout.extents().map(|e| (e.node, e.slot, e.len, self.lives[&e.node])).collect();
        self.regions.insert(region.gid, Seen { name: name.clone(), uid, len, extents });
        Ok(())
    }

    /// A request has an effect: it was asked for, and it never had one before.
    fn on_carried_out(&mut self, by: AskKey, fits: impl Fn(&Request) -> bool) -> Check {
        let asked = self.asked.get(&by).is_some_and(|(_, what)| fits(what));
        check(asked, || format!("nobody asked for what {by:?} did"))?;
        check(self.carried_out.insert(by), || format!("{by:?} was carried out twice"))
    }

    /// A node's epoch is announced as ended.
    pub fn on_node_lost(&mut self, node: NodeId, epoch: Epoch) {
        self.ended.insert((node, epoch));
    }

    /// A node is welcomed.
    pub fn on_welcome(&self, node: NodeId, epoch: Epoch) -> Check {
        check(!self.ended.contains(&(node, epoch)), || format!("{node} resumes {epoch} that was announced as ended"))
    }

    /// The coordinator answers with a region: it must exist, whole, in the lives that made it, with grants for it.
    pub fn on_view(&self, view: &RegionView) -> Check {
        let Some(seen) = self.regions.get(&view.gid).or_else(|| self.removed.get(&view.gid)) else {
            return Err(format!("'{}' was opened without existing", view.name));
        };
        check(seen.name == view.name && view.layout.len() <= seen.len, || format!("{view:?} is not {seen:?}"))?;
        let lost = seen.extents.iter().find(|(node, _, _, life)| self.lives.get(node) != Some(life));
        check(lost.is_none(), || format!("'{}' was opened although its bytes on {lost:?} are gone", view.name))?;
        check(view.grants.len() == view.layout.extents().count(), || format!("{view:?} lacks grants"))?;
        let fits = |(grant, extent): (&Grant, &hanare_protocol::placement::Extent)| {
            self.grants.get(&grant.0).is_some_and(|(node, _, gid)| (*node, *gid) == (extent.node, view.gid))
        };
        check(view.grants.iter().zip(view.layout.extents()).all(fits), || format!("{view:?} has grants for something else"))
    }

    /// A grant opened an extent at a node: it must be of the node's epoch and of the region that the client means.
    pub fn on_access(&self, grant: Grant, meant: Gid, opened: Gid, epoch: Epoch) -> Check {
        check(meant == opened, || format!("a grant for {meant} opened {opened}"))?;
        let granted = self.grants.get(&grant.0).map(|(_, epoch, _)| *epoch);
        check(granted == Some(epoch), || format!("a grant of {granted:?} opened {opened} in {epoch}"))
    }

    /// The coordinator's state against the model; `holds` says whether a node process of that life holds an extent.
    pub fn on_settled(
        &self,
        coordinator: &Coordinator,
        quota: u64,
        holds: impl Fn(NodeId, Incarnation, Slot, Gid, u64) -> bool,
    ) -> Check {
        check(coordinator.regions().count() == self.regions.len(), || {
            "the coordinator has other regions than its journal".into()
        })?;
        let (mut slots, mut used) = (BTreeSet::new(), BTreeMap::<u32, u64>::new());
        for region in coordinator.regions() {
            let seen = self.regions.get(&region.gid).ok_or_else(|| format!("{} came from nowhere", region.gid))?;
            let (name, len) = (&region.name, region.layout.len());
            check((&seen.name, seen.len) == (name, len), || format!("'{name}' of {len} bytes is not {seen:?}"))?;
            *used.entry(seen.uid).or_default() += len;
            for (node, slot, len, life) in &seen.extents {
                let is_old = self.lives.get(node) != Some(life);
                check(!is_old || region.lost.contains(node), || format!("'{name}' lost its bytes on {node} and is not lost"))?;
                if !region.lost.contains(node) {
                    check(slots.insert((*node, *slot)), || format!("{slot} of {node} is in two regions"))?;
                    check(holds(*node, *life, *slot, region.gid, *len), || format!("{node} has not {slot} of '{name}'"))?;
                }
            }
        }
        for (uid, used) in used {
            check(coordinator.used(uid) == used, || format!("user {uid} has {used} bytes, not {}", coordinator.used(uid)))?;
            check(used <= quota, || format!("user {uid} has {used} bytes, over the quota of {quota}"))?;
        }
        Ok(())
    }

    /// The extents that a node of this life should hold when nothing is under way.
    pub fn extents_on(&self, node: NodeId, life: Incarnation) -> BTreeSet<(Slot, Gid)> {
        let of = |(gid, seen): (&Gid, &Seen)| {
            let gid = *gid;
            let on = seen.extents.iter().filter(move |(other, _, _, made_in)| (*other, *made_in) == (node, life));
            on.map(move |(_, slot, _, _)| (*slot, gid)).collect::<Vec<_>>()
        };
        self.regions.iter().flat_map(of).collect()
    }

    /// True if a region that was acknowledged is there, or was removed by somebody who asked for it.
    pub fn was_created(&self, gid: Gid) -> bool {
        self.gids.contains(&gid)
    }
}
