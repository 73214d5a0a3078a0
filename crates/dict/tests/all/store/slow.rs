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
    // A call that waits for its answer takes 10 s.
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?} for 50 misses", begun.elapsed());
    second.go_on();
    // Calls that were late end, and then there are threads again.
    let back = (0..200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        get(ample).ok().flatten().flatten()
    });
    assert_eq!(back.unwrap().1, bytes_of(1, 5000));
}

#[test]
fn a_batch_with_a_deadline_comes_in_pieces_and_leaves_late_buffers_alone() {
    const LEN: usize = 900_000;
    let nodes = TestPool::start(1, 32 << 20);
    let second = nodes.join_process();
    let store = open(&nodes.client(0), &StoreOptions { bytes: 16 << 20, ..afar() });
    let keys: Vec<_> = (0..9).map(key).collect();
    (0..8).for_each(|number| store.put(&keys[number as usize], kind::PLAIN, &bytes_of(number, LEN), None).unwrap());
    let mut memory = vec![vec![7u8; LEN + 10]; 9];
    memory[4].truncate(LEN - 1);
    let mut read = |deadline| {
        let mut into: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
        (store.get_many_within(&keys, &mut into, deadline).unwrap(), memory.clone())
    };
    let (told, found) = read(Duration::from_secs(20));
    assert!(told[..8].iter().all(|told| told.unwrap().len == LEN) && told[8].is_none());
    for (number, found) in found.iter().enumerate() {
        let wanted =
            if number == 4 || number == 8 { vec![7; found.len()] } else { [bytes_of(number as u64, LEN), vec![7; 10]].concat() };
        assert!(*found == wanted, "buffer {number}");
    }
    second.stop();
    let (late, after) = read(Duration::from_millis(20));
    assert!(late.iter().all(Option::is_none) && after == found);
    assert!(store.get_many_within(&[], &mut [], Duration::ZERO).unwrap().is_empty());
    assert!(matches!(store.get_many_within(&keys, &mut [], Duration::ZERO), Err(Error::BadSetting { .. })));
    second.go_on();
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
