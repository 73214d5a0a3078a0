//! A region's memory on this node: one range of addresses, in a piece of a shared file or in files of its own.

use super::slab::{Slab, SlabFile, advise_huge};
use super::small::Piece;
use super::stock::{MadeFiles, Stock};
use crate::file::{self, Pages};
use crate::guard;
use crate::mapping::Mapping;
use crate::residence;
use crate::window::Window;
use hanare_protocol::id::Rights;
use hanare_protocol::wire::backing::Residence;
use hanare_protocol::wire::control::FilePart;
use hanare_protocol::{Error, Result};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Lent bytes, zero at first, in one range of addresses. Freed when dropped.
#[derive(Debug)]
pub struct Extent {
    len: u64,
    body: Option<Body>,
    stock: Arc<Stock>,
}

#[derive(Debug)]
enum Body {
    Piece(Piece),
    Files(Files),
}

/// Whole slabs one after another, then a file of its exact size for the rest.
#[derive(Debug)]
struct Files {
    range: Mapping,
    slabs: Vec<Arc<SlabFile>>,
    rest: Option<Arc<SlabFile>>,
    /// Bytes counted as used.
    counted: u64,
}

impl Extent {
    pub(super) fn small(stock: &Arc<Stock>, len: u64) -> Result<Extent> {
        let piece = Piece::take(stock, len)?;
        Ok(Extent { len, body: Some(Body::Piece(piece)), stock: Arc::clone(stock) })
    }

    pub(super) fn large(stock: &Arc<Stock>, len: u64) -> Result<Extent> {
        let files = Files::make(stock, len)?;
        Ok(Extent { len, body: Some(Body::Files(files)), stock: Arc::clone(stock) })
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if it has no bytes (it always has some).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if it shares a file with others, and so must get its own before it can be mapped.
    pub fn is_shared_file(&self) -> bool {
        matches!(self.body(), Body::Piece(_))
    }

    /// All its bytes, in one range.
    ///
    /// # Safety
    /// No copy of the window is used after the extent was freed, or given a file of its own.
    pub unsafe fn window(&self) -> Window {
        match self.body() {
            // SAFETY: passed on.
            Body::Piece(piece) => unsafe { piece.window(self.len) },
            // SAFETY: passed on.
            Body::Files(files) => unsafe { files.range.window() }.slice(0, self.len as usize),
        }
    }

    /// Descriptors of its files in order, with the part of the extent in each. A receiver can keep the memory mapped for ever, so no other
    /// extent ever gets it.
    ///
    /// **Errors**: [`Error::BadUse`] where it shares a file with others, as all extents of a DAX file do; [`Error::System`].
    pub fn files(&self, rights: Rights) -> Result<Vec<(OwnedFd, FilePart)>> {
        let Body::Files(files) = self.body() else {
            let reason = "a small extent needs a file of its own before it is mapped".to_owned();
            return Err(Error::BadUse { region: String::new(), reason });
        };
        let mut left = self.len;
        let mut parts = Vec::new();
        for file in files.slabs.iter().chain(&files.rest) {
            let Some(own) = file.fd() else {
                let reason = "its node lends a DAX device or a file, whose descriptor opens all of it; use commands".to_owned();
                return Err(Error::BadUse { region: String::new(), reason });
            };
            file.hand_out();
            let fd = match rights {
                Rights::Read => file::reopen_read_only(own)?,
                Rights::Write => rustix::io::fcntl_dupfd_cloexec(own, 0).map_err(file::system("passing on a memory file"))?,
            };
            parts.push((fd, file.part(left.min(file.len))));
            left -= left.min(file.len);
        }
        Ok(parts)
    }

    /// Looks where its bytes lie, at `page_count_max` pages at most. They are not taken out of mappings meanwhile.
    pub fn residence(&self, page_count_max: usize) -> Residence {
        if let Some(dax) = self.stock.supply.dax().filter(|dax| dax.is_without_pages()) {
            // The kernel tells no node for pages of devices, and perhaps one for the device.
            let numa = dax.numa().map(|numa| (numa, self.len)).into_iter().collect();
            return Residence { len: self.len, numa, ..Residence::default() };
        }
        // SAFETY: the extent is borrowed to the end, so it is neither freed nor moved to a file of its own.
        unsafe { residence::of(self.window(), page_count_max) }
    }

    pub(super) fn own_file(&mut self, stock: &Arc<Stock>) -> Result<()> {
        if !self.is_shared_file() {
            return Ok(());
        }
        let files = Files::make(stock, self.len)?;
        // SAFETY: both live to the end of this function; nobody writes to the piece meanwhile.
        let (from, to) = unsafe { (self.window(), files.range.window().slice(0, self.len as usize)) };
        let copied = guard::copy(from, to);
        let old = self.body.replace(Body::Files(files));
        if let Err(lost) = copied {
            let new = std::mem::replace(&mut self.body, old);
            free(new, stock);
            return Err(Error::System {
                what: "moving a small extent to a file of its own".to_owned(),
                reason: lost.to_string(),
            });
        }
        free(old, stock);
        Ok(())
    }

    fn body(&self) -> &Body {
        self.body.as_ref().expect("only a dropped extent has none")
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        free(self.body.take(), &self.stock);
    }
}

fn free(body: Option<Body>, stock: &Stock) {
    match body {
        Some(Body::Piece(piece)) => piece.give_back(stock),
        Some(Body::Files(files)) => files.free(stock),
        None => {}
    }
}

impl Files {
    fn make(stock: &Arc<Stock>, len: u64) -> Result<Files> {
        let (slab_count, rest_len) = (len / stock.slab_len, (len % stock.slab_len).next_multiple_of(stock.supply.grain()));
        let Some(counted) = (slab_count * stock.slab_len).checked_add(rest_len) else {
            return Err(Error::PoolFull { asked: len, free: stock.bytes, withheld: 0 });
        };
        let taken = stock.take(len, counted, slab_count)?;
        let made = Files::place(stock, taken, rest_len, counted);
        if made.is_err() {
            stock.give_back(counted, Vec::new());
        }
        made
    }

    fn place(stock: &Arc<Stock>, taken: MadeFiles, rest_len: u64, counted: u64) -> Result<Files> {
        let mut range = Mapping::reserve(counted)?;
        let mut slabs = Vec::new();
        for slab in taken.ready {
            let file = slab.move_into(&mut range, slabs.len() as u64 * stock.slab_len)?;
            slabs.push(file);
        }
        let fresh = (0..taken.fresh).map(|_| stock.make_slab_file());
        for file in taken.raw.into_iter().map(Ok).chain(fresh) {
            let file = file?;
            file.map_into(&mut range, slabs.len() as u64 * stock.slab_len)?;
            slabs.push(file);
        }
        let rest = (rest_len > 0).then(|| stock.make_file(rest_len)).transpose()?;
        if let Some(rest) = &rest {
            rest.map_into(&mut range, slabs.len() as u64 * stock.slab_len)?;
        }
        if stock.pages() == Pages::Transparent {
            advise_huge(&range);
        }
        stock.populate_first(slabs.iter().chain(&rest).filter(|file| !file.is_populated()).cloned());
        Ok(Files { range, slabs, rest, counted })
    }

    /// Splits the range. Slabs that no other process can have mapped go back to be wiped, with their filled page tables. The rest is
    /// unmapped and closed.
    fn free(self, stock: &Stock) {
        let Files { range, slabs, rest, counted } = self;
        let mut dirty = Vec::new();
        let mut left = range;
        for file in slabs {
            let (front, behind) = left.split(file.len as usize);
            if file.is_populated() && !file.is_handed_out() {
                dirty.push(Slab { file, mapping: front });
            }
            match behind {
                Some(behind) => left = behind,
                None => return stock.give_back(counted, dirty),
            }
        }
        drop((left, rest));
        stock.give_back(counted, dirty);
    }
}
