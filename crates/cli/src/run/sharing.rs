//! The line at the end of a job whose hosts took pages from each other: which pages, how often, and what it cost.

use crate::look;
use hanare::{PageRun, Pool};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Fewest returns of pages that are worth a line: below, a program that shares what it means to share is not told so.
const RETURNS_MIN: u64 = 1_000;

/// Shortest time under way that is worth a line, in microseconds.
const MICROS_MIN: u64 = 100_000;

/// A region's name and pages of it that went to and fro.
type NamedRun = (String, PageRun);

/// Counts of the pool before the job.
pub struct Sharing {
    /// The sockets of the nodes, on which the ranks are placed round robin.
    sockets: Vec<String>,
    before: BTreeSet<NamedRun>,
    began: Instant,
}

impl Sharing {
    /// Notes what has happened so far in a pool that may be older than the job.
    pub fn before(sockets: &[String], is_old: bool) -> Sharing {
        let before = if is_old { runs(&sockets[0]).into_iter().collect() } else { BTreeSet::new() };
        Sharing { sockets: sockets.to_vec(), before, began: Instant::now() }
    }

    /// Tells of the pages that went to and fro most, if that is worth a line.
    pub fn tell(&self, ranks: u32) {
        let new = runs(&self.sockets[0]).into_iter().filter(|run| !self.before.contains(run));
        let worth = new.filter(|(_, run)| run.returns >= RETURNS_MIN && run.micros >= MICROS_MIN);
        if let Some((name, run)) = worth.max_by_key(|(_, run)| run.micros) {
            eprintln!("hanare: {}", line(&name, &within(&run, self.began.elapsed()), &self.ranks_of(&run, ranks)));
        }
    }

    /// The ranks on the nodes of a run.
    fn ranks_of(&self, run: &PageRun, ranks: u32) -> Vec<u32> {
        // The launch's own nodes have its numbers; one that was there before is the only one.
        let is_alone = self.sockets.len() == 1;
        let is_there = |rank: &u32| is_alone || run.nodes.iter().any(|node| node.0 == *rank % self.sockets.len() as u32);
        (0..ranks).filter(is_there).collect()
    }
}

/// All pages of the pool that went to and fro, as far as its nodes tell this user.
fn runs(socket: &str) -> Vec<NamedRun> {
    let Ok(pool) = Pool::attach_to(socket, None) else { return Vec::new() };
    let Ok(status) = pool.status() else { return Vec::new() };
    let regions = look::open(&pool, &pool.list().unwrap_or_default());
    let seen = look::at_nodes(&pool, &status.nodes, &regions.iter().collect::<Vec<_>>(), 0);
    let stats = seen.into_iter().flatten().flat_map(|seen| seen.pages);
    stats.flat_map(|stat| stat.contended.into_iter().map(move |run| (stat.name.clone(), run))).collect()
}

/// The run with no more time than the job took: of pages that were under way together each adds its own.
fn within(run: &PageRun, took: Duration) -> PageRun {
    let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    PageRun { micros: run.micros.min(took), ..run.clone() }
}

fn line(name: &str, run: &PageRun, ranks: &[u32]) -> String {
    format!(
        "{} of '{name}' went to and fro {} between {}: Explicit would save about {}",
        look::pages(run),
        look::times(run.returns),
        look::named("rank", ranks),
        look::seconds(run.micros)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare::NodeId;

    #[test]
    fn the_line_names_pages_ranks_and_the_time() {
        let run = PageRun { first: 12, count: 79, returns: 40_000, micros: 3_010_000, nodes: vec![NodeId(0), NodeId(1)] };
        let sockets = (0..3).map(|socket| socket.to_string()).collect();
        let sharing = Sharing { sockets, before: BTreeSet::new(), began: Instant::now() };
        assert_eq!(sharing.ranks_of(&run, 5), [0, 1, 3, 4]);
        assert_eq!(within(&run, Duration::from_secs(60)), run);
        assert_eq!(within(&run, Duration::from_secs(2)).micros, 2_000_000);
        assert_eq!(
            line("a", &run, &[0, 1]),
            "pages 12-90 of 'a' went to and fro 40,000 times between ranks 0 and 1: Explicit would save about 3.0 s"
        );
    }
}
