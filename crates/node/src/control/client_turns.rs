//! Turns of clients: users one after another. A user that has taken more than its part of this thread's time has none for a while.
//!
//! To attach costs the node two pieces of shared memory, and so does to leave. A user whose many programs do both without pause would keep both
//! processors of a small machine busy. So where there are programs of several users, each has its part of the time.

use crate::user_times::{TimeQuota, UserTimes, processor_time};
use hanare_protocol::turns::Turns;
use std::time::{Duration, Instant};

/// Time of this thread that a user's programs may take: in a row as much as some hundred programs take that a launcher starts at once.
const CLIENT_SHARE: TimeQuota = TimeQuota { burst: Duration::from_millis(200), part: 8 };

/// Clients that want a turn.
pub(super) struct ClientTurns {
    turns: Turns,
    times: UserTimes,
    /// Time of this thread that is counted as users', or is nobody's.
    counted: Duration,
}

impl ClientTurns {
    pub fn new() -> ClientTurns {
        ClientTurns { turns: Turns::new(), times: UserTimes::new(CLIENT_SHARE), counted: Duration::ZERO }
    }

    /// A client wants a turn.
    pub fn push(&mut self, uid: u32, key: u64) {
        self.turns.push(Some(uid), key);
    }

    /// The next client, and its user: where others are there, one of a user that may go on.
    pub fn next(&mut self, is_alone: bool) -> Option<(u32, u64)> {
        let now = Instant::now();
        for _ in 0..self.turns.user_count() {
            let user = self.turns.next_user()?;
            let uid = user.expect("clients are users'");
            if is_alone || self.times.wait(uid, now).is_zero() {
                return Some((uid, self.turns.pop(user)?));
            }
        }
        None
    }

    /// From here on time is a user's.
    pub fn begin(&mut self) {
        self.counted = processor_time();
    }

    /// The time since then was of this user. **Cost**: a system call.
    pub fn took(&mut self, uid: u32) {
        let used = processor_time();
        self.times.took(uid, Instant::now(), used.saturating_sub(self.counted));
        self.counted = used;
    }

    /// Time until somebody's turn comes; `None` where nobody wants one.
    pub fn wait(&self, is_alone: bool) -> Option<Duration> {
        let now = Instant::now();
        let wait = |user: Option<u32>| if is_alone { Duration::ZERO } else { self.times.wait(user.unwrap_or_default(), now) };
        self.turns.users().map(wait).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_took_its_burst_waits_while_others_are_there() {
        let mut turns = ClientTurns::new();
        (0..9).for_each(|key| turns.push(7, key));
        assert_eq!(turns.next(false), Some((7, 0)));
        turns.times.took(7, Instant::now(), 50 * CLIENT_SHARE.burst);
        assert_eq!(turns.next(false), None);
        assert!(turns.wait(false).is_some_and(|wait| wait > CLIENT_SHARE.burst));
        turns.push(8, 100);
        assert_eq!((turns.next(false), turns.wait(true)), (Some((8, 100)), Some(Duration::ZERO)));
        assert_eq!(turns.next(true), Some((7, 1)), "nobody else is kept waiting");
        assert_eq!(ClientTurns::new().wait(false), None);
    }
}
