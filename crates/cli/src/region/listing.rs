//! Regions as listings show them.

use crate::backing::ToldMemory;
use crate::look;
use crate::print::{self, Column};
use crate::queue_form;
use crate::size;
use crate::users;
use anyhow::Result;
use hanare::{Array, Queues};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::size::Size;
use hanare_protocol::tenant::is_tenant;
use hanare_protocol::wire::control::{PageRun, PageStat, RegionStat};
use serde_json::{Value, json};

/// Prints a line for each region.
pub fn list(regions: &[RegionStat], as_json: bool) -> Result<()> {
    if as_json {
        return print::json(&Value::Array(regions.iter().map(value).collect()));
    }
    use Column::{Number, Text};
    let columns =
        [Text("NAME"), Number("SIZE"), Text("PLACE"), Text("NODES"), Text("MODE"), Number("OWNER"), Text("STATE"), Text("ARRAY")];
    let rows = regions.iter().map(|region| {
        vec![
            region.name.clone(),
            size::show(region.len),
            size::show_placement(&region.placement),
            nodes(region),
            format!("{:04o}", region.mode),
            users::owner(region),
            state(region),
            array(region),
        ]
    });
    print::table(&columns, rows.collect());
    Ok(())
}

/// All about one region.
pub struct About<'a> {
    /// The region.
    pub region: &'a RegionStat,
    /// Its page counts on this host, if it shares the region.
    pub pages: Option<&'a PageStat>,
    /// Its pages that went to and fro between hosts.
    pub runs: &'a [PageRun],
    /// The queues that begin it.
    pub queues: Option<&'a Queues>,
    /// The memory of its nodes.
    pub memory: &'a [ToldMemory],
}

/// Prints all about one region.
pub fn describe(about: &About<'_>, as_json: bool) -> Result<()> {
    let About { region, pages, runs, queues, memory } = *about;
    if as_json {
        let mut value = value(region);
        value["pages"] = pages.map_or(Value::Null, page_value);
        value["to_and_fro"] = runs.iter().map(run_value).collect();
        value["memory"] = memory.iter().map(ToldMemory::value).collect();
        value["queues"] = queues.map_or(Value::Null, queue_form::as_value);
        return print::json(&value);
    }
    let lies = region.nodes.iter().map(|(node, bytes)| format!("{:#} on {node}", Size(*bytes))).collect::<Vec<_>>();
    for (key, text) in [
        ("name", region.name.clone()),
        ("gid", region.gid.0.to_string()),
        ("size", format!("{:#}", Size(region.len))),
        ("place", size::show_placement(&region.placement)),
        ("lies", lies.join(", ")),
        ("owner", format!("{} {}", if is_tenant(region.owner) { "tenant" } else { "user" }, users::owner(region))),
        ("mode", format!("{:04o}", region.mode)),
        ("state", state(region)),
    ] {
        print::line(&format!("{key:<6} {text}"));
    }
    match Array::of_region(&region.attributes, region.len) {
        Ok(None) => {}
        Ok(Some(array)) => print::line(&format!("{:<6} {array}", "array")),
        Err(error) => print::line(&format!("{:<6} {error}", "array")),
    }
    for (name, value) in region.attributes.iter() {
        print::line(&format!("{:<6} {name} = {}", "kept", value.escape_ascii()));
    }
    if let Some(queues) = queues {
        print::line(&format!("{:<6} {}", "queues", queue_form::in_words(queues)));
    }
    for told in memory {
        print::line(&format!("{:<6} {}: {}", "memory", told.node, told.in_words()));
    }
    for text in pages.into_iter().flat_map(page_lines).chain(runs.iter().map(look::in_words)) {
        print::line(&format!("{:<6} {text}", "pages"));
    }
    Ok(())
}

/// Page counts on this host, a line for each side of it.
fn page_lines(stat: &PageStat) -> Vec<String> {
    let mut lines =
        vec![format!("mapped {} by {} programs of this host, {} frames", stat.consistency, stat.programs, stat.frames)];
    lines.push(format!(
        "{} faults; {} fetched, {} of them ahead; {} upgraded; {} waited for others",
        stat.faults, stat.fetched, stat.prefetched, stat.upgraded, stat.waited
    ));
    lines.push(format!(
        "{} invalidated, {} passed on, {} recalled, {} evicted",
        stat.invalidated, stat.forwarded, stat.recalled, stat.evicted
    ));
    if stat.hosts > 0 {
        lines.push(format!("at home here for {} hosts", stat.hosts));
    }
    lines
}

fn page_value(stat: &PageStat) -> Value {
    json!({
        "consistency": stat.consistency.to_string(), "programs": stat.programs, "hosts": stat.hosts, "frames": stat.frames,
        "faults": stat.faults, "fetched": stat.fetched, "prefetched": stat.prefetched, "upgraded": stat.upgraded,
        "waited": stat.waited, "invalidated": stat.invalidated, "forwarded": stat.forwarded, "recalled": stat.recalled,
        "evicted": stat.evicted,
    })
}

/// Pages that went to and fro, as programs read it.
pub fn run_value(run: &PageRun) -> Value {
    let nodes: Vec<u32> = run.nodes.iter().map(|node| node.0).collect();
    json!({
        "offset": run.first.saturating_mul(PAGE_LEN), "bytes": run.count.saturating_mul(PAGE_LEN), "times": run.returns,
        "seconds": run.micros as f64 / 1e6, "nodes": nodes,
    })
}

/// The numbers of the nodes that hold bytes of it; a few by name, many by count.
pub fn nodes(region: &RegionStat) -> String {
    match region.nodes.len() {
        0..=8 => region.nodes.iter().map(|(node, _)| node.0.to_string()).collect::<Vec<_>>().join(","),
        count => format!("{count} nodes"),
    }
}

fn state(region: &RegionStat) -> String {
    match region.lost {
        Some(node) => format!("lost with {node}"),
        None if region.copies > 1 => format!("{} of {} copies", region.whole_copies, region.copies),
        None => "whole".to_owned(),
    }
}

/// The array that it holds, as `<f8 1024x3`; `?` where its attributes make none.
fn array(region: &RegionStat) -> String {
    match Array::of_region(&region.attributes, region.len) {
        Ok(array) => array.map_or_else(String::new, |array| array.to_string()),
        Err(_) => "?".to_owned(),
    }
}

fn value(region: &RegionStat) -> Value {
    // Text as it is; other bytes as C writes them.
    let text = |value: &[u8]| match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.escape_ascii().to_string(),
    };
    let attributes = region.attributes.iter().map(|(name, value)| (name.to_owned(), Value::String(text(value))));
    let nodes = region.nodes.iter().map(|(node, bytes)| json!({ "node": node.0, "bytes": bytes }));
    json!({
        "name": region.name, "gid": region.gid.0, "size": region.len, "place": region.placement.to_string(),
        "nodes": nodes.collect::<Vec<_>>(), "owner": region.owner, "mode": format!("{:04o}", region.mode),
        "copies": region.copies, "whole_copies": region.whole_copies,
        "lost": region.lost.map(|node| node.0), "attributes": attributes.collect::<serde_json::Map<_, _>>(),
    })
}
