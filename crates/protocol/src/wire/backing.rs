//! The memory behind what a node lends: its kind, its pages, and the NUMA nodes on which it lies. Since version 28.
//!
//! A program asks by a [`Kind::Look`](super::head::Kind::Look) with [`ABOUT_BACKING`] as its head's detail; the body is a
//! [`Look`](super::look::Look). The reply is a [`Kind::Seen`](super::head::Kind::Seen) with that detail and a [`Backing`] as its body. Nodes of
//! earlier versions are not asked: they do not read the detail, and reply as to any look.
//!
//! Everybody is told the kind of the node's memory. Regions are told of to who brings a grant to read them. Root and
//! the node's own user are told of all bytes together.

use crate::id::Gid;
use crate::limits::NUMA_TOLD_COUNT_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Detail in the head of a look at the node's memory, and of its reply.
pub const ABOUT_BACKING: u64 = 1;

/// The version of the wire from which on nodes are asked.
pub const SINCE: u32 = 28;

/// The kind of memory that a node lends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackingKind {
    /// Main memory, in memory files.
    Memory,
    /// A character device of persistent or attached memory.
    DaxDevice,
    /// A file whose bytes are such memory, without a page cache.
    DaxFile,
    /// A file of a file system in main memory.
    MemoryFile,
    /// A file on a disk: the kernel writes its pages there, and reads them again.
    DiskFile,
}

/// The pages that the kernel granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackingPages {
    /// Reserved huge pages.
    Huge,
    /// Small pages that the kernel joins to huge ones.
    Transparent,
    /// Small pages.
    Small,
}

/// The places of some bytes in the host's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residence {
    /// Bytes in all.
    pub len: u64,
    /// Bytes on each NUMA node.
    pub numa: BTreeMap<u32, u64>,
    /// Bytes that the host has not supplied, because nobody has touched them.
    pub absent: u64,
    /// Bytes on huge pages; `None` where this kernel does not say.
    pub huge: Option<u64>,
    /// True if not every page was looked at: the numbers are in proportion.
    pub is_estimate: bool,
}

impl Residence {
    /// Adds other bytes.
    pub fn add(&mut self, other: &Residence) {
        self.huge = match (self.len, self.huge) {
            (0, _) => other.huge,
            (_, huge) => huge.and_then(|huge| Some(huge.saturating_add(other.huge?))),
        };
        self.len = self.len.saturating_add(other.len);
        self.absent = self.absent.saturating_add(other.absent);
        self.is_estimate |= other.is_estimate;
        for (number, bytes) in &other.numa {
            if self.numa.len() < NUMA_TOLD_COUNT_MAX || self.numa.contains_key(number) {
                let sum = self.numa.entry(*number).or_default();
                *sum = sum.saturating_add(*bytes);
            }
        }
    }

    /// Bytes of which the kernel tells no NUMA node.
    pub fn untold(&self) -> u64 {
        let told = self.numa.values().fold(self.absent, |sum, bytes| sum.saturating_add(*bytes));
        self.len.saturating_sub(told)
    }
}

/// A node's reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backing {
    /// The kind of memory.
    pub kind: BackingKind,
    /// Its pages.
    pub pages: BackingPages,
    /// NUMA nodes that the operator named; none where the kernel chooses.
    pub wish: Vec<u32>,
    /// All extents of the node together, for root and the node's own user; for others those of the regions below.
    pub all: Residence,
    /// Regions that the question could read.
    pub regions: Vec<(Gid, Residence)>,
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::limits::{LOOK_COUNT_MAX, LOOK_LEN_MAX, NUMA_NODE_COUNT_MAX};
    use crate::wire::control;

    fn residence(number: u32, bytes: u64, huge: Option<u64>) -> Residence {
        Residence { len: 2 * bytes, numa: [(number, bytes)].into(), absent: bytes / 2, huge, is_estimate: false }
    }

    #[test]
    fn the_longest_answer_is_within_its_limit() {
        let numa = (0..NUMA_TOLD_COUNT_MAX as u32).map(|number| (u32::MAX - number, u64::MAX)).collect();
        let longest = Residence { len: u64::MAX, numa, absent: u64::MAX, huge: Some(u64::MAX), is_estimate: true };
        let backing = Backing {
            kind: BackingKind::DiskFile,
            pages: BackingPages::Small,
            wish: (0..NUMA_NODE_COUNT_MAX).collect(),
            all: longest.clone(),
            regions: vec![(Gid(u64::MAX), longest); LOOK_COUNT_MAX],
        };
        let bytes = control::encode(&backing);
        assert!(bytes.len() as u64 <= LOOK_LEN_MAX, "{} bytes", bytes.len());
        assert_eq!(control::decode(&bytes), Ok(backing));
    }

    #[test]
    fn bytes_add_up_and_what_is_not_told_is_no_zero() {
        let mut sum = Residence::default();
        sum.add(&residence(0, 100, Some(8)));
        sum.add(&residence(1, 10, Some(2)));
        assert_eq!((sum.len, sum.absent, sum.huge, sum.untold()), (220, 55, Some(10), 55));
        assert_eq!(sum.numa, [(0, 100), (1, 10)].into());
        sum.add(&Residence { is_estimate: true, ..residence(1, 10, None) });
        assert_eq!((sum.huge, sum.is_estimate, sum.numa[&1]), (None, true, 20));
        for number in 0..200 {
            sum.add(&residence(number, 1, None));
        }
        assert_eq!(sum.numa.len(), NUMA_TOLD_COUNT_MAX);
        assert!(Residence { len: 1, absent: u64::MAX, ..sum }.untold() == 0);
    }
}
