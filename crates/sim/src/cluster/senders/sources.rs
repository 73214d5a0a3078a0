//! Other homes that copies fetch bytes from, and a node's links to them: the product's fetches ([`FetchLink`]), fed with bytes as they come. The
//! other home serves such a link as it serves one of a program.

use super::links::{LinkClient, SendLink};
use super::{Cluster, Defect, Event, Outcome, Piece, ProcessLife, SendEvent};
use crate::check::Check;
use crate::cluster::memory::SimExtent;
use crate::cluster::process::address;
use crate::cluster::served_link::{Destinations, Receiver};
use hanare_home::{Buffers, Bytes, Destination, EndedFetch, Fetch, FetchLink, FetchPeers};
use hanare_protocol::Error;
use hanare_protocol::id::NodeId;
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::head::Head;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// A node's links to sources.
#[derive(Debug, Default)]
pub(super) struct Sources {
    peers: FetchPeers<SimExtent>,
    links: BTreeMap<u64, SourceLink>,
}

/// A link to a source.
#[derive(Debug)]
struct SourceLink {
    address: String,
    fetches: FetchLink<SimExtent>,
    /// Pieces of replies that have come.
    unread: VecDeque<Piece>,
    receiver: Receiver,
    /// True while pages that hosts map are away.
    away: Rc<Cell<bool>>,
}

impl Destinations for FetchLink<SimExtent> {
    fn place(&mut self, head: &Head, at: u64, buffers: Buffers<'_>) -> Result<Destination, Malformed> {
        FetchLink::place(self, head, at, buffers.stage)
    }

    fn put(&mut self, destination: Destination, filled: u64, bytes: &[u8]) -> Outcome<()> {
        match (destination, self.current()) {
            (Destination::Extent { offset, .. }, Some(target)) => Bytes::write(&target.extent, offset + filled, bytes),
            _ => Ok(()),
        }
    }

    fn message(&mut self, head: &Head, buffers: Buffers<'_>) {
        FetchLink::message(self, head, buffers.front, buffers.stage);
    }
}

impl SourceLink {
    fn new(address: &str) -> SourceLink {
        let (fetches, unread, receiver) = Default::default();
        SourceLink { address: address.to_owned(), fetches, unread, receiver, away: Rc::new(Cell::new(true)) }
    }

    /// Receives what has come, until bytes wait for pages. Returns true if there was any. **Errors**: the link would end.
    fn receive(&mut self) -> Result<bool, String> {
        let mut has_moved = false;
        while let Some(piece) = self.unread.front().filter(|piece| !piece.begins || self.fetches.may_begin()) {
            if !self.receiver.receive(piece, &mut self.fetches)? {
                break;
            }
            self.unread.pop_front();
            has_moved = true;
        }
        Ok(has_moved)
    }
}

impl Cluster {
    fn sources(&mut self, at: ProcessLife) -> Option<&mut Sources> {
        self.service(at).map(|service| &mut service.sources)
    }

    fn source(&mut self, at: ProcessLife, link: u64) -> Option<&mut SourceLink> {
        self.sources(at)?.links.get_mut(&link)
    }

    /// Has bytes fetched from another node, over the link to it that is there or has to be made.
    pub(super) fn fetch(&mut self, at: ProcessLife, session: u64, fetch: Fetch<SimExtent>) -> Check {
        let Some(service) = self.service(at).filter(|service| service.serves(session)) else { return Ok(()) };
        if let Some(link) = service.sources.peers.link(&fetch.address) {
            self.ask_source(at, link, session, fetch);
            return Ok(());
        }
        let address = fetch.address.clone();
        if service.sources.peers.dial(session, fetch).map_err(|error| error.to_string())? {
            let after = self.senders_mut().dice.pick(&[1, 30, 900]);
            self.at(after, Event::Send(SendEvent::Dialed { at, address }));
        }
        Ok(())
    }

    fn ask_source(&mut self, at: ProcessLife, link: u64, session: u64, mut fetch: Fetch<SimExtent>) {
        let now = Duration::from_millis(self.now_ms);
        let is_mapped = self.senders_mut().dice.chance(3_000);
        self.count("fetches for copies");
        let Some(source) = self.source(at, link) else { return };
        // A fetch that another link had may be mapped already.
        let mapped = fetch.targets.iter_mut().filter(|target| is_mapped || target.extent.is_mapped());
        mapped.for_each(|target| target.extent = target.extent.mapped(&source.away));
        let (head, asked) = source.fetches.ask(now, session, fetch);
        let bytes = [&asked.commands[..], &asked.lists].concat();
        self.send_piece(link, Piece { head, begins: true, bytes: bytes.into() });
    }

    /// A source was reached, or not.
    pub(super) fn on_source_dialed(&mut self, at: ProcessLife, to: &str) -> Check {
        let is_reached = |host: &usize| address(*host) == to && !self.hosts[*host].is_alone && !self.hosts[at.0].is_alone;
        let host = (0..self.hosts.len()).find(is_reached);
        let home = host.and_then(|host| Some((host, self.hosts[host].process.as_ref()?.life)));
        let waiting = self.sources(at).map(|sources| sources.peers.dialed(to)).unwrap_or_default();
        let Some(home) = home else {
            waiting.into_iter().for_each(|(session, fetch)| self.fetched(at, session, Err(lost(fetch.node))));
            return Ok(());
        };
        if waiting.is_empty() {
            return Ok(());
        }
        let link = self.connect_to_home(SendLink { home, client: LinkClient::Node(at) });
        if let Some(sources) = self.sources(at) {
            sources.links.insert(link, SourceLink::new(to));
            sources.peers.enter(to, link);
        }
        waiting.into_iter().for_each(|(session, fetch)| self.ask_source(at, link, session, fetch));
        Ok(())
    }

    /// A piece of a reply is in the kernel.
    pub(super) fn on_source_piece(&mut self, at: ProcessLife, link: u64, piece: Piece) {
        self.source(at, link).into_iter().for_each(|source| source.unread.push_back(piece.clone()));
        self.wake(at, link);
    }

    /// The pages that bytes of a source wait for are at home.
    pub(super) fn on_pages_came(&mut self, at: ProcessLife, link: u64) -> Check {
        self.look_who_fetches(at, link)?;
        let now = Duration::from_millis(self.now_ms);
        if let Some(source) = self.source(at, link) {
            source.away.set(false);
            source.fetches.recalled(now, Ok(()), &source.receiver.stage);
            source.away.set(true);
        }
        self.move_source(at, link).map(drop)
    }

    /// A home has done the write of bytes that were fetched, or has not.
    pub(super) fn on_fetched_applied(&mut self, at: ProcessLife, link: u64, outcome: Outcome<()>) -> Check {
        let now = Duration::from_millis(self.now_ms);
        self.source(at, link).into_iter().for_each(|source| source.fetches.applied(now, outcome.clone()));
        self.wake(at, link);
        Ok(())
    }

    /// Before bytes are written: ends the link that waits for them, if its client is gone.
    fn look_who_fetches(&mut self, at: ProcessLife, link: u64) -> Check {
        let looks = self.looks();
        let Some(service) = self.service(at) else { return Ok(()) };
        let session = service.sources.links.get(&link).and_then(|source| source.fetches.session());
        match session.filter(|session| looks && service.is_reset(*session)) {
            Some(session) => self.end_link(at, session),
            None => Ok(()),
        }
    }

    /// A link to a source has its turn.
    pub(super) fn receive_source(&mut self, at: ProcessLife, link: u64) -> Result<bool, String> {
        self.look_who_fetches(at, link)?;
        self.move_source(at, link)
    }

    /// Receives from a source, and does what comes of it. Returns true if anything moved.
    fn move_source(&mut self, at: ProcessLife, link: u64) -> Result<bool, String> {
        let (now_ms, after) = (self.now_ms, self.senders_mut().dice.pick(&[0, 5, 400]));
        let Some(source) = self.source(at, link) else { return Ok(false) };
        let session = source.fetches.session();
        let has_moved = source.receive()?;
        source.fetches.sent();
        let (ended, need) = (source.fetches.take_ended(), source.fetches.need());
        let write = need.map(|need| ((need.gid, need.slot), source.fetches.write_of_stage(&source.receiver.stage)));
        session.into_iter().for_each(|session| self.touch_link(session));
        let has_ended = !ended.is_empty();
        for EndedFetch { session, outcome } in ended {
            self.fetched(at, session, outcome);
        }
        match (write, self.process(at)) {
            (Some((place, Some(write))), Some(process)) => {
                let outputs = process.served.write(now_ms, (link, place), write, &process.lender);
                self.take(at, outputs)?;
                self.drain_node(at.0)?;
            }
            (Some((_, None)), Some(_)) => {
                self.count("stages of copies that waited for pages");
                self.at(after, Event::Send(SendEvent::PagesCame { at, link }));
            }
            _ => {}
        }
        Ok(has_moved || has_ended)
    }

    /// A session has ended: bytes that come for it are written nowhere.
    pub(super) fn end_fetches(&mut self, at: ProcessLife, session: u64) -> Check {
        let keeps_link = self.has(Defect::KeepLink);
        let Some(sources) = self.sources(at) else { return Ok(()) };
        sources.peers.cancel(session);
        let begun = sources.links.iter_mut().filter_map(|(link, source)| (!source.fetches.cancel(session)).then_some(*link));
        let begun: Vec<u64> = begun.filter(|_| !keeps_link).collect();
        for link in begun {
            self.count("links dropped under a copy");
            let source = self.drop_source(at, link);
            self.give_up_send_link(link)?;
            for (session, fetch) in source.map(FetchLink::others).unwrap_or_default() {
                self.fetch(at, session, fetch)?;
            }
        }
        Ok(())
    }

    /// A node's link to a source has ended: its fetches fail.
    pub(super) fn lose_source(&mut self, at: ProcessLife, link: u64) -> Check {
        let ended = self.drop_source(at, link).map(|fetches| fetches.fail(&lost(NodeId(0)))).unwrap_or_default();
        ended.into_iter().for_each(|EndedFetch { session, outcome }| self.fetched(at, session, outcome));
        Ok(())
    }

    fn drop_source(&mut self, at: ProcessLife, link: u64) -> Option<FetchLink<SimExtent>> {
        let sources = self.sources(at)?;
        let SourceLink { address, fetches, .. } = sources.links.remove(&link)?;
        if sources.peers.link(&address) == Some(link) {
            sources.peers.forget(&address);
        }
        Some(fetches)
    }
}

/// The error of a fetch whose source is lost.
fn lost(node: NodeId) -> Error {
    Error::NodeLost { node, reason: "the source of a copy".to_owned() }
}
