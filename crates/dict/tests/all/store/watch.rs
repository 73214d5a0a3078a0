//! Programs that wait for a key's value to change.

use super::{bytes_of, key, open, small};
use crate::nodes::{PLACES, TestPool};
use hanare::{Error, NodeId, Placement};
use hanare_dict::{Evict, Stamp, Store, StoreOptions, kind};
use std::thread::scope;
use std::time::{Duration, Instant};

/// More than any wait of a test takes.
const AMPLE: Option<Duration> = Some(Duration::from_secs(30));

/// A store of a few words, which many keys share, opened by two programs.
fn two(nodes: &TestPool, placement: Placement) -> (Store, Store) {
    let options = StoreOptions { placement, entries: Some(1), ..small() };
    (open(&nodes.client(0), &options), open(&nodes.client(0), &options))
}

#[test]
fn a_watch_ends_with_each_change_of_its_key_and_no_other() {
    for place in PLACES {
        let nodes = TestPool::start(2, 32 << 20);
        let (store, other) = two(&nodes, place);
        let absent = store.stamp(&key(1)).unwrap();
        assert_eq!(absent, Stamp::ABSENT);
        assert_eq!(store.watch(&key(1), absent, Some(Duration::from_millis(5))).unwrap(), None, "nothing happened");
        let mut since = absent;
        // Each change, with the value's length after it; the second and third have blocks of their own.
        let changes: [(&dyn Fn(), Option<usize>); 5] = [
            (&|| other.put(&key(1), kind::PLAIN, b"one", None).unwrap(), Some(3)),
            (&|| other.put(&key(1), kind::PLAIN, &bytes_of(1, 5000), None).unwrap(), Some(5000)),
            (&|| other.put(&key(1), kind::PLAIN, &bytes_of(2, 5000), None).unwrap(), Some(5000)),
            (&|| assert!(other.expire(&key(1), Some(Duration::from_millis(30))).unwrap()), None),
            (&|| other.put(&key(1), kind::JSON, b"", None).unwrap(), Some(0)),
        ];
        for (change, len) in changes {
            let watched = scope(|threads| {
                let watch = threads.spawn(|| store.watch(&key(1), since, AMPLE).unwrap().unwrap());
                // Keys that share words with it come and go.
                (100..200).for_each(|number| other.put(&key(number), kind::PLAIN, b"beside", None).unwrap());
                assert!(!watch.is_finished());
                change();
                watch.join().unwrap()
            });
            assert_eq!(store.get(&key(1)).unwrap().map(|(_, bytes)| bytes.len()), len);
            assert_eq!((watched, watched == since), (store.stamp(&key(1)).unwrap(), false));
            since = watched;
        }
        assert!(other.remove(&key(1)).unwrap());
        assert_eq!(store.watch(&key(1), since, None).unwrap(), Some(Stamp::ABSENT), "it changed before the call");
    }
}

#[test]
fn two_programs_answer_each_other_and_miss_no_change() {
    for place in PLACES {
        let nodes = TestPool::start(2, 32 << 20);
        let (store, other) = two(&nodes, place);
        let play = |store: &Store, own: i64, others: i64| {
            for round in 1..=100u64 {
                store.put(&key(own as u64), kind::PLAIN, &round.to_le_bytes(), None).unwrap();
                loop {
                    let since = store.stamp(&key(others as u64)).unwrap();
                    if store.get(&key(others as u64)).unwrap().is_some_and(|(_, bytes)| bytes >= round.to_le_bytes().to_vec()) {
                        break;
                    }
                    store.watch(&key(others as u64), since, AMPLE).unwrap().expect("the other's round");
                }
            }
        };
        scope(|threads| {
            threads.spawn(|| play(&store, 1, 2));
            play(&other, 2, 1);
        });
    }
}

#[test]
fn keys_that_leave_and_stores_that_are_swept_or_removed_end_a_watch() {
    let nodes = TestPool::start(2, 64 << 20);
    for placement in PLACES {
        let options = StoreOptions { placement, evict: Evict::Lru, ..small() };
        let (store, other) = (open(&nodes.client(0), &options), open(&nodes.client(0), &options));
        store.put(&key(1), kind::PLAIN, &bytes_of(1, 5000), None).unwrap();
        let since = store.stamp(&key(1)).unwrap();
        let left = scope(|threads| {
            let watch = threads.spawn(|| store.watch(&key(1), since, AMPLE).unwrap());
            (2..2000).take_while(|_| !watch.is_finished()).for_each(|number| {
                other.put(&key(number), kind::PLAIN, &bytes_of(number, 5000), None).unwrap();
            });
            watch.join().unwrap()
        });
        assert_eq!(left, Some(Stamp::ABSENT));
        let absent = scope(|threads| {
            let watch = threads.spawn(|| store.watch(&key(1), Stamp::ABSENT, AMPLE).unwrap());
            other.sweep().unwrap();
            other.put(&key(1), kind::PLAIN, b"again", None).unwrap();
            watch.join().unwrap()
        });
        assert_eq!(absent, Some(store.stamp(&key(1)).unwrap()), "in the table after the sweep");
        let since = store.stamp(&key(2)).unwrap();
        let removed = scope(|threads| {
            let watch = threads.spawn(|| store.watch(&key(2), since, AMPLE));
            std::thread::sleep(Duration::from_millis(20));
            other.destroy().unwrap();
            watch.join().unwrap()
        });
        assert!(matches!(removed, Err(Error::UnknownRegion { .. })), "{removed:?}");
    }
}

#[test]
fn a_watch_ends_with_the_node_of_its_store() {
    let nodes = TestPool::start(1, 32 << 20);
    let second = nodes.join_process();
    let store = open(&nodes.client(0), &StoreOptions { placement: Placement::Node(NodeId(1)), ..small() });
    let begun = Instant::now();
    let lost = scope(|threads| {
        let watch = threads.spawn(|| store.watch(&key(1), Stamp::ABSENT, None));
        std::thread::sleep(Duration::from_millis(50));
        second.kill();
        watch.join().unwrap()
    });
    assert!(matches!(lost, Err(Error::NodeLost { .. } | Error::RegionLost { .. })), "{lost:?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
