//! Data bound to locks, on a client's side: brought with a lock, and published before it is given back.
//!
//! ```text
//! lock ──> grant: changes since the version known here ──> take in, or update ──> section
//! section ──> stores in what is bound ── Publish ──> home ──> send them to their homes ── Unlock ──> home
//!         ──> the same, where the lock's home is the home of all of them ── Release ──> home
//! ```
//!
//! A program keeps the version of each lock's data that all of its mappings show. A mapping that is made later fetches its pages
//! after that, so it shows nothing older.

use super::attachment::{BoundMemory, CarriedMemory, GrantedLock, LockData, MappedRegion, Shared, Spans, Stored};
use super::remote::Remote;
use super::request::Patience;
use hanare_protocol::entry::{BoundRange, BoundShape, Condition, DataGrant, Publication, Stamp, Stores, check_binding};
use hanare_protocol::error::Happened;
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::limits::{PAGE_LEN, RELEASE_LEN_MAX, RELEASE_RANGE_COUNT_MAX};
use hanare_protocol::lock::Mode;
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::carried::ExtentAddress;
use hanare_protocol::wire::control::Which;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of regions, ascending and without overlap.
type ByteRanges = BTreeMap<Gid, Vec<Range<u64>>>;

/// The bytes of shapes.
fn ranges_of<'s>(shapes: impl IntoIterator<Item = &'s BoundShape>) -> ByteRanges {
    let mut all = ByteRanges::new();
    for BoundShape { gid, shape } in shapes {
        let blocks = shape.blocks().filter(|(_, len)| *len > 0);
        all.entry(*gid).or_default().extend(blocks.map(|(offset, len)| offset..offset + len));
    }
    for ranges in all.values_mut() {
        ranges.sort_by_key(|range| range.start);
        *ranges = joined(ranges);
    }
    all
}

/// Ascending ranges, those that touch as one.
fn joined(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range.clone()),
        }
    }
    joined
}

/// A section's publication.
#[derive(Clone)]
pub(super) struct Published {
    data: LockData,
    /// True if the lock's home has all of its bytes, and the same binding as before. Then a release counts whole, whatever happens to this
    /// program.
    pub is_plain: bool,
}

/// Result of a release that took its stores along.
pub(super) struct WentAlong {
    /// Set unless the connection broke under the reply.
    pub published: Option<Published>,
    /// True if the home may have left a lease with this program.
    pub may_be_kept: bool,
}

/// The data that a lock brought.
pub(super) struct Section {
    /// The taking that holds the lock.
    pub taking: Arc<GrantedLock>,
    mode: Mode,
    shapes: Option<Arc<[BoundShape]>>,
    ranges: ByteRanges,
    /// The lock's new binding from the end on, if it changes.
    rebound: Option<Vec<BoundShape>>,
    is_torn: bool,
}

impl Section {
    /// A section that has a lock, and nothing that is bound to it yet.
    pub fn new(taking: Arc<GrantedLock>, mode: Mode) -> Section {
        Section { taking, mode, shapes: None, ranges: ByteRanges::new(), rebound: None, is_torn: false }
    }

    fn shapes(&self) -> &[BoundShape] {
        self.shapes.as_deref().unwrap_or_default()
    }

    /// Brings what is bound to the lock and has changed. `known` is what the lock's home was told.
    ///
    /// **Errors**: those of [`SharedMapping::update`](crate::SharedMapping::update). [`Error::BadUse`] if a program that may only read
    /// would have to redo a dead holder's release.
    pub fn enter(&mut self, shared: &Shared, known: Option<LockData>, grant: Option<Box<DataGrant>>) -> Result<()> {
        let Some(grant) = grant.map(|grant| *grant) else {
            shared.claims.data().remove(&self.taking.key);
            return Ok(());
        };
        let DataGrant { stamp, bound, changes, condition } = grant;
        self.shapes = match (bound, known) {
            (Some(bound), _) => {
                check_binding(&bound)?;
                Some(bound.into())
            }
            (None, known) => known.map(|known| known.shapes),
        };
        self.ranges = ranges_of(self.shapes());
        changes.check()?;
        self.take_in(shared, &changes)?;
        let is_there = match condition {
            Condition::Whole => true,
            Condition::Torn => {
                self.is_torn = true;
                true
            }
            Condition::Redo(stores) => {
                stores.check()?;
                self.redo(shared, &stores)?
            }
        };
        if !is_there {
            // A page that is fetched now is of no version.
            shared.claims.data().remove(&self.taking.key);
            return Ok(());
        }
        let data = LockData { stamp, shapes: self.shapes.clone().unwrap_or_default() };
        shared.claims.data().insert(self.taking.key.clone(), data);
        Ok(())
    }

    /// The lock was lent to this program, which has it again: its data are as it left them.
    pub fn enter_again(&mut self, data: LockData) {
        self.ranges = ranges_of(&*data.shapes);
        self.shapes = Some(data.shapes);
    }

    /// Has the mappings show changes, as far as there are any.
    fn take_in(&self, shared: &Shared, changes: &Stores) -> Result<()> {
        // Ranges that have certainly changed need no question.
        let is_known = matches!(changes, Stores::Ranges(_));
        let update = |gid: Gid, range: &Range<u64>| {
            let (offset, len) = (range.start, range.end - range.start);
            let update = |mapping: &dyn MappedRegion, _: &dyn BoundMemory| match is_known {
                true => mapping.renew(offset, len),
                false => mapping.update(offset, len),
            };
            shared.mapped.with_bound(gid, update).unwrap_or(Ok(()))
        };
        match changes {
            Stores::All => {
                self.ranges.iter().try_for_each(|(gid, ranges)| ranges.iter().try_for_each(|range| update(*gid, range)))
            }
            Stores::Ranges(ranges) => {
                let whole = |range: &BoundRange| update(range.gid, &(range.offset..range.offset + range.len));
                ranges.iter().try_for_each(whole)
            }
            Stores::Bytes(..) => changes.pieces().try_for_each(|(range, bytes)| {
                let take_in = |_: &dyn MappedRegion, memory: &dyn BoundMemory| memory.take_in(range.offset, bytes);
                shared.mapped.with_bound(range.gid, take_in).unwrap_or(Ok(()))
            }),
        }
    }

    /// Puts at their homes what a holder that died had published and not put there. A program that has not mapped it leaves that
    /// to the next. Bytes of regions that are removed or lost have no home any more. Whether all others are there.
    fn redo(&mut self, shared: &Shared, stores: &Stores) -> Result<bool> {
        let shapes: Vec<BoundShape> = stores.pieces().map(|(range, _)| shape_of(range)).collect();
        let mut ranges = ranges_of(&shapes);
        let region_count = ranges.len();
        ranges.retain(|gid, _| !is_gone(shared, *gid));
        self.is_torn = ranges.len() < region_count;
        let rights = |gid: &Gid| shared.mapped.with_bound(*gid, |mapping, _| mapping.rights());
        let all: Option<Vec<Rights>> = ranges.keys().map(rights).collect();
        let Some(all) = all else { return Ok(false) };
        if all.iter().any(|rights| *rights < Rights::Write) {
            let reason = "a holder died in the middle of a release, and this program may not write what it left half-done: \
                          take the lock first in one that may";
            return Err(Error::LockMisused { name: self.taking.title.clone(), reason: reason.to_owned() });
        }
        for (range, bytes) in stores.pieces().filter(|(range, _)| ranges.contains_key(&range.gid)) {
            let write = |mapping: &dyn MappedRegion, _: &dyn BoundMemory| mapping.write(range.offset, bytes);
            let Some(written) = shared.mapped.with_bound(range.gid, write) else { return Ok(false) };
            written?;
        }
        send_home(shared, &ranges)?;
        if ranges.keys().any(|gid| shared.mapped.with_bound(*gid, |_, _| ()).is_none()) {
            // Another thread has unmapped it, perhaps before it was sent.
            return Ok(false);
        }
        self.taking.home.ask_sync(&SyncRequest::Redone { number: self.taking.number }, Patience::Usual)?;
        Ok(true)
    }

    /// True if nothing is bound to the lock, nor will be when it is given back.
    pub fn is_bare(&self) -> bool {
        self.shapes().is_empty() && self.rebound.is_none()
    }

    /// True if the last holder left a mixture of two releases, or its release has no home any more.
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// True if a range is bound to the lock.
    pub fn has(&self, gid: Gid, range: &Range<u64>) -> bool {
        let is_in = |ranges: &ByteRanges| {
            ranges.get(&gid).is_some_and(|ranges| ranges.iter().any(|bound| bound.start <= range.start && range.end <= bound.end))
        };
        is_in(&self.ranges) || self.rebound.as_ref().is_some_and(|shapes| is_in(&ranges_of(shapes)))
    }

    /// Refuses who shares the lock to change its data.
    pub fn check_alone(&self) -> Result<()> {
        if self.mode == Mode::Exclusive {
            return Ok(());
        }
        let reason = "who shares it may not change its data, or what they are; take it exclusively";
        Err(Error::LockMisused { name: self.taking.title.clone(), reason: reason.to_owned() })
    }

    /// Has other bytes bound to the lock when it is given back; they are brought.
    pub fn bind(&mut self, shared: &Shared, shapes: &[BoundShape]) -> Result<()> {
        self.check_alone()?;
        check_binding(shapes)?;
        for (gid, ranges) in ranges_of(shapes) {
            for range in ranges.iter().filter(|range| !self.has(gid, range)) {
                let update =
                    |mapping: &dyn MappedRegion, _: &dyn BoundMemory| mapping.update(range.start, range.end - range.start);
                shared.mapped.with_bound(gid, update).unwrap_or(Ok(()))?;
            }
        }
        self.rebound = Some(shapes.to_vec());
        Ok(())
    }

    /// All that this section may have changed.
    fn written(&self) -> ByteRanges {
        match &self.rebound {
            None => self.ranges.clone(),
            Some(shapes) => ranges_of(self.shapes().iter().chain(shapes)),
        }
    }

    /// Makes what was stored in the section visible to the next holder. Returns the version that it is, if anything was.
    ///
    /// **Cost**: nothing where nothing was stored; else a message each way to the lock's home, then as
    /// [`SharedMapping::flush`](crate::SharedMapping::flush).
    pub fn publish(&self, shared: &Shared, home: &Remote) -> Result<Option<Published>> {
        if self.mode != Mode::Exclusive || self.is_bare() {
            return Ok(None);
        }
        let written = self.written();
        let changes = stores_in(shared, &written)?;
        if changes.is_none() && self.rebound.is_none() {
            return Ok(None);
        }
        let is_plain = matches!(changes, Stores::Bytes(..)) && self.rebound.is_none();
        let publication = Publication { changes, binding: self.rebound.clone() };
        let publish = SyncRequest::Publish { number: self.taking.number, publication };
        let stamp = match home.ask_sync(&publish, Patience::Usual)? {
            (SyncAnswer::Published { stamp }, _) => stamp,
            _ => return Err(Error::Garbage { peer: home.node().to_string(), reason: "no answer to a release".to_owned() }),
        };
        send_home(shared, &written)?;
        Ok(Some(Published { data: self.version(stamp), is_plain }))
    }

    /// The program's version after a release.
    fn version(&self, stamp: Stamp) -> LockData {
        let shapes = self.rebound.clone().map_or_else(|| self.shapes.clone().unwrap_or_default(), Arc::from);
        LockData { stamp, shapes }
    }

    /// Gives the lock back with the stores, if all of them are in one region at the lock's home and fit a message. Else, and without
    /// stores, returns `None`: then nothing has happened. A program that `keeps` a leased lock still has it, if nobody wants it and its
    /// binding stays the same.
    ///
    /// **Cost**: a message each way.
    pub fn release_along(&self, shared: &Shared, home: &Arc<Remote>, keeps: bool) -> Result<Option<WentAlong>> {
        if self.mode != Mode::Exclusive || self.is_bare() {
            return Ok(None);
        }
        let keeps = keeps && self.rebound.is_none();
        let written = self.written();
        let mut all = written.iter();
        let (Some((gid, ranges)), None) = (all.next(), all.next()) else { return Ok(None) };
        let release = |mapping: &dyn MappedRegion, _: &dyn BoundMemory| {
            let Some(memory) = mapping.carried() else { return Ok(None) };
            let lies_there = |range: &Range<u64>| memory.place_of(range).is_some_and(|(node, _)| node == home.node());
            if !ranges.iter().all(lies_there) {
                return Ok(None);
            }
            let mut send = |stored: &Stored| match self.release_request(*gid, stored, memory, keeps) {
                Some(release) => home.post_sync(release, Patience::Usual).map(Some),
                None => Ok(None),
            };
            let Some((number, posted)) = memory.send_along(ranges, Spans::Whole, home, &mut send)? else { return Ok(None) };
            let outcome = home.wait_sync(posted);
            let is_done = matches!(outcome, Ok(_) | Err(Error::Broken { happened: Happened::Yes, .. }));
            memory.have_arrived(number, is_done)?;
            match outcome {
                Ok((SyncAnswer::Released(stamp, kept), _)) => {
                    let published = Some(Published { data: self.version(stamp), is_plain: true });
                    Ok(Some(WentAlong { published, may_be_kept: kept && keeps }))
                }
                Ok(_) => Err(Error::Garbage { peer: home.node().to_string(), reason: "no answer to a release".to_owned() }),
                Err(Error::Broken { happened: Happened::Yes, .. }) => Ok(Some(WentAlong { published: None, may_be_kept: keeps })),
                // The general way asks for the grants of today.
                Err(Error::GrantRefused { .. } | Error::IsMapped { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        };
        shared.mapped.with_bound(*gid, release).unwrap_or(Ok(None))
    }

    /// The request that gives the lock back with stores of a region. `None` if there are none, or they do not go with it.
    fn release_request(&self, gid: Gid, stored: &Stored, memory: &dyn CarriedMemory, keeps: bool) -> Option<SyncRequest> {
        let bytes = stored.bytes.clone().filter(|_| (1..=RELEASE_RANGE_COUNT_MAX).contains(&stored.ranges.len()))?;
        let places = stored.ranges.iter().map(|range| Some(memory.place_of(range)?.1)).collect::<Option<Vec<ExtentAddress>>>()?;
        let changes = Stores::Bytes(stored.ranges.iter().map(|range| bound_range(gid, range)).collect(), bytes);
        let publication = Publication { changes, binding: self.rebound.clone() };
        Some(SyncRequest::Release { number: self.taking.number, publication, places, keeps })
    }

    /// The lock was given back, or is about to be, with a version of its own if it published one.
    pub fn leave(&self, shared: &Shared, published: Option<Published>) {
        if let Some(Published { data, .. }) = published {
            shared.claims.data().insert(self.taking.key.clone(), data);
        }
    }

    /// The lock was lost, or the release failed. Takes back what was stored in the section, as if the program had died.
    pub fn undo(&self, shared: &Shared) {
        if self.mode != Mode::Exclusive {
            return;
        }
        shared.claims.data().remove(&self.taking.key);
        for (gid, ranges) in &self.written() {
            if let Some(Err(error)) = shared.mapped.with_bound(*gid, |_, memory| memory.discard(ranges)) {
                tracing::warn!("stores under lock '{}' were not taken back: {error}", self.taking.title);
            }
        }
    }
}

/// True if a region is removed, or its bytes are lost.
fn is_gone(shared: &Shared, gid: Gid) -> bool {
    let today = shared.open(Which::Gid(gid), Some(Rights::Read));
    matches!(today, Err(Error::UnknownRegion { .. } | Error::RegionLost { .. }))
}

fn bound_range(gid: Gid, range: &Range<u64>) -> BoundRange {
    BoundRange { gid, offset: range.start, len: range.end - range.start }
}

fn shape_of(BoundRange { gid, offset, len }: BoundRange) -> BoundShape {
    BoundShape { gid, shape: Strided::contiguous(offset, len) }
}

/// Stores in ranges that are not home, in the form for the lock's home.
fn stores_in(shared: &Shared, all: &ByteRanges) -> Result<Stores> {
    let (mut ranges, mut bytes) = (Vec::new(), Some(Vec::new()));
    for (gid, those) in all {
        let stored =
            shared.mapped.with_bound(*gid, |_, memory| memory.stores_in(those)).unwrap_or_else(|| Ok(Stored::nothing()))?;
        ranges.extend(stored.ranges.iter().map(|range| bound_range(*gid, range)));
        bytes = bytes.zip(stored.bytes).map(|(mut all, more)| {
            all.extend_from_slice(&more);
            all
        });
    }
    let bytes = bytes.filter(|bytes| bytes.len() <= RELEASE_LEN_MAX);
    Ok(match bytes {
        _ if ranges.len() > RELEASE_RANGE_COUNT_MAX => in_few(&ranges).map_or(Stores::All, Stores::Ranges),
        Some(bytes) => Stores::Bytes(ranges, bytes),
        None => Stores::Ranges(ranges),
    })
}

/// Ranges that go on from page to page as one; `None` where they are too many all the same.
fn in_few(ranges: &[BoundRange]) -> Option<Vec<BoundRange>> {
    let mut few: Vec<BoundRange> = Vec::new();
    for range in ranges {
        let goes_on = |last: &&mut BoundRange| {
            last.gid == range.gid && range.offset / PAGE_LEN <= (last.offset + last.len - 1) / PAGE_LEN + 1
        };
        match few.last_mut().filter(goes_on) {
            Some(last) => last.len = range.offset + range.len - last.offset,
            None => few.push(*range),
        }
    }
    (few.len() <= RELEASE_RANGE_COUNT_MAX).then_some(few)
}

fn send_home(shared: &Shared, all: &ByteRanges) -> Result<()> {
    all.iter().try_for_each(|(gid, ranges)| shared.mapped.with_bound(*gid, |_, memory| memory.publish(ranges)).unwrap_or(Ok(())))
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "one range is what is expected")]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_ranges_that_ascend_and_do_not_overlap() {
        let bound =
            |gid, offset, block, count, stride| BoundShape { gid: Gid(gid), shape: Strided { offset, block, count, stride } };
        let ranges = ranges_of(&[bound(2, 100, 8, 2, 16), bound(1, 0, 4, 1, 4), bound(2, 90, 14, 1, 0), bound(2, 7, 0, 3, 9)]);
        assert_eq!(ranges[&Gid(2)], [90..108, 116..124]);
        assert_eq!(ranges[&Gid(1)], [0..4]);
    }

    #[test]
    fn pages_that_follow_each_other_are_one_range_of_a_long_release() {
        let range = |offset, len| BoundRange { gid: Gid(1), offset, len };
        let long: Vec<BoundRange> = (0..1000).map(|page| range(page * 4096 + 8, 16)).collect();
        assert_eq!(in_few(&long), Some(vec![range(8, 999 * 4096 + 16)]));
        let far: Vec<BoundRange> = (0..1000).map(|page| range(page * 12_288, 16)).collect();
        assert_eq!(in_few(&far), None);
    }
}
