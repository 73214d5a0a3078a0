//! Blocks of 64 B through a queue on one host, from one writer and from four, and one block at a time from a reader to its writer and
//! back: beside rtrb's ring and crossbeam's channel, which work within one process.
//!
//! Our writers and our reader are threads, each attached to the node by itself: what they share is the queue's memory, as processes do.

use crate::Options;
use crate::nodes::Nodes;
use crate::report::{Better, Report, Row};
use crate::turns::{Contestant, Figures, Outcome, median, take_turns};
use anyhow::{Result, anyhow};
use crossbeam_channel::TryRecvError;
use hanare::{CreateOptions, Overflow, Pool, Queue, QueueForm, Unit};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "queue";

const BLOCK_LEN: usize = 64;
const DEPTH: usize = 1024;
/// Writers of the second row.
const WRITER_COUNT: usize = 4;
/// Blocks of a turn, and round trips.
const COUNT: usize = 2_000_000;
const COUNT_QUICK: usize = 20_000;
const TRIP_COUNT: usize = 20_000;
const TRIP_COUNT_QUICK: usize = 500;
/// What the node lends.
const MEMORY: u64 = 64 << 20;
/// Goals: how many times better than a peer.
const GOAL_RTRB: f64 = 1.0 / 1.5;

type Block = [u8; BLOCK_LEN];

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting a node");
    let nodes = Nodes::start(options, options.nodes_or(1), MEMORY)?;
    let pool = nodes.attach(0)?;
    let form =
        |ports| QueueForm { unit: Unit::Blocks { len: BLOCK_LEN as u32 }, depth: DEPTH as u32, ports, overflow: Overflow::Wait };
    for (name, ports) in [("bench-one", 1), ("bench-four", WRITER_COUNT as u32), ("bench-back", 1)] {
        pool.create_queue(name, &form(ports), &CreateOptions::default())?;
    }
    let (count, trips) = if options.quick { (COUNT_QUICK, TRIP_COUNT_QUICK) } else { (COUNT, TRIP_COUNT) };
    let contestants = vec![
        Contestant::ours("hanare", || ours(&nodes, count, trips)),
        Contestant::peer("rtrb 0.4, one process", Ok(|| rtrb_turn(count, trips))),
        Contestant::peer("crossbeam-channel 0.5, one process", Ok(|| crossbeam_turn(count, trips))),
    ];
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let [ours, rtrb, crossbeam] = &outcomes[..] else { unreachable!("there are three contestants") };
    let mut report = Report::new(NAME);
    for (key, case, peers) in [
        ("one", "64 B blocks, 1 writer, 1 reader".to_owned(), vec![(rtrb, Some(GOAL_RTRB)), (crossbeam, Some(1.0))]),
        ("four", format!("64 B blocks, {WRITER_COUNT} writers, 1 reader"), vec![(crossbeam, Some(1.0))]),
    ] {
        for (peer, goal) in peers {
            report.rows.push(beside(Row::alone(case.clone(), figure(ours, key)?, "M blocks/s", Better::Higher), peer, key, goal));
        }
    }
    for (key, what) in [("trip_p50", "p50"), ("trip_p999", "p99.9")] {
        let case = format!("64 B block one way, half a round trip, {what}");
        for peer in [rtrb, crossbeam] {
            report.rows.push(beside(Row::alone(case.clone(), figure(ours, key)?, "ns", Better::Lower), peer, key, None));
        }
    }
    Ok(report)
}

fn figure(ours: &Outcome, key: &str) -> Result<f64> {
    ours.median(key).map_err(|reason| anyhow!("{key}: {reason}"))
}

fn beside(row: Row, peer: &Outcome, key: &str, goal: Option<f64>) -> Row {
    match peer.median(key) {
        Ok(value) => row.beside(&peer.name, value, goal),
        Err(reason) => row.missing(&peer.name, reason, goal),
    }
}

fn block(number: usize) -> Block {
    let mut block = [0; BLOCK_LEN];
    block[..8].copy_from_slice(&(number as u64).to_le_bytes());
    block
}

fn number(block: &Block) -> usize {
    u64::from_le_bytes(*block.first_chunk().expect("a block has a number")) as usize
}

/// Millions a second.
fn rate(count: usize, begun: Instant) -> f64 {
    count as f64 / begun.elapsed().as_secs_f64() / 1e6
}

fn percentiles(mut trips: Vec<f64>) -> [(String, f64); 2] {
    trips.sort_by(f64::total_cmp);
    let late = trips[trips.len() - 1 - trips.len() / 1000];
    [("trip_p50".to_owned(), median(trips)), ("trip_p999".to_owned(), late)]
}

/// The blocks that come are the ones that were sent, in order: their sum tells.
fn check(sum: usize, count: usize) -> Result<()> {
    anyhow::ensure!(sum == count * (count - 1) / 2, "the blocks that came are not those that were sent");
    Ok(())
}

fn ours(nodes: &Nodes, count: usize, trips: usize) -> Result<Figures> {
    let mut figures = Figures::from([
        ("one".to_owned(), ours_stream(nodes, "bench-one", 1, count)?),
        ("four".to_owned(), ours_stream(nodes, "bench-four", WRITER_COUNT, count)?),
    ]);
    figures.extend(percentiles(ours_trips(nodes, trips)?));
    Ok(figures)
}

fn open(nodes: &Nodes, name: &str) -> Result<(Pool, Queue)> {
    let pool = nodes.attach(0)?;
    let queue = pool.open_queue(name)?;
    Ok((pool, queue))
}

fn ours_stream(nodes: &Nodes, name: &str, writers: usize, count: usize) -> Result<f64> {
    let (_pool, queue) = open(nodes, name)?;
    let mut reader = queue.reader()?;
    let each = count / writers;
    std::thread::scope(|scope| {
        let writing: Vec<_> = (0..writers)
            .map(|_| {
                scope.spawn(move || -> Result<()> {
                    let (_pool, queue) = open(nodes, name)?;
                    let mut writer = queue.writer()?;
                    (0..each).try_for_each(|number| writer.send(&block(number)))?;
                    Ok(writer.close()?)
                })
            })
            .collect();
        let (mut sum, mut bytes) = (0, [0; BLOCK_LEN]);
        let mut take = |sum: &mut usize| -> Result<()> {
            let unread = reader.see(None)?;
            reader.read(&unread, 0, &mut bytes);
            *sum += number(&bytes);
            Ok(reader.free(&unread)?)
        };
        take(&mut sum)?;
        let begun = Instant::now();
        (1..each * writers).try_for_each(|_| take(&mut sum))?;
        let rate = rate(each * writers - 1, begun);
        writing.into_iter().try_for_each(|writing| writing.join().map_err(|_| anyhow!("a writer panicked"))?)?;
        check(sum / writers, each)?;
        Ok(rate)
    })
}

fn ours_trips(nodes: &Nodes, count: usize) -> Result<Vec<f64>> {
    let ((_pool, there), (_other, back)) = (open(nodes, "bench-one")?, open(nodes, "bench-back")?);
    let (mut writer, mut reader) = (there.writer()?, back.reader()?);
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || -> Result<()> {
            let ((_pool, there), (_other, back)) = (open(nodes, "bench-one")?, open(nodes, "bench-back")?);
            let (mut reader, mut writer, mut bytes) = (there.reader()?, back.writer()?, Vec::new());
            for _ in 0..count {
                reader.receive(&mut bytes, None)?;
                writer.send(&bytes)?;
            }
            Ok(())
        });
        let (mut times, mut bytes) = (Vec::with_capacity(count), Vec::new());
        for number in 0..count {
            let begun = Instant::now();
            writer.send(&block(number))?;
            reader.receive(&mut bytes, None)?;
            times.push(begun.elapsed().as_nanos() as f64 / 2.0);
        }
        echo.join().map_err(|_| anyhow!("the echo panicked"))??;
        Ok(times)
    })
}

/// Waits as our ports do while the other side is awake.
fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut looks = 0u32;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        looks += 1;
        if looks < 20 { std::hint::spin_loop() } else { rustix::thread::sched_yield() }
    }
}

fn rtrb_turn(count: usize, trips: usize) -> Result<Figures> {
    let (mut to, mut from) = rtrb::RingBuffer::<Block>::new(DEPTH);
    let one = std::thread::scope(|scope| {
        scope.spawn(move || (0..count).for_each(|number| until(|| to.push(block(number)).ok())));
        let mut sum = number(&until(|| from.pop().ok()));
        let begun = Instant::now();
        (1..count).for_each(|_| sum += number(&until(|| from.pop().ok())));
        check(sum, count).map(|()| rate(count - 1, begun))
    })?;
    let ((mut to, mut there), (mut back, mut from)) = (rtrb::RingBuffer::new(DEPTH), rtrb::RingBuffer::new(DEPTH));
    let times = std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..trips {
                let block: Block = until(|| there.pop().ok());
                until(|| back.push(block).ok());
            }
        });
        let trip = |number| {
            let begun = Instant::now();
            until(|| to.push(block(number)).ok());
            until(|| from.pop().ok());
            begun.elapsed().as_nanos() as f64 / 2.0
        };
        (0..trips).map(trip).collect()
    });
    let mut figures = Figures::from([("one".to_owned(), one)]);
    figures.extend(percentiles(times));
    Ok(figures)
}

fn crossbeam_stream(writers: usize, count: usize) -> Result<f64> {
    let (to, from) = crossbeam_channel::bounded::<Block>(DEPTH);
    let each = count / writers;
    std::thread::scope(|scope| {
        for _ in 0..writers {
            let to = to.clone();
            scope.spawn(move || (0..each).for_each(|number| until(|| to.try_send(block(number)).ok())));
        }
        let mut sum = number(&until(|| from.try_recv().ok()));
        let begun = Instant::now();
        (1..each * writers).for_each(|_| sum += number(&until(|| from.try_recv().ok())));
        anyhow::ensure!(from.try_recv() == Err(TryRecvError::Empty), "more came than was sent");
        check(sum / writers, each).map(|()| rate(each * writers - 1, begun))
    })
}

fn crossbeam_turn(count: usize, trips: usize) -> Result<Figures> {
    let ((to, there), (back, from)) = (crossbeam_channel::bounded(DEPTH), crossbeam_channel::bounded(DEPTH));
    let times = std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..trips {
                let block: Block = until(|| there.try_recv().ok());
                until(|| back.try_send(block).ok());
            }
        });
        let trip = |number| {
            let begun = Instant::now();
            until(|| to.try_send(block(number)).ok());
            until(|| from.try_recv().ok());
            begun.elapsed().as_nanos() as f64 / 2.0
        };
        (0..trips).map(trip).collect()
    });
    let mut figures = Figures::from([
        ("one".to_owned(), crossbeam_stream(1, count)?),
        ("four".to_owned(), crossbeam_stream(WRITER_COUNT, count)?),
    ]);
    figures.extend(percentiles(times));
    Ok(figures)
}
