//! Requests that wait for an answer, and the ends of waits.

use std::time::Duration;

/// A request without an answer: its link, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiter {
    /// The link.
    pub link: u64,
    /// The number of the request.
    pub seq: u64,
}

/// Returns the time `ms` milliseconds from now; `None` beyond the end of time.
pub(crate) fn deadline(now: Duration, ms: u64) -> Option<Duration> {
    now.checked_add(Duration::from_millis(ms))
}
