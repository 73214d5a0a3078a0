//! Software retransmission of remote operations: equation (8) with i >= 1, and the same by events.
//!
//! The prototype's remote transfers could be lost and were sent again by software, waiting longer the more retries; the final
//! hardware needs none, and the counts for i >= 1 are zero.
// FEATURE: D2-F14
use crate::engine::Engine;
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::parameters::Parameters;
use crate::time::Picos;
use crate::trace::Trace;

use super::calibration::{Program, mean_of};
use super::equations::transfer;

/// What a remote operation costs and how it is repeated.
#[derive(Clone, Copy, Debug)]
struct Retry {
    operation: Picos,
    timeout: Picos,
    growth: f64,
    loss: f64,
    most: u32,
}

impl Retry {
    fn new(parameters: &Parameters) -> Retry {
        Retry {
            operation: Picos::from_ns_f64(mean_of(Program::Himeno, 2, parameters) * 1e6),
            timeout: parameters.picos("retry.timeout"),
            growth: parameters.get("retry.growth"),
            loss: parameters.get("retry.loss"),
            most: parameters.count("retry.most") as u32,
        }
    }

    /// The wait after attempt `index` went lost, counted from its sending.
    fn wait(&self, index: u32) -> Picos {
        Picos::from_ns_f64(self.timeout.as_ns() * self.growth.powi(index as i32))
    }

    /// Tr_i: the time of an operation that succeeds at its i-th retransmission.
    fn time(&self, retries: u32) -> Picos {
        (0..retries).map(|index| self.wait(index)).sum::<Picos>() + self.operation
    }

    /// Nr_i of `count` operations: those that were lost i times and then arrived.
    fn count(&self, retries: u32, count: f64) -> f64 {
        count * self.loss.powi(retries as i32) * (1.0 - self.loss)
    }

    /// T_tr of `count` operations by equation (8), in milliseconds.
    fn transfer(&self, count: f64) -> f64 {
        let retries = 0..=self.most;
        let times: Vec<f64> = retries.clone().map(|i| self.time(i).as_ms()).collect();
        let counts: Vec<f64> = retries.map(|i| self.count(i, count)).collect();
        transfer(&times, &counts)
    }
}

/// A generator of the losses: the 64-bit mix of SplitMix, whose whole state is its seed.
struct Losses {
    state: u64,
}

impl Losses {
    fn is_lost(&mut self, loss: f64) -> bool {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((mixed ^ (mixed >> 31)) >> 11) as f64) < loss * (1_u64 << 53) as f64
    }
}

enum Event {
    Send { attempt: u32 },
    Arrive,
    TimeOut { attempt: u32 },
}

/// What a run of operations, one after the other, came to.
struct Played {
    total: Picos,
    given_up: u64,
    trace: Trace,
}

/// Spans kept for the timing chart; more would only make the file large.
const TRACED_MAX: usize = 2_000;

/// Plays `count` operations by events.
fn play(retry: &Retry, count: u64, seed: u64) -> Played {
    let mut engine = Engine::new();
    let mut losses = Losses { state: seed };
    let mut trace = Trace::new();
    let (host, wire) = (trace.part("node 0", "driver"), trace.part("node 0", "link"));
    let (mut left, mut given_up) = (count, 0);
    let mut began = Picos::ZERO;
    engine.schedule(Picos::ZERO, Event::Send { attempt: 0 });
    while let Some((now, event)) = engine.pop() {
        let is_traced = trace.len() < TRACED_MAX;
        match event {
            Event::Send { attempt } => {
                if attempt == 0 {
                    began = now;
                }
                if losses.is_lost(retry.loss) {
                    engine.schedule_in(retry.wait(attempt), Event::TimeOut { attempt });
                    if is_traced {
                        trace.span(wire, format!("lost, attempt {attempt}"), now, now + retry.wait(attempt));
                    }
                } else {
                    engine.schedule_in(retry.operation, Event::Arrive);
                    if is_traced {
                        trace.span(wire, format!("read, attempt {attempt}"), now, now + retry.operation);
                    }
                }
                continue;
            }
            Event::TimeOut { attempt } if attempt < retry.most => {
                engine.schedule_in(Picos::ZERO, Event::Send { attempt: attempt + 1 });
                continue;
            }
            Event::TimeOut { .. } => given_up += 1,
            Event::Arrive => {}
        }
        if is_traced {
            trace.span(host, "operation", began, now);
        }
        left -= 1;
        if left > 0 {
            engine.schedule_in(Picos::ZERO, Event::Send { attempt: 0 });
        }
    }
    Played { total: engine.now(), given_up, trace }
}

/// Reads of the matrix product on two nodes; all of them are taken as remote here.
const OPERATIONS: u64 = 32_768;

/// The experiment.
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let retry = Retry::new(parameters);
    let mut table = Table::new(
        format!("Equation (8) with retransmissions, {OPERATIONS} remote reads"),
        &[("i", ""), ("Tr_i", "us"), ("Nr_i", ""), ("Tr_i Nr_i", "ms"), ("final hardware, Nr_i", "")],
    );
    for i in 0..=retry.most {
        let (time, count) = (retry.time(i), retry.count(i, OPERATIONS as f64));
        let final_count = if i == 0 { OPERATIONS as f64 } else { 0.0 };
        table.row(vec![
            u64::from(i).into(),
            time.as_us().into(),
            count.into(),
            (time.as_ms() * count).into(),
            final_count.into(),
        ]);
    }
    outcome.tables.push(table);

    let losses = [0.0, 0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3];
    let mut plot = Plot::new("Transfer time against loss", Axis::new("loss", "%"), Axis::log("T_tr", "ms"));
    let seed = parameters.count("seed");
    let at = |loss: f64| Retry { loss, ..retry };
    plot.line("equation (8)", losses.map(|loss| (loss * 100.0, at(loss).transfer(OPERATIONS as f64))));
    plot.line("by events", losses.map(|loss| (loss * 100.0, play(&at(loss), OPERATIONS, seed).total.as_ms())));
    plot.line("final hardware", losses.map(|loss| (loss * 100.0, at(0.0).transfer(OPERATIONS as f64))));
    outcome.plots.push(plot);

    let played = play(&retry, OPERATIONS, seed);
    outcome.headline("T_tr by equation (8)", "ms", retry.transfer(OPERATIONS as f64));
    outcome.headline("T_tr by events", "ms", played.total.as_ms());
    outcome.headline("T_tr of the final hardware", "ms", at(0.0).transfer(OPERATIONS as f64));
    outcome.note(format!("{} operations were given up after {} retransmissions.", played.given_up, retry.most));
    outcome.trace = Some(played.trace);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::dimmnet2_drivers::parameters;

    #[test]
    fn events_come_to_equation_8() {
        let seed = 7;
        for loss in [0.0, 0.01, 0.1] {
            let retry = Retry { loss, ..Retry::new(&parameters()) };
            let (equation, played) = (retry.transfer(200_000.0), play(&retry, 200_000, seed).total.as_ms());
            assert!((played / equation - 1.0).abs() < 0.02, "seed {seed}, loss {loss}: {played} against {equation}");
        }
    }

    #[test]
    fn waits_grow_and_the_final_hardware_has_none() {
        let retry = Retry::new(&parameters());
        assert!(retry.time(3) - retry.time(2) > retry.time(2) - retry.time(1));
        let last = Retry { loss: 0.0, ..retry };
        assert_eq!((last.count(0, 10.0), last.count(1, 10.0)), (10.0, 0.0));
    }

    #[test]
    fn same_seed_same_run() {
        let retry = Retry { loss: 0.1, ..Retry::new(&parameters()) };
        let [a, b] = [play(&retry, 1_000, 3), play(&retry, 1_000, 3)];
        assert_eq!((a.total, a.trace.to_json()), (b.total, b.trace.to_json()));
        assert_ne!(a.total, play(&retry, 1_000, 4).total, "another seed should lose other operations");
    }
}
