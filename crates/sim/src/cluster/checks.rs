//! Invariants of every moment, judged by a naive model that sees only what crosses the machines' borders.
//!
//! The model is fed with durable records and with what clients asked; it shares no code with the coordinator's own ledger.

use super::tenants::{CheckedRequest, TenantChecks};
use crate::check::{Check, check};
use hanare_protocol::coordinator::{AskKey, Coordinator, Ended, ExtentCopies, Record, RegionRecord};
use hanare_protocol::id::{Epoch, Gid, Grant, Incarnation, NodeId, Slot, is_tenant};
use hanare_protocol::placement::Extent;
use hanare_protocol::wire::control::{Answer, Made, RegionView, Request, TenantWish};
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
    /// Names that the last batch took from regions.
    renamed: BTreeMap<Gid, String>,
    /// Regions that ever had another name.
    renamed_ever: BTreeSet<Gid>,
    /// The owner of each region that there is, or was.
    owners: BTreeMap<Gid, u32>,
    pub tenants: TenantChecks,
    lives: BTreeMap<NodeId, Incarnation>,
    /// Nodes that are drained, and since when.
    draining: BTreeMap<NodeId, u64>,
    /// Orders that coordinators have given.
    orders: BTreeSet<u64>,
    ended: BTreeSet<(NodeId, Epoch)>,
    asked: BTreeMap<AskKey, CheckedRequest>,
    carried_out: BTreeSet<AskKey>,
    /// The epoch in which a grant was made, and for which extent.
    grants: BTreeMap<[u8; 16], (NodeId, Epoch, Gid)>,
    /// The regions and lives of before, and until when they were those of today.
    before: VecDeque<Version>,
    now_ms: u64,
}

#[derive(Debug)]
struct Version {
    until_ms: u64,
    regions: BTreeMap<Gid, Seen>,
    lives: BTreeMap<NodeId, Incarnation>,
}

impl Checks {
    /// A client asks.
    pub fn on_asked(&mut self, key: AskKey, uid: u32, what: &Request, at_ms: u64) {
        self.asked.insert(key, CheckedRequest { uid, what: what.clone(), at_ms });
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
    pub fn begin_batch(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.removed.clear();
        self.renamed.clear();
    }

    /// A record of the batch.
    pub fn on_record(&mut self, record: &Record) -> Check {
        self.note_drain(record);
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
                self.on_carried_out(*by, |asked, _| matches!(asked.what, Request::Resize { .. }))?;
                let more = self.seen(&span.extents, holders);
                let seen = self.regions.get_mut(gid).ok_or_else(|| format!("{gid} grew without existing"))?;
                seen.len += span.len;
                seen.extents.extend(more);
                self.on_more(*gid, *by)
            }
            Record::Altered { gid, changes, by } => {
                self.on_carried_out(*by, |asked, _| matches!(asked.what, Request::Alter { .. }))?;
                if let Some(name) = &changes.name {
                    self.on_renamed(*gid, name, *by)?;
                }
                let seen = self.regions.get_mut(gid).ok_or_else(|| format!("{gid} was altered without existing"))?;
                let before = seen.copies;
                seen.copies = changes.copies.unwrap_or(before);
                if seen.copies > before { self.on_more(*gid, *by) } else { Ok(()) }
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
            Record::Removed { gid, by } => self.on_removed(*gid, *by),
            Record::Tenant { tenant, by: Some(by) } => {
                self.on_carried_out(*by, |asked, all| all.fits(&asked.what, tenant))?;
                let is_new = matches!(self.asked[by].what, Request::Tenants(TenantWish::Create { .. }));
                self.tenants.on_record(tenant, is_new, self.now_ms)
            }
            Record::TenantRemoved { number, by: Some(by) } => {
                let left = self.regions.values().find(|seen| seen.uid == *number);
                check(left.is_none(), || format!("tenant {number} is removed, and has {left:?}"))?;
                self.on_carried_out(*by, |asked, all| all.removes(&asked.what, *number))?;
                self.tenants.on_removed(*number, self.now_ms)
            }
            _ => Ok(()),
        }
    }

    /// A node is drained from here on, or not any more. The next life of a node is not.
    fn note_drain(&mut self, record: &Record) {
        match record {
            Record::Drains { node, .. } => drop(self.draining.entry(*node).or_insert(self.now_ms)),
            Record::DrainEnded { node } | Record::NodeForgotten { node } => drop(self.draining.remove(node)),
            Record::Node(node) if self.lives.get(&node.node) != Some(&node.incarnation) => {
                self.draining.remove(&node.node);
            }
            _ => {}
        }
    }

    /// A region is removed: by itself, or with its tenant.
    fn on_removed(&mut self, gid: Gid, by: AskKey) -> Check {
        let seen = self.regions.remove(&gid).ok_or_else(|| format!("{gid} was removed without existing"))?;
        let with_tenant = self.asked.get(&by).is_some_and(|asked| self.tenants.removes_all_of(&asked.what, seen.uid));
        if !with_tenant {
            let is_its = |asked: &CheckedRequest, name: &String, all: &TenantChecks| all.inside(asked.uid, name) == seen.name;
            self.on_carried_out(by, |asked, all| matches!(&asked.what, Request::Remove { name } if is_its(asked, name, all)))?;
        }
        self.removed.insert(gid, seen);
        Ok(())
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
        let is_new = self.owners.insert(region.gid, region.owner.uid).is_none();
        check(is_new, || format!("{} was used twice", region.gid))?;
        check(self.regions.values().all(|seen| seen.name != *name), || format!("two regions are named '{name}'"))?;
        let fits = |asked: &CheckedRequest, all: &TenantChecks| {
            matches!(&asked.what, Request::Create { name: said, len: bytes, .. }
                if all.inside(asked.uid, said) == *name && *bytes == len)
        };
        self.on_carried_out(by, fits)?;
        let uid = self.asked[&by].uid;
        check(uid == region.owner.uid, || format!("region '{name}' belongs to {}, not to {uid}", region.owner.uid))?;
        let homes: Vec<Extent> = region.layout.extents().copied().collect();
        let extents = self.seen(&homes, &region.holders);
        self.regions.insert(region.gid, Seen { name: name.clone(), uid, len, copies: region.copies, extents });
        self.on_more(region.gid, by)
    }

    /// A region has another name: one that its owner says, and that no other has.
    fn on_renamed(&mut self, gid: Gid, to: &str, by: AskKey) -> Check {
        let fits = |asked: &CheckedRequest| {
            matches!(&asked.what, Request::Alter { changes, .. }
                if changes.name.as_ref().is_some_and(|said| self.tenants.inside(asked.uid, said) == to))
        };
        check(self.asked.get(&by).is_some_and(fits), || format!("nobody gave {gid} the name '{to}'"))?;
        check(self.regions.values().all(|seen| seen.name != to), || format!("two regions are named '{to}'"))?;
        let seen = self.regions.get_mut(&gid).ok_or_else(|| format!("{gid} was renamed without existing"))?;
        let before = std::mem::replace(&mut seen.name, to.to_owned());
        self.renamed.insert(gid, before);
        self.renamed_ever.insert(gid);
        Ok(())
    }

    /// A region has more bytes, by a request.
    fn on_more(&self, gid: Gid, by: AskKey) -> Check {
        let uid = self.owners[&gid];
        let of_owner = self.regions.values().filter(|seen| seen.uid == uid);
        let used = of_owner.map(|seen| seen.len * u64::from(seen.copies)).sum();
        self.tenants.on_more(uid, used, self.asked[&by].at_ms)
    }

    /// Extents that are held in the lives of today.
    fn seen(&self, homes: &[Extent], holders: &[ExtentCopies]) -> Vec<SeenExtent> {
        let held = |at: &Extent| (at.node, at.slot, at.len, self.lives[&at.node]);
        let copies = |index: usize| holders.get(index).map_or_else(Vec::new, |known| known.copies.iter().map(held).collect());
        homes.iter().enumerate().map(|(index, home)| SeenExtent { home: held(home), copies: copies(index) }).collect()
    }

    /// A request has an effect: it was asked for, and it never had one before.
    fn on_carried_out(&mut self, by: AskKey, fits: impl Fn(&CheckedRequest, &TenantChecks) -> bool) -> Check {
        let asked = self.asked.get(&by).is_some_and(|asked| fits(asked, &self.tenants));
        check(asked, || format!("nobody asked for what {by:?} did"))?;
        check(self.carried_out.insert(by), || format!("{by:?} was carried out twice"))
    }

    /// True if a node is drained since before a coordinator decided something.
    pub fn drains(&self, node: NodeId, decided_ms: u64) -> bool {
        self.draining.get(&node).is_some_and(|since_ms| *since_ms < decided_ms)
    }

    /// True the first time that a coordinator gives this order.
    pub fn is_new_order(&mut self, order: u64) -> bool {
        self.orders.insert(order)
    }

    /// A node's epoch is announced as ended.
    pub fn on_node_lost(&mut self, node: NodeId, epoch: Epoch) {
        self.ended.insert((node, epoch));
    }

    /// A node is welcomed.
    pub fn on_welcome(&self, node: NodeId, epoch: Epoch) -> Check {
        check(!self.ended.contains(&(node, epoch)), || format!("{node} resumes {epoch} that was announced as ended"))
    }

    /// A change that is answered has its record, which is durable. Users are told what they may be told, as of that moment.
    pub fn on_answer(&self, key: AskKey, answer: &Answer, decided_ms: u64) -> Check {
        let Some(asked) = self.asked.get(&key) else {
            // Launchers report the ends of ranks.
            return check(*answer == Answer::Ok, || format!("nobody asked {key:?}, and it is answered: {answer:?}"));
        };
        let is_change = match &asked.what {
            Request::Create { .. } => matches!(answer, Answer::Region(view) if view.made != Made::Found),
            Request::Remove { .. } | Request::Alter { .. } => true,
            Request::Tenants(wish) => *answer == Answer::Ok && !matches!(wish, TenantWish::List { .. }),
            _ => false,
        };
        check(!is_change || self.carried_out.contains(&key), || format!("{key:?} is answered without a record: {answer:?}"))?;
        match (&asked.what, answer) {
            (Request::ProveTenant { tenant, hash }, Answer::Tenant(user)) => {
                self.tenants.on_let_in(tenant, hash, user.uid, asked.at_ms)?;
            }
            (Request::Reserve { .. }, Answer::Reserved { granted, elsewhere }) if *granted > 0 => {
                self.tenants.on_reserved(asked.uid, granted + elsewhere, asked.at_ms)?;
            }
            _ => {}
        }
        self.tenants.on_answer(asked, answer, &self.owners, decided_ms)?;
        match answer {
            Answer::Region(view) => self.on_view(asked.uid, view, decided_ms),
            _ => Ok(()),
        }
    }

    /// The coordinator refuses a key.
    pub fn on_key_refused(&self, key: AskKey) -> Check {
        match self.asked.get(&key) {
            Some(CheckedRequest { what: Request::ProveTenant { tenant, hash }, at_ms, .. }) => {
                self.tenants.on_key_refused(tenant, hash, *at_ms)
            }
            asked => Err(format!("a key is refused, and not asked for: {asked:?}")),
        }
    }

    /// The coordinator answers a user with a region, as it was at some moment since then.
    fn on_view(&self, uid: u32, view: &RegionView, since_ms: u64) -> Check {
        let today = self.on_view_of(uid, (&self.regions, &self.lives), view);
        let before = self.before.iter().filter(|version| version.until_ms >= since_ms);
        let mut before = before.map(|version| self.on_view_of(uid, (&version.regions, &version.lives), view));
        if today.is_err() && before.any(|told| told.is_ok()) { Ok(()) } else { today }
    }

    /// The region must exist, whole, in the lives that made it, with grants for it.
    fn on_view_of(
        &self,
        uid: u32,
        (regions, lives): (&BTreeMap<Gid, Seen>, &BTreeMap<NodeId, Incarnation>),
        view: &RegionView,
    ) -> Check {
        let Some(seen) = regions.get(&view.gid).or_else(|| self.removed.get(&view.gid)) else {
            return Err(format!("'{}' was opened without existing", view.name));
        };
        let mut names = self.renamed.get(&view.gid).into_iter().chain([&seen.name]);
        let is_named = names.any(|name| self.tenants.outside(uid, name) == Some(&view.name));
        check(is_named && view.layout.len() <= seen.len, || format!("{view:?} is not {seen:?}"))?;
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
            // A tenant's quota may be less than it has.
            check(used <= quota || is_tenant(uid), || format!("user {uid} has {used} bytes, over the quota of {quota}"))?;
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
        self.owners.contains_key(&gid)
    }

    /// True if a region had another name at some moment. A request that is repeated is answered with the name of today.
    pub fn was_renamed(&self, gid: Gid) -> bool {
        self.renamed_ever.contains(&gid)
    }

    /// The owner of a region that there is, or was.
    pub fn owner(&self, gid: Gid) -> Option<u32> {
        self.owners.get(&gid).copied()
    }

    /// The highest number of a region that there ever was.
    pub fn gid_last(&self) -> u64 {
        self.owners.keys().next_back().map_or(0, |gid| gid.0)
    }
}
