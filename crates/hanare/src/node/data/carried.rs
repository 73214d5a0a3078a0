//! Bytes of this node that go with an arrival at a barrier, or with a lock that is given back: put before it counts, and read once all
//! have arrived.
//!
//! They are reached as they are, within the service's turn: [`RELEASE_LEN_MAX`](hanare_protocol::limits::RELEASE_LEN_MAX) bounds both
//! ways. Regions that hosts map coherently are refused, because their pages may be elsewhere.

use crate::node::extents::Extents;
use crate::node::held::Held;
use crate::node::lost::lost_memory;
use crate::node::pages::SharedRegions;
use hanare_memory::diff::PAGE;
use hanare_memory::digest::PageKey;
use hanare_protocol::id::Rights;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::carried::{BroughtPages, Carried, DIGEST_MASK, ExtentPlace, WantedPages};
use hanare_protocol::{Error, Result};
use std::sync::Arc;

/// Bytes that may be put.
pub(crate) struct Puts<'a>(Vec<(Arc<Held>, u64, &'a [u8])>);

impl<'a> Puts<'a> {
    /// Checks all of them. **Errors**: [`Error::GrantRefused`]; [`Error::IsMapped`]; [`Error::BadUse`] for bytes beyond an extent.
    pub fn check(pieces: impl Iterator<Item = (ExtentPlace, &'a [u8])>, memory: (&Extents, &SharedRegions)) -> Result<Puts<'a>> {
        let mut puts: Vec<(Arc<Held>, u64, &[u8])> = Vec::new();
        let mut last: Option<ExtentPlace> = None;
        for (at, bytes) in pieces {
            let is_same = last.is_some_and(|last| (last.slot, last.grant) == (at.slot, at.grant));
            let held = match puts.last().filter(|_| is_same) {
                Some((held, ..)) => held.clone(),
                None => open(at, Rights::Write, memory)?,
            };
            check_range(&held, at.offset, bytes.len() as u64)?;
            puts.push((held, at.offset, bytes));
            last = Some(at);
        }
        Ok(Puts(puts))
    }

    /// Puts them. **Errors**: memory that the kernel does not supply; some of them may be there then.
    pub fn put(&self) -> Result<()> {
        let put = |(held, offset, bytes): &(Arc<Held>, u64, &[u8])| {
            held.will_write([(*offset, bytes.len() as u64)]);
            let reach = held.reach();
            reach.window().slice(*offset as usize, bytes.len()).write_from(bytes).map_err(|lost| lost_memory(&lost))
        };
        self.0.iter().try_for_each(put)
    }
}

/// Refuses pages that may not be read.
pub(crate) fn check_wants(wants: &[WantedPages], memory: (&Extents, &SharedRegions)) -> Result<()> {
    wants.iter().try_for_each(|want| find(want, memory).map(drop))
}

fn find(want: &WantedPages, memory: (&Extents, &SharedRegions)) -> Result<Arc<Held>> {
    let held = open(want.at, Rights::Read, memory)?;
    check_range(&held, want.at.offset, want.len)?;
    Ok(held)
}

/// The pages wanted that have other digests than those that are known.
///
/// **Cost**: a copy of each page, and a digest where one is known. **Errors**: as of [`Puts::check`] and [`Puts::put`].
pub(crate) fn bring(carried: &Carried, memory: (&Extents, &SharedRegions)) -> Result<BroughtPages> {
    let mut brought = BroughtPages { changed: Vec::new(), bytes: Vec::new() };
    for want in &carried.wants {
        let held = find(want, memory)?;
        let (reach, key) = (held.reach(), PageKey::new(want.seed));
        let mut known = want.known.iter().peekable();
        for number in 0..want.count() {
            let (at, len) = (number * PAGE_LEN, PAGE_LEN.min(want.len - number * PAGE_LEN) as usize);
            let mut page = [0; PAGE];
            let window = reach.window().slice((want.at.offset + at) as usize, len);
            window.read_into(&mut page[..len]).map_err(|lost| lost_memory(&lost))?;
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

fn open(at: ExtentPlace, rights: Rights, (extents, pages): (&Extents, &SharedRegions)) -> Result<Arc<Held>> {
    let held = extents.hold(at.slot, at.grant, rights)?;
    let gid = held.gid();
    if pages.is_coherent(gid) { Err(Error::IsMapped { gid }) } else { Ok(held) }
}

fn check_range(held: &Held, offset: u64, len: u64) -> Result<()> {
    if offset.checked_add(len).is_some_and(|end| end <= held.len()) {
        return Ok(());
    }
    let reason = format!("no {len} bytes are at offset {offset} of its extent");
    Err(Error::BadUse { region: "of a peer".to_owned(), reason })
}
