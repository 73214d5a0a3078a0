//! A long value that is read where it lies.

use super::Fault;
use super::blocks::{Segment, Writers};
use super::bucket::At;
use hanare::{Lineage, LocalMapping, Operator, Region, Result};
use std::sync::Arc;

/// A value's bytes in place. They stay the same as long as this lives, even if others replace or remove the value. The memory is freed
/// afterwards.
///
/// A child made by fork does not release it: its parent does.
pub struct Hold {
    mapping: Arc<LocalMapping>,
    region: Arc<Region>,
    at: At,
    len: usize,
    kind: u8,
    writers: Writers,
    lineage: Lineage,
}

impl Hold {
    /// Counts this program as a holder of the block. `None` where it cannot be read in place.
    pub(crate) fn new(
        segment: &Segment,
        at: At,
        len: usize,
        kind: u8,
        writers: Writers,
    ) -> std::result::Result<Option<Hold>, Fault> {
        let Some(mapping) = segment.mapping() else { return Ok(None) };
        let region = segment.region.clone();
        region.fetch_word(at.count_offset(), Operator::Add, 1)?;
        Ok(Some(Hold { mapping, region, at, len, kind, writers, lineage: Lineage::here() }))
    }

    /// The kind of the bytes ([`kind`](crate::kind)).
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// The users that may have written them.
    pub fn writers(&self) -> Writers {
        self.writers
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: a value that is held has [`VIEWED_LEN_MIN`](crate::VIEWED_LEN_MIN) bytes at least.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte's address. The bytes may be read as long as this lives.
    pub fn ptr(&self) -> *const u8 {
        self.mapping.ptr().wrapping_add(self.at.offset() as usize)
    }

    /// Copies bytes from `offset` on. **Errors**: [`hanare::Error::OutOfRange`], or as for [`Region::get`].
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let (region, len) = (self.region.name().to_owned(), into.len() as u64);
        if offset.checked_add(into.len()).is_none_or(|end| end > self.len) {
            return Err(hanare::Error::OutOfRange { region, offset: offset as u64, len, limit: self.len as u64 });
        }
        self.region.get(self.at.offset() + offset as u64, into)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.lineage.is_here() {
            // A heap that has gone took its counts with it.
            let _ = self.region.fetch_word(self.at.count_offset(), Operator::Add, u64::MAX);
        }
    }
}
