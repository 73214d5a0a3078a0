//! A command's operation on memory, in stages. Clients do one on memory of their host in one stage, nodes as bytes arrive.
//!
//! ```text
//! new(op) ── hold: an operand that is no stream ──> stage, stage, ... ──> told: a result that the whole stream gives
//! ```
//!
//! Operand and result have the form in which they travel. So a part done here and a part done by a node end alike.

use crate::{Lost, Window, vector};
use hanare_protocol::Error;
use hanare_protocol::digest::PageKey;
use hanare_protocol::element::{Element, RANGE_LEN, Range, Summary};
use hanare_protocol::shape::Checked;
use hanare_protocol::wire::command::{DIGEST_SEED_LEN, Op, Update};

/// An operation under way: what lasts from one stage to the next.
pub struct Exec {
    op: Op,
    /// The operand, where it has not bytes for each byte of the stream.
    held: Vec<u8>,
    sum: Sum,
}

/// Combined result of the stages so far.
enum Sum {
    Nothing,
    /// The position in the stream of the first difference.
    Difference(Option<u64>),
    /// On the heap: it is large, and most operations have none.
    Summary(Box<Summary>),
    /// The digests of the pages so far, and their key once its seed is here.
    Digests(Option<PageKey>, Vec<u8>),
}

/// Bytes that one stage does.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// The memory.
    pub memory: Window,
    /// The shape's bytes in it.
    pub shape: &'a Checked<'a>,
    /// The first byte in the shape's stream.
    pub at: u64,
    /// Bytes of the stage.
    pub len: u64,
    /// The first byte in the command's stream; it is `at` where the shape is the command's.
    pub stream_at: u64,
}

impl Exec {
    /// An operation of which nothing is done.
    #[inline]
    pub fn new(op: Op) -> Exec {
        let sum = match op {
            Op::Compare => Sum::Difference(None),
            Op::Reduce(element) => Sum::Summary(Box::new(Summary::new(element))),
            Op::Digest => Sum::Digests(None, Vec::new()),
            _ => Sum::Nothing,
        };
        Exec { op, held: Vec::new(), sum }
    }

    /// Takes the next bytes of an operand that is no stream.
    pub fn hold(&mut self, bytes: Window) -> Result<(), Lost> {
        let old = self.held.len();
        self.held.resize(old + bytes.len(), 0);
        bytes.read_into(&mut self.held[old..])
    }

    /// Room for an operand that is no stream, before any of it has come. Its `len` bytes are filled before the first stage.
    pub fn hold_place(&mut self, len: usize) -> Window {
        self.held.resize(len, 0);
        // SAFETY: the bytes are on the heap, and are neither looked at nor moved before they are filled, or this is dropped.
        unsafe { Window::of_mut(&mut self.held) }
    }

    /// The bytes of an operand that is no stream.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Does the stage's bytes. `operand` has the stage's part of an operand that is a stream. `result` gets the bytes read, or the elements
    /// before their update.
    ///
    /// **Errors**: [`Lost`]; part of the stage may be done.
    #[inline]
    pub fn stage(&mut self, stage: Stage<'_>, operand: Window, result: Window) -> Result<(), Lost> {
        let Stage { memory, shape, at, len, stream_at } = stage;
        match self.op {
            Op::Get => vector::gather_part(memory, shape, at, result),
            Op::Put => vector::scatter_part(operand, memory, shape, at),
            Op::Fill { .. } => self.fill(stage),
            Op::Compare => match &mut self.sum {
                Sum::Difference(found @ None) => {
                    let first = vector::compare_part(memory, shape, at, operand)?;
                    *found = first.map(|first| first - at + stream_at);
                    Ok(())
                }
                _ => Ok(()),
            },
            Op::Reduce(element) => {
                let Sum::Summary(summary) = &mut self.sum else { unreachable!("a reduction has a summary") };
                let range = self.held.first_chunk::<{ RANGE_LEN as usize }>().expect("its range is held");
                vector::reduce_part(memory, shape, at, len, element, &Range::decode(range, element), summary)
            }
            Op::Digest => {
                let Sum::Digests(key, digests) = &mut self.sum else { unreachable!("they are collected") };
                let seed = self.held.first_chunk::<{ DIGEST_SEED_LEN as usize }>().expect("its seed is held");
                let key = key.get_or_insert_with(|| PageKey::new(*seed));
                vector::digest_part(memory, shape, at, len, |page| digests.extend(key.digest(page).to_le_bytes()))
            }
            Op::Update(update) => vector::update_part(memory, shape, at, len, update, self.operands(update, operand), None),
            Op::Fetch(update) => {
                vector::update_part(memory, shape, at, len, update, self.operands(update, operand), Some(result))
            }
            Op::CompareAndSwap(element) => vector::compare_and_swap_part(memory, shape, at, len, element, operand, result),
            Op::CopyFrom { .. } | Op::CopyTo => unreachable!("copies come in pairs"),
            Op::Append { .. } => unreachable!("the home of a queue appends"),
        }
    }

    fn fill(&self, Stage { memory, shape, at, len, stream_at }: Stage<'_>) -> Result<(), Lost> {
        let ahead = (stream_at - at) % self.held.len() as u64;
        if ahead == 0 {
            return vector::fill_part(memory, shape, at, len, &self.held);
        }
        let mut turned = self.held.clone();
        turned.rotate_left(ahead as usize);
        vector::fill_part(memory, shape, at, len, &turned)
    }

    /// The operand for all elements, or those of the stage.
    fn operands(&self, update: Update, operand: Window) -> Window {
        // SAFETY: the window is used while `self` is borrowed, and only read.
        if update.is_same { unsafe { Window::of(&self.held) } } else { operand }
    }

    /// The result that the whole stream gives, where the operation has one.
    pub fn told(&self) -> Option<Vec<u8>> {
        match &self.sum {
            Sum::Nothing => None,
            Sum::Difference(found) => Some(found.unwrap_or(u64::MAX).to_le_bytes().to_vec()),
            Sum::Summary(summary) => Some(summary.encode()),
            Sum::Digests(_, digests) => Some(digests.clone()),
        }
    }
}

/// Refuses what cannot be done to the blocks of a shape, by the operation or by this machine's processor.
///
/// **Errors**: those of [`Op::check`]; [`Error::BadElement`].
#[inline]
pub fn check(op: Op, region: &str, shape: &Checked<'_>) -> Result<(), Error> {
    if op.element() == Some(Element::U128) && !vector::has_wide_words() {
        let (region, operation, element) = (region.to_owned(), op.name().to_owned(), Element::U128.to_string());
        let reason = "the processor here has no atomic instructions for them (cmpxchg16b, AVX)".to_owned();
        return Err(Error::BadElement { region, operation, element, reason });
    }
    op.check(region, shape)
}

/// Does all of an operation at once.
///
/// **Errors**: [`Lost`]; part of it may be done.
#[inline]
pub fn run(op: Op, memory: Window, shape: &Checked<'_>, operand: Window, result: Window) -> Result<(), Lost> {
    let mut exec = Exec::new(op);
    let len = shape.len();
    if !op.streams_operand() {
        exec.hold(operand)?;
    }
    exec.stage(Stage { memory, shape, at: 0, len, stream_at: 0 }, operand, result)?;
    exec.told().map_or(Ok(()), |told| result.write_from(&told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::element::Operator;
    use hanare_protocol::shape::{Indexed, Indices, Shape};

    const LEN: usize = 4096;

    fn shape() -> Checked<'static> {
        let list: Vec<u32> = (0..32).map(|k| (k * 61) % 32 * 96).collect();
        let shape = Indexed { offset: 64, block: 48, scale: 1, indices: Indices::Narrow(list.into()) };
        Shape::from(shape).check("r", LEN as u64).unwrap()
    }

    fn ops() -> Vec<(Op, Vec<u8>)> {
        let update = |is_same| Update { operator: Operator::Add, element: Element::U64, is_same };
        let len = shape().len() as usize;
        let stream: Vec<u8> = (0..2 * len).map(|k| (k * 7 + k / 256) as u8).collect();
        let range = Range::all(Element::U16).encode().to_vec();
        vec![
            (Op::Get, Vec::new()),
            (Op::Put, stream[..len].to_vec()),
            (Op::Fill { pattern_len: 6 }, stream[..6].to_vec()),
            (Op::Compare, stream[..len].to_vec()),
            (Op::Reduce(Element::U16), range),
            (Op::Update(update(true)), stream[..8].to_vec()),
            (Op::Update(update(false)), stream[..len].to_vec()),
            (Op::Fetch(update(true)), stream[..8].to_vec()),
            (Op::Fetch(update(false)), stream[..len].to_vec()),
            (Op::CompareAndSwap(Element::U64), stream),
        ]
    }

    /// The memory and the result afterwards; in stages of `step` bytes each.
    fn after(op: Op, operand: &[u8], step: u64) -> (Vec<u64>, Vec<u8>) {
        let shape = shape();
        let mut memory: Vec<u64> = (0..LEN as u64 / 8).map(|k| k.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let mut result = vec![0; op.result_len(shape.len()) as usize];
        // SAFETY: all of them outlive the windows, and nobody else uses them meanwhile.
        let (table, operands, results) = unsafe {
            let bytes = std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), LEN);
            (Window::of_mut(bytes), Window::of(operand), Window::of_mut(&mut result))
        };
        let mut exec = Exec::new(op);
        if !op.streams_operand() {
            exec.hold(operands).unwrap();
        }
        let factor = op.operand_factor();
        let mut at = 0;
        while at < shape.len() {
            let len = step.min(shape.len() - at);
            let operand = if op.streams_operand() {
                operands.slice((at * factor) as usize, (len * factor) as usize)
            } else {
                Window::empty()
            };
            let result = if op.streams_result() { results.slice(at as usize, len as usize) } else { Window::empty() };
            exec.stage(Stage { memory: table, shape: &shape, at, len, stream_at: at }, operand, result).unwrap();
            at += len;
        }
        if let Some(told) = exec.told() {
            results.write_from(&told).unwrap();
        }
        (memory, result)
    }

    #[test]
    fn many_stages_end_as_one_does() {
        for (op, operand) in ops() {
            let whole = after(op, &operand, u64::MAX);
            assert_eq!(after(op, &operand, 24), whole, "{op:?}");
            assert_eq!(after(op, &operand, 512), whole, "{op:?}");
        }
    }

    #[test]
    fn a_part_of_a_shape_is_done_where_it_is_in_the_stream() {
        let mut memory = [0u8; 64];
        // SAFETY: the memory outlives the window, and nobody else uses it meanwhile.
        let window = unsafe { Window::of_mut(&mut memory) };
        // SAFETY: bytes that outlive the windows, and are only read.
        let (pattern, same) = unsafe { (Window::of(b"abc"), Window::of(b"bcabX")) };
        let shape = Shape::contiguous(10, 5).check("r", 64).unwrap();
        let part = Stage { memory: window, shape: &shape, at: 0, len: 5, stream_at: 100 };
        let mut exec = Exec::new(Op::Fill { pattern_len: 3 });
        exec.hold(pattern).unwrap();
        exec.stage(part, Window::empty(), Window::empty()).unwrap();
        let mut exec = Exec::new(Op::Compare);
        exec.stage(part, same, Window::empty()).unwrap();
        assert_eq!(exec.told().unwrap(), 104u64.to_le_bytes());
        assert_eq!(&memory[9..16], b"\0bcabc\0");
    }
}
