//! Who may do what: a region's mode bits, read like a file's.

use super::journal::RegionRecord;
use crate::error::{Error, Result};
use crate::id::{Rights, User};

/// The bits that mean something.
pub(super) const MODE_MASK: u32 = 0o777;

/// The three bits that apply to a user: the owner's, the group's or everyone's. Root has all.
fn bits(region: &RegionRecord, user: User) -> u32 {
    match user {
        User { uid: 0, .. } => 0o7,
        User { uid, .. } if uid == region.owner.uid => region.mode >> 6 & 0o7,
        User { gid, .. } if gid == region.owner.gid => region.mode >> 3 & 0o7,
        _ => region.mode & 0o7,
    }
}

fn refusal(region: &RegionRecord, user: User, what: &str) -> Error {
    Error::NoPermission {
        region: region.name.clone(),
        what: what.to_owned(),
        uid: user.uid,
        owner: region.owner.uid,
        mode: region.mode,
    }
}

/// The rights that a user gets: those asked for, or the most there are.
///
/// Writing includes reading, as grants have it, so it needs both bits.
pub(super) fn rights(region: &RegionRecord, user: User, asked: Option<Rights>) -> Result<Rights> {
    let bits = bits(region, user);
    let most = match (bits & 0o4 != 0, bits & 0o2 != 0) {
        (true, true) => Some(Rights::Write),
        (true, false) => Some(Rights::Read),
        _ => None,
    };
    match (asked, most) {
        (None, Some(most)) => Ok(most),
        (Some(asked), Some(most)) if asked <= most => Ok(asked),
        (Some(Rights::Write), _) => Err(refusal(region, user, "write")),
        _ => Err(refusal(region, user, "read")),
    }
}

/// Refuses to show a region to those who may do nothing with it: its name and size are its owner's matter.
pub(super) fn may_see(region: &RegionRecord, user: User) -> Result<()> {
    let is_owner = user.uid == region.owner.uid;
    match is_owner || bits(region, user) != 0 {
        true => Ok(()),
        false => Err(refusal(region, user, "see")),
    }
}

/// Refuses to remove a region to all but its owner and root.
pub(super) fn may_remove(region: &RegionRecord, user: User) -> Result<()> {
    match user.uid == 0 || user.uid == region.owner.uid {
        true => Ok(()),
        false => Err(refusal(region, user, "remove")),
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::id::Gid;
    use crate::place::{Layout, Placement};

    const OWNER: User = User { uid: 10, gid: 20 };
    const GROUP: User = User { uid: 11, gid: 20 };
    const OTHER: User = User { uid: 12, gid: 21 };
    const ROOT: User = User { uid: 0, gid: 0 };

    fn region(mode: u32) -> RegionRecord {
        let layout = Layout::default();
        let lost = Default::default();
        RegionRecord { gid: Gid(1), name: "r".into(), placement: Placement::Local, owner: OWNER, mode, layout, lost }
    }

    #[test]
    fn each_class_has_its_own_bits_and_root_has_all() {
        let most = |mode, user| rights(&region(mode), user, None).ok();
        assert_eq!(most(0o640, OWNER), Some(Rights::Write));
        assert_eq!(most(0o640, GROUP), Some(Rights::Read));
        assert_eq!(most(0o640, OTHER), None);
        assert_eq!(most(0o000, ROOT), Some(Rights::Write));
        assert_eq!(most(0o066, OWNER), None, "the owner's bits decide for the owner");
        assert_eq!(most(0o020, GROUP), None, "writing alone gives nothing: a grant to write reads too");
    }

    #[test]
    fn what_is_asked_is_given_or_refused_never_less() {
        assert_eq!(rights(&region(0o600), OWNER, Some(Rights::Read)), Ok(Rights::Read));
        let refused = rights(&region(0o644), OTHER, Some(Rights::Write));
        assert!(matches!(refused, Err(Error::NoPermission { what, uid: 12, owner: 10, .. }) if what == "write"));
    }

    #[test]
    fn who_may_do_nothing_with_a_region_does_not_see_it() {
        for (mode, user, sees) in [(0o600, OTHER, false), (0o600, GROUP, false), (0o640, GROUP, true), (0o604, OTHER, true)] {
            assert_eq!(may_see(&region(mode), user).is_ok(), sees, "{mode:o}");
        }
        assert!(may_see(&region(0), OWNER).is_ok() && may_see(&region(0), ROOT).is_ok());
    }

    #[test]
    fn only_owner_and_root_remove() {
        assert!(may_remove(&region(0o777), GROUP).is_err());
        assert!(may_remove(&region(0), OWNER).is_ok() && may_remove(&region(0), ROOT).is_ok());
    }
}
