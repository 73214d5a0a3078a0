//! `hanare.h`, "Shapes": put, get and copy of shapes, blocking and in batches.

use crate::argument::reference;
use crate::border::Outcome;
use crate::calls::command_calls;
use crate::recorded::{Bytes, BytesMut, Recorded, Target, check_attachment};
use crate::region::CRegion;
use crate::shape::{CShape, shape, shape_or_none};
use hanare::Command;
use std::ffi::c_void;

/// Makers: each takes the caller's pointers and gives a command that was not checked yet.
///
/// # Safety (of all)
/// Pointers are the caller's, as the header says, and stay good as [`Recorded`] says.
impl Recorded {
    /// `hanare_put_shape`.
    ///
    /// # Safety
    /// See the rules for all makers.
    unsafe fn put(target: Target, from: Bytes, from_shape: *const CShape) -> Outcome<Recorded> {
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
    /// See the rules for all makers.
    unsafe fn get(target: Target, into: BytesMut, into_shape: *const CShape) -> Outcome<Recorded> {
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
    /// See the rules for all makers.
    unsafe fn copy(from: Target, to: Target) -> Outcome<Recorded> {
        // SAFETY: promised by the caller.
        unsafe {
            let (source, target) = (reference(from.0, "from")?, reference(to.0, "to")?);
            let (from_shape, to_shape) = (shape(from.1, "from_shape")?, shape(to.1, "to_shape")?);
            check_attachment(&source.pool, target, &source.region)?;
            let command = Command::copy(source.region.clone(), from_shape, target.region.clone(), to_shape);
            Ok(Recorded::of(source.pool.clone(), command))
        }
    }
}

command_calls! {
    hanare_put_shape, hanare_put_shape_nb, hanare_batch_put(
        region: *mut CRegion,
        shape: *const CShape,
        from: *const c_void,
        from_len: usize,
        from_shape: *const CShape,
    )
    => Recorded::put(Target(region, shape), Bytes(from, from_len), from_shape)
}

command_calls! {
    hanare_get_shape, hanare_get_shape_nb, hanare_batch_get(
        region: *mut CRegion,
        shape: *const CShape,
        into: *mut c_void,
        into_len: usize,
        into_shape: *const CShape,
    )
    => Recorded::get(Target(region, shape), BytesMut(into, into_len), into_shape)
}

command_calls! {
    hanare_copy_shape, hanare_copy_shape_nb, hanare_batch_copy(
        from: *mut CRegion,
        from_shape: *const CShape,
        to: *mut CRegion,
        to_shape: *const CShape,
    )
    => Recorded::copy(Target(from, from_shape), Target(to, to_shape))
}
