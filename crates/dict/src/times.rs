//! Times of an entry of a store. They are of the wall clocks of its programs' hosts.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Times of an entry, in milliseconds since 1970; 0 for none. Entries of a dictionary have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// End of the entry: from then on it is not there.
    pub expires: u64,
    /// Until then no other key takes its room.
    pub pinned: u64,
}

impl Times {
    /// True if the entry has ended by now. The clock is asked where it has an end.
    pub(crate) fn is_over_now(self) -> bool {
        self.expires != 0 && self.is_over(now_ms())
    }

    /// True if the entry has ended.
    pub fn is_over(self, now: u64) -> bool {
        self.expires != 0 && self.expires <= now
    }

    /// True if no other key may take the entry's room.
    pub fn is_pinned(self, now: u64) -> bool {
        self.pinned > now && !self.is_over(now)
    }

    /// True if there are any.
    pub fn are_set(self) -> bool {
        self != Times::default()
    }
}

/// The wall clock, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, ms)
}

/// The same, up to some milliseconds late. It takes less time, for what is no more than a hint.
pub fn about_now_ms() -> u64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    (now.tv_sec as u64).saturating_mul(1000).saturating_add(now.tv_nsec as u64 / 1_000_000)
}

/// A moment so far ahead. The longest durations give the latest moment, which is never 0.
pub fn after_ms(now: u64, ahead: Duration) -> u64 {
    now.saturating_add(ms(ahead)).max(1)
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
