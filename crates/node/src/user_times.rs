//! Time of a thread that users have taken lately. A user that has taken a burst of it waits, or is refused, until it is back at its part.

use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Quota of a thread's time for each user.
#[derive(Clone, Copy)]
pub(crate) struct TimeQuota {
    /// Time in a row.
    pub burst: Duration,
    /// After that, one of so many parts.
    pub part: u32,
}

/// Time of each user that is above its part.
pub(crate) struct UserTimes {
    share: TimeQuota,
    spent: HashMap<u32, (Duration, Instant)>,
}

impl UserTimes {
    pub fn new(share: TimeQuota) -> UserTimes {
        UserTimes { share, spent: HashMap::new() }
    }

    fn spent(&self, uid: u32, now: Instant) -> Duration {
        let left =
            |(spent, then): &(Duration, Instant)| spent.saturating_sub(now.saturating_duration_since(*then) / self.share.part);
        self.spent.get(&uid).map_or(Duration::ZERO, left)
    }

    /// Time that a user has to wait; zero where it may go on.
    pub fn wait(&self, uid: u32, now: Instant) -> Duration {
        let above = self.spent(uid, now).saturating_sub(self.share.burst);
        above.saturating_mul(self.share.part)
    }

    /// A user's request took so long.
    pub fn took(&mut self, uid: u32, now: Instant, time: Duration) {
        let (spent, part) = (self.spent(uid, now) + time, self.share.part);
        self.spent.insert(uid, (spent, now));
        self.spent.retain(|_, (spent, then)| now.saturating_duration_since(*then) < *spent * part);
    }
}

/// Processor time of this thread, which may have to wait for a processor.
pub(crate) fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_without_pause_for_much_has_its_part_of_the_time() {
        let (mut times, begun) = (UserTimes::new(TimeQuota { burst: Duration::from_millis(100), part: 10 }), Instant::now());
        let (mut now, mut spent, long) = (begun, Duration::ZERO, Duration::from_millis(5));
        while now < begun + Duration::from_secs(10) {
            if times.wait(7, now).is_zero() {
                (now, spent) = (now + long, spent + long);
                times.took(7, now, long);
                assert!(times.wait(8, now).is_zero(), "another user goes on all the same");
            } else {
                assert!(times.wait(7, now + times.wait(7, now)).is_zero());
            }
            now += Duration::from_millis(1);
        }
        assert!((Duration::from_millis(1000)..Duration::from_millis(1110)).contains(&spent), "{spent:?}");
        times.took(8, now + Duration::from_secs(2), long);
        assert_eq!(times.spent.len(), 1, "who asks no more is forgotten");
    }
}
