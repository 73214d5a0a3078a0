//! Connections between programs of queues and homes: each keeps order and loses nothing until it breaks.

use super::{Cluster, Event, Outcome, ProcessLife, QueueEvent, QueueMessage, QueueReply};
use crate::check::Check;
use crate::cluster::Defect;
use crate::links::Link;
use hanare_home::Input;
use hanare_protocol::id::ClientId;

/// Numbers of links of queues are beyond those of other links.
pub(in crate::cluster) const FIRST_LINK: u64 = 1 << 40;

/// A connection to a home.
#[derive(Debug)]
pub(super) struct QueueLink {
    pub home: ProcessLife,
    /// The program, as its greeting proved it.
    pub id: ClientId,
    link: Link,
}

impl Cluster {
    /// A program's connection to a home. Makes one where the program has none.
    pub(super) fn queue_link(&mut self, program: usize, home: ProcessLife) -> u64 {
        let queues = self.queues_mut();
        let me = queues.programs.get_mut(&program).expect("one that asks");
        *me.links.entry(home).or_insert_with(|| {
            queues.links_ever += 1;
            let number = FIRST_LINK + queues.links_ever;
            queues.links.insert(number, QueueLink { home, id: me.id, link: Link::new(program as u64) });
            number
        })
    }

    /// After how many milliseconds a message that is sent at this moment arrives, if it does.
    fn queue_arrival(&mut self, link: u64, to_home: bool) -> Option<u64> {
        let (now_ms, delay_ms_max) = (self.now_ms, self.weather.delay_ms_max);
        let queues = self.queues_mut();
        let delay_ms = queues.dice.between(0, delay_ms_max);
        let arrival = queues.links.get_mut(&link)?.link.arrival(now_ms, delay_ms, to_home);
        if arrival.is_none() {
            self.count("messages of queues lost with their connection");
        }
        arrival
    }

    pub(super) fn send_to_queue(&mut self, link: u64, message: QueueMessage) {
        if let Some(after) = self.queue_arrival(link, true) {
            self.at(after, Event::Queue(QueueEvent::ToHome { link, message }));
        }
    }

    pub(super) fn send_from_queue(&mut self, link: u64, seq: u64, outcome: Outcome<QueueReply>) {
        if let Some(after) = self.queue_arrival(link, false) {
            self.at(after, Event::Queue(QueueEvent::ToProgram { link, seq, outcome }));
        }
    }

    /// The home of a message's connection, where that is there for the home.
    pub(super) fn home_of_link(&mut self, link: u64) -> Option<(ProcessLife, ClientId)> {
        let now_ms = self.now_ms;
        let found = self.queues_mut().links.get(&link).filter(|link| link.link.is_open(now_ms, true));
        found.map(|link| (link.home, link.id))
    }

    /// A program's next connection ends those before at a home, wherever their bytes are (`protocol::session`).
    pub(super) fn end_older_links(&mut self, link: u64, (home, id): (ProcessLife, ClientId)) -> Check {
        let is_its = |other: &QueueLink| (other.home, other.id) == (home, id) && other.link.is_open_at_home;
        let older = self.queues_mut().links.range(..link).filter(|(_, other)| is_its(other)).map(|(number, _)| *number);
        let older: Vec<u64> = older.collect();
        older.into_iter().try_for_each(|number| self.on_queue_link_closed_at_home(number))
    }

    /// The program of a message's connection, where that is there for it.
    pub(super) fn program_of_link(&mut self, link: u64) -> Option<(usize, ClientId)> {
        let now_ms = self.now_ms;
        let found = self.queues_mut().links.get(&link).filter(|link| link.link.is_open(now_ms, false));
        found.map(|link| (link.link.client as usize, link.id))
    }

    /// The program of a connection that one of its sides has still.
    pub(super) fn program_at(&mut self, link: u64) -> Option<usize> {
        self.queues_mut().links.get(&link).map(|link| link.link.client as usize)
    }

    fn forget_queue_link(&mut self, number: u64) {
        let is_over = |link: &QueueLink| !link.link.is_open_at_home && !link.link.is_open_at_client;
        self.queues_mut().links.extract_if(number..=number, |_, link| is_over(link)).for_each(drop);
    }

    fn pick_queue_link(&mut self) -> Option<u64> {
        let queues = self.queues_mut();
        let whole: Vec<u64> = queues.links.iter().filter(|(_, link)| link.link.is_whole()).map(|(id, _)| *id).collect();
        if whole.is_empty() { None } else { Some(queues.dice.pick(&whole)) }
    }

    pub(super) fn stall_queue_link(&mut self) {
        let Some(number) = self.pick_queue_link() else { return };
        let now_ms = self.now_ms;
        let queues = self.queues_mut();
        let until_ms = now_ms + queues.dice.pick(&[200, 1_000, 4_000]);
        queues.links.get_mut(&number).expect("just picked").link.stall(until_ms);
        self.count("connections of queues that stood still");
    }

    /// A connection breaks though both of its ends live.
    pub(super) fn break_queue_link(&mut self) {
        let Some(number) = self.pick_queue_link() else { return };
        self.count("connections of queues broken");
        self.cut_queue_link(number);
        for event in [QueueEvent::ClosedAtHome { link: number }, QueueEvent::ClosedAtProgram { link: number }] {
            let after = self.queues_mut().dice.pick(&[0, 5, 200, 3_500]);
            self.at(after, Event::Queue(event));
        }
    }

    /// From some message on, nothing that is under way arrives.
    fn cut_queue_link(&mut self, number: u64) {
        let now_ms = self.now_ms;
        let queues = self.queues_mut();
        let cut_ms = now_ms + queues.dice.pick(&[0, 1, 20, 500]);
        if let Some(link) = queues.links.get_mut(&number) {
            link.link.cut(cut_ms);
        }
    }

    /// A program gives a connection up: nothing that is under way arrives.
    pub(super) fn reset_queue_link(&mut self, number: u64) -> Check {
        let now_ms = self.now_ms;
        if let Some(link) = self.queues_mut().links.get_mut(&number) {
            link.link.cut(now_ms);
        }
        self.count("connections of queues given up");
        self.on_queue_link_closed_at_program(number)
    }

    /// A program has ended. The kernel closes its connection behind what it had sent, or the host is gone with what was under way.
    pub(super) fn end_queue_link(&mut self, number: u64, is_cut: bool) {
        if is_cut {
            self.cut_queue_link(number);
        }
        let now_ms = self.now_ms;
        let queues = self.queues_mut();
        let Some(link) = queues.links.get_mut(&number) else { return };
        let after = link.link.end_at_client(now_ms) + queues.dice.pick(&[0, 5, 3_500]);
        self.at(after, Event::Queue(QueueEvent::ClosedAtHome { link: number }));
    }

    /// A home's process has died: programs notice, each at its time.
    pub(super) fn lose_queue_links(&mut self, home: ProcessLife) {
        let queues = self.queues_mut();
        let is_open = |link: &QueueLink| link.home == home && link.link.is_open_at_home;
        let lost: Vec<u64> = queues.links.iter().filter(|(_, link)| is_open(link)).map(|(number, _)| *number).collect();
        for number in lost {
            self.cut_queue_link(number);
            let queues = self.queues_mut();
            queues.links.get_mut(&number).expect("just listed").link.is_open_at_home = false;
            queues.commands.remove(&number);
            let after = queues.dice.pick(&[0, 5, 200, 3_500]);
            self.at(after, Event::Queue(QueueEvent::ClosedAtProgram { link: number }));
        }
    }

    pub(super) fn on_queue_link_closed_at_home(&mut self, number: u64) -> Check {
        let queues = self.queues_mut();
        let Some(link) = queues.links.get_mut(&number).filter(|link| link.link.is_open_at_home) else { return Ok(()) };
        link.link.is_open_at_home = false;
        let home = link.home;
        queues.commands.remove(&number);
        self.at(0, Event::Queue(QueueEvent::ClosedAtProgram { link: number }));
        self.forget_queue_link(number);
        if self.has(Defect::KeepPorts) {
            return Ok(());
        }
        self.tell(home, Input::LinkGone { link: number })?;
        self.drain_node(home.0)
    }

    pub(super) fn on_queue_link_closed_at_program(&mut self, number: u64) -> Check {
        let queues = self.queues_mut();
        let Some(link) = queues.links.get_mut(&number).filter(|link| link.link.is_open_at_client) else { return Ok(()) };
        link.link.is_open_at_client = false;
        let (program, id, home) = (link.link.client as usize, link.id, link.home);
        self.cut_queue_link(number);
        let after = self.queues_mut().dice.pick(&[0, 5, 3_500]);
        self.at(after, Event::Queue(QueueEvent::ClosedAtHome { link: number }));
        self.forget_queue_link(number);
        self.on_queue_link_lost((program, id), (number, home))
    }
}
