//! The memory of one program: its blocks, and what moves their pages. Whoever changes a page holds it: a touch all pages of its block that
//! nobody has, the evictor those that leave. A thread that waits for a block holds no other, but for a Free, which takes blocks in rising
//! order.
//!
//! | file | holds |
//! |---|---|
//! | `prefetch` | what comes before it is touched |
//! | `eviction` | what leaves |
//! | `reserving` | what the program may write |
//! | `telling` | what its user is told |

mod eviction;
mod prefetch;
mod reserving;
mod telling;

use super::block::{Block, Number, PAGES, STREAM_MIN, bits, cut, has, len_of, runs};
use super::policy::{Arrival, Policy};
use super::room::Reservation;
use super::store::ReadConnections;
use super::{Counts, Shared, counted};
use hanare::Result;
use hanare_memory::uffd::pager::{Pager, Touch};
use hanare_memory::uffd::{Refused, Span};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::page::own_page::{Aim, Event, PageStep};
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

pub use eviction::EVICTED_TOGETHER;
pub use prefetch::{AHEAD_TOGETHER, Order};
use telling::Told;

/// A buffer of so many blocks, empty.
pub fn buffer(blocks: usize) -> Vec<u8> {
    vec![0; blocks * BLOCK_LEN as usize]
}

/// Access to a program.
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

#[derive(Default)]
struct Table {
    blocks: HashMap<Number, Block>,
    /// Order in which pages leave.
    policy: Policy,
    /// First pages of blocks that were brought ahead without them.
    stash: HashMap<Number, Box<[u8]>>,
    /// Holders of blocks' pages.
    held: usize,
    /// A fork is going on: nobody takes a block.
    is_frozen: bool,
    is_over: bool,
}

/// A program's memory.
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
    blocks: HashMap<Number, Block>,
    room: Reservation,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.blocks.values().filter_map(|block| block.slot).for_each(|slot| self.shared.store.release(slot));
    }
}

impl ProgramSpace {
    /// The space of a program which begins, or of a child that has its parent's pages.
    pub fn new(shared: &Arc<Shared>, reach: Reach, mut inherited: Option<Snapshot>) -> Arc<ProgramSpace> {
        let blocks = inherited.as_mut().map(|snapshot| std::mem::take(&mut snapshot.blocks)).unwrap_or_default();
        let room = inherited.map_or_else(|| Reservation::new(shared), |mut snapshot| snapshot.room.take());
        let here: u64 = blocks.values().map(|block| u64::from(block.here().count_ones())).sum();
        let mut policy = Policy::default();
        let mut arrivals: Vec<Arrival> =
            blocks.iter().map(|(number, block)| Arrival { number: *number, pages: block.here(), is_stream: false }).collect();
        arrivals.sort_unstable_by_key(|arrival| arrival.number);
        arrivals.iter().for_each(|arrival| policy.on_brought(arrival, here));
        let blocks = blocks.into_iter().map(|(number, block)| (number, block.inherited()));
        let table = Table { blocks: blocks.collect(), policy, ..Table::default() };
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

    /// Access to the program.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Pages of it that are on this host.
    pub fn here(&self) -> u64 {
        counted(&self.here)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_change<'t>(&self, table: MutexGuard<'t, Table>) -> MutexGuard<'t, Table> {
        self.changed.wait(table).unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a block's pages, but for those that leave, when nobody has those that are wanted. `None` when the program is over.
    fn hold(&self, number: Number, pages: u64) -> Option<BlockClaim<'_>> {
        let mut table = self.table();
        loop {
            if table.is_over {
                return None;
            }
            let is_frozen = table.is_frozen;
            let block = table.blocks.entry(number).or_default();
            if block.states.held() & pages == 0 && !is_frozen {
                let held = BlockClaim::new(self, number, block);
                table.held += 1;
                return Some(held);
            }
            table = self.wait_for_change(table);
        }
    }

    /// Takes note that so many pages came; those that left are below zero, and wrap.
    fn count(&self, came: u64) {
        for here in [&self.here, &self.shared.here] {
            here.fetch_add(came, Ordering::Relaxed);
        }
    }

    /// Pages that may be here, as long as other programs have what they have.
    fn capacity(&self) -> u64 {
        let all = counted(&self.shared.here) + self.shared.reserve();
        self.here() + self.shared.limit.saturating_sub(all)
    }

    fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Addresses of a block's pages in the program.
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
    pub fn on_touch(&self, touch: Touch, lane: &ReadConnections, buffer: &mut [u8]) {
        let (Touch::Absent { at, .. } | Touch::Protected { at }) = touch;
        let Some((number, page)) = self.find(at) else { return };
        self.counts().faults.fetch_add(1, Ordering::Relaxed);
        if matches!(touch, Touch::Absent { .. }) {
            self.shared.make_room(1);
        }
        let Some(mut held) = self.hold(number, bits(page..page + 1)) else { return };
        match touch {
            Touch::Protected { .. } => held.unprotect(page),
            Touch::Absent { access, .. } => {
                if let Err(error) = held.bring(page, access, lane, buffer) {
                    drop(held);
                    self.on_lost(&error, self.span(number, page..page + 1));
                }
            }
        }
    }

    /// Number of present pages, and of dirty ones, in a row at the end of the block before.
    fn tails_before(&self, number: Number) -> (u32, u32) {
        let before = number.checked_sub(1).and_then(|before| self.table().blocks.get(&before).copied());
        before.map_or((0, 0), |block| (block.here().leading_ones(), block.states.dirty().leading_ones()))
    }

    /// Holds the blocks of a range and calls `then`; afterwards the pages are zero.
    pub fn free(&self, start: u64, len: u64, then: impl FnOnce() -> Option<()>) -> Option<()> {
        let end = start.checked_add(len).filter(|end| *end <= self.reach.arena.start + self.reach.arena.len)?;
        let (first, _) = self.find(start)?;
        let mut held = Vec::new();
        for number in first..(end - self.reach.arena.start).div_ceil(BLOCK_LEN) {
            held.push(self.hold(number, u64::MAX)?);
        }
        then()?;
        for mut held in held {
            let base = self.reach.arena.start + held.number * BLOCK_LEN;
            let page = |at: u64| (at.saturating_sub(base) / PAGE_LEN).min(PAGES.into()) as u32;
            let before = held.block.here().count_ones();
            held.block.on_freed(bits(page(start)..page(end)));
            self.table().stash.remove(&held.number);
            self.count(u64::from(held.block.here().count_ones()).wrapping_sub(before.into()));
            self.shared.room.notify_all();
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
        let mut table = self.table();
        while table.is_frozen && !table.is_over {
            table = self.wait_for_change(table);
        }
        table.is_frozen = true;
        while table.held > 0 && !table.is_over {
            table = self.wait_for_change(table);
        }
        if table.is_over {
            return None;
        }
        let blocks = table.blocks.clone();
        blocks.values().filter_map(|block| block.slot).for_each(|slot| self.shared.store.share(slot));
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
            table = self.wait_for_change(table);
        }
        let blocks = std::mem::take(&mut table.blocks);
        table.policy = Policy::default();
        table.stash.clear();
        drop(table);
        blocks.values().filter_map(|block| block.slot).for_each(|slot| self.shared.store.release(slot));
        self.give_back_all();
        self.shared.here.fetch_sub(self.here.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        self.shared.room.notify_all();
    }
}

/// A block's pages that this thread alone changes, until it is dropped.
struct BlockClaim<'a> {
    space: &'a ProgramSpace,
    number: Number,
    block: Block,
    /// The pages; the others leave.
    pages: u64,
    /// Pages that came since it was taken.
    brought: u64,
    /// True if they are part of a stream.
    is_stream: bool,
}

impl Deref for BlockClaim<'_> {
    type Target = Block;

    fn deref(&self) -> &Block {
        &self.block
    }
}

impl DerefMut for BlockClaim<'_> {
    fn deref_mut(&mut self) -> &mut Block {
        &mut self.block
    }
}

impl Drop for BlockClaim<'_> {
    fn drop(&mut self) {
        let capacity = self.space.capacity();
        let mut table = self.space.table();
        table.held -= 1;
        if let Some(block) = table.blocks.get_mut(&self.number) {
            block.release(self.pages, &self.block);
        }
        if has(self.brought, 0) {
            // The program has what was at hand, and may change it.
            table.stash.remove(&self.number);
        }
        if self.brought != 0 {
            let arrival = Arrival { number: self.number, pages: self.brought, is_stream: self.is_stream };
            table.policy.on_brought(&arrival, capacity);
        }
        drop(table);
        self.space.changed.notify_all();
    }
}

impl<'a> BlockClaim<'a> {
    fn new(space: &'a ProgramSpace, number: Number, block: &mut Block) -> BlockClaim<'a> {
        let pages = !block.states.held();
        block.states.step(Event::Hold, pages);
        BlockClaim { space, number, block: *block, pages, brought: 0, is_stream: false }
    }

    /// Lets a write go on.
    fn unprotect(&mut self, page: u32) {
        let span = self.space.span(self.number, page..page + 1);
        if !has(self.here(), page) {
            return self.space.reach.pager.wake(span);
        }
        let before = if page == 0 { self.space.tails_before(self.number).1 } else { 0 };
        let pages = self.block.unprotected_with(page, before);
        let mut pages = bits(page..pages.end.min(page + (self.pages >> page).trailing_ones()));
        if pages == bits(page..page + 1) && self.is_hot() {
            pages = self.here() & self.pages;
        }
        self.take(Aim::Touch(Access::Write), PageStep::Open, pages);
        for run in runs(pages) {
            if self.space.reach.pager.unprotect(self.space.span(self.number, run)).is_err() {
                self.space.reach.pager.wake(span);
            }
        }
    }

    /// Brings an absent page, and others with it.
    fn bring(&mut self, page: u32, access: Access, lane: &ReadConnections, buffer: &mut [u8]) -> Result<()> {
        if has(self.here(), page) {
            // Another thread's touch brought it meanwhile, or the program gave it back behind our back: then it is zero.
            self.install(page..page + 1, Access::Write, &[0; PAGE_LEN as usize]);
            return Ok(());
        }
        let before = if page == self.here().trailing_ones() { self.space.tails_before(self.number).0 } else { 0 };
        let run = self.block.run_before(page, before);
        self.is_stream = run >= STREAM_MIN;
        if let Some(bytes) = self.stashed(page) {
            self.install(0..1, access, &bytes);
            self.order(true, access);
            return Ok(());
        }
        let mut pages = bits(self.block.brought_with(page, before));
        if !self.is_stream && self.is_hot() {
            let is_kept = has(self.block.kept, page);
            pages = if is_kept { self.absent() } else { !self.here() & !self.block.kept };
        }
        self.fetch(pages, access, lane, &mut buffer[..len_of(pages)])?;
        if run >= PAGES / 2 && (has(pages, PAGES - 1) || page == 0) {
            self.order(false, access);
        }
        Ok(())
    }

    /// Has the next blocks of a stream brought, more of them where it goes on.
    fn order(&self, goes_on: bool, access: Access) {
        let order = self.space.order(self.number, goes_on, access);
        self.space.shared.order(&self.space.own, order);
    }

    /// The bytes of a stream's first page, where they are at hand.
    fn stashed(&self, page: u32) -> Option<Box<[u8]>> {
        if page == 0 { self.space.table().stash.remove(&self.number) } else { None }
    }

    /// Takes note of a touch outside of streams, and says whether the whole block is to come.
    fn is_hot(&self) -> bool {
        let capacity = self.space.capacity();
        self.space.table().policy.on_lone(self.number, capacity)
    }

    /// Brings pages, all of them kept, or all zero.
    fn fetch(&mut self, pages: u64, access: Access, lane: &ReadConnections, bytes: &mut [u8]) -> Result<()> {
        match self.block.slot.filter(|_| self.block.kept & pages != 0) {
            Some(slot) => {
                let mut pieces: Vec<_> = cut(bytes, pages).map(|(run, bytes)| (slot, run.start, bytes)).collect();
                self.space.shared.store.read(lane, &mut pieces, Some(self.space))?;
                self.space.goes_on();
                self.space.counts().fetched.fetch_add(len_of(pages) as u64, Ordering::Relaxed);
            }
            None => bytes.fill(0),
        }
        cut(bytes, pages).for_each(|(run, bytes)| self.install(run, access, bytes));
        Ok(())
    }

    /// Puts pages into the program.
    fn install(&mut self, pages: Range<u32>, access: Access, bytes: &[u8]) {
        let (mut page, before) = (pages.start, self.here().count_ones());
        while page < pages.end {
            let at = self.space.span(self.number, page..pages.end).start;
            let rest = &bytes[(page - pages.start) as usize * PAGE_LEN as usize..];
            let copy = |bytes| self.space.reach.pager.copy(at, bytes, access == Access::Read);
            // Pages of different protection are different mappings to the kernel, which refuses a copy to several: then one by one.
            let copied = copy(rest).or_else(|refused| match refused {
                Refused::System(Errno::EXIST) => Err(refused),
                _ => copy(&rest[..PAGE_LEN as usize]),
            });
            let done = match copied {
                Ok(done) => (done / PAGE_LEN) as u32,
                // A page that is there although nobody brought it: the program's own thread did, with zeros.
                Err(Refused::System(Errno::EXIST)) => {
                    self.space.reach.pager.wake(self.space.span(self.number, page..page + 1));
                    1
                }
                Err(_) => {
                    self.space.reach.pager.wake(self.space.span(self.number, page..pages.end));
                    break;
                }
            };
            self.block.on_brought(bits(page..page + done), access);
            self.brought |= bits(page..page + done);
            page += done.max(1);
        }
        self.space.count(u64::from(self.here().count_ones() - before));
    }
}
