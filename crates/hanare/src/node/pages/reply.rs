//! The reply to a thread's page requests.
//!
//! Pages that this very node has, and can take at once, belong in it: that saves the asking host's node a message, and the thread a
//! wake. So a reply is *pending* while this node gives up what it has.

use super::memory::HomeMemory;
use super::outgoing::{Outgoing, PageBytes};
use hanare_memory::Window;
use hanare_protocol::Result;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Access, Page, Ticket, ToHost};
use hanare_protocol::wire::page::{Granted, NodeMessage, Outcome};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reply to one message of a thread: a record for each request, then the pages that come along.
pub(crate) struct PageReply {
    records: Vec<RequestReply>,
    /// Keeps what windows show.
    memory: Arc<HomeMemory>,
}

/// The reply to one request.
struct RequestReply {
    page: Page,
    ticket: Ticket,
    granted: Granted,
    bytes: Bytes,
}

/// A page that comes along.
pub(super) enum Bytes {
    None,
    Here(Window),
    Copy(PageBytes),
}

/// A reply as it leaves.
pub(crate) struct SealedReply {
    /// Number of records.
    pub count: usize,
    pub records: Vec<u8>,
    /// The pages, where they lie.
    pub pages: Vec<Window>,
    /// What the windows show.
    _reply: PageReply,
}

impl PageReply {
    pub(super) fn of(memory: &Arc<HomeMemory>) -> PageReply {
        PageReply { records: Vec::new(), memory: memory.clone() }
    }

    /// Adds the reply to a further request.
    pub(super) fn push(&mut self, page: Page, ticket: Ticket, granted: Granted, bytes: Bytes) {
        self.records.push(RequestReply { page, ticket, granted, bytes });
    }

    /// The bytes of a page. What leaves while its version is granted elsewhere is void where it arrives: it may be torn, and is
    /// not used.
    pub(super) fn bytes_of(&self, page: Page) -> Result<Bytes> {
        match self.memory.window(page.0) {
            Some(window) => Ok(Bytes::Here(window)),
            None => self.memory.read_page(page.0).map(Bytes::Copy),
        }
    }

    /// Whether some pages come later.
    pub(super) fn is_partial(&self) -> bool {
        self.records.iter().any(|record| record.granted.outcome == Outcome::Later)
    }

    /// The record which says that this page comes later, for that ticket.
    pub(super) fn that_comes_later(&self, page: Page, ticket: Ticket) -> Option<usize> {
        let is_that =
            |record: &RequestReply| (record.page, record.ticket, record.granted.outcome) == (page, ticket, Outcome::Later);
        self.records.iter().position(is_that)
    }

    /// The page of a record comes at once.
    pub(super) fn replace(&mut self, index: usize, granted: Granted, bytes: Option<PageBytes>) {
        let record = &mut self.records[index];
        (record.granted, record.bytes) = (granted, bytes.map_or(Bytes::None, Bytes::Copy));
    }

    /// Ready to leave.
    pub fn seal(self) -> SealedReply {
        let mut sealed = SealedReply { count: self.records.len(), records: Vec::new(), pages: Vec::new(), _reply: self };
        for record in &sealed._reply.records {
            sealed.records.extend_from_slice(&record.granted.encode());
            match &record.bytes {
                Bytes::None => {}
                Bytes::Here(window) => sealed.pages.push(*window),
                // SAFETY: the copy's bytes stay where they are while the box moves, as long as this lives, and are only read.
                Bytes::Copy(copy) => sealed.pages.push(unsafe { Window::of(copy) }),
            }
        }
        sealed
    }
}

impl SealedReply {
    /// Bytes of the pages.
    pub fn pages_len(&self) -> u64 {
        self.pages.len() as u64 * PAGE_LEN
    }
}

/// A reply that is put together: some of its records say that a page comes later.
pub(super) struct PendingReply {
    /// What the asking host is called in messages to it.
    key: u64,
    reply: PageReply,
    /// Grants that would have gone to the asking host's node, by their record.
    held: BTreeMap<usize, Outgoing>,
}

/// A reply that is complete.
pub(super) struct FinishedReply {
    pub reply: PageReply,
    /// Grants in the reply that the home waits for.
    pub firm: Vec<(Page, Ticket, ToHost)>,
    /// Grants that others have to acknowledge first: they go to the node after all.
    pub messages: Vec<Outgoing>,
}

impl PendingReply {
    pub fn new(key: u64, reply: PageReply) -> PendingReply {
        PendingReply { key, reply, held: BTreeMap::new() }
    }

    /// Keeps a message that answers one of the records, or that a kept one waits for; gives any other back.
    pub fn keep(&mut self, outgoing: Outgoing) -> Option<Outgoing> {
        let NodeMessage::ToHost { key, page, message } = &outgoing.message else { return Some(outgoing) };
        if *key != self.key {
            return Some(outgoing);
        }
        match message {
            ToHost::Grant { ticket, has_bytes, .. } => {
                let index = self.reply.that_comes_later(*page, *ticket).filter(|_| !has_bytes || outgoing.bytes.is_some());
                let Some(index) = index else { return Some(outgoing) };
                self.held.insert(index, outgoing);
                None
            }
            ToHost::Ack { from, version } => {
                let is_kept = self.held.values_mut().any(|held| match &mut held.message {
                    NodeMessage::ToHost { page: at, message: ToHost::Grant { version: granted, awaits, .. }, .. } => {
                        at == page && *granted == version.next() && awaits.remove(*from)
                    }
                    _ => false,
                });
                if is_kept { None } else { Some(outgoing) }
            }
            _ => Some(outgoing),
        }
    }

    /// The pages that came in time with bytes of their own.
    pub fn pages(&self) -> impl Iterator<Item = (Page, &PageBytes)> {
        self.held.values().filter_map(|outgoing| match &outgoing.message {
            NodeMessage::ToHost { page, .. } => Some((*page, outgoing.bytes.as_ref()?)),
            _ => None,
        })
    }

    /// The reply, with what came in time.
    pub fn finish(self) -> FinishedReply {
        let mut finished = FinishedReply { reply: self.reply, firm: Vec::new(), messages: Vec::new() };
        for (index, outgoing) in self.held {
            let NodeMessage::ToHost { page, message, .. } = &outgoing.message else { continue };
            let ToHost::Grant { ticket, version, access, has_bytes, awaits, firm } = message else { continue };
            if !awaits.is_empty() {
                finished.messages.push(outgoing);
                continue;
            }
            let outcome = if *access == Access::Write { Outcome::Write } else { Outcome::Read };
            let granted = Granted { outcome, version: *version, has_bytes: *has_bytes, firm: *firm };
            if *firm {
                finished.firm.push((*page, *ticket, message.clone()));
            }
            finished.reply.replace(index, granted, outgoing.bytes);
        }
        finished
    }
}
