//! Writes of regions with copies, carried out on vectors.

use crate::memory::Bytes;
use hanare_protocol::Result;
use hanare_protocol::element::{Element, Operator, fold};
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::copies::ExtentWrite;

/// Carries out a write that was checked. Returns the elements before it, where the operation gives them.
pub fn apply(extent: &impl Bytes, write: &ExtentWrite) -> Result<Vec<u8>> {
    let (factor, mut olds, mut done) = (write.op.operand_factor() as usize, Vec::new(), 0);
    for (offset, len) in &write.ranges {
        let len = *len as usize;
        let operand = match write.op.streams_operand() {
            true => &write.operand[done * factor..][..len * factor],
            false => &write.operand[..],
        };
        let mut bytes = vec![0; len];
        extent.read(*offset, &mut bytes)?;
        if write.op.gives_old() {
            olds.extend_from_slice(&bytes);
        }
        change(write.op, &mut bytes, operand);
        extent.write(*offset, &bytes)?;
        done += len;
    }
    Ok(olds)
}

/// Changes the bytes of a range. The operand is as long as the range, or one element for all of them.
fn change(op: Op, bytes: &mut [u8], operand: &[u8]) {
    match op {
        Op::Update(update) | Op::Fetch(update) => {
            let all: Vec<u8> = operand.iter().copied().cycle().take(bytes.len()).collect();
            match update.operator {
                Operator::Swap => bytes.copy_from_slice(&all),
                operator => fold(operator, update.element, bytes, &all),
            }
        }
        Op::CompareAndSwap(element) => compare_and_swap(element, bytes, operand),
        _ => bytes.copy_from_slice(operand),
    }
}

/// The operand has the expected value of each element, and behind it the new one.
fn compare_and_swap(element: Element, bytes: &mut [u8], operand: &[u8]) {
    let len = element.len() as usize;
    for (is, pair) in bytes.chunks_exact_mut(len).zip(operand.chunks_exact(2 * len)) {
        let (expected, new) = pair.split_at(len);
        if is == expected {
            is.copy_from_slice(new);
        }
    }
}
