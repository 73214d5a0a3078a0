//! The reply to a thread's page requests.
//!
//! Pages that this very node has, and can take at once, belong in it. That saves the asking host's node a message, and the thread a wake.
//! So a reply is *open* while this node gives up what it has. [`PendingReply`] says what belongs in it.

use super::memory::{HomePages, PageBytes};
use super::outgoing::Outgoing;
use hanare_protocol::Result;
use hanare_protocol::id::NodeId;
use hanare_protocol::page::reply::DeferredGrant;
use hanare_protocol::page::{Access, Page, PendingReply, Ticket, ToHost};
use hanare_protocol::wire::page::{Granted, NodeMessage, Outcome, PageRequest};

/// The reply to one message of a thread: a record for each request, then the pages that come along.
pub struct PageReply<H: HomePages> {
    records: Vec<RequestReply<H::View>>,
}

/// The reply to one request.
struct RequestReply<V> {
    page: Page,
    ticket: Ticket,
    granted: Granted,
    bytes: PageBody<V>,
}

/// A page that comes along. What leaves while its version is granted elsewhere is void where it arrives. It may be torn, and is not used.
#[derive(Debug)]
pub enum PageBody<V> {
    /// No page comes along.
    None,
    /// A page of the home, where it lies.
    Here(V),
    /// A copy.
    Copy(PageBytes),
}

impl<V> PageBody<V> {
    /// A page of that memory.
    pub(super) fn of(memory: &impl HomePages<View = V>, page: Page) -> Result<PageBody<V>> {
        match memory.view(page.0) {
            Some(view) => Ok(PageBody::Here(view)),
            None => memory.read_page(page.0).map(PageBody::Copy),
        }
    }
}

impl<H: HomePages> PageReply<H> {
    pub(super) fn new() -> PageReply<H> {
        PageReply { records: Vec::new() }
    }

    /// The reply of one outcome, without a page.
    pub(super) fn all(requests: &[PageRequest], outcome: Outcome) -> PageReply<H> {
        let granted = Granted::without(outcome);
        let record = |request: &PageRequest| RequestReply {
            page: Page(request.page),
            ticket: request.ticket,
            granted,
            bytes: PageBody::None,
        };
        PageReply { records: requests.iter().map(record).collect() }
    }

    /// Adds the reply to a further request.
    pub(super) fn push(&mut self, page: Page, ticket: Ticket, granted: Granted, bytes: PageBody<H::View>) {
        self.records.push(RequestReply { page, ticket, granted, bytes });
    }

    /// True if some pages come later.
    pub(super) fn is_partial(&self) -> bool {
        self.later().next().is_some()
    }

    /// The requests whose pages come later.
    fn later(&self) -> impl Iterator<Item = (Page, Ticket)> {
        let waiting = self.records.iter().filter(|record| record.granted.outcome == Outcome::Later);
        waiting.map(|record| (record.page, record.ticket))
    }

    /// A page that was to come later, for that ticket, comes at once.
    fn replace(&mut self, page: Page, ticket: Ticket, granted: Granted, bytes: Option<PageBytes>) {
        let is_that = |record: &&mut RequestReply<H::View>| {
            (record.page, record.ticket, record.granted.outcome) == (page, ticket, Outcome::Later)
        };
        if let Some(record) = self.records.iter_mut().find(is_that) {
            (record.granted, record.bytes) = (granted, bytes.map_or(PageBody::None, PageBody::Copy));
        }
    }

    /// Each answer, and the page that comes along.
    pub fn answers(&self) -> impl ExactSizeIterator<Item = (&Granted, &PageBody<H::View>)> {
        self.records.iter().map(|record| (&record.granted, &record.bytes))
    }
}

/// A reply that is put together: some of its records say that a page comes later.
pub(super) struct OpenReply<H: HomePages> {
    /// The requesting host's key.
    key: u64,
    reply: PageReply<H>,
    rules: PendingReply<Letter>,
}

/// A deferred grant's address, and the page's bytes.
struct Letter {
    node: NodeId,
    address: String,
    bytes: Option<PageBytes>,
}

/// A reply that is complete.
pub(super) struct ClosedReply<H: HomePages> {
    pub reply: PageReply<H>,
    /// Grants in the reply that the home waits for.
    pub firm: Vec<(Page, Ticket, ToHost)>,
    /// Grants that others have to acknowledge first: they go to the node after all.
    pub messages: Vec<Outgoing>,
}

impl<H: HomePages> OpenReply<H> {
    pub fn new(key: u64, reply: PageReply<H>) -> OpenReply<H> {
        let rules = PendingReply::new(reply.later());
        OpenReply { key, reply, rules }
    }

    /// Keeps a message that belongs in the reply, or that a kept one waits for; gives any other back.
    pub fn keep(&mut self, outgoing: Outgoing) -> Option<Outgoing> {
        let Outgoing { node, address, message, bytes } = outgoing;
        match message {
            // A page whose bytes could not be read is not sent. Its requester's deadline ends the wait.
            NodeMessage::ToHost { key, page, message } if key == self.key && (bytes.is_some() || !message.has_bytes()) => {
                let (message, letter) = self.rules.keep(page, message, Letter { node, address, bytes })?;
                Some(letter.into_outgoing(key, page, message))
            }
            message => Some(Outgoing { node, address, message, bytes }),
        }
    }

    /// The reply, with what came in time.
    pub fn finish(mut self) -> ClosedReply<H> {
        let (finished, mut firm) = (self.rules.finish(), Vec::new());
        for DeferredGrant { page, message, with } in finished.granted {
            let ToHost::Grant { ticket, version, access, has_bytes, firm: is_firm, .. } = message else { continue };
            let outcome = if access == Access::Write { Outcome::Write } else { Outcome::Read };
            self.reply.replace(page, ticket, Granted { outcome, version, has_bytes, firm: is_firm }, with.bytes);
            if is_firm {
                firm.push((page, ticket, message));
            }
        }
        let key = self.key;
        let messages = finished.awaited.into_iter().map(|kept| kept.with.into_outgoing(key, kept.page, kept.message)).collect();
        ClosedReply { reply: self.reply, firm, messages }
    }
}

impl Letter {
    fn into_outgoing(self, key: u64, page: Page, message: ToHost) -> Outgoing {
        let Letter { node, address, bytes } = self;
        Outgoing { node, address, message: NodeMessage::ToHost { key, page, message }, bytes }
    }
}
