//! Bytes of extents that go with a message to their node: with an arrival at a barrier, or with a lock that is given back. A barrier or a
//! release that moves bytes of its own home takes one message each way.
//!
//! ```text
//! party ── Arrive: bytes to put, pages wanted ──────> node: puts the bytes, then the party has arrived
//!       <── Met: those of the pages that changed ── node: all parties have arrived
//! ```
//!
//! Every extent is named with the right to do there what is asked, as in a command. **Source**: [RF §4], barriers that force a transfer.

use super::command::DIGEST_SEED_LEN;
use crate::error::{Error, Result};
use crate::id::{Grant, Slot};
use crate::limits::{PAGE_LEN, RELEASE_LEN_MAX, RELEASE_RANGE_COUNT_MAX};
use crate::packed_bytes;
use serde::{Deserialize, Serialize};

/// A byte of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentAddress {
    /// The extent's slot.
    pub slot: Slot,
    /// The right to do there what is asked.
    pub grant: Grant,
    /// The byte's place in the extent.
    pub offset: u64,
}

/// Bytes to be put into one extent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutRuns {
    /// Begin of the first gap.
    pub at: ExtentAddress,
    /// For each run the bytes before it that stay as they are, and its length in bytes.
    pub runs: Vec<(u32, u32)>,
}

/// Pages wanted of one extent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedPages {
    /// Begin of the first page.
    pub at: ExtentAddress,
    /// Number of bytes; the last page may end beyond the region's end.
    pub len: u64,
    /// Seed of the digests' key.
    pub seed: [u8; DIGEST_SEED_LEN as usize],
    /// Pages that the client has, by their place here, ascending, with their digests. Those that are the same are left out.
    pub known: Vec<(u32, u128)>,
}

impl WantedPages {
    /// Number of pages.
    pub fn count(&self) -> u64 {
        self.len.div_ceil(PAGE_LEN)
    }
}

/// Bytes that an arrival carries, and pages that it wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// Bytes to put before the party counts as arrived.
    pub puts: Vec<PutRuns>,
    /// The bytes of all runs, one behind the other.
    #[serde(with = "packed_bytes")]
    pub bytes: Vec<u8>,
    /// Pages to read once all have arrived.
    pub wants: Vec<WantedPages>,
}

/// The bits of a digest that count.
pub const DIGEST_MASK: u128 = !0x7;

impl Carried {
    /// The runs with their bytes, in order; those whose place no number holds have the last one.
    pub fn pieces(&self) -> impl Iterator<Item = (ExtentAddress, &[u8])> {
        let mut rest = &self.bytes[..];
        let runs = self.puts.iter().flat_map(|put| {
            put.runs.iter().scan(put.at.offset, |next, (gap, len)| {
                let offset = next.saturating_add((*gap).into());
                *next = offset.saturating_add((*len).into());
                Some((ExtentAddress { offset, ..put.at }, *len))
            })
        });
        runs.map_while(move |(at, len)| {
            let (bytes, behind) = rest.split_at_checked(len as usize)?;
            rest = behind;
            Some((at, bytes))
        })
    }

    /// Checks what comes from elsewhere. **Errors**: [`Error::LimitReached`]; [`Error::Garbage`] for lengths that do not agree.
    pub fn check(&self) -> Result<()> {
        limited("extents that one arrival puts to", self.puts.len(), RELEASE_RANGE_COUNT_MAX)?;
        limited("extents that one arrival takes from", self.wants.len(), RELEASE_RANGE_COUNT_MAX)?;
        limited("bytes that one arrival puts", self.bytes.len(), RELEASE_LEN_MAX)?;
        let lens = self.puts.iter().flat_map(|put| &put.runs).map(|(_, len)| u64::from(*len));
        let put_len = lens.fold(0, u64::saturating_add);
        if put_len != self.bytes.len() as u64 {
            return garbage(format!("{} bytes for runs of {put_len}", self.bytes.len()));
        }
        let wanted_len = self.wants.iter().map(|want| want.len).fold(0, u64::saturating_add);
        limited("bytes that one arrival takes", usize::try_from(wanted_len).unwrap_or(usize::MAX), RELEASE_LEN_MAX)?;
        for want in &self.wants {
            let ascend = want.known.is_sorted_by(|(one, _), (next, _)| one < next);
            if !ascend || want.known.last().is_some_and(|(last, _)| u64::from(*last) >= want.count()) {
                return garbage(format!("digests of other pages than the {} that are wanted", want.count()));
            }
        }
        Ok(())
    }
}

/// Pages that were wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BroughtPages {
    /// True for each page that comes here, because it differs from the client's.
    pub changed: Vec<bool>,
    /// Changed pages, one behind the other.
    #[serde(with = "packed_bytes")]
    pub bytes: Vec<u8>,
}

fn limited(what: &str, count: usize, limit: usize) -> Result<()> {
    match count <= limit {
        true => Ok(()),
        false => Err(Error::LimitReached { what: what.to_owned(), limit: limit as u64 }),
    }
}

fn garbage<T>(reason: String) -> Result<T> {
    Err(Error::Garbage { peer: "a party of a barrier".to_owned(), reason })
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::limits::SYNC_LEN_MAX;
    use crate::wire::control;

    fn at(offset: u64) -> ExtentAddress {
        ExtentAddress { slot: Slot(3), grant: Grant([7; 16]), offset }
    }

    fn carried(runs: Vec<(u32, u32)>, bytes: Vec<u8>) -> Carried {
        Carried { puts: vec![PutRuns { at: at(100), runs }], bytes, wants: Vec::new() }
    }

    #[test]
    fn runs_are_behind_their_gaps() {
        let two = carried(vec![(0, 2), (5, 1)], vec![1, 2, 3]);
        assert_eq!(two.check(), Ok(()));
        assert_eq!(two.pieces().collect::<Vec<_>>(), [(at(100), &[1, 2][..]), (at(107), &[3])]);
        let far = Carried { puts: vec![PutRuns { at: at(u64::MAX), runs: vec![(9, 1)] }], ..carried(Vec::new(), vec![1]) };
        assert_eq!(far.pieces().next(), Some((at(u64::MAX), &[1][..])));
    }

    #[test]
    fn lengths_that_do_not_agree_and_more_than_goes_are_refused() {
        let garbage = |carried: Carried| assert!(matches!(carried.check(), Err(Error::Garbage { .. })), "{carried:?}");
        garbage(carried(vec![(0, 2)], vec![1]));
        garbage(carried(vec![(0, u32::MAX); 9], vec![1]));
        let wants = |len, known| Carried {
            wants: vec![WantedPages { at: at(0), len, seed: [1; 16], known }],
            ..carried(Vec::new(), Vec::new())
        };
        garbage(wants(PAGE_LEN, vec![(1, 0)]));
        garbage(wants(3 * PAGE_LEN, vec![(1, 0), (1, 0)]));
        assert_eq!(wants(PAGE_LEN + 1, vec![(1, 0)]).check(), Ok(()));
        let limit = |carried: Carried| assert!(matches!(carried.check(), Err(Error::LimitReached { .. })));
        limit(wants(RELEASE_LEN_MAX as u64 + 1, Vec::new()));
        limit(wants(u64::MAX, Vec::new()));
        limit(carried(vec![(0, RELEASE_LEN_MAX as u32 + 1)], vec![0; RELEASE_LEN_MAX + 1]));
        let many = vec![PutRuns { at: at(0), runs: Vec::new() }; RELEASE_RANGE_COUNT_MAX + 1];
        limit(Carried { puts: many, ..carried(Vec::new(), Vec::new()) });
    }

    #[test]
    fn the_most_that_a_library_sends_and_gets_is_within_the_limit() {
        let place = ExtentAddress { slot: Slot(u32::MAX), grant: Grant([255; 16]), offset: u64::MAX };
        let pages = RELEASE_LEN_MAX / PAGE_LEN as usize;
        let part = RELEASE_RANGE_COUNT_MAX;
        // Bytes without gaps have one run for each extent; in other extents each run takes 6 bytes of room.
        let puts = vec![PutRuns { at: place, runs: vec![(4095, (RELEASE_LEN_MAX / part) as u32)] }; part];
        let known = |count: usize| (0..count as u32).map(|page| (page, u128::MAX)).collect();
        let wants =
            vec![WantedPages { at: place, len: u64::from(u32::MAX), seed: [255; 16], known: known(pages / part + 1) }; part];
        let most = Carried { puts, bytes: vec![255; RELEASE_LEN_MAX], wants };
        let len = control::encode(&most).len() as u64;
        assert!(len + 1024 <= SYNC_LEN_MAX, "{len} bytes");
        let brought = BroughtPages { changed: vec![true; pages], bytes: vec![255; RELEASE_LEN_MAX] };
        assert!(control::encode(&brought).len() as u64 + 1024 <= SYNC_LEN_MAX);
        assert_eq!(control::decode(&control::encode(&most)), Ok(most));
    }
}
