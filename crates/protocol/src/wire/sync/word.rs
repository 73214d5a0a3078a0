//! Words of regions that programs wait for, and what they wait for.

use crate::id::{Grant, Slot};
use serde::{Deserialize, Serialize};

/// A word of an extent, and what is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitedWord {
    /// The extent's slot.
    pub slot: Slot,
    /// The right to read it.
    pub grant: Grant,
    /// The word's first byte in the extent; a multiple of its length.
    pub offset: u64,
    /// The condition to wait for.
    pub until: Wait,
}

/// A word of a region, with its length and sign. It is little-endian, at an offset that is a multiple of the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// 4 bytes, unsigned.
    U32(u32),
    /// 8 bytes, unsigned.
    U64(u64),
    /// 2 bytes, unsigned.
    U16(u16),
    /// 2 bytes, signed.
    I16(i16),
    /// 4 bytes, signed.
    I32(i32),
    /// 8 bytes, signed.
    I64(i64),
}

impl Word {
    /// Its length in bytes.
    pub fn len(self) -> u64 {
        match self {
            Word::U16(_) | Word::I16(_) => 2,
            Word::U32(_) | Word::I32(_) => 4,
            Word::U64(_) | Word::I64(_) => 8,
        }
    }

    /// Always false: a word has bytes.
    pub fn is_empty(self) -> bool {
        false
    }

    fn value(self) -> i128 {
        match self {
            Word::U16(value) => value.into(),
            Word::U32(value) => value.into(),
            Word::U64(value) => value.into(),
            Word::I16(value) => value.into(),
            Word::I32(value) => value.into(),
            Word::I64(value) => value.into(),
        }
    }

    /// Value of the bytes of a word of this kind, which `seen` begins with.
    fn of_its_kind(self, seen: u64) -> i128 {
        match self {
            Word::U16(_) => (seen as u16).into(),
            Word::U32(_) => (seen as u32).into(),
            Word::U64(_) => seen.into(),
            Word::I16(_) => (seen as i16).into(),
            Word::I32(_) => (seen as i32).into(),
            Word::I64(_) => (seen as i64).into(),
        }
    }
}

/// Condition on a word. Words are compared as their kind says: signed or unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// Equal to this.
    Equal(Word),
    /// Not equal to this.
    NotEqual(Word),
    /// At least this.
    AtLeast(Word),
    /// At most this.
    AtMost(Word),
    /// More than this.
    Greater(Word),
    /// Less than this.
    Less(Word),
}

impl Wait {
    /// The word that is compared with.
    pub fn word(self) -> Word {
        use Wait::*;
        let (Equal(word) | NotEqual(word) | AtLeast(word) | AtMost(word) | Greater(word) | Less(word)) = self;
        word
    }

    /// True if a word that was `seen` is as wanted.
    pub fn is_met(self, seen: u64) -> bool {
        let (seen, wanted) = (self.word().of_its_kind(seen), self.word().value());
        match self {
            Wait::Equal(_) => seen == wanted,
            Wait::NotEqual(_) => seen != wanted,
            Wait::AtLeast(_) => seen >= wanted,
            Wait::AtMost(_) => seen <= wanted,
            Wait::Greater(_) => seen > wanted,
            Wait::Less(_) => seen < wanted,
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_met_as_its_name_says() {
        let word = Word::U32(7);
        let met = |until: Wait| [6, 7, 8].map(|seen| until.is_met(seen));
        assert_eq!(met(Wait::Equal(word)), [false, true, false]);
        assert_eq!(met(Wait::NotEqual(word)), [true, false, true]);
        assert_eq!(met(Wait::AtLeast(word)), [false, true, true]);
        assert_eq!(met(Wait::AtMost(word)), [true, true, false]);
        assert_eq!(met(Wait::Greater(word)), [false, false, true]);
        assert_eq!(met(Wait::Less(word)), [true, false, false]);
    }

    #[test]
    fn a_word_with_a_sign_is_compared_by_it() {
        for (len, zero_signed, zero_unsigned, one) in [
            (2, Word::I16(0), Word::U16(0), Word::I16(-1)),
            (4, Word::I32(0), Word::U32(0), Word::I32(-1)),
            (8, Word::I64(0), Word::U64(0), Word::I64(-1)),
        ] {
            // A word of all ones, as it is loaded: without the bytes behind it.
            let ones = u64::MAX >> (64 - 8 * len);
            assert_eq!((zero_signed.len(), one.len()), (len, len));
            assert!(Wait::Less(zero_signed).is_met(ones) && !Wait::Greater(zero_signed).is_met(ones));
            assert!(Wait::Greater(zero_unsigned).is_met(ones) && !Wait::Less(zero_unsigned).is_met(ones));
            assert!(Wait::Equal(one).is_met(ones) && Wait::AtLeast(one).is_met(ones) && !Wait::AtMost(one).is_met(0));
        }
    }
}
