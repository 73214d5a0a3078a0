//! The writer's end of a link: appends that go straight to the program which reads the queue.
//!
//! Safety: bytes that are sent stay where they are until they count, or the link is dropped.

use crate::client::attachment::FaultTraffic;
use hanare_fabric::tcp::TcpLink;
use hanare_fabric::{Link, LinkError, Refusal, Sink};
use hanare_memory::Window;
use hanare_protocol::id::NodeId;
use hanare_protocol::queue::link::LINK_PATIENCE_MS;
use hanare_protocol::wire::head::{HEAD_LEN, Head, Kind, MAY_WAIT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time that appends wait for a reader that reads nothing.
const PATIENCE: Duration = Duration::from_millis(LINK_PATIENCE_MS);

pub(super) struct AppendLink {
    link: TcpLink,
    /// Counts of the program, and the node by which it counts.
    traffic: Arc<FaultTraffic>,
    node: NodeId,
    answers: LinkAnswers,
    /// Since when nothing has moved that the reader was asked for, and how many bytes were on their way then.
    asked: Option<Instant>,
    left: u64,
}

/// Units that count, as the reader has said last.
struct LinkAnswers {
    counted: u64,
    is_garbage: bool,
}

// SAFETY: it gives no window.
unsafe impl Sink for LinkAnswers {
    fn place(&mut self, _: &Head, _: u64) -> Result<Window, Refusal> {
        Err(Refusal("bytes from who reads a queue".to_owned()))
    }

    fn message(&mut self, head: &Head) {
        self.is_garbage |= head.kind != Kind::Appended;
        self.counted = self.counted.max(head.seq);
    }
}

impl AppendLink {
    /// A link on which nothing was sent, of a port of whose units so many count.
    pub fn new(link: TcpLink, counted: u64, (node, traffic): (NodeId, Arc<FaultTraffic>)) -> AppendLink {
        let answers = LinkAnswers { counted, is_garbage: false };
        AppendLink { link, traffic, node, answers, asked: None, left: 0 }
    }

    /// Sends an append, behind bytes that go to a place of the reader's memory. What ends the link is told by [`AppendLink::hear`].
    ///
    /// # Safety
    /// The bytes stay until the append counts, or this is dropped.
    pub unsafe fn send(&mut self, ahead: Option<(u64, Window)>, operand: Window, may_wait: bool) {
        if let Some((at, bytes)) = ahead {
            let head = Head { body_len: bytes.len() as u64, detail: at, ..Head::new(Kind::Ahead, 0) };
            // SAFETY: as the caller promises.
            let _ = unsafe { self.link.send(&head, &[bytes]) };
            self.traffic.sent(self.node, HEAD_LEN as u64 + head.body_len);
        }
        let detail = if may_wait { MAY_WAIT } else { 0 };
        if !may_wait {
            self.await_answer();
        }
        let head = Head { body_len: operand.len() as u64, detail, ..Head::new(Kind::Append, 0) };
        // SAFETY: as the caller promises.
        let _ = unsafe { self.link.send(&head, &[operand]) };
        self.traffic.sent(self.node, HEAD_LEN as u64 + head.body_len);
    }

    /// Moves what waits, and gives how many units count. **Errors**: the link has ended.
    pub fn hear(&mut self) -> Result<u64, LinkError> {
        let before = self.answers.counted;
        let progress = self.link.progress(&mut self.answers)?;
        self.traffic.received(progress.messages, progress.received_len);
        if self.answers.is_garbage {
            let (peer, reason) = (self.link.peer().to_owned(), "no answer to an append".to_owned());
            return Err(LinkError::Garbage { peer, reason });
        }
        if self.answers.counted != before {
            self.asked = None;
        }
        Ok(self.answers.counted)
    }

    /// The reader was asked for an answer that has not come.
    pub fn await_answer(&mut self) {
        self.asked.get_or_insert_with(Instant::now);
    }

    /// True if the reader was asked for a reply and nothing has moved for long: no reply, and no byte towards its host.
    pub fn is_late(&mut self) -> bool {
        if self.asked.is_none_or(|asked| asked.elapsed() < PATIENCE) {
            return false;
        }
        let left = self.left_len();
        let is_late = left == self.left;
        (self.asked, self.left) = (Some(Instant::now()), left);
        is_late
    }

    /// Bytes that are not at the reader's host.
    pub fn left_len(&self) -> u64 {
        self.link.unsent_len().saturating_add(self.unacknowledged())
    }

    /// Bytes that the reader's host has not acknowledged.
    fn unacknowledged(&self) -> u64 {
        let mut len: libc::c_int = 0;
        // SAFETY: the call writes a number to this place.
        let asked = unsafe { libc::ioctl(self.link.event().as_raw_fd(), libc::TIOCOUTQ, &raw mut len) };
        if asked == 0 { u64::try_from(len).unwrap_or(0) } else { 0 }
    }

    /// Sleeps until something comes or may go, for `bound` at most.
    pub fn nap(&self, bound: Duration) {
        let flags = if self.link.needs_write_event() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let bound = Timespec { tv_sec: bound.as_secs() as i64, tv_nsec: i64::from(bound.subsec_nanos()) };
        // The next look says more than the outcome.
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.link.event(), flags)], Some(&bound));
    }
}
