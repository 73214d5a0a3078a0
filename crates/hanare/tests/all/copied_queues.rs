//! Queues of regions with copies: homes die and stand still while programs write and read. Each answered unit is read once, in its writer's order.

use crate::apart::{Apart, until};
use hanare::{
    Changes, CreateOptions, DrainWish, Error, NodeId, Overflow, Placement, Pool, Queue, QueueForm, QueueSet, ReadPort, Unit,
    WritePort,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SOON: Option<Duration> = Some(Duration::from_secs(60));
const WRITERS: u64 = 3;

fn copied(home: u32, copies: u8) -> CreateOptions {
    CreateOptions { placement: Placement::Node(NodeId(home)), copies, ..CreateOptions::default() }
}

fn form(unit: Unit) -> QueueForm {
    QueueForm { unit, depth: 32, ports: WRITERS as u32 + 1, overflow: Overflow::Wait }
}

const BLOCKS: Unit = Unit::Blocks { len: 24 };
const RECORDS: Unit = Unit::Records { len_max: 3000 };

/// A unit of a writer: its numbers, and bytes that depend on them.
fn unit(kind: Unit, writer: u64, number: u64) -> Vec<u8> {
    let len = if let Unit::Records { .. } = kind { 16 + (number * 37 + writer) % 2900 } else { 24 };
    let mut bytes = [writer.to_le_bytes(), number.to_le_bytes()].concat();
    bytes.resize(len as usize, (writer * 31 + number) as u8);
    bytes
}

/// Writers and a reader that go on until they are told to stop.
#[derive(Default)]
struct Traffic {
    stop: AtomicBool,
    read: AtomicU64,
}

/// Ends them when it is dropped, also where the test fails.
struct Stopper<'a>(&'a Traffic);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Ends the reader when it is dropped, where the test fails before all that was sent is known.
struct Total<'a>(&'a AtomicU64);

impl Total<'_> {
    /// Writers have failed.
    const UNKNOWN: u64 = u64::MAX;
}

impl Drop for Total<'_> {
    fn drop(&mut self) {
        let _ = self.0.compare_exchange(0, Total::UNKNOWN, Ordering::Release, Ordering::Relaxed);
    }
}

impl Traffic {
    /// Writes until it is to stop. One writer waits for each unit, others send many at once. Returns how many units it sent: all were answered.
    fn write(&self, mut port: WritePort, kind: Unit, writer: u64) -> u64 {
        let mut sent = 0;
        while !self.stop.load(Ordering::Relaxed) {
            for _ in 0..if writer == 0 { 1 } else { 5 } {
                let unit = unit(kind, writer, sent);
                port.claim(unit.len(), SOON).unwrap();
                port.fill(0, &unit);
                port.keep();
                sent += 1;
            }
            if writer == 1 { port.publish_started() } else { port.publish() }.unwrap();
            // Nodes need the processor, too.
            std::thread::sleep(Duration::from_micros(200));
        }
        port.close().unwrap();
        sent
    }

    /// Notes a unit, which has to be the next of its writer.
    fn note(&self, kind: Unit, next: &mut [u64], bytes: &[u8]) {
        let [writer, number] = [0, 8].map(|at| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap()));
        assert_eq!(number, next[writer as usize], "of writer {writer}");
        assert!(bytes == unit(kind, writer, number), "a unit is whole");
        next[writer as usize] += 1;
        self.read.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until units were read, or something failed.
    fn go_on(&self, is_over: impl Fn() -> bool) {
        let before = self.read.load(Ordering::Relaxed);
        until("units are read", || self.read.load(Ordering::Relaxed) > before + 200 || is_over());
    }
}

/// Reads until all writers have closed their ports and all is read.
fn read_all(traffic: &Traffic, mut reader: ReadPort, kind: Unit, sent: &AtomicU64) -> u64 {
    let (mut next, mut bytes) = (vec![0; WRITERS as usize], Vec::new());
    loop {
        match reader.receive(&mut bytes, Some(Duration::from_millis(100))) {
            Ok(()) => traffic.note(kind, &mut next, &bytes),
            Err(Error::NotInTime { .. }) => {
                let all = sent.load(Ordering::Acquire);
                assert!(all != Total::UNKNOWN, "the test has failed elsewhere");
                if all > 0 && next.iter().sum::<u64>() == all - 1 {
                    break;
                }
            }
            Err(error) => panic!("a reader of a queue with copies: {error}"),
        }
    }
    // Nothing comes twice.
    assert!(reader.try_see().unwrap().is_none());
    reader.close().unwrap();
    next.iter().sum()
}

/// Programs on all nodes write and one reads while `fault` happens, and until they have gone on after it.
fn flows_through(pool: &mut Apart, nodes: [usize; 2], name: &str, kind: Unit, fault: impl FnOnce(&mut Apart)) {
    let (traffic, sent) = (Traffic::default(), AtomicU64::new(0));
    let programs: Vec<Pool> = (0..WRITERS).map(|writer| pool.client(nodes[writer as usize % 2])).collect();
    let queues: Vec<Queue> = programs.iter().map(|program| program.open_queue(name).unwrap()).collect();
    let reads = pool.client(nodes[0]);
    let reader = reads.open_queue(name).unwrap().reader().unwrap();
    std::thread::scope(|scope| {
        let total = Total(&sent);
        let writes: Vec<_> = queues
            .iter()
            .zip(0..)
            .map(|(queue, writer)| {
                let (port, traffic) = (queue.writer().unwrap(), &traffic);
                scope.spawn(move || traffic.write(port, kind, writer))
            })
            .collect();
        let stopper = Stopper(&traffic);
        let reads = scope.spawn(|| read_all(&traffic, reader, kind, &sent));
        traffic.go_on(|| reads.is_finished() || writes.iter().any(|write| write.is_finished()));
        fault(pool);
        traffic.go_on(|| reads.is_finished() || writes.iter().any(|write| write.is_finished()));
        drop(stopper);
        let all: u64 = writes.into_iter().map(|write| write.join().unwrap()).sum();
        sent.store(all + 1, Ordering::Release);
        drop(total);
        assert_eq!(reads.join().unwrap(), all);
    });
}

/// A pool in whose node 0, the coordinator's, no copies are made while others have room.
fn pool_of(nodes: usize) -> (Apart, Pool) {
    let pool = Apart::start(nodes);
    let program = pool.client(0);
    let filler = CreateOptions { placement: Placement::Node(NodeId(0)), ..CreateOptions::default() };
    program.create("filler", 8 << 20, &filler).unwrap();
    (pool, program)
}

fn home_of(program: &Pool, name: &str) -> usize {
    program.open(name).unwrap().layout().extents().next().unwrap().node.0 as usize
}

#[test]
fn a_killed_home_leaves_its_queues_to_its_copy() {
    for kind in [BLOCKS, RECORDS] {
        let (mut pool, program) = pool_of(4);
        program.create_queue("q", &form(kind), &copied(1, 2)).unwrap();
        let others = |pool: &Pool| {
            let home = home_of(pool, "q");
            let copy = pool.stat("q").unwrap().nodes.iter().map(|(node, _)| node.0 as usize).find(|node| *node != home).unwrap();
            (home, copy)
        };
        let (home, copy) = others(&program);
        assert_eq!(home, 1);
        flows_through(&mut pool, [0, copy], "q", kind, |pool| pool.kill(1));
        // The copy that was made anew while units came has them, too.
        until("another node has a copy", || program.stat("q").unwrap().whole_copies == 2);
        let (home, copy) = others(&program);
        flows_through(&mut pool, [0, copy], "q", kind, |pool| pool.kill(home));
    }
}

#[test]
fn a_copy_is_made_while_units_flow() {
    let (mut pool, program) = pool_of(4);
    program.create_queue("q", &form(RECORDS), &copied(1, 2)).unwrap();
    let copy = program.stat("q").unwrap().nodes.iter().map(|(node, _)| node.0 as usize).find(|node| *node != 1).unwrap();
    flows_through(&mut pool, [0, 1], "q", RECORDS, |pool| {
        pool.kill(copy);
        until("another node has a copy", || program.stat("q").unwrap().whole_copies == 2);
    });
    flows_through(&mut pool, [0, 0], "q", RECORDS, |pool| pool.kill(1));
}

#[test]
fn a_home_that_is_drained_hands_its_queues_on_while_units_flow() {
    let (mut pool, program) = pool_of(3);
    program.create_queue("q", &form(BLOCKS), &copied(1, 2)).unwrap();
    flows_through(&mut pool, [0, 1], "q", BLOCKS, |_| {
        program.drain(NodeId(1), &DrainWish::Begin { to: BTreeSet::new() }).unwrap();
        until("the node holds nothing", || program.drain(NodeId(1), &DrainWish::Look).unwrap().left == 0);
    });
    assert_ne!(home_of(&program, "q"), 1);
    flows_through(&mut pool, [0, 2], "q", BLOCKS, |pool| pool.kill(1));
}

#[test]
fn a_queue_in_use_goes_on_without_copies_and_gets_them_when_its_programs_have_left() {
    let (mut pool, program) = pool_of(3);
    program.create_queue("q", &form(RECORDS), &copied(1, 2)).unwrap();
    let set_copies = |copies| program.alter("q", &Changes { copies: Some(copies), ..Changes::default() }).unwrap();
    flows_through(&mut pool, [0, 1], "q", RECORDS, |_| {
        set_copies(1);
        // Its order of writes ends some seconds later: then a program of the home's host could map it.
        until("it has no copies", || program.stat("q").unwrap().nodes.len() == 1);
        std::thread::sleep(Duration::from_secs(5));
    });
    set_copies(2);
    until("another node has a copy", || program.stat("q").unwrap().whole_copies == 2);
    let home = home_of(&program, "q");
    flows_through(&mut pool, [0, 3 - home], "q", RECORDS, |pool| pool.kill(home));
}

#[test]
fn a_home_that_stands_still_gives_no_unit_that_the_next_one_gives() {
    let (mut pool, program) = pool_of(3);
    program.create_queue("q", &form(BLOCKS), &copied(1, 2)).unwrap();
    flows_through(&mut pool, [0, 2], "q", BLOCKS, |pool| pool.stop(1));
    pool.go_on(1);
    flows_through(&mut pool, [0, 2], "q", BLOCKS, |_| {});
}

#[test]
fn who_sleeps_at_a_set_s_descriptor_hears_of_a_unit_at_the_home_that_follows_a_silent_one() {
    let (pool, program) = pool_of(3);
    let queues = program.create_queues("many", 2, &form(BLOCKS), &copied(1, 2)).unwrap();
    let mut set = queues.set().unwrap();
    let event = set.event().unwrap();
    let writes = pool.client(2);
    let mut port = writes.open_queues("many", 0).unwrap().queue(1).unwrap().writer().unwrap();
    set.arm().unwrap();
    pool.stop(1);
    port.send(&unit(BLOCKS, 0, 0)).unwrap();
    // A program with an event loop: it looks when the descriptor is readable, and at no other time.
    let unread = loop {
        let bound = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&event, PollFlags::IN)], Some(&bound)), Ok(1), "it hears of the unit");
        if let Some(unread) = set.try_see().unwrap() {
            break unread;
        }
        set.arm().unwrap();
    };
    let mut bytes = vec![0; unread.len()];
    set.read(&unread, 0, &mut bytes);
    assert_eq!(bytes, unit(BLOCKS, 0, 0));
    set.free(&unread).unwrap();
    port.close().unwrap();
    set.close().unwrap();
    pool.go_on(1);
}

#[test]
fn a_set_goes_on_with_all_queues_of_an_array_whose_home_is_killed() {
    const COUNT: u64 = 50;
    let (mut pool, program) = pool_of(3);
    let queues = program.create_queues("many", COUNT, &form(BLOCKS), &copied(1, 2)).unwrap();
    let mut set = queues.set().unwrap();
    let writes = pool.client(2);
    let far = writes.open_queues("many", 0).unwrap();
    let mut ports: Vec<WritePort> = (0..COUNT).map(|queue| far.queue(queue).unwrap().writer().unwrap()).collect();
    let mut next = vec![0; COUNT as usize];
    let mut read = |set: &mut QueueSet, count: u64| {
        for _ in 0..count {
            let unread = set.see(SOON).unwrap();
            let mut bytes = vec![0; unread.len()];
            set.read(&unread, 0, &mut bytes);
            let queue = unread.queue() as usize;
            assert_eq!(bytes, unit(BLOCKS, queue as u64, next[queue]), "in order, and once");
            next[queue] += 1;
            set.free(&unread).unwrap();
        }
        assert!(set.try_see().unwrap().is_none());
    };
    for number in 0..3 {
        ports.iter_mut().zip(0..).for_each(|(port, queue)| port.send(&unit(BLOCKS, queue, number)).unwrap());
        if number == 1 {
            pool.kill(1);
        }
        read(&mut set, COUNT);
    }
    ports.into_iter().for_each(|port| port.close().unwrap());
    set.close().unwrap();
}

#[test]
fn a_writer_that_ends_with_its_home_is_told_of_and_one_that_is_idle_goes_on() {
    let (mut pool, program) = pool_of(3);
    let queue = program.create_queue("q", &form(BLOCKS), &copied(1, 2)).unwrap();
    let (dies, lives) = (pool.client(1), pool.client(2));
    let mut dying = dies.open_queue("q").unwrap().writer().unwrap();
    let mut idle = lives.open_queue("q").unwrap().writer().unwrap();
    dying.send(&unit(BLOCKS, 0, 0)).unwrap();
    idle.send(&unit(BLOCKS, 1, 0)).unwrap();
    let mut reader = queue.reader().unwrap();
    pool.kill(1);
    let (mut got, mut bytes) = (0, Vec::new());
    let gone = loop {
        match reader.receive(&mut bytes, SOON) {
            Ok(()) => got += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(gone, Error::WriterGone { lane, .. } if lane == dying.lane()) && got == 2, "{gone} after {got} units");
    // The other one is asked for again and again, and lives.
    assert!(matches!(reader.receive(&mut bytes, Some(Duration::from_secs(3))), Err(Error::NotInTime { .. })));
    idle.send(&unit(BLOCKS, 1, 1)).unwrap();
    reader.receive(&mut bytes, SOON).unwrap();
    assert_eq!(bytes, unit(BLOCKS, 1, 1));
    idle.close().unwrap();
    drop(dying);
}

#[test]
fn a_reader_that_ends_leaves_what_it_has_not_freed_to_its_successor_at_the_next_home() {
    let (mut pool, program) = pool_of(3);
    let queue = program.create_queue("q", &form(BLOCKS), &copied(1, 2)).unwrap();
    let mut writer = queue.writer().unwrap();
    (0..4).for_each(|number| writer.send(&unit(BLOCKS, 0, number)).unwrap());
    let first = pool.client(2);
    let mut reader = first.open_queue("q").unwrap().reader().unwrap();
    let mut bytes = Vec::new();
    reader.receive(&mut bytes, SOON).unwrap();
    assert!(matches!(queue.reader(), Err(Error::SecondReader { .. })));
    reader.close().unwrap();
    pool.kill(1);
    let mut reader = queue.reader().unwrap();
    for number in 1..4 {
        reader.receive(&mut bytes, SOON).unwrap();
        assert_eq!(bytes, unit(BLOCKS, 0, number));
    }
    assert!(reader.try_see().unwrap().is_none());
}

#[test]
fn a_queue_gets_its_first_copies_while_nobody_uses_it() {
    let (mut pool, program) = pool_of(3);
    let queue = program.create_queue("q", &form(BLOCKS), &copied(1, 1)).unwrap();
    let near = pool.client(1);
    let mut writer = near.open_queue("q").unwrap().writer().unwrap();
    (0..3).for_each(|number| writer.send(&unit(BLOCKS, 0, number)).unwrap());
    writer.close().unwrap();
    drop(near);
    program.alter("q", &Changes { copies: Some(2), ..Changes::default() }).unwrap();
    until("another node has a copy", || program.stat("q").unwrap().whole_copies == 2);
    pool.kill(1);
    let (mut reader, mut bytes) = (queue.reader().unwrap(), Vec::new());
    for number in 0..3 {
        reader.receive(&mut bytes, SOON).unwrap();
        assert_eq!(bytes, unit(BLOCKS, 0, number));
    }
    let mut writer = queue.writer().unwrap();
    writer.send(&unit(BLOCKS, 0, 3)).unwrap();
    reader.receive(&mut bytes, SOON).unwrap();
    assert_eq!(bytes, unit(BLOCKS, 0, 3));
}
