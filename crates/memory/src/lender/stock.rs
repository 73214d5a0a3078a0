//! The slabs that no extent has, and how many bytes may still be given.
//!
//! Invariants:
//!
//! - `used + cached * slab_len <= bytes` whenever the lock is free, except while a maker waits for its claim to be met.
//! - A slab is in exactly one place: an extent, `ready`, `dirty`, `growing`, or in the worker's hands.

use super::slab::{Slab, SlabFile};
use super::small::Small;
use crate::file::{HUGE_PAGE_LEN, Pages};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::control::Memory;
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

#[derive(Debug)]
pub struct Stock {
    pub bytes: u64,
    pub slab_len: u64,
    /// Bytes that are populated before anybody asks for them.
    ahead: u64,
    /// [`Pages`] as a number: what was chosen, or less once that ran out.
    pages: AtomicU8,
    populated: Arc<AtomicU64>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub struct State {
    /// Bytes of extents' files, and of claims not yet met.
    pub used: u64,
    /// Populated and zero.
    pub ready: Vec<Slab>,
    /// Populated, with an extent's bytes in them.
    pub dirty: Vec<Slab>,
    /// Number of dirty ones that the worker is wiping.
    pub wiping: u64,
    /// The slab that the worker populates ahead of any request.
    pub growing: Option<Arc<SlabFile>>,
    /// Files of extents that are to be populated before any other, in order.
    pub urgent: VecDeque<Weak<SlabFile>>,
    /// Cleared when the system refused a slab, until something is freed.
    pub may_grow: bool,
    pub is_stopped: bool,
    pub small: Small,
}

/// Files for a maker: slabs with filled page tables, and files that are still empty.
#[derive(Debug, Default)]
pub struct MadeFiles {
    pub ready: Vec<Slab>,
    pub raw: Vec<Arc<SlabFile>>,
    /// Slabs that the maker makes itself.
    pub fresh: u64,
}

impl Stock {
    pub fn new(bytes: u64, slab_len: u64, pages: Pages, ahead: u64) -> Stock {
        let state = State { may_grow: true, ..State::default() };
        let pages = AtomicU8::new(pages as u8);
        Stock { bytes, slab_len, ahead, pages, populated: Arc::default(), state: state.into(), changed: Condvar::new() }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that can panic, so a poisoned lock is as good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    pub fn notify(&self) {
        self.changed.notify_all();
    }

    pub fn stop(&self) {
        self.lock().is_stopped = true;
        self.notify();
    }

    pub fn pages(&self) -> Pages {
        let number = self.pages.load(Ordering::Relaxed);
        [Pages::Huge, Pages::Transparent].into_iter().find(|pages| *pages as u8 == number).unwrap_or(Pages::Small)
    }

    /// The pages turned out to be less than hoped for.
    pub fn set_pages(&self, pages: Pages) {
        self.pages.store(pages as u8, Ordering::Relaxed);
    }

    /// Bytes that the machine has supplied.
    pub fn populated(&self) -> u64 {
        self.populated.load(Ordering::Relaxed)
    }

    pub fn memory(&self) -> Memory {
        let used = self.lock().used;
        let page = if self.pages() == Pages::Small { PAGE_LEN } else { HUGE_PAGE_LEN };
        Memory { lent: self.bytes, populated: self.populated(), used, spilled: 0, page, clients: 0, is_plain: false }
    }

    /// A file for a whole slab, of the best pages that there are.
    pub fn make_slab_file(&self) -> Result<Arc<SlabFile>> {
        let pages = self.pages();
        let made = SlabFile::new(self.slab_len, pages, &self.populated);
        if pages == Pages::Huge && made.is_err() {
            self.set_pages(Pages::Small);
            return SlabFile::new(self.slab_len, Pages::Small, &self.populated).map(Arc::new);
        }
        made.map(Arc::new)
    }

    /// A file of its exact size, in usual pages.
    pub fn make_file(&self, len: u64) -> Result<Arc<SlabFile>> {
        let pages = if self.pages() == Pages::Small { Pages::Small } else { Pages::Transparent };
        SlabFile::new(len, pages, &self.populated).map(Arc::new)
    }

    /// Claims `bytes` for an extent of `asked` bytes, `slab_count` whole slabs among them, and takes those slabs.
    pub fn take(&self, asked: u64, bytes: u64, slab_count: u64) -> Result<MadeFiles> {
        let mut state = self.lock();
        self.claim(&mut state, asked, bytes)?;
        let mut taken = MadeFiles::default();
        for _ in 0..slab_count {
            loop {
                if let Some(slab) = state.ready.pop() {
                    taken.ready.push(slab);
                    break;
                }
                if let Some(file) = state.growing.take() {
                    taken.raw.push(file);
                    break;
                }
                if self.held(&state) <= self.bytes {
                    taken.fresh += 1;
                    break;
                }
                // Only slabs that wait for the wipe are left: their memory is populated, so they are worth the wait.
                state = self.wait(state);
            }
        }
        // Files of exact size take the place of free slabs.
        while self.held(&state) > self.bytes {
            let evicted = state.growing.take().map(drop).or_else(|| state.dirty.pop().or_else(|| state.ready.pop()).map(drop));
            if evicted.is_none() {
                state = self.wait(state);
            }
        }
        Ok(taken)
    }

    /// Counts `bytes` as used, if they are free.
    pub fn claim(&self, state: &mut State, asked: u64, bytes: u64) -> Result<()> {
        let free = self.bytes - state.used;
        if bytes > free {
            return Err(Error::PoolFull { asked, free });
        }
        state.used += bytes;
        Ok(())
    }

    /// Counts `bytes` as free again, and keeps `dirty` slabs to be wiped for other extents.
    pub fn give_back(&self, bytes: u64, dirty: Vec<Slab>) {
        let mut state = self.lock();
        state.used -= bytes;
        state.dirty.extend(dirty);
        state.may_grow = true;
        drop(state);
        self.notify();
    }

    /// Has files of extents populated, before anything else.
    pub fn populate_first(&self, files: impl Iterator<Item = Arc<SlabFile>>) {
        let weak = files.map(|file| Arc::downgrade(&file)).collect::<Vec<_>>();
        self.lock().urgent.extend(weak);
        self.notify();
    }

    /// True if another slab has room beside the present ones.
    pub fn has_room_to_grow(&self, state: &State) -> bool {
        let is_wanted = self.held(state) < self.ahead;
        state.may_grow && is_wanted && self.held(state) + self.slab_len <= self.bytes
    }

    /// Bytes that are used, or lie in the stock.
    fn held(&self, state: &State) -> u64 {
        let cached = (state.ready.len() + state.dirty.len()) as u64 + state.wiping + u64::from(state.growing.is_some());
        state.used + cached * self.slab_len
    }
}
