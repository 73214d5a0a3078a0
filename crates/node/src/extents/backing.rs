//! The memory behind extents, as a program is told of it.

use super::Extents;
use crate::extent::NodeExtent;
use hanare_protocol::id::Gid;
use hanare_protocol::wire::backing::{Backing, Residence};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Pages that one question looks at, of all extents together: some milliseconds.
const LOOK_PAGE_COUNT: usize = 4096;

/// Extents that one question looks at. The rest is counted, and no place of it is told.
const LOOK_EXTENT_COUNT: usize = 1024;

impl Extents {
    /// The node's memory, and that of some regions. Who `sees_all` is told of all extents, others of those regions alone.
    ///
    /// **Cost**: a few us a page that is looked at, [`LOOK_PAGE_COUNT`] at most. The service's thread asks, which alone takes pages out of
    /// mappings.
    pub fn backing(&self, readable: &BTreeSet<Gid>, sees_all: bool) -> Backing {
        let (kind, pages, wish) = self.spills.lender().backing();
        let is_told = |held: &Arc<NodeExtent>| sees_all || readable.contains(&held.gid());
        let mut held: Vec<Arc<NodeExtent>> =
            self.read().slots.iter().flatten().map(|entry| &entry.held).filter(|held| is_told(held)).cloned().collect();
        // Regions that were asked for come first, then long extents: those say most of the rest.
        held.sort_by_key(|held| (!readable.contains(&held.gid()), std::cmp::Reverse(held.len())));
        let page_count = (LOOK_PAGE_COUNT / held.len().clamp(1, LOOK_EXTENT_COUNT)).max(1);
        let (mut all, mut regions) = (Residence::default(), BTreeMap::<Gid, Residence>::new());
        for (number, held) in held.iter().enumerate() {
            let residence = match number < LOOK_EXTENT_COUNT {
                true => held.residence(page_count),
                false => Residence { len: held.len(), is_estimate: true, ..Residence::default() },
            };
            all.add(&residence);
            if readable.contains(&held.gid()) {
                regions.entry(held.gid()).or_default().add(&residence);
            }
        }
        let wish = wish.map_or_else(Vec::new, |set| set.numbers().collect());
        Backing { kind, pages, wish, all, regions: regions.into_iter().collect() }
    }
}
