//! Heaps of regions with copies: what was given out stays given out when homes die or stand still, and each call counts once.

use crate::apart::{Apart, until};
use crate::support::pattern;
use hanare::{Changes, CreateOptions, Error, NodeId, Placement, Pool, Region};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LEN: u64 = 4 << 20;

fn copied(home: u32) -> CreateOptions {
    CreateOptions { placement: Placement::Node(NodeId(home)), copies: 2, ..CreateOptions::default() }
}

/// Programs that take blocks, write into them, and give some back.
#[derive(Default)]
struct Takers {
    stop: AtomicBool,
    taken: AtomicU64,
}

/// Ends them when it is dropped, also where the test fails.
struct Stopper<'a>(&'a Takers);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// A block with its bytes' length and seed.
type Block = (u64, u64, u64);

/// Reads a block back.
fn check(region: &Region, (offset, len, seed): Block) {
    let mut bytes = vec![0; len as usize];
    region.get(offset, &mut bytes).unwrap();
    assert!(bytes == pattern(len as usize, seed), "another wrote into the block at {offset}");
    assert!(region.heap().block_len(offset).unwrap() >= len);
}

/// Reads a block back and gives it back.
fn give_back(region: &Region, block: Block) {
    check(region, block);
    region.heap().free(block.0).unwrap();
}

impl Takers {
    fn run(&self, region: &Region, thread: u64) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        for round in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            // Nodes need the processor, too.
            std::thread::sleep(Duration::from_micros(200));
            let (len, seed) = ((thread * 7919 + round * 104_729) % 5000 + 1, thread << 32 | round);
            // One thread takes and gives back several by one call.
            let lens = if thread == 0 { vec![len, 1, len / 2 + 1] } else { vec![len] };
            let taken = region.heap().allocate_many(&lens, 64).unwrap();
            for (offset, len) in taken.into_iter().zip(lens) {
                let offset = offset.unwrap();
                region.put(offset, &pattern(len as usize, seed)).unwrap();
                blocks.push((offset, len, seed));
            }
            if thread == 0 && blocks.len() > 20 {
                let some: Vec<Block> = (0..3).map(|_| blocks.swap_remove(round as usize % blocks.len())).collect();
                some.iter().for_each(|block| check(region, *block));
                let offsets: Vec<u64> = some.iter().map(|block| block.0).collect();
                assert_eq!(region.heap().free_many(&offsets).unwrap(), [Ok(()), Ok(()), Ok(())]);
            } else if blocks.len() > 20 {
                give_back(region, blocks.swap_remove(round as usize % blocks.len()));
            }
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        blocks
    }
}

/// Threads take and give back while `fault` happens, and until they have gone on after it. Then all is given back, and nothing is missing.
fn takes_through(pool: &mut Apart, program: &Pool, name: &str, fault: impl FnOnce(&mut Apart)) {
    let takers = Takers::default();
    let region = program.open(name).unwrap();
    let left: Vec<Block> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..3)
            .map(|thread| {
                scope.spawn({
                    let (takers, region) = (&takers, &region);
                    move || takers.run(region, thread)
                })
            })
            .collect();
        let stopper = Stopper(&takers);
        let go_on = || {
            let before = takers.taken.load(Ordering::Relaxed);
            let is_over = || runs.iter().any(|run| run.is_finished());
            until("blocks are taken", || takers.taken.load(Ordering::Relaxed) > before + 100 || is_over());
        };
        go_on();
        fault(pool);
        go_on();
        drop(stopper);
        runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
    });
    let full = region.heap().allocate(LEN - 64, 64);
    assert!(matches!(full, Err(Error::HeapFull { .. })), "{full:?}");
    let first = left[0].0;
    left.into_iter().for_each(|block| give_back(&region, block));
    assert!(matches!(region.heap().free(first), Err(Error::NoBlock { .. })));
    // A call that counted twice would have left a block that nobody knows.
    let all = region.heap().allocate(LEN - 64, 64).unwrap();
    region.heap().free(all).unwrap();
}

#[test]
fn a_killed_home_leaves_its_heap_to_its_copy() {
    let mut pool = Apart::start(4);
    let program = pool.client(0);
    // The node with most room gets the copy, and node 0 is the coordinator's.
    let filler = CreateOptions { placement: Placement::Node(NodeId(0)), ..CreateOptions::default() };
    program.create("filler", LEN, &filler).unwrap();
    program.create("heap", LEN, &copied(1)).unwrap();
    takes_through(&mut pool, &program, "heap", |pool| pool.kill(1));
    // The copy that was made anew has the heap, too.
    until("another node has a copy", || program.stat("heap").unwrap().whole_copies == 2);
    let home = program.open("heap").unwrap().layout().extents().next().unwrap().node;
    assert!(![0, 1].contains(&home.0), "{home}");
    takes_through(&mut pool, &program, "heap", |pool| pool.kill(home.0 as usize));
}

#[test]
fn a_home_that_stands_still_gives_nothing_out_that_the_next_one_does() {
    let mut pool = Apart::start(3);
    let program = pool.client(0);
    program.create("heap", LEN, &copied(1)).unwrap();
    takes_through(&mut pool, &program, "heap", |pool| pool.stop(1));
    pool.go_on(1);
    takes_through(&mut pool, &program, "heap", |_| {});
}

#[test]
fn a_heap_goes_with_its_region_that_gets_its_first_copies_and_loses_its_home() {
    let mut pool = Apart::start(3);
    let program = pool.client(0);
    program.create("heap", LEN, &CreateOptions { copies: 1, ..copied(1) }).unwrap();
    takes_through(&mut pool, &program, "heap", |_| {
        program.alter("heap", &Changes { copies: Some(2), ..Changes::default() }).unwrap();
        until("another node has a copy", || program.stat("heap").unwrap().whole_copies == 2);
    });
    takes_through(&mut pool, &program, "heap", |pool| pool.kill(1));
}
