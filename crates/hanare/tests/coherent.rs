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
