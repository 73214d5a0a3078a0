//! Addresses of locks and groups, as callers give them. An address is a name at the pool's home, or a region's byte at the byte's node.

use super::attachment::Shared;
use super::cut::plan::parts;
use super::region::Region;
use super::remote::Remote;
use super::repetition::Refusals;
use super::route::ExtentRoute;
use hanare_protocol::name::check_name;
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::sync::SyncAddress;
use hanare_protocol::{Error, Result};
use std::borrow::Cow;
use std::sync::Arc;

/// Address of a lock or a group.
#[derive(Clone, Copy)]
pub(crate) enum SyncTarget<'a> {
    Name(&'a Arc<Shared>, &'a str),
    Byte(&'a Region, u64),
}

impl<'a> SyncTarget<'a> {
    /// A name. **Errors**: [`Error::BadName`].
    pub fn name(shared: &'a Arc<Shared>, name: &'a str) -> Result<SyncTarget<'a>> {
        check_name(name).map(|()| SyncTarget::Name(shared, name))
    }

    /// A byte of a region, for who only shares what lies there or takes it alone, too.
    ///
    /// **Errors**: [`Error::OutOfRange`]; [`Error::BadUse`] where the region was opened for reading and that is not enough.
    pub fn byte(region: &'a Region, offset: u64, only_shares: bool) -> Result<SyncTarget<'a>> {
        Strided::contiguous(offset, 1).check(region.name(), region.len())?;
        if !only_shares {
            region.check_rights(Op::Put)?;
        }
        Ok(SyncTarget::Byte(region, offset))
    }

    pub fn shared(&self) -> &'a Arc<Shared> {
        match self {
            SyncTarget::Name(shared, _) => shared,
            SyncTarget::Byte(region, _) => &region.shared,
        }
    }

    /// The program's key for it: no name has a '/'.
    pub fn key(&self) -> Cow<'a, str> {
        match *self {
            SyncTarget::Name(_, name) => Cow::Borrowed(name),
            SyncTarget::Byte(region, offset) => Cow::Owned(format!("/{}/{offset}", region.gid().0)),
        }
    }

    /// People's name for it.
    pub fn title(&self) -> String {
        match self {
            SyncTarget::Name(_, name) => (*name).to_owned(),
            SyncTarget::Byte(region, offset) => format!("{}+{offset}", region.name()),
        }
    }

    /// Runs `ask` with the connection to its home and its address there. Runs it again if the grant was not today's.
    pub fn ask<T>(&self, mut ask: impl FnMut(&Arc<Remote>, SyncAddress) -> Result<T>) -> Result<T> {
        let SyncTarget::Byte(region, _) = *self else {
            return self.shared().ask_home(|home| ask(home, SyncAddress::Name(self.title())));
        };
        let mut once = || {
            let (route, offset) = self.extent_route()?;
            ask(&route.remote, SyncAddress::Byte { slot: route.slot, grant: route.grant, offset })
        };
        let (mut outcome, mut refusals) = (once(), Refusals::default());
        while matches!(outcome, Err(Error::GrantRefused { .. })) && refusals.may_repeat() {
            outcome = region.refresh().and_then(|()| once());
        }
        // Its home knows the region by its number.
        outcome.map_err(|error| match error {
            Error::UnknownRegion { .. } => Error::UnknownRegion { name: region.name().to_owned() },
            Error::LockMisused { reason, .. } => Error::LockMisused { name: self.title(), reason },
            Error::BadGroup { asked, parties, reason, .. } => Error::BadGroup { name: self.title(), asked, parties, reason },
            other => other,
        })
    }

    /// Route to the byte's extent, and the byte's offset in it.
    fn extent_route(&self) -> Result<(ExtentRoute, u64)> {
        let SyncTarget::Byte(region, offset) = self else { unreachable!("only bytes lie in extents") };
        // The offset was checked to lie in the region.
        let part = parts(region.routes(), Strided::contiguous(*offset, 1)).next();
        let part =
            part.ok_or_else(|| Error::BadUse { region: region.name().to_owned(), reason: "it has no such byte".to_owned() })?;
        Ok((region.extent_route(part.extent), part.shape.offset))
    }
}
