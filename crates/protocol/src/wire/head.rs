//! The head of every message: 32 bytes, little-endian, the same on every fabric.

use super::Malformed;
use super::page::{GRANTED_LEN, PAGE_REQUEST_COUNT_MAX, PAGE_REQUEST_LEN};
use crate::copies::UpdateCall;
use crate::limits::{
    BATCH_COUNT_MAX, BODY_LEN_MAX, CALL_NUMBER_MAX, CALL_SEQUENCE_COUNT_MAX, CONTROL_LEN_MAX, LOOK_LEN_MAX, MESSAGE_RING_LEN_MAX,
    PAGE_LEN, QUEUE_APPEND_LEN_MAX, SYNC_LEN_MAX,
};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

/// In the head of vector commands, and of appends. Nobody waits for the answer just now, so the node may send it together with later ones.
pub const MAY_WAIT: u64 = 1;

/// The call was sent before: in the head of vector commands.
const IS_REPEAT: u64 = 2;

/// Bits of a head's detail below those of a call's number.
const NUMBER_SHIFT: u32 = CALL_NUMBER_MAX.leading_zeros();
/// Bits below those of a call's sequence.
const SEQUENCE_SHIFT: u32 = 2;
const _: () =
    assert!(CALL_SEQUENCE_COUNT_MAX == 1 << (NUMBER_SHIFT - SEQUENCE_SHIFT) && u16::BITS == NUMBER_SHIFT - SEQUENCE_SHIFT);

/// The call of a message of vector commands, in its head's detail beside [`MAY_WAIT`]. Calls have numbers from 1 on. The upper half of the
/// connection's name is the program.
pub fn encode_call(sequence: u16, number: u64, is_repeat: bool) -> u64 {
    let repeat = if is_repeat { IS_REPEAT } else { 0 };
    number.min(CALL_NUMBER_MAX) << NUMBER_SHIFT | u64::from(sequence) << SEQUENCE_SHIFT | repeat
}

/// The call of a message on a connection of that name. `None` where it has none.
pub fn decode_call(detail: u64, connection: u128) -> Option<UpdateCall> {
    let (number, sequence) = (detail >> NUMBER_SHIFT, (detail >> SEQUENCE_SHIFT) as u16);
    let client = (connection >> 64) as u64;
    (number > 0).then_some(UpdateCall { client, sequence, number, is_repeat: detail & IS_REPEAT != 0 })
}

/// Bytes of a head.
pub const HEAD_LEN: usize = 32;

/// Kind of a message. Its body is decoded by [`super::exchange`], [`super::command`] or [`super::control`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromBytes, Immutable, KnownLayout)]
#[repr(u8)]
pub enum Kind {
    /// Vector commands; `count` of them, then the bytes of the puts. `detail` may be [`MAY_WAIT`], and have a call ([`encode_call`]).
    Commands = 1,
    /// Answer to commands: the bytes of the gets.
    Done = 2,
    /// A refusal: the body is a postcard [`crate::Error`], whose `happened` says whether anything of the request may have been done.
    Refused = 3,
    /// A control message or its answer: the body is postcard, see [`super::control`].
    Control = 4,
    /// A mere sign of life; answered by `Pong` with the same sequence number.
    Ping = 7,
    /// Answer to `Ping`; `detail` is the node's clock, in nanoseconds since 1970.
    Pong = 8,
    /// Names the connection, by `seq` and `detail`: a client may ask after its end what became of its requests.
    Name = 9,
    /// Asks what became of a request of another connection; the body is a postcard [`super::exchange::Question`].
    Ask = 10,
    /// Answer to `Ask`: the body is a postcard [`crate::error::Happened`].
    Told = 11,
    /// The request is being worked on: a sign of life while an answer takes its time.
    Working = 12,
    /// Something that clients share is asked for: the body is a postcard [`super::sync::SyncRequest`].
    Sync = 13,
    /// Answer to `Sync`, perhaps much later: the body is a postcard [`super::sync::SyncAnswer`].
    Synced = 14,
    /// A thread wants pages: `count` records of [`super::page::PageRequest`]; `detail` is the share of its host.
    Pages = 15,
    /// Answer to `Pages`: as many records of [`super::page::Granted`], then the pages that come along.
    Granted = 16,
    /// A thread has installed grants: `count` records of [`super::page::Settled`]; `detail` is the share. Not answered.
    Settled = 17,
    /// A host's frames are more than its limit: to the host's own node, `detail` is the region. Not answered.
    Crowded = 18,
    /// Asks what the node has and did; the body is a postcard [`super::look::Look`].
    Look = 19,
    /// Answer to `Look`: the body is a postcard [`super::look::Seen`].
    Seen = 20,
    /// Units for the queue of the program at the other end ([`super::link`]). `detail` may be [`MAY_WAIT`].
    Append = 21,
    /// Answer to `Append`, perhaps to several: `seq` units count.
    Appended = 22,
    /// Bytes for memory of the program at the other end, from byte `detail` of it on. They are there before the next `Append` counts.
    Ahead = 23,
    /// A thread does not know the outcome of the requests of `count` slots from slot `seq` on. To its host's own node; `detail` is the
    /// region. Not answered.
    TakeOver = 24,
    /// Tells the face by which the program uses the pool: `detail` is its number ([`super::face`]). Not answered. Since version 28.
    Face = 25,
}

/// A message's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The message's kind.
    pub kind: Kind,
    /// Commands in a request; zero elsewhere.
    pub count: u32,
    /// The sender's number of the request; an answer repeats it.
    pub seq: u64,
    /// Bytes that follow.
    pub body_len: u64,
    /// A number; the kind gives it its meaning.
    pub detail: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawHead {
    body_len: U64,
    seq: U64,
    detail: U64,
    count: U32,
    kind: u8,
    zero: u8,
    check: U16,
}

const _: () = assert!(size_of::<RawHead>() == HEAD_LEN);

/// A constant in every head: finds a stream that lost its place at the next message.
const CHECK: u16 = 0x9bd8;

impl Head {
    /// A head without body, count or detail.
    pub fn new(kind: Kind, seq: u64) -> Head {
        Head { kind, count: 0, seq, body_len: 0, detail: 0 }
    }

    /// The bytes to send.
    pub fn encode(&self) -> [u8; HEAD_LEN] {
        let raw = RawHead {
            body_len: self.body_len.into(),
            seq: self.seq.into(),
            detail: self.detail.into(),
            count: self.count.into(),
            kind: self.kind as u8,
            zero: 0,
            check: CHECK.into(),
        };
        zerocopy::transmute!(raw)
    }

    /// Reads a head; refuses an unknown kind, and a length or count beyond the limits.
    pub fn decode(bytes: &[u8; HEAD_LEN]) -> Result<Head, Malformed> {
        let raw: RawHead = zerocopy::transmute!(*bytes);
        if raw.check.get() != CHECK || raw.zero != 0 {
            return Err(Malformed("not the head of a message"));
        }
        let head = Head {
            kind: Kind::try_read_from_bytes(&[raw.kind]).map_err(|_| Malformed("unknown kind of message"))?,
            count: raw.count.get(),
            seq: raw.seq.get(),
            body_len: raw.body_len.get(),
            detail: raw.detail.get(),
        };
        head.within_limits().then_some(head).ok_or(Malformed("a length beyond the limits"))
    }

    fn within_limits(&self) -> bool {
        let body_len_max = match self.kind {
            Kind::Commands | Kind::Done => BODY_LEN_MAX,
            Kind::Pages | Kind::Settled => (PAGE_REQUEST_COUNT_MAX * PAGE_REQUEST_LEN) as u64,
            Kind::Granted => const { PAGE_REQUEST_COUNT_MAX as u64 * (GRANTED_LEN as u64 + PAGE_LEN) },
            Kind::Control | Kind::Refused => CONTROL_LEN_MAX as u64,
            Kind::Sync | Kind::Synced | Kind::Ask | Kind::Told => SYNC_LEN_MAX,
            Kind::Look | Kind::Seen => LOOK_LEN_MAX,
            Kind::Append => QUEUE_APPEND_LEN_MAX,
            Kind::Ahead => MESSAGE_RING_LEN_MAX,
            Kind::Ping
            | Kind::Pong
            | Kind::Name
            | Kind::Working
            | Kind::Crowded
            | Kind::TakeOver
            | Kind::Appended
            | Kind::Face => 0,
        };
        self.body_len <= body_len_max && self.count as usize <= BATCH_COUNT_MAX
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_head_or_refused(bytes: [u8; HEAD_LEN]) {
            if let Ok(head) = Head::decode(&bytes) {
                prop_assert_eq!(head.encode(), bytes);
            }
        }

        #[test]
        fn a_head_survives_the_wire(seq: u64, detail: u64, count in 0..=BATCH_COUNT_MAX as u32, body_len in 0..=BODY_LEN_MAX) {
            let head = Head { kind: Kind::Commands, count, seq, body_len, detail };
            prop_assert_eq!(Head::decode(&head.encode()), Ok(head));
        }
    }

    #[test]
    fn lengths_beyond_the_limits_are_refused() {
        let head = Head { body_len: CONTROL_LEN_MAX as u64 + 1, ..Head::new(Kind::Control, 0) };
        assert!(Head::decode(&head.encode()).is_err());
        let head = Head { body_len: 1, ..Head::new(Kind::Ping, 0) };
        assert!(Head::decode(&head.encode()).is_err());
    }

    #[test]
    fn a_call_is_what_it_was() {
        let name = 77u128 << 64 | 5;
        for (sequence, number, is_repeat) in [(0, 1, false), (u16::MAX, CALL_NUMBER_MAX, true), (7, 900, true)] {
            let call = UpdateCall { client: 77, sequence, number, is_repeat };
            assert_eq!(decode_call(encode_call(sequence, number, is_repeat) | MAY_WAIT, name), Some(call));
        }
        assert_eq!(decode_call(MAY_WAIT, name), None);
    }
}
