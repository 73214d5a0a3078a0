//! Copies compared with their home, by digests of an extent's pages.
//!
//! All holders take the digests at one place in the order of the extent's writes. So they differ only where the bytes do, whatever is written
//! meanwhile. The home compares.

use crate::digest::PageKey;
use crate::id::NodeId;
use crate::limits::{DIGEST_LEN, PAGE_LEN, STAGE_LEN};
use crate::wire::Malformed;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Pages of an extent whose digests its holders take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DigestCall {
    /// The first byte in the extent: a page begins there.
    pub offset: u64,
    /// Number of bytes: whole pages, or up to the extent's end.
    pub len: u64,
    /// Seed of the digests' key, which the asking program draws: nobody can store bytes that the digests miss.
    pub seed: [u8; 16],
    /// True if the home goes on without copies that differ. Others are made of its bytes then.
    pub drops: bool,
}

impl DigestCall {
    /// Refuses pages that do not lie in the extent, and too many of them. **Errors**: [`Malformed`], with the reason.
    pub fn check(&self, extent_len: u64) -> Result<(), Malformed> {
        let end = self.offset.checked_add(self.len).filter(|end| *end <= extent_len);
        let Some(end) = end.filter(|_| self.len > 0 && self.len <= STAGE_LEN as u64) else {
            return Err(Malformed("digests of no pages, of too many, or beyond the extent"));
        };
        let is_whole = self.offset.is_multiple_of(PAGE_LEN) && (end.is_multiple_of(PAGE_LEN) || end == extent_len);
        if is_whole { Ok(()) } else { Err(Malformed("digests of parts of pages")) }
    }

    /// The digests of the pages, one after another. A last short page has zeros behind it. `read` reads bytes of the extent.
    ///
    /// **Cost**: reads each page once. **Errors**: those of `read`.
    pub fn digests<E>(&self, mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<Vec<u8>, E> {
        let key = PageKey::new(self.seed);
        let mut digests = Vec::new();
        for at in (0..self.len).step_by(PAGE_LEN as usize) {
            let mut page = [0; PAGE_LEN as usize];
            let len = PAGE_LEN.min(self.len.saturating_sub(at)) as usize;
            read(self.offset.saturating_add(at), &mut page[..len])?;
            digests.extend(key.digest(&page).to_le_bytes());
        }
        Ok(digests)
    }

    /// Compares the home's digests with those of its copies. Copies with another number of digests have not answered.
    pub fn compare(&self, home: &[u8], copies: &BTreeMap<NodeId, Vec<u8>>) -> Comparison {
        let (told, unheard): (Vec<_>, Vec<_>) = copies.iter().partition(|(_, digests)| digests.len() == home.len());
        let mut comparison =
            Comparison { unheard: unheard.into_iter().map(|(node, _)| *node).collect(), ..Comparison::default() };
        for (index, own) in home.chunks(DIGEST_LEN).enumerate() {
            let of = |digests: &'_ [u8]| digests.chunks(DIGEST_LEN).nth(index).map(<[u8]>::to_vec);
            let others = told.iter().filter_map(|(node, digests)| Some((**node, of(digests)?)));
            let differing: Vec<(NodeId, Vec<u8>)> = others.filter(|(_, digest)| digest != own).collect();
            if differing.is_empty() {
                continue;
            }
            let agree = differing.windows(2).all(|pair| pair[0].1 == pair[1].1);
            let is_home_alone = differing.len() > 1 && differing.len() == told.len() && agree;
            let offset = self.offset.saturating_add((index as u64).saturating_mul(PAGE_LEN));
            let nodes = differing.into_iter().map(|(node, _)| node).collect();
            comparison.pages.push(DifferentPage { offset, nodes, is_home_alone });
        }
        comparison.compared = told.into_iter().map(|(node, _)| *node).collect();
        // A copy that was not heard may agree with those that differ.
        if self.drops && comparison.unheard.is_empty() {
            comparison.dropped = comparison.void_copies();
        }
        comparison
    }
}

/// A home's findings about the copies of some pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// Nodes whose copies were compared.
    pub compared: Vec<NodeId>,
    /// Nodes with copies that were not heard in time: nothing is known of theirs.
    pub unheard: Vec<NodeId>,
    /// Pages that differ.
    pub pages: Vec<DifferentPage>,
    /// Nodes whose copies the home goes on without.
    pub dropped: BTreeSet<NodeId>,
}

impl Comparison {
    /// Copies whose bytes count no more. The home's bytes count, because programs read them. Where all copies agree against it, nobody's do.
    fn void_copies(&self) -> BTreeSet<NodeId> {
        let pages = self.pages.iter().filter(|page| !page.is_home_alone);
        pages.flat_map(|page| page.nodes.iter().copied()).collect()
    }
}

/// A page whose bytes differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferentPage {
    /// Its first byte in the extent.
    pub offset: u64,
    /// Nodes whose copy differs from the home.
    pub nodes: Vec<NodeId>,
    /// True if two copies or more have the same bytes, and the home alone has others.
    pub is_home_alone: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const CALL: DigestCall = DigestCall { offset: PAGE_LEN, len: 2 * PAGE_LEN + 100, seed: [3; 16], drops: true };

    /// Digests of an extent of zeros, but for one byte.
    fn digests(byte_at: u64) -> Vec<u8> {
        let read = |at: u64, into: &mut [u8]| {
            into.fill(0);
            if let Some(byte) = byte_at.checked_sub(at).and_then(|index| into.get_mut(index as usize)) {
                *byte = 1;
            }
            Ok::<(), Infallible>(())
        };
        CALL.digests(read).unwrap()
    }

    fn copies(of: &[(u32, u64)]) -> BTreeMap<NodeId, Vec<u8>> {
        of.iter().map(|(node, byte_at)| (NodeId(*node), digests(*byte_at))).collect()
    }

    #[test]
    fn a_call_takes_whole_pages_inside_its_extent() {
        let end = CALL.offset + CALL.len;
        assert_eq!((CALL.check(end), digests(0).len()), (Ok(()), 48));
        let bad = [
            (CALL, end - 1),
            (CALL, end + 1),
            (DigestCall { len: 0, ..CALL }, end),
            (DigestCall { offset: 1, len: PAGE_LEN - 1, ..CALL }, end),
            (DigestCall { offset: u64::MAX - PAGE_LEN + 1, len: PAGE_LEN, ..CALL }, u64::MAX),
            (DigestCall { len: STAGE_LEN as u64 + PAGE_LEN, ..CALL }, u64::MAX),
        ];
        assert!(bad.iter().all(|(call, extent_len)| call.check(*extent_len).is_err()));
    }

    #[test]
    fn a_copy_that_differs_is_named_with_its_page() {
        let (none, second) = (0, 2 * PAGE_LEN + 5);
        let same = CALL.compare(&digests(none), &copies(&[(1, none), (2, none)]));
        assert_eq!(same, Comparison { compared: vec![NodeId(1), NodeId(2)], ..Comparison::default() });
        let found = CALL.compare(&digests(none), &copies(&[(1, none), (2, second)]));
        let page = DifferentPage { offset: 2 * PAGE_LEN, nodes: vec![NodeId(2)], is_home_alone: false };
        assert_eq!((&found.pages, found.dropped), (&vec![page], BTreeSet::from([NodeId(2)])));
        // The last byte of a short page counts, and what lies behind it does not.
        let last = CALL.offset + CALL.len - 1;
        assert_eq!(CALL.compare(&digests(none), &copies(&[(1, last)])).pages.len(), 1);
        assert_eq!(CALL.compare(&digests(none), &copies(&[(1, last + 1)])).pages.len(), 0);
    }

    #[test]
    fn nobody_is_dropped_where_the_home_is_alone() {
        let (here, there) = (PAGE_LEN, 3 * PAGE_LEN);
        let alone = CALL.compare(&digests(here), &copies(&[(1, 0), (2, 0)]));
        assert!(alone.pages.len() == 1 && alone.pages[0].is_home_alone && alone.dropped.is_empty());
        // All three differ: the home's bytes are those that programs read.
        let all = CALL.compare(&digests(here), &copies(&[(1, there), (2, here + 1)]));
        assert_eq!(all.dropped, BTreeSet::from([NodeId(1), NodeId(2)]));
        let one = |call: DigestCall| call.compare(&digests(here), &copies(&[(1, 0)])).dropped;
        assert_eq!(one(CALL), BTreeSet::from([NodeId(1)]));
        assert_eq!(one(DigestCall { drops: false, ..CALL }), BTreeSet::new());
    }

    #[test]
    fn a_copy_that_did_not_answer_is_no_copy_that_differs() {
        let mut copies = copies(&[(1, 0)]);
        copies.insert(NodeId(2), Vec::new());
        let found = CALL.compare(&digests(0), &copies);
        assert_eq!((found.compared, found.unheard, found.pages), (vec![NodeId(1)], vec![NodeId(2)], Vec::new()));
        // The home may be alone: nobody is dropped before all are heard.
        let found = CALL.compare(&digests(PAGE_LEN), &copies);
        assert_eq!((found.pages.len(), found.dropped), (1, BTreeSet::new()));
    }
}
