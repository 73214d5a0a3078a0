//! Connections between programs and homes.

use super::clients::Client;
use super::{Cluster, Event, LockEvent, ProcessLife};
use crate::check::Check;
use crate::links::LinkEnd;
use hanare_protocol::Result as Outcome;
use hanare_protocol::id::ClientId;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};

/// The ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockLink {
    pub home: ProcessLife,
    pub client: u64,
    /// The program, as its greeting proved it.
    pub id: ClientId,
}

impl Cluster {
    /// A program connects, if it knows a home that is there.
    pub(super) fn on_program_connects(&mut self, client: u64) -> Check {
        let Some(me) = self.locks.clients.get(&client).filter(|me| me.link.is_none()) else { return Ok(()) };
        let home = if me.is_by_names() { self.locks.names } else { me.home_of_bytes(self) };
        let home = home.filter(|home| !self.hosts[home.0].is_stopped && self.process(*home).is_some());
        let Some(home) = home else {
            let after = self.dice.between(50, 500);
            self.at(after, Event::Lock(LockEvent::Connect { client }));
            return self.look_for_bytes(client);
        };
        let me = self.locks.clients.get_mut(&client).expect("as just seen");
        let (id, view, has_data) = (me.id, me.region.clone().flatten(), me.has_data);
        let number = self.locks.links.make(LockLink { home, client, id });
        let at = (me.at, id);
        me.link = Some(number);
        if has_data {
            self.begin_entry(client, number, at, view);
        }
        self.locks.homes.entry(home).or_default();
        self.note(format!("program {client} connects to host {} by link {number}", home.0));
        self.resume(client);
        Ok(())
    }

    fn send_by_link(&mut self, link: u64, to_home: bool, event: LockEvent) {
        let (delay_ms, now_ms) = (self.delay_ms(), self.now_ms);
        match self.locks.links.arrival(link, now_ms, delay_ms, to_home) {
            Some(after) => self.at(after, Event::Lock(event)),
            None => self.count("messages of locks lost with their connection"),
        }
    }

    pub(super) fn send_home(&mut self, link: u64, seq: u64, request: SyncRequest) {
        self.send_by_link(link, true, LockEvent::ToHome { link, seq, request });
    }

    pub(super) fn send_client(&mut self, link: u64, seq: u64, answer: Outcome<SyncAnswer>) {
        self.send_by_link(link, false, LockEvent::ToClient { link, seq, answer });
    }

    /// The connection of a message that arrives, if it is there for its receiver.
    pub(super) fn link_at(&mut self, link: u64, at_home: bool) -> Option<LockLink> {
        let found = self.locks.links.receiving(link, self.now_ms, at_home).copied();
        if found.is_none() {
            self.count("messages of locks lost with their connection");
        }
        found
    }

    fn will_see(&mut self, end: LinkEnd) {
        let LinkEnd { link, at_home, after_ms } = end;
        let event = if at_home { LockEvent::ClosedAtHome { link } } else { LockEvent::ClosedAtClient { link } };
        self.at(after_ms, Event::Lock(event));
    }

    /// Stalls a connection: nothing passes for a while; nothing is lost.
    pub(super) fn stall_link(&mut self) {
        if self.locks.links.stall_one(self.course.now_ms, &[200, 1_000, 3_000], &mut self.course.dice) {
            self.count("connections of programs that stood still");
        }
    }

    /// A connection breaks though both of its ends live.
    pub(super) fn break_link(&mut self) {
        if let Some(ends) = self.locks.links.break_one(self.course.now_ms, &mut self.course.dice) {
            self.will_break(ends);
        }
    }

    /// The connection of a program breaks.
    pub(in crate::cluster) fn break_link_of(&mut self, client: u64) {
        if let Some(link) = self.locks.clients.get(&client).and_then(|me| me.link) {
            let ends = self.locks.links.break_at(link, self.course.now_ms, &mut self.course.dice);
            self.will_break(ends);
        }
    }

    fn will_break(&mut self, ends: [LinkEnd; 2]) {
        self.note(format!("link {} breaks", ends[0].link));
        self.count("connections of programs broken");
        ends.into_iter().for_each(|end| self.will_see(end));
    }

    /// A program dies; the kernel closes its connection behind what it had sent, or the host is gone with what was under way.
    pub(in crate::cluster) fn kill(&mut self, client: u64) {
        let Some(Client { at, id, link, .. }) = self.locks.clients.remove(&client) else { return };
        self.note(format!("program {client} dies"));
        self.end_entry(client);
        let (next, seen) = (self.dice.pick(&[1, 500, 3_000]), self.dice.pick(&[0, 5, 200]));
        self.at(next, Event::Lock(LockEvent::Begin { at }));
        self.at(seen, Event::Lock(LockEvent::Ended { at, client: id }));
        let Some(link) = link else { return };
        let is_cut = self.dice.chance(5_000);
        let end = self.locks.links.end_at_client(link, is_cut, self.course.now_ms, &mut self.course.dice);
        end.into_iter().for_each(|end| self.will_see(end));
    }

    /// A home's process has died: programs notice, each at its time.
    pub(super) fn lose_links(&mut self, home: ProcessLife) {
        let ends = self.locks.links.lose_home(self.course.now_ms, &mut self.course.dice, |link| link.home == home);
        ends.into_iter().for_each(|end| self.will_see(end));
    }

    pub(super) fn on_link_closed_at_home(&mut self, number: u64) -> Check {
        let Some((link, end)) = self.locks.links.close_at_home(number) else { return Ok(()) };
        self.note(format!("the home sees the end of link {number}"));
        self.on_link_gone(link.home, number)?;
        self.will_see(end);
        Ok(())
    }

    pub(in crate::cluster) fn on_link_closed_at_client(&mut self, number: u64) -> Check {
        let closed = self.locks.links.close_at_client(number, self.course.now_ms, &mut self.course.dice);
        let Some((link, end)) = closed else { return Ok(()) };
        self.will_see(end);
        self.on_link_lost(link.client, number);
        Ok(())
    }
}
