//! Nodes that were taken for lost and are back.
//!
//! ```text
//!   the home                                   a host that maps pages of it
//!   --------                                   ----------------------------
//!   taken for lost, joins the pool anew        the home is lost: what is here stays, nothing new comes
//!            Returned ---------------------->  all that was asked for fails, all that is here is taken from the programs
//!   puts it in its place  <----------------    WriteBack, for each page that this host owns
//!   when all have: begins anew  <----------    Leave; the host may join again, by another name
//! ```
//!
//! A host that has left the region, or was lost itself, replies `Forgot`. A page that it may have owned is then lost, even if the grant
//! was never confirmed.
//!
//! A node that was taken for lost drops its copies of others' pages. Their homes have gone on without it. Some have not heard yet, and still
//! grant pages to its threads. So the host says `Forgot`, and drops what came meanwhile when the home has replied.

use super::Pages;
use super::home::PageHome;
use super::host::{HomeRoute, PageHost};
use super::memory::{PageBytes, PageMemory};
use super::outgoing::Outgoing;
use super::request::HostKey;
use hanare_protocol::id::{Incarnation, NodeId};
use hanare_protocol::page::membership::ReturnOutcome as HandedOver;
use hanare_protocol::page::membership::table::HomePhase;
use hanare_protocol::page::{Access, Page, ToHome, ToHost};
use hanare_protocol::wire::page::NodeMessage;
use hanare_protocol::{Error, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

impl<M: PageMemory> Pages<M> {
    /// The node, formerly number `was`, was taken for lost. Its copies of others' pages are void, and its homes ask all hosts for theirs.
    pub(super) fn begin_anew(&mut self, was: NodeId) {
        for gone in self.join_queue.drop_those(|_| true) {
            self.cancel_share_wait(&gone.join);
        }
        let unheard = self.wires.begin_anew(&mut self.outputs);
        self.keep_unsent(unheard);
        let is = self.me.map_or(was, |(is, _)| is);
        // Another node may be home of bytes with copies. If none is, their home begins from what all holders know.
        self.copied_homes().into_iter().for_each(|(gid, _)| self.end_home(gid, false));
        self.homes.values_mut().for_each(|home| home.begin_return(was, is));
        self.recalls.on_return();
        let all: Vec<HostKey> = self.hosts.keys().copied().collect();
        all.into_iter().for_each(|place| self.leave_others_homes(place));
        self.ask_again();
        self.end_returns();
    }

    /// Drops this host's pages of a region's remote homes.
    fn leave_others_homes(&mut self, place: HostKey) {
        let Some(host) = self.hosts.get_mut(&place) else { return };
        let home = self.homes.get(&place.gid);
        let is_others = |at: &usize| !home.is_some_and(|home| home.knows(host.homes[*at].key));
        let others: BTreeSet<usize> = (0..host.homes.len()).filter(is_others).collect();
        if host.drop_pages(&others) {
            self.note_lost(place);
        }
        let Some(host) = self.hosts.get_mut(&place) else { return };
        let mut outgoing = Vec::new();
        for at in &others {
            let (route, share) = (&mut host.homes[*at], host.sharing.share(*at));
            route.forgotten = share;
            outgoing.extend(share.map(|share| Outgoing {
                node: route.node,
                address: route.address.clone(),
                message: NodeMessage::Forgot { share },
                bytes: None,
            }));
        }
        host.sharing.begin_anew(others);
        self.act(place);
        self.send_all(outgoing);
    }

    /// Stores of this host were lost while its last program unmaps the region: that one is told by its answer.
    fn note_lost(&mut self, place: HostKey) {
        let (Some(host), Some((node, _))) = (self.hosts.get_mut(&place), self.me) else { return };
        let reason = format!("it was cut off, and stores of its programs to {} were lost meanwhile", place.gid);
        host.sharing.fail(Error::NodeLost { node, reason });
    }

    /// A home is another's, or its next life's: it knows this host by no name yet.
    pub(super) fn begin_anew_with(&mut self, place: HostKey, at: usize) {
        let Some(host) = self.hosts.get_mut(&place) else { return };
        let before = host.homes[at].key;
        // No page of it is here any more. A program asks its next home, when it wants one.
        (host.flushes.waits_since_ms, host.flushes.has_sent, host.flushes.has_failed) = (None, false, false);
        let key = self.memory.draw().unwrap_or(before.wrapping_add(1));
        host.begin_anew_with(at, key);
        self.keys.remove(&before);
        self.keys.insert(key, (place, at));
    }

    /// Messages that a node may not have heard before it was lost. The pages among them are kept for its return.
    pub(super) fn keep_unsent(&mut self, unheard: Vec<Arc<Outgoing>>) {
        for outgoing in unheard {
            let NodeMessage::ToHome { share, message: ToHome::WriteBack { .. }, .. } = outgoing.message else { continue };
            let its = |host: &PageHost<M::Frames>| (0..host.homes.len()).find(|at| host.sharing.share(*at) == Some(share));
            if let Some((host, at)) = self.hosts.values_mut().find_map(|host| its(host).map(|at| (host, at))) {
                host.homes[at].unsent.push(outgoing);
            } else {
                self.returned.keep_unsent(share, outgoing);
            }
        }
    }

    /// A home that was taken for lost is back, and takes what is here. Or it took this host for lost.
    pub(super) fn on_returned(
        &mut self,
        (from, life, address): (NodeId, Incarnation, &str),
        (key, share): (u64, u64),
        takes: bool,
    ) {
        let Some((place, at)) = self.keys.get(&key).copied() else {
            let asked = takes.then(|| self.returned.asked((key, share), (from, address.to_owned()))).flatten();
            let unsent = asked.map(|(mut unsent, (before, _))| {
                unsent.extend(self.unconfirmed_pages(before, from, share));
                unsent
            });
            return self.say_farewell((from, address), share, unsent.as_deref());
        };
        let now_ms = self.now_ms();
        let Some(host) = self.hosts.get_mut(&place) else { return };
        let before = host.homes[at].node;
        (host.homes[at].node, host.homes[at].address) = (from, address.to_owned());
        if takes && host.is_copied && before != from {
            host.on_home_moves(at, now_ms);
            host.sharing.meet_in_place(at, life);
            self.fail_flushes(place);
            if self.me.is_some_and(|(me, _)| me == before) {
                self.end_home(place.gid, false);
            }
            let pages = self.unconfirmed_pages(before, from, share);
            if let Some(host) = self.hosts.get_mut(&place) {
                host.homes[at].unsent.extend(pages);
            }
        }
        let Some(host) = self.hosts.get_mut(&place) else { return };
        if !takes && host.sharing.share(at) == Some(share) {
            tracing::error!("{}: {from} could not reach this node for a while, and did without it", place.gid);
            if host.drop_pages(&BTreeSet::from([at])) {
                self.note_lost(place);
            }
            self.fail_flushes(place);
        }
        if let Some(host) = self.hosts.get_mut(&place) {
            host.sharing.on_returned(at, share, takes, now_ms);
        }
        self.act(place);
        self.go_on_handing();
    }

    /// Pages by a membership that a home of before may not have shown to its copies. Where it asks again, they are on their way to it.
    fn unconfirmed_pages(&self, before: NodeId, asks: NodeId, share: u64) -> Vec<Arc<Outgoing>> {
        let is_page = |outgoing: &&Arc<Outgoing>| match outgoing.message {
            NodeMessage::ToHome { share: of, message: ToHome::WriteBack { .. }, .. } => of == share,
            _ => false,
        };
        let unconfirmed = self.wires.unconfirmed(before).filter(|_| before != asks);
        unconfirmed.filter(is_page).cloned().collect()
    }

    /// A host speaks of a membership that this home does not know, or not any more. It is told so.
    pub(super) fn say_not_shared(&mut self, to: NodeId, share: u64) -> Result<()> {
        if self.silent_shares.contains(&share) {
            return Ok(());
        }
        tracing::debug!("{to} speaks of pages that are not shared with it any more");
        if let Some(address) = self.wires.address_of(to) {
            self.send(Outgoing { node: to, address, message: NodeMessage::NotShared { share }, bytes: None });
        }
        Ok(())
    }

    /// A home does not know this host by that share: what it has of the home's pages is void.
    pub(super) fn on_not_shared(&mut self, from: NodeId, share: u64) -> Result<()> {
        let is_that =
            |host: &PageHost<M::Frames>, at: &usize| host.homes[*at].node == from && host.sharing.share(*at) == Some(share);
        let route = self.hosts.values().find_map(|host| {
            let at = (0..host.homes.len()).find(|at| is_that(host, at))?;
            Some((host.homes[at].key, host.homes[at].address.clone()))
        });
        // A host that has left meanwhile has nothing.
        match route {
            Some((key, address)) => self.on_returned((from, self.terms.life, &address), (key, share), false),
            None => self.drop_late_grants(share),
        }
        Ok(())
    }

    /// A home has heard that this host began anew: it grants nothing by that share any more. Until then it may have replied to threads, which
    /// ask it themselves.
    fn drop_late_grants(&mut self, share: u64) {
        let is_that = |route: &HomeRoute<M::Pages>| route.forgotten == Some(share);
        let its = |(place, host): (&HostKey, &PageHost<M::Frames>)| Some((*place, host.homes.iter().position(is_that)?));
        let Some((place, at)) = self.hosts.iter().find_map(its) else { return };
        let Some(host) = self.hosts.get_mut(&place) else { return };
        host.homes[at].forgotten = None;
        if host.drop_pages(&BTreeSet::from([at])) {
            self.note_lost(place);
        }
        self.act(place);
    }

    /// A home that is back is told whether it has all that was here.
    pub(super) fn part_from(&mut self, place: HostKey, at: usize, (share, has_all): (u64, bool)) {
        let Some(host) = self.hosts.get_mut(&place) else { return };
        let is_told = host.sharing.home(at) == HomePhase::Told;
        let route = &mut host.homes[at];
        let (key, node, address, unsent) = (route.key, route.node, route.address.clone(), std::mem::take(&mut route.unsent));
        self.say_farewell((node, &address), share, has_all.then_some(&*unsent));
        if has_all && !is_told {
            self.returned.keep((key, share), (node, address));
        }
    }

    /// Sends messages that a home may have missed, and that there is nothing more. Or it says that this host does not know what it had.
    fn say_farewell(&mut self, (node, address): (NodeId, &str), share: u64, unsent: Option<&[Arc<Outgoing>]>) {
        let last = if unsent.is_some() { NodeMessage::Leave { share } } else { NodeMessage::Forgot { share } };
        for unsent in unsent.unwrap_or_default() {
            // The home may be reached elsewhere.
            self.send(Outgoing { node, address: address.to_owned(), ..Outgoing::clone(unsent) });
        }
        self.send(Outgoing { node, address: address.to_owned(), message: last, bytes: None });
    }

    /// A host does not know what it had of a home of this node: that is lost with it.
    pub(super) fn on_forgot(&mut self, share: u64) {
        self.fenced.on_forgot(share);
        let Some((gid, host)) = self.end_share(share) else { return };
        let mut outgoing = self.outbox();
        let Some(home) = self.homes.get_mut(&gid) else { return };
        if home.is_returning() {
            home.on_handed_over(host, true);
            return self.end_returns();
        }
        let left = home.leave(host, true, &mut outgoing);
        left.map(|(share, _)| self.shares.remove(&share));
        self.post(outgoing);
        self.drop_left_homes();
    }

    /// Homes that are back: when all that this host owned is on its way, it leaves them.
    pub(super) fn go_on_handing(&mut self) {
        let handing =
            |(place, host): (&HostKey, &PageHost<M::Frames>)| host.sharing.handing().map(|at| (*place, at)).collect::<Vec<_>>();
        let (handing, now_ms): (Vec<(HostKey, usize)>, u64) = (self.hosts.iter().flat_map(handing).collect(), self.now_ms());
        for (place, at) in handing {
            let mut is_empty = true;
            self.with_host(place, |host, outputs| is_empty = host.hand_over(at, outputs));
            let Some(host) = self.hosts.get_mut(&place) else { continue };
            let knows = !host.is_given_up();
            if host.sharing.on_pages_returned(at, is_empty, knows, now_ms) == HandedOver::Late {
                tracing::error!("{}: a program that stands still keeps pages from their home, and they are lost", place.gid);
                host.drop_pages(&BTreeSet::from([at]));
                self.note_lost(place);
            }
            self.act(place);
        }
    }

    /// A page that another host passed on to this one, after that left the home: it goes home.
    pub(super) fn give_straight_back(&mut self, key: u64, page: Page, message: &ToHost, bytes: Option<PageBytes>) {
        let ToHost::Grant { version, access: Access::Write, has_bytes: true, .. } = message else { return };
        let Some((share, (node, address))) = self.returned.home_of(key) else { return };
        let (node, address, message) = (*node, address.clone(), ToHome::WriteBack { version: *version, keeps: false });
        self.send(Outgoing { node, address, message: NodeMessage::ToHome { share, page, message }, bytes });
    }

    /// Hosts that have not answered to a home that is back, or that could not be reached, are told again.
    pub(super) fn ask_again(&mut self) {
        let (now_ms, mut outgoing) = (self.now_ms(), self.outbox());
        for home in self.homes.values_mut().filter(|home| home.is_returning()) {
            home.ask_again(&self.terms.address, now_ms, &mut outgoing);
        }
        outgoing.messages.extend(self.fenced.due(now_ms));
        self.post(outgoing);
    }

    /// Homes of this node that have got all that there is begin anew.
    pub(super) fn end_returns(&mut self) {
        let now_ms = self.now_ms();
        for home in self.homes.values_mut().filter(|home| home.is_returning()) {
            for share in home.end_return(now_ms) {
                self.shares.remove(&share);
            }
        }
        self.homes.retain(|_, home: &mut PageHome<M::Pages>| !home.is_done_with());
        self.ask_unasked();
    }
}
