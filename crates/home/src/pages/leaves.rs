//! End of sharing: the host leaves a region's homes after its last client. Its own pages are home by then, or are lost.

use super::Pages;
use super::memory::PageMemory;
use super::request::HostKey;
use super::sharers::PendingJoin;
use hanare_protocol::Error;
use hanare_protocol::id::{ClientId, Gid, NodeId};
use hanare_protocol::page::membership::{self, Over};
use hanare_protocol::wire::control::Answer;

impl<M: PageMemory> Pages<M> {
    /// The node ends in good order: what only this host had goes home, as if all clients had unmapped. If it `keeps` its bytes, what others
    /// have of them comes here, and nobody gets a page any more.
    pub(super) fn stop(&mut self, keeps: bool) {
        if keeps {
            self.bring_home();
        }
        let (all, now_ms): (Vec<HostKey>, u64) = (self.hosts.keys().copied().collect(), self.now_ms());
        for key in all {
            self.with_host(key, |host, outputs| {
                host.part_all(outputs);
                host.sharing.give_up(now_ms);
            });
        }
        self.settle();
        self.go_on_leaving();
        self.settle();
    }

    /// True if this host shares nothing and waits for no page of its own.
    pub fn is_left(&self) -> bool {
        self.hosts.is_empty() && self.ending.as_ref().is_none_or(Vec::is_empty)
    }

    pub(super) fn unshare(&mut self, client: ClientId, gid: Gid, has_asked: bool) {
        let Some(place) = self.place_of(client, gid) else {
            if has_asked {
                self.reply(client, Ok(Answer::Ok));
            }
            return;
        };
        let now_ms = self.now_ms();
        self.with_host(place, |host, outputs| {
            host.part(client, outputs);
            if has_asked {
                host.sharing.unmap(client, host.is_unused(), now_ms);
            }
        });
        self.act(place);
    }

    /// No home knows this host any more; who wants the region meanwhile asks again.
    pub(super) fn end(&mut self, place: HostKey) {
        let Some(mut host) = self.hosts.remove(&place) else { return };
        for route in &host.homes {
            self.keys.remove(&route.key);
        }
        while let Some(action) = host.sharing.poll() {
            match action {
                membership::Action::Unmapped(client, failed) => self.reply(client, failed.map_or(Ok(Answer::Ok), Err)),
                membership::Action::Again(wanted) => self.share(wanted),
                other => tracing::error!("{} has ended, and its rules want {other:?}", place.gid),
            }
        }
    }

    /// Regions that are being left: when all pages are home, the homes are told.
    pub(super) fn go_on_leaving(&mut self) {
        let emptying = self.hosts.iter().filter(|(_, host)| host.sharing.may_empty());
        let (emptying, now_ms): (Vec<HostKey>, u64) = (emptying.map(|(place, _)| *place).collect(), self.now_ms());
        for place in emptying {
            self.note_unsaved(place, &[]);
            let mut is_empty = true;
            self.with_host(place, |host, outputs| is_empty = host.is_lost() || host.empty(None, outputs));
            let Some(host) = self.hosts.get_mut(&place) else { continue };
            let node = host.homes.first().map_or(NodeId(0), |route| route.node);
            let name = &host.name;
            host.sharing.on_emptied(is_empty, now_ms, || {
                let reason = format!("a program that stands still keeps pages of region '{name}' from it, and they are lost");
                tracing::error!("{reason}");
                Error::NodeLost { node, reason }
            });
            self.note_unsaved(place, &[]);
            self.act(place);
        }
    }

    /// A home has all that this host had.
    pub(super) fn on_left(&mut self, key: u64) {
        let Some((place, at)) = self.keys.get(&key).copied() else { return };
        self.note_unsaved(place, &[]);
        if let Some(host) = self.hosts.get_mut(&place) {
            host.sharing.on_left(at);
        }
        self.act(place);
    }

    /// A lost home, or one of these, has not got all stores from here. Whoever unmaps is told.
    fn note_unsaved(&mut self, place: HostKey, lost: &[usize]) {
        let Some(host) = self.hosts.get_mut(&place) else { return };
        let Some(node) = host.unsaved(lost) else { return };
        let reason = format!("it has not got all that programs of this host stored to region '{}', and they unmap it", host.name);
        host.sharing.fail(Error::NodeLost { node, reason });
    }

    /// Homes of this node's regions are lost: they are not waited for.
    pub(super) fn lose_homes(&mut self, node: NodeId, over: Over) {
        let (places, now_ms): (Vec<HostKey>, u64) = (self.hosts.keys().copied().collect(), self.now_ms());
        for place in places {
            let Some(host) = self.hosts.get_mut(&place) else { continue };
            let is_over = |at: &usize| host.homes[*at].node == node && host.sharing.is_over(*at, over);
            let over: Vec<usize> = (0..host.homes.len()).filter(is_over).collect();
            if over.is_empty() {
                continue;
            }
            if host.is_copied {
                over.iter().for_each(|at| host.on_home_moves(*at, now_ms));
                self.fail_flushes(place);
                self.act(place);
                continue;
            }
            self.note_unsaved(place, &over);
            if let Some(host) = self.hosts.get_mut(&place) {
                over.iter().for_each(|at| host.on_home_lost(*at));
            }
            self.act(place);
        }
        // An unreachable node may live, and waits for its reply.
        let has_ended = |pending: &PendingJoin| pending.from == node && pending.life.is_over(over) && over != Over::All;
        for gone in self.join_queue.drop_those(has_ended) {
            self.cancel_share_wait(&gone.join);
        }
    }
}
