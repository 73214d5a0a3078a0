//! Homes of a mapping's bytes: connections to those of today, and the next ones of bytes with copies.

use super::homes::Homes;
use crate::client::attachment::Shared;
use crate::client::region::Region;
use crate::client::repetition::{Breaks, is_moving};
use crate::client::shared::fault_contexts::FaultContexts;
use crate::client::shared::options::MapOptions;
use crate::client::shared::orders::{FindHomes, FixedHomes};
use hanare_protocol::id::{Gid, NodeId, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::control::RegionView;
use hanare_protocol::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Connects to the homes. Those of bytes with copies may be others by now, and the next ones may not answer yet.
pub(super) fn connect(region: &Region, homes: &Arc<Homes>, options: &MapOptions) -> Result<FaultContexts> {
    let mut breaks = Breaks::default();
    loop {
        match connect_today(region, homes, options) {
            Err(error) if region.copies() > 1 && is_moving(&error) && breaks.may_repeat_moved() => {}
            connected => return connected,
        }
    }
}

fn connect_today(region: &Region, homes: &Arc<Homes>, options: &MapOptions) -> Result<FaultContexts> {
    let addresses: Vec<(NodeId, Arc<str>)> = match region.copies() {
        1 => homes.nodes().map(|node| (node, address_of(region, node))).collect(),
        _ => {
            let view = Region::view_of(&region.shared, (region.gid(), region.name()), region.rights())?;
            homes.set(&view);
            homes.nodes().map(|node| Ok((node, address_in(&view, node)?.into()))).collect::<Result<_>>()?
        }
    };
    let doors: Vec<(NodeId, &str)> = addresses.iter().map(|(node, address)| (*node, &**address)).collect();
    FaultContexts::connect(&region.shared, &doors, next_homes(region, homes, &doors), options.lanes)
}

/// Finds the homes of a mapping's bytes later.
fn next_homes(region: &Region, homes: &Arc<Homes>, today: &[(NodeId, &str)]) -> Arc<dyn FindHomes> {
    if region.copies() > 1 {
        return Arc::new(MovingHomes {
            homes: homes.clone(),
            gid: region.gid(),
            name: region.name().into(),
            rights: region.rights(),
        });
    }
    Arc::new(FixedHomes::new(today))
}

/// Homes of bytes with copies.
struct MovingHomes {
    homes: Arc<Homes>,
    gid: Gid,
    name: Box<str>,
    rights: Rights,
}

impl FindHomes for MovingHomes {
    fn moves(&self) -> bool {
        true
    }

    fn find(&self, shared: &Shared, home: usize) -> Result<(NodeId, Box<str>)> {
        let view = Region::view_of(shared, (self.gid, &self.name), self.rights)?;
        self.homes.set(&view);
        let node = self.homes.node(home);
        Ok((node, address_in(&view, node)?.into()))
    }
}

/// Address of a node that holds a part of a region, as it is today.
fn address_in(view: &RegionView, node: NodeId) -> Result<&str> {
    let address = view.nodes.iter().find(|at| at.node == node);
    let lost = || Error::NodeLost { node, reason: "its address is not known".to_owned() };
    address.map(|at| at.address.as_str()).ok_or_else(lost)
}

/// Address of a node that holds a part of the region.
fn address_of(region: &Region, node: NodeId) -> Arc<str> {
    let extent = region.extents_today().iter().position(|(extent, _)| extent.node == node);
    region.extent_route(extent.expect("homes are nodes of the layout")).address
}

/// For each extent whether some of its bytes lie in frames.
pub(super) fn is_used(region: &Region, framed: &[Range<u64>]) -> Vec<bool> {
    let mut is_used: Vec<bool> = region.layout().extents().map(|_| false).collect();
    for pages in framed {
        let (start, end) = (pages.start * PAGE_LEN, (pages.end * PAGE_LEN).min(region.len()));
        region.layout().pieces(start, end - start).for_each(|piece| is_used[piece.extent] = true);
    }
    is_used
}
