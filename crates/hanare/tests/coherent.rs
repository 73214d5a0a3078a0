//! Coherent mappings: a pointer to one region on many hosts, and what programs see of each other's stores.

mod support;

use hanare::{Consistency, CreateOptions, NodeId, Placement, Pool, SharedMapping};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use support::TestPool;

const PAGE: u64 = 4096;

fn on(node: u32) -> CreateOptions {
    CreateOptions { placement: Placement::Node(NodeId(node)), ..CreateOptions::default() }
}

fn map(client: &Pool, name: &str) -> SharedMapping {
    client.open(name).unwrap().map(Consistency::Coherent).unwrap()
}

fn word(mapping: &SharedMapping, at: u64) -> &AtomicU64 {
    // SAFETY: an aligned word inside the mapping, which is borrowed as long; all use atomics.
    unsafe { AtomicU64::from_ptr(mapping.ptr().add(at as usize * 8).cast()) }
}

// FEATURE: EU-F12
#[test]
fn what_one_stores_another_loads() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    near.create("a", 64 * PAGE, &on(0)).unwrap();
    near.open("a").unwrap().put(5, b"before").unwrap();
    let far_map = std::thread::scope(|scope| {
        let far_map = scope.spawn(|| map(&far, "a"));
        let near_map = map(&near, "a");
        let far_map = far_map.join().unwrap();
        let mut bytes = [0; 6];
        far_map.read(5, &mut bytes).unwrap();
        assert_eq!(&bytes, b"before");
        for k in 0..64 {
            word(&far_map, k * 512 + 7).store(k + 1, SeqCst);
        }
        for k in 0..64 {
            assert_eq!(word(&near_map, k * 512 + 7).load(SeqCst), k + 1, "page {k}");
            word(&near_map, k * 512 + 8).store(k + 100, SeqCst);
        }
        for k in 0..64 {
            assert_eq!(word(&far_map, k * 512 + 8).load(SeqCst), k + 100, "page {k}");
            assert_eq!(word(&far_map, k * 512 + 7).load(SeqCst), k + 1, "page {k}");
        }
        far_map
    });
    drop(far_map);
    let mut back = [0; 8];
    far.open("a").unwrap().get((9 * 512 + 8) * 8, &mut back).unwrap();
    assert_eq!(u64::from_le_bytes(back), 109, "all is home when the last mapping is gone");
}

#[test]
// FEATURE: EU-F15 EU-F17
fn commands_and_pointers_see_the_same_bytes() {
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    let options = CreateOptions { placement: Placement::Interleave(PAGE), ..CreateOptions::default() };
    let len = 24 * PAGE + 100;
    clients[0].create("mixed", len, &options).unwrap();
    let mapping = map(&clients[1], "mixed");
    // One that does not map it by itself, on each host.
    let others: Vec<_> = clients.iter().map(|client| client.open("mixed").unwrap()).collect();
    let mut expected = vec![0u8; len as usize];
    for round in 0..60u64 {
        let other = &others[round as usize % 3];
        let at = (round * 1237) % (len - 5000);
        let bytes: Vec<u8> = (0..4321).map(|k| (k * 7 + round * 13) as u8).collect();
        match round % 4 {
            0 => mapping.write(at, &bytes).unwrap(),
            1 => other.put(at, &bytes).unwrap(),
            2 => {
                other.update(hanare::Strided::contiguous(at / 8 * 8, 8), add(), &3u64.to_le_bytes()).unwrap();
                let word = &mut expected[at as usize / 8 * 8..][..8];
                let sum = u64::from_le_bytes(word.try_into().unwrap()).wrapping_add(3);
                word.copy_from_slice(&sum.to_le_bytes());
            }
            _ => {
                clients[0].copy(other, (0u64, 2000u64).to_shape(), other, (at.max(2000), 2000).to_shape()).unwrap();
                let source = expected[..2000].to_vec();
                expected[at.max(2000) as usize..][..2000].copy_from_slice(&source);
            }
        }
        if round % 4 < 2 {
            expected[at as usize..][..4321].copy_from_slice(&bytes);
        }
        let mut seen = vec![0; len as usize];
        others[(round as usize + 1) % 3].get(0, &mut seen).unwrap();
        assert!(seen == expected, "round {round}: a get");
        mapping.read(0, &mut seen).unwrap();
        assert!(seen == expected, "round {round}: loads");
    }
}

fn add() -> hanare::Modify {
    hanare::Modify { operator: hanare::Operator::Add, element: hanare::Element::U64 }
}

trait ToShape {
    fn to_shape(self) -> hanare::Strided;
}

impl ToShape for (u64, u64) {
    fn to_shape(self) -> hanare::Strided {
        hanare::Strided::contiguous(self.0, self.1)
    }
}

#[test]
fn atomics_of_threads_on_three_hosts_all_count() {
    let pool = TestPool::start(3, 16 << 20);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    clients[0].create("counters", 8 * PAGE, &on(1)).unwrap();
    const ROUNDS: u64 = 400;
    std::thread::scope(|scope| {
        for client in &clients {
            scope.spawn(move || {
                let mapping = &map(client, "counters");
                std::thread::scope(|threads| {
                    for _ in 0..2 {
                        threads.spawn(move || {
                            for round in 0..ROUNDS {
                                word(mapping, round % 8 * 512).fetch_add(1, SeqCst);
                            }
                        });
                    }
                });
            });
        }
    });
    let mapping = map(&clients[2], "counters");
    let sum: u64 = (0..8).map(|page| word(&mapping, page * 512).load(SeqCst)).sum();
    assert_eq!(sum, 6 * ROUNDS);
}

#[test]
fn one_way_at_a_time_and_its_reasons() {
    let pool = TestPool::start(2, 16 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let region = near.create("a", 64 * PAGE, &on(0)).unwrap();
    let pointer = region.map_local().unwrap();
    let refused = far.open("a").unwrap().map(Consistency::Coherent).map(drop).unwrap_err().to_string();
    assert!(refused.contains("as it is"), "{refused}");
    let refused = region.map(Consistency::Coherent).map(drop).unwrap_err().to_string();
    assert!(refused.contains("pointer"), "{refused}");
    drop(pointer);
    let mapping = far.open("a").unwrap().map(Consistency::Coherent).unwrap();
    assert!(near.open("a").unwrap().map_local().is_err(), "not beside the pages");
    word(&mapping, 3).store(77, SeqCst);
    let again = far.open("a").unwrap().map(Consistency::Coherent).unwrap();
    assert_eq!(again.ptr(), mapping.ptr(), "mapping twice gives the same");
    drop(mapping);
    assert_eq!(word(&again, 3).load(SeqCst), 77);
    drop(again);
    let pointer = near.open("a").unwrap().map_local().unwrap();
    // SAFETY: a word of the mapping.
    assert_eq!(unsafe { AtomicU64::from_ptr(pointer.ptr().add(24).cast()) }.load(SeqCst), 77);
}
