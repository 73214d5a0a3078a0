//! Offset of a job's clock from this host's: by the shortest round trip of some.

use hanare_protocol::Result;
use std::time::{SystemTime, UNIX_EPOCH};

/// Round trips: the first makes the connection, and of the others one is hardly held up.
const ROUND_COUNT: usize = 8;

/// A round trip, in nanoseconds since 1970: its begin and end by this host's clock, and the other's time meanwhile.
#[derive(Clone, Copy)]
struct Round {
    sent: u64,
    told: u64,
    received: u64,
}

/// Asks some times; `None` where no answer came.
pub(super) fn ahead_of(ask: impl Fn() -> Result<u64>) -> Option<i64> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let round = || {
        let sent = now();
        let told = ask().ok()?;
        Some(Round { sent, told, received: now() })
    };
    // A failed trip has taken its time, and so would the others.
    let rounds: Vec<Round> = (0..ROUND_COUNT).map_while(|_| round()).collect();
    best(&rounds)
}

/// The offset by the shortest round trip. A difference of at most half of it is none: the clocks agree as far as anybody can tell.
fn best(rounds: &[Round]) -> Option<i64> {
    let least = rounds.iter().filter(|round| round.received >= round.sent).min_by_key(|round| round.received - round.sent)?;
    let half = (least.received - least.sent) / 2;
    let ahead = i128::from(least.told) - i128::from(least.sent) - i128::from(half);
    let ahead = i64::try_from(ahead).ok()?;
    Some(if ahead.unsigned_abs() <= half { 0 } else { ahead })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(sent: u64, told: u64, received: u64) -> Round {
        Round { sent, told, received }
    }

    #[test]
    fn the_shortest_round_trip_tells_how_far_clocks_are_apart() {
        // The other is 1000 ahead, and answered in the middle of the second.
        assert_eq!(best(&[round(0, 1900, 1000), round(2000, 3050, 2100), round(5000, 6400, 5900)]), Some(1000));
        assert_eq!(best(&[round(10_000, 9_050, 10_100)]), Some(-1000));
        assert_eq!(best(&[round(0, 70, 100)]), Some(0), "within what can be told");
        assert_eq!(best(&[]).or(best(&[round(5, 9, 4)])), None, "a clock that was set meanwhile tells nothing");
        assert_eq!(best(&[round(0, u64::MAX, 2)]), None);
    }

    #[test]
    fn a_clock_that_is_ours_is_not_ahead() {
        let ours = || Ok(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64);
        assert_eq!(ahead_of(ours), Some(0));
        assert_eq!(ahead_of(|| Err(hanare_protocol::Error::NotInTime { what: String::new(), after_ms: 1 })), None);
    }
}
