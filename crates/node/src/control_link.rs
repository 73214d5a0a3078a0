//! A link that carries control messages between a node and its coordinator.

use hanare_fabric::{Link, LinkError, Refusal, Sink};
use hanare_home::WireFrame;
use hanare_memory::Window;
use hanare_protocol::limits::{PEER_TURN_COUNT, PEER_TURN_LEN, PEER_UNREAD_LEN_MAX, STAGE_LEN};
use hanare_protocol::wire::control;
use hanare_protocol::wire::head::{Head, Kind};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// The link, what waits to be sent, and what is being received.
pub(crate) struct ControlLink {
    // Dropped first: it may hold windows of the others.
    link: Box<dyn Link>,
    sending: WireFrame,
    queue: VecDeque<WireFrame>,
    /// Bytes of those in the queue.
    queue_len: usize,
    inbox: ControlInbox,
    has_more: bool,
}

/// Most messages that wait for a peer to read: beyond, it is taken for dead.
const QUEUE_COUNT_MAX: usize = 65_536;

impl ControlLink {
    pub fn new(link: Box<dyn Link>) -> ControlLink {
        ControlLink {
            link,
            sending: Vec::new().into(),
            queue: VecDeque::new(),
            queue_len: 0,
            inbox: ControlInbox::default(),
            has_more: false,
        }
    }

    /// Sends a value, now or when those before it have left.
    pub fn send<T: Serialize>(&mut self, value: &T) -> Result<(), LinkError> {
        self.send_frame(control::encode(value).into())
    }

    /// [`ControlLink::send`] for an encoded value.
    pub fn send_frame(&mut self, frame: WireFrame) -> Result<(), LinkError> {
        if self.queue.len() >= QUEUE_COUNT_MAX || self.queue_len >= PEER_UNREAD_LEN_MAX {
            return Err(LinkError::Closed {
                peer: self.link.peer().to_owned(),
                reason: "it does not read its messages".to_owned(),
            });
        }
        self.queue_len = self.queue_len.saturating_add(frame.len_bytes());
        self.queue.push_back(frame);
        self.pump()
    }

    fn pump(&mut self) -> Result<(), LinkError> {
        while self.link.unsent_len() == 0 {
            let Some(frame) = self.queue.pop_front() else { break };
            self.queue_len = self.queue_len.saturating_sub(frame.len_bytes());
            self.sending = frame;
            let head = Head { body_len: self.sending.len_bytes() as u64, ..Head::new(Kind::Control, 0) };
            let [first, operand, rest] = self.sending.parts();
            // SAFETY: the frame is replaced only when nothing is unsent, nobody changes the write that it shares, and the link is dropped
            // before it.
            unsafe {
                match operand {
                    [] => self.link.send(&head, &[Window::of(first)])?,
                    _ => self.link.send(&head, &[first, operand, rest].map(|part| Window::of(part)))?,
                }
            }
        }
        Ok(())
    }

    /// Moves bytes both ways; returns the values that have arrived, and whether the link has ended after them. Where it has not, it
    /// dozes, so that its event is sure, or [`ControlLink::has_more`].
    pub fn receive<T: DeserializeOwned>(&mut self) -> (Vec<T>, Result<(), LinkError>) {
        let (whole, mut ending) = self.receive_bytes();
        let mut values = Vec::new();
        for bytes in whole {
            match control::decode(&bytes) {
                Ok(value) => values.push(value),
                Err(malformed) => {
                    let peer = self.link.peer().to_owned();
                    ending = Err(LinkError::Garbage { peer, reason: malformed.0.to_owned() });
                    break;
                }
            }
        }
        (values, ending)
    }

    /// Waits for the next value. Returns `None` at the deadline, and where the link ends before.
    pub fn next<T: DeserializeOwned>(&mut self, deadline: Instant) -> Option<T> {
        while self.inbox.whole.is_empty() {
            hanare_fabric::wait(&mut *self.link, &mut self.inbox, Some(deadline)).ok()?;
        }
        control::decode(&self.inbox.whole.remove(0)).ok()
    }

    /// [`ControlLink::receive`] for values that are decoded elsewhere.
    pub fn receive_bytes(&mut self) -> (Vec<Vec<u8>>, Result<(), LinkError>) {
        let ending = self.progress();
        self.inbox.whole_len = 0;
        (std::mem::take(&mut self.inbox.whole), ending)
    }

    /// Takes back the bytes of values that were received: those that come next are put there. Memory that is there already is not zeroed.
    pub fn reuse(&mut self, whole: Vec<Vec<u8>>) {
        let room = SPARE_COUNT - self.inbox.spare.len();
        self.inbox.spare.extend(whole.into_iter().filter(|bytes| SPARE_LENS.contains(&bytes.len())).take(room));
    }

    /// True if more has arrived than is taken in one turn. The link's owner then receives again, after others had their turn.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Moves bytes until all that was there has moved, or a turn's share of messages is here.
    fn progress(&mut self) -> Result<(), LinkError> {
        self.has_more = false;
        loop {
            let progress = self.link.progress(&mut self.inbox)?;
            self.pump()?;
            if !self.inbox.may_begin() {
                self.has_more = true;
                return Ok(());
            }
            if (progress.is_idle() || progress.is_drained) && self.link.doze() {
                return Ok(());
            }
        }
    }

    /// True if bytes wait for the peer to read.
    pub fn has_unsent(&self) -> bool {
        !self.queue.is_empty() || self.link.unsent_len() > 0
    }

    pub fn needs_write_event(&self) -> bool {
        self.link.needs_write_event()
    }

    /// The other side, as it connected.
    pub fn peer(&self) -> &str {
        self.link.peer()
    }

    pub fn event(&self) -> BorrowedFd<'_> {
        self.link.event()
    }
}

/// Buffers that are kept for what comes, and how long each is: those of a long put's stages.
const SPARE_COUNT: usize = 4;
const SPARE_LENS: RangeInclusive<usize> = STAGE_LEN / 8..=2 * STAGE_LEN;

#[derive(Default)]
struct ControlInbox {
    part: Vec<u8>,
    spare: Vec<Vec<u8>>,
    whole: Vec<Vec<u8>>,
    /// Bytes of those.
    whole_len: usize,
}

// SAFETY: the buffer is not touched until the link has filled it or is dropped.
unsafe impl Sink for ControlInbox {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        if head.kind != Kind::Control || at != 0 {
            return Err(Refusal("only control messages belong here".to_owned()));
        }
        let len = head.body_len as usize;
        self.part = if SPARE_LENS.contains(&len) { self.spare.pop().unwrap_or_default() } else { Vec::new() };
        self.part.resize(len, 0);
        // SAFETY: as said above.
        Ok(unsafe { Window::of_mut(&mut self.part) })
    }

    fn message(&mut self, _: &Head) {
        self.whole_len = self.whole_len.saturating_add(self.part.len());
        self.whole.push(std::mem::take(&mut self.part));
    }

    fn may_begin(&self) -> bool {
        self.whole.len() < PEER_TURN_COUNT && self.whole_len < PEER_TURN_LEN
    }
}
