//! A log that nobody fills: a place in the program says some lines a second, and how many it kept to itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing_subscriber::layer::{Context, Filter};

/// Lines of one place in the program within [`WINDOW`].
const LINE_COUNT_MAX: u32 = 20;
const WINDOW: Duration = Duration::from_secs(1);

/// Passes on the first lines of each place and second. What clients and peers do makes lines at their rate.
#[derive(Default)]
pub struct RateLimit(Mutex<HashMap<At, LineSource>>);

/// A line of a source file.
type At = (&'static str, u32);

struct LineSource {
    since: Instant,
    said: u32,
    kept: u32,
}

impl RateLimit {
    /// True if a line of that place is passed on; with the number of those held back before it.
    fn may_say(&self, place: At, now: Instant) -> (bool, u32) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry(place).or_insert(LineSource { since: now, said: 0, kept: 0 });
        let mut kept = 0;
        if now.duration_since(place.since) >= WINDOW {
            kept = place.kept;
            *place = LineSource { since: now, said: 0, kept: 0 };
        }
        let may_say = place.said < LINE_COUNT_MAX;
        place.said += u32::from(may_say);
        place.kept += u32::from(!may_say);
        (may_say, kept)
    }
}

impl<S> Filter<S> for RateLimit {
    fn enabled(&self, _: &tracing::Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &tracing::Event<'_>, _: &Context<'_, S>) -> bool {
        let at = (event.metadata().file().unwrap_or_default(), event.metadata().line().unwrap_or_default());
        let (may_say, kept) = self.may_say(at, Instant::now());
        if kept > 0 {
            eprintln!("({kept} lines like the next one were left out)");
        }
        may_say
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_says_so_much_a_second_and_then_how_much_it_kept() {
        let (limit, now, place) = (RateLimit::default(), Instant::now(), ("file.rs", 7));
        let said = (0..1000).filter(|_| limit.may_say(place, now).0).count();
        assert_eq!(said, LINE_COUNT_MAX as usize);
        assert_eq!(limit.may_say(place, now + WINDOW), (true, 1000 - LINE_COUNT_MAX));
        assert_eq!(limit.may_say(place, now + WINDOW), (true, 0));
    }
}
