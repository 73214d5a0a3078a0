//! The job barrier: nobody passes before all have come, and a dead rank ends the wait with its number.

use crate::support;

use hanare::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use support::TestPool;

// FEATURE: D2-F8
#[test]
fn nobody_passes_before_all_have_come() {
    let pool = TestPool::start(2, 32 << 20);
    let ranks = pool.job(5);
    let arrived = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for rank in &ranks {
            let arrived = &arrived;
            scope.spawn(move || {
                for round in 1..=200 {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    rank.barrier().unwrap();
                    assert!(arrived.load(Ordering::SeqCst) >= 5 * round, "rank {} passed early", rank.rank());
                    rank.barrier().unwrap();
                }
            });
        }
    });
}

#[test]
fn a_rank_that_ends_is_named_to_all_who_wait() {
    let pool = TestPool::start(2, 32 << 20);
    let mut ranks = pool.job(3);
    let last = ranks.pop().unwrap();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = ranks.iter().map(|rank| scope.spawn(|| rank.barrier())).collect();
        drop(last);
        for wait in waiting {
            assert!(matches!(wait.join().unwrap(), Err(Error::RankGone { rank, .. }) if rank.0 == 2));
        }
    });
    assert!(matches!(ranks[0].barrier(), Err(Error::RankGone { .. })));
}

#[test]
fn alone_there_is_nobody_to_wait_for() {
    let pool = TestPool::start(1, 32 << 20);
    pool.client(0).barrier().unwrap();
}
