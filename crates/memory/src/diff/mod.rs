//! Twins and diffs: what one host changed of a page since it was clean, so that writers of different bytes of one page both
//! survive.
//!
//! A *twin* is a copy of the page's clean bytes, made before any client of the host may write. A *diff* is what differs from
//! it, byte by byte: it never holds an unchanged byte, since that one may be another writer's.
//!
//! ```text
//! twin  ....................            home  ......BB............
//! page  ..aa.......a........            page  ..aa..BB...a........   after merge(page, twin, home)
//! diff  2: aa   11: a                   twin  ......BB............
//! ```
//!
//! # What to do, in which order
//!
//! 1. Before the first write of any client of the host: [`Twin::of`] the frame's bytes (one copy of a page), then lift the
//!    write-protection.
//! 2. `flush`: write-protect the page in all clients (or read its dirty bit), read the frame into a buffer, [`Diff::between`],
//!    and where it is not empty [`Diff::encode`] and send it home. Afterwards the page as read is the twin. A page that is not
//!    protected while it is read may be torn: its diff then holds some of the stores under way, the next one the others; none
//!    is lost as long as the twin is what was read, not what is there later.
//! 3. Home: [`apply`] to the home's bytes, in the order of arrival. Two diffs that change one byte are a race of the program:
//!    the later one stays; [`Diff::count_common`] counts such bytes.
//! 4. `update`, and pages that are pushed: write-protect, read, [`merge`] with the home's bytes, fill the frame: the program's
//!    own stores stay.
//!
//! All works on private copies ([`PageBytes`]): what others may change is read once, before ([`crate::frames::Frames::read`]).
//!
//! # On the wire
//!
//! ```text
//! u16 run count, 1 to 128     then for each run:  u16 first byte, u16 length, the bytes; runs ascend and do not touch
//! u16 0x8000                  then 512 bytes: bit k of byte j is byte 8j+k of the page; then the bytes
//! ```
//!
//! The shorter of the two is taken, so a diff is never longer than [`DIFF_LEN_MAX`]; little-endian. An empty diff is not sent.
//!
//! # Costs
//!
//! A clean page: 1.1 times a `memcmp` of it. A changed one: 5 times, for a single byte, to 10 times, for bytes in every block of 64; to
//! encode, the copy of a run each, or for hundreds of runs about 1 ns a byte. Run `cargo run --release -p hanare-memory --example
//! diff` for the ratios on a machine.

mod wire;

#[cfg(test)]
mod tests;

pub use wire::{BadDiff, DIFF_LEN_MAX, apply};

use hanare_protocol::limits::PAGE_LEN;

/// Bytes of a page as a number of memory.
pub const PAGE: usize = PAGE_LEN as usize;

/// A private copy of a page.
pub type PageBytes = [u8; PAGE];

/// Bytes that one word of a mask stands for.
const BLOCK: usize = 64;

/// Words of a mask: one bit a byte.
const MASK_WORDS: usize = PAGE / BLOCK;

/// The clean bytes of a page that may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin(Box<PageBytes>);

impl Twin {
    /// Keeps a page's bytes as they are before the first write. **Cost**: one copy of a page, and its memory.
    // FEATURE: D2-F7
    pub fn of(page: &PageBytes) -> Twin {
        Twin(Box::new(*page))
    }

    /// The clean bytes.
    pub fn bytes(&self) -> &PageBytes {
        &self.0
    }

    /// Takes other bytes for clean. **Cost**: one copy of a page.
    pub fn renew(&mut self, page: &PageBytes) {
        *self.0 = *page;
    }
}

/// Which bytes of a page were changed.
#[derive(Clone, PartialEq, Eq)]
pub struct Diff {
    mask: [u64; MASK_WORDS],
    changed: u32,
    runs: u32,
}

impl Diff {
    /// What differs between two equal states.
    pub fn none() -> Diff {
        Diff { mask: [0; MASK_WORDS], changed: 0, runs: 0 }
    }

    /// What differs between two states of a page.
    ///
    /// **Cost**: for equal pages one `memcmp`; no allocation.
    // FEATURE: D2-F7
    pub fn between(twin: &PageBytes, page: &PageBytes) -> Diff {
        let mut diff = Diff::none();
        diff.renew(twin, page);
        diff
    }

    /// As [`Diff::between`], in place: for signal handlers, whose stack is too small for several of these.
    pub fn renew(&mut self, twin: &PageBytes, page: &PageBytes) {
        self.mask = [0; MASK_WORDS];
        if twin != page {
            let blocks = twin.as_chunks::<BLOCK>().0.iter().zip(page.as_chunks::<BLOCK>().0);
            for (word, (old, new)) in self.mask.iter_mut().zip(blocks) {
                if old != new {
                    *word = changed_bytes(old, new);
                }
            }
        }
        self.count();
    }

    fn of_mask(mask: [u64; MASK_WORDS]) -> Diff {
        let mut diff = Diff { mask, ..Diff::none() };
        diff.count();
        diff
    }

    fn count(&mut self) {
        let (mut changed, mut runs, mut last) = (0, 0, 0);
        for &word in &self.mask {
            changed += word.count_ones();
            // A run begins at a changed byte whose neighbour before it is not.
            runs += (word & !(word << 1 | last)).count_ones();
            last = word >> 63;
        }
        (self.changed, self.runs) = (changed, runs);
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.changed == 0
    }

    /// Number of changed bytes.
    pub fn changed_count(&self) -> usize {
        self.changed as usize
    }

    /// Number of runs of changed bytes.
    pub fn run_count(&self) -> usize {
        self.runs as usize
    }

    /// Whether a byte of the page was changed.
    pub fn is_changed(&self, at: usize) -> bool {
        self.mask[at / BLOCK] >> (at % BLOCK) & 1 != 0
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

    /// The changed bytes of each block that has some, as the block's first byte and a bit for each of its bytes.
    fn blocks(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (0..).step_by(BLOCK).zip(self.mask).filter(|(_, word)| *word != 0)
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

    /// Bytes that two writers both changed: a race of the program, or a sign of it.
    pub fn count_common(&self, other: &Diff) -> usize {
        self.mask.iter().zip(&other.mask).map(|(one, two)| (one & two).count_ones() as usize).sum()
    }

    /// Whether two writers changed different bytes of the page, and none the same: false sharing.
    pub fn is_falsely_shared(&self, other: &Diff) -> bool {
        !self.is_empty() && !other.is_empty() && self.count_common(other) == 0
    }
}

impl std::fmt::Debug for Diff {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.runs()).finish()
    }
}

/// Takes the home's bytes where this host changed nothing, and keeps its own where it did; the home's are the twin from then
/// on.
///
/// `page` is what the clients see, read under write-protection. Returns what the host's own changes are: they are still to be
/// flushed.
///
/// **Cost**: as [`Diff::between`], and two copies of a page.
// FEATURE: D2-F7
pub fn merge(page: &mut PageBytes, twin: &mut Twin, home: &PageBytes) -> Diff {
    let diff = Diff::between(twin.bytes(), page);
    if diff.is_empty() {
        *page = *home;
    } else {
        let blocks = page.as_chunks_mut::<BLOCK>().0.iter_mut().zip(home.as_chunks::<BLOCK>().0);
        for (&word, (own, home)) in diff.mask.iter().zip(blocks) {
            match word {
                0 => *own = *home,
                u64::MAX => {}
                _ => keep_changed(word, own, home),
            }
        }
    }
    twin.renew(home);
    diff
}

/// Takes the other's bytes where the mask has no bit.
fn keep_changed(mask: u64, own: &mut [u8; BLOCK], other: &[u8; BLOCK]) {
    let words = own.as_chunks_mut::<8>().0.iter_mut().zip(other.as_chunks::<8>().0);
    for ((own, other), bits) in words.zip(mask.to_le_bytes()) {
        let (kept, taken) = (u64::from_le_bytes(*own), u64::from_le_bytes(*other));
        *own = (taken ^ (taken ^ kept) & BYTES_OF[usize::from(bits)]).to_le_bytes();
    }
}

/// For each eight bits, the word whose bytes are all ones where a bit is.
const BYTES_OF: [u64; 256] = {
    let mut table = [0; 256];
    let mut bits = 0;
    while bits < 256 {
        let mut at = 0;
        while at < 8 {
            if bits >> at & 1 != 0 {
                table[bits] |= 0xff << (8 * at);
            }
            at += 1;
        }
        bits += 1;
    }
    table
};

/// One bit for each byte that differs, eight bytes at a time.
fn changed_bytes(old: &[u8; BLOCK], new: &[u8; BLOCK]) -> u64 {
    let words = old.as_chunks::<8>().0.iter().zip(new.as_chunks::<8>().0);
    words
        .enumerate()
        .fold(0, |mask, (at, (old, new))| mask | nonzero_bytes(u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new)) << (8 * at))
}

/// One bit for each byte of a word that is not zero, lowest first.
fn nonzero_bytes(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let high = (((word & LOW) + LOW) | word) & !LOW;
    // Bit 0 of byte k moves to bit 56 + k; no two meet below, so nothing carries.
    (high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}
