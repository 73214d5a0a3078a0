//! Two nodes over TCP loopback: a get's round trip beside a bare socket's, Redis's and UCX's.
//!
//! `awake`: gets follow each other at once, so that nobody parks. `parked`: 1 ms of silence before each, so that the
//! target has parked and must be woken.

use super::{SIZES, rounds_of};
use crate::Options;
use crate::compare::{bytes, compare};
use crate::peers::program::{self, Compiled};
use crate::peers::redis::{Redis, Wait};
use crate::report::{Better, Row};
use crate::turns::{Contestant, Figures, Outcome, median, take_turns};
use anyhow::Result;
use hanare::{CreateOptions, NodeId, Placement, Pool, Region};
use std::time::{Duration, Instant};

/// Operations of 8 B in one measurement.
const ROUNDS: usize = 10_000;

/// Silence before an operation of the parked kind: twenty times what a waiter stays awake.
const IDLE: Duration = Duration::from_millis(1);

/// At most 1.2 times the bare socket's time.
const ECHO_GOAL: f64 = 0.83;

pub fn rows(options: &Options, pool: &Pool, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>> {
    let rounds = if options.quick { ROUNDS / 50 } else { ROUNDS };
    let far = pool.status()?.nodes.iter().map(|node| node.node).find(|node| *node != pool.node()).unwrap_or(NodeId(1));
    let place = CreateOptions { placement: Placement::Node(far), ..CreateOptions::default() };
    let region = pool.create("bench-remote", SIZES[2] as u64, &place)?;
    region.put(0, &vec![5; SIZES[2]])?;
    let compiled = Compiled::new(options)?;
    let ucx = compiled.build("cc", "ucx_get", &["-lucp", "-lucs"]);
    let contestants = vec![
        Contestant::ours("hanare", || ours(&region, rounds)),
        Contestant::peer("bare socket", program_turn(compiled.build("cc", "echo", &[]), rounds, &[])),
        Contestant::peer(&Redis::version().unwrap_or_else(|_| "redis".to_owned()), redis(rounds)),
        Contestant::peer(&ucx_name(&ucx), program_turn(ucx, rounds, &[("UCX_TLS", "tcp")])),
    ];
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    pool.remove("bench-remote")?;
    let [ours, echo, redis, ucx] = &outcomes[..] else { unreachable!("there are four contestants") };
    let mut rows = Vec::new();
    for size in SIZES {
        let (case, key) = (format!("get {}, 2 nodes, tcp", bytes(size as u64)), format!("awake_{size}"));
        let ahead = (size == SIZES[1]).then_some(1.0);
        if size < SIZES[2] {
            rows.push(compare(case.clone(), ours, &key, echo, &key, Some(ECHO_GOAL))?);
        } else {
            rows.push(bandwidth(&case, size, ours, echo, &key)?);
        }
        rows.push(compare(case.clone(), ours, &key, redis, &key, ahead)?);
        for (what, theirs) in [("get", "get"), ("active message", "am")] {
            let peer = Outcome { name: format!("{} {what}", ucx.name), ..ucx.clone() };
            let goal = ahead.filter(|_| theirs == "get");
            rows.push(compare(case.clone(), ours, &key, &peer, &format!("{theirs}_{size}"), goal)?);
        }
    }
    for size in [SIZES[0], SIZES[1]] {
        let (case, key) = (format!("get {}, 2 nodes, tcp, target parked", bytes(size as u64)), format!("parked_{size}"));
        rows.push(compare(case.clone(), ours, &key, echo, &key, Some(ECHO_GOAL))?);
        // Not of our waiting kind, so without a goal; it shows what staying awake for a while costs or saves.
        let blocking = Outcome { name: format!("{}, server blocks at once", echo.name), ..echo.clone() };
        rows.push(compare(case.clone(), ours, &key, &blocking, &format!("blocked_{size}"), None)?);
        rows.push(compare(case, ours, &key, redis, &key, (size == SIZES[1]).then_some(1.0))?);
    }
    Ok(rows)
}

/// Large transfers are told by their rate.
fn bandwidth(case: &str, size: usize, ours: &Outcome, peer: &Outcome, key: &str) -> Result<Row> {
    let rate = |ns: f64| size as f64 / ns;
    let ns = ours.median(key).map_err(|reason| anyhow::anyhow!("{case}: {reason}"))?;
    let row = Row::alone(case, rate(ns), "GB/s", Better::Higher);
    Ok(match peer.median(key) {
        Ok(ns) => row.beside(&peer.name, rate(ns), Some(0.8)),
        Err(reason) => row.missing(&peer.name, reason, Some(0.8)),
    })
}

/// Each time of `count` operations in ns, each after `idle`, a tenth as many before them not counted.
fn times(count: usize, idle: Duration, mut operation: impl FnMut() -> hanare::Result<()>) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(count);
    for k in 0..count + count / 10 {
        if !idle.is_zero() {
            std::thread::sleep(idle);
        }
        let start = Instant::now();
        operation()?;
        if k >= count / 10 {
            times.push(start.elapsed().as_nanos() as f64);
        }
    }
    Ok(times)
}

fn parked_rounds(rounds: usize) -> usize {
    (rounds / 50).max(20)
}

fn ours(region: &Region, rounds: usize) -> Result<Figures> {
    let mut buffer = vec![0; SIZES[2]];
    let mut figures = Figures::new();
    for size in SIZES {
        let taken = times(rounds_of(size, rounds), Duration::ZERO, || region.get(0, &mut buffer[..size]))?;
        figures.insert(format!("awake_{size}"), median(taken));
    }
    for size in [SIZES[0], SIZES[1]] {
        let taken = times(parked_rounds(rounds), IDLE, || region.get(0, &mut buffer[..size]))?;
        figures.insert(format!("parked_{size}"), median(taken));
    }
    anyhow::ensure!(buffer.iter().all(|byte| *byte == 5), "a get brought other bytes than were put");
    Ok(figures)
}

/// `UCX 1.13.1`, as the library that the program found says.
fn ucx_name(program: &Result<std::path::PathBuf>) -> String {
    let version = program.as_ref().ok().and_then(|program| program::run(program, &["version"], &[]).ok());
    version.map_or_else(|| "UCX".to_owned(), |version| format!("UCX {}", version.trim()))
}

fn program_turn(
    program: Result<std::path::PathBuf>,
    rounds: usize,
    variables: &'static [(&'static str, &'static str)],
) -> Result<impl FnMut() -> Result<Figures>> {
    let program = program?;
    Ok(move || program::figures(&program::run(&program, &[rounds.to_string()], variables)?))
}

fn redis(rounds: usize) -> Result<impl FnMut() -> Result<Figures>> {
    let mut redis = Redis::start()?;
    for size in SIZES {
        redis.set(&size.to_string(), size)?;
    }
    Ok(move || {
        let mut figures = Figures::new();
        let mut better = |key: String, size: usize, count: usize, idle: Duration| -> Result<()> {
            let mut best = f64::INFINITY;
            for wait in [Wait::Awake, Wait::Blocked] {
                best = best.min(median(redis.get(&size.to_string(), size, count, wait, idle)?));
            }
            figures.insert(key, best);
            Ok(())
        };
        for size in SIZES {
            better(format!("awake_{size}"), size, rounds_of(size, rounds), Duration::ZERO)?;
        }
        for size in [SIZES[0], SIZES[1]] {
            better(format!("parked_{size}"), size, parked_rounds(rounds), IDLE)?;
        }
        Ok(figures)
    })
}
