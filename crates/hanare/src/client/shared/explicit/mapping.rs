//! An explicit mapping as the pool knows it: the homes count it, so that nobody maps the region otherwise meanwhile.

use super::Explicit;
use super::next_homes::follows;
use crate::client::attachment::{BoundMemory, CarriedMemory, DirectHold, MappedRegion, PageCounts, Shared};
use crate::client::region::Region;
use crate::client::repetition::Refusals;
use crate::client::shared::{MapAddress, MapOptions};
use hanare_memory::Window;
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::page::{Access, Consistency};
use hanare_protocol::wire::control::{Answer, RegionView, Request};
use hanare_protocol::{Error, Result};
use std::sync::Arc;

/// See the module.
pub(crate) struct SharedExplicit {
    /// Taken at its end.
    explicit: Option<Explicit>,
    /// Extents of this host are mapped as they are. Dropped after them.
    hold: Option<DirectHold>,
    /// True if this host's node counts it.
    is_told: bool,
    consistency: Consistency,
    /// The life of the node that knows of it.
    life: u64,
    shared: Arc<Shared>,
    gid: Gid,
}

/// Tells the homes of a mapping that will be made. Returns false where they cannot hear of it: programs of this host have mapped the region since
/// before it moved, so their node would ask homes of before. Then it is mapped as one with copies is.
fn tell_homes(region: &Region, view: RegionView, consistency: Consistency, is_last: bool) -> Result<bool> {
    let (life, follows) = (region.shared.life(), follows(region));
    let following = Request::ShareFollowing { view: view.clone(), consistency };
    let is_known = following.since() <= life.session.spoken();
    let request = if follows && is_known { following } else { Request::Share { view: view.clone(), consistency } };
    match life.session.ask(&request) {
        Ok(Answer::Shared(_)) => Ok(true),
        Ok(other) => Err(region.shared.nonsense(&other)),
        Err(Error::GrantRefused { .. }) if follows && is_last => Ok(false),
        Err(Error::NodeLost { node, .. }) if follows && view.nodes.iter().all(|home| home.node != node) => Ok(false),
        Err(error) => Err(error),
    }
}

impl SharedExplicit {
    /// Tells the homes, and maps a region, `Explicit` or `Entry`. Those of a region with copies may be others at any moment, so nobody is
    /// told: the home of today asks hosts that have it mapped `Coherent` for their pages.
    ///
    /// **Errors**: [`Error::BadUse`] where it is mapped otherwise; as for [`Explicit::new`].
    pub fn new(region: &Region, consistency: Consistency, address: MapAddress) -> Result<SharedExplicit> {
        let mut refusals = Refusals::default();
        loop {
            let is_last = !refusals.may_repeat();
            match SharedExplicit::make(region, consistency, address, is_last) {
                // The region gets copies at this moment, or moves.
                Err(Error::GrantRefused { .. }) if !is_last => {}
                made => return made,
            }
        }
    }

    fn make(region: &Region, consistency: Consistency, address: MapAddress, is_last: bool) -> Result<SharedExplicit> {
        let view = region.fresh_view()?;
        let life = region.shared.life().number;
        let is_told = view.copies == 1 && tell_homes(region, view, consistency, is_last)?;
        // From here on the node is told when this fails or ends.
        let (shared, gid) = (region.shared.clone(), region.gid());
        let hold = Some(DirectHold::new(&shared, gid, true));
        let mut mapping = SharedExplicit { explicit: None, hold, is_told, consistency, life, shared, gid };
        mapping.explicit = Some(Explicit::make(region, address, MapOptions::new, consistency == Consistency::Entry)?);
        Ok(mapping)
    }

    fn explicit(&self) -> &Explicit {
        self.explicit.as_ref().expect("there until its end")
    }

    /// The same, unless its host's memory went with an earlier life of the node.
    fn today(&self) -> Result<&Explicit> {
        if !self.has_copies() {
            self.shared.check_life(self.life)?;
        }
        Ok(self.explicit())
    }

    /// True if none of it is memory of this host, and its homes may be others at any moment.
    fn has_copies(&self) -> bool {
        self.explicit().has_copies()
    }
}

impl MappedRegion for SharedExplicit {
    fn consistency(&self) -> Consistency {
        self.consistency
    }

    fn bound(&self) -> Option<&dyn BoundMemory> {
        match self.consistency {
            Consistency::Entry => Some(self.explicit()),
            _ => None,
        }
    }

    fn carried(&self) -> Option<&dyn CarriedMemory> {
        // The home of a barrier or a lock would put stores past the copies, so it refuses them. They go before it.
        Some(self.explicit() as &dyn CarriedMemory).filter(|_| !self.has_copies())
    }

    fn rights(&self) -> Rights {
        self.explicit().rights
    }

    unsafe fn window(&self) -> Window {
        // SAFETY: promised by the caller.
        unsafe { self.explicit().window() }
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.today()?.read(offset, into)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.today()?.write(offset, bytes)
    }

    fn touch(&self, offset: u64, len: u64, access: Access) -> Result<()> {
        match access {
            Access::Read => self.today()?.bring_all(offset, len),
            Access::Write => self.today()?.touch(offset, len, Rights::Write),
        }
    }

    fn flush(&self, offset: u64, len: u64) -> Result<()> {
        self.today()?.flush(offset, len)
    }

    fn update(&self, offset: u64, len: u64) -> Result<()> {
        self.today()?.update(offset, len)
    }

    fn renew(&self, offset: u64, len: u64) -> Result<()> {
        self.today()?.renew(offset, len)
    }

    fn counts(&self) -> PageCounts {
        self.explicit().counters()
    }

    /// Its stores on this host went with the node that had its memory.
    fn check_stores(&self) -> Result<()> {
        self.today().map(drop)
    }

    fn lost(&self) -> Error {
        self.explicit().lost(0)
    }

    fn end(&mut self) -> Result<()> {
        self.explicit = None;
        // A node that cannot be told is gone, or finds out by this program's end.
        if std::mem::take(&mut self.is_told) && self.shared.life().number == self.life {
            let _ = self.shared.life().session.ask(&Request::Unshare { gid: self.gid });
        }
        self.hold = None;
        Ok(())
    }
}

impl Drop for SharedExplicit {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
