//! Blocks of bytes in heaps of the pool: one region after another, each twice as long as that before it.
//!
//! A heap's first 64 bytes are eight counts of *holds*: numbers of programs of its host that read blocks in place. A block's place chooses
//! its count. A program that gives a block back looks at the count after the last word that led there is gone. A program that holds a block
//! looks at the word after it has counted. So one of both sees the other, and a held block is not given back before its holder releases it.
//! A killed program never releases its holds. Nobody links the blocks that it keeps so; they go with the heap at the next sweep.

mod loose;

pub use loose::LooseBlocks;

use super::bucket::{At, GRANULE, rounded};
use super::spare_blocks::SpareBlocks;
use super::waiter::{Waiter, step};
use super::{BRIEF_LEN, Fault};
use hanare::{CreateOptions, Error, Lineage, LocalMapping, NodeId, Operator, Pool, Region, Rights};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Heaps in a row: the last is as long as all before it together.
const SEGMENT_COUNT: usize = 64;

/// Longest block, in bytes, that is kept for this program's next writes. With two of each length they are 266,240 bytes in all.
const KEPT_LEN: u64 = 4096;

/// Longest block that a store's program keeps, in bytes, and the part of the store that it keeps at most: a 64th. Blocks of pages are long.
const STORE_KEPT_LEN: u64 = 4 << 20;
const STORE_KEPT_PART: u64 = 64;

/// Least length of a value, in bytes, that can be held. A copy of a shorter value takes less time than a hold.
pub const VIEWED_LEN_MIN: u64 = 64 << 10;

/// Most blocks that this program remembers to give back when others no longer hold them. A sweep gives further ones back.
const HELD_COUNT: usize = 64;

/// The users that may have written what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writers {
    /// Only this program's user.
    pub alone: bool,
    /// Only users that the pool's handle trusts, and the groups of their regions.
    pub vouched: bool,
}

impl Writers {
    pub(crate) fn of(pool: &Pool, region: &Region) -> Writers {
        let trust = pool.trust();
        Writers { alone: trust.is_alone_in(region), vouched: trust.vouches_for(region) }
    }

    pub(crate) fn and(self, other: Writers) -> Writers {
        Writers { alone: self.alone && other.alone, vouched: self.vouched && other.vouched }
    }
}

/// A heap.
pub struct Segment {
    pub region: Arc<Region>,
    pub is_here: bool,
    /// The node that has all of it, if there is one.
    pub node: Option<NodeId>,
    /// Mapped while anybody holds a block.
    mapping: Mutex<Weak<LocalMapping>>,
}

impl Segment {
    fn new(region: Region) -> Segment {
        let mapping = Mutex::default();
        Segment { is_here: is_here(&region), node: node_of(&region), region: Arc::new(region), mapping }
    }

    fn free(&self, at: At) -> hanare::Result<()> {
        self.region.heap().free(at.offset())
    }

    /// True if a program reads the block, or another block of the same count, in place. An atomic step, so that it comes after the change
    /// of the last word that led there.
    fn is_held(&self, at: At) -> hanare::Result<bool> {
        Ok(self.region.fetch_word(at.count_offset(), Operator::Add, 0)? != 0)
    }

    /// The heap in this program's memory. `None` on another host, where it cannot be mapped, or where this program may not write the count.
    pub fn mapping(&self) -> Option<Arc<LocalMapping>> {
        if !self.is_here || self.region.rights() != Rights::Write {
            return None;
        }
        let mut known = self.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        known.upgrade().or_else(|| {
            let mapped = Arc::new(self.region.map_local().ok()?);
            *known = Arc::downgrade(&mapped);
            Some(mapped)
        })
    }
}

/// True if this program reaches all bytes of a region without a message.
pub fn is_here(region: &Region) -> bool {
    region.is_local() && region.copies() <= 1
}

/// The node that has all bytes of a region, if there is one that stays it.
pub fn node_of(region: &Region) -> Option<NodeId> {
    if region.copies() > 1 {
        return None;
    }
    let mut nodes = region.layout().extents().map(|extent| extent.node);
    let first = nodes.next()?;
    nodes.all(|node| node == first).then_some(first)
}

/// Heaps `PREFIX.0`, `PREFIX.1` ..., for any number of programs. This program's blocks go back with the last reference.
pub struct Heaps {
    pool: Pool,
    prefix: String,
    /// Options of further segments.
    options: CreateOptions,
    /// Bytes of the first.
    memory: u64,
    /// Number of heaps of a store, which are equally long; `None` where their number grows.
    fixed: Option<u32>,
    /// The heap of a store that had room last.
    last: AtomicU32,
    segments: [OnceLock<Segment>; SEGMENT_COUNT],
    kept: Mutex<SpareBlocks>,
    lineage: Lineage,
    /// True while no other user may have written a heap that was opened.
    is_alone: AtomicBool,
    /// True while only trusted users may have written a heap that was opened.
    is_vouched: AtomicBool,
}

impl Heaps {
    pub fn new(pool: &Pool, prefix: String, memory: u64, fixed: Option<u32>, options: CreateOptions) -> Heaps {
        let kept = match fixed {
            Some(count) => SpareBlocks::new(STORE_KEPT_LEN, memory.saturating_mul(count.into()) / STORE_KEPT_PART),
            None => SpareBlocks::new(KEPT_LEN, u64::MAX),
        };
        Heaps {
            pool: pool.clone(),
            prefix,
            options,
            memory,
            fixed,
            last: AtomicU32::new(0),
            segments: std::array::from_fn(|_| OnceLock::new()),
            kept: Mutex::new(kept),
            lineage: Lineage::here(),
            is_alone: AtomicBool::new(true),
            is_vouched: AtomicBool::new(true),
        }
    }

    /// Records the users that may write a heap, before anything is read of it.
    fn opened(&self, region: Region) -> Segment {
        let writers = Writers::of(&self.pool, &region);
        self.is_alone.fetch_and(writers.alone, Ordering::Relaxed);
        self.is_vouched.fetch_and(writers.vouched, Ordering::Relaxed);
        Segment::new(region)
    }

    /// The users that may have written the heaps that were opened.
    pub fn writers(&self) -> Writers {
        Writers { alone: self.is_alone.load(Ordering::Relaxed), vouched: self.is_vouched.load(Ordering::Relaxed) }
    }

    /// The heap of that number. **Errors**: [`Error::UnknownRegion`], [`Error::NotTrusted`].
    pub fn segment(&self, number: u32) -> hanare::Result<&Segment> {
        let name = || format!("{}.{number}", self.prefix);
        let segment = self.segments.get(number as usize).ok_or_else(|| Error::UnknownRegion { name: name() })?;
        match segment.get() {
            Some(known) => Ok(known),
            None => {
                let opened = self.opened(self.pool.open_trusted(&name())?);
                Ok(segment.get_or_init(|| opened))
            }
        }
    }

    fn opened_segment(&self, at: At) -> Option<&Segment> {
        self.segments.get(at.segment as usize).and_then(OnceLock::get)
    }

    /// True if a block can be read without waiting for any node: its heap is here, and was opened.
    pub fn is_here(&self, at: At) -> bool {
        self.opened_segment(at).is_some_and(|segment| segment.is_here)
    }

    /// The heaps that are there, whoever made them.
    fn all(&self) -> hanare::Result<impl DoubleEndedIterator<Item = (u32, &Segment)>> {
        let mut count = 0;
        while (count as usize) < SEGMENT_COUNT {
            match self.segment(count) {
                Ok(_) => count += 1,
                Err(Error::UnknownRegion { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok((0..count).filter_map(|number| Some((number, self.segments[number as usize].get()?))))
    }

    fn make(&self, number: u32, len: u64) -> hanare::Result<&Segment> {
        let name = format!("{}.{number}", self.prefix);
        match self.options.clone().make_where_nodes_live(|options| self.pool.create_or_attach(&name, len, options)) {
            Ok(made) => Ok(self.segments[number as usize].get_or_init(|| self.opened(made))),
            // Another program made it, for another block.
            Err(Error::BadLength { .. }) => self.segment(number),
            Err(error) => Err(error),
        }
    }

    /// Makes or opens all heaps of a store. **Errors**: [`Error::PoolFull`], [`Error::QuotaExceeded`].
    pub fn make_all(&self) -> hanare::Result<()> {
        (0..self.fixed.unwrap_or(0)).try_for_each(|number| self.make(number, self.memory).map(drop))
    }

    /// Opens all heaps of a store.
    pub fn open_all(&self) -> hanare::Result<()> {
        (0..self.fixed.unwrap_or(0)).try_for_each(|number| self.segment(number).map(drop))
    }

    /// The blocks that nobody links; none in a child made by fork, whose parent has them.
    fn kept(&self) -> Option<MutexGuard<'_, SpareBlocks>> {
        self.lineage.is_here().then(|| self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take_spare(&self, len: u64) -> Option<At> {
        self.kept()?.take(len)
    }

    /// True if this program can take a block of `len` bytes here, and give back one of `freed` bytes, without a message.
    pub fn spares_messages(&self, len: u64, freed: u64) -> bool {
        let Some(kept) = self.kept() else { return false };
        let has_one = len == 0 || kept.next(len).is_some_and(|at| self.is_here(at));
        // The one that is taken makes room for one of its own length.
        has_one && (freed == 0 || freed == len || kept.has_room(freed))
    }

    /// Takes a block.
    ///
    /// **Errors**: [`Fault::Full`] where no heap has room and none `may` be made to `grow`; [`Error::LimitReached`], [`Error::PoolFull`],
    /// [`Error::QuotaExceeded`].
    pub fn take(&self, len: u64, may_grow: bool) -> Result<At, Fault> {
        if let Some(kept) = self.take_spare(len) {
            return Ok(kept);
        }
        if let Some(count) = self.fixed {
            return self.take_fixed(count, len);
        }
        let mut tried = 0;
        let mut next = loop {
            let known = self.known();
            // The newest first: it is the largest, and the last that was full.
            for number in (tried..known).rev() {
                if let Some(at) = take_of(self.segment(number)?, number, len)? {
                    return Ok(at);
                }
            }
            let there = self.all()?.count() as u32;
            if there > known {
                tried = known;
                continue;
            }
            if self.give_back() {
                tried = 0;
                continue;
            }
            break there;
        };
        // A process without a heap begins with one.
        if !may_grow && next > 0 {
            return Err(Fault::Full);
        }
        while (next as usize) < SEGMENT_COUNT {
            let wanted = self.memory.saturating_mul(1 << next).max(len.saturating_mul(2).saturating_add(4096));
            if let Some(at) = take_of(self.make(next, wanted)?, next, len)? {
                return Ok(at);
            }
            next += 1;
        }
        Err(Error::LimitReached { what: format!("heaps '{}', all of which are full", self.prefix), limit: SEGMENT_COUNT as u64 }
            .into())
    }

    /// Takes a block of a store's heaps. **Errors**: [`Fault::Full`].
    fn take_fixed(&self, count: u32, len: u64) -> Result<At, Fault> {
        loop {
            let last = self.last.load(Ordering::Relaxed);
            for number in (0..count).map(|step| (last + step) % count) {
                if let Some(at) = take_of(self.segment(number)?, number, len)? {
                    self.last.store(number, Ordering::Relaxed);
                    return Ok(at);
                }
            }
            if !self.give_back() {
                return Err(Fault::Full);
            }
        }
    }

    /// Longest block of a store's heaps.
    pub fn block_len_max(&self) -> u64 {
        self.memory.saturating_sub(2 * GRANULE)
    }

    /// Heaps that were opened, from the first on.
    fn known(&self) -> u32 {
        self.segments.iter().take_while(|segment| segment.get().is_some()).count() as u32
    }

    /// Gives a block of `len` bytes back, or keeps it for a write of this program. Does nothing where there is no block, or the heap has
    /// gone.
    pub fn free(&self, at: At, len: u64) {
        if at.place == 0 {
            return;
        }
        // A sweep was faster, or its node is lost: either way nobody has the block any more.
        let Ok(segment) = self.segment(at.segment) else { return };
        // Values of a store are not read in place.
        let is_long = len >= VIEWED_LEN_MIN;
        if is_long && self.fixed.is_none() {
            self.give_back_long(Some(at));
            return;
        }
        if !self.kept().is_some_and(|mut kept| kept.keep(at, len)) {
            self.last.store(at.segment, Ordering::Relaxed);
            let _ = segment.free(at);
        }
    }

    /// Gives long blocks back that nobody holds, `at` among them. Blocks that others hold are remembered.
    fn give_back_long(&self, at: Option<At>) {
        let Some(held) = self.kept().map(|mut kept| std::mem::take(&mut kept.held)) else { return };
        let mut still = Vec::new();
        for at in held.into_iter().chain(at) {
            let Ok(segment) = self.segment(at.segment) else { continue };
            match segment.is_held(at) {
                Ok(true) => still.push(at),
                Ok(false) => drop(segment.free(at)),
                // The heap has gone, or its node is lost.
                Err(_) => {}
            }
        }
        if let Some(mut kept) = self.kept() {
            let room = HELD_COUNT.saturating_sub(kept.held.len());
            kept.held.extend(still.into_iter().take(room));
        }
    }

    /// Gives all spare blocks back. Returns true if there were any but long ones.
    pub fn give_back(&self) -> bool {
        self.give_back_long(None);
        let Some(blocks) = self.kept().map(|mut kept| kept.take_all()) else { return false };
        let mut there_were = false;
        for at in blocks {
            there_were = true;
            // A later call would fail the same way, as late, after the heap or its node is gone.
            if self.segment(at.segment).and_then(|segment| segment.free(at)).is_err() {
                break;
            }
        }
        there_were
    }

    /// The range of a block in its heap. **Errors**: [`Fault::Changed`] where there is no such block.
    pub fn range<W: Waiter>(&self, waiter: &W, at: At, len: u64) -> Result<(&Segment, u64), Fault> {
        let segment = match self.opened_segment(at) {
            Some(segment) => segment,
            None => waiter.wait(|| self.segment(at.segment))?,
        };
        let is_inside = at.offset().checked_add(len).is_some_and(|end| end <= segment.region.len());
        if is_inside { Ok((segment, at.offset())) } else { Err(Fault::Changed) }
    }

    /// Reads the first `len` bytes of a block. **Errors**: [`Fault::Changed`] where the heap is shorter.
    pub fn read<W: Waiter>(&self, waiter: &W, at: At, len: u64, into: &mut Vec<u8>) -> Result<(), Fault> {
        let (segment, offset) = self.range(waiter, at, len)?;
        into.resize(len as usize, 0);
        Ok(segment.region.get(offset, into)?)
    }

    /// Writes bytes in parts that follow each other into a block of their own. **Errors**: as for [`Heaps::take`].
    pub fn write<W: Waiter>(&self, waiter: &W, parts: &[&[u8]], may_grow: bool) -> Result<At, Fault> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        let may_last = || len > BRIEF_LEN as u64 || !self.spares_messages(len, 0);
        step(waiter, may_last, || {
            let at = self.take(len, may_grow)?;
            let Segment { region, .. } = self.segment(at.segment)?;
            let written = match parts {
                [only] => region.put(at.offset(), only),
                _ => self.pool.batch(|batch| {
                    let mut offset = at.offset();
                    parts.iter().try_for_each(|part| {
                        batch.put(region, offset, part)?;
                        offset += part.len() as u64;
                        Ok(())
                    })
                }),
            };
            written?;
            Ok(at)
        })
    }

    /// Bytes of all blocks that programs took and did not give back. This program first gives its spare blocks back.
    pub fn taken(&self) -> hanare::Result<u64> {
        self.give_back();
        self.all()?.try_fold(0, |sum, (_, Segment { region, .. })| {
            // The first granule is never given out, so this is refused, and says how much is free. Nor is what is left behind the last one.
            let given_out = region.len() / GRANULE * GRANULE;
            match region.heap().allocate(region.len(), 1) {
                Ok(at) => region.heap().free(at).map(|()| sum),
                Err(Error::HeapFull { free, .. }) => Ok(sum + given_out.saturating_sub(GRANULE + free)),
                Err(error) => Err(error),
            }
        })
    }

    /// Bytes of all heaps.
    pub fn capacity(&self) -> hanare::Result<u64> {
        Ok(self.all()?.map(|(_, segment)| segment.region.len()).sum())
    }
}

impl Drop for Heaps {
    fn drop(&mut self) {
        // A thread that panics does not wait for a node.
        if !std::thread::panicking() {
            self.give_back();
        }
    }
}

/// Takes a block of one heap, if it has room.
fn take_of(segment: &Segment, number: u32, len: u64) -> Result<Option<At>, Fault> {
    match segment.region.heap().allocate(len, 1) {
        Ok(offset) => match At::of_offset(number, offset) {
            Some(at) => Ok(Some(at)),
            None => {
                segment.region.heap().free(offset)?;
                Ok(None)
            }
        },
        Err(Error::HeapFull { .. } | Error::LimitReached { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
