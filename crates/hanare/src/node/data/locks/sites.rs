//! Where locks and groups lie: names and their owners, bytes of extents and their grants.

use super::{AtOnce, Locks, WaitingLock};
use crate::node::data::waiter::Waiter;
use crate::node::extents::Extents;
use hanare_protocol::group::{self, Groups};
use hanare_protocol::id::{Gid, Rights, User};
use hanare_protocol::lock::{self, Claimant};
use hanare_protocol::name::{check_name, extent_of_name, name_of_byte};
use hanare_protocol::wire::sync::{Site, SyncAnswer};
use hanare_protocol::{Error, Result};

impl Locks {
    /// The name by which a lock or a group is kept here. Refuses a user the names of others, and bytes that its grant does not open.
    pub fn find(&mut self, site: Site, rights: Rights, user: User, extents: &Extents) -> Result<String> {
        match site {
            Site::Name(name) => {
                check_name(&name)?;
                let Locks { locks, groups, names, .. } = self;
                names.on_use(&name, user, rights, |name| is_used(locks, groups, name))?;
                Ok(name)
            }
            Site::Byte { slot, grant, offset } => {
                let held = extents.hold(slot, grant, rights)?;
                if offset >= held.len() {
                    let reason = format!("there is no byte {offset} in its extent");
                    return Err(Error::BadUse { region: "of a peer".to_owned(), reason });
                }
                Ok(name_of_byte(held.gid(), slot, offset))
            }
        }
    }

    /// A user says who may use a name: it is asked for anew by the program that may take the lock unasked.
    pub fn permit(&mut self, name: &str, mode: u32, user: User) -> AtOnce {
        check_name(name)?;
        let Locks { locks, groups, names, .. } = self;
        names.on_permit(name, user, mode, |name| is_used(locks, groups, name))?;
        self.locks.on_recall(name);
        Ok(Some(SyncAnswer::Done))
    }

    /// Extents are no more: who waits for a lock or a group at their bytes is told. Who comes later is refused.
    pub fn on_freed(&mut self, extents: &Extents) {
        let is_gone = |name: &str| gone_region(name, extents);
        let waiting: Vec<(Claimant, Gid)> =
            self.waiting.iter().filter_map(|(who, waiting)| Some((*who, is_gone(&waiting.wanted.name)?))).collect();
        for (who, gid) in waiting {
            self.locks.on_withdraw(who);
            self.recount(who.link);
            if let Some(WaitingLock { seq, .. }) = self.wait_no_more(who) {
                self.answers.push_back((Waiter { session: who.link, seq }, Err(Error::UnknownRegion { name: gid.to_string() })));
            }
        }
        let meeting: Vec<(Claimant, Gid)> =
            self.meeting.keys().filter_map(|who| Some((*who, is_gone(self.groups.name_of(*who)?)?))).collect();
        for (who, gid) in meeting {
            let Some(seq) = self.meeting.remove(&who) else { continue };
            let _ = self.groups.on_leave(who);
            self.recount(who.link);
            let waiter = Waiter { session: who.link, seq };
            self.answers.extend(self.wants.told(waiter, Err(Error::UnknownRegion { name: gid.to_string() })));
        }
        self.settle();
    }
}

/// Refuses a wait at a byte of an extent that is no more: what tells those who wait has passed.
pub(super) fn ensure_there(name: &str, extents: &Extents) -> Result<()> {
    gone_region(name, extents).map_or(Ok(()), |gid| Err(Error::UnknownRegion { name: gid.to_string() }))
}

/// The region of a byte's name whose extent is no more.
fn gone_region(name: &str, extents: &Extents) -> Option<Gid> {
    extent_of_name(name).filter(|(gid, slot)| !extents.has(*gid, *slot)).map(|(gid, _)| gid)
}

/// Whether anybody has a lock or a place in a group of that name.
fn is_used(locks: &lock::Locks, groups: &Groups, name: &str) -> bool {
    !matches!(locks.phase(name), lock::Phase::Free | lock::Phase::Orphaned) || groups.phase(name) != group::Phase::Empty
}
