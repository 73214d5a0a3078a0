//! `hanare.h`, "Updates": what is done at the memory's side, blocking and in batches.

use crate::argument::{Room, place};
use crate::border::Outcome;
use crate::calls::command_calls;
use crate::element::{self, CRange, CSummary};
use crate::recorded::{Bytes, BytesMut, Recorded, Target, Variable};
use crate::region::CRegion;
use crate::shape::CShape;
use hanare::Command;
use std::ffi::{c_int, c_void};

/// Makers: each takes the caller's pointers and gives a command that was not checked yet.
///
/// # Safety (of all)
/// Pointers are the caller's, as the header says, and stay good as [`Recorded`] says.
impl Recorded {
    /// `hanare_fill`.
    ///
    /// # Safety
    /// See the rules for all makers.
    unsafe fn fill(target: Target, pattern: Bytes) -> Outcome<Recorded> {
        // SAFETY: promised by the caller.
        unsafe {
            let pattern = pattern.read("pattern")?;
            Recorded::on(target, |region, shape| Command::fill(region, shape, pattern))
        }
    }

    /// `hanare_compare`.
    ///
    /// # Safety
    /// See the rules for all makers.
    unsafe fn compare(target: Target, bytes: Bytes, position: *mut u64) -> Outcome<Recorded> {
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
    /// See the rules for all makers.
    unsafe fn reduce(target: Target, element: c_int, range: *const CRange, summary: *mut CSummary) -> Outcome<Recorded> {
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
    /// See the rules for all makers.
    unsafe fn update(target: Target, (element, operator): (c_int, c_int), operands: Bytes) -> Outcome<Recorded> {
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
    /// See the rules for all makers.
    unsafe fn fetch(target: Target, (element, operator): (c_int, c_int), operands: Bytes, olds: BytesMut) -> Outcome<Recorded> {
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
    /// See the rules for all makers.
    unsafe fn compare_and_swap(
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

command_calls! {
    hanare_fill, hanare_fill_nb, hanare_batch_fill(region: *mut CRegion, shape: *const CShape, pattern: *const c_void, pattern_len: usize)
    => Recorded::fill(Target(region, shape), Bytes(pattern, pattern_len))
}

command_calls! {
    hanare_compare, hanare_compare_nb, hanare_batch_compare(
        region: *mut CRegion,
        shape: *const CShape,
        bytes: *const c_void,
        len: usize,
        position: *mut u64,
    )
    => Recorded::compare(Target(region, shape), Bytes(bytes, len), position)
}

command_calls! {
    hanare_reduce, hanare_reduce_nb, hanare_batch_reduce(
        region: *mut CRegion,
        shape: *const CShape,
        element: c_int,
        range: *const CRange,
        summary: *mut CSummary,
    )
    => Recorded::reduce(Target(region, shape), element, range, summary)
}

command_calls! {
    hanare_update, hanare_update_nb, hanare_batch_update(
        region: *mut CRegion,
        shape: *const CShape,
        element: c_int,
        operation: c_int,
        operands: *const c_void,
        operands_len: usize,
    )
    => Recorded::update(Target(region, shape), (element, operation), Bytes(operands, operands_len))
}

command_calls! {
    hanare_fetch, hanare_fetch_nb, hanare_batch_fetch(
        region: *mut CRegion,
        shape: *const CShape,
        element: c_int,
        operation: c_int,
        operands: *const c_void,
        operands_len: usize,
        olds: *mut c_void,
        olds_len: usize,
    )
    => Recorded::fetch(Target(region, shape), (element, operation), Bytes(operands, operands_len), BytesMut(olds, olds_len))
}

command_calls! {
    hanare_compare_and_swap, hanare_compare_and_swap_nb, hanare_batch_compare_and_swap(
        region: *mut CRegion,
        shape: *const CShape,
        element: c_int,
        expected: *const c_void,
        desired: *const c_void,
        olds: *mut c_void,
        len: usize,
    )
    => Recorded::compare_and_swap(Target(region, shape), element, Bytes(expected, len), Bytes(desired, len), BytesMut(olds, len))
}
