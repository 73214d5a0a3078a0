//! How many events a second the engine passes: `cargo run --release -p hanare-model --example engine_speed`.
//!
//! A run keeps `pending` events in the queue; each event popped schedules one at a pseudo-random later time.
//! Time is the processor time of this thread where the system tells it, so that a busy machine gives the same answer.
use std::hint::black_box;
use std::time::Instant;

use hanare_model::engine::Engine;
use hanare_model::time::Picos;

const EVENT_COUNT: u64 = 20_000_000;

fn main() {
    for pending in [8_u64, 64, 1_024, 16_384, 65_536] {
        println!("{pending:>6} pending: {:.1} million events a second", events_per_second(pending) / 1e6);
    }
}

fn events_per_second(pending: u64) -> f64 {
    let mut engine = Engine::new();
    let mut state = 1_u64;
    for node in 0..pending {
        engine.schedule(Picos(node), node);
    }
    let clock = Clock::start();
    for _ in 0..EVENT_COUNT {
        let (_, node) = engine.pop().expect("each event schedules another");
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(node);
        engine.schedule_in(Picos((state >> 40) + 1), node);
    }
    black_box(engine.now());
    EVENT_COUNT as f64 / clock.seconds()
}

/// Seconds this thread was running; wall seconds where `/proc` does not say.
struct Clock {
    running_ns: Option<u64>,
    wall: Instant,
}

impl Clock {
    fn start() -> Clock {
        Clock { running_ns: running_ns(), wall: Instant::now() }
    }

    fn seconds(&self) -> f64 {
        match (self.running_ns, running_ns()) {
            (Some(start), Some(end)) => (end - start) as f64 / 1e9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}

fn running_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}
