//! Connections between programs and the locks' home.

use super::programs::Holder;
use super::{EntryWorld, Event};
use crate::check::Check;
use crate::links::LinkEnd;
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
        let link = self.links.make(program);
        me.link = Some(link);
        self.at(0, Event::Step { program, link });
        Ok(())
    }

    fn send(&mut self, link: u64, to_home: bool, event: Event) {
        let (delay_ms, now_ms) = (self.delay_ms(), self.now_ms);
        match self.links.arrival(link, now_ms, delay_ms, to_home) {
            Some(after) => self.at(after, event),
            None => self.count("messages lost with their connection"),
        }
    }

    pub(super) fn send_home(&mut self, link: u64, seq: u64, request: SyncRequest) {
        self.send(link, true, Event::ToHome { link, seq, request });
    }

    pub(super) fn send_program(&mut self, link: u64, seq: u64, answer: Outcome<SyncAnswer>) {
        self.send(link, false, Event::ToProgram { link, seq, answer });
    }

    fn will_see(&mut self, end: LinkEnd) {
        let LinkEnd { link, at_home, after_ms } = end;
        self.at(after_ms, if at_home { Event::ClosedAtHome { link } } else { Event::ClosedAtProgram { link } });
    }

    /// Stalls a connection: nothing passes for a while; nothing is lost.
    pub(super) fn stall_one(&mut self) {
        if self.links.stall_one(self.course.now_ms, &[200, 1_000, 3_000], &mut self.course.dice) {
            self.count("connections that stood still");
        }
    }

    /// A connection breaks though both of its ends live.
    pub(super) fn break_one(&mut self, program: u64) {
        let Some(link) = self.programs.get(&program).and_then(|me| me.link) else { return };
        self.note(format!("link {link} breaks"));
        self.count("connections broken");
        let ends = self.links.break_at(link, self.course.now_ms, &mut self.course.dice);
        ends.into_iter().for_each(|end| self.will_see(end));
    }

    /// A program dies; the kernel closes its connection behind what it had sent, or that is lost with its host.
    pub(super) fn kill(&mut self, program: u64) {
        let Some(Holder { node, link, .. }) = self.programs.remove(&program) else { return };
        self.note(format!("program {program} dies"));
        let after = self.dice.pick(&[1, 500, 3_000]);
        self.at(after, Event::Begin { node });
        let Some(link) = link else { return };
        let is_cut = self.dice.chance(5_000);
        let end = self.links.end_at_client(link, is_cut, self.course.now_ms, &mut self.course.dice);
        end.into_iter().for_each(|end| self.will_see(end));
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
        let ends = self.links.lose_home(self.course.now_ms, &mut self.course.dice, |_| true);
        ends.into_iter().for_each(|end| self.will_see(end));
    }

    pub(super) fn on_closed_at_home(&mut self, link: u64) -> Check {
        let Some((_, end)) = self.links.close_at_home(link) else { return Ok(()) };
        self.note(format!("the home sees the end of link {link}"));
        self.will_see(end);
        self.on_link_gone(link)
    }

    pub(super) fn on_closed_at_program(&mut self, link: u64) -> Check {
        let closed = self.links.close_at_client(link, self.course.now_ms, &mut self.course.dice);
        let Some((program, end)) = closed else { return Ok(()) };
        self.will_see(end);
        self.on_link_lost(program, link);
        Ok(())
    }
}
