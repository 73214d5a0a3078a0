//! Programs of chance under entry consistency, by seed: whoever has a lock sees its bytes as the last holder left them.
//!
//! The locks' bytes lie in pieces of a few bytes up to some pages, by turns, so that most pages have bytes of several locks. The oracle is
//! one copy of each lock's bytes in this process, under a mutex that is taken by who has the lock.

use crate::processes::Dice;
use crate::support;

use hanare::{Consistency, CreateOptions, Error, Placement, Pool, SharedMapping, Strided};
use hanare_protocol::id::NodeId;
use std::sync::Mutex;
use std::time::Duration;
use support::TestPool;

const LOCKS: usize = 6;
const THREADS: usize = 6;
const STEPS: usize = 60;
const LEN: u64 = 48 << 10;

/// A lock's pieces of the region, and which of them are bound; what they hold by the last release.
struct Bytes {
    pieces: Vec<(u64, u64)>,
    bound: Vec<bool>,
    contents: Vec<Vec<u8>>,
}

fn cut(dice: &mut Dice) -> Vec<Mutex<Bytes>> {
    let mut locks: Vec<Bytes> =
        (0..LOCKS).map(|_| Bytes { pieces: Vec::new(), bound: Vec::new(), contents: Vec::new() }).collect();
    let mut at = 0;
    while at < LEN {
        let longest = [9, 200, 2000, 9000][dice.below(4) as usize];
        let len = (1 + dice.below(longest)).min(LEN - at);
        let lock = &mut locks[dice.below(LOCKS as u64) as usize];
        // As many as may be bound.
        if lock.pieces.len() < 60 {
            lock.pieces.push((at, len));
            lock.bound.push(true);
            lock.contents.push(vec![0; len as usize]);
        }
        at += len;
    }
    locks.into_iter().map(Mutex::new).collect()
}

fn shapes(mapping: &SharedMapping, bytes: &Bytes) -> Vec<hanare::BoundShape> {
    let bound = bytes.pieces.iter().zip(&bytes.bound).filter(|(_, is_bound)| **is_bound);
    bound.map(|((offset, len), _)| mapping.bytes(Strided::contiguous(*offset, *len)).unwrap()).collect()
}

fn step(dice: &mut Dice, client: &Pool, mapping: &SharedMapping, locks: &[Mutex<Bytes>], what: &str) {
    let number = dice.below(LOCKS as u64) as usize;
    let name = format!("lock{number}");
    let taken = match dice.below(8) {
        0 => client.lock_shared(&name).map(|lock| (lock, false)),
        1 => match client.try_lock(&name).unwrap() {
            Some(lock) => Ok((lock, true)),
            None => return,
        },
        2 => client.lock_within(&name, Duration::from_millis(dice.below(3))).map(|lock| (lock, true)),
        _ => client.lock(&name).map(|lock| (lock, true)),
    };
    let (mut lock, is_alone) = match taken {
        Ok(taken) => taken,
        Err(Error::NotInTime { .. }) => return,
        Err(error) => panic!("{what}: {error}"),
    };
    assert!(!lock.was_abandoned() && !lock.is_torn());
    // Those who share the lock look one after the other.
    let mut bytes = locks[number].lock().unwrap();
    let mut seen = Vec::new();
    for ((offset, len), _) in bytes.pieces.iter().zip(&bytes.bound).filter(|(_, is_bound)| **is_bound) {
        seen.push(vec![0; *len as usize]);
        lock.read(mapping, *offset, seen.last_mut().unwrap()).unwrap();
    }
    let expected: Vec<&Vec<u8>> = bytes.contents.iter().zip(&bytes.bound).filter(|(_, bound)| **bound).map(|(c, _)| c).collect();
    for (piece, (seen, expected)) in seen.iter().zip(expected).enumerate() {
        let wrong = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
        assert_eq!(wrong.map(|at| (at, seen[at], expected[at])), None, "{what}: lock {number}, piece {piece} of {}", seen.len());
    }
    if !is_alone {
        return;
    }
    for _ in 0..dice.below(6) {
        let piece = dice.below(bytes.pieces.len() as u64) as usize;
        let (offset, len) = bytes.pieces[piece];
        if !bytes.bound[piece] {
            continue;
        }
        let from = dice.below(len);
        let count = 1 + dice.below(len - from);
        let value = dice.below(256) as u8;
        lock.write(mapping, offset + from, &vec![value; count as usize]).unwrap();
        bytes.contents[piece][from as usize..(from + count) as usize].fill(value);
    }
    if dice.below(6) == 0 {
        let piece = dice.below(bytes.pieces.len() as u64) as usize;
        bytes.bound[piece] ^= true;
        lock.bind(&shapes(mapping, &bytes)).unwrap();
    }
    // The next holder waits for the lock, not for this copy.
    drop(bytes);
    lock.unlock().unwrap();
}

fn run(seed: u64, nodes: usize, placement: Placement) {
    let mut dice = Dice::new(seed * 2 + 1);
    let pool = TestPool::start(nodes, 32 << 20);
    let clients: Vec<Pool> = (0..4).map(|client| pool.client(client % nodes)).collect();
    let options = CreateOptions { placement, ..CreateOptions::default() };
    clients[0].create("data", LEN, &options).unwrap();
    let mappings: Vec<SharedMapping> =
        clients.iter().map(|client| client.open("data").unwrap().map(Consistency::Entry).unwrap()).collect();
    let locks = cut(&mut dice);
    for (number, bytes) in locks.iter().enumerate() {
        let mut lock = clients[0].lock(&format!("lock{number}")).unwrap();
        lock.bind(&shapes(&mappings[0], &bytes.lock().unwrap())).unwrap();
        lock.unlock().unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            // Two programs have two threads.
            let (client, mapping, locks) = (&clients[thread % 4], &mappings[thread % 4], &locks);
            let mut dice = Dice::new(seed * 1000 + thread as u64 + 1);
            scope.spawn(move || {
                for turn in 0..STEPS {
                    step(&mut dice, client, mapping, locks, &format!("seed {seed}, thread {thread}, step {turn}"));
                }
            });
        }
    });
    // At home there is what was released.
    let region = clients[0].open("data").unwrap();
    for bytes in &locks {
        let bytes = bytes.lock().unwrap();
        for ((offset, len), expected) in bytes.pieces.iter().zip(&bytes.contents) {
            let mut seen = vec![0; *len as usize];
            region.get(*offset, &mut seen).unwrap();
            assert!(seen == *expected, "seed {seed}: bytes at {offset}");
        }
    }
}

#[test]
fn whoever_has_a_lock_sees_what_its_last_holder_left_on_two_nodes() {
    (1..4).for_each(|seed| run(seed, 2, Placement::Interleave(8192)));
}

#[test]
fn whoever_has_a_lock_sees_what_came_with_its_last_release_to_its_home() {
    (21..25).for_each(|seed| run(seed, 2 + seed as usize % 2, Placement::Node(NodeId(0))));
}

#[test]
fn whoever_has_a_lock_sees_what_its_last_holder_left_on_three_nodes() {
    (11..14).for_each(|seed| run(seed, 3, Placement::Interleave(8192)));
}

#[test]
fn all_of_it_as_on_linux_6_1() {
    support::once_more_as_on_linux(module_path!(), "6.1", &["as_on_linux"]);
}
