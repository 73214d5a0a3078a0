//! A command as C gave it: the library's own value, checked, run at once, or kept in a batch and run as often as C wants.
//!
//! Safety: a command has windows of the caller's memory and borrows its index lists. Whoever makes one promises that both
//! stay good until it was run for the last time: during a call for blocking ones, as the header says for batches.

use crate::argument::{bytes, bytes_mut, reference};
use crate::border::Outcome;
use crate::code;
use crate::region::CRegion;
use crate::shape::{CShape, shape};
use hanare::{Batch, Command, Pool, Region};
use hanare_protocol::{Error, Result};
use std::ffi::c_void;
use std::sync::Arc;

/// A command on the blocks of a shape of a region, and the attachment that it was made with.
pub struct Recorded {
    pool: Pool,
    command: Made,
}

/// The library's own value.
pub type Made = Command<'static, Arc<Region>>;

/// Bytes of the caller, and how many.
#[derive(Clone, Copy)]
pub struct Bytes(pub *const c_void, pub usize);

/// Bytes of the caller to be written to, and how many.
#[derive(Clone, Copy)]
pub struct BytesMut(pub *mut c_void, pub usize);

impl Bytes {
    /// # Safety
    /// See the module's rules.
    pub unsafe fn read(self, what: &str) -> Outcome<&'static [u8]> {
        // SAFETY: promised by the caller.
        unsafe { bytes(self.0.cast(), self.1, what) }
    }
}

impl BytesMut {
    /// # Safety
    /// See the module's rules.
    pub unsafe fn write(self, what: &str) -> Outcome<&'static mut [u8]> {
        // SAFETY: promised by the caller.
        unsafe { bytes_mut(self.0.cast(), self.1, what) }
    }
}

/// A variable of the caller that a command tells to.
pub struct Variable<T>(pub T);

// SAFETY: the variable is written to once, when the command has ended, by the thread that waits for it.
unsafe impl<T> Send for Variable<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Variable<T> {}

/// The pointers that C gave for a region and a shape of it.
#[derive(Clone, Copy)]
pub struct Target(pub *mut CRegion, pub *const CShape);

impl Recorded {
    /// A command on the target that `make` makes.
    ///
    /// # Safety
    /// See the module's rules.
    pub unsafe fn on(target: Target, make: impl FnOnce(Arc<Region>, hanare::Shape<'static>) -> Made) -> Outcome<Recorded> {
        // SAFETY: promised by the caller.
        let (region, shape) = unsafe { (reference(target.0, "region")?, shape(target.1, "shape")?) };
        Ok(Recorded { pool: region.pool.clone(), command: make(region.region.clone(), shape) })
    }

    /// A copy between two regions.
    pub fn of(pool: Pool, command: Made) -> Recorded {
        Recorded { pool, command }
    }

    /// Runs it and returns when it is done.
    pub fn run(self) -> Outcome {
        self.command.run()?;
        Ok(code::OK)
    }

    /// The attachment that it was made with.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Adds it to a batch.
    ///
    /// # Safety
    /// See the module's rules, until the batch has ended.
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
