//! The answer to a thread's message while it is put together: pages that this very node has, and can take at once, belong in it.
//! They save the asking host's node a letter, and the thread a wake.

use super::home::{Answers, PageBytes};
use hanare_protocol::id::NodeId;
use hanare_protocol::page::{Access, Hosts, Page, Ticket, ToHost};
use hanare_protocol::wire::page::{Granted, Letter, Outcome};
use std::collections::BTreeMap;

/// Answers of a home, some of which say that a page comes later.
pub(super) struct Asking {
    /// What the asking host is called in letters to it.
    key: u64,
    answers: Answers,
    /// Grants that would have gone to the asking host's node, by their record.
    held: BTreeMap<usize, Held>,
}

/// A letter, on its node.
pub(super) struct Outgoing {
    pub node: NodeId,
    pub address: String,
    pub letter: Letter,
    pub bytes: Option<PageBytes>,
}

struct Held {
    node: NodeId,
    address: String,
    page: Page,
    ticket: Ticket,
    message: ToHost,
    awaits: Hosts,
    bytes: Option<PageBytes>,
}

/// What became of them.
pub(super) struct Answered {
    pub answers: Answers,
    /// Grants in the answers that the home waits for.
    pub firm: Vec<(Page, Ticket, ToHost)>,
    /// What others have to acknowledge first goes to the node after all.
    pub letters: Vec<Outgoing>,
}

impl Asking {
    pub fn new(key: u64, answers: Answers) -> Asking {
        Asking { key, answers, held: BTreeMap::new() }
    }

    /// Keeps a letter that answers one of the records, or that a kept one waits for; gives any other back.
    pub fn keep(&mut self, outgoing: Outgoing) -> Option<Outgoing> {
        let Letter::ToHost { key, page, message } = &outgoing.letter else { return Some(outgoing) };
        if *key != self.key {
            return Some(outgoing);
        }
        match message {
            ToHost::Grant { ticket, awaits, has_bytes, .. } => {
                let Some(index) = self.answers.that_comes_later(*page, *ticket) else { return Some(outgoing) };
                if *has_bytes && outgoing.bytes.is_none() {
                    return Some(outgoing);
                }
                let (page, ticket, awaits, message) = (*page, *ticket, awaits.clone(), message.clone());
                let Outgoing { node, address, bytes, .. } = outgoing;
                self.held.insert(index, Held { node, address, page, ticket, message, awaits, bytes });
                None
            }
            ToHost::Ack { from, version } => {
                let is_granted = |held: &Held| {
                    held.page == *page
                        && matches!(held.message, ToHost::Grant { version: granted, .. } if granted == version.next())
                };
                let is_kept = self.held.values_mut().any(|held| is_granted(held) && held.awaits.remove(*from));
                if is_kept { None } else { Some(outgoing) }
            }
            _ => Some(outgoing),
        }
    }

    /// The answers, with what came in time.
    pub fn finish(self) -> Answered {
        let Asking { key, mut answers, held } = self;
        let (mut firm_grants, mut letters) = (Vec::new(), Vec::new());
        for (index, held) in held {
            let Held { node, address, page, ticket, message, awaits, bytes } = held;
            let ToHost::Grant { version, access, has_bytes, firm, .. } = message else { continue };
            let message = ToHost::Grant { ticket, version, access, has_bytes, awaits: awaits.clone(), firm };
            if !awaits.is_empty() {
                letters.push(Outgoing { node, address, letter: Letter::ToHost { key, page, message }, bytes });
                continue;
            }
            let outcome = if access == Access::Write { Outcome::Write } else { Outcome::Read };
            answers.replace(index, Granted { outcome, version, has_bytes, firm }, bytes);
            if firm {
                firm_grants.push((page, ticket, message));
            }
        }
        Answered { answers, firm: firm_grants, letters }
    }
}
