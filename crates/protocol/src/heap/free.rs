//! The free granules of a part of a heap, by place and by length. Neighbours are one range.

use std::collections::{BTreeMap, BTreeSet};

/// Ranges whose place does not suit an alignment, before one is taken that is long enough for any place.
const MISFITS: usize = 8;

/// Free granules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeGranules {
    by_place: BTreeMap<u32, u32>,
    /// Lengths with places.
    by_len: BTreeSet<(u32, u32)>,
}

impl FreeGranules {
    /// Takes `count` granules, from a multiple of `step` on, where the first granule has the number `first`. The shortest range that suits is
    /// used.
    pub fn take(&mut self, count: u32, step: u64, first: u64) -> Option<u32> {
        let fit = |at: u32, len: u32| {
            let number = first.checked_add(u64::from(at))?;
            let skip = number.checked_next_multiple_of(step)?.checked_sub(number)?;
            (skip.checked_add(count.into())? <= u64::from(len)).then_some((at, len, skip as u32))
        };
        let next = self.by_len.range((count, 0)..).take(MISFITS).find_map(|(len, at)| fit(*at, *len));
        let sure = || {
            let len = u64::from(count).checked_add(step.checked_sub(1)?)?;
            let (len, at) = self.by_len.range((u32::try_from(len).ok()?, 0)..).next()?;
            fit(*at, *len)
        };
        let (at, len, skip) = next.or_else(sure)?;
        self.remove(at, len);
        self.insert(at, skip);
        let (begin, used) = (at.saturating_add(skip), skip.saturating_add(count));
        self.insert(begin.saturating_add(count), len.saturating_sub(used));
        Some(begin)
    }

    /// Adds granules that are not free; joins them with their neighbours.
    pub fn give(&mut self, mut at: u32, mut count: u32) {
        if let Some((before, len)) = self.by_place.range(..at).next_back().map(|(at, len)| (*at, *len))
            && before.checked_add(len) == Some(at)
        {
            self.remove(before, len);
            (at, count) = (before, len.saturating_add(count));
        }
        let end = at.saturating_add(count);
        if let Some(len) = self.by_place.get(&end).copied() {
            self.remove(end, len);
            count = count.saturating_add(len);
        }
        self.insert(at, count);
    }

    /// Number of free granules, and of those in the longest range.
    pub fn sums(&self) -> (u64, u32) {
        (self.by_place.values().map(|len| u64::from(*len)).sum(), self.by_len.last().map_or(0, |(len, _)| *len))
    }

    fn insert(&mut self, at: u32, len: u32) {
        if len > 0 {
            self.by_place.insert(at, len);
            self.by_len.insert((len, at));
        }
    }

    fn remove(&mut self, at: u32, len: u32) {
        self.by_place.remove(&at);
        self.by_len.remove(&(len, at));
    }
}
