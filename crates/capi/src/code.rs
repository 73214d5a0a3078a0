//! The numbers of errors, as `hanare.h` defines them. They never change; new ones join at the end.

use hanare_protocol::Error;
use hanare_protocol::error::Happened;
use std::ffi::{CStr, c_int};

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

/// The region has no attribute of that name.
pub const NO_ATTRIBUTE: c_int = -43;

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
        Error::NoQueue { .. } => -44,
        Error::QueueFull { .. } => -45,
        Error::SecondReader { .. } => -46,
        Error::NotAWriter { .. } => -47,
        Error::BadBlock { .. } => -48,
        Error::WriterGone { .. } => -49,
        Error::ReaderGone { .. } => -50,
        Error::NotTrusted { .. } => -51,
        Error::TooOld { .. } => -52,
        Error::TenantRefused { .. } => -53,
        Error::TenantGone { .. } => -54,
        _ => OTHER,
    }
}

/// Names of the codes and what they mean, as the header has them: that of code `-n` at place `n - 1`.
#[rustfmt::skip]
const ENTRIES: [(&CStr, &CStr); 54] = [
    (c"HANARE_ERR_UNKNOWN_REGION", c"no region of that name"),
    (c"HANARE_ERR_NAME_TAKEN", c"a region of that name exists"),
    (c"HANARE_ERR_BAD_NAME", c"the name is empty, too long, or holds a byte that a file name cannot"),
    (c"HANARE_ERR_BAD_LENGTH", c"zero, smaller than the region is, or another than an existing region's"),
    (c"HANARE_ERR_BAD_PLACEMENT", c"no such node, or a chunk that is no power of two of at least a page"),
    (c"HANARE_ERR_OUT_OF_RANGE", c"some byte lies beyond the region's end; nothing was moved"),
    (c"HANARE_ERR_BAD_SHAPE", c"blocks overlap, a product overflows, or the buffer's length differs"),
    (c"HANARE_ERR_NO_PERMISSION", c"the user may not do that to the region"),
    (c"HANARE_ERR_QUOTA_EXCEEDED", c"the user's quota would be exceeded"),
    (c"HANARE_ERR_POOL_FULL", c"not that much free memory where the placement wants it"),
    (c"HANARE_ERR_LIMIT_REACHED", c"a named limit of the pool was reached"),
    (c"HANARE_ERR_NODE_LOST", c"a node is gone; a put may or may not have happened"),
    (c"HANARE_ERR_REGION_LOST", c"the region's bytes went with their node"),
    (c"HANARE_ERR_GRANT_REFUSED", c"the region was opened before its node came back: open it again"),
    (c"HANARE_ERR_NO_NODE", c"no node answers on this host"),
    (c"HANARE_ERR_NO_COORDINATOR", c"naming fails for now; open regions stay usable"),
    (c"HANARE_ERR_TIMEOUT", c"no answer within the bound; it may or may not have happened"),
    (c"HANARE_ERR_RANK_GONE", c"a rank of the job ended while others wait for it"),
    (c"HANARE_ERR_VERSION_MISMATCH", c"the other side is another build"),
    (c"HANARE_ERR_KEY_REFUSED", c"a side lacks the pool's key"),
    (c"HANARE_ERR_GARBAGE", c"a peer sent something that makes no sense"),
    (c"HANARE_ERR_BAD_USE", c"the region cannot be used that way"),
    (c"HANARE_ERR_BAD_SETTING", c"a HANARE_… variable has no usable value"),
    (c"HANARE_ERR_SYSTEM", c"the operating system refused something"),
    (c"HANARE_ERR_BAD_ARGUMENT", c"NULL, not UTF-8, or a number that means nothing"),
    (c"HANARE_ERR_DEFECT", c"a defect of this library was caught at its border: please report it"),
    (c"HANARE_ERR_OTHER", c"an error younger than this header: its message says what"),
    (c"HANARE_ERR_BAD_DIMENSION", c"a dimension of a sub-array leads out of the region; nothing was moved"),
    (c"HANARE_ERR_BAD_INDEX", c"an index names a block beyond the region's end; nothing was moved"),
    (c"HANARE_ERR_BAD_ELEMENT", c"elements of that kind, or at that place, do not go with the operation"),
    (c"HANARE_ERR_BROKEN_NOT_DONE", c"the connection broke under an update, which did not happen"),
    (c"HANARE_ERR_BROKEN_DONE", c"it broke when the update was done: only the answer is lost"),
    (c"HANARE_ERR_BROKEN", c"it broke, and the update may or may not have happened"),
    (c"HANARE_ERR_NOT_IN_TIME", c"a lock or a word did not come within the bound; nothing was changed"),
    (c"HANARE_ERR_LOCK_LOST", c"the connection broke under a lock: others may have had it since"),
    (c"HANARE_ERR_LOCK_MISUSED", c"this thread has the lock already, or has not got it"),
    (c"HANARE_ERR_BAD_GROUP", c"the group has another number of parties, or all of them"),
    (c"HANARE_ERR_PARTY_GONE", c"a party of the group left or ended while others need it"),
    (c"HANARE_ERR_NO_BLOCK", c"no block of the heap begins there: freed before, or never given out"),
    (c"HANARE_ERR_HEAP_FULL", c"the heap has no free block that is long enough"),
    (c"HANARE_ERR_IS_MAPPED", c"programs have it mapped coherently, so that its memory is not reached as it is"),
    (c"HANARE_ERR_PAGE_LOST", c"bytes of a page went with the host that stored them; the region's rest is there"),
    (c"HANARE_ERR_NO_ATTRIBUTE", c"the region has no attribute of that name"),
    (c"HANARE_ERR_NO_QUEUE", c"no queue is there, or its memory makes no sense"),
    (c"HANARE_ERR_QUEUE_FULL", c"the queue has no room, nor its spill: its reader has to read first"),
    (c"HANARE_ERR_SECOND_READER", c"another program reads the queue"),
    (c"HANARE_ERR_NOT_A_WRITER", c"the lane is not this writer's any more: open another"),
    (c"HANARE_ERR_BAD_BLOCK", c"a block of another length than the queue's, or a record beyond its longest"),
    (c"HANARE_ERR_WRITER_GONE", c"a writer died; all that it had committed was read"),
    (c"HANARE_ERR_READER_GONE", c"the reader died while this writer waits for room"),
    (c"HANARE_ERR_NOT_TRUSTED", c"a user made the region that this program does not trust: see hanare_trusting"),
    (c"HANARE_ERR_TOO_OLD", c"a node of the pool is of an older build that does not know the request"),
    (c"HANARE_ERR_TENANT_REFUSED", c"the pool has no tenant of that name and key: see HANARE_TENANT"),
    (c"HANARE_ERR_TENANT_GONE", c"the program's tenant was removed from the pool"),
];

/// The name of a code and what it means; every number from 0 on is success. `None` for what is no code.
pub fn entry(code: c_int) -> Option<(&'static CStr, &'static CStr)> {
    match code {
        OK.. => Some((c"HANARE_OK", c"success")),
        _ => ENTRIES.get(usize::try_from(code.checked_neg()?).ok()? - 1).copied(),
    }
}

/// True if a call that returned `code` can succeed later without being changed; agrees with [`Error::may_retry`].
pub fn may_retry(code: c_int) -> bool {
    matches!(code, -10 | -12 | -15 | -16 | -17 | -31 | -34 | -40 | -45 | -46 | -50)
}

/// Effect of a call that returned `code`; agrees with [`Error::happened`].
pub fn happened(code: c_int) -> Happened {
    match code {
        OK.. | -32 => Happened::Yes,
        -12 | -17 | -21 | -24 | DEFECT | OTHER | -33 | -42 | -47 => Happened::Unknown,
        _ => Happened::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::id::{ClientId, Gid, NodeId, Rank};
    use hanare_protocol::versions::Versions;

    /// An error of every kind, beside the name of its code in the header.
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
            ("POOL_FULL", Error::PoolFull { asked: 0, free: 0, withheld: 0 }),
            ("LIMIT_REACHED", Error::LimitReached { what: s(), limit: 0 }),
            ("NODE_LOST", Error::NodeLost { node: NodeId(0), reason: s() }),
            ("REGION_LOST", Error::RegionLost { region: s(), node: NodeId(0) }),
            ("GRANT_REFUSED", Error::GrantRefused { gid: Gid(0), node: NodeId(0) }),
            ("NO_NODE", Error::NoNode { address: s(), reason: s() }),
            ("NO_COORDINATOR", Error::NoCoordinator { reason: s() }),
            ("TIMEOUT", Error::Timeout { peer: s(), what: s(), after_ms: 0 }),
            ("RANK_GONE", Error::RankGone { rank: Rank(0), reason: s() }),
            ("VERSION_MISMATCH", Error::VersionMismatch { peer: s(), ours: Versions::BUILD, theirs: Versions::BUILD }),
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
            ("NO_QUEUE", Error::NoQueue { region: s(), offset: 0, reason: s() }),
            ("QUEUE_FULL", Error::QueueFull { queue: s() }),
            ("SECOND_READER", Error::SecondReader { queue: s() }),
            ("NOT_A_WRITER", Error::NotAWriter { queue: s(), lane: 0 }),
            ("BAD_BLOCK", Error::BadBlock { queue: s(), len: 0, limit: 0 }),
            ("WRITER_GONE", Error::WriterGone { queue: s(), lane: 0 }),
            ("READER_GONE", Error::ReaderGone { queue: s() }),
            ("NOT_TRUSTED", Error::NotTrusted { region: s(), owner: 0, uid: 0 }),
            ("TOO_OLD", Error::TooOld { peer: s(), speaks: 0, needs: 0 }),
            ("TENANT_REFUSED", Error::TenantRefused { tenant: s() }),
            ("TENANT_GONE", Error::TenantGone { number: 0 }),
        ]
    }

    fn broken(happened: Happened) -> Error {
        Error::Broken { node: NodeId(0), what: String::new(), reason: String::new(), happened }
    }

    /// The header's value after `#define HANARE_ERR_<name>`.
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
        for (name, number) in
            [("BAD_ARGUMENT", BAD_ARGUMENT), ("DEFECT", DEFECT), ("OTHER", OTHER), ("NO_ATTRIBUTE", NO_ATTRIBUTE)]
        {
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
    fn names_and_meanings_are_those_of_the_header() {
        let header = include_str!("../include/hanare.h");
        let lines = header.lines().filter_map(|line| line.strip_prefix("#define HANARE_ERR_"));
        let mut count = 0;
        for line in lines {
            let (name, rest) = line.split_once(" (").unwrap();
            let (number, meaning) = rest.split_once(')').unwrap();
            let meaning = meaning.trim().strip_prefix("/* ").and_then(|text| text.strip_suffix(" */")).unwrap();
            let (told, means) = entry(number.parse().unwrap()).unwrap();
            assert_eq!((told.to_str().unwrap(), means.to_str().unwrap()), (format!("HANARE_ERR_{name}").as_str(), meaning));
            count += 1;
        }
        assert_eq!(count, ENTRIES.len());
        let after_the_last = -(ENTRIES.len() as c_int) - 1;
        assert_eq!((entry(7).unwrap().0, entry(after_the_last), entry(c_int::MIN)), (c"HANARE_OK", None, None));
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
