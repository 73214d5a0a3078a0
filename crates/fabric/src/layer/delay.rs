//! Lets time pass before a message leaves.

use super::alarm::Alarm;
use super::pass_on;
use crate::link::{Link, LinkError, Progress, Sink};
use hanare_memory::Window;
use hanare_protocol::wire::head::{HEAD_LEN, Head};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// A link whose messages leave a fixed time after they were sent, as on a longer line. Order is kept.
///
/// **Ownership**: windows are held while they wait, so `unsent_len` counts them. A link that is dropped takes what
/// waits with it.
pub struct Delay<L> {
    link: L,
    delay: Duration,
    waiting: VecDeque<Waiting>,
    waiting_len: u64,
    alarm: Alarm,
    /// Why the link has ended, once it has.
    end: Option<LinkError>,
}

/// What was given and has not left: a message with its head, or more of the body before.
struct Waiting {
    due: Instant,
    head: Option<Head>,
    body: Vec<Window>,
}

impl<L: Link> Delay<L> {
    /// Delays what is sent over `link` by `delay`.
    pub fn over(link: L, delay: Duration) -> Result<Delay<L>, LinkError> {
        let alarm = Alarm::beside(&link)?;
        Ok(Delay { link, delay, waiting: VecDeque::new(), waiting_len: 0, alarm, end: None })
    }

    fn put_off(&mut self, head: Option<&Head>, body: &[Window]) {
        let waiting = Waiting { due: Instant::now() + self.delay, head: head.copied(), body: body.to_vec() };
        self.waiting_len += waiting.len();
        self.waiting.push_back(waiting);
    }

    /// Sends what is due.
    fn release(&mut self) -> Result<(), LinkError> {
        while self.waiting.front().is_some_and(|first| first.due <= Instant::now()) {
            let Some(first) = self.waiting.pop_front() else { break };
            self.waiting_len -= first.len();
            // SAFETY: the windows were promised until `unsent_len` is zero, which counted them up to here.
            unsafe {
                match &first.head {
                    Some(head) => self.link.send(head, &first.body)?,
                    None => self.link.extend(&first.body)?,
                }
            }
        }
        Ok(())
    }

    fn check_open(&self) -> Result<(), LinkError> {
        match &self.end {
            None => Ok(()),
            Some(end) => Err(end.clone()),
        }
    }

    fn step(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError> {
        self.check_open()?;
        self.alarm.clear()?;
        let unsent_before = self.unsent_len();
        self.release()?;
        let done = self.link.progress(sink)?;
        Ok(Progress { sent_len: unsent_before - self.unsent_len(), ..done })
    }
}

impl Waiting {
    fn len(&self) -> u64 {
        let head_len = if self.head.is_some() { HEAD_LEN as u64 } else { 0 };
        head_len + self.body.iter().map(|window| window.len() as u64).sum::<u64>()
    }
}

impl<L: Link> Link for Delay<L> {
    pass_on!(peer);

    unsafe fn send(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        self.check_open()?;
        self.put_off(Some(head), body);
        Ok(())
    }

    unsafe fn extend(&mut self, body: &[Window]) -> Result<(), LinkError> {
        self.check_open()?;
        self.put_off(None, body);
        Ok(())
    }

    fn unsent_len(&self) -> u64 {
        self.waiting_len + self.link.unsent_len()
    }

    fn progress(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError> {
        self.step(sink).inspect_err(|end| {
            self.end = Some(end.clone());
            self.waiting.clear();
            self.waiting_len = 0;
        })
    }

    fn event(&self) -> BorrowedFd<'_> {
        self.alarm.descriptor()
    }

    fn needs_write_event(&self) -> bool {
        // The alarm watches for it.
        false
    }

    fn doze(&mut self) -> bool {
        let armed = match self.waiting.front().map(|first| first.due) {
            Some(due) if due <= Instant::now() => return false,
            Some(due) => self.alarm.set(due),
            None => Ok(()),
        };
        match armed.and_then(|()| self.alarm.watch(&self.link)) {
            Ok(()) => self.link.doze(),
            Err(end) => {
                self.end = Some(end);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Store, TCP, body, pump, send};

    #[test]
    fn a_message_takes_its_time() {
        let (one, mut other) = TCP.pair();
        let delay = Duration::from_millis(20);
        let mut one = Delay::over(one, delay).unwrap();
        let bytes = body(0, 5000);
        let begun = Instant::now();
        send(&mut one, 0, &bytes).unwrap();
        assert_eq!(one.unsent_len(), 5032, "what waits holds its windows");
        let mut store = Store::new();
        pump((&mut one, &mut Store::new()), (&mut *other, &mut store), |_, other| other.messages.len() == 1);
        assert!(begun.elapsed() >= delay);
        assert_eq!(store.messages[0].1, bytes);
    }
}
