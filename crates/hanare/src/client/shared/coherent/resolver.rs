//! Reaction to a touch of a page, inside the signal handler.

use super::denied::{Asked, ClaimPatience, Claimed, Denials, Denied, Here};
use super::homes::PageHomes;
use crate::client::region::Region;
use crate::client::repetition::MOVE_MS;
use crate::client::shared::fault_contexts::{FaultContextGuard, FaultContexts, LANE_PAGE_COUNT};
use crate::client::shared::orders::FindHomes;
use crate::client::shared::report::Report;
use crate::trace::{Faults, Means, Seen};
use hanare_fabric::settings;
use hanare_memory::Mapping;
use hanare_memory::fault::{Resolve, Resolved};
use hanare_memory::frames::Frames;
use hanare_memory::uffd::{Refused, Span, Uffd};
use hanare_protocol::Result;
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::page::Streams;
use hanare_protocol::page::word::{Fault, State};
use hanare_protocol::wire::control::{FilePart, SharedView};
use hanare_ring::page_word::slot;
use hanare_ring::page_word::{COUNT_COUNT, PageWords, page_words_len};
use hanare_ring::words::Shared;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Pages of this host's own memory that are asked for at once, at first.
pub(super) const OWN_COUNT: u64 = 16;

/// The resolver of one mapping's faults.
pub(super) struct Resolver {
    pub(super) report: Report,
    pub(super) homes: Arc<PageHomes>,
    pub(super) gid: Gid,
    pub(super) words: PageWords<Shared>,
    /// Dropped after the words that lie in it.
    pub(super) _words_memory: Mapping,
    pub(super) frames: Frames,
    pub(super) frames_max: u64,
    pub(super) uffd: Uffd,
    pub(super) span: Span,
    pub(super) lanes: FaultContexts,
    /// For each slot of each lane, the page that it asked for ahead and that its node gets, plus 1.
    pub(super) ahead: Box<[AtomicU64]>,
    pub(super) slot_first: u16,
    pub(super) lanes_count: usize,
    /// Counts that the slots had before this mapping.
    pub(super) before: [u64; COUNT_COUNT],
    pub(super) rights: Rights,
    pub(super) bound: Duration,
    pub(super) streams: Streams,
    pub(super) filled: AtomicU64,
    /// The last page that could not be had, and why.
    pub(super) denials: Denials,
    /// Ring of faults for the timeline.
    pub(super) faults: Option<Faults>,
}

impl Resolver {
    pub(super) fn new(
        region: &Region,
        (homes, rights): (PageHomes, Rights),
        shared: &SharedView,
        words_file: OwnedFd,
        frames: Frames,
        (uffd, span): (Uffd, Span),
    ) -> Result<Resolver> {
        let attachment = &region.shared;
        let pages = frames.page_count();
        let len = page_words_len(pages, shared.slots).next_multiple_of(PAGE_LEN);
        let mut memory = Mapping::reserve(len)?;
        memory.map_file(0, words_file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write)?;
        // SAFETY: the memory is dropped after the words (field order), and no copy of the window leaves them.
        let words = PageWords::new(Shared::new(unsafe { memory.window() }), pages, shared.slots);
        let homes = Arc::new(homes);
        // A lane has a slot for each page of a message.
        let lanes = settings::fault_lanes()?.min(usize::from(shared.slot_count) / LANE_PAGE_COUNT).max(1);
        let slots = shared.slot_first..shared.slot_first + (lanes * LANE_PAGE_COUNT) as u16;
        let before = std::array::from_fn(|which| words.counted(slots.clone(), which));
        Ok(Resolver {
            lanes_count: lanes,
            before,
            report: Report::new(region.name()),
            gid: region.gid(),
            words,
            _words_memory: memory,
            frames,
            frames_max: shared.frames_max,
            uffd,
            span,
            lanes: FaultContexts::connect(attachment, homes.places(), homes.clone(), lanes)?,
            ahead: (0..lanes * LANE_PAGE_COUNT).map(|_| AtomicU64::new(0)).collect(),
            slot_first: shared.slot_first,
            rights,
            bound: attachment.bound,
            streams: Streams::default(),
            filled: AtomicU64::new(0),
            denials: Denials::default(),
            faults: Faults::of(region.name()),
            homes,
        })
    }

    /// The slot of a lane for page number `k` of its message.
    pub(super) fn slot(&self, lane: usize, k: usize) -> u16 {
        self.slot_first + (lane * LANE_PAGE_COUNT + k) as u16
    }

    /// Time for what others of this host, or its node, do to a page. A silent home of bytes with copies may be home no more.
    pub(super) fn patience(&self) -> Duration {
        if self.homes.moves() { (self.bound * 2).min(Duration::from_millis(MOVE_MS)) } else { self.bound * 2 }
    }

    pub(super) fn try_resolve(&self, page: u64, access: Access, seen: &mut Seen) -> Result<(), Denied> {
        let mut patience = ClaimPatience::new(self.patience());
        let (mut is_first, mut firm) = (true, false);
        loop {
            let mut lane = self.lanes.take();
            let slot = self.slot(lane.index(), 0);
            self.await_first_slot(slot, &mut lane, &mut patience)?;
            if std::mem::take(&mut is_first) {
                self.words.count(slot, slot::FAULTS, 1);
            }
            let asked = match self.words.fault(page, slot, access).map_err(|_| Denied::Here(Here::Damaged))? {
                Fault::Map(_) => return self.map_around(&lane, page, access, seen),
                Fault::Fetch { access: asks, .. } => {
                    self.fetch(&mut lane, Claimed { page, has: None, access: asks, firm }, access, seen)
                }
                Fault::Upgrade { has } => self.fetch(&mut lane, Claimed { page, has: Some(has), access, firm }, access, seen),
                Fault::Wait(word) => {
                    drop(lane);
                    seen.by(Means::Waited);
                    match self.doze(page, word, &mut patience) {
                        Err(denied) if !self.may_ask_again(self.lanes.take().tools(), &mut patience, &denied) => {
                            return Err(denied);
                        }
                        _ => continue,
                    }
                }
            };
            let outcome = match asked {
                Ok(Asked::Mapped) => return Ok(()),
                Ok(Asked::Again) => patience.check(),
                Ok(Asked::Overtaken) => {
                    firm = true;
                    patience.check()
                }
                Ok(Asked::Later) => {
                    // The slot says that the page is claimed until it came: the lane is kept.
                    self.words.count(slot, slot::WAITED, 1);
                    seen.by(Means::Waited);
                    self.await_claim(page, slot, &mut lane, &mut patience)
                }
                Err(denied) => Err(denied),
            };
            if let Err(denied) = outcome
                && !self.may_ask_again(lane.tools(), &mut patience, &denied)
            {
                return Err(denied);
            }
        }
    }

    /// Maps a page that is here. If a stream of faults goes on, it also maps pages behind it that are here in the same way.
    pub(super) fn map_around(
        &self,
        lane: &FaultContextGuard<'_>,
        page: u64,
        access: Access,
        seen: &mut Seen,
    ) -> Result<(), Denied> {
        // A counted slot keeps an owned page owned: a written page is mapped for stores to come, too.
        let is_stored_to = |page: u64| {
            let word = self.words.look(page);
            word.state() == Ok(State::Owned) && word.is_written()
        };
        let is_owned = is_stored_to(page) && self.rights == Rights::Write;
        let (touches, access) = (access, if is_owned { Access::Write } else { access });
        let stream = self.streams.find(page, 0);
        let end = (page + (1 + stream.ahead).min(LANE_PAGE_COUNT as u64)).min(self.frames.page_count());
        let mut count = 1;
        // A slot that still waits for what it asked for ahead says so until that has come.
        while page + count < end && self.is_slot_free(lane.index(), count as usize) {
            let slot = self.slot(lane.index(), count as usize);
            let is_same = is_stored_to(page + count) == is_owned || touches == Access::Write;
            if !is_same || !self.words.enter(page + count, slot, access).unwrap_or(false) {
                break;
            }
            count += 1;
        }
        self.streams.go_on(stream, page, page + count, None);
        seen.ahead = seen.ahead.max(count as u16 - 1);
        let mapped = self.map_run(page, count, access);
        for k in 0..count {
            self.leave(page + k, self.slot(lane.index(), k as usize));
        }
        mapped
    }

    /// Maps pages that slots of this lane are counted for (invariant 2).
    pub(super) fn map_run(&self, page: u64, count: u64, access: Access) -> Result<(), Denied> {
        match self.uffd.install(self.span.pages(page, count), access) {
            // Some are not in the file: they were taken as they came. Who touches them faults again.
            Ok(()) | Err(Refused::Absent) => Ok(()),
            // The kernel maps no run over a border of two files.
            Err(_) if count > 1 => (page..page + count).try_for_each(|page| self.map_run(page, 1, access)),
            Err(_) => Err(Denied::Here(Here::NotMapped)),
        }
    }

    pub(super) fn leave(&self, page: u64, slot: u16) {
        if let Ok(changed) = self.words.leave(page, slot) {
            self.wake(page, changed);
        }
    }
}

// SAFETY: the resolver keeps to invariant 1.
unsafe impl Resolve for Resolver {
    fn resolve(&self, page: u64, access: Access) -> Resolved {
        if access == Access::Write && self.rights < Rights::Write {
            return Resolved::Lost;
        }
        let begin = self.faults.as_ref().map(|_| Instant::now());
        let mut seen = Seen::default();
        let resolved = self.try_resolve(page, access, &mut seen);
        if let (Some(faults), Some(begin)) = (&self.faults, begin) {
            faults.note(begin, page, access, seen, resolved.is_err());
        }
        match resolved {
            Ok(()) => Resolved::Again,
            Err(denied) => {
                self.denials.note(page, &denied);
                match denied {
                    Denied::Here(Here::Ended | Here::NoMemory | Here::NotMapped | Here::Damaged) => {
                        self.report.lost_here(page, denied.words())
                    }
                    _ if self.homes.moves() => self.report.lost_by_all(page, denied.words()),
                    _ => self.report.lost(page, self.homes.node(self.homes.of(page)), denied.words()),
                }
            }
        }
    }
}
