//! `hanare status`: the pool's nodes and what they lend.

use crate::drain;
use crate::print::{self, Column};
use crate::size;
use anyhow::{Result, bail};
use hanare::Pool;
use hanare_protocol::wire::control::{NodeStatus, OwnStatus, PoolStatus};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Time for a coordinator that this node believes to be there, before the node's own knowledge is shown.
const PATIENCE: Duration = Duration::from_secs(2);

/// Begin of a watched status on a terminal: to the corner, and nothing below.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints the status of the pool that this host's node belongs to: once, or every so many seconds until it is ended.
///
/// While it is watched, a pool that does not answer is no end: a line says so, and it is asked again.
pub fn run(as_json: bool, every: Option<u64>) -> Result<()> {
    let Some(seconds) = every else { return show(as_json) };
    loop {
        if !as_json {
            print::text(if std::io::stdout().is_terminal() { CLEAR } else { "\n" });
        }
        if let Err(error) = show(as_json) {
            match as_json {
                true => print::json(&json!({ "error": format!("{error:#}") }))?,
                false => print::line(&format!("{error:#}")),
            }
        }
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

/// **Errors**: those of the pool; one that names the coordinator where it is away, after what this node knows.
fn show(as_json: bool) -> Result<()> {
    let pool = Pool::attach_alone()?;
    let own = pool.own_status()?;
    let is_root = pool.user().uid == 0;
    let status = match own.own.alive {
        true => within(PATIENCE, move || pool.status()),
        false => None,
    };
    match status {
        Some(status) if as_json => print::json(&value(&status?)),
        Some(status) => {
            let status = status?;
            show_nodes(status.nodes.iter().map(row));
            print::line(&format!("\n{}", summary(&status)));
            status.nodes.iter().for_each(show_shortage);
            if !own.keepers.is_empty() {
                let (count, coordinator) = (own.keepers.len(), own.coordinator.node);
                print::line(&format!(
                    "{count} keepers hold the pool's names (`hanare keeper ls`); {coordinator} is the coordinator"
                ));
            }
            Ok(())
        }
        None => show_own(&own, (own.regions > 0 || is_root).then_some(own.regions), as_json),
    }
}

/// Result of a call, if it returns in time; a thread waits for the rest.
fn within<T: Send + 'static>(bound: Duration, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, outcome) = channel();
    let _waits = std::thread::Builder::new().name("status".to_owned()).spawn(move || sender.send(call()));
    outcome.recv_timeout(bound).ok()
}

/// The own node's knowledge while the coordinator is away: itself, and the coordinator's address. Only operators are told the number of regions.
fn show_own(status: &OwnStatus, regions: Option<u64>, as_json: bool) -> Result<()> {
    let OwnStatus { own, coordinator, .. } = status;
    if as_json {
        let away = json!({ "node": coordinator.node.0, "address": coordinator.address });
        print::json(&json!({ "coordinator_away": away, "regions_here": regions, "nodes": [node_value(own)] }))?;
    } else {
        let away = [coordinator.node.0.to_string(), "?".to_owned(), coordinator.address.clone(), "away".to_owned()];
        let unknown = || std::iter::repeat_n("?".to_owned(), COLUMNS.len() - away.len());
        let mut own = row(own);
        own[3] = "here".to_owned();
        show_nodes([away.iter().cloned().chain(unknown()).collect(), own].into_iter());
    }
    let held = match regions {
        None => String::new(),
        Some(1) => ", and 1 region has bytes on it".to_owned(),
        Some(regions) => format!(", and {regions} regions have bytes on it"),
    };
    bail!(
        "the coordinator ({} at {}) does not answer; this is what {} knows{held}. Open regions stay usable; names and new regions wait for the \
         coordinator",
        coordinator.node,
        coordinator.address,
        status.own.node
    )
}

fn row(node: &NodeStatus) -> Vec<String> {
    vec![
        node.node.0.to_string(),
        node.name.clone(),
        node.address.clone(),
        match (node.alive, node.drains) {
            (true, true) => "drains",
            (true, false) if node.memory.withheld() > 0 => "gives back",
            (true, false) => "alive",
            (false, _) => "lost",
        }
        .to_owned(),
        size::show(node.memory.lent),
        size::show(node.memory.populated),
        size::show(node.memory.used),
        size::show(node.memory.page),
        node.memory.clients.to_string(),
        if node.alive { node.memory.versions.newest.to_string() } else { "?".to_owned() },
    ]
}

const COLUMNS: [Column; 10] = [
    Column::Number("NODE"),
    Column::Text("NAME"),
    Column::Text("ADDRESS"),
    Column::Text("STATE"),
    Column::Number("LENT"),
    Column::Number("POPULATED"),
    Column::Number("USED"),
    Column::Number("PAGE"),
    Column::Number("CLIENTS"),
    Column::Number("WIRE"),
];

fn show_nodes(rows: impl Iterator<Item = Vec<String>>) {
    print::table(&COLUMNS, rows.collect());
}

fn summary(status: &PoolStatus) -> String {
    let alive = status.nodes.iter().filter(|node| node.alive);
    let free: u64 = alive.clone().map(|node| node.memory.lent.saturating_sub(node.memory.used)).sum();
    let plural = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let plain: Vec<String> = alive.clone().filter(|node| node.memory.is_plain).map(|node| node.node.0.to_string()).collect();
    let plain = match plain.is_empty() {
        true => String::new(),
        false => format!("; not sealed (--plain): node {}", plain.join(", ")),
    };
    format!("{}, {}, {} free{plain}", plural(alive.count() as u64, "node"), plural(status.regions, "region"), size::show(free))
}

/// Tells of a node that lends less because its host runs short of memory.
fn show_shortage(node: &NodeStatus) {
    let NodeStatus { node: number, memory, leaving, stays, .. } = node;
    if !node.alive || memory.withheld() == 0 {
        return;
    }
    let (lent, most) = (size::show(memory.lent), size::show(memory.lent_max));
    let leaves = if *leaving == 0 { String::new() } else { format!("; {} of regions are to leave", size::show(*leaving)) };
    print::line(&format!("{number}: its host runs short of memory, so {lent} of {most} are lent{leaves}"));
    stays.iter().for_each(|region| print::line(&drain::in_words(region)));
}

fn value(status: &PoolStatus) -> Value {
    json!({ "regions": status.regions, "nodes": status.nodes.iter().map(node_value).collect::<Vec<_>>() })
}

fn node_value(node: &NodeStatus) -> Value {
    json!({
        "node": node.node.0, "name": node.name, "address": node.address, "epoch": node.epoch.0, "alive": node.alive, "drains": node.drains,
        "lent": node.memory.lent, "lent_max": node.memory.lent_max, "gives_back": node.memory.withheld() > 0,
        "given_back": node.memory.given_back, "leaving": node.leaving,
        "stays": node.stays.iter().map(drain::staying_value).collect::<Vec<_>>(), "populated": node.memory.populated, "used": node.memory.used,
        "page": node.memory.page, "clients": node.memory.clients, "plain": node.memory.is_plain,
        "wire": node.alive.then_some(node.memory.versions.newest),
    })
}
