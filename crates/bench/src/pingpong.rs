//! A message there and back, half of which is one way. It has the four conditions of the DIMMnet-3 paper, on one host and between two over
//! TCP, beside MPI and UCX. On one host also beside iceoryx2, and two threads that hand a cache line to each other, which nothing can be
//! faster than.
//!
//! | condition | sent | received |
//! |---|---|---|
//! | BOTF+IPUSH | a record of envelope and data, appended to a FIFO | size and place, then the envelope, then the data from the FIFO |
//! | BOTF+IPUSH+LHS | a message: up to 48 bytes as its head, the rest as its body | the head is matched; then the body |
//! | VL+BOTF+IPUSH+LHS | the same, of data that a get brings from a region first | the same |
//! | LHC+IPUSH+LHS | a message whose body is a part of a region | the same |
//!
//! Lengths are those of the data; the envelope has 8 bytes more. **Source**: [D3 §6.1].
//!
// FEATURE: D3-F23

use crate::Options;
use crate::compare::{beside, bytes, own, time_row};
use crate::nodes::Nodes;
use crate::peers::mpi::Mpi;
use crate::peers::program::{self, Compiled};
use crate::report::{Claim, Report};
use crate::turns::{Contestant, Figures, Outcome, median, take_turns};
use anyhow::{Context, Result, anyhow, bail, ensure};
use hanare::{
    Body, CreateOptions, JobId, JobRank, Mailbox, Overflow, Pool, QueueForm, Rank, ReadPort, Region, Shape, Unit, Wanted,
    WritePort,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "pingpong";

/// Bytes of data, and how often they go there and back in one turn.
const LENGTHS: [(usize, usize); 8] =
    [(8, 5000), (48, 5000), (64, 5000), (128, 5000), (1 << 10, 4000), (4 << 10, 3000), (64 << 10, 400), (1 << 20, 60)];
/// A quick turn does so many times fewer.
const QUICK: usize = 20;

/// Lengths of the paper.
const LONGEST_OF_PAPER: usize = 128;

/// Memory that a node lends, and for each side's long bodies.
const MEMORY: u64 = 64 << 20;
const RECEIVE_LEN: u64 = 8 << 20;

/// Bytes of a head. [D3 §3.3]
const HEAD_LEN: usize = 48;
const ENVELOPE: [u8; 8] = *b"envelope";
/// The longest record of the FIFO, its envelope included.
const LONGEST_RECORD: usize = 1 << 20;

/// Goal for one way on one host, in times of a bare cache line's.
const GOAL_BARE: f64 = 1.0 / 1.5;

/// Contestants before the peers: ours in each place, and the bare line.
const OWN_COUNT: usize = 3;

const PLACES: [&str; 2] = ["same host", "2 nodes, tcp"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Fifo,
    Head,
    LoadedHead,
    Combined,
}

const CONDITIONS: [Condition; 4] = [Condition::Fifo, Condition::Head, Condition::LoadedHead, Condition::Combined];

impl Condition {
    fn name(self) -> &'static str {
        match self {
            Condition::Fifo => "BOTF+IPUSH",
            Condition::Head => "BOTF+IPUSH+LHS",
            Condition::LoadedHead => "VL+BOTF+IPUSH+LHS",
            Condition::Combined => "LHC+IPUSH+LHS",
        }
    }

    /// True if it takes as much at once.
    fn takes(self, len: usize) -> bool {
        self != Condition::Fifo || ENVELOPE.len() + len <= LONGEST_RECORD
    }

    fn key(self, len: usize) -> String {
        format!("{}_{len}", self.name())
    }
}

/// A rank of the pair.
struct Side {
    other: u32,
    mailbox: Mailbox,
    writer: WritePort,
    reader: ReadPort,
    region: Region,
    data: Vec<u8>,
    into: Vec<u8>,
}

/// A rank's data: bytes that tell the rank.
fn data_of(rank: u32) -> Vec<u8> {
    (0..1usize << 20).map(|at| (at * 7 + rank as usize) as u8).collect()
}

impl Side {
    fn new(pool: &Pool) -> Result<Side> {
        let (me, other, data) = (pool.rank(), 1 - pool.rank(), data_of(pool.rank()));
        let unit = Unit::Records { len_max: LONGEST_RECORD as u32 };
        let form = QueueForm { unit, depth: 2, ports: 1, overflow: Overflow::Wait };
        let name = |what: &str, rank: u32| format!("pingpong-{what}-{rank}");
        let queue = pool.create_queue(&name("fifo", me), &form, &CreateOptions::default())?;
        let region = pool.create(&name("data", me), data.len() as u64, &CreateOptions::default())?;
        region.put(0, &data)?;
        pool.barrier()?;
        let writer = pool.open_queue(&name("fifo", other))?.writer()?;
        let mailbox = pool.job_group().mailbox(RECEIVE_LEN)?;
        Ok(Side { other, mailbox, writer, reader: queue.reader()?, region, into: vec![0; data.len()], data })
    }

    /// Both have ended.
    fn end(self, pool: &Pool) -> Result<()> {
        drop(self);
        pool.barrier()?;
        for what in ["fifo", "data"] {
            pool.remove(&format!("pingpong-{what}-{}", pool.rank()))?;
        }
        Ok(())
    }

    fn send(&mut self, condition: Condition, len: usize) -> Result<()> {
        match condition {
            Condition::Fifo => {
                self.writer.claim(ENVELOPE.len() + len, None)?;
                self.writer.fill(0, &ENVELOPE);
                self.writer.fill(ENVELOPE.len(), &self.data[..len]);
                return Ok(self.writer.commit()?);
            }
            Condition::Combined => {
                let part = Body::Part(&self.region, Shape::contiguous(0, len as u64));
                return Ok(self.mailbox.send(self.other, 0, 7, &[], part)?);
            }
            Condition::LoadedHead => self.region.get(0, &mut self.data[..len])?,
            Condition::Head => {}
        }
        let (head, body) = self.data[..len].split_at(len.min(HEAD_LEN));
        Ok(self.mailbox.send(self.other, 0, 7, head, Body::Bytes(body))?)
    }

    /// Copies what has come to main memory.
    fn receive(&mut self, condition: Condition, len: usize) -> Result<()> {
        if condition == Condition::Fifo {
            let unread = self.reader.see(None)?;
            let mut envelope = ENVELOPE;
            self.reader.read(&unread, 0, &mut envelope);
            ensure!(envelope == ENVELOPE && unread.len() == ENVELOPE.len() + len, "another record came");
            self.reader.read(&unread, ENVELOPE.len(), &mut self.into[..len]);
            return Ok(self.reader.free(&unread)?);
        }
        let message = self.mailbox.receive(Wanted { from: Some(self.other), context: 0, tag: Some(7) }, None)?;
        let head = message.head().len();
        ensure!(head as u64 + message.len() == len as u64, "another message came");
        self.into[..head].copy_from_slice(message.head());
        Ok(message.read(0, &mut self.into[head..len])?)
    }

    /// All conditions and lengths, each there and back; one way in ns, as rank 0 sees it.
    fn play(&mut self, lengths: &[(usize, usize)]) -> Result<Figures> {
        let mut figures = Figures::new();
        for condition in CONDITIONS {
            for (len, count) in lengths.iter().copied().filter(|(len, _)| condition.takes(*len)) {
                self.into[..len].fill(0);
                let mut times = Vec::with_capacity(count);
                for round in 0..count + count / 10 + 1 {
                    let start = Instant::now();
                    if self.other == 1 {
                        self.send(condition, len)?;
                    }
                    self.receive(condition, len)?;
                    if self.other == 0 {
                        self.send(condition, len)?;
                    }
                    // The first are not counted.
                    if round > count / 10 {
                        times.push(start.elapsed().as_nanos() as f64 / 2.0);
                    }
                }
                ensure!(self.into[..len] == data_of(self.other)[..len], "other bytes came back");
                figures.insert(condition.key(len), median(times));
            }
        }
        Ok(figures)
    }
}

fn ours(nodes: &Nodes, is_far: bool, lengths: &[(usize, usize)]) -> Result<Figures> {
    let job = JobId(rand::random());
    let attach = |rank: u32| nodes.attach_as(if is_far { rank as usize } else { 0 }, JobRank { job, rank: Rank(rank), ranks: 2 });
    let pools = [attach(0)?, attach(1)?];
    let play = |pool: &Pool| {
        let mut side = Side::new(pool)?;
        let figures = side.play(lengths)?;
        side.end(pool)?;
        Ok::<Figures, anyhow::Error>(figures)
    };
    std::thread::scope(|scope| {
        let playing = pools.each_ref().map(|pool| scope.spawn(move || play(pool)));
        let [first, second] = playing.map(|playing| playing.join().map_err(|_| anyhow!("a rank panicked"))?);
        second?;
        first
    })
}

/// A word on a cache line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

impl Line {
    fn wait_for(&self, value: u64) {
        let mut looks = 0u32;
        while self.0.load(Ordering::Acquire) != value {
            looks += 1;
            // Both sides may share one CPU: then the other has to get it.
            if looks.is_multiple_of(1000) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// Two threads hand a line to each other.
fn bare(count: usize) -> Result<Figures> {
    let (there, back) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)));
    let time = std::thread::scope(|scope| {
        scope.spawn(|| {
            for value in 1..=2 * count as u64 {
                there.wait_for(value);
                back.0.store(value, Ordering::Release);
            }
        });
        let mut begun = Instant::now();
        for value in 1..=2 * count as u64 {
            if value == count as u64 {
                begun = Instant::now();
            }
            there.0.store(value, Ordering::Release);
            back.wait_for(value);
        }
        begun.elapsed()
    });
    Ok(Figures::from([("line".to_owned(), time.as_nanos() as f64 / (count + 1) as f64 / 2.0)]))
}

fn figures_of(line: &str) -> Option<Result<Figures>> {
    let numbers = line.strip_prefix("pingpong ")?.split_whitespace().map_while(|word| word.parse().ok());
    Some(Ok(LENGTHS.iter().map(|(len, _)| len.to_string()).zip(numbers).collect()))
}

/// A program that prints the line of figures, in one turn.
fn program_turn<'a>(
    name: &str,
    program: Result<PathBuf>,
    words: Vec<String>,
    variables: &'a [(&'a str, &'a str)],
) -> Contestant<'a> {
    let turn = program.map(|program| {
        move || match program::run(&program, &words, variables)?.lines().find_map(figures_of) {
            Some(figures) => figures,
            None => bail!("{} printed no figures", program.display()),
        }
    });
    Contestant::peer(name, turn)
}

/// UCX's active messages, over these of its transports.
fn ucx<'a>(compiled: &Compiled, words: &[String], variables: &'a [(&'a str, &'a str)]) -> Contestant<'a> {
    let program = compiled.build("cc", "ucx_pingpong", &["-lucp", "-lucs"]);
    let version = program.as_ref().ok().and_then(|program| program::run(program, &["version"], &[]).ok());
    let name = version.map_or_else(|| "UCX".to_owned(), |version| format!("UCX {}", version.trim()));
    program_turn(&format!("{name} active message"), program, words.to_vec(), variables)
}

fn iceoryx2<'a>(options: &Options, words: &[String]) -> Contestant<'a> {
    let path = options.peers.join("iceoryx2_queue/target/release/iceoryx2_queue");
    let program = if path.is_file() {
        Ok(path)
    } else {
        Err(anyhow!("{} is not there; `scripts/prepare.sh bench` builds it", path.display()))
    };
    program_turn("iceoryx2 0.7", program, [&["ping".to_owned()], words].concat(), &[])
}

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(2).max(2), MEMORY)?;
    let compiled = Compiled::new(options)?;
    let lengths = LENGTHS.map(|(len, count)| (len, if options.quick { (count / QUICK).max(2) } else { count }));
    let words = lengths.map(|(len, count)| format!("{len}:{count}"));
    let mut contestants = vec![
        Contestant::ours("hanare, same host", || ours(&nodes, false, &lengths)),
        Contestant::ours("hanare, 2 nodes", || ours(&nodes, true, &lengths)),
        Contestant::peer("a bare cache line", Ok(|| bare(lengths[0].1))),
    ];
    contestants.extend(Mpi::ALL.map(|mpi| mpi.local_job(2, &compiled, "mpi_pingpong", &words, figures_of)));
    contestants.extend([ucx(&compiled, &words, &[("UCX_TLS", "sm,self")]), iceoryx2(options, &words)]);
    let near_count = contestants.len() - OWN_COUNT;
    contestants.extend(Mpi::ALL.map(|mpi| mpi.job(2, &compiled, "mpi_pingpong", &words, figures_of)));
    contestants.push(ucx(&compiled, &words, &[("UCX_TLS", "tcp,self")]));
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let (near, far, line) = (&outcomes[0], &outcomes[1], &outcomes[2]);
    let (peers_near, peers_far) = outcomes[OWN_COUNT..].split_at(near_count);
    let mut report = Report::new(NAME);
    for ((ours, peers), place) in [(near, peers_near), (far, peers_far)].into_iter().zip(PLACES) {
        add_rows(&mut report, place, ours, peers)?;
    }
    let (row, scale) = time_row("8 B one way, BOTF+IPUSH+LHS, same host".to_owned(), figure(near, Condition::Head, 8)?);
    report.rows.push(beside(row, &line.name, line.median("line").map(|ns| ns * scale), Some(GOAL_BARE)));
    if !options.quick {
        report.claims = claims(near)?;
    }
    Ok(report)
}

fn figure(ours: &Outcome, condition: Condition, len: usize) -> Result<f64> {
    own(condition.name(), ours, &condition.key(len))
}

/// The condition that the paper finds best beside MPI, and the others.
fn add_rows(report: &mut Report, place: &str, ours: &Outcome, peers: &[Outcome]) -> Result<()> {
    for (len, _) in LENGTHS {
        for condition in CONDITIONS.into_iter().filter(|condition| condition.takes(len)) {
            let case = format!("{} one way, {}, {place}", bytes(len as u64), condition.name());
            let (row, scale) = time_row(case, figure(ours, condition, len)?);
            if condition != Condition::Head {
                report.rows.push(row);
                continue;
            }
            for peer in peers {
                let theirs = peer.median(&len.to_string()).map(|ns| ns * scale);
                report.rows.push(beside(row.clone(), &peer.name, theirs, Some(1.0)));
            }
        }
    }
    Ok(())
}

/// The paper's orderings, over its lengths.
fn claims(near: &Outcome) -> Result<Vec<Claim>> {
    let lengths: Vec<usize> = LENGTHS.iter().map(|(len, _)| *len).filter(|len| *len <= LONGEST_OF_PAPER).collect();
    let all = |what: &dyn Fn(usize) -> Result<f64>| lengths.iter().map(|len| what(*len)).collect::<Result<Vec<f64>>>();
    let ratio = |a, b, len| -> Result<f64> { Ok(figure(near, a, len)? / figure(near, b, len)?) };
    let least = |values: Vec<f64>| values.into_iter().reduce(f64::min).context("there are lengths");
    let greatest = |values: Vec<f64>| values.into_iter().reduce(f64::max).context("there are lengths");
    let others = [Condition::Fifo, Condition::LoadedHead, Condition::Combined];
    let slower = |len: usize| -> Result<f64> {
        least(others.iter().map(|other| ratio(*other, Condition::Head, len)).collect::<Result<_>>()?)
    };
    let (shortest, control) = (least(all(&slower)?)?, slower(LENGTHS[0].0)?);
    let combined = greatest(all(&|len| ratio(Condition::Combined, Condition::Head, len))?)?;
    let beside_fifo = least(all(&|len| ratio(Condition::Fifo, Condition::Combined, len))?)?;
    let without = least(all(&|len| ratio(Condition::Fifo, Condition::Head, len))?)?;
    let loaded = |len: usize| -> Result<f64> {
        Ok((figure(near, Condition::LoadedHead, len)? - figure(near, Condition::Combined, len)?) / 1e3)
    };
    let later_us = least(all(&loaded)?)?;
    let longest = LENGTHS[LENGTHS.len() - 1].0;
    let step = figure(near, Condition::Head, 64)? / figure(near, Condition::Head, HEAD_LEN)?;
    Ok(vec![
        Claim::new("D3-C1", shortest, shortest >= 1.0),
        // SOURCE: [D3 §6.2] "only somewhat slower", "far faster", "strongly": taken for up to, and at least, one and a half times
        Claim::new("D3-C2", combined, (1.0..=1.5).contains(&combined)),
        Claim::new("D3-C3", beside_fifo, beside_fifo >= 1.5),
        Claim::new("D3-C4", without, without >= 1.5),
        Claim::new("D3-C5", later_us, later_us > 1.0),
        Claim::new("D3-C7", longest as f64, !Condition::Fifo.takes(longest) && figure(near, Condition::Combined, longest)? > 0.0),
        Claim::new("D3-C9", step, step > 1.05),
        Claim::new("D3-C10", control, control >= 1.0),
    ])
}
