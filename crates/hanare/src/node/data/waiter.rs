//! Who waits for an answer, and until when.

use hanare_protocol::Result;
use hanare_protocol::wire::sync::SyncAnswer;
use std::time::{Duration, Instant};

/// Where an answer goes: the session and the number of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub session: u64,
    pub seq: u64,
}

/// An answer, and where it goes.
pub(crate) type Answered = (Waiter, Result<SyncAnswer>);

/// The end of a wait of so many milliseconds from now; `None` where that is never.
pub(crate) fn deadline(ms: u64) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_millis(ms))
}
