//! Units that a write port commits behind bytes in the same message, and the outcome of units that were sent.
//!
//! Safety: as for [`super::prefix`].

use super::prefix::BodyPrefix;
use super::writer::WritePort;
use crate::client::region::Region;
use hanare_protocol::error::Happened;
use hanare_protocol::{Error, Result};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Bytes up to which a copy costs less than the reader's answer.
const KEPT_LEN: usize = 64 << 10;

impl WritePort {
    /// Commits the claimed unit of a remote queue behind bytes that its node first puts into a region. If the unit counts, the bytes are
    /// there. Waits until both are. Short bytes that go to the reader's program are copied instead, because that program may not look for
    /// long.
    ///
    /// **Cost**: a message each way. **Errors**: those of [`WritePort::publish`], and of [`Region::put`].
    pub(crate) fn commit_behind(&mut self, region: &Arc<Region>, at: u64, bytes: &[u8]) -> Result<()> {
        if self.appends.are_linked() && bytes.len() <= KEPT_LEN {
            return self.start_behind(BodyPrefix::new(region, at, Cow::Owned(bytes.to_vec())), true);
        }
        // SAFETY: the append, which alone has the bytes, has ended when this returns.
        let started = self.start_behind(unsafe { BodyPrefix::of_call(region, at, bytes) }, false);
        started.and(self.publish_counted())
    }

    /// Waits until all that was published counts: at the reader, or at the queue's node.
    ///
    /// **Errors**: those of [`WritePort::publish`].
    pub(crate) fn publish_counted(&mut self) -> Result<()> {
        let counted = self.appends.await_links();
        self.note(counted).and_then(|()| self.publish())
    }

    /// [`WritePort::commit_behind`] without a wait: see [`WritePort::publish_started`].
    pub(crate) fn commit_behind_started(&mut self, ahead: BodyPrefix) -> Result<()> {
        let may_wait = self.appends.are_linked();
        self.start_behind(ahead, may_wait)
    }

    fn start_behind(&mut self, ahead: BodyPrefix, may_wait: bool) -> Result<()> {
        if ahead.fits(&self.reach.region().extent_route(0).remote) {
            self.appends.put_ahead(ahead);
        } else {
            ahead.put()?;
        }
        self.keep();
        self.start(may_wait)
    }

    /// The number of units that were sent to a queue on another host.
    pub(crate) fn sent(&self) -> u64 {
        self.appends.sent()
    }

    /// Checks that the first `sent` units count. Takes replies that are there. **Errors**: why they may never: all later ones are given
    /// up.
    pub(crate) fn counts(&mut self, sent: u64) -> Result<bool> {
        let taken = self.appends.take_answers();
        self.note(taken)?;
        Ok(self.appends.counted() >= sent)
    }

    /// The error of a failed append, if nothing was sent after it. Learns which units count all the same, if the node tells.
    pub(crate) fn failure(&mut self) -> Option<Error> {
        let error = self.appends.failure()?;
        // A silent node leaves that unknown.
        let _ = self.find_place();
        Some(error)
    }

    /// Fate of the units of an append that failed so. Bytes that went ahead of them by a link may still come, as long as the reader does
    /// not look.
    pub(crate) fn what_happened(&self, error: &Error) -> Happened {
        if self.appends.has_unlinked { Happened::Unknown } else { error.happened() }
    }

    /// Sleeps until the oldest append that was sent has its answer, for `bound` at most.
    pub(crate) fn nap(&self, bound: Duration) {
        self.appends.nap(bound);
    }
}
