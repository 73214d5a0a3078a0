//! A region on this host: the page words that its clients and this node share, the frames of pages from elsewhere, and what
//! homes and other hosts say about its pages.
//!
//! What comes of it are the rules of [`hanare_protocol::page::Host`]. Here is what they work on: memory, mappings and clients.
//!
//! | module | holds |
//! |---|---|
//! | `holds` | pages that are kept for a while although other hosts wait for them |
//! | `pages` | page words and frames, and how what the rules ask for is done to them |

mod holds;
mod pages;
#[cfg(test)]
mod tests;

use crate::pages::memory::{FileParts, HomeMemory};
use crate::pages::outgoing::{Outgoing, PageBytes};
use crate::pages::request::ShareRequest;
use hanare_memory::Mapping;
use hanare_memory::file;
use hanare_memory::frames::{ClientFrames, Frames};
use hanare_protocol::id::{ClientId, Gid, NodeId};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::host::Manner;
use hanare_protocol::page::share::Sharing;
use hanare_protocol::page::word::State;
use hanare_protocol::page::{Consistency, Host as Rules, HostId, HostOutput, Page, Place, ToHost};
use hanare_protocol::place::Layout;
use hanare_protocol::wire::control::PageStat;
use hanare_protocol::{Corrupt, Error, Result};
use hanare_ring::page_word::PageWords;
use hanare_ring::page_word::{LOSS_SEAT, seat};
use hanare_ring::words::Shared;
use pages::{FILL_MAX, HostPlace};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// Seats of the node itself.
const NODE_SEATS: u16 = 8;

/// Seats of one client: those of its lanes, each with one for every page of a message.
pub(super) const CLIENT_SEATS: u16 = 512;

/// Most clients of a host that map one region.
const CLIENT_COUNT_MAX: u16 = 64;

/// Seats of all.
const SEATS: u16 = NODE_SEATS + CLIENT_COUNT_MAX * CLIENT_SEATS;

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
    /// Whose turn it is to map it, what each home knows, and when it is left.
    pub sharing: Sharing<ShareRequest, Error>,
    /// For each extent of the layout, its home.
    home_of: Vec<usize>,
    clients: Vec<HostClient>,
    /// Mappings of clients that count as gone and are not.
    parted: Vec<ClientFrames>,
    /// From the first client on: its homes agree that the region is as long as that client says.
    pages: Option<HostPages>,
    frames_max: u64,
    /// Clients wrote nonsense into the words: the region is of no more use here.
    is_given_up: bool,
}

/// What is there of a coherent region.
struct HostPages {
    words: PageWords<Shared>,
    words_file: OwnedFd,
    /// Dropped after the words that lie in it.
    _words_memory: Mapping,
    frames: Frames,
    frames_max: u64,
    /// Where the last eviction ended.
    hand: u64,
    rules: Rules<PageBytes>,
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
    pub me: HostId,
    pub peers: BTreeMap<HostId, PeerHost>,
    /// Pages that were sent to it before it was lost, and that it may not have heard: a home that comes back gets them.
    pub unsent: Vec<Arc<Outgoing>>,
    /// Bytes that lie on this very node.
    pub memory: Option<Arc<HomeMemory>>,
}

/// Another host, as a home introduced it.
pub(super) struct PeerHost {
    pub node: NodeId,
    pub address: String,
    pub key: u64,
}

struct HostClient {
    id: ClientId,
    /// Its first seat.
    seat: u16,
    frames: Option<ClientFrames>,
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
        (homes, sharing): (Vec<HomeDoor>, Sharing<ShareRequest, Error>),
        frames_max: u64,
    ) -> Host {
        let home_of = layout
            .extents()
            .map(|extent| homes.iter().position(|home| home.node == extent.node).expect("each extent's node is a home"))
            .collect();
        let (clients, parted) = (Vec::new(), Vec::new());
        Host {
            gid,
            name,
            consistency,
            layout,
            homes,
            sharing,
            home_of,
            clients,
            parted,
            pages: None,
            frames_max,
            is_given_up: false,
        }
    }

    /// Frames that it may fill.
    pub fn frames_max(&self) -> u64 {
        self.frames_max
    }

    /// The rules of its pages, and what they work on.
    fn parts(&mut self) -> Option<(&mut Rules<PageBytes>, HostPlace<'_>)> {
        let HostPages { rules, words, frames, counters, .. } = self.pages.as_mut()?;
        let (layout, home_of, homes) = (&self.layout, &self.home_of[..], &self.homes[..]);
        Some((rules, HostPlace { words, frames, counters, layout, home_of, homes, clients: &self.clients, parted: &self.parted }))
    }

    /// Does something by the rules. `None`, and the region is given up, where a client wrote nonsense into the words; or it has no
    /// pages here.
    fn with_rules<T>(&mut self, act: impl FnOnce(&mut Rules<PageBytes>, &mut HostPlace<'_>) -> Result<T, Corrupt>) -> Option<T> {
        let (rules, mut here) = self.parts()?;
        match act(rules, &mut here) {
            Ok(value) => Some(value),
            Err(corrupt) => {
                self.give_up(&corrupt);
                None
            }
        }
    }

    /// Makes the page words and the frames of a coherent region.
    fn begin(&mut self) -> Result<()> {
        if self.consistency == Consistency::Coherent && self.pages.is_none() && !self.is_given_up {
            self.pages = Some(HostPages::new(&self.name, self.layout.len().div_ceil(PAGE_LEN), self.frames_max)?);
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

    /// Lets a client in, for whom the homes have agreed. It says what the region is called: one that was refused may have said something
    /// else.
    pub fn admit(&mut self, id: ClientId, name: String) -> Result<Admission> {
        self.name = name;
        self.begin()?;
        if let Some((rules, here)) = self.parts() {
            rules.settle_dead_seats(&here);
        }
        let is_free = |seat: u16| {
            let is_claimed = self.pages.as_ref().is_some_and(|pages| !pages.rules.is_free(seat..seat + CLIENT_SEATS));
            !is_claimed && self.clients.iter().all(|client| client.seat != seat)
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
        self.clients.push(HostClient { id, seat, frames: None });
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
    pub fn part(&mut self, id: ClientId, outputs: &mut Vec<HostOutput<PageBytes>>) {
        self.part_one(id, true, outputs);
    }

    /// Of one that may go on, what it is putting into frames comes to its end, and goes with the rest.
    fn part_one(&mut self, id: ClientId, is_over: bool, outputs: &mut Vec<HostOutput<PageBytes>>) {
        let Some(at) = self.clients.iter().position(|client| client.id == id) else { return };
        let client = self.clients.remove(at);
        if let Some((rules, mut here)) = self.parts()
            && let Err(corrupt) = rules.part(&mut here, client.seat..client.seat + CLIENT_SEATS, is_over, outputs)
        {
            tracing::warn!("a page of a program that is gone: {}", corrupt.0);
        }
    }

    /// Parts programs that hold up steps on their mappings: all others of the host wait for each. Says whether there were any.
    pub fn part_stuck(&mut self, outputs: &mut Vec<HostOutput<PageBytes>>) -> bool {
        let is_stuck = |client: &&HostClient| client.frames.as_ref().is_some_and(|frames| frames.uffd.is_stuck());
        let stuck: Vec<ClientId> = self.clients.iter().filter(is_stuck).map(|client| client.id).collect();
        for id in &stuck {
            tracing::warn!("{id} holds up its mapping of region '{}' and is parted from it", self.name);
            self.part_one(*id, false, outputs);
        }
        self.parted.retain(|frames| !frames.uffd.is_stuck());
        !stuck.is_empty()
    }

    /// All clients count as gone; their mappings lose their pages as these are taken.
    pub fn part_all(&mut self, outputs: &mut Vec<HostOutput<PageBytes>>) {
        let frames: Vec<ClientFrames> = self.clients.iter_mut().filter_map(|client| client.frames.take()).collect();
        self.parted = frames;
        let clients: Vec<ClientId> = self.clients.iter().map(|client| client.id).collect();
        clients.into_iter().for_each(|client| self.part_one(client, false, outputs));
    }

    /// A message of a home, or of another host.
    ///
    /// **Errors**: [`Error::Garbage`] for what no correct one sends; the region's own memory is the input of its clients.
    // FEATURE: EU-F12 EU-F13
    pub fn on_message(
        &mut self,
        (home, page): (usize, Page),
        message: ToHost,
        bytes: Option<PageBytes>,
        now_us: u64,
        outputs: &mut Vec<HostOutput<PageBytes>>,
    ) -> Result<()> {
        // Seats come from clients by way of their home.
        let seat = match &message {
            ToHost::Grant { ticket, .. } | ToHost::OwnerGone { ticket, .. } | ToHost::Refused { ticket, .. } => ticket.seat,
            ToHost::Invalidate { .. } | ToHost::Forward { .. } | ToHost::Recall { .. } | ToHost::Ack { .. } => 0,
        };
        if seat >= SEATS {
            return Err(garbage("a request of a seat that there is not"));
        }
        let is_here = page.0 < self.layout.len().div_ceil(PAGE_LEN) && self.home_of_page(page.0) == home;
        if !is_here || self.pages.is_none() {
            return Err(garbage("a message about a page that is not the home's"));
        }
        self.with_rules(|rules, here| rules.on_message_at(here, (page, message, bytes), now_us, outputs));
        Ok(())
    }

    /// Another host is gone: it may have been the one that was to send a page.
    pub fn on_host_gone(&mut self, home: usize, outputs: &mut Vec<HostOutput<PageBytes>>) {
        if let Some((rules, mut here)) = self.parts() {
            rules.on_host_gone(&mut here, home, outputs);
        }
    }

    /// A home is gone: what was asked of it does not come. Who waits asks it again, and finds out.
    pub fn on_home_lost(&mut self, home: usize) {
        self.sharing.on_lost(home);
        if let Some((rules, mut here)) = self.parts() {
            rules.on_home_lost(&mut here, home);
        }
    }

    /// Whether pages are being taken, or waited for to be filled.
    pub fn is_taking(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.rules.is_taking())
    }

    /// Goes on with pages that are being taken. Returns whether anything moved.
    pub fn turn(&mut self, outputs: &mut Vec<HostOutput<PageBytes>>) -> bool {
        self.with_rules(|rules, here| rules.turn(here, outputs)).unwrap_or(false)
    }

    /// More frames are filled than there may be: some pages from elsewhere go.
    // FEATURE: D2-F4
    pub fn on_crowded(&mut self, outputs: &mut Vec<HostOutput<PageBytes>>) {
        let found = self.pages.as_mut().map(HostPages::sweep).unwrap_or_default();
        // Those of this node's own memory stay.
        let elsewhere: Vec<u64> =
            found.into_iter().filter(|page| self.homes[self.home_of_page(*page)].memory.is_none()).collect();
        self.with_rules(|rules, here| {
            elsewhere.into_iter().try_for_each(|page| rules.evict(here, Page(page)).map(drop))?;
            rules.turn(here, outputs)
        });
    }

    /// Lets go of all pages, or of those of one home. Returns whether all are home, or on their way.
    pub fn empty(&mut self, of: Option<usize>, outputs: &mut Vec<HostOutput<PageBytes>>) -> bool {
        self.with_rules(|rules, here| rules.empty(here, of, outputs)).unwrap_or(true)
    }

    /// The home that a page belongs to.
    pub(super) fn home_of_page(&self, page: u64) -> usize {
        home_of(&self.layout, &self.home_of, page)
    }

    /// Whether nothing of it is of use any more.
    pub fn is_lost(&self) -> bool {
        self.pages.is_none() || (0..self.homes.len()).all(|home| self.sharing.is_lost(home))
    }

    /// Whether its page words are of no more use.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// All pages of some homes go, unsaved: this node was taken for lost, and they are not its own any more; or who maps them does not
    /// let go of them. Programs that touch one ask its home, and are refused; they are told that stores were lost, if any were. Says
    /// whether.
    pub fn drop_pages(&mut self, homes: &BTreeSet<usize>) -> bool {
        let mut has_lost = homes.iter().any(|at| !self.homes[*at].unsent.is_empty());
        let until = Instant::now() + FILL_MAX;
        let Some(pages) = &self.pages else { return false };
        let used: Vec<u64> = pages.used().into_iter().filter(|page| homes.contains(&self.home_of_page(*page))).collect();
        used.iter().for_each(|page| pages.let_fill_end(*page, until));
        let Some((rules, mut here)) = self.parts() else { return false };
        rules.forget(|page| homes.contains(&here.home_of(page)));
        for page in used {
            let home = here.home_of(Page(page));
            // Of this node's own memory the bytes stay where they are.
            let is_elsewhere = here.homes[home].memory.is_none();
            has_lost |= is_elsewhere && matches!(here.look(Page(page)).state(), Ok(State::Owned | State::TakingOwned));
            here.take(page..page + 1, Manner { home, keeps: false, wants_bytes: true });
            here.forget(Page(page));
        }
        if has_lost {
            // They find out at their next barrier, unlock, flush, unmap or detach.
            here.words.count(LOSS_SEAT, seat::LOST, 1);
        }
        has_lost
    }

    /// Lets go of all that a home that is back asks for: nobody here gets a page of it, and what this host owns goes there.
    /// Returns whether all are home, or on their way.
    pub fn hand_over(&mut self, home: usize, outputs: &mut Vec<HostOutput<PageBytes>>) -> bool {
        self.with_rules(|rules, here| rules.hand_over(here, home, outputs)).unwrap_or(true)
    }

    /// The home knows nothing of this host any more. It may be joined anew, by another name: what is still said to the host under
    /// its old one is not for what it becomes.
    pub fn begin_anew_with(&mut self, home: usize, key: u64) {
        let used = self.pages.as_ref().map(HostPages::used).unwrap_or_default();
        if let Some((rules, mut here)) = self.parts() {
            rules.forget(|page| here.home_of(page) == home);
            for page in used.into_iter().map(Page) {
                if here.home_of(page) == home {
                    here.forget(page);
                }
            }
        }
        let door = &mut self.homes[home];
        (door.key, door.memory) = (key, None);
        door.unsent.clear();
        door.peers.clear();
    }

    /// A home that is lost, or is one of these, and has not got all that programs here stored; any, where it is not known what they stored.
    pub fn unsaved(&self, lost: &[usize]) -> Option<NodeId> {
        if self.is_given_up {
            return self.homes.first().map(|door| door.node);
        }
        let is_owned = |page: u64| {
            let state = self.pages.as_ref().map(|pages| pages.words.look(page).state());
            matches!(state, Some(Ok(State::Owned | State::TakingOwned)))
        };
        let has_page = |home: usize| {
            let count = self.pages.as_ref().map_or(0, HostPages::count);
            (0..count).any(|page| is_owned(page) && self.home_of_page(page) == home)
        };
        let is_lost = |at: usize| self.sharing.is_lost(at) || lost.contains(&at);
        let lost = self.homes.iter().enumerate().filter(|(at, _)| is_lost(*at));
        lost.filter(|(at, door)| !door.unsent.is_empty() || has_page(*at)).map(|(_, door)| door.node).next()
    }

    /// Clients wrote nonsense into the words: the region is of no more use on this host. Nobody can say what was stored and is not at home: all
    /// programs are told that stores were lost, and their next touch of a page from elsewhere is an error.
    fn give_up(&mut self, corrupt: &Corrupt) {
        tracing::error!("region '{}' is given up on this host: {}", self.name, corrupt.0);
        self.is_given_up = true;
        let all: BTreeSet<usize> = (0..self.homes.len()).collect();
        let is_told = self.drop_pages(&all);
        if let Some(pages) = self.pages.take().filter(|_| !is_told) {
            pages.words.count(LOSS_SEAT, seat::LOST, 1);
        }
    }

    /// What happened to pages here.
    pub fn stat(&self) -> PageStat {
        let pages = self.pages.as_ref();
        let counted = |which| pages.map_or(0, |pages| pages.words.counted(NODE_SEATS..SEATS, which));
        let counters = pages.map(|pages| pages.counters).unwrap_or_default();
        PageStat {
            programs: self.clients.len() as u32,
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
            ..PageStat::new(self.gid, self.name.clone(), self.consistency)
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
