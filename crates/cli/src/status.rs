//! `hanare status`: the pool's nodes and what they lend.

use crate::print::{self, Column};
use crate::size;
use anyhow::Result;
use hanare::Pool;
use hanare_protocol::wire::control::PoolStatus;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::time::Duration;

/// How a watched status begins anew on a terminal: to the corner, and nothing below.
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

fn show(as_json: bool) -> Result<()> {
    let status = Pool::attach_alone()?.status()?;
    if as_json {
        return print::json(&value(&status));
    }
    let rows = status.nodes.iter().map(|node| {
        vec![
            node.node.0.to_string(),
            node.name.clone(),
            node.address.clone(),
            if node.alive { "alive" } else { "lost" }.to_owned(),
            size::show(node.memory.lent),
            size::show(node.memory.populated),
            size::show(node.memory.used),
            size::show(node.memory.page),
            node.memory.clients.to_string(),
        ]
    });
    use Column::{Number, Text};
    let columns = [
        Number("NODE"),
        Text("NAME"),
        Text("ADDRESS"),
        Text("STATE"),
        Number("LENT"),
        Number("POPULATED"),
        Number("USED"),
        Number("PAGE"),
        Number("CLIENTS"),
    ];
    print::table(&columns, rows.collect());
    print::line(&format!("\n{}", summary(&status)));
    Ok(())
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

fn value(status: &PoolStatus) -> Value {
    let nodes = status.nodes.iter().map(|node| {
        json!({
            "node": node.node.0, "name": node.name, "address": node.address, "epoch": node.epoch.0, "alive": node.alive,
            "lent": node.memory.lent, "populated": node.memory.populated, "used": node.memory.used,
            "page": node.memory.page, "clients": node.memory.clients, "plain": node.memory.is_plain,
        })
    });
    json!({ "regions": status.regions, "nodes": nodes.collect::<Vec<_>>() })
}
