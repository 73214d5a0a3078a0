//! Reports on pages for programs: counts of each region, pages that went to and fro, and a map of those.

use super::Pages;
use super::home::PageHome;
use super::host::PageHost;
use super::memory::{HomePages, PageMemory};
use hanare_protocol::id::{ClientId, Gid};
use hanare_protocol::limits::{LOOK_COUNT_MAX, MAP_CELL_COUNT_MAX, PAST_MAPPING_COUNT_MAX};
use hanare_protocol::wire::control::PageStat;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Pages that went to and fro while regions were mapped that nobody maps any more.
///
/// - At most [`PAST_MAPPING_COUNT_MAX`]; the oldest goes first.
#[derive(Debug, Default)]
pub(super) struct Past(VecDeque<PageStat>);

impl Past {
    /// A home ends.
    pub fn keep<H: HomePages>(&mut self, home: &PageHome<H>) {
        let stat = PageStat { hosts: 0, ..home.stat() };
        if stat.contended.is_empty() {
            return;
        }
        if self.0.len() >= PAST_MAPPING_COUNT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(stat);
    }
}

impl<M: PageMemory> Pages<M> {
    /// Page counts of regions that are shared or at home here, as far as `tells` admits; at most [`LOOK_COUNT_MAX`].
    pub fn stats(&self, tells: impl Fn(Gid) -> bool) -> Vec<PageStat> {
        let mut stats: BTreeMap<Gid, PageStat> = BTreeMap::new();
        // A refused map may have used another name for the region.
        for host in self.hosts.values().filter(|host| !host.is_unused()) {
            stats.entry(host.gid()).and_modify(|stat| stat.add(&host.stat())).or_insert_with(|| host.stat());
        }
        for told in self.homes.values().map(PageHome::stat).chain(self.past.0.iter().cloned()) {
            match stats.get_mut(&told.gid) {
                Some(stat) => {
                    stat.hosts = stat.hosts.max(told.hosts);
                    stat.contended.extend(told.contended);
                }
                None => drop(stats.insert(told.gid, told)),
            }
        }
        let mut stats: Vec<PageStat> = stats.into_values().filter(|stat| tells(stat.gid)).take(LOOK_COUNT_MAX).collect();
        stats.iter_mut().for_each(PageStat::rank_runs);
        stats
    }

    /// Regions that some programs of this host map.
    pub fn mapped_by(&self, is_it: impl Fn(ClientId) -> bool) -> BTreeSet<Gid> {
        self.hosts.values().filter(|host| host.client_ids().any(&is_it)).map(PageHost::gid).collect()
    }

    /// Count of moves of a region's home pages, summed into `cell_count` cells.
    pub fn map(&self, gid: Gid, cell_count: u32) -> Vec<u32> {
        self.homes.get(&gid).map_or_else(Vec::new, |home| home.map((cell_count as usize).min(MAP_CELL_COUNT_MAX)))
    }
}
