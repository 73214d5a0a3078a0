//! Bytes of this home that go with an arrival at a barrier, or with a lock that is given back. Put before it counts, and read once all have
//! arrived.
//!
//! Extents are accessed directly while the request is handled: [`RELEASE_LEN_MAX`](hanare_protocol::limits::RELEASE_LEN_MAX) bounds both
//! ways. Extents that hosts map coherently are refused, because their pages may be elsewhere.

use crate::memory::{Bytes, Memory};
use hanare_protocol::digest::PageKey;
use hanare_protocol::id::Rights;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::carried::{BroughtPages, Carried, DIGEST_MASK, ExtentAddress, WantedPages};
use hanare_protocol::{Error, Result};

/// Bytes that may be put.
pub(crate) struct Puts<'a, E>(Vec<(E, u64, &'a [u8])>);

impl<'a, E: Bytes + Clone> Puts<'a, E> {
    /// Checks all of them. **Errors**: [`Error::GrantRefused`]; [`Error::IsMapped`]; [`Error::BadUse`] for bytes beyond an extent.
    pub fn check(
        pieces: impl Iterator<Item = (ExtentAddress, &'a [u8])>,
        memory: &impl Memory<Extent = E>,
    ) -> Result<Puts<'a, E>> {
        let mut puts: Vec<(E, u64, &[u8])> = Vec::new();
        let mut last: Option<ExtentAddress> = None;
        for (at, bytes) in pieces {
            let is_same = last.is_some_and(|last| (last.slot, last.grant) == (at.slot, at.grant));
            let extent = match puts.last().filter(|_| is_same) {
                Some((extent, ..)) => extent.clone(),
                None => open(at, Rights::Write, memory)?,
            };
            check_range(&extent, at.offset, bytes.len() as u64)?;
            puts.push((extent, at.offset, bytes));
            last = Some(at);
        }
        Ok(Puts(puts))
    }

    /// Puts them. **Errors**: memory that the kernel does not supply; some of them may be there then.
    pub fn put(&self) -> Result<()> {
        self.0.iter().try_for_each(|(extent, offset, bytes)| extent.write(*offset, bytes))
    }
}

/// Refuses pages that may not be read.
pub(crate) fn check_wants(wants: &[WantedPages], memory: &impl Memory) -> Result<()> {
    wants.iter().try_for_each(|want| find(want, memory).map(drop))
}

fn find<M: Memory>(want: &WantedPages, memory: &M) -> Result<M::Extent> {
    let extent = open(want.at, Rights::Read, memory)?;
    check_range(&extent, want.at.offset, want.len)?;
    Ok(extent)
}

/// The pages wanted that have other digests than those that are known.
///
/// **Cost**: a copy of each page, and a digest where one is known. **Errors**: as of [`Puts::check`] and [`Puts::put`].
pub(crate) fn bring(carried: &Carried, memory: &impl Memory) -> Result<BroughtPages> {
    let mut brought = BroughtPages { changed: Vec::new(), bytes: Vec::new() };
    for want in &carried.wants {
        let (extent, key) = (find(want, memory)?, PageKey::new(want.seed));
        let mut known = want.known.iter().peekable();
        for number in 0..want.count() {
            let (at, len) = (number * PAGE_LEN, PAGE_LEN.min(want.len - number * PAGE_LEN) as usize);
            let mut page = [0; PAGE_LEN as usize];
            extent.read(want.at.offset + at, &mut page[..len])?;
            let digest = known.next_if(|(of, _)| u64::from(*of) == number).map(|(_, digest)| digest & DIGEST_MASK);
            let changed = digest.is_none_or(|digest| key.digest(&page) & DIGEST_MASK != digest);
            brought.changed.push(changed);
            if changed {
                brought.bytes.extend_from_slice(&page[..len]);
            }
        }
    }
    Ok(brought)
}

fn open<M: Memory>(at: ExtentAddress, rights: Rights, memory: &M) -> Result<M::Extent> {
    let extent = memory.open(at.slot, at.grant, rights)?;
    if extent.is_by_pages() { Err(Error::IsMapped { gid: extent.gid() }) } else { Ok(extent) }
}

fn check_range(extent: &impl Bytes, offset: u64, len: u64) -> Result<()> {
    if offset.checked_add(len).is_some_and(|end| end <= extent.len_bytes()) {
        return Ok(());
    }
    let reason = format!("no {len} bytes are at offset {offset} of its extent");
    Err(Error::BadUse { region: "of a peer".to_owned(), reason })
}
