//! Page messages: requests of faulting threads to a page's home, and what the nodes of a shared region tell each other.
//!
//! ```text
//! a thread that faults -- PageRequest, Settled -->  the page's home      fixed records, on a connection of the thread's own
//!                      <-------- Granted --------
//! node                 <--------- Frame -------->  node                 postcard, then the page where one comes along
//! ```
//!
//! Records have fixed lengths and are read and written without memory of their own, because a signal handler does so.
//!
//! A *membership* is a host's right to a region at a home. It is a random number that the home gives when the host joins. It names region
//! and host in every later message. A *key* is the same in the other direction.

use super::Malformed;
use crate::error::Error;
use crate::id::{Epoch, Gid, Grant, Incarnation, NodeId, Rights};
use crate::limits::PAGE_LEN;
use crate::page::{Access, Consistency, HostId, Page, Receipt, Ticket, ToHome, ToHost, Version};
use crate::placement::Layout;
use serde::{Deserialize, Serialize};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a [`PageRequest`] or a [`Settled`].
pub const PAGE_REQUEST_LEN: usize = 24;

/// Bytes of a [`Granted`].
pub const GRANTED_LEN: usize = 8;

/// Most pages in one message of a thread: the length of its buffer.
pub const PAGE_REQUEST_COUNT_MAX: usize = 64;

const WRITES: u8 = 1;
const FIRM: u8 = 2;
const HAS: u8 = 4;
const TRIES: u8 = 8;

/// A thread requests a page of its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The page's position in the region.
    pub page: u64,
    /// The request.
    pub ticket: Ticket,
    /// The access to grant.
    pub access: Access,
    /// The version of the copy that its host has.
    pub has: Option<Version>,
    /// See [`ToHome::Request`].
    pub firm: bool,
    /// True for a page beside one that a program touched: wanted only if nobody else has to be asked.
    pub tries: bool,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawPageRequest {
    page: U64,
    version: U32,
    number: U32,
    slot: U16,
    flags: u8,
    zero: [u8; 5],
}

const _: () = assert!(size_of::<RawPageRequest>() == PAGE_REQUEST_LEN);

impl PageRequest {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; PAGE_REQUEST_LEN] {
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let raw = RawPageRequest {
            page: self.page.into(),
            version: self.has.map_or(0, |version| version.0).into(),
            number: self.ticket.number.into(),
            slot: self.ticket.slot.into(),
            flags: flag(self.access == Access::Write, WRITES)
                | flag(self.firm, FIRM)
                | flag(self.has.is_some(), HAS)
                | flag(self.tries, TRIES),
            zero: [0; 5],
        };
        zerocopy::transmute!(raw)
    }

    /// Reads a record.
    pub fn decode(bytes: &[u8; PAGE_REQUEST_LEN]) -> Result<PageRequest, Malformed> {
        let raw: RawPageRequest = zerocopy::transmute!(*bytes);
        if raw.flags & !(WRITES | FIRM | HAS | TRIES) != 0 || raw.zero != [0; 5] {
            return Err(Malformed("a page wanted in an unknown way"));
        }
        let is = |flag: u8| raw.flags & flag != 0;
        if !is(HAS) && raw.version.get() != 0 {
            return Err(Malformed("a version of no copy"));
        }
        Ok(PageRequest {
            page: raw.page.get(),
            ticket: Ticket { slot: raw.slot.get(), number: raw.number.get() },
            access: if is(WRITES) { Access::Write } else { Access::Read },
            has: is(HAS).then(|| Version(raw.version.get())),
            firm: is(FIRM),
            tries: is(TRIES),
        })
    }
}

/// A thread has installed a grant: [`ToHome::Done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The page's position in the region.
    pub page: u64,
    /// The request that was granted.
    pub ticket: Ticket,
    /// The version granted.
    pub version: Version,
}

impl Settled {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; PAGE_REQUEST_LEN] {
        let raw = RawPageRequest {
            page: self.page.into(),
            version: self.version.0.into(),
            number: self.ticket.number.into(),
            slot: self.ticket.slot.into(),
            flags: 0,
            zero: [0; 5],
        };
        zerocopy::transmute!(raw)
    }

    /// Reads a record.
    pub fn decode(bytes: &[u8; PAGE_REQUEST_LEN]) -> Result<Settled, Malformed> {
        let raw: RawPageRequest = zerocopy::transmute!(*bytes);
        if raw.flags != 0 || raw.zero != [0; 5] {
            return Err(Malformed("a page settled in an unknown way"));
        }
        let ticket = Ticket { slot: raw.slot.get(), number: raw.number.get() };
        Ok(Settled { page: raw.page.get(), ticket, version: Version(raw.version.get()) })
    }
}

/// Immediate result of a [`PageRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// The page comes to the thread's node, which wakes the thread.
    Later = 0,
    /// Granted for reading.
    Read = 1,
    /// Granted for writing.
    Write = 2,
    /// Not granted: somebody else would have to be asked.
    NotNow = 3,
    /// Its newest bytes are gone.
    Lost = 4,
    /// Too many wait for it.
    Full = 5,
    /// The home does not share the region with the thread's host any more.
    NotShared = 6,
}

/// A home's answer to a [`PageRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The request's outcome.
    pub outcome: Outcome,
    /// The version granted.
    pub version: Version,
    /// True if the page's bytes come behind the records, in their order.
    pub has_bytes: bool,
    /// True if the home waits for [`Settled`].
    pub firm: bool,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawGranted {
    version: U32,
    outcome: u8,
    flags: u8,
    zero: U16,
}

const _: () = assert!(size_of::<RawGranted>() == GRANTED_LEN);

const BYTES: u8 = 1;

impl Granted {
    /// An answer without a page.
    pub fn without(outcome: Outcome) -> Granted {
        Granted { outcome, version: Version::default(), has_bytes: false, firm: false }
    }

    /// The bytes to send.
    pub fn encode(&self) -> [u8; GRANTED_LEN] {
        let flags = if self.has_bytes { BYTES } else { 0 } | if self.firm { FIRM } else { 0 };
        let raw = RawGranted { version: self.version.0.into(), outcome: self.outcome as u8, flags, zero: 0.into() };
        zerocopy::transmute!(raw)
    }

    /// Reads a record.
    pub fn decode(bytes: &[u8; GRANTED_LEN]) -> Result<Granted, Malformed> {
        use Outcome::*;
        let raw: RawGranted = zerocopy::transmute!(*bytes);
        let outcome = [Later, Read, Write, NotNow, Lost, Full, NotShared].into_iter().find(|known| *known as u8 == raw.outcome);
        let outcome = outcome.ok_or(Malformed("an unknown outcome of a page"))?;
        if raw.flags & !(BYTES | FIRM) != 0 || raw.zero.get() != 0 {
            return Err(Malformed("a page granted in an unknown way"));
        }
        let (has_bytes, firm) = (raw.flags & BYTES != 0, raw.flags & FIRM != 0);
        Ok(Granted { outcome, version: Version(raw.version.get()), has_bytes, firm })
    }
}

/// Messages of two nodes on pages, on one connection, which the sender of [`Frame::Hail`] made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame {
    /// The first frame: who made the connection. Answered by [`Frame::Answers`].
    Hail {
        /// The node.
        node: NodeId,
        /// The life of its process.
        life: Incarnation,
        /// Its network address.
        address: String,
        /// The number of its sender's channel to the other node. Messages of another channel are numbered anew.
        channel: u64,
    },
    /// A message with its number at the sender's courier; the page's bytes are behind the frame where [`NodeMessage::has_bytes`].
    Message(u64, NodeMessage),
    /// Back: what has been heard.
    Heard(Receipt),
    /// Back, once: which life of the node hears ([`crate::page::Answering`]).
    Answers(Incarnation),
}

/// A node's message to another on a shared region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeMessage {
    /// A host will map a region; answered by [`NodeMessage::Joined`].
    Join(Join),
    /// To [`NodeMessage::Join`].
    Joined {
        /// The host's name for itself at this home.
        key: u64,
        /// The host's membership there, or the reason of a refusal.
        result: Result<Joined, Error>,
    },
    /// A host has no mapping any more, and has sent all it owned; answered by [`NodeMessage::Left`].
    Leave {
        /// The membership.
        share: u64,
    },
    /// All that a host sent before it left is in its place.
    Left {
        /// The host's name for itself at this home.
        key: u64,
    },
    /// Another host of the region, before the first message that names it.
    Introduce {
        /// The host that is told.
        key: u64,
        /// The other.
        host: HostId,
        /// Its node.
        node: NodeId,
        /// Address of that host.
        address: String,
        /// Its key in messages.
        its_key: u64,
    },
    /// To a page's home.
    ToHome {
        /// The sender's membership.
        share: u64,
        /// The page's position in the region.
        page: Page,
        /// The message.
        message: ToHome,
    },
    /// To a host.
    ToHost {
        /// The receiver's key.
        key: u64,
        /// The page's position in the region.
        page: Page,
        /// The message.
        message: ToHost,
    },
    /// Another host is gone ([`crate::page::Host::on_host_gone`]).
    HostGone {
        /// The receiver's key.
        key: u64,
    },
    /// The home was taken for lost, and is back. The host sends home what it owns, drops the rest, and says [`NodeMessage::Leave`]. So does
    /// one that has answered before; one that knows nothing of this share says [`NodeMessage::Forgot`]. Or the home took the host for lost,
    /// could not say so, and reaches it again. What the host has is void, and it leaves.
    Returned {
        /// The host's name for itself at this home.
        key: u64,
        /// Its right, which ends with this.
        share: u64,
        /// Address of the home.
        address: String,
        /// True if the home takes the pages that the host owns.
        takes: bool,
    },
    /// To [`NodeMessage::Returned`], or by itself. The host has nothing, and does not know what it had. What it may have stored is lost.
    /// Answered by [`NodeMessage::NotShared`].
    Forgot {
        /// The membership.
        share: u64,
    },
    /// To a message of a host that the home does not know, or not any more. What the host has is void, and it leaves.
    NotShared {
        /// Its right, which the home does not know.
        share: u64,
    },
    /// [`NodeMessage::Join`] for a program that follows the region's bytes to other nodes by itself. Since version 28.
    JoinFollowing(Join),
    /// All pages of a flush were sent by [`ToHome::Store`]. Answered by [`NodeMessage::Flushed`] when all holders of the bytes have them, and those
    /// that the host sent before. Since version 28.
    Flush {
        /// The membership.
        share: u64,
        /// The flush's number at this host.
        number: u64,
        /// Number of its pages.
        count: u64,
    },
    /// To [`NodeMessage::Flush`]. Since version 28.
    Flushed {
        /// The host's name for itself at this home.
        key: u64,
        /// The flush.
        number: u64,
        /// The reason if it failed.
        result: Result<(), Error>,
    },
}

impl NodeMessage {
    /// The message for a node that speaks that version of the wire.
    pub fn as_of(self, spoken: u32) -> NodeMessage {
        match self {
            NodeMessage::JoinFollowing(join) if spoken < 28 => NodeMessage::Join(join),
            other => other,
        }
    }

    /// True if a page's bytes are behind it.
    pub fn has_bytes(&self) -> bool {
        match self {
            NodeMessage::ToHome { message, .. } => message.has_bytes(),
            NodeMessage::ToHost { message, .. } => message.has_bytes(),
            _ => false,
        }
    }
}

/// A host will map a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The region.
    pub gid: Gid,
    /// Its name, for messages to people.
    pub name: String,
    /// The layout of its bytes.
    pub layout: Layout,
    /// A grant for each extent, in the layout's order; the home looks at those of its own.
    pub grants: Vec<Grant>,
    /// The mapping's promise.
    pub consistency: Consistency,
    /// The host's node.
    pub node: NodeId,
    /// Its epoch.
    pub epoch: Epoch,
    /// The user whose programs of that node may only read, and have frames of their own. `None` for those who may write.
    pub readers: Option<u32>,
    /// Its network address.
    pub address: String,
    /// Its key in messages to it.
    pub key: u64,
}

/// A host's membership at a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Its number there.
    pub host: HostId,
    /// Its right.
    pub share: u64,
    /// The most that the grants of this [`Join`] allow.
    pub rights: Rights,
    /// The epoch of the home's life.
    pub epoch: Epoch,
}

/// The bytes of a frame, and of the page behind it.
pub fn encode_frame(frame: &Frame, page: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = postcard::to_stdvec(frame).expect("frames have no unserialisable parts");
    bytes.extend_from_slice(page.unwrap_or_default());
    bytes
}

/// Reads a frame and the page behind it.
pub fn decode_frame(bytes: &[u8]) -> Result<(Frame, &[u8]), Malformed> {
    let (frame, page) = postcard::take_from_bytes(bytes).map_err(|_| Malformed("not a frame about pages"))?;
    let has_bytes = matches!(&frame, Frame::Message(_, message) if message.has_bytes());
    if page.len() as u64 != if has_bytes { PAGE_LEN } else { 0 } {
        return Err(Malformed("a frame about pages with more or less than its page"));
    }
    Ok((frame, page))
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_refused(bytes: [u8; PAGE_REQUEST_LEN]) {
            if let Ok(request) = PageRequest::decode(&bytes) {
                prop_assert_eq!(request.encode(), bytes);
            }
            if let Ok(settled) = Settled::decode(&bytes) {
                prop_assert_eq!(settled.encode(), bytes);
            }
            let bytes = *bytes.first_chunk().unwrap();
            if let Ok(granted) = Granted::decode(&bytes) {
                prop_assert_eq!(granted.encode(), bytes);
            }
        }

        #[test]
        fn any_bytes_are_a_frame_or_refused(bytes: Vec<u8>) {
            let _ = decode_frame(&bytes);
        }
    }

    #[test]
    fn a_page_travels_behind_its_message_and_no_other() {
        let message = ToHome::WriteBack { version: Version(3), keeps: false };
        let message = NodeMessage::ToHome { share: 1, page: Page(2), message };
        let (page, frame) = ([7; PAGE_LEN as usize], Frame::Message(9, message));
        let bytes = encode_frame(&frame, Some(&page));
        assert_eq!(decode_frame(&bytes), Ok((frame, &page[..])));
        assert!(decode_frame(&bytes[..bytes.len() - 1]).is_err());
        assert!(decode_frame(&encode_frame(&Frame::Message(9, NodeMessage::Left { key: 1 }), Some(&page))).is_err());
    }
}
