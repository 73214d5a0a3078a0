//! Counts of moves of a home's pages to and fro between hosts. They show programs that write one page without meaning to share it.
//!
//! A *move* is an access of a host for which others have to give a page up. A move is a *return* where the host had the page before.
//! Data that are written once and read once elsewhere make moves, and no returns.
//!
//! The directory decides nothing by these counts, so they are no part of it. States that differ in counts alone are one state.

use super::hosts::HostId;
use super::message::Page;
use crate::id::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Pages whose counts lie together: 1 KiB of them.
const CHUNK_PAGES: u64 = 64;

/// Hosts that are told apart by name. Those beyond share a bit with one of them, and have no name here.
const NAMED_HOSTS: u16 = 64;

/// Pages of a region, one after another, that went to and fro between the same hosts while it was mapped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PageRun {
    /// The first of them, counted from the region's begin.
    pub first: u64,
    /// The number of moves.
    pub count: u64,
    /// Requests of a host for a page that it had had before, and that others had to give up.
    pub returns: u64,
    /// Total time of transits in microseconds, as their home saw them.
    pub micros: u64,
    /// The nodes of the hosts that had them, by number; of more than 64 hosts, not all.
    pub nodes: Vec<NodeId>,
}

/// Record of one page.
#[derive(Clone, Copy, Debug, Default)]
struct Track {
    /// Bitmap of the hosts that asked for it while others had it, by their number modulo 64.
    hosts: u64,
    returns: u32,
    /// Total time of its transits in microseconds.
    micros: u32,
}

/// The counts of a home.
///
/// **Cost**: 16 bytes a page, in chunks of 64 pages of which one has moved.
#[derive(Debug, Default)]
pub struct Moves {
    chunks: BTreeMap<u64, Box<[Track]>>,
    /// Since when pages are under way, in microseconds of the driver's clock.
    begun: BTreeMap<Page, u64>,
    nodes: BTreeMap<u16, NodeId>,
}

impl Moves {
    /// A host is on that node.
    pub fn on_host(&mut self, host: HostId, node: NodeId) {
        if host.0 < NAMED_HOSTS {
            self.nodes.insert(host.0, node);
        }
    }

    /// A host asked for a page that others have to give up. `begins` is true if nothing was under way for the page before. Returns true for
    /// a return.
    pub fn on_move(&mut self, page: Page, host: HostId, begins: bool, now_us: u64) -> bool {
        let chunk =
            self.chunks.entry(page.0 / CHUNK_PAGES).or_insert_with(|| vec![Track::default(); CHUNK_PAGES as usize].into());
        let track = &mut chunk[(page.0 % CHUNK_PAGES) as usize];
        let bit = 1u64.wrapping_shl(u32::from(host.0));
        let is_return = track.hosts & bit != 0;
        track.returns = track.returns.saturating_add(is_return.into());
        track.hosts |= bit;
        if begins {
            self.begun.insert(page, now_us);
        }
        is_return
    }

    /// True if a page is under way after [`Moves::on_move`].
    pub fn is_under_way(&self, page: Page) -> bool {
        self.begun.contains_key(&page)
    }

    /// Ends the page's transit.
    pub fn on_rest(&mut self, page: Page, now_us: u64) {
        let Some(begun) = self.begun.remove(&page) else { return };
        let took = now_us.saturating_sub(begun).min(u64::from(u32::MAX)) as u32;
        if let Some(chunk) = self.chunks.get_mut(&(page.0 / CHUNK_PAGES)) {
            let track = &mut chunk[(page.0 % CHUNK_PAGES) as usize];
            track.micros = track.micros.saturating_add(took);
        }
    }

    /// A host is gone: of pages that nothing is under way for any more the time is not known.
    pub fn on_host_gone(&mut self, is_busy: impl Fn(Page) -> bool) {
        self.begun.retain(|page, _| is_busy(*page));
    }

    fn tracks(&self) -> impl Iterator<Item = (u64, &Track)> {
        let first = |chunk: u64| chunk.saturating_mul(CHUNK_PAGES);
        let pages = self.chunks.iter().flat_map(move |(chunk, tracks)| (first(*chunk)..).zip(tracks.iter()));
        pages.filter(|(_, track)| track.hosts != 0)
    }

    /// The runs of pages that went to and fro most, most first. A run is pages in a row that the same hosts had.
    ///
    /// **Cost**: a look at each page that has moved.
    pub fn runs(&self, count: usize) -> Vec<PageRun> {
        let mut most = Most { runs: Vec::new(), count };
        let mut open: Option<(u64, PageRun)> = None;
        for (page, track) in self.tracks().filter(|(_, track)| track.returns > 0) {
            match &mut open {
                Some((hosts, run)) if *hosts == track.hosts && run.first.saturating_add(run.count) == page => {
                    run.count = run.count.saturating_add(1);
                    run.returns = run.returns.saturating_add(track.returns.into());
                    run.micros = run.micros.saturating_add(track.micros.into());
                }
                _ => {
                    let (returns, micros, nodes) = (track.returns.into(), track.micros.into(), self.named(track.hosts));
                    let next = PageRun { first: page, count: 1, returns, micros, nodes };
                    most.take(open.replace((track.hosts, next)));
                }
            }
        }
        most.take(open);
        most.runs
    }

    /// The nodes of a set of hosts.
    fn named(&self, hosts: u64) -> Vec<NodeId> {
        let has = |host: u16| hosts & 1u64.wrapping_shl(u32::from(host)) != 0;
        let mut nodes: Vec<NodeId> = self.nodes.iter().filter(|(host, _)| has(**host)).map(|(_, node)| *node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The returns of a region of `page_count` pages, added up in `cell_count` cells. All but the last have equally many pages.
    pub fn map(&self, page_count: u64, cell_count: usize) -> Vec<u32> {
        let pages_each = page_count.div_ceil((cell_count as u64).max(1)).max(1);
        let mut cells = vec![0u32; page_count.div_ceil(pages_each) as usize];
        for (page, track) in self.tracks() {
            let cell = page.checked_div(pages_each).and_then(|index| cells.get_mut(index as usize));
            if let Some(cell) = cell {
                *cell = cell.saturating_add(track.returns);
            }
        }
        cells
    }
}

/// The runs with the most returns, as many as are wanted.
struct Most {
    runs: Vec<PageRun>,
    count: usize,
}

impl Most {
    fn take(&mut self, run: Option<(u64, PageRun)>) {
        let Some((_, run)) = run else { return };
        let at = self.runs.partition_point(|known| known.returns >= run.returns);
        self.runs.insert(at, run);
        self.runs.truncate(self.count);
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;

    const A: HostId = HostId(0);
    const B: HostId = HostId(1);

    fn two_hosts() -> Moves {
        let mut moves = Moves::default();
        moves.on_host(A, NodeId(4));
        moves.on_host(B, NodeId(7));
        moves
    }

    /// A page that is under way for 10 us.
    fn go(moves: &mut Moves, page: u64, host: HostId, now_us: u64) {
        moves.on_move(Page(page), host, true, now_us);
        moves.on_rest(Page(page), now_us + 10);
    }

    #[test]
    fn a_page_that_is_handed_on_returns_to_nobody() {
        let mut moves = two_hosts();
        for (at, host) in [A, B, HostId(2), HostId(3)].into_iter().enumerate() {
            go(&mut moves, 5, host, at as u64 * 100);
        }
        assert_eq!(moves.runs(8), []);
        assert_eq!(moves.map(64, 64).iter().sum::<u32>(), 0);
    }

    #[test]
    fn neighbours_that_the_same_hosts_had_are_one_run() {
        let mut moves = two_hosts();
        for round in 0..10 {
            for page in 62..67 {
                go(&mut moves, page, if round % 2 == 0 { A } else { B }, 0);
            }
            go(&mut moves, 80, if round % 2 == 0 { A } else { HostId(2) }, 0);
        }
        let nodes = vec![NodeId(4), NodeId(7)];
        let long = PageRun { first: 62, count: 5, returns: 5 * 8, micros: 5 * 100, nodes };
        let other = PageRun { first: 80, count: 1, returns: 8, micros: 100, nodes: vec![NodeId(4)] };
        assert_eq!(moves.runs(8), [long.clone(), other]);
        assert_eq!(moves.runs(1), [long]);
    }

    #[test]
    fn a_map_has_each_return_in_one_cell() {
        let mut moves = two_hosts();
        for page in [0, 99, 100, 255] {
            for round in 0..7 {
                go(&mut moves, page, if round % 2 == 0 { A } else { B }, 0);
            }
        }
        assert_eq!(moves.map(256, 64).len(), 64);
        for cells in [1, 3, 64, 256, 1000] {
            let map = moves.map(256, cells);
            assert_eq!((map.len() <= cells, map.iter().sum::<u32>()), (true, 20), "{cells} cells");
        }
        assert_eq!(moves.map(256, 64)[99 / 4], 5);
        assert!(moves.map(0, 64).is_empty());
    }

    #[test]
    fn the_time_of_a_page_under_way_ends_with_its_rest_or_is_dropped() {
        let mut moves = two_hosts();
        moves.on_move(Page(1), A, true, 1000);
        moves.on_move(Page(1), B, false, 1500);
        moves.on_move(Page(1), A, false, 1600);
        assert!(moves.is_under_way(Page(1)));
        moves.on_rest(Page(1), 2000);
        moves.on_move(Page(1), B, true, 9000);
        moves.on_host_gone(|_| false);
        moves.on_rest(Page(1), 10_000_000);
        assert_eq!(moves.runs(1)[0].micros, 1000);
    }
}
