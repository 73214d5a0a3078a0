//! Connections of programs and nodes to homes that serve their commands.

use super::{Cluster, Event, Piece, ProcessLife, SendEvent};
use crate::check::Check;
use crate::cluster::Defect;
use crate::links::LinkEnd;

/// Numbers of links of senders are beyond those of other links.
pub(in crate::cluster) const FIRST_LINK: u64 = 1 << 41;
/// Times for which a connection stands still.
const STALLS_MS: [u64; 4] = [300, 1_500, 2_500, 6_000];
/// Times after which the kernel of a home's host knows of a reset.
const RESET_MS: [u64; 3] = [0, 5, 200];
/// Most that a piece takes by itself.
const DELAY_MS: u64 = 10;

/// The client's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkClient {
    Program {
        line: usize,
        life: u64,
        /// The program is on the node's host, and the connection in their memory.
        is_ring: bool,
    },
    /// A node that fetches bytes for copies.
    Node(ProcessLife),
}

impl LinkClient {
    pub fn node(self) -> Option<ProcessLife> {
        if let LinkClient::Node(at) = self { Some(at) } else { None }
    }

    pub fn is_ring(self) -> bool {
        matches!(self, LinkClient::Program { is_ring: true, .. })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SendLink {
    pub home: ProcessLife,
    pub client: LinkClient,
}

impl Cluster {
    /// Makes a connection, and greets the home.
    pub(super) fn connect_to_home(&mut self, link: SendLink) -> u64 {
        let links = &mut self.senders_mut().links;
        let link = if link.client.is_ring() { links.make_ring(link) } else { links.make(link) };
        self.send_by_send_link(link, true, SendEvent::ToHome { link, piece: None });
        link
    }

    fn send_by_send_link(&mut self, link: u64, to_home: bool, event: SendEvent) {
        let (now_ms, most) = (self.now_ms, self.weather.delay_ms_max.min(DELAY_MS));
        let is_ring = self.send_link(link).is_some_and(|link| link.client.is_ring());
        let senders = self.senders_mut();
        let delay_ms = if is_ring { 0 } else { senders.dice.between(0, most) };
        if let Some(after) = senders.links.arrival(link, now_ms, delay_ms, to_home) {
            self.at(after, Event::Send(event));
        }
    }

    pub(super) fn send_piece(&mut self, link: u64, piece: Piece) {
        self.send_by_send_link(link, true, SendEvent::ToHome { link, piece: Some(piece) });
    }

    pub(super) fn send_answer(&mut self, link: u64, piece: Piece) {
        self.send_by_send_link(link, false, SendEvent::ToClient { link, piece });
    }

    pub(super) fn send_link(&self, link: u64) -> Option<SendLink> {
        self.senders.as_ref()?.links.get(link).copied()
    }

    /// The connection of a piece that arrives, if it is there for its receiver.
    pub(super) fn send_link_at(&mut self, link: u64, at_home: bool) -> Option<SendLink> {
        let now_ms = self.now_ms;
        self.senders_mut().links.receiving(link, now_ms, at_home).copied()
    }

    /// A piece of an answer arrives.
    pub(super) fn on_answer_piece(&mut self, link: u64, piece: Piece) -> Check {
        match self.send_link_at(link, false).map(|link| link.client) {
            Some(LinkClient::Program { line, life, .. }) => self.on_sender_answer((line, life), link, &piece),
            Some(LinkClient::Node(at)) => {
                self.on_source_piece(at, link, piece);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// True if a home has a connection of a line whose kernel does not know that it is closed.
    pub(super) fn has_unheard_end(&self, line: usize) -> bool {
        let is_its = |link: &SendLink| matches!(link.client, LinkClient::Program { line: other, .. } if other == line);
        let open = self.senders.as_ref().map_or_else(Vec::new, |senders| senders.links.older_at_home(u64::MAX, is_its));
        open.into_iter().any(|link| !self.is_reset(link))
    }

    fn will_see_end(&mut self, LinkEnd { link, at_home, after_ms }: LinkEnd) {
        let event = if at_home { SendEvent::ClosedAtHome { link } } else { SendEvent::ClosedAtClient { link } };
        self.at(after_ms, Event::Send(event));
    }

    pub(super) fn stall_send_link(&mut self) {
        let now_ms = self.now_ms;
        let senders = self.senders_mut();
        if senders.links.stall_one(now_ms, &STALLS_MS, &mut senders.dice) {
            self.count("connections of senders that stood still");
        }
    }

    /// A connection breaks though both of its ends live.
    pub(super) fn break_send_link(&mut self) {
        let now_ms = self.now_ms;
        let senders = self.senders_mut();
        let Some(ends) = senders.links.break_one(now_ms, &mut senders.dice) else { return };
        self.count("connections of senders broken");
        ends.into_iter().for_each(|end| self.will_see_end(end));
    }

    /// A program has ended: its connection is reset, so that nothing that is under way arrives.
    pub(super) fn end_send_link(&mut self, link: u64) {
        let now_ms = self.now_ms;
        let is_ring = self.send_link(link).is_some_and(|link| link.client.is_ring());
        let is_sent_on = self.has(Defect::SendOn) && !is_ring;
        let senders = self.senders_mut();
        if !is_sent_on {
            senders.links.reset(link, now_ms);
        }
        let Some(end) = senders.links.end_at_client(link, false, now_ms, &mut senders.dice) else { return };
        let after_ms = match is_ring {
            true => 0,
            false if is_sent_on => end.after_ms,
            false => senders.dice.pick(&RESET_MS),
        };
        self.will_see_end(LinkEnd { after_ms, ..end });
    }

    /// A program gives a connection up: it sees its end, and the home later.
    pub(super) fn give_up_send_link(&mut self, link: u64) -> Check {
        self.count("connections of senders given up");
        self.on_send_link_lost(link)
    }

    /// A client's end of a connection is closed.
    pub(super) fn on_send_link_lost(&mut self, number: u64) -> Check {
        let now_ms = self.now_ms;
        let senders = self.senders_mut();
        let Some((link, end)) = senders.links.close_at_client(number, now_ms, &mut senders.dice) else { return Ok(()) };
        self.will_see_end(end);
        match link.client {
            LinkClient::Program { line, life, .. } => self.on_sender_link_ended(line, life, number),
            LinkClient::Node(at) => self.lose_source(at, number),
        }
    }

    /// A home closes its end of a connection. Nothing that comes on it is read.
    pub(super) fn close_send_link(&mut self, number: u64) {
        if let Some((_, end)) = self.senders_mut().links.close_at_home(number) {
            self.will_see_end(end);
        }
    }

    /// A process has died: the clients of its connections notice, each at its time. Homes hear of its own.
    pub(super) fn lose_send_links(&mut self, at: ProcessLife) {
        let now_ms = self.now_ms;
        let senders = self.senders_mut();
        for end in senders.links.lose_home(now_ms, &mut senders.dice, |link| link.home == at) {
            self.will_see_end(end);
        }
        let own = self.senders_mut().links.older_at_home(u64::MAX, |link| link.client == LinkClient::Node(at));
        own.into_iter().for_each(|link| self.end_send_link(link));
    }
}
