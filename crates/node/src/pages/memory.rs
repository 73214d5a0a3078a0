//! The pages of a shared region that lie on this node: read, written, and taken out of all mappings.

use crate::extent::NodeExtent;
use crate::extents::{ExtentFiles, Extents};
use crate::lost::lost_memory;
use hanare_home::{FileParts, HomePages, NotShared, PageBytes};
use hanare_memory::Window;
use hanare_memory::frames::Run;
use hanare_protocol::id::{Gid, NodeId, Slot};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Consistency;
use hanare_protocol::placement::{Extent, Layout, Routes, Span};
use hanare_protocol::wire::page::Join;
use hanare_protocol::{Error, Result};
use rustix::fs::{FallocateFlags, fallocate, fstat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Its clones are the same memory.
#[derive(Clone)]
pub(crate) struct SharedMemory(pub Arc<HomeMemory>);

/// The extents of one region on this node, as pages of the region.
pub(crate) struct HomeMemory {
    gid: Gid,
    layout: Routes,
    /// An entry for each extent of the layout; `None` for those of other nodes.
    extents: Vec<Option<HomeExtent>>,
    /// Extents reached only through their pages while this lives.
    shared: Vec<(Slot, Arc<NodeExtent>)>,
    /// Extents whose pages go by commands of programs that would not follow them.
    noted: Mutex<Vec<Slot>>,
    /// The slot of the only extent, where that has copies on other nodes.
    copied: Option<Slot>,
    table: Arc<Extents>,
}

struct HomeExtent {
    held: Arc<NodeExtent>,
    files: ExtentFiles,
}

/// A page where it lies. It keeps the extent's memory, and does not keep others from it: a reply outlives the region's mappings.
pub(crate) struct PageView {
    /// Valid while this lives.
    pub window: Window,
    _held: Arc<NodeExtent>,
}

/// A page's place: its extent, its first byte there, and how many of its bytes are the region's.
struct PageLocation<'a> {
    extent: &'a HomeExtent,
    offset: u64,
    len: usize,
}

impl HomeMemory {
    /// The extents of a region that lie on `node`. While this lives they are reached through their pages alone, if the
    /// mapping is coherent. Others need [`HomeMemory::keep_in_place`], unless all programs follow the region's bytes to other nodes.
    ///
    /// **Errors**: [`Error::GrantRefused`]. [`Error::BadUse`] where the memory's use or kind, or copies, forbid it; with older commands under way
    /// that passes.
    pub fn open(join: &Join, node: NodeId, table: &Arc<Extents>) -> Result<HomeMemory, NotShared> {
        let is_coherent = join.consistency == Consistency::Coherent;
        let mut memory = HomeMemory {
            gid: join.gid,
            layout: join.layout.clone().into(),
            extents: Vec::new(),
            shared: Vec::new(),
            noted: Mutex::default(),
            copied: None,
            table: table.clone(),
        };
        for (extent, grant) in join.layout.extents().zip(&join.grants) {
            if extent.node != node || !is_coherent {
                memory.extents.push(None);
                continue;
            }
            let (held, files) = table.share(join.gid, extent.slot, *grant)?;
            memory.shared.push((extent.slot, held.clone()));
            memory.copied = held.has_copies().then_some(extent.slot);
            check_files(&files, &join.name)?;
            memory.extents.push(Some(HomeExtent { held, files }));
        }
        Ok(memory)
    }

    /// The only extent of a region with copies, whose home this node has become. **Errors**: [`Error::GrantRefused`] where it was removed.
    pub fn open_home((gid, slot): (Gid, Slot), node: NodeId, table: &Arc<Extents>) -> Result<HomeMemory, NotShared> {
        let held = table.share_home(gid, slot)?;
        let extents = vec![Extent { node, slot, len: held.len() }];
        let layout = Layout { spans: vec![Span { len: held.len(), chunk: 0, extents }] };
        Ok(HomeMemory {
            gid,
            layout: layout.into(),
            extents: vec![Some(HomeExtent { held: held.clone(), files: Vec::new() })],
            shared: vec![(slot, held)],
            noted: Mutex::default(),
            copied: Some(slot),
            table: table.clone(),
        })
    }

    /// True if the region still exists.
    pub fn is_held(&self) -> bool {
        self.shared.iter().any(|(slot, _)| self.table.has(self.gid, *slot))
    }

    /// See [`HomePages::keep_in_place`].
    pub fn keep_in_place(&self, join: &Join, node: NodeId) -> Result<(), NotShared> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if !noted.is_empty() {
            return Ok(());
        }
        for extent in join.layout.extents().filter(|extent| extent.node == node) {
            if let Err(refused) = self.table.note_mapping(self.gid, extent.slot) {
                noted.drain(..).for_each(|slot| self.table.forget_mapping(self.gid, slot));
                return Err(refused);
            }
            noted.push(extent.slot);
        }
        Ok(())
    }

    /// Says of its extents whether newer bytes of pages are elsewhere, and stay there.
    pub fn set_lacks_pages(&self, lacks: bool) {
        self.shared.iter().for_each(|(_, held)| held.set_lacks_pages(lacks));
    }

    fn place(&self, page: u64) -> Option<PageLocation<'_>> {
        let (at, len) = (page.checked_mul(PAGE_LEN)?, self.layout.len());
        let piece = (at < len).then(|| self.layout.pieces(at, PAGE_LEN.min(len - at)).next())??;
        let extent = self.extents.get(piece.extent)?.as_ref()?;
        Some(PageLocation { extent, offset: piece.offset, len: piece.len as usize })
    }

    /// A page's bytes; behind the region's end zeros.
    pub fn read_page(&self, page: u64) -> Result<Box<[u8]>> {
        let mut bytes = Vec::with_capacity(PAGE_LEN as usize);
        self.append_page(page, &mut bytes)?;
        Ok(bytes.into_boxed_slice())
    }

    /// Appends a page as [`HomeMemory::read_page`] reads it.
    pub fn append_page(&self, page: u64, into: &mut Vec<u8>) -> Result<()> {
        let place = self.place(page).ok_or_else(not_here)?;
        let at = into.len();
        into.resize(at + PAGE_LEN as usize, 0);
        let reach = place.extent.held.reach();
        let from = reach.window().slice(place.offset as usize, place.len);
        from.read_into(&mut into[at..at + place.len]).map_err(|lost| lost_memory(&lost))
    }

    /// A page that is all the region's, where it lies.
    pub fn view(&self, page: u64) -> Option<PageView> {
        let place = self.place(page).filter(|place| place.len as u64 == PAGE_LEN)?;
        let held = place.extent.held.clone();
        Some(PageView { window: held.stays()?.slice(place.offset as usize, place.len), _held: held })
    }

    /// Puts a page's bytes.
    pub fn write_page(&self, page: u64, bytes: &[u8]) -> Result<()> {
        let place = self.place(page).ok_or_else(not_here)?;
        place.extent.held.will_write([(place.offset, place.len as u64)]);
        let reach = place.extent.held.reach();
        let to = reach.window().slice(place.offset as usize, place.len);
        to.write_from(&bytes[..place.len]).map_err(|lost| lost_memory(&lost))
    }

    /// Takes pages out of all mappings of all processes; their bytes and their memory stay.
    ///
    /// **Cost**: a hole is punched and filled again: 4 us, 2 us a page in a run. Clients that touch a page fault, and find its word.
    pub fn unmap(&self, run: Run) -> Result<()> {
        let mut page = run.first;
        while page < run.first + run.count {
            let place = self.place(page).ok_or_else(not_here)?;
            let (fd, at) = self.file_of(page)?;
            let follows = |count: u64| {
                let next = page + count;
                next < run.first + run.count
                    && self.file_of(next).is_ok_and(|(next, to)| std::ptr::eq(next, fd) && to == at + count * PAGE_LEN)
            };
            let count = (1..).find(|count| !follows(*count)).expect("runs end");
            let mut bytes = Vec::with_capacity((count * PAGE_LEN) as usize);
            (page..page + count).try_for_each(|page| self.append_page(page, &mut bytes))?;
            let _steady = place.extent.held.steady();
            punch_and_fill(fd, at, &bytes)?;
            page += count;
        }
        Ok(())
    }

    /// The file that holds a page, and where.
    fn file_of(&self, page: u64) -> Result<(&OwnedFd, u64)> {
        let place = self.place(page).ok_or_else(not_here)?;
        file_at(&place.extent.files, place.offset).ok_or_else(not_here)
    }

    /// The files of the extents that lie here, by extent of the layout. A client of this host maps them.
    pub fn files(&self) -> Result<(FileParts, Vec<OwnedFd>)> {
        let mut fds = Vec::new();
        let mut parts = Vec::new();
        for extent in &self.extents {
            let Some(extent) = extent else {
                parts.push(None);
                continue;
            };
            for (fd, _) in &extent.files {
                let copy = rustix::io::fcntl_dupfd_cloexec(fd, 0);
                fds.push(copy.map_err(|errno| system("passing on a memory file", errno))?);
            }
            parts.push(Some(extent.files.iter().map(|(_, part)| *part).collect()));
        }
        Ok((parts, fds))
    }
}

impl HomePages for SharedMemory {
    type View = PageView;

    fn is_held(&self) -> bool {
        self.0.is_held()
    }

    fn keep_in_place(&self, join: &Join, node: NodeId) -> Result<(), NotShared> {
        self.0.keep_in_place(join, node)
    }

    fn copied_slot(&self) -> Option<Slot> {
        self.0.copied
    }

    fn answers(&self) -> bool {
        self.0.copied.is_none_or(|slot| self.0.table.answers(self.0.gid, slot))
    }

    fn set_lacks_pages(&self, lacks: bool) {
        self.0.set_lacks_pages(lacks);
    }

    fn read_page(&self, page: u64) -> Result<PageBytes> {
        self.0.read_page(page)
    }

    fn view(&self, page: u64) -> Option<PageView> {
        self.0.view(page)
    }

    fn write_page(&self, page: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_page(page, bytes)
    }
}

impl Drop for HomeMemory {
    fn drop(&mut self) {
        self.shared.iter().for_each(|(slot, held)| self.table.unshare(*slot, held));
        let noted = self.noted.get_mut().unwrap_or_else(PoisonError::into_inner);
        noted.iter().for_each(|slot| self.table.forget_mapping(self.gid, *slot));
    }
}

/// Takes whole pages of a file out of all mappings, and puts their bytes back.
fn punch_and_fill(fd: &OwnedFd, at: u64, bytes: &[u8]) -> Result<()> {
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    again(|| fallocate(fd, punch, at, bytes.len() as u64)).map_err(|errno| system("taking pages out of mappings", errno))?;
    let (mut rest, mut at) = (bytes, at);
    while !rest.is_empty() {
        let put = again(|| rustix::io::pwrite(fd, rest, at));
        let put = put.map_err(|errno| system("keeping pages that were taken out of mappings", errno))?.max(1).min(rest.len());
        (rest, at) = (&rest[put..], at + put as u64);
    }
    Ok(())
}

/// The file that holds an extent's byte, and where.
fn file_at(files: &ExtentFiles, offset: u64) -> Option<(&OwnedFd, u64)> {
    let mut begin = 0;
    for (fd, part) in files {
        if offset < begin + part.len {
            return Some((fd, part.offset + (offset - begin)));
        }
        begin += part.len;
    }
    None
}

fn check_files(files: &ExtentFiles, name: &str) -> Result<()> {
    for (fd, _) in files {
        let stat = fstat(fd).map_err(|errno| system("looking at a memory file", errno))?;
        if stat.st_blksize as u64 > PAGE_LEN {
            let reason = "its node lends huge pages, which are not shared page by page; lend with --huge never".to_owned();
            return Err(Error::BadUse { region: name.to_owned(), reason });
        }
    }
    Ok(())
}

fn again<T>(mut step: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match step() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

fn not_here() -> Error {
    Error::Garbage { peer: "a host of a shared region".to_owned(), reason: "a page that is not at home here".to_owned() }
}

fn system(what: &str, errno: Errno) -> Error {
    Error::System { what: what.to_owned(), reason: errno.to_string() }
}
