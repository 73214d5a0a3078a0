//! Homes of a coherent mapping's pages. They stay the same, unless the region has copies: then another node becomes its home where one is lost.
//!
//! The next home knows nobody who has the region mapped. So who looks for it has this host's node tell it, with a grant of today.

use crate::client::attachment::{CopiedStores, Shared as Attachment};
use crate::client::region::Region;
use crate::client::repetition::{Breaks, is_moving};
use crate::client::shared::orders::{FindHomes, is_for_good};
use hanare_protocol::id::{Gid, NodeId, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Consistency;
use hanare_protocol::placement::Layout;
use hanare_protocol::wire::control::{Answer, RegionView, Request, SharedHome, SharedView};
use hanare_protocol::{Error, Result};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, PoisonError};

/// The homes, and this host's own node.
pub(super) struct PageHomes {
    gid: Gid,
    name: Box<str>,
    layout: Layout,
    rights: Rights,
    /// For each extent, which home it is on.
    home_of: Box<[u16]>,
    /// A context's connections, in order, as they were at first.
    places: Box<[SharedHome]>,
    /// Place of this host's own node among them.
    own: usize,
    /// True if its memory is mapped as it is.
    is_own_mapped: bool,
    next: Option<NextHome>,
}

/// State for the search of a next home: of bytes with copies.
struct NextHome {
    /// The life of the node that counts the mapping.
    life: u64,
    /// The first of the program's slots.
    slot_first: u16,
    /// The home of today.
    node: AtomicU32,
    /// True once the mapping has ended. Locked while the node is told of another home: no such message follows the end.
    is_over: Mutex<bool>,
}

impl PageHomes {
    /// The homes that the node named. `life` is the node's.
    ///
    /// **Errors**: [`Error::Garbage`] where they are not those of the layout, or bytes with copies have several.
    pub fn new(region: &Region, view: &RegionView, shared: &SharedView, life: u64) -> Result<PageHomes> {
        let (here, has_copies) = (region.shared.node, view.copies > 1);
        let garbage =
            || Error::Garbage { peer: "this host's node".to_owned(), reason: "homes that are not the region's".to_owned() };
        let home_of = |node: NodeId| shared.homes.iter().position(|home| home.node == node).map(|at| at as u16);
        let home_of: Option<Box<[u16]>> = view.layout.extents().map(|extent| home_of(extent.node)).collect();
        if has_copies && shared.homes.len() != 1 {
            return Err(garbage());
        }
        let mut places = shared.homes.clone();
        let node = AtomicU32::new(places.first().map_or(here, |home| home.node).0);
        // The home of bytes with copies may be another node at any moment, and this host's own stays the same.
        let own = places.iter().position(|place| place.node == here && !has_copies).unwrap_or_else(|| {
            places.push(SharedHome { node: here, address: shared.address.clone(), share: 0 });
            places.len() - 1
        });
        Ok(PageHomes {
            gid: view.gid,
            name: region.name().into(),
            layout: view.layout.clone(),
            rights: view.rights,
            home_of: home_of.ok_or_else(garbage)?,
            places: places.into(),
            own,
            // Memory without a direct mapping comes like that of any other node.
            is_own_mapped: shared.files.iter().any(Option::is_some),
            next: has_copies.then(|| NextHome { life, slot_first: shared.slot_first, node, is_over: Mutex::default() }),
        })
    }

    /// The nodes to be connected to, as they were at first.
    pub fn places(&self) -> &[SharedHome] {
        &self.places
    }

    /// The connection to this host's own node, among a context's.
    pub fn own(&self) -> usize {
        self.own
    }

    /// The home of a page.
    pub fn of(&self, page: u64) -> usize {
        let extent = self.layout.pieces(page * PAGE_LEN, 1).next().map_or(0, |piece| piece.extent);
        usize::from(self.home_of[extent])
    }

    /// True if a home's pages are mapped as they are.
    pub fn is_own(&self, home: usize) -> bool {
        self.is_own_mapped && home == self.own
    }

    /// Distance in pages from one of a home to its like in the home's next chunk.
    pub fn period(&self, page: u64) -> Option<u64> {
        self.layout.period(page * PAGE_LEN).map(|period| period / PAGE_LEN)
    }

    /// The mapping ends: the node is told of no further home. Waits for one that it is being told of.
    pub fn end(&self) {
        if let Some(next) = &self.next {
            *next.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
    }

    /// Has this host's node tell the home of today of the mapping. The node asks that home for pages from now on. Returns the home.
    ///
    /// **Cost**: a message each way to the coordinator, and those of mapping the region. **Errors**: those of [`Region::map`]. Most pass,
    /// once the next home is elected and has the pages that hosts had. [`Error::RegionLost`] where the mapping went with its node, or ended.
    fn tell_next(&self, shared: &Attachment, next: &NextHome) -> Result<SharedHome> {
        let is_over = next.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let life = shared.life();
        if *is_over || life.number != next.life || life.session.has_ended() {
            return Err(Error::RegionLost { region: self.name.to_string(), node: shared.node });
        }
        let mut view = Region::view_of(shared, (self.gid, &self.name), self.rights)?;
        // A resize has appended extents that the mapping does not have.
        view.layout.spans.truncate(self.layout.spans.len());
        view.grants.truncate(self.home_of.len());
        match life.session.ask(&Request::ShareFollowing { view, consistency: Consistency::Coherent })? {
            Answer::Shared(today) if today.slot_first == next.slot_first && today.homes.len() == 1 => {
                let home = today.homes.into_iter().next().expect("one");
                next.node.store(home.node.0, Release);
                Ok(home)
            }
            other => Err(shared.nonsense(&other)),
        }
    }
}

impl FindHomes for PageHomes {
    fn may_move(&self) -> bool {
        self.moves()
    }

    fn moves(&self) -> bool {
        self.next.is_some()
    }

    fn node(&self, home: usize) -> NodeId {
        match &self.next {
            Some(next) if home != self.own => NodeId(next.node.load(Acquire)),
            _ => self.places[home].node,
        }
    }

    fn known(&self, _: usize) -> Option<SharedHome> {
        None
    }

    fn find(&self, shared: &Attachment, home: usize) -> Result<SharedHome> {
        match &self.next {
            Some(next) if home != self.own => self.tell_next(shared, next),
            _ => Ok(self.places[home].clone()),
        }
    }
}

impl CopiedStores for PageHomes {
    /// A home that is lost meanwhile has a next one, which this host's node has to be told of.
    fn release(&self, shared: &Attachment) -> Result<()> {
        let Some(next) = &self.next else { return Ok(()) };
        let is_over = || *next.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let mut breaks = Breaks::default();
        loop {
            shared.check_life(next.life)?;
            let error = match shared.life().session.ask(&Request::FlushShared { gid: self.gid }) {
                Ok(Answer::Ok) => return Ok(()),
                Ok(other) => return Err(shared.nonsense(&other)),
                Err(error) => error,
            };
            // The thread that ended the mapping meanwhile has released them.
            if is_over() {
                return Ok(());
            }
            if !is_moving(&error) || !breaks.may_repeat_moved() {
                return Err(error);
            }
            match self.tell_next(shared, next) {
                Err(error) if is_for_good(&error) => return Err(error),
                _ => {}
            }
        }
    }
}
