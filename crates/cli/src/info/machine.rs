//! The machine's processors and memory.

use crate::size;
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
    facts.push(("NUMA nodes", numa_nodes().to_string()));
    facts
}

/// The value of a `key : value` line.
fn field(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kilobytes(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok().map(|count| count << 10)
}

fn numa_nodes() -> usize {
    let is_node = |name: &str| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    let entries = std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count().max(1)
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
