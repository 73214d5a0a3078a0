//! Bytes that go before an append in its message, so that its units count only where the bytes are there.
//!
//! ```text
//! message:  put of the bytes | append of the units          the node does one after the other, or nothing of it
//! ```
//!
//! Safety: the bytes last as long as the append; they are its own, or those of a call that waits for its end.

use super::reach::QueueReach;
use super::writer::WritePort;
use crate::client::drafts::Drafts;
use crate::client::region::Region;
use hanare_memory::Window;
use hanare_protocol::shape::Shape;
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::{Error, Result};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// What the queue's node puts into a region before it appends. Put twice, because a connection broke, it must do no harm.
pub(crate) struct BytesAhead {
    region: Arc<Region>,
    at: u64,
    bytes: Window,
    _own: Cow<'static, [u8]>,
}

impl BytesAhead {
    /// Bytes that go to `at` of the region.
    pub fn new(region: &Arc<Region>, at: u64, bytes: Cow<'static, [u8]>) -> BytesAhead {
        // SAFETY: the bytes stay where they are while their owner, which is kept, moves. They are only read.
        let window = unsafe { Window::of(&bytes) };
        BytesAhead { region: region.clone(), at, bytes: window, _own: bytes }
    }

    /// Whether they go in one message with an append there: a message is admitted whole or not at all.
    fn fits(&self, reach: &QueueReach) -> bool {
        let is_one = self.region.routes().extents().len() == 1;
        is_one && Arc::ptr_eq(&self.region.door(0).remote, &reach.region().door(0).remote)
    }

    pub(super) fn draft(&self, drafts: &mut Drafts<'_>) -> Result<()> {
        self.region.refresh_if_refused()?;
        let (door, shape) = (self.region.door(0), Shape::contiguous(self.at, self.bytes.len() as u64));
        drafts.push_plain(&door, &Command::new(Op::Put, door.node, door.slot, door.grant, &shape), self.bytes);
        Ok(())
    }

    /// Puts them alone.
    pub(super) fn put(&self) -> Result<()> {
        // SAFETY: as for the window; nobody writes them.
        self.region.put(self.at, unsafe { std::slice::from_raw_parts(self.bytes.ptr(), self.bytes.len()) })
    }
}

impl WritePort {
    /// Commits the claimed unit of a queue on another host behind bytes that its node puts into a region before: where the unit counts, they are
    /// there. Waits until both are.
    ///
    /// **Cost**: a message each way. **Errors**: those of [`WritePort::publish`], and of [`Region::put`].
    pub(crate) fn commit_behind(&mut self, region: &Arc<Region>, at: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: the append, which alone has the bytes, has ended when this returns.
        let window = unsafe { Window::of(bytes) };
        let ahead = BytesAhead { region: region.clone(), at, bytes: window, _own: Cow::Borrowed(&[]) };
        let started = self.start_behind(ahead);
        let settled = self.publish();
        started.and(settled)
    }

    /// As [`WritePort::commit_behind`], and does not wait: see [`WritePort::publish_started`].
    pub(crate) fn commit_behind_started(&mut self, ahead: BytesAhead) -> Result<()> {
        self.start_behind(ahead)
    }

    fn start_behind(&mut self, ahead: BytesAhead) -> Result<()> {
        if ahead.fits(&self.reach) {
            self.appends.put_ahead(ahead);
        } else {
            ahead.put()?;
        }
        self.keep();
        self.start(false)
    }

    /// The number of units that were sent to a queue on another host.
    pub(crate) fn sent(&self) -> u64 {
        self.appends.sent()
    }

    /// Whether so many of them count. Takes answers that are there. **Errors**: why they may never: all later ones are given up.
    pub(crate) fn counts(&mut self, sent: u64) -> Result<bool> {
        let taken = self.appends.take_answers();
        self.note(taken)?;
        Ok(self.appends.counted() >= sent)
    }

    /// Whether an append has failed, and nothing was sent since: why. Learns which units count all the same, if the node tells.
    pub(crate) fn failure(&mut self) -> Option<Error> {
        let error = self.appends.failure()?;
        // Where the node does not tell, nobody knows.
        let _ = self.find_place();
        Some(error)
    }

    /// Sleeps until the oldest append that was sent has its answer, for `bound` at most.
    pub(crate) fn nap(&self, bound: Duration) {
        self.appends.nap(bound);
    }
}
