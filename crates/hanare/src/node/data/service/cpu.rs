//! How the service waits on a CPU that other threads want.
//!
//! A yield is of little use to them: the kernel is fair, and gives the CPU back to who yields until that has had its share, which were 15 us
//! for a program that has had a message. A service that parks at once gives way at once. But where the others only wait for messages too, the CPU sleeps
//! then, and its wake costs more. The service does not know who they are: it tries both ways, and keeps to the one by which more messages moved.
//!
//! ```text
//! alone ──another thread ran during a yield──> tries the other way ──> keeps to the better one ──┐
//!   ^── nobody did for a while ──┘                      ^────────────── after a while ───────────┘
//! ```

use hanare_ring::wait::{Backoff, Step};
use std::time::{Duration, Instant};

/// A step that takes less has let nobody run: two switches of threads take longer. One that takes as long may have been an interrupt.
const SWITCHED: Duration = Duration::from_micros(2);

/// For so long the CPU is taken to be shared, once it was seen to be.
const SHARED: Duration = Duration::from_millis(100);

/// How long a way of waiting is tried, and how long the better one is kept to.
const TRIED: Duration = Duration::from_millis(2);
const KEPT: Duration = Duration::from_millis(30);

/// By how much more must move before it parks: counts of two trials differ by a tenth, and a wrong choice doubles the time of a short get.
const BETTER: f64 = 1.3;

/// How the service waits on its CPU.
pub(super) struct SharedCpu {
    /// Until when the CPU is taken to be shared.
    shared_until: Option<Instant>,
    /// How often other threads had taken the CPU at the last count.
    switches: i64,
    /// Whether it parks at once just now, and whether that is a trial; since when and until when.
    parks: bool,
    tries: bool,
    since: Instant,
    until: Instant,
    /// Messages and pages that moved since then; and by the microsecond in the last trial of each way, that of parking last.
    moves: u64,
    rates: [f64; 2],
}

impl SharedCpu {
    pub fn new() -> SharedCpu {
        let now = Instant::now();
        let (parks, tries, moves, rates) = Default::default();
        SharedCpu { shared_until: None, switches: switches(), parks, tries, since: now, until: now, moves, rates }
    }

    /// So many messages and pages moved in a round. None did where a part of one moved.
    #[inline]
    pub fn on_moved(&mut self, amount: u64) {
        self.moves = self.moves.saturating_add(amount);
    }

    /// A step of a wait: parks at once where that is better, unless regions are shared by pages, whose accesses wait for several nodes in a row.
    ///
    /// **Cost**: two looks at the clock; a system call where another thread may have run.
    pub fn step(&mut self, backoff: &mut Backoff, shares_pages: bool, was_call: bool) -> Step {
        let begun = Instant::now();
        if shares_pages || self.shared_until.is_none_or(|until| begun >= until) {
            self.parks = false;
        } else if begun >= self.until {
            self.turn(begun);
        }
        if self.parks {
            return Step::Park;
        }
        let step = backoff.step_after(was_call);
        if begun.elapsed() >= SWITCHED {
            let switches = switches();
            if std::mem::replace(&mut self.switches, switches) != switches {
                self.shared_until = Some(begun + SHARED);
            }
        }
        step
    }

    /// The time of a way is over. Where it lasted far longer the node was idle meanwhile, because a wait ends only with a message: the count says
    /// nothing of the way then, and both are tried anew.
    fn turn(&mut self, now: Instant) {
        if now.saturating_duration_since(self.since) <= 2 * (self.until - self.since) {
            return self.choose(now);
        }
        (self.moves, self.parks, self.tries) = Default::default();
        (self.since, self.until) = (now, now + TRIED);
    }

    /// The time of a way is over.
    fn choose(&mut self, now: Instant) {
        let spent_us = now.saturating_duration_since(self.since).as_micros().max(1) as f64;
        self.rates[usize::from(self.parks)] = std::mem::take(&mut self.moves) as f64 / spent_us;
        self.tries = !self.tries;
        self.parks = if self.tries { !self.parks } else { self.rates[1] > BETTER * self.rates[0] };
        (self.since, self.until) = (now, now + if self.tries { TRIED } else { KEPT });
    }
}

/// How often another thread has run in the place of this one, which could have gone on.
fn switches() -> i64 {
    // SAFETY: the struct is this function's own, for which all bytes zero are a value; the call writes to nothing else.
    unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nivcsw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays time: so many messages in each millisecond, by the way that is kept to, and so many rounds for each of them.
    fn rates(parking: u64, spinning: u64) -> bool {
        rates_in_rounds((parking, 1), (spinning, 1))
    }

    fn rates_in_rounds(parking: (u64, u32), spinning: (u64, u32)) -> bool {
        let (mut cpu, mut now) = (SharedCpu::new(), Instant::now());
        cpu.shared_until = Some(now + Duration::from_secs(3600));
        let mut parked = Duration::ZERO;
        for _ in 0..100 {
            cpu.choose(now);
            let lasts = cpu.until - now;
            let (messages, rounds) = if cpu.parks { parking } else { spinning };
            for _ in 0..lasts.as_millis() as u64 * messages {
                cpu.on_moved(1);
                // The rest of a message's rounds.
                (1..rounds).for_each(|_| cpu.on_moved(0));
            }
            parked += if cpu.parks { lasts } else { Duration::ZERO };
            now = cpu.until;
        }
        parked > 50 * (KEPT + TRIED) / 2
    }

    #[test]
    fn the_way_by_which_more_moves_is_kept_to() {
        assert!(rates(100, 30));
        assert!(!rates(50, 100));
        assert!(!rates(110, 100), "as good as the same");
        assert!(rates(140, 100));
        assert!(!rates_in_rounds((100, 3), (100, 1)), "rounds are no messages");
        assert!(rates_in_rounds((200, 1), (100, 5)));
        assert!(!rates(0, 0), "where nothing moves it parks by itself");
    }

    #[test]
    fn who_is_alone_on_its_cpu_checks_and_yields() {
        let (mut cpu, mut backoff) = (SharedCpu::new(), Backoff::with_budget(Duration::from_secs(3600)));
        cpu.parks = true;
        assert_eq!(cpu.step(&mut backoff, false, true), Step::Again);
        cpu.shared_until = Some(Instant::now() + Duration::from_secs(3600));
        // It has tried to spin for long.
        (cpu.rates, cpu.tries, cpu.since) = ([0.0, 1.0], true, cpu.since - Duration::from_secs(60));
        assert_eq!(cpu.step(&mut backoff, true, true), Step::Again, "pages are waited for several nodes in a row");
        assert_eq!(cpu.step(&mut backoff, false, true), Step::Park);
    }

    #[test]
    fn an_idle_while_is_not_held_against_spinning() {
        let (mut cpu, mut now) = (SharedCpu::new(), Instant::now());
        let mut parked = 0;
        for _ in 0..20 {
            // A client whose messages come twice as fast while the node spins, for a while; then it does something else.
            for _ in 0..180 {
                if now >= cpu.until {
                    cpu.turn(now);
                }
                cpu.moves += if cpu.parks { 5 } else { 10 };
                parked += u32::from(cpu.parks);
                now += Duration::from_micros(100);
            }
            now += Duration::from_millis(240);
        }
        assert!(parked < 20 * 180 / 4, "it parked in {parked} of {} parts", 20 * 180);
    }
}
