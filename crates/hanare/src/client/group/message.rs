//! A message that was received.

use super::receive_memory::ReceivedBody;
use crate::client::command::Command;
use crate::client::region::Region;
use hanare_protocol::message::Envelope;
use hanare_protocol::message::header::SHORTEST_LEN;
use hanare_protocol::shape::Shape;
use hanare_protocol::{Error, Result};

/// A message that was received. Its envelope and its head are here. Its body stays where it came until this is dropped.
///
/// FEATURE: D3-F7
pub struct Message {
    pub(super) envelope: Envelope,
    pub(super) head: MessageHead,
    pub(super) body: ArrivedBody,
}

/// A head, in the first line of its header. It is read once and by whole words: moves of odd bytes wait for the stores before them.
#[derive(Clone, Copy)]
#[repr(align(8))]
pub(super) struct MessageHead {
    line: [u8; SHORTEST_LEN],
    at: u8,
    len: u8,
}

impl MessageHead {
    /// Without a byte.
    pub const NONE: MessageHead = MessageHead { line: [0; SHORTEST_LEN], at: 0, len: 0 };

    /// Takes the first line of a header from `read`.
    #[inline]
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8])) -> &[u8; SHORTEST_LEN] {
        read(&mut self.line);
        &self.line
    }

    /// The head begins at `at` of the header, of which `read` brings what is behind the line.
    #[inline]
    pub fn cut(&mut self, at: usize, len: usize, read: impl FnOnce(&mut [u8])) {
        // A head is no longer than a line without its shortest front.
        if at + len <= SHORTEST_LEN {
            (self.at, self.len) = (at as u8, len as u8);
        } else {
            (self.at, self.len) = (0, len as u8);
            read(&mut self.line[..len]);
        }
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.line[usize::from(self.at)..][..usize::from(self.len)]
    }
}

/// Location of a body.
pub(super) enum ArrivedBody {
    /// In the message, behind its head.
    Here(Vec<u8>),
    /// In memory of this party's host.
    Received(ReceivedBody),
}

impl Message {
    /// Sender, context and tag.
    pub fn envelope(&self) -> Envelope {
        self.envelope
    }

    /// The head.
    pub fn head(&self) -> &[u8] {
        self.head.bytes()
    }

    /// Bytes of the body.
    pub fn len(&self) -> u64 {
        match &self.body {
            ArrivedBody::Here(bytes) => bytes.len() as u64,
            ArrivedBody::Received(received) => received.len,
        }
    }

    /// True for a message without a body.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes of the body out, from byte `at` of it on. **Errors**: [`Error::OutOfRange`] beyond its end.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let end = at.checked_add(into.len() as u64).filter(|end| *end <= self.len());
        if end.is_none() {
            let region = "(a message's body)".to_owned();
            return Err(Error::OutOfRange { region, offset: at, len: into.len() as u64, limit: self.len() });
        }
        match &self.body {
            ArrivedBody::Here(bytes) => {
                into.copy_from_slice(&bytes[at as usize..][..into.len()]);
                Ok(())
            }
            ArrivedBody::Received(received) => received.region().get(received.offset + at, into),
        }
    }

    /// Puts the body's bytes to the blocks of a shape of equal length, in a region on any node. A landed body goes from node to node, or
    /// within one, and this program's processor never touches it. So bytes gathered from a sub-array ([`crate::Body::Part`]) are
    /// scattered to another.
    ///
    /// **Errors**: those of [`crate::Pool::copy`].
    ///
    /// FEATURE: D3-F25
    pub fn scatter<'s>(&self, to: &Region, shape: impl Into<Shape<'s>>) -> Result<()> {
        match &self.body {
            ArrivedBody::Here(bytes) => to.put_shape(shape, bytes),
            ArrivedBody::Received(received) => {
                let from = Shape::contiguous(received.offset, received.len);
                Command::copy(received.region(), from, to, shape.into()).run()
            }
        }
    }

    /// A long body's region on this host and its offset there: handed over without another copy. Good while this message lives. `None`
    /// for a body that came with its head.
    pub fn place(&self) -> Option<(&Region, u64)> {
        match &self.body {
            ArrivedBody::Here(_) => None,
            ArrivedBody::Received(received) => Some((received.region(), received.offset)),
        }
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Envelope { from, context, tag } = self.envelope;
        let mut text = f.debug_struct("Message");
        text.field("from", &from).field("context", &context).field("tag", &tag).field("head", &self.head());
        text.field("len", &self.len()).finish_non_exhaustive()
    }
}
