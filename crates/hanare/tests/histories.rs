//! Short histories of real programs on two and three nodes, each judged whole: is there one order that explains all of it?
//! Of loads and stores with fences an order that every thread agrees with; of atomics one that the clock agrees with, too.
//!
//! `HANARE_TEST_SEED=N` runs one seed, `HANARE_TEST_SEEDS=N` so many instead of the usual.

#[path = "support/processes.rs"]
mod processes;
mod support;

hanare_testkit::actors![processes::node_process, thread_process,];

use hanare::{Consistency, CreateOptions, Placement, Pool, SharedMapping};
use processes::{Dice, Nodes, Process, end_with_the_test, now, say_ready};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialConsistencyTester, SequentialSpec};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Duration;

const PAGE: u64 = 4096;
const PAGES: u64 = 48;
/// Words of a history.
const WORDS: usize = 3;
/// Histories of a seed: stateright's search takes up to a second for the longest.
const ROUNDS: u64 = 48;

/// An operation on one of a history's words.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Load { word: usize },
    Store { word: usize, value: u64 },
    Add { word: usize, value: u64 },
    Swap { word: usize, value: u64 },
    CompareSwap { word: usize, expected: u64, value: u64 },
}

/// The memory that a history is held against.
#[derive(Clone, Debug, Default)]
struct Memory([u64; WORDS]);

impl SequentialSpec for Memory {
    type Op = Op;
    type Ret = u64;

    fn invoke(&mut self, op: &Op) -> u64 {
        let (Op::Load { word } | Op::Store { word, .. } | Op::Add { word, .. } | Op::Swap { word, .. }) = *op else {
            let Op::CompareSwap { word, expected, value } = *op else { unreachable!("the only one left") };
            let old = self.0[word];
            if old == expected {
                self.0[word] = value;
            }
            return old;
        };
        let old = self.0[word];
        match *op {
            Op::Store { value, .. } => {
                self.0[word] = value;
                return 0;
            }
            Op::Add { value, .. } => self.0[word] = old.wrapping_add(value),
            Op::Swap { value, .. } => self.0[word] = value,
            _ => {}
        }
        old
    }
}

/// What a thread did, what it got, and between which moments.
#[derive(Clone, Copy, Debug)]
struct Event {
    op: Op,
    got: u64,
    begin: u64,
    end: u64,
}

/// Whether one order of all operations explains them, in which each thread's are in its own order.
fn is_sequential(threads: &[Vec<Event>]) -> bool {
    let mut tester = SequentialConsistencyTester::new(Memory::default());
    for (thread, events) in threads.iter().enumerate() {
        for event in events {
            tester.on_invret(thread, event.op, event.got).unwrap();
        }
    }
    tester.is_consistent()
}

/// Whether one order explains them, in which none comes before another that had ended when it began.
fn is_linear(threads: &[Vec<Event>]) -> bool {
    let mut moments = Vec::new();
    for (thread, events) in threads.iter().enumerate() {
        for event in events {
            // At one moment what begins comes first: they may have been at a time.
            moments.extend([(event.begin, false, thread, event), (event.end, true, thread, event)]);
        }
    }
    moments.sort_by_key(|(at, is_end, thread, _)| (*at, *is_end, *thread));
    let mut tester = LinearizabilityTester::new(Memory::default());
    for (_, is_end, thread, event) in moments {
        match is_end {
            false => tester.on_invoke(thread, event.op).unwrap(),
            true => tester.on_return(thread, event.got).unwrap(),
        };
    }
    tester.is_consistent()
}

/// What is run and asked.
#[derive(Clone, Copy)]
struct Case {
    nodes: usize,
    threads: usize,
    /// Words of a history lie on one page, or each on its own.
    is_one_page: bool,
    is_atomic: bool,
}

impl Case {
    fn of(seed: u64, is_atomic: bool) -> Case {
        let (nodes, threads) = (2 + seed as usize % 2, 3 + seed as usize / 2 % 2);
        Case { nodes, threads, is_one_page: seed / 4 % 2 == 1, is_atomic }
    }

    /// Where a word of a history is: nobody used it before, but others on its page.
    fn place(&self, round: u64, word: usize) -> u64 {
        let spread = if self.is_one_page { 0 } else { word as u64 };
        let page = (round * WORDS as u64 + spread) % PAGES;
        page * 512 + round / (PAGES / WORDS as u64) * 8 + word as u64
    }

    /// What a thread does in a round.
    fn ops(&self, seed: u64, round: u64, thread: usize) -> Vec<Op> {
        let mut dice = Dice::new(seed << 40 | round << 8 | thread as u64);
        // More would take stateright too long.
        let count = if self.threads == 3 { 4 + dice.below(3) } else { 4 };
        let mut value = (thread as u64 + 1) * 100;
        let op = |_| {
            value += 1;
            let word = dice.below(WORDS as u64) as usize;
            match (self.is_atomic, dice.below(8)) {
                (_, 0..=2) | (false, 3) => Op::Load { word },
                (false, _) => Op::Store { word, value },
                (true, 3 | 4) => Op::Add { word, value: 1 },
                (true, 5 | 6) => Op::Swap { word, value },
                (true, _) => Op::CompareSwap { word, expected: 0, value },
            }
        };
        (0..count).map(op).collect()
    }
}

/// A word that the threads of all processes meet at, so that they begin within microseconds.
struct Gate(&'static AtomicU64);

impl Gate {
    fn open(path: &Path) -> Gate {
        let file = File::options().read(true).write(true).open(path).unwrap();
        // SAFETY: a new shared mapping of a file that is long enough; it is never unmapped, and touched by atomics alone.
        unsafe {
            let start = mmap(std::ptr::null_mut(), 8, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0).unwrap();
            Gate(AtomicU64::from_ptr(start.cast()))
        }
    }

    fn pass(&self, until: u64) {
        self.0.fetch_add(1, SeqCst);
        while self.0.load(SeqCst) < until {
            rustix::thread::sched_yield();
        }
    }
}

fn act(mapping: &SharedMapping, at: u64, op: Op) -> u64 {
    // SAFETY: an aligned word inside the mapping, which is borrowed as long; all use atomics.
    let word = unsafe { AtomicU64::from_ptr(mapping.ptr().add(at as usize * 8).cast()) };
    match op {
        Op::Load { .. } => word.load(SeqCst),
        // A plain store and a fence, or both in one.
        Op::Store { value, .. } if value % 2 == 0 => {
            word.store(value, Relaxed);
            fence(SeqCst);
            0
        }
        Op::Store { value, .. } => {
            word.store(value, SeqCst);
            0
        }
        Op::Add { value, .. } => word.fetch_add(value, SeqCst),
        Op::Swap { value, .. } => word.swap(value, SeqCst),
        Op::CompareSwap { expected, value, .. } => {
            word.compare_exchange(expected, value, SeqCst, SeqCst).unwrap_or_else(|old| old)
        }
    }
}

fn word_of(op: Op) -> usize {
    match op {
        Op::Load { word } | Op::Store { word, .. } | Op::Add { word, .. } | Op::Swap { word, .. } => word,
        Op::CompareSwap { word, .. } => word,
    }
}

fn thread_process() {
    let Ok(folder) = std::env::var("TEST_FOLDER") else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    end_with_the_test();
    let (seed, thread) = (number("TEST_SEED"), number("TEST_THREAD") as usize);
    let case = Case::of(seed, number("TEST_ATOMIC") == 1);
    let pool = Pool::attach_to(&std::env::var("TEST_SOCKET").unwrap(), None).unwrap();
    let mapping = pool.open("words").unwrap().map(Consistency::Coherent).unwrap();
    let gate = Gate::open(&Path::new(&folder).join("gate"));
    say_ready("");
    let (mut lines, mut dice) = (String::new(), Dice::new(seed << 8 | thread as u64));
    for round in 0..ROUNDS {
        let ops = case.ops(seed, round, thread);
        gate.pass((round + 1) * case.threads as u64);
        for op in ops {
            let at = case.place(round, word_of(op));
            // Others get their turn at different moments.
            (0..dice.below(400)).for_each(|_| std::hint::spin_loop());
            let begin = now();
            let got = act(&mapping, at, op);
            lines += &format!("{round} {got} {begin} {}\n", now());
        }
    }
    std::fs::write(Path::new(&folder).join(thread.to_string()), lines).unwrap();
    drop((mapping, pool));
    std::process::exit(0);
}

/// All rounds of a seed: for each what its threads did.
fn run(seed: u64, case: Case) -> Vec<Vec<Vec<Event>>> {
    let nodes = Nodes::start(case.nodes, None);
    let pool = Pool::attach_to(&nodes.sockets[0], None).unwrap();
    let options = CreateOptions { placement: Placement::Interleave(PAGE), ..CreateOptions::default() };
    pool.create("words", PAGES * PAGE, &options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gate"), [0; 8]).unwrap();
    let (seed_text, atomic) = (seed.to_string(), u8::from(case.is_atomic).to_string());
    let programs: Vec<Process> = (0..case.threads)
        .map(|thread| {
            let variables = [
                ("TEST_FOLDER", folder.path().to_str().unwrap()),
                ("TEST_SEED", &seed_text),
                ("TEST_ATOMIC", &atomic),
                ("TEST_THREAD", &thread.to_string()),
                ("TEST_SOCKET", &nodes.sockets[thread % case.nodes]),
            ];
            Process::start("thread_process", &variables).0
        })
        .collect();
    programs.into_iter().for_each(|program| program.join(Duration::from_secs(90), &format!("a thread of seed {seed}")));
    let mut rounds = vec![vec![Vec::new(); case.threads]; ROUNDS as usize];
    (0..case.threads).for_each(|thread| {
        let lines = std::fs::read_to_string(folder.path().join(thread.to_string())).unwrap();
        for line in lines.lines() {
            let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            let [round, got, begin, end] = words[..] else { panic!("{line}") };
            let events: &mut Vec<Event> = &mut rounds[round as usize][thread];
            let op = case.ops(seed, round, thread)[events.len()];
            events.push(Event { op, got, begin, end });
        }
    });
    rounds
}

fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    match number("HANARE_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HANARE_TEST_SEEDS").unwrap_or(usual),
    }
}

fn judge_all(is_atomic: bool, is_good: fn(&[Vec<Event>]) -> bool) {
    let mut overlaps = 0;
    for seed in seeds(8) {
        let rounds = run(seed, Case::of(seed, is_atomic));
        for (round, threads) in rounds.iter().enumerate() {
            let told = || threads.iter().map(|events| format!("{events:#?}")).collect::<Vec<_>>().join("\n");
            assert!(is_good(threads), "seed {seed}, round {round}: no order explains\n{}", told());
            overlaps += usize::from(threads.iter().all(|events| events[0].begin < threads[0].last().unwrap().end));
        }
    }
    assert!(overlaps > 0, "no two threads ran at a time");
}

#[test]
// FEATURE: EU-F13
fn loads_and_stores_with_fences_are_sequentially_consistent() {
    judge_all(false, is_sequential);
}

#[test]
// FEATURE: EU-F13
fn atomics_are_linearizable() {
    judge_all(true, is_linear);
}

fn events(ops: &[(Op, u64)], begin: u64) -> Vec<Event> {
    let event = |(k, (op, got)): (usize, &(Op, u64))| {
        let begin = begin + k as u64 * 10;
        Event { op: *op, got: *got, begin, end: begin + 5 }
    };
    ops.iter().enumerate().map(event).collect()
}

#[test]
fn a_history_that_no_order_explains_is_refused() {
    let (load, store) = (|word| Op::Load { word }, |word, value| Op::Store { word, value });
    // Each passed its own store: what processors do without fences.
    let buffered = |one, two| [events(&[(store(0, 1), 0), (load(1), one)], 0), events(&[(store(1, 2), 0), (load(0), two)], 1)];
    assert!(is_sequential(&buffered(0, 1)) && is_sequential(&buffered(2, 1)) && is_sequential(&buffered(2, 0)));
    assert!(!is_sequential(&buffered(0, 0)));
    // Two readers see two writes in different orders.
    let writes = [events(&[(store(0, 1), 0)], 0), events(&[(store(1, 2), 0)], 0)];
    let readers = |third, fourth| {
        let mut threads = writes.to_vec();
        threads.push(events(&[(load(0), 1), (load(1), third)], 10));
        threads.push(events(&[(load(1), 2), (load(0), fourth)], 10));
        threads
    };
    assert!(is_sequential(&readers(0, 1)) && !is_sequential(&readers(0, 0)));
    // A load that is late for the clock, not for its own thread.
    let late = [events(&[(store(0, 1), 0)], 0), events(&[(load(0), 0)], 20)];
    assert!(is_sequential(&late) && !is_linear(&late));
    let lost = [events(&[(Op::Add { word: 0, value: 1 }, 0)], 0), events(&[(Op::Add { word: 0, value: 1 }, 0)], 3)];
    assert!(!is_linear(&lost) && !is_sequential(&lost));
}
