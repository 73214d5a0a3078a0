//! A user beside another one. One program does puts and creates, while many programs of another user work the same two nodes.

use crate::Options;
use crate::compare::{baseline, compare};
use crate::nodes::Nodes;
use crate::peers::session::Session;
use crate::report::Report;
use crate::turns::{Contestant, Figures, median, take_turns};
use anyhow::{Context, Result, bail};
use hanare::{CreateOptions, Indexed, NodeId, Placement, Pool};
use rustix::process::{Gid, Uid};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The bench's name.
pub const NAME: &str = "fair";

/// The word of the hidden option by which a neighbour is started.
pub const NEIGHBOUR: &str = "neighbour";

/// Bytes that each node lends.
const MEMORY: u64 = 192 << 20;

/// Another user, where this process may become one; otherwise the neighbour is of the same user, as the rows say.
const OTHER_UID: u32 = 65_534;

/// Bytes of a put.
const PUT_LEN: usize = 4096;

/// Bytes of a neighbour's region, and indices of its lists: the whole of it in words.
const LIST_REGION_LEN: u64 = 1 << 20;
const INDEX_COUNT: u32 = 65_536;

/// Another user's programs may slow one to a third.
const GOAL: f64 = 1.0 / 3.0;

/// Each case: the work of the neighbours, their number, the figure that is measured meanwhile, and the row's text.
const CASES: [(&str, usize, &str, &str); 3] = [
    ("lists", 48, PUT, "a put of 4 KiB to another node, beside 48 programs that get 65,536 elements by index"),
    ("attach", 80, PUT, "a put of 4 KiB to another node, beside 80 programs that attach and leave"),
    ("create", 80, CREATE, "a region created and removed, beside 80 programs that do the same"),
];

const PUT: &str = "put";
const CREATE: &str = "create";

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting nodes");
    let nodes = Nodes::start(options, 2, MEMORY)?;
    let outcomes = take_turns(options.rounds(), vec![Contestant::ours("hanare", || ours(&nodes, options))], progress)?;
    let alone = baseline(&outcomes[0], "alone");
    let whose = if rustix::process::geteuid().is_root() { "of another user" } else { "of this user, for want of root" };
    let mut report = Report::new(NAME);
    for (kind, _, figure, case) in CASES {
        let case = format!("{case}, {whose}");
        report.rows.push(compare(case, &outcomes[0], &format!("{figure}_{kind}"), &alone, figure, Some(GOAL))?);
    }
    Ok(report)
}

fn ours(nodes: &Nodes, options: &Options) -> Result<Figures> {
    let budget = if options.quick { Duration::from_millis(100) } else { Duration::from_secs(2) };
    let pool = nodes.attach(0)?;
    let name = format!("fair-{:016x}", rand::random::<u64>());
    let place = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    let region = pool.create(&name, 1 << 20, &place)?;
    let mut at = 0;
    let mut put = || -> Result<()> {
        at = (at + PUT_LEN as u64) % (1 << 20);
        Ok(region.put(at, &[7; PUT_LEN])?)
    };
    let own = format!("{name}-own");
    let create = || -> Result<()> {
        pool.create(&own, 4096, &place)?;
        Ok(pool.remove(&own)?)
    };
    let mut figures = Figures::new();
    figures.insert(PUT.to_owned(), repeated(budget, &mut put)?);
    figures.insert(CREATE.to_owned(), repeated(budget, create)?);
    for (kind, count, figure, _) in CASES {
        let start = |node: usize| neighbour(options, kind, nodes.socket(node), count / 2);
        // On their memory's own host programs would work on lists without the node.
        let second = if kind == "lists" { 0 } else { 1 };
        let _neighbours = [start(0)?, start(second)?];
        let key = format!("{figure}_{kind}");
        figures.insert(key, if figure == PUT { repeated(budget, &mut put)? } else { repeated(budget, create)? });
    }
    pool.remove(&name)?;
    Ok(figures)
}

/// The median time of a step in ns, over so long.
fn repeated(budget: Duration, mut step: impl FnMut() -> Result<()>) -> Result<f64> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < 5 || begun.elapsed() < budget {
        let start = Instant::now();
        step()?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    Ok(median(times))
}

fn neighbour(options: &Options, kind: &str, socket: &str, count: usize) -> Result<Session> {
    let words = ["bench", NAME, "--port", NEIGHBOUR, kind, socket, &count.to_string()].map(str::to_owned);
    let mut session = Session::start(&options.command, &words, &[])?;
    session.wait_for(|line| (line.trim() == "ready").then(|| Ok(Figures::new())))?;
    Ok(session)
}

/// Is a neighbour: `KIND SOCKET COUNT`. Says `ready` when all its programs have worked once, and ends with its input.
pub fn run_neighbour(words: &[String]) -> Result<()> {
    let [kind, socket, count] = words else { bail!("a neighbour has a kind, a socket and a count") };
    let count: usize = count.parse().context("a count")?;
    // As another user's programs are: the kernel shares the processors among sessions first.
    let _ = rustix::process::setsid();
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(OTHER_UID), Gid::from_raw(OTHER_UID));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    }
    let (stop, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..count {
            let (stop, begun) = (&stop, &begun);
            scope.spawn(move || {
                let mut work = work(kind, socket, number);
                let mut has_begun = false;
                while !stop.load(Ordering::Relaxed) {
                    // Others' limits are no failure of this one.
                    let _ = work();
                    if !std::mem::replace(&mut has_begun, true) {
                        begun.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        while begun.load(Ordering::Relaxed) < count {
            std::thread::sleep(Duration::from_millis(1));
        }
        println!("ready");
        let said = std::io::stdout().flush().and_then(|()| std::io::stdin().lock().lines().try_for_each(|line| line.map(drop)));
        stop.store(true, Ordering::Relaxed);
        Ok(said?)
    })
}

/// The step that one program of a neighbour repeats.
fn work<'a>(kind: &'a str, socket: &'a str, number: usize) -> Box<dyn FnMut() -> hanare::Result<()> + 'a> {
    let place = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    // The same in each round: those of the round before are used again.
    let name = format!("neighbour-{kind}-{}-{number}", socket.trim_start_matches('@'));
    let mut state = None;
    let attach = move || Pool::attach_to(socket, None);
    match kind {
        "lists" => Box::new(move || {
            let (_, region, indices, into) = match &mut state {
                Some(state) => state,
                None => {
                    let pool = attach()?;
                    let region = pool.create_or_attach(&name, LIST_REGION_LEN, &place)?;
                    let indices: Vec<u32> = (0..INDEX_COUNT).map(|k| k * 7919 % (LIST_REGION_LEN / 8) as u32).collect();
                    state.insert((pool, region, indices, vec![0; 8 * INDEX_COUNT as usize]))
                }
            };
            region.get_shape(Indexed::elements(0, 8, &indices[..]), into)
        }),
        "create" => {
            let mut pool = None;
            Box::new(move || {
                let pool = match &mut pool {
                    Some(pool) => pool,
                    None => pool.insert(attach()?),
                };
                let made = pool.create(&name, 4096, &place).map(drop);
                // A run that was stopped between the two has left it.
                pool.remove(&name).and(made)
            })
        }
        _ => Box::new(move || attach().map(drop)),
    }
}
