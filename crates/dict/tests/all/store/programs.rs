//! Many programs at a time, and programs that are killed.

use super::{bytes_of, key, small};
use crate::nodes::{PLACES, TestPool, end_with_the_test};
use hanare::{CreateOptions, Element, Modify, Operator, Placement, Pool, Strided};
use hanare_dict::{Store, StoreOptions, kind};
use std::time::Duration;

const KEYS: u64 = 600;

fn store_of_the_test() -> Option<(Pool, Store)> {
    let (socket, name) = (std::env::var("TEST_SOCKET").ok()?, std::env::var("TEST_DICT").ok()?);
    end_with_the_test();
    let pool = Pool::attach_to(&socket, None).unwrap();
    let store = Store::open(&pool, &name, &small()).unwrap();
    Some((pool, store))
}

fn length(dice: u64) -> usize {
    [20, 500, 2000, 5000, 20_000, 70_000][(dice >> 20) as usize % 6]
}

/// Puts, reads and removes keys; each value says which key it is of, and is one writer's, whole.
fn work(store: &Store, seed: u64, steps: u64) {
    let mut dice = seed;
    for _ in 0..steps {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = (dice >> 33) % KEYS;
        match dice >> 60 {
            0..7 => store.put(&key(number), kind::PLAIN, &bytes_of(number, length(dice)), None).unwrap(),
            7 => drop(store.remove(&key(number)).unwrap()),
            8 => drop(store.pin(&key(number), Duration::from_millis(2)).unwrap()),
            _ => assert_own(store, number),
        }
    }
}

fn assert_own(store: &Store, number: u64) {
    if let Some((_, bytes)) = store.get(&key(number)).unwrap() {
        assert_eq!(bytes, bytes_of(number, bytes.len()), "the value of key {number}");
        let lengths: Vec<usize> = (0..6).map(|dice| length(dice << 20)).collect();
        assert!(lengths.contains(&bytes.len()));
    }
}

/// A program that works until it is killed.
pub fn puts() {
    let Some((pool, store)) = store_of_the_test() else { return };
    work(&store, pool.client().0, u64::MAX);
}

/// A program that works for a while.
pub fn puts_some() {
    let Some((pool, store)) = store_of_the_test() else { return };
    work(&store, pool.client().0, 3000);
}

/// A program that sweeps, and works in between.
pub fn puts_and_sweeps() {
    let Some((pool, store)) = store_of_the_test() else { return };
    for turn in 0.. {
        work(&store, pool.client().0 + turn, 20);
        // What another handle keeps is not linked.
        Store::open(&pool, store.name(), &small()).unwrap().sweep().unwrap();
    }
}

fn options(placement: Placement) -> StoreOptions {
    StoreOptions { bytes: 2 << 20, placement, ..small() }
}

#[test]
fn many_programs_put_and_get_while_keys_leave() {
    let nodes = TestPool::start(2, 64 << 20);
    for placement in PLACES {
        let pool = nodes.client(0);
        let store = Store::open(&pool, "store", &options(placement)).unwrap();
        let start = |number: usize| nodes.program_on(number % 2, "store::programs::puts_some", store.name());
        let mut programs: Vec<_> = (0..4).map(start).collect();
        while !programs.iter_mut().all(|program| program.has_ended()) {
            (0..KEYS).step_by(7).for_each(|number| assert_own(&store, number));
        }
        programs.into_iter().for_each(|program| program.join());
        let kept = store.scan(0, usize::MAX).unwrap().1.len();
        assert!(kept > 20 && kept < KEYS as usize, "{kept} keys");
        assert_eq!(store.stat().unwrap().unlinked, 0, "each program gave back what it kept");
        store.destroy().unwrap();
    }
}

fn killed(placement: Placement, program: &str) {
    let nodes = TestPool::start(2, 64 << 20);
    let pool = nodes.client(0);
    let store = Store::open(&pool, "store", &options(placement)).unwrap();
    store.put(&key(9999), kind::PLAIN, &bytes_of(9999, 5000), None).unwrap();
    store.pin(&key(9999), Duration::from_secs(3600)).unwrap();
    for round in 0..8u64 {
        let running = nodes.program_on(1, program, store.name());
        std::thread::sleep(Duration::from_micros(60_000 + round * 7919 % 60_000));
        running.kill();
        (0..KEYS).for_each(|number| assert_own(&store, number));
        assert_eq!(store.get(&key(9999)).unwrap().unwrap().1, bytes_of(9999, 5000), "a pinned key is not lost");
        work(&store, round, 100);
    }
    store.sweep().unwrap();
    assert_eq!(store.stat().unwrap().unlinked, 0);
    (0..KEYS).for_each(|number| assert_own(&store, number));
    assert_eq!(store.get(&key(9999)).unwrap().unwrap().1, bytes_of(9999, 5000));
}

#[test]
fn a_program_killed_while_it_puts_leaves_a_whole_store() {
    PLACES.iter().for_each(|placement| killed(*placement, "store::programs::puts"));
}

#[test]
fn a_program_killed_while_it_sweeps_leaves_a_whole_store() {
    PLACES.iter().for_each(|placement| killed(*placement, "store::programs::puts_and_sweeps"));
}

#[test]
fn a_sweep_that_nobody_can_finish_holds_nobody_up() {
    let nodes = TestPool::start(1, 16 << 20);
    let pool = nodes.client(0);
    let store = Store::open(&pool, "store", &options(Placement::Local)).unwrap();
    work(&store, 5, 200);
    // A program was killed after it had frozen the words, and others took the memory that it had made.
    let words = pool.open("store.t0").unwrap();
    let all = Strided { offset: 0, block: 8, count: words.len() / 16, stride: 16 };
    words.update(all, Modify { operator: Operator::Or, element: Element::U64 }, &(1u64 << 63).to_le_bytes()).unwrap();
    let mut number = 0;
    while pool.create(&format!("filler{number}"), 1 << 20, &CreateOptions::default()).is_ok() {
        number += 1;
    }
    work(&store, 6, 200);
    assert!(store.len().unwrap() > 20);
}
