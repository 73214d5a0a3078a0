//! The outgoing half of a link. It cuts the stream into frames, and long parts of bodies into rendezvous from their windows.
//!
//! ```text
//! outbox   [head][small parts][ long part of a body .................. ][head] ...
//!             \____ frame ___/ \_ chunk _/\_ chunk _/\_ chunk _/  ...
//!             copied to a slot   announced each by a frame, sent from the window, which is free when all have left
//! ```
//!
//! A chunk that has left is *vouched for* in the next frame: none of its window's memory was lost on the way. So pages that the kernel
//! could not supply never pass for zeros.
//!
//! Safety invariants of this module:
//! 1. Windows in the outbox and in `chunks` are used while link.rs's first invariant holds for them. Chunks under way are parts of the
//!    outbox's first piece, which stays there until they are done.
//! 2. A slot's bytes are not touched while its request is under way.

use super::cover::FrameCover;
use super::endpoint::{Endpoint, Outcome, Request};
use super::frame::{CHUNK_COUNT, CREDIT, DIRECT_LEN, FRAME_HEAD_LEN, FRAME_LEN, FrameHead, FrameKind, chunk_len};
use crate::ending::Ending;
use crate::link::{FAIR_LEN, Progress};
use crate::outbox::{Outbox, Piece};
use hanare_memory::Window;
use std::cell::UnsafeCell;
use std::collections::VecDeque;

/// Frames that may wait for the transport: more would only lengthen the queue.
const SLOT_COUNT: usize = 16;

/// Slots that only control frames may use: counters get through when everything else waits.
const CONTROL_SLOT_COUNT: usize = 2;

/// Memory of one frame.
struct Slot {
    head: Box<[u8; FRAME_HEAD_LEN]>,
    /// Empty in a slot for control frames.
    bytes: Box<[UnsafeCell<u8>]>,
    request: Option<Request>,
    /// Bytes of the frame under way.
    len: usize,
}

// SAFETY: plain memory, reached through the link that owns it.
unsafe impl Send for Slot {}

impl Slot {
    fn new(len: usize) -> Slot {
        let bytes = (0..len).map(|_| UnsafeCell::new(0)).collect();
        Slot { head: Box::new([0; FRAME_HEAD_LEN]), bytes, request: None, len: 0 }
    }

    fn window(&self, len: usize) -> Window {
        // SAFETY: the bytes stay where they are as long as the slot; cells may be written to.
        unsafe { Window::new(self.bytes.as_ptr().cast_mut().cast(), self.bytes.len()) }.slice(0, len)
    }

    fn is_free(&mut self, endpoint: &mut Endpoint) -> bool {
        let Some(request) = self.request.take() else { return true };
        match endpoint.poll(request) {
            Outcome::Pending(request) => self.request = Some(request),
            // The endpoint's end tells that a frame failed.
            Outcome::Done(_) | Outcome::Failed(_) => {}
        }
        self.request.is_none()
    }
}

/// Counters about the peer's frames that go to the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Acknowledgement {
    /// Frames of the peer that were taken.
    pub(super) taken: u64,
    /// True if a body from one of its windows could not be received.
    pub(super) has_failed: bool,
}

/// The outgoing half.
pub(super) struct Sender {
    pub(super) outbox: Outbox,
    /// The peer's token, which every frame carries.
    pub(super) token: u64,
    slots: Vec<Slot>,
    control_slots: Vec<Slot>,
    next_seq: u64,
    /// Rendezvous under way and their lengths, oldest first; they are the beginning of the outbox's first piece.
    chunks: VecDeque<(Option<Request>, usize)>,
    chunks_len: usize,
    vouched: u64,
    ack: Acknowledgement,
    told_vouched: u64,
    /// Seals frames, with room for one before it is sealed.
    cover: Option<(FrameCover, Box<[u8]>)>,
}

impl Sender {
    pub(super) fn new(token: u64, cover: Option<FrameCover>) -> Sender {
        Sender {
            outbox: Outbox::new(),
            token,
            slots: (0..SLOT_COUNT).map(|_| Slot::new(FRAME_LEN)).collect(),
            control_slots: (0..CONTROL_SLOT_COUNT).map(|_| Slot::new(0)).collect(),
            next_seq: 0,
            chunks: VecDeque::with_capacity(CHUNK_COUNT),
            chunks_len: 0,
            vouched: 0,
            ack: Acknowledgement::default(),
            told_vouched: 0,
            cover: cover.map(|cover| (cover, FrameCover::memory())),
        }
    }

    /// Sends the first frame, which is as long as frames may be.
    pub(super) fn send_reach(&mut self, endpoint: &mut Endpoint) -> Result<(), Ending> {
        let head = self.head(FrameKind::Reach, Acknowledgement::default()).encode();
        let slot = &mut self.slots[0];
        *slot.head = head;
        slot.len = FRAME_HEAD_LEN;
        let data = slot.window(FRAME_LEN);
        // SAFETY: invariant 2; the slot outlives the worker's use of it.
        slot.request = pending(unsafe { endpoint.send_frame(&slot.head[..], data) })?;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn cover(&self) -> Option<FrameCover> {
        self.cover.as_ref().map(|(cover, _)| cover.clone())
    }

    /// Number of numbered frames sent.
    pub(super) fn sent_count(&self) -> u64 {
        self.next_seq
    }

    /// The window that rendezvous under way read.
    pub(super) fn window(&self) -> Window {
        match self.outbox.pieces().next() {
            Some((Piece::Body(window), skip)) if !self.chunks.is_empty() => window.slice(skip, self.chunks_len),
            _ => Window::empty(),
        }
    }

    /// Bytes that wait here or in UCX: zero when nothing more need be done for them to arrive. A frame that UCX holds back leaves only
    /// while this side looks. So does the word that vouches for a body.
    pub(super) fn unsent_len(&self) -> u64 {
        let held_back: usize =
            self.slots.iter().chain(&self.control_slots).filter(|slot| slot.request.is_some()).map(|slot| slot.len).sum();
        let unvouched = if self.vouched == self.told_vouched { 0 } else { FRAME_HEAD_LEN };
        self.outbox.unsent_len() + (held_back + unvouched) as u64
    }

    /// True if everything has been told and every frame has left.
    pub(super) fn is_told(&mut self, endpoint: &mut Endpoint) -> bool {
        let mut slots = self.slots.iter_mut().chain(&mut self.control_slots);
        self.vouched == self.told_vouched && slots.all(|slot| slot.is_free(endpoint))
    }

    /// Requests under way, taken out: the link ends.
    pub(super) fn take_requests(&mut self) -> Vec<Request> {
        let slots = self.slots.iter_mut().chain(&mut self.control_slots).filter_map(|slot| slot.request.take());
        slots.chain(self.chunks.drain(..).filter_map(|(request, _)| request)).collect()
    }

    /// True if the peer's credit lets more go.
    fn has_credit(&self, endpoint: &mut Endpoint) -> bool {
        endpoint.arrivals().lets_go(self.next_seq)
    }

    /// Frees slots whose frames have left, and counts rendezvous that are done.
    pub(super) fn reap(&mut self, endpoint: &mut Endpoint, done: &mut Progress) -> Result<(), Ending> {
        for slot in self.slots.iter_mut().chain(&mut self.control_slots) {
            slot.is_free(endpoint);
        }
        while let Some((request, len)) = self.chunks.front_mut() {
            let outcome = request.take().map_or(Outcome::Done(0), |request| endpoint.poll(request));
            match outcome {
                Outcome::Pending(pending) => {
                    *request = Some(pending);
                    break;
                }
                Outcome::Failed(reason) => return Err(self.failed(&reason)),
                Outcome::Done(_) => {
                    let len = *len;
                    self.chunks.pop_front();
                    self.chunks_len -= len;
                    self.outbox.sent(len);
                    self.vouched += 1;
                    done.sent_len += len as u64;
                }
            }
        }
        Ok(())
    }

    /// Why a rendezvous failed: its memory is lost, or the connection is.
    #[cold]
    pub(super) fn failed(&self, reason: &str) -> Ending {
        lost_in(self.window()).unwrap_or_else(|| Ending::Closed(format!("a body could not be sent: {reason}")))
    }

    /// Sends frames while there is credit and room. Returns true if it stopped for fairness.
    pub(super) fn push(&mut self, endpoint: &mut Endpoint, ack: Acknowledgement, done: &mut Progress) -> Result<bool, Ending> {
        while !self.outbox.is_empty() {
            if done.sent_len >= FAIR_LEN {
                return Ok(true);
            }
            let (data_len, direct) = self.next_frame();
            if (data_len == 0 && direct.is_empty()) || !self.has_credit(endpoint) {
                break;
            }
            let Some(slot) = self.slots.iter_mut().position(|slot| slot.is_free(endpoint)) else { break };
            self.send_numbered(endpoint, slot, data_len, direct, ack)?;
            done.sent_len += data_len as u64;
        }
        self.tell(endpoint, ack)?;
        Ok(false)
    }

    /// The next frame: bytes by copy, then bytes from their window.
    fn next_frame(&self) -> (usize, Window) {
        let (room, is_whole) = match &self.cover {
            Some((cover, _)) => (FrameCover::ROOM, cover.is_whole),
            None => (FRAME_LEN, false),
        };
        let mut data_len = 0;
        for (piece, skip) in self.outbox.pieces() {
            match piece {
                Piece::Body(window) => {
                    let under_way = if data_len == 0 { self.chunks_len } else { 0 };
                    let left = window.len() - skip - under_way;
                    let is_long = left >= DIRECT_LEN && !is_whole;
                    if is_long && self.chunks.len() < CHUNK_COUNT {
                        return (data_len, window.slice(skip + under_way, chunk_len(left)));
                    }
                    // Bytes behind chunks under way wait for them, and a piece worth a chunk waits for its turn.
                    if !self.chunks.is_empty() || is_long {
                        return (data_len, Window::empty());
                    }
                    data_len += left;
                }
                Piece::Head(bytes) => data_len += bytes.len() - skip,
            }
            if data_len >= room {
                return (room, Window::empty());
            }
        }
        (data_len, Window::empty())
    }

    fn send_numbered(
        &mut self,
        endpoint: &mut Endpoint,
        slot: usize,
        data_len: usize,
        direct: Window,
        ack: Acknowledgement,
    ) -> Result<(), Ending> {
        let seq = self.next_seq;
        let head = FrameHead { seq, direct_len: direct.len() as u32, ..self.head(FrameKind::Numbered, ack) };
        if let Some(lost) = lost_in(direct) {
            return Err(lost);
        }
        let data = self.fill(slot, &head, data_len)?;
        let slot = &mut self.slots[slot];
        *slot.head = head.encode();
        slot.len = data.len();
        // SAFETY: invariant 2; the slot outlives the worker's use of it.
        slot.request = pending(unsafe { endpoint.send_frame(&slot.head[..], data) })?;
        self.outbox.sent(data_len);
        self.next_seq += 1;
        self.ack = ack;
        self.told_vouched = self.vouched;
        if !direct.is_empty() {
            // SAFETY: invariant 1.
            let request = match unsafe { endpoint.send_direct(direct, tag(self.token, seq)) }? {
                Outcome::Failed(reason) => {
                    return Err(lost_in(direct).unwrap_or(Ending::Closed(format!("a body could not be sent: {reason}"))));
                }
                Outcome::Pending(request) => Some(request),
                Outcome::Done(_) => None,
            };
            self.chunks.push_back((request, direct.len()));
            self.chunks_len += direct.len();
        }
        Ok(())
    }

    /// Copies the next bytes of the stream to a slot, sealed where frames are. Returns the bytes of the frame.
    fn fill(&mut self, slot: usize, head: &FrameHead, data_len: usize) -> Result<Window, Ending> {
        let slot = &self.slots[slot];
        let Some((cover, plain)) = &mut self.cover else {
            let data = slot.window(data_len);
            self.outbox.copy_to(data)?;
            return Ok(data);
        };
        // SAFETY: the memory is this link's own, and borrowed for the call.
        self.outbox.copy_to(unsafe { Window::of_mut(FrameCover::place(plain, data_len)) })?;
        let mut sealed = [0; FRAME_LEN];
        let len = cover.seal(head.seq, head.direct_len, (plain, data_len), &mut sealed);
        let len = len.ok_or_else(|| Ending::Closed("its frames have used all numbers".into()))?;
        let data = slot.window(len);
        data.write_from(&sealed[..len])?;
        Ok(data)
    }

    fn head(&self, kind: FrameKind, ack: Acknowledgement) -> FrameHead {
        let kind = if ack.has_failed && kind == FrameKind::Control { FrameKind::Failed } else { kind };
        FrameHead { kind, token: self.token, seq: 0, taken: ack.taken, vouched: self.vouched, direct_len: 0 }
    }

    /// Sends a control frame where the peer waits for counters that no other frame has brought.
    pub(super) fn tell(&mut self, endpoint: &mut Endpoint, ack: Acknowledgement) -> Result<(), Ending> {
        let is_due = ack.taken - self.ack.taken >= CREDIT / 2
            || self.vouched != self.told_vouched
            || ack.has_failed != self.ack.has_failed;
        if is_due { self.send_control(endpoint, ack) } else { Ok(()) }
    }

    /// Sends the counters, if there is room; they are not lost, because the next frame brings them too.
    fn send_control(&mut self, endpoint: &mut Endpoint, ack: Acknowledgement) -> Result<(), Ending> {
        let head = self.head(FrameKind::Control, ack).encode();
        let Some(slot) = self.control_slots.iter_mut().find_map(|slot| slot.is_free(endpoint).then_some(slot)) else {
            return Ok(());
        };
        *slot.head = head;
        slot.len = FRAME_HEAD_LEN;
        // SAFETY: invariant 2; the slot outlives the worker's use of it.
        slot.request = pending(unsafe { endpoint.send_frame(&slot.head[..], Window::empty()) })?;
        self.ack = ack;
        self.told_vouched = self.vouched;
        Ok(())
    }
}

/// The tag of a rendezvous: the link's token keeps strangers out, the announcing frame's number tells them apart.
pub(super) fn tag(token: u64, seq: u64) -> u64 {
    token.wrapping_add(seq)
}

fn pending(outcome: Outcome) -> Result<Option<Request>, Ending> {
    match outcome {
        Outcome::Done(_) => Ok(None),
        Outcome::Pending(request) => Ok(Some(request)),
        Outcome::Failed(reason) => Err(Ending::Closed(reason)),
    }
}

/// The loss of a window's memory, if there is one. Checked before a rendezvous, because UCX 1.13 over TCP ends the process where the
/// kernel refuses to read a window. Checked again after a rendezvous that failed. **Cost**: a load for each page.
pub(super) fn lost_in(window: Window) -> Option<Ending> {
    (0..window.len()).step_by(hanare_protocol::limits::PAGE_LEN as usize).find_map(|at| {
        let byte = window.slice(at, 1);
        byte.read_into(&mut [0]).err().map(Ending::from)
    })
}
