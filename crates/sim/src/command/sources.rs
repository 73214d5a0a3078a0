//! Nodes that copies fetch bytes from, and a node's links to them: the product's fetches ([`FetchLink`]), fed with bytes as they come.

use super::{CommandWorld, Defect, Event, WORD_LEN};
use crate::check::Check;
use hanare_home::{CommandExtent, Destination, EndedFetch, Fetch, FetchLink, FetchPeers, FetchTarget, Vector};
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::shape::Checked;
use hanare_protocol::wire::command::{COMMAND_LEN, Command};
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, Result as Outcome};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// The target of a fetch, which hosts may map.
#[derive(Clone, Debug)]
pub(super) struct Target {
    vector: Vector,
    is_mapped: bool,
    /// True while the pages of a stage are at home.
    is_home: Rc<Cell<bool>>,
}

/// A node's links to sources.
#[derive(Default)]
pub(super) struct Sources {
    peers: FetchPeers<Target>,
    links: BTreeMap<u64, SourceLink>,
    link_count: u64,
}

/// A link to a source.
struct SourceLink {
    address: String,
    fetches: FetchLink<Target>,
    /// Replies that were not received whole, each with the number of its bytes that have come.
    replies: VecDeque<(Head, Rc<[u8]>, usize)>,
    /// Bytes of the first that were received.
    at: usize,
    /// The place of the next ones, and the number of those that are there.
    destination: Destination,
    filled: usize,
    stage: Vec<u8>,
    /// When the last bytes come.
    due_ms: u64,
    is_home: Rc<Cell<bool>>,
}

impl CommandExtent for Target {
    fn has_copies(&self) -> bool {
        false
    }

    fn gid(&self) -> Gid {
        CommandExtent::gid(&self.vector)
    }

    fn slot(&self) -> Slot {
        CommandExtent::slot(&self.vector)
    }

    fn is_by_pages(&self) -> bool {
        self.is_mapped
    }

    fn stays(&self) -> bool {
        !self.is_mapped
    }

    fn write_stream(&self, shape: &Checked<'static>, at: u64, bytes: &[u8]) -> Outcome<()> {
        if self.is_mapped && !self.is_home.get() {
            return Err(Error::IsMapped { gid: CommandExtent::gid(self) });
        }
        self.vector.write_stream(shape, at, bytes)
    }

    fn let_go(&mut self) {}
}

impl SourceLink {
    fn new(address: String) -> SourceLink {
        SourceLink {
            address,
            fetches: FetchLink::default(),
            replies: VecDeque::new(),
            at: 0,
            destination: Destination::Later,
            filled: 0,
            stage: vec![0; STAGE_LEN],
            due_ms: 0,
            is_home: Rc::default(),
        }
    }

    /// More of a reply comes: half of it, or the rest.
    fn come(&mut self) {
        if let Some((_, bytes, come)) = self.replies.iter_mut().find(|(_, bytes, come)| *come < bytes.len()) {
            let half = bytes.len() / 2 / WORD_LEN as usize * WORD_LEN as usize;
            *come = if *come < half { half } else { bytes.len() };
        }
    }

    /// Receives what has come, until bytes wait for pages. **Errors**: the link would end.
    fn receive(&mut self) -> Result<(), String> {
        while let Some((head, bytes, come)) = self.replies.front().filter(|_| self.fetches.may_begin()) {
            while self.at < *come {
                if self.filled == self.room() {
                    let placed = self.fetches.place(head, self.at as u64, &self.stage);
                    (self.destination, self.filled) = (placed.map_err(|malformed| malformed.0.to_owned())?, 0);
                    if self.destination == Destination::Later {
                        return Ok(());
                    }
                }
                let len = (self.room() - self.filled).min(*come - self.at);
                let now = &bytes[self.at..][..len];
                match self.destination {
                    Destination::Extent { offset, .. } => {
                        let extent = &self.fetches.current().ok_or("bytes of no fetch")?.extent;
                        let written = hanare_home::Bytes::write(&extent.vector, offset + self.filled as u64, now);
                        written.map_err(|error| error.to_string())?;
                    }
                    _ => self.stage[self.filled..][..len].copy_from_slice(now),
                }
                (self.at, self.filled) = (self.at + len, self.filled + len);
            }
            if self.at < bytes.len() {
                return Ok(());
            }
            self.fetches.message(head, &[], &self.stage);
            self.replies.pop_front();
            (self.at, self.destination, self.filled) = (0, Destination::Later, 0);
        }
        Ok(())
    }

    fn room(&self) -> usize {
        match self.destination {
            Destination::Extent { len, .. } | Destination::Stage(len) | Destination::Nowhere(len) => len as usize,
            _ => 0,
        }
    }
}

impl CommandWorld {
    /// Has bytes fetched from another node, over the link to it that is there or has to be made.
    pub(super) fn fetch(&mut self, node: u64, connection: u64, fetch: Fetch<Vector>) {
        let is_mapped = self.dice.chance(3_000);
        let Fetch { address, node: source, commands, lists, targets } = fetch;
        let target = |FetchTarget { extent: vector, shape, call }| {
            let extent = Target { vector, is_mapped, is_home: Rc::default() };
            FetchTarget { extent, shape, call }
        };
        let targets = targets.into_iter().map(target).collect();
        self.count("copies");
        self.fetch_into(node, connection, Fetch { address, node: source, commands, lists, targets });
    }

    fn fetch_into(&mut self, node: u64, connection: u64, fetch: Fetch<Target>) {
        let there = &mut self.nodes[node as usize];
        if !there.sessions.serves(connection) {
            return;
        }
        if let Some(link) = there.sources.peers.link(&fetch.address) {
            return self.ask(node, link, connection, fetch);
        }
        let address = fetch.address.clone();
        if there.sources.peers.dial(connection, fetch).expect("there are two sources") {
            let after = self.dice.pick(&[1, 30, 900]);
            self.at(after, Event::Dialed { node, address });
        }
    }

    fn ask(&mut self, node: u64, link: u64, connection: u64, mut fetch: Fetch<Target>) {
        let now_ms = self.now_ms;
        let (after, rest) = (self.dice.pick(&[1, 30, 900, 3_000]), self.dice.pick(&[0, 1, 200, 1_500]));
        let source = self.nodes[node as usize].sources.links.get_mut(&link).expect("its address leads to it");
        fetch.targets.iter_mut().for_each(|target| target.extent.is_home = source.is_home.clone());
        let (head, asked) = source.fetches.ask(Duration::from_millis(now_ms), connection, fetch);
        let bytes = stream_of(asked);
        let reply = Head { body_len: bytes.len() as u64, ..Head::new(Kind::Done, head.seq) };
        source.replies.push_back((reply, bytes, 0));
        let due_ms = source.due_ms.max(now_ms + after);
        source.due_ms = due_ms + rest;
        self.at(due_ms - now_ms, Event::Came { node, link });
        self.at(due_ms + rest - now_ms, Event::Came { node, link });
    }

    /// A source was reached.
    pub(super) fn on_dialed(&mut self, node: u64, address: String) -> Check {
        if let Some(wait) = self.stop_of(node) {
            self.at(wait, Event::Dialed { node, address });
            return Ok(());
        }
        let sources = &mut self.nodes[node as usize].sources;
        let waiting = sources.peers.dialed(&address);
        if !waiting.is_empty() {
            sources.link_count += 1;
            let link = sources.link_count;
            sources.links.insert(link, SourceLink::new(address.clone()));
            sources.peers.enter(&address, link);
            waiting.into_iter().for_each(|(connection, fetch)| self.ask(node, link, connection, fetch));
        }
        Ok(())
    }

    /// Bytes of a source have come; a node that is stopped receives them when it goes on.
    pub(super) fn on_came(&mut self, node: u64, link: u64) -> Check {
        if let Some(wait) = self.stop_of(node) {
            self.at(wait, Event::Came { node, link });
            return Ok(());
        }
        self.look_who_fetches(node, link);
        if let Some(source) = self.nodes[node as usize].sources.links.get_mut(&link) {
            source.come();
        }
        self.receive(node, link)
    }

    /// The pages that bytes of a source wait for are at home.
    pub(super) fn on_home(&mut self, node: u64, link: u64) -> Check {
        if let Some(wait) = self.stop_of(node) {
            self.at(wait, Event::Home { node, link });
            return Ok(());
        }
        self.look_who_fetches(node, link);
        let now = Duration::from_millis(self.now_ms);
        if let Some(source) = self.nodes[node as usize].sources.links.get_mut(&link) {
            source.is_home.set(true);
            source.fetches.recalled(now, Ok(()), &source.stage);
            source.is_home.set(false);
        }
        self.receive(node, link)
    }

    /// The time that a node is stopped for, if it is. One that is not goes on.
    fn stop_of(&mut self, node: u64) -> Option<u64> {
        let wait = self.nodes[node as usize].stopped_until_ms.saturating_sub(self.now_ms);
        if wait == 0 {
            self.go_on(node);
        }
        (wait > 0).then_some(wait)
    }

    /// Before bytes are written: closes the connection that waits for them, if its program is dead.
    fn look_who_fetches(&mut self, node: u64, link: u64) {
        let there = &self.nodes[node as usize];
        let session = there.sources.links.get(&link).and_then(|source| source.fetches.session());
        if let Some(connection) = session.filter(|session| self.looks() && there.is_reset(*session)) {
            self.end(node, connection);
        }
    }

    fn receive(&mut self, node: u64, link: u64) -> Check {
        let after = self.dice.pick(&[0, 5, 400]);
        let Some(source) = self.nodes[node as usize].sources.links.get_mut(&link) else { return Ok(()) };
        let session = source.fetches.session();
        source.receive()?;
        let (ended, needs) = (source.fetches.take_ended(), source.fetches.need().is_some());
        session.into_iter().for_each(|connection| self.touch(connection));
        if needs {
            self.count("stages of copies that waited for pages");
            self.at(after, Event::Home { node, link });
        }
        for EndedFetch { session, outcome } in ended {
            outcome.map_err(|error| format!("a copy of connection {session} failed: {error}"))?;
            self.touch(session);
            self.fetched(node, session)?;
        }
        Ok(())
    }

    /// A connection has ended: bytes that come for it are written nowhere.
    pub(super) fn end_fetches(&mut self, node: u64, connection: u64) {
        let sources = &mut self.nodes[node as usize].sources;
        sources.peers.cancel(connection);
        let begun = sources.links.iter_mut().filter_map(|(link, source)| (!source.fetches.cancel(connection)).then_some(*link));
        for link in begun.collect::<Vec<u64>>() {
            if self.has(Defect::KeepLink) {
                continue;
            }
            let sources = &mut self.nodes[node as usize].sources;
            let Some(SourceLink { address, fetches, .. }) = sources.links.remove(&link) else { continue };
            sources.peers.forget(&address);
            self.count("links dropped under a copy");
            fetches.others().into_iter().for_each(|(session, fetch)| self.fetch_into(node, session, fetch));
        }
    }
}

/// The bytes that a fetch asks for: a source's shape begins at the version that its copy writes.
fn stream_of(fetch: &Fetch<Target>) -> Rc<[u8]> {
    let mut bytes = Vec::new();
    for (command, target) in fetch.commands.chunks_exact(COMMAND_LEN).zip(&fetch.targets) {
        let command = Command::decode(command.first_chunk().expect("as long as a command")).expect("a command of ours");
        let source = command.shape(&[]).expect("a shape of ours").check("of a source", u64::MAX).expect("a range");
        let (version, _) = source.range().expect("sources are contiguous");
        (0..target.shape.len() / WORD_LEN).for_each(|_| bytes.extend_from_slice(&version.to_le_bytes()));
    }
    bytes.into()
}
