//! Homes of a mapping's bytes: connections to those of today, and the next ones of bytes that have copies, or moved.

use super::homes::Homes;
use crate::client::attachment::Shared;
use crate::client::region::Region;
use crate::client::repetition::{Breaks, is_moving};
use crate::client::shared::fault_contexts::FaultContexts;
use crate::client::shared::options::MapOptions;
use crate::client::shared::orders::{FindHomes, FixedHomes};
use hanare_protocol::id::{Gid, NodeId, Rights};
use hanare_protocol::limits::{FOLLOWED_COUNT_MAX, PAGE_LEN};
use hanare_protocol::wire::control::{RegionView, SharedHome};
use hanare_protocol::{Error, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Connects to the homes. Those of bytes with copies may be others by now, and the next ones may not answer yet.
pub(super) fn connect(region: &Region, homes: &Arc<Homes>, options: &MapOptions, follows: bool) -> Result<FaultContexts> {
    let mut breaks = Breaks::default();
    loop {
        match connect_today(region, homes, options, follows) {
            Err(error) if homes.moves() && is_moving(&error) && breaks.may_repeat_moved() => {}
            connected => return connected,
        }
    }
}

fn connect_today(region: &Region, homes: &Arc<Homes>, options: &MapOptions, follows: bool) -> Result<FaultContexts> {
    let addresses: Vec<(NodeId, Arc<str>)> = match homes.moves() {
        false => homes.nodes().map(|node| Ok((node, address_of(region, node)?))).collect::<Result<_>>()?,
        true => {
            let view = Region::view_of(&region.shared, (region.gid(), region.name()), region.rights())?;
            homes.set(&view);
            homes.nodes().map(|node| Ok((node, address_in(&view, node)?.into()))).collect::<Result<_>>()?
        }
    };
    let today: Vec<SharedHome> = addresses.into_iter().map(|(node, address)| unshared(node, &address)).collect();
    FaultContexts::connect(&region.shared, &today, next_homes(region, homes, &today, follows), options.lanes)
}

/// True if a mapping follows the region's bytes to other nodes: by a connection for each extent.
pub(super) fn follows(region: &Region) -> bool {
    region.copies() > 1 || region.layout().extents().count() <= FOLLOWED_COUNT_MAX
}

/// Finds the homes of a mapping's bytes later.
fn next_homes(region: &Region, homes: &Arc<Homes>, today: &[SharedHome], follows: bool) -> Arc<dyn FindHomes> {
    if !follows {
        return Arc::new(FixedHomes(today.into()));
    }
    Arc::new(MovingHomes {
        homes: homes.clone(),
        known: Mutex::new(today.into()),
        gid: region.gid(),
        name: region.name().into(),
        rights: region.rights(),
    })
}

/// Homes of bytes that have copies, or may get some.
struct MovingHomes {
    homes: Arc<Homes>,
    /// The homes that were found last.
    known: Mutex<Box<[SharedHome]>>,
    gid: Gid,
    name: Box<str>,
    rights: Rights,
}

impl FindHomes for MovingHomes {
    fn may_move(&self) -> bool {
        true
    }

    fn moves(&self) -> bool {
        self.homes.moves()
    }

    fn node(&self, home: usize) -> NodeId {
        self.homes.node(home)
    }

    fn known(&self, home: usize) -> Option<SharedHome> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner)[home].clone();
        Some(known).filter(|known| !self.moves() && known.node == self.node(home))
    }

    fn find(&self, shared: &Shared, home: usize) -> Result<SharedHome> {
        let view = Region::view_of(shared, (self.gid, &self.name), self.rights)?;
        self.homes.set(&view);
        let node = self.homes.node(home);
        let found = unshared(node, address_in(&view, node)?);
        self.known.lock().unwrap_or_else(PoisonError::into_inner)[home] = found.clone();
        Ok(found)
    }
}

/// A home that counts no pages of this host.
fn unshared(node: NodeId, address: &str) -> SharedHome {
    SharedHome { node, address: address.to_owned(), share: 0 }
}

/// Address of a node that holds a part of a region, as it is today.
fn address_in(view: &RegionView, node: NodeId) -> Result<&str> {
    let address = view.nodes.iter().find(|at| at.node == node);
    let lost = || Error::NodeLost { node, reason: "its address is not known".to_owned() };
    address.map(|at| at.address.as_str()).ok_or_else(lost)
}

/// Address of a node that holds a part of the region. Another thread may have heard meanwhile that none of it is there.
fn address_of(region: &Region, node: NodeId) -> Result<Arc<str>> {
    let extent = region.extents_today().iter().position(|(extent, _)| extent.node == node);
    let moved = || Error::GrantRefused { gid: region.gid(), node };
    extent.map(|extent| region.extent_route(extent).address).ok_or_else(moved)
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
