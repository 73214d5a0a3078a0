//! A region as a heap: any client takes blocks and gives them back, at the same offsets everywhere.

use crate::support;

use hanare::{CreateOptions, Error, HEAP_WISH_COUNT_MAX, NodeId, Placement, Pool, Rights};
use support::{TestPool, pattern};

fn placed(placement: Placement) -> CreateOptions {
    CreateOptions { placement, ..CreateOptions::default() }
}

#[test]
fn what_one_client_takes_another_reads_and_gives_back() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let here = near.create("heap", 1 << 20, &placed(Placement::Node(NodeId(1)))).unwrap();
    let block = here.heap().allocate(1000, 16).unwrap();
    assert!(block >= 64 && block.is_multiple_of(16));
    here.put(block, &pattern(1000, 1)).unwrap();
    let there = far.open("heap").unwrap();
    let mut back = vec![0; 1000];
    there.get(block, &mut back).unwrap();
    assert_eq!(back, pattern(1000, 1));
    there.heap().free(block).unwrap();
    assert_eq!(here.heap().free(block), Err(Error::NoBlock { region: "heap".to_owned(), offset: block }));
}

#[test]
fn one_message_takes_or_gives_back_several_blocks_each_with_its_own_answer() {
    let pool = TestPool::start(2, 32 << 20);
    for node in 0..2 {
        let region = pool.client(0).create("several", 1 << 20, &placed(Placement::Node(NodeId(node)))).unwrap();
        let heap = region.heap();
        let half = 1 << 19;
        let taken = heap.allocate_many(&[half, 1 << 20, 0, 100], 64).unwrap();
        let free = (1 << 20) - 64 - half;
        let full = Error::HeapFull { region: "several".to_owned(), asked: 1 << 20, free, largest: free };
        assert_eq!((&taken[0], &taken[1], &taken[3]), (&Ok(64), &Err(full), &Ok(64 + half)));
        assert!(matches!(taken[2], Err(Error::BadSetting { .. })), "{taken:?}");
        let freed = heap.free_many(&[64, 128, 64 + half]).unwrap();
        let none = Error::NoBlock { region: "several".to_owned(), offset: 128 };
        assert_eq!(freed, [Ok(()), Err(none), Ok(())]);
        assert_eq!(heap.allocate_many(&[1; HEAP_WISH_COUNT_MAX], 1).unwrap().into_iter().filter(Result::is_ok).count(), 256);
        let long = heap.free_many(&[64; HEAP_WISH_COUNT_MAX + 1]);
        assert!(matches!(long, Err(Error::LimitReached { limit: 256, .. })), "{long:?}");
        assert_eq!((heap.allocate_many(&[], 1), heap.free_many(&[])), (Ok(vec![]), Ok(vec![])));
        pool.client(0).remove("several").unwrap();
    }
}

#[test]
fn threads_of_two_clients_never_get_the_same_bytes() {
    let pool = TestPool::start(2, 64 << 20);
    let clients = [pool.client(0), pool.client(1)];
    clients[0].create("heap", 4 << 20, &placed(Placement::Interleave(65536))).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let client = &clients[thread as usize % 2];
            scope.spawn(move || {
                let region = client.open("heap").unwrap();
                let mut blocks = Vec::new();
                for round in 0..100u64 {
                    let len = (thread * 7919 + round * 104_729) % 5000 + 1;
                    let offset = region.heap().allocate(len, 8).unwrap();
                    let seed = thread << 32 | round;
                    region.put(offset, &pattern(len as usize, seed)).unwrap();
                    blocks.push((offset, len, seed));
                    if round % 3 == 2 {
                        give_back(&region, blocks.swap_remove(round as usize % blocks.len()));
                    }
                }
                blocks.into_iter().for_each(|block| give_back(&region, block));
            });
        }
    });
    let region = clients[1].open("heap").unwrap();
    region.heap().allocate(3 << 20, 4096).expect("all of it is free again");
}

/// Looks whether the block's bytes are as they were written, and frees it.
fn give_back(region: &hanare::Region, (offset, len, seed): (u64, u64, u64)) {
    let mut back = vec![0; len as usize];
    region.get(offset, &mut back).unwrap();
    assert!(back == pattern(len as usize, seed), "another wrote into the block at {offset}");
    region.heap().free(offset).unwrap();
}

#[test]
fn what_cannot_be_had_or_given_back_is_an_error_that_names_the_region() {
    let pool = TestPool::start(2, 32 << 20);
    let client = pool.client(0);
    let region = client.create("heap", 1 << 20, &placed(Placement::Node(NodeId(1)))).unwrap();
    let heap = region.heap();
    let block = heap.allocate(1 << 19, 1).unwrap();
    let full = heap.allocate(1 << 20, 1).unwrap_err();
    assert!(matches!(&full, Error::HeapFull { region, asked, .. } if region == "heap" && *asked == 1 << 20), "{full}");
    for offset in [0, 1, block + 64, 1 << 40] {
        assert!(matches!(heap.free(offset), Err(Error::NoBlock { .. })));
    }
    assert!(matches!(heap.allocate(0, 1), Err(Error::BadSetting { .. })));
    assert!(matches!(heap.allocate(1, 3), Err(Error::BadSetting { .. })));
    let reader = client.open_for("heap", Rights::Read).unwrap();
    assert!(matches!(reader.heap().allocate(8, 8), Err(Error::BadUse { .. })));
    heap.free(block).unwrap();
}

#[test]
fn a_heap_goes_with_its_region() {
    let pool = TestPool::start(1, 32 << 20);
    let client: Pool = pool.client(0);
    let first = client.create("heap", 1 << 20, &CreateOptions::default()).unwrap();
    let block = first.heap().allocate(1 << 19, 1).unwrap();
    client.remove("heap").unwrap();
    assert!(matches!(first.heap().allocate(8, 8), Err(Error::UnknownRegion { .. })));
    let second = client.create("heap", 1 << 20, &CreateOptions::default()).unwrap();
    assert!(matches!(second.heap().free(block), Err(Error::NoBlock { .. })));
    second.heap().allocate(1 << 19, 1).unwrap();
}

#[test]
fn a_heap_follows_a_region_that_grows_and_tells_how_long_blocks_are() {
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let short = near.create("grows", 1 << 20, &placed(Placement::Node(NodeId(1)))).unwrap();
    let first = short.heap().allocate(700_000, 16).unwrap();
    assert!(matches!(short.heap().allocate(700_000, 16), Err(Error::HeapFull { .. })));
    let long = near.resize("grows", 4 << 20).unwrap();
    let second = long.heap().allocate(1 << 20, 4096).unwrap();
    assert!(second >= 1 << 20 && second + (1 << 20) <= 4 << 20, "{second}");
    long.put(second, &pattern(1 << 20, 3)).unwrap();
    // Another client reads it where it is, and asks how long both are.
    let there = far.open("grows").unwrap();
    let mut back = vec![0; 1 << 20];
    there.get(second, &mut back).unwrap();
    assert_eq!(back, pattern(1 << 20, 3));
    for (block, asked) in [(first, 700_000), (second, 1 << 20)] {
        let len = there.heap().block_len(block).unwrap();
        assert!(len >= asked && len < asked + asked / 4, "{len} of {asked}");
    }
    assert!(matches!(there.heap().block_len(first + 64), Err(Error::NoBlock { .. })));
    there.heap().free(second).unwrap();
    assert!(matches!(there.heap().block_len(second), Err(Error::NoBlock { .. })));
}
