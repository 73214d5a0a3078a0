//! Puts and removals of many keys by few messages: against a map, beside others, and in full stores.

use super::calls::messages;
use super::{bytes_of, key, open, small};
use crate::nodes::{PLACES, TestPool};
use hanare::{NodeId, Placement};
use hanare_dict::{Evict, Item, Key, Store, StoreOptions, kind};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Puts keys with the bytes of their numbers.
fn put_all(store: &Store, numbers: &[u64], len: usize) -> Vec<bool> {
    let keys: Vec<Key<'_>> = numbers.iter().map(|number| key(*number)).collect();
    let values: Vec<Vec<u8>> = numbers.iter().map(|number| bytes_of(*number, len)).collect();
    let each = keys.iter().zip(&values);
    store.put_many(&each.map(|(key, bytes)| Item { key, kind: kind::PLAIN, bytes }).collect::<Vec<_>>(), None).unwrap()
}

/// A batch: what is done, and keys with the lengths and first bytes of their values.
type Batch = (u8, Vec<(u64, usize, u8)>);

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn batches_are_what_their_steps_are_one_after_another(
        batches in prop::collection::vec((0u8..3, prop::collection::vec((0u64..60, 8usize..3000, any::<u8>()), 0..40)), 1..12),
    ) {
        let nodes = TestPool::start(2, 64 << 20);
        for placement in PLACES {
            let batches: &[Batch] = &batches;
            // Some keys share a word.
            let options = StoreOptions { bytes: 8 << 20, placement, entries: Some(40), ..small() };
            let (store, other) = (open(&nodes.client(0), &options), open(&nodes.client(0), &options));
            let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            for (what, steps) in batches {
                let keys: Vec<Key<'_>> = steps.iter().map(|(number, ..)| key(*number)).collect();
                let values: Vec<Vec<u8>> = steps.iter().map(|(_, len, byte)| vec![*byte; *len]).collect();
                let each = keys.iter().zip(&values);
                let items: Vec<Item<'_>> = each.map(|(key, bytes)| Item { key, kind: kind::PLAIN, bytes }).collect();
                let (done, wanted): (Vec<bool>, Vec<bool>) = match what {
                    0 => {
                        model.extend(steps.iter().zip(&values).map(|((number, ..), bytes)| (*number, bytes.clone())));
                        (store.put_many(&items, None).unwrap(), vec![true; steps.len()])
                    }
                    1 => {
                        for ((number, ..), bytes) in steps.iter().zip(&values) {
                            model.entry(*number).or_insert_with(|| bytes.clone());
                        }
                        (store.put_new_many(&items, None).unwrap(), vec![true; steps.len()])
                    }
                    _ => {
                        let were_there = steps.iter().map(|(number, ..)| model.remove(number).is_some()).collect();
                        (store.remove_many(&keys).unwrap(), were_there)
                    }
                };
                prop_assert_eq!(done, wanted);
                for number in 0..60 {
                    prop_assert_eq!(other.get(&key(number)).unwrap().map(|(_, bytes)| bytes), model.get(&number).cloned());
                }
            }
            other.clear().unwrap();
            other.give_back();
            store.give_back();
            let stat = store.stat().unwrap();
            prop_assert_eq!((stat.linked, stat.unlinked), (0, 0), "no block is lost");
            store.destroy().unwrap();
        }
    }
}

#[test]
fn a_batch_of_puts_or_removals_is_some_messages() {
    let nodes = TestPool::start(2, 128 << 20);
    let pool = nodes.client(0);
    for (name, placement) in [("here", PLACES[0]), ("there", PLACES[1])] {
        let options = StoreOptions { bytes: 32 << 20, placement, entries: Some(5000), ..small() };
        let store = Store::open(&pool, name, &options).unwrap();
        let numbers: Vec<u64> = (0..256).collect();
        let keys: Vec<Key<'_>> = numbers.iter().map(|number| key(*number)).collect();
        // One call on a heap takes or gives back 256 blocks.
        let most = if placement == PLACES[0] { 4 } else { 8 };
        for len in [100, 5000, 40_000] {
            for round in ["new", "again"] {
                let sent = messages(&pool, || assert_eq!(put_all(&store, &numbers, len), [true; 256]));
                assert!(sent <= most, "{sent} messages for 256 puts of {len} bytes {name}, {round}");
            }
            let kept = messages(&pool, || {
                let values = vec![vec![7; 100]; 256];
                let each = keys.iter().zip(&values).map(|(key, bytes)| Item { key, kind: kind::PLAIN, bytes });
                assert_eq!(store.put_new_many(&each.collect::<Vec<_>>(), None).unwrap(), [true; 256]);
            });
            assert!(kept <= 4, "{kept} messages for keys that are there");
            assert!(numbers.iter().all(|number| store.get(&key(*number)).unwrap().unwrap().1 == bytes_of(*number, len)));
        }
        let sent = messages(&pool, || assert_eq!(store.remove_many(&keys).unwrap(), [true; 256]));
        assert!(sent <= most, "{sent} messages for 256 removals {name}");
    }
}

#[test]
fn keys_leave_together_where_a_batch_needs_room() {
    let nodes = TestPool::start(2, 64 << 20);
    let pool = nodes.client(0);
    for (name, placement) in [("here", PLACES[0]), ("there", PLACES[1])] {
        let options = StoreOptions { bytes: 8 << 20, placement, entries: Some(256), ..small() };
        let store = Store::open(&pool, name, &options).unwrap();
        let batch = |first: u64| (first..first + 16).collect::<Vec<u64>>();
        (0..20).for_each(|round| assert_eq!(put_all(&store, &batch(100 * round), 64 << 10), [true; 16]));
        let mut sent = 0;
        for round in 20..40 {
            sent += messages(&pool, || assert_eq!(put_all(&store, &batch(100 * round), 64 << 10), [true; 16]));
            let last = batch(100 * round);
            assert!(last.iter().all(|number| store.get(&key(*number)).unwrap().unwrap().1 == bytes_of(*number, 64 << 10)));
        }
        // Of another program, one after another, each put is five to eleven.
        assert!(sent < 20 * 16 * 2, "{sent} messages for 20 batches of 16 puts into a full store {name}");
        // Longer and shorter values find room, too.
        assert_eq!(put_all(&store, &batch(9000), 200_000), [true; 16]);
        assert_eq!(put_all(&store, &batch(9100), 3000), [true; 16]);
    }
}

#[test]
fn a_batch_that_finds_no_room_says_which_keys_are_there() {
    let nodes = TestPool::start(2, 32 << 20);
    for placement in PLACES {
        let options = StoreOptions { placement, evict: Evict::Ttl, ..small() };
        let store = open(&nodes.client(0), &options);
        let numbers: Vec<u64> = (0..400).collect();
        let done = put_all(&store, &numbers, 5000);
        let count = done.iter().filter(|is_done| **is_done).count();
        assert!((150..210).contains(&count), "{count} have room");
        for (number, is_done) in numbers.iter().zip(&done) {
            let found = store.get(&key(*number)).unwrap().map(|(_, bytes)| bytes);
            assert_eq!(found, is_done.then(|| bytes_of(*number, 5000)));
        }
        let none = key(5000);
        let long = [
            Item { key: &key(0), kind: kind::PLAIN, bytes: b"short" },
            Item { key: &none, kind: kind::PLAIN, bytes: &[0; 2 << 20] },
        ];
        assert!(store.put_many(&long, Some(Duration::from_secs(9))).is_err());
        assert_eq!(store.get(&key(0)).unwrap().unwrap().1, b"short", "what was put before an error is there");
        store.destroy().unwrap();
    }
}

#[test]
fn batches_go_on_when_a_node_with_a_copy_is_killed() {
    let nodes = TestPool::start(3, 64 << 20);
    let killed = nodes.join_process();
    let options = StoreOptions { bytes: 8 << 20, placement: Placement::Node(NodeId(3)), copies: 2, ..small() };
    let store = open(&nodes.client(0), &options);
    let rounds = AtomicU64::new(0);
    std::thread::scope(|threads| {
        let runs = threads.spawn(|| {
            for round in 0..60 {
                let numbers: Vec<u64> = (0..40).map(|at| (round * 11 + at) % 100).collect();
                assert_eq!(put_all(&store, &numbers, 3000), [true; 40]);
                let keys: Vec<Key<'_>> = numbers[..5].iter().map(|number| key(*number)).collect();
                assert_eq!(store.remove_many(&keys).unwrap(), [true; 5], "round {round}");
                for number in &numbers {
                    let found = store.get(&key(*number)).unwrap().map(|(_, bytes)| bytes);
                    assert_eq!(found, (!numbers[..5].contains(number)).then(|| bytes_of(*number, 3000)), "round {round}");
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        while rounds.load(Ordering::Relaxed) < 20 && !runs.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        killed.kill();
    });
    store.clear().unwrap();
    assert_eq!(store.stat().unwrap().linked, 0);
}

#[test]
fn batches_of_several_programs_and_single_puts_leave_whole_values() {
    let nodes = TestPool::start(2, 64 << 20);
    for placement in PLACES {
        let options = StoreOptions { bytes: 2 << 20, placement, entries: Some(64), ..small() };
        let stores: Vec<Store> = (0..3).map(|_| open(&nodes.client(0), &options)).collect();
        std::thread::scope(|threads| {
            for (seed, store) in stores.iter().enumerate() {
                threads.spawn(move || {
                    for round in 0..40u64 {
                        let numbers: Vec<u64> = (0..30).map(|at| (round * 7 + at * (seed as u64 + 3)) % 150).collect();
                        put_all(store, &numbers, 20_000);
                        let keys: Vec<Key<'_>> = numbers[..10].iter().map(|number| key(*number)).collect();
                        store.remove_many(&keys).unwrap();
                        store.put(&key(round), kind::PLAIN, &bytes_of(round, 20_000), None).unwrap();
                        let found = store.get(&key(numbers[20])).unwrap();
                        assert!(found.is_none_or(|(_, bytes)| bytes == bytes_of(numbers[20], 20_000)));
                    }
                });
            }
        });
        stores.iter().for_each(Store::give_back);
        assert_eq!(stores[0].stat().unwrap().unlinked, 0, "no block is lost");
        stores[0].destroy().unwrap();
    }
}
