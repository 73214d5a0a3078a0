//! The table at the end of a job that failed: how each rank and each lost node ended, and where, the first cause on top.
//!
//! Ranks that ended alike share a row, so 64 ranks take a few lines.

use super::children::End;
use hanare_protocol::id::Rank;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::Instant;

/// Widths of the columns, two spaces between them: 79 characters in all.
const WIDTHS: [usize; 4] = [20, 8, 15, 30];
const TITLES: [&str; 4] = ["WHO", "NODE", "HOST", "HOW IT ENDED"];

/// Location of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankLocation {
    /// The number of the node that it was attached to, where that is known.
    pub node: Option<u32>,
    /// The host's name.
    pub host: String,
}

/// A node that ended before it was told to.
#[derive(Clone, Debug)]
pub struct LostNode {
    /// Its number.
    pub number: u32,
    /// The host's name.
    pub host: String,
    /// Manner of the end.
    pub end: End,
    /// When that was seen.
    pub at: Instant,
}

/// End of a rank.
#[derive(Clone, Copy, Debug)]
pub struct RankEnd {
    /// The rank.
    pub rank: Rank,
    /// How.
    pub end: End,
    /// When that was seen.
    pub at: Instant,
    /// The signal that the launcher had sent to all by then.
    pub told: Option<Signal>,
}

/// Content of the table.
pub struct Verdict {
    /// The rank that is blamed.
    pub blamed: Rank,
    /// When the first failure of a rank was seen.
    pub first_at: Instant,
    /// All ranks' ends.
    pub ranks: Vec<RankEnd>,
    /// The nodes that ended.
    pub nodes: Vec<LostNode>,
}

/// A row before it is laid out.
struct Row {
    ranks: BTreeSet<u32>,
    who: String,
    nodes: BTreeSet<u32>,
    hosts: BTreeSet<String>,
    how: String,
}

impl Verdict {
    /// The table, its title first; `place` tells where a rank ran.
    pub fn table(&self, place: impl Fn(Rank) -> RankLocation) -> String {
        let mut rows: Vec<Row> = Vec::new();
        // A node that was lost before any rank failed is the first cause.
        let (causes, later): (Vec<_>, Vec<_>) = self.nodes.iter().partition(|node| node.at <= self.first_at);
        rows.extend(causes.into_iter().map(node_row));
        let mut ends = self.ranks.clone();
        ends.sort_by_key(|end| (end.rank != self.blamed, end.end == End::Exited(0), end.told.is_some(), end.at, end.rank));
        for end in ends {
            let (how, place) = (self.how(&end), place(end.rank));
            let is_alike = |row: &&mut Row| !row.ranks.is_empty() && row.how == how;
            let row = match rows.iter_mut().find(is_alike) {
                Some(row) => row,
                None => {
                    let (who, ranks, nodes, hosts) = Default::default();
                    rows.push(Row { ranks, who, nodes, hosts, how });
                    rows.last_mut().expect("it was pushed")
                }
            };
            row.ranks.insert(end.rank.0);
            row.nodes.extend(place.node);
            row.hosts.insert(place.host);
        }
        rows.extend(later.into_iter().map(node_row));
        let lines = rows.iter().map(|row| line(row.cells().each_ref().map(String::as_str)));
        std::iter::once(line(TITLES)).chain(lines).collect::<Vec<_>>().join("\n")
    }

    /// End of a rank in a row's words.
    fn how(&self, end: &RankEnd) -> String {
        match (end.end, end.told) {
            _ if end.rank == self.blamed => end.end.to_string(),
            (End::Exited(0) | End::Lost | End::Aborted(_), _) => end.end.to_string(),
            (_, Some(_)) => format!("ended because of {}", self.blamed),
            (End::Exited(status), None) => format!("failed ({status}) after {}", self.blamed),
            (End::Killed(_), None) => end.end.to_string(),
        }
    }
}

impl Row {
    fn cells(&self) -> [String; 4] {
        let who = match self.ranks.len() {
            0 => self.who.clone(),
            1 => format!("rank {}", ranges(&self.ranks)),
            count => {
                let text = format!("ranks {}", ranges(&self.ranks));
                if text.len() <= WIDTHS[0] { text } else { format!("{count} ranks, from {}", self.ranks.first().expect("some")) }
            }
        };
        let nodes = match ranges(&self.nodes) {
            text if text.is_empty() => "-".to_owned(),
            text if text.len() <= WIDTHS[1] => text,
            _ => format!("{} nodes", self.nodes.len()),
        };
        let hosts = match self.hosts.iter().cloned().collect::<Vec<_>>().join(", ") {
            text if text.chars().count() <= WIDTHS[2] || self.hosts.len() == 1 => text,
            _ => format!("{} hosts", self.hosts.len()),
        };
        [who, nodes, hosts, self.how.clone()]
    }
}

fn node_row(node: &LostNode) -> Row {
    let (who, how) = (format!("node {}", node.number), node.end.to_string());
    let hosts = [node.host.clone()].into();
    Row { ranks: BTreeSet::new(), who, nodes: [node.number].into(), hosts, how }
}

/// Numbers as ranges: `0, 2-5`.
fn ranges(numbers: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let run = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

/// A line of the table; what is longer than its column is cut.
fn line(cells: [&str; 4]) -> String {
    let cut = |text: &str, width: usize| match text.chars().count() > width {
        true => text.chars().take(width - 3).chain("...".chars()).collect(),
        false => text.to_owned(),
    };
    let cells = cells.into_iter().zip(WIDTHS).map(|(text, width)| format!("{:<width$}", cut(text, width)));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn end(rank: u32, end: End, at: Instant, told: Option<Signal>) -> RankEnd {
        RankEnd { rank: Rank(rank), end, at, told }
    }

    #[test]
    fn the_first_cause_is_on_top_and_equals_share_a_row() {
        let begun = Instant::now();
        let later = |ms| begun + Duration::from_millis(ms);
        let mut ranks: Vec<RankEnd> = (0..64).map(|rank| end(rank, End::Killed(15), later(600), Some(Signal::TERM))).collect();
        ranks[1] = end(1, End::Killed(11), later(5), None);
        ranks[2] = end(2, End::Exited(1), later(3), None);
        ranks[7] = end(7, End::Exited(0), later(1), None);
        let node = LostNode { number: 3, host: "delta".to_owned(), end: End::Killed(9), at: later(700) };
        let verdict = Verdict { blamed: Rank(1), first_at: later(3), ranks, nodes: vec![node] };
        let hosts = ["alpha", "beta", "gamma", "delta"];
        let place = |rank: Rank| RankLocation { node: Some(rank.0 % 4), host: hosts[rank.0 as usize % 4].to_owned() };
        let text = verdict.table(place);
        assert_eq!(
            text,
            "\
WHO                   NODE      HOST             HOW IT ENDED
rank 1                1         beta             signal 11, SIGSEGV
rank 2                2         gamma            failed (1) after rank 1
ranks 0, 3-6, 8-63    0-3       4 hosts          ended because of rank 1
rank 7                3         delta            exit status 0
node 3                3         delta            signal 9, SIGKILL"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn a_node_that_was_lost_before_is_the_first_cause_and_long_names_are_cut() {
        let begun = Instant::now();
        let lost =
            LostNode { number: 0, host: "a-host-with-a-very-long-name.example.org".to_owned(), end: End::Killed(9), at: begun };
        let ranks = (0..40).map(|rank| end(rank * 2, End::Exited(1), begun, None)).collect();
        let verdict = Verdict { blamed: Rank(4), first_at: begun, ranks, nodes: vec![lost] };
        let text = verdict.table(|_| RankLocation { node: None, host: "b".to_owned() });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "node 0                0         a-host-with-...  signal 9, SIGKILL");
        assert_eq!(lines[2], "rank 4                -         b                exit status 1");
        assert_eq!(lines[3], "39 ranks, from 0      -         b                failed (1) after rank 4");
        assert_eq!(lines.len(), 4);
    }
}
