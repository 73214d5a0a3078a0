//! A frame's content: a piece of the stream of messages, and both sides' counters.
//!
//! ```text
//! frame  =  [FrameHead, 48 bytes] [bytes of the stream]     then, where `direct_len` is not zero, that many bytes of the
//!                                                           stream that travel from window to window, by rendezvous
//! ```
//!
//! Frames with bytes are *numbered*: the receiver takes them in the order of their numbers, however they arrive. A sender has at most
//! [`CREDIT`] numbered frames under way that the receiver has not taken. Control frames carry counters only, which never go back, so they
//! need no number and no credit.

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a frame's head.
pub(super) const FRAME_HEAD_LEN: usize = 48;

/// Most bytes of the stream in a frame: with both heads one fragment of UCX's shared memory and TCP, 8 KiB.
pub(super) const FRAME_LEN: usize = 8000;

/// Most numbered frames that a receiver keeps: 512 KiB, more than is under way on any link.
pub(super) const CREDIT: u64 = 64;

/// Shortest part of a body that travels from window to window: below it a rendezvous costs more than two copies.
pub(super) const DIRECT_LEN: usize = 64 << 10;

/// Bytes of a body in one rendezvous: a stage of the node, so that stages are filled without a copy.
pub(super) const CHUNK_LEN: usize = hanare_protocol::limits::STAGE_LEN;

/// Longest: the end of a body that would be too short alone goes along.
pub(super) const CHUNK_LEN_MAX: usize = CHUNK_LEN + DIRECT_LEN - 1;

/// Most of them under way in one direction: enough that copying never waits for the next to begin.
pub(super) const CHUNK_COUNT: usize = 4;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum FrameKind {
    /// A piece of the stream.
    Numbered = 1,
    /// Counters only.
    Control = 2,
    /// Counters only, from a side that could not receive a body from a window. The body's sender looks for the cause.
    Failed = 3,
    /// The first of each side, as long as frames may be. Its bytes mean nothing; its arrival shows that frames get through.
    Reach = 4,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) kind: FrameKind,
    /// The number that the receiver chose for this link: frames of others are not its peer's.
    pub(super) token: u64,
    /// The frame's number, from 0; zero in control frames.
    pub(super) seq: u64,
    /// Number of numbered frames that the sender of this frame has taken.
    pub(super) taken: u64,
    /// Number of bodies from windows that were complete, with none of their memory lost, when they had left.
    pub(super) vouched: u64,
    /// Bytes that follow this frame from a window.
    pub(super) direct_len: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    token: U64,
    seq: U64,
    taken: U64,
    vouched: U64,
    direct_len: U32,
    kind: U32,
    zero: [u8; 8],
}

const _: () = assert!(size_of::<Raw>() == FRAME_HEAD_LEN);
const _: () = assert!(FRAME_LEN + FRAME_HEAD_LEN + 64 <= 8 << 10, "a frame is one fragment");

impl FrameHead {
    pub(super) fn encode(&self) -> [u8; FRAME_HEAD_LEN] {
        let raw = Raw {
            token: self.token.into(),
            seq: self.seq.into(),
            taken: self.taken.into(),
            vouched: self.vouched.into(),
            direct_len: self.direct_len.into(),
            kind: (self.kind as u32).into(),
            zero: [0; 8],
        };
        zerocopy::transmute!(raw)
    }

    /// Reads a head; none where these bytes are none.
    pub(super) fn decode(bytes: &[u8]) -> Option<FrameHead> {
        let bytes: [u8; FRAME_HEAD_LEN] = bytes.try_into().ok()?;
        let raw: Raw = zerocopy::transmute!(bytes);
        use FrameKind::*;
        let kind = [Numbered, Control, Failed, Reach].into_iter().find(|kind| *kind as u32 == raw.kind.get())?;
        Some(FrameHead {
            kind,
            token: raw.token.get(),
            seq: raw.seq.get(),
            taken: raw.taken.get(),
            vouched: raw.vouched.get(),
            direct_len: raw.direct_len.get(),
        })
    }
}

/// The length of the next rendezvous, where `len` bytes of a body's window are left.
pub(super) fn chunk_len(len: usize) -> usize {
    if len <= CHUNK_LEN_MAX { len } else { CHUNK_LEN }
}

/// Any bytes are the head of a frame or none.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz_frame(bytes: &[u8]) {
    if let Some(head) = FrameHead::decode(bytes.get(..FRAME_HEAD_LEN).unwrap_or(bytes)) {
        assert_eq!(FrameHead::decode(&head.encode()), Some(head));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_head_survives_the_wire(token: u64, seq: u64, taken: u64, vouched: u64, direct_len: u32, kind in 0..4usize) {
            let kind = [FrameKind::Numbered, FrameKind::Control, FrameKind::Failed, FrameKind::Reach][kind];
            let head = FrameHead { kind, token, seq, taken, vouched, direct_len };
            prop_assert_eq!(FrameHead::decode(&head.encode()), Some(head));
        }

        #[test]
        fn any_bytes_are_a_head_or_none(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(head) = FrameHead::decode(&bytes) {
                prop_assert_eq!(&head.encode()[..40], &bytes[..40]);
            }
        }

        #[test]
        fn a_long_part_is_cut_into_chunks_worth_it(mut len in DIRECT_LEN..(4 << 20)) {
            while len > 0 {
                let now = chunk_len(len);
                prop_assert!((DIRECT_LEN..=CHUNK_LEN_MAX).contains(&now));
                len -= now;
            }
        }
    }
}
