//! Pages of a block: present ones, those in the pool, and those to fetch together. No I/O.
//!
//! ```text
//!            touched                 written
//! zero ------------------> here ----------------> here, dirty
//!   ^  freed                ^ |  evicted              | evicted
//!   +----- any              | v                       |
//!                           kept (in the pool) <------+
//! ```

use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use std::ops::Range;

/// Pages of a block: as many as a word has bits.
pub const PAGES: u32 = (BLOCK_LEN / PAGE_LEN) as u32;

/// Present pages in a row just before a touched one that make a stream: fewer may be chance, where half of the memory is here.
pub const STREAM_MIN: u32 = 4;

/// A block's number in its program's arena.
pub type Number = u64;

/// A block's place in the pool: its number among those of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u32);

/// A block of a program's memory. Pages that are neither here nor kept are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Pages that the program has.
    pub here: u64,
    /// Present pages that it may write: the pool's bytes are older.
    pub dirty: u64,
    /// Pages whose bytes the pool has.
    pub kept: u64,
    /// Its slot, if it has one.
    pub slot: Option<Slot>,
}

impl Block {
    /// The pages to bring for a touch of absent `page`, all of them kept, or all zero. `before` is how many pages in a row are here
    /// at the end of the block before.
    pub fn brought_with(&self, page: u32, before: u32) -> Range<u32> {
        let run = self.run_before(page, before);
        let wanted = if run >= STREAM_MIN { run.saturating_mul(2) } else { 1 };
        let last = page.saturating_add(wanted).min(PAGES);
        let is_like = |other: &u32| has(self.kept, *other) == has(self.kept, page) && !has(self.here, *other);
        let count = (page..last).take_while(is_like).count() as u32;
        page..page + count.max(1)
    }

    /// The pages to let be written for a write to protected `page`. `before` is how many pages in a row are dirty at the end of the
    /// block before.
    pub fn unprotected_with(&self, page: u32, before: u32) -> Range<u32> {
        let run = run_before(self.dirty, page, before);
        let wanted = if run >= STREAM_MIN { run * 2 } else { 1 };
        let last = (page + wanted).min(PAGES);
        page..page + (page..last).take_while(|other| has(self.here, *other)).count().max(1) as u32
    }

    /// Number of present pages in a row just before `page`.
    pub fn run_before(&self, page: u32, before: u32) -> u32 {
        run_before(self.here, page, before)
    }

    /// Takes note of an eviction of pages, of which some have no byte but zeros.
    pub fn on_evicted(&mut self, pages: u64, zeros: u64) {
        self.kept |= self.dirty & pages;
        self.here &= !pages;
        self.dirty &= !pages;
        self.on_freed(zeros);
    }

    /// Takes note that pages became zero.
    pub fn on_freed(&mut self, pages: u64) {
        self.here &= !pages;
        self.dirty &= !pages;
        self.kept &= !pages;
    }
}

/// Number of set bits in a row just before `page`, where `before` are in the word before.
fn run_before(word: u64, page: u32, before: u32) -> u32 {
    // Shifted in two steps: a shift by 64 is none.
    let run = (word << (PAGES - 1 - page) << 1).leading_ones().min(page);
    if run == page { run + before } else { run }
}

/// True if a page's bit is set.
pub fn has(word: u64, page: u32) -> bool {
    word >> page & 1 == 1
}

/// The bits of some pages.
pub fn bits(pages: Range<u32>) -> u64 {
    match pages.end - pages.start {
        0 => 0,
        count => (u64::MAX >> (PAGES - count)) << pages.start,
    }
}

/// The runs of pages whose bits are set.
pub fn runs(mut word: u64) -> impl Iterator<Item = Range<u32>> {
    std::iter::from_fn(move || {
        let first = word.trailing_zeros();
        (first < PAGES).then(|| {
            let last = first + (word >> first).trailing_ones();
            word &= !bits(first..last);
            first..last
        })
    })
}

/// Bytes of the pages whose bits are set.
pub fn len_of(word: u64) -> usize {
    word.count_ones() as usize * PAGE_LEN as usize
}

/// The bytes of those runs, which lie one after the other.
pub fn cut(mut bytes: &mut [u8], word: u64) -> impl Iterator<Item = (Range<u32>, &mut [u8])> {
    runs(word).map(move |run| {
        let (piece, rest) = std::mem::take(&mut bytes).split_at_mut(len_of(bits(run.clone())));
        bytes = rest;
        (run, piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_the_bits() {
        for word in [0, 1, u64::MAX, 1 << 63, 0xf0f0, !1, u64::MAX >> 1] {
            assert_eq!(runs(word).map(bits).fold(0, |all, run| all | run), word);
            assert!(runs(word).all(|run| run.start < run.end && run.end <= PAGES));
        }
    }

    #[test]
    fn bytes_are_cut_as_pages_are_marked() {
        for word in [0, 1, u64::MAX, 0b1011_0110, 1 << 63, !1] {
            let mut bytes: Vec<u8> = runs(word).flatten().flat_map(|page| [page as u8; PAGE_LEN as usize]).collect();
            assert_eq!(bytes.len(), len_of(word));
            let pieces: Vec<_> = cut(&mut bytes, word).map(|(run, piece)| (run, piece.to_vec())).collect();
            assert!(pieces.iter().map(|(run, _)| run.clone()).eq(runs(word)));
            for (run, piece) in pieces {
                assert!(piece.chunks(PAGE_LEN as usize).map(|page| page[0]).eq(run.map(|page| page as u8)), "{word:x}");
            }
        }
    }

    #[test]
    fn a_stream_brings_twice_what_it_has_and_chance_brings_one() {
        let block = Block { here: 0b1111, kept: u64::MAX, ..Block::default() };
        assert_eq!(block.brought_with(4, 0), 4..12);
        assert_eq!(block.brought_with(6, 0), 6..7);
        assert_eq!(Block { here: 0b11, ..block }.brought_with(2, 0), 2..3);
        assert_eq!(Block { here: 0, ..block }.brought_with(0, 64), 0..64);
        assert_eq!(Block { here: 0b1111 | 1 << 7, ..block }.brought_with(4, 0), 4..7, "up to what is here");
        assert_eq!(Block { kept: 0b11_0000, ..block }.brought_with(4, 0), 4..6, "kept ones alone");
        assert_eq!(Block { here: u64::MAX >> 1, ..block }.brought_with(63, 64), 63..64);
    }

    #[test]
    fn writes_in_a_row_unprotect_ahead() {
        let block = Block { here: u64::MAX, dirty: 0b1111, ..Block::default() };
        assert_eq!((block.unprotected_with(4, 0), block.unprotected_with(9, 64)), (4..12, 9..10));
        assert_eq!(Block { dirty: u64::MAX >> 1, ..block }.unprotected_with(63, 0), 63..64);
        assert_eq!(Block { here: 0b1_1111, ..block }.unprotected_with(4, 0), 4..5);
        let clean = Block { here: u64::MAX, ..Block::default() };
        assert_eq!((clean.unprotected_with(0, 64), clean.unprotected_with(0, 3)), (0..64, 0..1), "a stream goes on");
    }

    #[test]
    fn a_page_goes_and_comes() {
        let mut block = Block { here: 0b1_1111, dirty: 0b1_1010, ..Block::default() };
        block.on_evicted(0b0111, 0);
        assert_eq!((block.here, block.dirty, block.kept), (0b1_1000, 0b1_1000, 0b010), "what was never written is zero again");
        block.on_evicted(0b1_1000, 0b1000);
        assert_eq!((block.here, block.dirty, block.kept), (0, 0, 0b1_0010), "zeros are not kept");
        block.on_freed(0b11);
        assert_eq!(block.kept, 0b1_0000);
    }
}
