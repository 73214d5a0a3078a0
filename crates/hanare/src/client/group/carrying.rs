//! Barriers that carry their parties' stores. Bytes at the barrier's home go with the arrival and its reply. Others go by flushes before
//! it and gets after it.

use super::{Group, GroupKind, Part};
use crate::client::attachment::{BroughtPage, CarriedMemory, PageWish, Spans, Stored};
use crate::client::locks::patience;
use crate::client::remote::{PostedSync, Remote};
use crate::client::shared::SharedMapping;
use hanare_protocol::error::Happened;
use hanare_protocol::id::{Gid, NodeId};
use hanare_protocol::limits::{PAGE_LEN, RELEASE_LEN_MAX, RELEASE_RANGE_COUNT_MAX};
use hanare_protocol::wire::carried::{BroughtPages, Carried, ExtentAddress, PutRuns};
use hanare_protocol::wire::sync::{Arrival, Party, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError};

/// Up to so many bytes that surely move, the bytes go with the arrival and its reply. More are put and fetched in place, which takes less
/// time than to copy them into a message and out of it.
const ALONG_LEN: u64 = 64 << 10;

/// Bytes that a further run of an extent takes in a message at most, beside what it puts.
const RUN_LEN: usize = 10;

impl<'a> Part<'a> {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.len)
    }

    /// Bytes of the pages that it lies in.
    fn pages_len(&self) -> u64 {
        let Range { start, end } = self.range();
        end.div_ceil(PAGE_LEN).saturating_sub(start / PAGE_LEN).saturating_mul(PAGE_LEN)
    }

    /// See [`CarriedMemory::moving_len`].
    fn moving_len(&self) -> (u64, u64) {
        self.mapping.carried().map_or((0, 0), |memory| memory.moving_len(&self.range()))
    }

    /// Its memory, if all of it lies at a node in one extent, and not as that is.
    fn memory_at(&self, node: NodeId) -> Option<&'a dyn CarriedMemory> {
        let is_within = self.range().end <= self.mapping.len();
        let memory = self.mapping.carried().filter(|_| is_within)?;
        memory.place_of(&self.range()).filter(|(of, _)| *of == node).map(|_| memory)
    }
}

/// Bytes that go with an arrival, and that come with its reply.
struct Cargo<'a> {
    home: Arc<Remote>,
    /// Stores of one mapping, and where they were made.
    gives: Option<(Part<'a>, &'a dyn CarriedMemory, Vec<Range<u64>>)>,
    wishes: Vec<(Part<'a>, &'a dyn CarriedMemory, PageWish)>,
    /// Parts of which pages come with the answer, and parts that are brought after it.
    wanted: Vec<Part<'a>>,
    rest: Vec<Part<'a>>,
}

impl<'a> Cargo<'a> {
    /// Divides parts. Stores that do not go along are sent home at once.
    ///
    /// **Errors**: those of [`SharedMapping::flush`].
    fn load(home: Arc<Remote>, gives: &[Part<'a>], takes: &[Part<'a>]) -> Result<Cargo<'a>> {
        let mut cargo = Cargo { home, gives: None, wishes: Vec::new(), wanted: Vec::new(), rest: Vec::new() };
        let node = cargo.home.node();
        // More would be compared twice: for the message, and then for the flush.
        let stored_len = gives.iter().map(|part| part.moving_len().0).fold(0, u64::saturating_add);
        let pages_len = gives.iter().map(Part::pages_len).fold(0, u64::saturating_add);
        let is_short = pages_len <= RELEASE_LEN_MAX as u64 && stored_len <= ALONG_LEN;
        for part in gives {
            let is_other = |(first, ..): &(Part<'_>, _, _)| first.mapping.gid() != part.mapping.gid();
            match part.memory_at(node).filter(|_| is_short && !cargo.gives.as_ref().is_some_and(is_other)) {
                Some(memory) => cargo.gives.get_or_insert((*part, memory, Vec::new())).2.push(part.range()),
                None => part.mapping.flush(part.offset, part.len)?,
            }
        }
        if let Some((.., ranges)) = &mut cargo.gives {
            *ranges = in_order(std::mem::take(ranges));
        }
        cargo.wish(node, takes)?;
        Ok(cargo)
    }

    /// Chooses the parts whose pages come with the answer: as many as fit.
    fn wish(&mut self, node: NodeId, takes: &[Part<'a>]) -> Result<()> {
        let (mut left, mut left_along) = (RELEASE_LEN_MAX as u64, ALONG_LEN);
        let mut chosen: BTreeMap<Gid, Vec<Part<'a>>> = BTreeMap::new();
        for part in takes {
            let less = left.checked_sub(part.pages_len()).zip(left_along.checked_sub(part.moving_len().1));
            match less.filter(|_| part.memory_at(node).is_some()) {
                Some(less) => {
                    (left, left_along) = less;
                    chosen.entry(part.mapping.gid()).or_default().push(*part);
                }
                None => self.rest.push(*part),
            }
        }
        let mut count = 0;
        for parts in chosen.into_values() {
            let Some(memory) = parts[0].mapping.carried() else { continue };
            let wish = memory.want(&in_order(parts.iter().map(Part::range).collect()), node)?;
            match wish.filter(|wish| count + wish.wants.len() <= RELEASE_RANGE_COUNT_MAX) {
                Some(wish) => {
                    count += wish.wants.len();
                    self.wishes.push((parts[0], memory, wish));
                    self.wanted.extend(parts);
                }
                None => self.rest.extend(parts),
            }
        }
        Ok(())
    }

    /// Bytes that go with the arrival; `None` where the stores do not fit.
    fn carried(&self, stored: &Stored) -> Option<Box<Carried>> {
        let (mut puts, mut next, mut more_len): (Vec<PutRuns>, u64, usize) = (Vec::new(), 0, 0);
        for range in &stored.ranges {
            let (_, at) = self.gives.as_ref()?.1.place_of(range)?;
            let len = u32::try_from(range.end - range.start).ok()?;
            let gap = puts.last().and_then(|last| gap(last.at, next, at));
            match (gap, puts.last_mut()) {
                (Some(0), Some(PutRuns { runs, .. })) => runs.last_mut()?.1 += len,
                (Some(gap), Some(PutRuns { runs, .. })) => {
                    runs.push((gap, len));
                    more_len += RUN_LEN;
                }
                _ => puts.push(PutRuns { at, runs: vec![(0, len)] }),
            }
            next = at.offset + u64::from(len);
        }
        // Each extent's first run has room beside the bytes.
        let bytes = stored.bytes.clone().filter(|bytes| bytes.len() + more_len <= RELEASE_LEN_MAX)?;
        let wants = self.wishes.iter().flat_map(|(.., wish)| wish.wants.iter().cloned()).collect();
        (puts.len() <= RELEASE_RANGE_COUNT_MAX).then(|| Box::new(Carried { puts, bytes, wants }))
    }

    /// Sends the arrival, with the stores if they fit; those that do not are sent home before. Returns the number by which they are under way.
    fn post(&self, request: &dyn Fn(Box<Carried>) -> SyncRequest) -> Result<(Option<u64>, PostedSync)> {
        let mut send = |stored: &Stored| match self.carried(stored) {
            Some(carried) => self.home.post_sync(request(carried), patience(None)).map(Some),
            None => Ok(None),
        };
        if let Some((_, memory, ranges)) = &self.gives {
            if let Some((number, posted)) = memory.send_along(ranges, Spans::Changed, &self.home, &mut send)? {
                return Ok((Some(number), posted));
            }
            self.flush()?;
        }
        let posted = send(&Stored::nothing())?;
        Ok((None, posted.expect("an arrival without stores fits")))
    }

    /// Sends home what was to go along.
    fn flush(&self) -> Result<()> {
        let Some((part, _, ranges)) = &self.gives else { return Ok(()) };
        ranges.iter().try_for_each(|range| part.mapping.flush(range.start, range.end - range.start))
    }

    /// Arrives, and shows what came with the answer. Returns whether pages came; nothing where the home did not take the arrival.
    ///
    /// **Errors**: those of the home, and of pages that cannot be shown.
    fn meet(&self, request: &dyn Fn(Box<Carried>) -> SyncRequest) -> Result<Option<bool>> {
        use Error::{Broken, GrantRefused, IsMapped, PartyGone, RankGone};
        let (sent, posted) = self.post(request)?;
        let answer = self.home.wait_sync(posted);
        let shown = match &answer {
            Ok((SyncAnswer::Met(brought), _)) => self.unload(brought),
            _ => Ok(Vec::new()),
        };
        // A party that is told of another's death had arrived.
        let is_home = matches!(answer, Ok(_) | Err(Broken { happened: Happened::Yes, .. } | PartyGone { .. } | RankGone { .. }));
        if let (Some(number), Some((_, memory, _))) = (sent, &self.gives) {
            memory.have_arrived(number, is_home)?;
        }
        for (mapping, range) in shown? {
            mapping.bring(range.start, range.end - range.start)?;
        }
        match answer {
            Ok((answer, _)) => Ok(Some(matches!(answer, SyncAnswer::Met(_)))),
            // The general way asks for the grants of today.
            Err(GrantRefused { .. } | IsMapped { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Shows pages that came. Returns ranges that are to be renewed.
    fn unload(&self, brought: &BroughtPages) -> Result<Vec<(&'a SharedMapping, Range<u64>)>> {
        let garbage = || Error::Garbage { peer: self.home.node().to_string(), reason: "other pages than were wanted".to_owned() };
        let (mut flags, mut rest, mut late) = (brought.changed.iter(), &brought.bytes[..], Vec::new());
        for (part, memory, wish) in &self.wishes {
            let mut pages: Vec<BroughtPage<'_>> = Vec::with_capacity(wish.pages.len());
            let lens = wish
                .wants
                .iter()
                .flat_map(|want| (0..want.count()).map(|number| PAGE_LEN.min(want.len - number * PAGE_LEN) as usize));
            for len in lens {
                pages.push(match flags.next().ok_or_else(garbage)? {
                    true => {
                        let (bytes, behind) = rest.split_at_checked(len).ok_or_else(garbage)?;
                        rest = behind;
                        Some(bytes)
                    }
                    false => None,
                });
            }
            late.extend(memory.take_pages(wish, &pages)?.into_iter().map(|range| (part.mapping, range)));
        }
        if flags.next().is_some() || !rest.is_empty() { Err(garbage()) } else { Ok(late) }
    }
}

/// Ranges ascending, those that touch as one.
fn in_order(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    ranges
}

/// Distance from `next`, an offset in the extent of `last`, to `at`.
fn gap(last: ExtentAddress, next: u64, at: ExtentAddress) -> Option<u32> {
    let is_same = (last.slot, last.grant) == (at.slot, at.grant);
    at.offset.checked_sub(next).filter(|_| is_same).and_then(|gap| u32::try_from(gap).ok())
}

impl Group {
    /// A [`Group::barrier`] that carries stores. This party's stores to `gives` are visible before it arrives. Other parties' stores to
    /// `takes` are here, ready to be read, when it goes on.
    ///
    /// **Cost**: one message each way, if each part lies whole in one extent at the barrier's home. The arrival has the stores that go
    /// along, the reply the changed pages. That holds for stores to one mapping, and for parts of [`RELEASE_LEN_MAX`] bytes each way. Of
    /// these at most 64 KiB of pages were stored to or are sure to come. All other parts cost as [`SharedMapping::flush`] before it and
    /// [`SharedMapping::bring`] after it. With a coherent mapping only the last moves anything. **Errors**: theirs, and those of
    /// [`Group::barrier`]. An error before the arrival leaves the others waiting: drop the group, and they are told. **Source**: [RF §3.4]
    // FEATURE: RF-F15
    pub fn barrier_with(&self, gives: &[Part<'_>], takes: &[Part<'_>]) -> Result<()> {
        let cargo = match self.home()? {
            Some(home) => Cargo::load(home, gives, takes)?,
            None => {
                gives.iter().try_for_each(|part| part.mapping.flush(part.offset, part.len))?;
                self.barrier()?;
                return takes.iter().try_for_each(|part| part.mapping.bring(part.offset, part.len));
            }
        };
        let have_come = self.barrier_along(&cargo)?;
        for part in &cargo.wanted {
            match have_come {
                true => part.mapping.touch(part.offset, part.len)?,
                false => part.mapping.bring(part.offset, part.len)?,
            }
        }
        cargo.rest.iter().try_for_each(|part| part.mapping.bring(part.offset, part.len))
    }

    /// The home of its barriers; nothing where it is a group of one that has none.
    fn home(&self) -> Result<Option<Arc<Remote>>> {
        match (&self.kind, self.pool.shared.job) {
            (GroupKind::Joined(rank), _) => Ok(Some(rank.home.clone())),
            (GroupKind::Job, Some(_)) => self.pool.shared.home().map(Some),
            (GroupKind::Job, None) => Ok(None),
        }
    }

    /// Waits until every party is here. Returns whether the pages that are wanted came.
    fn barrier_along(&self, cargo: &Cargo<'_>) -> Result<bool> {
        if cargo.gives.is_none() && cargo.wishes.is_empty() {
            return self.barrier().map(|()| false);
        }
        self.pool.release_stores()?;
        fence(Ordering::SeqCst);
        match (&self.kind, self.pool.shared.job) {
            (GroupKind::Joined(rank), _) => {
                let alone = self.arrival.lock().unwrap_or_else(PoisonError::into_inner);
                self.check_rank(rank)?;
                let meet = |carried| SyncRequest::Arrive(Party::Place(rank.number), Some(carried));
                let met = crate::trace::slice("group barrier", || cargo.meet(&meet)).map_err(|error| self.failed(error))?;
                drop(alone);
                if met.is_none() {
                    cargo.flush()?;
                    self.barrier()?;
                }
                Ok(met.unwrap_or(false))
            }
            (GroupKind::Job, None) => self.barrier().map(|()| false),
            (GroupKind::Job, Some(who)) => {
                let mut generation = self.pool.shared.barriers.lock().unwrap_or_else(PoisonError::into_inner);
                let arrival = Arrival { who, generation: *generation };
                let arrive = |carried| SyncRequest::Arrive(Party::Rank(arrival), Some(carried));
                let met = match crate::trace::slice("barrier", || cargo.meet(&arrive)) {
                    // The arrival may be repeated, and the stores are no part of that.
                    Ok(None) | Err(Error::Broken { .. }) => {
                        cargo.flush()?;
                        self.pool.arrive(arrival)?;
                        false
                    }
                    met => met?.unwrap_or(false),
                };
                *generation += 1;
                fence(Ordering::SeqCst);
                Ok(met)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "one range is what is expected")]
mod tests {
    use super::*;
    use hanare_protocol::id::{Grant, Slot};

    #[test]
    fn ranges_that_touch_are_one() {
        assert_eq!(in_order(vec![10..20, 0..5, 20..30, 4..6, 7..8]), [0..6, 7..8, 10..30]);
    }

    #[test]
    fn a_run_goes_on_in_its_extent_alone_and_forward() {
        let at = |slot, offset| ExtentAddress { slot: Slot(slot), grant: Grant([1; 16]), offset };
        assert_eq!(gap(at(1, 0), 10, at(1, 10)), Some(0));
        assert_eq!(gap(at(1, 0), 10, at(1, 17)), Some(7));
        assert_eq!(gap(at(1, 0), 10, at(1, 9)), None);
        assert_eq!(gap(at(1, 0), 10, at(2, 17)), None);
        assert_eq!(gap(at(1, 0), 10, at(1, 1 << 40)), None);
    }
}
