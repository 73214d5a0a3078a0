//! Owners and modes of the names of locks and groups, kept at the pool's home.
//!
//! A name belongs to its first user, with mode 0600, like a region that is created without a mode. The owner may
//! [permit](NameOwners::on_permit) others. A lock and a group of one name have one owner and one mode.
//!
//! | asked | bits needed |
//! |---|---|
//! | share a lock | r |
//! | take a lock alone, join a group | r and w |
//! | permit | owner or root |
//!
//! A name stays its owner's while nobody uses it, so that nobody else takes it between two takings. It is not journaled: after the home's
//! restart the next user of a name is its first. A user has a bounded number of names; the oldest one that is not in use makes way.

use crate::coordinator::permission::{bits, check_mode, most};
use crate::error::{Error, Result};
use crate::id::{Asker, Rights, User};
use crate::limits::{NAME_COUNT_MAX, USER_NAME_COUNT_MAX};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The mode of a name that nobody was permitted.
const MODE: u32 = 0o600;

/// NameOwners that are looked at, the oldest first, for one that can make way: bounds the cost of a request.
const LOOK_COUNT_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owned {
    owner: User,
    mode: u32,
}

/// Owners of names.
///
/// - Each name is once in the queue of its owner's uid, and in no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameOwners {
    owned: BTreeMap<Arc<str>, Owned>,
    /// Names of each uid, the oldest first.
    by_uid: BTreeMap<u32, VecDeque<Arc<str>>>,
}

impl NameOwners {
    /// An empty table.
    pub fn new() -> NameOwners {
        NameOwners::default()
    }

    /// Number of names with an owner.
    pub fn count(&self) -> usize {
        self.owned.len()
    }

    /// A user would use a name, with these rights; it becomes the owner where nobody is. `is_used` is true for a name of which somebody has
    /// a lock or a place in a group.
    ///
    /// **Cost**: a search among the names. **Errors**: [`Error::NoPermission`]; [`Error::LimitReached`] for too many names.
    pub fn on_use(&mut self, name: &str, user: User, rights: Rights, is_used: impl Fn(&str) -> bool) -> Result<()> {
        let Some(owned) = self.owned.get(name) else { return self.begin(name, user, MODE, is_used) };
        match most(bits(owned.owner, owned.mode, &Asker::from(user))) {
            Some(granted) if granted >= rights => Ok(()),
            _ => Err(refusal(name, owned, user, "use the name")),
        }
    }

    /// A user sets the rights to a name; it becomes the owner where nobody is. Holders of a lock or a place keep it.
    ///
    /// **Errors**: [`Error::BadSetting`] for a mode that is none; as for [`NameOwners::on_use`].
    pub fn on_permit(&mut self, name: &str, user: User, mode: u32, is_used: impl Fn(&str) -> bool) -> Result<()> {
        check_mode(mode)?;
        let Some(owned) = self.owned.get_mut(name) else { return self.begin(name, user, mode, is_used) };
        if user.uid != 0 && user.uid != owned.owner.uid {
            return Err(refusal(name, owned, user, "permit others the name"));
        }
        owned.mode = mode;
        Ok(())
    }

    /// True if a user may use a name that somebody has used, with these rights.
    pub fn may(&self, name: &str, user: User, rights: Rights) -> bool {
        let owned = self.owned.get(name);
        owned.is_some_and(|owned| most(bits(owned.owner, owned.mode, &Asker::from(user))).is_some_and(|most| most >= rights))
    }

    fn begin(&mut self, name: &str, owner: User, mode: u32, is_used: impl Fn(&str) -> bool) -> Result<()> {
        let own = self.by_uid.entry(owner.uid).or_default();
        let is_full = own.len() >= USER_NAME_COUNT_MAX || self.owned.len() >= NAME_COUNT_MAX;
        if is_full && !make_way(own, &mut self.owned, is_used) {
            let limit = if own.len() >= USER_NAME_COUNT_MAX { USER_NAME_COUNT_MAX } else { NAME_COUNT_MAX };
            if own.is_empty() {
                self.by_uid.remove(&owner.uid);
            }
            return Err(Error::LimitReached { what: "names of locks and groups".to_owned(), limit: limit as u64 });
        }
        let name: Arc<str> = name.into();
        own.push_back(name.clone());
        self.owned.insert(name, Owned { owner, mode });
        Ok(())
    }
}

/// Forgets the oldest of a user's names that is not in use. Nobody else's name makes way.
fn make_way(own: &mut VecDeque<Arc<str>>, owned: &mut BTreeMap<Arc<str>, Owned>, is_used: impl Fn(&str) -> bool) -> bool {
    for _ in 0..LOOK_COUNT_MAX.min(own.len()) {
        let Some(oldest) = own.pop_front() else { break };
        if !is_used(&oldest) {
            owned.remove(&oldest);
            return true;
        }
        own.push_back(oldest);
    }
    false
}

fn refusal(name: &str, owned: &Owned, user: User, what: &str) -> Error {
    let Owned { owner, mode } = *owned;
    Error::NoPermission { region: name.to_owned(), what: what.to_owned(), uid: user.uid, owner: owner.uid, mode }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: User = User { uid: 10, gid: 20 };
    const GROUP: User = User { uid: 11, gid: 20 };
    const OTHER: User = User { uid: 12, gid: 21 };
    const ROOT: User = User { uid: 0, gid: 0 };

    fn free(_: &str) -> bool {
        false
    }

    fn may(names: &mut NameOwners, user: User, rights: Rights) -> bool {
        match names.on_use("a", user, rights, free) {
            Ok(()) => true,
            Err(Error::NoPermission { .. }) => false,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_name_is_its_first_user_s_also_while_nobody_uses_it() {
        let mut names = NameOwners::new();
        assert!(may(&mut names, OWNER, Rights::Read));
        assert_eq!([GROUP, OTHER, ROOT, OWNER].map(|user| names.may("a", user, Rights::Read)), [false, false, true, true]);
        assert_eq!([GROUP, OTHER, ROOT, OWNER].map(|user| may(&mut names, user, Rights::Read)), [false, false, true, true]);
        assert!(!names.may("never used", ROOT, Rights::Read));
        assert!(matches!(
            names.on_use("a", OTHER, Rights::Write, free),
            Err(Error::NoPermission { region, uid: 12, owner: 10, mode: 0o600, .. }) if region == "a"
        ));
        assert_eq!(names.count(), 1);
    }

    #[test]
    fn its_owner_permits_others_as_mode_bits_say() {
        let mut names = NameOwners::new();
        names.on_permit("a", OWNER, 0o640, free).unwrap();
        assert_eq!([GROUP, OTHER].map(|user| may(&mut names, user, Rights::Read)), [true, false]);
        assert_eq!([GROUP, OWNER].map(|user| may(&mut names, user, Rights::Write)), [false, true]);
        for user in [GROUP, OTHER] {
            assert!(matches!(names.on_permit("a", user, 0o666, free), Err(Error::NoPermission { .. })));
        }
        names.on_permit("a", ROOT, 0o666, free).unwrap();
        assert!(may(&mut names, OTHER, Rights::Write));
        assert!(matches!(names.on_permit("a", OWNER, 0o1666, free), Err(Error::BadSetting { .. })));
    }

    #[test]
    fn who_has_too_many_names_loses_the_oldest_that_is_free_and_nobody_else_does() {
        let mut names = NameOwners::new();
        let used = |name: &str| name == "0";
        names.on_use("theirs", OTHER, Rights::Write, used).unwrap();
        for number in 0..=USER_NAME_COUNT_MAX {
            names.on_use(&number.to_string(), OWNER, Rights::Write, used).unwrap();
        }
        assert_eq!(names.count(), 1 + USER_NAME_COUNT_MAX);
        let theirs = |names: &mut NameOwners, name: &str| names.on_use(name, GROUP, Rights::Read, used).is_err();
        assert!(theirs(&mut names, "0"), "it is in use");
        assert!(!theirs(&mut names, "1"), "the oldest that is free made way");
        assert!(theirs(&mut names, "2") && theirs(&mut names, "theirs"));
        let refused = names.on_use("more", OWNER, Rights::Write, |_| true);
        assert!(matches!(refused, Err(Error::LimitReached { limit, .. }) if limit == USER_NAME_COUNT_MAX as u64));
    }
}
