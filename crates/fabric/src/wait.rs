//! Waiting for a link: check, pause, yield, then park on its event descriptor.

use crate::link::{Link, LinkError, Progress, Sink};
use hanare_ring::{Backoff, Step};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// Waits until a message has arrived, or until the last byte that was unsent at the call has left.
///
/// **Cost**: `progress` again and again for about 50 us, then one system call to park. **Errors**: those of the link, and
/// [`LinkError::Timeout`] at the deadline. Without one it waits as long as the peer lives, which is right only for a live program.
pub fn wait<L: Link + ?Sized>(link: &mut L, sink: &mut dyn Sink, deadline: Option<Instant>) -> Result<Progress, LinkError> {
    let was_unsent = link.unsent_len() > 0;
    let mut total = Progress::default();
    let mut clock = Clock { deadline, begun: None };
    let mut backoff = Backoff::new();
    loop {
        let step = link.progress(sink)?;
        total += step;
        if total.messages > 0 || (was_unsent && link.unsent_len() == 0) {
            return Ok(total);
        }
        if !step.is_idle() {
            // A peer that drips bytes must not put the deadline off.
            clock.rest(link)?;
            backoff.reset();
        } else if backoff.step_after(link.checks_by_call()) == Step::Park {
            let rest = clock.rest(link)?;
            if link.doze() {
                park(link, rest)?;
            }
        }
    }
}

/// Parks until the link's event, a signal, or the end of `rest`.
fn park<L: Link + ?Sized>(link: &L, rest: Option<Duration>) -> Result<(), LinkError> {
    let flags = if link.needs_write_event() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let timeout = rest.map(|rest| Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() });
    match poll(&mut [PollFd::from_borrowed_fd(link.event(), flags)], timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(LinkError::System { what: format!("parking for {}", link.peer()), reason: errno.to_string() }),
    }
}

/// The deadline, and the time of the first look at the clock: a wait that ends at once looks at none.
struct Clock {
    deadline: Option<Instant>,
    begun: Option<Instant>,
}

impl Clock {
    /// Time that is left; `None` without a deadline.
    fn rest<L: Link + ?Sized>(&mut self, link: &L) -> Result<Option<Duration>, LinkError> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        let now = Instant::now();
        let begun = *self.begun.get_or_insert(now);
        let rest = deadline.saturating_duration_since(now);
        if rest.is_zero() {
            let after_ms = now.duration_since(begun).as_millis() as u64;
            return Err(LinkError::Timeout { peer: link.peer().to_owned(), after_ms });
        }
        Ok(Some(rest))
    }
}
