//! Calls that are run again: whether they may, and for how long.

use super::call_numbers::NumberedCall;
use hanare_protocol::Error;
use hanare_protocol::limits::{ANSWER_MS, GRANT_REFUSAL_COUNT_MAX, LEASE_MS, REACH_MS, RENEW_MS};
use rustix::time::Timespec;
use std::time::{Duration, Instant};

/// The way in which a call of commands is run again.
#[derive(Default)]
pub(crate) struct Repetition {
    /// True if it must not be run twice.
    pub is_once: bool,
    /// True if its bytes have copies: another node becomes their home where one is lost.
    pub moves: bool,
    /// The call, where its updates count once though it is run again.
    pub call: Option<NumberedCall>,
}

/// Ends of connections to a node under one request that may be repeated, and silences of its bytes' homes.
#[derive(Default)]
pub(crate) struct Breaks {
    since: Option<Instant>,
    /// When a home was silent for too long at first.
    silent_since: Option<Instant>,
}

/// Refusals of grants under one call. Each asks for the grants of today, which change with each change of a region. A program that gets few turns
/// meets several changes in one call.
#[derive(Default)]
pub(crate) struct Refusals(u32);

impl Refusals {
    /// Grants were refused. True if the call is to be repeated with those of today.
    pub fn may_repeat(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        self.0 <= GRANT_REFUSAL_COUNT_MAX
    }
}

/// Longest silence of a home of bytes with copies, where the next home is asked for once. The lease ends first. Then the coordinator has a look
/// or two, a renewal apart.
pub(crate) const MOVE_MS: u64 = LEASE_MS + 3 * RENEW_MS;

/// The same, where the next home is asked for again: the lease, and the time of an election.
pub(crate) const SILENT_MS: u64 = LEASE_MS + RENEW_MS / 2;

/// Time between questions for the next home of bytes with copies.
const MOVED_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

impl Breaks {
    /// A connection ended under the request. True if it is to be repeated: a node that takes connections counts as lost after [`REACH_MS`].
    pub fn may_repeat(&mut self) -> bool {
        self.since.get_or_insert_with(Instant::now).elapsed() < Duration::from_millis(REACH_MS)
    }

    /// Longest silence of a home of bytes with copies in the next try. A home that was silent before, and is still home, gets more with each try.
    pub fn patience(&self) -> Duration {
        self.silent_since.map_or(Duration::from_millis(SILENT_MS), |since| Duration::from_millis(RENEW_MS) + since.elapsed())
    }

    /// A try failed with this error.
    pub fn note(&mut self, error: &Error) {
        if matches!(error, Error::Timeout { .. }) {
            self.silent_since.get_or_insert_with(Instant::now);
        }
    }

    /// The same for bytes with copies, whose next home answers after the lease of the one before. Pauses before all but the first repetition.
    /// Async-signal-safe.
    pub fn may_repeat_moved(&mut self) -> bool {
        let Some(since) = self.since else {
            self.since = Some(Instant::now());
            return true;
        };
        // A signal ends the pause early, which does no harm.
        let _ = rustix::thread::nanosleep(&MOVED_PAUSE);
        since.elapsed() < Duration::from_millis(REACH_MS + ANSWER_MS)
    }
}

/// True for the errors of a home of bytes with copies that is lost, or is home no more.
pub(crate) fn is_moving(error: &Error) -> bool {
    // A wait that a connection took with it is asked for anew.
    matches!(error, Error::GrantRefused { .. } | Error::NodeLost { .. } | Error::Timeout { .. } | Error::Broken { .. })
}
