//! A node with several threads: links that move many bytes have their turns at once, and nothing else changes.

use crate::support;

use hanare::node::{Node, NodeOptions};
use hanare::{Consistency, Element, Modify, Operator, Pool, Shape};
use hanare_testkit::{Patience, paced};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Ends, TestPool, on, options, pattern};

const ADD: Modify = Modify { operator: Operator::Add, element: Element::U64 };
const PROGRAM_COUNT: usize = 4;
/// Words that all programs add to, and bytes of each one's own region.
const WORD_COUNT: usize = 32 << 10;
const OWN_LEN: usize = 1 << 20;

/// Two nodes, of which the second moves bytes with three threads.
fn start() -> TestPool {
    let mut pool = TestPool::start(1, 64 << 20);
    let join = Some(pool.nodes[0].address().to_owned());
    pool.nodes.push(Node::start(NodeOptions { join, threads: NonZero::new(3).unwrap(), ..options(64 << 20) }).unwrap());
    pool
}

/// Processor time of the threads beside the service's own, in ns.
fn time_of_others() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let time = |task: std::io::Result<std::fs::DirEntry>| {
        let path = task.ok()?.path();
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let times = std::fs::read_to_string(path.join("schedstat")).ok()?;
        name.starts_with("hanare-turns").then(|| times.split(' ').next().unwrap().parse::<u64>().unwrap())
    };
    tasks.filter_map(time).sum()
}

/// Puts and gets its own bytes, and adds to the words of all. Returns how often it added.
fn work(client: &Pool, program: usize, is_over: impl Fn(u64) -> bool) -> u64 {
    let own = client.create(&format!("own{program}"), OWN_LEN as u64, &on(1)).unwrap();
    let sums = client.open("sums").unwrap();
    let (ones, mut back) = (1u64.to_le_bytes().repeat(WORD_COUNT), vec![0; OWN_LEN]);
    let mut rounds = 0;
    while !is_over(rounds) {
        let bytes = pattern(OWN_LEN, program as u64 + 10 * rounds);
        own.put(0, &bytes).unwrap();
        own.get(0, &mut back).unwrap();
        assert!(back == bytes, "program {program}, round {rounds}");
        sums.update(Shape::contiguous(0, ones.len() as u64), ADD, &ones).unwrap();
        rounds += 1;
    }
    rounds
}

fn check_sums(client: &Pool, wanted: u64) {
    let mut words = vec![0u64; WORD_COUNT];
    client.open("sums").unwrap().get_values(0, &mut words).unwrap();
    let wrong = words.iter().position(|word| *word != wanted);
    assert_eq!(wrong.map(|at| (at, words[at])), None, "each is {wanted}");
}

#[test]
fn links_that_move_much_have_their_turns_at_once_and_every_update_counts() {
    let pool = start();
    let clients: Vec<Pool> = (0..PROGRAM_COUNT).map(|_| pool.client(0)).collect();
    clients[0].create("sums", 8 * WORD_COUNT as u64, &on(1)).unwrap();
    let (begun, patience) = (Instant::now(), paced(Duration::from_secs(60)));
    let rounds: u64 = std::thread::scope(|scope| {
        // Another of this process's tests may have such threads, too: these are enough rounds for all of them.
        let is_over = |rounds| rounds >= 20 && (time_of_others() > 1_000_000 || begun.elapsed() > patience);
        let program = |(at, client)| scope.spawn(move || work(client, at, is_over));
        let programs: Vec<_> = clients.iter().enumerate().map(program).collect();
        programs.into_iter().map(|program| program.join().unwrap()).sum()
    });
    assert!(time_of_others() > 0, "one thread moved all bytes");
    check_sums(&clients[0], rounds);
}

#[test]
fn hosts_map_a_region_while_several_threads_write_to_it() {
    let pool = start();
    let clients: Vec<Pool> = (0..PROGRAM_COUNT).map(|_| pool.client(0)).collect();
    let mapper = pool.client(0);
    mapper.create("sums", 8 * WORD_COUNT as u64, &on(1)).unwrap();
    let is_over = AtomicBool::new(false);
    let rounds: u64 = std::thread::scope(|scope| {
        let end = Ends(&is_over);
        let is_over = |_| is_over.load(Ordering::Relaxed);
        let program = |(at, client)| scope.spawn(move || work(client, at, is_over));
        let programs: Vec<_> = clients.iter().enumerate().map(program).collect();
        for _ in 0..5 {
            let mapping = mapper.open("sums").unwrap().map(Consistency::Coherent).unwrap();
            let word = mapping.word(8).unwrap();
            let before = word.load(Ordering::SeqCst);
            let mut patience = Patience::new(Duration::from_secs(60));
            while word.load(Ordering::SeqCst) == before {
                assert!(!patience.is_over(), "the programs do not go on by pages");
                std::thread::yield_now();
            }
        }
        drop(end);
        programs.into_iter().map(|program| program.join().unwrap()).sum()
    });
    check_sums(&clients[0], rounds);
}
