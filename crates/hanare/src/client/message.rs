//! A message's commands: the bytes to send, and windows for the reply's bytes.

use crate::client::cut::plan;
use hanare_memory::{Window, fault};
use hanare_protocol::limits;
use hanare_protocol::page::Access;
use hanare_protocol::shape::{Indices, Shape, Strided};
use hanare_protocol::wire::command::{COMMAND_LEN, Command, Form, Op, dims_list, index_bytes};
use std::borrow::Cow;
use zerocopy::IntoBytes;

/// The commands, with windows of their memory. Reused, so that the hot path allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct CommandMessage {
    /// The encoded commands.
    front: Vec<u8>,
    count: u32,
    /// The commands' lists, in order.
    lists: Vec<Window>,
    list_len: u64,
    /// Bytes to send, in command order.
    operands: Vec<Window>,
    operand_len: u64,
    /// Bytes that the node holds until the message is whole.
    held_len: u64,
    /// Windows for the reply's bytes, in command order.
    results: Vec<Window>,
    result_len: u64,
    /// Memory of the message's own that its windows show.
    own: Vec<Own>,
    /// True if it must not be carried out twice.
    is_once: bool,
    /// True if another node than its receiver may have to be asked, which may refuse when all else is done.
    has_copy: bool,
    /// True if no caller waits for its reply at present.
    pub may_wait: bool,
    /// Its call, as a head's detail has it; 0 for none.
    pub call: u64,
}

/// A command's needs of a message, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    pub list_len: u64,
    /// Bytes of an operand that the node holds.
    pub held_len: u64,
    pub result_len: u64,
    /// True if it must not be done twice.
    pub is_once: bool,
    pub is_copy: bool,
}

/// A shape's list, as it goes into a message.
pub(crate) enum ListBytes {
    None,
    /// Words that are written out, as outer dimensions.
    Words(Vec<u8>),
    /// The message's own index lists.
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
    /// The caller's index list.
    Borrowed(Window),
}

impl ListBytes {
    /// Bytes of a shape that travel beside its command. A list that the shape borrows is borrowed on: it stays as it is until the message
    /// was answered.
    pub fn of(shape: Shape<'_>) -> ListBytes {
        match shape {
            Shape::Strided(_) => ListBytes::None,
            Shape::Subarray(shape) => ListBytes::Words(dims_list(&shape)),
            Shape::Indexed(shape) => match shape.indices {
                Indices::Narrow(Cow::Owned(list)) => ListBytes::Narrow(list),
                Indices::Wide(Cow::Owned(list)) => ListBytes::Wide(list),
                // SAFETY: the list is good until the request was waited for, as `Remote::post` says.
                borrowed => ListBytes::Borrowed(unsafe { Window::of(index_bytes(&borrowed)) }),
            },
        }
    }
}

/// Heap memory that stays where it is while its owner moves.
#[derive(Debug)]
#[expect(dead_code, reason = "it is held, and seen through windows alone")]
enum Own {
    Bytes(Vec<u8>),
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// Bytes before a command's list that tell its place in its call.
pub(super) const PLACE_LEN: u64 = 8;

/// Padding of an odd list of 32-bit indices.
static ZEROS: [u8; 4] = [0; 4];

impl CommandMessage {
    /// Empties the message for its next use; capacities stay.
    pub fn clear(&mut self) {
        self.front.clear();
        self.lists.clear();
        self.operands.clear();
        self.results.clear();
        self.own.clear();
        (self.count, self.list_len, self.operand_len, self.held_len, self.result_len) = (0, 0, 0, 0, 0);
        (self.is_once, self.has_copy, self.may_wait, self.call) = (false, false, false, 0);
    }

    /// True if a message has room for another command, or two, of such needs.
    pub fn has_room(&self, needs: Needs) -> bool {
        let lists_fit = needs.list_len == 0 || self.list_len + needs.list_len <= limits::LIST_LEN_MAX;
        let operands_fit = needs.held_len == 0 || self.held_len + needs.held_len <= limits::HELD_LEN_MAX;
        let results_fit = !self.is_once || self.result_len + needs.result_len <= limits::OLD_LEN_MAX;
        // A copy whose source refuses leaves the rest of its message done, and what was done may be done again.
        let may_repeat = !(self.is_once && needs.is_copy || self.has_copy && needs.is_once);
        self.count as usize + 2 <= limits::BATCH_COUNT_MAX && lists_fit && operands_fit && results_fit && may_repeat
    }

    /// Adds a get or put without a list. Where it goes on with the command before, that one becomes longer instead. Its call
    /// writes `written_before` bytes on the extent before it.
    pub fn push_plain(&mut self, command: &Command, written_before: u64, memory: Window) {
        if !self.join(command) {
            self.push_front(command, written_before);
        }
        match command.op {
            Op::Get => self.push_result(memory),
            _ => self.push_operand(memory),
        }
    }

    /// Makes the last command longer by one that goes on at its end: pieces of an interleaved region that lie side by side.
    fn join(&mut self, next: &Command) -> bool {
        let Some(last) = self.front.last_chunk::<COMMAND_LEN>() else { return false };
        let Ok(before) = Command::decode(last) else { return false };
        let strided = |command: &Command| {
            let Command { offset, block, count, stride, .. } = *command;
            Strided { offset, block, count, stride }
        };
        let is_alike = (before.op, before.slot, before.grant, before.form) == (next.op, next.slot, next.grant, Form::Strided);
        let Some(Strided { offset, block, count, stride }) =
            is_alike.then(|| plan::join(&strided(&before), &strided(next))).flatten()
        else {
            return false;
        };
        let at = self.front.len() - COMMAND_LEN;
        self.front[at..].copy_from_slice(&Command { offset, block, count, stride, ..before }.encode());
        true
    }

    /// Adds any command; see `Drafts::push`. Its call writes `written_before` bytes on the extent before it.
    pub fn push(
        &mut self,
        command: &Command,
        written_before: u64,
        list: ListBytes,
        operand: Window,
        result: Window,
        packed: Vec<u8>,
    ) {
        self.push_front(command, written_before);
        self.push_list(command.list_len().expect("lists go in pieces"), list);
        // SAFETY: the heap memory stays where it is while its owner moves, and the owner stays until the message is cleared.
        let operand = if operand.is_empty() { unsafe { Window::of(&packed) } } else { operand };
        self.push_operand(operand);
        self.held_len += if command.op.streams_operand() { 0 } else { operand.len() as u64 };
        self.push_result(result);
        if !packed.is_empty() {
            self.own.push(Own::Bytes(packed));
        }
    }

    fn push_front(&mut self, command: &Command, written_before: u64) {
        let goes_on = written_before > 0;
        self.front.extend_from_slice(&Command { goes_on, ..*command }.encode());
        if goes_on {
            self.push_list(PLACE_LEN, ListBytes::Words(written_before.to_le_bytes().to_vec()));
        }
        self.count += 1;
        self.is_once |= command.op.is_once();
        self.has_copy |= matches!(command.op, Op::CopyFrom { .. });
    }

    /// True if it must not be carried out twice.
    pub fn is_once(&self) -> bool {
        self.is_once
    }

    /// Number of commands.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes to send.
    pub fn len(&self) -> u64 {
        self.front.len() as u64 + self.list_len + self.operand_len
    }

    /// Adds windows of the bytes to send: the commands, their lists, their operands.
    pub fn show(&self, windows: &mut Vec<Window>) {
        // SAFETY: the commands stay in the message, which is not touched until its answer is here or the link is dropped.
        windows.push(unsafe { Window::of(&self.front) });
        windows.extend_from_slice(&self.lists);
        windows.extend_from_slice(&self.operands);
    }

    /// Windows for the reply's bytes.
    pub fn results(&self) -> &[Window] {
        &self.results
    }

    /// Bytes of the answer.
    pub fn result_len(&self) -> u64 {
        self.result_len
    }

    fn push_list(&mut self, len: u64, list: ListBytes) {
        // SAFETY: heap memory stays where it is while its owner moves, and `own` keeps it until the message is cleared.
        let heap = |bytes: &[u8]| unsafe { Window::of(bytes) };
        let (window, own) = match list {
            ListBytes::None => return,
            ListBytes::Borrowed(window) => (window, None),
            ListBytes::Words(bytes) => (heap(&bytes), Some(Own::Bytes(bytes))),
            ListBytes::Narrow(list) => (heap(list.as_bytes()), Some(Own::Narrow(list))),
            ListBytes::Wide(list) => (heap(list.as_bytes()), Some(Own::Wide(list))),
        };
        self.lists.push(window);
        if (window.len() as u64) < len {
            // SAFETY: a static that nobody writes.
            self.lists.push(unsafe { Window::of(&ZEROS) });
        }
        self.list_len += len;
        self.own.extend(own);
    }

    fn push_operand(&mut self, operand: Window) {
        fault::bring(operand, Access::Read);
        self.operand_len += operand.len() as u64;
        self.operands.push(operand);
    }

    fn push_result(&mut self, result: Window) {
        fault::bring(result, Access::Write);
        self.result_len += result.len() as u64;
        self.results.push(result);
    }
}
