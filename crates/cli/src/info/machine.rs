//! The machine's processors and memory.

use crate::size;
use hanare_protocol::numa::NumaNode;
use serde_json::{Value, json};
use std::fs::read_to_string;

/// Names and values, in the order of a listing.
pub fn facts() -> Vec<(&'static str, String)> {
    let system = rustix::system::uname();
    let mut facts = vec![
        ("host", system.nodename().to_string_lossy().into_owned()),
        ("kernel", format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy())),
        ("processors", std::thread::available_parallelism().map_or(1, usize::from).to_string()),
    ];
    if let Some(model) = read_to_string("/proc/cpuinfo").ok().and_then(|text| field(&text, "model name")) {
        facts.push(("processor", model));
    }
    let memory = read_to_string("/proc/meminfo").unwrap_or_default();
    for (name, key) in [("memory", "MemTotal"), ("memory available", "MemAvailable"), ("memory shared", "Shmem")] {
        if let Some(bytes) = field(&memory, key).and_then(|text| kilobytes(&text)) {
            facts.push((name, size::show(bytes)));
        }
    }
    facts.push(("memory that a node could lend", super::kernel::lendable()));
    facts.push(("NUMA nodes", hanare::numa_topology().nodes.len().max(1).to_string()));
    facts
}

/// The NUMA nodes, in the order of a listing.
pub fn numa_rows() -> Vec<Vec<String>> {
    hanare::numa_topology().nodes.iter().map(|node| vec![format!("NUMA node {}", node.number), numa_in_words(node)]).collect()
}

/// `8 processors, 64GiB, 60GiB free, distances 10 21`.
fn numa_in_words(node: &NumaNode) -> String {
    let NumaNode { processors, total, free, .. } = node;
    let distances = node.distances.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let processors = if *processors == 0 { "no processors".to_owned() } else { format!("{processors} processors") };
    match total {
        0 => format!("{processors}, no memory, distances {distances}"),
        _ => format!("{processors}, {}, {} free, distances {distances}", size::show(*total), size::show(*free)),
    }
}

/// The NUMA nodes, for programs.
pub fn numa_values() -> Value {
    let value = |node: &NumaNode| {
        let NumaNode { number, processors, total, free, distances } = node;
        json!({ "number": number, "processors": processors, "bytes": total, "free": free, "distances": distances })
    };
    hanare::numa_topology().nodes.iter().map(value).collect()
}

/// The value of a `key : value` line.
fn field(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kilobytes(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok().map(|count| count << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "MemTotalX:  1 kB\nMemTotal:       24 kB\n";
        assert_eq!(field(text, "MemTotal").and_then(|text| kilobytes(&text)), Some(24 << 10));
        assert_eq!(field(text, "Mem"), None);
    }
}
