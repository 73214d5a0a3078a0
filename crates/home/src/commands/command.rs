//! A command that was admitted, and what is still to be done of it.
//!
//! A stage on an extent that hosts map begins when its pages are at home ([`AdmittedCommand::need`]).

use super::memory::{CommandExtent, CommandMemory, Execution, StageBytes};
use super::stage_pages::{runs, stage_pages};
use crate::memory::Need;
use hanare_protocol::copies::Once;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::limits::{BODY_LEN_MAX, OLD_LEN_MAX, PAGE_LEN};
use hanare_protocol::page::Access;
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::copies::{ExtentCall, ExtentWrite};
use hanare_protocol::wire::queue::{QueueCall, QueueChange};
use hanare_protocol::{Error, Result};

/// Longest address of a node.
const ADDRESS_LEN_MAX: u32 = 512;

/// A command that was admitted.
pub struct AdmittedCommand<M: CommandMemory> {
    /// The operation.
    pub op: Op,
    /// The bytes of the extent, and their order.
    pub shape: Checked<'static>,
    /// The extent.
    pub location: Location<M::Extent>,
    /// The moves of its bytes.
    pub execution: M::Execution,
    /// Bytes of the operand that were taken in.
    taken: u64,
    /// Bytes of the stream that were done, of what is done after the whole message is here.
    done: u64,
    /// The last bytes of a streamed operand, where their pages were not at home when the message was whole.
    rest: Vec<u8>,
    /// Bytes of the stream that are done when the pages that are asked for are at home.
    asked: u64,
    /// The next stage is done, with these elements before it: its extent has copies.
    applied: Option<Vec<u8>>,
    /// The call that it is a part of, where that has a number: its first byte among those that the call writes on the extent.
    call: Option<Once>,
}

/// The home of a command's bytes.
#[derive(Clone, Debug)]
pub enum Location<E> {
    /// The own home.
    Here(E),
    /// Another one has the source of a copy.
    Elsewhere(Command),
}

impl<M: CommandMemory> AdmittedCommand<M> {
    /// Admits a command, if its grant allows it, its shape lies inside the extent, and its parts fit each other.
    pub fn admit(command: &Command, shape: Shape<'static>, memory: &M) -> Result<AdmittedCommand<M>> {
        AdmittedCommand::try_admit(command, shape, memory).inspect_err(|error| memory.refused(error))
    }

    fn try_admit(command: &Command, shape: Shape<'static>, memory: &M) -> Result<AdmittedCommand<M>> {
        let (location, shape) = match command.op {
            Op::CopyFrom { address_len: 1..=ADDRESS_LEN_MAX } => {
                (Location::Elsewhere(*command), shape.check("of another node", u64::MAX)?)
            }
            _ => {
                let (extent, shape) = memory.admit(command, shape)?;
                (Location::Here(extent), shape)
            }
        };
        let (op, execution) = (command.op, memory.begin(command.op, shape.len()));
        let command = AdmittedCommand {
            op,
            shape,
            location,
            execution,
            taken: 0,
            done: 0,
            rest: Vec::new(),
            asked: 0,
            applied: None,
            call: None,
        };
        command.check()?;
        Ok(command)
    }

    fn check(&self) -> Result<()> {
        let (len, name) = (self.shape.len(), "of a peer");
        let refuse = |reason: &str| Err(self.shape.refused(name, reason));
        if self.op.operand_len(len).is_none() {
            return refuse("an operand beyond 64 bits");
        }
        match self.op {
            // Queues are reached as they are, or not at all.
            Op::Append { .. } if self.is_by_pages() && !self.has_copies() => Err(Error::IsMapped { gid: self.extent().gid() }),
            Op::CopyFrom { address_len } if address_len > ADDRESS_LEN_MAX => refuse("an address beyond the limit"),
            Op::CopyFrom { address_len: 1.. } if len > BODY_LEN_MAX => {
                refuse("more bytes than another node gives in one message")
            }
            _ if self.op.keeps_result() && self.op.result_len(len) > OLD_LEN_MAX => refuse("a longer result than a node holds"),
            op => op.check(name, &self.shape),
        }
    }

    /// Returns true for the source of a copy on another node.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.location, Location::Elsewhere(_))
    }

    /// Bytes of the stream.
    pub fn stream_len(&self) -> u64 {
        self.shape.len()
    }

    /// Bytes of the operand.
    pub fn operand_len(&self) -> u64 {
        self.op.operand_len(self.stream_len()).expect("`check` refuses more than 64 bits of it")
    }

    /// Bytes of the result.
    pub fn result_len(&self) -> u64 {
        self.op.result_len(self.stream_len())
    }

    /// The extent, of all but sources of copies on other nodes.
    pub fn extent(&self) -> &M::Extent {
        match &self.location {
            Location::Here(extent) => extent,
            Location::Elsewhere(_) => unreachable!("bytes of another node are fetched"),
        }
    }

    /// Returns true where its stages have their pages brought home first.
    pub fn is_by_pages(&self) -> bool {
        matches!(&self.location, Location::Here(extent) if extent.is_by_pages())
    }

    /// Does the rest by pages if hosts are about to map the extent. Queues' memory has direct access or none.
    pub fn give_way(&mut self, memory: &M) {
        if let Location::Here(extent) = &mut self.location
            && !matches!(self.op, Op::Append { .. })
        {
            memory.give_way(extent);
        }
    }

    /// Bytes of the stream that are one thing to the operation: no stage ends inside.
    fn unit(&self) -> u64 {
        match self.op {
            // Copies get the bytes, not the pattern.
            Op::Fill { .. } if self.has_copies() => 1,
            Op::Fill { pattern_len } => u64::from(pattern_len),
            Op::Digest => PAGE_LEN,
            op => op.element().map_or(1, |element| element.len()),
        }
    }

    /// The pages of the next stage, of at most `most` bytes of the stream, where it is reached by pages. It is done by
    /// [`AdmittedCommand::take_by_pages`] or [`AdmittedCommand::step_by_pages`] when they are at home.
    pub fn need(&mut self, most: u64) -> Need {
        let access = if self.op.writes() { Access::Write } else { Access::Read };
        let at = if self.op.streams_operand() { self.taken / self.op.operand_factor() } else { self.done };
        let most = most.min(self.stream_len() - at);
        let (len, need) = stage_pages(self.extent(), &self.shape, (at, most, self.unit()), access);
        self.asked = len;
        need
    }

    /// Returns true where its stages go to copies first.
    pub fn has_copies(&self) -> bool {
        self.op.writes() && matches!(&self.location, Location::Here(extent) if extent.has_copies())
    }

    /// The extent whose copies have its stages first.
    pub fn copied_extent(&self) -> Option<(Gid, Slot)> {
        self.has_copies().then(|| (self.extent().gid(), self.extent().slot()))
    }

    /// The write of the stage that [`AdmittedCommand::need`] has asked for, of an operand whose next bytes these are.
    pub fn write_of(&self, bytes: &[u8]) -> ExtentWrite {
        let factor = self.op.operand_factor();
        let operand = bytes[..(self.asked * factor) as usize].to_vec();
        let at = self.taken / factor;
        ExtentWrite { op: self.op, ranges: self.ranges(at), operand, once: self.once(at), call: None }
    }

    /// The same of what is left.
    pub fn write_of_rest(&self) -> ExtentWrite {
        let held = self.execution.held();
        match self.op {
            _ if !self.rest.is_empty() => self.write_of(&self.rest),
            Op::Fill { .. } => {
                let phase = self.done as usize % held.len().max(1);
                let operand = held.iter().copied().cycle().skip(phase).take(self.asked as usize).collect();
                ExtentWrite { once: self.once(self.done), ..ExtentWrite::put(self.ranges(self.done), operand) }
            }
            Op::Append { lane } => {
                let what = QueueChange::Append { lane, operand: held.to_vec() };
                ExtentWrite::call(ExtentCall::Queue(QueueCall { offset: self.shape.block_offset(0), what }))
            }
            op => {
                ExtentWrite { op, ranges: self.ranges(self.done), operand: held.to_vec(), once: self.once(self.done), call: None }
            }
        }
    }

    /// The part of its call that begins at that byte of its stream.
    pub fn once(&self, at: u64) -> Option<Once> {
        self.call.map(|first| first.behind(at))
    }

    /// Returns true if it is a part of a call that was sent before.
    pub fn is_repeat(&self) -> bool {
        self.call.is_some_and(|first| first.call.is_repeat)
    }

    /// Makes it a part of a call, if it writes.
    pub fn set_call(&mut self, first: Option<Once>) {
        self.call = first.filter(|_| self.op.writes());
    }

    /// The ranges of the stage that is asked for, from that byte of the stream on.
    fn ranges(&self, at: u64) -> Vec<(u64, u64)> {
        runs(&self.shape, at, self.asked).collect()
    }

    /// All copies and the home have done the stage that is asked for.
    pub fn set_applied(&mut self, olds: Vec<u8>) {
        self.applied = Some(olds);
    }

    /// Returns true for an append to a queue.
    pub fn is_append(&self) -> bool {
        matches!(self.op, Op::Append { .. })
    }

    /// Returns true once where the stage that comes next was done.
    pub fn take_applied(&mut self) -> bool {
        self.applied.take().is_some()
    }

    /// Returns true if bytes of its operand wait for pages. Hosts map the extent, and the bytes are done as they come.
    pub fn waits_with_operand(&self) -> bool {
        self.op.streams_operand() && self.is_by_pages()
    }

    /// Keeps the last bytes of its operand, until their pages are at home.
    pub fn keep_rest(&mut self, bytes: &[u8]) {
        self.rest = bytes.to_vec();
    }

    /// [`AdmittedCommand::need`] for a stage of the rest; [`AdmittedCommand::step_by_pages`] does it.
    pub fn next_need(&mut self, most: u64) -> Need {
        if self.is_append() {
            // An append is one call.
            self.asked = self.stream_len();
            return Need { gid: self.extent().gid(), slot: self.extent().slot(), access: Access::Write, pages: Vec::new() };
        }
        let most = if self.rest.is_empty() { most } else { self.rest.len() as u64 / self.op.operand_factor() };
        self.need(most)
    }

    /// Does the stage of what is left whose pages are at home.
    pub fn step_by_pages(&mut self) -> Result<()> {
        if self.rest.is_empty() {
            let len = std::mem::take(&mut self.asked);
            if self.op != Op::Get {
                self.stage(self.done, len, &[])?;
            }
            self.done += len;
        } else {
            let rest = std::mem::take(&mut self.rest);
            let done = self.take_by_pages(&rest)?;
            self.rest = rest[done..].to_vec();
        }
        self.conclude();
        Ok(())
    }

    /// Takes in as much of an operand as the stage has whose pages are at home. Returns how many bytes that is.
    pub fn take_by_pages(&mut self, bytes: &[u8]) -> Result<usize> {
        let len = (std::mem::take(&mut self.asked) * self.op.operand_factor()) as usize;
        self.take(&bytes[..len])?;
        Ok(len)
    }

    /// Bytes of the operand that have not come.
    pub fn operand_left(&self) -> u64 {
        self.operand_len() - self.taken
    }

    /// Bytes of the operand that were taken in.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Counts bytes of the operand as taken in, which go where they belong without passing a stage.
    pub fn take_in_place(&mut self, len: u64) {
        self.taken += len;
    }

    /// The last bytes that were counted by [`AdmittedCommand::take_in_place`] have not come, and go another way.
    pub fn take_back(&mut self, len: u64) {
        self.taken -= len;
    }

    /// Takes in the next bytes of the operand.
    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let factor = self.op.operand_factor();
        let (at, len) = (self.taken / factor, bytes.len() as u64 / factor);
        self.taken += bytes.len() as u64;
        if self.op.streams_operand() { self.stage(at, len, bytes) } else { self.execution.hold(bytes) }
    }

    /// Does `len` bytes of the stream.
    fn stage(&mut self, at: u64, len: u64, operand: &[u8]) -> Result<()> {
        if let Some(olds) = self.applied.take() {
            self.execution.keep_olds(&olds);
            return Ok(());
        }
        let Location::Here(extent) = &self.location else { unreachable!("bytes of another node are fetched") };
        self.execution.stage(extent, StageBytes { shape: &self.shape, at, len }, operand)
    }

    /// Returns true where the whole message must be here before it is done, and it is not done yet. Of a get the pages are to come home.
    pub fn is_left(&self) -> bool {
        let is_later = match self.op {
            _ if !self.rest.is_empty() => return true,
            Op::Get => self.is_by_pages(),
            Op::CopyFrom { .. } | Op::Fill { .. } | Op::Reduce(_) | Op::Digest | Op::Append { .. } => true,
            Op::Update(update) | Op::Fetch(update) => update.is_same,
            _ => false,
        };
        is_later && self.done < self.stream_len()
    }

    /// Notes that a copy was made.
    pub fn finish(&mut self) {
        self.done = self.stream_len();
    }

    /// Does a stage of what is left: at most `most` bytes of the stream. Copies have their own way.
    pub fn step(&mut self, most: u64) -> Result<()> {
        if let Op::Append { lane } = self.op {
            let Location::Here(extent) = &self.location else { unreachable!("an append is to this home") };
            self.execution.append(extent, self.shape.block_offset(0), lane)?;
            self.finish();
            self.conclude();
            return Ok(());
        }
        // Stages begin where patterns do, or elements.
        let unit = self.unit();
        let len = (most - most % unit).max(unit).min(self.stream_len() - self.done);
        self.stage(self.done, len, &[])?;
        self.done += len;
        self.conclude();
        Ok(())
    }

    /// Returns true where the result is the execution's, and not in the extent.
    pub fn holds_result(&self) -> bool {
        self.op != Op::Get
    }

    /// Once nothing is left, completes the result, and lets hosts map the extent. A copy's target waits for the copy.
    pub fn conclude(&mut self) {
        if self.is_left() {
            return;
        }
        self.execution.conclude();
        if let Location::Here(extent) = &mut self.location
            && self.op != Op::CopyTo
        {
            extent.let_go();
        }
    }
}
