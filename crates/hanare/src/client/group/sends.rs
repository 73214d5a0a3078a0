//! Bodies, and sends that were begun and are not over.

use super::failure::{Failure, Outcome};
use crate::client::command::Completion;
use crate::client::region::Region;
use hanare_protocol::Result;
use hanare_protocol::message::header::Front;
use hanare_protocol::shape::Shape;
use std::borrow::Cow;
use std::time::Duration;

/// A message's part after its head.
pub enum Body<'b> {
    /// Bytes of the program.
    Bytes(&'b [u8]),
    /// Bytes of a region, in the shape's order. If they are more than a page, the node that holds them sends them. This program's processor
    /// never touches them. Fewer are read and go with their head, which saves two messages each way. So do up to 64 KiB on this host, for a
    /// receiver on another.
    ///
    /// **Source**: [D3 §3.4] LHC.
    Part(&'b Region, Shape<'b>),
}

/// A message's part after its head, for a send that is waited for later.
pub enum LastingBody<'r> {
    /// Bytes that the send keeps.
    Bytes(Cow<'static, [u8]>),
    /// See [`Body::Part`].
    Part(&'r Region, Shape<'static>),
}

/// A send that was begun, by its number at its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendId(pub u64);

/// A send that is not over.
pub(super) struct Sending {
    pub id: SendId,
    pub front: Front,
    /// The number of a part that the receiver fetches.
    pub lent: Option<u64>,
    pub stage: SendStage,
}

pub(super) enum SendStage {
    /// Until its body is there, and those before it are posted.
    Waits {
        head: Vec<u8>,
        /// Bytes behind its head.
        behind: Cow<'static, [u8]>,
        moves: Option<Moving>,
    },
    /// Sent; it is over when so many units of its port count.
    Posted(u64),
}

/// A long body that moves to its receiver's host before its head.
pub(super) enum Moving {
    /// Bytes of the program, kept until they are there.
    Bytes(Completion<Vec<u8>>),
    /// The same, which last for ever.
    Lasting(Completion<()>),
    Part(Completion<()>),
}

impl Moving {
    pub fn is_done(&self) -> bool {
        match self {
            Moving::Bytes(completion) => completion.is_done(),
            Moving::Lasting(completion) | Moving::Part(completion) => completion.is_done(),
        }
    }

    pub fn nap(&self, bound: Duration) {
        match self {
            Moving::Bytes(completion) => completion.nap(bound),
            Moving::Lasting(completion) | Moving::Part(completion) => completion.nap(bound),
        }
    }

    pub fn wait(self, to: u32) -> Outcome<()> {
        match self {
            Moving::Bytes(completion) => completion.wait().map(drop).map_err(|error| Failure::on_the_way(to, error)),
            Moving::Lasting(completion) => completion.wait().map_err(|error| Failure::on_the_way(to, error)),
            // A failure may be that of the part's node.
            Moving::Part(completion) => completion.wait().map_err(Failure::from),
        }
    }
}

impl SendStage {
    pub fn waits(head: &[u8], behind: Cow<'static, [u8]>, moves: Option<Moving>) -> SendStage {
        SendStage::Waits { head: head.to_vec(), behind, moves }
    }
}

impl Sending {
    pub fn is_posted(&self) -> bool {
        matches!(self.stage, SendStage::Posted(_))
    }
}

impl Body<'_> {
    pub(super) fn len(&self) -> Result<u64> {
        match self {
            Body::Bytes(bytes) => Ok(bytes.len() as u64),
            Body::Part(region, shape) => part_len(region, shape),
        }
    }
}

impl LastingBody<'_> {
    pub(super) fn len(&self) -> Result<u64> {
        match self {
            LastingBody::Bytes(bytes) => Ok(bytes.len() as u64),
            LastingBody::Part(region, shape) => part_len(region, shape),
        }
    }
}

fn part_len(region: &Region, shape: &Shape<'_>) -> Result<u64> {
    Ok(shape.by_ref().check(region.name(), region.len())?.len())
}

/// The bytes of a part that go in one message with their head.
pub(super) fn short_part(region: &Region, shape: &Shape<'_>, len: u64) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    region.get_shape(shape.by_ref(), &mut bytes)?;
    Ok(bytes)
}
