//! What a command is refused for before it moves a byte: the one place where commands are checked. Nobody is asked.

use super::{Command, Modify, Tell, What};
use crate::client::region::Region;
use hanare_memory::Window;
use hanare_protocol::element::{Element, Range, Summary};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{Op, Update};
use hanare_protocol::{Error, Result};
use std::ops::Deref;

/// A command that was checked: the region allows the operation, its shape lies inside, and the memory fits.
pub(super) struct Sound<'b, R> {
    pub region: R,
    pub op: Op,
    pub shape: Checked<'b>,
    pub with: With<'b, R>,
}

/// The other side of a checked command.
pub(super) enum With<'b, R> {
    /// Operand and result as they travel.
    Stream { operand: Window, result: Window },
    /// Blocks of the caller's memory, with as many bytes.
    Blocks { memory: Window, local: Checked<'b> },
    /// Another region, with as many bytes in its shape.
    Region { to: R, to_shape: Checked<'b> },
    /// Bytes to compare with, as many.
    Difference { bytes: Window, found: Tell<'b, Option<u64>> },
    /// The range of a reduction.
    Summary { range: Range, summary: Tell<'b, Summary> },
    /// Expected and new elements, which travel side by side.
    Pairs { expected: Window, new: Window, olds: Window },
}

impl<'b, R: Deref<Target = Region>> Command<'b, R> {
    /// The command, if it can be run.
    ///
    /// **Cost**: a look at each index of a list. **Errors**: those of [`Shape::check`]; [`Error::BadUse`] where the region was opened for
    /// reading; [`Error::BadShape`], [`Error::BadElement`] where memory or elements do not fit.
    pub(super) fn sound(self) -> Result<Sound<'b, R>> {
        let Command { region, shape, what } = self;
        let fit = |op: Op| {
            region.check_rights(op)?;
            fit(&region, shape)
        };
        let (op, shape, with) = match what {
            What::Get { into, local } => {
                let shape = fit(Op::Get)?;
                let with = local_side(&region, &shape, into, local, |result| (Window::empty(), result))?;
                (Op::Get, shape, with)
            }
            What::Put { from, local } => {
                let shape = fit(Op::Put)?;
                let with = local_side(&region, &shape, from, local, |operand| (operand, Window::empty()))?;
                (Op::Put, shape, with)
            }
            What::CopyTo { to, to_shape } => {
                let shape = fit(Op::CopyFrom { address_len: 0 })?;
                to.check_rights(Op::CopyTo)?;
                let to_shape = self::fit(&to, to_shape)?;
                if shape.len() != to_shape.len() {
                    let reason = format!("the source has {} bytes, this has {}", shape.len(), to_shape.len());
                    return Err(to_shape.refused(to.name(), reason));
                }
                (Op::CopyTo, shape, With::Region { to, to_shape })
            }
            What::Fill { pattern } => {
                let op = Op::Fill { pattern_len: pattern.len().min(u32::MAX as usize) as u32 };
                let shape = fit(op)?;
                check_pattern(&region, &shape, pattern.len() as u64)?;
                (op, shape, With::Stream { operand: pattern, result: Window::empty() })
            }
            What::Compare { bytes, found } => {
                let shape = fit(Op::Compare)?;
                check_len(&region, &shape, "the bytes to compare with", bytes.len() as u64, shape.len())?;
                (Op::Compare, shape, With::Difference { bytes, found })
            }
            What::Reduce { element, range, summary } => {
                let shape = fit(Op::Reduce(element))?;
                check_reduction(&region, &shape, element, &range)?;
                (Op::Reduce(element), shape, With::Summary { range, summary })
            }
            What::Update { modify, operands } => {
                let shape = fit(Op::Put)?;
                let op = Op::Update(check_update(&region, &shape, modify, operands.len() as u64)?);
                (op, shape, With::Stream { operand: operands, result: Window::empty() })
            }
            What::Fetch { modify, operands, olds } => {
                let shape = fit(Op::Put)?;
                let op = Op::Fetch(check_update(&region, &shape, modify, operands.len() as u64)?);
                check_olds(&region, &shape, olds)?;
                (op, shape, With::Stream { operand: operands, result: olds })
            }
            What::CompareAndSwap { element, expected, new, olds } => {
                let op = Op::CompareAndSwap(element);
                let shape = fit(op)?;
                check_swap(&region, &shape, element, expected.len() as u64, new.len() as u64)?;
                check_olds(&region, &shape, olds)?;
                (op, shape, With::Pairs { expected, new, olds })
            }
        };
        Ok(Sound { region, op, shape, with })
    }
}

/// The shape, if the region has its bytes. **Errors**: those of [`Shape::check`].
fn fit<'s>(region: &Region, shape: Shape<'s>) -> Result<Checked<'s>> {
    shape.check(region.name(), region.len()).map(Checked::joined)
}

/// The caller's side of a get or put: a stream, or blocks where `local` has gaps.
fn local_side<'b, R>(
    region: &Region,
    shape: &Checked<'_>,
    memory: Window,
    local: Option<Shape<'b>>,
    stream: impl FnOnce(Window) -> (Window, Window),
) -> Result<With<'b, R>> {
    let stream = |memory| {
        let (operand, result) = stream(memory);
        With::Stream { operand, result }
    };
    let Some(local) = local else {
        check_len(region, shape, "the buffer", memory.len() as u64, shape.len())?;
        return Ok(stream(memory));
    };
    let local = local.check("of the caller's buffer", memory.len() as u64)?.joined();
    check_len(region, shape, "the blocks of the buffer's shape", local.len(), shape.len())?;
    Ok(match local.range() {
        Some((offset, len)) => stream(memory.slice(offset as usize, len as usize)),
        None => With::Blocks { memory, local },
    })
}

/// Refuses a buffer of another length than it should have, which it calls `what`. **Errors**: [`Error::BadShape`].
fn check_len(region: &Region, shape: &Checked<'_>, what: &str, len: u64, wanted: u64) -> Result<()> {
    if len == wanted {
        return Ok(());
    }
    Err(shape.refused(region.name(), format!("{what} must have {wanted} bytes, not {len}")))
}

fn check_olds(region: &Region, shape: &Checked<'_>, olds: Window) -> Result<()> {
    check_len(region, shape, "the buffer for old values", olds.len() as u64, shape.len())
}

/// Refuses a pattern that does not fill the shape a whole number of times. **Errors**: [`Error::BadShape`].
fn check_pattern(region: &Region, shape: &Checked<'_>, len: u64) -> Result<()> {
    if (1..=STAGE_LEN as u64).contains(&len) && shape.len().is_multiple_of(len) {
        return Ok(());
    }
    let reason = format!("a pattern of {len} bytes does not fill it: it needs 1 to {STAGE_LEN}, and a whole number of patterns");
    Err(shape.refused(region.name(), reason))
}

/// Refuses a reduction of blocks that are no whole elements, or to a range of other numbers. **Errors**: [`Error::BadElement`].
fn check_reduction(region: &Region, shape: &Checked<'_>, element: Element, range: &Range) -> Result<()> {
    shape.check_elements(region.name(), "a reduction", element, false)?;
    if matches!(range, Range::Float(..)) != element.is_float() {
        return Err(bad_element(region, "a reduction", element, "the range must be of the same kind of numbers"));
    }
    Ok(())
}

/// The update as nodes know it, if it can be done to these elements with so many bytes of operands.
///
/// **Errors**: [`Error::BadElement`], [`Error::BadShape`].
fn check_update(region: &Region, shape: &Checked<'_>, modify: Modify, operand_len: u64) -> Result<Update> {
    let Modify { operator, element } = modify;
    if !operator.fits(element) {
        let reason = "updates take elements of 32 and 64 bits, and/or/xor whole numbers";
        return Err(bad_element(region, &operator.to_string(), element, reason));
    }
    shape.check_elements(region.name(), &operator.to_string(), element, true)?;
    let is_same = operand_len == element.len() && shape.len() != element.len();
    if !is_same {
        check_len(region, shape, "the operands", operand_len, shape.len())?;
    }
    Ok(Update { operator, element, is_same })
}

/// Refuses to compare and swap what is not whole words, or with too few or many expected or new values.
///
/// **Errors**: [`Error::BadElement`], [`Error::BadShape`].
fn check_swap(region: &Region, shape: &Checked<'_>, element: Element, expected_len: u64, new_len: u64) -> Result<()> {
    if element.len() < 4 {
        return Err(bad_element(region, "compare and swap", element, "it takes elements of 32 and 64 bits"));
    }
    shape.check_elements(region.name(), "compare and swap", element, true)?;
    check_len(region, shape, "the expected values", expected_len, shape.len())?;
    check_len(region, shape, "the new values", new_len, shape.len())
}

fn bad_element(region: &Region, operation: &str, element: Element, reason: &str) -> Error {
    let (region, operation, element) = (region.name().to_owned(), operation.to_owned(), element.to_string());
    Error::BadElement { region, operation, element, reason: reason.to_owned() }
}
