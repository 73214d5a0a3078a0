//! Appends of a port by a link to the queue's reader, and back by the queue's node.
//!
//! ```text
//! by the node ── all answered, and units enough for a connection to pay ──> by the link ── it ended, or its reader does not read ──> by the node
//! ```
//!
//! At the end of a link the node says how many units count ([`hanare_protocol::queue::link`]). The others are sent again through the node.

use super::appending::AppendLink;
use super::appends::{Appends, Linking};
use super::writer::WritePort;
use hanare_protocol::limits::MESSAGE_NAP_MS;
use hanare_protocol::queue::Overflow;
use hanare_protocol::queue::link::{LINK_AFTER_COUNT, LINK_AGAIN_COUNT};
use hanare_protocol::{Error, Result};
use hanare_ring::wait::{Backoff, Step};
use std::time::Duration;

/// Time that a wait for the reader sleeps at once.
const NAP: Duration = Duration::from_millis(MESSAGE_NAP_MS);

impl WritePort {
    /// Units may go straight to the queue's reader, where that is on another host.
    pub(crate) fn let_link(&mut self) {
        if self.remote.is_some() && !self.reach.moves() {
            self.appends.let_link();
        }
    }
}

impl Appends {
    /// Units may go by a link to the queue's reader.
    pub fn let_link(&mut self) {
        self.linking = Some(Linking { from: LINK_AFTER_COUNT, pause: LINK_AGAIN_COUNT });
    }

    /// True if units go by a link at present.
    pub fn are_linked(&self) -> bool {
        self.link.is_some()
    }

    pub(super) fn spills(&self) -> bool {
        self.reach.form().overflow == Overflow::Spill
    }

    /// Makes a link where one is due.
    #[inline]
    pub(super) fn link_if_due(&mut self) -> Result<()> {
        let is_due = self.link.is_none() && self.linking.as_ref().is_some_and(|linking| self.sent() >= linking.from);
        if is_due { self.make_link() } else { Ok(()) }
    }

    #[cold]
    fn make_link(&mut self) -> Result<()> {
        self.settle()?;
        if self.spilled == 0 {
            match self.reach.dial_reader(self.id) {
                Ok(link) => {
                    let region = self.reach.region();
                    let counts = (region.extent_route(0).remote.node(), region.shared.links.clone());
                    self.link = Some(Box::new(AppendLink::new(link, self.counted(), counts)));
                }
                Err(error) => tracing::debug!("no link to the reader of queue {}: {error}", self.reach.name(self.queue)),
            }
        }
        self.postpone_link();
        Ok(())
    }

    /// The next try comes after more units than the last.
    fn postpone_link(&mut self) {
        let sent = self.sent();
        if let Some(Linking { from, pause }) = &mut self.linking {
            (*from, *pause) = (sent.saturating_add(*pause), pause.saturating_mul(2));
        }
    }

    /// True if one more append of such a frame goes by the link without a wait. `None` if there is no link.
    pub fn link_has_way(&mut self, frame: usize) -> Result<Option<bool>> {
        let has_way = |own: &Appends| !own.order.is_full(own.kept_len() + frame);
        if self.link.is_some() && !has_way(self) {
            self.hurry();
            self.hear_link()?;
        }
        Ok(self.link.is_some().then(|| has_way(self)))
    }

    /// Moves the link, and takes note of what counts. One that has ended, or whose reader does not read, is left.
    pub(super) fn hear_link(&mut self) -> Result<()> {
        let spills = self.spills();
        let Some(link) = &mut self.link else { return Ok(()) };
        match link.hear() {
            Ok(counted) if self.order.may_count(counted) => self.advance(counted),
            Ok(_) => return self.unlink(),
            Err(error) => {
                tracing::debug!("a link to a queue's reader ended: {error}");
                return self.unlink();
            }
        }
        // Answers to earlier appends are none to the last one.
        let is_idle = self.order.is_idle();
        if let Some(link) = self.link.as_mut().filter(|_| !self.may_wait && !is_idle) {
            link.await_answer();
        }
        // A send to a queue that spills does not wait for the reader.
        let is_late = spills && !is_idle && self.link.as_mut().is_some_and(|link| link.is_late());
        if is_late { self.unlink() } else { Ok(()) }
    }

    /// Waits until what was sent is at the reader's host. False where the link was left. If a queue's writers wait for room, a part may
    /// wait for the next call. Nobody waits here for a reader that may wait for this program.
    pub(super) fn settle_link(&mut self) -> Result<bool> {
        let mut backoff = Backoff::new();
        self.hurry();
        loop {
            self.hear_link()?;
            let Some(link) = &self.link else { return Ok(false) };
            if !self.spills() || self.order.is_idle() || link.left_len() == 0 {
                return Ok(true);
            }
            if backoff.step_after(true) == Step::Park {
                link.nap(NAP);
            }
        }
    }

    /// Waits until all that went by a link counts, but not for a reader that a queue can do without. Bytes that a host has acknowledged may
    /// still be lost: it may be one between the two.
    pub fn await_links(&mut self) -> Result<()> {
        while self.link.is_some() && self.any_under_way() {
            self.await_link()?;
        }
        Ok(())
    }

    /// Waits until the reader has taken the oldest append, or the link is left.
    pub(super) fn await_link(&mut self) -> Result<()> {
        let oldest = |own: &Appends| own.order.oldest().map(|first| first.end);
        let (end, mut backoff) = (oldest(self), Backoff::new());
        self.hurry();
        loop {
            self.hear_link()?;
            let Some(link) = self.link.as_ref().filter(|_| end.is_some() && oldest(self) == end) else { return Ok(()) };
            if backoff.step_after(true) == Step::Park {
                link.nap(NAP);
            }
        }
    }

    /// Advances to `counted` units.
    fn advance(&mut self, counted: u64) {
        while let Some(mut first) = self.order.take_counted(counted) {
            first.what.ahead = None;
            self.spare(first.what);
        }
    }

    /// Leaves the link. The node says which units count, and gets the others.
    pub(super) fn unlink(&mut self) -> Result<()> {
        // The link lets go of the bytes.
        if self.link.take().is_none() {
            return Ok(());
        }
        self.has_unlinked = true;
        self.postpone_link();
        let sent = self.send_again();
        sent.inspect_err(|error| self.give_up(error))
    }

    fn send_again(&mut self) -> Result<()> {
        let counted = self.resume()?;
        if !self.order.may_count(counted) {
            let reason = format!("{counted} units count of {} that were sent", self.sent());
            return Err(Error::Garbage { peer: "a queue's node".to_owned(), reason });
        }
        self.advance(counted);
        while let Some(first) = self.order.take_oldest() {
            first.what.put_ahead()?;
            let outcome = self.repeat(first.what.sent());
            self.see_through(&first, outcome, false)?;
        }
        Ok(())
    }
}
