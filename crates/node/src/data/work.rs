//! A command that a node has admitted, and what is still to be done of it.
//!
//! Where hosts map the extent a stage of the command begins when the pages that it touches are at home
//! ([`Work::need`]).

use super::reach::Reached;
use crate::counts::Timing;
use crate::extents::{Extents, Opened};
use crate::held::Writing;
use crate::lost::lost_memory;
use hanare_home::Need;
use hanare_memory::exec::{self, Exec, Stage};
use hanare_memory::{Lost, Window};
use hanare_protocol::limits::{BODY_LEN_MAX, OLD_LEN_MAX, PAGE_LEN};
use hanare_protocol::page::Access;
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::control::CommandOrigin;
use hanare_protocol::{Error, Result};

/// Longest address of a node.
const ADDRESS_LEN_MAX: u32 = 512;

/// A command that was admitted.
pub(crate) struct Work {
    pub op: Op,
    pub shape: Checked<'static>,
    pub place: Place,
    exec: Exec,
    /// Bytes of the operand that were taken in.
    pub taken: u64,
    /// The result, where it is not read from the extent as it leaves: old values, a difference, a summary.
    pub result: Vec<u8>,
    /// Bytes of the stream that were done, of what is done after the whole message is here.
    done: u64,
    /// The last bytes of an operand that is a stream, whose pages were not at home when the message was whole.
    rest: Vec<u8>,
    /// Bytes of the stream that are done when the pages that are asked for are at home.
    asked: u64,
    /// Of a command that changes bytes as they are.
    writing: Option<Writing>,
    _watch: Timing,
}

/// Where a command's bytes are.
#[derive(Clone)]
pub(crate) enum Place {
    Here(Opened),
    /// The source of a copy, on another node.
    Elsewhere(Command),
}

impl Work {
    /// Whether it is the source of a copy on another node.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.place, Place::Elsewhere(_))
    }

    /// Admits a command, if its grant allows it, its shape lies inside the extent, and its parts fit each other.
    pub fn admit(command: &Command, shape: Shape<'static>, from: CommandOrigin, extents: &Extents) -> Result<Work> {
        Work::try_admit(command, shape, from, extents).inspect_err(|error| extents.counts.refused(error))
    }

    fn try_admit(command: &Command, shape: Shape<'static>, from: CommandOrigin, extents: &Extents) -> Result<Work> {
        let (place, shape, writing) = match command.op {
            Op::CopyFrom { address_len: 1..=ADDRESS_LEN_MAX } => {
                (Place::Elsewhere(*command), shape.check("of another node", u64::MAX)?, None)
            }
            _ => {
                let (opened, shape, writing) = extents.admit(command, shape)?;
                (Place::Here(opened), shape, writing)
            }
        };
        let (op, exec) = (command.op, Exec::new(command.op));
        let (result, rest, _watch) = (Vec::new(), Vec::new(), extents.counts.watch(&op, from, shape.len()));
        let work = Work { op, shape, place, exec, taken: 0, result, done: 0, rest, asked: 0, writing, _watch };
        work.check()?;
        Ok(work)
    }

    fn check(&self) -> Result<()> {
        let (len, name) = (self.shape.len(), "of a peer");
        let refuse = |reason: &str| Err(self.shape.refused(name, reason));
        if self.op.operand_len(len).is_none() {
            return refuse("an operand beyond 64 bits");
        }
        match self.op {
            // Queues are reached as they are, or not at all.
            Op::Append { .. } if self.is_by_pages() => Err(Error::IsMapped { gid: self.opened().held().gid() }),
            Op::CopyFrom { address_len } if address_len > ADDRESS_LEN_MAX => refuse("an address beyond the limit"),
            Op::CopyFrom { address_len: 1.. } if len > BODY_LEN_MAX => {
                refuse("more bytes than another node gives in one message")
            }
            _ if self.op.keeps_result() && self.op.result_len(len) > OLD_LEN_MAX => refuse("a longer result than a node holds"),
            op => exec::check(op, name, &self.shape),
        }
    }

    /// Bytes of the stream.
    pub fn len(&self) -> u64 {
        self.shape.len()
    }

    /// Bytes of the operand.
    pub fn operand_len(&self) -> u64 {
        self.op.operand_len(self.len()).expect("`check` refuses more than 64 bits of it")
    }

    /// Bytes of the result.
    pub fn result_len(&self) -> u64 {
        self.op.result_len(self.len())
    }

    /// The extent, of all but sources of copies on other nodes.
    pub fn opened(&self) -> &Opened {
        match &self.place {
            Place::Here(opened) => opened,
            Place::Elsewhere(_) => unreachable!("bytes of another node are fetched"),
        }
    }

    /// The bytes that a copy writes, for who goes on with it when this is gone.
    pub fn target(&self) -> Reached {
        Reached::new(self.opened(), &self.shape, self.writing.as_ref())
    }

    /// Whether its stages have their pages brought home first.
    pub fn is_by_pages(&self) -> bool {
        matches!(&self.place, Place::Here(opened) if opened.is_by_pages())
    }

    /// Where hosts are about to map the extent, the rest is done by pages. Queues' memory is reached as it is, or not at all.
    pub fn give_way(&mut self, extents: &Extents) {
        if let Place::Here(opened) = &mut self.place
            && self.writing.is_some()
            && !matches!(self.op, Op::Append { .. })
            && opened.give_way(extents)
        {
            self.writing = None;
        }
    }

    /// Bytes of the stream that are one thing to the operation: no stage ends inside.
    fn unit(&self) -> u64 {
        match self.op {
            Op::Fill { pattern_len } => u64::from(pattern_len),
            Op::Digest => PAGE_LEN,
            op => op.element().map_or(1, |element| element.len()),
        }
    }

    /// The pages of the next stage, of at most `most` bytes of the stream, where it is reached by pages. It is done by
    /// [`Work::take_by_pages`] or [`Work::step_by_pages`] when they are at home.
    pub fn need(&mut self, most: u64) -> Need {
        let access = if self.op.writes() { Access::Write } else { Access::Read };
        let at = if self.op.streams_operand() { self.taken / self.op.operand_factor() } else { self.done };
        let (len, need) = super::reach::need(self.opened(), &self.shape, (at, most.min(self.len() - at), self.unit()), access);
        self.asked = len;
        need
    }

    /// Whether bytes of its operand wait for pages: where hosts map the extent, and the bytes are done as they come.
    pub fn waits_with_operand(&self) -> bool {
        self.op.streams_operand() && self.is_by_pages()
    }

    /// Keeps the last bytes of its operand, until their pages are at home.
    pub fn keep_rest(&mut self, bytes: &[u8]) {
        self.rest = bytes.to_vec();
    }

    /// As [`Work::need`], for a stage of what is left; what it asks for is done by [`Work::step_by_pages`].
    pub fn next_need(&mut self, most: u64) -> Need {
        let most = if self.rest.is_empty() { most } else { self.rest.len() as u64 / self.op.operand_factor() };
        self.need(most)
    }

    /// Does the stage of what is left whose pages are at home.
    pub fn step_by_pages(&mut self) -> Result<(), Lost> {
        if self.rest.is_empty() {
            let len = std::mem::take(&mut self.asked);
            if self.op != Op::Get {
                self.stage(self.done, len, Window::empty())?;
            }
            self.done += len;
        } else {
            let rest = std::mem::take(&mut self.rest);
            // SAFETY: the bytes are borrowed for this call, and only read.
            let done = self.take_by_pages(unsafe { Window::of(&rest) })?;
            self.rest = rest[done..].to_vec();
        }
        self.conclude();
        Ok(())
    }

    /// Takes in as much of an operand as the stage has whose pages are at home; says how many bytes that is.
    pub fn take_by_pages(&mut self, bytes: Window) -> Result<usize, Lost> {
        let len = (std::mem::take(&mut self.asked) * self.op.operand_factor()) as usize;
        self.take(bytes.slice(0, len))?;
        Ok(len)
    }

    /// The source's node's address.
    pub fn address(&self) -> Option<&str> {
        std::str::from_utf8(self.exec.held()).ok()
    }

    /// Where an append's operand is received without passing a stage, which it need not, because it is held until it is whole.
    pub fn held_place(&mut self) -> Option<Window> {
        let is_fresh = matches!(self.op, Op::Append { .. }) && self.taken == 0;
        is_fresh.then(|| self.exec.hold_place(self.operand_len() as usize))
    }

    /// Takes in the next bytes of the operand.
    pub fn take(&mut self, bytes: Window) -> Result<(), Lost> {
        let factor = self.op.operand_factor();
        let (at, len) = (self.taken / factor, bytes.len() as u64 / factor);
        self.taken += bytes.len() as u64;
        if self.op.streams_operand() { self.stage(at, len, bytes) } else { self.exec.hold(bytes) }
    }

    /// Does `len` bytes of the stream.
    fn stage(&mut self, at: u64, len: u64, operand: Window) -> Result<(), Lost> {
        let olds = if self.op.gives_old() { self.olds(len) } else { Window::empty() };
        let held = self.opened().held().clone();
        if self.op.writes() {
            held.will_write(super::reach::runs(&self.shape, at, len));
        }
        let reach = held.reach();
        let stage = Stage { memory: reach.window(), shape: &self.shape, at, len, stream_at: at };
        self.exec.stage(stage, operand, olds)
    }

    /// Room for the next old values.
    fn olds(&mut self, len: u64) -> Window {
        let old = self.result.len();
        self.result.resize(old + len as usize, 0);
        // SAFETY: the result is not touched until the stage that gets the window has ended.
        unsafe { Window::of_mut(&mut self.result) }.slice(old, len as usize)
    }

    /// Whether the whole message must be here before it is done, and it is not done yet. Of a get the pages are to come home.
    pub fn is_left(&self) -> bool {
        let is_later = match self.op {
            _ if !self.rest.is_empty() => return true,
            Op::Get => self.is_by_pages(),
            Op::CopyFrom { .. } | Op::Fill { .. } | Op::Reduce(_) | Op::Digest | Op::Append { .. } => true,
            Op::Update(update) | Op::Fetch(update) => update.is_same,
            _ => false,
        };
        is_later && self.done < self.len()
    }

    /// Notes that a copy was made.
    pub fn finish(&mut self) {
        self.done = self.len();
    }

    /// Does a stage of what is left: at most `most` bytes of the stream. Copies have their own way.
    ///
    /// **Errors**: [`Error::System`] for memory that is gone; those of [`crate::held::Held::append`].
    pub fn step(&mut self, most: u64) -> Result<()> {
        if let Op::Append { lane } = self.op {
            self.result = self.opened().held().append(self.shape.block_offset(0), lane, self.exec.held())?.to_vec();
            self.finish();
            self.conclude();
            return Ok(());
        }
        // Stages begin where patterns do, or elements.
        let unit = self.unit();
        let len = (most - most % unit).max(unit).min(self.len() - self.done);
        self.stage(self.done, len, Window::empty()).map_err(|lost| lost_memory(&lost))?;
        self.done += len;
        self.conclude();
        Ok(())
    }

    /// Whether the result is in `result`, not in the extent.
    pub fn holds_result(&self) -> bool {
        self.op != Op::Get
    }

    /// Once nothing is left, fills in the result that only the whole stream gives, and lets others at the extent: what is only
    /// to be told does not keep them from it.
    pub fn conclude(&mut self) {
        if self.is_left() {
            return;
        }
        if let Some(told) = self.exec.told() {
            self.result = told;
        }
        if self.op != Op::CopyTo {
            self.writing = None;
        }
    }
}
