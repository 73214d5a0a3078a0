//! Connections between programs and the locks' home: each keeps order and loses nothing until it breaks.

use super::programs::Holder;
use super::{EntryWorld, Event};
use crate::check::Check;
use crate::links::{self, Link};
use hanare_protocol::Result as Outcome;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};

impl EntryWorld {
    /// A program connects, if there is a home.
    pub(super) fn on_connect(&mut self, program: u64) -> Check {
        let Some(me) = self.programs.get_mut(&program) else { return Ok(()) };
        if self.home.is_none() {
            let after = self.dice.between(50, 500);
            self.at(after, Event::Connect { program });
            return Ok(());
        }
        self.link_count += 1;
        me.link = Some(self.link_count);
        self.links.insert(self.link_count, Link::new(program));
        let link = self.link_count;
        self.at(0, Event::Step { program, link });
        Ok(())
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

    pub(super) fn send_program(&mut self, link: u64, seq: u64, answer: Outcome<SyncAnswer>) {
        match self.arrival(link, false) {
            Some(after) => self.at(after, Event::ToProgram { link, seq, answer }),
            None => self.count("messages lost with their connection"),
        }
    }

    /// True if the home has the connection, and a message that arrives was sent before it broke.
    pub(super) fn is_open_at_home(&self, link: u64) -> bool {
        self.links.get(&link).is_some_and(|link| link.is_open(self.now_ms, true))
    }

    /// The program that has the connection still.
    pub(super) fn program_of(&self, link: u64) -> Option<u64> {
        self.links.get(&link).filter(|link| link.is_open(self.now_ms, false)).map(|link| link.client)
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
        self.links.get_mut(&id).expect("just picked").stall(until);
    }

    /// A connection breaks though both of its ends live.
    pub(super) fn break_one(&mut self, program: u64) {
        let Some(id) = self.programs.get(&program).and_then(|me| me.link) else { return };
        self.note(format!("link {id} breaks"));
        self.count("connections broken");
        self.cut(id);
        for event in [Event::ClosedAtHome { link: id }, Event::ClosedAtProgram { link: id }] {
            let after = self.dice.pick(&[0, 5, 200, 3_500]);
            self.at(after, event);
        }
    }

    /// From some message on, nothing that is under way arrives.
    fn cut(&mut self, id: u64) {
        let rest = self.dice.pick(&[0, 1, 20, 500]);
        let now_ms = self.now_ms;
        if let Some(link) = self.links.get_mut(&id) {
            link.cut(now_ms + rest);
        }
    }

    /// A program dies; the kernel closes its connection behind what it had sent, or that is lost with its host.
    pub(super) fn kill(&mut self, program: u64) {
        let Some(Holder { node, link, .. }) = self.programs.remove(&program) else { return };
        self.note(format!("program {program} dies"));
        let after = self.dice.pick(&[1, 500, 3_000]);
        self.at(after, Event::Begin { node });
        let Some(id) = link else { return };
        if self.dice.chance(5_000) {
            self.cut(id);
        }
        let now_ms = self.now_ms;
        let link = self.links.get_mut(&id).expect("a program's link is kept");
        let rest = link.end_at_client(now_ms);
        let after = rest + self.dice.pick(&[0, 5, 3_500]);
        self.at(after, Event::ClosedAtHome { link: id });
    }

    /// The home dies: it comes back and knows nothing. Its programs notice, each at its time.
    pub(super) fn kill_home(&mut self) {
        let Some(home) = self.home.take() else { return };
        self.note(format!("life {} of the home dies", home.served.life));
        self.count("home deaths");
        self.truth.forget();
        self.drafts.clear();
        let after = self.dice.pick(&[1, 100, 3_000]);
        self.at(after, Event::HomeBegins);
        for id in links::at_home(&self.links) {
            self.cut(id);
            self.links.get_mut(&id).expect("just listed").is_open_at_home = false;
            let after = self.dice.pick(&[0, 5, 200, 3_500]);
            self.at(after, Event::ClosedAtProgram { link: id });
        }
    }

    pub(super) fn on_closed_at_home(&mut self, id: u64) -> Check {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.is_open_at_home) else { return Ok(()) };
        link.is_open_at_home = false;
        self.note(format!("the home sees the end of link {id}"));
        self.at(0, Event::ClosedAtProgram { link: id });
        self.on_link_gone(id)
    }

    pub(super) fn on_closed_at_program(&mut self, id: u64) -> Check {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.is_open_at_client) else { return Ok(()) };
        link.is_open_at_client = false;
        let program = link.client;
        self.cut(id);
        let after = self.dice.pick(&[0, 5, 3_500]);
        self.at(after, Event::ClosedAtHome { link: id });
        self.on_link_lost(program, id);
        Ok(())
    }
}
