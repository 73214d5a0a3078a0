//! Memory that a node lends: in slabs, made, populated and wiped in the background, and extents cut from them.
//!
//! | module | holds |
//! |---|---|
//! | `supply` | where its files come from: main memory, perhaps of some NUMA nodes, or a DAX device or file |
//! | `dax` | ranges of a DAX device or file |
//! | `slab` | a memory file with its service mapping |
//! | `stock` | the slabs that no extent has, and how many bytes may still be given |
//! | `worker` | the thread that wipes, populates and makes slabs |
//! | `small` | pieces of shared files for extents too small for a file of their own |
//! | `host`, `stall` | the thread that watches the host's memory; how long its programs wait for memory |
//! | `offer` | how much is lent, by what the host has free |
//! | `extent` | what a region has on this node |
//!
//! ```text
//!            make                        free (never handed out)
//! populated ------> in an extent ------------------------------> dirty --wiped--> populated
//!  ^                    |  free (a client may still have it mapped)
//!  |                    v
//! growing <-- nothing --+   (the file is closed; its memory returns when the last mapping goes)
//! ```
//!
//! Populated and dirty slabs become nothing where the host runs short, and less is lent.

mod dax;
mod extent;
mod host;
mod offer;
mod slab;
mod small;
mod stall;
mod stock;
mod supply;
mod worker;

pub use extent::Extent;
pub use host::{HostTerms, HostWatch, KeepFree};
pub use offer::HostShortage;
pub use supply::Source;

use crate::file::{self, HUGE_PAGE_LEN, Huge, Pages};
use crate::promise::{NoPromise, Promise};
use hanare_protocol::limits::SMALL_REGION_LEN;
use hanare_protocol::numa::NumaSet;
use hanare_protocol::size::Size;
use hanare_protocol::wire::backing::{BackingKind, BackingPages};
use hanare_protocol::wire::control::Memory;
use hanare_protocol::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stock::Stock;
use supply::Supply;

/// Smallest slab: large enough that a descriptor and a mapping for each cost nothing.
pub const SLAB_LEN_MIN: u64 = 32 << 20;

/// About how many slabs a node has; each is a descriptor.
pub const SLAB_COUNT: u64 = 1024;

/// Options of a lender.
#[derive(Clone, Debug, Default)]
pub struct LenderOptions {
    /// The memory that is lent.
    pub source: Source,
    /// Bytes to lend in all; 0 for a node that lends none.
    pub bytes: u64,
    /// Bytes of a slab, a power of two of at least a page. `None` for about [`SLAB_COUNT`] slabs of at least [`SLAB_LEN_MIN`] each.
    pub slab_len: Option<u64>,
    /// Use of larger pages.
    pub huge: Huge,
    /// Bytes that are populated before anybody asks for them; the rest is when a region is made.
    pub ahead: u64,
    /// Folder in which this user's nodes on this host announce the memory that they may take; `None` for no announcement.
    pub promises: Option<PathBuf>,
}

/// Lends memory. Extents may outlive it; nothing is populated or wiped any more then.
#[derive(Debug)]
pub struct Lender {
    stock: Arc<Stock>,
    worker: Option<std::thread::JoinHandle<()>>,
}

impl Lender {
    /// Begins to lend: returns at once; as many slabs as are wanted ahead are made and populated in the background.
    ///
    /// **Cost**: a DAX device is wiped before this returns. **Errors**: [`Error::BadSetting`] if the machine, its control group or its NUMA
    /// nodes have less memory free. The same if other nodes were promised it. The same if a DAX file cannot be had, or a slab's length is no power of
    /// two.
    pub fn new(options: &LenderOptions) -> Result<Lender> {
        let supply = Supply::find(&options.source, options.bytes)?;
        let (is_dax, grain) = (supply.dax().is_some(), supply.grain());
        let bytes = options.bytes / grain * grain;
        // Ranges need no descriptor, so there may be more: each is wiped in one step where it makes room.
        let slab_count = if is_dax { 8 * SLAB_COUNT } else { SLAB_COUNT };
        let slab_len = options.slab_len.unwrap_or_else(|| usual_slab_len(bytes, slab_count));
        check_slab_len(slab_len, grain)?;
        // Other nodes of the host are told of main memory alone.
        let promises = options.promises.as_deref().filter(|_| bytes > 0 && !is_dax);
        let promise = promises.map(|folder| promise(folder, options.bytes)).transpose()?.flatten();
        let (pages, ahead) =
            if is_dax { (Pages::Small, 0) } else { (choose_pages(options.huge, slab_len, &supply), options.ahead) };
        let stock = Arc::new(Stock::new((bytes, slab_len), supply, pages, ahead));
        let for_worker = Arc::clone(&stock);
        let worker = std::thread::Builder::new().name("lender".to_owned()).spawn(move || {
            crate::vital::is_vital();
            worker::run(&for_worker, promise.as_ref());
        });
        let worker =
            worker.map_err(|error| Error::System { what: "starting the lender".to_owned(), reason: error.to_string() })?;
        Ok(Lender { stock, worker: Some(worker) })
    }

    /// Memory that is lent, populated and used, and the page length obtained.
    pub fn memory(&self) -> Memory {
        self.stock.memory()
    }

    /// The kind of its memory, the pages that it obtained, and the NUMA nodes that it was told.
    pub fn backing(&self) -> (BackingKind, BackingPages, Option<&NumaSet>) {
        let pages = match self.stock.pages() {
            Pages::Huge => BackingPages::Huge,
            Pages::Transparent => BackingPages::Transparent,
            Pages::Small => BackingPages::Small,
        };
        (self.stock.supply.kind(), pages, self.stock.supply.numa())
    }

    /// True if programs of the host may map extents: a descriptor opens one extent, and no other.
    pub fn gives_files(&self) -> bool {
        self.stock.supply.dax().is_none()
    }

    /// Begins to watch the host: where its memory runs short, less is lent, and free slabs go back to it. `None` where nothing is to be kept
    /// free. The watch ends when the result is dropped.
    ///
    /// **Errors**: [`Error::BadSetting`] where that much is to be kept free and is not; [`Error::System`].
    pub fn watch_host(&self, terms: HostTerms) -> Result<Option<HostWatch>> {
        HostWatch::begin(&self.stock, terms)
    }

    /// The limit for which less is lent at present than was to be.
    pub fn shortage(&self) -> Option<HostShortage> {
        self.stock.lock().shortage.clone()
    }

    /// Makes an extent of `len` zero bytes (at least one).
    ///
    /// **Cost**: no memory is touched; waits only where every free slab is being wiped, for as long as that takes.
    /// **Errors**: [`Error::PoolFull`], [`Error::System`].
    pub fn make(&self, len: u64) -> Result<Extent> {
        assert!(len > 0, "an extent has bytes");
        if len < SMALL_REGION_LEN { Extent::small(&self.stock, len) } else { Extent::large(&self.stock, len) }
    }

    /// Frees an extent; the same as dropping it. Its bytes are wiped before anyone else gets their memory.
    pub fn free(&self, extent: Extent) {
        drop(extent);
    }

    /// Gives a small extent a file of its own, so that it can be mapped. Others are left as they are.
    ///
    /// Its bytes are copied, and its window is another one afterwards. Nobody writes to it meanwhile, and earlier windows are not used any
    /// more.
    pub fn own_file(&self, extent: &mut Extent) -> Result<()> {
        extent.own_file(&self.stock)
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.stock.stop();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

/// Announces the memory that this node may take. `None` where the folder cannot be used.
fn promise(folder: &Path, bytes: u64) -> Result<Option<Promise>> {
    match Promise::make(folder, bytes) {
        Ok(promise) => Ok(Some(promise)),
        Err(NoPromise::Nowhere) => Ok(None),
        Err(NoPromise::Full(free)) => {
            let free = Size(free);
            let reason = format!("this machine (or its control group) has {free} that no other node may take");
            Err(bad_setting("memory", bytes, reason))
        }
    }
}

fn check_slab_len(slab_len: u64, least: u64) -> Result<()> {
    if slab_len.is_power_of_two() && slab_len >= least {
        return Ok(());
    }
    Err(bad_setting("slab", slab_len, format!("a slab is a power of two of at least {}", Size(least))))
}

fn bad_setting(key: &str, value: u64, reason: String) -> Error {
    Error::BadSetting { key: key.to_owned(), value: Size(value).to_string(), reason }
}

fn usual_slab_len(bytes: u64, count: u64) -> u64 {
    (bytes / count).next_power_of_two().max(SLAB_LEN_MIN)
}

/// Tries reserved huge pages with one of them, and asks whether transparent ones are offered.
fn choose_pages(huge: Huge, slab_len: u64, supply: &Supply) -> Pages {
    let is_large_enough = slab_len >= HUGE_PAGE_LEN;
    match huge {
        Huge::Auto if is_large_enough && supply.take(HUGE_PAGE_LEN, Pages::Huge).is_ok() => Pages::Huge,
        Huge::Auto if is_large_enough && file::is_transparent_offered() => Pages::Transparent,
        _ => Pages::Small,
    }
}

#[cfg(test)]
mod tests;
