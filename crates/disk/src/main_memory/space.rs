//! The memory of one program: its blocks, and what moves their pages. Whoever changes a block holds it. A thread that waits for a block
//! holds no other, but for a Free, which takes blocks in rising order.
//!
//! | file | holds |
//! |---|---|
//! | `ahead` | what comes before it is touched |
//! | `eviction` | what leaves |
//! | `reserving` | what the program may write |
//! | `telling` | what its user is told |

mod ahead;
mod eviction;
mod reserving;
mod telling;

use super::block::{Block, PAGES, Slot, bits, has};
use super::room::Reservation;
use super::store::Lane;
use super::{Counts, Shared};
use hanare::Result;
use hanare_memory::uffd::pager::{Pager, Touch};
use hanare_memory::uffd::{Refused, Span};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

pub use ahead::{AHEAD_TOGETHER, Order};
pub use eviction::EVICTED_TOGETHER;
use telling::Told;

/// A block's number in its program's arena.
pub type Number = u64;

/// A buffer of so many blocks, empty.
pub fn buffer(blocks: usize) -> Vec<u8> {
    vec![0; blocks * BLOCK_LEN as usize]
}

/// How a program is reached.
pub struct Reach {
    /// Its memory.
    pub pager: Pager,
    /// The thread in it that takes pages out.
    pub hand: OwnedFd,
    /// Its arena.
    pub arena: Span,
    /// Its process.
    pub process: u32,
    /// Its name.
    pub name: String,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    block: Block,
    is_held: bool,
    is_queued: bool,
}

#[derive(Default)]
struct Table {
    blocks: HashMap<Number, Entry>,
    /// Blocks with pages here, those that came first in front.
    queue: VecDeque<Number>,
    /// First pages of blocks that were brought ahead without them.
    stash: HashMap<Number, Box<[u8]>>,
    held: usize,
    /// A fork is going on: nobody takes a block.
    is_frozen: bool,
    is_over: bool,
    evictions: u64,
}

/// One program's memory.
pub struct ProgramSpace {
    own: Weak<ProgramSpace>,
    shared: Arc<Shared>,
    reach: Reach,
    table: Mutex<Table>,
    changed: Condvar,
    /// Pages here.
    here: AtomicU64,
    /// Blocks that it may write.
    room: Mutex<Reservation>,
    /// The same for a child that the program is about to make.
    room_of_child: Mutex<Reservation>,
    told: Told,
}

/// A table as it was at a fork, until the child says hello.
pub struct Snapshot {
    shared: Arc<Shared>,
    blocks: HashMap<Number, Entry>,
    room: Reservation,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.blocks.values().filter_map(|entry| entry.block.slot).for_each(|slot| self.shared.store.release(slot));
    }
}

impl ProgramSpace {
    /// That of a program which begins, or of a child that has its parent's pages.
    pub fn new(shared: &Arc<Shared>, reach: Reach, mut inherited: Option<Snapshot>) -> Arc<ProgramSpace> {
        let blocks = inherited.as_mut().map(|snapshot| std::mem::take(&mut snapshot.blocks)).unwrap_or_default();
        let room = inherited.map_or_else(|| Reservation::new(shared), |mut snapshot| snapshot.room.take());
        let mut queue: VecDeque<Number> =
            blocks.iter().filter(|(_, entry)| entry.block.here != 0).map(|(number, _)| *number).collect();
        queue.make_contiguous().sort_unstable();
        let here: u64 = blocks.values().map(|entry| u64::from(entry.block.here.count_ones())).sum();
        let blocks = blocks.into_iter().map(|(number, entry)| {
            // What the kernel copied is not protected.
            let block = Block { dirty: entry.block.here, ..entry.block };
            (number, Entry { block, is_held: false, is_queued: entry.block.here != 0 })
        });
        let table = Table { blocks: blocks.collect(), queue, ..Table::default() };
        shared.here.fetch_add(here, Ordering::Relaxed);
        Arc::new_cyclic(|own| ProgramSpace {
            own: own.clone(),
            shared: shared.clone(),
            reach,
            table: Mutex::new(table),
            changed: Condvar::new(),
            here: here.into(),
            room: Mutex::new(room),
            room_of_child: Mutex::new(Reservation::new(shared)),
            told: Told::default(),
        })
    }

    /// How the program is reached.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Pages of it that are on this host.
    pub fn here(&self) -> u64 {
        self.here.load(Ordering::Relaxed)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a block when nobody has it. `None` when the program is over.
    fn hold(&self, number: Number) -> Option<Held<'_>> {
        let mut table = self.table();
        loop {
            if table.is_over {
                return None;
            }
            let is_frozen = table.is_frozen;
            let entry = table.blocks.entry(number).or_default();
            if !entry.is_held && !is_frozen {
                entry.is_held = true;
                let block = entry.block;
                table.held += 1;
                return Some(Held { space: self, number, block, claim: None });
            }
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Where a block's pages are in the program.
    fn span(&self, number: Number, pages: Range<u32>) -> Span {
        let start = self.reach.arena.start + number * BLOCK_LEN + u64::from(pages.start) * PAGE_LEN;
        Span { start, len: u64::from(pages.end - pages.start) * PAGE_LEN }
    }

    /// The block and page of an address.
    fn find(&self, at: u64) -> Option<(Number, u32)> {
        let offset = at.checked_sub(self.reach.arena.start).filter(|offset| *offset < self.reach.arena.len)?;
        Some((offset / BLOCK_LEN, (offset % BLOCK_LEN / PAGE_LEN) as u32))
    }

    /// Resolves a touch.
    pub fn on_touch(&self, touch: Touch, lane: &Lane, buffer: &mut [u8]) {
        let (Touch::Absent { at, .. } | Touch::Protected { at }) = touch;
        let Some((number, page)) = self.find(at) else { return };
        self.counts().faults.fetch_add(1, Ordering::Relaxed);
        if matches!(touch, Touch::Absent { .. }) {
            self.shared.make_room(1);
        }
        let Some(mut held) = self.hold(number) else { return };
        match touch {
            Touch::Protected { .. } => held.unprotect(page),
            Touch::Absent { is_write, .. } => {
                if let Err(error) = held.bring(page, is_write, lane, buffer) {
                    drop(held);
                    self.on_lost(&error, self.span(number, page..page + 1));
                }
            }
        }
    }

    /// How many pages in a row are here, and how many dirty, at the end of the block before one.
    fn tails_before(&self, number: Number) -> (u32, u32) {
        let before = number.checked_sub(1).and_then(|before| self.table().blocks.get(&before).map(|entry| entry.block));
        before.map_or((0, 0), |block| (block.here.leading_ones(), block.dirty.leading_ones()))
    }

    /// Holds the blocks of a range and calls `then`; afterwards the pages are zero.
    pub fn free(&self, start: u64, len: u64, then: impl FnOnce() -> Option<()>) -> Option<()> {
        let end = start.checked_add(len).filter(|end| *end <= self.reach.arena.start + self.reach.arena.len)?;
        let (first, _) = self.find(start)?;
        let mut held = Vec::new();
        for number in first..(end - self.reach.arena.start).div_ceil(BLOCK_LEN) {
            held.push(self.hold(number)?);
        }
        then()?;
        for mut held in held {
            let base = self.reach.arena.start + held.number * BLOCK_LEN;
            let page = |at: u64| (at.saturating_sub(base) / PAGE_LEN).min(PAGES.into()) as u32;
            let before = held.block.here.count_ones();
            held.block.on_freed(page(start)..page(end));
            self.table().stash.remove(&held.number);
            held.count(before);
            if held.block.kept == 0
                && let Some(slot) = held.block.slot.take()
            {
                self.shared.store.release(slot);
            }
        }
        Some(())
    }

    /// Stops all movement for a fork, and returns what the child will have; `room` is for that.
    pub fn freeze(&self, room: Reservation) -> Option<Snapshot> {
        let wait = |table| self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        let mut table = self.table();
        while table.is_frozen && !table.is_over {
            table = wait(table);
        }
        table.is_frozen = true;
        while table.held > 0 && !table.is_over {
            table = wait(table);
        }
        if table.is_over {
            return None;
        }
        let blocks = table.blocks.clone();
        blocks.values().filter_map(|entry| entry.block.slot).for_each(|slot| self.shared.store.share(slot));
        Some(Snapshot { shared: self.shared.clone(), blocks, room })
    }

    /// The fork is done.
    pub fn thaw(&self) {
        self.table().is_frozen = false;
        self.changed.notify_all();
    }

    /// The program is over: its pages and slots are nobody's.
    pub fn end(&self) {
        let mut table = self.table();
        table.is_over = true;
        self.changed.notify_all();
        while table.held > 0 {
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        let blocks = std::mem::take(&mut table.blocks);
        table.queue.clear();
        table.stash.clear();
        drop(table);
        blocks.values().filter_map(|entry| entry.block.slot).for_each(|slot| self.shared.store.release(slot));
        self.give_back_all();
        self.shared.here.fetch_sub(self.here.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        self.shared.room.notify_all();
    }
}

/// A block that this thread alone changes, until it is dropped.
struct Held<'a> {
    space: &'a ProgramSpace,
    number: Number,
    block: Block,
    /// A slot that it gets when it leaves, or gives back.
    claim: Option<Slot>,
}

impl Deref for Held<'_> {
    type Target = Block;

    fn deref(&self) -> &Block {
        &self.block
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Block {
        &mut self.block
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.claim.take().into_iter().for_each(|slot| self.space.shared.store.release(slot));
        let mut table = self.space.table();
        table.held -= 1;
        if let Some(entry) = table.blocks.get_mut(&self.number) {
            let is_new = self.block.here != 0 && !entry.is_queued;
            entry.is_queued |= is_new;
            (entry.block, entry.is_held) = (self.block, false);
            if is_new {
                table.queue.push_back(self.number);
            }
        }
        drop(table);
        self.space.changed.notify_all();
    }
}

impl Held<'_> {
    /// Takes note that so many pages were here before.
    fn count(&self, before: u32) {
        let (now, before) = (u64::from(self.block.here.count_ones()), u64::from(before));
        for here in [&self.space.here, &self.space.shared.here] {
            here.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        }
        if now < before {
            self.space.shared.room.notify_all();
        }
    }

    /// Lets a write go on.
    fn unprotect(&mut self, page: u32) {
        let span = self.space.span(self.number, page..page + 1);
        if !has(self.block.here, page) {
            return self.space.reach.pager.wake(span);
        }
        let before = if page == 0 { self.space.tails_before(self.number).1 } else { 0 };
        let pages = self.block.unprotected_with(page, before);
        self.block.dirty |= bits(pages.clone());
        if self.space.reach.pager.unprotect(self.space.span(self.number, pages)).is_err() {
            self.space.reach.pager.wake(span);
        }
    }

    /// Brings an absent page, and others with it.
    fn bring(&mut self, page: u32, is_write: bool, lane: &Lane, buffer: &mut [u8]) -> Result<()> {
        if has(self.block.here, page) {
            // Another thread's touch brought it meanwhile, or the program gave it back behind our back: then it is zero.
            self.install(page..page + 1, true, &[0; PAGE_LEN as usize]);
            return Ok(());
        }
        let before = if page == self.block.here.trailing_ones() { self.space.tails_before(self.number).0 } else { 0 };
        let pages = self.block.brought_with(page, before);
        let stashed = self.space.table().stash.remove(&self.number).filter(|_| page == 0);
        if let Some(bytes) = &stashed {
            self.install(0..1, is_write, bytes);
        } else {
            self.note_return();
            let bytes = &mut buffer[..(pages.end - pages.start) as usize * PAGE_LEN as usize];
            match self.block.slot.filter(|_| has(self.block.kept, page)) {
                Some(slot) => {
                    self.space.shared.store.read(lane, &mut [(slot, pages.start, &mut *bytes)], Some(self.space))?;
                    self.space.goes_on();
                    self.space.counts().fetched.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                }
                None => bytes.fill(0),
            }
            self.install(pages.clone(), is_write, bytes);
        }
        let is_stream = self.block.run_before(page, before) >= PAGES / 2 && (pages.end == PAGES || page == 0);
        if is_stream || stashed.is_some() {
            let order = self.space.order(self.number, stashed.is_some(), is_write);
            self.space.shared.order(&self.space.own, order);
        }
        Ok(())
    }

    /// Takes note that pages are about to come back, where the first do.
    fn note_return(&mut self) {
        if self.block.here == 0 && self.block.kept != 0 {
            let (evictions, queued) = {
                let table = self.space.table();
                (table.evictions, table.queue.len() as u64)
            };
            self.block.on_return(evictions, queued);
        }
    }

    /// Puts pages into the program.
    fn install(&mut self, pages: Range<u32>, is_write: bool, bytes: &[u8]) {
        let (mut page, before) = (pages.start, self.block.here.count_ones());
        while page < pages.end {
            let at = self.space.span(self.number, page..pages.end).start;
            let rest = &bytes[(page - pages.start) as usize * PAGE_LEN as usize..];
            let copy = |bytes| self.space.reach.pager.copy(at, bytes, !is_write);
            // Pages of different protection are different mappings to the kernel, which refuses a copy to several: then one by one.
            let copied = copy(rest).or_else(|refused| match refused {
                Refused::System(Errno::EXIST) => Err(refused),
                _ => copy(&rest[..PAGE_LEN as usize]),
            });
            let done = match copied {
                Ok(done) => (done / PAGE_LEN) as u32,
                // A page that is there although nobody brought it: the program's own thread did, with zeros.
                Err(Refused::System(Errno::EXIST)) => 1,
                Err(_) => break,
            };
            self.block.here |= bits(page..page + done);
            if is_write {
                self.block.dirty |= bits(page..page + done);
            }
            page += done.max(1);
        }
        self.count(before);
        self.space.reach.pager.wake(self.space.span(self.number, pages));
    }
}
