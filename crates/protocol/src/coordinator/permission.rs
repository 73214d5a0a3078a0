//! Rights of users: a region's mode bits, read like a file's.

use super::records::RegionRecord;
use crate::error::{Error, Result};
use crate::id::{Asker, Rights, User};
use crate::tenant::{is_tenant, space};

/// The bits that mean something.
const MODE_MASK: u32 = 0o777;

/// Refuses bits that mean nothing.
pub(crate) fn check_mode(mode: u32) -> Result<()> {
    if mode & !MODE_MASK == 0 {
        return Ok(());
    }
    let reason = "a mode has the nine bits of a file's, at most 0777".to_owned();
    Err(Error::BadSetting { key: "mode".to_owned(), value: format!("{mode:#o}"), reason })
}

/// The three bits that apply to a user: the owner's, the group's or everyone's. Root has all. Who is in another space has none, whatever
/// the mode lets everyone do.
pub(crate) fn bits(owner: User, mode: u32, user: &Asker) -> u32 {
    match user.user.uid {
        0 => 0o7,
        uid if uid == owner.uid => mode >> 6 & 0o7,
        uid if space(uid) != space(owner.uid) => 0,
        _ if user.is_in(owner.gid) => mode >> 3 & 0o7,
        _ => mode & 0o7,
    }
}

/// The most rights that three bits give. Writing includes reading, as grants have it, so it needs both bits.
pub(crate) fn most(bits: u32) -> Option<Rights> {
    match (bits & 0o4 != 0, bits & 0o2 != 0) {
        (true, true) => Some(Rights::Write),
        (true, false) => Some(Rights::Read),
        _ => None,
    }
}

/// The refusal; in another space it is that of a number that no region has.
fn refusal(region: &RegionRecord, user: &Asker, what: &str) -> Error {
    if user.user.uid != 0 && space(user.user.uid) != space(region.owner.uid) {
        return Error::UnknownRegion { name: region.gid.to_string() };
    }
    Error::NoPermission {
        region: region.name.clone(),
        what: what.to_owned(),
        uid: user.user.uid,
        owner: region.owner.uid,
        mode: region.mode,
    }
}

/// The rights that a user gets: those asked for, or the most there are.
pub(super) fn rights(region: &RegionRecord, user: &Asker, asked: Option<Rights>) -> Result<Rights> {
    match (asked, most(bits(region.owner, region.mode, user))) {
        (None, Some(most)) => Ok(most),
        (Some(asked), Some(most)) if asked <= most => Ok(asked),
        (Some(Rights::Write), _) => Err(refusal(region, user, "write")),
        _ => Err(refusal(region, user, "read")),
    }
}

/// Refuses to show a region to those who may do nothing with it: its name and size are its owner's matter.
pub(super) fn may_see(region: &RegionRecord, user: &Asker) -> Result<()> {
    let is_owner = user.user.uid == region.owner.uid;
    match is_owner || bits(region.owner, region.mode, user) != 0 {
        true => Ok(()),
        false => Err(refusal(region, user, "see")),
    }
}

/// True if a user decides over a region and its name, whatever its mode: its owner and root do.
pub(super) fn is_master(region: &RegionRecord, user: &Asker) -> bool {
    user.user.uid == 0 || user.user.uid == region.owner.uid
}

/// Refuses to remove a region, or to change what is kept with it, to all but its owner and root.
pub(super) fn may_decide(region: &RegionRecord, user: &Asker, what: &str) -> Result<()> {
    if is_master(region, user) { Ok(()) } else { Err(refusal(region, user, what)) }
}

/// Refuses to give a region away to all but root; its owner may give it to the group it is of. It stays in its space in any case.
pub(super) fn may_give(region: &RegionRecord, user: &Asker, to: User) -> Result<()> {
    if to.uid != region.owner.uid && (is_tenant(to.uid) || is_tenant(region.owner.uid)) {
        let reason = "regions are given neither to tenants nor by them".to_owned();
        return Err(Error::BadUse { region: region.name.clone(), reason });
    }
    let is_own = to.uid == region.owner.uid && (user.is_in(to.gid) || to.gid == region.owner.gid);
    if user.user.uid == 0 || is_own { Ok(()) } else { Err(refusal(region, user, "give away")) }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::id::Gid;
    use crate::placement::{Layout, Placement};

    const OWNER: User = User { uid: 10, gid: 20 };
    const GROUP: User = User { uid: 11, gid: 20 };
    const OTHER: User = User { uid: 12, gid: 21 };
    const ROOT: User = User { uid: 0, gid: 0 };

    fn region(mode: u32) -> RegionRecord {
        let layout = Layout::default();
        let (lost, attributes, holders) = Default::default();
        let copies = 1;
        RegionRecord {
            gid: Gid(1),
            name: "r".into(),
            placement: Placement::Local,
            owner: OWNER,
            mode,
            layout,
            copies,
            holders,
            lost,
            attributes,
        }
    }

    #[test]
    fn each_class_has_its_own_bits_and_root_has_all() {
        let most = |mode, user: User| rights(&region(mode), &user.into(), None).ok();
        assert_eq!(most(0o640, OWNER), Some(Rights::Write));
        assert_eq!(most(0o640, GROUP), Some(Rights::Read));
        assert_eq!(most(0o640, OTHER), None);
        assert_eq!(most(0o000, ROOT), Some(Rights::Write));
        assert_eq!(most(0o066, OWNER), None, "the owner's bits decide for the owner");
        assert_eq!(most(0o020, GROUP), None, "writing alone gives nothing: a grant to write reads too");
    }

    #[test]
    fn a_supplementary_group_counts_as_the_primary_one() {
        let asker = Asker { user: OTHER, groups: vec![7, OWNER.gid] };
        assert_eq!(rights(&region(0o640), &asker, None), Ok(Rights::Read));
        assert_eq!(rights(&region(0o606), &asker, None).ok(), None, "the group's bits decide for its members");
        assert!(may_see(&region(0o640), &asker).is_ok());
        assert!(may_decide(&region(0o777), &asker, "remove").is_err());
    }

    #[test]
    fn what_is_asked_is_given_or_refused_never_less() {
        assert_eq!(rights(&region(0o600), &OWNER.into(), Some(Rights::Read)), Ok(Rights::Read));
        let refused = rights(&region(0o644), &OTHER.into(), Some(Rights::Write));
        assert!(matches!(refused, Err(Error::NoPermission { what, uid: 12, owner: 10, .. }) if what == "write"));
    }

    #[test]
    fn who_may_do_nothing_with_a_region_does_not_see_it() {
        for (mode, user, sees) in [(0o600, OTHER, false), (0o600, GROUP, false), (0o640, GROUP, true), (0o604, OTHER, true)] {
            assert_eq!(may_see(&region(mode), &user.into()).is_ok(), sees, "{mode:o}");
        }
        assert!(may_see(&region(0), &OWNER.into()).is_ok() && may_see(&region(0), &ROOT.into()).is_ok());
    }

    #[test]
    fn only_owner_and_root_remove() {
        assert!(may_decide(&region(0o777), &GROUP.into(), "remove").is_err());
        assert!(
            may_decide(&region(0), &OWNER.into(), "remove").is_ok() && may_decide(&region(0), &ROOT.into(), "remove").is_ok()
        );
    }

    #[test]
    fn only_root_gives_a_region_to_another_user() {
        assert!(may_give(&region(0), &OWNER.into(), OTHER).is_err() && may_give(&region(0), &ROOT.into(), OTHER).is_ok());
        let (group, foreign) = (User { uid: 10, gid: 30 }, User { uid: 10, gid: 31 });
        let member = User { uid: 10, gid: 30 };
        assert!(may_give(&region(0), &member.into(), group).is_ok() && may_give(&region(0), &member.into(), foreign).is_err());
    }
}
