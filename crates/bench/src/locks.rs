//! A lock taken and given back. One program that is alone with it stands beside a spin lock in a coherent mapping. Programs of two hosts,
//! with 4 KiB bound to it, stand beside a bare round trip that brings as much.

use crate::Options;
use crate::compare::{baseline, compare};
use crate::nodes::Nodes;
use crate::peers::program::{self, Compiled};
use crate::report::Report;
use crate::turns::{Contestant, Figures, median, take_turns};
use anyhow::{Result, anyhow, ensure};
use hanare::{Consistency, CreateOptions, LockGuard, NodeId, Placement, Pool, SharedMapping, Strided};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "locks";

/// Memory that each node lends.
const MEMORY: u64 = 64 << 20;

/// Pairs that are timed as one, because a clock costs as much as some of them; and how often.
const BURST: u64 = 200;
const BURST_COUNT: usize = 200;
const BURST_COUNT_QUICK: usize = 10;

/// Pairs of each program where two want one lock all the time.
const CONTESTED: u64 = 4000;
const CONTESTED_QUICK: u64 = 200;

/// Pairs between two hosts.
const PAIR_COUNT: usize = 1000;
const PAIR_COUNT_QUICK: usize = 50;

/// Bytes that are bound.
const BOUND_LEN: usize = 4096;

/// A pair may take twice as long as one of a spin lock, and half as long again as a bare round trip with the bound bytes.
const ALONE_GOAL: f64 = 0.5;
const BOUND_GOAL: f64 = 1.0 / 1.5;

const ALONE: &str = "alone";
const SPIN_ALONE: &str = "spin_alone";
const CONTEST: &str = "contest";
const SPIN_CONTEST: &str = "spin_contest";
const READS: &str = "reads";
const WRITES: &str = "writes";

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(2).max(2), MEMORY)?;
    let compiled = Compiled::new(options)?;
    let echo = compiled.build("cc", "echo", &[]).map(|echo| {
        let rounds = if options.quick { "200" } else { "10000" };
        move || program::figures(&program::run(&echo, &[rounds], &[])?)
    });
    let contestants = vec![Contestant::ours("hanare", || ours(&nodes, options)), Contestant::peer("bare socket", echo)];
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let (ours, echo) = (&outcomes[0], &outcomes[1]);
    let spin = baseline(ours, "spin lock in a coherent mapping");
    let mut report = Report::new(NAME);
    let case = |what: &str| format!("a lock taken and given back, {what}");
    let alone = case("again by the only program that wants it");
    report.rows.push(compare(alone, ours, ALONE, &spin, SPIN_ALONE, Some(ALONE_GOAL))?);
    let contest = case("by programs of two hosts that want it all the time, tcp");
    report.rows.push(compare(contest, ours, CONTEST, &spin, SPIN_CONTEST, None)?);
    for (key, what) in [(READS, "read"), (WRITES, "written")] {
        let title = case(&format!("4 KiB bound that another host wrote are {what}, 2 nodes, tcp"));
        report.rows.push(compare(title, ours, key, echo, "awake_4096", Some(BOUND_GOAL))?);
    }
    Ok(report)
}

fn ours(nodes: &Nodes, options: &Options) -> Result<Figures> {
    let quick = |full: usize, quick: usize| if options.quick { quick } else { full };
    let (bursts, pairs) = (quick(BURST_COUNT, BURST_COUNT_QUICK), quick(PAIR_COUNT, PAIR_COUNT_QUICK));
    let contested = if options.quick { CONTESTED_QUICK } else { CONTESTED };
    let pools = [nodes.attach(0)?, nodes.attach(1)?];
    let place = CreateOptions { placement: Placement::Node(NodeId(pools[0].node().0)), ..CreateOptions::default() };
    let name = format!("locks-{:016x}", rand::random::<u64>());
    pools[0].create(&name, 1 << 16, &place)?;
    let map = |mode| -> Result<Vec<SharedMapping>> {
        pools.iter().map(|pool| Ok(pool.open(&name)?.map(mode)?)).collect::<Result<Vec<SharedMapping>>>()
    };
    let mut figures = Figures::new();
    {
        let mappings = map(Consistency::Coherent)?;
        nodes.settle()?;
        // The second program's host is not the lock's home: there a lock costs messages that is not lent.
        let lock = || pools[1].lock(&name)?.unlock();
        figures.insert(ALONE.to_owned(), in_bursts(bursts, lock)?);
        let word = mappings[1].word(0)?;
        figures.insert(SPIN_ALONE.to_owned(), in_bursts(bursts, || with_spin_lock(word, || Ok(())))?);
        let counts = [AtomicU64::new(0), AtomicU64::new(0)];
        let by_lock = |number: usize| {
            let lock = pools[number].lock(&name)?;
            count(&counts[0]);
            lock.unlock()
        };
        figures.insert(CONTEST.to_owned(), contest(contested, by_lock)?);
        let spun = || {
            count(&counts[1]);
            Ok(())
        };
        let by_spinning = |number: usize| with_spin_lock(mappings[number].word(8)?, spun);
        figures.insert(SPIN_CONTEST.to_owned(), contest(contested, by_spinning)?);
        let counts = counts.map(AtomicU64::into_inner);
        ensure!(counts == [2 * contested; 2], "two programs had a lock at the same time: {counts:?} pairs of {}", 2 * contested);
    }
    figures.extend(with_bound(&pools, &map(Consistency::Entry)?, pairs)?);
    pools[0].remove(&name)?;
    Ok(figures)
}

/// The median time of a pair that is repeated in bursts.
fn in_bursts(bursts: usize, mut pair: impl FnMut() -> hanare::Result<()>) -> Result<f64> {
    (0..BURST).try_for_each(|_| pair())?;
    let mut times = Vec::with_capacity(bursts);
    for _ in 0..bursts {
        let start = Instant::now();
        (0..BURST).try_for_each(|_| pair())?;
        times.push(start.elapsed().as_nanos() as f64 / BURST as f64);
    }
    Ok(median(times))
}

/// A spin lock as C11 has it: test and set, and looks meanwhile.
fn with_spin_lock(word: &AtomicU64, act: impl FnOnce() -> hanare::Result<()>) -> hanare::Result<()> {
    while word.swap(1, Ordering::Acquire) != 0 {
        while word.load(Ordering::Relaxed) != 0 {
            spin_loop();
        }
    }
    let acted = act();
    word.store(0, Ordering::Release);
    acted
}

/// Not in one step: two that have the lock at the same time lose a count.
fn count(pairs: &AtomicU64) {
    pairs.store(pairs.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// The time of a pair where two programs want a lock all the time.
fn contest(pairs: u64, pair: impl Fn(usize) -> hanare::Result<()> + Sync) -> Result<f64> {
    let (start, pair) = (Instant::now(), &pair);
    std::thread::scope(|scope| {
        let programs: Vec<_> = (0..2).map(|number| scope.spawn(move || (0..pairs).try_for_each(|_| pair(number)))).collect();
        programs.into_iter().try_for_each(|program| Ok(program.join().map_err(|_| anyhow!("a program panicked"))??))
    })
    .map(|()| start.elapsed().as_nanos() as f64 / (2 * pairs) as f64)
}

/// Pairs of the second program, each after one of the first that wrote all bound bytes. Some only read, some write them all.
fn with_bound(pools: &[Pool; 2], mappings: &[SharedMapping], pairs: usize) -> Result<Figures> {
    let name = format!("bound-{:016x}", rand::random::<u64>());
    let mut first = pools[0].lock(&name)?;
    first.bind(&[mappings[0].bytes(Strided::contiguous(0, BOUND_LEN as u64))?])?;
    first.unlock()?;
    let mut times = [const { Vec::new() }; 2];
    // A tenth of the turns are not counted.
    for turn in 0..2 * (pairs + pairs / 10) {
        let value = (turn % 251) as u8 + 1;
        let mut before = pools[0].lock(&name)?;
        before.write(&mappings[0], 0, &[value; BOUND_LEN])?;
        before.unlock()?;
        let start = Instant::now();
        let mut lock: LockGuard = pools[1].lock(&name)?;
        let mut seen = [0; BOUND_LEN];
        lock.read(&mappings[1], 0, &mut seen)?;
        if turn % 2 == 1 {
            lock.write(&mappings[1], 0, &[value - 1; BOUND_LEN])?;
        }
        lock.unlock()?;
        let time = start.elapsed().as_nanos() as f64;
        ensure!(seen == [value; BOUND_LEN], "a lock brought other bytes than its last holder left");
        if turn >= pairs / 5 {
            times[turn % 2].push(time);
        }
    }
    let [reads, writes] = times.map(median);
    Ok(Figures::from([(READS.to_owned(), reads), (WRITES.to_owned(), writes)]))
}
