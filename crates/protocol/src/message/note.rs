//! A message as it lies in its receiver's queue: its envelope, its head, and its body or where that has landed. Little-endian.
//!
//! ```text
//! sender | context | tag | head's length | body's length (8) | body's place (8) | head | body, where it goes with the head | anything
//! ```
//!
//! With the word of its record a note fills whole cache lines, so that a short one is on one line.
//!
//! Notes are input: any program that may write the group's regions may have written one.

use super::Envelope;
use crate::limits::{MESSAGE_HEAD_LEN_MAX, MESSAGE_INLINE_LEN_MAX};
use crate::queue::layout::{LINE_LEN, WORD_LEN};

/// Bytes before a head.
pub const FRONT_LEN: usize = 32;

/// Bytes of the longest note.
pub const LONGEST_LEN: usize = on_lines(FRONT_LEN + MESSAGE_HEAD_LEN_MAX + MESSAGE_INLINE_LEN_MAX);

/// A note's length, up to the end of the line where its record ends.
#[allow(clippy::arithmetic_side_effects, reason = "no note is long")]
const fn on_lines(len: usize) -> usize {
    (len + WORD_LEN as usize).next_multiple_of(LINE_LEN as usize) - WORD_LEN as usize
}

/// The place of a body that goes with its head.
const INLINE: u64 = u64::MAX;

/// What a note says before its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Whose, which context, which tag.
    pub envelope: Envelope,
    /// Bytes of the head.
    pub head_len: usize,
    /// Bytes of the body.
    pub body_len: u64,
    /// Where the body has landed in the receiver's landing memory; `None` where it goes with the head.
    pub landed: Option<u64>,
}

impl Front {
    /// Bytes of the whole note.
    pub fn note_len(&self) -> usize {
        // A body that goes with its head is short.
        on_lines(FRONT_LEN + self.head_len + if self.landed.is_none() { self.body_len as usize } else { 0 })
    }

    /// The bytes to send.
    pub fn encode(&self) -> [u8; FRONT_LEN] {
        let Envelope { from, context, tag } = self.envelope;
        let mut bytes = [0; FRONT_LEN];
        let words = [from, context, tag, self.head_len as u32];
        bytes.as_chunks_mut::<4>().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[24..].copy_from_slice(&self.landed.unwrap_or(INLINE).to_le_bytes());
        bytes
    }

    /// Reads the front of a note of `len` bytes, of one of `count` parties, beside landing memory of `landing_len` bytes.
    pub fn decode(bytes: &[u8; FRONT_LEN], len: usize, count: u32, landing_len: u64) -> Result<Front, &'static str> {
        let mut words = [0; 4];
        bytes.as_chunks::<4>().0.iter().zip(&mut words).for_each(|(bytes, word)| *word = u32::from_le_bytes(*bytes));
        let mut halves = [0; 4];
        bytes.as_chunks::<8>().0.iter().zip(&mut halves).for_each(|(bytes, word)| *word = u64::from_le_bytes(*bytes));
        let [from, context, tag, head_len] = words;
        let [.., body_len, place] = halves;
        if from >= count {
            return Err("a message of a party that the group does not have");
        }
        if head_len as usize > MESSAGE_HEAD_LEN_MAX {
            return Err("a message with too long a head");
        }
        let landed = (place != INLINE).then_some(place);
        let is_sound = match landed {
            Some(place) => place.checked_add(body_len).is_some_and(|end| end <= landing_len),
            None => body_len <= MESSAGE_INLINE_LEN_MAX as u64,
        };
        if !is_sound {
            return Err("a message whose body lies nowhere");
        }
        let front = Front { envelope: Envelope { from, context, tag }, head_len: head_len as usize, body_len, landed };
        if front.note_len() == len { Ok(front) } else { Err("a message of another length than it says") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_front_or_refused(mut bytes: [u8; FRONT_LEN], is_near: bool, is_inline: bool, rest in 0usize..200) {
            if is_near {
                [1, 2, 3, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23].iter().for_each(|at| bytes[*at] = 0);
                bytes[12] &= 63;
                bytes[24..].fill(if is_inline { 255 } else { 0 });
            }
            let (head, body) = (bytes[12] as usize, bytes[16] as usize);
            let near = FRONT_LEN + head + if is_inline { body } else { 0 };
            let len = if is_near { (near + 8).next_multiple_of(64) - 8 } else { FRONT_LEN + rest };
            match Front::decode(&bytes, len, 100, 128) {
                Ok(front) => {
                    prop_assert_eq!(front.encode(), bytes);
                    prop_assert!(front.note_len() == len && len <= LONGEST_LEN && front.envelope.from < 100);
                    prop_assert!(front.landed.is_none_or(|at| at + front.body_len <= 128));
                }
                Err(_) => prop_assert!(!is_near || bytes[0] >= 100 || head > 48 || (!is_inline && body > 128)),
            }
        }
    }
}
