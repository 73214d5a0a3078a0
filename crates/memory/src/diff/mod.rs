//! Diffs: the bytes of a page that a program changed since the page was clean. Writers of different bytes of one page both survive.
//!
//! A *twin* is a copy of the page's clean bytes, made before the first write. A *diff* says which bytes differ from the twin. It never
//! holds an unchanged byte, because that one may be another writer's.
//!
//! ```text
//! twin  ....................            home  ......BB............
//! page  ..aa.......a........            home  ..aa..BB...a........   after the runs of the diff were put there
//! diff  2: aa   11: a
//! ```
//!
//! A page that may be written while it is read may be torn. Its diff then holds some of the stores under way, the next one the others. None
//! is lost as long as the twin becomes what was read, not what is there later. Two diffs that change one byte are a race of the program:
//! the later one stays.
//!
//! # Costs
//!
//! A clean page: 1.1 times a `memcmp` of it. A changed one: 2 to 3 times, wherever the bytes are. Run `cargo run --release -p hanare-memory
//! --example diff` for the ratios on a machine.

#[cfg(test)]
mod tests;

use hanare_protocol::limits::PAGE_LEN;

/// Bytes of a page as a number of memory.
pub const PAGE: usize = PAGE_LEN as usize;

/// A private copy of a page.
pub type PageBytes = [u8; PAGE];

/// Bytes that one word of a mask stands for.
const BLOCK: usize = 64;

/// Words of a mask: one bit a byte.
const MASK_WORDS: usize = PAGE / BLOCK;

/// Changed bytes of a page.
#[derive(Clone, PartialEq, Eq)]
pub struct Diff {
    mask: [u64; MASK_WORDS],
}

impl Diff {
    /// The difference of two equal states.
    pub fn none() -> Diff {
        Diff { mask: [0; MASK_WORDS] }
    }

    /// The difference of two states of a page.
    ///
    /// **Cost**: for equal pages one `memcmp`; no allocation.
    // FEATURE: D2-F7
    pub fn between(twin: &PageBytes, page: &PageBytes) -> Diff {
        let mut diff = Diff::none();
        diff.renew(twin, page);
        diff
    }

    /// [`Diff::between`] in place: for signal handlers, whose stack is too small for several of these.
    pub fn renew(&mut self, twin: &PageBytes, page: &PageBytes) {
        self.mask = [0; MASK_WORDS];
        if twin != page {
            let blocks = twin.as_chunks::<BLOCK>().0.iter().zip(page.as_chunks::<BLOCK>().0);
            self.mask.iter_mut().zip(blocks).for_each(|(word, (old, new))| *word = changed_bytes(old, new));
        }
    }

    /// True if nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.mask == [0; MASK_WORDS]
    }

    /// The runs of changed bytes, as first byte and length, ascending.
    pub fn runs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.find(at, true)?;
            at = self.find(start, false).unwrap_or(PAGE);
            Some((start, at - start))
        })
    }

    /// The first byte from `at` on that is changed, or that is not.
    fn find(&self, at: usize, changed: bool) -> Option<usize> {
        let flip = if changed { 0 } else { u64::MAX };
        let mut index = at / BLOCK;
        let mut keep = u64::MAX.checked_shl((at % BLOCK) as u32)?;
        while index < MASK_WORDS {
            let word = (self.mask[index] ^ flip) & keep;
            if word != 0 {
                return Some(index * BLOCK + word.trailing_zeros() as usize);
            }
            (index, keep) = (index + 1, u64::MAX);
        }
        None
    }
}

impl std::fmt::Debug for Diff {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.runs()).finish()
    }
}

/// A bit for each byte that differs.
fn changed_bytes(old: &[u8; BLOCK], new: &[u8; BLOCK]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    return changed_by_sixteens(old, new);
    #[cfg(not(target_arch = "x86_64"))]
    changed_by_words(old, new)
}

/// Sixteen bytes at a time.
#[cfg(target_arch = "x86_64")]
fn changed_by_sixteens(old: &[u8; BLOCK], new: &[u8; BLOCK]) -> u64 {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8};
    let (old, new) = (old.as_ptr().cast::<__m128i>(), new.as_ptr().cast::<__m128i>());
    // SAFETY: the four quarters of a block are 16 bytes each, read at any alignment. Every processor of this architecture has the instructions.
    let same = |at: usize| unsafe {
        let mask = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(old.add(at)), _mm_loadu_si128(new.add(at))));
        u64::from(mask as u16) << (16 * at)
    };
    const { assert!(BLOCK == 4 * size_of::<__m128i>()) };
    !(same(0) | same(1) | same(2) | same(3))
}

/// Eight bytes at a time.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn changed_by_words(old: &[u8; BLOCK], new: &[u8; BLOCK]) -> u64 {
    let words = old.as_chunks::<8>().0.iter().zip(new.as_chunks::<8>().0);
    words
        .enumerate()
        .fold(0, |mask, (at, (old, new))| mask | nonzero_bytes(u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new)) << (8 * at))
}

/// A bit for each byte of a word that is not zero, lowest first.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn nonzero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let high = (((word & LOW) + LOW) | word) & !LOW;
    // Bit 0 of byte k moves to bit 56 + k; no two meet below, so nothing carries.
    (high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}
