//! A region on this host: the page words that its clients and this node share, the frames of pages from elsewhere, and what
//! homes and other hosts say about its pages.
//!
//! What a message asks for is done at once, or when the page can be taken from the programs: until then it counts as not yet
//! arrived, and other pages go on.
//!
//! | module | holds |
//! |---|---|
//! | `messages` | what homes and other hosts say, and what comes of it |
//! | `takes` | pages that are being taken from programs, for others or to make room |
//! | `pages` | page words and frames, and what is done to one page |

mod messages;
mod pages;
mod takes;
#[cfg(test)]
mod tests;

use crate::client::{LOSS_SEAT, seat};
use crate::node::pages::home::{Life, PageBytes};
use crate::node::pages::memory::{FileParts, HomeMemory};
use crate::node::pages::wires::Sheet;
use hanare_memory::Mapping;
use hanare_memory::file;
use hanare_memory::frames::{ClientFrames, Frames, Run, Stays};
use hanare_memory::uffd::Refused;
use hanare_protocol::id::{ClientId, Gid, NodeId, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Access, Consistency, HostId, Hosts, Page, Ticket, ToHome, ToHost, Version};
use hanare_protocol::place::Layout;
use hanare_protocol::wire::control::{FilePart, PageStat};
use hanare_protocol::{Error, Result};
use hanare_ring::page_word::word::{State, Word};
use hanare_ring::page_word::{Changed, Estate, Fault, Fill, Granted, Invalidated, PageWords, Taken, page_words_len};
use hanare_ring::spsc::Corrupt;
use hanare_ring::words::Shared;
use pages::{FILL_MAX, Filled};
use rustix::thread::futex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

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
    /// From the first client on: its homes agree that the region is as long as that client says.
    pages: Option<Pages>,
    frames_max: u64,
    /// Clients wrote nonsense into the words: the region is of no more use here.
    is_given_up: bool,
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
    /// Pages with messages that wait until a thread has filled their frame.
    filling: BTreeSet<u64>,
    /// Messages that wait until a page's taking or filling has ended.
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
    /// Which life of its node it is.
    pub life: Life,
    pub is_lost: bool,
    /// Pages that were sent to it before it was lost, and that it may not have heard: a home that comes back gets them.
    pub unsent: Vec<Sheet>,
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
    pub files: FileParts,
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
    ) -> Host {
        let home_of = layout
            .extents()
            .map(|extent| homes.iter().position(|home| home.node == extent.node).expect("each extent's node is a home"))
            .collect();
        let (clients, parted) = (Vec::new(), Vec::new());
        Host { gid, name, consistency, layout, homes, home_of, clients, parted, pages: None, frames_max, is_given_up: false }
    }

    /// Frames that it may fill.
    pub fn frames_max(&self) -> u64 {
        self.frames_max
    }

    /// Makes the page words and the frames of a coherent region.
    fn begin(&mut self) -> Result<()> {
        if self.consistency == Consistency::Coherent && self.pages.is_none() && !self.is_given_up {
            self.pages = Some(Pages::new(&self.name, self.layout.len().div_ceil(PAGE_LEN), self.frames_max)?);
        }
        Ok(())
    }

    pub fn gid(&self) -> Gid {
        self.gid
    }

    /// How its bytes lie.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether no client of this host maps it.
    pub fn is_unused(&self) -> bool {
        self.clients.is_empty()
    }

    /// Whether a client maps it.
    pub fn has(&self, client: ClientId) -> bool {
        self.clients.iter().any(|known| known.id == client)
    }

    /// Lets a client in, for whom the homes have agreed.
    pub fn admit(&mut self, id: ClientId) -> Result<Admission> {
        self.begin()?;
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
        self.clients.push(Client { id, seat, frames: None });
        let frames_max = self.pages.as_ref().map_or(0, |pages| pages.frames_max);
        Ok(Admission { seat_first: seat, seats: SEATS, frames_max, files, fds })
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
        self.part_one(id, true, says);
    }

    /// Of one that may go on, what it is putting into frames comes to its end, and goes with the rest.
    fn part_one(&mut self, id: ClientId, is_over: bool, says: &mut Vec<Say>) {
        let Some(at) = self.clients.iter().position(|client| client.id == id) else { return };
        let client = self.clients.remove(at);
        let mut claims = Vec::new();
        let others: Vec<&ClientFrames> =
            self.clients.iter().filter_map(|client| client.frames.as_ref()).chain(&self.parted).collect();
        if let Some(pages) = &mut self.pages {
            for seat in client.seat..client.seat + CLIENT_SEATS {
                let Ok(Estate::Claim { page }) = pages.words.bury(seat) else { continue };
                if is_over && let Err(corrupt) = pages.undo_fill(page, seat, &others) {
                    tracing::warn!("a page of a program that is gone: {}", corrupt.0);
                }
                pages.ghosts.insert(seat);
                claims.push(page);
            }
        }
        for page in claims {
            self.repeat(page, says);
        }
    }

    /// Parts programs that hold up steps on their mappings: all others of the host wait for each. Says whether there were any.
    pub fn part_stuck(&mut self, says: &mut Vec<Say>) -> bool {
        let is_stuck = |client: &&Client| client.frames.as_ref().is_some_and(|frames| frames.uffd.is_stuck());
        let stuck: Vec<ClientId> = self.clients.iter().filter(is_stuck).map(|client| client.id).collect();
        for id in &stuck {
            tracing::warn!("{id} holds up its mapping of region '{}' and is parted from it", self.name);
            self.part_one(*id, false, says);
        }
        self.parted.retain(|frames| !frames.uffd.is_stuck());
        !stuck.is_empty()
    }

    /// All clients count as gone; their mappings lose their pages as these are taken.
    pub fn part_all(&mut self, says: &mut Vec<Say>) {
        let frames: Vec<ClientFrames> = self.clients.iter_mut().filter_map(|client| client.frames.take()).collect();
        self.parted = frames;
        let clients: Vec<ClientId> = self.clients.iter().map(|client| client.id).collect();
        clients.into_iter().for_each(|client| self.part_one(client, false, says));
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
        home_of(&self.layout, &self.home_of, page)
    }

    /// Whether nothing of it is of use any more.
    pub fn is_lost(&self) -> bool {
        self.pages.is_none() || self.homes.iter().all(|home| home.is_lost)
    }

    /// Whether its page words are of no more use.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// All pages of some homes go, unsaved: this node was taken for lost, and they are not its own any more; or who maps them does not
    /// let go of them. Programs that touch one ask its home, and are refused; they are told that stores were lost, if any were. Says
    /// whether.
    pub fn drop_pages(&mut self, homes: &BTreeSet<usize>) -> bool {
        let clients: Vec<&ClientFrames> = self.clients.iter().filter_map(|client| client.frames.as_ref()).collect();
        let Some(pages) = &mut self.pages else { return false };
        let mut has_lost = homes.iter().any(|at| !self.homes[*at].unsent.is_empty());
        let until = Instant::now() + FILL_MAX;
        let home_of = |page: u64| home_of(&self.layout, &self.home_of, page);
        pages.forget_messages(|page| homes.contains(&home_of(page)));
        for page in pages.used().into_iter().filter(|page| homes.contains(&home_of(*page))) {
            pages.let_fill_end(page, until);
            let memory = self.homes[home_of(page)].memory.clone();
            // Of this node's own memory the bytes stay where they are.
            has_lost |= memory.is_none() && matches!(pages.words.look(page).state(), Ok(State::Owned | State::TakingOwned));
            pages.take(Run::one(page), memory.as_deref(), &clients, true, Stays::Nothing);
            pages.words.forget(page);
            pages.wake_all(page);
        }
        if has_lost {
            // They find out at their next barrier, unlock, flush, unmap or detach.
            pages.words.count(LOSS_SEAT, seat::LOST, 1);
        }
        has_lost
    }

    /// Lets go of all that a home that is back asks for: nobody here gets a page of it, and what this host owns goes there.
    /// Returns whether all are home, or on their way.
    pub fn hand_over(&mut self, home: usize, says: &mut Vec<Say>) -> bool {
        self.on_home_lost(home);
        self.empty(Some(home), says)
    }

    /// The home knows nothing of this host any more. It may be joined anew, by another name: what is still said to the host under
    /// its old one is not for what it becomes.
    pub fn begin_anew_with(&mut self, home: usize, key: u64) {
        let is_of = |page: u64| home_of(&self.layout, &self.home_of, page) == home;
        if let Some(pages) = &mut self.pages {
            pages.forget_messages(is_of);
            for page in pages.used().into_iter().filter(|page| is_of(*page)) {
                pages.words.forget(page);
                pages.wake_all(page);
            }
        }
        let door = &mut self.homes[home];
        (door.key, door.share, door.memory, door.is_lost) = (key, None, None, false);
        door.unsent.clear();
        door.peers.clear();
    }

    /// A home that is lost, and has not got all that programs here stored.
    pub fn unsaved(&self) -> Option<NodeId> {
        let is_owned = |page: u64| {
            let state = self.pages.as_ref().map(|pages| pages.words.look(page).state());
            matches!(state, Some(Ok(State::Owned | State::TakingOwned)))
        };
        let has_page = |home: usize| {
            let count = self.pages.as_ref().map_or(0, Pages::count);
            (0..count).any(|page| is_owned(page) && self.home_of_page(page) == home)
        };
        let lost = self.homes.iter().enumerate().filter(|(_, door)| door.is_lost);
        lost.filter(|(at, door)| !door.unsent.is_empty() || has_page(*at)).map(|(_, door)| door.node).next()
    }

    /// Clients wrote nonsense into the words: the region is of no more use on this host.
    fn give_up(&mut self, corrupt: &Corrupt) {
        tracing::error!("region '{}' is given up on this host: {}", self.name, corrupt.0);
        self.pages = None;
        self.is_given_up = true;
    }

    /// What happened to pages here.
    pub fn stat(&self) -> PageStat {
        let pages = self.pages.as_ref();
        let counted = |which| pages.map_or(0, |pages| pages.words.counted(NODE_SEATS..SEATS, which));
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

/// The home that a page belongs to, by the homes of a layout's extents.
fn home_of(layout: &Layout, homes: &[usize], page: u64) -> usize {
    homes[layout.pieces(page * PAGE_LEN, 1).next().expect("pages are checked before").extent]
}

fn garbage(reason: &str) -> Error {
    Error::Garbage { peer: "a home of a shared region".to_owned(), reason: reason.to_owned() }
}
