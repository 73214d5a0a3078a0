//! Regions as listings show them.

use crate::print::{self, Column};
use crate::size;
use anyhow::Result;
use hanare_protocol::wire::control::RegionStat;
use serde_json::{Value, json};

/// Prints a line for each region.
pub fn list(regions: &[RegionStat], as_json: bool) -> Result<()> {
    if as_json {
        return print::json(&Value::Array(regions.iter().map(value).collect()));
    }
    use Column::{Number, Text};
    let columns = [Text("NAME"), Number("SIZE"), Text("PLACE"), Text("NODES"), Text("MODE"), Number("OWNER"), Text("STATE")];
    let rows = regions.iter().map(|region| {
        vec![
            region.name.clone(),
            size::show(region.len),
            size::show_placement(&region.placement),
            nodes(region),
            format!("{:04o}", region.mode),
            region.owner.to_string(),
            state(region),
        ]
    });
    print::table(&columns, rows.collect());
    Ok(())
}

/// Prints all about one region.
pub fn describe(region: &RegionStat, as_json: bool) -> Result<()> {
    if as_json {
        return print::json(&value(region));
    }
    let lies = region.nodes.iter().map(|(node, bytes)| format!("{bytes} bytes on {node}")).collect::<Vec<_>>();
    for (key, text) in [
        ("name", region.name.clone()),
        ("gid", region.gid.0.to_string()),
        ("size", format!("{} bytes ({})", region.len, size::show(region.len))),
        ("place", size::show_placement(&region.placement)),
        ("lies", lies.join(", ")),
        ("owner", format!("user {}", region.owner)),
        ("mode", format!("{:04o}", region.mode)),
        ("state", state(region)),
    ] {
        print::line(&format!("{key:<6} {text}"));
    }
    Ok(())
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
        None => "whole".to_owned(),
    }
}

fn value(region: &RegionStat) -> Value {
    let nodes = region.nodes.iter().map(|(node, bytes)| json!({ "node": node.0, "bytes": bytes }));
    json!({
        "name": region.name, "gid": region.gid.0, "size": region.len, "place": region.placement.to_string(),
        "nodes": nodes.collect::<Vec<_>>(), "owner": region.owner, "mode": format!("{:04o}", region.mode),
        "lost": region.lost.map(|node| node.0),
    })
}
