//! Where a message's bytes go, and what it asks for.
//!
//! Puts are written as they arrive: straight into the extent where they are contiguous, through a staging buffer where
//! they are strided or the extent is small. All commands are admitted before the first byte of a put is taken, so a
//! refusal means that nothing was done. A put that is cut off by a dying peer has written a part.

use crate::node::extents::{Extents, Held};
use hanare_fabric::{Refusal, Sink};
use hanare_memory::{Window, vector};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::command::{COMMAND_LEN, Command, Op};
use hanare_protocol::wire::control::{self, Arrival};
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, Result};
use std::sync::Arc;

/// A command that was admitted.
#[derive(Clone)]
pub(crate) struct Work {
    pub op: Op,
    pub held: Arc<Held>,
    pub shape: Strided,
}

impl Work {
    pub fn len(&self) -> u64 {
        self.shape.block * self.shape.count
    }
}

/// A message that has arrived whole.
pub(crate) struct Finished {
    pub seq: u64,
    pub asks: Asks,
}

/// What it asks for.
pub(crate) enum Asks {
    /// Its puts are done; these gets and copies are not.
    Work(Vec<Work>),
    /// It was refused.
    Refused(Error),
    /// A rank arrives at its job's barrier.
    Arrival(Arrival),
    /// The barrier that it arrived at is complete.
    Released,
    /// A sign of life.
    Pong,
}

/// Puts of up to this many bytes in a row are asked of a link at once.
const DIRECT_BLOCK_MIN: u64 = 4096;

/// The sink of one link.
pub(crate) struct Inbox {
    extents: Arc<Extents>,
    /// Commands of the message under way, or an arrival.
    front: Vec<u8>,
    work: Vec<Work>,
    refused: Option<Error>,
    /// The put that is being filled, and its byte that comes next.
    put: usize,
    put_at: u64,
    /// Bytes of the put in the staging buffer that are still to be scattered.
    staged_len: usize,
    stage: Vec<u8>,
    /// Messages that wait for their answer.
    pub finished: Vec<Finished>,
    /// Whether earlier messages still read memory, which a later one's puts must not change before.
    pub held_back: bool,
}

impl Inbox {
    pub fn new(extents: Arc<Extents>) -> Inbox {
        Inbox {
            extents,
            front: Vec::new(),
            work: Vec::new(),
            refused: None,
            put: 0,
            put_at: 0,
            staged_len: 0,
            stage: Vec::new(),
            finished: Vec::new(),
            held_back: false,
        }
    }

    /// Admits the commands of a message; a refusal is remembered, nonsense ends the link.
    fn admit(&mut self, head: &Head) -> Result<(), Refusal> {
        let mut put_len = 0u64;
        for bytes in self.front.chunks_exact(COMMAND_LEN) {
            let command = Command::decode(bytes.try_into().expect("a chunk")).map_err(|malformed| refusal(malformed.0))?;
            if command.op == Op::Put {
                let len = command.shape.block.checked_mul(command.shape.count).ok_or_else(|| refusal("a put beyond 64 bits"))?;
                put_len = put_len.checked_add(len).ok_or_else(|| refusal("puts beyond 64 bits"))?;
            }
            if self.refused.is_none() {
                match self.extents.admit(&command) {
                    Ok(held) => self.work.push(Work { op: command.op, held, shape: command.shape }),
                    Err(error) => self.refused = Some(error),
                }
            }
        }
        if self.front.len() as u64 + put_len != head.body_len {
            return Err(refusal("the bytes of the puts are not as many as the commands say"));
        }
        if self.refused.is_none() {
            self.refused = unpaired(&self.work);
        }
        self.put = 0;
        self.put_at = 0;
        Ok(())
    }

    /// The place of the next bytes of the puts.
    fn place_put(&mut self) -> Result<Window, Refusal> {
        while let Some(work) = self.work.get(self.put) {
            if work.op == Op::Put && self.put_at < work.len() {
                break;
            }
            self.put += 1;
            self.put_at = 0;
        }
        let work = self.work.get(self.put).ok_or_else(|| refusal("more bytes than the commands say"))?;
        let left = work.len() - self.put_at;
        if let Some(window) = work.held.stays() {
            if work.shape.is_contiguous() {
                let at = work.shape.offset + self.put_at;
                self.put_at += left;
                return Ok(window.slice(at as usize, left as usize));
            }
            if work.shape.block >= DIRECT_BLOCK_MIN {
                let at = work.shape.offset + self.put_at / work.shape.block * work.shape.stride;
                self.put_at += work.shape.block;
                return Ok(window.slice(at as usize, work.shape.block as usize));
            }
        }
        self.stage.resize(STAGE_LEN, 0);
        self.staged_len = left.min(STAGE_LEN as u64) as usize;
        // SAFETY: the stage is not touched until the link has filled the window and asks again, or is dropped.
        Ok(unsafe { Window::of_mut(&mut self.stage) }.slice(0, self.staged_len))
    }

    /// Scatters what the staging buffer holds.
    fn settle(&mut self) {
        let len = std::mem::take(&mut self.staged_len);
        if len == 0 || self.refused.is_some() {
            return;
        }
        let work = &self.work[self.put];
        // SAFETY: the buffer is ours, and only read here.
        let from = unsafe { Window::of(&self.stage) }.slice(0, len);
        let reach = work.held.reach();
        if let Err(lost) = vector::scatter_part(from, reach.window(), &work.shape, self.put_at as usize) {
            self.refused = Some(lost_memory(&lost));
        }
        self.put_at += len as u64;
    }

    /// A place for bytes that nobody wants.
    fn scratch(&mut self, left: u64) -> Window {
        self.stage.resize(STAGE_LEN, 0);
        // SAFETY: as in `place_put`.
        unsafe { Window::of_mut(&mut self.stage) }.slice(0, left.min(STAGE_LEN as u64) as usize)
    }

    fn place_front(&mut self, len: u64) -> Window {
        self.front.resize(len as usize, 0);
        // SAFETY: the buffer is not touched until the link has filled it and asks again, or is dropped.
        unsafe { Window::of_mut(&mut self.front) }
    }

    fn asks(&mut self, head: &Head) -> Asks {
        match head.kind {
            Kind::Ping => Asks::Pong,
            Kind::Arrive => match control::decode(&self.front) {
                Ok(arrival) => Asks::Arrival(arrival),
                Err(malformed) => Asks::Refused(garbage(malformed.0)),
            },
            _ => match self.refused.take() {
                Some(error) => Asks::Refused(error),
                None => {
                    self.work.retain(|work| work.op != Op::Put);
                    Asks::Work(std::mem::take(&mut self.work))
                }
            },
        }
    }
}

// SAFETY: windows are of extents that `work` keeps alive until the message is whole, or of buffers of this inbox that stay as they are
// until the link asks again; the session drops the link before the inbox.
unsafe impl Sink for Inbox {
    fn place(&mut self, head: &Head, at: u64) -> Result<Window, Refusal> {
        let front_len = (head.count as usize * COMMAND_LEN) as u64;
        match head.kind {
            Kind::Arrive if at == 0 => Ok(self.place_front(head.body_len)),
            Kind::Commands if front_len == 0 || front_len > head.body_len => {
                Err(refusal("no commands where some were announced"))
            }
            Kind::Commands if at == 0 => {
                self.work.clear();
                self.refused = None;
                Ok(self.place_front(front_len))
            }
            Kind::Commands => {
                if at == front_len {
                    self.admit(head)?;
                } else {
                    self.settle();
                }
                if self.refused.is_some() {
                    return Ok(self.scratch(head.body_len - at));
                }
                self.place_put()
            }
            _ => Err(refusal("a message that only nodes send")),
        }
    }

    fn message(&mut self, head: &Head) {
        match head.kind {
            Kind::Commands if head.body_len == 0 => self.refused = Some(garbage("no commands")),
            Kind::Commands if head.body_len == self.front.len() as u64 => {
                if let Err(nonsense) = self.admit(head) {
                    self.refused = Some(garbage(&nonsense.0));
                }
            }
            Kind::Commands => self.settle(),
            _ => {}
        }
        let asks = self.asks(head);
        self.front.clear();
        self.finished.push(Finished { seq: head.seq, asks });
    }

    fn may_begin(&self) -> bool {
        let reads = |finished: &Finished| matches!(&finished.asks, Asks::Work(work) if !work.is_empty());
        !self.held_back && !self.finished.iter().any(reads)
    }
}

/// Copies come in pairs of a source and a target with as many bytes.
fn unpaired(work: &[Work]) -> Option<Error> {
    let bad = |work: &Work| {
        let Strided { block, count, stride, .. } = work.shape;
        let reason = "a copy needs a source and then a target of as many bytes".to_owned();
        Some(Error::BadShape { region: "of a copy".to_owned(), block, count, stride, reason })
    };
    let mut copies = work.iter().filter(|work| matches!(work.op, Op::CopyFrom | Op::CopyTo));
    while let Some(from) = copies.next() {
        match copies.next() {
            Some(to) if from.op == Op::CopyFrom && to.op == Op::CopyTo && from.len() == to.len() => {}
            _ => return bad(from),
        }
    }
    None
}

fn garbage(reason: &str) -> Error {
    Error::Garbage { peer: "a client".to_owned(), reason: reason.to_owned() }
}

fn refusal(reason: &str) -> Refusal {
    Refusal(reason.to_owned())
}

/// The error for lent memory that the kernel could not supply.
pub(crate) fn lost_memory(lost: &hanare_memory::Lost) -> Error {
    Error::System { what: "reach lent memory".to_owned(), reason: format!("{lost:?}") }
}
