//! How clients begin and end to share a region: their host joins all homes of its pages, and leaves them when the last client
//! has gone and all that only this host had is home.

use super::home::{Home, Life, Over, Post};
use super::host::{HomeDoor, Host};
use super::memory::HomeMemory;
use super::{Deed, Pages, Wish};
use crate::node::extents::Extents;
use hanare_memory::frames::ClientFrames;
use hanare_protocol::id::{ClientId, Epoch, Gid, Grant, Incarnation, NodeId, Rights};
use hanare_protocol::limits::{FRAME_COUNT_MIN, PAGE_LEN};
use hanare_protocol::name::check_name;
use hanare_protocol::page::{Consistency, HostId};
use hanare_protocol::place::Layout;
use hanare_protocol::wire::control::{Answer, RegionView, SharedHome, SharedView};
use hanare_protocol::wire::page::{Join, Joined, Letter};
use hanare_protocol::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a host waits for programs that use a region's memory as it is: they may be about to map it too.
const DIRECT_PATIENCE: Duration = Duration::from_secs(4);

/// What a node keeps apart of a region: who may not write has page words and frames of its own, shared with programs of the same user
/// alone, because both are memory that its programs write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HostKey {
    pub gid: Gid,
    /// The user whose programs only read it coherently; `None` for all others.
    pub readers: Option<u32>,
}

/// What a client wants to map.
pub(super) struct Wanted {
    client: ClientId,
    uid: u32,
    view: RegionView,
    consistency: Consistency,
}

impl Wanted {
    fn key(&self) -> HostKey {
        let only_reads = self.consistency == Consistency::Coherent && self.view.rights < Rights::Write;
        HostKey { gid: self.view.gid, readers: only_reads.then_some(self.uid) }
    }
}

/// The homes of a region are being asked what the grants of a client allow.
pub(super) struct Joining {
    wanted: Wanted,
    waits: BTreeSet<usize>,
    /// The most that every home that has answered allows.
    rights: Rights,
    /// The client has ended.
    is_void: bool,
    failed: Option<Error>,
    /// Who is next.
    then: VecDeque<Wanted>,
}

/// A region whose homes are being left.
pub(super) struct Leaving {
    since: Instant,
    /// Whether all pages are home, and the homes were told.
    is_told: bool,
    waits: BTreeSet<usize>,
    replies: Vec<ClientId>,
    /// Why not all that was stored is home.
    failed: Option<Error>,
    /// Who wants to map it again.
    then: Vec<Wanted>,
}

impl Joining {
    /// The programs that wait.
    pub fn into_clients(self) -> impl Iterator<Item = ClientId> {
        std::iter::once(self.wanted).chain(self.then).map(|wanted| wanted.client)
    }
}

impl PendingJoin {
    pub fn join(&self) -> &Join {
        &self.join
    }
}

impl Leaving {
    /// Whether the homes were told.
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// Not all that was stored is kept.
    pub fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }

    /// The homes know nothing of it any more.
    pub fn begin_again(&mut self) {
        (self.is_told, self.waits) = (false, BTreeSet::new());
    }
}

impl Default for Leaving {
    fn default() -> Leaving {
        let (waits, replies, then) = (BTreeSet::new(), Vec::new(), Vec::new());
        Leaving { since: Instant::now(), is_told: false, waits, replies, failed: None, then }
    }
}

/// A host that waits at a home.
pub(super) struct PendingJoin {
    from: NodeId,
    life: Life,
    join: Join,
    until: Instant,
}

impl Pages {
    /// A client wants to share a region, or not any more. Answered by [`Deed::Reply`].
    pub fn on_wish(&mut self, client: ClientId, wish: Wish) {
        match wish {
            Wish::Share { view, consistency, uid } => self.share(Wanted { client, uid, view: *view, consistency }),
            Wish::Hold { gid, frames } => {
                let result = self.hold(client, gid, frames);
                self.reply(client, result.map(|()| Answer::Ok), Vec::new());
            }
            Wish::Stat { names } => {
                let mut stats = self.stat();
                if !names {
                    stats.iter_mut().for_each(|stat| stat.name.clear());
                }
                self.reply(client, Ok(Answer::Pages(stats)), Vec::new());
            }
            Wish::Unshare { gid } => self.unshare(client, gid, true),
        }
        self.settle();
    }

    /// A client has ended.
    pub fn on_client_gone(&mut self, client: ClientId) {
        for joining in self.joining.values_mut() {
            joining.is_void |= joining.wanted.client == client;
            joining.then.retain(|wanted| wanted.client != client);
        }
        for leaving in self.leaving.values_mut() {
            leaving.then.retain(|wanted| wanted.client != client);
        }
        let shared: Vec<Gid> = self.hosts.values().filter(|host| host.has(client)).map(Host::gid).collect();
        for gid in shared {
            self.unshare(client, gid, false);
        }
        self.settle();
    }

    /// The node ends in good order: what only this host had goes home, as if all clients had unmapped.
    pub fn stop(&mut self) {
        let all: Vec<HostKey> = self.hosts.keys().copied().collect();
        for key in all {
            self.with_host(key, Host::part_all);
            self.leaving.entry(key).or_default();
        }
        self.settle();
        self.go_on_leaving();
        self.settle();
    }

    /// Whether this host shares nothing.
    pub fn is_left(&self) -> bool {
        self.hosts.is_empty()
    }

    pub(super) fn reply(&mut self, client: ClientId, result: Result<Answer>, fds: Vec<std::os::fd::OwnedFd>) {
        self.deeds.push_back(Deed::Reply { client, result, fds });
    }

    fn share(&mut self, wanted: Wanted) {
        let key = wanted.key();
        if let Some(leaving) = self.leaving.get_mut(&key) {
            return leaving.then.push(wanted);
        }
        if let Some(joining) = self.joining.get_mut(&key) {
            return joining.then.push_back(wanted);
        }
        let client = wanted.client;
        if let Err(error) = self.begin_share(wanted) {
            self.reply(client, Err(error), Vec::new());
            self.leave_if_unused(key);
        }
    }

    /// Asks the homes for a client, each time: nobody else can say what its grants are good for.
    fn begin_share(&mut self, wanted: Wanted) -> Result<()> {
        let (key, view) = (wanted.key(), &wanted.view);
        check_view(view)?;
        let bad_use = |reason: String| Err(Error::BadUse { region: view.name.clone(), reason });
        let others = self.hosts.iter().filter(|(other, host)| other.gid == key.gid && !host.is_unused());
        for (_, host) in others {
            if host.consistency != wanted.consistency {
                return bad_use(format!(
                    "programs of this host map it {}; it is mapped in one way at a time: let them unmap it first",
                    host.consistency
                ));
            }
            if host.has(wanted.client) {
                return bad_use("this program has it mapped already".to_owned());
            }
        }
        let is_other = |host: &Host| host.consistency != wanted.consistency || *host.layout() != view.layout;
        if self.hosts.get(&key).is_some_and(|host| host.is_unused() && is_other(host)) {
            // Somebody who was not let in said something else of it.
            self.leaving.entry(key).or_default().then.push(wanted);
            return Ok(());
        }
        if !self.hosts.contains_key(&key) {
            let host = self.make_host(&wanted)?;
            for (at, door) in host.homes.iter().enumerate() {
                self.keys.insert(door.key, (key, at));
            }
            self.hosts.insert(key, host);
        }
        let host = &self.hosts[&key];
        if *host.layout() != view.layout {
            return bad_use("programs of this host map it as it was before it was resized; let them unmap it first".to_owned());
        }
        if let Some(home) = host.homes.iter().find(|home| home.is_lost) {
            // Its directory begins anew, and knows nothing of the copies that are here.
            let reason =
                "programs of this host have mapped it since before that node was lost: let them unmap it first".to_owned();
            return Err(Error::NodeLost { node: home.node, reason });
        }
        self.join_all(wanted)
    }

    /// Asks all homes, with the grants of this client.
    fn join_all(&mut self, wanted: Wanted) -> Result<()> {
        let (node, epoch) =
            self.me.ok_or_else(|| Error::NoCoordinator { reason: "this node has not joined its pool".to_owned() })?;
        let (place, view) = (wanted.key(), &wanted.view);
        let Some(host) = self.hosts.get_mut(&place) else { unreachable!("the caller has just looked") };
        for door in host.homes.iter_mut().filter(|door| door.share.is_none()) {
            // A home that is back may be reached elsewhere.
            if let Some(known) = view.nodes.iter().find(|known| known.node == door.node) {
                (door.address, door.life) = (known.address.clone(), Life { epoch: known.epoch, process: None });
            }
        }
        let waits = (0..host.homes.len()).collect();
        let join = |key: u64| {
            Letter::Join(Join {
                gid: view.gid,
                name: view.name.clone(),
                layout: view.layout.clone(),
                grants: view.grants.clone(),
                consistency: host.consistency,
                node,
                epoch,
                readers: place.readers,
                address: self.address.clone(),
                key,
            })
        };
        let letters: Vec<_> = host.homes.iter().map(|door| (door.node, door.address.clone(), join(door.key))).collect();
        let joining = Joining { wanted, waits, rights: Rights::Write, is_void: false, failed: None, then: VecDeque::new() };
        self.joining.insert(place, joining);
        for (node, address, letter) in letters {
            self.send(Post { node, address, letter, bytes: None });
        }
        Ok(())
    }

    fn make_host(&self, Wanted { view, consistency, .. }: &Wanted) -> Result<Host> {
        let mut homes: Vec<HomeDoor> = Vec::new();
        for extent in view.layout.extents() {
            if homes.iter().any(|home| home.node == extent.node) {
                continue;
            }
            let lost = || Error::NodeLost { node: extent.node, reason: "its address is not known".to_owned() };
            let known = view.nodes.iter().find(|known| known.node == extent.node).ok_or_else(lost)?;
            homes.push(HomeDoor {
                node: extent.node,
                address: known.address.clone(),
                life: Life { epoch: known.epoch, process: None },
                unsent: Vec::new(),
                key: u64::from_le_bytes(crate::random::bytes()?),
                share: None,
                me: HostId(0),
                peers: BTreeMap::new(),
                is_lost: false,
                memory: None,
            });
        }
        let frames_max = match consistency {
            Consistency::Coherent => self.reserve_frames(view.layout.len().div_ceil(PAGE_LEN))?,
            // Its programs have copies of their own.
            Consistency::Explicit => 0,
        };
        Ok(Host::new((view.gid, view.name.clone()), *consistency, view.layout.clone(), homes, frames_max))
    }

    /// Frames for a region of so many pages, from what mappings that came before have left: as many as it has pages, or half of the rest,
    /// so that the next one finds some too.
    fn reserve_frames(&self, pages: u64) -> Result<u64> {
        let left = self.frames_max.saturating_sub(self.hosts.values().map(Host::frames_max).sum());
        let least = FRAME_COUNT_MIN.min(self.frames_max).min(pages);
        if left < least {
            let what = "frames of all mappings of this host together (HANARE_FRAMES of its node)".to_owned();
            return Err(Error::LimitReached { what, limit: self.frames_max });
        }
        Ok(pages.min((left / 2).max(FRAME_COUNT_MIN.min(left))))
    }

    /// A home's answer.
    pub(super) fn on_joined(&mut self, key: u64, process: Incarnation, result: Result<Joined>) {
        let Some((place, at)) = self.keys.get(&key).copied() else { return };
        let (Some(host), Some(joining)) = (self.hosts.get_mut(&place), self.joining.get_mut(&place)) else { return };
        if !joining.waits.remove(&at) {
            return;
        }
        match result {
            Ok(Joined { host: me, share, rights }) => {
                let maps_own = self.maps_own && place.readers.is_none();
                let is_own = maps_own && self.me.is_some_and(|(node, _)| node == host.homes[at].node);
                let own = self.homes.get(&place.gid).filter(|_| is_own);
                let door = &mut host.homes[at];
                (door.me, door.share, door.life.process) = (me, Some(share), Some(process));
                door.memory = own.filter(|home| home.consistency() == Consistency::Coherent).map(|home| home.memory().clone());
                joining.rights = joining.rights.min(rights);
                if joining.wanted.view.rights > rights {
                    joining.failed = Some(Error::GrantRefused { gid: place.gid, node: door.node });
                }
            }
            Err(error) => joining.failed = joining.failed.take().or(Some(error)),
        }
        if !joining.waits.is_empty() {
            return;
        }
        let Some(Joining { wanted, is_void, failed, then, .. }) = self.joining.remove(&place) else { return };
        if !is_void {
            let admitted = failed.map_or_else(|| self.admit(wanted.client, place), Err);
            let (result, fds) = match admitted {
                Ok((view, fds)) => (Ok(Answer::Shared(view)), fds),
                Err(error) => (Err(error), Vec::new()),
            };
            self.reply(wanted.client, result, fds);
        }
        then.into_iter().for_each(|wanted| self.share(wanted));
        self.leave_if_unused(place);
    }

    fn admit(&mut self, client: ClientId, place: HostKey) -> Result<(SharedView, Vec<std::os::fd::OwnedFd>)> {
        let Some(host) = self.hosts.get_mut(&place) else { unreachable!("the caller has just joined") };
        let admission = host.admit(client)?;
        let homes = host.homes.iter().map(|door| SharedHome {
            node: door.node,
            address: door.address.clone(),
            share: door.share.unwrap_or_default(),
        });
        let view = SharedView {
            seat_first: admission.seat_first,
            seat_count: super::host::CLIENT_SEATS,
            seats: admission.seats,
            homes: homes.collect(),
            files: admission.files,
            frames_max: admission.frames_max,
            address: self.address.clone(),
        };
        Ok((view, admission.fds))
    }

    /// Where a client has a region.
    fn place_of(&self, client: ClientId, gid: Gid) -> Option<HostKey> {
        self.hosts.iter().find(|(key, host)| key.gid == gid && host.has(client)).map(|(key, _)| *key)
    }

    fn hold(&mut self, client: ClientId, gid: Gid, frames: ClientFrames) -> Result<()> {
        let none = || Error::BadUse { region: gid.to_string(), reason: "this program does not share it".to_owned() };
        let place = self.place_of(client, gid).ok_or_else(none)?;
        self.hosts.get_mut(&place).ok_or_else(none)?.hold(client, frames)
    }

    fn unshare(&mut self, client: ClientId, gid: Gid, has_asked: bool) {
        let Some(place) = self.place_of(client, gid) else {
            if has_asked {
                self.reply(client, Ok(Answer::Ok), Vec::new());
            }
            return;
        };
        self.with_host(place, |host, says| host.part(client, says));
        if !self.hosts[&place].is_unused() || self.joining.contains_key(&place) {
            if has_asked {
                self.reply(client, Ok(Answer::Ok), Vec::new());
            }
            return;
        }
        let leaving = self.leaving.entry(place).or_default();
        leaving.replies.extend(has_asked.then_some(client));
    }

    /// A region that nobody here maps, nor is about to, is left.
    pub(super) fn leave_if_unused(&mut self, place: HostKey) {
        let is_unused = self.hosts.get(&place).is_some_and(Host::is_unused) && !self.joining.contains_key(&place);
        if is_unused {
            self.leaving.entry(place).or_default();
        }
    }

    /// Regions that are being left: when all pages are home, the homes are told.
    pub(super) fn go_on_leaving(&mut self) {
        let waiting: Vec<HostKey> =
            self.leaving.iter().filter(|(_, leaving)| !leaving.is_told).map(|(place, _)| *place).collect();
        for place in waiting {
            if self.is_handing(place) {
                continue;
            }
            let (mut is_empty, is_late) = (true, self.leaving[&place].since.elapsed() > self.bound / 2);
            self.note_unsaved(place);
            self.with_host(place, |host, says| is_empty = host.is_lost() || host.empty(None, says));
            if !is_empty && !is_late {
                continue;
            }
            let Some(host) = self.hosts.get(&place) else { continue };
            if !is_empty {
                let reason =
                    format!("a program that stands still keeps pages of region '{}' from it, and they are lost", host.name);
                tracing::error!("{reason}");
                let node = host.homes.first().map_or(NodeId(0), |door| door.node);
                self.leaving.entry(place).or_default().fail(Error::NodeLost { node, reason });
            }
            let is_there = |door: &HomeDoor| door.share.filter(|_| !door.is_lost);
            let letters: Vec<_> = host
                .homes
                .iter()
                .enumerate()
                .filter_map(|(at, door)| Some((at, door.node, door.address.clone(), is_there(door)?)))
                .collect();
            let Some(leaving) = self.leaving.get_mut(&place) else { continue };
            leaving.is_told = true;
            leaving.waits = letters.iter().map(|(at, ..)| *at).collect();
            let is_left = leaving.waits.is_empty();
            for (_, node, address, share) in letters {
                self.send(Post { node, address, letter: Letter::Leave { share }, bytes: None });
            }
            if is_left {
                self.left(place);
            }
        }
    }

    /// A home has all that this host had.
    pub(super) fn on_left(&mut self, key: u64) {
        let Some((place, at)) = self.keys.get(&key).copied() else { return };
        self.left_one(place, at);
    }

    pub(super) fn left_one(&mut self, place: HostKey, at: usize) {
        let Some(leaving) = self.leaving.get_mut(&place) else { return };
        leaving.waits.remove(&at);
        if leaving.is_told && leaving.waits.is_empty() {
            self.left(place);
        }
    }

    /// A home that is lost has not got all that was stored here: that is said to who unmaps.
    fn note_unsaved(&mut self, place: HostKey) {
        let Some(host) = self.hosts.get(&place) else { return };
        let (Some(node), Some(leaving)) = (host.unsaved(), self.leaving.get_mut(&place)) else { return };
        let reason = format!("it has not got all that programs of this host stored to region '{}', and they unmap it", host.name);
        leaving.fail(Error::NodeLost { node, reason });
    }

    /// No home knows this host any more.
    pub(super) fn left(&mut self, place: HostKey) {
        self.note_unsaved(place);
        if let Some(host) = self.hosts.remove(&place) {
            host.homes.iter().for_each(|door| {
                self.keys.remove(&door.key);
            });
        }
        let Some(Leaving { replies, then, failed, .. }) = self.leaving.remove(&place) else { return };
        for client in replies {
            self.reply(client, failed.clone().map_or(Ok(Answer::Ok), Err), Vec::new());
        }
        // It was given up while homes were asked for more clients: what they say is for nobody here any more.
        if let Some(Joining { wanted, is_void, then, .. }) = self.joining.remove(&place) {
            Some(wanted).filter(|_| !is_void).into_iter().chain(then).for_each(|wanted| self.share(wanted));
        }
        then.into_iter().for_each(|wanted| self.share(wanted));
    }

    /// A home is lost: it is not waited for.
    pub(super) fn fail_joins(&mut self, node: NodeId, over: Over) {
        let is_over = |door: &HomeDoor| door.node == node && door.life.is_over(over);
        let at_node =
            |host: &Host| host.homes.iter().enumerate().find(|(_, door)| is_over(door)).map(|(at, door)| (at, door.key));
        let doors: Vec<(HostKey, usize, u64)> =
            self.hosts.iter().filter_map(|(place, host)| at_node(host).map(|(at, key)| (*place, at, key))).collect();
        for (place, at, key) in doors {
            if self.joining.get(&place).is_some_and(|joining| joining.waits.contains(&at)) {
                let reason = "it was lost while a region of it was being mapped".to_owned();
                self.on_joined(key, Incarnation(0), Err(Error::NodeLost { node, reason }));
            }
            self.left_one(place, at);
        }
        for gone in self.pending.extract_if(.., |pending| pending.from == node && pending.life.is_over(over)) {
            want_no_more(&self.extents, self.me, &gone.join);
        }
    }

    /// A host wants to map a region whose pages lie here.
    // FEATURE: EU-F12
    pub(super) fn on_join(&mut self, from: NodeId, process: Incarnation, join: Join) {
        if join.node != from {
            return tracing::warn!("{from} asked to share a region in the name of {}", join.node);
        }
        let until = Instant::now() + DIRECT_PATIENCE.min(self.bound / 2);
        let life = Life { epoch: join.epoch, process: Some(process) };
        self.try_join(PendingJoin { from, life, join, until });
        self.drop_left_homes();
    }

    /// Those who wait, once more.
    pub(super) fn try_pending_joins(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            self.try_join(pending);
        }
    }

    fn try_join(&mut self, pending: PendingJoin) {
        let result = self.take_in(&pending.join, pending.life);
        let is_returning = self.homes.get(&pending.join.gid).is_some_and(Home::is_returning);
        let may_pass = is_returning || matches!(result, Err(Error::BadUse { .. }));
        if may_pass && result.is_err() && Instant::now() < pending.until {
            return self.pending.push(pending);
        }
        want_no_more(&self.extents, self.me, &pending.join);
        let Join { node, address, key, .. } = pending.join;
        self.send(Post { node, address, letter: Letter::Joined { key, result }, bytes: None });
    }

    fn take_in(&mut self, join: &Join, life: Life) -> Result<Joined> {
        let (me, _) = self.me.ok_or_else(|| Error::NoCoordinator { reason: "its home has not joined the pool".to_owned() })?;
        let mut rights = self.granted(me, join)?;
        if join.readers.is_some() {
            rights = Rights::Read;
        }
        self.leave_for(join);
        if let Some(home) = self.homes.get(&join.gid) {
            home.check(join)?;
        }
        if self.homes.get(&join.gid).is_none_or(Home::is_left) {
            self.hear_of_recalls(None);
            let lost = self.homes.get(&join.gid).map(Home::lost).unwrap_or_default();
            if lost.is_empty() {
                // What was there is dropped first: it holds the extents. What knows of lost pages is not forgotten before the next does.
                self.homes.remove(&join.gid);
            }
            let memory = Arc::new(HomeMemory::open(join, me, &self.extents)?);
            self.homes.insert(join.gid, Home::new(join, memory, lost));
        }
        let share = u64::from_le_bytes(crate::random::bytes()?);
        let home = self.homes.get_mut(&join.gid).expect("just made");
        if home.is_full() {
            return Err(Error::LimitReached { what: "hosts that ever mapped a region".to_owned(), limit: u64::from(u16::MAX) });
        }
        let joined = home.join(join, life, (share, rights), self.maps_own && join.node == me && join.readers.is_none());
        self.shares.insert(joined.share, (join.gid, joined.host));
        Ok(joined)
    }

    /// The most that the grants of a host allow here. What it says of the region is held against the extents that lie here; each
    /// home does so, and together they are all of the region.
    fn granted(&self, me: NodeId, join: &Join) -> Result<Rights> {
        check_layout(&join.layout, &join.grants)?;
        let mut rights = None;
        for (extent, grant) in join.layout.extents().zip(&join.grants).filter(|(extent, _)| extent.node == me) {
            let these = self.extents.rights(join.gid, (extent.slot, extent.len), *grant)?;
            rights = Some(rights.map_or(these, |rights: Rights| rights.min(these)));
        }
        rights.ok_or(Error::GrantRefused { gid: join.gid, node: me })
    }

    /// What the node that joins was before is gone: it has begun anew, and this home has not heard of it.
    fn leave_for(&mut self, join: &Join) {
        let Some(home) = self.homes.get_mut(&join.gid).filter(|home| !home.is_returning()) else { return };
        let mut posts = Vec::new();
        for host in home.earlier_hosts(join) {
            let left = home.leave(host, true, &mut posts);
            left.map(|(share, _)| self.shares.remove(&share));
        }
        self.post(posts);
    }

    /// A host has sent all it had, and leaves.
    pub(super) fn on_leave(&mut self, share: u64) {
        self.dismissed.retain(|dismissed| !dismissed.is_of(share));
        let Some((gid, host)) = self.shares.get(&share).copied() else { return };
        let Some(home) = self.homes.get_mut(&gid) else { return };
        if home.is_returning() {
            let post = home.on_handed_over(host, false);
            self.post(post.into_iter().collect());
            return self.end_returns();
        }
        if !home.may_leave(host) {
            return self.leavers.push(share);
        }
        self.shares.remove(&share);
        let mut posts = Vec::new();
        let left = home.leave(host, false, &mut posts);
        posts.extend(left.map(|(_, post): (u64, Post)| post));
        self.post(posts);
        self.drop_left_homes();
    }

    /// Hosts whose last pages were still on their way to others, once more.
    pub(super) fn let_leavers_go(&mut self) {
        for share in std::mem::take(&mut self.leavers) {
            self.on_leave(share);
        }
    }

    /// Regions that no host maps any more are reached in all ways again.
    pub(crate) fn drop_left_homes(&mut self) {
        self.hear_of_recalls(None);
        self.homes.retain(|_, home| !home.is_done_with());
    }
}

/// Refuses what a client says of a region where no coordinator said it.
fn check_view(view: &RegionView) -> Result<()> {
    check_layout(&view.layout, &view.grants)?;
    // It is part of messages, and of files' names.
    check_name(&view.name)
}

fn check_layout(layout: &Layout, grants: &[Grant]) -> Result<()> {
    let garbage = |reason: &str| Error::Garbage { peer: "who shares a region".to_owned(), reason: reason.to_owned() };
    layout.check().map_err(|malformed| garbage(malformed.0))?;
    match layout.extents().count() == grants.len() {
        true => Ok(()),
        false => Err(garbage("not a grant for each extent")),
    }
}

/// Who wanted to share extents of this node does, or has given up.
pub(super) fn want_no_more(extents: &Extents, me: Option<(NodeId, Epoch)>, join: &Join) {
    let me = me.map(|(me, _)| me);
    let own = join.layout.extents().filter(|extent| Some(extent.node) == me);
    own.for_each(|extent| extents.want_no_more(extent.slot));
}
