//! Grants that a home gives to threads themselves. They wait until the thread says that the page is installed.
//!
//! A thread may die with its answer. Then the grant goes to its node, once more. It goes when the thread's connection ends, or when the
//! node repeats the request in its name.

use super::directory::Heard;
use super::hosts::HostId;
use super::message::{Page, Ticket, ToHome, ToHost};
use std::collections::BTreeMap;

/// Grants at one home, by host and slot; a slot has one request at a time. `S` names a thread's connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Directs<S> {
    open: BTreeMap<(HostId, u16), Direct<S>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Direct<S> {
    session: S,
    number: u32,
    page: Page,
    grant: ToHost,
}

/// A grant that goes to a host's node, once more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Again {
    /// To whom.
    pub host: HostId,
    /// For which page.
    pub page: Page,
    /// The grant.
    pub grant: ToHost,
}

impl<S> Default for Directs<S> {
    fn default() -> Directs<S> {
        Directs { open: BTreeMap::new() }
    }
}

impl<S: PartialEq> Directs<S> {
    /// A grant goes to a thread over its connection. Returns a grant that the thread had before, for its node. Its notice of that one was
    /// lost with another connection, whose end the home has not seen.
    #[must_use = "nobody else speaks of it again"]
    pub fn give(&mut self, host: HostId, session: S, page: Page, ticket: Ticket, grant: ToHost) -> Option<Again> {
        let direct = Direct { session, number: ticket.number, page, grant };
        let before = self.open.insert((host, ticket.slot), direct).filter(|before| before.number != ticket.number)?;
        Some(Again { host, page: before.page, grant: before.grant })
    }

    /// A host's message about a page, with the directory's outcome. Returns the grant that goes to its node.
    pub fn on_message(&mut self, host: HostId, page: Page, message: &ToHome, heard: Heard) -> Option<Again> {
        match message {
            ToHome::Done { ticket, .. } => {
                self.open.retain(|(who, slot), direct| (*who, *slot, direct.number) != (host, ticket.slot, ticket.number));
                None
            }
            ToHome::WriteBack { .. } => {
                self.open.retain(|(who, _), direct| *who != host || direct.page != page);
                None
            }
            ToHome::Request { ticket, .. } if heard == Heard::Stale => {
                let direct = self.open.get(&(host, ticket.slot)).filter(|direct| direct.number == ticket.number)?;
                Some(Again { host, page: direct.page, grant: direct.grant.clone() })
            }
            _ => None,
        }
    }

    /// A thread's connection has ended. Returns what goes to its node.
    pub fn on_session_closed(&self, session: S) -> Vec<Again> {
        let its = self.open.iter().filter(|(_, direct)| direct.session == session);
        its.map(|((host, _), direct)| Again { host: *host, page: direct.page, grant: direct.grant.clone() }).collect()
    }

    /// A host leaves, or is lost.
    pub fn on_host_gone(&mut self, host: HostId) {
        self.open.retain(|(who, _), _| *who != host);
    }

    /// Forgets all: all hosts are asked again for their pages.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::hosts::Hosts;
    use crate::page::message::{Access, Version};

    /// A thread installs a page, and its notice is lost with its connection. It asks for the next over another.
    #[test]
    fn a_grant_whose_notice_was_lost_goes_to_the_node() {
        let mut directs = Directs::default();
        let ticket = |number| Ticket { slot: 8, number };
        let grant = |ticket| {
            let (version, access, awaits) = (Version(1), Access::Write, Hosts::NONE);
            ToHost::Grant { ticket, version, access, has_bytes: true, awaits, firm: true }
        };
        let mut give =
            |session, page, number| directs.give(HostId(1), session, Page(page), ticket(number), grant(ticket(number)));
        assert_eq!(give('a', 1, 1), None);
        assert_eq!(give('b', 2, 2), Some(Again { host: HostId(1), page: Page(1), grant: grant(ticket(1)) }));
        assert_eq!(give('b', 2, 2), None, "the same once more");
    }
}
