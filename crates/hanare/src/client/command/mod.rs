//! A vector command as a value: what is done, to which bytes of a region, with which of the caller's memory.
//!
//! ```text
//! Command ── check ──> Sound ──┬── at_once: the region is one window of this program
//!                              └── draft: its parts on this host are done, the others wait in Drafts ── post ──> Tickets
//! ```
//!
//! Every face makes this one value: calls of a region or a pool, batches, the C library. A blocking command is started and waited
//! for; a batch is many commands.
//!
//! Safety: `'b` says how long the caller's memory and index lists are good. The safe makers borrow them. Who makes a command of
//! windows promises as much.

mod batch;
mod calls;
mod check;
mod completion;
mod copy;
mod draft;

pub use batch::Batch;
pub use completion::Completion;

use super::drafts::{self, Drafts, Tickets};
use super::region::Region;
use hanare_memory::Window;
use hanare_protocol::Result;
use hanare_protocol::element::{Element, Operator, Range, Summary};
use hanare_protocol::shape::Shape;
use std::ops::Deref;
use std::sync::Arc;

/// What is done to each element of a shape. Operands have one element's bytes for all, or one for each in order.
///
/// **Source**: [RF §3] atomic primitives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modify {
    /// The operation.
    pub operator: Operator,
    /// The kind of elements: of 32 or 64 bits; bitwise operations take whole numbers.
    pub element: Element,
}

/// A vector command that was not run yet.
///
/// It borrows the caller's memory and index lists for `'b`, and holds its regions by `R`. Nothing is checked, sent or
/// written before it is run, or added to a [`Batch`].
#[must_use = "a command does nothing before it is run or added to a batch"]
pub struct Command<'b, R = &'b Region> {
    region: R,
    shape: Shape<'b>,
    what: What<'b, R>,
}

/// What is done, and with what.
enum What<'b, R> {
    Get { into: Window, local: Option<Shape<'b>> },
    Put { from: Window, local: Option<Shape<'b>> },
    CopyTo { to: R, to_shape: Shape<'b> },
    Fill { pattern: Window },
    Compare { bytes: Window, found: Tell<'b, Option<u64>> },
    Reduce { element: Element, range: Range, summary: Tell<'b, Summary> },
    Update { modify: Modify, operands: Window },
    Fetch { modify: Modify, operands: Window, olds: Window },
    CompareAndSwap { element: Element, expected: Window, new: Window, olds: Window },
}

/// Takes what a command tells when all its answers are here.
type Tell<'b, T> = Arc<dyn Fn(T) + Send + Sync + 'b>;

/// Windows of the caller's memory, borrowed as long as the command lives.
fn read<'b>(bytes: &'b [u8]) -> Window {
    // SAFETY: the command that gets the window borrows the bytes, and only reads them.
    unsafe { Window::of(bytes) }
}

fn write<'b>(bytes: &'b mut [u8]) -> Window {
    // SAFETY: the command that gets the window borrows the bytes.
    unsafe { Window::of_mut(bytes) }
}

/// Makers. Each takes a region, a shape of it, and the memory that goes with them.
impl<'b, R: Deref<Target = Region>> Command<'b, R> {
    fn new(region: R, shape: Shape<'b>, what: What<'b, R>) -> Command<'b, R> {
        Command { region, shape, what }
    }

    /// [`Region::get_shape`].
    pub fn get(region: R, shape: Shape<'b>, into: &'b mut [u8]) -> Command<'b, R> {
        Command::new(region, shape, What::Get { into: write(into), local: None })
    }

    /// [`Region::get_shape_into`].
    pub fn get_into(region: R, shape: Shape<'b>, into: &'b mut [u8], local: Shape<'b>) -> Command<'b, R> {
        Command::new(region, shape, What::Get { into: write(into), local: Some(local) })
    }

    /// [`Region::put_shape`].
    pub fn put(region: R, shape: Shape<'b>, bytes: &'b [u8]) -> Command<'b, R> {
        Command::new(region, shape, What::Put { from: read(bytes), local: None })
    }

    /// [`Region::put_shape_from`].
    pub fn put_from(region: R, shape: Shape<'b>, bytes: &'b [u8], local: Shape<'b>) -> Command<'b, R> {
        Command::new(region, shape, What::Put { from: read(bytes), local: Some(local) })
    }

    /// [`crate::Pool::copy`].
    pub fn copy(from: R, from_shape: Shape<'b>, to: R, to_shape: Shape<'b>) -> Command<'b, R> {
        Command::new(from, from_shape, What::CopyTo { to, to_shape })
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

impl<'b, R: Deref<Target = Region>> Command<'b, R> {
    /// The region; of a copy, that which is read.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Refuses what would be refused when it is run, before it moves a byte. Nobody is asked: what a node refuses shows then.
    ///
    /// **Cost**: a look at each index of a list. **Errors**: those of the call.
    pub fn check(&self) -> Result<()> {
        self.by_ref().sound().map(drop)
    }

    /// Runs it and returns when it is done. What a node refuses because its grant is of yesterday is tried once more, with that of today.
    ///
    /// **Errors**: those of the call.
    pub fn run(self) -> Result<()> {
        if let Some(here) = self.window() {
            return self.sound()?.at_once(here);
        }
        let is_once = matches!(self.what, What::Update { .. } | What::Fetch { .. } | What::CompareAndSwap { .. });
        let refresh = |error: &_| {
            self.region.refresh_after(error)?;
            if let What::CopyTo { to, .. } = &self.what { to.refresh_after(error) } else { Ok(()) }
        };
        // SAFETY: the memory is good as long as the command, and all is waited for before this returns.
        unsafe { drafts::run(is_once, refresh, |drafts| self.by_ref().draft(drafts)) }
    }

    /// Begins it; its parts on this host are done when this returns.
    ///
    /// # Safety
    /// The memory stays good until the tickets were waited for.
    unsafe fn start(self) -> Result<Tickets<'b>> {
        let mut tickets = Tickets::to_keep();
        // SAFETY: promised by the caller.
        match unsafe { drafts::post(|drafts| self.draft(drafts), &mut tickets) } {
            Ok(()) => Ok(tickets),
            Err(error) => {
                // What did leave must be settled before the caller takes its memory back.
                let _ = tickets.wait();
                Err(error)
            }
        }
    }

    /// Its requests, and what is done when they are answered; its parts on this host are done.
    ///
    /// Windows and borrowed index lists are used until the tickets were waited for: whoever posts the drafts vouches.
    fn draft(self, drafts: &mut Drafts<'b>) -> Result<()> {
        self.region.refresh_if_refused()?;
        if let What::CopyTo { to, .. } = &self.what {
            to.refresh_if_refused()?;
        }
        self.sound()?.draft(drafts)
    }

    /// All bytes of the region, where they are one window of this program. None on a timeline, which has every command in it.
    fn window(&self) -> Option<Window> {
        match self.what {
            What::CopyTo { .. } => None,
            _ if crate::trace::current().is_some() => None,
            _ => self.region.mapped_whole(),
        }
    }

    /// The same command, to be run beside or after this one: for faces that keep commands and run them as often as they are asked.
    ///
    /// # Safety
    /// The memory is good until both were run for the last time. Two that run at once write into the same buffers: whoever runs them has
    /// allowed that.
    pub unsafe fn again(&self) -> Command<'b, &Region> {
        Command { region: &self.region, shape: self.shape.clone(), what: self.what.again(Clone::clone) }
    }

    /// The same command, which borrows this one's index lists.
    fn by_ref(&self) -> Command<'_, &Region> {
        Command { region: &self.region, shape: self.shape.by_ref(), what: self.what.again(Shape::by_ref) }
    }
}

impl<'b, R: Deref<Target = Region>> What<'b, R> {
    /// The same, with shapes as `shape` gives them.
    fn again<'s, 'c>(&'s self, shape: impl Fn(&'s Shape<'b>) -> Shape<'c>) -> What<'c, &'s Region>
    where
        'b: 'c,
    {
        match self {
            What::Get { into, local } => What::Get { into: *into, local: local.as_ref().map(shape) },
            What::Put { from, local } => What::Put { from: *from, local: local.as_ref().map(shape) },
            What::CopyTo { to, to_shape } => What::CopyTo { to: &**to, to_shape: shape(to_shape) },
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
