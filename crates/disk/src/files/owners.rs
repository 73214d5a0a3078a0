//! Decides how far a mount believes a file system. Users that can write its regions can forge each owner, mode and attribute.
//!
//! | its regions belong to | owners that are shown | set-user-ID bits, devices, capabilities |
//! |---|---|---|
//! | this user, and nobody else may write them | as told | as told; they count where root mounts |
//! | this user, and others may write them or are trusted | as told | none |
//! | root, which is trusted | as told | none |
//! | another user, which is trusted | its own, those of trusted users but root; all else is shown as its own | none |

use hanare::{Pool, Region};

/// Mode bits that give a program its owner's or its group's rights.
const RIGHTS: u32 = 0o6000;

/// The same for a folder: there the group's bit passes the group on, and gives no rights.
const FOLDER_RIGHTS: u32 = 0o4000;

/// Owners and rights that a mount shows.
#[derive(Clone, Debug)]
pub struct Owners {
    /// The user of this mount, as its node knows it.
    user: u32,
    /// The owner of `NAME@super`.
    owner: u32,
    /// Other users that are trusted.
    trusted: Vec<u32>,
    is_alone: bool,
}

impl Owners {
    /// Judges by the regions with which a mount begins. The pool's trust includes their owners.
    pub fn new(pool: &Pool, regions: [&Region; 2], trusted: &[u32]) -> Owners {
        let is_alone = trusted.is_empty() && regions.iter().all(|region| pool.trust().is_alone_in(region));
        Owners { user: pool.user().uid, owner: regions[0].owner().uid, trusted: trusted.to_vec(), is_alone }
    }

    /// True where only this user can have written what the file system tells.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// True for a user whose ownership the file system may claim.
    pub fn speaks_for(&self, uid: u32) -> bool {
        let is_known = uid == self.owner || uid == self.user || self.trusted.contains(&uid);
        [0, self.user].contains(&self.owner) || (uid != 0 && is_known)
    }

    /// The owner that is shown where the file system tells this one.
    pub fn owner(&self, told: u32) -> u32 {
        if self.speaks_for(told) { told } else { self.owner }
    }

    /// The mode bits that are shown.
    pub fn mode(&self, told: u32, is_folder: bool) -> u32 {
        let rights = if is_folder { FOLDER_RIGHTS } else { RIGHTS };
        if self.is_alone { told } else { told & !rights }
    }

    /// The device's number that is shown.
    pub fn device(&self, told: u32) -> u32 {
        if self.is_alone { told } else { 0 }
    }

    /// False for a hidden extended attribute: the kernel, or a file system over this one, would act upon it.
    pub fn shows(&self, attribute: &[u8]) -> bool {
        self.is_alone || !(attribute.starts_with(b"security.") || attribute.starts_with(b"trusted."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(user: u32, owner: u32, trusted: &[u32], is_alone: bool) -> Owners {
        Owners { user, owner, trusted: trusted.to_vec(), is_alone }
    }

    #[test]
    fn another_user_s_files_are_nobody_else_s_and_give_no_rights() {
        let by_root = owners(0, 1000, &[1000, 7], false);
        assert_eq!([0, 7, 8, 1000].map(|told| by_root.owner(told)), [1000, 7, 1000, 1000], "root is none of theirs");
        assert_eq!((by_root.mode(0o6755, false), by_root.mode(0o7777, true), by_root.device(259)), (0o755, 0o3777, 0));
        assert!(
            !by_root.shows(b"security.capability") && !by_root.shows(b"trusted.overlay.opaque") && by_root.shows(b"user.note")
        );
        let by_user = owners(5, 1000, &[1000], false);
        assert_eq!([0, 5, 8].map(|told| by_user.owner(told)), [1000, 5, 1000], "what this user makes there stays its own");
    }

    #[test]
    fn files_of_this_user_alone_are_as_told_and_those_of_root_have_any_owner() {
        let own = owners(0, 0, &[], true);
        assert_eq!((own.owner(8), own.mode(0o6755, false), own.device(259)), (8, 0o6755, 259));
        assert!(own.is_alone() && own.shows(b"security.capability"));
        let of_root = owners(5, 0, &[0], false);
        assert_eq!((of_root.owner(8), of_root.mode(0o4755, false)), (8, 0o755));
        let shared = owners(0, 0, &[9], false);
        assert_eq!((shared.owner(8), shared.mode(0o4755, false), shared.device(259)), (8, 0o755, 0));
    }
}
