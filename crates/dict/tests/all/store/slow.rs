//! Nodes that do not answer, and nodes that are lost.

use super::{bytes_of, key, open, small};
use crate::nodes::TestPool;
use hanare::{Error, NodeId, Placement};
use hanare_dict::{StoreOptions, kind};
use std::time::{Duration, Instant};

fn afar() -> StoreOptions {
    StoreOptions { placement: Placement::Node(NodeId(1)), ..small() }
}

#[test]
fn a_call_whose_deadline_passes_is_a_miss() {
    let nodes = TestPool::start(1, 32 << 20);
    let second = nodes.join_process();
    let store = open(&nodes.client(0), &afar());
    store.put(&key(1), kind::PLAIN, &bytes_of(1, 5000), None).unwrap();
    let ample = Duration::from_secs(20);
    let get = |deadline| store.within(deadline, |store| store.get(&key(1)));
    assert_eq!(get(ample).unwrap().flatten().unwrap().1, bytes_of(1, 5000));
    assert_eq!(store.within(ample, |store| store.put(&key(2), kind::PLAIN, b"two", None)).unwrap(), Some(()));
    second.stop();
    let begun = Instant::now();
    for _ in 0..50 {
        assert!(get(Duration::from_millis(2)).unwrap().is_none());
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?} for 50 misses", begun.elapsed());
    second.go_on();
    // Calls that were late end, and then there are threads again.
    let back = (0..200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        get(ample).ok().flatten().flatten()
    });
    assert_eq!(back.unwrap().1, bytes_of(1, 5000));
}

#[test]
fn bytes_that_went_with_a_node_are_said_to_be_lost() {
    let nodes = TestPool::start(1, 32 << 20);
    let second = nodes.join_process();
    let store = open(&nodes.client(0), &afar());
    store.put(&key(1), kind::PLAIN, &bytes_of(1, 5000), None).unwrap();
    second.kill();
    let mut buffer = [0; 5000];
    let lost: [hanare::Result<()>; 6] = [
        store.get(&key(1)).map(drop),
        store.get_many(&[key(1)], &mut [&mut buffer]).map(drop),
        store.put(&key(1), kind::PLAIN, b"other", None),
        store.put(&key(2), kind::PLAIN, &[2; 5000], None),
        store.pin(&key(1), Duration::from_secs(1)).map(drop),
        store.len().map(drop),
    ];
    for call in lost {
        assert!(matches!(call, Err(Error::NodeLost { .. } | Error::RegionLost { .. })), "{call:?}");
    }
}
