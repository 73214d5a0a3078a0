//! The contract of every fabric: an ordered, reliable, two-way channel of messages, that never blocks.
//!
//! A message is a [`Head`] and `body_len` bytes. Bodies leave from and arrive in [`Window`]s. That is memory of the caller of
//! [`Link::send`] and of the [`Sink`], which a peer of theirs may change meanwhile.
//!
//! Safety invariants of this contract:
//! 1. A window given to a link stays mapped until the link lets go of it: the sender's until [`Link::unsent_len`] is
//!    zero, the sink's until the sink is called next. Both end early when the link returns an error, or is dropped.
//! 2. A link makes no Rust reference to the bytes of a window.

use hanare_memory::Window;
use hanare_protocol::wire::head::Head;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use thiserror::Error;

/// An ordered, reliable, two-way channel of messages to one peer. One thread at a time uses it; no call blocks.
///
/// **Ordering**: messages arrive whole and in the order of their `send`; nothing is promised between two links.
///
/// **Errors**: the first error ends the link: later calls return it again. What arrived before the end is given to the
/// sink first.
pub trait Link: Send {
    /// Begins a message: sends as much of head and body as goes at once, and remembers the rest.
    ///
    /// The windows may hold fewer bytes than `head.body_len`: the others follow by [`Link::extend`], before any other
    /// `send`. More bytes than promised, or a `send` in the middle of a body, are programmer errors and panic.
    ///
    /// **Cost**: one system call on `tcp` when the bytes fit the socket; none on `shm` while the peer is awake.
    ///
    /// # Safety
    /// Every window stays mapped until `unsent_len` is zero, an error was returned, or the link is dropped.
    unsafe fn send(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError>;

    /// Gives the next bytes of the body that `send` began.
    ///
    /// # Safety
    /// See [`Link::send`].
    unsafe fn extend(&mut self, body: &[Window]) -> Result<(), LinkError>;

    /// Bytes given by `send` and `extend` that are not sent yet. Zero after an error.
    fn unsent_len(&self) -> u64;

    /// Moves bytes both ways as far as they go without waiting, and hands whole messages to the sink.
    ///
    /// **Cost**: when nothing is to be sent, one system call on `tcp`; on `shm` none while awake.
    fn progress(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError>;

    /// A descriptor that is readable when `progress` has something to do; sure only after [`Link::doze`] said yes.
    ///
    /// The descriptor is the same for the life of the link, and level-triggered.
    fn event(&self) -> BorrowedFd<'_>;

    /// True if `event` must be watched for writing too, because bytes wait for the peer to read.
    fn needs_write_event(&self) -> bool;

    /// Announces that the caller is about to park on `event`. False: something has arrived meanwhile, do not park.
    ///
    /// The next `progress` takes the announcement back.
    fn doze(&mut self) -> bool;

    /// Name of the other end, for messages to people.
    fn peer(&self) -> &str;

    /// The socket on which the kernel tells that the peer has closed its end, or that its process is gone.
    fn life(&self) -> BorrowedFd<'_> {
        self.event()
    }

    /// True if the peer has closed its end, or its process is gone, whatever it sent before.
    ///
    /// A side that serves its peer asks this before it serves, because a dead peer's command must not be acknowledged.
    ///
    /// **Cost**: one system call.
    fn has_ended(&self) -> bool {
        is_hung_up(self.life())
    }

    /// The kernel's knowledge of the peer: its end, like [`Link::has_ended`], and the presence of its bytes. After a `progress` that found
    /// nothing, `progress` is of no use while this returns [`Sight::Nothing`].
    ///
    /// **Cost**: one system call.
    fn look(&self) -> Sight {
        if self.has_ended() { Sight::End } else { Sight::Something }
    }

    /// Wakes the peer, though nothing was sent: this side may have changed memory that only the two share. A link that cannot wake does
    /// nothing.
    ///
    /// **Cost**: one system call, which never waits.
    fn nudge(&self) {}

    /// [`Link::send`] with all of the body, which may leave it to the next `progress`. Then several messages go in one call.
    ///
    /// # Safety
    /// See [`Link::send`].
    unsafe fn send_later(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        // SAFETY: promised by the caller.
        unsafe { self.send(head, body) }
    }

    /// True if a `progress` that finds nothing is a system call: then a waiter yields between two of them.
    fn checks_by_call(&self) -> bool {
        false
    }
}

/// Result of [`Link::look`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// No bytes are there.
    Nothing,
    /// Something may be there.
    Something,
    /// The peer has closed its end, or its process is gone.
    End,
}

/// State of a socket.
pub(crate) fn look_at(socket: BorrowedFd<'_>) -> Sight {
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut watched = [PollFd::from_borrowed_fd(socket, gone | PollFlags::IN)];
    match poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(0) => Sight::Nothing,
        Ok(_) if watched[0].revents().intersects(gone) => Sight::End,
        // Only a signal makes the call fail.
        _ => Sight::Something,
    }
}

/// True if the kernel knows that the other end of a socket is closed.
fn is_hung_up(socket: BorrowedFd<'_>) -> bool {
    let flags = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    let mut watched = [PollFd::from_borrowed_fd(socket, flags)];
    // Only a signal makes the call fail; the next look tells.
    matches!(poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1)) && watched[0].revents().intersects(flags)
}

/// Receiver of incoming messages.
///
/// For each message the link calls [`Sink::place`] until `body_len` bytes have a place (not at all for an empty body),
/// then [`Sink::message`]. A body may come in over many calls of `progress`.
///
/// # Safety
/// A window returned by `place` stays mapped and writable until the next call of the sink. The promise ends early when the link returns an
/// error or is dropped. The next call comes when the window is full or [`Sink::keeps`] returns false.
pub unsafe trait Sink {
    /// Returns the window for the body's bytes from `at` on. The link calls it with 0, and again each time the window before is full.
    ///
    /// A window longer than the rest of the body is used up to the body's end. An empty window means "not yet". The link leaves arrivals
    /// where they are, and asks for the same byte again at each `progress`. Meanwhile the caller does not watch the event for reading, as
    /// for [`Sink::may_begin`].
    ///
    /// **Errors**: a refusal ends the link with [`LinkError::Garbage`].
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal>;

    /// True while the last window is good, of which `filled` bytes have come. Else the link asks for another window for the bytes after
    /// them. The link asks at each `progress`, unless the network itself may write into the window.
    fn keeps(&mut self, filled: usize) -> bool {
        let _ = filled;
        true
    }

    /// Takes a message that has arrived whole.
    fn message(&mut self, head: &Head);

    /// True if the next message may begin. While this is false, the link leaves arrivals where they are, and the peer is held back in the
    /// end. Messages that have begun are still completed. Asked before each message.
    ///
    /// A caller whose sink returned false does not watch the link's event for reading meanwhile. It calls `progress` when the sink
    /// returns true again.
    fn may_begin(&self) -> bool {
        true
    }

    /// True if this `progress` is to end for others' sake, where more bytes are there. A link whose network brings whole bodies does not ask.
    fn has_enough(&self) -> bool {
        false
    }
}

/// Why a sink does not take a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

/// Bytes moved in one direction by one `progress`: some 60 us of copying, and three times that where they are sealed.
pub(crate) const FAIR_LEN: u64 = 256 << 10;

/// Messages taken by one `progress`: as many small ones as one receiving call brings.
const FAIR_COUNT: u32 = 1024;

/// Result of one call of [`Link::progress`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages given to the sink.
    pub messages: u32,
    /// Bytes received, heads included.
    pub received_len: u64,
    /// Bytes sent, heads included.
    pub sent_len: u64,
    /// True if it stopped for fairness with more to do: `doze` will refuse.
    pub has_more: bool,
    /// True if it took all bytes that were there: the next call finds nothing unless bytes have come since.
    pub is_drained: bool,
}

impl Progress {
    /// True if enough has come for other links of the thread to have their turn. Bytes cost a copy, messages the sink's time.
    pub(crate) fn is_fair_share(&self) -> bool {
        self.received_len >= FAIR_LEN || self.messages >= FAIR_COUNT
    }

    /// True if nothing moved.
    pub fn is_idle(&self) -> bool {
        self.messages == 0 && self.received_len == 0 && self.sent_len == 0
    }
}

impl std::ops::AddAssign for Progress {
    fn add_assign(&mut self, next: Progress) {
        self.messages += next.messages;
        self.received_len += next.received_len;
        self.sent_len += next.sent_len;
        self.has_more = next.has_more;
        self.is_drained = next.is_drained;
    }
}

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

/// Why a link has ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The peer is gone, or closed the link.
    #[error("{peer} is gone ({reason})")]
    Closed {
        /// The other side.
        peer: String,
        /// The sign by which it was noticed.
        reason: String,
    },
    /// The peer sent something that no correct peer sends, or that the sink refused.
    #[error("{peer} sent something that makes no sense ({reason})")]
    Garbage {
        /// The other side.
        peer: String,
        /// The fault.
        reason: String,
    },
    /// The operating system refused something, or a window's memory is gone.
    #[error("{what}: {reason}")]
    System {
        /// The tried call.
        what: String,
        /// The system's message.
        reason: String,
    },
    /// The deadline passed without an event. The link itself goes on. Only [`crate::wait()`] returns this.
    #[error("nothing came from {peer} within {after_ms} ms")]
    Timeout {
        /// The awaited peer.
        peer: String,
        /// Time in milliseconds.
        after_ms: u64,
    },
}

impl<L: Link + ?Sized> Link for Box<L> {
    unsafe fn send(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { (**self).send(head, body) }
    }
    unsafe fn send_later(&mut self, head: &Head, body: &[Window]) -> Result<(), LinkError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { (**self).send_later(head, body) }
    }
    unsafe fn extend(&mut self, body: &[Window]) -> Result<(), LinkError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { (**self).extend(body) }
    }
    fn unsent_len(&self) -> u64 {
        (**self).unsent_len()
    }
    fn progress(&mut self, sink: &mut dyn Sink) -> Result<Progress, LinkError> {
        (**self).progress(sink)
    }
    fn event(&self) -> BorrowedFd<'_> {
        (**self).event()
    }
    fn needs_write_event(&self) -> bool {
        (**self).needs_write_event()
    }
    fn doze(&mut self) -> bool {
        (**self).doze()
    }
    fn peer(&self) -> &str {
        (**self).peer()
    }
    fn life(&self) -> BorrowedFd<'_> {
        (**self).life()
    }
    fn look(&self) -> Sight {
        (**self).look()
    }
    fn nudge(&self) {
        (**self).nudge();
    }
    fn checks_by_call(&self) -> bool {
        (**self).checks_by_call()
    }
}
