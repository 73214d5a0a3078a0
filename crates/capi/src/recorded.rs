//! A command as C gave it: checked, run at once, or kept in a batch and run as often as C wants.
//!
//! Safety: a command has windows of the caller's memory and borrows its index lists. Whoever makes one promises that both
//! stay good until it was run for the last time: during a call for blocking ones, as the header says for batches.

use crate::argument::{bytes, bytes_mut, place, reference, sized, write_sized};
use crate::border::Outcome;
use crate::code;
use crate::element::{self, CRange, CSummary};
use crate::region::CRegion;
use crate::shape::{CShape, shape, shape_or_none};
use hanare::{Batch, Element, Modify, Pool, Range, Region, Summary, Window};
use hanare_protocol::shape::{Checked, Shape};
use hanare_protocol::wire::command::Op;
use hanare_protocol::{Error, Result};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

/// A command on the blocks of a shape of a region.
pub struct Command {
    pool: Pool,
    region: Arc<Region>,
    shape: Shape<'static>,
    what: What,
}

/// What is done, and with which of the caller's memory.
enum What {
    Put { from: Window, local: Option<Shape<'static>> },
    Get { into: Window, local: Option<Shape<'static>> },
    Copy { to: Arc<Region>, to_shape: Shape<'static> },
    Fill { pattern: Window },
    Compare { bytes: Window, position: *mut u64 },
    Reduce { element: Element, range: Range, summary: *mut CSummary },
    Update { modify: Modify, operands: Window },
    Fetch { modify: Modify, operands: Window, olds: Window },
    CompareAndSwap { element: Element, expected: Window, desired: Window, olds: Window },
}

/// Bytes of the caller, and how many.
#[derive(Clone, Copy)]
pub struct Bytes(pub *const c_void, pub usize);

/// Bytes of the caller to be written to, and how many.
#[derive(Clone, Copy)]
pub struct Room(pub *mut c_void, pub usize);

impl Bytes {
    /// # Safety
    /// As the module says.
    unsafe fn window(self, what: &str) -> Outcome<Window> {
        // SAFETY: promised by the caller.
        unsafe { Ok(Window::of(bytes(self.0.cast(), self.1, what)?)) }
    }
}

impl Room {
    /// # Safety
    /// As the module says.
    unsafe fn window(self, what: &str) -> Outcome<Window> {
        // SAFETY: promised by the caller.
        unsafe { Ok(Window::of_mut(bytes_mut(self.0.cast(), self.1, what)?)) }
    }
}

/// The caller's bytes while a command is run.
///
/// # Safety
/// As the module says.
unsafe fn read(window: Window) -> &'static [u8] {
    // SAFETY: the window was made of such a slice, and the caller's memory is still good.
    unsafe { std::slice::from_raw_parts(window.ptr(), window.len()) }
}

/// As [`read`], for bytes to be written to.
///
/// # Safety
/// As the module says.
unsafe fn write(window: Window) -> &'static mut [u8] {
    // SAFETY: as in `read`.
    unsafe { std::slice::from_raw_parts_mut(window.ptr(), window.len()) }
}

/// The pointers that C gave for a region and a shape of it.
#[derive(Clone, Copy)]
pub struct Target(pub *mut CRegion, pub *const CShape);

/// Makers: each takes the caller's pointers and gives a command that was not checked yet.
///
/// # Safety (of all)
/// Pointers are the caller's, as the header says, and stay good as the module says.
impl Command {
    unsafe fn on(target: Target, what: What) -> Outcome<Command> {
        // SAFETY: promised by the caller.
        let (region, shape) = unsafe { (reference(target.0, "region")?, shape(target.1, "shape")?) };
        Ok(Command { pool: region.pool.clone(), region: region.region.clone(), shape, what })
    }

    /// `hanare_put_shape`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn put(target: Target, from: Bytes, from_shape: *const CShape) -> Outcome<Command> {
        // SAFETY: promised by the caller.
        unsafe { Command::on(target, What::Put { from: from.window("from")?, local: shape_or_none(from_shape, "from_shape")? }) }
    }

    /// `hanare_get_shape`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn get(target: Target, into: Room, into_shape: *const CShape) -> Outcome<Command> {
        // SAFETY: promised by the caller.
        unsafe { Command::on(target, What::Get { into: into.window("into")?, local: shape_or_none(into_shape, "into_shape")? }) }
    }

    /// `hanare_copy_shape`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn copy(from: Target, to: Target) -> Outcome<Command> {
        // SAFETY: promised by the caller.
        unsafe {
            let (source, target) = (reference(from.0, "from")?, reference(to.0, "to")?);
            let (from_shape, to_shape) = (shape(from.1, "from_shape")?, shape(to.1, "to_shape")?);
            check_attachment(&source.pool, target, &source.region)?;
            let what = What::Copy { to: target.region.clone(), to_shape };
            Ok(Command { pool: source.pool.clone(), region: source.region.clone(), shape: from_shape, what })
        }
    }

    /// `hanare_fill`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn fill(target: Target, pattern: Bytes) -> Outcome<Command> {
        // SAFETY: promised by the caller.
        unsafe { Command::on(target, What::Fill { pattern: pattern.window("pattern")? }) }
    }

    /// `hanare_compare`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn compare(target: Target, bytes: Bytes, position: *mut u64) -> Outcome<Command> {
        // SAFETY: promised by the caller.
        unsafe { Command::on(target, What::Compare { bytes: bytes.window("bytes")?, position: place(position, "position")? }) }
    }

    /// `hanare_reduce`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn reduce(target: Target, element: c_int, range: *const CRange, summary: *mut CSummary) -> Outcome<Command> {
        let element = element::element(element)?;
        // SAFETY: promised by the caller; looked at now, so that a bad size is told before anything runs.
        unsafe {
            sized(summary, "summary")?;
            Command::on(target, What::Reduce { element, range: element::range(range, element)?, summary })
        }
    }

    /// `hanare_update`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn update(target: Target, (element, operator): (c_int, c_int), operands: Bytes) -> Outcome<Command> {
        let modify = element::modify(element, operator)?;
        // SAFETY: promised by the caller.
        unsafe { Command::on(target, What::Update { modify, operands: operands.window("operands")? }) }
    }

    /// `hanare_fetch`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn fetch(target: Target, (element, operator): (c_int, c_int), operands: Bytes, olds: Room) -> Outcome<Command> {
        let modify = element::modify(element, operator)?;
        // SAFETY: promised by the caller.
        unsafe {
            let (operands, olds) = (operands.window("operands")?, olds.window("olds")?);
            Command::on(target, What::Fetch { modify, operands, olds })
        }
    }

    /// `hanare_compare_and_swap`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn compare_and_swap(
        target: Target,
        element: c_int,
        expected: Bytes,
        desired: Bytes,
        olds: Room,
    ) -> Outcome<Command> {
        let element = element::element(element)?;
        // SAFETY: promised by the caller.
        unsafe {
            let (expected, desired) = (expected.window("expected")?, desired.window("desired")?);
            Command::on(target, What::CompareAndSwap { element, expected, desired, olds: olds.window("olds")? })
        }
    }
}

impl Command {
    /// Runs it and returns when it is done.
    ///
    /// # Safety
    /// As the module says.
    pub unsafe fn run(&self) -> Outcome {
        let (region, shape) = (&self.region, self.shape.by_ref());
        // SAFETY: promised by the caller.
        unsafe {
            match &self.what {
                What::Put { from, local: None } => region.put_shape(shape, read(*from))?,
                What::Put { from, local: Some(local) } => region.put_shape_from(shape, read(*from), local.by_ref())?,
                What::Get { into, local: None } => region.get_shape(shape, write(*into))?,
                What::Get { into, local: Some(local) } => region.get_shape_into(shape, write(*into), local.by_ref())?,
                What::Copy { to, to_shape } => self.pool.copy(region, shape, to, to_shape.by_ref())?,
                What::Fill { pattern } => region.fill(shape, read(*pattern))?,
                What::Compare { bytes, position } => tell_position(region.compare(shape, read(*bytes))?, *position),
                What::Reduce { element, range, summary } => {
                    tell_summary(&region.reduce(shape, *element, *range)?, *element, *summary)?;
                }
                What::Update { modify, operands } => region.update(shape, *modify, read(*operands))?,
                What::Fetch { modify, operands, olds } => region.fetch(shape, *modify, read(*operands), write(*olds))?,
                What::CompareAndSwap { element, expected, desired, olds } => {
                    region.compare_and_swap(shape, *element, read(*expected), read(*desired), write(*olds))?;
                }
            }
        }
        Ok(code::OK)
    }

    /// Adds it to a batch; `told` gets what it will tell.
    ///
    /// # Safety
    /// As the module says, until the batch has ended.
    pub unsafe fn add(&self, batch: &mut Batch<'static>, told: &mut Vec<Told>) -> Result<()> {
        let (region, shape) = (&self.region, self.shape.clone());
        // SAFETY: promised by the caller; what is told is kept until the batch has ended.
        unsafe {
            match &self.what {
                What::Put { from, local: None } => batch.put_shape(region, shape, read(*from)),
                What::Put { from, local: Some(local) } => batch.put_shape_from(region, shape, read(*from), local.clone()),
                What::Get { into, local: None } => batch.get_shape(region, shape, write(*into)),
                What::Get { into, local: Some(local) } => batch.get_shape_into(region, shape, write(*into), local.clone()),
                What::Copy { to, to_shape } => batch.copy(region, shape, to, to_shape.clone()),
                What::Fill { pattern } => batch.fill(region, shape, read(*pattern)),
                What::Compare { bytes, position } => {
                    let cell = Cell::new();
                    let found = cell.lend();
                    told.push(Told::Position(cell, *position));
                    batch.compare(region, shape, read(*bytes), found)
                }
                What::Reduce { element, range, summary } => {
                    let cell = Cell::new();
                    let into = cell.lend();
                    told.push(Told::Summary(cell, *element, *summary));
                    batch.reduce(region, shape, *element, *range, into)
                }
                What::Update { modify, operands } => batch.update(region, shape, *modify, read(*operands)),
                What::Fetch { modify, operands, olds } => batch.fetch(region, shape, *modify, read(*operands), write(*olds)),
                What::CompareAndSwap { element, expected, desired, olds } => {
                    batch.compare_and_swap(region, shape, *element, read(*expected), read(*desired), write(*olds))
                }
            }
        }
    }
}

/// Refuses to copy between attachments.
pub fn check_attachment(pool: &Pool, to: &CRegion, from: &Region) -> Outcome<()> {
    if pool.client() == to.pool.client() {
        return Ok(());
    }
    let reason = format!("it and region '{}' were opened through different attachments", from.name());
    Err(Error::BadUse { region: to.region.name().to_owned(), reason }.into())
}

/// Checks: what the run would refuse before it moves a byte, for commands that are run later.
impl Command {
    /// Refuses to be run by another attachment than its region's.
    pub fn check_attachment(&self, pool: &Pool) -> Result<()> {
        if self.pool.client() == pool.client() {
            return Ok(());
        }
        let reason = "it was opened through another attachment than the batch was begun with".to_owned();
        Err(Error::BadUse { region: self.region.name().to_owned(), reason })
    }

    /// Refuses what would be refused when it is run. **Cost**: a look at each index of a list.
    pub fn check(&self) -> Result<()> {
        let region = &*self.region;
        let fit = |op: Op| {
            region.check_rights(op)?;
            region.fit(self.shape.by_ref())
        };
        let check_old = |shape: &Checked<'_>, olds: &Window| {
            region.check_len(shape, "the buffer for old values", olds.len() as u64, shape.len())
        };
        let check_update = |shape: &Checked<'_>, modify: &Modify, operands: &Window| {
            region.check_update(shape, *modify, operands.len() as u64).map(drop)
        };
        match &self.what {
            What::Put { from, local } => check_local(region, &fit(Op::Put)?, from, local.as_ref()),
            What::Get { into, local } => check_local(region, &fit(Op::Get)?, into, local.as_ref()),
            What::Copy { to, to_shape } => {
                let from_len = fit(Op::CopyFrom { address_len: 0 })?.len();
                to.check_rights(Op::CopyTo)?;
                let shape = to.fit(to_shape.by_ref())?;
                to.check_len(&shape, "the source", from_len, shape.len())
            }
            What::Fill { pattern } => region.check_pattern(&fit(Op::Put)?, pattern.len() as u64),
            What::Compare { bytes, .. } => {
                let shape = fit(Op::Compare)?;
                region.check_len(&shape, "the bytes to compare with", bytes.len() as u64, shape.len())
            }
            What::Reduce { element, range, .. } => region.check_reduction(&fit(Op::Reduce(*element))?, *element, range),
            What::Update { modify, operands } => check_update(&fit(Op::Put)?, modify, operands),
            What::Fetch { modify, operands, olds } => {
                let shape = fit(Op::Put)?;
                check_update(&shape, modify, operands)?;
                check_old(&shape, olds)
            }
            What::CompareAndSwap { element, expected, desired, olds } => {
                let shape = fit(Op::CompareAndSwap(*element))?;
                region.check_swap(&shape, *element, (expected.len() + desired.len()) as u64)?;
                check_old(&shape, olds)
            }
        }
    }
}

fn check_local(region: &Region, shape: &Checked<'_>, memory: &Window, local: Option<&Shape<'static>>) -> Result<()> {
    match local {
        None => region.check_len(shape, "the buffer", memory.len() as u64, shape.len()),
        Some(local) => {
            let local = hanare::fit_buffer(local.by_ref(), memory.len() as u64)?;
            region.check_len(shape, "the blocks of the buffer's shape", local.len(), shape.len())
        }
    }
}

/// What a command of a batch tells C when the batch has ended well.
pub enum Told {
    /// A comparison's, and where C wants it.
    Position(Cell<Option<u64>>, *mut u64),
    /// A reduction's, and where C wants it.
    Summary(Cell<Option<Summary>>, Element, *mut CSummary),
}

impl Told {
    /// Tells C.
    ///
    /// # Safety
    /// The batch has ended, and C's variables are still good.
    pub unsafe fn tell(self) -> Outcome<()> {
        // SAFETY: promised by the caller.
        unsafe {
            match self {
                Told::Position(cell, into) => tell_position(cell.take(), into),
                Told::Summary(cell, element, into) => {
                    let summary = cell.take().expect("a reduction that succeeded has told");
                    tell_summary(&summary, element, into)?;
                }
            }
        }
        Ok(())
    }
}

/// # Safety
/// `into` is the caller's variable.
unsafe fn tell_position(position: Option<u64>, into: *mut u64) {
    // SAFETY: promised by the caller.
    unsafe { into.write(position.unwrap_or(u64::MAX)) }
}

/// # Safety
/// `into` is the caller's struct.
unsafe fn tell_summary(summary: &Summary, element: Element, into: *mut CSummary) -> Outcome<()> {
    // SAFETY: promised by the caller; the struct begins with its size.
    unsafe { write_sized(&CSummary::of(summary, element), into, "summary") }
}

/// A value on the heap that a batch writes to while this moves about.
pub struct Cell<T>(NonNull<T>);

impl<T: Default> Cell<T> {
    fn new() -> Cell<T> {
        Cell(NonNull::from(Box::leak(Box::default())))
    }

    /// # Safety
    /// Used once, and not beyond the life of the cell; the value is not taken before the borrower has ended.
    unsafe fn lend(&self) -> &'static mut T {
        // SAFETY: from a Box of our own, which lives until `drop`; the caller promises that no other use overlaps.
        unsafe { &mut *self.0.as_ptr() }
    }

    /// # Safety
    /// Whoever it was lent to has ended.
    unsafe fn take(&self) -> T {
        // SAFETY: as in `lend`.
        std::mem::take(unsafe { &mut *self.0.as_ptr() })
    }
}

impl<T> Drop for Cell<T> {
    fn drop(&mut self) {
        // SAFETY: from a Box, and freed nowhere else.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
