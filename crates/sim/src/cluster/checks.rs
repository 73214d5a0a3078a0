//! Invariants of every moment, judged by a naive model that sees only what crosses the machines' borders.
//!
//! The model is fed with durable records and with what clients asked; it shares no code with the coordinator's own ledger.

use crate::check::{Check, check};
use hanare_protocol::coordinator::{AskKey, Coordinator, Ended, ExtentCopies, Record, RegionRecord};
use hanare_protocol::id::{Epoch, Gid, Grant, Incarnation, NodeId, Slot};
use hanare_protocol::placement::Extent;
use hanare_protocol::wire::control::{Answer, Made, RegionView, Request};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Time for which the model remembers what was true: a coordinator may tell it so much later that it was.
const VERSION_MS: u64 = 30_000;

/// A region as the model sees it.
#[derive(Clone, Debug)]
struct Seen {
    name: String,
    uid: u32,
    len: u64,
    /// Nodes that are to hold each byte.
    copies: u8,
    extents: Vec<SeenExtent>,
}

/// An extent's bytes on a node, in the life of the node that made them.
type LifeExtent = (NodeId, Slot, u64, Incarnation);

/// An extent as the model sees it.
#[derive(Clone, Debug)]
struct SeenExtent {
    home: LifeExtent,
    copies: Vec<LifeExtent>,
}

impl SeenExtent {
    /// All that is there.
    fn held(&self) -> impl Iterator<Item = &LifeExtent> {
        std::iter::once(&self.home).chain(&self.copies).filter(|(_, slot, ..)| *slot != Slot::VOID)
    }
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
    /// The regions and lives of before, and until when they were those of today.
    before: VecDeque<Version>,
}

#[derive(Debug)]
struct Version {
    until_ms: u64,
    regions: BTreeMap<Gid, Seen>,
    lives: BTreeMap<NodeId, Incarnation>,
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

    /// The regions and lives of now may be told for a while, though the next batch changes them. So may regions that the last batch removed.
    pub fn keep_version(&mut self, now_ms: u64) {
        let mut regions = self.regions.clone();
        regions.extend(self.removed.iter().map(|(gid, seen)| (*gid, seen.clone())));
        self.before.push_back(Version { until_ms: now_ms, regions, lives: self.lives.clone() });
        while self.before.front().is_some_and(|version| version.until_ms + VERSION_MS < now_ms) {
            self.before.pop_front();
        }
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
            Record::Resized { gid, span, by, holders } => {
                self.on_carried_out(*by, |what| matches!(what, Request::Resize { .. }))?;
                let more = self.seen(&span.extents, holders);
                let seen = self.regions.get_mut(gid).ok_or_else(|| format!("{gid} grew without existing"))?;
                seen.len += span.len;
                seen.extents.extend(more);
                Ok(())
            }
            Record::Altered { gid, changes, by } => {
                self.on_carried_out(*by, |what| matches!(what, Request::Alter { .. }))?;
                let seen = self.regions.get_mut(gid).ok_or_else(|| format!("{gid} was altered without existing"))?;
                seen.copies = changes.copies.unwrap_or(seen.copies);
                Ok(())
            }
            Record::Held { extent, home, holders } => {
                let now = self.seen(&[*home], std::slice::from_ref(holders)).remove(0);
                let seen = self.regions.get_mut(&extent.gid).ok_or_else(|| format!("{extent:?} is held without existing"))?;
                let place = seen.extents.get_mut(extent.index as usize).ok_or_else(|| format!("no region has {extent:?}"))?;
                // A holder that stays has the bytes of the life that made them.
                let before: Vec<LifeExtent> = place.held().copied().collect();
                let stays =
                    |held: LifeExtent| before.iter().find(|was| (was.0, was.1) == (held.0, held.1)).copied().unwrap_or(held);
                let copies = now.copies.into_iter().map(stays).collect();
                *place = SeenExtent { home: stays(now.home), copies };
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
        let homes: Vec<Extent> = region.layout.extents().copied().collect();
        let extents = self.seen(&homes, &region.holders);
        self.regions.insert(region.gid, Seen { name: name.clone(), uid, len, copies: region.copies, extents });
        Ok(())
    }

    /// Extents that are held in the lives of today.
    fn seen(&self, homes: &[Extent], holders: &[ExtentCopies]) -> Vec<SeenExtent> {
        let held = |at: &Extent| (at.node, at.slot, at.len, self.lives[&at.node]);
        let copies = |index: usize| holders.get(index).map_or_else(Vec::new, |known| known.copies.iter().map(held).collect());
        homes.iter().enumerate().map(|(index, home)| SeenExtent { home: held(home), copies: copies(index) }).collect()
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

    /// A change is answered: its record is durable.
    pub fn on_answer(&self, key: AskKey, answer: &Answer) -> Check {
        let is_change = match self.asked.get(&key) {
            Some((_, Request::Create { .. })) => matches!(answer, Answer::Region(view) if view.made != Made::Found),
            Some((_, Request::Remove { .. } | Request::Alter { .. })) => true,
            _ => false,
        };
        check(!is_change || self.carried_out.contains(&key), || format!("{key:?} is answered without a record: {answer:?}"))
    }

    /// The coordinator answers with a region, as it was at some moment since then.
    pub fn on_view(&self, view: &RegionView, since_ms: u64) -> Check {
        let today = self.on_view_of((&self.regions, &self.lives), view);
        let before = self.before.iter().filter(|version| version.until_ms >= since_ms);
        let mut before = before.map(|version| self.on_view_of((&version.regions, &version.lives), view));
        if today.is_err() && before.any(|told| told.is_ok()) { Ok(()) } else { today }
    }

    /// The region must exist, whole, in the lives that made it, with grants for it.
    fn on_view_of(&self, (regions, lives): (&BTreeMap<Gid, Seen>, &BTreeMap<NodeId, Incarnation>), view: &RegionView) -> Check {
        let Some(seen) = regions.get(&view.gid).or_else(|| self.removed.get(&view.gid)) else {
            return Err(format!("'{}' was opened without existing", view.name));
        };
        check(seen.name == view.name && view.layout.len() <= seen.len, || format!("{view:?} is not {seen:?}"))?;
        let lost = seen.extents.iter().map(|extent| &extent.home).find(|(node, _, _, life)| lives.get(node) != Some(life));
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
            *used.entry(seen.uid).or_default() += len * u64::from(seen.copies);
            for (extent, (node, slot, len, life)) in
                seen.extents.iter().flat_map(|extent| extent.held().map(move |held| (extent, held)))
            {
                let is_old = self.lives.get(node) != Some(life);
                if is_old && !extent.copies.is_empty() {
                    continue;
                }
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
            let on = seen
                .extents
                .iter()
                .flat_map(SeenExtent::held)
                .filter(move |(other, _, _, made_in)| (*other, *made_in) == (node, life));
            on.map(move |(_, slot, _, _)| (*slot, gid)).collect::<Vec<_>>()
        };
        self.regions.iter().flat_map(of).collect()
    }

    /// True if a region that was acknowledged is there, or was removed by somebody who asked for it.
    pub fn was_created(&self, gid: Gid) -> bool {
        self.gids.contains(&gid)
    }
}
