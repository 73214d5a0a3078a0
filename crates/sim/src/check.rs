//! Results of a check, and meaning of an assertion that fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A check's verdict: the reason when it does not hold.
pub(crate) type Check = Result<(), String>;

/// Fails with a reason unless `holds`.
pub(crate) fn check(holds: bool, reason: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(reason()) }
}

/// Runs a world; where a machine's own assertion fails, that is a check that did not hold.
pub(crate) fn all_held(run: impl FnOnce() -> Check) -> Check {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("an assertion failed: {}", text.unwrap_or("see above")))
    })
}
