//! Counts what passes.

use super::pass_on;
use crate::link::{Link, LinkError, Progress, Sink};
use hanare_memory::Window;
use hanare_protocol::wire::head::{HEAD_LEN, Head};

/// Messages and bytes each way, heads included; loads and stores of mapped memory are no messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages given to `send`.
    pub messages_sent: u64,
    /// Bytes given to `send` and `extend`, and the heads'.
    pub bytes_sent: u64,
    /// Whole messages that arrived.
    pub messages_received: u64,
    /// Bytes that arrived.
    pub bytes_received: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, more: Traffic) {
        self.messages_sent = self.messages_sent.saturating_add(more.messages_sent);
        self.bytes_sent = self.bytes_sent.saturating_add(more.bytes_sent);
        self.messages_received = self.messages_received.saturating_add(more.messages_received);
        self.bytes_received = self.bytes_received.saturating_add(more.bytes_received);
    }
}

/// A link that counts. **Cost**: a few additions a call.
pub struct Count<L> {
    link: L,
    traffic: Traffic,
}

impl<L: Link> Count<L> {
    /// Counts what passes over `link` from here on.
    pub fn over(link: L) -> Count<L> {
        Count { link, traffic: Traffic::default() }
    }

    /// What has passed.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn note_sent(&mut self, body: &[Window]) {
        self.traffic.bytes_sent += body.iter().map(|window| window.len() as u64).sum::<u64>();
    }
}

impl<L: Link> Link for Count<L> {
    pass_on!(unsent_len event needs_write_event doze peer);

    unsafe fn send(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.link.send(head, body) }?;
        self.traffic.messages_sent += 1;
        self.traffic.bytes_sent += HEAD_LEN as u64;
        self.note_sent(body);
        Ok(())
    }

    unsafe fn extend(&mut self, body: &[Window]) -> Result<(), LinkError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.link.extend(body) }?;
        self.note_sent(body);
        Ok(())
    }

    fn progress(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError> {
        let done = self.link.progress(sink)?;
        self.traffic.messages_received += u64::from(done.messages);
        self.traffic.bytes_received += done.received_len;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Store, TCP, body, pump, send};

    #[test]
    fn what_passes_is_counted_on_both_sides() {
        let (one, other) = TCP.pair();
        let (mut one, mut other) = (Count::over(one), Count::over(other));
        let bytes = body(0, 100_000);
        for seq in 0..3 {
            send(&mut one, seq, &bytes).unwrap();
        }
        send(&mut other, 0, &bytes[..8]).unwrap();
        let (mut one_store, mut other_store) = (Store::new(), Store::new());
        pump((&mut one, &mut one_store), (&mut other, &mut other_store), |one, other| {
            one.messages.len() == 1 && other.messages.len() == 3
        });
        let expected = Traffic { messages_sent: 3, bytes_sent: 300_096, messages_received: 1, bytes_received: 40 };
        assert_eq!(one.traffic(), expected);
        let expected = Traffic { messages_sent: 1, bytes_sent: 40, messages_received: 3, bytes_received: 300_096 };
        assert_eq!(other.traffic(), expected);
    }
}
