//! Users whose regions a program trusts.
//!
//! A name belongs to the first user that makes a region of it; the region's mode bits let others in. So a program that opens a name may
//! find another user's region. Plain bytes may be anybody's, as those of a file. What a program takes for its own state may not: a queue, a
//! mailbox, a dictionary, a file system, a region that it made before. Their calls ask [`Trust`].
//!
//! The owner comes with the grants, in one answer of the coordinator, and the handle keeps both. A name that is later given to another
//! region changes nothing. Root alone gives a region to another user.

use super::region::Region;
use hanare_protocol::{Error, Result};

/// Mode bits by which a region's group may write it, and everybody.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;

/// The users whose regions a program believes in: its own, and those that it names.
///
/// Its own is the user that its node knows it as: numbers of users in regions are that node's, too. Root is another user, unless it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    uid: u32,
    also: Vec<u32>,
    anyone: bool,
}

impl Trust {
    pub(super) fn of_user(uid: u32) -> Trust {
        Trust { uid, also: Vec::new(), anyone: false }
    }

    /// In another user, too.
    pub fn and_user(mut self, uid: u32) -> Trust {
        self.also.push(uid);
        self
    }

    /// In all users.
    pub fn and_anyone(mut self) -> Trust {
        self.anyone = true;
        self
    }

    /// True if a region of that user is trusted.
    pub fn includes(&self, owner: u32) -> bool {
        self.anyone || owner == self.uid || self.also.contains(&owner)
    }

    /// Refuses a region of a user that is not trusted. **Errors**: [`Error::NotTrusted`].
    pub fn check(&self, region: &str, owner: u32) -> Result<()> {
        match self.includes(owner) {
            true => Ok(()),
            false => Err(Error::NotTrusted { region: region.to_owned(), owner, uid: self.uid }),
        }
    }

    /// The same for an open region: the one that the handle reaches, whatever has its name. **Errors**: [`Error::NotTrusted`].
    pub fn check_region(&self, region: &Region) -> Result<()> {
        self.check(region.name(), region.owner().uid)
    }

    /// True if this user owns the region, and by its mode no other may write it.
    pub fn is_alone_in(&self, region: &Region) -> bool {
        region.owner().uid == self.uid && region.mode() & (GROUP_WRITES | ALL_WRITE) == 0
    }

    /// True if the region's owner is trusted, and by its mode only that user and its group may write it. Without limits on trust, any
    /// region.
    pub fn vouches_for(&self, region: &Region) -> bool {
        self.anyone || self.includes(region.owner().uid) && region.mode() & ALL_WRITE == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_trusted_when_it_is_this_one_or_was_named() {
        let own = Trust::of_user(1000);
        assert_eq!(own.check("a", 1000), Ok(()));
        let refused = Error::NotTrusted { region: "a".to_owned(), owner: 0, uid: 1000 };
        assert_eq!(own.check("a", 0), Err(refused.clone()), "root is another user");
        for part in ["region 'a'", "user 0", "user 1000", "trust=0", "--trust 0", "nothing was read"] {
            assert!(refused.to_string().contains(part), "{refused} lacks {part}");
        }
        let two = own.clone().and_user(7);
        assert!(two.includes(7) && two.includes(1000) && !two.includes(8));
        assert!(own.and_anyone().includes(8));
    }
}
