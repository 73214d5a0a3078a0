//! An explicit mapping as the pool knows it: the homes count it, so that nobody maps the region otherwise meanwhile.

use super::Explicit;
use crate::client::attachment::{BoundMemory, CarriedMemory, DirectHold, MappedRegion, PageCounts, Shared};
use crate::client::region::Region;
use crate::client::shared::{MapAddress, MapOptions};
use hanare_memory::Window;
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::page::{Access, Consistency};
use hanare_protocol::wire::control::{Answer, Request};
use hanare_protocol::{Error, Result};
use std::sync::Arc;

/// See the module.
pub(crate) struct SharedExplicit {
    /// Taken at its end.
    explicit: Option<Explicit>,
    /// Extents of this host are mapped as they are. Dropped after them.
    hold: Option<DirectHold>,
    consistency: Consistency,
    /// The life of the node that knows of it.
    life: u64,
    shared: Arc<Shared>,
    gid: Gid,
}

impl SharedExplicit {
    /// Tells the homes, and maps a region, `Explicit` or `Entry`. One with copies is never mapped coherently, so nobody is told.
    ///
    /// **Errors**: [`Error::BadUse`] where it is mapped otherwise; as for [`Explicit::new`].
    pub fn new(region: &Region, consistency: Consistency, address: MapAddress) -> Result<SharedExplicit> {
        let request = Request::Share { view: region.fresh_view(consistency)?, consistency };
        let life = region.shared.life();
        if region.copies() > 1 {
            let (shared, gid) = (region.shared.clone(), region.gid());
            let explicit = Some(Explicit::make(region, address, MapOptions::new, consistency == Consistency::Entry)?);
            return Ok(SharedExplicit { explicit, hold: None, consistency, life: life.number, shared, gid });
        }
        match life.session.ask(&request)? {
            Answer::Shared(_) => {}
            other => return Err(region.shared.nonsense(&other)),
        }
        // From here on the node is told when this fails or ends.
        let (shared, gid) = (region.shared.clone(), region.gid());
        let hold = Some(DirectHold::new(&shared, gid, true));
        let mut mapping = SharedExplicit { explicit: None, hold, consistency, life: life.number, shared, gid };
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

    /// True if none of it is memory of this host, and its homes may be others later.
    fn has_copies(&self) -> bool {
        self.explicit().copies > 1
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
        // The home of a barrier or a lock puts the stores that it carries past the copies. So these go before it.
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
        if let Some(hold) = self.hold.take() {
            // A node that cannot be told is gone, or finds out by this program's end.
            if self.shared.life().number == self.life {
                let _ = self.shared.life().session.ask(&Request::Unshare { gid: self.gid });
            }
            drop(hold);
        }
        Ok(())
    }
}

impl Drop for SharedExplicit {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
