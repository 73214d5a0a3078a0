//! A region on this host: the page words that its clients and this node share, the frames of pages from elsewhere, and what
//! homes and other hosts say about its pages.
//!
//! What a message asks for is done at once, or when the page can be taken from the programs: until then it counts as not yet
//! arrived, and other pages go on.

use super::home::PageBytes;
use super::memory::HomeMemory;
use crate::client::seat;
use hanare_memory::file;
use hanare_memory::frames::{ClientFrames, Frames, Run, Stays};
use hanare_memory::uffd::Refused;
use hanare_memory::{Mapping, diff};
use hanare_protocol::id::{ClientId, Gid, NodeId, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Access, Consistency, HostId, Hosts, Page, Ticket, ToHome, ToHost, Version};
use hanare_protocol::place::Layout;
use hanare_protocol::wire::control::{FilePart, PageStat};
use hanare_protocol::{Error, Result};
use hanare_ring::page_word::word::{State, Word};
use hanare_ring::page_word::{Changed, Estate, Fault, Granted, Invalidated, PageWords, Taken, page_words_len};
use hanare_ring::spsc::Corrupt;
use hanare_ring::words::Shared;
use rustix::thread::futex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Seats of the node itself.
const NODE_SEATS: u16 = 8;

/// Seats of one client: those of its lanes, each with one for every page of a message.
pub(super) const CLIENT_SEATS: u16 = 512;

/// Most clients of a host that map one region.
const CLIENT_COUNT_MAX: u16 = 64;

/// Seats of all.
const SEATS: u16 = NODE_SEATS + CLIENT_COUNT_MAX * CLIENT_SEATS;

/// The node's seat for requests that it makes itself.
const OWN_SEAT: u16 = 0;

/// Pages looked at for one eviction, and most that are evicted by it.
const SWEEP_COUNT: u64 = 4096;
const EVICT_COUNT: usize = 256;

/// A region on this host.
pub(crate) struct Host {
    gid: Gid,
    pub name: String,
    pub consistency: Consistency,
    layout: Layout,
    pub homes: Vec<HomeDoor>,
    /// For each extent of the layout, its home.
    home_of: Vec<usize>,
    clients: Vec<Client>,
    /// Mappings of clients that count as gone and are not.
    parted: Vec<ClientFrames>,
    pages: Option<Pages>,
}

/// What is there of a coherent region.
struct Pages {
    words: PageWords<Shared>,
    words_file: OwnedFd,
    /// Dropped after the words that lie in it.
    _words_memory: Mapping,
    frames: Frames,
    frames_max: u64,
    /// Where the last eviction ended.
    hand: u64,
    takes: BTreeMap<u64, Take>,
    /// Messages that wait until a page's taking has ended.
    waiting: BTreeMap<u64, VecDeque<(usize, ToHost, Option<PageBytes>)>>,
    collecting: BTreeMap<u64, Collecting>,
    /// Seats of dead clients whose claims are still open; nobody gets them.
    ghosts: BTreeSet<u16>,
    counters: Counters,
}

/// What was done with pages of a region on one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    invalidated: u64,
    forwarded: u64,
    recalled: u64,
    evicted: u64,
}

/// A home of the region, as this host knows it.
pub(super) struct HomeDoor {
    pub node: NodeId,
    pub address: String,
    /// What the host is called by this home.
    pub key: u64,
    /// The host's right there, from when it joined.
    pub share: Option<u64>,
    pub me: HostId,
    pub peers: BTreeMap<HostId, PeerHost>,
    pub is_lost: bool,
    /// Bytes that lie on this very node.
    pub memory: Option<Arc<HomeMemory>>,
}

/// Another host, as a home introduced it.
pub(super) struct PeerHost {
    pub node: NodeId,
    pub address: String,
    pub key: u64,
}

struct Client {
    id: ClientId,
    /// Its first seat.
    seat: u16,
    rights: Rights,
    frames: Option<ClientFrames>,
}

/// A page that is being taken from the programs, and what for.
struct Take {
    home: usize,
    why: Why,
}

enum Why {
    Invalidate { version: Version, tell: Option<HostId> },
    Forward { era: Version, to: HostId, ticket: Ticket, access: Access },
    Recall { era: Version, keeps: bool },
    Evict { was: Word },
}

/// A grant to write that waits for others to drop their copies, or acknowledgements that came before it.
#[derive(Default)]
struct Collecting {
    granted: Option<(Ticket, Version, Option<PageBytes>)>,
    awaits: Hosts,
    early_version: Version,
    early: Hosts,
}

/// What a host has to say.
pub(super) enum Say {
    Home { home: usize, page: Page, message: ToHome, bytes: Option<PageBytes> },
    Host { home: usize, to: HostId, page: Page, message: ToHost, bytes: Option<PageBytes> },
}

/// What a client gets to map the region.
pub(super) struct Admission {
    pub seat_first: u16,
    pub seats: u16,
    pub frames_max: u64,
    pub files: Vec<Option<Vec<FilePart>>>,
    pub fds: Vec<OwnedFd>,
}

impl Host {
    /// A region that no client maps yet.
    pub fn new(
        (gid, name): (Gid, String),
        consistency: Consistency,
        layout: Layout,
        homes: Vec<HomeDoor>,
        frames_max: u64,
    ) -> Result<Host> {
        let home_of = layout
            .extents()
            .map(|extent| homes.iter().position(|home| home.node == extent.node).expect("each extent's node is a home"))
            .collect();
        let pages = match consistency {
            Consistency::Explicit => None,
            Consistency::Coherent => Some(Pages::new(&name, layout.len().div_ceil(PAGE_LEN), frames_max)?),
        };
        Ok(Host { gid, name, consistency, layout, homes, home_of, clients: Vec::new(), parted: Vec::new(), pages })
    }

    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// Whether no client of this host maps it.
    pub fn is_unused(&self) -> bool {
        self.clients.is_empty()
    }

    /// Whether a client maps it.
    pub fn has(&self, client: ClientId) -> bool {
        self.clients.iter().any(|known| known.id == client)
    }

    /// Lets a client in.
    pub fn admit(&mut self, id: ClientId, rights: Rights) -> Result<Admission> {
        if let Some(pages) = &mut self.pages {
            pages.settle_ghosts();
        }
        let is_free = |seat: u16| {
            let ghosts = self.pages.as_ref().map(|pages| &pages.ghosts);
            let has_ghost = ghosts.is_some_and(|ghosts| ghosts.range(seat..seat + CLIENT_SEATS).next().is_some());
            !has_ghost && self.clients.iter().all(|client| client.seat != seat)
        };
        let seat = (0..CLIENT_COUNT_MAX).map(|k| NODE_SEATS + k * CLIENT_SEATS).find(|seat| is_free(*seat));
        let seat = seat.ok_or_else(|| Error::LimitReached {
            what: format!("programs of one host that map region '{}'", self.name),
            limit: u64::from(CLIENT_COUNT_MAX),
        })?;
        let (mut files, mut fds) = (vec![None; self.home_of.len()], Vec::new());
        if let Some(pages) = &self.pages {
            for fd in [pages.words_file.as_fd(), pages.frames.as_fd()] {
                let copy = rustix::io::fcntl_dupfd_cloexec(fd, 0);
                fds.push(copy.map_err(file::system("passing on a memory file"))?);
            }
            for home in &self.homes {
                let Some(memory) = &home.memory else { continue };
                let (parts, mut own) = memory.files()?;
                files = parts;
                fds.append(&mut own);
            }
        }
        self.clients.push(Client { id, seat, rights, frames: None });
        let frames_max = self.pages.as_ref().map_or(0, |pages| pages.frames_max);
        Ok(Admission { seat_first: seat, seats: SEATS, frames_max, files, fds })
    }

    /// The most that a client here may do.
    pub fn rights(&self) -> Rights {
        self.clients.iter().map(|client| client.rights).max().unwrap_or(Rights::Read)
    }

    /// A client has mapped the region.
    pub fn hold(&mut self, id: ClientId, frames: ClientFrames) -> Result<()> {
        let client = self.clients.iter_mut().find(|client| client.id == id && client.frames.is_none());
        let client = client.ok_or_else(|| garbage("a mapping of what it does not share"))?;
        let is_whole = frames.span.len == self.layout.len().next_multiple_of(PAGE_LEN);
        if !is_whole || frames.span.start.checked_add(frames.span.len).is_none() {
            return Err(garbage("a mapping of another length than the region's"));
        }
        client.frames = Some(frames);
        Ok(())
    }

    /// A client has unmapped the region, or is dead. What it was at goes on without it.
    pub fn part(&mut self, id: ClientId, says: &mut Vec<Say>) {
        let Some(at) = self.clients.iter().position(|client| client.id == id) else { return };
        let client = self.clients.remove(at);
        let mut claims = Vec::new();
        if let Some(pages) = &mut self.pages {
            for seat in client.seat..client.seat + CLIENT_SEATS {
                if let Ok(Estate::Claim { page }) = pages.words.bury(seat) {
                    pages.ghosts.insert(seat);
                    claims.push(page);
                }
            }
        }
        for page in claims {
            self.repeat(page, says);
        }
    }

    /// All clients count as gone; their mappings lose their pages as these are taken.
    pub fn part_all(&mut self, says: &mut Vec<Say>) {
        let frames: Vec<ClientFrames> = self.clients.iter_mut().filter_map(|client| client.frames.take()).collect();
        let clients: Vec<ClientId> = self.clients.iter().map(|client| client.id).collect();
        clients.into_iter().for_each(|client| self.part(client, says));
        self.parted = frames;
    }

    /// The request of a page again: nobody knows whether its dead thread sent it. A home that heard a request to write knows
    /// it again by its ticket; one to read is another request.
    fn repeat(&mut self, page: u64, says: &mut Vec<Say>) {
        let home = self.home_of_page(page);
        let Some(pages) = &mut self.pages else { return };
        let word = pages.words.look(page);
        let seat = word.claimer();
        if seat >= SEATS {
            return;
        }
        let want = match word.state() {
            Ok(State::Fetching) => {
                let ticket = Ticket { seat, number: pages.words.next_number(seat) };
                ToHome::Want { ticket, access: Access::Read, has: None, firm: false }
            }
            Ok(state @ (State::FetchingWrite | State::Upgrading | State::TakingUpgrade)) => {
                let ticket = Ticket { seat, number: pages.words.number(seat).max(1) };
                let has = (state == State::Upgrading).then(|| word.version());
                ToHome::Want { ticket, access: Access::Write, has, firm: false }
            }
            _ => return,
        };
        says.push(Say::Home { home, page: Page(page), message: want, bytes: None });
    }

    /// The home that a page belongs to.
    fn home_of_page(&self, page: u64) -> usize {
        let piece = self.layout.pieces(page * PAGE_LEN, 1).next().expect("pages are checked before");
        self.home_of[piece.extent]
    }

    /// A message of a home, or of another host.
    ///
    /// **Errors**: [`Error::Garbage`] for what no correct one sends; the region's own memory is the input of its clients.
    // FEATURE: EU-F12 EU-F13
    pub fn on_message(
        &mut self,
        home: usize,
        page: Page,
        message: ToHost,
        bytes: Option<PageBytes>,
        says: &mut Vec<Say>,
    ) -> Result<()> {
        // Seats come from clients by way of their home.
        let seat = match &message {
            ToHost::Grant { ticket, .. } | ToHost::OwnerGone { ticket, .. } | ToHost::Refused { ticket, .. } => ticket.seat,
            _ => OWN_SEAT,
        };
        if seat >= SEATS {
            return Err(garbage("a request of a seat that there is not"));
        }
        let is_here = page.0 < self.layout.len().div_ceil(PAGE_LEN) && self.home_of_page(page.0) == home;
        let Some(pages) = self.pages.as_mut().filter(|_| is_here) else {
            return Err(garbage("a message about a page that is not the home's"));
        };
        if pages.takes.contains_key(&page.0) {
            pages.waiting.entry(page.0).or_default().push_back((home, message, bytes));
            return Ok(());
        }
        if let Err(corrupt) = self.act(home, page, message, bytes, says) {
            self.give_up(&corrupt);
        }
        Ok(())
    }

    fn act(
        &mut self,
        home: usize,
        page: Page,
        message: ToHost,
        bytes: Option<PageBytes>,
        says: &mut Vec<Say>,
    ) -> Result<(), Corrupt> {
        let me = self.homes[home].me;
        let Some(pages) = &mut self.pages else { return Ok(()) };
        match message {
            ToHost::Grant { access: Access::Read, ticket, version, firm, .. } => {
                if firm {
                    says.push(Say::Home { home, page, message: ToHome::Done { ticket, version }, bytes: None });
                }
                self.on_grant_read(home, page, ticket, version, bytes, says)
            }
            ToHost::Grant { access: Access::Write, ticket, version, mut awaits, .. } => {
                let collecting = pages.collecting.entry(page.0).or_default();
                if collecting.early_version == version.prev() {
                    awaits.subtract(&collecting.early);
                }
                if awaits.is_empty() {
                    pages.collecting.remove(&page.0);
                    return self.on_grant_write(home, page, ticket, version, bytes, says);
                }
                (collecting.granted, collecting.awaits) = (Some((ticket, version, bytes)), awaits);
                Ok(())
            }
            ToHost::Ack { from, version } => {
                let collecting = pages.collecting.entry(page.0).or_default();
                match &collecting.granted {
                    Some((_, granted, _)) if *granted == version.next() => {
                        collecting.awaits.remove(from);
                        if !collecting.awaits.is_empty() {
                            return Ok(());
                        }
                        let collecting = pages.collecting.remove(&page.0).unwrap_or_default();
                        let Some((ticket, version, bytes)) = collecting.granted else { return Ok(()) };
                        self.on_grant_write(home, page, ticket, version, bytes, says)
                    }
                    Some(_) => Ok(()),
                    None => {
                        if collecting.early.is_empty() || version.is_after(collecting.early_version) {
                            (collecting.early_version, collecting.early) = (version, Hosts::NONE);
                        }
                        if collecting.early_version == version {
                            collecting.early.insert(from);
                        }
                        Ok(())
                    }
                }
            }
            ToHost::Invalidate { version, tell } => match pages.words.invalidate(page.0, version)? {
                Invalidated::Nothing => {
                    says.push(acknowledge(home, page, me, version, tell));
                    Ok(())
                }
                Invalidated::Take => self.begin_take(home, page.0, Why::Invalidate { version, tell }, says),
                Invalidated::Later => Err(Corrupt("a page that is taken by nobody is being taken")),
            },
            ToHost::Forward { era, to, ticket, access } => match pages.words.take_owned(page.0, era)? {
                Taken::Take => self.begin_take(home, page.0, Why::Forward { era, to, ticket, access }, says),
                Taken::Elsewhere { .. } => Ok(()),
                Taken::Later => Err(Corrupt("a page that is taken by nobody is being taken")),
            },
            ToHost::Recall { era, keeps } => match pages.words.take_owned(page.0, era)? {
                Taken::Take => self.begin_take(home, page.0, Why::Recall { era, keeps }, says),
                Taken::Elsewhere { floor } => {
                    if !era.is_after(floor) {
                        says.push(Say::Home { home, page, message: ToHome::Missing { version: era }, bytes: None });
                    }
                    Ok(())
                }
                Taken::Later => Err(Corrupt("a page that is taken by nobody is being taken")),
            },
            ToHost::OwnerGone { ticket, access, version } => self.on_owner_gone(home, page, ticket, access, version, says),
            ToHost::Refused { ticket, .. } => {
                let word = pages.words.look(page.0);
                if word.claimer() == ticket.seat && pages.words.number(ticket.seat) == ticket.number && is_claimed(word) {
                    pages.fail(page.0, ticket.seat)?;
                }
                Ok(())
            }
        }
    }

    /// Whatever request it answers, a grant to read above the floor is good.
    fn on_grant_read(
        &mut self,
        home: usize,
        page: Page,
        ticket: Ticket,
        version: Version,
        bytes: Option<PageBytes>,
        says: &mut Vec<Say>,
    ) -> Result<(), Corrupt> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        let word = pages.words.look(page.0);
        if word.state()? != State::Fetching {
            return Ok(());
        }
        let seat = word.claimer();
        if !version.is_after(word.floor()) {
            if seat == ticket.seat && pages.words.number(seat) == ticket.number {
                let ticket = Ticket { seat, number: pages.words.next_number(seat) };
                let want = ToHome::Want { ticket, access: Access::Read, has: None, firm: true };
                says.push(Say::Home { home, page, message: want, bytes: None });
            }
            return Ok(());
        }
        if let Some(bytes) = &bytes
            && !pages.fill(page.0, bytes)
        {
            return pages.fail(page.0, seat);
        }
        if let Granted::Here(changed) = pages.words.grant(page.0, seat, version, Access::Read)? {
            pages.wake(page.0, changed);
        }
        Ok(())
    }

    /// A grant to write that nobody has to acknowledge to any more.
    fn on_grant_write(
        &mut self,
        home: usize,
        page: Page,
        ticket: Ticket,
        version: Version,
        bytes: Option<PageBytes>,
        says: &mut Vec<Say>,
    ) -> Result<(), Corrupt> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        let mut word = pages.words.look(page.0);
        if word.state()? == State::Absent && bytes.is_some() {
            // Who asked is gone, and nobody else has asked: it is the node's until somebody touches it.
            if !matches!(pages.words.fault(page.0, OWN_SEAT, Access::Write)?, Fault::Fetch { .. }) {
                return self.on_grant_write(home, page, ticket, version, bytes, says);
            }
            word = pages.words.look(page.0);
        } else if word.state()? == State::Shared && bytes.is_none() {
            if !matches!(pages.words.fault(page.0, OWN_SEAT, Access::Write)?, Fault::Upgrade { .. }) {
                return self.on_grant_write(home, page, ticket, version, bytes, says);
            }
            word = pages.words.look(page.0);
        }
        match word.state()? {
            State::FetchingWrite | State::Upgrading => {
                if let Some(kept) = &bytes
                    && !pages.fill(page.0, kept)
                {
                    // There is no room for it here: it goes back, and who wanted it asks again.
                    pages.fail(page.0, word.claimer())?;
                    let message = ToHome::WriteBack { version, keeps: false };
                    says.push(Say::Home { home, page, message, bytes });
                    return Ok(());
                }
                match pages.words.grant(page.0, word.claimer(), version, Access::Write)? {
                    Granted::Here(changed) => {
                        pages.wake(page.0, changed);
                    }
                    Granted::Void | Granted::Gone => return Err(Corrupt("a claim that changed hands by itself")),
                }
                if word.claimer() == OWN_SEAT {
                    // The seat's word was for the claim alone.
                    let _ = pages.words.bury(OWN_SEAT)?;
                }
                says.push(Say::Home { home, page, message: ToHome::Done { ticket, version }, bytes: None });
            }
            // It was installed by the thread itself, which could not say so.
            State::Owned if word.version() == version => {
                says.push(Say::Home { home, page, message: ToHome::Done { ticket, version }, bytes: None });
            }
            // It is given straight back.
            _ => {
                let message = ToHome::WriteBack { version, keeps: false };
                let bytes = bytes.or_else(|| pages.read(page.0));
                says.push(Say::Home { home, page, message, bytes });
            }
        }
        Ok(())
    }

    fn on_owner_gone(
        &mut self,
        home: usize,
        page: Page,
        ticket: Ticket,
        access: Access,
        version: Version,
        says: &mut Vec<Say>,
    ) -> Result<(), Corrupt> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        let word = pages.words.look(page.0);
        let state = word.state()?;
        let is_asked = word.claimer() == ticket.seat && pages.words.number(ticket.seat) == ticket.number;
        if is_asked && matches!(state, State::Fetching | State::FetchingWrite) {
            pages.fail(page.0, ticket.seat)?;
            says.push(Say::Home { home, page, message: ToHome::Abandoned { ticket }, bytes: None });
            return Ok(());
        }
        match access {
            // It came, and the home has been told, or is about to be.
            Access::Write => {}
            Access::Read if matches!(state, State::Shared | State::Upgrading) && word.version() == version => {
                let bytes = pages.read(page.0);
                says.push(Say::Home { home, page, message: ToHome::WriteBack { version, keeps: true }, bytes });
            }
            Access::Read => says.push(Say::Home { home, page, message: ToHome::Abandoned { ticket }, bytes: None }),
        }
        Ok(())
    }

    /// Another host is gone: it may have been the one that was to send a page.
    pub fn on_host_gone(&mut self, home: usize, says: &mut Vec<Say>) {
        let Some(pages) = &self.pages else { return };
        let is_read = |page: &u64| pages.words.look(*page).state() == Ok(State::Fetching);
        let fetching: Vec<u64> = (0..pages.count()).filter(is_read).collect();
        for page in fetching {
            if self.home_of_page(page) == home {
                self.repeat(page, says);
            }
        }
    }

    /// A home is gone: what was asked of it does not come. Who waits asks it again, and finds out.
    pub fn on_home_lost(&mut self, home: usize) {
        self.homes[home].is_lost = true;
        let Some(pages) = &self.pages else { return };
        let waiting: Vec<u64> = (0..pages.count()).filter(|page| is_claimed(pages.words.look(*page))).collect();
        for page in waiting {
            if self.home_of_page(page) != home {
                continue;
            }
            let Some(pages) = &mut self.pages else { return };
            let _ = pages.fail(page, pages.words.look(page).claimer());
        }
    }

    fn begin_take(&mut self, home: usize, page: u64, why: Why, says: &mut Vec<Say>) -> Result<(), Corrupt> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        pages.takes.insert(page, Take { home, why });
        self.go_on_taking(page, says)
    }

    /// Whether pages are being taken that somebody maps at this moment.
    pub fn is_taking(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| !pages.takes.is_empty())
    }

    /// Goes on with what waited. Returns whether anything moved.
    pub fn turn(&mut self, says: &mut Vec<Say>) -> bool {
        let Some(pages) = &self.pages else { return false };
        let taking: Vec<u64> = pages.takes.keys().copied().collect();
        let before = says.len();
        for page in taking {
            if let Err(corrupt) = self.go_on_taking(page, says) {
                self.give_up(&corrupt);
            }
        }
        says.len() > before
    }

    /// Takes a page, if nobody maps it at this moment; then what waited for that.
    fn go_on_taking(&mut self, page: u64, says: &mut Vec<Say>) -> Result<(), Corrupt> {
        let Some(pages) = &mut self.pages else { return Ok(()) };
        if !pages.words.is_clear(page) {
            return Ok(());
        }
        let Some(take) = pages.takes.remove(&page) else { return Ok(()) };
        self.take_now(page, take, says)?;
        while let Some(pages) = &mut self.pages
            && !pages.takes.contains_key(&page)
        {
            let Some((home, message, bytes)) = pages.waiting.get_mut(&page).and_then(VecDeque::pop_front) else {
                pages.waiting.remove(&page);
                break;
            };
            self.act(home, Page(page), message, bytes, says)?;
        }
        Ok(())
    }

    fn take_now(&mut self, page: u64, take: Take, says: &mut Vec<Say>) -> Result<(), Corrupt> {
        let Take { home, why } = take;
        let me = self.homes[home].me;
        let memory = self.homes[home].memory.clone();
        let clients: Vec<&ClientFrames> =
            self.clients.iter().filter_map(|client| client.frames.as_ref()).chain(&self.parted).collect();
        let Some(pages) = &mut self.pages else { return Ok(()) };
        let (stays, wants_bytes) = match &why {
            Why::Invalidate { .. } => (Stays::Nothing, false),
            Why::Forward { access, .. } => (if *access == Access::Read { Stays::Copy } else { Stays::Nothing }, true),
            Why::Recall { keeps, .. } => (if *keeps { Stays::Copy } else { Stays::Nothing }, true),
            Why::Evict { was } => (Stays::Nothing, was.state()? == State::Owned),
        };
        let bytes = pages.take(page, memory.as_deref(), &clients, wants_bytes, stays);
        let changed = match &why {
            Why::Invalidate { version, .. } => pages.words.drop_taken(page, *version)?,
            Why::Forward { era, access: Access::Write, .. } | Why::Recall { era, keeps: false } => {
                pages.words.drop_taken(page, *era)?
            }
            Why::Evict { was } => pages.words.drop_taken(page, was.version().prev())?,
            Why::Forward { .. } | Why::Recall { .. } => pages.words.keep_taken(page)?,
        };
        pages.wake(page, changed);
        let page = Page(page);
        match why {
            Why::Invalidate { version, tell } => {
                pages.counters.invalidated += 1;
                says.push(acknowledge(home, page, me, version, tell));
            }
            Why::Forward { era, to, ticket, access } => {
                pages.counters.forwarded += 1;
                let version = if access == Access::Write { era.next() } else { era };
                let firm = access == Access::Write;
                let message = ToHost::Grant { ticket, version, access, has_bytes: true, awaits: Hosts::NONE, firm };
                says.push(Say::Host { home, to, page, message, bytes: bytes.clone() });
                if access == Access::Read {
                    says.push(Say::Home { home, page, message: ToHome::WriteBack { version: era, keeps: true }, bytes });
                }
            }
            Why::Recall { era, keeps } => {
                pages.counters.recalled += 1;
                says.push(Say::Home { home, page, message: ToHome::WriteBack { version: era, keeps }, bytes });
            }
            Why::Evict { was } => {
                pages.counters.evicted += 1;
                if was.state()? == State::Owned {
                    let message = ToHome::WriteBack { version: was.version(), keeps: false };
                    says.push(Say::Home { home, page, message, bytes });
                }
            }
        }
        Ok(())
    }

    /// More frames are filled than there may be: some pages from elsewhere go.
    // FEATURE: D2-F4
    pub fn on_crowded(&mut self, says: &mut Vec<Say>) {
        let Some(pages) = &mut self.pages else { return };
        let present = pages.frames.present_count().unwrap_or(0);
        let Some(excess) = present.checked_sub(pages.frames_max).filter(|excess| *excess > 0) else { return };
        let wanted = (excess as usize + EVICT_COUNT / 2).max(EVICT_COUNT);
        let (count, mut found) = (pages.count(), Vec::new());
        for _ in 0..count.max(SWEEP_COUNT) {
            let page = pages.hand % count;
            pages.hand = page + 1;
            if matches!(pages.words.look(page).state(), Ok(State::Shared | State::Owned)) {
                found.push(page);
            }
            if found.len() >= wanted {
                break;
            }
        }
        for page in found {
            self.evict(page, false, says);
        }
    }

    /// Lets go of a page; one of this node's own memory only where `all` go.
    fn evict(&mut self, page: u64, all: bool, says: &mut Vec<Say>) {
        let home = self.home_of_page(page);
        if self.homes[home].memory.is_some() && !all {
            return;
        }
        let Some(pages) = &mut self.pages else { return };
        if pages.takes.contains_key(&page) {
            return;
        }
        let taken = match pages.words.take_to_evict(page) {
            Ok(Some(was)) => self.begin_take(home, page, Why::Evict { was }, says),
            Ok(None) => Ok(()),
            Err(corrupt) => Err(corrupt),
        };
        if let Err(corrupt) = taken {
            self.give_up(&corrupt);
        }
    }

    /// Lets go of all pages, for the last client has gone. Returns whether all are home, or on their way.
    pub fn empty(&mut self, says: &mut Vec<Say>) -> bool {
        let Some(pages) = &self.pages else { return true };
        let is_here = |page: &u64| pages.words.look(*page) != Word::NEVER;
        let here: Vec<u64> = (0..pages.count()).filter(is_here).collect();
        for page in here {
            if !matches!(self.pages.as_ref().map(|pages| pages.words.look(page).state()), Some(Ok(State::Absent))) {
                self.evict(page, true, says);
            }
        }
        let Some(pages) = &self.pages else { return true };
        let is_open = |page: u64| !matches!(pages.words.look(page).state(), Ok(State::Absent) | Err(_));
        !(0..pages.count()).any(is_open)
    }

    /// Whether nothing of it is of use any more.
    pub fn is_lost(&self) -> bool {
        self.pages.is_none() || self.homes.iter().all(|home| home.is_lost)
    }

    /// Whether its page words are of no more use.
    pub fn is_given_up(&self) -> bool {
        self.consistency == Consistency::Coherent && self.pages.is_none()
    }

    /// All pages go, unsaved: this node was taken for lost, and they are not its own any more. Programs that touch one ask its
    /// home, and are refused.
    pub fn drop_all(&mut self) {
        let clients: Vec<&ClientFrames> = self.clients.iter().filter_map(|client| client.frames.as_ref()).collect();
        let Some(pages) = &mut self.pages else { return };
        for page in 0..pages.words.page_count() {
            let word = pages.words.look(page);
            if word == Word::NEVER {
                continue;
            }
            let piece = self.layout.pieces(page * PAGE_LEN, 1).next().expect("a page of the region");
            let memory = self.homes[self.home_of[piece.extent]].memory.clone();
            pages.take(page, memory.as_deref(), &clients, false, Stays::Nothing);
            pages.words.forget(page);
            pages.wake_all(page);
        }
        pages.takes.clear();
        pages.waiting.clear();
        pages.collecting.clear();
        self.homes.iter_mut().for_each(|home| home.share = None);
    }

    /// Clients wrote nonsense into the words: the region is of no more use on this host.
    fn give_up(&mut self, corrupt: &Corrupt) {
        tracing::error!("region '{}' is given up on this host: {}", self.name, corrupt.0);
        self.pages = None;
    }

    /// What happened to pages here.
    pub fn stat(&self) -> PageStat {
        let pages = self.pages.as_ref();
        let counted = |which| pages.map_or(0, |pages| pages.words.counted(0..SEATS, which));
        let counters = pages.map(|pages| pages.counters).unwrap_or_default();
        PageStat {
            gid: self.gid,
            name: self.name.clone(),
            consistency: self.consistency,
            programs: self.clients.len() as u32,
            hosts: 0,
            frames: pages.map_or(0, |pages| pages.frames.present_count().unwrap_or(0)),
            faults: counted(seat::FAULTS),
            fetched: counted(seat::FETCHED),
            prefetched: counted(seat::PREFETCHED),
            upgraded: counted(seat::UPGRADED),
            waited: counted(seat::WAITED),
            invalidated: counters.invalidated,
            forwarded: counters.forwarded,
            recalled: counters.recalled,
            evicted: counters.evicted,
            contended: Vec::new(),
        }
    }
}

impl Pages {
    fn new(name: &str, pages: u64, frames_max: u64) -> Result<Pages> {
        let len = page_words_len(pages, SEATS).next_multiple_of(PAGE_LEN);
        let words_file = file::create(&format!("{name}.words"), len)?;
        let mut memory = Mapping::reserve(len)?;
        memory.map_file(0, words_file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write)?;
        // SAFETY: the memory is dropped after the words (field order), and no copy of the window leaves them.
        let words = PageWords::new(Shared::new(unsafe { memory.window() }), pages, SEATS);
        let frames = Frames::new(&format!("{name}.frames"), pages)?;
        Ok(Pages {
            words,
            words_file,
            _words_memory: memory,
            frames,
            frames_max,
            hand: 0,
            takes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            collecting: BTreeMap::new(),
            ghosts: BTreeSet::new(),
            counters: Counters::default(),
        })
    }

    fn count(&self) -> u64 {
        self.frames.page_count()
    }

    /// Seats of the dead whose claims were granted, or failed, may be given out again.
    fn settle_ghosts(&mut self) {
        let claimed: BTreeSet<u16> = match self.ghosts.is_empty() {
            true => return,
            false => (0..self.count()).map(|page| self.words.look(page)).filter(|w| is_claimed(*w)).map(Word::claimer).collect(),
        };
        self.ghosts.retain(|seat| claimed.contains(seat));
    }

    /// Puts a page that its claimer waits for into the frames. Says whether there was room.
    fn fill(&mut self, page: u64, bytes: &[u8]) -> bool {
        let filled = self.frames.fill(Run::one(page), bytes);
        if let Err(refused) = &filled {
            tracing::error!("a page could not be kept: {refused}");
        }
        filled.is_ok()
    }

    fn read(&self, page: u64) -> Option<PageBytes> {
        let mut bytes: Box<diff::PageBytes> = Box::new([0; PAGE_LEN as usize]);
        self.frames.read(Run::one(page), &mut bytes[..]).ok()?;
        Some(bytes)
    }

    /// Takes a page from all programs; of this node's own memory its bytes stay where they are.
    fn take(
        &mut self,
        page: u64,
        memory: Option<&HomeMemory>,
        clients: &[&ClientFrames],
        wants_bytes: bool,
        stays: Stays,
    ) -> Option<PageBytes> {
        for client in clients {
            match client.uffd.protect(client.span.pages(page, 1)) {
                Ok(()) | Err(Refused::Ended) => {}
                Err(refused) => tracing::warn!("a program keeps a page: {refused}"),
            }
        }
        let Some(memory) = memory else {
            let bytes = if wants_bytes { self.read(page) } else { None };
            if stays == Stays::Nothing
                && let Err(refused) = self.frames.punch(Run::one(page))
            {
                tracing::error!("a frame could not be given back: {refused}");
            }
            return bytes;
        };
        let bytes = if wants_bytes { memory.read_page(page).ok() } else { None };
        if stays == Stays::Nothing
            && let Err(error) = memory.unmap(page)
        {
            tracing::error!("a page could not be taken from programs: {error}");
        }
        bytes
    }

    /// Nobody fetches the page any more; who waited looks again.
    fn fail(&mut self, page: u64, seat: u16) -> Result<(), Corrupt> {
        if seat >= SEATS {
            return Err(Corrupt("a page claimed by a seat that there is not"));
        }
        let changed = self.words.fail(page, seat)?;
        self.collecting.remove(&page);
        self.wake(page, changed);
        Ok(())
    }

    fn wake(&self, page: u64, changed: Changed) {
        if changed.wakes {
            self.wake_all(page);
        }
    }

    fn wake_all(&self, page: u64) {
        let window = self.words.memory().window(self.words.at(page) * 8, 4);
        // SAFETY: a word of the memory that lives as long as this, at its boundary; it is touched by atomics only.
        let word = unsafe { AtomicU32::from_ptr(window.ptr().cast()) };
        let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
    }
}

fn is_claimed(word: Word) -> bool {
    matches!(word.state(), Ok(State::Fetching | State::FetchingWrite | State::Upgrading | State::TakingUpgrade))
}

fn acknowledge(home: usize, page: Page, me: HostId, version: Version, tell: Option<HostId>) -> Say {
    match tell {
        Some(to) => Say::Host { home, to, page, message: ToHost::Ack { from: me, version }, bytes: None },
        None => Say::Home { home, page, message: ToHome::Ack { version }, bytes: None },
    }
}

fn garbage(reason: &str) -> Error {
    Error::Garbage { peer: "a home of a shared region".to_owned(), reason: reason.to_owned() }
}
