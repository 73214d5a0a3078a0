//! Blocks of 64 B through queues on one host, between processes. They go from one writer to one reader, from four to one, from one to four,
//! and by two pairs at once. Another row is how late a block comes at half of the greatest rate. Beside iceoryx2 and MPI between processes,
//! and rtrb's ring and crossbeam's channel within one.

mod flow;
mod ports;

pub use ports::run as run_port;

use crate::Options;
use crate::nodes::Nodes;
use crate::peers::mpi::Mpi;
use crate::peers::program::Compiled;
use crate::report::{Better, Report, Row};
use crate::turns::{Contestant, Figures, Outcome, take_turns};
use anyhow::{Result, anyhow, ensure};
use flow::{BLOCK_LEN, Block, send, take, until};
use hanare::{CreateOptions, Overflow, QueueForm, Unit};
use ports::{Case, PortProgram};

/// The bench's name.
pub const NAME: &str = "queue";

const DEPTH: usize = 1024;
/// Blocks of each writer to each of its readers, in one turn.
const COUNT: u64 = 2_000_000;
const COUNT_QUICK: u64 = 20_000;
/// Blocks that come at a pace.
const COUNT_PACED: u64 = 200_000;
const COUNT_PACED_QUICK: u64 = 2_000;
/// Memory that the node lends.
const MEMORY: u64 = 64 << 20;
/// Goals: how many times better than a peer.
const GOAL_RTRB: f64 = 1.0 / 1.5;
/// Two pairs of processes on two CPUs lose at most a fifth beside one pair.
const GOAL_PAIRS: f64 = 0.8;
/// The same in absolute numbers, millions a second.
const GOAL_ONE: f64 = 20.0;

const ONE: Case = Case { key: "one", writers: 1, readers: 1, are_pairs: false };
const FOUR: Case = Case { key: "four", writers: 4, readers: 1, are_pairs: false };
const FAN: Case = Case { key: "fan", writers: 1, readers: 4, are_pairs: false };
const PAIRS: Case = Case { key: "pairs", writers: 2, readers: 2, are_pairs: true };
const CASES: [Case; 4] = [ONE, FOUR, FAN, PAIRS];

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting a node");
    let nodes = Nodes::start(options, options.nodes_or(1), MEMORY)?;
    make_queues(&nodes)?;
    let compiled = Compiled::new(options)?;
    let (count, paced) = if options.quick { (COUNT_QUICK, COUNT_PACED_QUICK) } else { (COUNT, COUNT_PACED) };
    let port = ["bench", NAME, "--port"].map(str::to_owned).to_vec();
    let ours = PortProgram { path: options.command.clone(), words: port, place: nodes.socket(0).to_owned() };
    let mut contestants = vec![
        Contestant::ours("hanare", || all_of(&ours, count, paced)),
        Contestant::peer("iceoryx2 0.7", iceoryx2(options, count, paced)),
        Contestant::peer("rtrb 0.4, one process", Ok(|| rtrb_turn(count, paced))),
        Contestant::peer("crossbeam-channel 0.5, one process", Ok(|| crossbeam_turn(count, paced))),
    ];
    for mpi in Mpi::ALL {
        for case in CASES {
            let ranks = (case.writers + case.readers) as u32;
            let words = [case.key.to_owned(), count.to_string(), paced.to_string()];
            contestants.push(mpi.local_job(ranks, &compiled, "mpi_queue", &words, figures_of));
        }
    }
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    rows(&outcomes)
}

fn make_queues(nodes: &Nodes) -> Result<()> {
    let pool = nodes.attach(0)?;
    for case in CASES {
        let ports = if case.are_pairs { 1 } else { case.writers as u32 };
        let form =
            QueueForm { unit: Unit::Blocks { len: BLOCK_LEN as u32 }, depth: DEPTH as u32, ports, overflow: Overflow::Wait };
        for reader in 0..case.readers {
            pool.create_queue(&case.queue(reader), &form, &CreateOptions::default())?;
        }
    }
    Ok(())
}

/// All cases of a program of ports.
fn all_of(program: &PortProgram, count: u64, paced: u64) -> Result<Figures> {
    let mut figures = Figures::new();
    for case in CASES {
        figures.insert(case.key.to_owned(), program.rate(&case, count)?);
    }
    let pace = pace_of(figures[ONE.key]);
    for reader in program.stream(&ONE, paced, pace)? {
        figures.extend(reader.into_iter().filter(|(key, _)| key.starts_with('p')));
    }
    Ok(figures)
}

/// The nanoseconds from one block to the next at half of a rate in millions a second.
fn pace_of(rate: f64) -> u64 {
    (2e3 / rate).ceil() as u64
}

fn iceoryx2(options: &Options, count: u64, paced: u64) -> Result<impl FnMut() -> Result<Figures> + 'static> {
    let path = options.peers.join("iceoryx2_queue/target/release/iceoryx2_queue");
    ensure!(path.is_file(), "{} is not there; `scripts/prepare.sh bench` builds it", path.display());
    Ok(move || {
        // Services of a turn that was cut off have names of their own.
        let program = PortProgram { path: path.clone(), words: Vec::new(), place: format!("{:016x}", rand::random::<u64>()) };
        all_of(&program, count, paced)
    })
}

/// `queue CASE RATE` or `queue one RATE P50 P999`.
fn figures_of(line: &str) -> Option<Result<Figures>> {
    let mut words = line.strip_prefix("queue ")?.split_whitespace();
    let key = words.next()?.to_owned();
    let numbers: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
    let keys = [key, "p50".to_owned(), "p999".to_owned()];
    Some(Ok(keys.into_iter().zip(numbers).collect()))
}

fn rows(outcomes: &[Outcome]) -> Result<Report> {
    let (ours, peers) = outcomes.split_first().expect("we are the first");
    let ours = |key: &str| ours.median(key).map_err(|reason| anyhow!("{key}: {reason}"));
    let (between, mpis) = peers.split_at(3);
    let mut report = Report::new(NAME);
    let mut add = |case: &str, key: &str, unit: &'static str, better: Better, goals: [Option<f64>; 3]| -> Result<()> {
        let row = || Ok::<Row, anyhow::Error>(Row::alone(case.to_owned(), ours(key)?, unit, better));
        for (peer, goal) in between.iter().zip(goals) {
            // A peer's missing feature is no row.
            if peer.medians.is_err() || peer.median(key).is_ok() {
                report.rows.push(beside(row()?, peer, key, goal));
            }
        }
        for mpi in mpis.chunks(CASES.len()) {
            let own = mpi.iter().find(|job| job.median(key).is_ok()).unwrap_or(&mpi[0]);
            report.rows.push(beside(row()?, own, key, Some(1.0)));
        }
        Ok(())
    };
    let fast = |case: &str| format!("64 B blocks between processes, {case}");
    add(&fast("1 writer, 1 reader"), ONE.key, "M blocks/s", Better::Higher, [Some(1.0), Some(GOAL_RTRB), Some(1.0)])?;
    add(&fast("4 writers, 1 reader"), FOUR.key, "M blocks/s", Better::Higher, [Some(1.0), None, Some(1.0)])?;
    add(&fast("1 writer, 4 readers"), FAN.key, "M blocks/s", Better::Higher, [Some(1.0), None, None])?;
    add(&fast("2 pairs at once"), PAIRS.key, "M blocks/s", Better::Higher, [Some(1.0), None, None])?;
    add("64 B block at half of the greatest rate, p50", "p50", "ns", Better::Lower, [None; 3])?;
    add("64 B block at half of the greatest rate, p99.9", "p999", "ns", Better::Lower, [None; 3])?;
    let one = ours(ONE.key)?;
    let goal = Row::alone(fast("1 writer, 1 reader"), one, "M blocks/s", Better::Higher);
    report.rows.push(goal.beside("the goal", GOAL_ONE, Some(1.0)));
    let pairs = Row::alone(fast("2 pairs: 4 processes on the CPUs of one pair"), ours(PAIRS.key)?, "M blocks/s", Better::Higher);
    report.rows.push(pairs.beside("own baseline: 1 pair", one, Some(GOAL_PAIRS)));
    Ok(report)
}

fn beside(row: Row, peer: &Outcome, key: &str, goal: Option<f64>) -> Row {
    match peer.median(key) {
        Ok(value) => row.beside(&peer.name, value, goal),
        Err(reason) => row.missing(&peer.name, reason, goal),
    }
}

/// Measures a writer and a reader of a ring within this process.
fn in_process(
    count: u64,
    pace_ns: u64,
    mut push: impl FnMut(&Block) -> bool + Send,
    mut pop: impl FnMut() -> Option<Block>,
) -> Result<Figures> {
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            send(count, pace_ns, |_, block| {
                until(|| push(block).then_some(()));
                Ok(())
            })
        });
        let figures = take(count, 1, |block| {
            *block = until(&mut pop);
            Ok(())
        })?;
        writing.join().map_err(|_| anyhow!("the writer panicked"))??;
        Ok(figures)
    })
}

/// The rate, and how late blocks are at half of it.
fn both(count: u64, paced: u64, mut stream: impl FnMut(u64, u64) -> Result<Figures>) -> Result<Figures> {
    let rate = flow::rate(count, &[stream(count, 0)?])?;
    let mut figures = stream(paced, pace_of(rate))?;
    figures.retain(|key, _| key.starts_with('p'));
    figures.insert(ONE.key.to_owned(), rate);
    Ok(figures)
}

fn rtrb_turn(count: u64, paced: u64) -> Result<Figures> {
    both(count, paced, |count, pace| {
        let (mut to, mut from) = rtrb::RingBuffer::<Block>::new(DEPTH);
        in_process(count, pace, move |block| to.push(*block).is_ok(), move || from.pop().ok())
    })
}

fn crossbeam_turn(count: u64, paced: u64) -> Result<Figures> {
    let mut figures = both(count, paced, |count, pace| {
        let (to, from) = crossbeam_channel::bounded::<Block>(DEPTH);
        in_process(count, pace, move |block| to.try_send(*block).is_ok(), move || from.try_recv().ok())
    })?;
    let (to, from) = crossbeam_channel::bounded::<Block>(DEPTH);
    let writers = FOUR.writers as u64;
    let taken = std::thread::scope(|scope| {
        for _ in 0..writers {
            let to = to.clone();
            scope.spawn(move || {
                send(count, 0, |_, block| {
                    until(|| to.try_send(*block).ok());
                    Ok(())
                })
            });
        }
        take(count * writers, writers, |block| {
            *block = until(|| from.try_recv().ok());
            Ok(())
        })
    })?;
    figures.insert(FOUR.key.to_owned(), flow::rate(count * writers, &[taken])?);
    Ok(figures)
}
