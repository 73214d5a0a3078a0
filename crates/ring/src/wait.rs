//! Waiting for another process: pause, then check and yield, then park.
//!
//! Waking a parked thread on another CPU costs some 40 us; a peer that answers sooner is better met awake. A spinning
//! thread on the peer's own CPU would keep it from answering, so after a few pauses every check yields. The kernel lets the peer run then
//! if both have turns of one length. So a thread that yields asks for the turns that nodes have ([`hanare_memory::prompt`]).

use hanare_protocol::limits::{SPIN_PAUSE_COUNT, SPIN_YIELD_US};
use std::time::{Duration, Instant};

/// Longest time of yields that a waiter learns, where the usual time is shorter. After a shorter sleep the waiter had parked too early. Its
/// wake cost as much as the rest of the wait.
const LEARNED: Duration = Duration::from_micros(4 * SPIN_YIELD_US);

/// A wait of at most this number of yields is as short as a wait of pauses.
const QUICK_YIELD_COUNT: u32 = 2;

/// A waiter's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Check again.
    Again,
    /// Announce sleep at the doorbell, check once more, and park.
    Park,
}

/// Waits one after another: check, `step`, check, `step` … until what is waited for is there, then `reset`.
///
/// A waiter that is kept from wait to wait learns. After a wait that took yields the next one has no pauses, because the other side may
/// need this CPU. After a short sleep the next wait yields for longer, unless threads that compute want this CPU.
#[derive(Debug)]
pub struct Backoff {
    pauses: u32,
    yields: u32,
    yields_since: Option<Instant>,
    /// Time of the first [`Step::Park`] of this wait.
    gave_up: Option<Instant>,
    /// True if the last yield took so long that computing threads had the CPU. Longer yields would give them more of it.
    is_crowded: bool,
    /// Time of yields before parking, as learned, and the least.
    budget: Duration,
    least: Duration,
    /// True if pauses were of no use in the last wait.
    skips_pauses: bool,
    /// True if the thread has asked for short turns since it parked.
    is_prompt: bool,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::new()
    }
}

impl Backoff {
    /// A wait that has just begun, with the usual budget of yields.
    pub fn new() -> Backoff {
        Backoff::with_budget(Duration::from_micros(SPIN_YIELD_US))
    }

    /// A wait that yields for `budget` at most before it parks.
    pub fn with_budget(budget: Duration) -> Backoff {
        Backoff {
            pauses: 0,
            yields: 0,
            yields_since: None,
            gave_up: None,
            is_crowded: false,
            budget,
            least: budget,
            skips_pauses: false,
            is_prompt: false,
        }
    }

    /// Something happened: the next wait begins.
    #[inline]
    pub fn reset(&mut self) {
        if self.pauses > 0 || self.yields > 0 {
            self.skips_pauses = self.yields > QUICK_YIELD_COUNT;
        }
        if let Some(gave_up) = self.gave_up.take() {
            self.learn(gave_up.elapsed());
        }
        (self.pauses, self.yields, self.yields_since) = (0, 0, None);
    }

    /// Learns from the time that the thread slept.
    fn learn(&mut self, slept: Duration) {
        let longest = self.least.max(LEARNED);
        self.budget = if slept < longest && !self.is_crowded { (2 * self.budget).min(longest) } else { self.least };
    }

    /// Passes a little time, or says that it is time to park.
    ///
    /// **Cost**: one pause instruction at first. Then one `sched_yield` and one look at the clock, and once between two parks a system
    /// call.
    #[inline]
    pub fn step(&mut self) -> Step {
        self.step_after(false)
    }

    /// [`Backoff::step`] after a check that may have been a system call. Between such checks the waiter yields at once. A few of them last
    /// as long as the other side's reply, if that side may run on this CPU.
    #[inline]
    pub fn step_after(&mut self, was_call: bool) -> Step {
        if !was_call && self.pause() { Step::Again } else { self.step_yielding() }
    }

    /// Pauses, if this wait has pauses left. For waits that look at no clock meanwhile: all pauses together are shorter than a yield or
    /// two.
    #[inline]
    pub fn pause(&mut self) -> bool {
        let has_left = self.pauses < SPIN_PAUSE_COUNT && !self.skips_pauses;
        if has_left {
            self.pauses += 1;
            std::hint::spin_loop();
        }
        has_left
    }

    fn step_yielding(&mut self) -> Step {
        let since = *self.yields_since.get_or_insert_with(Instant::now);
        let waited = since.elapsed();
        if waited >= self.budget {
            if self.gave_up.is_none() {
                self.gave_up = Some(Instant::now());
                self.is_crowded = waited >= self.budget + self.least;
            }
            // Another thread may go on.
            self.is_prompt = false;
            return Step::Park;
        }
        self.yields = self.yields.saturating_add(1);
        if !std::mem::replace(&mut self.is_prompt, true) {
            hanare_memory::prompt::shorten_turns(0);
        }
        rustix::thread::sched_yield();
        Step::Again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_pauses_then_yields_then_parks() {
        let mut wait = Backoff::with_budget(Duration::ZERO);
        for _ in 0..SPIN_PAUSE_COUNT {
            assert_eq!(wait.step(), Step::Again);
        }
        assert_eq!(wait.step(), Step::Park);
        assert_eq!(wait.step(), Step::Park);
        wait.reset();
        assert_eq!(wait.step(), Step::Again);
    }

    #[test]
    fn a_waiter_that_yielded_skips_pauses_until_something_comes_at_once() {
        let mut wait = Backoff::with_budget(Duration::from_secs(3600));
        (0..SPIN_PAUSE_COUNT + QUICK_YIELD_COUNT + 1).for_each(|_| assert_eq!(wait.step(), Step::Again));
        wait.reset();
        assert!(!wait.pause(), "it came late the last time");
        wait.reset();
        assert!(!wait.pause(), "nothing was waited for in between");
        assert_eq!(wait.step(), Step::Again);
        wait.reset();
        assert!(wait.pause(), "it came at the first yield");
    }

    #[test]
    fn a_sleep_that_was_short_makes_the_next_wait_longer() {
        let mut wait = Backoff::new();
        let usual = wait.budget;
        wait.learn(LEARNED / 2);
        assert_eq!(wait.budget, 2 * usual);
        (0..9).for_each(|_| wait.learn(Duration::ZERO));
        assert_eq!(wait.budget, LEARNED);
        wait.learn(LEARNED);
        assert_eq!(wait.budget, usual);
        wait.is_crowded = true;
        wait.learn(Duration::ZERO);
        assert_eq!(wait.budget, usual, "others want the CPU");
        let mut long = Backoff::with_budget(10 * LEARNED);
        long.learn(Duration::ZERO);
        assert_eq!(long.budget, 10 * LEARNED, "it waits for longer than that by itself");
    }

    #[test]
    fn an_ample_budget_goes_on_yielding() {
        let mut wait = Backoff::with_budget(Duration::from_secs(3600));
        for _ in 0..SPIN_PAUSE_COUNT + 100 {
            assert_eq!(wait.step(), Step::Again);
        }
    }
}
