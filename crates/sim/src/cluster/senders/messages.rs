//! Messages of commands: what they have, what they write to blocks, and what their results must be.

use super::blocks::{BlockWrite, WORD_COUNT, WORD_LEN, block_at};
use crate::cluster::commands::Piece;
use crate::dice::Dice;
use hanare_protocol::element::{Element, Operator};
use hanare_protocol::id::{Grant, NodeId, Slot};
use hanare_protocol::shape::{Indexed, Indices, Shape, Strided};
use hanare_protocol::wire::command::{Command, Op, Update, index_bytes};
use hanare_protocol::wire::head::{Head, Kind};
use std::borrow::Cow;

/// Most pieces in which a message arrives.
const PIECE_COUNT: u64 = 12;

/// A message that its program has sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    pub seq: u64,
    pub writes: Vec<BlockWrite>,
    /// Words whose values are its results, in order.
    pub reads: Vec<BlockRead>,
    fronts: Vec<u8>,
    lists: Vec<u8>,
    operands: Vec<u8>,
    count: u32,
}

/// Words of a block that a message reads.
#[derive(Clone, Debug)]
pub(super) struct BlockRead {
    pub which: usize,
    pub words: Vec<usize>,
    /// True for a read behind the writes of the same message.
    pub is_last: bool,
}

/// The extent of a block, as a program reaches it.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub slot: Slot,
    pub grant: Grant,
    pub node: NodeId,
    /// The address of its node, where another one is to fetch from it.
    pub address: Option<String>,
}

/// Words of a block, and their shape: words in a row from the second block of a line.
fn throw_words(dice: &mut Dice, (line, which): (usize, usize)) -> (Vec<usize>, Shape<'static>) {
    let first_byte = block_at(line, which);
    let count = dice.between(1, WORD_COUNT as u64 / 2);
    let first = dice.below(WORD_COUNT as u64 / 2);
    match if which == 1 { 0 } else { dice.below(3) } {
        0 => {
            let shape = Shape::contiguous(first_byte + first * WORD_LEN, count * WORD_LEN);
            ((first..first + count).map(|word| word as usize).collect(), shape)
        }
        1 => {
            let offset = first_byte + (first % 2) * WORD_LEN;
            let words = (0..count).map(|k| (first % 2 + 2 * k) as usize).collect();
            (words, Strided { offset, block: WORD_LEN, count, stride: 2 * WORD_LEN }.into())
        }
        _ => {
            let step = dice.pick(&[5, 7, 11]);
            let words: Vec<usize> = (0..count).map(|k| ((first + step * k) % WORD_COUNT as u64) as usize).collect();
            let indices = Indices::Narrow(Cow::Owned(words.iter().map(|word| *word as u32).collect()));
            (words, Indexed { offset: first_byte, block: WORD_LEN, scale: WORD_LEN, indices }.into())
        }
    }
}

impl Message {
    pub fn new(seq: u64) -> Message {
        Message { seq, ..Message::default() }
    }

    /// True if it has no commands.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, op: Op, node: NodeId, to: &Route, shape: &Shape<'_>, operand: &[u8]) {
        self.fronts.extend_from_slice(&Command::new(op, node.0, to.slot, to.grant, shape).encode());
        if let Shape::Indexed(shape) = shape {
            self.lists.extend_from_slice(index_bytes(&shape.indices));
            self.lists.resize(self.lists.len().next_multiple_of(8), 0);
        }
        self.operands.extend_from_slice(operand);
        self.count += 1;
    }

    /// Adds a command that writes the message's version to words of a block.
    pub fn add_write(&mut self, dice: &mut Dice, (line, which): (usize, usize), to: &Route) {
        let ((words, shape), version) = (throw_words(dice, (line, which)), self.seq);
        let swap = |is_same| Update { operator: Operator::Swap, element: Element::U64, is_same };
        let (op, count) = match dice.below(6) {
            0 => (Op::Fill { pattern_len: WORD_LEN as u32 }, 1),
            1 => (Op::Update(swap(true)), 1),
            2 => (Op::Fetch(swap(false)), words.len()),
            _ => (Op::Put, words.len()),
        };
        self.add(op, NodeId(0), to, &shape, &version.to_le_bytes().repeat(count));
        if op.gives_old() {
            self.reads.push(BlockRead { which, words: words.clone(), is_last: false });
        }
        self.writes.push(BlockWrite { which, words, version });
    }

    /// Adds a read of a block, behind all writes.
    pub fn add_read(&mut self, (line, which): (usize, usize), to: &Route) {
        self.add(Op::Get, NodeId(0), to, &Shape::contiguous(block_at(line, which), WORD_COUNT as u64 * WORD_LEN), &[]);
        self.reads.push(BlockRead { which, words: (0..WORD_COUNT).collect(), is_last: true });
    }

    /// Adds a copy of words from a line's second block, which has that version, to the first.
    pub fn add_copy(&mut self, line: usize, version: u64, words: &[usize], (from, to): (&Route, &Route)) {
        let address = from.address.clone().unwrap_or_default();
        let first = words.first().copied().unwrap_or_default() as u64 * WORD_LEN;
        let [source, target] =
            [1, 0].map(|which| Shape::contiguous(block_at(line, which) + first, words.len() as u64 * WORD_LEN));
        let node = if from.address.is_some() { from.node } else { NodeId(0) };
        self.add(Op::CopyFrom { address_len: address.len() as u32 }, node, from, &source, address.as_bytes());
        self.add(Op::CopyTo, NodeId(0), to, &target, &[]);
        self.writes.push(BlockWrite { which: 0, words: words.to_vec(), version });
    }

    /// The pieces that the message is sent in. Each ends where a word does.
    pub fn pieces(&self, dice: &mut Dice) -> Vec<Piece> {
        let rest = [&self.lists[..], &self.operands].concat();
        let head =
            Head { count: self.count, body_len: (self.fronts.len() + rest.len()) as u64, ..Head::new(Kind::Commands, self.seq) };
        let words = rest.len() as u64 / WORD_LEN;
        let len = (words.div_ceil(dice.between(1, PIECE_COUNT)).max(1) * WORD_LEN) as usize;
        let with_front = if dice.chance(3_000) { len.min(rest.len()) } else { 0 };
        let (now, later) = rest.split_at(with_front);
        let front = Piece { head, begins: true, bytes: [&self.fronts[..], now].concat().into() };
        let later = later.chunks(len).map(|bytes| Piece { head, begins: false, bytes: bytes.into() });
        std::iter::once(front).chain(later).collect()
    }
}
