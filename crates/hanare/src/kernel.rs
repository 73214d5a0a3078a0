//! A command on mapped memory, run at once: by clients on memory of their host.
//!
//! Operand and result are as they travel, so that a share done here and one done by a node end alike.

use hanare_memory::{Lost, Window, vector};
use hanare_protocol::element::{RANGE_LEN, Range, Summary};
use hanare_protocol::shape::Checked;
use hanare_protocol::wire::command::{Op, Update};

/// Runs all of a command on an extent.
pub(crate) fn run(op: Op, extent: Window, shape: &Checked<'_>, operand: Window, result: Window) -> Result<(), Lost> {
    let len = shape.len();
    match op {
        Op::Get => vector::gather(extent, shape, result),
        Op::Put => vector::scatter(operand, extent, shape),
        Op::Fill { .. } => {
            let mut pattern = vec![0; operand.len()];
            operand.read_into(&mut pattern)?;
            vector::fill_part(extent, shape, 0, len, &pattern)
        }
        Op::Compare => {
            let found = vector::compare_part(extent, shape, 0, operand)?;
            result.write_from(&found.unwrap_or(u64::MAX).to_le_bytes())
        }
        Op::Reduce(element) => {
            let mut range = [0; RANGE_LEN as usize];
            operand.read_into(&mut range)?;
            let mut summary = Summary::new(element);
            vector::reduce_part(extent, shape, 0, len, element, &Range::decode(&range, element), &mut summary)?;
            result.write_from(&summary.encode())
        }
        Op::Update(update) => vector::update_part(extent, shape, 0, len, update, operand_of(operand, update, len), None),
        Op::Fetch(update) => vector::update_part(extent, shape, 0, len, update, operand_of(operand, update, len), Some(result)),
        Op::CompareAndSwap(element) => vector::compare_and_swap_part(extent, shape, 0, len, element, operand, result),
        Op::CopyFrom { .. } | Op::CopyTo => unreachable!("copies come in pairs"),
    }
}

/// One operand for all, or one for each byte of the stream.
fn operand_of(operand: Window, update: Update, len: u64) -> Window {
    operand.slice(0, if update.is_same { update.element.len() } else { len } as usize)
}
