//! The answer that is being made. The rest of its commands is done a stage at a time, and it gives the next bytes of its results.

use super::command::AdmittedCommand;
use super::memory::{CommandExtent, CommandMemory, Execution, StageBytes};
use super::stage_pages::{runs, stage_pages};
use crate::memory::Need;
use hanare_protocol::limits::{PAGE_LEN, STAGE_LEN};
use hanare_protocol::page::Access;
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::{Error, Result};
use std::time::Duration;

/// Answers of up to this many bytes are gathered into one buffer, whatever their parts.
const SMALL_LEN: u64 = 1 << 10;

/// Bytes copied, filled or looked at before others get their turn, and blocks. Each block may be a line of memory of its own.
#[derive(Clone, Copy)]
struct StageLimit {
    len: u64,
    blocks: u64,
}

/// Among programs of one user: some 100 us.
const ALONE: StageLimit = StageLimit { len: 1 << 20, blocks: 8192 };

/// While several users want turns: some 10 us, as short as the request of a program that waits for its turn.
const SHARED: StageLimit = StageLimit { len: 64 << 10, blocks: 1024 };

/// Blocks of at least this many bytes leave from where they lie.
const DIRECT_BLOCK_MIN: u64 = 1024;

/// Most windows given to a link at once.
const WINDOWS_AT_ONCE: u64 = 256;

/// The answer that is being made.
pub(super) struct Current<M: CommandMemory> {
    pub seq: u64,
    pub commands: Vec<AdmittedCommand<M>>,
    /// The command that comes next, and its byte that comes next.
    index: usize,
    at: u64,
    /// Fetches from other nodes under way.
    pub fetching: usize,
    /// Pages that are being brought home, and what for.
    pages: StagePages,
    pub failed: Option<Error>,
    /// True if no client waits for it at present.
    pub may_wait: bool,
    /// The head has left.
    pub is_begun: bool,
    /// When the client last heard of it.
    pub heard: Duration,
}

/// Reason that a reply waits for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StagePages {
    Nothing,
    /// A stage of the first command that is left.
    Stage,
    /// The bytes of a copy up to there: to be read, and then to be written.
    Source {
        end: u64,
    },
    Target {
        end: u64,
    },
}

/// The next step of the commands that are left.
pub(super) enum Step {
    Nothing,
    Done(Result<()>),
    Waits(Need),
}

/// The next bytes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The command whose result they are, among those of the answer.
    pub index: usize,
    /// The first of them, and how many.
    pub at: u64,
    /// See `at`.
    pub len: u64,
    /// True if they leave from their extent, and not through a buffer.
    pub is_direct: bool,
}

/// Bytes given to a link at once: windows, or bytes gathered in a buffer of [`STAGE_LEN`]. The two never mix.
pub(super) struct Filling {
    /// Bytes of the whole answer.
    pub total: u64,
    windows: u64,
    /// Bytes that still may leave from where they lie.
    direct_left: u64,
    gathered: u64,
    most: u64,
    is_shared: bool,
}

/// Bytes of a command's stream that are done before others get their turn.
pub(super) fn at_once(command: &AdmittedCommand<impl CommandMemory>, is_shared: bool) -> u64 {
    let most = if is_shared { SHARED } else { ALONE };
    most.blocks.saturating_mul(command.shape.shape().block().max(1)).min(most.len)
}

/// Bytes that a link takes at once from where they lie, or there.
pub(super) fn direct_at_once(is_shared: bool) -> u64 {
    if is_shared { SHARED.len } else { u64::MAX }
}

/// Bytes in a row that can leave from where they lie.
fn direct_len(command: &AdmittedCommand<impl CommandMemory>) -> u64 {
    if command.holds_result() {
        return command.result_len();
    }
    match (command.extent().stays(), command.shape.range()) {
        (false, _) => 0,
        (true, Some((_, len))) => len,
        (true, None) => command.shape.shape().block(),
    }
}

impl<M: CommandMemory> Current<M> {
    pub fn new(now: Duration, (seq, may_wait): (u64, bool), commands: Vec<AdmittedCommand<M>>, fetching: usize) -> Current<M> {
        Current {
            seq,
            commands,
            index: 0,
            at: 0,
            fetching,
            pages: StagePages::Nothing,
            failed: None,
            may_wait,
            is_begun: false,
            heard: now,
        }
    }

    /// Returns true for an append alone: its answer is short, and the node's to keep.
    pub fn is_append(&self) -> bool {
        matches!(&self.commands[..], [only] if only.is_append())
    }

    /// Returns true for one command of few bytes, behind one that was done as its bytes came or alone. Its answer may follow in the same
    /// turn.
    pub fn is_short(&self) -> bool {
        let is_few = |last: &AdmittedCommand<M>| last.stream_len() <= PAGE_LEN;
        matches!(&self.commands[..], [last] | [AdmittedCommand { op: Op::Put, .. }, last] if is_few(last))
    }

    pub fn is_at_end(&self) -> bool {
        self.index >= self.commands.len()
    }

    /// Returns true while it waits for bytes of another node, or for pages.
    pub fn waits(&self) -> bool {
        self.fetching > 0 || self.pages != StagePages::Nothing
    }

    /// Bytes of all its results.
    fn result_len(&self) -> u64 {
        self.commands.iter().map(AdmittedCommand::result_len).sum()
    }

    /// Does a stage of the first command that is left, or says what pages it needs.
    pub fn step(&mut self, is_shared: bool) -> Step {
        let Some(index) = self.commands.iter().position(AdmittedCommand::is_left) else { return Step::Nothing };
        let command = &mut self.commands[index];
        let most = at_once(command, is_shared);
        if matches!(command.op, Op::CopyFrom { .. }) {
            let end = (self.at + most).min(command.stream_len());
            return self.copy_some(index, end);
        }
        if !command.is_by_pages() {
            return Step::Done(command.step(most));
        }
        self.pages = StagePages::Stage;
        Step::Waits(command.next_need(most))
    }

    /// Goes on with what waited for pages, which are at home.
    pub fn recalled(&mut self) -> Step {
        let pages = self.end_wait();
        let Some(index) = self.commands.iter().position(AdmittedCommand::is_left) else { return Step::Nothing };
        match pages {
            StagePages::Nothing => Step::Nothing,
            StagePages::Stage => Step::Done(self.commands[index].step_by_pages()),
            StagePages::Source { end } => self.copy_to(index, end),
            StagePages::Target { end } => Step::Done(self.copy_now(index, end)),
        }
    }

    /// The write that it waits for, where the stage's extent has copies.
    ///
    /// **Errors**: memory of the source of a copy went away.
    pub fn write(&self) -> Result<Option<ExtentWrite>> {
        let Some(index) = self.commands.iter().position(AdmittedCommand::is_left) else { return Ok(None) };
        match self.pages {
            StagePages::Stage if self.commands[index].has_copies() => Ok(Some(self.commands[index].write_of_rest())),
            StagePages::Target { end } if self.commands[index + 1].has_copies() => {
                let (from, to) = (&self.commands[index], &self.commands[index + 1]);
                let (at, len) = (self.at, end - self.at);
                let operand = M::Execution::read(from.extent(), StageBytes { shape: &from.shape, at, len })?;
                Ok(Some(ExtentWrite { once: to.once(at), ..ExtentWrite::put(runs(&to.shape, at, len).collect(), operand) }))
            }
            _ => Ok(None),
        }
    }

    /// All copies and the home have done the stage that it waits for.
    pub fn set_applied(&mut self, olds: Vec<u8>) {
        let Some(index) = self.commands.iter().position(AdmittedCommand::is_left) else { return };
        match self.pages {
            StagePages::Stage => self.commands[index].set_applied(olds),
            StagePages::Target { .. } => self.commands[index + 1].set_applied(olds),
            StagePages::Nothing | StagePages::Source { .. } => {}
        }
    }

    /// An append has its outcome.
    pub fn applied(&mut self, outcome: Result<Vec<u8>>) -> Result<()> {
        self.end_wait();
        self.commands[0].set_applied(outcome?);
        self.commands[0].step_by_pages()
    }

    /// Ends its wait for pages.
    fn end_wait(&mut self) -> StagePages {
        std::mem::replace(&mut self.pages, StagePages::Nothing)
    }

    /// Pages that it waits for will not come.
    pub fn fail_wait(&mut self, error: Error) {
        self.end_wait();
        self.failed = Some(error);
    }

    /// Copies the next bytes, at most up to `end`. Those that are read come home first, then those that are written.
    fn copy_some(&mut self, index: usize, end: u64) -> Step {
        let from = &self.commands[index];
        if !from.is_by_pages() {
            return self.copy_to(index, end);
        }
        let (len, need) = stage_pages(from.extent(), &from.shape, (self.at, end - self.at, 1), Access::Read);
        self.pages = StagePages::Source { end: self.at + len };
        Step::Waits(need)
    }

    fn copy_to(&mut self, index: usize, end: u64) -> Step {
        let to = &self.commands[index + 1];
        if !to.is_by_pages() {
            return Step::Done(self.copy_now(index, end));
        }
        let (len, need) = stage_pages(to.extent(), &to.shape, (self.at, end - self.at, 1), Access::Write);
        self.pages = StagePages::Target { end: self.at + len };
        Step::Waits(need)
    }

    fn copy_now(&mut self, index: usize, end: u64) -> Result<()> {
        let is_applied = self.commands[index + 1].take_applied();
        let (from, to) = (&self.commands[index], &self.commands[index + 1]);
        let copied = match is_applied {
            true => Ok(()),
            false => M::Execution::copy((from.extent(), &from.shape), (to.extent(), &to.shape), self.at..end),
        };
        self.at = end;
        if end == self.commands[index].stream_len() {
            self.commands[index].finish();
            self.at = 0;
        }
        copied
    }

    /// The next bytes of the results that are given to the link at once. `None` when there are no more for this time.
    pub fn next_part(&mut self, filling: &mut Filling) -> Option<Part> {
        if filling.windows >= WINDOWS_AT_ONCE || filling.direct_left == 0 {
            return None;
        }
        let command = self.commands.get(self.index)?;
        let left = command.result_len() - self.at;
        let is_direct = filling.total > SMALL_LEN && direct_len(command) >= DIRECT_BLOCK_MIN;
        let len = if is_direct {
            if filling.gathered > 0 {
                return None;
            }
            let block = command.shape.shape().block();
            let len = if command.holds_result() || command.shape.range().is_some() {
                filling.windows += 1;
                left.min(filling.direct_left)
            } else {
                let room = (filling.direct_left / block).max(1);
                let count = (WINDOWS_AT_ONCE - filling.windows).min(left / block).min(room);
                filling.windows += count;
                count * block
            };
            filling.direct_left = filling.direct_left.saturating_sub(len);
            len
        } else {
            if filling.windows > 0 || filling.gathered >= filling.most {
                return None;
            }
            filling.most = filling.most.min(filling.gathered + at_once(command, filling.is_shared));
            let len = left.min(filling.most - filling.gathered);
            filling.gathered += len;
            len
        };
        let part = Part { index: self.index, at: self.at, len, is_direct };
        self.at += len;
        self.pass_done();
        Some(part)
    }

    /// Begins to give the next bytes of the results.
    pub fn begin_parts(&mut self, is_shared: bool) -> Filling {
        self.pass_done();
        let direct_left = direct_at_once(is_shared);
        Filling { total: self.result_len(), windows: 0, direct_left, gathered: 0, most: STAGE_LEN as u64, is_shared }
    }

    /// Goes to the first command whose result has not left.
    fn pass_done(&mut self) {
        while self.commands.get(self.index).is_some_and(|command| self.at == command.result_len()) {
            (self.index, self.at) = (self.index + 1, 0);
        }
    }
}
