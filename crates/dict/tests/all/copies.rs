//! A dictionary with copies: programs go on with it when a node that holds it is killed.

use crate::nodes::TestPool;
use hanare::{NodeId, Placement};
use hanare_dict::{Dict, Key, Options, kind};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Keys of a thread. All threads share buckets.
const KEYS: u64 = 60;

/// Time for what must happen, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// Programs that change keys of their own.
#[derive(Default)]
struct Changers {
    is_over: AtomicBool,
    rounds: AtomicU64,
}

/// Ends them when it is dropped, also where the test fails.
struct Stopper<'a>(&'a Changers);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

fn value(thread: u64, round: u64) -> Vec<u8> {
    // Every seventh one has a block of its own.
    let len = if round.is_multiple_of(7) { 5000 } else { 100 };
    (0..len).map(|at: u64| (at ^ round.wrapping_mul(31) ^ thread << 5) as u8).collect()
}

impl Changers {
    /// Sets, reads and removes; returns what has to be there.
    fn run(&self, dict: &Dict, thread: u64) -> BTreeMap<String, Vec<u8>> {
        let mut there = BTreeMap::new();
        for round in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let name = format!("{thread}-{}", round % KEYS);
            let (key, value) = (Key::text(&name), value(thread, round));
            dict.set(&key, kind::PLAIN, &value).unwrap();
            assert_eq!(dict.get(&key).unwrap(), Some((kind::PLAIN, value.clone())), "{name} in round {round}");
            there.insert(name.clone(), value);
            if round % 3 == 0 {
                // A removal that is sent again says what it said the first time.
                assert!(dict.remove(&key).unwrap(), "{name} in round {round}");
                assert!(!dict.remove(&key).unwrap() && !dict.contains(&key).unwrap(), "{name} in round {round}");
                there.remove(&name);
            }
            self.rounds.fetch_add(1, Ordering::Relaxed);
        }
        there
    }
}

#[test]
fn a_dictionary_with_copies_goes_on_when_the_node_that_holds_it_is_killed() {
    let nodes = TestPool::start(3, 64 << 20);
    let killed = nodes.join_process();
    let client = nodes.client(0);
    // Few buckets and little memory: the table grows, and heaps are made, before the kill and after it.
    let place = Placement::Node(NodeId(3));
    let options = Options { placement: place, copies: 2, buckets: 2, memory: 16 << 10, ..Options::default() };
    let dict = Dict::open(&client, "d", &options).unwrap();
    let other = Dict::open(&nodes.client(1), "d", &Options::default()).unwrap();
    let changers = Changers::default();
    let mut there = BTreeMap::new();
    std::thread::scope(|scope| {
        let dicts = [&dict, &dict, &other];
        let runs: Vec<_> = (0..)
            .zip(dicts)
            .map(|(thread, dict)| {
                scope.spawn({
                    let changers = &changers;
                    move || changers.run(dict, thread)
                })
            })
            .collect();
        let stopper = Stopper(&changers);
        let go_on = || {
            let (before, begun) = (changers.rounds.load(Ordering::Relaxed), Instant::now());
            while changers.rounds.load(Ordering::Relaxed) < before + 300 && !runs.iter().any(|run| run.is_finished()) {
                assert!(begun.elapsed() < PATIENCE, "the programs do not go on");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        go_on();
        killed.kill();
        go_on();
        drop(stopper);
        runs.into_iter().for_each(|run| there.extend(run.join().unwrap()));
    });
    let fresh = Dict::open(&nodes.client(2), "d", &Options::default()).unwrap();
    let mut keys: Vec<Vec<u8>> = fresh.keys().map(|key| key.unwrap()).collect();
    let mut wanted: Vec<Vec<u8>> = there.keys().map(|name| Key::text(name).coded().to_vec()).collect();
    keys.sort();
    wanted.sort();
    assert_eq!(keys, wanted);
    for (name, value) in &there {
        assert_eq!(fresh.get(&Key::text(name)).unwrap().as_ref(), Some(&(kind::PLAIN, value.clone())), "{name}");
    }
    let regions = client.list().unwrap();
    assert!(regions.iter().all(|region| region.copies == 2 && region.lost.is_none()), "{regions:?}");
    assert!(fresh.stat().unwrap().buckets > 8, "the table has grown");
    // Nothing is mapped, so nothing is held in place.
    assert!(fresh.hold(&Key::text("0-0"), |_| true).unwrap().is_none());
    fresh.destroy().unwrap();
    assert_eq!(client.list().unwrap().len(), 0);
}
