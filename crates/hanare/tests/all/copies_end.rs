//! Regions that have one copy again: their nodes give direct access back, and nothing counts twice meanwhile.

use crate::apart::{Apart, until};
use crate::copies::{all_count_through, copied, drained};
use crate::support::pattern;
use hanare::{Changes, Consistency, CreateOptions, DrainWish, Overflow, Placement, Pool, QueueForm, Region, Unit};
use hanare_protocol::id::NodeId;

const LEN: u64 = 3 << 20;

fn set(program: &Pool, name: &str, copies: u8) {
    program.alter(name, &Changes { copies: Some(copies), ..Changes::default() }).unwrap();
}

/// True if whoever opens it has a region without copies.
fn is_plain(program: &Pool, name: &str) -> bool {
    program.open(name).is_ok_and(|region| region.copies() == 1)
}

#[test]
fn copies_come_and_go_under_programs_and_each_addition_counts_once() {
    let pool = Apart::start(3);
    let programs = [pool.client(1), pool.client(0), pool.client(2)];
    let spread = CreateOptions { placement: Placement::Interleave(65536), ..CreateOptions::default() };
    let regions: Vec<Region> = [copied(1, 1), copied(1, 1), spread]
        .into_iter()
        .zip(&programs)
        .enumerate()
        .map(|(k, (options, program))| {
            let region = program.create(&format!("r{k}"), LEN, &options).unwrap();
            region.put(1 << 20, &pattern(1 << 20, k as u64)).unwrap();
            region
        })
        .collect();
    let names = ["r0", "r1", "r2"];
    all_count_through(&programs, &regions, |goes_on| {
        for _ in 0..2 {
            names.iter().for_each(|name| set(&programs[0], name, 2));
            until("all have two copies", || {
                names.iter().all(|name| programs[0].stat(name).is_ok_and(|stat| stat.whole_copies == 2))
            });
            goes_on();
            names.iter().for_each(|name| set(&programs[0], name, 1));
            until("none has copies", || names.iter().all(|name| is_plain(&programs[0], name)));
            goes_on();
        }
    });
    for (k, region) in regions.iter().enumerate() {
        let mut bytes = vec![0; 1 << 20];
        region.get(1 << 20, &mut bytes).unwrap();
        assert!(bytes == pattern(1 << 20, k as u64), "r{k}");
    }
    // The program that has used it all the time has a pointer now, and other hosts map it.
    let here = programs[0].stat("r0").unwrap().nodes[0].0.0 as usize;
    let near = pool.client(here);
    let region = near.open("r0").unwrap();
    until("the node has given direct access back", || region.map_local().is_ok());
    let far = programs.iter().find(|program| program.node() != NodeId(here as u32)).unwrap();
    let mapping = far.open("r0").unwrap().map(Consistency::Coherent).unwrap();
    let mut bytes = vec![0; 1 << 20];
    mapping.read(1 << 20, &mut bytes).unwrap();
    assert!(bytes == pattern(1 << 20, 0));
}

#[test]
fn a_region_that_a_drain_has_moved_is_as_one_that_was_made_there() {
    let pool = Apart::start(3);
    let program = pool.client(0);
    let region = program.create("a", LEN, &copied(1, 1)).unwrap();
    let heap = program.create("heap", LEN, &copied(1, 1)).unwrap();
    let (first, second) = (heap.heap().allocate(100, 64).unwrap(), heap.heap().allocate(100, 64).unwrap());
    region.put(0, &pattern(1000, 1)).unwrap();
    drained(&program, 1);
    program.drain(NodeId(1), &DrainWish::Stop).unwrap();
    until("both have one holder and no copies", || is_plain(&program, "a") && is_plain(&program, "heap"));
    // Its heap has come along, twice.
    assert_eq!(heap.heap().block_len(first).unwrap(), 128);
    heap.heap().free(first).unwrap();
    assert_eq!(heap.heap().allocate(100, 64).unwrap(), first);
    heap.heap().free(second).unwrap();
    let (home, mut bytes) = (program.stat("a").unwrap().nodes[0].0, vec![0; 1000]);
    region.get(0, &mut bytes).unwrap();
    assert!(home != NodeId(1) && bytes == pattern(1000, 1));
    let near = pool.client(home.0 as usize);
    let mapping = near.open("a").unwrap().map(Consistency::Coherent).unwrap();
    mapping.write(0, &[9]).unwrap();
    region.get(0, &mut bytes[..1]).unwrap();
    assert_eq!(bytes[0], 9);
    let form = QueueForm { unit: Unit::Blocks { len: 64 }, depth: 4, ports: 1, overflow: Overflow::Refuse };
    let queues = near.open("heap").unwrap();
    queues.make_queues(1 << 20, 1, &form).unwrap();
    // Another drain finds what keeps it, and moves it again when that is gone.
    drop(mapping);
    near.remove("heap").unwrap();
    drained(&program, home.0);
    region.get(0, &mut bytes).unwrap();
    assert_eq!(bytes[1..], pattern(1000, 1)[1..]);
}

#[test]
fn a_handle_of_before_reaches_the_memory_of_today_when_its_region_comes_back() {
    let pool = Apart::start(3);
    let (near, far) = (pool.client(1), pool.client(0));
    let region = near.create("a", LEN, &copied(1, 1)).unwrap();
    // Its memory here is mapped.
    region.put(0, &pattern(1000, 1)).unwrap();
    let move_to = |from: u32, to: u32| {
        far.drain(NodeId(from), &DrainWish::Begin { to: [NodeId(to)].into() }).unwrap();
        until("it has moved", || far.drain(NodeId(from), &DrainWish::Look).unwrap().left == 0);
        far.drain(NodeId(from), &DrainWish::Stop).unwrap();
        until("it has no copies", || is_plain(&far, "a"));
    };
    let other = far.open("a").unwrap();
    let mut byte = [0];
    for round in 0..3 {
        move_to(1, 2);
        region.put(0, &[10 + round]).unwrap();
        other.get(0, &mut byte).unwrap();
        assert_eq!(byte[0], 10 + round, "at the other node");
        move_to(2, 1);
        // As often as makes a way of its own.
        for turn in 0..200 {
            region.put(0, &[turn]).unwrap();
        }
        other.get(0, &mut byte).unwrap();
        assert_eq!(byte[0], 199, "back at its host, by this handle");
        other.put(0, &[round]).unwrap();
        region.get(0, &mut byte).unwrap();
        assert_eq!(byte[0], round);
    }
    // The handle has a pointer to today's memory, and maps it.
    until("the node has given direct access back", || region.map_local().is_ok());
    let local = region.map_local().unwrap();
    // SAFETY: the mapping is there until the end of the block, and nobody else writes meanwhile.
    unsafe { local.ptr().write_volatile(77) };
    other.get(0, &mut byte).unwrap();
    assert_eq!(byte[0], 77);
    drop(local);
    move_to(1, 2);
    let mapping = region.map(Consistency::Explicit).unwrap();
    other.put(5, &[42]).unwrap();
    mapping.update(0, LEN).unwrap();
    mapping.read(5, &mut byte).unwrap();
    assert_eq!(byte[0], 42);
    mapping.write(6, &[43]).unwrap();
    mapping.flush(0, LEN).unwrap();
    other.get(6, &mut byte).unwrap();
    assert_eq!(byte[0], 43);
}

#[test]
fn a_mapping_of_a_region_with_copies_goes_on_without_them() {
    let pool = Apart::start(3);
    let program = pool.client(0);
    let region = program.create("a", LEN, &copied(1, 2)).unwrap();
    let mapping = region.map(Consistency::Explicit).unwrap();
    mapping.write(0, &[1]).unwrap();
    mapping.flush(0, LEN).unwrap();
    set(&program, "a", 1);
    until("it has no copies", || is_plain(&program, "a"));
    mapping.write(4096, &[2]).unwrap();
    mapping.flush(0, LEN).unwrap();
    let other = pool.client(2).open("a").unwrap();
    let mut bytes = [0; 2];
    other.get(0, &mut bytes[..1]).unwrap();
    other.get(4096, &mut bytes[1..]).unwrap();
    assert_eq!(bytes, [1, 2]);
    other.put(8192, &[3]).unwrap();
    mapping.update(0, LEN).unwrap();
    mapping.read(8192, &mut bytes[..1]).unwrap();
    assert_eq!(bytes[0], 3);
}
