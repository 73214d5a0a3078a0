//! A heap in a region: which bytes of it are given out, for all clients alike. Its home is the node of the region's first extent.
//!
//! The heap never looks at the bytes themselves. Its tables lie beside them, so no client can spoil it by a stray store. Crate
//! `offset-allocator` finds blocks, in *granules*. They have 64 bytes in regions up to 256 GiB, a larger power of two beyond.
//!
//! The region's first 64 bytes are never given out. Offset 0 can stand for no block, and programs that share a heap keep the offset of
//! their first block there.

use crate::error::{Error, Result};
use crate::limits::{BLOCK_COUNT_MAX, GRANULE_LEN_MIN, HEAP_GROWN_BLOCK_COUNT_MAX, HEAP_PART_COUNT_MAX, REGION_LEN_MAX};
use offset_allocator::{Allocation, Allocator};
use std::collections::BTreeMap;

/// The blocks of one region's heap.
///
/// - Every block in `blocks` lies in one allocation of one part, and no two in the same.
/// - Blocks and allocations are whole granules; parts follow each other from the region's second granule on.
pub struct Heap {
    region: String,
    granule: u64,
    /// A part for the region at first, and one for each time that it has grown.
    parts: Vec<HeapPart>,
    /// Blocks by their first byte in the region.
    blocks: BTreeMap<u64, Block>,
    used: u64,
    /// Bytes of the region as who asks knows it: it gets no block beyond.
    within: u64,
}

struct HeapPart {
    /// Its first granule in the region, and how many it has.
    first: u64,
    count: u32,
    allocator: Allocator,
}

#[derive(Clone, Copy)]
struct Block {
    part: usize,
    allocation: Allocation,
}

impl HeapPart {
    /// All free, for at most so many blocks.
    fn new(first: u64, count: u32, blocks: u32) -> HeapPart {
        HeapPart { first, count, allocator: Allocator::with_max_allocs(count, entries(count, blocks)) }
    }

    fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }
}

/// Bytes of an entry of the table, at most.
const ENTRY_LEN: u64 = 32;

/// Bytes of a granule, and how many are given out.
fn granules(len: u64) -> (u64, u32) {
    let granule = (len.div_ceil(1 << 32)).next_power_of_two().max(GRANULE_LEN_MIN);
    (granule, (len / granule).saturating_sub(1).min(u64::from(u32::MAX - 1)) as u32)
}

/// Each block has an entry, and so has each free part between two; the allocator keeps one back.
fn entries(granule_count: u32, blocks: u32) -> u32 {
    2 * granule_count.min(blocks) + 3
}

impl Heap {
    /// The heap of a region of `len` bytes, all free. Messages call the region as `region` says.
    ///
    /// **Cost**: 64 bytes for each block that there can be, at most 8 MiB, at once.
    pub fn new(region: &str, len: u64) -> Heap {
        let (granule, count) = granules(len);
        let parts = vec![HeapPart::new(1, count, BLOCK_COUNT_MAX)];
        Heap { region: region.to_owned(), granule, parts, blocks: BTreeMap::new(), used: 0, within: len }
    }

    /// End of the heap, and the number of granules that become its own behind it, in a region of `len` bytes.
    fn more(&self, len: u64) -> Option<(u64, u32)> {
        let end = self.parts.last().map_or(1, HeapPart::end);
        let more = (len.min(REGION_LEN_MAX) / self.granule).saturating_sub(end).min(u64::from(u32::MAX - 1)) as u32;
        (more > 0 && self.parts.len() < HEAP_PART_COUNT_MAX).then_some((end, more))
    }

    /// The region is `len` bytes long by now: bytes behind the heap's end are free, too. No block lies across the old end. From here on
    /// blocks are given out within `len` bytes. A program that opened the region before it grew gives the shorter length.
    ///
    /// **Cost**: where it has grown, [`Heap::growth_len`] bytes. A region that grew [`HEAP_PART_COUNT_MAX`] times has no blocks in further
    /// bytes.
    pub fn grow(&mut self, len: u64) {
        self.within = len;
        if let Some((end, more)) = self.more(len) {
            self.parts.push(HeapPart::new(end, more, HEAP_GROWN_BLOCK_COUNT_MAX));
        }
    }

    /// Bytes that the table gets longer where the region is `len` bytes long.
    pub fn growth_len(&self, len: u64) -> u64 {
        self.more(len).map_or(0, |(_, more)| u64::from(entries(more, HEAP_GROWN_BLOCK_COUNT_MAX)) * ENTRY_LEN)
    }

    /// Bytes of the block that begins at `offset`: as many as were asked for, or some more.
    ///
    /// **Errors**: [`Error::NoBlock`] where none begins there.
    pub fn block_len(&self, offset: u64) -> Result<u64> {
        let no_block = || Error::NoBlock { region: self.region.clone(), offset };
        let Block { part, allocation } = *self.blocks.get(&offset).ok_or_else(no_block)?;
        let part = self.parts.get(part).ok_or_else(no_block)?;
        let first = part.first + u64::from(allocation.offset);
        let end = (first + u64::from(part.allocator.allocation_size(allocation))) * self.granule;
        Ok(end - offset)
    }

    /// Bytes of the table of a heap in a region of `len` bytes.
    pub fn table_len(len: u64) -> u64 {
        u64::from(entries(granules(len).1, BLOCK_COUNT_MAX)) * ENTRY_LEN
    }

    /// Number of allocated blocks.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes of all blocks that are given out, with what alignment and granules cost.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Takes a block of at least `len` bytes. Its offset in the region is a multiple of `align`, a power of two.
    ///
    /// **Cost**: constant, and a search by offset. A block is found where one that is an eighth longer would fit. Alignments beyond a
    /// granule take as many bytes more. **Errors**: [`Error::HeapFull`]; [`Error::LimitReached`] for too many blocks; [`Error::BadSetting`]
    /// for no bytes, or an alignment that is no power of two.
    pub fn allocate(&mut self, len: u64, align: u64) -> Result<u64> {
        let bad = |key: &str, value: u64, reason: &str| {
            Err(Error::BadSetting { key: key.to_owned(), value: value.to_string(), reason: reason.to_owned() })
        };
        if len == 0 {
            return bad("len", len, "a block has at least 1 byte");
        }
        if !align.is_power_of_two() {
            return bad("align", align, "alignments are powers of two");
        }
        if self.blocks.len() >= BLOCK_COUNT_MAX as usize {
            let what = format!("blocks of the heap in region '{}'", self.region);
            return Err(Error::LimitReached { what, limit: BLOCK_COUNT_MAX.into() });
        }
        // Granules begin at multiples of a granule, and of more only by chance.
        let padded = len.checked_add(align.max(self.granule) - self.granule);
        let granules =
            padded.and_then(|len| u32::try_from(len.div_ceil(self.granule)).ok()).filter(|count| *count < u32::MAX / 2);
        let found = granules.and_then(|count| {
            let end = self.within / self.granule;
            let mut parts = self.parts.iter_mut().enumerate().filter(|(_, part)| part.end() <= end);
            parts.find_map(|(part, at)| Some(Block { part, allocation: at.allocator.allocate(count)? }))
        });
        let Some(block) = found else { return Err(self.full(len)) };
        let part = &self.parts[block.part];
        let offset = ((part.first + u64::from(block.allocation.offset)) * self.granule).next_multiple_of(align);
        self.used += u64::from(part.allocator.allocation_size(block.allocation)) * self.granule;
        self.blocks.insert(offset, block);
        Ok(offset)
    }

    /// Gives the block that begins at `offset` back.
    ///
    /// **Errors**: [`Error::NoBlock`] where none begins there; nothing is changed then.
    pub fn free(&mut self, offset: u64) -> Result<()> {
        let Some(Block { part, allocation }) = self.blocks.remove(&offset) else {
            return Err(Error::NoBlock { region: self.region.clone(), offset });
        };
        let allocator = &mut self.parts[part].allocator;
        self.used -= u64::from(allocator.allocation_size(allocation)) * self.granule;
        allocator.free(allocation);
        Ok(())
    }

    fn full(&self, asked: u64) -> Error {
        let reports: Vec<_> = self.parts.iter().map(|part| part.allocator.storage_report()).collect();
        let bytes = |granules: u32| u64::from(granules) * self.granule;
        let free = reports.iter().map(|report| bytes(report.total_free_space)).sum();
        let largest = reports.iter().map(|report| bytes(report.largest_free_region)).max().unwrap_or(0);
        Error::HeapFull { region: self.region.clone(), asked, free, largest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn blocks_are_where_they_should_be_and_come_back() {
        let mut heap = Heap::new("h", MIB);
        let first = heap.allocate(1, 1).unwrap();
        assert_eq!(first, GRANULE_LEN_MIN, "the first granule is never given out");
        let page = heap.allocate(100, 4096).unwrap();
        assert!(page.is_multiple_of(4096) && page > 0, "{page}");
        heap.free(first).unwrap();
        heap.free(page).unwrap();
        assert_eq!((heap.block_count(), heap.used()), (0, 0));
        heap.allocate(MIB * 3 / 4, 1).unwrap();
    }

    #[test]
    fn a_heap_follows_its_region_and_tells_how_long_blocks_are() {
        let mut heap = Heap::new("h", MIB);
        let first = heap.allocate(MIB / 2, 1).unwrap();
        assert!(matches!(heap.allocate(MIB / 2, 1), Err(Error::HeapFull { .. })));
        heap.grow(MIB);
        assert_eq!((heap.growth_len(MIB), heap.growth_len(3 * MIB) > 0), (0, true));
        assert!(matches!(heap.allocate(MIB / 2, 1), Err(Error::HeapFull { .. })), "it has not grown");
        heap.grow(3 * MIB);
        let second = heap.allocate(MIB, 4096).unwrap();
        assert!(second >= MIB && second + MIB <= 3 * MIB, "{second}");
        heap.grow(MIB);
        assert!(
            matches!(heap.allocate(MIB / 2, 1), Err(Error::HeapFull { .. })),
            "an older handle reaches nothing beyond its own"
        );
        heap.grow(3 * MIB);
        assert_eq!(heap.block_len(first), Ok(MIB / 2));
        assert!((MIB..MIB + MIB / 4).contains(&heap.block_len(second).unwrap()));
        assert_eq!(heap.block_len(second + 64), Err(Error::NoBlock { region: "h".into(), offset: second + 64 }));
        heap.free(second).unwrap();
        heap.free(first).unwrap();
        assert_eq!((heap.block_count(), heap.used()), (0, 0));
        (0..2 * HEAP_PART_COUNT_MAX as u64).for_each(|step| heap.grow((4 + step) * MIB));
        heap.grow(u64::MAX);
        assert_eq!(heap.parts.len(), HEAP_PART_COUNT_MAX);
    }

    #[test]
    fn what_was_freed_or_never_given_out_cannot_be_freed() {
        let mut heap = Heap::new("h", MIB);
        let block = heap.allocate(1000, 8).unwrap();
        for offset in [0, block + 64, block + 1, u64::MAX] {
            assert_eq!(heap.free(offset), Err(Error::NoBlock { region: "h".into(), offset }));
        }
        heap.free(block).unwrap();
        assert_eq!(heap.free(block), Err(Error::NoBlock { region: "h".into(), offset: block }));
    }

    #[test]
    fn a_full_heap_says_what_is_free_and_nonsense_is_refused() {
        let mut heap = Heap::new("h", MIB);
        let half = heap.allocate(MIB / 2, 1).unwrap();
        let Err(Error::HeapFull { asked, free, largest, .. }) = heap.allocate(MIB, 1) else { panic!("it does not fit") };
        assert_eq!((asked, free), (MIB, MIB / 2 - 64));
        assert!(heap.allocate(largest, 1).is_ok());
        heap.free(half).unwrap();
        for (len, align) in [(u64::MAX, 1), (1, 1 << 63), (u64::MAX, 1 << 63), (1 << 40, 1)] {
            assert!(matches!(heap.allocate(len, align), Err(Error::HeapFull { .. })), "{len} {align}");
        }
        for (len, align) in [(0, 8), (8, 0), (8, 3)] {
            assert!(matches!(heap.allocate(len, align), Err(Error::BadSetting { .. })), "{len} {align}");
        }
    }

    #[test]
    fn regions_of_any_length_have_a_heap() {
        for len in [1, 63, 64, 127, 128, 129, 192, 256 << 30, (256 << 30) + 1, 1 << 45] {
            let mut heap = Heap::new("h", len);
            let block = heap.allocate(1, 1);
            assert_eq!(block.is_ok(), len >= 128, "{len}: {block:?}");
            if let Ok(block) = block {
                assert!(block >= 64 && block < len, "{block} of {len}");
                heap.free(block).unwrap();
            }
        }
    }

    #[test]
    fn the_table_of_blocks_has_a_limit() {
        let mut heap = Heap::new("h", 1 << 30);
        // Every other one is given back: there are as many free parts as there can be.
        let blocks: Vec<u64> = (0..BLOCK_COUNT_MAX).map(|_| heap.allocate(64, 1).unwrap()).collect();
        assert!(matches!(heap.allocate(64, 1), Err(Error::LimitReached { .. })));
        blocks.iter().step_by(2).for_each(|block| heap.free(*block).unwrap());
        for _ in (0..BLOCK_COUNT_MAX).step_by(2) {
            heap.allocate(128, 1).unwrap();
        }
        assert!(matches!(heap.allocate(64, 1), Err(Error::LimitReached { .. })));
    }

    proptest! {
        /// Against a plain map of which bytes are whose.
        #[test]
        fn blocks_never_overlap_and_all_bytes_come_back(
            steps in prop::collection::vec((any::<bool>(), 1..5000u64, 0..13u32, any::<prop::sample::Index>()), 1..200),
        ) {
            let len = 256 << 10;
            let mut heap = Heap::new("h", len);
            let mut blocks: Vec<(u64, u64)> = Vec::new();
            for (is_free, size, align, which) in steps {
                if is_free && !blocks.is_empty() {
                    let (offset, _) = blocks.swap_remove(which.index(blocks.len()));
                    prop_assert_eq!(heap.free(offset), Ok(()));
                } else if let Ok(offset) = heap.allocate(size, 1 << align) {
                    prop_assert!(offset.is_multiple_of(1 << align) && offset >= 64 && offset + size <= len);
                    prop_assert!(blocks.iter().all(|(other, end)| offset + size <= *other || *end <= offset));
                    blocks.push((offset, offset + size));
                }
                prop_assert_eq!(heap.block_count(), blocks.len());
            }
            for (offset, _) in blocks {
                heap.free(offset).unwrap();
            }
            prop_assert_eq!(heap.used(), 0);
            prop_assert!(heap.allocate(len / 2, 1).is_ok(), "all of it is one free block again");
        }
    }
}
