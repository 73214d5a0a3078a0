//! Calls on a heap, and their answers, as homes and copies carry them out.

use crate::error::Error;
use crate::limits::BLOCK_COUNT_MAX;
use serde::{Deserialize, Serialize};

/// Bytes of an answer where it is kept for a repetition of its call.
pub const HEAP_ANSWER_LEN: u64 = 24;

/// A call on the heap of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeapCall {
    /// The region's length in bytes as the caller knows it. It gets no block beyond.
    pub region_len: u64,
    /// The wish.
    pub wish: HeapWish,
}

/// The wish of a call.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The error for who called, where the heap refused.
    pub fn error(&self, refusal: HeapRefusal, region: &str) -> Error {
        let bad = |key: &str, value: u64, reason: &str| Error::BadSetting {
            key: key.to_owned(),
            value: value.to_string(),
            reason: reason.to_owned(),
        };
        let (len, align, offset) = match self.wish {
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

/// An answer as bytes: three words.
pub fn answer_bytes(answer: Result<u64, HeapRefusal>) -> Vec<u8> {
    let words = match answer {
        Ok(offset) => [0, offset, 0],
        Err(HeapRefusal::NoBytes) => [1, 0, 0],
        Err(HeapRefusal::BadAlign) => [2, 0, 0],
        Err(HeapRefusal::TooMany) => [3, 0, 0],
        Err(HeapRefusal::Full { free, largest }) => [4, free, largest],
        Err(HeapRefusal::NoBlock) => [5, 0, 0],
    };
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Reads [`answer_bytes`]; `None` where they are none.
pub fn answer_of(bytes: &[u8]) -> Option<Result<u64, HeapRefusal>> {
    let (words, rest) = bytes.as_chunks::<8>();
    let [code, first, second] = <[[u8; 8]; 3]>::try_from(words).ok()?.map(u64::from_le_bytes);
    if !rest.is_empty() {
        return None;
    }
    Some(match code {
        0 => Ok(first),
        1 => Err(HeapRefusal::NoBytes),
        2 => Err(HeapRefusal::BadAlign),
        3 => Err(HeapRefusal::TooMany),
        4 => Err(HeapRefusal::Full { free: first, largest: second }),
        5 => Err(HeapRefusal::NoBlock),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_from_its_bytes() {
        let full = HeapRefusal::Full { free: 7, largest: u64::MAX };
        let refusals = [HeapRefusal::NoBytes, HeapRefusal::BadAlign, HeapRefusal::TooMany, full, HeapRefusal::NoBlock];
        for answer in [Ok(64), Ok(u64::MAX)].into_iter().chain(refusals.map(Err)) {
            let bytes = answer_bytes(answer);
            assert_eq!((answer_of(&bytes), bytes.len() as u64), (Some(answer), HEAP_ANSWER_LEN));
            assert_eq!((answer_of(&bytes[1..]), answer_of(&[6; 24])), (None, None));
        }
    }
}
