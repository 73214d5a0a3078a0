//! Which regions this program has mapped, and how: one mapping of a region at a time, shared by all who ask for it.

use super::coherent::Coherent;
use super::counters::FaultTraffic;
use super::explicit::Explicit;
use crate::client::pool::Shared;
use crate::client::region::Region;
use hanare_fabric::Traffic;
use hanare_protocol::id::Gid;
use hanare_protocol::page::Consistency;
use hanare_protocol::wire::control::{Answer, Request};
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The mappings of one attachment.
#[derive(Default)]
pub(crate) struct Mapped {
    mappings: Mutex<BTreeMap<Gid, Weak<Coherent>>>,
    explicit: Mutex<BTreeMap<Gid, Weak<SharedExplicit>>>,
    /// Regions of which this program has extents mapped as they are: by handles, and by pointers that it gave out.
    direct: Mutex<BTreeMap<Gid, (usize, usize)>>,
    /// How often one has begun or ended: handles of regions look again when it is another.
    changes: AtomicU64,
}

impl Mapped {
    /// How often a mapping has begun or ended.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Gid, Weak<Coherent>>> {
        self.mappings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mapping of a region that this program has.
    pub fn of(&self, gid: Gid) -> Option<Arc<Coherent>> {
        self.lock().get(&gid)?.upgrade()
    }

    /// What moved for faults so far: by themselves, and by way of the node. Mappings that ended count with `faults`.
    pub fn traffic(&self, faults: &FaultTraffic) -> Traffic {
        let mappings = self.lock();
        // As long as it is locked none ends: a page counts once, here or there.
        let mut traffic = faults.read();
        let those: Vec<_> = mappings.iter().filter_map(|(gid, mapping)| Some((*gid, mapping.upgrade()?))).collect();
        drop(mappings);
        for (gid, mapping) in those {
            traffic += FaultTraffic::brought(mapping.brought());
            self.let_go(gid, Some(mapping));
        }
        traffic
    }

    /// Says whether what this program stored through its mappings is still there. **Errors**: as for [`Coherent::check_stores`].
    pub fn check_stores(&self) -> Result<()> {
        let those: Vec<_> = self.lock().iter().filter_map(|(gid, mapping)| Some((*gid, mapping.upgrade()?))).collect();
        let mut kept = Ok(());
        for (gid, mapping) in those {
            kept = kept.and(mapping.check_stores());
            self.let_go(gid, Some(mapping));
        }
        kept
    }

    /// The mapping of a region, for the program to have a pointer; made where there is none.
    pub fn get_or_make(&self, region: &Region) -> Result<Arc<Coherent>> {
        let mut mappings = self.lock();
        if let Some(coherent) = mappings.get(&region.gid()).and_then(Weak::upgrade) {
            if coherent.rights() >= region.rights() {
                return Ok(coherent);
            }
            let reason =
                "this program has it mapped for reading alone; map it by a handle that may write, or unmap it".to_owned();
            drop(mappings);
            self.let_go(region.gid(), Some(coherent));
            return Err(Error::BadUse { region: region.name().to_owned(), reason });
        }
        let coherent = Arc::new(Coherent::new(region)?);
        mappings.insert(region.gid(), Arc::downgrade(&coherent));
        self.changes.fetch_add(1, Ordering::Release);
        Ok(coherent)
    }

    /// The explicit mapping of a region; made where there is none.
    pub fn get_or_make_explicit(&self, region: &Region) -> Result<Arc<SharedExplicit>> {
        let mut mappings = self.explicit.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(explicit) = mappings.get(&region.gid()).and_then(Weak::upgrade) {
            return Ok(explicit);
        }
        let explicit = Arc::new(SharedExplicit::new(region)?);
        mappings.insert(region.gid(), Arc::downgrade(&explicit));
        Ok(explicit)
    }

    /// Whether a pointer to extents as they are was given out.
    pub fn has_pointer(&self, gid: Gid) -> bool {
        self.lock_direct().get(&gid).is_some_and(|(_, pointers)| *pointers > 0)
    }

    fn lock_direct(&self) -> MutexGuard<'_, BTreeMap<Gid, (usize, usize)>> {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody needs the mapping no more; with the last it ends, after all handles of the region were told to look again.
    pub fn let_go(&self, gid: Gid, coherent: Option<Arc<Coherent>>) {
        let Some(coherent) = coherent else { return };
        if let Err(error) = self.end(gid, coherent) {
            tracing::warn!("{gid} was unmapped: {error}");
        }
    }

    /// As [`Mapped::let_go`]. **Errors**: [`Error::NodeLost`] where not all that was stored is at home, or on its way.
    pub fn end(&self, gid: Gid, coherent: Arc<Coherent>) -> Result<()> {
        let mut mappings = self.lock();
        if Arc::strong_count(&coherent) == 1 {
            mappings.remove(&gid);
            self.changes.fetch_add(1, Ordering::Release);
        }
        match Arc::try_unwrap(coherent) {
            Ok(coherent) => coherent.end(),
            Err(shared) => shared.check_stores(),
        }
    }
}

/// As long as this is there, the node counts this program among those that have extents of a region mapped as they are.
pub(crate) struct DirectHold {
    shared: Arc<Shared>,
    gid: Gid,
    is_pointer: bool,
}

impl DirectHold {
    /// For a handle's own use, or for a pointer that is given out.
    pub fn new(shared: &Arc<Shared>, gid: Gid, is_pointer: bool) -> DirectHold {
        let mut direct = shared.mapped.lock_direct();
        let (handles, pointers) = direct.entry(gid).or_default();
        *handles += usize::from(!is_pointer);
        *pointers += usize::from(is_pointer);
        DirectHold { shared: shared.clone(), gid, is_pointer }
    }
}

impl Drop for DirectHold {
    fn drop(&mut self) {
        let mut direct = self.shared.mapped.lock_direct();
        let Some((handles, pointers)) = direct.get_mut(&self.gid) else { return };
        *handles -= usize::from(!self.is_pointer);
        *pointers -= usize::from(self.is_pointer);
        if (*handles, *pointers) == (0, 0) {
            direct.remove(&self.gid);
            // A node that cannot be told is gone, or finds out by this program's end.
            let _ = self.shared.session.ask(&Request::Release { gid: self.gid });
        }
    }
}

/// An explicit mapping that the homes know of, so that nobody maps the region otherwise meanwhile.
pub(crate) struct SharedExplicit {
    /// Taken when this is dropped.
    explicit: Option<Explicit>,
    shared: Arc<Shared>,
    gid: Gid,
    /// Extents of this host are mapped as they are.
    _hold: DirectHold,
}

impl SharedExplicit {
    fn new(region: &Region) -> Result<SharedExplicit> {
        let request = Request::Share { view: region.fresh_view()?, consistency: Consistency::Explicit };
        match region.shared.session.ask(&request)? {
            Answer::Shared(_) => {}
            other => return Err(region.shared.session.nonsense(&other)),
        }
        // From here on the node is told when this fails or ends.
        let (shared, gid) = (region.shared.clone(), region.gid());
        let mut mapping = SharedExplicit { explicit: None, _hold: DirectHold::new(&shared, gid, true), shared, gid };
        mapping.explicit = Some(Explicit::new(region)?);
        Ok(mapping)
    }
}

impl Deref for SharedExplicit {
    type Target = Explicit;

    fn deref(&self) -> &Explicit {
        self.explicit.as_ref().expect("there until this is dropped")
    }
}

impl Drop for SharedExplicit {
    fn drop(&mut self) {
        self.explicit = None;
        // A node that cannot be told is gone, or finds out by this program's end.
        let _ = self.shared.session.ask(&Request::Unshare { gid: self.gid });
    }
}
