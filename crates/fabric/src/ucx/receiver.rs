//! The incoming half of a link. It takes frames in order, copies their bytes to where the sink wants them, and receives long parts of
//! bodies straight there.
//!
//! ```text
//! arrivals  [frame: bytes][chunk]   [frame][chunk]   [frame: bytes] ...
//!              |            |
//!              |            +--> posted at the place in the sink's window; also those behind it that fit the same window
//!              +--> inbox.take: heads, small bodies
//! ```
//!
//! A chunk counts when it is there and its sender vouches for it.
//!
//! Safety invariants of this module:
//! 1. Windows of the sink are used while link.rs's first invariant holds for them. The inbox asks for the next window only when the
//!    chunks posted in this one are done, because they end inside it.
//! 2. The bounce buffer is used by one request at a time.

use super::endpoint::{Endpoint, Outcome, Request};
use super::frame::{CHUNK_COUNT, CHUNK_LEN_MAX};
use super::sender::{Acknowledgement, lost_in, tag};
use crate::ending::Ending;
use crate::inbox::Inbox;
use crate::link::{Progress, Sink};
use hanare_memory::Window;
use std::cell::UnsafeCell;
use std::collections::VecDeque;

/// A chunk that is being received.
struct Posted {
    /// `None` once it is there.
    request: Option<Request>,
    len: usize,
    /// Into the bounce buffer, because the sink's window ends before the chunk does.
    bounces: bool,
}

/// The incoming half.
pub(super) struct Receiver {
    pub(super) inbox: Inbox,
    /// Our token, which the peer's rendezvous carry.
    token: u64,
    /// Bytes of the next frame that the inbox has taken.
    used: usize,
    posted: VecDeque<Posted>,
    posted_len: usize,
    /// Bytes of the bounce buffer that the inbox has taken.
    bounced: usize,
    /// Chunks that were taken.
    chunk_count: u64,
    bounce: Vec<UnsafeCell<u8>>,
    /// True if bytes wait for the sink.
    pub(super) is_held: bool,
    /// True if a chunk failed for a reason that only its sender knows.
    has_failed: bool,
}

// SAFETY: the bounce buffer is plain memory, reached through the link that owns it.
unsafe impl Send for Receiver {}

impl Receiver {
    pub(super) fn new(token: u64) -> Receiver {
        Receiver {
            inbox: Inbox::new(),
            token,
            used: 0,
            posted: VecDeque::with_capacity(CHUNK_COUNT),
            posted_len: 0,
            bounced: 0,
            chunk_count: 0,
            bounce: Vec::new(),
            is_held: false,
            has_failed: false,
        }
    }

    /// Acknowledgement for the peer.
    pub(super) fn ack(&self, endpoint: &mut Endpoint) -> Acknowledgement {
        Acknowledgement { taken: endpoint.arrivals().next(), has_failed: self.has_failed }
    }

    /// The window that rendezvous under way write.
    pub(super) fn window(&self) -> Window {
        match self.posted.front() {
            Some(first) if !first.bounces => self.rest().slice(0, self.posted_len),
            _ => Window::empty(),
        }
    }

    /// Requests under way, taken out: the link ends.
    pub(super) fn take_requests(&mut self) -> Vec<Request> {
        self.posted.drain(..).filter_map(|posted| posted.request).collect()
    }

    /// True if the next frame's chunk, or its sender's word for it, is on its way. The worker's event comes with it.
    pub(super) fn waits(&self, endpoint: &mut Endpoint) -> bool {
        let first = self.posted.front();
        first.is_some_and(|first| first.request.is_some() || endpoint.arrivals().vouched <= self.chunk_count)
    }

    fn rest(&self) -> Window {
        self.inbox.rest().unwrap_or(Window::empty())
    }

    /// Takes frames and hands messages to the sink. Returns true if it stopped for fairness.
    pub(super) fn pull(&mut self, endpoint: &mut Endpoint, sink: &mut dyn Sink, done: &mut Progress) -> Result<bool, Ending> {
        self.is_held = false;
        loop {
            if let Some(nonsense) = endpoint.arrivals().nonsense {
                return Err(Ending::Garbage(nonsense.into()));
            }
            if self.has_failed {
                return Ok(false);
            }
            let Some(next) = endpoint.arrivals().ahead(0) else {
                if self.posted.is_empty() {
                    self.inbox.has_place(sink)?;
                }
                return Ok(false);
            };
            let (data, direct_len) = (next.data.as_ref().map_or(Window::empty(), |data| data.window()), next.direct_len);
            let is_held = self.inbox.is_between() && !sink.may_begin();
            // Chunks under way have their place, or the bounce buffer.
            if is_held || self.posted.is_empty() && !self.inbox.has_place(sink)? {
                self.is_held = true;
                return Ok(false);
            }
            if done.is_fair_share() {
                return Ok(true);
            }
            if self.used < data.len() {
                let used = self.inbox.take(data.slice(self.used, data.len() - self.used), sink, done)?;
                self.used += used;
                done.received_len += used as u64;
                if self.used < data.len() {
                    self.is_held = true;
                    return Ok(false);
                }
            }
            if direct_len > 0 {
                if !self.pull_chunk(endpoint, direct_len, sink, done)? {
                    return Ok(false);
                }
                done.received_len += direct_len as u64;
            }
            self.used = 0;
            if let Some(data) = endpoint.arrivals().take() {
                endpoint.release(data);
            }
        }
    }

    /// Receives the chunk of the next frame. Returns true if all of it is with the sink.
    fn pull_chunk(
        &mut self,
        endpoint: &mut Endpoint,
        len: usize,
        sink: &mut dyn Sink,
        done: &mut Progress,
    ) -> Result<bool, Ending> {
        if self.posted.is_empty() {
            if !self.inbox.has_place(sink)? {
                self.is_held = true;
                return Ok(false);
            }
            if (len as u64) > self.inbox.body_rest() {
                return Err(Ending::Garbage("a body longer than its head says".into()));
            }
            let bounces = len > self.rest().len();
            self.post(endpoint, 0, len, bounces)?;
        }
        self.post_ahead(endpoint)?;
        if !self.poll_first(endpoint)? || endpoint.arrivals().vouched <= self.chunk_count {
            return Ok(false);
        }
        let bounces = self.posted.front().is_some_and(|first| first.bounces);
        if bounces {
            let rest = self.bounce_window().slice(self.bounced, len - self.bounced);
            self.bounced += self.inbox.take(rest, sink, done)?;
            if self.bounced < len {
                self.is_held = true;
                return Ok(false);
            }
            self.bounced = 0;
        }
        let first = self.posted.pop_front().expect("it was posted above");
        self.chunk_count += 1;
        self.posted_len -= first.len;
        if !bounces {
            self.inbox.filled(len, sink, done)?;
        }
        Ok(true)
    }

    /// Posts the chunks behind that are announced and fit the same window.
    fn post_ahead(&mut self, endpoint: &mut Endpoint) -> Result<(), Ending> {
        while self.posted.len() < CHUNK_COUNT && self.posted.front().is_some_and(|first| !first.bounces) {
            let ahead = self.posted.len() as u64;
            let Some(next) = endpoint.arrivals().ahead(ahead) else { break };
            let len = next.direct_len;
            if next.data.is_some() || len > self.rest().len() - self.posted_len {
                break;
            }
            self.post(endpoint, ahead, len, false)?;
        }
        Ok(())
    }

    fn post(&mut self, endpoint: &mut Endpoint, ahead: u64, len: usize, bounces: bool) -> Result<(), Ending> {
        let to = if bounces { self.bounce_window().slice(0, len) } else { self.rest().slice(self.posted_len, len) };
        if let Some(lost) = lost_in(to) {
            return Err(lost);
        }
        let tag = tag(self.token, endpoint.arrivals().next() + ahead);
        // SAFETY: invariants 1 and 2.
        let request = match unsafe { endpoint.receive_direct(to, tag) }? {
            Outcome::Pending(request) => Some(request),
            Outcome::Done(received) => {
                check_len(received, len)?;
                None
            }
            Outcome::Failed(reason) => return Err(Ending::Closed(format!("a body could not be received: {reason}"))),
        };
        self.posted.push_back(Posted { request, len, bounces });
        self.posted_len += len;
        Ok(())
    }

    /// True if the oldest chunk is there.
    fn poll_first(&mut self, endpoint: &mut Endpoint) -> Result<bool, Ending> {
        let first = self.posted.front_mut().expect("asked for a chunk that is posted");
        let Some(request) = first.request.take() else { return Ok(true) };
        match endpoint.poll_receive(request) {
            Outcome::Pending(request) => {
                first.request = Some(request);
                Ok(false)
            }
            Outcome::Done(received) => check_len(received, first.len).map(|()| true),
            Outcome::Failed(_) => match lost_in(self.window()) {
                Some(lost) => Err(lost),
                None => {
                    self.has_failed = true;
                    Ok(false)
                }
            },
        }
    }

    fn bounce_window(&mut self) -> Window {
        if self.bounce.is_empty() {
            self.bounce.resize_with(CHUNK_LEN_MAX, || UnsafeCell::new(0));
        }
        // SAFETY: the buffer is never resized again; cells may be written to.
        unsafe { Window::new(self.bounce.as_mut_ptr().cast(), self.bounce.len()) }
    }
}

fn check_len(received: usize, announced: usize) -> Result<(), Ending> {
    if received == announced { Ok(()) } else { Err(Ending::Garbage("a body of another length than announced".into())) }
}
