//! Hosts that will map regions whose pages lie on this node: they join their homes here, and leave them.

use super::Pages;
use super::home::PageHome;
use super::memory::{HomePages, NotShared, PageMemory};
use super::outgoing::Outgoing;
use super::routes::{PageRoutes, several_extents};
use hanare_protocol::id::{Gid, Grant, Incarnation, NodeId, Rights};
use hanare_protocol::page::membership::{Joiner, Life, Tried, Waiting};
use hanare_protocol::page::{Consistency, HostId};
use hanare_protocol::placement::Layout;
use hanare_protocol::wire::page::{Join, Joined, NodeMessage};
use hanare_protocol::{Error, Result};

/// A host that wants to be let in at a home.
pub(super) struct PendingJoin {
    pub from: NodeId,
    pub life: Life,
    pub join: Join,
    /// True if its program follows the region's bytes to other nodes.
    pub follows: bool,
}

impl<M: PageMemory> Pages<M> {
    /// A host wants to map a region whose pages lie here.
    // FEATURE: EU-F12
    pub(super) fn on_join(&mut self, from: NodeId, process: Incarnation, message: NodeMessage) {
        let (join, follows) = match message {
            NodeMessage::Join(join) => (join, false),
            NodeMessage::JoinFollowing(join) => (join, true),
            _ => return,
        };
        if join.node != from {
            return tracing::warn!("{from} asked to share a region in the name of {}", join.node);
        }
        let life = Life { epoch: join.epoch, process: Some(process) };
        let waiting = self.join_queue.come(PendingJoin { from, life, join, follows }, self.now_ms());
        self.try_join(waiting);
        self.drop_left_homes();
    }

    /// Hosts by those keys wait no more: they have left.
    pub(super) fn let_wait_no_more(&mut self, keys: impl IntoIterator<Item = u64>) {
        for key in keys {
            for gone in self.join_queue.drop_those(|pending| pending.join.key == key) {
                self.cancel_share_wait(&gone.join);
            }
        }
    }

    /// Ends the wait of a host for extents of this node: it shares them, or has given up.
    pub(super) fn cancel_share_wait(&mut self, join: &Join) {
        let me = self.me.map(|(me, _)| me);
        let own = join.layout.extents().filter(|extent| Some(extent.node) == me);
        own.for_each(|extent| self.memory.cancel_share_wait(join.gid, extent.slot));
    }

    /// Tries the waiting joins again.
    pub(super) fn try_pending_joins(&mut self) {
        self.join_queue.due().into_iter().for_each(|waiting| self.try_join(waiting));
    }

    fn try_join(&mut self, waiting: Waiting<PendingJoin>) {
        let PendingJoin { life, ref join, follows, .. } = waiting.who;
        let taken = self.take_in(join, life, follows);
        let is_returning = self.homes.get(&join.gid).is_some_and(PageHome::is_returning);
        let tried = match taken {
            Ok(joined) => Tried::Admitted(joined),
            Err(NotShared { error, passes }) if passes || is_returning => Tried::NotYet(error),
            Err(NotShared { error, .. }) => Tried::Refused(error),
        };
        let Some((PendingJoin { join, .. }, result)) = self.join_queue.tried(waiting, tried, self.now_ms()) else { return };
        self.cancel_share_wait(&join);
        let Join { node, address, key, .. } = join;
        self.send(Outgoing { node, address, message: NodeMessage::Joined { key, result }, bytes: None });
    }

    fn take_in(&mut self, join: &Join, life: Life, follows: bool) -> Result<Joined, NotShared> {
        if self.ending.is_some() {
            return Err(Error::NoCoordinator { reason: "its home ends".to_owned() }.into());
        }
        let (me, epoch) =
            self.me.ok_or_else(|| Error::NoCoordinator { reason: "its home has not joined the pool".to_owned() })?;
        let mut rights = self.granted(me, join)?;
        if join.readers.is_some() {
            rights = Rights::Read;
        }
        self.leave_for(join, life);
        if let Some(home) = self.homes.get(&join.gid) {
            home.check(join).map_err(|error| NotShared { error, passes: home.is_being_left() })?;
        }
        if self.homes.get(&join.gid).is_none_or(PageHome::is_unused) {
            self.hear_of_recalls(None);
            if self.homes.contains_key(&join.gid) && self.has_waiting_stages(join.gid) {
                let reason = "commands wait for its pages; its directory begins anew when they are done".to_owned();
                return Err(NotShared::passing(Error::BadUse { region: join.name.clone(), reason }));
            }
            let lost = self.homes.get(&join.gid).map(PageHome::lost).unwrap_or_default();
            if let Some(left) = self.homes.get(&join.gid) {
                self.past.keep(left);
            }
            if lost.is_empty() {
                // The old home is dropped first, because it holds the extents. Its list of lost pages stays until the next home has it.
                self.homes.remove(&join.gid);
            }
            let routes = PageRoutes::new(join, me)?;
            let memory = self.memory.open(join, me)?;
            check_copied((join, follows), me, memory.copied_slot().is_some())?;
            if !memory.answers() {
                // The home is another node, or begins with the hosts that all holders know.
                return Err(NotShared::passing(Error::GrantRefused { gid: join.gid, node: me }));
            }
            let mut home = PageHome::new(join, (routes, memory), lost);
            self.number_writes(&mut home);
            self.homes.insert(join.gid, home);
        }
        let home = self.homes.get_mut(&join.gid).expect("just made");
        let Some(share) = home.make_known(&joiner(join, life), rights, || self.memory.draw())? else {
            return Err(NotShared::passing(Error::GrantRefused { gid: join.gid, node: me }));
        };
        if !follows && join.consistency != Consistency::Coherent {
            home.memory().keep_in_place(join, me)?;
        }
        if home.is_full() {
            return Err(
                Error::LimitReached { what: "hosts that ever mapped a region".to_owned(), limit: u64::from(u16::MAX) }.into()
            );
        }
        let is_own = join.node == me && join.readers.is_none() && home.copied_slot().is_none();
        let joined = home.join(joiner(join, life), (share, rights), (epoch, is_own));
        self.shares.insert(joined.share, (join.gid, joined.host));
        Ok(joined)
    }

    /// The most that the grants of a host allow here. Its words on the region are checked against the extents here. Each home does so, and
    /// together they are all of the region.
    fn granted(&self, me: NodeId, join: &Join) -> Result<Rights> {
        check_layout(&join.layout, &join.grants)?;
        let mut rights = None;
        for (extent, grant) in join.layout.extents().zip(&join.grants).filter(|(extent, _)| extent.node == me) {
            let these = self.memory.rights(join.gid, (extent.slot, extent.len), *grant)?;
            rights = Some(rights.map_or(these, |rights: Rights| rights.min(these)));
        }
        rights.ok_or(Error::GrantRefused { gid: join.gid, node: me })
    }

    /// The joining node has begun a new life, and this home has not heard that the old one ended.
    fn leave_for(&mut self, join: &Join, life: Life) {
        let (mut outgoing, mut keys) = (self.outbox(), Vec::new());
        let Some(home) = self.homes.get_mut(&join.gid).filter(|home| !home.is_returning()) else { return };
        for host in home.earlier_hosts(&joiner(join, life)) {
            keys.extend(home.key_of(host));
            let left = home.leave(host, true, &mut outgoing);
            left.map(|(share, _)| self.shares.remove(&share));
        }
        self.post(outgoing);
        self.let_wait_no_more(keys);
    }

    /// A share ends: its host does not wait to be let in. Whose it was, if it was known.
    pub(super) fn end_share(&mut self, share: u64) -> Option<(Gid, HostId)> {
        let (gid, host) = self.shares.get(&share).copied()?;
        let key = self.homes.get(&gid).and_then(|home| home.key_of(host));
        self.let_wait_no_more(key);
        Some((gid, host))
    }

    /// A host has sent all it had, and leaves.
    pub(super) fn on_leave(&mut self, share: u64) {
        let Some((gid, host)) = self.end_share(share) else { return };
        let mut outgoing = self.outbox();
        let Some(home) = self.homes.get_mut(&gid) else { return };
        if home.is_returning() {
            let answer = home.on_handed_over(host, false);
            self.send_all(answer);
            return self.end_returns();
        }
        // A draining host is asked again by the clock.
        if let Some((share, answer)) = home.leave(host, false, &mut outgoing) {
            self.shares.remove(&share);
            outgoing.push(answer);
        }
        self.post(outgoing);
        self.drop_left_homes();
    }

    /// Hosts whose last pages were still on their way to others, once more.
    pub(super) fn let_leavers_go(&mut self) {
        let draining: Vec<u64> = self.homes.values().flat_map(PageHome::draining).collect();
        draining.into_iter().for_each(|share| self.on_leave(share));
    }

    /// Regions that no host maps any more are reached in all ways again.
    pub(super) fn drop_left_homes(&mut self) {
        self.hear_of_recalls(None);
        for (_, home) in self.homes.extract_if(.., |_, home| home.is_done_with()) {
            self.past.keep(&home);
        }
        // Stages that waited for one another there have their pages. A directory that begins anew would know nothing of them.
        self.ask_unasked();
    }
}

/// Refuses programs of an older release, which do not flush, and regions that lie in parts.
fn check_copied((join, follows): (&Join, bool), me: NodeId, is_copied: bool) -> Result<(), NotShared> {
    if join.consistency != Consistency::Coherent || (!is_copied && !follows) {
        return Ok(());
    }
    if !is_copied {
        let reason = "the region gets copies, or has lost its last ones; it is asked again".to_owned();
        return Err(NotShared::passing(Error::NodeLost { node: me, reason }));
    }
    if join.layout.extents().count() > 1 {
        return Err(several_extents(&join.name).into());
    }
    if !follows {
        let reason = "it has got copies since it was opened, or the program is of an older release; open it again".to_owned();
        return Err(Error::BadUse { region: join.name.clone(), reason }.into());
    }
    Ok(())
}

/// The host that wants to join.
fn joiner(join: &Join, life: Life) -> Joiner {
    Joiner { node: join.node, life, address: join.address.clone(), key: join.key, readers: join.readers }
}

/// Refuses a layout that is none, or whose grants are not one for each extent.
pub(super) fn check_layout(layout: &Layout, grants: &[Grant]) -> Result<()> {
    let garbage = |reason: &str| Error::Garbage { peer: "who shares a region".to_owned(), reason: reason.to_owned() };
    layout.check().map_err(|malformed| garbage(malformed.0))?;
    match layout.extents().count() == grants.len() {
        true => Ok(()),
        false => Err(garbage("not a grant for each extent")),
    }
}
