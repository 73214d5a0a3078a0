//! Connections between programs of queues and homes.

use super::{Cluster, Event, Outcome, ProcessLife, QueueEvent, QueueMessage, QueueReply};
use crate::check::Check;
use crate::cluster::Defect;
use crate::links::LinkEnd;
use hanare_home::Input;
use hanare_protocol::id::ClientId;

/// Numbers of links of queues are beyond those of other links.
pub(in crate::cluster) const FIRST_LINK: u64 = 1 << 40;

/// The ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLink {
    pub home: ProcessLife,
    pub program: usize,
    /// The program, as its greeting proved it.
    pub id: ClientId,
}

impl Cluster {
    /// A program's connection to a home. Makes one where the program has none.
    pub(super) fn queue_link(&mut self, program: usize, home: ProcessLife) -> u64 {
        let queues = self.queues_mut();
        let me = queues.programs.get_mut(&program).expect("one that asks");
        *me.links.entry(home).or_insert_with(|| queues.links.make(QueueLink { home, program, id: me.id }))
    }

    fn send_by_queue_link(&mut self, link: u64, to_home: bool, event: QueueEvent) {
        let (now_ms, delay_ms_max) = (self.now_ms, self.weather.delay_ms_max);
        let queues = self.queues_mut();
        let delay_ms = queues.dice.between(0, delay_ms_max);
        match queues.links.arrival(link, now_ms, delay_ms, to_home) {
            Some(after) => self.at(after, Event::Queue(event)),
            None => self.count("messages of queues lost with their connection"),
        }
    }

    pub(super) fn send_to_queue(&mut self, link: u64, message: QueueMessage) {
        self.send_by_queue_link(link, true, QueueEvent::ToHome { link, message });
    }

    pub(super) fn send_from_queue(&mut self, link: u64, seq: u64, outcome: Outcome<QueueReply>) {
        self.send_by_queue_link(link, false, QueueEvent::ToProgram { link, seq, outcome });
    }

    /// The connection of a message that arrives, if it is there for its receiver.
    pub(super) fn queue_link_at(&mut self, link: u64, at_home: bool) -> Option<QueueLink> {
        let now_ms = self.now_ms;
        self.queues_mut().links.receiving(link, now_ms, at_home).copied()
    }

    /// A program's next connection ends those before at a home, wherever their bytes are (`protocol::session`).
    pub(super) fn end_older_links(&mut self, number: u64, link: QueueLink) -> Check {
        let is_its = |other: &QueueLink| (other.home, other.id) == (link.home, link.id);
        let older = self.queues_mut().links.older_at_home(number, is_its);
        older.into_iter().try_for_each(|number| self.on_queue_link_closed_at_home(number))
    }

    fn will_see_queue_end(&mut self, end: LinkEnd) {
        let LinkEnd { link, at_home, after_ms } = end;
        let event = if at_home { QueueEvent::ClosedAtHome { link } } else { QueueEvent::ClosedAtProgram { link } };
        self.at(after_ms, Event::Queue(event));
    }

    pub(super) fn stall_queue_link(&mut self) {
        let now_ms = self.now_ms;
        let queues = self.queues_mut();
        if queues.links.stall_one(now_ms, &[200, 1_000, 4_000], &mut queues.dice) {
            self.count("connections of queues that stood still");
        }
    }

    /// A connection breaks though both of its ends live.
    pub(super) fn break_queue_link(&mut self) {
        let now_ms = self.now_ms;
        let queues = self.queues_mut();
        let Some(ends) = queues.links.break_one(now_ms, &mut queues.dice) else { return };
        self.count("connections of queues broken");
        ends.into_iter().for_each(|end| self.will_see_queue_end(end));
    }

    /// A program gives a connection up: nothing that is under way arrives.
    pub(super) fn reset_queue_link(&mut self, number: u64) -> Check {
        let now_ms = self.now_ms;
        self.queues_mut().links.reset(number, now_ms);
        self.count("connections of queues given up");
        self.on_queue_link_closed_at_program(number)
    }

    /// A program has ended. The kernel closes its connection behind what it had sent, or the host is gone with what was under way.
    pub(super) fn end_queue_link(&mut self, number: u64, is_cut: bool) {
        let now_ms = self.now_ms;
        let queues = self.queues_mut();
        let end = queues.links.end_at_client(number, is_cut, now_ms, &mut queues.dice);
        end.into_iter().for_each(|end| self.will_see_queue_end(end));
    }

    /// A home's process has died: programs notice, each at its time.
    pub(super) fn lose_queue_links(&mut self, home: ProcessLife) {
        let now_ms = self.now_ms;
        let queues = self.queues_mut();
        for end in queues.links.lose_home(now_ms, &mut queues.dice, |link| link.home == home) {
            self.queues_mut().commands.remove(&end.link);
            self.will_see_queue_end(end);
        }
    }

    pub(super) fn on_queue_link_closed_at_home(&mut self, number: u64) -> Check {
        let queues = self.queues_mut();
        let Some((link, end)) = queues.links.close_at_home(number) else { return Ok(()) };
        queues.commands.remove(&number);
        self.will_see_queue_end(end);
        if self.has(Defect::KeepPorts) {
            return Ok(());
        }
        self.tell(link.home, Input::LinkGone { link: number })?;
        self.drain_node(link.home.0)
    }

    pub(super) fn on_queue_link_closed_at_program(&mut self, number: u64) -> Check {
        let now_ms = self.now_ms;
        let queues = self.queues_mut();
        let Some((link, end)) = queues.links.close_at_client(number, now_ms, &mut queues.dice) else { return Ok(()) };
        self.will_see_queue_end(end);
        self.on_queue_link_lost((link.program, link.id), (number, link.home))
    }
}
