//! Memory of shared regions without files and mappings, for the simulator and tests.

use super::memory::{FileParts, FrameTerms, HomePages, HostFrames, NotShared, PageBytes, PageMemory};
use hanare_protocol::id::{ClientId, Gid, Grant, NodeId, Rights, Slot};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::host::Manner;
use hanare_protocol::page::word::{Change, Fault, Installed, PageWord};
use hanare_protocol::page::{Access, HostId, HostMemory, Page, Plain, Version};
use hanare_protocol::placement::Routes;
use hanare_protocol::wire::control::PageStat;
use hanare_protocol::wire::page::Join;
use hanare_protocol::{Corrupt, Error, Result};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// The memory of one node. A clone is the same memory.
///
/// - Any grant opens any region for writing.
#[derive(Clone, Debug, Default)]
pub struct PageVectors {
    drawn: Rc<Cell<u64>>,
    regions: Rc<RefCell<BTreeMap<Gid, VectorPages>>>,
    /// Regions that programs of the node use past their pages.
    in_use: Rc<RefCell<BTreeSet<Gid>>>,
    /// Regions with copies, by slot, and whether this node answers for them.
    copied: Rc<RefCell<BTreeMap<Gid, (Slot, bool)>>>,
}

/// The pages of one region that lie at a home, by number; those that nobody wrote are zeros.
#[derive(Clone, Debug, Default)]
pub struct VectorPages {
    pages: Rc<RefCell<BTreeMap<u64, PageBytes>>>,
    /// The region, of whose node this is.
    of: Option<(Gid, PageVectors)>,
}

/// The memory of each host that is a home of the region, where its process runs.
type HomesOfRegion = Vec<(HostId, Option<VectorPages>)>;

/// The words and frames of a region on one host. A clone is the same words and frames: programs have one.
#[derive(Clone, Debug)]
pub struct VectorFrames {
    plain: Rc<RefCell<Plain<PageBytes>>>,
    homes: Rc<RefCell<HomesOfRegion>>,
    layout: Rc<Routes>,
    home_of: Rc<[usize]>,
    /// Pages that threads put into frames at this moment: the slot and the version of each.
    fills: Rc<RefCell<BTreeMap<Page, (u16, Version)>>>,
    losses: Rc<Cell<u64>>,
}

impl PageVectors {
    /// The memory of a node that draws numbers from `first` on: no two nodes may draw one.
    pub fn drawing_from(first: u64) -> PageVectors {
        PageVectors { drawn: Rc::new(Cell::new(first)), ..PageVectors::default() }
    }

    /// Programs of the node begin to use a region past its pages, or have ended to.
    pub fn set_in_use(&self, gid: Gid, is_in_use: bool) {
        let mut in_use = self.in_use.borrow_mut();
        if is_in_use {
            in_use.insert(gid)
        } else {
            in_use.remove(&gid)
        };
    }

    /// A region's extent has copies, and the node answers for it, or not now.
    pub fn set_copied(&self, gid: Gid, (slot, answers): (Slot, bool)) {
        self.copied.borrow_mut().insert(gid, (slot, answers));
    }

    /// The pages of a region.
    pub fn pages(&self, gid: Gid) -> VectorPages {
        let pages = self.regions.borrow_mut().entry(gid).or_default().pages.clone();
        VectorPages { pages, of: Some((gid, self.clone())) }
    }
}

impl PageMemory for PageVectors {
    type Pages = VectorPages;
    type Frames = VectorFrames;

    fn open(&mut self, join: &Join, _node: NodeId) -> Result<VectorPages, NotShared> {
        if self.in_use.borrow().contains(&join.gid) {
            let reason = "programs of its node use it past its pages".to_owned();
            return Err(NotShared::passing(Error::BadUse { region: join.name.clone(), reason }));
        }
        Ok(self.pages(join.gid))
    }

    fn open_home(&mut self, (gid, _): (Gid, Slot), _node: NodeId) -> Result<VectorPages, NotShared> {
        Ok(self.pages(gid))
    }

    fn rights(&self, _gid: Gid, _extent: (Slot, u64), _grant: Grant) -> Result<Rights> {
        Ok(Rights::Write)
    }

    fn cancel_share_wait(&mut self, _gid: Gid, _slot: Slot) {}

    fn make_frames(&mut self, terms: FrameTerms<'_>) -> Result<VectorFrames> {
        let layout: Routes = terms.layout.clone().into();
        let plain = Plain::new(HostId(0), false, layout.len().div_ceil(PAGE_LEN), terms.slots);
        Ok(VectorFrames {
            plain: Rc::new(RefCell::new(plain)),
            homes: Rc::new(RefCell::new(vec![(HostId(0), None); terms.home_count])),
            layout: Rc::new(layout),
            home_of: terms.home_of.into(),
            fills: Rc::default(),
            losses: Rc::default(),
        })
    }

    fn draw(&mut self) -> Result<u64> {
        let number = self.drawn.get();
        self.drawn.set(number.wrapping_add(1));
        Ok(number)
    }
}

impl HomePages for VectorPages {
    type View = ();

    fn is_held(&self) -> bool {
        true
    }

    fn keep_in_place(&self, _join: &Join, _node: NodeId) -> Result<(), NotShared> {
        Ok(())
    }

    fn copied_slot(&self) -> Option<Slot> {
        self.copied().map(|(slot, _)| slot)
    }

    fn answers(&self) -> bool {
        self.copied().is_none_or(|(_, answers)| answers)
    }

    fn set_lacks_pages(&self, _lacks: bool) {}

    fn read_page(&self, page: u64) -> Result<PageBytes> {
        let bytes = self.pages.borrow().get(&page).cloned();
        Ok(bytes.unwrap_or_else(|| vec![0; PAGE_LEN as usize].into()))
    }

    fn view(&self, _page: u64) -> Option<()> {
        None
    }

    fn write_page(&self, page: u64, bytes: &[u8]) -> Result<()> {
        self.pages.borrow_mut().insert(page, bytes.into());
        Ok(())
    }
}

impl VectorPages {
    fn copied(&self) -> Option<(Slot, bool)> {
        let (gid, node) = self.of.as_ref()?;
        node.copied.borrow().get(gid).copied()
    }

    /// Reads bytes of one page or several.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            let (page, at) = place(offset + done as u64);
            let len = (PAGE_LEN as usize - at).min(into.len() - done);
            into[done..done + len].copy_from_slice(&self.read_page(page)?[at..at + len]);
            done += len;
        }
        Ok(())
    }

    /// Writes bytes of one page or several.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let (page, at) = place(offset + done as u64);
            let (mut whole, len) = (self.read_page(page)?, (PAGE_LEN as usize - at).min(bytes.len() - done));
            whole[at..at + len].copy_from_slice(&bytes[done..done + len]);
            self.write_page(page, &whole)?;
            done += len;
        }
        Ok(())
    }
}

/// The page of a byte, and the byte's place in it.
fn place(offset: u64) -> (u64, usize) {
    (offset / PAGE_LEN, (offset % PAGE_LEN) as usize)
}

impl VectorFrames {
    /// The pages of this very node's memory that a page belongs to.
    fn own(&self, page: Page) -> Option<VectorPages> {
        self.homes.borrow()[self.home_of(page)].1.clone()
    }

    /// A program stores to a page, as its word allows.
    pub fn store(&self, page: Page, bytes: PageBytes) {
        match self.own(page) {
            Some(own) => drop(own.pages.borrow_mut().insert(page.0, bytes)),
            None => self.plain.borrow_mut().set_frame(page, Some(bytes)),
        }
    }

    /// The bytes that a program sees, if its page's word lets it look.
    pub fn frame(&self, page: Page) -> Option<PageBytes> {
        match self.own(page) {
            Some(own) => own.read_page(page.0).ok(),
            None => self.plain.borrow().frame(page).cloned(),
        }
    }

    /// A thread puts bytes into a frame, as its page's word allowed.
    pub fn begin_fill(&self, page: Page, (slot, version): (u16, Version), bytes: Option<PageBytes>) {
        self.fills.borrow_mut().insert(page, (slot, version));
        if let Some(bytes) = bytes {
            self.plain.borrow_mut().set_frame(page, Some(bytes));
        }
    }

    /// A thread has put all bytes into a frame. Returns `None` where the fill has ended before.
    pub fn end_fill(&self, page: Page, slot: u16) -> Result<Option<Installed>, Corrupt> {
        let mut fills = self.fills.borrow_mut();
        let Some((_, version)) = fills.remove(&page).filter(|(of, _)| *of == slot) else { return Ok(None) };
        let mut plain = self.plain.borrow_mut();
        let installed = plain.change(page, |word| word.filled(slot, version))?;
        plain.clear_slot(slot);
        Ok(Some(installed))
    }

    /// Number of times that programs were told of lost stores.
    pub fn losses(&self) -> u64 {
        self.losses.get()
    }
}

impl HostFrames for VectorFrames {
    type Home = VectorPages;
    type Mapping = ();
    type Files = Option<VectorFrames>;

    fn set_home(&mut self, home: usize, me: HostId, own: Option<VectorPages>) {
        self.homes.borrow_mut()[home] = (me, own);
    }

    fn files(&self) -> Result<(FileParts, Option<VectorFrames>)> {
        Ok((vec![None; self.home_of.len()], Some(self.clone())))
    }

    fn hold(&mut self, _client: ClientId, _mapping: ()) -> Result<()> {
        Ok(())
    }

    fn part(&mut self, _client: ClientId) {}

    fn part_all(&mut self) {}

    fn stuck(&mut self) -> Vec<ClientId> {
        Vec::new()
    }

    fn let_fills_end(&self, pages: &[Page]) {
        for page in pages {
            let filling = self.fills.borrow().get(page).copied();
            if let Some((slot, _)) = filling {
                // A word that makes no sense is found by the next who looks.
                let _ = self.end_fill(*page, slot);
            }
        }
    }

    fn present_count(&self) -> u64 {
        self.plain.borrow().present_count() as u64
    }

    fn tell_loss(&self) {
        self.losses.set(self.losses.get().wrapping_add(1));
    }

    fn add_counts(&self, _stat: &mut PageStat) {}
}

impl HostMemory for VectorFrames {
    type Bytes = PageBytes;

    fn page_count(&self) -> u64 {
        self.plain.borrow().page_count()
    }

    fn slot_count(&self) -> u16 {
        self.plain.borrow().slot_count()
    }

    fn home_of(&self, page: Page) -> usize {
        let piece = self.layout.pieces(page.0.saturating_mul(PAGE_LEN), 1).next();
        self.home_of[piece.expect("pages are checked before").extent]
    }

    fn me(&self, page: Page) -> HostId {
        self.homes.borrow()[self.home_of(page)].0
    }

    fn look(&self, page: Page) -> PageWord {
        self.plain.borrow().look(page)
    }

    fn change<T>(&mut self, page: Page, rule: impl Fn(PageWord) -> Result<Change<T>, Corrupt>) -> Result<T, Corrupt> {
        self.plain.borrow_mut().change(page, rule)
    }

    fn forget(&mut self, page: Page) {
        self.plain.borrow_mut().forget(page);
    }

    fn fault(&mut self, page: Page, slot: u16, access: Access) -> Result<Fault, Corrupt> {
        self.plain.borrow_mut().fault(page, slot, access)
    }

    fn clear_slot(&mut self, slot: u16) {
        self.plain.borrow_mut().clear_slot(slot);
    }

    fn claim(&self, slot: u16) -> Result<Option<Page>, Corrupt> {
        self.plain.borrow().claim(slot)
    }

    fn end_slot(&mut self, slot: u16) -> Result<Option<Page>, Corrupt> {
        self.plain.borrow_mut().end_slot(slot)
    }

    fn number(&self, slot: u16) -> u32 {
        self.plain.borrow().number(slot)
    }

    fn next_number(&mut self, slot: u16, last: u32) -> Option<u32> {
        self.plain.borrow_mut().next_number(slot, last)
    }

    fn is_clear(&self, page: Page) -> bool {
        self.plain.borrow().is_clear(page)
    }

    fn fill(&mut self, page: Page, slot: u16, bytes: &PageBytes) -> bool {
        self.plain.borrow_mut().fill(page, slot, bytes)
    }

    fn read(&mut self, page: Page) -> Option<PageBytes> {
        self.frame(page)
    }

    fn punch(&mut self, page: Page) {
        self.plain.borrow_mut().punch(page);
    }

    fn take(&mut self, pages: Range<u64>, manner: Manner) -> Option<Vec<PageBytes>> {
        let bytes = if manner.wants_bytes { pages.clone().map(|page| self.frame(Page(page))).collect() } else { None };
        if !manner.keeps {
            pages.for_each(|page| self.punch(Page(page)));
        }
        bytes
    }
}
