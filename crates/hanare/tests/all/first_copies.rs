//! Regions that were made without copies, and get some, or move to another node, while programs use them.

use crate::apart::{Apart, until};
use crate::copies::{ADD, all_count_through, copied, counts_through, drained};
use crate::support::pattern;
use hanare::{
    Changes, Consistency, CreateOptions, DrainWish, Operator, Overflow, Placement, Pool, QueueForm, Region, Shape, Strided, Unit,
};
use hanare_protocol::id::NodeId;
use hanare_protocol::wire::control::WhyStays;
use std::collections::BTreeSet;

const LEN: u64 = 3 << 20;

fn set(program: &Pool, name: &str, copies: u8) {
    program.alter(name, &Changes { copies: Some(copies), ..Changes::default() }).unwrap();
}

fn holds(region: &Region, seed: u64) {
    let mut bytes = vec![0; 1 << 20];
    region.get(1 << 20, &mut bytes).unwrap();
    assert!(bytes == pattern(1 << 20, seed), "{}", region.name());
}

#[test]
fn a_region_in_use_gets_its_first_copies_and_then_its_home_dies() {
    let mut pool = Apart::start(3);
    let program = pool.client(0);
    let spread = CreateOptions { placement: Placement::Interleave(65536), ..CreateOptions::default() };
    for (name, options) in [("one", copied(1, 1)), ("spread", spread)] {
        let region = program.create(name, LEN, &options).unwrap();
        region.put(1 << 20, &pattern(1 << 20, 3)).unwrap();
        counts_through(&mut pool, &program, &region, |_| {
            set(&program, name, 2);
            until("it has two copies", || program.stat(name).is_ok_and(|stat| stat.whole_copies == 2));
        });
        holds(&region, 3);
    }
    let regions = ["one", "spread"].map(|name| program.open(name).unwrap());
    counts_through(&mut pool, &program, &regions[0], |pool| pool.kill(1));
    regions.iter().for_each(|region| holds(region, 3));
}

#[test]
fn a_node_is_drained_of_regions_without_copies_under_programs_of_its_own_host_and_of_others() {
    let pool = Apart::start(3);
    let programs = [pool.client(1), pool.client(0), pool.client(1)];
    let small = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    let regions: Vec<Region> = (0..3)
        .map(|k| {
            let region = programs[k].create(&format!("r{k}"), LEN, &small).unwrap();
            region.put(1 << 20, &pattern(1 << 20, k as u64)).unwrap();
            region
        })
        .collect();
    // A small one shares its memory with others, and one has nobody who uses it meanwhile.
    let short = programs[0].create("short", 100, &small).unwrap();
    short.put(1, &[7; 99]).unwrap();
    all_count_through(&programs, &regions, |goes_on| {
        goes_on();
        drained(&programs[1], 1);
        goes_on();
    });
    regions.iter().enumerate().for_each(|(k, region)| holds(region, k as u64));
    let mut bytes = [0; 99];
    short.get(1, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 99]);
    for name in ["r0", "r1", "r2", "short"] {
        let stat = programs[0].stat(name).unwrap();
        assert_eq!((stat.copies, stat.nodes.len(), stat.nodes[0].0 == NodeId(1)), (1, 1, false), "{stat:?}");
    }
}

#[test]
fn a_batch_that_began_beside_its_bytes_goes_on_where_the_region_gets_copies_meanwhile() {
    let pool = Apart::start(2);
    let clients = [pool.client(0), pool.client(1)];
    let spread = CreateOptions { placement: Placement::Interleave(65536), ..CreateOptions::default() };
    for (name, options) in [("one", copied(1, 1)), ("spread", spread)] {
        let home = clients[0].create(name, LEN, &options).unwrap().layout().extents().next().unwrap().node;
        let near = &clients[home.0 as usize];
        let region = near.open(name).unwrap();
        region.put(0, &5u64.to_le_bytes()).unwrap();
        let (one, two, zero, mut old, mut found) = (1u64.to_le_bytes(), 2u64.to_le_bytes(), [0; 8], [9; 8], Some(7));
        let ended = near.batch(|batch| {
            // Done at once, and not repeated with what follows.
            batch.fetch(&region, Strided::contiguous(0, 8), ADD, &one, &mut old)?;
            batch.compare(&region, Strided::contiguous(8, 8), &zero, &mut found)?;
            set(near, name, 2);
            until("it has two copies", || near.stat(name).is_ok_and(|stat| stat.whole_copies == 2));
            batch.update(&region, Strided::contiguous(0, 8), ADD, &two)
        });
        assert_eq!((ended, u64::from_le_bytes(old), found), (Ok(()), 5, None), "{name}");
        let mut word = [0; 8];
        region.get(0, &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), 8, "{name}");
    }
}

#[test]
fn started_calls_and_batches_on_a_handle_of_before_go_to_the_next_home() {
    let pool = Apart::start(3);
    let (mover, program) = (pool.client(0), pool.client(0));
    let region = program.create("a", LEN, &copied(1, 1)).unwrap();
    region.put(0, &pattern(1000, 1)).unwrap();
    let calls: [fn(&Pool, &Region); 3] = [
        |_, region| assert!(region.start_get(0, vec![0; 1000]).unwrap().wait().unwrap() == pattern(1000, 1)),
        |_, region| drop(region.start_put(2000, pattern(1000, 1)).unwrap().wait().unwrap()),
        |program, region| {
            let mut bytes = vec![0; 1000];
            let put = pattern(1000, 1);
            program
                .batch(|batch| {
                    batch.get(region, 0, &mut bytes)?;
                    batch.put(region, 2000, &put)
                })
                .unwrap();
            assert!(bytes == put);
        },
    ];
    for (call, node) in calls.into_iter().zip([1, 2, 1]) {
        // The handle was idle while its region moved.
        drained(&mover, node);
        mover.drain(NodeId(node), &DrainWish::Stop).unwrap();
        let held: BTreeSet<NodeId> = mover.stat("a").unwrap().nodes.iter().map(|(node, _)| *node).collect();
        call(&program, &region);
        if held.contains(&NodeId(0)) {
            // Back to a node from which the next drain moves it.
            mover.drain(NodeId(0), &DrainWish::Begin { to: BTreeSet::from([NodeId(3 - node)]) }).unwrap();
            until("it has moved", || mover.drain(NodeId(0), &DrainWish::Look).unwrap().left == 0);
            mover.drain(NodeId(0), &DrainWish::Stop).unwrap();
        }
    }
    let scratch = program.create("b", 1000, &copied(0, 1)).unwrap();
    program.copy(&region, Shape::contiguous(2000, 1000), &scratch, Shape::contiguous(0, 1000)).unwrap();
    let mut bytes = vec![0; 1000];
    scratch.get(0, &mut bytes).unwrap();
    assert!(bytes == pattern(1000, 1));
}

type CallOnHandle = fn(&Pool, &Region);

/// The calls are done, each by a program of its own, whose handle was idle while its region moved. `lose` is done to the former node.
fn idle_handles_go_on(calls: &[CallOnHandle], lose: impl FnOnce(&mut Apart)) {
    let mut pool = Apart::start(3);
    let (mover, programs) = (pool.client(0), calls.iter().map(|_| pool.client(0)).collect::<Vec<_>>());
    drop(mover.create("a", LEN, &copied(1, 1)).unwrap());
    let handles: Vec<Region> = programs.iter().map(|program| program.open("a").unwrap()).collect();
    // Each has a connection to the home.
    handles.iter().for_each(|handle| handle.put(0, &pattern(1000, 1)).unwrap());
    mover.drain(NodeId(1), &DrainWish::Begin { to: BTreeSet::from([NodeId(2)]) }).unwrap();
    until("it has moved", || mover.drain(NodeId(1), &DrainWish::Look).unwrap().left == 0);
    until("it is plain again", || mover.stat("a").is_ok_and(|stat| stat.copies == 1));
    lose(&mut pool);
    // The kernels of its peers know of its end by then, too.
    until("the former node is missed", || !mover.status().unwrap().nodes[1].alive);
    std::thread::scope(|scope| {
        for ((call, program), handle) in calls.iter().zip(&programs).zip(&handles) {
            scope.spawn(move || call(program, handle));
        }
    });
}

const GETS: CallOnHandle = |_, region| {
    let mut bytes = vec![0; 1000];
    region.get(0, &mut bytes).unwrap();
    assert!(bytes == pattern(1000, 1));
};

const PUTS: CallOnHandle = |_, region| region.put(5000, b"after").unwrap();

#[test]
fn handles_that_were_idle_go_to_their_bytes_when_the_former_node_is_gone() {
    let adds: CallOnHandle = |_, region| assert_eq!(region.fetch_word(8000, Operator::Add, 1).unwrap(), 0);
    let starts: CallOnHandle =
        |_, region| assert!(region.start_get(0, vec![0; 1000]).unwrap().wait().unwrap() == pattern(1000, 1));
    let updates: CallOnHandle = |program, region| {
        let one = 1u64.to_le_bytes();
        program.batch(|batch| batch.update(region, Strided::contiguous(8008, 8), ADD, &one)).unwrap();
        assert_eq!(region.read_word(8008).unwrap(), 1);
    };
    idle_handles_go_on(&[GETS, PUTS, adds, starts, updates], |pool| pool.kill(1));
}

#[test]
fn handles_that_were_idle_go_to_their_bytes_when_the_former_node_stands_still() {
    idle_handles_go_on(&[GETS, PUTS], |pool| pool.stop(1));
}

#[test]
fn what_keeps_a_region_from_moving_is_named_until_it_goes() {
    let pool = Apart::start(2);
    let (program, near) = (pool.client(0), pool.client(1));
    let names = ["pointers", "mapped", "explicit", "queue", "followed"];
    let regions: Vec<Region> =
        [0, 1, 2, 4].map(|k| names[k]).iter().map(|name| near.create(name, LEN, &copied(1, 1)).unwrap()).collect();
    regions[0].put(0, &[2]).unwrap();
    let local = regions[0].map_local().unwrap();
    let coherent = regions[1].map(Consistency::Coherent).unwrap();
    // Its pages are the node's own memory. Those of another host's program are frames, and follow.
    let explicit = regions[2].map(Consistency::Explicit).unwrap();
    let followed = program.open("followed").unwrap().map(Consistency::Explicit).unwrap();
    let form = QueueForm { unit: Unit::Blocks { len: 64 }, depth: 4, ports: 1, overflow: Overflow::Refuse };
    let queue = near.create_queue("queue", &form, &copied(1, 1)).unwrap().reader().unwrap();
    let look = |wish: DrainWish| program.drain(NodeId(1), &wish).unwrap();
    look(DrainWish::Begin { to: BTreeSet::new() });
    let reasons = || -> Vec<(String, String)> {
        let stays = look(DrainWish::Look).stays.into_iter();
        stays.map(|region| (region.name, if let WhyStays::NotReady(why) = region.why { why } else { String::new() })).collect()
    };
    until("each reason is told", || reasons().len() == 4);
    let told = reasons();
    for (name, why) in [
        ("explicit", "have pointers to its memory"),
        ("mapped", "hosts map it coherent"),
        ("pointers", "have pointers to its memory"),
        ("queue", "queues"),
    ] {
        assert!(told.iter().any(|(other, told)| other == name && told.contains(why)), "{name}: {told:?}");
    }
    // All of them work as before.
    regions[1].put(0, &[1]).unwrap();
    for mapping in [&explicit, &followed] {
        mapping.write(0, &[3]).unwrap();
        mapping.flush(0, LEN).unwrap();
    }
    drop((local, coherent, explicit, queue));
    near.remove("queue").unwrap();
    until("the node holds nothing", || look(DrainWish::Look).left == 0);
    for (region, first) in regions.iter().zip([2, 1, 3, 3]) {
        let mut byte = [0];
        region.get(0, &mut byte).unwrap();
        assert_eq!(byte, [first], "{}", region.name());
    }
}

#[test]
fn a_home_stays_while_a_program_has_a_lock_at_its_bytes() {
    let pool = Apart::start(3);
    let (near, far) = (pool.client(1), pool.client(0));
    let region = near.create("a", LEN, &copied(1, 1)).unwrap();
    let other = far.open("a").unwrap();
    // A lease is not in the way: its program has the lock no more.
    drop(other.lock_at(64).lock().unwrap());
    let held = region.lock_at(128).lock().unwrap();
    let look = |wish: DrainWish| far.drain(NodeId(1), &wish).unwrap();
    look(DrainWish::Begin { to: BTreeSet::new() });
    until("the lock is named", || look(DrainWish::Look).stays.iter().any(|region| region.why == WhyStays::Locks));
    region.put(128, &[5]).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let lock = other.lock_at(128).lock().unwrap();
            assert!(!lock.was_abandoned());
            let mut byte = [0];
            other.get(128, &mut byte).unwrap();
            byte[0]
        });
        std::thread::sleep(std::time::Duration::from_millis(200));
        region.put(128, &[6]).unwrap();
        held.unlock().unwrap();
        assert_eq!(waits.join().unwrap(), 6);
    });
    until("the node holds nothing", || look(DrainWish::Look).left == 0);
    for program in [&region, &other] {
        let lock = program.lock_at(128).lock().unwrap();
        assert!(!lock.was_abandoned());
        lock.unlock().unwrap();
    }
}
