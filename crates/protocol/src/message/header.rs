//! A message as it lies in its receiver's queue: its envelope, its head, and its body or the body's place.
//!
//! ```text
//! sender | context | tag | head's length (2) | length behind the head (2) | body's length (8) | body's place (8) | head | what is behind
//! it | anything
//!
//! short:  head's length (6 bits), context (25 bits), 1 (a bit) | tag | head | anything
//! ```
//!
//! A short header fits one line with the longest head. It has no body, and its sender is the party that an earlier header of the lane
//! names.
//!
//! Behind the head is the body, if it goes with the head. Or the description of a part of a region is there ([`super::part`]). A receiver's
//! reply to that is a header without a head.
//!
//! A header fills whole cache lines with the word of its record, so a short one is on one line.
//!
//! Headers are input: any program that may write the group's regions may have written them.

use super::Envelope;
use super::receive_ring::ReceiveLocation;
use crate::limits::{COLLECTIVE_PARTY_COUNT_MAX, MESSAGE_HEAD_LEN_MAX, MESSAGE_INLINE_LEN_MAX};
use crate::queue::layout::{LINE_LEN, WORD_LEN};

/// Bytes before a head, but in a short header.
pub const FRONT_LEN: usize = 32;

/// The same in a short header.
const SHORT_FRONT_LEN: usize = 8;

/// In the first four bytes, where other headers have the number of a party: the header is short. Below it are the context and the head's
/// length.
const SHORT: u32 = 1 << 31;
const HEAD_BITS: u32 = 6;
const CONTEXT_BITS: u32 = 25;

/// Bytes of the shortest header, and of each short one.
pub const SHORTEST_LEN: usize = on_lines(SHORT_FRONT_LEN + MESSAGE_HEAD_LEN_MAX);
const _: () = assert!(SHORTEST_LEN == on_lines(FRONT_LEN) && MESSAGE_HEAD_LEN_MAX < 1 << HEAD_BITS);
const _: () = assert!(COLLECTIVE_PARTY_COUNT_MAX < SHORT && 1 + HEAD_BITS + CONTEXT_BITS == u32::BITS);

/// Bytes of the longest header.
pub const LONGEST_LEN: usize = on_lines(FRONT_LEN + MESSAGE_HEAD_LEN_MAX + MESSAGE_INLINE_LEN_MAX);

/// A header's length, up to the end of the line where its record ends.
#[allow(clippy::arithmetic_side_effects, reason = "no header is long")]
const fn on_lines(len: usize) -> usize {
    (len + WORD_LEN as usize).next_multiple_of(LINE_LEN as usize) - WORD_LEN as usize
}

/// The place of a body that goes with its head.
const INLINE: u64 = u64::MAX;
/// Mark of a part of a region, which the receiver fetches.
const PART: u64 = u64::MAX - 1;
/// In its stead in a receiver's answer.
const FETCHED: u64 = u64::MAX - 2;

/// Mark of a location in the sender's receive ring. Below it are the turn, the slot, and the location in lines.
const IN_RING: u64 = 1 << 63;
/// Bits of a ring's place in lines, of its slot, and of its turn.
const LINE_BITS: u32 = 48;
const SLOT_BITS: u32 = 6;
const TURN_BITS: u32 = 8;

/// Bytes of a receiver's memory in which bodies land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRoom {
    /// Bytes of the heap.
    pub heap_len: u64,
    /// Bytes of each sender's receive ring; 0 where there are none.
    pub ring_len: u64,
}

/// Location of a body, which decides on the receiver's treatment of it. The paper's header has 16 bytes for that; here it is a word of
/// the front.
///
/// **Source**: [D3 §3.1]. FEATURE: D3-F5
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLocation {
    /// Behind its head.
    Here,
    /// In the heap of the receiver's receive memory, from this byte on.
    Heap(u64),
    /// In its sender's ring at the receiver's host.
    Ring(ReceiveLocation),
    /// In a region: so many bytes behind the head say where ([`super::part::BodyPart`]). The receiver fetches it.
    Part(usize),
    /// A reply of a receiver that has fetched a part of a region, of this many bytes ([`super::part::decode_outcome`]). The sender's
    /// number of the part stands for the body's length.
    Fetched(usize),
}

/// Fields of a header, before its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Sender, context and tag.
    pub envelope: Envelope,
    /// Bytes of the head.
    pub head_len: usize,
    /// Bytes of the body.
    pub body_len: u64,
    /// Location of the body.
    pub body: BodyLocation,
}

impl Front {
    /// Bytes of the whole header.
    pub fn header_len(&self) -> usize {
        on_lines(FRONT_LEN + self.head_len + self.behind_len())
    }

    /// Bytes behind the head.
    pub fn behind_len(&self) -> usize {
        match self.body {
            // A body that goes with its head is short.
            BodyLocation::Here => self.body_len as usize,
            BodyLocation::Heap(_) | BodyLocation::Ring(_) => 0,
            BodyLocation::Part(len) | BodyLocation::Fetched(len) => len,
        }
    }

    /// The bytes to send.
    pub fn encode(&self) -> [u8; FRONT_LEN] {
        let Envelope { from, context, tag } = self.envelope;
        let mut bytes = [0; FRONT_LEN];
        let (place, behind_len) = match self.body {
            BodyLocation::Here => (INLINE, 0),
            BodyLocation::Heap(place) => (place, 0),
            BodyLocation::Ring(place) => (receive_word(place), 0),
            BodyLocation::Part(len) => (PART, len),
            BodyLocation::Fetched(len) => (FETCHED, len),
        };
        let words = [from, context, tag, self.head_len as u32 | (behind_len as u32) << 16];
        bytes.as_chunks_mut::<4>().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[24..].copy_from_slice(&place.to_le_bytes());
        bytes
    }

    /// The whole of a short header with that head. `None` for a message that has a body, or a context of many bits.
    #[inline]
    pub fn encode_short(&self, head: &[u8]) -> Option<[u8; SHORTEST_LEN]> {
        let Envelope { context, tag, .. } = self.envelope;
        if self.body != BodyLocation::Here || self.body_len != 0 || context >> CONTEXT_BITS != 0 {
            return None;
        }
        let mut bytes = [0; SHORTEST_LEN];
        bytes[..4].copy_from_slice(&(SHORT | context << HEAD_BITS | self.head_len as u32).to_le_bytes());
        bytes[4..SHORT_FRONT_LEN].copy_from_slice(&tag.to_le_bytes());
        bytes[SHORT_FRONT_LEN..].get_mut(..head.len())?.copy_from_slice(head);
        Some(bytes)
    }

    /// Reads the front of a header of `len` bytes from its first bytes. Returns the front, and where the head begins. `from` is the party
    /// that an earlier header of the lane names, if any, and the number of parties. `room` is the memory for bodies.
    #[inline]
    pub fn decode(
        bytes: &[u8; SHORTEST_LEN],
        len: usize,
        from: (Option<u32>, u32),
        room: BodyRoom,
    ) -> Result<(Front, usize), &'static str> {
        let front = bytes.first_chunk().expect("a header is longer than its front");
        let [first, tag, ..] = words_of(front);
        if first & SHORT == 0 {
            return Ok((Front::decode_long(front, len, from.1, room)?, FRONT_LEN));
        }
        let (Some(from), head_len) = (from.0, (first & !(u32::MAX << HEAD_BITS)) as usize) else {
            return Err("a short message in a lane whose writer is not known");
        };
        if head_len > MESSAGE_HEAD_LEN_MAX || len != SHORTEST_LEN {
            return Err("a short message with too long a head");
        }
        let envelope = Envelope { from, context: (first & !SHORT) >> HEAD_BITS, tag };
        Ok((Front { envelope, head_len, body_len: 0, body: BodyLocation::Here }, SHORT_FRONT_LEN))
    }

    fn decode_long(bytes: &[u8; FRONT_LEN], len: usize, count: u32, room: BodyRoom) -> Result<Front, &'static str> {
        let mut halves = [0; 4];
        bytes.as_chunks::<8>().0.iter().zip(&mut halves).for_each(|(bytes, word)| *word = u64::from_le_bytes(*bytes));
        let [from, context, tag, lens] = words_of(bytes);
        let [.., body_len, place] = halves;
        let (head_len, behind_len) = ((lens & 0xffff) as usize, (lens >> 16) as usize);
        if from >= count {
            return Err("a message of a party that the group does not have");
        }
        if head_len > MESSAGE_HEAD_LEN_MAX {
            return Err("a message with too long a head");
        }
        let body = match place {
            INLINE => BodyLocation::Here,
            PART => BodyLocation::Part(behind_len),
            FETCHED => BodyLocation::Fetched(behind_len),
            word => receive_location(word).map_or(BodyLocation::Heap(word), BodyLocation::Ring),
        };
        let is_sound = match body {
            BodyLocation::Here => body_len <= MESSAGE_INLINE_LEN_MAX as u64 && behind_len == 0,
            BodyLocation::Heap(at) => is_in(at, body_len, room.heap_len) && behind_len == 0,
            BodyLocation::Ring(ReceiveLocation { at, .. }) => {
                at >= LINE_LEN && is_in(at, body_len, room.ring_len) && behind_len == 0
            }
            BodyLocation::Part(len) => body_len <= room.heap_len && len <= MESSAGE_INLINE_LEN_MAX,
            BodyLocation::Fetched(len) => head_len == 0 && len <= MESSAGE_INLINE_LEN_MAX,
        };
        if !is_sound {
            return Err("a message whose body lies nowhere");
        }
        let front = Front { envelope: Envelope { from, context, tag }, head_len, body_len, body };
        if front.header_len() == len { Ok(front) } else { Err("a message of another length than it says") }
    }
}

/// The words before a body's length.
fn words_of(bytes: &[u8; FRONT_LEN]) -> [u32; 4] {
    let mut words = [0; 4];
    bytes.as_chunks::<4>().0.iter().zip(&mut words).for_each(|(bytes, word)| *word = u32::from_le_bytes(*bytes));
    words
}

fn is_in(at: u64, len: u64, limit: u64) -> bool {
    at.checked_add(len).is_some_and(|end| end <= limit)
}

fn receive_word(ReceiveLocation { at, slot, turn }: ReceiveLocation) -> u64 {
    let high = u64::from(turn) << SLOT_BITS | u64::from(slot);
    IN_RING | high << LINE_BITS | at >> LINE_LEN.trailing_zeros()
}

/// `None` for what no sender writes for a ring.
fn receive_location(word: u64) -> Option<ReceiveLocation> {
    let field = |shift: u32, bits: u32| word >> shift & !(u64::MAX << bits);
    let at = field(0, LINE_BITS).checked_mul(LINE_LEN)?;
    let place =
        ReceiveLocation { at, slot: field(LINE_BITS, SLOT_BITS) as u8, turn: field(LINE_BITS + SLOT_BITS, TURN_BITS) as u8 };
    (receive_word(place) == word).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_front_or_refused(mut bytes: [u8; FRONT_LEN], is_near: bool, place in 0u8..5,
            ring: [u8; 3], rest in 0usize..200) {
            if is_near {
                [1, 2, 3, 13, 15, 17, 18, 19, 20, 21, 22, 23].iter().for_each(|at| bytes[*at] = 0);
                bytes[12] &= 63;
                // Three places stand for something else; any other is near the beginning.
                bytes[24..].fill(if place < 3 { 255 } else { 0 });
                bytes[24] -= if place < 3 { place } else { 0 };
                bytes[14] = if matches!(place, 1 | 2) { bytes[14] } else { 0 };
                if place == 4 {
                    (bytes[24], bytes[30], bytes[31]) = (ring[0] & 3, ring[1], ring[2] & 63 | 128);
                }
            }
            let (head, body, behind) = (bytes[12] as usize, bytes[16] as usize, bytes[14] as usize);
            let near = FRONT_LEN + head + behind + if place == 0 { body } else { 0 };
            let len = if is_near { (near + 8).next_multiple_of(64) - 8 } else { FRONT_LEN + rest };
            // The rest of the line is of no matter here.
            let mut line = [0; SHORTEST_LEN];
            line[..FRONT_LEN].copy_from_slice(&bytes);
            match Front::decode(&line, len, (None, 100), BodyRoom { heap_len: 128, ring_len: 192 }) {
                Ok((front, head_at)) => {
                    prop_assert_eq!(head_at, FRONT_LEN);
                    prop_assert_eq!(front.encode(), bytes);
                    prop_assert!(front.header_len() == len && len <= LONGEST_LEN && front.envelope.from < 100);
                    match front.body {
                        BodyLocation::Here => prop_assert!(front.body_len <= MESSAGE_INLINE_LEN_MAX as u64),
                        BodyLocation::Heap(at) => prop_assert!(at + front.body_len <= 128),
                        BodyLocation::Ring(ReceiveLocation { at, slot, .. }) => {
                            prop_assert!(at >= 64 && at + front.body_len <= 192 && slot < 64);
                        }
                        BodyLocation::Part(_) => prop_assert!(front.body_len <= 128),
                        BodyLocation::Fetched(_) => prop_assert_eq!(front.head_len, 0),
                    }
                }
                Err(_) => {
                    let (line, end) = (usize::from(ring[0] & 3), usize::from(ring[0] & 3) * 64 + body);
                    let is_long = matches!(place, 1 | 3) && body > 128 || place == 4 && (line == 0 || end > 192);
                    prop_assert!(!is_near || bytes[0] >= 100 || head > 48 || is_long || (place == 2 && head > 0));
                }
            }
        }

        #[test]
        fn a_short_note_says_all_but_its_sender(context: u32, tag: u32, head in prop::collection::vec(any::<u8>(), 0..49),
            body_len in prop::sample::select(vec![0u64, 1]), len in prop::sample::select(vec![SHORTEST_LEN, SHORTEST_LEN + 64])) {
            let envelope = Envelope { from: 3, context: context >> (tag % 9), tag };
            let front = Front { envelope, head_len: head.len(), body_len, body: BodyLocation::Here };
            let Some(header) = front.encode_short(&head) else {
                prop_assert!(body_len > 0 || envelope.context >= 1 << 25);
                return Ok(());
            };
            prop_assert!(body_len == 0 && envelope.context < 1 << 25);
            let room = BodyRoom { heap_len: 0, ring_len: 0 };
            prop_assert!(Front::decode(&header, len, (None, 4), room).is_err(), "its sender is not known");
            match Front::decode(&header, len, (Some(3), 4), room) {
                Ok((read, head_at)) => {
                    prop_assert_eq!(len, SHORTEST_LEN);
                    prop_assert_eq!(read, front);
                    prop_assert_eq!(&header[head_at..head_at + head.len()], &head[..]);
                }
                Err(_) => prop_assert!(len != SHORTEST_LEN),
            }
        }

        #[test]
        fn any_line_is_a_short_note_or_refused(mut line in prop::collection::vec(any::<u8>(), SHORTEST_LEN)) {
            line[3] |= 128;
            let line: [u8; SHORTEST_LEN] = line.try_into().unwrap();
            let decoded = Front::decode(&line, SHORTEST_LEN, (Some(3), 4), BodyRoom { heap_len: 0, ring_len: 0 });
            prop_assert_eq!(decoded.is_ok(), line[0] & 63 <= 48);
            if let Ok((front, head_at)) = decoded {
                let again = front.encode_short(&line[head_at..head_at + front.head_len]).unwrap();
                prop_assert_eq!(&again[..head_at + front.head_len], &line[..head_at + front.head_len]);
            }
        }
    }
}
