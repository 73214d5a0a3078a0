//! The commands that there are: what each takes, and what it is refused for before it moves a byte. A further command is a further
//! row in each table here.

use super::{Command, Modify};
use crate::client::region::Region;
use hanare_memory::Window;
use hanare_memory::exec;
use hanare_protocol::element::{Element, Operator, Range, Summary};
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::{Op, Update};
use hanare_protocol::{Error, Result};
use std::ops::Deref;
use std::sync::Arc;

/// Operation of a command, with its operands. Shapes beside the first are on the heap: they are large, and most commands have none.
pub(super) enum What<'b, R> {
    Get { into: Window, local: Option<Box<Shape<'b>>> },
    Put { from: Window, local: Option<Box<Shape<'b>>> },
    CopyTo { to: R, to_shape: Box<Shape<'b>> },
    Fill { pattern: Window },
    Compare { bytes: Window, found: Tell<'b, Option<u64>> },
    Reduce { element: Element, range: Range, summary: Tell<'b, Summary> },
    Update { modify: Modify, operands: Window },
    Fetch { modify: Modify, operands: Window, olds: Window },
    CompareAndSwap { element: Element, expected: Window, new: Window, olds: Window },
}

/// Takes what a command tells when all its answers are here.
pub(super) type Tell<'b, T> = Arc<dyn Fn(T) + Send + Sync + 'b>;

/// Windows of the caller's memory, borrowed as long as the command lives.
fn read(bytes: &[u8]) -> Window {
    // SAFETY: the command that gets the window borrows the bytes, and only reads them.
    unsafe { Window::of(bytes) }
}

fn write(bytes: &mut [u8]) -> Window {
    // SAFETY: the command that gets the window borrows the bytes.
    unsafe { Window::of_mut(bytes) }
}

/// Makers. Each takes a region, a shape of it, and the memory that goes with them.
impl<'b, R: Deref<Target = Region>> Command<'b, R> {
    pub(super) fn new(region: R, shape: Shape<'b>, what: What<'b, R>) -> Command<'b, R> {
        Command { region, shape, what }
    }

    /// [`Region::get_shape`].
    pub fn get(region: R, shape: Shape<'b>, into: &'b mut [u8]) -> Command<'b, R> {
        Command::new(region, shape, What::Get { into: write(into), local: None })
    }

    /// [`Region::get_shape_into`].
    pub fn get_into(region: R, shape: Shape<'b>, into: &'b mut [u8], local: Shape<'b>) -> Command<'b, R> {
        Command::new(region, shape, What::Get { into: write(into), local: Some(Box::new(local)) })
    }

    /// [`Region::put_shape`].
    pub fn put(region: R, shape: Shape<'b>, bytes: &'b [u8]) -> Command<'b, R> {
        Command::new(region, shape, What::Put { from: read(bytes), local: None })
    }

    /// [`Region::put_shape_from`].
    pub fn put_from(region: R, shape: Shape<'b>, bytes: &'b [u8], local: Shape<'b>) -> Command<'b, R> {
        Command::new(region, shape, What::Put { from: read(bytes), local: Some(Box::new(local)) })
    }

    /// [`crate::Pool::copy`].
    pub fn copy(from: R, from_shape: Shape<'b>, to: R, to_shape: Shape<'b>) -> Command<'b, R> {
        Command::new(from, from_shape, What::CopyTo { to, to_shape: Box::new(to_shape) })
    }

    /// [`Region::fill`].
    pub fn fill(region: R, shape: Shape<'b>, pattern: &'b [u8]) -> Command<'b, R> {
        Command::new(region, shape, What::Fill { pattern: read(pattern) })
    }

    /// [`Region::compare`]; `found` gets the position when the command, or its batch, has ended well.
    pub fn compare(
        region: R,
        shape: Shape<'b>,
        bytes: &'b [u8],
        found: impl Fn(Option<u64>) + Send + Sync + 'b,
    ) -> Command<'b, R> {
        Command::new(region, shape, What::Compare { bytes: read(bytes), found: Arc::new(found) })
    }

    /// [`Region::reduce`]; `summary` gets it when the command, or its batch, has ended well.
    pub fn reduce(
        region: R,
        shape: Shape<'b>,
        element: Element,
        range: Range,
        summary: impl Fn(Summary) + Send + Sync + 'b,
    ) -> Command<'b, R> {
        Command::new(region, shape, What::Reduce { element, range, summary: Arc::new(summary) })
    }

    /// [`Region::update`].
    pub fn update(region: R, shape: Shape<'b>, modify: Modify, operands: &'b [u8]) -> Command<'b, R> {
        Command::new(region, shape, What::Update { modify, operands: read(operands) })
    }

    /// [`Region::fetch`].
    pub fn fetch(region: R, shape: Shape<'b>, modify: Modify, operands: &'b [u8], olds: &'b mut [u8]) -> Command<'b, R> {
        Command::new(region, shape, What::Fetch { modify, operands: read(operands), olds: write(olds) })
    }

    /// [`Region::compare_and_swap`].
    pub fn compare_and_swap(
        region: R,
        shape: Shape<'b>,
        element: Element,
        expected: &'b [u8],
        new: &'b [u8],
        olds: &'b mut [u8],
    ) -> Command<'b, R> {
        let what = What::CompareAndSwap { element, expected: read(expected), new: read(new), olds: write(olds) };
        Command::new(region, shape, what)
    }
}

impl<'b, R: Deref<Target = Region>> What<'b, R> {
    /// The same, with shapes as `shape` gives them.
    pub(super) fn again<'s, 'c>(&'s self, shape: impl Fn(&'s Shape<'b>) -> Shape<'c>) -> What<'c, &'s Region>
    where
        'b: 'c,
    {
        self.map(shape, |region| &**region)
    }
}

impl<'b, R> What<'b, R> {
    /// The same, with shapes as `shape` gives them, and regions as `region` does.
    pub(super) fn map<'s, 'c, S>(&'s self, shape: impl Fn(&'s Shape<'b>) -> Shape<'c>, region: impl Fn(&'s R) -> S) -> What<'c, S>
    where
        'b: 'c,
    {
        match self {
            What::Get { into, local } => What::Get { into: *into, local: local.as_ref().map(|local| Box::new(shape(local))) },
            What::Put { from, local } => What::Put { from: *from, local: local.as_ref().map(|local| Box::new(shape(local))) },
            What::CopyTo { to, to_shape } => What::CopyTo { to: region(to), to_shape: Box::new(shape(to_shape)) },
            What::Fill { pattern } => What::Fill { pattern: *pattern },
            What::Compare { bytes, found } => What::Compare { bytes: *bytes, found: found.clone() },
            What::Reduce { element, range, summary } => {
                What::Reduce { element: *element, range: *range, summary: summary.clone() }
            }
            What::Update { modify, operands } => What::Update { modify: *modify, operands: *operands },
            What::Fetch { modify, operands, olds } => What::Fetch { modify: *modify, operands: *operands, olds: *olds },
            What::CompareAndSwap { element, expected, new, olds } => {
                What::CompareAndSwap { element: *element, expected: *expected, new: *new, olds: *olds }
            }
        }
    }
}

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
    Blocks { memory: Window, local: Box<Checked<'b>> },
    /// Another region, with as many bytes in its shape.
    Region { to: R, to_shape: Box<Checked<'b>> },
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
    /// **Cost**: a look at each index of a list. **Errors**: [`Error::BadUse`] if the region was opened for reading. Those of
    /// [`Shape::check`] and [`Op::check`]. [`Error::BadShape`] for memory of another length than it needs.
    pub(super) fn sound(self) -> Result<Sound<'b, R>> {
        let Command { region, shape, what } = self;
        let shape = fit(&region, shape)?;
        let op = what.op(&shape);
        // The region of a copy is that which is read.
        region.check_rights(if op == Op::CopyTo { Op::CopyFrom { address_len: 0 } } else { op })?;
        exec::check(op, region.name(), &shape)?;
        let len = |what: &str, window: Window| check_len(&region, &shape, what, window.len() as u64, shape.len());
        let none = Window::empty();
        let with = match what {
            What::Get { into, local } => local_side(&region, &shape, into, local, |result| (none, result))?,
            What::Put { from, local } => local_side(&region, &shape, from, local, |operand| (operand, none))?,
            What::CopyTo { to, to_shape } => {
                let to_shape = fit(&to, *to_shape)?;
                to.check_rights(op)?;
                check_len(&to, &to_shape, "the source", shape.len(), to_shape.len())?;
                With::Region { to, to_shape: Box::new(to_shape) }
            }
            What::Fill { pattern } => {
                if !shape.len().is_multiple_of(pattern.len() as u64) {
                    let reason = format!("a pattern of {} bytes does not fill it a whole number of times", pattern.len());
                    return Err(shape.refused(region.name(), reason));
                }
                With::Stream { operand: pattern, result: none }
            }
            What::Compare { bytes, found } => {
                len("the bytes to compare with", bytes)?;
                With::Difference { bytes, found }
            }
            What::Reduce { element, range, summary } => {
                if matches!(range, Range::Float(..)) != element.is_float() {
                    let (region, operation, element) = (region.name().to_owned(), op.name().to_owned(), element.to_string());
                    let reason = "the range must be of the same kind of numbers".to_owned();
                    return Err(Error::BadElement { region, operation, element, reason });
                }
                With::Summary { range, summary }
            }
            What::Update { operands, .. } => {
                check_operands(&region, &shape, op, operands)?;
                With::Stream { operand: operands, result: none }
            }
            What::Fetch { operands, olds, .. } => {
                check_operands(&region, &shape, op, operands)?;
                len(OLDS, olds)?;
                With::Stream { operand: operands, result: olds }
            }
            What::CompareAndSwap { expected, new, olds, .. } => {
                len("the expected values", expected)?;
                len("the new values", new)?;
                len(OLDS, olds)?;
                With::Pairs { expected, new, olds }
            }
        };
        Ok(Sound { region, op, shape, with })
    }
}

/// Name of the buffer for old elements.
const OLDS: &str = "the buffer for old values";

impl<R> What<'_, R> {
    /// True if running it twice differs from running it once.
    pub(super) fn is_once(&self) -> bool {
        matches!(self, What::Update { .. } | What::Fetch { .. } | What::CompareAndSwap { .. }) && !self.is_load()
    }

    /// True if it changes memory.
    pub(super) fn writes(&self) -> bool {
        !matches!(self, What::Get { .. } | What::Compare { .. } | What::Reduce { .. }) && !self.is_load()
    }

    fn is_load(&self) -> bool {
        matches!(self, What::Fetch { modify, .. } if modify.operator == Operator::Load)
    }

    /// The operation as nodes know it.
    fn op(&self, shape: &Checked<'_>) -> Op {
        match self {
            What::Get { .. } => Op::Get,
            What::Put { .. } => Op::Put,
            What::CopyTo { .. } => Op::CopyTo,
            What::Fill { pattern } => Op::Fill { pattern_len: u32::try_from(pattern.len()).unwrap_or(u32::MAX) },
            What::Compare { .. } => Op::Compare,
            What::Reduce { element, .. } => Op::Reduce(*element),
            What::Update { modify, operands } => Op::Update(update_of(shape, *modify, *operands)),
            What::Fetch { modify, operands, .. } => Op::Fetch(update_of(shape, *modify, *operands)),
            What::CompareAndSwap { element, .. } => Op::CompareAndSwap(*element),
        }
    }
}

/// The update as nodes know it: with one operand for all elements, or one for each.
fn update_of(shape: &Checked<'_>, modify: Modify, operands: Window) -> Update {
    let Modify { operator, element } = modify;
    let is_same = operands.len() as u64 == element.len() && shape.len() != element.len();
    Update { operator, element, is_same }
}

/// The shape, if the region has its bytes. **Errors**: those of [`Shape::check`].
fn fit<'s>(region: &Region, shape: Shape<'s>) -> Result<Checked<'s>> {
    shape.check(region.name(), region.len()).map(Checked::joined)
}

fn check_operands(region: &Region, shape: &Checked<'_>, op: Op, operands: Window) -> Result<()> {
    let wanted = op.operand_len(shape.len()).unwrap_or(u64::MAX);
    check_len(region, shape, "the operands", operands.len() as u64, wanted)
}

/// The caller's side of a get or put: a stream, or blocks where `local` has gaps.
fn local_side<'b, R>(
    region: &Region,
    shape: &Checked<'_>,
    memory: Window,
    local: Option<Box<Shape<'b>>>,
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
        None => With::Blocks { memory, local: Box::new(local) },
    })
}

/// Refuses a buffer of another length than it should have, which it calls `what`. **Errors**: [`Error::BadShape`].
fn check_len(region: &Region, shape: &Checked<'_>, what: &str, len: u64, wanted: u64) -> Result<()> {
    if len == wanted {
        return Ok(());
    }
    Err(shape.refused(region.name(), format!("{what} must have {wanted} bytes, not {len}")))
}
