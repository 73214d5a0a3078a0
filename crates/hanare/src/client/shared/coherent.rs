//! A coherent mapping of a region: a plain pointer behind which every page is where it is touched.
//!
//! The thread that faults looks at the page's word, which all programs of this host and their node share; where the page is
//! not here it asks the page's home itself, puts the answer into this host's frames, says so in the word, and maps the page.
//! What the home cannot grant at once comes to the node, which puts it there and wakes the thread.
//!
//! ```text
//! SIGBUS ── lane ── PageWords::fault ─┬─ Map ──────────────────────────────> map, leave
//!                                     ├─ Fetch, Upgrade ─ Want ──> home
//!                                     │     <── Granted ── fill, grant ────> map, leave; Settled ──> home
//!                                     │     <── Later ──── wait for the word ─> again
//!                                     └─ Wait ─ give the lane back, wait for the word ─> again
//! ```
//!
//! Neighbours come along: a stream of faults that goes on page after page asks for more and more of them, up to a lane's room, and
//! of this host's own memory, where no bytes move, a run is asked for from the beginning. A neighbour is asked for only where
//! nobody else has to be.
//!
//! Safety invariants of this module:
//!
//! 1. The resolver is async-signal-safe: atomics, a lane's tools, system calls; errno is kept by its caller.
//! 2. A page is mapped only while its word counts a seat of this lane ([`hanare_ring::page_word`]).
//! 3. Nobody makes a reference to the mapping's bytes.

use super::counters::{PageCounts, seat};
use super::endpoint::Broken;
use super::lanes::{LANE_PAGE_COUNT, LaneGuard, Lanes, Tools};
use super::report::Report;
use crate::client::mapping::map_piece;
use crate::client::pool::Shared as Attachment;
use crate::client::region::Region;
use crate::settings;
use hanare_memory::fault::{self, Resolve, Resolved, Watch};
use hanare_memory::frames::{Frames, Run};
use hanare_memory::uffd::{Features, Refused, Span, Uffd, WriteFaults};
use hanare_memory::{Mapping, Window};
use hanare_protocol::id::{Gid, NodeId, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Access, Consistency, Ticket, Version};
use hanare_protocol::place::Layout;
use hanare_protocol::wire::control::{Answer, FilePart, Request, SharedView};
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::wire::page::{GRANTED_LEN, Granted, Outcome, Settled, WANT_LEN, Want};
use hanare_protocol::{Error, Result};
use hanare_ring::page_word::word::{State, Word};
use hanare_ring::page_word::{COUNT_COUNT, Changed, Fault, Granted as Installed, PageWords, page_words_len};
use hanare_ring::wait::{Backoff, Step};
use hanare_ring::words::Shared;
use rustix::event::Timespec;
use rustix::thread::futex;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

/// Pages of this host's own memory that are asked for at once, at first.
const OWN_COUNT: u64 = 16;

/// Pages received before they are put into the frames, while the next ones arrive.
const FILL_COUNT: usize = 16;

/// Pages fetched between two looks at how many frames there are.
const CROWD_COUNT: u64 = 256;

/// How long a thread sleeps before it looks again by itself.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Streams of faults that are followed at a time.
const STREAM_COUNT: usize = 8;

/// A region mapped coherently by this program. The mapping ends when this is dropped.
pub(crate) struct Coherent {
    // Dropped first: nobody resolves faults of what is not mapped.
    watch: Option<Watch<Resolver>>,
    mapping: Option<Mapping>,
    gid: Gid,
    len: u64,
    attachment: Arc<Attachment>,
}

/// What resolves the faults of one mapping.
struct Resolver {
    report: Report,
    layout: Layout,
    /// For each extent, which home it is on.
    home_of: Box<[u16]>,
    homes: Box<[Home]>,
    /// Where homes, and this host's own node, are reached: a lane's connections, in order.
    doors: Box<[(NodeId, Box<str>)]>,
    /// The connection to this host's own node, among a lane's.
    own: usize,
    gid: Gid,
    words: PageWords<Shared>,
    /// Dropped after the words that lie in it.
    _words_memory: Mapping,
    frames: Frames,
    frames_max: u64,
    uffd: Uffd,
    span: Span,
    lanes: Lanes,
    /// For each lane, whether its next request is one that nothing overtakes.
    firm: Box<[AtomicBool]>,
    /// For each seat of each lane, the page that it asked for ahead and that its node gets, plus 1.
    ahead: Box<[AtomicU64]>,
    /// For each seat of each lane, the version of the copy that its request names, plus 1; else 0.
    versions: Box<[AtomicU64]>,
    seat_first: u16,
    lanes_count: usize,
    /// What the seats had counted for those who had them before.
    before: [u64; COUNT_COUNT],
    rights: Rights,
    bound: Duration,
    streams: [AtomicU64; STREAM_COUNT],
    /// Which stream is given up next.
    oldest: AtomicU64,
    filled: AtomicU64,
    /// Whether the last page that could not be had was lost with a host, its home being there.
    is_gone: AtomicBool,
}

struct Home {
    node: NodeId,
    share: u64,
    is_own: bool,
}

/// Why a page cannot be had.
enum Denied {
    /// Its home cannot be reached.
    Home(usize, Broken),
    /// Its newest bytes went with the host that had them.
    Gone,
    /// The host's own state is of no use, or nobody answered within the bound.
    Here(&'static str),
}

/// What became of a request.
enum Asked {
    /// It was granted, and is mapped; or has to be asked for again.
    Again,
    /// The node gets it.
    Later,
}

impl Coherent {
    /// Maps all of a region.
    ///
    /// **Errors**: [`Error::BadUse`] where it is mapped otherwise, or its memory is not made of small pages;
    /// [`Error::System`] where this kernel cannot.
    pub fn new(region: &Region) -> Result<Coherent> {
        let features = features()?;
        let attachment = region.shared.clone();
        if attachment.mapped.has_pointer(region.gid()) {
            let reason = "this program has a pointer to its memory as it is; unmap that first".to_owned();
            return Err(Error::BadUse { region: region.name().to_owned(), reason });
        }
        let view = region.fresh_view()?;
        let (gid, layout, rights) = (view.gid, view.layout.clone(), view.rights);
        let request = Request::Share { view, consistency: Consistency::Coherent };
        let (shared, mut fds) = match attachment.session.ask_with_fds(&request, Vec::new())? {
            (Answer::Shared(shared), fds) if fds.len() >= 2 => (shared, fds),
            (other, _) => return Err(attachment.session.nonsense(&other)),
        };
        // From here on the node is told when this fails or ends.
        let mut coherent = Coherent { watch: None, mapping: None, gid, len: layout.len(), attachment: attachment.clone() };
        let files = fds.split_off(2);
        let (frames_file, words_file) = (fds.pop().expect("two"), fds.pop().expect("two"));
        let pages = layout.len().div_ceil(PAGE_LEN);
        let frames = Frames::adopt(frames_file, pages)?;
        let mapping = map_all(&layout, &frames, &shared.files, files, rights)?;
        fault::withhold_from_children(&mapping)?;
        let uffd = Uffd::open(features, WriteFaults::Signal)?;
        let span = Span::of(&mapping);
        // SAFETY: nobody makes references to the bytes (invariant 3).
        unsafe { uffd.register(span) }?;
        let handed =
            rustix::io::fcntl_dupfd_cloexec(uffd.as_fd(), 0).map_err(hanare_memory::file::system("passing on a userfaultfd"))?;
        let resolver = Resolver::new(region, (layout, rights), &shared, words_file, frames, (uffd, span))?;
        // SAFETY: whole pages of the mapping, which is unmapped after the watch ends; by contract nobody touches it then.
        coherent.watch = Some(unsafe { fault::watch(span, resolver) }?);
        coherent.mapping = Some(mapping);
        let hold = Request::Hold { gid, start: span.start, len: span.len, features: features.bits().into() };
        match attachment.session.ask_with_fds(&hold, vec![handed])? {
            (Answer::Ok, _) => Ok(coherent),
            (other, _) => Err(attachment.session.nonsense(&other)),
        }
    }

    /// The first byte's address.
    pub fn ptr(&self) -> *mut u8 {
        self.mapping.as_ref().expect("mapped as long as this is there").ptr()
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The region's bytes.
    ///
    /// # Safety
    /// No copy of the window is used after this is dropped.
    pub unsafe fn window(&self) -> Window {
        // SAFETY: all of it is mapped; the caller promises the rest.
        unsafe { self.mapping.as_ref().expect("mapped as long as this is there").window() }.slice(0, self.len as usize)
    }

    /// What happened to its pages so far.
    pub fn counts(&self) -> PageCounts {
        let resolver = self.resolver();
        let seats = resolver.seat_first..resolver.seat_first + (resolver.lanes_count * LANE_PAGE_COUNT) as u16;
        let sum = |which| resolver.words.counted(seats.clone(), which).wrapping_sub(resolver.before[which]);
        PageCounts {
            faults: sum(seat::FAULTS),
            fetches: sum(seat::FETCHED),
            prefetched: sum(seat::PREFETCHED),
            upgrades: sum(seat::UPGRADED),
            waits: sum(seat::WAITED),
            ..PageCounts::default()
        }
    }

    /// What a guarded copy that lost a byte ends with.
    pub fn error(&self, region: &str, offset: u64) -> Error {
        let resolver = self.resolver();
        let node = resolver.homes[resolver.home_of(offset / PAGE_LEN)].node;
        match resolver.is_gone.load(Relaxed) {
            true => Error::RegionLost { region: region.to_owned(), node },
            false => Error::NodeLost { node, reason: format!("it did not give byte {offset} of region '{region}'") },
        }
    }

    /// Makes connections anew that broke: a home that was silent for too long may be back.
    pub fn mend(&self) {
        let resolver = self.resolver();
        let address = |node| resolver.doors.iter().find(|(known, _)| *known == node).map(|(_, address)| &**address);
        // A home that is not there is found missing by the next fault.
        let _ = fault::undisturbed(|| resolver.lanes.reconnect(&self.attachment, address));
    }

    /// A page is lost: from here on a touch of it is a wild one, never zeros.
    pub fn revoke(&self, offset: u64) {
        let page = self.ptr().wrapping_add((offset / PAGE_LEN * PAGE_LEN) as usize);
        // SAFETY: a page of the mapping, which nobody has a reference to; whoever touches it is told by SIGSEGV.
        let _ = unsafe { rustix::mm::mprotect(page.cast(), PAGE_LEN as usize, rustix::mm::MprotectFlags::empty()) };
    }

    fn resolver(&self) -> &Resolver {
        self.watch.as_ref().expect("watched as long as this is there")
    }
}

impl Drop for Coherent {
    fn drop(&mut self) {
        // Unmapped before the watch ends: a page that is touched after both is a wild pointer, not zeros.
        self.mapping = None;
        self.watch = None;
        let ended = self.attachment.session.ask(&Request::Unshare { gid: self.gid });
        if let Err(error) = ended {
            tracing::debug!("the end of a mapping was not told: {error}");
        }
    }
}

fn features() -> Result<Features> {
    let features = Features::probe()?;
    features.check()?;
    if !features.contains(Features::CONTINUE_PROTECTED) {
        return Err(Error::System {
            what: "map a region coherently".to_owned(),
            reason: "this kernel's userfaultfd cannot map a page of a file write-protected (Linux 6.4 can); map it explicit"
                .to_owned(),
        });
    }
    Ok(features)
}

/// Maps extents of this host's node as they are, all else from the frames.
fn map_all(
    layout: &Layout,
    frames: &Frames,
    parts: &[Option<Vec<FilePart>>],
    files: Vec<OwnedFd>,
    rights: Rights,
) -> Result<Mapping> {
    let mut files = files.into_iter();
    let mut own = Vec::new();
    for parts in parts {
        own.push(match parts {
            None => None,
            Some(parts) => Some(files.by_ref().zip(parts.iter().copied()).take(parts.len()).collect::<Vec<_>>()),
        });
    }
    let mut mapping = Mapping::reserve(layout.len())?;
    for piece in layout.pieces(0, layout.len()) {
        match own.get(piece.extent).and_then(Option::as_ref) {
            Some(files) => map_piece(&mut mapping, piece.at, piece.offset, piece.len, files, rights)?,
            None => {
                let part = FilePart { offset: piece.at, len: piece.len, map_len: piece.len.next_multiple_of(PAGE_LEN) };
                mapping.map_file(piece.at, frames.as_fd(), part, rights)?;
            }
        }
    }
    Ok(mapping)
}

impl Resolver {
    fn new(
        region: &Region,
        (layout, rights): (Layout, Rights),
        shared: &SharedView,
        words_file: OwnedFd,
        frames: Frames,
        (uffd, span): (Uffd, Span),
    ) -> Result<Resolver> {
        let attachment = &region.shared;
        let pages = frames.page_count();
        let len = page_words_len(pages, shared.seats).next_multiple_of(PAGE_LEN);
        let mut memory = Mapping::reserve(len)?;
        memory.map_file(0, words_file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write)?;
        // SAFETY: the memory is dropped after the words (field order), and no copy of the window leaves them.
        let words = PageWords::new(Shared::new(unsafe { memory.window() }), pages, shared.seats);
        let here = attachment.attached.node;
        let homes: Box<[Home]> =
            shared.homes.iter().map(|home| Home { node: home.node, share: home.share, is_own: home.node == here }).collect();
        let home_of = |node: NodeId| homes.iter().position(|home| home.node == node).map(|at| at as u16);
        let home_of: Option<Box<[u16]>> = layout.extents().map(|extent| home_of(extent.node)).collect();
        let garbage =
            || Error::Garbage { peer: "this host's node".to_owned(), reason: "homes that are not the region's".to_owned() };
        let mut doors: Vec<(NodeId, &str)> = shared.homes.iter().map(|home| (home.node, home.address.as_str())).collect();
        let own = doors.iter().position(|(node, _)| *node == here).unwrap_or_else(|| {
            doors.push((here, &shared.address));
            doors.len() - 1
        });
        // A lane has a seat for each page of a message.
        let lanes = settings::fault_lanes()?.min(usize::from(shared.seat_count) / LANE_PAGE_COUNT).max(1);
        let seats = shared.seat_first..shared.seat_first + (lanes * LANE_PAGE_COUNT) as u16;
        let before = std::array::from_fn(|which| words.counted(seats.clone(), which));
        Ok(Resolver {
            lanes_count: lanes,
            before,
            report: Report::new(region.name()),
            home_of: home_of.ok_or_else(garbage)?,
            doors: doors.iter().map(|(node, address)| (*node, Box::from(*address))).collect(),
            own,
            gid: region.gid(),
            words,
            _words_memory: memory,
            frames,
            frames_max: shared.frames_max,
            uffd,
            span,
            lanes: Lanes::connect(attachment, &doors, lanes)?,
            firm: (0..lanes).map(|_| AtomicBool::new(false)).collect(),
            versions: (0..lanes * LANE_PAGE_COUNT).map(|_| AtomicU64::new(0)).collect(),
            ahead: (0..lanes * LANE_PAGE_COUNT).map(|_| AtomicU64::new(0)).collect(),
            seat_first: shared.seat_first,
            rights,
            bound: attachment.bound,
            streams: Default::default(),
            oldest: AtomicU64::new(0),
            filled: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
            homes,
            layout,
        })
    }

    /// The seat of a lane for page number `k` of its message.
    fn seat(&self, lane: usize, k: usize) -> u16 {
        self.seat_first + (lane * LANE_PAGE_COUNT + k) as u16
    }

    fn home_of(&self, page: u64) -> usize {
        let extent = self.layout.pieces(page * PAGE_LEN, 1).next().map_or(0, |piece| piece.extent);
        usize::from(self.home_of[extent])
    }

    fn try_resolve(&self, page: u64, access: Access) -> Result<(), Denied> {
        let mut patience = Patience::new(self.bound * 2);
        let mut is_first = true;
        loop {
            let mut lane = self.lanes.take();
            let seat = self.seat(lane.index(), 0);
            if std::mem::take(&mut is_first) {
                self.words.count(seat, seat::FAULTS, 1);
            }
            let asked = match self.words.fault(page, seat, access).map_err(|_| Denied::Here("its page words are damaged"))? {
                Fault::Map(_) => return self.map_around(&lane, page, access),
                Fault::Fetch { .. } => self.fetch(&mut lane, page, access, None)?,
                Fault::Upgrade { has } => self.fetch(&mut lane, page, access, Some(has))?,
                Fault::Wait(seen) => {
                    drop(lane);
                    self.doze(page, seen, &mut patience)?;
                    continue;
                }
            };
            match asked {
                Asked::Again => patience.check()?,
                Asked::Later => {
                    // The seat says that the page is claimed until it came: the lane is kept.
                    self.words.count(seat, seat::WAITED, 1);
                    self.await_claim(page, seat, &mut patience)?;
                }
            }
        }
    }

    /// Maps a page that is here, and behind it, where a stream of faults goes on, pages that are here in the same way.
    fn map_around(&self, lane: &LaneGuard<'_>, page: u64, access: Access) -> Result<(), Denied> {
        // As long as the seat is counted an owned page stays owned: it is mapped for stores to come, too.
        let is_owned = self.words.look(page).state() == Ok(State::Owned) && self.rights == Rights::Write;
        let access = if is_owned { Access::Write } else { access };
        let end = (page + 1 + self.window(page, false).0).min(self.frames.page_count());
        let mut count = 1;
        while page + count < end {
            let seat = self.seat(lane.index(), count as usize);
            let is_same = (self.words.look(page + count).state() == Ok(State::Owned)) == is_owned;
            if !is_same || !self.words.enter(page + count, seat, access).unwrap_or(false) {
                break;
            }
            count += 1;
        }
        let mapped = self.map_run(page, count, access);
        for k in 0..count {
            self.leave(page + k, self.seat(lane.index(), k as usize));
        }
        mapped
    }

    /// Maps pages that seats of this lane are counted for (invariant 2).
    fn map_run(&self, page: u64, count: u64, access: Access) -> Result<(), Denied> {
        match self.uffd.install(self.span.pages(page, count), access) {
            // Some are not in the file: they were taken as they came. Who touches them faults again.
            Ok(()) | Err(Refused::Absent) => Ok(()),
            // The kernel maps no run over a border of two files.
            Err(_) if count > 1 => (page..page + count).try_for_each(|page| self.map_run(page, 1, access)),
            Err(_) => Err(Denied::Here("the kernel would not map it")),
        }
    }

    fn leave(&self, page: u64, seat: u16) {
        if let Ok(changed) = self.words.leave(page, seat) {
            self.wake(page, changed);
        }
    }

    /// Asks the home of a page that this seat claimed, and for neighbours.
    fn fetch(&self, lane: &mut LaneGuard<'_>, page: u64, access: Access, has: Option<Version>) -> Result<Asked, Denied> {
        let (index, home) = (lane.index(), self.home_of(page));
        let (extra, is_stream) = self.window(page, self.homes[home].is_own);
        let tools = lane.tools();
        tools.numbers[0] = page;
        self.versions[index * LANE_PAGE_COUNT].store(packed(has), Relaxed);
        let mut wanted = 1;
        while (wanted as u64) <= extra && wanted < LANE_PAGE_COUNT && self.is_seat_free(index, wanted) {
            let next = page + wanted as u64;
            if next >= self.frames.page_count() || self.home_of(next) != home {
                break;
            }
            let Some(has) = self.claim(next, self.seat(index, wanted), access) else { break };
            self.versions[index * LANE_PAGE_COUNT + wanted].store(packed(has), Relaxed);
            tools.numbers[wanted] = next;
            wanted += 1;
        }
        let exchanged = self.exchange(tools, index, (home, wanted), access, is_stream);
        if exchanged.is_err() {
            for k in 0..wanted {
                self.fail(tools.numbers[k], self.seat(index, k));
            }
        }
        exchanged.map_err(|broken| Denied::Home(home, broken))?;
        let seat = self.seat(index, 0);
        self.words.count(seat, if has.is_some() { seat::UPGRADED } else { seat::FETCHED }, wanted as u64);
        self.words.count(seat, seat::PREFETCHED, wanted as u64 - 1);
        let outcome = self.take_in(tools, index, (home, wanted))?;
        self.look_at_crowd(tools, wanted as u64);
        Ok(outcome)
    }

    /// Claims a neighbour that is not here in that way; returns the version of the copy that is.
    fn claim(&self, page: u64, seat: u16, access: Access) -> Option<Option<Version>> {
        let is_wanted = match self.words.look(page).state() {
            Ok(State::Absent) => true,
            Ok(State::Shared) => access == Access::Write,
            _ => false,
        };
        if !is_wanted {
            return None;
        }
        match self.words.fault(page, seat, access) {
            Ok(Fault::Fetch { .. }) => Some(None),
            Ok(Fault::Upgrade { has }) => Some(Some(has)),
            Ok(Fault::Map(_)) => {
                self.leave(page, seat);
                None
            }
            Ok(Fault::Wait(_)) | Err(_) => None,
        }
    }

    /// Whether what a seat asked for ahead has come, so that it can ask again.
    fn is_seat_free(&self, lane: usize, k: usize) -> bool {
        let ahead = &self.ahead[lane * LANE_PAGE_COUNT + k];
        let Some(page) = ahead.load(Relaxed).checked_sub(1) else { return true };
        let is_open = self.is_claimed_by(page, self.seat(lane, k));
        if !is_open {
            ahead.store(0, Relaxed);
        }
        !is_open
    }

    fn is_claimed_by(&self, page: u64, seat: u16) -> bool {
        let word = self.words.look(page);
        let is_open =
            matches!(word.state(), Ok(State::Fetching | State::FetchingWrite | State::Upgrading | State::TakingUpgrade));
        is_open && word.claimer() == seat
    }

    /// Sends the request for the pages in `numbers`, and receives the records of the answer; the pages are still to come.
    fn exchange(
        &self,
        tools: &mut Tools,
        lane: usize,
        (home, count): (usize, usize),
        access: Access,
        is_stream: bool,
    ) -> Result<(), Broken> {
        for k in 0..count {
            let seat = self.seat(lane, k);
            let ticket = Ticket { seat, number: self.words.next_number(seat) };
            let has = unpacked(self.versions[lane * LANE_PAGE_COUNT + k].load(Relaxed));
            // Where a stream of faults goes on, others give up what it will touch next, too.
            let (firm, tries) = (k == 0 && self.firm[lane].load(Relaxed), k > 0 && !is_stream);
            let want = Want { page: tools.numbers[k], ticket, access, has, firm, tries };
            tools.message[k * WANT_LEN..(k + 1) * WANT_LEN].copy_from_slice(&want.encode());
        }
        tools.seq += 1;
        let body_len = (count * WANT_LEN) as u64;
        let head = Head { count: count as u32, body_len, detail: self.homes[home].share, ..Head::new(Kind::Want, tools.seq) };
        let endpoint = &tools.endpoints[home];
        endpoint.send(&[&head.encode(), &tools.message[..count * WANT_LEN]])?;
        let head = endpoint.receive_head(tools.seq)?;
        let records_len = (count * GRANTED_LEN) as u64;
        let pages_len =
            head.body_len.checked_sub(records_len).filter(|len| len % PAGE_LEN == 0 && *len <= count as u64 * PAGE_LEN);
        let (Kind::Granted, Some(pages_len), true) = (head.kind, pages_len, head.count as usize == count) else {
            return Err(endpoint.give_up(Broken::Nonsense));
        };
        endpoint.receive(&mut tools.operands[..count * GRANTED_LEN])?;
        let mut with_bytes = 0;
        for record in tools.operands[..count * GRANTED_LEN].as_chunks().0 {
            let granted = Granted::decode(record).map_err(|_| endpoint.give_up(Broken::Nonsense))?;
            with_bytes += u64::from(granted.has_bytes);
        }
        if with_bytes * PAGE_LEN == pages_len { Ok(()) } else { Err(endpoint.give_up(Broken::Nonsense)) }
    }

    /// Puts what was granted in its place, and maps it.
    fn take_in(&self, tools: &mut Tools, lane: usize, (home, count): (usize, usize)) -> Result<Asked, Denied> {
        if let Err(denied) = self.receive_pages(tools, (home, count)) {
            // What was granted goes to the node, which the home finds to talk to when this connection ends.
            tools.endpoints[home].give_up(Broken::Closed);
            (0..count).for_each(|k| self.fail(tools.numbers[k], self.seat(lane, k)));
            return Err(denied);
        }
        let (mut settled, mut first, mut is_void) = (0, Ok(Asked::Again), false);
        for k in 0..count {
            let (page, seat) = (tools.numbers[k], self.seat(lane, k));
            let granted = decode(&tools.operands, k);
            let ticket = Ticket { seat, number: self.words.number(seat) };
            let access = match granted.outcome {
                Outcome::Read => Access::Read,
                Outcome::Write => Access::Write,
                Outcome::Later => {
                    match k {
                        0 => first = Ok(Asked::Later),
                        _ => self.ahead[lane * LANE_PAGE_COUNT + k].store(page + 1, Relaxed),
                    }
                    continue;
                }
                other => {
                    self.fail(page, seat);
                    if k == 0 && other == Outcome::Lost {
                        first = Err(Denied::Gone);
                    }
                    continue;
                }
            };
            if granted.firm {
                let done = Settled { page, ticket, version: granted.version };
                tools.message[settled * WANT_LEN..(settled + 1) * WANT_LEN].copy_from_slice(&done.encode());
                settled += 1;
            }
            match self.words.grant(page, seat, granted.version, access) {
                Ok(Installed::Here(changed)) => self.wake(page, changed),
                // An invalidation was faster: the next request is one that nothing overtakes.
                Ok(Installed::Void) => {
                    is_void |= k == 0;
                    if granted.has_bytes {
                        let _ = self.frames.punch(Run::one(page));
                    }
                    self.fail(page, seat);
                }
                Ok(Installed::Gone) => {}
                Err(_) => first = Err(Denied::Here("its page words are damaged")),
            }
        }
        self.firm[lane].store(is_void, Relaxed);
        if settled > 0 {
            let (body_len, detail) = ((settled * WANT_LEN) as u64, self.homes[home].share);
            let head = Head { count: settled as u32, body_len, detail, ..Head::new(Kind::Settled, 0) };
            let sent = tools.endpoints[home].send(&[&head.encode(), &tools.message[..settled * WANT_LEN]]);
            sent.map_err(|broken| Denied::Home(home, broken))?;
        }
        self.map_granted(tools, lane, count)?;
        first
    }

    /// Receives the pages that come along, and puts them into the frames, some while the others are on their way.
    fn receive_pages(&self, tools: &mut Tools, (home, count): (usize, usize)) -> Result<(), Denied> {
        let mut k = 0;
        while k < count {
            if !decode(&tools.operands, k).has_bytes {
                k += 1;
                continue;
            }
            let first = k;
            while k < count && k - first < FILL_COUNT && decode(&tools.operands, k).has_bytes {
                k += 1;
            }
            let run = Run { first: tools.numbers[first], count: (k - first) as u64 };
            let bytes = &mut tools.pages[..run.len_bytes()];
            tools.endpoints[home].receive(bytes).map_err(|broken| Denied::Home(home, broken))?;
            self.frames.fill(run, bytes).map_err(|_| Denied::Here("this host has no memory for it"))?;
            self.filled.fetch_add(run.count, Relaxed);
        }
        Ok(())
    }

    /// Maps what was granted, in runs of pages that may be used in the same way.
    fn map_granted(&self, tools: &Tools, lane: usize, count: usize) -> Result<(), Denied> {
        let access = |k: usize| match decode(&tools.operands, k).outcome {
            Outcome::Read => Some(Access::Read),
            Outcome::Write => Some(Access::Write),
            _ => None,
        };
        let enter = |k: usize, access| self.words.enter(tools.numbers[k], self.seat(lane, k), access).unwrap_or(false);
        let mut k = 0;
        while k < count {
            let Some(same) = access(k).filter(|access| enter(k, *access)) else {
                k += 1;
                continue;
            };
            let first = k;
            k += 1;
            while k < count && access(k) == Some(same) && enter(k, same) {
                k += 1;
            }
            let mapped = self.map_run(tools.numbers[first], (k - first) as u64, same);
            for at in first..k {
                self.leave(tools.numbers[at], self.seat(lane, at));
            }
            mapped?;
            // The one that would not be entered is passed over.
            k += usize::from(k < count && access(k) == Some(same));
        }
        Ok(())
    }

    /// Now and then: the node is told when the frames are more than they may be.
    fn look_at_crowd(&self, tools: &mut Tools, count: u64) {
        let before = self.filled.load(Relaxed);
        if before / CROWD_COUNT == before.saturating_sub(count) / CROWD_COUNT {
            return;
        }
        if self.frames.present_count().is_ok_and(|present| present > self.frames_max) {
            let head = Head { detail: self.gid.0, ..Head::new(Kind::Crowded, 0) };
            // Where it cannot be told, the node is gone, and so is the region soon.
            let _ = tools.endpoints[self.own].send(&[&head.encode()]);
        }
    }

    /// How many pages behind `page` to ask for, and whether a stream of faults goes on there: then twice as many as before.
    fn window(&self, page: u64, is_own: bool) -> (u64, bool) {
        const WINDOW_BITS: u32 = 8;
        let most = LANE_PAGE_COUNT as u64 - 1;
        for stream in &self.streams {
            let seen = stream.load(Relaxed);
            if seen != 0 && seen >> WINDOW_BITS == page {
                let window = ((seen & ((1 << WINDOW_BITS) - 1)) * 2 + 1).min(most);
                stream.store((page + 1 + window) << WINDOW_BITS | window, Relaxed);
                return (window, true);
            }
        }
        let window = if is_own { OWN_COUNT - 1 } else { 0 };
        let oldest = self.oldest.fetch_add(1, Relaxed) as usize % STREAM_COUNT;
        self.streams[oldest].store((page + 1 + window) << WINDOW_BITS | window, Relaxed);
        (window, false)
    }

    fn fail(&self, page: u64, seat: u16) {
        if let Ok(changed) = self.words.fail(page, seat) {
            self.wake(page, changed);
        }
    }

    /// The word on which threads wait for a page: the low half of its word.
    fn futex(&self, page: u64) -> &AtomicU32 {
        let window = self.words.memory().window(self.words.at(page) * 8, 4);
        // SAFETY: a word of memory that lives as long as this, at its boundary; it is touched by atomics only.
        unsafe { AtomicU32::from_ptr(window.ptr().cast()) }
    }

    fn wake(&self, page: u64, changed: Changed) {
        if changed.wakes {
            let _ = futex::wake(self.futex(page), futex::Flags::empty(), i32::MAX as u32);
        }
    }

    /// Waits until a page's word is another than `seen`.
    fn doze(&self, page: u64, seen: Word, patience: &mut Patience) -> Result<(), Denied> {
        let mut backoff = Backoff::new();
        loop {
            let now = self.words.look(page);
            if now.state() != seen.state() || now.claimer() != seen.claimer() || now.version() != seen.version() {
                return Ok(());
            }
            if backoff.step() == Step::Park {
                patience.check()?;
                if let Some(value) = self.words.doze(page, now) {
                    let _ = futex::wait(self.futex(page), futex::Flags::empty(), value, Some(&NAP));
                }
                return Ok(());
            }
        }
    }

    /// Waits until what this seat claimed has come, or has failed.
    fn await_claim(&self, page: u64, seat: u16, patience: &mut Patience) -> Result<(), Denied> {
        loop {
            if !self.is_claimed_by(page, seat) {
                return Ok(());
            }
            let now = self.words.look(page);
            if let Err(denied) = self.doze(page, now, patience) {
                self.fail(page, seat);
                return Err(denied);
            }
        }
    }
}

fn packed(version: Option<Version>) -> u64 {
    version.map_or(0, |version| u64::from(version.0) + 1)
}

fn unpacked(version: u64) -> Option<Version> {
    version.checked_sub(1).map(|version| Version(version as u32))
}

fn decode(operands: &[u8], k: usize) -> Granted {
    let record = operands[k * GRANTED_LEN..].first_chunk().expect("as many as were received");
    Granted::decode(record).unwrap_or(Granted::without(Outcome::Full))
}

/// How long a fault may go on.
struct Patience {
    since: Option<Instant>,
    bound: Duration,
    tries: u32,
}

impl Patience {
    fn new(bound: Duration) -> Patience {
        Patience { since: None, bound, tries: 0 }
    }

    /// Looks at the clock now and then.
    fn check(&mut self) -> Result<(), Denied> {
        self.tries = self.tries.wrapping_add(1);
        if self.tries > 1 && self.since.get_or_insert_with(Instant::now).elapsed() > self.bound {
            return Err(Denied::Here("it did not come within HANARE_ANSWER_MS, twice"));
        }
        Ok(())
    }
}

// SAFETY: the resolver keeps to invariant 1.
unsafe impl Resolve for Resolver {
    fn resolve(&self, page: u64, access: Access) -> Resolved {
        if access == Access::Write && self.rights < Rights::Write {
            return Resolved::Lost;
        }
        let resolved = self.try_resolve(page, access);
        if let Err(denied) = &resolved {
            self.is_gone.store(matches!(denied, Denied::Gone), Relaxed);
        }
        match resolved {
            Ok(()) => Resolved::Again,
            Err(Denied::Home(home, broken)) => self.report.lost(page, self.homes[home].node, broken.words()),
            Err(Denied::Gone) => {
                self.report.lost(page, self.homes[self.home_of(page)].node, "its newest bytes went with the host that had it")
            }
            Err(Denied::Here(why)) => self.report.lost(page, self.homes[self.home_of(page)].node, why),
        }
    }
}
