//! Connections between programs and homes: each keeps order and loses nothing until it breaks.

use super::clients::Client;
use super::{Cluster, Event, LockEvent, ProcessLife};
use crate::check::Check;
use crate::links::Link;
use hanare_protocol::Result as Outcome;
use hanare_protocol::id::ClientId;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};

/// A connection to a home.
#[derive(Debug)]
pub(super) struct LockLink {
    pub home: ProcessLife,
    /// The program, as its greeting proved it.
    pub id: ClientId,
    pub link: Link,
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
        self.locks.link_count += 1;
        let number = self.locks.link_count;
        let me = self.locks.clients.get_mut(&client).expect("as just seen");
        me.link = Some(number);
        self.locks.links.insert(number, LockLink { home, id: me.id, link: Link::new(client) });
        self.locks.homes.entry(home).or_default();
        self.note(format!("program {client} connects to host {} by link {number}", home.0));
        self.resume(client);
        Ok(())
    }

    /// After how many milliseconds a message that is sent at this moment arrives, if it does.
    fn arrival_by_link(&mut self, link: u64, to_home: bool) -> Option<u64> {
        let (delay_ms, now_ms) = (self.delay_ms(), self.now_ms);
        self.locks.links.get_mut(&link)?.link.arrival(now_ms, delay_ms, to_home)
    }

    pub(super) fn send_home(&mut self, link: u64, seq: u64, request: SyncRequest) {
        match self.arrival_by_link(link, true) {
            Some(after) => self.at(after, Event::Lock(LockEvent::ToHome { link, seq, request })),
            None => self.count("messages of locks lost with their connection"),
        }
    }

    pub(super) fn send_client(&mut self, link: u64, seq: u64, answer: Outcome<SyncAnswer>) {
        match self.arrival_by_link(link, false) {
            Some(after) => self.at(after, Event::Lock(LockEvent::ToClient { link, seq, answer })),
            None => self.count("messages of locks lost with their connection"),
        }
    }

    /// The connection of a message that arrives, if it is there for its receiver.
    pub(super) fn link_at(&mut self, link: u64, at_home: bool) -> Option<&LockLink> {
        let now_ms = self.now_ms;
        if self.locks.links.get(&link).is_none_or(|link| !link.link.is_open(now_ms, at_home)) {
            self.count("messages of locks lost with their connection");
            return None;
        }
        self.locks.links.get(&link)
    }

    fn pick_link(&mut self) -> Option<u64> {
        let whole: Vec<u64> = self.locks.links.iter().filter(|(_, link)| link.link.is_whole()).map(|(id, _)| *id).collect();
        if whole.is_empty() { None } else { Some(self.dice.pick(&whole)) }
    }

    /// Stalls a connection: nothing passes for a while; nothing is lost.
    pub(super) fn stall_link(&mut self) {
        let Some(id) = self.pick_link() else { return };
        self.count("connections of programs that stood still");
        let until = self.now_ms + self.dice.pick(&[200, 1_000, 3_000]);
        self.locks.links.get_mut(&id).expect("just picked").link.stall(until);
    }

    /// A connection breaks though both of its ends live.
    pub(super) fn break_link(&mut self) {
        let Some(id) = self.pick_link() else { return };
        self.note(format!("link {id} breaks"));
        self.count("connections of programs broken");
        self.cut_link(id);
        for event in [LockEvent::ClosedAtHome { link: id }, LockEvent::ClosedAtClient { link: id }] {
            let after = self.dice.pick(&[0, 5, 200, 3_500]);
            self.at(after, Event::Lock(event));
        }
    }

    /// From some message on, nothing that is under way arrives.
    fn cut_link(&mut self, id: u64) {
        let rest = self.dice.pick(&[0, 1, 20, 500]);
        let cut_ms = self.now_ms + rest;
        self.locks.links.get_mut(&id).expect("one that is there").link.cut(cut_ms);
    }

    /// A program dies; the kernel closes its connection behind what it had sent, or the host is gone with what was under way.
    pub(super) fn kill(&mut self, client: u64) {
        let Some(Client { at, id, link, .. }) = self.locks.clients.remove(&client) else { return };
        self.note(format!("program {client} dies"));
        let (next, seen) = (self.dice.pick(&[1, 500, 3_000]), self.dice.pick(&[0, 5, 200]));
        self.at(next, Event::Lock(LockEvent::Begin { at }));
        self.at(seen, Event::Lock(LockEvent::Ended { at, client: id }));
        let Some(id) = link else { return };
        if self.dice.chance(5_000) {
            self.cut_link(id);
        }
        let now_ms = self.now_ms;
        let rest = self.locks.links.get_mut(&id).expect("a program's link is kept").link.end_at_client(now_ms);
        let after = rest + self.dice.pick(&[0, 5, 3_500]);
        self.at(after, Event::Lock(LockEvent::ClosedAtHome { link: id }));
    }

    /// A home's process has died: programs notice, each at its time.
    pub(super) fn lose_links(&mut self, home: ProcessLife) {
        let is_open = |link: &LockLink| link.home == home && link.link.is_open_at_home;
        let lost: Vec<u64> = self.locks.links.iter().filter(|(_, link)| is_open(link)).map(|(id, _)| *id).collect();
        for id in lost {
            self.cut_link(id);
            self.locks.links.get_mut(&id).expect("just listed").link.is_open_at_home = false;
            let after = self.dice.pick(&[0, 5, 200, 3_500]);
            self.at(after, Event::Lock(LockEvent::ClosedAtClient { link: id }));
        }
    }

    pub(super) fn on_link_closed_at_home(&mut self, id: u64) -> Check {
        let open = self.locks.links.get_mut(&id).filter(|link| link.link.is_open_at_home);
        if let Some(LockLink { home, link, .. }) = open {
            link.is_open_at_home = false;
            let home = *home;
            self.note(format!("the home sees the end of link {id}"));
            self.on_link_gone(home, id)?;
            // Its other side hears of it: whoever closes a connection tells, if anything gets through.
            self.at(0, Event::Lock(LockEvent::ClosedAtClient { link: id }));
        }
        self.forget_link(id);
        Ok(())
    }

    pub(super) fn on_link_closed_at_client(&mut self, id: u64) -> Check {
        let open = self.locks.links.get_mut(&id).filter(|link| link.link.is_open_at_client);
        if let Some(LockLink { link, .. }) = open {
            link.is_open_at_client = false;
            let client = link.client;
            // A connection closed by the program is closed at the home in the end.
            self.cut_link(id);
            let after = self.dice.pick(&[0, 5, 3_500]);
            self.at(after, Event::Lock(LockEvent::ClosedAtHome { link: id }));
            self.on_link_lost(client, id);
        }
        self.forget_link(id);
        Ok(())
    }

    fn forget_link(&mut self, id: u64) {
        if self.locks.links.get(&id).is_some_and(|link| !link.link.is_open_at_home && !link.link.is_open_at_client) {
            self.locks.links.remove(&id);
        }
    }
}
