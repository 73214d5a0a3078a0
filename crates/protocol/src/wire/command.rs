//! Vector commands as they travel, run by the node that owns the memory.
//!
//! ```text
//! request:  head | commands, 64 bytes each | their lists | their operands
//! answer:   head | their results
//! ```
//!
//! Lists and operands come in the order of the commands. A *list* says which blocks a command touches where 64 bytes do not suffice. It is
//! the outer dimensions of a sub-array, or indices, filled up to a multiple of 8 bytes. Before them stands the place of a write in its call,
//! where that has several on one extent. An *operand* is the command's input, a *result* its output. All lists come before the first operand. So a node can admit or refuse all commands before it takes a byte.

mod lists;

use super::Malformed;
use super::queue::APPENDED_LEN;
use crate::element::{Element, Operator, RANGE_LEN, SUMMARY_LEN};
use crate::error::Error;
use crate::id::{Grant, Slot};
use crate::limits::{DIM_COUNT_MAX, LIST_LEN_MAX, PAGE_LEN, QUEUE_APPEND_LEN_MAX, STAGE_LEN};
use crate::shape::{Checked, Dim, Indexed, Indices, Shape, Strided, Subarray};
pub use lists::{dims_list, index_bytes};
use serde::{Deserialize, Serialize};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a command.
pub const COMMAND_LEN: usize = 64;

/// Bytes of the answer to a compare: the position in the stream of the first difference, or `u64::MAX`.
pub const DIFFERENCE_LEN: u64 = 8;

/// Bytes of a page's digest.
pub const DIGEST_LEN: u64 = 16;

/// Bytes of what a digest's key is made from.
pub const DIGEST_SEED_LEN: u64 = 16;

/// Operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "(u8, u8, u8, u32)", try_from = "(u8, u8, u8, u32)")]
pub enum Op {
    /// Read the shape's stream into the answer. **Source**: [D2 Table 2] VL, VLS, RVL; [RF §3] Pull. FEATURE: RF-F6
    Get,
    /// Write the operand into the shape's stream. **Source**: [D2 Table 2] VS, VSS, RVS; [RF §3] Push. FEATURE: RF-F5
    Put,
    /// The source of a copy. Must be followed by its [`Op::CopyTo`]. FEATURE: D3-F12
    CopyFrom {
        /// Bytes of the operand: the address (`host:port`) of the source's node. None if both are on the node that runs them.
        address_len: u32,
    },
    /// The target of the copy whose source came just before; moves as many bytes. FEATURE: D3-F11
    CopyTo,
    /// Fill the stream with the operand, over and over: `pattern_len` bytes.
    Fill {
        /// Bytes of the operand. The last repetition may be cut.
        pattern_len: u32,
    },
    /// Compare the stream with the operand; the result is [`DIFFERENCE_LEN`] bytes.
    Compare,
    /// Tell the digest of each page's length of the stream, under the key whose seed is the operand. If the last page is shorter, zeros
    /// follow it.
    Digest,
    /// Summarise the elements of the stream that lie in the operand, a range; the result is a summary.
    Reduce(Element),
    /// Update each element of the stream by its operand, atomically.
    Update(Update),
    /// See `Update`; the result is the elements before it.
    Fetch(Update),
    /// Swap each element for the second of its two operands if it equals the first. The result is the elements before.
    CompareAndSwap(Element),
    /// Append the operand's units to a lane of a queue: see [`super::queue`]. The shape begins where the array of queues does, and has
    /// as many bytes as the operand. **Source**: [D3 §3] IPUSH, [VQ §4] the ring buffer unit. FEATURE: D3-F6
    Append {
        /// The lane.
        lane: u32,
    },
}

/// The kinds of commands that are counted apart, as metrics call them.
pub const OP_KINDS: [&str; 10] =
    ["get", "put", "copy", "fill", "compare", "reduce", "update", "compare_and_swap", "append", "digest"];

/// Operation on each element, with its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Update {
    /// The operation.
    pub operator: Operator,
    /// The kind of elements.
    pub element: Element,
    /// True if there is one operand for all elements, not one for each.
    pub is_same: bool,
}

impl Op {
    /// True if it changes memory, and so needs the right to write.
    pub fn writes(self) -> bool {
        !matches!(self, Op::Get | Op::CopyFrom { .. } | Op::Compare | Op::Reduce(_) | Op::Digest) && !self.is_load()
    }

    /// True if running it twice differs from running it once.
    pub fn is_once(self) -> bool {
        matches!(self, Op::Update(_) | Op::Fetch(_) | Op::CompareAndSwap(_)) && !self.is_load()
    }

    /// True if it only returns elements, each read in one step.
    fn is_load(self) -> bool {
        matches!(self, Op::Fetch(Update { operator: Operator::Load, .. }))
    }

    /// The kind of elements, where the command has one.
    pub fn element(self) -> Option<Element> {
        match self {
            Op::Reduce(element) | Op::CompareAndSwap(element) => Some(element),
            Op::Update(update) | Op::Fetch(update) => Some(update.element),
            _ => None,
        }
    }

    /// True if its operand has bytes for each byte of the stream, or of each of its elements.
    pub fn streams_operand(self) -> bool {
        match self {
            Op::Put | Op::Compare | Op::CompareAndSwap(_) => true,
            Op::Update(update) | Op::Fetch(update) => !update.is_same,
            Op::Get | Op::CopyFrom { .. } | Op::CopyTo | Op::Fill { .. } => false,
            Op::Reduce(_) | Op::Digest | Op::Append { .. } => false,
        }
    }

    /// Bytes of an operand that is a stream, for each byte of the shape's.
    pub fn operand_factor(self) -> u64 {
        if matches!(self, Op::CompareAndSwap(_)) { 2 } else { 1 }
    }

    /// True if its result has a byte for each of the stream.
    pub fn streams_result(self) -> bool {
        self == Op::Get || self.gives_old()
    }

    /// True if its result is the elements before it.
    pub fn gives_old(self) -> bool {
        matches!(self, Op::Fetch(_) | Op::CompareAndSwap(_))
    }

    /// True if its result grows with the stream, and is kept until all of it is there.
    pub fn keeps_result(self) -> bool {
        self.gives_old() || self == Op::Digest
    }

    /// Its place among [`OP_KINDS`].
    pub fn kind(self) -> usize {
        match self {
            Op::Get => 0,
            Op::Put => 1,
            Op::CopyFrom { .. } | Op::CopyTo => 2,
            Op::Fill { .. } => 3,
            Op::Compare => 4,
            Op::Reduce(_) => 5,
            Op::Update(_) | Op::Fetch(_) => 6,
            Op::CompareAndSwap(_) => 7,
            Op::Append { .. } => 8,
            Op::Digest => 9,
        }
    }

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Op::Get => "get",
            Op::Put => "put",
            Op::CopyFrom { .. } | Op::CopyTo => "copy",
            Op::Fill { .. } => "fill",
            Op::Compare => "compare",
            Op::Reduce(_) => "reduce",
            Op::Update(_) => "update",
            Op::Fetch(_) => "fetch",
            Op::CompareAndSwap(_) => "compare and swap",
            Op::Append { .. } => "append",
            Op::Digest => "digest",
        }
    }

    /// Refuses what it cannot do to the blocks of a shape, whoever is to run it. Its client looks before it sends, its node before it takes
    /// a byte.
    ///
    /// **Cost**: at most a look at every index. **Errors**: [`Error::BadElement`]; [`Error::BadShape`] for a pattern beyond the limits.
    pub fn check(self, region: &str, shape: &Checked<'_>) -> Result<(), Error> {
        let Some(element) = self.element() else {
            return match self {
                Op::Append { .. } if shape.len() > QUEUE_APPEND_LEN_MAX => {
                    Err(shape.refused(region, format!("an append of {} bytes; {QUEUE_APPEND_LEN_MAX} go in one", shape.len())))
                }
                Op::Fill { pattern_len } if pattern_len == 0 || pattern_len as usize > STAGE_LEN => {
                    Err(shape.refused(region, format!("a pattern of {pattern_len} bytes: it needs 1 to {STAGE_LEN}")))
                }
                _ => Ok(()),
            };
        };
        let reason = match self {
            Op::Reduce(Element::U128) => Some("reductions take elements of up to 64 bits"),
            Op::CompareAndSwap(_) if element.len() < 4 => Some("it takes elements of 32, 64 and 128 bits"),
            Op::Update(Update { operator: Operator::Load, .. }) => Some("a load tells elements, so it is a fetch"),
            Op::Update(update) | Op::Fetch(update) if !update.operator.fits(element) => {
                Some("updates take elements of 32, 64 and 128 bits, and/or/xor whole numbers")
            }
            _ => None,
        };
        let operation = match self {
            Op::Update(update) | Op::Fetch(update) => update.operator.to_string(),
            other => other.name().to_owned(),
        };
        match reason {
            None => shape.check_elements(region, &operation, element, !matches!(self, Op::Reduce(_))),
            Some(reason) => {
                let (region, element) = (region.to_owned(), element.to_string());
                Err(Error::BadElement { region, operation, element, reason: reason.to_owned() })
            }
        }
    }

    /// Bytes of its operand, where the shape's stream has `stream_len`. `None` beyond 64 bits.
    pub fn operand_len(self, stream_len: u64) -> Option<u64> {
        match self {
            Op::Get | Op::CopyTo => Some(0),
            Op::CopyFrom { address_len } => Some(u64::from(address_len)),
            Op::Put | Op::Compare | Op::Append { .. } => Some(stream_len),
            Op::Fill { pattern_len } => Some(u64::from(pattern_len)),
            Op::Reduce(_) => Some(RANGE_LEN),
            Op::Digest => Some(DIGEST_SEED_LEN),
            Op::Update(update) | Op::Fetch(update) => Some(if update.is_same { update.element.len() } else { stream_len }),
            Op::CompareAndSwap(_) => stream_len.checked_mul(2),
        }
    }

    /// Bytes of its result.
    pub fn result_len(self, stream_len: u64) -> u64 {
        match self {
            Op::Get | Op::Fetch(_) | Op::CompareAndSwap(_) => stream_len,
            Op::Compare => DIFFERENCE_LEN,
            Op::Reduce(_) => SUMMARY_LEN,
            Op::Digest => stream_len.div_ceil(PAGE_LEN).saturating_mul(DIGEST_LEN),
            Op::Append { .. } => APPENDED_LEN,
            Op::Put | Op::CopyFrom { .. } | Op::CopyTo | Op::Fill { .. } | Op::Update(_) => 0,
        }
    }

    /// Number, kind of elements, operator and detail on the wire.
    fn encode(self) -> (u8, u8, u8, u32) {
        let update = |number, update: Update| (number, update.element as u8, update.operator as u8, u32::from(update.is_same));
        match self {
            Op::Get => (1, 0, 0, 0),
            Op::Put => (2, 0, 0, 0),
            Op::CopyFrom { address_len } => (3, 0, 0, address_len),
            Op::CopyTo => (4, 0, 0, 0),
            Op::Fill { pattern_len } => (5, 0, 0, pattern_len),
            Op::Compare => (6, 0, 0, 0),
            Op::Reduce(element) => (7, element as u8, 0, 0),
            Op::Update(which) => update(8, which),
            Op::Fetch(which) => update(9, which),
            Op::CompareAndSwap(element) => (10, element as u8, 0, 0),
            Op::Append { lane } => (11, 0, 0, lane),
            Op::Digest => (12, 0, 0, 0),
        }
    }

    fn decode(number: u8, element: u8, operator: u8, detail: u32) -> Option<Op> {
        let kind = || Element::decode(element);
        let update = || {
            Some(Update {
                operator: Operator::decode(operator)?,
                element: kind()?,
                is_same: [false, true].get(detail as usize).copied()?,
            })
        };
        let op = match number {
            1 => Op::Get,
            2 => Op::Put,
            3 => Op::CopyFrom { address_len: detail },
            4 => Op::CopyTo,
            5 => Op::Fill { pattern_len: detail },
            6 => Op::Compare,
            7 => Op::Reduce(kind()?),
            8 => Op::Update(update()?),
            9 => Op::Fetch(update()?),
            10 => Op::CompareAndSwap(kind()?),
            11 => Op::Append { lane: detail },
            12 => Op::Digest,
            _ => return None,
        };
        // Unused fields are zero, so that every command has one encoding.
        (op.encode() == (number, element, operator, detail)).then_some(op)
    }
}

impl From<Op> for (u8, u8, u8, u32) {
    fn from(op: Op) -> Self {
        op.encode()
    }
}

impl TryFrom<(u8, u8, u8, u32)> for Op {
    type Error = Malformed;

    fn try_from((number, element, operator, detail): (u8, u8, u8, u32)) -> Result<Op, Malformed> {
        Op::decode(number, element, operator, detail).ok_or(Malformed("an unknown operation"))
    }
}

/// Format of a command's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// No list: `count` blocks, `stride` apart.
    Strided,
    /// Outer dimensions as pairs of words, a count and a stride, the slowest first; the command holds the fastest.
    Subarray {
        /// Dimensions in the list; 0 where the command's own is the only one.
        outer: u8,
    },
    /// `count` indices of 32 bits; `stride` is the scale.
    Narrow,
    /// `count` indices of 64 bits.
    Wide,
}

/// First number of the forms of sub-arrays on the wire.
const SUBARRAY_FORM: u8 = 16;

/// Beside a form on the wire: the command's list begins with its place in its call.
const GOES_ON: u8 = 0x80;

impl Form {
    fn encode(self) -> u8 {
        match self {
            Form::Strided => 0,
            Form::Narrow => 1,
            Form::Wide => 2,
            Form::Subarray { outer } => SUBARRAY_FORM.saturating_add(outer),
        }
    }

    fn decode(byte: u8) -> Option<Form> {
        match byte {
            0 => Some(Form::Strided),
            1 => Some(Form::Narrow),
            2 => Some(Form::Wide),
            SUBARRAY_FORM.. if usize::from(byte.saturating_sub(SUBARRAY_FORM)) < DIM_COUNT_MAX => {
                Some(Form::Subarray { outer: byte.saturating_sub(SUBARRAY_FORM) })
            }
            _ => None,
        }
    }
}

/// A command on one extent, without its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The operation.
    pub op: Op,
    /// The node on which `slot` is. Only the source of a copy may name another node than the one that runs it.
    pub node: u32,
    /// The extent.
    pub slot: Slot,
    /// The right to do it.
    pub grant: Grant,
    /// The form of its blocks.
    pub form: Form,
    /// First byte: of the first block, or of index 0.
    pub offset: u64,
    /// Bytes of a block.
    pub block: u64,
    /// Blocks in the fastest dimension, or indices.
    pub count: u64,
    /// Bytes from one block to the next, or the scale of indices; a signed number in a sub-array.
    pub stride: u64,
    /// True if its call has writes on the extent before it. The first word of its list counts their bytes.
    pub goes_on: bool,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RawCommand {
    op: u8,
    form: u8,
    element: u8,
    operator: u8,
    slot: U32,
    node: U32,
    detail: U32,
    grant: [u8; 16],
    offset: U64,
    block: U64,
    count: U64,
    stride: U64,
}

const _: () = assert!(size_of::<RawCommand>() == COMMAND_LEN);

impl Command {
    /// A command on the blocks of a shape; its list is [`dims_list`] or [`index_bytes`] of the same shape.
    pub fn new(op: Op, node: u32, slot: Slot, grant: Grant, shape: &Shape<'_>) -> Command {
        let (form, offset, block, count, stride) = match shape {
            Shape::Strided(shape) => (Form::Strided, shape.offset, shape.block, shape.count, shape.stride),
            Shape::Subarray(shape) => {
                let fastest = shape.dims().last().copied().unwrap_or(Dim { count: 1, stride: 0 });
                let outer = shape.dims().len().saturating_sub(1) as u8;
                (Form::Subarray { outer }, shape.offset(), shape.block(), fastest.count, fastest.stride as u64)
            }
            Shape::Indexed(shape) => {
                let form = if matches!(shape.indices, Indices::Narrow(_)) { Form::Narrow } else { Form::Wide };
                (form, shape.offset, shape.block, shape.indices.len() as u64, shape.scale)
            }
        };
        Command { op, node, slot, grant, form, offset, block, count, stride, goes_on: false }
    }

    /// The bytes to send.
    pub fn encode(&self) -> [u8; COMMAND_LEN] {
        let (op, element, operator, detail) = self.op.encode();
        let raw = RawCommand {
            op,
            form: self.form.encode() | if self.goes_on { GOES_ON } else { 0 },
            element,
            operator,
            slot: self.slot.0.into(),
            node: self.node.into(),
            detail: detail.into(),
            grant: self.grant.0,
            offset: self.offset.into(),
            block: self.block.into(),
            count: self.count.into(),
            stride: self.stride.into(),
        };
        zerocopy::transmute!(raw)
    }

    /// Reads a command; its shape and grant are checked by the node against the extent.
    pub fn decode(bytes: &[u8; COMMAND_LEN]) -> Result<Command, Malformed> {
        let raw: RawCommand = zerocopy::transmute!(*bytes);
        let op = Op::decode(raw.op, raw.element, raw.operator, raw.detail.get()).ok_or(Malformed("unknown command"))?;
        let goes_on = raw.form & GOES_ON != 0;
        if goes_on && !op.writes() {
            return Err(Malformed("a command that writes nothing, and goes on with writes"));
        }
        Ok(Command {
            op,
            node: raw.node.get(),
            slot: Slot(raw.slot.get()),
            grant: Grant(raw.grant),
            form: Form::decode(raw.form & !GOES_ON).ok_or(Malformed("unknown form of a command"))?,
            offset: raw.offset.get(),
            block: raw.block.get(),
            count: raw.count.get(),
            stride: raw.stride.get(),
            goes_on,
        })
    }

    /// Bytes of its list. Refused beyond [`LIST_LEN_MAX`].
    pub fn list_len(&self) -> Result<u64, Malformed> {
        let len = match self.form {
            Form::Strided => Some(0),
            Form::Subarray { outer } => Some(u64::from(outer) * 16),
            Form::Narrow => self.count.checked_mul(4).and_then(|len| len.checked_next_multiple_of(8)),
            Form::Wide => self.count.checked_mul(8),
        };
        let len = len.and_then(|len| len.checked_add(if self.goes_on { 8 } else { 0 }));
        len.filter(|len| *len <= LIST_LEN_MAX).ok_or(Malformed("a list beyond the limit"))
    }

    /// Bytes that its call writes on the extent before it, with the words of its list.
    pub fn written_before(&self, list: &[u64]) -> u64 {
        list.first().copied().filter(|_| self.goes_on).unwrap_or(0)
    }

    /// Its shape, with the words of its list, as many as [`Command::list_len`] says. Unchecked: it came from a peer.
    pub fn shape(&self, list: &[u64]) -> Result<Shape<'static>, Malformed> {
        let list = if self.goes_on { list.get(1..).unwrap_or_default() } else { list };
        let Command { offset, block, count, stride, .. } = *self;
        Ok(match self.form {
            Form::Strided => Shape::Strided(Strided { offset, block, count, stride }),
            Form::Subarray { .. } => {
                let outer = list.chunks_exact(2).map(|dim| Dim { count: dim[0], stride: dim[1] as i64 });
                let dims: Vec<Dim> = outer.chain([Dim { count, stride: stride as i64 }]).collect();
                Subarray::new(offset, block, &dims).map_err(|_| Malformed("too many dimensions")).map(Shape::Subarray)?
            }
            Form::Narrow => {
                let indices: &[u32] =
                    zerocopy::FromBytes::ref_from_bytes(list.as_bytes()).map_err(|_| Malformed("not a list"))?;
                let indices = indices.get(..count as usize).ok_or(Malformed("a list that is too short"))?;
                Shape::Indexed(Indexed { offset, block, scale: stride, indices: Indices::Narrow(indices.to_vec().into()) })
            }
            Form::Wide => Shape::Indexed(Indexed { offset, block, scale: stride, indices: Indices::Wide(list.to_vec().into()) }),
        })
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests;
