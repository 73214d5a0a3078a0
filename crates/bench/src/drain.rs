//! The drain of a node: the rate at which its bytes move to another node, beside a bare socket on the same line.

use crate::Options;
use crate::compare::{bytes, compare_rates};
use crate::nodes::Nodes;
use crate::report::Report;
use crate::table;
use crate::turns::{Contestant, Figures, Outcome, take_turns};
use anyhow::{Context, Result, ensure};
use hanare::{DrainWish, NodeId, Placement, Pool, Region};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The bench's name.
pub const NAME: &str = "drain";

/// Goal for the drain's rate beside the socket's.
const GOAL: f64 = 0.6;

/// Bytes that move in a turn, in full and in quick runs.
const LENS: [u64; 2] = [256 << 20, 16 << 20];

/// Bytes of a get, and of a send of the bare socket.
const PIECE_LEN: usize = 256 << 10;

/// Time between two looks at a drain, and the time after which it has failed.
const LOOK: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs it. Bytes move to and fro between two nodes, so the receiver's memory was used before.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let len = LENS[usize::from(options.quick)];
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(3), 2 * len)?;
    let pool = nodes.attach(0)?;
    let far = table::far(&pool)?;
    ensure!(far.len() > 1, "the pool has fewer than three nodes");
    let region = table::create(&pool, "bench-drain", len, Placement::Node(far[0]))?;
    let mut ways = [(far[0], far[1]), (far[1], far[0])].into_iter().cycle();
    // The first move populates the receiver's memory, and is not counted.
    for (from, to) in ways.by_ref().take(2) {
        drain(&pool, from, to)?;
    }
    let ours = Contestant::ours("hanare", || {
        nodes.settle()?;
        let (from, to) = ways.next().context("the ways have no end")?;
        Ok(Figures::from([("drain".to_owned(), drain(&pool, from, to)?)]))
    });
    let socket = Contestant::ours("bare socket", || Ok(Figures::from([("socket".to_owned(), socket(len)?)])));
    let outcomes = take_turns(options.rounds(), vec![ours, socket], progress)?;
    check(&region)?;
    let mut report = Report::new(NAME);
    let case = format!("drain of {}, tcp", bytes(len));
    let peer = Outcome { name: "a bare socket (limit)".to_owned(), ..outcomes[1].clone() };
    report.rows.push(compare_rates(case, (len as f64, "GB/s"), (&outcomes[0], "drain"), (&peer, "socket"), Some(GOAL))?);
    Ok(report)
}

/// Fails if the moves changed a byte of the table.
fn check(region: &Region) -> Result<()> {
    let mut piece = vec![0; PIECE_LEN];
    for at in (0..region.len()).step_by(PIECE_LEN) {
        region.get(at, &mut piece)?;
        table::check(&piece, at / 8..)?;
    }
    Ok(())
}

/// Time in ns until a node has nothing any more.
fn drain(pool: &Pool, from: NodeId, to: NodeId) -> Result<f64> {
    let start = Instant::now();
    let mut status = pool.drain(from, &DrainWish::Begin { to: BTreeSet::from([to]) })?;
    while status.left > 0 {
        ensure!(start.elapsed() < PATIENCE, "a drain does not end: {status:?}");
        std::thread::sleep(LOOK);
        status = pool.drain(from, &DrainWish::Look)?;
    }
    let taken = start.elapsed();
    pool.drain(from, &DrainWish::Stop)?;
    Ok(taken.as_nanos() as f64)
}

/// Time in ns in which a socket of loopback takes `len` bytes from one thread to another.
fn socket(len: u64) -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let sender = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, piece) = (TcpStream::connect(address)?, vec![7; PIECE_LEN]);
        (0..len / PIECE_LEN as u64).try_for_each(|_| stream.write_all(&piece))
    });
    let (mut stream, mut piece, mut left) = (listener.accept()?.0, vec![0; PIECE_LEN], len);
    let start = Instant::now();
    while left > 0 {
        let read = stream.read(&mut piece)?;
        ensure!(read > 0, "the bare socket ended too soon");
        left = left.saturating_sub(read as u64);
    }
    let taken = start.elapsed();
    sender.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
    Ok(taken.as_nanos() as f64)
}
