//! Names of locks and groups: words with their owners, or bytes of extents with their grants.

use super::{ArrivedParty, AtOnce, ByteGrant, Locks, WaitingLock};
use crate::events::SyncOutput;
use crate::memory::{Bytes, Memory};
use crate::waiter::Waiter;
use hanare_protocol::group::{self, Groups};
use hanare_protocol::id::{Gid, Rights, Slot, User};
use hanare_protocol::lock::{self, Claimant};
use hanare_protocol::name::{check_name, extent_of_name, name_of_byte};
use hanare_protocol::tenant::lock_prefix;
use hanare_protocol::wire::sync::{SyncAddress, SyncAnswer};
use hanare_protocol::{Error, Result};

impl Locks {
    /// The name by which a lock or a group is kept here. Refuses a user the names of others, and bytes that its grant does not open.
    pub fn find(&mut self, address: SyncAddress, rights: Rights, user: User, memory: &impl Memory) -> Result<String> {
        match address {
            SyncAddress::Name(name) => {
                check_name(&name)?;
                let name = kept_name(user, &name);
                let Locks { locks, groups, names, .. } = self;
                names.on_use(&name, user, rights, |name| is_used(locks, groups, name))?;
                Ok(name)
            }
            SyncAddress::Byte { slot, grant, offset } => {
                let extent = memory.open(slot, grant, rights)?;
                if offset >= extent.len_bytes() {
                    let reason = format!("there is no byte {offset} in its extent");
                    return Err(Error::BadUse { region: "of a peer".to_owned(), reason });
                }
                Ok(name_of_byte(extent.gid(), slot, offset))
            }
        }
    }

    /// A user says who may use a name. The program that may take the lock unasked is asked for the name again.
    pub fn permit(&mut self, name: &str, mode: u32, user: User) -> AtOnce {
        check_name(name)?;
        let name = &*kept_name(user, name);
        let Locks { locks, groups, names, .. } = self;
        names.on_permit(name, user, mode, |name| is_used(locks, groups, name))?;
        self.locks.on_recall(name);
        Ok(Some(SyncAnswer::Done))
    }

    /// A reply with the names that its user said in place of those that are kept.
    pub fn in_words_of_user(&self, output: SyncOutput) -> SyncOutput {
        match output {
            SyncOutput::Answer(waiter, Err(error)) => {
                let prefix = self.quotas.user_of(waiter.link).map(lock_prefix).filter(|prefix| !prefix.is_empty());
                SyncOutput::Answer(waiter, Err(prefix.map_or(error.clone(), |prefix| error.without_prefix(&prefix))))
            }
            output => output,
        }
    }

    /// True if programs have locks or groups at bytes of an extent, or wait there. Leases of such locks are recalled.
    pub fn are_at(&mut self, gid: Gid, slot: Slot) -> bool {
        let is_there = |name: &&str| extent_of_name(name) == Some((gid, slot));
        let taken: Vec<String> = self.locks.listed(0).map(|listed| listed.name).filter(is_there).map(str::to_owned).collect();
        taken.iter().for_each(|name| self.locks.on_recall(name));
        let waits = self.waiting.values().any(|waiting| is_there(&waiting.wanted.name.as_str()));
        !taken.is_empty() || waits || self.groups.names().any(|name| is_there(&name))
    }

    /// The node is the home of an extent from here on, and another was. `is_doubtful` where the home before is lost, or left a doubt about the
    /// locks at its bytes. What is known here of these locks is from an earlier time as their home.
    pub fn begin_bytes(&mut self, gid: Gid, slot: Slot, is_doubtful: bool) {
        let refused = |me: &Locks| Error::GrantRefused { gid, node: me.not_home.unwrap_or_default() };
        self.forget_held(|name| extent_of_name(name) == Some((gid, slot)), refused);
        if is_doubtful {
            self.locks.doubt_bytes(gid, slot);
        }
    }

    /// Forgets locks, and what is bound to them. Who waits is refused. Who has one hears it when it gives the lock back.
    pub(super) fn forget_held(&mut self, is_it: impl Fn(&str) -> bool + Copy, refused: impl Fn(&Locks) -> Error) {
        for who in self.locks.forget(is_it) {
            self.leases.end(who);
            self.recount(who.link);
            if let Some(WaitingLock { seq, .. }) = self.wait_no_more(who) {
                let refused = Err(refused(self));
                self.outputs.push_back(SyncOutput::Answer(Waiter { link: who.link, seq }, refused));
            }
        }
        self.data.forget(is_it);
    }

    /// True if the next home of an extent cannot know all about the locks at its bytes: a program may have one without the home, or something is
    /// bound to one.
    pub fn leaves_doubt(&self, gid: Gid, slot: Slot) -> bool {
        self.locks.leaves_doubt(gid, slot) || self.data.is_at(gid, slot)
    }

    /// The next output. A node whose lease as home of bytes is over gives nobody a lock there who waited: the next home may have given it to another.
    pub fn poll(&mut self, memory: &impl Memory) -> Option<SyncOutput> {
        let output = self.outputs.pop_front()?;
        let SyncOutput::Answer(waiter, _) = output else { return Some(output) };
        let Some(ByteGrant { who, extent: (gid, slot) }) = self.byte_grants.remove(&waiter) else { return Some(output) };
        if memory.answers(gid, slot) {
            return Some(output);
        }
        self.data.on_withdraw(who);
        self.locks.on_withdraw(who);
        self.recount(who.link);
        self.settle();
        Some(SyncOutput::Answer(waiter, Err(Error::GrantRefused { gid, node: self.not_home.unwrap_or_default() })))
    }

    /// Extents are no more: who waits for a lock or a group at their bytes is told. Who comes later is refused.
    pub fn on_freed(&mut self, memory: &impl Memory) {
        self.locks.on_freed(|gid, slot| memory.has(gid, slot));
        let is_gone = |name: &str| gone_region(name, memory);
        let waiting: Vec<(Claimant, Gid)> =
            self.waiting.iter().filter_map(|(who, waiting)| Some((*who, is_gone(&waiting.wanted.name)?))).collect();
        for (who, gid) in waiting {
            self.locks.on_withdraw(who);
            self.recount(who.link);
            if let Some(WaitingLock { seq, .. }) = self.wait_no_more(who) {
                let error = Error::UnknownRegion { name: gid.to_string() };
                self.outputs.push_back(SyncOutput::Answer(Waiter { link: who.link, seq }, Err(error)));
            }
        }
        let places = self.arrived.keys().filter_map(|who| if let ArrivedParty::Place(who) = who { Some(*who) } else { None });
        let gone: Vec<(Claimant, Gid)> = places.filter_map(|who| Some((who, is_gone(self.groups.name_of(who)?)?))).collect();
        for (who, gid) in gone {
            self.tell_party(ArrivedParty::Place(who), Err(Error::UnknownRegion { name: gid.to_string() }));
            let _ = self.groups.on_leave(who);
            self.recount(who.link);
        }
        self.settle();
    }
}

/// The name by which a user's lock or group is kept: a tenant's is no other user's.
fn kept_name(user: User, name: &str) -> String {
    format!("{}{name}", lock_prefix(user.uid))
}

/// Refuses a wait at a byte of an extent that is no more: what tells those who wait has passed.
pub(super) fn ensure_there(name: &str, memory: &impl Memory) -> Result<()> {
    gone_region(name, memory).map_or(Ok(()), |gid| Err(Error::UnknownRegion { name: gid.to_string() }))
}

/// The region of a byte's name whose extent is no more.
fn gone_region(name: &str, memory: &impl Memory) -> Option<Gid> {
    extent_of_name(name).filter(|(gid, slot)| !memory.has(*gid, *slot)).map(|(gid, _)| gid)
}

/// True if the name has a lock or a group with claims.
fn is_used(locks: &lock::Locks, groups: &Groups, name: &str) -> bool {
    !matches!(locks.phase(name), lock::Phase::Free | lock::Phase::Orphaned) || groups.phase(name) != group::Phase::Empty
}
