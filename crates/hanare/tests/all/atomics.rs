//! Updates of many clients, and of programs that map the memory, all count.

use crate::support;

use hanare::{CreateOptions, Element, Error, Indexed, Modify, NodeId, Operator, Placement, Rights, Strided};
use std::sync::atomic::{AtomicU64, Ordering};
use support::TestPool;

const ADD: Modify = Modify { operator: Operator::Add, element: Element::U64 };

// FEATURE: RF-F4
#[test]
fn updates_from_everywhere_all_count() {
    let pool = TestPool::start(2, 16 << 20);
    let options = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    let (far, near) = (pool.client(0), pool.client(1));
    far.create("sums", 1 << 20, &options).unwrap();
    let rounds = 300;
    std::thread::scope(|scope| {
        for client in [&far, &near] {
            scope.spawn(move || {
                let region = client.open("sums").unwrap();
                // Repeated indices all count.
                let indices: Vec<u32> = (0..1000).map(|k| k % 100).collect();
                for _ in 0..rounds {
                    region.update(Indexed::elements(0, 8, &indices[..]), ADD, &1u64.to_le_bytes()).unwrap();
                    region.fetch_word(800, Operator::Add, 1).unwrap();
                }
            });
        }
        scope.spawn(|| {
            // A program of the memory's own host: plain processor atomics on its map.
            let region = near.open("sums").unwrap();
            let map = region.map_local().unwrap();
            for _ in 0..rounds * 10 {
                for word in 0..100 {
                    // SAFETY: a word of the map, aligned, and atomic to all who change it.
                    unsafe { AtomicU64::from_ptr(map.window().ptr().cast::<u64>().add(word)) }.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    });
    let region = far.open("sums").unwrap();
    let mut back = vec![0; 808];
    region.get(0, &mut back).unwrap();
    for (k, word) in back.chunks(8).enumerate() {
        let wanted = if k < 100 { 2 * rounds * 10 + rounds * 10 } else { 2 * rounds };
        assert_eq!(u64::from_le_bytes(word.try_into().unwrap()), wanted, "word {k}");
    }
}

#[test]
fn a_lock_of_compare_and_swap_lets_one_in() {
    let pool = TestPool::start(2, 16 << 20);
    let options = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    let clients: Vec<_> = (0..3).map(|k| pool.client(k % 2)).collect();
    clients[0].create("lock", 4096, &options).unwrap();
    std::thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| {
                let region = client.open("lock").unwrap();
                for _ in 0..50 {
                    while region.compare_and_swap_word(0, 0, 1).unwrap() != 0 {
                        std::thread::yield_now();
                    }
                    let mut word = [0; 8];
                    region.get(8, &mut word).unwrap();
                    region.put(8, &(u64::from_le_bytes(word) + 1).to_le_bytes()).unwrap();
                    assert_eq!(region.fetch_word(0, Operator::Swap, 0).unwrap(), 1);
                }
            });
        }
    });
    let mut word = [0; 8];
    clients[0].open("lock").unwrap().get(8, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 150);
}

#[test]
fn what_cannot_be_updated_is_refused_by_name() {
    let pool = TestPool::start(2, 16 << 20);
    let client = pool.client(0);
    for node in [0, 1] {
        let options = CreateOptions { placement: Placement::Node(NodeId(node)), ..CreateOptions::default() };
        let region = client.create(&format!("r{node}"), 4096, &options).unwrap();
        let odd = region.update(Strided::contiguous(4, 8), ADD, &[0; 8]).unwrap_err();
        assert!(matches!(&odd, Error::BadElement { reason, .. } if reason.contains("offset 4")), "{odd}");
        let bits = Modify { operator: Operator::Xor, element: Element::F64 };
        assert!(matches!(region.update(Strided::contiguous(0, 8), bits, &[0; 8]), Err(Error::BadElement { .. })));
        let small = Modify { operator: Operator::Add, element: Element::U8 };
        assert!(matches!(region.update(Strided::contiguous(0, 8), small, &[0; 8]), Err(Error::BadElement { .. })));
        assert!(matches!(region.update(Strided::contiguous(0, 16), ADD, &[0; 24]), Err(Error::BadShape { .. })));
        let beyond = region.get_shape(Indexed::elements(0, 8, &[511u32, 512][..]), &mut [0; 16]).unwrap_err();
        assert!(matches!(beyond, Error::BadIndex { position: 1, index: 512, .. }), "{beyond}");
        let back = client.open_for(&format!("r{node}"), hanare::Rights::Read).unwrap();
        assert!(matches!(back.update(Strided::contiguous(0, 8), ADD, &[0; 8]), Err(Error::BadUse { .. })));
        assert!(matches!(back.fill(Strided::contiguous(0, 8), &[1]), Err(Error::BadUse { .. })));
    }
}

#[test]
fn words_of_this_host_take_no_message_and_are_refused_as_others_are() {
    let pool = TestPool::start(2, 16 << 20);
    let client = pool.client(0);
    for node in [0, 1] {
        let options = CreateOptions { placement: Placement::Node(NodeId(node)), ..CreateOptions::default() };
        let region = client.create(&format!("r{node}"), 4096, &options).unwrap();
        let back = client.open_for(&format!("r{node}"), Rights::Read).unwrap();
        // A small region is reached directly after some uses.
        for round in 0..100 {
            assert_eq!(region.compare_and_swap_word(4088, round, round + 1).unwrap(), round);
            assert_eq!(region.compare_and_swap_word(4088, round, 0).unwrap(), round + 1, "another word stays");
            assert_eq!(back.read_word(4088).unwrap(), round + 1);
        }
        let before = client.traffic().messages_sent;
        assert_eq!(region.compare_and_swap_word(4088, 100, 7).unwrap(), 100);
        assert_eq!(region.fetch_word(4088, Operator::Add, 1).unwrap(), 7);
        assert_eq!(back.read_word(4088).unwrap(), 8);
        assert_eq!(client.traffic().messages_sent - before, if node == 0 { 0 } else { 3 });
        for (offset, is_beyond) in [(4, false), (4092, true), (4096, true), (u64::MAX - 7, true)] {
            for refused in [region.compare_and_swap_word(offset, 0, 1), region.fetch_word(offset, Operator::Add, 1)] {
                match refused.unwrap_err() {
                    Error::OutOfRange { .. } if is_beyond => {}
                    Error::BadElement { .. } if !is_beyond => {}
                    other => panic!("at {offset}: {other}"),
                }
            }
        }
        for refused in [back.compare_and_swap_word(4088, 8, 9), back.fetch_word(4088, Operator::Add, 1)] {
            assert!(matches!(refused, Err(Error::BadUse { .. })), "a handle for reading");
        }
        assert_eq!(back.read_word(4088).unwrap(), 8);
    }
}
