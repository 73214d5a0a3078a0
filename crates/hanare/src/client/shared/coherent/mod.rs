//! A coherent mapping of a region: a plain pointer behind which every page is where it is touched.
//!
//! A thread that faults looks at the page's word, which all programs of this host and their node share. If the page is absent, the thread
//! asks the page's home itself. It puts the reply into this host's frames, says so in the word, and maps the page. A page that the home
//! cannot grant at once comes to the node, which puts it there and wakes the thread.
//!
//! ```text
//! SIGBUS ── lane ── PageWords::fault ─┬─ Map ──────────────────────────────> map, leave
//!                                     ├─ Fetch, Upgrade ─ Request ──> home
//!                                     │     <── Granted ── fill, grant ────> map, leave; Settled ──> home
//!                                     │     <── Later ──── wait for the word ─> again
//!                                     └─ Wait ─ give the lane back, wait for the word ─> again
//! ```
//!
//! Neighbours come along. A stream of faults that goes on page after page asks for more and more of them, up to a context's room. Pages
//! that others have to give up come to the node, and the thread goes on. A run of this host's own memory, where no bytes move, is asked for
//! at once, as far as nobody else has it.
//!
//! | module | holds |
//! |---|---|
//! | `resolver` | what to do about a touch |
//! | `fetch` | asking a home, and taking in what it grants |
//! | `denied` | how asking ends |
//! | `homes` | the homes, and the next one of a region with copies |
//! | `wait` | waiting for what others of this host do to a page |
//!
//! Safety invariants of this module:
//!
//! 1. The resolver is async-signal-safe: atomics, a lane's tools, system calls; errno is kept by its caller.
//! 2. A page is mapped only while its word counts a slot of this lane ([`hanare_ring::page_word`]).
//! 3. References to the mapping's bytes do not exist.

mod denied;
mod fetch;
mod homes;
mod resolver;
mod wait;

use crate::client::attachment::{CopiedStores, MappedRegion, PageCounts, Shared as Attachment};
use crate::client::mapping::map_piece;
use crate::client::region::Region;
use crate::client::repetition::{Breaks, is_moving};
use crate::client::shared::MapAddress;
use crate::client::shared::fault_contexts::LANE_PAGE_COUNT;
use crate::client::shared::not_given;
use crate::client::shared::orders::FindHomes;
use denied::{Denied, Here};
use hanare_fabric::settings;
use hanare_memory::fault::{self, Watch};
use hanare_memory::fork::Lineage;
use hanare_memory::frames::Frames;
use hanare_memory::uffd::{Span, Uffd};
use hanare_memory::{Mapping, Window, vector};
use hanare_protocol::element::Operator;
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Access, Consistency};
use hanare_protocol::placement::Layout;
use hanare_protocol::wire::control::{Answer, FilePart, Request};
use hanare_protocol::{Error, Result};
use hanare_ring::page_word::{LOSS_SLOT, slot};
use homes::PageHomes;
use resolver::Resolver;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A region mapped coherently by this program. The mapping ends when this is dropped.
pub(crate) struct Coherent {
    // Dropped first: nobody resolves faults of what is not mapped.
    watch: Option<Watch<Resolver>>,
    mapping: Option<Mapping>,
    gid: Gid,
    name: String,
    len: u64,
    rights: Rights,
    /// Count of lost stores of programs of this host when it was made.
    lost_before: u64,
    /// True if the node knows of its end.
    is_told: bool,
    /// The life of the node that knows of it.
    life: u64,
    attachment: Arc<Attachment>,
    lineage: Lineage,
}

impl Coherent {
    /// Maps all of a region.
    ///
    /// Memory of this host's node is mapped directly.
    ///
    /// **Errors**: [`Error::BadUse`] if it is mapped otherwise, or its memory is not made of small pages. The same for copies of several
    /// extents. [`Error::System`] if this kernel cannot: before Linux 6.4.
    pub fn new(region: &Region, address: MapAddress) -> Result<Coherent> {
        let mut breaks = Breaks::default();
        loop {
            match Coherent::make(region, address) {
                // The home is lost at this moment.
                Err(error) if region.copies() > 1 && is_moving(&error) && breaks.may_repeat_moved() => {}
                made => return made,
            }
        }
    }

    fn make(region: &Region, address: MapAddress) -> Result<Coherent> {
        let features = settings::userfaultfd()?;
        features.check_coherent()?;
        let attachment = region.shared.clone();
        if attachment.mapped.has_pointer(region.gid()) {
            let reason = "this program has a pointer to its memory as it is; unmap that first".to_owned();
            return Err(Error::BadUse { region: region.name().to_owned(), reason });
        }
        let view = region.fresh_view()?;
        let (gid, layout, rights) = (view.gid, view.layout.clone(), view.rights);
        let (asked, consistency) = (view.clone(), Consistency::Coherent);
        let request = match view.copies > 1 {
            true => Request::ShareFollowing { view: asked, consistency },
            false => Request::Share { view: asked, consistency },
        };
        let life = attachment.life();
        let (shared, mut fds) = match life.session.ask_with_fds(&request, Vec::new())? {
            (Answer::Shared(shared), fds) if fds.len() >= 2 => (shared, fds),
            (other, _) => return Err(attachment.nonsense(&other)),
        };
        // From here on the node is told when this fails or ends.
        let (len, name, attached, lineage) = (layout.len(), region.name().to_owned(), attachment.clone(), Lineage::here());
        let (watch, mapping, lost_before, is_told, number) = (None, None, 0, false, life.number);
        let mut coherent = Coherent {
            watch,
            mapping,
            gid,
            name,
            len,
            rights,
            lost_before,
            is_told,
            life: number,
            attachment: attached,
            lineage,
        };
        let files = fds.split_off(2);
        let (frames_file, words_file) = (fds.pop().expect("two"), fds.pop().expect("two"));
        let pages = layout.len().div_ceil(PAGE_LEN);
        let frames = Frames::adopt(frames_file, pages)?;
        let mapping = map_all(address.reserve(region)?, &layout, &frames, (&shared.files, files), rights)?;
        fault::withhold_from_children(&mapping)?;
        let uffd = Uffd::open(features)?;
        let span = Span::of(&mapping);
        // SAFETY: nobody makes references to the bytes (invariant 3).
        unsafe { uffd.register(span) }?;
        let handed =
            rustix::io::fcntl_dupfd_cloexec(uffd.as_fd(), 0).map_err(hanare_memory::file::system("passing on a userfaultfd"))?;
        let homes = PageHomes::new(region, &view, &shared, life.number)?;
        let resolver = Resolver::new(region, (homes, rights), &shared, words_file, frames, (uffd, span))?;
        coherent.lost_before = losses(&resolver);
        // SAFETY: whole pages of the mapping, which is unmapped after the watch ends; by contract nobody touches it then.
        coherent.watch = Some(unsafe { fault::watch(span, resolver) }?);
        coherent.mapping = Some(mapping);
        let hold = Request::Hold { gid, start: span.start, len: span.len, features: features.bits().into() };
        match life.session.ask_with_fds(&hold, vec![handed])? {
            (Answer::Ok, _) => Ok(coherent),
            (other, _) => Err(attachment.nonsense(&other)),
        }
    }

    /// Some of the region's bytes, for accesses of a call.
    fn slice(&self, offset: u64, len: u64) -> Result<Window> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Error::OutOfRange { region: self.name.clone(), offset, len, limit: self.len });
        }
        // SAFETY: the window is used within calls that borrow this.
        Ok(unsafe { self.window() }.slice(offset as usize, len as usize))
    }

    /// Brings pages of a range at once. A single page comes as well by a fault.
    fn bring_range(&self, offset: u64, len: u64, access: Access) {
        let (first, end) = (offset / PAGE_LEN, (offset + len).div_ceil(PAGE_LEN));
        if end > first + 1 {
            self.bring(first, end, access);
        }
    }

    /// Brings those of pages `first .. end` that are not here for that access, many at a time. What cannot be had is found out by
    /// who touches it.
    ///
    /// **Cost**: a look at each page's word. For absent pages a message each way for each 64 pages of a home. Two of them are under way at
    /// a time.
    fn bring(&self, first: u64, end: u64, access: Access) {
        let resolver = self.resolver();
        let mut page = first;
        while page < end {
            // The resolver holds pages and a context: no handler of the program may run on this thread and touch them.
            page = fault::undisturbed(|| resolver.bring_some(page, end, access));
        }
    }

    /// Makes each page of a range this host's to write, by an atomic step that changes no byte.
    fn touch_to_write(&self, offset: u64, len: u64) -> Result<()> {
        let mut page = offset / PAGE_LEN * PAGE_LEN;
        while page < offset.saturating_add(len) {
            // SAFETY: the mapping has whole pages, and outlives this call.
            let word = unsafe { Window::new(self.whole().ptr().add(page as usize), size_of::<u64>()) };
            vector::update_word(word, 0, Operator::Or, 0).map_err(|_| self.lost())?;
            page = page.saturating_add(PAGE_LEN);
        }
        Ok(())
    }

    fn whole(&self) -> &Mapping {
        self.mapping.as_ref().expect("mapped as long as this is there")
    }

    /// A count of its threads, summed over its slots, since it was made.
    fn counted(&self, which: usize) -> u64 {
        let resolver = self.resolver();
        let slots = resolver.slot_first..resolver.slot_first + (resolver.lanes_count * LANE_PAGE_COUNT) as u16;
        resolver.words.counted(slots, which).wrapping_sub(resolver.before[which])
    }

    /// Unmaps it, and tells the node.
    fn tell_end(&mut self) -> Result<()> {
        // Unmapped before the watch ends: a page that is touched after both is a wild pointer, not zeros.
        self.mapping = None;
        if self.watch.is_some() {
            self.attachment.faults.add_brought(self.brought());
            self.resolver().homes.end();
        }
        self.watch = None;
        if std::mem::replace(&mut self.is_told, true) {
            return Ok(());
        }
        self.attachment.check_life(self.life)?;
        match self.attachment.life().session.ask(&Request::Unshare { gid: self.gid })? {
            Answer::Ok => Ok(()),
            other => Err(self.attachment.nonsense(&other)),
        }
    }

    /// Makes connections anew that broke: a home that was silent for too long may be back.
    fn reconnect(&self) {
        let resolver = self.resolver();
        let place = |home: usize| (resolver.homes.places()[home].node, Some(&*resolver.homes.places()[home].address));
        // A home that is not there is found missing by the next fault.
        let _ = fault::undisturbed(|| resolver.lanes.reconnect(&self.attachment, place));
    }

    fn resolver(&self) -> &Resolver {
        self.watch.as_ref().expect("watched as long as this is there")
    }
}

impl MappedRegion for Coherent {
    fn consistency(&self) -> Consistency {
        Consistency::Coherent
    }

    fn rights(&self) -> Rights {
        self.rights
    }

    unsafe fn window(&self) -> Window {
        // SAFETY: all of it is mapped; the caller promises the rest.
        unsafe { self.whole().window() }.slice(0, self.len as usize)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let window = self.slice(offset, into.len() as u64)?;
        self.bring_range(offset, into.len() as u64, Access::Read);
        window.read_into(into).map_err(|_| self.lost())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let window = self.slice(offset, bytes.len() as u64)?;
        self.bring_range(offset, bytes.len() as u64, Access::Write);
        window.write_from(bytes).map_err(|_| self.lost())
    }

    fn touch(&self, offset: u64, len: u64, access: Access) -> Result<()> {
        if access == Access::Write && self.rights != Rights::Write {
            let reason = "it is mapped for reading; open it for writing".to_owned();
            return Err(Error::BadUse { region: self.name.clone(), reason });
        }
        self.slice(offset, len)?;
        self.bring_range(offset, len, access);
        if access == Access::Write { self.touch_to_write(offset, len) } else { Ok(()) }
    }

    /// Stores are visible already. Those to a region with copies are then at all nodes that hold it.
    fn flush(&self, offset: u64, len: u64) -> Result<()> {
        self.slice(offset, len)?;
        let released = self.copied_stores().map_or(Ok(()), |stores| stores.release(&self.attachment));
        self.check_stores().and(released)
    }

    /// Does nothing: others' stores are visible already.
    fn update(&self, offset: u64, len: u64) -> Result<()> {
        self.slice(offset, len).map(drop)
    }

    fn counts(&self) -> PageCounts {
        PageCounts {
            faults: self.counted(slot::FAULTS),
            fetches: self.counted(slot::FETCHED),
            prefetched: self.counted(slot::PREFETCHED),
            upgrades: self.counted(slot::UPGRADED),
            waits: self.counted(slot::WAITED),
            ..PageCounts::default()
        }
    }

    fn brought(&self) -> u64 {
        self.counted(slot::BROUGHT)
    }

    /// **Cost**: a load. **Errors**: [`Error::NodeLost`] for good when this host was taken for lost, or a home took nothing from it. Pages
    /// that it owned are gone, and others are told so, too.
    fn check_stores(&self) -> Result<()> {
        self.attachment.check_life(self.life)?;
        if self.watch.as_ref().is_none_or(|watch| losses(watch) == self.lost_before) {
            return Ok(());
        }
        let node = self.attachment.node;
        let reason =
            format!("it was cut off, and stores of its programs to region '{}' were lost meanwhile; map it anew", self.name);
        Err(Error::NodeLost { node, reason })
    }

    fn copied_stores(&self) -> Option<Arc<dyn CopiedStores>> {
        let homes = &self.resolver().homes;
        (homes.moves() && self.rights == Rights::Write).then(|| homes.clone() as Arc<dyn CopiedStores>)
    }

    /// Broken connections are made anew for those who come next.
    #[cold]
    fn lost(&self) -> Error {
        let (resolver, region) = (self.resolver(), self.name.as_str());
        let Some((page, denied)) = resolver.denials.last() else {
            let node = self.attachment.node;
            return Error::NodeLost { node, reason: format!("memory of region '{region}' on this host is gone") };
        };
        let (offset, home) = (page * PAGE_LEN, resolver.homes.node(resolver.homes.of(page)));
        match denied {
            Denied::Gone => Error::PageLost { region: region.to_owned(), offset, home },
            Denied::Here(Here::Ended) => Error::NodeLost { node: self.attachment.node, reason: denied.words().to_owned() },
            Denied::Here(Here::NoMemory | Here::NotMapped | Here::Damaged) => {
                let what = format!("bring offset {offset} of region '{region}' to this host");
                Error::System { what, reason: denied.words().to_owned() }
            }
            Denied::Home(..) | Denied::Here(Here::Late) if resolver.homes.moves() => {
                let why = if self.attachment.life().session.has_ended() { Here::Ended.words() } else { denied.words() };
                let reason = format!("neither it nor a copy gave offset {offset} of region '{region}', which has copies: {why}");
                Error::NodeLost { node: home, reason }
            }
            Denied::Home(..) | Denied::Here(Here::Late) => {
                self.reconnect();
                not_given(home, region, offset, denied.words())
            }
        }
    }

    fn end(&mut self) -> Result<()> {
        let kept = self.check_stores();
        let told = self.tell_end();
        kept.and(told)
    }
}

impl Drop for Coherent {
    fn drop(&mut self) {
        if !self.lineage.is_here() {
            // A child of the process that mapped it: what lies at those addresses is not this mapping.
            std::mem::forget((self.mapping.take(), self.watch.take()));
            return;
        }
        if let Err(error) = self.tell_end() {
            tracing::warn!("region '{}' was unmapped: {error}", self.name);
        }
    }
}

/// Count of lost stores of programs of this host to the region so far.
fn losses(resolver: &Resolver) -> u64 {
    resolver.words.counted(LOSS_SLOT..LOSS_SLOT + 1, slot::LOST)
}

/// Maps extents of this host's node as they are, all else from the frames.
fn map_all(
    mut mapping: Mapping,
    layout: &Layout,
    frames: &Frames,
    (parts, files): (&[Option<Vec<FilePart>>], Vec<OwnedFd>),
    rights: Rights,
) -> Result<Mapping> {
    let mut files = files.into_iter();
    let mut own = Vec::new();
    for parts in parts {
        let those = |parts: &Vec<FilePart>| files.by_ref().zip(parts.iter().copied()).take(parts.len()).collect::<Vec<_>>();
        own.push(parts.as_ref().map(those));
    }
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
