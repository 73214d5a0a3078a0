//! `hanare rebalance`: the pool's bytes lie on all its nodes again, in parts of what each lends.

use crate::drain::{self, LOOK_EVERY, MoveLines};
use crate::print::{self, Column};
use crate::size;
use anyhow::Result;
use clap::Args;
use hanare::{ExtentMove, FailedMove, Pool, RebalanceStatus, RebalanceWish};
use serde_json::{Value, json};

/// Moves that are listed; `--json` has all.
const LINE_COUNT: usize = 40;

const COLUMNS: [Column; 4] = [Column::Text("REGION"), Column::Number("SIZE"), Column::Number("FROM"), Column::Number("TO")];

/// Options of the command.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Extents move from nodes that are fuller than the pool to those that are emptier, until their parts differ by less than a twentieth of a \
    node. Bytes move while programs use them: the other node gets a copy first. Regions whose placement names nodes stay, and so do those of placement \
    local unless --local is given. An extent moves whole, so a pool with few large ones is not spread evenly. Ctrl-C ends this command alone, and bytes \
    go on moving; --stop ends that."
)]
pub struct Options {
    /// Say what would move, and move nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Move regions of placement local, too: programs of their hosts reach them by their nodes from then on.
    #[arg(long, conflicts_with = "stop")]
    pub local: bool,
    /// End it: what has not moved stays.
    #[arg(long, conflicts_with = "dry_run")]
    pub stop: bool,
    /// Do not wait for the end.
    #[arg(long, conflicts_with_all = ["stop", "dry_run"])]
    pub no_wait: bool,
    /// Print JSON at the end.
    #[arg(long)]
    pub json: bool,
}

/// Does what was asked.
pub fn run(options: &Options) -> Result<i32> {
    let (pool, with_local) = (Pool::attach_alone()?, options.local);
    if options.stop {
        let status = pool.rebalance(RebalanceWish::Stop)?;
        tell(options, &status, 0, "bytes move no more")?;
        return Ok(0);
    }
    let planned = pool.rebalance(RebalanceWish::Look { with_local })?;
    if !options.json {
        list(&planned);
    }
    if options.dry_run {
        tell(options, &planned, 0, &bound(&planned, options))?;
        return Ok(0);
    }
    let begun = pool.rebalance(RebalanceWish::Begin { with_local })?;
    if options.no_wait {
        tell(options, &begun, 0, &bound(&begun, options))?;
        return Ok(0);
    }
    let all = begun.left;
    let end = if begun.is_under_way { wait(&pool, begun)? } else { begun };
    let failed = end.failed.iter().map(|failed| failed.what.len).fold(0, u64::saturating_add);
    let moved = all.saturating_sub(failed);
    if !options.json {
        end.failed.iter().take(LINE_COUNT).for_each(|failed| print::line(&in_words(failed)));
    }
    tell(options, &end, moved, &format!("{} moved. {}", size::show(moved), bound(&end, options)))?;
    Ok(if end.failed.is_empty() { 0 } else { 1 })
}

/// Waits until nothing moves any more.
fn wait(pool: &Pool, begun: RebalanceStatus) -> Result<RebalanceStatus> {
    let mut lines = MoveLines::new(String::new(), begun.left);
    loop {
        std::thread::sleep(LOOK_EVERY);
        let status = pool.rebalance(RebalanceWish::Look { with_local: false })?;
        if !status.is_under_way {
            return Ok(status);
        }
        lines.tell(status.left);
    }
}

fn list(status: &RebalanceStatus) {
    if status.moves.is_empty() {
        print::line("nothing is to be moved: no extent would bring the nodes nearer to equal parts");
        return;
    }
    let row = |next: &ExtentMove| vec![next.region.clone(), size::show(next.len), next.from.0.to_string(), next.to.0.to_string()];
    print::table(&COLUMNS, status.moves.iter().take(LINE_COUNT).map(row).collect());
    let (count, more) = (status.moves.len(), status.moves.len().saturating_sub(LINE_COUNT));
    let others = if more > 0 { format!(", {more} of them not listed") } else { String::new() };
    print::line(&format!("{count} moves, {}{others}", size::show(status.left)));
}

/// A word about what stays.
fn bound(status: &RebalanceStatus, options: &Options) -> String {
    match (status.bound, options.local) {
        (0, _) => "No region is bound to a node.".to_owned(),
        (bytes, true) => format!("{} stay where their placement says.", size::show(bytes)),
        (bytes, false) => {
            format!("{} stay where their placement says; --local moves those of placement local, too.", size::show(bytes))
        }
    }
}

fn in_words(FailedMove { what, why }: &FailedMove) -> String {
    let ExtentMove { region, from, len, .. } = what;
    format!("{region}: {} stay on {from}. It {}", size::show(*len), drain::reason(why))
}

fn tell(options: &Options, status: &RebalanceStatus, moved: u64, line: &str) -> Result<()> {
    if !options.json {
        print::line(line);
        return Ok(());
    }
    let failed = status.failed.iter().map(|failed| {
        let mut value = value(&failed.what);
        value["why"] = drain::why(&failed.why).into();
        value
    });
    print::json(&json!({
        "moves": status.moves.iter().map(value).collect::<Vec<_>>(), "is_under_way": status.is_under_way, "left": status.left,
        "moved": moved, "bound": status.bound, "failed": failed.collect::<Vec<_>>(),
    }))
}

fn value(next: &ExtentMove) -> Value {
    json!({ "region": next.region, "from": next.from.0, "to": next.to.0, "bytes": next.len })
}
