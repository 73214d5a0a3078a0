//! Regions with copies: commands of all kinds, and homes and copies that are killed or stand still under them.

use crate::apart::{Apart, until};
use crate::intruder::Intruder;
use crate::raw_link::{BOUND, Raw};
use crate::support::{self, Ends, TestPool, pattern};
use hanare::{
    Changes, CreateOptions, DrainWish, Element, Error, Indexed, Indices, Modify, Operator, Overflow, Placement, Pool, QueueForm,
    Range, Region, Shape, Strided, Unit, Value, Wait, Word,
};
use hanare_protocol::id::{NodeId, Rights};
use hanare_protocol::wire::command::{COMMAND_LEN, Command, Op};
use hanare_protocol::wire::control::{self, WhyStays};
use hanare_protocol::wire::head::{Head, Kind};
use std::collections::BTreeSet;
use std::io::Write;
use std::slice::from_ref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LEN: u64 = 3 << 20;
pub(crate) const ADD: Modify = Modify { operator: Operator::Add, element: Element::U64 };

pub(crate) fn copied(node: u32, copies: u8) -> CreateOptions {
    CreateOptions { placement: Placement::Node(NodeId(node)), copies, ..CreateOptions::default() }
}

#[track_caller]
fn assert_same(one: &Region, other: &Region) {
    let (mut a, mut b) = (vec![0; LEN as usize], vec![1; LEN as usize]);
    one.get(0, &mut a).unwrap();
    other.get(0, &mut b).unwrap();
    assert!(a == b, "first difference at {:?}", a.iter().zip(&b).position(|(a, b)| a != b));
}

/// Commands of each kind on a region. Their results are put together.
fn commands(pool: &Pool, region: &Region, scratch: &Region, far: &Region) -> Vec<u8> {
    let mut told = Vec::new();
    region.put(5, &pattern(1 << 20, 1)).unwrap();
    region.put(LEN - 1, &[7]).unwrap();
    let rows = Strided { offset: 64, block: 24, count: 3000, stride: 200 };
    region.put_shape(rows, &pattern(24 * 3000, 2)).unwrap();
    region.put_shape(Strided { offset: 7, block: 1, count: 100_000, stride: 3 }, &pattern(100_000, 7)).unwrap();
    region.fill(Strided::contiguous(1 << 20, 700_002), b"abc").unwrap();
    let words = Strided { offset: 2 << 20, block: 8, count: 20_000, stride: 16 };
    region.update(words, ADD, &5u64.to_le_bytes()).unwrap();
    let mut olds = vec![0; 8 * 20_000];
    region.fetch(words, ADD, &3u64.to_le_bytes(), &mut olds).unwrap();
    told.append(&mut olds);
    let mut old = [0; 8];
    region
        .compare_and_swap(Strided::contiguous(2 << 20, 8), Element::U64, &8u64.to_le_bytes(), &77u64.to_le_bytes(), &mut old)
        .unwrap();
    told.extend(old);
    scratch.put(0, &pattern(500_000, 3)).unwrap();
    pool.copy(scratch, Shape::contiguous(0, 500_000), region, Shape::contiguous(1_234_567, 500_000)).unwrap();
    pool.copy(region, Shape::contiguous(0, 300_000), region, Shape::contiguous(2_500_000, 300_000)).unwrap();
    pool.copy(far, rows, region, Strided { offset: 3, block: 24, count: 3000, stride: 100 }).unwrap();
    pool.copy(far, Shape::contiguous(0, 700_000), region, Shape::contiguous(2_000_000, 700_000)).unwrap();
    let (from, to) =
        (Strided { offset: 0, block: 1, count: 200_000, stride: 3 }, Strided { offset: 1, block: 1, count: 200_000, stride: 2 });
    pool.copy(far, from, region, to).unwrap();
    region.fill(Strided { offset: 500_000, block: 1, count: 250_000, stride: 2 }, &pattern(100_000, 6)[..50_000]).unwrap();
    let (mut head, tail) = (vec![0; 1000], pattern(5000, 4));
    pool.batch(|batch| {
        batch.put(region, 900_000, &tail)?;
        batch.put(region, 910_000, &tail)?;
        batch.get(region, 1_300_000, &mut head)
    })
    .unwrap();
    told.append(&mut head);
    told
}

#[test]
fn each_command_does_what_it_does_without_copies() {
    let pool = TestPool::start(3, 64 << 20);
    for (at, home) in [(0, 0), (0, 1), (2, 1)] {
        let program = pool.client(at);
        let plain = program.create("plain", LEN, &copied(home, 1)).unwrap();
        let region = program.create("copied", LEN, &copied(home, 2)).unwrap();
        let scratch = program.create("scratch", LEN, &copied(home, 1)).unwrap();
        let far = program.create("far", LEN, &copied(2, 1)).unwrap();
        far.put(0, &pattern(LEN as usize, 9)).unwrap();
        let [told, same] = [&plain, &region].map(|region| commands(&program, region, &scratch, &far));
        assert!(told == same, "{at} {home}");
        assert_same(&plain, &region);
        ["plain", "copied", "scratch", "far"].iter().for_each(|name| program.remove(name).unwrap());
    }
}

#[test]
fn three_nodes_hold_each_byte_where_three_are_asked_for() {
    let pool = TestPool::start(3, 64 << 20);
    let program = pool.client(0);
    let options = CreateOptions { placement: Placement::Interleave(65536), copies: 3, ..CreateOptions::default() };
    let region = program.create("all", LEN, &options).unwrap();
    region.put(0, &pattern(LEN as usize, 8)).unwrap();
    let stat = program.stat("all").unwrap();
    assert_eq!((stat.copies, stat.whole_copies), (3, 3));
    assert_eq!(stat.nodes.iter().map(|(_, len)| *len).collect::<Vec<_>>(), [LEN; 3]);
    let mut bytes = vec![0; LEN as usize];
    pool.client(2).open("all").unwrap().get(0, &mut bytes).unwrap();
    assert!(bytes == pattern(LEN as usize, 8));
}

#[test]
fn what_copies_do_not_have_yet_is_refused() {
    let pool = TestPool::start(2, 64 << 20);
    let program = pool.client(0);
    let refused = program.create("three", LEN, &copied(0, 3)).unwrap_err();
    assert!(refused.to_string().contains("the pool has 2"), "{refused}");
    let region = program.create("copied", LEN, &copied(0, 2)).unwrap();
    assert!(matches!(region.map_local(), Err(Error::BadUse { .. })));
    let form = QueueForm { unit: Unit::Blocks { len: 64 }, depth: 4, ports: 1, overflow: Overflow::Spill };
    let queue = program.create_queue("queue", &form, &copied(0, 2));
    assert!(matches!(queue, Err(Error::BadUse { .. })), "{queue:?}");
    assert!(matches!(region.make_queues(0, 1, &form), Err(Error::BadUse { .. })));
}

/// A program that counts in a word while the pool's nodes come and go: no answered count is lost, no error comes.
#[derive(Default)]
struct Counting {
    stop: AtomicBool,
    answered: AtomicU64,
}

/// Puts numbers into a region, each higher than the last, and reads them back, until it is told to stop. Beside that it adds to a word and swaps
/// another: each counts once, and has the value before.
fn count(program: &Pool, region: &Region, counting: &Counting) {
    let (mut word, mut added, mut swapped) = ([0; 8], None, load(region, 24));
    while !counting.stop.load(Ordering::Relaxed) {
        // Nodes need the processor, too.
        std::thread::sleep(Duration::from_micros(200));
        let next = counting.answered.load(Ordering::Relaxed) + 1;
        region.put(8, &next.to_le_bytes()).unwrap();
        counting.answered.store(next, Ordering::Relaxed);
        region.get(8, &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), next);
        region.fetch(Strided::contiguous(16, 8), ADD, &1u64.to_le_bytes(), &mut word).unwrap();
        let before = u64::from_le_bytes(word);
        assert!(added.is_none_or(|added| before == added + 1), "{before} after {added:?}");
        added = Some(before);
        let new = swapped + 3;
        let (expected, new) = (swapped.to_le_bytes(), new.to_le_bytes());
        region.compare_and_swap(Strided::contiguous(24, 8), Element::U64, &expected, &new, &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), swapped);
        swapped += 3;
        count_started(program, region, next);
    }
    assert_eq!((load(region, 16), load(region, 24)), (added.map_or(0, |added| added + 1), swapped));
}

/// The same by calls that are started and waited for, a batch, and a wait for a word.
fn count_started(program: &Pool, region: &Region, next: u64) {
    let bytes = next.to_le_bytes();
    let (added, swapped) = (load(region, 40), load(region, 48));
    let put = region.start_put(32, bytes.to_vec()).unwrap();
    let add = region.start_fetch(Strided::contiguous(40, 8), ADD, 1u64.to_le_bytes().to_vec()).unwrap();
    let swap = {
        // Started calls have copies of the two.
        let (expected, new) = (swapped.to_le_bytes().to_vec(), (swapped + 5).to_le_bytes().to_vec());
        region.start_compare_and_swap(Strided::contiguous(48, 8), Element::U64, &expected, &new).unwrap()
    };
    assert_eq!(put.wait().unwrap(), bytes);
    let seen = region.wait_until(32, Wait::AtLeast(Word::U64(next)), Some(Duration::from_secs(60))).unwrap();
    assert_eq!(seen, next);
    assert_eq!(add.wait().unwrap(), added.to_le_bytes());
    assert_eq!(swap.wait().unwrap(), swapped.to_le_bytes());
    let (mut read, mut sum) = ([0; 16], None);
    program
        .batch(|batch| {
            batch.put(region, 56, &bytes)?;
            batch.get(region, 40, &mut read)?;
            batch.reduce(region, Strided::contiguous(32, 8), Element::U64, Range::Whole(0, i128::MAX), &mut sum)
        })
        .unwrap();
    assert_eq!(read, *[(added + 1).to_le_bytes(), (swapped + 5).to_le_bytes()].as_flattened());
    assert_eq!((load(region, 56), sum.map(|sum| sum.count)), (next, Some(1)));
    count_several(program, region, next);
}

/// The same by calls with several updates of one extent, and by copies.
fn count_several(program: &Pool, region: &Region, next: u64) {
    let ([a, b, c], one) = ([load(region, 64), load(region, 72), load(region, 88)], 1u64.to_le_bytes());
    let (mut first, mut second) = ([0; 8], [0; 8]);
    program
        .batch(|batch| {
            batch.fetch(region, Strided::contiguous(64, 8), ADD, &one, &mut first)?;
            batch.put(region, 80, &one)?;
            batch.update(region, Strided::contiguous(88, 8), ADD, &one)?;
            batch.fetch(region, Strided::contiguous(72, 8), ADD, &one, &mut second)?;
            batch.update(region, Strided::contiguous(72, 8), ADD, &one)
        })
        .unwrap();
    let olds = [first, second].map(u64::from_le_bytes);
    // Commands of a batch are in no order.
    assert!(olds == [a, b] || olds == [a, b + 1], "{olds:?} after {a} and {b}");
    assert_eq!([load(region, 64), load(region, 72), load(region, 88)], [a + 1, b + 2, c + 1]);
    program.copy(region, Shape::contiguous(8, 8), region, Shape::contiguous(96, 8)).unwrap();
    assert_eq!(load(region, 96), next);
}

#[test]
fn lists_of_several_messages_count_once_across_a_change_of_homes() {
    const COUNT: u64 = 1_100_000;
    let mut pool = Apart::start(3);
    let program = pool.client(0);
    let region = program.create("a", LEN, &copied(1, 2)).unwrap();
    let list: Vec<u32> = (0..COUNT as u32).map(|k| k.wrapping_mul(7919) % (LEN as u32 / 8)).collect();
    let rounds = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let counter = scope.spawn(|| {
            while rounds.load(Ordering::Relaxed) < 4 {
                let shape = Indexed { offset: 0, block: 8, scale: 8, indices: Indices::Narrow((&list).into()) };
                region.update(shape, ADD, &1u64.to_le_bytes()).unwrap();
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        until("a list is done", || rounds.load(Ordering::Relaxed) > 0 || counter.is_finished());
        pool.kill(1);
        counter.join().unwrap();
    });
    let sum = region.reduce(Strided::contiguous(0, LEN), Element::U64, Range::Whole(0, i128::MAX)).unwrap();
    assert_eq!(sum.sum(), Value::Whole(i128::from(4 * COUNT)), "{sum:?}");
}

fn load(region: &Region, at: u64) -> u64 {
    let mut word = [0; 8];
    region.get(at, &mut word).unwrap();
    u64::from_le_bytes(word)
}

/// Counts while `fault` happens, and until counting has gone on after it.
pub(crate) fn counts_through(pool: &mut Apart, program: &Pool, region: &Region, fault: impl FnOnce(&mut Apart)) {
    all_count_through(from_ref(program), from_ref(region), |goes_on| {
        goes_on();
        fault(pool);
        goes_on();
    });
}

/// Each program counts in its region during `faults`, which get a way to wait until all have gone on.
pub(crate) fn all_count_through(programs: &[Pool], regions: &[Region], faults: impl FnOnce(&dyn Fn())) {
    let counts: Vec<Counting> = regions.iter().map(|_| Counting::default()).collect();
    std::thread::scope(|scope| {
        let all = programs.iter().zip(regions).zip(&counts);
        let counters: Vec<_> =
            all.map(|((program, region), counting)| scope.spawn(move || count(program, region, counting))).collect();
        let ends: Vec<_> = counts.iter().map(|counting| Ends(&counting.stop)).collect();
        faults(&|| {
            let before: Vec<u64> = counts.iter().map(|counting| counting.answered.load(Ordering::Relaxed)).collect();
            let goes_on = |k: usize| counts[k].answered.load(Ordering::Relaxed) > before[k] + 20 || counters[k].is_finished();
            until("all programs go on", || (0..regions.len()).all(goes_on));
        });
        drop(ends);
        counters.into_iter().for_each(|counter| counter.join().unwrap());
    });
}

#[test]
fn a_killed_home_costs_no_answered_byte_and_no_error() {
    let mut pool = Apart::start(3);
    let program = pool.client(0);
    let region = program.create("a", LEN, &copied(1, 2)).unwrap();
    let bytes = pattern(1 << 20, 5);
    region.put(1 << 20, &bytes).unwrap();
    counts_through(&mut pool, &program, &region, |pool| pool.kill(1));
    let mut read = vec![0; bytes.len()];
    region.get(1 << 20, &mut read).unwrap();
    assert!(read == bytes);
    let stat = program.stat("a").unwrap();
    assert!(stat.nodes.iter().all(|(node, _)| node.0 != 1) && stat.lost.is_none(), "{stat:?}");
}

#[test]
fn a_home_that_stands_still_is_replaced_and_comes_back_as_nothing() {
    let mut pool = Apart::start(3);
    let program = pool.client(0);
    let region = program.create("a", LEN, &copied(1, 2)).unwrap();
    counts_through(&mut pool, &program, &region, |pool| pool.stop(1));
    pool.go_on(1);
    counts_through(&mut pool, &program, &region, |_| {});
    until("the node is back", || program.status().unwrap().nodes[1].alive);
    assert!(program.stat("a").unwrap().lost.is_none());
}

#[test]
fn a_wait_for_a_word_goes_on_at_the_next_home() {
    let pool = Apart::start(3);
    let (waiter, writer) = (pool.client(0), pool.client(2));
    let region = waiter.create("a", LEN, &copied(1, 2)).unwrap();
    std::thread::scope(|scope| {
        let wait = || region.wait_until(8, Wait::Equal(Word::U64(7)), Some(Duration::from_secs(60)));
        let waits = [scope.spawn(wait), scope.spawn(wait)];
        std::thread::sleep(Duration::from_millis(200));
        pool.stop(1);
        writer.open("a").unwrap().put(8, &7u64.to_le_bytes()).unwrap();
        waits.into_iter().for_each(|wait| assert_eq!(wait.join().unwrap(), Ok(7)));
    });
}

#[test]
fn a_program_goes_on_when_the_node_of_its_own_host_stood_still() {
    let mut pool = Apart::start(3);
    let program = pool.client(1);
    let region = program.create("a", LEN, &copied(1, 2)).unwrap();
    let others = pool.client(0);
    counts_through(&mut pool, &program, &region, |pool| {
        pool.stop(1);
        until("the node is taken for lost", || !others.status().unwrap().nodes[1].alive);
        // Longer than programs of other hosts wait for it.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        pool.go_on(1);
    });
}

#[test]
fn a_killed_copy_is_replaced_and_then_the_home_may_die() {
    let mut pool = Apart::start(4);
    let program = pool.client(0);
    // The node with most room gets the copy, and node 0 is the coordinator's.
    program.create("filler", LEN, &copied(0, 1)).unwrap();
    let region = program.create("a", LEN, &copied(1, 2)).unwrap();
    let bytes = pattern(LEN as usize - 128, 6);
    region.put(128, &bytes).unwrap();
    let copy = program.stat("a").unwrap().nodes.iter().map(|(node, _)| node.0).find(|node| *node != 1).unwrap();
    assert_ne!(copy, 0);
    counts_through(&mut pool, &program, &region, |pool| pool.kill(copy as usize));
    until("another node has a copy", || {
        let stat = program.stat("a").unwrap();
        stat.whole_copies == 2 && stat.nodes.iter().all(|(node, _)| node.0 != copy)
    });
    counts_through(&mut pool, &program, &region, |pool| pool.kill(1));
    let mut read = vec![0; bytes.len()];
    region.get(128, &mut read).unwrap();
    assert!(read == bytes);
}

#[test]
fn nodes_that_come_and_go_cost_nothing_while_one_copy_is_left() {
    let mut pool = Apart::start(4);
    let program = pool.client(0);
    let regions: Vec<Region> = (0..4)
        .map(|k| {
            let copies = if k == 3 { 3 } else { 2 };
            program.create(&format!("r{k}"), LEN, &copied(1 + k % 3, copies)).unwrap()
        })
        .collect();
    let counts: Vec<Counting> = regions.iter().map(|_| Counting::default()).collect();
    std::thread::scope(|scope| {
        let counters: Vec<_> =
            regions.iter().zip(&counts).map(|(region, counting)| scope.spawn(|| count(&program, region, counting))).collect();
        let ends: Vec<_> = counts.iter().map(|counting| Ends(&counting.stop)).collect();
        let whole = || {
            until("each region has its copies", || {
                let has_all = |k: usize| program.stat(&format!("r{k}")).is_ok_and(|stat| stat.whole_copies == stat.copies);
                (0..regions.len()).all(has_all) || counters.iter().any(|counter| counter.is_finished())
            });
        };
        for (round, node) in [1, 2, 3, 1].into_iter().enumerate() {
            whole();
            match round % 2 {
                0 => {
                    pool.kill(node);
                    pool.start_again(node);
                }
                _ => {
                    pool.stop(node);
                    until("the node is taken for lost", || !program.status().unwrap().nodes[node].alive);
                    pool.go_on(node);
                }
            }
            let before: Vec<u64> = counts.iter().map(|counting| counting.answered.load(Ordering::Relaxed)).collect();
            let goes_on = |k: usize| counts[k].answered.load(Ordering::Relaxed) > before[k] + 20 || counters[k].is_finished();
            until("all programs go on", || (0..regions.len()).all(goes_on));
        }
        whole();
        drop(ends);
        counters.into_iter().for_each(|counter| counter.join().unwrap());
    });
}

#[test]
fn a_live_region_gets_more_copies_and_fewer() {
    let mut pool = Apart::start(3);
    let program = pool.client(0);
    let region = program.create("a", LEN, &copied(1, 2)).unwrap();
    let bytes = pattern(1 << 20, 5);
    region.put(1 << 20, &bytes).unwrap();
    let set = |copies: u8| {
        program.alter("a", &Changes { copies: Some(copies), ..Changes::default() }).unwrap();
        until("it has as many", || program.stat("a").is_ok_and(|stat| stat.whole_copies == copies));
    };
    counts_through(&mut pool, &program, &region, |_| [3, 2, 1, 3].into_iter().for_each(set));
    let stat = program.stat("a").unwrap();
    assert_eq!(stat.nodes, [0, 1, 2].map(|node| (NodeId(node), LEN)));
    // Two of three holders go, one after the other.
    for node in [1, 2] {
        counts_through(&mut pool, &program, &region, |pool| pool.kill(node));
    }
    let mut read = vec![0; bytes.len()];
    region.get(1 << 20, &mut read).unwrap();
    assert!(read == bytes);
}

#[test]
fn a_coordinator_that_begins_again_finds_homes_and_copies() {
    let mut pool = Apart::start_kept(3);
    let program = pool.client(1);
    // One with its home at the coordinator's node, one with a copy there, and one without it.
    let regions = [(0, 2), (1, 3), (2, 2)].map(|(home, copies)| {
        let region = program.create(&format!("r{home}"), LEN, &copied(home, copies)).unwrap();
        region.put(0, &pattern(LEN as usize, home.into())).unwrap();
        region
    });
    pool.kill(0);
    pool.start_again(0);
    for (home, region) in regions.iter().enumerate() {
        let mut bytes = vec![0; LEN as usize];
        region.get(0, &mut bytes).unwrap();
        assert!(bytes == pattern(LEN as usize, home as u64), "r{home}");
        region.put(5, &[1, 2, 3]).unwrap();
    }
    until("each region has its copies again", || {
        (0..3).all(|k| program.stat(&format!("r{k}")).is_ok_and(|stat| stat.whole_copies == stat.copies))
    });
}

/// Waits until a node that is drained holds nothing.
pub(crate) fn drained(program: &Pool, node: u32) {
    let begun = program.drain(NodeId(node), &DrainWish::Begin { to: BTreeSet::new() }).unwrap();
    assert!(begun.left > 0 && begun.stays.is_empty(), "{begun:?}");
    until("the node holds nothing", || program.drain(NodeId(node), &DrainWish::Look).unwrap().left == 0);
}

#[test]
fn a_command_that_outlives_its_home_is_refused_and_not_done_on_memory_that_is_gone() {
    let pool = TestPool::start(3, 16 << 20);
    let program = pool.client(0);
    let region = program.create("a", LEN, &CreateOptions { mode: 0o666, ..copied(1, 2) }).unwrap();
    region.put(0, &pattern(LEN as usize, 1)).unwrap();
    let view = Intruder::attach(pool.nodes[1].socket()).open("a", Rights::Write);
    let slot = view.layout.extents().next().unwrap().slot;
    let shapes = [Shape::contiguous(0, LEN), Strided { offset: 0, block: 8, count: LEN / 8, stride: 8 }.into()];
    let mut links: Vec<Raw> = shapes
        .iter()
        .map(|shape| {
            let mut link = Raw(support::data_link(pool.nodes[1].address()));
            link.0.set_read_timeout(Some(BOUND)).unwrap();
            let put = Command::new(Op::Put, 1, slot, view.grants[0], shape);
            let head = Head { count: 1, body_len: COMMAND_LEN as u64 + LEN, ..Head::new(Kind::Commands, 5) };
            link.0.write_all(&[&head.encode()[..], &put.encode(), &[9; 10_000]].concat()).unwrap();
            link
        })
        .collect();
    drained(&program, 1);
    for link in &mut links {
        // The node may have ended the link.
        let _ = link.0.write_all(&vec![9; LEN as usize - 10_000]);
        let (head, body) = link.answer();
        assert_eq!(head.kind, Kind::Refused);
        let refusal: Error = control::decode(&body).unwrap();
        assert!(matches!(refusal, Error::NodeLost { node: NodeId(1), .. }), "{refusal}");
    }
    let mut bytes = vec![0; LEN as usize];
    region.get(0, &mut bytes).unwrap();
    assert!(bytes == pattern(LEN as usize, 1), "nothing was done");
}

#[test]
fn a_node_is_drained_and_ends_and_no_program_sees_it() {
    let mut pool = Apart::start(4);
    let programs = [pool.client(0), pool.client(3), pool.client(0)];
    // The node with most room gets a copy, and what is drained needs room.
    let regions: Vec<Region> = (0..3)
        .map(|k| {
            let options =
                if k == 2 { CreateOptions { placement: Placement::Interleave(65536), ..copied(1, 2) } } else { copied(1 + k, 2) };
            let region = programs[k as usize].create(&format!("r{k}"), LEN, &options).unwrap();
            region.put(1 << 20, &pattern(1 << 20, k.into())).unwrap();
            region
        })
        .collect();
    all_count_through(&programs, &regions, |goes_on| {
        for node in [1, 2] {
            drained(&programs[0], node);
            assert!(programs[0].status().unwrap().nodes[node as usize].drains);
            pool.kill(node as usize);
            goes_on();
            if node == 1 {
                pool.start_again(1);
                until("the node is back", || programs[0].status().unwrap().nodes[1].alive);
            }
        }
    });
    for (k, region) in regions.iter().enumerate() {
        let mut bytes = vec![0; 1 << 20];
        region.get(1 << 20, &mut bytes).unwrap();
        assert!(bytes == pattern(1 << 20, k as u64), "r{k}");
    }
}

#[test]
fn what_a_drain_leaves_is_named_and_an_ended_drain_leaves_all_consistent() {
    let mut pool = Apart::start(3);
    let program = pool.client(0);
    let region = program.create("a", LEN, &copied(1, 3)).unwrap();
    let status = program.drain(NodeId(1), &DrainWish::Begin { to: BTreeSet::new() }).unwrap();
    let stays: Vec<_> = status.stays.iter().map(|region| (region.name.as_str(), &region.why)).collect();
    assert_eq!(stays, [("a", &WhyStays::NoRoom)]);
    assert_eq!(status.left, LEN);
    let refused = program.create("b", 64, &copied(1, 1)).unwrap_err();
    assert!(refused.to_string().contains("drain"), "{refused}");
    // Two copies are enough elsewhere. The home moves, or not, before the drain ends.
    program.alter("a", &Changes { copies: Some(2), ..Changes::default() }).unwrap();
    counts_through(&mut pool, &program, &region, |_| {
        for _ in 0..3 {
            program.drain(NodeId(1), &DrainWish::Begin { to: BTreeSet::new() }).unwrap();
            program.drain(NodeId(1), &DrainWish::Stop).unwrap();
        }
    });
    until("it has its copies", || program.stat("a").is_ok_and(|stat| stat.whole_copies == 2));
    assert!(!program.drain(NodeId(1), &DrainWish::Look).unwrap().drains);
    program.create("b", 64, &copied(1, 1)).unwrap();
}
