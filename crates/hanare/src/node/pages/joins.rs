//! How clients begin and end to share a region: their host joins all homes of its pages, and leaves them when the last client
//! has gone and all that only this host had is home.

use super::home::{Home, Life, Over, Post};
use super::host::{HomeDoor, Host};
use super::memory::HomeMemory;
use super::{Deed, Pages, Wish};
use crate::node::extents::Extents;
use hanare_memory::frames::ClientFrames;
use hanare_protocol::id::{ClientId, Epoch, Gid, Incarnation, NodeId, Rights};
use hanare_protocol::page::{Consistency, HostId};
use hanare_protocol::wire::control::{Answer, RegionView, SharedHome, SharedView};
use hanare_protocol::wire::page::{Join, Joined, Letter};
use hanare_protocol::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a host waits for programs that use a region's memory as it is: they may be about to map it too.
const DIRECT_PATIENCE: Duration = Duration::from_secs(4);

/// A region whose homes are being joined.
pub(super) struct Joining {
    view: RegionView,
    waits: BTreeSet<usize>,
    clients: Vec<(ClientId, Rights)>,
    failed: Option<Error>,
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
    then: Vec<(ClientId, RegionView, Consistency)>,
}

impl Joining {
    /// The programs that wait.
    pub fn into_clients(self) -> impl Iterator<Item = ClientId> {
        self.clients.into_iter().map(|(client, _)| client)
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
            Wish::Share { view, consistency } => self.share(client, *view, consistency),
            Wish::Hold { gid, frames } => {
                let result = self.hold(client, gid, frames);
                self.reply(client, result.map(|()| Answer::Ok), Vec::new());
            }
            Wish::Stat => {
                let stats = self.stat();
                self.reply(client, Ok(Answer::Pages(stats)), Vec::new());
            }
            Wish::Unshare { gid } => self.unshare(client, gid, true),
        }
        self.settle();
    }

    /// A client has ended.
    pub fn on_client_gone(&mut self, client: ClientId) {
        for joining in self.joining.values_mut() {
            joining.clients.retain(|(waiting, _)| *waiting != client);
        }
        for leaving in self.leaving.values_mut() {
            leaving.then.retain(|(waiting, ..)| *waiting != client);
        }
        let shared: Vec<Gid> = self.hosts.values().filter(|host| host.has(client)).map(Host::gid).collect();
        for gid in shared {
            self.unshare(client, gid, false);
        }
        self.settle();
    }

    /// The node ends in good order: what only this host had goes home, as if all clients had unmapped.
    pub fn stop(&mut self) {
        let all: Vec<Gid> = self.hosts.keys().copied().collect();
        for gid in all {
            self.with_host(gid, Host::part_all);
            self.leaving.entry(gid).or_default();
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

    fn share(&mut self, client: ClientId, view: RegionView, consistency: Consistency) {
        let gid = view.gid;
        if let Some(leaving) = self.leaving.get_mut(&gid) {
            return leaving.then.push((client, view, consistency));
        }
        if let Err(error) = self.begin_share(client, view, consistency) {
            self.reply(client, Err(error), Vec::new());
            self.leave_if_unused(gid);
        }
    }

    fn begin_share(&mut self, client: ClientId, view: RegionView, consistency: Consistency) -> Result<()> {
        let (gid, rights) = (view.gid, view.rights);
        if !self.hosts.contains_key(&gid) {
            let host = self.make_host(&view, consistency)?;
            for (at, door) in host.homes.iter().enumerate() {
                self.keys.insert(door.key, (gid, at));
            }
            self.hosts.insert(gid, host);
        }
        let host = &self.hosts[&gid];
        if host.consistency != consistency {
            let reason = format!(
                "programs of this host map it {}; it is mapped in one way at a time: let them unmap it first",
                host.consistency
            );
            return Err(Error::BadUse { region: view.name, reason });
        }
        if host.has(client) {
            return Err(Error::BadUse { region: view.name, reason: "this program has it mapped already".to_owned() });
        }
        if let Some(home) = host.homes.iter().find(|home| home.is_lost) {
            // Its directory begins anew, and knows nothing of the copies that are here.
            let reason =
                "programs of this host have mapped it since before that node was lost: let them unmap it first".to_owned();
            return Err(Error::NodeLost { node: home.node, reason });
        }
        let is_joined = host.homes.iter().all(|home| home.share.is_some());
        match self.joining.get_mut(&gid) {
            Some(joining) if joining.view.rights >= rights => joining.clients.push((client, rights)),
            None if is_joined && host.rights() >= rights && !host.is_unused() => {
                let admitted = self.admit(client, gid, rights);
                return admitted.map(|(view, fds)| self.reply(client, Ok(Answer::Shared(view)), fds));
            }
            _ => self.join_all(client, view)?,
        }
        Ok(())
    }

    /// Asks all homes, with the grants of this client.
    fn join_all(&mut self, client: ClientId, view: RegionView) -> Result<()> {
        let (node, epoch) =
            self.me.ok_or_else(|| Error::NoCoordinator { reason: "this node has not joined its pool".to_owned() })?;
        let Some(host) = self.hosts.get_mut(&view.gid) else { unreachable!("the caller has just looked") };
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
                address: self.address.clone(),
                key,
            })
        };
        let letters: Vec<_> = host.homes.iter().map(|door| (door.node, door.address.clone(), join(door.key))).collect();
        let rights = view.rights;
        let mut clients = vec![(client, rights)];
        clients.extend(self.joining.remove(&view.gid).map(|joining| joining.clients).unwrap_or_default());
        self.joining.insert(view.gid, Joining { view, waits, clients, failed: None });
        for (node, address, letter) in letters {
            self.send(Post { node, address, letter, bytes: None });
        }
        Ok(())
    }

    fn make_host(&self, view: &RegionView, consistency: Consistency) -> Result<Host> {
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
        Host::new((view.gid, view.name.clone()), consistency, view.layout.clone(), homes, self.frames_max)
    }

    /// A home's answer.
    pub(super) fn on_joined(&mut self, key: u64, process: Incarnation, result: Result<Joined>) {
        let Some((gid, at)) = self.keys.get(&key).copied() else { return };
        let (Some(host), Some(joining)) = (self.hosts.get_mut(&gid), self.joining.get_mut(&gid)) else { return };
        joining.waits.remove(&at);
        match result {
            Ok(Joined { host: me, share }) => {
                let is_own = self.maps_own && self.me.is_some_and(|(node, _)| node == host.homes[at].node);
                let own = self.homes.get(&gid).filter(|_| is_own);
                let door = &mut host.homes[at];
                (door.me, door.share, door.life.process) = (me, Some(share), Some(process));
                door.memory = own.filter(|home| home.consistency() == Consistency::Coherent).map(|home| home.memory().clone());
            }
            Err(error) => joining.failed = joining.failed.take().or(Some(error)),
        }
        if !joining.waits.is_empty() {
            return;
        }
        let Some(Joining { clients, failed, .. }) = self.joining.remove(&gid) else { return };
        for (client, rights) in clients {
            let (result, fds) = match &failed {
                Some(error) => (Err(error.clone()), Vec::new()),
                None => match self.admit(client, gid, rights) {
                    Ok((view, fds)) => (Ok(Answer::Shared(view)), fds),
                    Err(error) => (Err(error), Vec::new()),
                },
            };
            self.reply(client, result, fds);
        }
        self.leave_if_unused(gid);
    }

    fn admit(&mut self, client: ClientId, gid: Gid, rights: Rights) -> Result<(SharedView, Vec<std::os::fd::OwnedFd>)> {
        let Some(host) = self.hosts.get_mut(&gid) else { unreachable!("the caller has just joined") };
        let admission = host.admit(client, rights)?;
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

    fn hold(&mut self, client: ClientId, gid: Gid, frames: ClientFrames) -> Result<()> {
        let none = || Error::BadUse { region: gid.to_string(), reason: "this program does not share it".to_owned() };
        self.hosts.get_mut(&gid).ok_or_else(none)?.hold(client, frames)
    }

    fn unshare(&mut self, client: ClientId, gid: Gid, has_asked: bool) {
        let is_known = self.hosts.get(&gid).is_some_and(|host| host.has(client));
        if !is_known {
            if has_asked {
                self.reply(client, Ok(Answer::Ok), Vec::new());
            }
            return;
        }
        self.with_host(gid, |host, says| host.part(client, says));
        if !self.hosts[&gid].is_unused() {
            if has_asked {
                self.reply(client, Ok(Answer::Ok), Vec::new());
            }
            return;
        }
        let leaving = self.leaving.entry(gid).or_default();
        leaving.replies.extend(has_asked.then_some(client));
    }

    /// A region that nobody here maps, nor is about to, is left.
    pub(super) fn leave_if_unused(&mut self, gid: Gid) {
        let is_unused = self.hosts.get(&gid).is_some_and(Host::is_unused) && !self.joining.contains_key(&gid);
        if is_unused {
            self.leaving.entry(gid).or_default();
        }
    }

    /// Regions that are being left: when all pages are home, the homes are told.
    pub(super) fn go_on_leaving(&mut self) {
        let waiting: Vec<Gid> = self.leaving.iter().filter(|(_, leaving)| !leaving.is_told).map(|(gid, _)| *gid).collect();
        for gid in waiting {
            if self.is_handing(gid) {
                continue;
            }
            let (mut is_empty, is_late) = (true, self.leaving[&gid].since.elapsed() > self.bound / 2);
            self.note_unsaved(gid);
            self.with_host(gid, |host, says| is_empty = host.is_lost() || host.empty(None, says));
            if !is_empty && !is_late {
                continue;
            }
            let Some(host) = self.hosts.get(&gid) else { continue };
            if !is_empty {
                let reason =
                    format!("a program that stands still keeps pages of region '{}' from it, and they are lost", host.name);
                tracing::error!("{reason}");
                let node = host.homes.first().map_or(NodeId(0), |door| door.node);
                self.leaving.entry(gid).or_default().fail(Error::NodeLost { node, reason });
            }
            let is_there = |door: &HomeDoor| door.share.filter(|_| !door.is_lost);
            let letters: Vec<_> = host
                .homes
                .iter()
                .enumerate()
                .filter_map(|(at, door)| Some((at, door.node, door.address.clone(), is_there(door)?)))
                .collect();
            let Some(leaving) = self.leaving.get_mut(&gid) else { continue };
            leaving.is_told = true;
            leaving.waits = letters.iter().map(|(at, ..)| *at).collect();
            let is_left = leaving.waits.is_empty();
            for (_, node, address, share) in letters {
                self.send(Post { node, address, letter: Letter::Leave { share }, bytes: None });
            }
            if is_left {
                self.left(gid);
            }
        }
    }

    /// A home has all that this host had.
    pub(super) fn on_left(&mut self, key: u64) {
        let Some((gid, at)) = self.keys.get(&key).copied() else { return };
        self.left_one(gid, at);
    }

    pub(super) fn left_one(&mut self, gid: Gid, at: usize) {
        let Some(leaving) = self.leaving.get_mut(&gid) else { return };
        leaving.waits.remove(&at);
        if leaving.is_told && leaving.waits.is_empty() {
            self.left(gid);
        }
    }

    /// A home that is lost has not got all that was stored here: that is said to who unmaps.
    fn note_unsaved(&mut self, gid: Gid) {
        let Some(host) = self.hosts.get(&gid) else { return };
        let (Some(node), Some(leaving)) = (host.unsaved(), self.leaving.get_mut(&gid)) else { return };
        let reason = format!("it has not got all that programs of this host stored to region '{}', and they unmap it", host.name);
        leaving.fail(Error::NodeLost { node, reason });
    }

    /// No home knows this host any more.
    pub(super) fn left(&mut self, gid: Gid) {
        self.note_unsaved(gid);
        if let Some(host) = self.hosts.remove(&gid) {
            host.homes.iter().for_each(|door| {
                self.keys.remove(&door.key);
            });
        }
        let Some(Leaving { replies, then, failed, .. }) = self.leaving.remove(&gid) else { return };
        for client in replies {
            self.reply(client, failed.clone().map_or(Ok(Answer::Ok), Err), Vec::new());
        }
        for (client, view, consistency) in then {
            self.share(client, view, consistency);
        }
    }

    /// A home is lost: it is not waited for.
    pub(super) fn fail_joins(&mut self, node: NodeId, over: Over) {
        let is_over = |door: &HomeDoor| door.node == node && door.life.is_over(over);
        let at_node =
            |host: &Host| host.homes.iter().enumerate().find(|(_, door)| is_over(door)).map(|(at, door)| (at, door.key));
        let doors: Vec<(Gid, usize, u64)> =
            self.hosts.values().filter_map(|host| at_node(host).map(|(at, key)| (host.gid(), at, key))).collect();
        for (gid, at, key) in doors {
            if self.joining.get(&gid).is_some_and(|joining| joining.waits.contains(&at)) {
                let reason = "it was lost while a region of it was being mapped".to_owned();
                self.on_joined(key, Incarnation(0), Err(Error::NodeLost { node, reason }));
            }
            self.left_one(gid, at);
        }
        for gone in self.pending.extract_if(.., |pending| pending.from == node && pending.life.is_over(over)) {
            want_no_more(&self.extents, self.me, &gone.join);
        }
    }

    /// A host wants to map a region whose pages lie here.
    // FEATURE: EU-F12
    pub(super) fn on_join(&mut self, from: NodeId, process: Incarnation, join: Join) {
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
        let own = join.layout.extents().zip(&join.grants).filter(|(extent, _)| extent.node == me);
        let mut rights = Rights::Write;
        for (extent, grant) in own {
            rights = rights.min(self.extents.rights(join.gid, extent.slot, *grant)?);
        }
        self.leave_for(join);
        if let Some(home) = self.homes.get(&join.gid) {
            home.check(join)?;
        }
        if self.homes.get(&join.gid).is_none_or(Home::is_left) {
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
        let joined = home.join(join, life, (share, rights), self.maps_own && join.node == me);
        self.shares.insert(joined.share, (join.gid, joined.host));
        Ok(joined)
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
        self.homes.retain(|_, home| !home.is_done_with());
    }
}

/// Who wanted to share extents of this node does, or has given up.
pub(super) fn want_no_more(extents: &Extents, me: Option<(NodeId, Epoch)>, join: &Join) {
    let me = me.map(|(me, _)| me);
    let own = join.layout.extents().filter(|extent| Some(extent.node) == me);
    own.for_each(|extent| extents.want_no_more(extent.slot));
}
