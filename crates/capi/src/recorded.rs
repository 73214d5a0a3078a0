//! A command as C gave it: the library's own value, checked, run at once, or kept in a batch and run as often as C wants.
//!
//! Safety: a command has windows of the caller's memory and borrows its index lists. Whoever makes one promises that both
//! stay good until it was run for the last time: during a call for blocking ones, as the header says for batches.

use crate::argument::{Room, bytes, bytes_mut, place, reference};
use crate::border::Outcome;
use crate::code;
use crate::element::{self, CRange, CSummary};
use crate::region::CRegion;
use crate::shape::{CShape, shape, shape_or_none};
use hanare::{Batch, Command, Pool, Region};
use hanare_protocol::{Error, Result};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A command on the blocks of a shape of a region, and the attachment that it was made with.
pub struct Recorded {
    pool: Pool,
    command: Made,
}

type Made = Command<'static, Arc<Region>>;

/// Bytes of the caller, and how many.
#[derive(Clone, Copy)]
pub struct Bytes(pub *const c_void, pub usize);

/// Bytes of the caller to be written to, and how many.
#[derive(Clone, Copy)]
pub struct BytesMut(pub *mut c_void, pub usize);

impl Bytes {
    /// # Safety
    /// As the module says.
    unsafe fn read(self, what: &str) -> Outcome<&'static [u8]> {
        // SAFETY: promised by the caller.
        unsafe { bytes(self.0.cast(), self.1, what) }
    }
}

impl BytesMut {
    /// # Safety
    /// As the module says.
    unsafe fn write(self, what: &str) -> Outcome<&'static mut [u8]> {
        // SAFETY: promised by the caller.
        unsafe { bytes_mut(self.0.cast(), self.1, what) }
    }
}

/// A variable of the caller that a command tells to.
struct Variable<T>(T);

// SAFETY: the variable is written to once, when the command has ended, by the thread that waits for it.
unsafe impl<T> Send for Variable<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Variable<T> {}

/// The pointers that C gave for a region and a shape of it.
#[derive(Clone, Copy)]
pub struct Target(pub *mut CRegion, pub *const CShape);

/// Makers: each takes the caller's pointers and gives a command that was not checked yet.
///
/// # Safety (of all)
/// Pointers are the caller's, as the header says, and stay good as the module says.
impl Recorded {
    unsafe fn on(target: Target, make: impl FnOnce(Arc<Region>, hanare::Shape<'static>) -> Made) -> Outcome<Recorded> {
        // SAFETY: promised by the caller.
        let (region, shape) = unsafe { (reference(target.0, "region")?, shape(target.1, "shape")?) };
        Ok(Recorded { pool: region.pool.clone(), command: make(region.region.clone(), shape) })
    }

    /// `hanare_put_shape`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn put(target: Target, from: Bytes, from_shape: *const CShape) -> Outcome<Recorded> {
        // SAFETY: promised by the caller.
        unsafe {
            let (from, local) = (from.read("from")?, shape_or_none(from_shape, "from_shape")?);
            Recorded::on(target, |region, shape| match local {
                None => Command::put(region, shape, from),
                Some(local) => Command::put_from(region, shape, from, local),
            })
        }
    }

    /// `hanare_get_shape`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn get(target: Target, into: BytesMut, into_shape: *const CShape) -> Outcome<Recorded> {
        // SAFETY: promised by the caller.
        unsafe {
            let (into, local) = (into.write("into")?, shape_or_none(into_shape, "into_shape")?);
            Recorded::on(target, |region, shape| match local {
                None => Command::get(region, shape, into),
                Some(local) => Command::get_into(region, shape, into, local),
            })
        }
    }

    /// `hanare_copy_shape`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn copy(from: Target, to: Target) -> Outcome<Recorded> {
        // SAFETY: promised by the caller.
        unsafe {
            let (source, target) = (reference(from.0, "from")?, reference(to.0, "to")?);
            let (from_shape, to_shape) = (shape(from.1, "from_shape")?, shape(to.1, "to_shape")?);
            check_attachment(&source.pool, target, &source.region)?;
            let command = Command::copy(source.region.clone(), from_shape, target.region.clone(), to_shape);
            Ok(Recorded { pool: source.pool.clone(), command })
        }
    }

    /// `hanare_fill`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn fill(target: Target, pattern: Bytes) -> Outcome<Recorded> {
        // SAFETY: promised by the caller.
        unsafe {
            let pattern = pattern.read("pattern")?;
            Recorded::on(target, |region, shape| Command::fill(region, shape, pattern))
        }
    }

    /// `hanare_compare`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn compare(target: Target, bytes: Bytes, position: *mut u64) -> Outcome<Recorded> {
        // SAFETY: promised by the caller.
        unsafe {
            let (bytes, into) = (bytes.read("bytes")?, Variable(place(position, "position")?));
            let tell = move |found: Option<u64>| {
                let Variable(into) = &into;
                into.write(found.unwrap_or(u64::MAX));
            };
            Recorded::on(target, |region, shape| Command::compare(region, shape, bytes, tell))
        }
    }

    /// `hanare_reduce`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn reduce(target: Target, element: c_int, range: *const CRange, summary: *mut CSummary) -> Outcome<Recorded> {
        let element = element::element(element)?;
        // SAFETY: promised by the caller; the struct's size is looked at before anything runs.
        unsafe {
            let into = Variable(Room::of(summary, "summary")?);
            let range = element::range(range, element)?;
            let tell = move |summary| {
                let Variable(into) = &into;
                into.write(&CSummary::of(&summary, element));
            };
            Recorded::on(target, |region, shape| Command::reduce(region, shape, element, range, tell))
        }
    }

    /// `hanare_update`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn update(target: Target, (element, operator): (c_int, c_int), operands: Bytes) -> Outcome<Recorded> {
        let modify = element::modify(element, operator)?;
        // SAFETY: promised by the caller.
        unsafe {
            let operands = operands.read("operands")?;
            Recorded::on(target, |region, shape| Command::update(region, shape, modify, operands))
        }
    }

    /// `hanare_fetch`.
    ///
    /// # Safety
    /// As said for all makers.
    pub unsafe fn fetch(
        target: Target,
        (element, operator): (c_int, c_int),
        operands: Bytes,
        olds: BytesMut,
    ) -> Outcome<Recorded> {
        let modify = element::modify(element, operator)?;
        // SAFETY: promised by the caller.
        unsafe {
            let (operands, olds) = (operands.read("operands")?, olds.write("olds")?);
            Recorded::on(target, |region, shape| Command::fetch(region, shape, modify, operands, olds))
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
        olds: BytesMut,
    ) -> Outcome<Recorded> {
        let element = element::element(element)?;
        // SAFETY: promised by the caller.
        unsafe {
            let (expected, desired) = (expected.read("expected")?, desired.read("desired")?);
            let olds = olds.write("olds")?;
            Recorded::on(target, |region, shape| Command::compare_and_swap(region, shape, element, expected, desired, olds))
        }
    }
}

impl Recorded {
    /// Runs it and returns when it is done.
    pub fn run(self) -> Outcome {
        self.command.run()?;
        Ok(code::OK)
    }

    /// Adds it to a batch.
    ///
    /// # Safety
    /// As the module says, until the batch has ended.
    pub unsafe fn add(&self, batch: &mut Batch<'static>) -> Result<()> {
        // SAFETY: promised by the caller.
        batch.add(unsafe { self.command.again() })
    }

    /// Refuses what would be refused when it is run by that attachment. **Cost**: a look at each index of a list.
    pub fn check(&self, pool: &Pool) -> Result<()> {
        if self.pool.client() != pool.client() {
            let reason = "it was opened through another attachment than the batch was begun with".to_owned();
            return Err(Error::BadUse { region: self.command.region().name().to_owned(), reason });
        }
        self.command.check()
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
