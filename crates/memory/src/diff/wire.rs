//! A diff as it travels, and what a receiver does with it.

use super::{BLOCK, Diff, MASK_WORDS, PAGE, PageBytes};
use thiserror::Error;

/// Longest encoded diff in bytes: the mask and a whole page.
pub const DIFF_LEN_MAX: usize = WORD + MASK_LEN + PAGE;

/// Bytes of a number of the encoding.
const WORD: usize = 2;

/// Bytes of a mask.
const MASK_LEN: usize = MASK_WORDS * 8;

/// Most runs of the run form: beyond it the mask is shorter.
const RUN_COUNT_MAX: u32 = (MASK_LEN / (2 * WORD)) as u32;

/// The first number of the mask form.
const MASK_FORM: u16 = 0x8000;

/// An encoded diff from a peer that is none; the page is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no diff of a page: {0}; the sender is of another version, or at fault")]
pub struct BadDiff(pub &'static str);

impl Diff {
    /// Bytes that [`Diff::encode`] writes.
    pub fn encoded_len(&self) -> usize {
        let head = if self.is_in_runs() { 2 * WORD * self.runs as usize } else { MASK_LEN };
        WORD + head + self.changed as usize
    }

    fn is_in_runs(&self) -> bool {
        self.runs <= RUN_COUNT_MAX
    }

    /// Writes the diff with the changed bytes of `page`, the one it was made from, to a buffer of [`Diff::encoded_len`] bytes.
    ///
    /// **Cost**: one copy of what changed; no allocation.
    pub fn encode(&self, page: &PageBytes, into: &mut [u8]) {
        assert_eq!(into.len(), self.encoded_len(), "the buffer has the diff's length");
        assert!(!self.is_empty(), "an empty diff is not sent");
        let mut rest = into;
        if self.is_in_runs() {
            put(&mut rest, &(self.runs as u16).to_le_bytes());
            for (start, len) in self.runs() {
                put(&mut rest, &(start as u16).to_le_bytes());
                put(&mut rest, &(len as u16).to_le_bytes());
                put(&mut rest, &page[start..start + len]);
            }
        } else {
            put(&mut rest, &MASK_FORM.to_le_bytes());
            self.mask.iter().for_each(|word| put(&mut rest, &word.to_le_bytes()));
            let mut rest = rest.iter_mut();
            self.blocks().flat_map(bytes_of).zip(&mut rest).for_each(|(at, byte)| *byte = page[at]);
        }
    }
}

fn put(rest: &mut &mut [u8], bytes: &[u8]) {
    let (head, tail) = std::mem::take(rest).split_at_mut(bytes.len());
    head.copy_from_slice(bytes);
    *rest = tail;
}

/// Puts an encoded diff from a peer into a page, and says which bytes it changed.
///
/// **Cost**: one pass to check, one copy of what changed. **Errors**: [`BadDiff`]; the page is then as it was.
// FEATURE: D2-F7
pub fn apply(encoded: &[u8], page: &mut PageBytes) -> Result<Diff, BadDiff> {
    let mut rest = encoded;
    match take_number(&mut rest)? {
        MASK_FORM => {
            let (diff, bytes) = read_mask(rest)?;
            diff.blocks().flat_map(bytes_of).zip(bytes).for_each(|(at, byte)| page[at] = *byte);
            Ok(diff)
        }
        count @ 1.. if u32::from(count) <= RUN_COUNT_MAX => {
            let diff = read_runs(count, rest)?;
            for (start, len) in diff.runs() {
                let (bytes, tail) = rest[2 * WORD..].split_at(len);
                page[start..start + len].copy_from_slice(bytes);
                rest = tail;
            }
            Ok(diff)
        }
        _ => Err(BadDiff("a number of runs that is not possible")),
    }
}

/// The bytes of a page that a block's bits stand for: short runs are cheaper one byte at a time.
fn bytes_of((start, mut bits): (usize, u64)) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (bits != 0).then(|| start + bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        at
    })
}

fn read_mask(rest: &[u8]) -> Result<(Diff, &[u8]), BadDiff> {
    let (words, bytes) = rest.split_at_checked(MASK_LEN).ok_or(BadDiff("the mask is not whole"))?;
    let mut mask = [0; MASK_WORDS];
    for (word, bytes) in mask.iter_mut().zip(words.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let diff = Diff::of_mask(mask);
    match bytes.len() == diff.changed_count() && !diff.is_empty() {
        true => Ok((diff, bytes)),
        false => Err(BadDiff("the mask and the number of bytes differ")),
    }
}

fn read_runs(count: u16, mut rest: &[u8]) -> Result<Diff, BadDiff> {
    let mut mask = [0; MASK_WORDS];
    let mut free_from = 0;
    for _ in 0..count {
        let (start, len) = (usize::from(take_number(&mut rest)?), usize::from(take_number(&mut rest)?));
        if len == 0 || start < free_from || start + len > PAGE {
            return Err(BadDiff("a run that is empty, out of order, or beyond the page"));
        }
        rest = rest.get(len..).ok_or(BadDiff("it ends within a run"))?;
        // Runs do not touch: there is one encoding of a diff.
        free_from = start + len + 1;
        mark(&mut mask, start, len);
    }
    if rest.is_empty() { Ok(Diff::of_mask(mask)) } else { Err(BadDiff("bytes after the last run")) }
}

fn mark(mask: &mut [u64; MASK_WORDS], start: usize, len: usize) {
    let end = start + len;
    for (index, word) in mask.iter_mut().enumerate().take(end.div_ceil(BLOCK)).skip(start / BLOCK) {
        let (low, high) = (start.max(index * BLOCK) % BLOCK, (end - index * BLOCK).min(BLOCK));
        *word |= u64::MAX << low & u64::MAX >> (BLOCK - high);
    }
}

fn take_number(rest: &mut &[u8]) -> Result<u16, BadDiff> {
    let (number, tail) = rest.split_first_chunk::<WORD>().ok_or(BadDiff("it ends within a number"))?;
    *rest = tail;
    Ok(u16::from_le_bytes(*number))
}
