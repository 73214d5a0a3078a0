//! A heap in a region: which bytes of it are given out, for all clients alike. Its home is the node of the region's first extent.
//!
//! The heap never looks at the bytes themselves. Its tables lie beside them, so no client can spoil it by a stray store. It gives out whole
//! *granules*. They have 64 bytes in regions up to 256 GiB, a larger power of two beyond.
//!
//! The same calls in the same order leave the same heap, and have the same answers. So the copies of a region have its heap: they carry out the
//! home's calls. A heap also travels, as the list of its blocks.
//!
//! The region's first 64 bytes are never given out. Offset 0 can stand for no block, and programs that share a heap keep the offset of
//! their first block there.

mod call;
mod free;

pub use call::{HEAP_ANSWER_LEN, HeapAnswer, HeapCall, HeapRefusal, HeapWish, answer_bytes, answers_of};

use crate::limits::{BLOCK_COUNT_MAX, GRANULE_LEN_MIN, HEAP_PART_COUNT_MAX, REGION_LEN_MAX};
use free::FreeGranules;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The blocks of one region's heap.
///
/// - Each block lies in one part, and no two have a granule.
/// - A granule of a part is free, or in a block.
/// - Parts follow each other from the region's second granule on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "HeapTable", into = "HeapTable")]
pub struct Heap {
    granule: u64,
    /// A part for the region at first, and one for each time that it has grown.
    parts: Vec<HeapPart>,
    /// Numbers of granules by the number of the block's first.
    blocks: BTreeMap<u64, u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HeapPart {
    /// Its first granule in the region, and how many it has.
    first: u64,
    count: u32,
    free: FreeGranules,
}

/// A heap as it travels.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct HeapTable {
    granule: u64,
    /// Granules of each part.
    parts: Vec<u32>,
    /// First granule and number of granules of each block.
    blocks: Vec<(u64, u32)>,
}

impl HeapPart {
    /// All free.
    fn new(first: u64, count: u32) -> HeapPart {
        let mut free = FreeGranules::default();
        free.give(0, count);
        HeapPart { first, count, free }
    }

    fn end(&self) -> u64 {
        self.first.saturating_add(self.count.into())
    }

    /// The place of a granule in it.
    fn place(&self, granule: u64) -> Option<u32> {
        let place = u32::try_from(granule.checked_sub(self.first)?).ok()?;
        (place < self.count).then_some(place)
    }
}

/// Bytes of memory for a block and a free range behind it, at most.
const ENTRY_LEN: u64 = 64;

/// Bytes of a granule, and how many are given out.
fn granules(len: u64) -> (u64, u32) {
    let granule = (len.div_ceil(1 << 32)).next_power_of_two().max(GRANULE_LEN_MIN);
    (granule, (len / granule).saturating_sub(1).min(u64::from(u32::MAX - 1)) as u32)
}

/// Bytes of the table of a heap of so many granules.
fn table_len_of(granules: u64) -> u64 {
    granules.min(BLOCK_COUNT_MAX.into()).saturating_mul(ENTRY_LEN)
}

impl Heap {
    /// The heap of a region of `len` bytes, all free.
    pub fn new(len: u64) -> Heap {
        let (granule, count) = granules(len);
        Heap { granule, parts: vec![HeapPart::new(1, count)], blocks: BTreeMap::new() }
    }

    /// End of the heap, and the number of granules that become its own behind it, in a region of `len` bytes.
    fn more(&self, len: u64) -> Option<(u64, u32)> {
        let end = self.parts.last().map_or(1, HeapPart::end);
        let more = (len.min(REGION_LEN_MAX) / self.granule).saturating_sub(end).min(u64::from(u32::MAX - 1)) as u32;
        (more > 0 && self.parts.len() < HEAP_PART_COUNT_MAX).then_some((end, more))
    }

    /// The region is `len` bytes long by now: bytes behind the heap's end are free, too. No block lies across the old end. A region that grew
    /// [`HEAP_PART_COUNT_MAX`] times has no blocks in further bytes.
    pub fn grow(&mut self, len: u64) {
        if let Some((end, more)) = self.more(len) {
            self.parts.push(HeapPart::new(end, more));
        }
    }

    /// Bytes that the table gets longer at most where the region is `len` bytes long.
    pub fn growth_len(&self, len: u64) -> u64 {
        let end = self.parts.last().map_or(1, HeapPart::end);
        self.more(len).map_or(0, |(_, more)| table_len_of(end.saturating_add(more.into())).saturating_sub(table_len_of(end)))
    }

    /// Bytes of the table of a heap in a region of `len` bytes, at most.
    pub fn table_len(len: u64) -> u64 {
        table_len_of(granules(len).1.into())
    }

    /// Bytes of the block that begins at `offset`, as many as were asked for, or some more. `None` where none begins there.
    pub fn block_len(&self, offset: u64) -> Option<u64> {
        let count = self.blocks.get(&self.granule_at(offset)?)?;
        Some(u64::from(*count).saturating_mul(self.granule))
    }

    /// The granule that begins at `offset`, if one does.
    fn granule_at(&self, offset: u64) -> Option<u64> {
        offset.is_multiple_of(self.granule).then(|| offset / self.granule)
    }

    /// Number of allocated blocks.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Carries a call out. The heap of a region begins with its first call.
    pub fn carry_out(heap: &mut Option<Heap>, call: &HeapCall) -> Vec<HeapAnswer> {
        let heap = heap.get_or_insert_with(|| Heap::new(call.region_len));
        heap.grow(call.region_len);
        let answer = |wish: &HeapWish| match *wish {
            HeapWish::Allocate { len, align } => heap.allocate(call.region_len, len, align),
            HeapWish::Free { offset } => heap.free(offset).map(|()| offset),
        };
        call.wishes.iter().map(answer).collect()
    }

    /// Takes a block of at least `len` bytes, for a program that knows the region as `within` bytes long. Returns its offset in the region:
    /// a multiple of `align`, a power of two.
    ///
    /// **Cost**: two searches of a table.
    pub fn allocate(&mut self, within: u64, len: u64, align: u64) -> Result<u64, HeapRefusal> {
        if len == 0 {
            return Err(HeapRefusal::NoBytes);
        }
        if !align.is_power_of_two() {
            return Err(HeapRefusal::BadAlign);
        }
        if self.blocks.len() >= BLOCK_COUNT_MAX as usize {
            return Err(HeapRefusal::TooMany);
        }
        let (end, step) = (within / self.granule, align.div_ceil(self.granule));
        let found = u32::try_from(len.div_ceil(self.granule)).ok().and_then(|count| {
            let mut parts = self.parts.iter_mut().filter(|part| part.end() <= end);
            parts.find_map(|part| Some((part.first.saturating_add(part.free.take(count, step, part.first)?.into()), count)))
        });
        let Some((first, count)) = found else { return Err(self.full()) };
        self.blocks.insert(first, count);
        Ok(first.saturating_mul(self.granule))
    }

    /// Gives the block that begins at `offset` back.
    pub fn free(&mut self, offset: u64) -> Result<(), HeapRefusal> {
        let block = self.granule_at(offset).and_then(|first| Some((first, self.blocks.remove(&first)?)));
        let (first, count) = block.ok_or(HeapRefusal::NoBlock)?;
        for part in &mut self.parts {
            if let Some(place) = part.place(first) {
                part.free.give(place, count);
            }
        }
        Ok(())
    }

    fn full(&self) -> HeapRefusal {
        let sums: Vec<_> = self.parts.iter().map(|part| part.free.sums()).collect();
        let bytes = |granules: u64| granules.saturating_mul(self.granule);
        let free = bytes(sums.iter().map(|(all, _)| all).sum());
        HeapRefusal::Full { free, largest: bytes(sums.iter().map(|(_, longest)| u64::from(*longest)).max().unwrap_or(0)) }
    }
}

impl From<Heap> for HeapTable {
    fn from(heap: Heap) -> HeapTable {
        let parts = heap.parts.iter().map(|part| part.count).collect();
        HeapTable { granule: heap.granule, parts, blocks: heap.blocks.into_iter().collect() }
    }
}

impl TryFrom<HeapTable> for Heap {
    type Error = &'static str;

    fn try_from(table: HeapTable) -> Result<Heap, &'static str> {
        let HeapTable { granule, parts: counts, blocks } = table;
        let is_short = (1..=HEAP_PART_COUNT_MAX).contains(&counts.len()) && blocks.len() <= BLOCK_COUNT_MAX as usize;
        if !granule.is_power_of_two() || granule < GRANULE_LEN_MIN || !is_short {
            return Err("a heap with other granules, parts or numbers of blocks than there can be");
        }
        let (mut parts, mut first) = (Vec::with_capacity(counts.len()), 1u64);
        let mut rest = blocks.as_slice();
        for count in counts {
            let mut part = HeapPart { first, count, free: FreeGranules::default() };
            let mut at = 0;
            while let Some(((block, len), behind)) = rest.split_first()
                && *block < part.end()
            {
                let gap = part.place(*block).and_then(|place| Some((place, place.checked_sub(at)?)));
                let (place, gap) = gap.ok_or("a heap whose blocks do not ascend")?;
                part.free.give(at, gap);
                let end = place.checked_add(*len).filter(|end| *len > 0 && *end <= count);
                (at, rest) = (end.ok_or("a block beyond its part of a heap")?, behind);
            }
            part.free.give(at, count.saturating_sub(at));
            first = part.end();
            parts.push(part);
        }
        if !rest.is_empty() || first.checked_mul(granule).is_none() {
            return Err("a block beyond its heap");
        }
        Ok(Heap { granule, parts, blocks: blocks.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::control::{decode, encode};
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn blocks_are_where_they_should_be_and_come_back() {
        let mut heap = Heap::new(MIB);
        let first = heap.allocate(MIB, 1, 1).unwrap();
        assert_eq!(first, GRANULE_LEN_MIN, "the first granule is never given out");
        let page = heap.allocate(MIB, 100, 4096).unwrap();
        assert!(page.is_multiple_of(4096) && page > 0, "{page}");
        heap.free(first).unwrap();
        heap.free(page).unwrap();
        assert_eq!(heap, Heap::new(MIB));
        assert_eq!(heap.allocate(MIB, MIB - 64, 1), Ok(64), "all of it is one block");
    }

    #[test]
    fn a_heap_follows_its_region_and_tells_how_long_blocks_are() {
        let mut heap = Heap::new(MIB);
        let first = heap.allocate(MIB, MIB / 2, 1).unwrap();
        let full = |answer| matches!(answer, Err(HeapRefusal::Full { .. }));
        assert!(full(heap.allocate(MIB, MIB / 2, 1)));
        heap.grow(MIB);
        assert_eq!((heap.growth_len(MIB), heap.growth_len(3 * MIB) > 0), (0, true));
        assert!(full(heap.allocate(MIB, MIB / 2, 1)), "it has not grown");
        heap.grow(3 * MIB);
        let second = heap.allocate(3 * MIB, MIB, 4096).unwrap();
        assert!(second >= MIB && second + MIB <= 3 * MIB, "{second}");
        assert!(full(heap.allocate(MIB, MIB / 2, 1)), "an older handle reaches nothing beyond its own");
        assert_eq!((heap.block_len(first), heap.block_len(second)), (Some(MIB / 2), Some(MIB)));
        assert_eq!((heap.block_len(second + 64), heap.block_len(second + 1)), (None, None));
        heap.free(second).unwrap();
        heap.free(first).unwrap();
        (0..2 * HEAP_PART_COUNT_MAX as u64).for_each(|step| heap.grow((4 + step) * MIB));
        heap.grow(u64::MAX);
        assert_eq!((heap.block_count(), heap.parts.len()), (0, HEAP_PART_COUNT_MAX));
    }

    #[test]
    fn what_was_freed_or_never_given_out_cannot_be_freed() {
        let mut heap = Heap::new(MIB);
        let block = heap.allocate(MIB, 1000, 8).unwrap();
        for offset in [0, block + 64, block + 1, u64::MAX] {
            assert_eq!(heap.free(offset), Err(HeapRefusal::NoBlock));
        }
        heap.free(block).unwrap();
        assert_eq!(heap.free(block), Err(HeapRefusal::NoBlock));
    }

    #[test]
    fn each_wish_of_a_call_has_its_own_answer() {
        let allocate = |len| HeapWish::Allocate { len, align: 1 };
        let wishes =
            vec![allocate(MIB / 2), allocate(MIB), HeapWish::Free { offset: 64 }, HeapWish::Free { offset: 64 }, allocate(1)];
        let mut heap = None;
        let answers = Heap::carry_out(&mut heap, &HeapCall { region_len: MIB, wishes });
        let full = HeapRefusal::Full { free: MIB / 2 - 64, largest: MIB / 2 - 64 };
        assert_eq!(answers, [Ok(64), Err(full), Ok(64), Err(HeapRefusal::NoBlock), Ok(64)]);
        assert_eq!(heap.map(|heap| heap.block_count()), Some(1));
    }

    #[test]
    fn a_full_heap_says_what_is_free_and_nonsense_is_refused() {
        let mut heap = Heap::new(MIB);
        let half = heap.allocate(MIB, MIB / 2, 1).unwrap();
        let left = MIB / 2 - 64;
        assert_eq!(heap.allocate(MIB, MIB, 1), Err(HeapRefusal::Full { free: left, largest: left }));
        assert!(heap.allocate(MIB, left, 1).is_ok());
        heap.free(half).unwrap();
        for (len, align) in [(u64::MAX, 1), (1, 1 << 63), (u64::MAX, 1 << 63), (1 << 40, 1)] {
            assert!(matches!(heap.allocate(MIB, len, align), Err(HeapRefusal::Full { .. })), "{len} {align}");
        }
        assert_eq!(heap.allocate(MIB, 0, 8), Err(HeapRefusal::NoBytes));
        assert_eq!([0, 3].map(|align| heap.allocate(MIB, 8, align)), [Err(HeapRefusal::BadAlign); 2]);
    }

    #[test]
    fn regions_of_any_length_have_a_heap() {
        for len in [1, 63, 64, 127, 128, 129, 192, 256 << 30, (256 << 30) + 1, 1 << 45, u64::MAX] {
            let mut heap = Heap::new(len);
            let block = heap.allocate(len, 1, 1);
            assert_eq!(block.is_ok(), len >= 128, "{len}: {block:?}");
            assert_eq!(decode(&encode(&heap)), Ok(heap.clone()), "{len}");
            if let Ok(block) = block {
                assert!(block >= 64 && block < len, "{block} of {len}");
                heap.free(block).unwrap();
            }
        }
    }

    #[test]
    fn the_table_of_blocks_has_a_limit() {
        let mut heap = Heap::new(1 << 30);
        // Every other one is given back: there are as many free parts as there can be.
        let blocks: Vec<u64> = (0..BLOCK_COUNT_MAX).map(|_| heap.allocate(1 << 30, 64, 1).unwrap()).collect();
        assert_eq!(heap.allocate(1 << 30, 64, 1), Err(HeapRefusal::TooMany));
        blocks.iter().step_by(2).for_each(|block| heap.free(*block).unwrap());
        for _ in (0..BLOCK_COUNT_MAX).step_by(2) {
            heap.allocate(1 << 30, 128, 1).unwrap();
        }
        assert_eq!(heap.allocate(1 << 30, 64, 1), Err(HeapRefusal::TooMany));
        let bytes = encode(&heap);
        assert!(bytes.len() < crate::limits::CONTROL_LEN_MAX / 8, "{}", bytes.len());
        assert_eq!(decode(&bytes), Ok(heap));
    }

    #[test]
    fn a_table_that_no_heap_has_is_refused() {
        let table = |granule, parts: &[u32], blocks: &[(u64, u32)]| {
            Heap::try_from(HeapTable { granule, parts: parts.to_vec(), blocks: blocks.to_vec() })
        };
        assert!(table(64, &[10, 5], &[(1, 3), (4, 7), (11, 5)]).is_ok());
        for blocks in [&[(0, 1)][..], &[(1, 0)], &[(1, 11)], &[(4, 1), (1, 1)], &[(1, 3), (3, 1)], &[(16, 1)], &[(u64::MAX, 1)]] {
            assert!(table(64, &[10, 5], blocks).is_err(), "{blocks:?}");
        }
        for (granule, parts) in [(63, &[1][..]), (32, &[1]), (64, &[]), (64, &[1; HEAP_PART_COUNT_MAX + 1]), (1 << 63, &[9])] {
            assert!(table(granule, parts, &[]).is_err(), "{granule} {parts:?}");
        }
    }

    proptest! {
        /// Against a plain list of which bytes are whose. A heap that has travelled meanwhile gives the same answers.
        #[test]
        fn blocks_never_overlap_and_all_bytes_come_back(
            steps in prop::collection::vec((any::<bool>(), 1..5000u64, 0..13u32, any::<prop::sample::Index>()), 1..200),
        ) {
            let len = 256 << 10;
            let mut heap = Heap::new(len);
            let mut travelled = heap.clone();
            let mut blocks: Vec<(u64, u64)> = Vec::new();
            for (is_free, size, align, which) in steps {
                if is_free && !blocks.is_empty() {
                    let (offset, _) = blocks.swap_remove(which.index(blocks.len()));
                    prop_assert_eq!((heap.free(offset), travelled.free(offset)), (Ok(()), Ok(())));
                } else {
                    let taken = heap.allocate(len, size, 1 << align);
                    prop_assert_eq!(travelled.allocate(len, size, 1 << align), taken);
                    if let Ok(offset) = taken {
                        prop_assert!(offset.is_multiple_of(1 << align) && offset >= 64 && offset + size <= len);
                        prop_assert!(blocks.iter().all(|(other, end)| offset + size <= *other || *end <= offset));
                        blocks.push((offset, offset + size));
                    }
                }
                prop_assert_eq!(heap.block_count(), blocks.len());
                travelled = decode(&encode(&travelled)).unwrap();
                prop_assert_eq!(&travelled, &heap);
            }
            for (offset, _) in blocks {
                heap.free(offset).unwrap();
            }
            prop_assert_eq!(heap, Heap::new(len), "all of it is one free block again");
        }
    }
}
