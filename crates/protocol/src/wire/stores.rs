//! Stores of a program to an extent with copies, which count together: those of one release, in one message or in several parts.

use super::copies::{ExtentCall, ExtentWrite};
use crate::copies::{Once, PartOfStores};
use serde::{Deserialize, Serialize};

/// A part of the stores of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorePart {
    /// The call, and the first byte of the part among all bytes that the call stores to the extent.
    pub once: Once,
    /// True for the last part. With it all of them have their effect.
    pub is_last: bool,
    /// The ranges, ascending: the first byte of each in the extent, and the number of bytes.
    #[serde(with = "gaps")]
    pub ranges: Vec<(u64, u64)>,
    /// The bytes of all ranges in a row.
    #[serde(with = "crate::packed_bytes")]
    pub operand: Vec<u8>,
}

impl StorePart {
    /// The write that holders of the extent carry out.
    pub fn into_write(self) -> ExtentWrite {
        let StorePart { once, is_last, ranges, operand } = self;
        let call = Some(ExtentCall::Store { is_last });
        ExtentWrite { once: Some(once), call, ..ExtentWrite::put(ranges, operand) }
    }
}

impl ExtentWrite {
    /// The place of a part of stores; `None` for all other writes.
    pub fn part_of_stores(&self) -> Option<PartOfStores> {
        let Some(ExtentCall::Store { is_last }) = self.call else { return None };
        Some(PartOfStores { once: self.once?, len: self.len_bytes(), memory_len: self.memory_len(), is_last })
    }
}

/// Ranges as gaps between them: short numbers.
mod gaps {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(ranges: &[(u64, u64)], serializer: S) -> Result<S::Ok, S::Error> {
        let mut end = 0u64;
        serializer.collect_seq(ranges.iter().map(|(at, len)| {
            let gap = at.saturating_sub(end);
            end = at.saturating_add(*len);
            (gap, *len)
        }))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Vec<(u64, u64)>, D::Error> {
        let mut ranges = Vec::<(u64, u64)>::deserialize(deserializer)?;
        let mut end = 0u64;
        for (at, len) in &mut ranges {
            let beyond = || D::Error::custom("a range beyond 64 bits");
            *at = end.checked_add(*at).ok_or_else(beyond)?;
            end = at.checked_add(*len).ok_or_else(beyond)?;
        }
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copies::UpdateCall;
    use crate::limits::{STORE_PART_LEN_MAX, SYNC_LEN_MAX, WRITE_RANGE_COUNT_MAX};
    use crate::wire::control::{decode, encode};
    use proptest::prelude::*;

    fn part(ranges: Vec<(u64, u64)>, operand: Vec<u8>) -> StorePart {
        let call = UpdateCall { client: 1 << 60, sequence: 0, number: 1 << 40, is_repeat: true };
        StorePart { once: Once { call, at: 1 << 30 }, is_last: true, ranges, operand }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_part_or_refused(bytes: Vec<u8>) {
            let _ = decode::<StorePart>(&bytes);
        }

        #[test]
        fn a_part_survives_its_encoding(gaps in prop::collection::vec((0..1u64 << 40, 1..5000u64), 0..50)) {
            let mut end = 0;
            let ranges: Vec<(u64, u64)> = gaps.iter().map(|(gap, len)| { let at = end + gap; end = at + len; (at, *len) }).collect();
            let part = part(ranges, vec![7; 30]);
            prop_assert_eq!(decode(&encode(&part)), Ok(part));
        }
    }

    #[test]
    fn many_short_ranges_take_few_bytes() {
        let ranges: Vec<(u64, u64)> = (0..WRITE_RANGE_COUNT_MAX as u64).map(|k| ((1 << 40) | (k * 8), 6)).collect();
        let bytes = encode(&part(ranges, vec![1; STORE_PART_LEN_MAX]));
        assert!(bytes.len() < STORE_PART_LEN_MAX + 2 * WRITE_RANGE_COUNT_MAX + 64, "{} bytes", bytes.len());
        assert!((bytes.len() as u64) < SYNC_LEN_MAX);
    }

    #[test]
    fn ranges_beyond_the_last_byte_are_refused() {
        let bytes = encode(&(part(vec![(5, 1)], vec![1]).once, true, vec![(u64::MAX, 1u64)], vec![1u8]));
        assert!(decode::<StorePart>(&bytes).is_err());
    }
}
