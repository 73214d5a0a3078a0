//! The user of one link of the service: a client, a node that is asked, or a node for messages on pages.

use super::fetches::Peer;
use super::session::{Session, Turn};
use crate::control_link::ControlLink;
use hanare_fabric::LinkError;
use hanare_home::{EndedFetch, Need};
use hanare_protocol::Result;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::greeting::Role;
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub(crate) enum Connection {
    Client(Box<Session>),
    Peer(Box<Peer>),
    /// A connection between nodes about pages, or copies.
    Wire(Role, Box<ControlLink>),
}

/// Result of a turn.
pub(crate) enum Did {
    Client(Turn),
    /// True if anything moved; then the fetches that have ended, and pages to bring home.
    Peer(bool, Vec<EndedFetch>, Option<Need>),
    /// Frames of another node, and whether the connection has ended after them.
    Wire(Role, Vec<Vec<u8>>, std::result::Result<(), LinkError>),
}

impl Connection {
    pub fn turn(&mut self, now: Duration, is_shared: bool) -> std::result::Result<Did, LinkError> {
        match self {
            Connection::Client(session) => session.advance(now, is_shared).map(|moved| Did::Client(session.take_turn(moved))),
            Connection::Peer(peer) => peer.turn(now).map(|(moved, ended)| Did::Peer(moved, ended, peer.need())),
            Connection::Wire(role, wire) => {
                let (frames, ending) = wire.receive_bytes();
                Ok(Did::Wire(*role, frames, ending))
            }
        }
    }

    /// A turn of which [`Session::take_turn`] tells the rest. None but clients' links have one.
    pub fn advance(&mut self, now: Duration, is_shared: bool) -> std::result::Result<bool, LinkError> {
        match self {
            Connection::Client(session) => session.advance(now, is_shared),
            Connection::Peer(_) | Connection::Wire(..) => Ok(false),
        }
    }

    /// See [`Session::moves_much`].
    pub fn moves_much(&self) -> bool {
        matches!(self, Connection::Client(session) if session.moves_much())
    }

    /// See [`Session::give_way`].
    pub fn give_way(&mut self) -> bool {
        match self {
            Connection::Client(session) => session.give_way(),
            Connection::Peer(_) | Connection::Wire(..) => false,
        }
    }

    /// The client's name for the connection.
    pub fn name(&self) -> Option<u128> {
        match self {
            Connection::Client(session) => session.name(),
            Connection::Peer(_) | Connection::Wire(..) => None,
        }
    }

    /// True if a reply waits for the client to read.
    pub fn is_blocked(&self) -> bool {
        matches!(self, Connection::Client(session) if session.is_blocked())
    }

    /// True if it waits for another node's bytes, or for pages: only those move it.
    pub fn waits_for_others(&self) -> bool {
        match self {
            Connection::Client(session) => session.waits_for_others(),
            Connection::Peer(peer) => peer.fetches().waits_for_pages(),
            Connection::Wire(..) => false,
        }
    }

    /// Pages that its commands wait for are at home, or will not come. Returns what it needs next.
    pub fn recalled(&mut self, now: Duration, outcome: Result<()>) -> Option<Need> {
        match self {
            Connection::Client(session) => {
                session.recalled(outcome);
                session.need()
            }
            Connection::Peer(peer) => {
                peer.recalled(now, outcome);
                peer.need()
            }
            Connection::Wire(..) => None,
        }
    }

    /// True if nothing that arrives on it would be taken.
    pub fn is_held_up(&self) -> bool {
        self.is_blocked() || self.waits_for_others()
    }

    /// The write that its commands wait for, where their extent has copies.
    pub fn write(&self) -> Result<Option<ExtentWrite>> {
        match self {
            Connection::Client(session) => session.write(),
            Connection::Peer(peer) => Ok(peer.write()),
            Connection::Wire(..) => Ok(None),
        }
    }

    /// The write of [`Connection::write`] is under way. Returns true if its commands go on before it is applied.
    pub fn goes_ahead(&mut self, write: &ExtentWrite) -> bool {
        match self {
            Connection::Client(session) => session.goes_ahead(write),
            Connection::Peer(_) | Connection::Wire(..) => false,
        }
    }

    /// The first write under way was done, with the elements before it, or was not. Returns the next need.
    pub fn applied(&mut self, now: Duration, outcome: Result<Vec<u8>>) -> Option<Need> {
        match self {
            Connection::Client(session) => {
                session.applied(outcome);
                session.need()
            }
            Connection::Peer(peer) => {
                peer.applied(now, outcome.map(drop));
                peer.need()
            }
            Connection::Wire(..) => None,
        }
    }

    /// True if it needs a periodic look.
    pub fn waits(&self) -> bool {
        match self {
            Connection::Client(session) => session.waits_for_others() || session.has_appends(),
            Connection::Peer(peer) => !peer.fetches().is_idle(),
            Connection::Wire(..) => false,
        }
    }

    /// A client that waits hears that it goes on; a node that is silent beyond the bound is given up.
    pub fn look_after(&mut self, now: Duration, bound: Duration) -> std::result::Result<(), LinkError> {
        match self {
            Connection::Client(session) => session.show_life(now),
            Connection::Peer(peer) if peer.fetches().is_silent(now, bound) => {
                Err(LinkError::Timeout { peer: peer.address.clone(), after_ms: bound.as_millis() as u64 })
            }
            Connection::Peer(_) | Connection::Wire(..) => Ok(()),
        }
    }

    /// True if its event alone tells of the next message.
    pub fn can_rest(&self) -> bool {
        match self {
            Connection::Client(session) => session.can_rest(),
            Connection::Peer(_) => false,
            Connection::Wire(_, wire) => !wire.has_more() && !wire.has_unsent(),
        }
    }

    /// True if a turn in which nothing moves is a system call.
    pub fn checks_by_call(&self) -> bool {
        match self {
            Connection::Client(session) => session.checks_by_call(),
            Connection::Peer(_) | Connection::Wire(..) => true,
        }
    }

    pub fn needs_write_event(&self) -> bool {
        match self {
            Connection::Client(session) => session.needs_write_event(),
            Connection::Peer(peer) => peer.needs_write_event(),
            Connection::Wire(_, wire) => wire.needs_write_event(),
        }
    }

    pub fn doze(&mut self) -> bool {
        match self {
            Connection::Client(session) => session.doze(),
            Connection::Peer(peer) => peer.doze(),
            // A link dozes after its last move, unless that was cut short.
            Connection::Wire(_, wire) => !wire.has_more(),
        }
    }

    /// Descriptor of a client's end, where [`Connection::event`] does not tell of it.
    pub fn life(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Connection::Client(session) => session.life(),
            Connection::Peer(_) | Connection::Wire(..) => None,
        }
    }

    pub fn event(&self) -> BorrowedFd<'_> {
        match self {
            Connection::Client(session) => session.event(),
            Connection::Peer(peer) => peer.event(),
            Connection::Wire(_, wire) => wire.event(),
        }
    }
}
