//! `Explicit` mappings: a plain pointer to a whole region on any node. A store is visible elsewhere after `flush` here and
//! `update` there; writers of different bytes of one page both survive.
//!
//! ```text
//! extents of this host      mapped as they are: stores are visible on this host at once. These extents stay where they are
//! all other pages           frames of this process, filled by the thread that touches them. Their extents may get copies, or move
//!
//! touch -> SIGBUS -> word: hold -> lane: get from the home -> frame -> mapped protected -> word: release
//! store -> SIGBUS -> word: hold -> twin := frame -> writable   -> word: release
//! flush: what differs from the twin goes home            update: pages that have changed at home are given up, dirty ones merged
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `mapping` | the mapping as the pool knows it |
//! | `bound` | bytes that are bound to locks, of `Entry` mappings |
//! | `carried` | stores that go home, and pages that come, with messages that are sent anyway |
//! | `direct` | pages of this host that are mapped as they are |
//! | `pager` | faults and eviction as steps on held pages |
//! | `sending` | flushes, in pieces or whole |
//! | `update` | which pages have changed at home; update as steps on held pages |
//! | `digests` | what is known of pages' clean bytes |
//! | `homes`, `message`, `answer` | requests to the nodes that hold the pages, written into a lane's room |
//! | `next_homes` | connections to the homes of today, and who is home later |
//! | `slots` | the limit on frames, and the clock |
//! | `twins` | the clean bytes of dirty pages, and which pages may be dirty |
//!
//! Changes of a page follow the state machine of `hanare_protocol::page::own_page`.
//!
//! # Why the frames are the process's own
//!
//! Several clients of a host could share frames, and save memory and fetches. But a store is in the frame before it is flushed. A killed
//! program would leave half an update there, in bytes that other programs take for the region's. With frames of its own a killed
//! process's unflushed stores vanish whole, and nobody waits for its pages.
//!
//! # What a program must know
//!
//! - Limits of mapped memory (`hanare_memory::fault`): system calls on absent pages fail with `EFAULT`. Commands of this library bring
//!   them first, and [`Explicit::touch`] does for a program's own calls. A thread that blocks SIGBUS dies of its first fault. Children
//!   made by fork have no mapping.
//! - Unflushed stores may become visible earlier: a page that makes room for another is sent home first. Where the region had copies when it was
//!   mapped it is not: such pages come on top of the frames. Stores that were neither flushed nor sent when the mapping is dropped, or the process dies, are gone.
//! - `flush` sends what differs from the clean bytes: a store of the value that was there is none.

mod answer;
mod bound;
mod carried;
mod digests;
mod direct;
mod homes;
mod mapping;
mod message;
mod next_homes;
mod pager;
mod sending;
mod slots;
mod twins;
mod update;

use super::address::MapAddress;
use super::options::MapOptions;
use super::orders::is_for_good;
use crate::client::attachment::{PageCounters, PageCounts, Shared};
use crate::client::region::Region;
use crate::client::repetition::{Breaks, Refusals, is_moving};
use crate::trace;
use carried::StoresUnderWay;
use direct::{DirectPages, map_direct};
use hanare_memory::fault::{self, Watch};
use hanare_memory::frames::Frames;
use hanare_memory::uffd::{Span, Uffd};
use hanare_memory::{Mapping, Window};
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::page::Streams;
use hanare_protocol::wire::control::{FilePart, Which};
use hanare_protocol::{Error, Result};
use hanare_ring::own_page::OwnPages;
use homes::Homes;
pub(crate) use mapping::SharedExplicit;
use pager::{Pager, Trouble};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Twins of clean pages stay while all twins take no more than this part of the frames.
const TWINS_KEPT_PART: u64 = 8;

/// Fewest frames: an instruction may touch two pages, and several threads run one each.
const FRAME_COUNT_MIN: u64 = 64;

/// A region behind one pointer, on any node. Unmapped when dropped; what was not flushed is gone then.
///
/// **Ownership**: the pointer is good as long as this lives. Any number of threads may use both; calls of `flush` and `update`
/// may run beside loads and stores. **Source**: [D2 §4, Table 1] dn_flush, dn_update.
///
/// FEATURE: D2-F4 D2-F7 EU-F12
pub struct Explicit {
    // Before the mapping: nobody resolves its faults any more when it goes.
    /// `None` where all pages are mapped as they are.
    pages: Option<PagerWatch>,
    under_way: StoresUnderWay,
    mapping: Mapping,
    name: Box<str>,
    len: usize,
    shared: Arc<Shared>,
    gid: Gid,
    rights: Rights,
    /// True if it had copies when it was mapped.
    is_whole: bool,
}

/// Work that was done again because homes were lost, or moved.
#[derive(Default)]
struct Retries {
    is_spent: bool,
    refusals: Refusals,
    breaks: Breaks,
}

/// The pages that lie in frames.
type PagerWatch = Watch<Pager>;

impl Explicit {
    /// Maps a region for what it was opened for.
    ///
    /// **Cost**: no byte of the region moves; a connection for each lane and each extent whose pages lie in frames.
    /// **Errors**: [`Error::System`] where a part is on other nodes and this kernel cannot map those, [`Error::NodeLost`],
    /// [`Error::BadSetting`].
    pub fn new(region: &Region) -> Result<Explicit> {
        Explicit::make(region, MapAddress::Usual, MapOptions::new, false)
    }

    /// [`Explicit::new`] with its limits.
    pub fn with(region: &Region, options: &MapOptions) -> Result<Explicit> {
        Explicit::make(region, MapAddress::Usual, || Ok(*options), false)
    }

    /// Makes a mapping. `keeps_dirty` is for bytes that are bound to locks. Then no page is mapped directly, and no store is sent before
    /// its release, so that those of a program that dies vanish whole.
    fn make(
        region: &Region,
        address: MapAddress,
        options: impl FnOnce() -> Result<MapOptions>,
        keeps_dirty: bool,
    ) -> Result<Explicit> {
        let name: Box<str> = region.name().into();
        let page_count = region.len().div_ceil(PAGE_LEN);
        let len = usize::try_from(region.len()).ok().filter(|_| page_count < u64::from(u32::MAX));
        let too_long = || Error::BadUse { region: name.to_string(), reason: "it is longer than a mapping can be".to_owned() };
        let len = len.ok_or_else(too_long)?;
        let frames = Frames::new("hanare-frames", page_count)?;
        let mut mapping = address.reserve(region)?;
        let whole = page_count * PAGE_LEN;
        mapping.map_file(0, frames.as_fd(), FilePart { offset: 0, len: whole, map_len: whole }, region.rights())?;
        // Plain stores to memory of this host would not reach copies.
        let is_whole = region.copies() > 1;
        let direct = if keeps_dirty || is_whole { DirectPages::default() } else { map_direct(region, &mut mapping)? };
        fault::withhold_from_children(&mapping)?;
        let framed: Vec<Range<u64>> = between(&direct.pages, page_count).collect();
        let pages = match framed.is_empty() {
            true => None,
            false => Some(watch(region, &framed, (direct, keeps_dirty, is_whole), Span::of(&mapping), frames, &options()?)?),
        };
        Ok(Explicit {
            pages,
            under_way: StoresUnderWay::default(),
            mapping,
            name,
            len,
            shared: region.shared.clone(),
            gid: region.gid(),
            rights: region.rights(),
            is_whole,
        })
    }

    /// The first byte's address: the one door to a raw pointer. Other threads and, where it lies on this host, other programs may
    /// change what it points to at any time.
    pub fn ptr(&self) -> *mut u8 {
        self.mapping.ptr()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: no region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The region's bytes, as long as this lives: for accesses that report lost pages.
    ///
    /// # Safety
    /// No copy of the window is used after this is dropped, nor written through where the region was opened for reading.
    pub unsafe fn window(&self) -> Window {
        // SAFETY: all of it is mapped; the rest is the caller's promise.
        unsafe { self.mapping.window() }.slice(0, self.len)
    }

    /// Reads through the mapping.
    ///
    /// **Cost**: a copy; a message each way for what is not here. **Errors**: [`Error::NodeLost`] where a page cannot be
    /// brought, which a plain load would die of; [`Error::OutOfRange`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let range = self.check(offset, into.len() as u64)?;
        let end = range.end.div_ceil(PAGE_LEN);
        self.by_pages(range, |page, at, window| {
            self.bring(page, end)?;
            window.read_into(&mut into[at..at + window.len()]).map_err(|_| self.lost(page))
        })
    }

    /// Writes through the mapping: visible elsewhere as a store is.
    ///
    /// **Errors**: as [`Explicit::read`]; the bytes of pages before the one that failed are written. [`Error::BadUse`] where the
    /// region was opened for reading.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let range = self.check(offset, bytes.len() as u64)?;
        self.check_rights(Rights::Write)?;
        let end = range.end.div_ceil(PAGE_LEN);
        self.by_pages(range, |page, at, window| {
            self.bring(page, end)?;
            window.write_from(&bytes[at..at + window.len()]).map_err(|_| self.lost(page))
        })
    }

    /// Has every page of a range mapped for reading, or for writing, so that a system call that is given its address does not
    /// fail with `EFAULT`. A range longer than the frames ([`MapOptions::frames_len`]) does not stay whole.
    ///
    /// **Cost**: as touching each page, one system call for each that is here already. **Errors**: as [`Explicit::write`].
    pub fn touch(&self, offset: u64, len: u64, rights: Rights) -> Result<()> {
        let range = self.check(offset, len)?;
        self.check_rights(rights)?;
        let access = if rights == Rights::Write { Access::Write } else { Access::Read };
        let mut pages = range.start / PAGE_LEN..range.end.div_ceil(PAGE_LEN);
        let Some(pager) = self.pages.as_deref() else { return Ok(()) };
        trace::slice_on("touch", &self.name, (offset, len), || {
            pages.try_for_each(|page| if pager.is_direct(page) { Ok(()) } else { self.serve(pager, page, access) })
        })
    }

    /// Brings the pages of a range from their homes, many at a time, and maps those that it brings for reading.
    ///
    /// **Cost**: a look at each page's word, and a message each way for each 64 pages. **Errors**: as [`Explicit::read`].
    pub fn bring_all(&self, offset: u64, len: u64) -> Result<()> {
        let range = self.check(offset, len)?;
        let end = range.end.div_ceil(PAGE_LEN);
        (range.start / PAGE_LEN..end).try_for_each(|page| self.bring(page, end))
    }

    /// Has `act` work on a range page by page: the page's number, where its bytes are in the caller's buffer, and the bytes.
    fn by_pages(&self, range: Range<u64>, mut act: impl FnMut(u64, usize, Window) -> Result<()>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let end = (at / PAGE_LEN + 1).saturating_mul(PAGE_LEN).min(range.end);
            // SAFETY: the window is gone when this returns, and writers have checked the rights.
            let window = unsafe { self.window() }.slice(at as usize, (end - at) as usize);
            act(at / PAGE_LEN, (at - range.start) as usize, window)?;
            at = end;
        }
        Ok(())
    }

    /// Brings a page from its home before a copy, if needed; those before `end` come along. A page that the copy does not get is lost for good.
    fn bring(&self, page: u64, end: u64) -> Result<()> {
        match self.pages.as_deref() {
            Some(pager) if !pager.is_here(page) => self.attempt(pager, page, || {
                let seen = &mut trace::Seen::default();
                pager.serve_until(page, Access::Read, end, seen)
            }),
            _ => Ok(()),
        }
    }

    /// Serves like a fault, but for the errors, and once more where the home can be reached again.
    fn serve(&self, pager: &Pager, page: u64, access: Access) -> Result<()> {
        self.attempt(pager, page, || pager.serve(page, access, &mut trace::Seen::default()))
    }

    fn attempt(&self, pager: &Pager, page: u64, serve: impl Fn() -> Result<(), Trouble>) -> Result<()> {
        let serve = || fault::undisturbed(&serve);
        let served = serve().or_else(|trouble| self.mend(pager).map_err(|_| trouble).and_then(|()| serve()));
        served.map_err(|trouble| pager.page_error(page, trouble))
    }

    /// True if its bytes have copies, or had some: their homes may be others at any moment.
    fn has_copies(&self) -> bool {
        self.pages.as_deref().is_some_and(|pager| pager.homes.moves())
    }

    /// Counts of its pages so far.
    pub fn counters(&self) -> PageCounts {
        self.pages.as_ref().map_or_else(PageCounts::default, |pages| pages.counters.read())
    }

    /// Works through the pages of a range, a part at a time; a part that failed once more, if the homes could be reached anew.
    fn each_part<W>(&self, offset: u64, len: u64, mut retries: Retries, work: W) -> Result<()>
    where
        W: Fn(&Pager, u64, u64) -> (u64, Result<()>),
    {
        let range = self.check(offset, len)?;
        let Some(pager) = self.pages.as_deref() else { return Ok(()) };
        let (mut page, end) = (range.start / PAGE_LEN, range.end.div_ceil(PAGE_LEN));
        let mut outcome = Ok(());
        while page < end {
            // The pager holds pages and a context: no handler of the program may run on this thread and touch them.
            let (next, mut done) = fault::undisturbed(|| work(pager, page, end));
            while let Err(error) = &done
                && self.may_repeat(pager, error, &mut retries)
            {
                done = fault::undisturbed(|| work(pager, page, next)).1;
            }
            if done.is_ok() && self.has_copies() {
                retries.breaks = Breaks::default();
            }
            outcome = outcome.and(done);
            page = next;
        }
        outcome
    }

    /// True if work that failed may be done again: once, if the homes are reached, and where grants were refused. The next home of bytes with
    /// copies has its time.
    #[cold]
    fn may_repeat(&self, pager: &Pager, error: &Error, retries: &mut Retries) -> bool {
        if pager.homes.moves() {
            return is_moving(error)
                && retries.breaks.may_repeat_moved()
                && !self.mend(pager).is_err_and(|error| is_for_good(&error));
        }
        let may_help = match error {
            Error::GrantRefused { .. } => retries.refusals.may_repeat(),
            _ => !std::mem::replace(&mut retries.is_spent, true),
        };
        may_help && self.mend(pager).is_ok()
    }

    /// Asks for the grants of today, and makes connections anew that broke: a node that was silent has them refused, or closed.
    #[cold]
    fn mend(&self, pager: &Pager) -> Result<()> {
        let view = self.shared.open(Which::Gid(self.gid), Some(self.rights))?;
        pager.homes.set(&view);
        let address = |node| view.nodes.iter().find(|at| at.node == node).map(|at| at.address.as_str());
        let place = |home| (pager.homes.node(home), address(pager.homes.node(home)));
        fault::undisturbed(|| pager.lanes.reconnect(&self.shared, place))
    }

    fn check(&self, offset: u64, len: u64) -> Result<Range<u64>> {
        let limit = self.len as u64;
        match offset.checked_add(len).filter(|end| *end <= limit) {
            Some(end) => Ok(offset..end),
            None => Err(Error::OutOfRange { region: self.name.to_string(), offset, len, limit }),
        }
    }

    fn check_rights(&self, wanted: Rights) -> Result<()> {
        if wanted == Rights::Write && self.rights != Rights::Write {
            let reason = "it was opened for reading; open it for writing to change it".to_owned();
            return Err(Error::BadUse { region: self.name.to_string(), reason });
        }
        Ok(())
    }

    #[cold]
    fn lost(&self, page: u64) -> Error {
        match &self.pages {
            Some(pages) => pages.lost(page),
            None => Error::RegionLost { region: self.name.to_string(), node: self.shared.node },
        }
    }
}

impl std::fmt::Debug for Explicit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Explicit").field("region", &self.name).field("len", &self.len).finish_non_exhaustive()
    }
}

/// Has faults of the `framed` pages resolved.
fn watch(
    region: &Region,
    framed: &[Range<u64>],
    (direct, keeps_dirty, is_whole): (DirectPages, bool, bool),
    span: Span,
    frames: Frames,
    options: &MapOptions,
) -> Result<PagerWatch> {
    let page_count = frames.page_count();
    let follows = next_homes::follows(region);
    let homes = Arc::new(Homes::new(region, &next_homes::is_used(region, framed), follows));
    let lanes = next_homes::connect(region, &homes, options, follows)?;
    let uffd = Uffd::open(options.features)?;
    for range in framed {
        // SAFETY: it is a mapping of the frames' file, and nobody has its address yet; later it is reached by the raw pointer
        // and by windows.
        unsafe { uffd.register(span.pages(range.start, range.end - range.start)) }?;
    }
    let framed_count = framed.iter().map(|range| range.end - range.start).sum();
    let limit = (options.frames_len / PAGE_LEN).max(FRAME_COUNT_MIN).min(framed_count);
    let pager = Pager {
        name: region.name().into(),
        len: region.len(),
        page_count,
        framed_count,
        direct: direct.extents,
        homes,
        span,
        uffd,
        frames,
        twins: twins::Twins::new(page_count, limit / TWINS_KEPT_PART)?,
        digests: digests::Digests::new(page_count)?,
        words: OwnPages::new(page_count)?,
        slots: slots::Slots::new(limit, page_count)?,
        streams: Streams::default(),
        lanes,
        counters: PageCounters::default(),
        keeps_dirty,
        has_sent: AtomicBool::new(false),
        is_whole,
        lines: Default::default(),
        faults: trace::Faults::of(region.name()),
    };
    // SAFETY: the mapping is given up after the watch, and by its owner's rule not used any more then.
    unsafe { fault::watch(span, pager) }
}

/// Gaps between ascending ranges of pages, up to `end`.
fn between(ranges: &[Range<u64>], end: u64) -> impl Iterator<Item = Range<u64>> {
    let starts = std::iter::once(0).chain(ranges.iter().map(|range| range.end));
    let ends = ranges.iter().map(|range| range.start).chain([end]);
    starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_is_all_the_rest() {
        let rest = |ranges: &[(u64, u64)]| {
            let ranges: Vec<Range<u64>> = ranges.iter().map(|(start, end)| *start..*end).collect();
            between(&ranges, 10).map(|range| (range.start, range.end)).collect::<Vec<_>>()
        };
        assert_eq!(rest(&[]), [(0, 10)]);
        assert_eq!(rest(&[(0, 2), (2, 4), (7, 10)]), [(4, 7)]);
        assert_eq!(rest(&[(1, 9)]), [(0, 1), (9, 10)]);
        assert_eq!(rest(&[(0, 10)]), []);
    }
}
