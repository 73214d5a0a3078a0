//! Regions that follow their users: programs of one host use a region of words most, and its extent goes there.
//!
//! | what is played | what must hold |
//! |---|---|
//! | programs of one host send most requests to a region, and later those of another host | all that holds of words |
//! | homes count by the rule of the product, and tell the coordinator in rounds | they tell of what they saw, and of all that is plain |
//! | nodes are drained, and holders are lost | copies come to be for that, or because a home told of use by a holder's host |
//!
//! A request counts as a quarter of its region. Followers have dice of their own, as shortages have.

use super::process::ProcessLife;
use super::words::{REGION_COUNT, REGION_LEN};
use super::{Cluster, Defect, Event, Terms};
use crate::Plan;
use crate::check::{Check, check};
use crate::dice::Dice;
use hanare_home::Bytes;
use hanare_protocol::coordinator::{Peer, Record, RegionRecord};
use hanare_protocol::id::{Gid, NodeId, Slot};
use hanare_protocol::usage::{ROUND_MS, UsedElsewhere, follows_users};
use hanare_protocol::wire::control::{Order, ToNode};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that count for a request.
pub(super) const USED_LEN: u64 = REGION_LEN / 4;
/// Requests of 10,000 that come from any host.
const STRAY: u64 = 500;
/// Time after which nobody asks any more what a home has seen.
const SEEN_MS: u64 = 600_000;
/// Time after a home's word in which copies may come to be for that.
const HEARD_MS: u64 = 60_000;
/// Time after the faults in which homes still tell: moves have come to rest at the end.
const TELLS_MS: u64 = 20_000;
/// Part of a seed that dice of followers begin with.
const SALT: u64 = 0x666f_6c6c;

/// An event of regions that follow their users.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FollowEvent {
    /// Programs of another host use a region from here on.
    Users,
    /// A round of a home ends.
    Round { at: ProcessLife },
}

impl FollowEvent {
    /// The host whose process it needs.
    pub fn host(self) -> Option<usize> {
        match self {
            FollowEvent::Users => None,
            FollowEvent::Round { at } => Some(at.0),
        }
    }
}

/// An extent in the life of its node's process.
type LifeOfExtent = (ProcessLife, Gid, Slot);

/// A request that a home has done, by programs of a host.
#[derive(Clone, Copy, Debug)]
struct Use {
    at_ms: u64,
    place: LifeOfExtent,
    by: NodeId,
}

/// The users of all regions of words, and what homes have seen of them.
#[derive(Debug)]
pub(super) struct Followers {
    dice: Dice,
    /// The host whose programs use a region most.
    users: [usize; REGION_COUNT],
    seen: Vec<Use>,
    /// When a home told last that programs of a node's host use a region most.
    heard: BTreeMap<(Gid, NodeId), u64>,
    /// The home of each region, by the journal.
    homes: BTreeMap<Gid, NodeId>,
    /// When homes tell nothing any more.
    until_ms: u64,
}

/// The followers of a run that has some.
pub(super) fn followers(plan: Plan, terms: Terms, hosts: usize, defect: Option<Defect>) -> Option<Followers> {
    let is_played = defect.map_or(plan.seed % 5 == 2, Defect::is_of_followers) && terms == Terms::Budget;
    let (mut dice, seen, heard, homes) = (Dice::new(plan.seed ^ SALT), Vec::new(), BTreeMap::new(), BTreeMap::new());
    let users = std::array::from_fn(|_| dice.below(hosts as u64) as usize);
    is_played.then(|| Followers { dice, users, seen, heard, homes, until_ms: plan.rough_ms() + TELLS_MS })
}

impl Cluster {
    pub(super) fn begin_followers(&mut self) {
        if self.followers.is_some() {
            self.at(ROUND_MS, Event::Follow(FollowEvent::Users));
        }
    }

    /// A process begins, and its rounds.
    pub(super) fn begin_rounds(&mut self, at: ProcessLife) {
        if let Some(after) = self.followers.as_mut().map(|followers| followers.dice.between(1, ROUND_MS)) {
            self.at(after, Event::Follow(FollowEvent::Round { at }));
        }
    }

    pub(super) fn on_follow(&mut self, event: FollowEvent) -> Check {
        match event {
            FollowEvent::Users => {
                self.change_users();
                Ok(())
            }
            FollowEvent::Round { at } => self.end_round(at),
        }
    }

    fn change_users(&mut self) {
        let (is_rough, hosts) = (self.is_rough, self.hosts.len() as u64);
        let Some(followers) = self.followers.as_mut().filter(|_| is_rough) else { return };
        let region = followers.dice.below(REGION_COUNT as u64) as usize;
        followers.users[region] = followers.dice.below(hosts) as usize;
        let after = followers.dice.between(ROUND_MS, 3 * ROUND_MS);
        self.at(after, Event::Follow(FollowEvent::Users));
    }

    /// The node of the host from which a program's next request comes: mostly the region's user.
    pub(super) fn user_of(&mut self, region: usize) -> Option<NodeId> {
        let hosts = self.hosts.len() as u64;
        let followers = self.followers.as_mut()?;
        let stray = followers.dice.chance(STRAY).then(|| followers.dice.below(hosts) as usize);
        let host = stray.unwrap_or(followers.users[region]);
        self.hosts[host].process.as_ref()?.member.identity().map(|(node, _)| node)
    }

    /// A home does a request of a program of that node's host.
    pub(super) fn on_used(&mut self, place: LifeOfExtent, by: Option<NodeId>) {
        let (Some(by), at_ms) = (by, self.now_ms) else { return };
        if let Some(process) = self.process(place.0) {
            process.lender.moved(place.2, by, USED_LEN);
        }
        if let Some(followers) = &mut self.followers {
            followers.seen.retain(|before| before.at_ms + SEEN_MS > at_ms);
            followers.seen.push(Use { at_ms, place, by });
        }
    }

    /// A node frees extents, and counts from zero what comes into their slots.
    pub(super) fn forget_uses(&mut self, at: ProcessLife, slots: &[Slot]) {
        if let Some(followers) = &mut self.followers {
            followers.seen.retain(|seen| seen.place.0 != at || !slots.contains(&seen.place.2));
        }
    }

    /// A home tells the coordinator of extents that other hosts use most.
    fn end_round(&mut self, at: ProcessLife) -> Check {
        let (now_ms, invents, hides) = (self.now_ms, self.has(Defect::InventUse), self.has(Defect::HideUse));
        let hosts = self.hosts.len() as u64;
        let Some(followers) = self.followers.as_mut().filter(|followers| now_ms < followers.until_ms) else { return Ok(()) };
        let anyone = NodeId(followers.dice.below(hosts) as u32);
        let Some(process) = self.process(at) else { return Ok(()) };
        if let Some((me, _)) = process.member.identity() {
            let mut used = process.lender.end_round(me);
            let any = process.lender.all_copied().next().map(|extent| (extent.gid(), extent.slot()));
            if let Some((gid, slot)) = any.filter(|_| invents) {
                used.push(UsedElsewhere { gid, slot, by: anyone });
            }
            used.retain(|_| !hides);
            process.member.say_used_elsewhere(used.clone());
            self.judge_told_use(at, me, &used)?;
            self.drain_node(at.0)?;
        }
        self.at(ROUND_MS, Event::Follow(FollowEvent::Round { at }));
        Ok(())
    }

    /// A home tells of use that it saw, and of all that is plain.
    fn judge_told_use(&self, at: ProcessLife, me: NodeId, told: &[UsedElsewhere]) -> Check {
        let Some(followers) = &self.followers else { return Ok(()) };
        for used in told {
            let seen: Vec<&Use> = followers.seen.iter().filter(|seen| seen.place == (at, used.gid, used.slot)).collect();
            check(is_most(&seen, used.by), || format!("{me} tells of {used:?}, and saw {seen:?}"))?;
        }
        let places: BTreeSet<LifeOfExtent> = followers.seen.iter().map(|seen| seen.place).filter(|place| place.0 == at).collect();
        for place @ (_, gid, slot) in places {
            let process = self.hosts[at.0].process.as_ref();
            let is_there = process.is_some_and(|process| process.lender.bytes(gid, slot).is_some());
            let Some(by) = followers.plain_user(place, me, self.now_ms).filter(|_| is_there) else { continue };
            let expected = UsedElsewhere { gid, slot, by };
            check(told.contains(&expected), || format!("{me} does not tell of {expected:?}: {told:?}"))?;
        }
        Ok(())
    }

    /// The coordinator hears of use.
    pub(super) fn hear_use(&mut self, extents: &[UsedElsewhere]) {
        let now_ms = self.now_ms;
        self.count("messages about use");
        if let Some(followers) = &mut self.followers {
            followers.heard.extend(extents.iter().map(|used| ((used.gid, used.by), now_ms)));
        }
    }

    /// The coordinator has a node make extents, for the first time: none that is drained. A copy of a region that follows has a cause.
    pub(super) fn judge_order(&mut self, peer: Peer, message: &ToNode, decided_ms: u64) -> Check {
        let ToNode::Order { order, what: Order::Make { gid, lens, copied }, .. } = message else { return Ok(()) };
        if !self.checks.is_new_order(*order) {
            return Ok(());
        }
        let Some(connection) = self.connections.open.get(&peer).copied() else { return Ok(()) };
        let identity = self.hosts[connection.node].process.as_ref().and_then(|process| process.member.identity());
        let Some((node, _)) = identity else { return Ok(()) };
        let is_drained = lens.iter().any(|len| *len > 0) && self.checks.drains(node, decided_ms);
        check(!is_drained, || format!("{node} is drained, and is to make an extent: {message:?}"))?;
        if copied.is_none() {
            return Ok(());
        }
        let (now_ms, home) = (self.now_ms, connection.home.0);
        let region = self.homes.get(&home).and_then(|home| home.coordinator.regions().find(|region| region.gid == *gid));
        let Some((followers, region)) = self.followers.as_ref().zip(region.filter(|region| follows_users(&region.attributes)))
        else {
            return Ok(());
        };
        let holders = holders_of(region);
        let is_heard = followers.hears_of(*gid, now_ms).any(|by| by == node || holders.contains(&by));
        let is_needed =
            holders.len() < usize::from(region.copies) || holders.iter().any(|holder| self.checks.drains(*holder, now_ms + 1));
        check(is_heard || is_needed, || format!("{node} gets a copy without a cause: {message:?}: {region:?}"))?;
        self.count(if is_needed { "copies that were missing" } else { "copies at users" });
        Ok(())
    }

    /// Records count from here on.
    pub(super) fn note_homes(&mut self, records: &[Record]) {
        let now_ms = self.now_ms;
        for record in records {
            let (Record::Held { extent, home, .. }, Some(followers)) = (record, self.followers.as_mut()) else { continue };
            let before = followers.homes.insert(extent.gid, home.node);
            let is_heard = followers.hears_of(extent.gid, now_ms).any(|by| by == home.node);
            if before != Some(home.node) && is_heard {
                self.count("homes that went to their users");
            }
        }
    }
}

fn holders_of(region: &RegionRecord) -> Vec<NodeId> {
    let copies = region.holders.iter().flat_map(|known| &known.copies);
    region.layout.extents().chain(copies).map(|extent| extent.node).collect()
}

/// True if programs of that node's host moved as many bytes as the region has. From some moment on they sent most requests.
fn is_most(seen: &[&Use], by: NodeId) -> bool {
    let its = |seen: &[&Use]| seen.iter().filter(|seen| seen.by == by).count();
    let is_most_of = |from: usize| its(&seen[from..]) * 10 >= (seen.len() - from) * 6;
    its(seen) as u64 * USED_LEN >= REGION_LEN && (0..seen.len()).any(is_most_of)
}

impl Followers {
    /// The nodes whose hosts' programs use a region most, as homes told of late.
    fn hears_of(&self, gid: Gid, now_ms: u64) -> impl Iterator<Item = NodeId> {
        let of_late = self.heard.range((gid, NodeId(0))..=(gid, NodeId(u32::MAX)));
        of_late.filter(move |(_, heard_ms)| now_ms <= **heard_ms + HEARD_MS).map(|((_, by), _)| *by)
    }

    /// The other node whose host's programs sent nearly all requests to an extent, and many of late.
    fn plain_user(&self, place: LifeOfExtent, me: NodeId, now_ms: u64) -> Option<NodeId> {
        let seen: Vec<&Use> = self.seen.iter().filter(|seen| seen.place == place).collect();
        let last = seen.last().map(|last| last.by).filter(|last| *last != me)?;
        let is_late = |seen: &&&Use| seen.by == last && now_ms <= seen.at_ms + 6 * ROUND_MS;
        let (late, others) = (seen.iter().filter(is_late).count(), seen.iter().filter(|seen| seen.by != last).count());
        (late as u64 * USED_LEN >= 4 * REGION_LEN && others as u64 * USED_LEN <= REGION_LEN).then_some(last)
    }
}
