//! Pages of a block: their states, by the rules of [`hanare_protocol::page::own_page`], those in the pool, and those to fetch together. No
//! I/O.
//!
//! A page's home is the pool, where the page is kept; else its home bytes are zeros. There is no twin: a dirty page goes home whole.

use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::page::own_page::{Aim, Event, PAGE_COUNT, PageStates, PageStep, State};
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use std::ops::Range;

/// Pages of a block: as many as a word has bits.
pub const PAGES: u32 = (BLOCK_LEN / PAGE_LEN) as u32;

const _: () = assert!(PAGES == PAGE_COUNT, "a word has a bit for each page of a block");

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
    /// A page that is here is one that the program has. It may write dirty ones: the pool's bytes are older.
    pub states: PageStates,
    /// Pages whose bytes the pool has.
    pub kept: u64,
    /// Its slot, if it has one.
    pub slot: Option<Slot>,
}

impl Block {
    /// Pages that the program has.
    pub fn here(&self) -> u64 {
        self.states.here()
    }

    /// Pages that the pool has and the program has not.
    pub fn absent(&self) -> u64 {
        self.kept & !self.here()
    }

    /// True if somebody has each page of it.
    pub fn is_taken(&self) -> bool {
        self.states.held() == u64::MAX
    }

    /// The block of a child of a fork: pages that the kernel copied are not protected.
    pub fn inherited(mut self) -> Block {
        let clean = self.states.of(State::Clean);
        [Event::Hold, Event::Open, Event::Release].into_iter().for_each(|event| self.states.step(event, clean));
        self
    }

    /// The pages to bring for a touch of absent `page`, all of them kept, or all zero. `before` is how many pages in a row are here
    /// at the end of the block before.
    pub fn brought_with(&self, page: u32, before: u32) -> Range<u32> {
        let run = self.run_before(page, before);
        let wanted = if run >= STREAM_MIN { run.saturating_mul(2) } else { 1 };
        let last = page.saturating_add(wanted).min(PAGES);
        let here = self.here();
        let is_like = |other: &u32| has(self.kept, *other) == has(self.kept, page) && !has(here, *other);
        let count = (page..last).take_while(is_like).count() as u32;
        page..page + count.max(1)
    }

    /// The pages to let be written for a write to protected `page`. `before` is how many pages in a row are dirty at the end of the
    /// block before.
    pub fn unprotected_with(&self, page: u32, before: u32) -> Range<u32> {
        let (run, here) = (run_before(self.states.dirty(), page, before), self.here());
        let wanted = if run >= STREAM_MIN { run * 2 } else { 1 };
        let last = (page + wanted).min(PAGES);
        page..page + (page..last).take_while(|other| has(here, *other)).count().max(1) as u32
    }

    /// Number of present pages in a row just before `page`.
    pub fn run_before(&self, page: u32, before: u32) -> u32 {
        run_before(self.here(), page, before)
    }

    /// Takes the next step of those held pages for which it is the next one. Returns which they are.
    pub fn take(&mut self, aim: Aim, step: PageStep, pages: u64) -> u64 {
        let those = self.states.next(aim, step, pages);
        step.event().into_iter().for_each(|event| self.states.step(event, those));
        those
    }

    /// Pages have come, for that access. Held: the pages.
    pub fn on_brought(&mut self, pages: u64, access: Access) {
        self.take(Aim::Touch(access), PageStep::Fetch, pages);
        self.take(Aim::Touch(access), PageStep::Open, pages);
    }

    /// The pool has what was written to pages, but for those that have no byte but zeros. Held: the pages, closed.
    pub fn on_kept(&mut self, pages: u64, zeros: u64) {
        let pages = self.take(Aim::Evict, PageStep::Send, pages);
        self.kept = (self.kept | pages) & !(pages & zeros);
    }

    /// Takes note that pages became zero. Held: the pages.
    pub fn on_freed(&mut self, pages: u64) {
        self.states.step(Event::Discard, pages);
        self.kept &= !pages;
    }

    /// Releases pages. Their states and the slot are as their holder `left` them.
    pub fn release(&mut self, pages: u64, left: &Block) {
        self.states.take_over(pages, &left.states);
        self.states.step(Event::Release, pages);
        self.kept = self.kept & !pages | left.kept & pages;
        self.slot = left.slot;
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

    /// A block of which pages are here, some of them dirty.
    fn block(here: u64, dirty: u64) -> Block {
        let mut block = Block::default();
        block.states.step(Event::Hold, u64::MAX);
        block.on_brought(here & !dirty, Access::Read);
        block.on_brought(dirty, Access::Write);
        block.states.step(Event::Release, u64::MAX);
        block
    }

    #[test]
    fn a_stream_brings_twice_what_it_has_and_chance_brings_one() {
        let with = |here: u64, kept: u64| Block { kept, ..block(here, 0) };
        let all = u64::MAX;
        assert_eq!(with(0b1111, all).brought_with(4, 0), 4..12);
        assert_eq!(with(0b1111, all).brought_with(6, 0), 6..7);
        assert_eq!(with(0b11, all).brought_with(2, 0), 2..3);
        assert_eq!(with(0, all).brought_with(0, 64), 0..64);
        assert_eq!(with(0b1111 | 1 << 7, all).brought_with(4, 0), 4..7, "up to what is here");
        assert_eq!(with(0b1111, 0b11_0000).brought_with(4, 0), 4..6, "kept ones alone");
        assert_eq!(with(all >> 1, all).brought_with(63, 64), 63..64);
    }

    #[test]
    fn writes_in_a_row_unprotect_ahead() {
        let written = block(u64::MAX, 0b1111);
        assert_eq!((written.unprotected_with(4, 0), written.unprotected_with(9, 64)), (4..12, 9..10));
        assert_eq!(block(u64::MAX, u64::MAX >> 1).unprotected_with(63, 0), 63..64);
        assert_eq!(block(0b1_1111, 0b1111).unprotected_with(4, 0), 4..5);
        let clean = block(u64::MAX, 0);
        assert_eq!((clean.unprotected_with(0, 64), clean.unprotected_with(0, 3)), (0..64, 0..1), "a stream goes on");
    }

    /// Evicts pages, of which some are zeros.
    fn evict(block: &mut Block, pages: u64, zeros: u64) {
        block.states.step(Event::Hold, pages);
        let mut own = *block;
        let written = own.take(Aim::Evict, PageStep::Close, pages);
        assert_eq!(written, pages & block.states.dirty());
        own.on_kept(pages, zeros);
        assert_eq!(own.take(Aim::Evict, PageStep::Drop, pages), pages);
        block.release(pages, &own);
    }

    #[test]
    fn a_page_goes_and_comes() {
        let mut block = block(0b1_1111, 0b1_1010);
        let is = |block: &Block| (block.here(), block.states.dirty(), block.kept);
        evict(&mut block, 0b0111, 0);
        assert_eq!(is(&block), (0b1_1000, 0b1_1000, 0b010), "what was never written is zero again");
        evict(&mut block, 0b1_1000, 0b1000);
        assert_eq!(is(&block), (0, 0, 0b1_0010), "zeros are not kept");
        block.states.step(Event::Hold, 0b11);
        block.on_freed(0b11);
        assert_eq!(block.kept, 0b1_0000);
    }

    #[test]
    fn what_a_child_has_of_its_parent_may_be_written() {
        let child = block(0b1111, 0b0011).inherited();
        assert_eq!((child.here(), child.states.dirty(), child.states.held()), (0b1111, 0b1111, 0));
    }
}
