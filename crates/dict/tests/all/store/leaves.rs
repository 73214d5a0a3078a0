//! Keys that leave, and keys that stay.

use super::{bytes_of, is_there, key, open, small};
use crate::nodes::{PLACES, TestPool};
use hanare::{Error, Placement};
use hanare_dict::{Evict, Store, StoreOptions, kind};
use std::time::Duration;

const LEN: usize = 4000;
const HOUR: Duration = Duration::from_secs(3600);

fn put(store: &Store, number: u64, ttl: Option<Duration>) {
    store.put(&key(number), kind::PLAIN, &bytes_of(number, LEN), ttl).unwrap();
    assert_eq!(store.get(&key(number)).unwrap().unwrap().1, bytes_of(number, LEN), "what was just put is there");
}

/// Puts keys from 0 on, until the first has left. Returns the number of keys that the store holds.
fn fill(store: &Store, ttl: impl Fn(u64) -> Option<Duration>) -> u64 {
    for number in 0.. {
        put(store, number, ttl(number));
        if store.len().unwrap() <= number {
            return number;
        }
    }
    unreachable!("memory ends")
}

fn of(evict: Evict, placement: Placement) -> StoreOptions {
    StoreOptions { evict, placement, ..small() }
}

fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

#[test]
fn the_longest_unused_leave_first() {
    let nodes = TestPool::start(1, 64 << 20);
    let store = open(&nodes.client(0), &of(Evict::Lru, Placement::Local));
    let held = fill(&store, |_| None);
    assert!((200..270).contains(&held), "{held} keys of {LEN} bytes in 1 MiB");
    let old: Vec<u64> = (0..held).filter(|number| is_there(&store, *number)).collect();
    pause();
    let (used, unused): (Vec<u64>, Vec<u64>) = old.iter().partition(|number| **number % 2 == 0);
    used.iter().for_each(|number| assert!(store.contains(&key(*number)).unwrap()));
    pause();
    // As many new ones as half of the unused.
    (1000..1000 + held / 4).for_each(|number| put(&store, number, None));
    let stayed = |numbers: &[u64]| numbers.iter().filter(|number| is_there(&store, **number)).count();
    assert!(stayed(&used) * 10 >= used.len() * 9, "{} of {} used", stayed(&used), used.len());
    assert!(stayed(&unused) * 10 <= unused.len() * 7, "{} of {} unused", stayed(&unused), unused.len());
    let stat = store.stat().unwrap();
    assert!(stat.bytes >= 1 << 20 && stat.linked <= stat.bytes && stat.linked > stat.bytes / 2, "{stat:?}");
}

#[test]
fn the_least_often_used_leave_first() {
    let nodes = TestPool::start(1, 64 << 20);
    let store = open(&nodes.client(0), &of(Evict::Lfu, Placement::Local));
    let held = fill(&store, |_| None);
    let often: Vec<u64> = (0..held).filter(|number| number % 8 == 0 && is_there(&store, *number)).collect();
    for _ in 0..30 {
        often.iter().for_each(|number| assert!(store.contains(&key(*number)).unwrap()));
    }
    // Each of these is newer, and used once.
    (1000..1000 + 3 * held).for_each(|number| put(&store, number, None));
    let stayed = often.iter().filter(|number| is_there(&store, **number)).count();
    assert!(stayed * 10 >= often.len() * 9, "{stayed} of {} stayed", often.len());
}

#[test]
fn the_first_to_end_leave_first_and_keys_without_an_end_stay() {
    let nodes = TestPool::start(1, 64 << 20);
    let store = open(&nodes.client(0), &of(Evict::Ttl, Placement::Local));
    // Every fourth has no end. Of the others the first end last.
    let held = fill(&store, |number| (number % 4 != 0).then(|| HOUR * (1000 - number as u32)));
    let lasting: Vec<u64> = (0..held).filter(|number| number % 4 == 0).collect();
    (1000..1000 + held).for_each(|number| put(&store, number, Some(HOUR)));
    assert!(lasting.iter().all(|number| is_there(&store, *number)));
    // Without any that end there is no room, and no wait for it.
    store.clear().unwrap();
    let mut number = 0;
    let refused = loop {
        match store.put(&key(number), kind::PLAIN, &bytes_of(number, LEN), None) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::HeapFull { .. }), "{refused}");
    assert!((0..number).all(|number| is_there(&store, number)) && !is_there(&store, number));
    assert!(store.remove(&key(0)).unwrap());
    put(&store, number, None);
}

#[test]
fn pinned_keys_stay_and_a_store_of_pinned_keys_is_full() {
    let nodes = TestPool::start(2, 64 << 20);
    for placement in PLACES {
        let pool = nodes.client(0);
        let store = open(&pool, &of(Evict::Lru, placement));
        let pinned = 0..20;
        for number in pinned.clone() {
            put(&store, number, None);
            assert!(store.pin(&key(number), HOUR).unwrap());
        }
        (1000..1600).for_each(|number| put(&store, number, None));
        pinned.clone().for_each(|number| assert_eq!(store.get(&key(number)).unwrap().unwrap().1, bytes_of(number, LEN)));
        // A pin that has ended holds nothing.
        store.clear().unwrap();
        let mut number = 0;
        let refused = loop {
            match store.put(&key(number), kind::PLAIN, &bytes_of(number, LEN), None) {
                Ok(()) => assert!(store.pin(&key(number), HOUR).unwrap()),
                Err(error) => break error,
            }
            number += 1;
        };
        assert!(matches!(refused, Error::HeapFull { .. }) && number > 200, "{refused} after {number}");
        let many: Vec<_> = [0, 1, number].map(key).to_vec();
        assert_eq!(store.known_prefix(&many).unwrap(), 2);
        assert!(store.unpin(&key(7)).unwrap() && !store.unpin(&key(number)).unwrap());
        put(&store, number, None);
        assert!(!is_there(&store, 7) && is_there(&store, 8));
        store.destroy().unwrap();
    }
}

#[test]
fn keys_that_have_ended_make_room_and_their_memory_comes_back() {
    let nodes = TestPool::start(1, 64 << 20);
    let store = open(&nodes.client(0), &of(Evict::Ttl, Placement::Local));
    let short = Duration::from_millis(1);
    for number in 0..2000 {
        store.put(&key(number), kind::PLAIN, &bytes_of(number, LEN), Some(short)).unwrap();
    }
    std::thread::sleep(short * 2);
    assert!(store.is_empty().unwrap() && !store.contains(&key(1999)).unwrap());
    assert_eq!((store.ttl(&key(1999)).unwrap(), store.remove(&key(1999)).unwrap()), (None, false));
    // They take memory until it is wanted.
    (3000..3200).for_each(|number| put(&store, number, None));
    assert_eq!(store.len().unwrap(), 200);
}

#[test]
fn values_of_much_different_lengths_find_room() {
    let nodes = TestPool::start(1, 128 << 20);
    let options = StoreOptions { bytes: 16 << 20, entries: None, ..small() };
    let store = open(&nodes.client(0), &options);
    for number in 0..3000 {
        let len = [40, 700, 3000, 60_000, 200_000][(number * number % 5) as usize];
        match store.put(&key(number), kind::PLAIN, &bytes_of(number, len), None) {
            Ok(()) => assert_eq!(store.get(&key(number)).unwrap().unwrap().1, bytes_of(number, len)),
            Err(error) => panic!("no room for {len} bytes: {error}"),
        }
    }
}
