//! A request of commands, written into a context's room: no allocation, and no more than fits.
//!
//! ```text
//! message room:   commands, 64 bytes each | lists of indices          operands room:   changed bytes, seeds of digests
//! ```
//!
//! A diff's runs become puts; a row of equal runs at equal distances becomes one. If the runs are so short that one put of single bytes
//! by index is smaller on the wire, it is that: never more than 64 + 5 bytes for each changed byte. Pages whose digests are asked for are
//! indices of one command for each extent.

use super::answer::{Why, expect};
use crate::client::shared::endpoint::{Broken, Endpoint};
use hanare_memory::diff::{Diff, PageBytes};
use hanare_protocol::wire::command::{COMMAND_LEN, Command, Form};
use hanare_protocol::wire::head::{Head, Kind};
use std::ops::Range;

/// Bytes of an index.
const INDEX_LEN: usize = 4;

/// Most commands: a quarter of the room.
const COMMANDS_LEN_MAX: usize = 512 * COMMAND_LEN;

/// A request that is being written.
pub(super) struct ContextMessage<'a> {
    room: &'a mut [u8],
    operands: &'a mut [u8],
    /// The command that may still grow.
    last: Option<Command>,
    count: u32,
    /// Bytes of lists, behind [`COMMANDS_LEN_MAX`].
    list_len: usize,
    operand_len: usize,
}

impl ContextMessage<'_> {
    pub fn new<'a>(room: &'a mut [u8], operands: &'a mut [u8]) -> ContextMessage<'a> {
        ContextMessage { room, operands, last: None, count: 0, list_len: 0, operand_len: 0 }
    }

    /// Number of commands.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of all commands.
    pub fn commands_len(&self) -> usize {
        self.count as usize * COMMAND_LEN
    }

    /// Bytes that it changes.
    pub fn changed_len(&self) -> u64 {
        self.operand_len as u64
    }

    /// Adds a get, or lets the last one grow by it; says whether there was room.
    pub fn get(&mut self, command: Command) -> bool {
        if let Some(last) = &mut self.last
            && (last.slot, last.node, last.offset + last.block) == (command.slot, command.node, command.offset)
        {
            last.block += command.block;
            last.stride = last.block;
            self.rewrite();
            return true;
        }
        self.add(command)
    }

    /// Adds a block to the last command, where that names blocks by index as `command` does; else `command`, with the block alone, at whose
    /// offset it begins, and `operand`. Says whether there was room.
    pub fn list(&mut self, command: Command, operand: &[u8]) -> bool {
        let index = self.last.as_ref().and_then(|last| index_in(last, &command));
        if index.is_none() {
            self.list_len = self.list_len.next_multiple_of(8);
        }
        let at = COMMANDS_LEN_MAX + self.list_len;
        let end = (at + INDEX_LEN).next_multiple_of(8);
        let fits = self.room.len() >= end && self.operands.len() - self.operand_len >= operand.len();
        if !fits || index.is_none() && !self.add(Command { form: Form::Narrow, count: 0, ..command }) {
            return false;
        }
        if index.is_none() {
            self.operand(operand);
        }
        if let Some(last) = &mut self.last {
            last.count += 1;
        }
        self.rewrite();
        // Padding of the list is zero.
        self.room[at..end].fill(0);
        self.room[at..at + INDEX_LEN].copy_from_slice(&index.unwrap_or(0).to_le_bytes());
        self.list_len += INDEX_LEN;
        true
    }

    /// Adds what was changed of a page from byte `from` on, within a range of it that begins where `command` does. Returns the
    /// byte up to which it did: the range's end, or before it when the room is full.
    pub fn put(&mut self, command: Command, diff: &Diff, page: &PageBytes, range: &Range<usize>, from: usize) -> usize {
        let runs = || diff.runs().map(|(start, len)| start.max(from)..(start + len).min(range.end)).filter(|run| !run.is_empty());
        let changed = runs().map(|run| run.len()).sum::<usize>();
        if row_count(runs()) * COMMAND_LEN > COMMAND_LEN + changed * INDEX_LEN {
            let bytes = runs().flatten();
            return if self.scattered(command, changed, bytes, page, range) { range.end } else { from };
        }
        self.in_rows(command, runs(), page, range)
    }

    /// Adds a put for each run, or rows of them. A frame of its own on the small stack.
    #[inline(never)]
    fn in_rows(
        &mut self,
        command: Command,
        runs: impl Iterator<Item = Range<usize>>,
        page: &PageBytes,
        range: &Range<usize>,
    ) -> usize {
        for run in runs {
            let offset = command.offset + (run.start - range.start) as u64;
            let len = run.len() as u64;
            let put = Command { offset, block: len, stride: len, ..command };
            if self.operands.len() - self.operand_len < run.len() || !(self.extend(&put) || self.add(put)) {
                return run.start;
            }
            self.operand(&page[run]);
        }
        range.end
    }

    /// Adds one put of single bytes. A frame of its own, too.
    #[inline(never)]
    fn scattered(
        &mut self,
        command: Command,
        count: usize,
        bytes: impl Iterator<Item = usize>,
        page: &PageBytes,
        range: &Range<usize>,
    ) -> bool {
        let list_len = (count * INDEX_LEN).next_multiple_of(8);
        let at = COMMANDS_LEN_MAX + self.list_len;
        let fits = self.room.len() - at >= list_len && self.operands.len() - self.operand_len >= count;
        if !fits || !self.add(Command { form: Form::Narrow, block: 1, count: count as u64, stride: 1, ..command }) {
            return false;
        }
        // Padding of the list is zero.
        self.room[at + list_len - INDEX_LEN..at + list_len].fill(0);
        let indices = self.room[at..at + list_len].as_chunks_mut::<INDEX_LEN>().0;
        let operands = &mut self.operands[self.operand_len..];
        for ((index, operand), byte) in indices.iter_mut().zip(operands).zip(bytes) {
            *index = ((byte - range.start) as u32).to_le_bytes();
            *operand = page[byte];
        }
        self.last = None;
        self.list_len += list_len;
        self.operand_len += count;
        true
    }

    /// Lets the last put grow by one that has as many bytes, as far behind it as its blocks are from each other.
    fn extend(&mut self, put: &Command) -> bool {
        let Some(last) = &mut self.last else { return false };
        let is_same = (last.op, last.slot, last.node) == (put.op, put.slot, put.node);
        let mut row = Row { start: last.offset, len: last.block, count: last.count, stride: last.stride };
        if !is_same || !row.extend(put.offset, put.block) {
            return false;
        }
        (last.count, last.stride) = (row.count, row.stride);
        self.rewrite();
        true
    }

    fn add(&mut self, command: Command) -> bool {
        let at = self.commands_len();
        if at + COMMAND_LEN > COMMANDS_LEN_MAX.min(self.room.len()) {
            return false;
        }
        self.count += 1;
        self.last = Some(command);
        self.rewrite();
        true
    }

    /// Writes the last command.
    fn rewrite(&mut self) {
        let at = self.commands_len() - COMMAND_LEN;
        if let Some(last) = &self.last {
            self.room[at..at + COMMAND_LEN].copy_from_slice(&last.encode());
        }
    }

    fn operand(&mut self, bytes: &[u8]) {
        self.operands[self.operand_len..][..bytes.len()].copy_from_slice(bytes);
        self.operand_len += bytes.len();
    }

    /// Empties it for the next commands.
    pub fn clear(&mut self) {
        (self.last, self.count, self.list_len, self.operand_len) = (None, 0, 0, 0);
    }

    /// Changes each of its commands.
    pub fn retarget(&mut self, change: impl Fn(&mut Command)) {
        let len = self.commands_len();
        for bytes in self.room[..len].as_chunks_mut::<COMMAND_LEN>().0 {
            if let Ok(mut command) = Command::decode(bytes) {
                change(&mut command);
                *bytes = command.encode();
            }
        }
    }

    /// Sends it. `call` is its part of the head's detail.
    pub fn send(&self, endpoint: &Endpoint, seq: u64, call: u64) -> Result<(), Broken> {
        let lists = COMMANDS_LEN_MAX..COMMANDS_LEN_MAX + self.list_len.next_multiple_of(8);
        let body_len = (self.commands_len() + lists.len() + self.operand_len) as u64;
        let head = Head { count: self.count, body_len, detail: call, ..Head::new(Kind::Commands, seq) }.encode();
        let pieces = [&head[..], &self.room[..self.commands_len()], &self.room[lists], &self.operands[..self.operand_len]];
        endpoint.send(&pieces)
    }

    /// Sends it, and waits until it is done. The reason of a refusal has a room of its own.
    pub fn exchange(&self, endpoint: &Endpoint, seq: u64, call: u64, reason: &mut [u8]) -> Result<(), Why> {
        self.send(endpoint, seq, call).map_err(Why::Broken)?;
        expect(endpoint, seq, 0, reason)
    }
}

/// The index of the block with which a command begins, in the list of another that names such blocks.
fn index_in(last: &Command, command: &Command) -> Option<u32> {
    let of = |command: &Command| (command.op, command.node, command.slot, command.block, command.stride);
    let distance = command.offset.checked_sub(last.offset).filter(|distance| distance.is_multiple_of(last.stride.max(1)))?;
    let is_same = last.form == Form::Narrow && of(last) == of(command);
    u32::try_from(distance / last.stride.max(1)).ok().filter(|_| is_same)
}

/// Equal runs at equal distances.
struct Row {
    start: u64,
    len: u64,
    count: u64,
    stride: u64,
}

impl Row {
    /// Takes one more run in, if it goes on as the row does.
    fn extend(&mut self, start: u64, len: u64) -> bool {
        let Some(distance) = start.checked_sub(self.start).filter(|_| len == self.len) else { return false };
        if self.count == 1 && distance >= len {
            self.stride = distance;
        } else if distance != self.count * self.stride {
            return false;
        }
        self.count += 1;
        true
    }
}

/// Number of rows that the runs make.
fn row_count(runs: impl Iterator<Item = Range<usize>>) -> usize {
    let mut last: Option<Row> = None;
    let begins = |run: &Range<usize>| {
        let (start, len) = (run.start as u64, run.len() as u64);
        if last.as_mut().is_some_and(|row| row.extend(start, len)) {
            return false;
        }
        last = Some(Row { start, len, count: 1, stride: len });
        true
    };
    runs.filter(begins).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_memory::diff::PAGE;
    use hanare_protocol::id::{Grant, Slot};
    use hanare_protocol::shape::{Indices, Shape};
    use hanare_protocol::wire::command::Op;
    use proptest::prelude::*;

    fn command(op: Op) -> Command {
        let (node, slot, grant) = (3, Slot(5), Grant([7; 16]));
        Command { op, node, slot, grant, form: Form::Strided, offset: 10_000, block: 0, count: 1, stride: 0, goes_on: false }
    }

    /// A node's execution of the commands so far: bytes by their offset in the extent.
    fn apply(message: &ContextMessage<'_>, extent: &mut [u8]) {
        let mut lists = &message.room[COMMANDS_LEN_MAX..][..message.list_len];
        let mut operands = &message.operands[..message.operand_len];
        for bytes in message.room[..message.commands_len()].as_chunks::<COMMAND_LEN>().0 {
            let command = Command::decode(bytes).unwrap();
            assert_eq!((command.slot, command.node, command.grant), (Slot(5), 3, Grant([7; 16])));
            let (list, rest) = lists.split_at(command.list_len().unwrap() as usize);
            lists = rest;
            let words: Vec<u64> = list.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            let places: Vec<(u64, u64)> = match command.shape(&words).unwrap() {
                Shape::Strided(s) => (0..s.count).map(|k| (s.offset + k * s.stride, s.block)).collect(),
                Shape::Indexed(s) => match &s.indices {
                    Indices::Narrow(list) => list.iter().map(|k| (s.offset + u64::from(*k) * s.scale, s.block)).collect(),
                    Indices::Wide(_) => unreachable!("indices are narrow"),
                },
                Shape::Subarray(_) => unreachable!("no sub-arrays are sent"),
            };
            for (offset, len) in places {
                let (operand, rest) = operands.split_at(len as usize);
                operands = rest;
                extent[offset as usize..][..len as usize].copy_from_slice(operand);
            }
        }
        assert!(lists.is_empty() && operands.is_empty());
    }

    proptest! {
        #[test]
        fn what_arrives_is_the_diff_within_the_range(
            stores in prop::collection::vec((0..PAGE, 1..60usize, 1..9usize), 0..60),
            (start, end) in (0..PAGE, 0..=PAGE),
            rooms in prop::sample::select(vec![(COMMANDS_LEN_MAX + (16 << 10), 4096), (128 << 10, 128 << 10)]),
        ) {
            let range = start.min(end)..start.max(end);
            let (twin, mut page) = ([0; PAGE], [0; PAGE]);
            for (at, len, step) in stores {
                (at..(at + len * step).min(PAGE)).step_by(step).for_each(|at| page[at] = at as u8 | 1);
            }
            let diff = Diff::between(&twin, &page);
            let (mut room, mut operands) = (vec![0xee; rooms.0], vec![0xee; rooms.1]);
            let mut extent = vec![0; 10_000 + PAGE];
            let mut message = ContextMessage::new(&mut room, &mut operands);
            let mut from = range.start;
            while from < range.end {
                from = message.put(command(Op::Put), &diff, &page, &range, from);
                apply(&message, &mut extent);
                message.clear();
            }
            let len = range.len();
            prop_assert!(extent[10_000..][..len] == page[range]);
            prop_assert!(extent[..10_000].iter().chain(&extent[10_000 + len..]).all(|byte| *byte == 0));
        }
    }

    #[test]
    fn equal_runs_at_equal_distances_are_one_command_and_single_bytes_one_list() {
        let (mut room, mut operands) = (vec![0; 128 << 10], vec![0; 128 << 10]);
        let page_of = |is_changed: &dyn Fn(usize) -> bool| std::array::from_fn::<u8, PAGE, _>(|at| u8::from(is_changed(at)));
        for (page, commands, list_len) in [
            (page_of(&|_| true), 1, 0),
            (page_of(&|at| at % 1024 < 32), 1, 0),
            (page_of(&|at| at % 2 == 0), 1, 0),
            (page_of(&|at| [5, 70, 900].contains(&at)), 1, 12),
            (page_of(&|at| at / 256 % 2 == 0 || at == 300), 3, 0),
        ] {
            let mut message = ContextMessage::new(&mut room, &mut operands);
            let diff = Diff::between(&[0; PAGE], &page);
            assert_eq!(message.put(command(Op::Put), &diff, &page, &(0..PAGE), 0), PAGE);
            assert_eq!((message.count(), message.list_len), (commands, usize::next_multiple_of(list_len, 8)));
        }
    }

    #[test]
    fn blocks_in_steps_of_one_extent_are_a_list() {
        let (mut room, mut operands) = (vec![0xee; COMMANDS_LEN_MAX + 32], vec![0; 40]);
        let mut message = ContextMessage::new(&mut room, &mut operands);
        let page = PAGE as u64;
        let digest = |offset, block| Command { offset, block, stride: page, ..command(Op::Digest) };
        for (offset, block) in [(100, page), (100 + 3 * page, page), (100 + page, page), (7 + 5 * page, page), (7 + 8 * page, 99)]
        {
            assert!(message.list(digest(offset, block), &[9; 16][..8]));
        }
        let commands = message.room[..message.commands_len()].as_chunks::<COMMAND_LEN>().0.iter();
        let commands: Vec<Command> = commands.map(|bytes| Command::decode(bytes).unwrap()).collect();
        let told = |command: &Command| (command.form, command.offset, command.block, command.count, command.stride);
        let wanted = [(100, page, 3), (7 + 5 * page, page, 1), (7 + 8 * page, 99, 1)];
        let wanted = wanted.map(|(offset, block, count)| (Form::Narrow, offset, block, count, page));
        assert!(commands.iter().map(told).eq(wanted));
        let list =
            message.room[COMMANDS_LEN_MAX..][..32].as_chunks::<INDEX_LEN>().0.iter().map(|index| u32::from_le_bytes(*index));
        assert_eq!(list.collect::<Vec<_>>(), [0, 3, 1, 0, 0, 0, 0, 0]);
        assert_eq!(message.operand_len, 24, "an operand for each command");
        assert!(message.list(digest(7 + 9 * page, 99), &[9; 8]) && !message.list(digest(7 + 10 * page, 99), &[9; 8]), "no room");
    }

    #[test]
    fn gets_that_lie_together_are_one() {
        let (mut room, mut operands) = (vec![0; 1024], vec![]);
        let mut message = ContextMessage::new(&mut room, &mut operands);
        let get = |offset, block| Command { offset, block, stride: block, ..command(Op::Get) };
        assert!(message.get(get(0, 4096)) && message.get(get(4096, 4096)) && message.get(get(12_288, 100)));
        assert_eq!(message.count(), 2);
        assert_eq!(Command::decode(message.room.first_chunk().unwrap()).unwrap().block, 8192);
    }
}
