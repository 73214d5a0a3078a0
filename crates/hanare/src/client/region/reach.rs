//! Ways of a handle to a region's bytes: direct access on this host, a coherent mapping, or its nodes.
//!
//! A thread says that it is at work before it looks whether it has direct access ([`hanare_protocol::page::direct_access`]). A host that will
//! map the region revokes that right, and waits for threads at work alone.

use super::Region;
use crate::client::attachment::{DirectHold, Life};
use crate::client::mapping::{fetch_files, map_extent};
use hanare_memory::{Mapping, Window};
use hanare_protocol::id::{Gid, Grant};
use hanare_protocol::limits::SMALL_REGION_LEN;
use hanare_protocol::page::direct_access::Right;
use hanare_protocol::placement::Routes;
use hanare_protocol::{Error, Result};
use hanare_ring::thread_slots::AtWork;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{PoisonError, RwLockWriteGuard};

/// MappedExtents of this host that a handle has mapped as they are.
pub(super) struct MappedExtents {
    /// Mappings stay until the handle is dropped. Other threads may be at work there when the node takes the right back.
    mappings: Vec<Option<Mapping>>,
    /// The grants by which they were made. Memory that is granted anew may be other memory: the extent may have moved, and come back.
    grants: Vec<Option<Grant>>,
    right: Right,
    /// The life of the node that they are of, and mappings of those before.
    life: u64,
    old: Vec<Mapping>,
    /// Dropped after them: the node is told.
    hold: Option<DirectHold>,
}

impl MappedExtents {
    /// No mappings yet, of `count` extents.
    pub fn new(count: usize, life: &Life, gid: Gid) -> MappedExtents {
        let right = Right::new(count, life.thread_slots.words().generation(gid.0));
        MappedExtents {
            mappings: (0..count).map(|_| None).collect(),
            grants: vec![None; count],
            right,
            life: life.number,
            old: Vec::new(),
            hold: None,
        }
    }

    /// Takes note of rights that were taken back, and of another life of the node. That one has none of this memory. Says if either was so.
    fn look(&mut self, life: &Life, gid: Gid) -> bool {
        let is_fresh = life.number != self.life;
        if is_fresh {
            self.life = life.number;
            self.old.extend(self.mappings.iter_mut().filter_map(Option::take));
            self.right.close();
        }
        self.right.look(life.thread_slots.words().generation(gid.0)) || is_fresh
    }
}

/// Address of a region's bytes for immediate access; every short command looks at it.
#[derive(Default)]
pub(super) struct Direct(AtomicPtr<u8>);

impl Direct {
    #[inline]
    fn get(&self, len: u64) -> Option<Window> {
        let ptr = self.0.load(Ordering::Acquire);
        // SAFETY: it was set from a window of the whole region, which stays mapped until it is cleared or the region is dropped.
        (!ptr.is_null()).then(|| unsafe { Window::new(ptr, len as usize) })
    }

    fn set(&self, window: Window) {
        self.0.store(window.ptr(), Ordering::Release);
    }

    fn clear(&self) {
        self.0.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// Bytes of a region that are this program's to work on as long as the value is there.
pub(crate) struct InReach<'r> {
    window: Window,
    /// Unless the region is mapped coherently.
    _at_work: Option<AtWork<'r>>,
}

impl Deref for InReach<'_> {
    type Target = Window;

    #[inline]
    fn deref(&self) -> &Window {
        &self.window
    }
}

/// A call's way to a region, decided once for all its parts, because others may change it meanwhile. While it lives, hosts that want to map
/// the region wait, unless it is mapped coherently. So the call waits for nothing else.
pub(crate) struct Way<'r> {
    region: &'r Region,
    /// All bytes one after another, where the region is mapped coherently.
    flat: Option<Window>,
    _at_work: Option<AtWork<'r>>,
}

impl<'r> Way<'r> {
    /// True if the region is mapped coherently.
    pub fn is_flat(&self) -> bool {
        self.flat.is_some()
    }

    /// Layout of the bytes: on extents, or contiguous.
    pub fn routes(&self) -> &'r Routes {
        if self.flat.is_some() { &self.region.flat } else { self.region.routes() }
    }

    /// The bytes of an extent of that layout, where they are reached directly.
    pub fn local(&self, extent: usize) -> Result<Option<Window>> {
        match self.flat {
            Some(flat) => Ok(Some(flat)),
            None => self.region.local(extent),
        }
    }
}

/// Commands that go to the home of what hosts map, for one question whether they still do.
const BY_PAGES_USES: u32 = 256;

/// A small extent that is used this often is worth a file of its own.
const BUSY_USES: u32 = 64;

impl Region {
    /// All bytes, if the region is one mapped extent, or mapped coherently.
    #[inline]
    pub(crate) fn mapped_whole(&self) -> Option<InReach<'_>> {
        let at_work = self.enter();
        let window = self.direct.get(self.len)?;
        let is_flat = self.coherent.get(self.len).is_some();
        Some(InReach { window, _at_work: (!is_flat).then_some(at_work) })
    }

    /// Says that this thread is at work, and then looks whether it may be.
    #[inline]
    fn enter(&self) -> AtWork<'_> {
        loop {
            let life = self.shared.life();
            let at_work = life.thread_slots.enter(self.gid);
            self.keep_up();
            // A right of a later life is taken back in the thread_slots of that life.
            if life.is_last() {
                return at_work;
            }
        }
    }

    /// Takes note of mappings that this program has made or ended since the last look, and of revoked rights.
    #[inline]
    pub(crate) fn keep_up(&self) {
        // ORDERING: pairs with the store in `look_for_changes`: what was cleared before is not found afterwards.
        if self.changes_seen.load(Ordering::Acquire) != self.shared.changes(self.gid) {
            self.look_for_changes();
        }
    }

    #[cold]
    fn look_for_changes(&self) {
        let changes = self.shared.changes(self.gid);
        // A mapping that allows less than this handle is none for its commands.
        let (coherent, others) = match self.shared.mapped.of(self.gid) {
            Some(coherent) if coherent.rights() >= self.rights => (Some(coherent), None),
            other => (None, other),
        };
        if coherent.is_some() {
            // Earlier commands of this client come before its direct accesses.
            self.quiesce();
        }
        let mut mapped = self.mapped_to_change();
        let was_coherent = self.coherent.get(self.len).is_some();
        match &coherent {
            Some(coherent) => {
                // SAFETY: it ends after its change was counted, and nobody uses the region meanwhile (`Region::map`).
                let window = unsafe { coherent.window() };
                self.coherent.set(window);
                self.direct.set(window);
            }
            None if was_coherent => {
                self.coherent.clear();
                self.direct.clear();
            }
            None => {}
        }
        if coherent.is_some() || was_coherent {
            // Direct access must not go on beside the pages; afterwards the node is asked for it again.
            mapped.right.close();
        }
        self.changes_seen.store(changes, Ordering::Release);
        drop(mapped);
        self.shared.mapped.let_go(self.gid, coherent.or(others));
    }

    /// The extents that are mapped directly, with rights of this moment. Those that the node took back are gone.
    fn mapped_to_change(&self) -> RwLockWriteGuard<'_, MappedExtents> {
        let mut mapped = self.mapped.write().unwrap_or_else(PoisonError::into_inner);
        if mapped.look(self.shared.life(), self.gid) && self.coherent.get(self.len).is_none() {
            self.direct.clear();
        }
        mapped
    }

    /// True if its bytes are reached through a coherent mapping.
    pub(crate) fn is_coherent(&self) -> bool {
        self.way().is_flat()
    }

    /// The present way to its bytes.
    pub(crate) fn way(&self) -> Way<'_> {
        let at_work = self.enter();
        let flat = self.coherent.get(self.len);
        Way { region: self, flat, _at_work: flat.is_none().then_some(at_work) }
    }

    /// The bytes, if they are within a region that is one mapped extent.
    #[inline]
    pub(crate) fn reach(&self, offset: u64, len: usize) -> Option<InReach<'_>> {
        let here = self.mapped_whole()?;
        let fits = offset.checked_add(len as u64).is_some_and(|end| end <= self.len);
        fits.then(|| InReach { window: here.window.slice(offset as usize, len), ..here })
    }

    /// The extent's bytes, if they may be reached here as they are. The caller has said that it is at work.
    fn local(&self, extent: usize) -> Result<Option<Window>> {
        let mapped = self.mapped.read().unwrap_or_else(PoisonError::into_inner);
        if mapped.right.is_open(extent)
            && let Some(mapping) = &mapped.mappings[extent]
        {
            return Ok(Some(self.window(extent, mapping)));
        }
        drop(mapped);
        // A plain store would be a byte that copies do not have.
        if self.copies() > 1 {
            return Ok(None);
        }
        let (at, _) = self.extent_today(extent);
        if at.node != self.shared.node {
            return Ok(None);
        }
        if at.len < SMALL_REGION_LEN && self.uses.fetch_add(1, Ordering::Relaxed) < BUSY_USES {
            return Ok(None);
        }
        let left = self.by_pages.load(Ordering::Relaxed);
        if left > 0 {
            self.by_pages.store(left - 1, Ordering::Relaxed);
            return Ok(None);
        }
        match self.map_now(extent) {
            // Hosts map it coherently, or are about to: its home does commands on it.
            Err(Error::IsMapped { .. }) => {
                self.by_pages.store(BY_PAGES_USES, Ordering::Relaxed);
                Ok(None)
            }
            mapped => mapped,
        }
    }

    /// Asks the node for the right to reach an extent as it is. None where the node took it back on its way.
    #[cold]
    fn map_now(&self, extent: usize) -> Result<Option<Window>> {
        // Earlier commands of this client come before its direct accesses.
        self.extent_route(extent).remote.quiesce()?;
        // Held before the node is asked: another handle that goes meanwhile must not give back what is given now.
        self.mapped_to_change().hold.get_or_insert_with(|| DirectHold::new(&self.shared, self.gid, false));
        let (life, asked) = (self.shared.life().number, self.shared.life().thread_slots.words().generation(self.gid.0));
        let (at, grant) = self.extent_today(extent);
        let files = match fetch_files(&self.shared, &at, grant, false) {
            // The command goes by a message, which asks for the grants of today. This thread is at work, and a node may wait for it.
            Err(Error::GrantRefused { .. }) => return Ok(None),
            other => other?,
        };
        let mut mapped = self.mapped_to_change();
        if mapped.life != life {
            return Ok(None);
        }
        if mapped.mappings[extent].is_none() || mapped.grants[extent] != Some(grant) {
            let before = mapped.mappings[extent].replace(map_extent(&at, &files, self.rights)?);
            mapped.old.extend(before);
            mapped.grants[extent] = Some(grant);
        }
        let counts = mapped.right.open(extent, asked);
        let Some(mapping) = mapped.mappings[extent].as_ref().filter(|_| counts) else { return Ok(None) };
        let window = self.window(extent, mapping);
        // A timeline has every command in it: none goes the way past drafting.
        if mapped.mappings.len() == 1 && crate::trace::current().is_none() {
            self.direct.set(window);
        }
        Ok(Some(window))
    }

    /// The bytes of a mapped extent.
    fn window(&self, extent: usize, mapping: &Mapping) -> Window {
        let len = self.routes().extent(extent).len;
        // SAFETY: all of it is mapped; windows of it are used only while the region, which keeps it, is borrowed.
        unsafe { mapping.window() }.slice(0, len as usize)
    }
}
