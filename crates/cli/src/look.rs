//! The nodes' reports to a viewer, and pages that went to and fro, in words.

use hanare::{FaceCounts, NodeStatus, PageRun, Pool, Region, RegionStat, Rights, Seen};
use hanare_protocol::limits::LOOK_COUNT_MAX;

/// Reports of all nodes, in their order; nothing where one is away or does not reply within its bound.
pub fn at_nodes(pool: &Pool, nodes: &[NodeStatus], regions: &[&Region], cells: u32) -> Vec<Option<Seen>> {
    ask_all(nodes, |node| pool.look(node, regions, cells).ok())
}

/// Counts by face of all nodes, in their order, as for [`at_nodes`]. A node of an earlier version replies that it does not tell.
pub fn faces_at_nodes(pool: &Pool, nodes: &[NodeStatus]) -> Vec<Option<Option<FaceCounts>>> {
    ask_all(nodes, |node| pool.face_counts(node).ok())
}

/// Asks all nodes together, because one that does not answer would hold up those behind it.
fn ask_all<T: Send>(nodes: &[NodeStatus], ask: impl Fn(&NodeStatus) -> Option<T> + Sync) -> Vec<Option<T>> {
    let ask = |node: &NodeStatus| if node.alive { ask(node) } else { None };
    std::thread::scope(|scope| {
        let threads: Vec<_> = nodes.iter().map(|node| scope.spawn(move || ask(node))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// Regions that this user may read, opened for that: as many as one look tells of.
pub fn open(pool: &Pool, regions: &[RegionStat]) -> Vec<Region> {
    let open = |region: &RegionStat| pool.open_gid(region.gid, Some(Rights::Read)).ok();
    regions.iter().filter(|region| region.lost.is_none()).filter_map(open).take(LOOK_COUNT_MAX).collect()
}

/// `page 12`, or `pages 12-90`.
pub fn pages(run: &PageRun) -> String {
    match run.count {
        0 | 1 => format!("page {}", run.first),
        count => format!("pages {}-{}", run.first, run.first.saturating_add(count - 1)),
    }
}

/// A number with its thousands apart: `40,000`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = digits[..first].to_owned();
    for at in (first..digits.len()).step_by(3) {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&digits[at..at + 3]);
    }
    text
}

/// `once`, or `40,000 times`.
pub fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", grouped(count)) }
}

/// A time in seconds, as long as it is worth it: `3 s`, `0.25 s`.
pub fn seconds(micros: u64) -> String {
    let seconds = micros as f64 / 1e6;
    match seconds {
        _ if seconds >= 10.0 => format!("{seconds:.0} s"),
        _ if seconds >= 1.0 => format!("{seconds:.1} s"),
        _ => format!("{seconds:.2} s"),
    }
}

/// `node 1`, `nodes 1 and 2`, `nodes 0, 1 and 2`.
pub fn named(what: &str, numbers: &[u32]) -> String {
    let text = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match numbers {
        [] => format!("{what}s that are not known"),
        [one] => format!("{what} {one}"),
        [first @ .., last] => format!("{what}s {} and {last}", text(first)),
    }
}

/// A run with everything that is known of it.
pub fn in_words(run: &PageRun) -> String {
    let nodes: Vec<u32> = run.nodes.iter().map(|node| node.0).collect();
    format!(
        "{} went to and fro {} between {}, {} under way",
        pages(run),
        times(run.returns),
        named("node", &nodes),
        seconds(run.micros)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare::NodeId;

    #[test]
    fn a_run_is_told_in_words() {
        let run = |first, count, returns| PageRun { first, count, returns, micros: 3_100_000, nodes: vec![NodeId(1), NodeId(2)] };
        assert_eq!(
            in_words(&run(12, 79, 40_000)),
            "pages 12-90 went to and fro 40,000 times between nodes 1 and 2, 3.1 s under way"
        );
        assert_eq!(in_words(&run(0, 1, 1)), "page 0 went to and fro once between nodes 1 and 2, 3.1 s under way");
    }

    #[test]
    fn numbers_are_grouped_and_times_rounded() {
        assert_eq!([0, 7, 999, 1000, 1_234_567].map(grouped), ["0", "7", "999", "1,000", "1,234,567"]);
        assert_eq!([250_000, 3_140_000, 12_600_000].map(seconds), ["0.25 s", "3.1 s", "13 s"]);
        assert_eq!(named("rank", &[]), "ranks that are not known");
        assert_eq!(named("rank", &[4]), "rank 4");
        assert_eq!(named("rank", &[0, 1, 5]), "ranks 0, 1 and 5");
    }
}
