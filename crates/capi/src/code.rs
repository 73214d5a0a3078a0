//! The numbers of errors, as `hanare.h` defines them. They never change; new ones join at the end.

use hanare_protocol::Error;
use hanare_protocol::error::Happened;
use std::ffi::c_int;

/// Success.
pub const OK: c_int = 0;
/// `NULL`, not UTF-8, or a number that means nothing.
pub const BAD_ARGUMENT: c_int = -25;
/// A defect of the library was caught at its border.
pub const DEFECT: c_int = -26;
/// An error younger than the header.
pub const OTHER: c_int = -27;
/// The region, or the call, cannot be used that way.
pub const BAD_USE: c_int = -22;

/// The number of an error's kind.
pub fn of(error: &Error) -> c_int {
    match error {
        Error::UnknownRegion { .. } => -1,
        Error::NameTaken { .. } => -2,
        Error::BadName { .. } => -3,
        Error::BadLength { .. } => -4,
        Error::BadPlacement { .. } => -5,
        Error::OutOfRange { .. } => -6,
        Error::BadShape { .. } => -7,
        Error::NoPermission { .. } => -8,
        Error::QuotaExceeded { .. } => -9,
        Error::PoolFull { .. } => -10,
        Error::LimitReached { .. } => -11,
        Error::NodeLost { .. } => -12,
        Error::RegionLost { .. } => -13,
        Error::GrantRefused { .. } => -14,
        Error::NoNode { .. } => -15,
        Error::NoCoordinator { .. } => -16,
        Error::Timeout { .. } => -17,
        Error::RankGone { .. } => -18,
        Error::VersionMismatch { .. } => -19,
        Error::KeyRefused { .. } => -20,
        Error::Garbage { .. } => -21,
        Error::BadUse { .. } => BAD_USE,
        Error::BadSetting { .. } => -23,
        Error::System { .. } => -24,
        Error::BadDimension { .. } => -28,
        Error::BadIndex { .. } => -29,
        Error::BadElement { .. } => -30,
        Error::Broken { happened: Happened::No, .. } => -31,
        Error::Broken { happened: Happened::Yes, .. } => -32,
        Error::Broken { happened: Happened::Unknown, .. } => -33,
        Error::NotInTime { .. } => -34,
        Error::LockLost { .. } => -35,
        Error::LockMisused { .. } => -36,
        Error::BadGroup { .. } => -37,
        Error::PartyGone { .. } => -38,
        Error::NoBlock { .. } => -39,
        Error::HeapFull { .. } => -40,
        Error::IsMapped { .. } => -41,
        Error::PageLost { .. } => -42,
        _ => OTHER,
    }
}

/// Whether a call that returned `code` can succeed later without being changed; agrees with [`Error::may_retry`].
pub fn may_retry(code: c_int) -> bool {
    matches!(code, -10 | -12 | -15 | -16 | -17 | -31 | -34 | -40)
}

/// Whether a call that returned `code` did what it was to do; agrees with [`Error::happened`].
pub fn happened(code: c_int) -> Happened {
    match code {
        OK.. | -32 => Happened::Yes,
        -12 | -17 | -21 | -24 | DEFECT | OTHER | -33 | -42 => Happened::Unknown,
        _ => Happened::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::id::{ClientId, Gid, NodeId, Rank};

    /// One error of every kind, beside the name of its code in the header.
    fn kinds() -> Vec<(&'static str, Error)> {
        let s = String::new;
        vec![
            ("UNKNOWN_REGION", Error::UnknownRegion { name: s() }),
            ("NAME_TAKEN", Error::NameTaken { name: s(), len: 0 }),
            ("BAD_NAME", Error::BadName { name: s(), reason: s() }),
            ("BAD_LENGTH", Error::BadLength { name: s(), len: 0, reason: s() }),
            ("BAD_PLACEMENT", Error::BadPlacement { placement: s(), reason: s() }),
            ("OUT_OF_RANGE", Error::OutOfRange { region: s(), offset: 0, len: 0, limit: 0 }),
            ("BAD_SHAPE", Error::BadShape { region: s(), block: 0, count: 0, stride: 0, reason: s() }),
            ("NO_PERMISSION", Error::NoPermission { region: s(), what: s(), uid: 0, owner: 0, mode: 0 }),
            ("QUOTA_EXCEEDED", Error::QuotaExceeded { uid: 0, asked: 0, used: 0, limit: 0 }),
            ("POOL_FULL", Error::PoolFull { asked: 0, free: 0 }),
            ("LIMIT_REACHED", Error::LimitReached { what: s(), limit: 0 }),
            ("NODE_LOST", Error::NodeLost { node: NodeId(0), reason: s() }),
            ("REGION_LOST", Error::RegionLost { region: s(), node: NodeId(0) }),
            ("GRANT_REFUSED", Error::GrantRefused { gid: Gid(0), node: NodeId(0) }),
            ("NO_NODE", Error::NoNode { address: s(), reason: s() }),
            ("NO_COORDINATOR", Error::NoCoordinator { reason: s() }),
            ("TIMEOUT", Error::Timeout { peer: s(), what: s(), after_ms: 0 }),
            ("RANK_GONE", Error::RankGone { rank: Rank(0), reason: s() }),
            ("VERSION_MISMATCH", Error::VersionMismatch { peer: s(), ours: 0, theirs: 0 }),
            ("KEY_REFUSED", Error::KeyRefused { peer: s() }),
            ("GARBAGE", Error::Garbage { peer: s(), reason: s() }),
            ("BAD_USE", Error::BadUse { region: s(), reason: s() }),
            ("BAD_SETTING", Error::BadSetting { key: s(), value: s(), reason: s() }),
            ("SYSTEM", Error::System { what: s(), reason: s() }),
            ("BAD_DIMENSION", Error::BadDimension { region: s(), dimension: 0, count: 0, stride: 0, reason: s() }),
            ("BAD_INDEX", Error::BadIndex { region: s(), position: 0, index: 0, block: 0, limit: 0 }),
            ("BAD_ELEMENT", Error::BadElement { region: s(), operation: s(), element: s(), reason: s() }),
            ("BROKEN_NOT_DONE", broken(Happened::No)),
            ("BROKEN_DONE", broken(Happened::Yes)),
            ("BROKEN", broken(Happened::Unknown)),
            ("NOT_IN_TIME", Error::NotInTime { what: s(), after_ms: 0 }),
            ("LOCK_LOST", Error::LockLost { name: s(), reason: s() }),
            ("LOCK_MISUSED", Error::LockMisused { name: s(), reason: s() }),
            ("BAD_GROUP", Error::BadGroup { name: s(), asked: 0, parties: 0, reason: s() }),
            ("PARTY_GONE", Error::PartyGone { group: s(), party: ClientId(0), reason: s() }),
            ("NO_BLOCK", Error::NoBlock { region: s(), offset: 0 }),
            ("HEAP_FULL", Error::HeapFull { region: s(), asked: 0, free: 0, largest: 0 }),
            ("IS_MAPPED", Error::IsMapped { gid: Gid(0) }),
            ("PAGE_LOST", Error::PageLost { region: s(), offset: 0, home: NodeId(0) }),
        ]
    }

    fn broken(happened: Happened) -> Error {
        Error::Broken { node: NodeId(0), what: String::new(), reason: String::new(), happened }
    }

    /// What the header says after `#define HANARE_ERR_<name>`.
    fn in_header(name: &str) -> Option<c_int> {
        let start = format!("#define HANARE_ERR_{name} (");
        let header = include_str!("../include/hanare.h");
        let line = header.lines().find_map(|line| line.strip_prefix(&start))?;
        line.split(')').next()?.parse().ok()
    }

    #[test]
    fn every_kind_of_error_has_the_headers_number_and_agrees_with_it() {
        let mut numbers: Vec<c_int> = Vec::new();
        for (name, error) in kinds() {
            assert_eq!(in_header(name), Some(of(&error)), "{name}");
            assert_eq!(may_retry(of(&error)), error.may_retry(), "{name}");
            assert_eq!(happened(of(&error)), error.happened(), "{name}");
            numbers.push(of(&error));
        }
        for (name, number) in [("BAD_ARGUMENT", BAD_ARGUMENT), ("DEFECT", DEFECT), ("OTHER", OTHER)] {
            assert_eq!(in_header(name), Some(number), "{name}");
            numbers.push(number);
        }
        let defined = include_str!("../include/hanare.h").matches("#define HANARE_ERR_").count();
        assert_eq!(numbers.len(), defined, "the header and this list have the same codes");
        assert_eq!((happened(0), happened(42), happened(BAD_ARGUMENT)), (Happened::Yes, Happened::Yes, Happened::No));
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "no number twice");
    }

    #[test]
    fn no_kind_of_error_lacks_a_number() {
        // The wire numbers the kinds from 0 on, so the first number that is none ends them.
        let count = (0u8..=255)
            .take_while(|kind| {
                let mut bytes = vec![*kind];
                bytes.resize(200, 0);
                postcard::take_from_bytes::<Error>(&bytes).is_ok()
            })
            .count();
        let kinds: std::collections::HashSet<_> = kinds().iter().map(|(_, error)| std::mem::discriminant(error)).collect();
        assert_eq!(count, kinds.len());
    }
}
