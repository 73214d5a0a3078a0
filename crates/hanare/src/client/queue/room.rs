//! Waits for room at a write port.

use super::writer::{WritePort, get_word};
use crate::client::locks::milliseconds;
use hanare_protocol::limits::{LEASE_MS, QUEUE_NAP_MS};
use hanare_protocol::queue::Overflow;
use hanare_protocol::queue::layout::{READER_AT, ROOM_BELL_AT};
use hanare_protocol::wire::sync::{Wait, Word};
use hanare_protocol::{Error, Result};
use hanare_ring::array::ALL_ASLEEP;
use hanare_ring::wait::Step;
use std::time::{Duration, Instant};

impl WritePort {
    /// [`WritePort::try_claim`] that waits for room where the queue's overflow is to wait, for `bound` at most; `None` for ever.
    ///
    /// **Errors**: [`Error::QueueFull`] if it is to refuse. [`Error::NotInTime`]. [`Error::ReaderGone`] if the reader has died and nobody
    /// has taken its place. [`Error::NodeLost`]. Those of [`WritePort::try_claim`].
    ///
    /// FEATURE: VQ-F19
    pub fn claim(&mut self, len: usize, bound: Option<Duration>) -> Result<()> {
        if self.try_claim(len)? {
            return Ok(());
        }
        if self.reach.form().overflow == Overflow::Refuse {
            return Err(Error::QueueFull { queue: self.reach.name(self.queue) });
        }
        // The reader makes no room for what it cannot see.
        self.publish_started()?;
        let (begun, mut asked) = (Instant::now(), Instant::now());
        while !self.try_claim(len)? {
            let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                let what = format!("room in queue {}", self.reach.name(self.queue));
                self.backoff.reset();
                return Err(Error::NotInTime { what, after_ms: bound.map_or(0, milliseconds) });
            }
            if self.backoff.step_after(self.remote.is_some()) == Step::Again {
                continue;
            }
            let nap = Duration::from_millis(QUEUE_NAP_MS);
            self.sleep(len, left.map_or(nap, |left| left.min(nap)))?;
            if asked.elapsed() >= Duration::from_millis(LEASE_MS) {
                asked = Instant::now();
                self.appends.check_life()?;
            }
        }
        self.backoff.reset();
        Ok(())
    }

    /// Sleeps until the reader has freed something, or for `nap`.
    fn sleep(&mut self, len: usize, nap: Duration) -> Result<()> {
        self.check_reader()?;
        if self.appends.are_linked() {
            self.appends.nap(nap);
            return Ok(());
        }
        let Some(array) = self.here()?.cloned() else {
            let bell = self.reach.offset(self.queue) + ROOM_BELL_AT;
            self.reach.region().put(bell, &ALL_ASLEEP.to_le_bytes())?;
            if self.try_claim(len)? {
                return Ok(());
            }
            self.life.waits += 1;
            let wait = || self.reach.region().wait_until(bell, Wait::Equal(Word::U64(0)), Some(nap));
            return match crate::trace::at_queue("wait for room", || self.reach.name(self.queue), wait) {
                Ok(_) | Err(Error::NotInTime { .. }) => Ok(()),
                Err(error) => Err(error),
            };
        };
        array.doze_writer(self.queue);
        if self.try_claim(len)? {
            return Ok(());
        }
        self.life.waits += 1;
        crate::trace::at_queue(
            "wait for room",
            || self.reach.name(self.queue),
            || {
                array.sleep_writer(self.queue, nap);
                Ok(())
            },
        )
    }

    /// **Errors**: [`Error::ReaderGone`].
    fn check_reader(&self) -> Result<()> {
        const BROKEN: u64 = 2;
        let own = get_word(&self.reach, self.queue, READER_AT)?;
        if own == BROKEN || (own == 0 && self.reach.reader_of_all()? == BROKEN) {
            return Err(Error::ReaderGone { queue: self.reach.name(self.queue) });
        }
        Ok(())
    }
}
