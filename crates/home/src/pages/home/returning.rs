//! A home on a node that was taken for lost and is back.

use super::{HomePages, OWN, Outbox, Outgoing, PageHome, Sharer, outgoing_to};
use hanare_protocol::id::NodeId;
use hanare_protocol::page::membership::FencedHosts;
use hanare_protocol::page::{Directory, Heard, HostId, Page, Returning, ToHome};
use hanare_protocol::wire::page::NodeMessage;
use hanare_protocol::{Error, Result};

impl<H: HomePages> PageHome<H> {
    /// The node was taken for lost and is back. All hosts are asked for their pages ([`PageHome::ask_again`]), and no page is granted
    /// before they have answered.
    pub fn begin_return(&mut self, was: NodeId, is: NodeId) {
        self.direct.clear();
        self.sharers.begin_return(was, is);
        if self.returning.is_none() {
            let sharers: Vec<HostId> = self.sharers.iter().map(|(host, _)| host).collect();
            self.returning = Some(Returning::new(&self.directory, sharers));
        }
    }

    /// Asks the hosts whose turn it is for what they have.
    pub fn ask_again(&mut self, address: &str, now_ms: u64, outgoing: &mut Outbox) {
        for host in self.sharers.due(now_ms) {
            let message = self.sharer(host).map(|sharer| return_message(sharer, address, true));
            message.into_iter().for_each(|message| outgoing.push(message));
        }
    }

    /// True while it waits for bytes that hosts have.
    pub fn is_returning(&self) -> bool {
        self.returning.is_some()
    }

    /// A host has sent home all that it had, or is lost with it. Returns what it is told if it lives.
    pub fn on_handed_over(&mut self, host: HostId, is_lost: bool) -> Option<Outgoing> {
        if !is_lost && self.leaves_later(host) {
            return None;
        }
        let rules = self.returning.as_mut()?;
        if is_lost {
            rules.on_host_lost(host)
        } else {
            rules.on_left(host)
        }
        self.sharers.answer(host);
        let sharer = self.sharer(host)?;
        Some(outgoing_to(sharer, NodeMessage::Left { key: sharer.who.key }, None))
    }

    /// Ends the return if all is here, or is given up. Returns the shares that end with it.
    pub fn end_return(&mut self, now_ms: u64) -> Vec<u64> {
        if !self.returning.as_mut().is_some_and(|rules| rules.ends(now_ms)) || !self.has_begun_anew() {
            return Vec::new();
        }
        let Some(rules) = self.returning.take() else { return Vec::new() };
        let lost: Vec<Page> = rules.lost().collect();
        if !lost.is_empty() {
            tracing::error!("region '{}': {} page(s) went with their hosts while this node was away", self.name, lost.len());
        }
        let shares = self.sharers.end_return();
        self.news.clear();
        let directory = Directory::after_return(self.routes.page_count(), OWN, lost);
        self.directory = if self.copied.is_some() { directory.with_copies() } else { directory };
        shares
    }

    /// Checks that hosts may join. **Errors**: [`Error::NodeLost`] while pages are being recovered.
    pub(super) fn check_return(&self) -> Result<()> {
        if self.returning.is_none() {
            return Ok(());
        }
        let count = self.sharers.awaited().count();
        let reason = format!("it was away, and gets newer bytes from {count} host(s) of region '{}' first", self.name);
        Err(Error::NodeLost { node: self.routes.node(), reason })
    }

    /// A message of a host that may not know yet that this home was away: the pages among them count.
    pub(super) fn on_message_in_return(&mut self, host: HostId, page: Page, message: ToHome, bytes: Option<&[u8]>) -> Result<()> {
        let (Some(rules), ToHome::WriteBack { version, .. }) = (&mut self.returning, message) else {
            return Ok(());
        };
        match (rules.on_write_back(host, page, version), bytes) {
            (Heard::Acted, Some(bytes)) => self.memory.write_page(page.0, bytes),
            _ => Ok(()),
        }
    }

    /// A host that is to be done without, and may live, is told so once it is reached again.
    pub fn fence(&self, host: HostId, address: &str, fenced: &mut FencedHosts<Outgoing>) {
        if let Some(sharer) = self.sharer(host) {
            fenced.fence(sharer, return_message(sharer, address, false));
        }
    }
}

/// Says that this home is back, or that it took the host for lost.
fn return_message(sharer: &Sharer, address: &str, takes: bool) -> Outgoing {
    let Sharer { share, who, .. } = sharer;
    outgoing_to(sharer, NodeMessage::Returned { key: who.key, share: *share, address: address.to_owned(), takes }, None)
}
