//! Lines that lose, repeat, reorder and corrupt: nothing is lost, nothing comes twice, all in order.

use super::*;
use crate::conformance::{SHM, Store, TCP, body, end_of, head, pump, send};
use crate::layer::{Fault, FaultPlan};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::time::Duration;

type Lossy = Retransmit<Fault<Box<dyn Link>>>;

/// Two links over a line whose both directions fail by the plan.
fn pair(plan: FaultPlan) -> (Lossy, Lossy) {
    let (one, other) = SHM.pair();
    let lossy = |link, seed| Retransmit::over(Fault::over(link, FaultPlan { seed, ..plan }).unwrap()).unwrap();
    (lossy(one, plan.seed), lossy(other, plan.seed + 1000))
}

fn plans(seed: u64) -> [FaultPlan; 6] {
    let none = FaultPlan::none(seed);
    [
        none,
        FaultPlan { drop: 0.2, ..none },
        FaultPlan { duplicate: 0.3, ..none },
        FaultPlan { reorder: 0.3, ..none },
        FaultPlan { corrupt: 0.2, ..none },
        FaultPlan { drop: 0.1, duplicate: 0.1, reorder: 0.1, corrupt: 0.1, ..none },
    ]
}

/// FEATURE: D2-F14
#[test]
fn nothing_is_lost_nothing_comes_twice_and_all_in_order() {
    for seed in 0..3 {
        for plan in plans(seed) {
            println!("{plan:?}");
            let mut prng = Pcg64::seed_from_u64(seed);
            let (mut one, mut other) = pair(plan);
            let bodies: Vec<Vec<u8>> = (0..150).map(|seq| body(seq, prng.random_range(0..5000))).collect();
            for (seq, bytes) in bodies.iter().enumerate() {
                send(&mut one, seq as u64, bytes).unwrap();
                send(&mut other, seq as u64, bytes).unwrap();
            }
            let (mut one_store, mut other_store) = (Store::new(), Store::of_pieces(700));
            pump((&mut one, &mut one_store), (&mut other, &mut other_store), |one, other| {
                one.messages.len() >= bodies.len() && other.messages.len() >= bodies.len()
            });
            for store in [&one_store, &other_store] {
                assert_eq!(store.seqs(), (0..bodies.len() as u64).collect::<Vec<_>>());
                assert!(store.messages.iter().zip(&bodies).all(|((_, got), sent)| got == sent));
            }
            let is_lossy = plan.drop > 0.0 || plan.corrupt > 0.0;
            assert_eq!(one.again_count() > 0, is_lossy, "frames go again where some are lost");
        }
    }
}

/// FEATURE: D2-F14
#[test]
fn a_large_body_crosses_a_lossy_line() {
    let plan = FaultPlan { drop: 0.02, duplicate: 0.02, reorder: 0.05, corrupt: 0.02, ..FaultPlan::none(9) };
    let (mut one, mut other) = pair(plan);
    let bytes = body(1, 3 << 20);
    send(&mut one, 1, &bytes).unwrap();
    let mut store = Store::of_pieces(100_000);
    pump((&mut one, &mut Store::new()), (&mut other, &mut store), |_, other| !other.messages.is_empty());
    assert!(store.messages[0].1 == bytes);
}

#[test]
fn both_sides_sleep_and_wake_over_a_lossy_line() {
    let plan = FaultPlan { drop: 0.1, reorder: 0.1, ..FaultPlan::none(4) };
    let (mut one, mut other) = pair(plan);
    let echo = std::thread::spawn(move || {
        let mut store = Store::new();
        for round in 0..100 {
            while store.messages.len() <= round {
                crate::wait::wait(&mut other, &mut store, Some(soon())).unwrap();
            }
            send(&mut other, round as u64, &[]).unwrap();
        }
        while other.unacknowledged_count() > 0 {
            // The other side may be gone when it has all it wants.
            if crate::wait::wait(&mut other, &mut store, Some(Instant::now() + Duration::from_millis(5))).is_err_and(is_end) {
                break;
            }
        }
    });
    let mut store = Store::new();
    for round in 0..100 {
        send(&mut one, round, &[]).unwrap();
        while store.messages.len() as u64 <= round {
            crate::wait::wait(&mut one, &mut store, Some(soon())).unwrap();
        }
    }
    drop(one);
    echo.join().unwrap();
    assert_eq!(store.seqs(), (0..100).collect::<Vec<_>>());
}

fn is_end(error: LinkError) -> bool {
    !matches!(error, LinkError::Timeout { .. })
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

#[test]
fn a_line_that_loses_everything_is_given_up() {
    let (mut one, _other) = pair(FaultPlan { drop: 1.0, ..FaultPlan::none(0) });
    send(&mut one, 0, &[]).unwrap();
    let error = end_of(&mut one, &mut Store::new());
    assert!(matches!(&error, LinkError::Closed { reason, .. } if reason.contains("does not answer")), "{error}");
    assert_eq!(one.progress(&mut Store::new()), Err(error));
    assert_eq!(one.unsent_len(), 0);
}

#[test]
fn a_side_that_lets_nothing_begin_is_waited_for_and_memory_stays_bounded() {
    let (mut one, mut other) = pair(FaultPlan { drop: 0.3, ..FaultPlan::none(2) });
    let bytes = body(0, 1 << 20);
    send(&mut one, 0, &bytes).unwrap();
    let mut store = Store { lets_begin: false, ..Store::new() };
    // Longer than the first retry times, so that questions are asked and answered.
    let end = Instant::now() + 10 * rule::RETRY_FIRST;
    while Instant::now() < end {
        one.progress(&mut Store::new()).unwrap();
        other.progress(&mut store).unwrap();
        let frames = one.free.len() + one.spent.len() + one.sending.kept_count();
        assert!(frames <= SPENT_COUNT_MAX + 2 * rule::WINDOW as usize, "{frames} frames");
    }
    assert!(one.unsent_len() > 0);
    store.lets_begin = true;
    pump((&mut one, &mut Store::new()), (&mut other, &mut store), |_, other| !other.messages.is_empty());
    assert!(store.messages[0].1 == bytes);
}

#[test]
fn a_line_that_ends_ends_the_link_after_its_last_messages() {
    let (one, other) = TCP.pair();
    let (mut one, mut other) = (Retransmit::over(one).unwrap(), Retransmit::over(other).unwrap());
    let bytes = body(0, 100);
    send(&mut one, 0, &bytes).unwrap();
    drop(one);
    let mut store = Store::new();
    assert!(matches!(end_of(&mut other, &mut store), LinkError::Closed { .. }));
    assert_eq!(store.messages, [(head(0, 100), bytes)]);
}

#[test]
fn what_is_no_frame_is_as_good_as_lost() {
    let (mut raw, other) = TCP.pair();
    let mut other = Retransmit::over(other).unwrap();
    let (empty, noise) = (body(0, 0), body(7, 3000));
    for bytes in [&empty, &noise] {
        send(&mut *raw, 0, bytes).unwrap();
    }
    let mut store = Store::new();
    for _ in 0..100 {
        raw.progress(&mut Store::new()).unwrap();
        other.progress(&mut store).unwrap();
    }
    assert!(store.messages.is_empty());
    let noise = body(7, 100_000);
    send(&mut *raw, 0, &noise).unwrap();
    let error = end_of(&mut other, &mut store);
    assert!(matches!(&error, LinkError::Garbage { reason, .. } if reason.contains("longer than frames are")), "{error}");
}
