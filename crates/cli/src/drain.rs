//! `hanare node drain`: what a node holds moves to other nodes while programs use it.

use crate::{print, size};
use anyhow::{Result, bail};
use clap::Args;
use hanare::{DrainStatus, DrainWish, NodeId, Pool};
use hanare_protocol::wire::control::{StayingRegion, WhyStays};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time between looks.
pub const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Time between lines about progress.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Time without any move until the command names all that cannot move.
const PATIENCE: Duration = Duration::from_secs(2);

/// The node and what is to be done.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Bytes move while programs use them: another node gets a copy first, so nothing is lost at any moment, and programs see no error. \
    Nothing new is placed on the node. Ctrl-C ends this command alone, and bytes go on moving; --stop ends that. It ends with status 1, and \
    names each region, where something cannot move."
)]
pub struct Options {
    /// The node's number, as `hanare status` shows it.
    pub number: u32,
    /// The only nodes that get what it holds [default: any, other hosts first].
    #[arg(long, value_name = "N,M", value_delimiter = ',', conflicts_with = "stop")]
    pub to: Vec<u32>,
    /// End it: what has not moved stays, and the node gets new regions again.
    #[arg(long)]
    pub stop: bool,
    /// Do not wait for the end.
    #[arg(long, conflicts_with = "stop")]
    pub no_wait: bool,
    /// Print JSON at the end.
    #[arg(long)]
    pub json: bool,
}

/// Does what was asked.
pub fn run(options: &Options) -> Result<i32> {
    let (pool, node) = (Pool::attach_alone()?, NodeId(options.number));
    if options.stop {
        let status = pool.drain(node, &DrainWish::Stop)?;
        tell(options, &status, &format!("{node} is not drained any more; {} of regions are on it", size::show(status.left)))?;
        return Ok(0);
    }
    let status = pool.drain(node, &DrainWish::Begin { to: options.to.iter().copied().map(NodeId).collect() })?;
    let pause = || {
        std::thread::sleep(LOOK_EVERY);
        true
    };
    let status = if options.no_wait { status } else { wait(&pool, node, status, pause)? };
    if status.left == 0 {
        let what = match status.has_coordinator {
            true => {
                "holds no region. The coordinator is on it: where there are keepers another one follows it, else the pool ends with it"
            }
            false => "holds nothing: its process may end",
        };
        tell(options, &status, &format!("{node} {what}"))?;
        return Ok(0);
    }
    tell(options, &status, &format!("{} of regions are still on {node}", size::show(status.left)))?;
    if !options.json {
        status.stays.iter().for_each(|region| print::line(&in_words(region)));
    }
    Ok(if options.no_wait { 0 } else { 1 })
}

/// Lines about bytes that move, one a second.
pub struct MoveLines {
    begin: String,
    all: u64,
    began: Instant,
    next: Instant,
}

impl MoveLines {
    /// All that moves, in bytes. Each line begins with that text.
    pub fn new(begin: String, all: u64) -> MoveLines {
        let began = Instant::now();
        MoveLines { begin, all, began, next: began + LINE_EVERY }
    }

    /// Writes the next line if it is due: `left` bytes have not moved.
    pub fn tell(&mut self, left: u64) {
        if Instant::now() < self.next {
            return;
        }
        let done = self.all.saturating_sub(left);
        let rate = (done as f64 / self.began.elapsed().as_secs_f64().max(1e-9)) as u64;
        eprintln!("{}{} of {} moved, {}/s", self.begin, size::show(done), size::show(self.all), size::show(rate));
        self.next += LINE_EVERY;
    }
}

/// Waits until the node holds nothing, or what it holds cannot move, or `goes_on` says no. That waits between looks.
fn wait(pool: &Pool, node: NodeId, first: DrainStatus, mut goes_on: impl FnMut() -> bool) -> Result<DrainStatus> {
    let mut lines = MoveLines::new(format!("{node}: "), first.left);
    let (mut status, mut moved) = (first, Instant::now());
    while status.left > 0 && goes_on() {
        let next = pool.drain(node, &DrainWish::Look)?;
        if !next.drains {
            bail!("the drain of {node} was ended; {} are still on it", size::show(next.left));
        }
        if (next.left, next.extents) != (status.left, status.extents) {
            moved = Instant::now();
        }
        status = next;
        let staying = status.stays.iter().map(|region| region.len).fold(0, u64::saturating_add);
        if staying >= status.left && moved.elapsed() >= PATIENCE {
            break;
        }
        lines.tell(status.left);
    }
    Ok(status)
}

/// Moves what a node of this host holds to other nodes, before it ends. `is_over` waits, and says whether the node is to end at once.
///
/// **Errors**: those of a drain; an error in words where something stays on the node.
pub fn before_end(socket: &str, limit: Duration, mut is_over: impl FnMut(Duration) -> bool) -> Result<()> {
    let pool = Pool::attach_as(socket, None, None)?;
    let (node, until) = (pool.node(), Instant::now() + limit);
    let begun = pool.drain(node, &DrainWish::Begin { to: BTreeSet::new() })?;
    let status = wait(&pool, node, begun, || Instant::now() < until && !is_over(LOOK_EVERY))?;
    status.stays.iter().for_each(|region| eprintln!("{}", in_words(region)));
    match status.left {
        0 => Ok(()),
        left => bail!("{} of regions have not moved", size::show(left)),
    }
}

fn tell(options: &Options, status: &DrainStatus, line: &str) -> Result<()> {
    if !options.json {
        print::line(line);
        return Ok(());
    }
    let stays: Vec<Value> = status.stays.iter().map(staying_value).collect();
    print::json(&json!({
        "node": options.number, "drains": status.drains, "left": status.left, "extents": status.extents,
        "has_coordinator": status.has_coordinator, "stays": stays,
    }))
}

/// A region that stays, for programs.
pub fn staying_value(region: &StayingRegion) -> Value {
    json!({ "region": region.name, "bytes": region.len, "why": why(&region.why) })
}

/// A reason as a word, for programs.
pub fn why(why: &WhyStays) -> &str {
    match why {
        WhyStays::NotReady(reason) => reason,
        WhyStays::Lost => "lost",
        WhyStays::NoRoom => "no room",
        WhyStays::Locks => "locks",
    }
}

/// A region that stays, for people.
pub fn in_words(StayingRegion { name, len, why }: &StayingRegion) -> String {
    format!("{name}: {} stay. It {}", size::show(*len), reason(why))
}

/// A reason in words that go on with the region.
pub fn reason(why: &WhyStays) -> String {
    match why {
        WhyStays::NotReady(reason) => format!("does not move now: {reason}"),
        WhyStays::Lost => "has lost bytes: remove it".to_owned(),
        WhyStays::NoRoom => "has no other node with room: add a node, or make room".to_owned(),
        WhyStays::Locks => "goes when no program has a lock or a group at its bytes; `hanare top` shows who has".to_owned(),
    }
}
