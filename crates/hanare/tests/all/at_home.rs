//! Commands on regions that other programs map coherently: the home has their pages brought to it, does them there, and lets go.

use crate::processes;
use crate::support;

use hanare::{
    Consistency, CreateOptions, Element, Error, Modify, NodeId, Operator, Placement, Pool, Range, Region, SharedMapping, Strided,
    Value,
};
use processes::{Nodes, Process};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use support::{Ends, TestPool, on, pattern};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

fn spread() -> CreateOptions {
    CreateOptions { placement: Placement::Interleave(PAGE), ..CreateOptions::default() }
}

fn map(client: &Pool, name: &str) -> SharedMapping {
    client.open(name).unwrap().map(Consistency::Coherent).unwrap()
}

fn get_word(region: &Region, at: u64) -> u64 {
    let mut word = [0; 8];
    region.get(at, &mut word).unwrap();
    u64::from_le_bytes(word)
}

/// Messages and bytes that `what` sent and received.
fn cost(pool: &Pool, what: impl FnOnce()) -> (u64, u64) {
    let before = pool.traffic();
    what();
    let after = pool.traffic();
    let bytes = after.bytes_sent + after.bytes_received - before.bytes_sent - before.bytes_received;
    (after.messages_sent - before.messages_sent, bytes)
}

/// Pages that were taken from a host, for a home or another host.
fn taken(pool: &Pool, name: &str) -> u64 {
    let stats = pool.page_stats().unwrap();
    stats.iter().filter(|stat| stat.name == name).map(|stat| stat.recalled + stat.forwarded).sum()
}

// FEATURE: EU-F17
#[test]
fn a_command_sees_the_newest_bytes_of_a_third_node_and_a_put_is_seen_by_all() {
    let pool = TestPool::start(3, 16 * MIB);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    clients[0].create("r", 64 * PAGE, &on(1)).unwrap();
    let (at_home, owner) = (map(&clients[1], "r"), map(&clients[2], "r"));
    let region = clients[0].open("r").unwrap();
    for round in 1..=50u64 {
        for page in [0, 7, 63] {
            let at = page * PAGE + 8 * (round % 16);
            owner.word(at).unwrap().store(round, SeqCst);
            assert_eq!(get_word(&region, at), round, "the owner's host has the newest bytes");
            region.put(at, &(round + 1000).to_le_bytes()).unwrap();
            for mapping in [&owner, &at_home] {
                assert_eq!(mapping.word(at).unwrap().load(SeqCst), round + 1000, "a load after the put");
            }
            assert_eq!(owner.word(at).unwrap().fetch_add(1, SeqCst), round + 1000);
            assert_eq!(region.fetch_word(at, Operator::Add, 5).unwrap(), round + 1001);
            assert_eq!(at_home.word(at).unwrap().fetch_add(1, SeqCst), round + 1006);
            assert_eq!(region.compare_and_swap_word(at, round + 1007, 3).unwrap(), round + 1007);
            assert_eq!(owner.word(at).unwrap().load(SeqCst), 3);
        }
    }
}

#[test]
fn long_commands_go_through_a_stage_at_a_time() {
    let pool = TestPool::start(3, 80 * MIB);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    let len = 12 * MIB + 104;
    for (name, options) in [("one", on(1)), ("all", spread())] {
        clients[0].create(name, len, &options).unwrap();
        let mapping = map(&clients[2], name);
        let region = clients[0].open(name).unwrap();
        let (bytes, mut seen) = (pattern(len as usize, 3), vec![0; len as usize]);
        mapping.write(0, &pattern(len as usize, 4)).unwrap();
        region.put(0, &bytes).unwrap();
        mapping.read(0, &mut seen).unwrap();
        assert!(seen == bytes, "{name}: loads after a put");
        let bytes = pattern(len as usize, 5);
        mapping.write(0, &bytes).unwrap();
        seen.fill(0);
        region.get(0, &mut seen).unwrap();
        assert!(seen == bytes, "{name}: a get after stores");
        mapping.write(MIB, &[1]).unwrap();
        let first = (bytes[MIB as usize] != 1).then_some(MIB);
        assert_eq!(region.compare(Strided::contiguous(0, len), &bytes).unwrap(), first);
        let every_page = Strided { offset: 24, block: 8, count: len / PAGE, stride: PAGE };
        let modify = Modify { operator: Operator::Add, element: Element::U64 };
        let mut olds = vec![0; every_page.count as usize * 8];
        region.fetch(every_page, modify, &1u64.to_le_bytes(), &mut olds).unwrap();
        for (page, old) in olds.chunks(8).enumerate() {
            let word = mapping.word(24 + page as u64 * PAGE).unwrap().load(SeqCst);
            assert_eq!(word, u64::from_le_bytes(old.try_into().unwrap()).wrapping_add(1), "{name}: page {page}");
        }
    }
}

#[test]
fn a_reduction_brings_each_page_home_once_and_moves_only_results() {
    let pool = TestPool::start(3, 32 * MIB);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    let pages = 600;
    clients[0].create("table", pages * PAGE, &on(1)).unwrap();
    let mapping = map(&clients[2], "table");
    let values: Vec<u8> = (0..pages * 512).flat_map(|k| (k as i64 - 1000).to_le_bytes()).collect();
    mapping.write(0, &values).unwrap();
    let table = clients[0].open("table").unwrap();
    let whole = Strided::contiguous(0, pages * PAGE);
    let count = pages as i128 * 512;
    let sum = Value::Whole(count * (count - 1) / 2 - 1000 * count);
    for scan in 0..3 {
        let (before, mut found) = (taken(&clients[2], "table"), None);
        let (messages, bytes) =
            cost(&clients[0], || found = Some(table.reduce(whole, Element::I64, Range::all(Element::I64)).unwrap()));
        assert_eq!(found.unwrap().sum(), sum);
        assert!(messages == 1 && bytes < 1024, "{messages} messages, {bytes} bytes");
        let recalled = taken(&clients[2], "table") - before;
        assert_eq!(
            recalled,
            if scan == 0 { pages } else { 0 },
            "scan {scan}: what is at home stays there, and readers keep their copies"
        );
    }
    let faults = mapping.counts().fetches;
    let mut seen = vec![0; values.len()];
    mapping.read(0, &mut seen).unwrap();
    assert!(seen == values);
    assert_eq!(mapping.counts().fetches, faults, "the program has kept its copies");
}

#[test]
fn messages_on_what_others_map_are_as_many_as_on_what_nobody_maps() {
    let pool = TestPool::start(3, 32 * MIB);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    clients[0].create("r", 3 * MIB, &spread()).unwrap();
    let mut mappings = Vec::new();
    let bytes = pattern(MIB as usize, 1);
    let mut back = vec![0; MIB as usize];
    for is_mapped in [false, true] {
        if is_mapped {
            mappings.extend([1, 2].map(|node| map(&clients[node], "r")));
            mappings[0].write(0, &vec![1; 3 * MIB as usize]).unwrap();
        }
        // From this host to its own node, too, where that memory is not mapped.
        let nodes = if is_mapped { 3 } else { 2 };
        let region = &clients[0].open("r").unwrap();
        assert_eq!(cost(&clients[0], || region.put(0, &bytes).unwrap()).0, nodes, "a put");
        assert_eq!(cost(&clients[0], || region.get(0, &mut back).unwrap()).0, nodes, "a get");
        assert!(back == bytes);
        let batch = || {
            clients[0]
                .batch(|batch| {
                    batch.put(region, PAGE, &bytes[..PAGE as usize])?;
                    batch.fill(region, Strided::contiguous(0, 30 * PAGE), &[7])
                })
                .unwrap();
        };
        assert_eq!(cost(&clients[0], batch).0, nodes, "a batch");
    }
}

#[test]
fn copies_both_ways_between_pages_that_others_store_to_end() {
    let pool = TestPool::start(3, 32 * MIB);
    let clients: Vec<Pool> = (0..3).map(|node| pool.client(node)).collect();
    clients[0].create("a", 300 * PAGE, &on(0)).unwrap();
    clients[0].create("b", 300 * PAGE, &on(1)).unwrap();
    let mappings = ["a", "b"].map(|name| map(&clients[2], name));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = Ends(&is_over);
        for mapping in &mappings {
            let is_over = &is_over;
            scope.spawn(move || {
                for k in 0.. {
                    mapping.word(k * 37 % 300 * PAGE).unwrap().fetch_add(1, SeqCst);
                    if is_over.load(SeqCst) {
                        return;
                    }
                }
            });
        }
        let copies = [("a", "b", 0), ("b", "a", 0), ("a", "b", 1), ("b", "a", 1)].map(|(from, to, node)| {
            let client = &clients[node];
            scope.spawn(move || {
                let (from, to) = (client.open(from).unwrap(), client.open(to).unwrap());
                for _ in 0..10 {
                    let (down, up) = (Strided::contiguous(8, 299 * PAGE), Strided::contiguous(PAGE, 299 * PAGE));
                    client.copy(&from, down, &to, up)?;
                }
                Ok::<(), Error>(())
            })
        });
        let ends = copies.map(|copies| copies.join().unwrap());
        drop(end);
        ends.into_iter().for_each(|end| end.unwrap());
    });
}

/// Pages of a region on node 1, all of which a program on node 2 owns; and a handle on node 0.
fn owned_elsewhere(nodes: &Nodes) -> (Region, Process) {
    let client = Pool::attach_to(&nodes.sockets[0], None).unwrap();
    let region = client.create("r", 16 * PAGE, &on(1)).unwrap();
    let (program, _) = Process::start("at_home::owns_all_pages", &[("TEST_SOCKET", &nodes.sockets[2])]);
    (region, program)
}

pub fn owns_all_pages() {
    let Ok(socket) = std::env::var("TEST_SOCKET") else { return };
    processes::end_with_the_test();
    let pool = Pool::attach_to(&socket, None).unwrap();
    let mapping = map(&pool, "r");
    (0..16).for_each(|page| mapping.word(page * PAGE).unwrap().store(page + 1, SeqCst));
    processes::say_ready("");
    loop {
        std::thread::park();
    }
}

#[test]
fn what_went_with_a_killed_owner_is_page_lost_within_the_bound() {
    let mut nodes = Nodes::start(3, None);
    let (region, _program) = owned_elsewhere(&nodes);
    assert_eq!(get_word(&region, 0), 1);
    nodes.processes.remove(2).kill();
    let begun = Instant::now();
    let mut bytes = vec![0; 16 * PAGE as usize];
    for at in [PAGE, 15 * PAGE] {
        let error = region.get(at, &mut bytes[..8]).unwrap_err();
        assert!(matches!(error, Error::PageLost { offset, home: NodeId(1), .. } if offset == at), "{error}");
    }
    let error = region.put(PAGE + 8, &[1; 8]).unwrap_err();
    assert!(matches!(error, Error::PageLost { offset: PAGE, .. }), "{error}");
    let error = region.get(0, &mut bytes).unwrap_err();
    assert!(matches!(error, Error::PageLost { .. }), "{error}");
    let reduced = region.reduce(Strided::contiguous(0, 16 * PAGE), Element::U64, Range::all(Element::U64));
    assert!(matches!(reduced, Err(Error::PageLost { .. })), "{reduced:?}");
    let waited = region.wait_until(PAGE, hanare::Wait::Equal(hanare::Word::U64(9)), Some(Duration::from_secs(60)));
    assert!(matches!(waited, Err(Error::PageLost { .. })), "{waited:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(get_word(&region, 0), 1, "what was at home is there");
}

#[test]
fn a_stopped_owner_is_waited_for() {
    let nodes = Nodes::start(3, None);
    let (region, _program) = owned_elsewhere(&nodes);
    let owner = &nodes.processes[2];
    owner.stop();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(1300));
            owner.go_on();
        });
        assert_eq!(get_word(&region, 3 * PAGE), 4, "it went on before it was taken for lost");
    });
}

pub fn names_a_silent_owner() {
    if std::env::var("HANARE_ANSWER_MS").is_err() {
        return;
    }
    let nodes = Nodes::start(3, None);
    let (region, _program) = owned_elsewhere(&nodes);
    nodes.processes[2].stop();
    let error = region.fetch_word(3 * PAGE, Operator::Add, 1).unwrap_err();
    nodes.processes[2].go_on();
    assert!(matches!(&error, Error::Timeout { peer, .. } if peer == "node 2"), "{error}");
    assert_eq!(error.happened(), hanare::Happened::Unknown);
    assert_eq!(region.fetch_word(3 * PAGE, Operator::Add, 1).unwrap(), 4, "what was not done is not done later");
    processes::say_ready("");
}

#[test]
fn an_owner_that_is_silent_beyond_the_bound_is_named() {
    Process::start("at_home::names_a_silent_owner", &[("HANARE_ANSWER_MS", "1000")]);
}

pub fn puts_without_an_end() {
    let Ok(socket) = std::env::var("TEST_SOCKET") else { return };
    processes::end_with_the_test();
    let pool = Pool::attach_to(&socket, None).unwrap();
    let region = pool.open("r").unwrap();
    processes::say_ready("");
    let bytes = vec![9; 16 * PAGE as usize];
    loop {
        region.put(0, &bytes).unwrap();
    }
}

#[test]
fn a_program_that_dies_in_the_middle_holds_no_page() {
    let pool = TestPool::start(3, 16 * MIB);
    let client = pool.client(2);
    client.create("r", 16 * PAGE, &on(1)).unwrap();
    let mapping = map(&client, "r");
    for round in 0..10u64 {
        let (program, _) = Process::start("at_home::puts_without_an_end", &[("TEST_SOCKET", pool.nodes[0].socket())]);
        let count = AtomicU64::new(0);
        let until = Instant::now() + Duration::from_millis(20 + 7 * round);
        while Instant::now() < until {
            mapping.word(count.fetch_add(1, SeqCst) % 16 * PAGE).unwrap().fetch_add(1, SeqCst);
        }
        program.kill();
        // All pages can be had, and stay what they are.
        (0..16).for_each(|page| mapping.word(page * PAGE + 8).unwrap().store(round, SeqCst));
        std::thread::sleep(Duration::from_millis(20));
        (0..16).for_each(|page| assert_eq!(mapping.word(page * PAGE + 8).unwrap().load(SeqCst), round));
        assert_eq!(get_word(&pool.client(0).open("r").unwrap(), 8), round);
    }
}
