//! The slabs that no extent has, and how many bytes may still be given.
//!
//! Invariants:
//!
//! - `used + cached * slab_len <= bytes` whenever the lock is free, except while a maker waits for its claim to be met. The same holds for
//!   `offer`, or for `used` where that is more, except while the worker gives slabs back.
//! - A slab is in exactly one place: an extent, `ready`, `dirty`, `growing`, or in the worker's hands.

use super::offer::{HostShortage, Terms};
use super::slab::{Slab, SlabFile};
use super::small::Small;
use super::supply::Supply;
use crate::file::{HUGE_PAGE_LEN, Pages};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::control::Memory;
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

#[derive(Debug)]
pub struct Stock {
    /// Bytes to lend where the host has memory enough.
    pub bytes: u64,
    pub slab_len: u64,
    /// The source of all its files.
    pub supply: Supply,
    /// Bytes that are populated before anybody asks for them.
    ahead: u64,
    /// [`Pages`] as a number: what was chosen, or less once that ran out.
    pages: AtomicU8,
    populated: Arc<AtomicU64>,
    /// Bytes of slabs that went back to the machine because it ran short.
    given_back: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub struct State {
    /// Bytes of extents' files, and of claims not yet met.
    pub used: u64,
    /// Bytes of whole slabs that makers wait for.
    unmet: u64,
    /// Bytes that are lent at present.
    pub offer: u64,
    /// True if there may be slabs that no extent has.
    pub has_spare: bool,
    /// The limit for which less is offered than was to be lent.
    pub shortage: Option<HostShortage>,
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

/// A slab that the lender has too much.
#[derive(Debug)]
pub enum Surplus {
    Whole(Slab),
    /// The worker has begun to populate it.
    Growing(Arc<SlabFile>),
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
    pub fn new((bytes, slab_len): (u64, u64), supply: Supply, pages: Pages, ahead: u64) -> Stock {
        let state = State { may_grow: true, has_spare: true, offer: bytes, ..State::default() };
        let (pages, populated, given_back) = (AtomicU8::new(pages as u8), Arc::default(), AtomicU64::default());
        Stock { bytes, slab_len, supply, ahead, pages, populated, given_back, state: state.into(), changed: Condvar::new() }
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
        let (used, lent) = {
            let state = self.lock();
            (state.used, state.offer)
        };
        let page = if self.pages() == Pages::Small { PAGE_LEN } else { HUGE_PAGE_LEN };
        let given_back = self.given_back.load(Ordering::Relaxed);
        Memory { lent, lent_max: self.bytes, populated: self.populated(), used, given_back, page, ..Memory::default() }
    }

    /// Offers so much from here on. Slabs that are too many go back to the machine.
    pub fn set_terms(&self, terms: Terms, shortage: Option<HostShortage>) {
        let mut state = self.lock();
        state.shortage = shortage;
        if (state.offer, state.has_spare) != (terms.bytes, terms.has_spare) {
            (state.offer, state.has_spare, state.may_grow) = (terms.bytes, terms.has_spare, true);
            drop(state);
            self.notify();
        }
    }

    /// Takes a slab that is too much out of the stock. Those that makers wait for are not.
    pub fn take_surplus(&self, state: &mut State) -> Option<Surplus> {
        let is_needed = self.cached(state) <= state.unmet;
        let fits = self.held(state) - state.unmet <= self.ceiling(state);
        if is_needed || (state.has_spare && fits) {
            return None;
        }
        let growing = |state: &mut State| state.growing.take().map(Surplus::Growing);
        let whole = |state: &mut State| state.dirty.pop().or_else(|| state.ready.pop()).map(Surplus::Whole);
        growing(state).or_else(|| whole(state))
    }

    /// Counts bytes that went back to the machine.
    pub fn count_given_back(&self, bytes: u64) {
        self.given_back.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A file for a whole slab, of the best pages that there are.
    pub fn make_slab_file(&self) -> Result<Arc<SlabFile>> {
        let pages = self.pages();
        let made = SlabFile::new(self.slab_len, pages, &self.supply, &self.populated);
        if pages == Pages::Huge && made.is_err() {
            self.set_pages(Pages::Small);
            return SlabFile::new(self.slab_len, Pages::Small, &self.supply, &self.populated).map(Arc::new);
        }
        made.map(Arc::new)
    }

    /// A file of its exact size, in usual pages.
    pub fn make_file(&self, len: u64) -> Result<Arc<SlabFile>> {
        let pages = if self.pages() == Pages::Small { Pages::Small } else { Pages::Transparent };
        SlabFile::new(len, pages, &self.supply, &self.populated).map(Arc::new)
    }

    /// Claims `bytes` for an extent of `asked` bytes, `slab_count` whole slabs among them, and takes those slabs.
    pub fn take(&self, asked: u64, bytes: u64, slab_count: u64) -> Result<MadeFiles> {
        let mut state = self.lock();
        self.claim(&mut state, asked, bytes)?;
        let mut taken = MadeFiles::default();
        state.unmet += slab_count * self.slab_len;
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
                if self.held(&state) <= self.ceiling(&state) {
                    taken.fresh += 1;
                    break;
                }
                // Only slabs that wait for the wipe are left: their memory is populated, so they are worth the wait.
                state = self.wait(state);
            }
            state.unmet -= self.slab_len;
        }
        // Files of exact size take the place of free slabs.
        while self.held(&state) > self.ceiling(&state) {
            let evicted = state.growing.take().map(drop).or_else(|| state.dirty.pop().or_else(|| state.ready.pop()).map(drop));
            if evicted.is_none() {
                state = self.wait(state);
            }
        }
        Ok(taken)
    }

    /// Counts `bytes` as used, if they are free.
    pub fn claim(&self, state: &mut State, asked: u64, bytes: u64) -> Result<()> {
        let free = state.offer.saturating_sub(state.used);
        if bytes > free {
            return Err(Error::PoolFull { asked, free, withheld: self.bytes - state.offer });
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
        state.may_grow && state.has_spare && is_wanted && self.held(state) + self.slab_len <= state.offer
    }

    /// Bytes that may be used or lie in the stock: those on offer, or those in use where they are more.
    fn ceiling(&self, state: &State) -> u64 {
        state.offer.max(state.used)
    }

    /// Bytes that are used, or lie in the stock.
    fn held(&self, state: &State) -> u64 {
        state.used + self.cached(state)
    }

    /// Bytes that lie in the stock.
    fn cached(&self, state: &State) -> u64 {
        let count = (state.ready.len() + state.dirty.len()) as u64 + state.wiping + u64::from(state.growing.is_some());
        count * self.slab_len
    }
}
