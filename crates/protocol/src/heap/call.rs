//! Calls on a heap, and their answers, as homes and copies carry them out.

use crate::error::Error;
use crate::limits::{BLOCK_COUNT_MAX, HEAP_WISH_COUNT_MAX};
use crate::malformed::Malformed;
use serde::{Deserialize, Serialize};

/// Bytes of the answer to a wish where it is kept for a repetition of its call.
pub const HEAP_ANSWER_LEN: u64 = 24;

/// The answer to a wish: the first byte of the block that was taken or given back.
pub type HeapAnswer = Result<u64, HeapRefusal>;

/// A call on the heap of a region. Its wishes are carried out in their order, with nothing between them. Each has its own answer: a refused one
/// changes nothing, and those behind it are carried out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeapCall {
    /// The region's length in bytes as the caller knows it. It gets no block beyond.
    pub region_len: u64,
    /// The wishes: at least one, at most [`HEAP_WISH_COUNT_MAX`].
    pub wishes: Vec<HeapWish>,
}

/// A wish of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HeapWish {
    /// A block.
    Allocate {
        /// Its bytes.
        len: u64,
        /// Divisor of its offset: a power of two.
        align: u64,
    },
    /// To give a block back.
    Free {
        /// The block's first byte in the region.
        offset: u64,
    },
}

/// A refusal of a heap, which is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeapRefusal {
    /// No byte was asked for.
    NoBytes,
    /// The alignment is no power of two.
    BadAlign,
    /// The heap has as many blocks as it may have.
    TooMany,
    /// No free range is long enough.
    Full {
        /// Free bytes.
        free: u64,
        /// Bytes of the longest free range.
        largest: u64,
    },
    /// No block begins there.
    NoBlock,
}

impl HeapCall {
    /// Refuses a call that no program makes. **Errors**: [`Malformed`], with the reason.
    pub fn check(&self) -> Result<(), Malformed> {
        match (1..=HEAP_WISH_COUNT_MAX).contains(&self.wishes.len()) {
            true => Ok(()),
            false => Err(Malformed("a call on a heap without a wish, or with too many")),
        }
    }
}

impl HeapWish {
    /// The error for the caller, where the heap refused.
    pub fn error(&self, refusal: HeapRefusal, region: &str) -> Error {
        let bad = |key: &str, value: u64, reason: &str| Error::BadSetting {
            key: key.to_owned(),
            value: value.to_string(),
            reason: reason.to_owned(),
        };
        let (len, align, offset) = match *self {
            HeapWish::Allocate { len, align } => (len, align, 0),
            HeapWish::Free { offset } => (0, 0, offset),
        };
        match refusal {
            HeapRefusal::NoBytes => bad("len", len, "a block has at least 1 byte"),
            HeapRefusal::BadAlign => bad("align", align, "alignments are powers of two"),
            HeapRefusal::TooMany => {
                Error::LimitReached { what: format!("blocks of the heap in region '{region}'"), limit: BLOCK_COUNT_MAX.into() }
            }
            HeapRefusal::Full { free, largest } => Error::HeapFull { region: region.to_owned(), asked: len, free, largest },
            HeapRefusal::NoBlock => Error::NoBlock { region: region.to_owned(), offset },
        }
    }
}

/// Answers as bytes: three words each.
pub fn answer_bytes(answers: &[HeapAnswer]) -> Vec<u8> {
    let words = answers.iter().flat_map(|answer| match *answer {
        Ok(offset) => [0, offset, 0],
        Err(HeapRefusal::NoBytes) => [1, 0, 0],
        Err(HeapRefusal::BadAlign) => [2, 0, 0],
        Err(HeapRefusal::TooMany) => [3, 0, 0],
        Err(HeapRefusal::Full { free, largest }) => [4, free, largest],
        Err(HeapRefusal::NoBlock) => [5, 0, 0],
    });
    words.flat_map(u64::to_le_bytes).collect()
}

/// Reads [`answer_bytes`]; `None` where they are none.
pub fn answers_of(bytes: &[u8]) -> Option<Vec<HeapAnswer>> {
    let (answers, rest) = bytes.as_chunks::<{ HEAP_ANSWER_LEN as usize }>();
    let answer = |bytes: &[u8; HEAP_ANSWER_LEN as usize]| {
        let (words, _) = bytes.as_chunks::<8>();
        let [code, first, second] = <[[u8; 8]; 3]>::try_from(words).ok()?.map(u64::from_le_bytes);
        Some(match code {
            0 => Ok(first),
            1 => Err(HeapRefusal::NoBytes),
            2 => Err(HeapRefusal::BadAlign),
            3 => Err(HeapRefusal::TooMany),
            4 => Err(HeapRefusal::Full { free: first, largest: second }),
            5 => Err(HeapRefusal::NoBlock),
            _ => return None,
        })
    };
    if rest.is_empty() { answers.iter().map(answer).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back_from_their_bytes() {
        let full = HeapRefusal::Full { free: 7, largest: u64::MAX };
        let refusals = [HeapRefusal::NoBytes, HeapRefusal::BadAlign, HeapRefusal::TooMany, full, HeapRefusal::NoBlock];
        let answers: Vec<HeapAnswer> = [Ok(64), Ok(u64::MAX)].into_iter().chain(refusals.map(Err)).collect();
        let bytes = answer_bytes(&answers);
        assert_eq!(bytes.len() as u64, HEAP_ANSWER_LEN * answers.len() as u64);
        assert_eq!(answers_of(&bytes), Some(answers));
        assert_eq!((answers_of(&bytes[1..]), answers_of(&[6; 24]), answers_of(&[])), (None, None, Some(Vec::new())));
    }

    #[test]
    fn a_call_has_a_wish_and_not_too_many() {
        for (count, is_good) in [(0, false), (1, true), (HEAP_WISH_COUNT_MAX, true), (HEAP_WISH_COUNT_MAX + 1, false)] {
            let call = HeapCall { region_len: 4096, wishes: vec![HeapWish::Free { offset: 64 }; count] };
            assert_eq!(call.check().is_ok(), is_good, "{count}");
        }
    }
}
