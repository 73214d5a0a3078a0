//! `hanare demo`: what the pool is for, in six scenes on three nodes of this machine, which treat each other as strangers.
//!
//! | scene | shows |
//! |---|---|
//! | array | memory that no node could lend alone |
//! | sum | work done where the bytes lie, beside bytes that are brought here |
//! | count | programs on three hosts change one word by plain pointer |
//! | lock | the holder of a lock is killed, and the next one is told |
//! | node | the coordinator is killed with its node: an error says what is lost, and the rest goes on |
//! | copies | bytes of that node that another has, too: a program goes on, and none is lost |
//!
//! Each scene checks what it shows; one that does not come out right ends the demonstration with exit status 1.

use super::counting::Counting;
use super::part::{Part, Playing, has_home_moved};
use crate::print;
use crate::run::nodes::Nodes;
use crate::run::{MEMORY_DEFAULT, guard};
use crate::size;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hanare::userfaultfd::Features;
use hanare::{CreateOptions, Element, Error, NodeId, Placement, Pool, Range, Region, Strided, Traffic, Value};
use hanare_protocol::limits::PAGE_LEN;
use rustix::process::Pid;
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

/// Nodes of the pool.
const NODE_COUNT: usize = 3;
/// Tries to start the pool, and to play a scene that needs the home of names.
const TRIES: u32 = 5;
/// Bytes of the array's chunks, which lie on the nodes in turn.
const CHUNK: u64 = 1 << 20;
/// The least that a node lends: a chunk of the array on each node, and a slab for the rest.
const MEMORY_MIN: u64 = 16 << 20;
/// Bytes fetched at a time for the sum that is made here.
const FETCH: u64 = 16 << 20;
/// The number that fills the array: binary floating point cannot hold it exactly, so that a plain loop's sum drifts.
const NUMBER: f64 = 0.1;
/// Times that each program adds 1.
const TIMES: u64 = 20_000;
/// Time that the holder of the lock is left alive, so that the next one surely waits.
const HOLD: Duration = Duration::from_millis(100);
/// Time for a lost node to be noticed before the demonstration gives up.
const NOTICE_MAX: Duration = Duration::from_secs(30);

/// Size of the demonstration.
#[derive(Args, Clone, Debug)]
#[group(id = "tour")]
pub struct Options {
    /// Memory that each of the three nodes lends; the array takes half of it on each.
    #[arg(long, value_name = "SIZE", value_parser = size::parse_some, default_value_t = MEMORY_DEFAULT, hide_default_value = true)]
    memory: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The pool, and a program on the first node's host.
struct Stage {
    table: Region,
    pool: Pool,
    sockets: Vec<String>,
    /// Numbers of the nodes, in the order of the sockets.
    ids: Vec<NodeId>,
    nodes: Nodes,
}

/// Result of a scene.
struct Scene {
    name: &'static str,
    /// For people: one line for each thing shown.
    lines: Vec<String>,
    /// Command line for the same.
    next: &'static str,
    /// The same for programs.
    facts: serde_json::Value,
}

/// Plays all scenes.
pub fn run(options: &Options, guard: Pid) -> Result<i32> {
    guard::enter(guard)?;
    ensure!(
        options.memory >= MEMORY_MIN,
        "--memory cannot be {}: {} are the least",
        size::show(options.memory),
        size::show(MEMORY_MIN)
    );
    let begun = Instant::now();
    let (mut stage, made) = Stage::begin(options.memory)?;
    let lent = size::show(options.memory);
    if !options.json {
        let ready = span(begun.elapsed());
        print::line(&format!(
            "{NODE_COUNT} nodes on this machine, {lent} each, ready in {ready}; they treat each other as {NODE_COUNT} hosts would.\n"
        ));
    }
    let mut facts = serde_json::Map::new();
    let mut show = |scene: Scene| {
        if !options.json {
            scene.show();
        }
        facts.insert(scene.name.to_owned(), scene.facts);
    };
    show(made);
    show(stage.sum()?);
    show(at_one_home(|| stage.count())?);
    show(at_one_home(|| stage.lock())?);
    stage.follow_coordinator()?;
    let counting = Counting::start(&stage.pool, "counted", stage.ids[NODE_COUNT - 1])?;
    show(stage.lose_a_node()?);
    show(keep_bytes(counting)?);
    drop(stage);
    let whole = begun.elapsed();
    if options.json {
        facts.insert("whole_s".to_owned(), whole.as_secs_f64().into());
        print::json(&facts.into())?;
    } else {
        print::line(&format!("All of it took {}. `hanare node --memory 1GiB &` starts a pool that stays.", span(whole)));
    }
    Ok(0)
}

impl Stage {
    /// Starts the pool, and makes the array. On a busy machine another program may take a node's port meanwhile, or another keeper lead.
    fn begin(memory: u64) -> Result<(Stage, Scene)> {
        let start = || {
            let nodes = Nodes::start_keepers(NODE_COUNT, memory);
            Stage::set(nodes.context("no pool for the demonstration (--memory SIZE makes it smaller)")?, memory)
        };
        (1..TRIES).find_map(|_| start().ok()).map_or_else(start, Ok)
    }

    /// Makes the array: half of it all, so that it exceeds what any node lends.
    fn set(nodes: Nodes, memory: u64) -> Result<(Stage, Scene)> {
        let sockets = nodes.sockets();
        let (pool, ids) = attach(&sockets)?;
        let len = (memory / 2 / CHUNK).max(1) * CHUNK * NODE_COUNT as u64;
        let begun = Instant::now();
        let table = pool.create("table", len, &placed(Placement::Interleave(CHUNK)))?;
        table.fill(Strided::contiguous(0, len), &NUMBER.to_le_bytes())?;
        let time = begun.elapsed();
        let most = pool.stat("table")?.nodes.iter().map(|(_, bytes)| *bytes).max().unwrap_or(len);
        ensure!(most < memory && len > memory, "the array lies on one node, or is smaller than what a node lends");
        let scene = Scene {
            name: "array",
            lines: vec![format!(
                "{} in one array, more than any node lends; made and filled with {NUMBER} in {}",
                size::show(len),
                span(time)
            )],
            next: "hanare region create table 768MiB --place interleave=1MiB",
            facts: json!({ "bytes": len, "bytes_on_one_node": most, "seconds": time.as_secs_f64() }),
        };
        Ok((Stage { table, pool, sockets, ids, nodes }, scene))
    }

    /// Makes the coordinator the last node, and the program here one of the first node's host. On a busy machine another keeper may lead by now.
    fn follow_coordinator(&mut self) -> Result<()> {
        self.nodes.put_coordinator_last(&self.pool)?;
        let sockets = self.nodes.sockets();
        if sockets != self.sockets {
            (self.pool, self.ids) = attach(&sockets)?;
            (self.table, self.sockets) = (self.pool.open("table")?, sockets);
        }
        Ok(())
    }

    /// The same sum twice: made by the nodes, and made here.
    fn sum(&self) -> Result<Scene> {
        let (len, count) = (self.table.len(), self.table.len() / size_of::<f64>() as u64);
        let (before, begun) = (self.pool.traffic(), Instant::now());
        let summary = self.table.reduce(Strided::contiguous(0, len), Element::F64, Range::all(Element::F64))?;
        let (there, there_moved) = (begun.elapsed(), moved(self.pool.traffic()) - moved(before));
        let Value::Float(exact) = summary.sum() else { bail!("the sum of floating-point numbers is none") };
        // A product of two numbers is the exact sum, rounded once.
        ensure!(summary.count == count && exact == NUMBER * count as f64, "the sum is {exact}, which is wrong");

        let (before, begun) = (self.pool.traffic(), Instant::now());
        let plain = self.sum_here()?;
        let (here, here_moved) = (begun.elapsed(), moved(self.pool.traffic()) - moved(before));
        ensure!((plain - exact).abs() < exact * 1e-6, "the fetched numbers sum to {plain}, not to about {exact}");
        let line = |what: &str, sum: f64, time, bytes| {
            format!("{what} {sum:<20} {:>8}, {} moved between hosts", span(time), size::show(bytes))
        };
        Ok(Scene {
            name: "sum",
            lines: vec![
                line("exact, made where the bytes lie:", exact, there, there_moved),
                line("fetched, added by a plain loop:", plain, here, here_moved),
            ],
            next: "C: hanare_reduce    Rust: Region::reduce",
            facts: json!({
                "there": { "sum": exact, "seconds": there.as_secs_f64(), "bytes_moved": there_moved },
                "here": { "sum": plain, "seconds": here.as_secs_f64(), "bytes_moved": here_moved },
            }),
        })
    }

    fn sum_here(&self) -> Result<f64> {
        let mut bytes = vec![0; FETCH as usize];
        let (mut sum, mut at) = (0.0, 0);
        while at < self.table.len() {
            let part = &mut bytes[..FETCH.min(self.table.len() - at) as usize];
            self.table.get(at, part)?;
            for eight in part.as_chunks().0 {
                sum += f64::from_le_bytes(*eight);
            }
            at += part.len() as u64;
        }
        Ok(sum)
    }

    /// Programs on all hosts add to one word.
    fn count(&self) -> Result<Scene> {
        let next = "C: hanare_map_shared    Rust: Region::map(Consistency::Coherent)";
        if let Err(error) = Features::probe().and_then(Features::check_coherent) {
            let lines = vec![format!("not on this machine: {error}")];
            return Ok(Scene { name: "count", lines, next, facts: json!({ "refused": error.to_string() }) });
        }
        self.pool.create_or_attach("count", PAGE_LEN, &placed(Placement::Node(self.ids[1])))?.put(0, &0u64.to_le_bytes())?;
        let parties = NODE_COUNT as u32;
        let start = |socket: &String| Playing::start(socket, Part::Count { region: "count", times: TIMES, parties });
        let mut programs: Vec<_> = self.sockets.iter().map(start).collect::<Result<_>>()?;
        let mut seconds = 0.0f64;
        for program in &mut programs {
            seconds = seconds.max(program.hear()?["seconds"].as_f64().context("a program did not say its time")?);
        }
        drop(programs);
        let (total, wanted) = (self.counted()?, TIMES * NODE_COUNT as u64);
        ensure!(total == wanted, "the programs counted to {total} instead of {wanted}");
        Ok(Scene {
            name: "count",
            lines: vec![format!(
                "{NODE_COUNT} programs on {NODE_COUNT} hosts, {TIMES} fetch_add each to one word by plain pointer: {total} in {}",
                span(Duration::from_secs_f64(seconds))
            )],
            next,
            facts: json!({ "total": total, "seconds": seconds }),
        })
    }

    fn counted(&self) -> Result<u64> {
        let mut word = [0; 8];
        self.pool.open("count")?.get(0, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    /// A program takes a lock and is killed while another waits for it.
    fn lock(&self) -> Result<Scene> {
        let mut holder = Playing::start(&self.sockets[1], Part::Hold { lock: "table" })?;
        holder.hear()?;
        let killer = thread::spawn(move || {
            thread::sleep(HOLD);
            let killed = Instant::now();
            holder.kill();
            killed
        });
        let lock = self.pool.lock_within("table", NOTICE_MAX)?;
        let had = Instant::now();
        let killed = killer.join().map_err(|_| anyhow::anyhow!("the holder could not be killed"))?;
        ensure!(had > killed && lock.was_abandoned(), "the lock was not abandoned");
        let time = had - killed;
        lock.unlock()?;
        Ok(Scene {
            name: "lock",
            lines: vec![format!(
                "its holder was killed; {} later the next one had it, and was told that it was abandoned",
                span(time)
            )],
            next: "C: hanare_lock    Rust: Pool::lock",
            facts: json!({ "abandoned": true, "seconds": time.as_secs_f64() }),
        })
    }

    /// The last node is killed.
    fn lose_a_node(&mut self) -> Result<Scene> {
        let last = self.ids[NODE_COUNT - 1];
        let on = |node: NodeId| {
            let mut pieces = self.table.layout().pieces(0, CHUNK * NODE_COUNT as u64);
            let extents: Vec<_> = self.table.layout().extents().collect();
            pieces.find(|piece| extents[piece.extent].node == node).map(|piece| piece.at).context("no chunk there")
        };
        let (there, elsewhere) = (on(last)?, on(self.ids[1])?);
        let mut number = [0; 8];
        self.table.get(there, &mut number)?;
        let killed = Instant::now();
        self.nodes.kill_last()?;
        let error = loop {
            match self.table.get(there, &mut number) {
                Ok(()) if killed.elapsed() < NOTICE_MAX => {}
                Ok(()) => bail!("nobody noticed that {last} was killed"),
                Err(error) => break error,
            }
        };
        let time = killed.elapsed();
        let next = self.next_coordinator()?;
        let names = killed.elapsed();
        ensure!(matches!(&error, Error::NodeLost { node, .. } if *node == last), "another error came: {error}");
        self.table.get(elsewhere, &mut number)?;
        ensure!(f64::from_le_bytes(number) == NUMBER, "a number on another node changed");
        Ok(Scene {
            name: "node",
            lines: vec![
                format!("{last}, the coordinator, was killed; {} later a get there ended with: {error}", span(time)),
                format!("names went on at {next} after {}; the other nodes' bytes are read as before", span(names)),
            ],
            next: "hanare status",
            facts: json!({ "error": error.to_string(), "seconds": time.as_secs_f64(), "names_seconds": names.as_secs_f64() }),
        })
    }

    /// Makes a region, as soon as another node keeps the names. Returns that node.
    fn next_coordinator(&self) -> Result<NodeId> {
        self.pool.create("after", PAGE_LEN, &CreateOptions::default())?;
        let keepers = self.pool.own_status()?.keepers;
        let leads = keepers.into_iter().find(|keeper| keeper.leads).context("no node keeps the names")?;
        let nodes = self.pool.status()?.nodes;
        Ok(nodes.iter().find(|node| node.address == leads.address).context("the coordinator is no node")?.node)
    }
}

/// Plays a scene, and plays it again where the home of names has moved: groups and locks end with a home. On a busy machine a home may stand
/// still for longer than its lease.
fn at_one_home(play: impl Fn() -> Result<Scene>) -> Result<Scene> {
    let mut outcome = play();
    for _ in 1..TRIES {
        if !outcome.as_ref().is_err_and(has_home_moved) {
            break;
        }
        outcome = play();
    }
    outcome
}

/// The killed node was the home of a region with copies.
fn keep_bytes(counting: Counting) -> Result<Scene> {
    counting.goes_on()?;
    let counted = counting.end()?;
    Ok(Scene {
        name: "copies",
        lines: vec![format!(
            "meanwhile a program put numbers there, with two copies: 0 of {} answered puts lost, no error, the longest took {}",
            counted.answered,
            span(counted.longest)
        )],
        next: "hanare region create results 4GiB --copies 2",
        facts: json!({ "answered": counted.answered, "lost": 0, "pause_seconds": counted.longest.as_secs_f64() }),
    })
}

impl Scene {
    fn show(&self) {
        for (index, line) in self.lines.iter().enumerate() {
            print::line(&format!("{:<7}{line}", if index == 0 { self.name } else { "" }));
        }
        print::line(&format!("{:<7}\x1b[2m> {}\x1b[0m", "", self.next));
    }
}

/// A program on the first node's host, and the numbers of all nodes.
fn attach(sockets: &[String]) -> Result<(Pool, Vec<NodeId>)> {
    let pool = Pool::attach_to(&sockets[0], None)?;
    let ids = sockets.iter().map(|socket| Ok(Pool::attach_to(socket, None)?.node())).collect::<Result<_>>()?;
    Ok((pool, ids))
}

fn placed(placement: Placement) -> CreateOptions {
    CreateOptions { placement, ..CreateOptions::default() }
}

/// Bytes that crossed between this host and others.
fn moved(traffic: Traffic) -> u64 {
    traffic.bytes_sent + traffic.bytes_received
}

/// A time as people read it.
fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 0.001 => format!("{:.0} us", s * 1e6),
        s if s < 0.1 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_the_unit_that_fits() {
        let told = [(250, "250 us"), (2_500, "2.5 ms"), (250_000, "0.25 s")];
        for (micros, text) in told {
            assert_eq!(span(Duration::from_micros(micros)), text);
        }
    }
}
