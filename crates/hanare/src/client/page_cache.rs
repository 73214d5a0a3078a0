//! Pages that are kept at this host's node under numbers that the program chooses, and sent again from there.
//!
//! ```text
//! push, caching:     program ──> page of a region, on any node          push from the cache:   line ── copy ──> page of a region
//!                            └─> line, at this host's node
//! ```
//!
//! **Source**: [RF §3.3] the Network Page Cache: the process names the line; nothing is matched or replaced by itself.

use super::own_region::OwnRegion;
use super::pool::Pool;
use super::region::Region;
use hanare_protocol::limits::{PAGE_CACHE_LINE_COUNT_MAX, PAGE_LEN};
use hanare_protocol::shape::Shape;
use hanare_protocol::{Error, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines of a page each, at this host's node. They go with it.
///
/// Threads may push at once; one that fills a line while another sends from it sends bytes of either.
///
/// FEATURE: RF-F9
pub struct PageCache {
    own: OwnRegion,
    lines: Mutex<Vec<CacheLine>>,
}

/// A line's state so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheLine {
    /// True if it holds a page.
    pub is_filled: bool,
    /// Number of pages stored in it.
    pub fills: u64,
    /// Number of pages sent from it.
    pub hits: u64,
}

/// A page to push, and what its line has to do with it.
#[derive(Clone, Copy, Debug)]
pub enum PushedPage<'p> {
    /// The program's page.
    Normal(&'p [u8; PAGE_LEN as usize]),
    /// The same, which is stored in this line, too.
    Caching(&'p [u8; PAGE_LEN as usize], u32),
    /// The page of this line: this host's node sends it, and the program's memory is not read.
    FromCache(u32),
}

impl Pool {
    /// Makes a page cache of so many lines, all empty. A cache of the paper's size has 4096.
    ///
    /// **Cost**: that of creating a region of as many pages on this host. **Errors**: [`Error::LimitReached`] for no line, or more than a
    /// million; those of [`Pool::create`].
    pub fn page_cache(&self, lines: u32) -> Result<PageCache> {
        if !(1..=PAGE_CACHE_LINE_COUNT_MAX).contains(&lines) {
            let what = format!("{lines} lines of a page cache, which has one at least");
            return Err(Error::LimitReached { what, limit: PAGE_CACHE_LINE_COUNT_MAX.into() });
        }
        let name = format!(".pages-{:032x}", u128::from_le_bytes(hanare_memory::random::bytes()?));
        let own = OwnRegion::new(self, &name, u64::from(lines) * PAGE_LEN)?;
        Ok(PageCache { own, lines: Mutex::new(vec![CacheLine::default(); lines as usize]) })
    }
}

impl PageCache {
    /// Pushes a page to a region, at `offset`: a multiple of 4096. Returns when it is there.
    ///
    /// **Cost**: a message each way to the page's node; with caching also a copy on this host. From the cache the page's node asks this
    /// host's, and no byte passes through the program. **Errors**: [`Error::OutOfRange`] beyond the last line. [`Error::BadUse`] for a
    /// line without a page, and for another offset. Those of [`Region::put`] and [`Pool::copy`].
    ///
    /// FEATURE: RF-F7 RF-F10 RF-F11
    pub fn push(&self, page: PushedPage<'_>, to: &Region, offset: u64) -> Result<()> {
        if !offset.is_multiple_of(PAGE_LEN) {
            let reason = format!("a page begins at a multiple of {PAGE_LEN}, not at {offset}");
            return Err(Error::BadUse { region: to.name().to_owned(), reason });
        }
        match page {
            PushedPage::Normal(bytes) => to.put(offset, bytes),
            PushedPage::Caching(bytes, line) => {
                let at = self.line_at(line)?;
                // Until all of the page is there, the line holds none.
                self.lines()[line as usize].is_filled = false;
                self.own.pool.batch(|batch| {
                    batch.put(to, offset, bytes)?;
                    batch.put(&self.own.region, at, bytes)
                })?;
                let line = &mut self.lines()[line as usize];
                (line.is_filled, line.fills) = (true, line.fills + 1);
                Ok(())
            }
            PushedPage::FromCache(line) => {
                let at = self.line_at(line)?;
                if !self.lines()[line as usize].is_filled {
                    let reason = format!("line {line} holds no page: push one with caching before");
                    return Err(Error::BadUse { region: CACHE_NAME.to_owned(), reason });
                }
                let (from, into) = (Shape::contiguous(at, PAGE_LEN), Shape::contiguous(offset, PAGE_LEN));
                self.own.pool.copy(&self.own.region, from, to, into)?;
                self.lines()[line as usize].hits += 1;
                Ok(())
            }
        }
    }

    /// State of a line so far. **Errors**: [`Error::OutOfRange`] beyond the last line. FEATURE: RF-F24
    pub fn line(&self, line: u32) -> Result<CacheLine> {
        self.line_at(line).map(|_| self.lines()[line as usize])
    }

    /// Number of its lines.
    pub fn line_count(&self) -> u32 {
        // The number of lines was such a number at first.
        self.lines().len() as u32
    }

    fn lines(&self) -> MutexGuard<'_, Vec<CacheLine>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// First byte of a line.
    fn line_at(&self, line: u32) -> Result<u64> {
        let (offset, limit) = (u64::from(line) * PAGE_LEN, self.own.region.len());
        if offset < limit {
            return Ok(offset);
        }
        Err(Error::OutOfRange { region: CACHE_NAME.to_owned(), offset, len: PAGE_LEN, limit })
    }
}

/// A cache in errors.
const CACHE_NAME: &str = "(a page cache)";

impl std::fmt::Debug for PageCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageCache").field("lines", &self.line_count()).finish_non_exhaustive()
    }
}
