//! Failures of the calls of `dimmnet.h`: one line on the standard error output.

use crate::border::{Outcome, enter, last_message};
use std::ffi::c_int;
use std::io::Write;

/// Runs the work of the exported function `call`; a failure is also written to the standard error output.
#[inline]
pub fn reported<T>(call: &'static str, work: impl FnOnce() -> Outcome<T>) -> Result<T, c_int> {
    enter(call, work).inspect_err(|_| write())
}

/// [`reported`] for functions that return a code.
#[inline]
pub fn code_of(call: &'static str, work: impl FnOnce() -> Outcome) -> c_int {
    reported(call, work).unwrap_or_else(|code| code)
}

#[cold]
fn write() {
    // A single write keeps lines of several ranks apart; a closed stderr is no reason to fail.
    let _ = std::io::stderr().write_all(format!("{}\n", last_message()).as_bytes());
}
