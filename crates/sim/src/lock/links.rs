//! Connections between clients and the home: each keeps order and loses nothing until it breaks.

use super::*;
use crate::links;

impl LockWorld {
    /// A client connects, if there is a home.
    pub(super) fn on_connect(&mut self, client: u64) -> Check {
        let Some(me) = self.clients.get_mut(&client) else { return Ok(()) };
        if self.home.is_none() {
            let after = self.dice.between(50, 500);
            self.at(after, Event::Connect { client });
            return Ok(());
        }
        self.link_count += 1;
        me.link = Some(self.link_count);
        self.links.insert(self.link_count, Link::new(client));
        self.course.note(format!("client {client} connects by link {}", self.link_count));
        self.resume(client)
    }

    /// After how many milliseconds a message that is sent at this moment arrives, if it does.
    fn arrival(&mut self, link: u64, to_home: bool) -> Option<u64> {
        let (delay_ms, now_ms) = (self.delay_ms(), self.now_ms);
        self.links.get_mut(&link)?.arrival(now_ms, delay_ms, to_home)
    }

    pub(super) fn send_home(&mut self, link: u64, seq: u64, request: SyncRequest) {
        match self.arrival(link, true) {
            Some(after) => self.at(after, Event::ToHome { link, seq, request }),
            None => self.count("messages lost with their connection"),
        }
    }

    pub(super) fn send_client(&mut self, link: u64, seq: u64, answer: Outcome<SyncAnswer>) {
        match self.arrival(link, false) {
            Some(after) => self.at(after, Event::ToClient { link, seq, answer }),
            None => self.count("messages lost with their connection"),
        }
    }

    /// True if an arriving message is one of a connection that is there for its receiver.
    pub(super) fn is_open(&self, link: u64, at_home: bool) -> bool {
        self.links.get(&link).is_some_and(|link| link.is_open(self.now_ms, at_home))
    }

    fn pick_link(&mut self) -> Option<u64> {
        let open = links::whole(&self.links);
        if open.is_empty() { None } else { Some(self.dice.pick(&open)) }
    }

    /// Stalls a connection: nothing passes for a while; nothing is lost.
    pub(super) fn stall_one(&mut self) {
        let Some(id) = self.pick_link() else { return };
        self.count("connections that stood still");
        let until = self.now_ms + self.dice.pick(&[200, 1_000, 3_000]);
        let link = self.links.get_mut(&id).expect("just picked");
        link.stall(until);
    }

    /// A connection breaks though both of its ends live.
    pub(super) fn break_one(&mut self) {
        let Some(id) = self.pick_link() else { return };
        self.note(format!("link {id} breaks"));
        self.count("connections broken");
        self.cut(id);
        for event in [Event::ClosedAtHome { link: id }, Event::ClosedAtClient { link: id }] {
            let after = self.dice.pick(&[0, 5, 200, 3_500]);
            self.at(after, event);
        }
    }

    /// From some message on, nothing that is under way arrives.
    fn cut(&mut self, id: u64) {
        let rest = self.dice.pick(&[0, 1, 20, 500]);
        let link = self.links.get_mut(&id).expect("one that is there");
        link.cut(self.course.now_ms + rest);
    }

    /// A program dies; the kernel closes its connection behind what it had sent, or the host is gone with what was under way.
    pub(super) fn kill(&mut self, client: u64) {
        let Some(Client { node, link, .. }) = self.clients.remove(&client) else { return };
        self.note(format!("client {client} dies"));
        let after = self.dice.pick(&[1, 500, 3_000]);
        self.at(after, Event::Begin { node });
        let Some(id) = link else { return };
        if self.dice.chance(5_000) {
            self.cut(id);
        }
        let link = self.links.get_mut(&id).expect("a client's link is kept");
        let rest = link.end_at_client(self.course.now_ms);
        let after = rest + self.dice.pick(&[0, 5, 3_500]);
        self.at(after, Event::ClosedAtHome { link: id });
    }

    /// The home dies: it comes back and knows nothing. Its clients notice, each at its time.
    pub(super) fn kill_home(&mut self) {
        let Some(home) = self.home.take() else { return };
        self.note(format!("life {} of the home dies", home.served.life));
        self.count("home deaths");
        self.model = Model::default();
        self.lapse_all();
        let after = self.dice.pick(&[1, 100, 3_000]);
        self.at(after, Event::HomeBegins);
        for id in links::at_home(&self.links) {
            self.cut(id);
            let link = self.links.get_mut(&id).expect("just listed");
            link.is_open_at_home = false;
            let after = self.dice.pick(&[0, 5, 200, 3_500]);
            self.at(after, Event::ClosedAtClient { link: id });
        }
    }

    pub(super) fn on_closed_at_home(&mut self, id: u64) -> Check {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.is_open_at_home) else { return self.forget(id) };
        link.is_open_at_home = false;
        self.note(format!("the home sees the end of link {id}"));
        self.on_link_gone(id)?;
        // Its other side hears of it: whoever closes a connection tells, if anything gets through.
        self.at(0, Event::ClosedAtClient { link: id });
        self.forget(id)
    }

    pub(super) fn on_closed_at_client(&mut self, id: u64) -> Check {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.is_open_at_client) else { return self.forget(id) };
        link.is_open_at_client = false;
        let client = link.client;
        // A connection closed by the client is closed at the home in the end.
        self.cut(id);
        let after = self.dice.pick(&[0, 5, 3_500]);
        self.at(after, Event::ClosedAtHome { link: id });
        self.on_link_lost(client, id);
        self.forget(id)
    }

    fn forget(&mut self, id: u64) -> Check {
        if self.links.get(&id).is_some_and(|link| !link.is_open_at_home && !link.is_open_at_client) {
            self.links.remove(&id);
        }
        Ok(())
    }
}
