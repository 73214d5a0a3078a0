//! Answers under way on one link: copies made, gets gathered, a stage at a time.
//!
//! One answer is sent at a time, and its next stage is gathered when the one before has left, so that a client that
//! reads slowly holds one staging buffer and nobody up.

use super::inbox::{Asks, Finished, Work, lost_memory};
use hanare_fabric::{Link, LinkError};
use hanare_memory::{Window, vector};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::control;
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;

/// Answers of up to this many bytes are gathered into one buffer, whatever their parts.
const SMALL_LEN: u64 = 1 << 10;

/// Bytes copied before others get their turn.
const COPY_LEN_AT_ONCE: u64 = 4 << 20;

/// Most windows given to a link at once.
const WINDOWS_AT_ONCE: u64 = 256;

/// Blocks of at least this many bytes leave from where they lie.
const DIRECT_BLOCK_MIN: u64 = 1024;

#[derive(Default)]
pub(crate) struct Replies {
    queue: VecDeque<Finished>,
    current: Option<Current>,
    /// Gathered bytes of gets; always of its full length once used.
    stage: Vec<u8>,
    /// A refusal's bytes.
    small: Vec<u8>,
    windows: Vec<Window>,
}

/// The answer that is being made.
struct Current {
    seq: u64,
    work: Vec<Work>,
    /// The command that comes next, and its byte that comes next.
    index: usize,
    at: u64,
    /// Whether the head has left.
    begun: bool,
}

impl Replies {
    pub fn push(&mut self, finished: Finished) {
        self.queue.push_back(finished);
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.current.is_none()
    }

    /// Moves answers on as far as the link takes them. Returns whether anything was done.
    pub fn pump(&mut self, link: &mut dyn Link) -> Result<bool, LinkError> {
        let mut done_something = false;
        // What was given to the link before must have left: its buffers are used again.
        while link.unsent_len() == 0 {
            if self.current.is_none() {
                let Some(finished) = self.queue.pop_front() else { break };
                self.begin(finished, link)?;
            } else if self.step(link)? {
                return Ok(true);
            }
            done_something = true;
        }
        Ok(done_something)
    }

    fn begin(&mut self, finished: Finished, link: &mut dyn Link) -> Result<(), LinkError> {
        let seq = finished.seq;
        match finished.asks {
            Asks::Work(work) if work.is_empty() => self.send_small(link, Head::new(Kind::Done, seq), &[]),
            Asks::Work(work) => {
                self.current = Some(Current { seq, work, index: 0, at: 0, begun: false });
                Ok(())
            }
            Asks::Refused(error) => self.refuse(link, seq, &error),
            Asks::Released => self.send_small(link, Head::new(Kind::Released, seq), &[]),
            Asks::Pong => self.send_small(link, Head::new(Kind::Pong, seq), &[]),
            Asks::Arrival(_) => unreachable!("arrivals go to the barriers"),
        }
    }

    /// Tells a rank that its barrier is complete, or that it never will be.
    pub fn push_barrier(&mut self, seq: u64, outcome: Result<(), Error>) {
        let asks = match outcome {
            Ok(()) => Asks::Released,
            Err(error) => Asks::Refused(error),
        };
        self.queue.push_back(Finished { seq, asks });
    }

    fn refuse(&mut self, link: &mut dyn Link, seq: u64, error: &Error) -> Result<(), LinkError> {
        let body = control::encode(error);
        self.send_small(link, Head { body_len: body.len() as u64, ..Head::new(Kind::Refused, seq) }, &body)
    }

    fn send_small(&mut self, link: &mut dyn Link, head: Head, body: &[u8]) -> Result<(), LinkError> {
        self.small.clear();
        self.small.extend_from_slice(body);
        // SAFETY: the buffer is used again only when the link has nothing unsent; the session drops the link before it.
        unsafe { link.send(&head, &[Window::of(&self.small)]) }
    }

    /// Does the next stage of the current answer. True when others should have their turn first.
    fn step(&mut self, link: &mut dyn Link) -> Result<bool, LinkError> {
        let current = self.current.as_mut().expect("the caller looked");
        if let Some(copied) = current.copy_some() {
            match copied {
                Ok(()) => return Ok(true),
                Err(error) => {
                    let seq = current.seq;
                    self.current = None;
                    return self.refuse(link, seq, &error).map(|()| false);
                }
            }
        }
        self.send_some(link).map(|()| false)
    }

    fn send_some(&mut self, link: &mut dyn Link) -> Result<(), LinkError> {
        let current = self.current.as_mut().expect("the caller looked");
        let total: u64 = current.work.iter().map(Work::len).sum();
        self.windows.clear();
        let gathered = match current.fill(&mut self.stage, &mut self.windows, total) {
            Ok(gathered) => gathered,
            Err(error) => return self.fail(link, &error),
        };
        if gathered > 0 {
            // SAFETY: as in `send_small`.
            self.windows.push(unsafe { Window::of(&self.stage[..gathered]) });
        }
        let begun = std::mem::replace(&mut current.begun, true);
        // SAFETY: windows of extents are kept by `work`, which stays in `current` until the link has nothing unsent; the stage as in
        // `send_small`.
        unsafe {
            match begun {
                true if self.windows.is_empty() => {}
                true => link.extend(&self.windows)?,
                false => link.send(&Head { body_len: total, ..Head::new(Kind::Done, current.seq) }, &self.windows)?,
            }
        }
        if current.is_at_end() && link.unsent_len() == 0 {
            self.current = None;
        }
        Ok(())
    }

    /// The memory went away while an answer was read from it: too late for a refusal if its head has left.
    fn fail(&mut self, link: &mut dyn Link, error: &Error) -> Result<(), LinkError> {
        let current = self.current.take().expect("the caller looked");
        match current.begun {
            false => self.refuse(link, current.seq, error),
            true => Err(LinkError::System { what: "reading lent memory".to_owned(), reason: error.to_string() }),
        }
    }
}

impl Current {
    fn is_at_end(&self) -> bool {
        self.index >= self.work.len()
    }

    /// Copies a stage of the first copy that is left. `None`: there is none left.
    fn copy_some(&mut self) -> Option<Result<()>> {
        let index = self.work.iter().position(|work| work.op == Op::CopyFrom)?;
        let (from, to) = (&self.work[index], &self.work[index + 1..]);
        let to = to.iter().find(|work| work.op == Op::CopyTo).expect("copies were paired");
        let end = (self.at + COPY_LEN_AT_ONCE).min(from.len());
        let copied = copy_range(from, to, self.at, end);
        self.at = end;
        if end == from.len() || copied.is_err() {
            let target = index + 1 + self.work[index + 1..].iter().position(|work| work.op == Op::CopyTo).expect("as above");
            self.work.remove(target);
            self.work.remove(index);
            self.at = 0;
        }
        Some(copied)
    }

    /// Gives the next windows, or gathers into the stage; returns the bytes gathered. Windows and gathered bytes never mix in one call.
    fn fill(&mut self, stage: &mut Vec<u8>, windows: &mut Vec<Window>, total: u64) -> Result<usize> {
        stage.resize(STAGE_LEN, 0);
        let mut gathered = 0;
        while let Some(work) = self.work.get(self.index) {
            let left = work.len() - self.at;
            if left == 0 {
                (self.index, self.at) = (self.index + 1, 0);
                continue;
            }
            let direct = work.held.stays().filter(|_| total > SMALL_LEN && block_of(work) >= DIRECT_BLOCK_MIN);
            match direct {
                Some(_) if gathered > 0 => break,
                Some(window) => self.at += give(work, window, self.at, windows),
                None if !windows.is_empty() || gathered == STAGE_LEN => break,
                None => {
                    let len = (left as usize).min(STAGE_LEN - gathered);
                    gather(work, self.at, &mut stage[gathered..gathered + len])?;
                    gathered += len;
                    self.at += len as u64;
                }
            }
            if windows.len() as u64 >= WINDOWS_AT_ONCE {
                break;
            }
        }
        while self.work.get(self.index).is_some_and(|work| self.at == work.len()) {
            (self.index, self.at) = (self.index + 1, 0);
        }
        Ok(gathered)
    }
}

fn block_of(work: &Work) -> u64 {
    if work.shape.is_contiguous() { work.len() } else { work.shape.block }
}

/// Adds windows of a get from byte `at` on; returns the bytes they hold.
fn give(work: &Work, window: Window, at: u64, windows: &mut Vec<Window>) -> u64 {
    if work.shape.is_contiguous() {
        let left = work.len() - at;
        windows.push(window.slice((work.shape.offset + at) as usize, left as usize));
        return left;
    }
    let shape = work.shape;
    let first = at / shape.block;
    let count = (WINDOWS_AT_ONCE - windows.len() as u64).min(shape.count - first);
    windows
        .extend((first..first + count).map(|k| window.slice((shape.offset + k * shape.stride) as usize, shape.block as usize)));
    count * shape.block
}

fn gather(work: &Work, at: u64, into: &mut [u8]) -> Result<()> {
    let reach = work.held.reach();
    // SAFETY: the buffer is borrowed for this call.
    let into = unsafe { Window::of_mut(into) };
    vector::gather_part(reach.window(), &work.shape, at as usize, into).map_err(|lost| lost_memory(&lost))
}

/// Copies bytes `at .. end` of a pair: directly where both are contiguous, else through a buffer.
fn copy_range(from: &Work, to: &Work, at: u64, end: u64) -> Result<()> {
    let mut buffer = vec![0; STAGE_LEN.min((end - at) as usize)];
    let mut at = at;
    while at < end {
        let len = (end - at).min(buffer.len() as u64) as usize;
        gather(from, at, &mut buffer[..len])?;
        // SAFETY: the buffer is borrowed for this iteration, and only read.
        let bytes = unsafe { Window::of(&buffer[..len]) };
        let reach = to.held.reach();
        vector::scatter_part(bytes, reach.window(), &to.shape, at as usize).map_err(|lost| lost_memory(&lost))?;
        at += len as u64;
    }
    Ok(())
}
