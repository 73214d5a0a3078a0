//! The fields before the bytes of a part: its sender and its operation. Little-endian.
//!
//! Headers are input: any program that may write the group's regions may have written one.

/// Bytes of a header.
pub const HEADER_LEN: usize = 32;

/// A party's message on a part, or on its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHeader {
    /// The party that says it.
    pub from: u32,
    /// The part; of a failure the party that is gone.
    pub part: u32,
    /// Piece of long vectors, from 0.
    pub piece: u32,
    /// Kind of the bytes that follow.
    pub kind: PartHeaderKind,
    /// Operation of the group, from 0.
    pub operation: u64,
    /// Digest of the operation and the length of its vectors: the same at all parties.
    pub digest: u64,
}

/// Kind of the bytes after a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartHeaderKind {
    /// The part's bytes.
    Part = 0,
    /// Words on a party's end: the group has failed.
    Gone = 1,
    /// Why the parties do not fit together, in words: the group has failed.
    Unlike = 2,
}

impl PartHeader {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let words = [self.from, self.part, self.piece, self.kind as u32];
        bytes.as_chunks_mut::<4>().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.operation.to_le_bytes());
        bytes[24..].copy_from_slice(&self.digest.to_le_bytes());
        bytes
    }

    /// Reads what [`PartHeader::encode`] wrote, of one of `count` parties.
    pub fn decode(bytes: &[u8; HEADER_LEN], count: u32) -> Result<PartHeader, &'static str> {
        let mut words = [0; 4];
        bytes.as_chunks::<4>().0.iter().zip(&mut words).for_each(|(bytes, word)| *word = u32::from_le_bytes(*bytes));
        let mut halves = [0; 4];
        bytes.as_chunks::<8>().0.iter().zip(&mut halves).for_each(|(bytes, word)| *word = u64::from_le_bytes(*bytes));
        let [from, part, piece, kind] = words;
        let [.., operation, digest] = halves;
        let kind = match kind {
            0 => PartHeaderKind::Part,
            1 => PartHeaderKind::Gone,
            2 => PartHeaderKind::Unlike,
            _ => return Err("a header of no known kind"),
        };
        // Parts are numbered by party, or by host, of which there are no more.
        if from >= count || part >= count {
            return Err("a header of a party that the group does not have");
        }
        Ok(PartHeader { from, part, piece, kind, operation, digest })
    }
}

/// A digest of some numbers: FNV-1a over their bytes.
pub fn digest(numbers: &[u64]) -> u64 {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_header_or_refused(mut bytes: [u8; HEADER_LEN], is_near: bool, count in 1u32..70_000) {
            if is_near {
                [1, 2, 3, 5, 6, 7, 13, 14, 15].iter().for_each(|at| bytes[*at] = 0);
                bytes[12] &= 3;
            }
            if let Ok(header) = PartHeader::decode(&bytes, count) {
                prop_assert_eq!(header.encode(), bytes);
                prop_assert!(header.from < count && header.part < count);
            }
        }
    }

    #[test]
    fn other_numbers_have_another_digest() {
        assert_ne!(digest(&[1, 2]), digest(&[2, 1]));
        assert_ne!(digest(&[0]), digest(&[0, 0]));
    }
}
