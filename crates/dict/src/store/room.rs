//! Keys that leave, so that another has room.
//!
//! There is no list of keys by use: gets would have to change it. Words at neighbouring numbers are a sample of all keys, because a hash
//! chose the numbers. So a program that needs room looks at some words in a row, from a random one on. It takes the lowest in rank away.
//! Redis does the same with samples of five keys; here they are of sixteen or more.

use super::Store;
use crate::Fault;
use crate::bucket::{Entries, Entry};
use crate::mark::{Evict, Mark};
use crate::opening::chance;
use crate::plan::Plan;
use crate::table::Table;
use crate::times::now_ms;
use crate::waiter::Here;
use hanare::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Fewest and most words that are read at once.
const RUN_MIN: u64 = 32;
const RUN_MOST: u64 = 1 << 14;
/// Fewest words in use of a sample, where there are as many, and the part of them that may leave.
const SAMPLE: usize = 16;
const LEAVING_PART: usize = 4;

/// Most buckets that one call looks at, while it finds none that may leave.
const LOOKS: usize = 1 << 12;
/// Most bytes that one call lets go for each byte that it wants: others may take them, or they lie in pieces.
const FREED_PART: u64 = 64;

/// Progress of one call in making room.
#[derive(Default)]
pub struct Room {
    /// The next word, and the number of words that were looked at since keys left.
    next: Option<u64>,
    words: u64,
    /// Buckets that were looked at, and bytes that left.
    looks: usize,
    freed: u64,
}

/// A word whose keys may leave.
struct Leaving {
    rank: u64,
    number: u64,
}

impl Store {
    /// Makes room for `wanted` bytes, or a part of it. **Errors**: [`Error::HeapFull`] where nothing may leave.
    pub(super) fn make_room(&self, table: &Arc<Table>, wanted: u64, room: &mut Room) -> Result<()> {
        let wanted = wanted.max(64);
        let most = wanted.saturating_mul(FREED_PART).max(1 << 20);
        let begun = room.freed;
        while room.freed - begun < wanted {
            let before = room.freed;
            match self.let_some_go(table, wanted, room) {
                Ok(()) => {}
                Err(Fault::Pool(error)) => return self.dict.unless_moved(table, error),
                // A sweep that nobody ends: until it is ended, no key leaves.
                Err(Fault::Frozen) => return self.dict.renew_unless_moved(table),
                Err(Fault::Moved) => return Ok(()),
                Err(Fault::Changed | Fault::Full) => {}
            }
            if room.freed > before {
                room.words = 0;
            } else if room.words >= table.count || room.looks >= LOOKS {
                break;
            }
        }
        match room.freed > begun && room.freed <= most {
            true => Ok(()),
            false => Err(Error::HeapFull { region: self.name().to_owned(), asked: wanted, free: 0, largest: 0 }),
        }
    }

    /// Looks at some words, and lets the lowest in rank go.
    fn let_some_go(&self, table: &Arc<Table>, wanted: u64, room: &mut Room) -> std::result::Result<(), Fault> {
        let now = now_ms();
        let words = self.sample(table, room)?;
        let mut leaving = self.ranked(table, &words, now)?;
        leaving.sort_unstable_by_key(|leaving| leaving.rank);
        let (begun, mut left) = (room.freed, 0);
        for each in &leaving {
            if room.freed - begun >= wanted || left >= leaving.len().div_ceil(LEAVING_PART) {
                break;
            }
            room.looks += 1;
            match self.let_go(table, each, now) {
                Ok(0) | Err(Fault::Changed | Fault::Full) => {}
                Ok(freed) => (room.freed, left) = (room.freed + freed, left + 1),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// The next words in use, with their numbers and marks.
    fn sample(&self, table: &Table, room: &mut Room) -> std::result::Result<Vec<(u64, Mark)>, Fault> {
        let mut run = self.run.load(Ordering::Relaxed).clamp(RUN_MIN, RUN_MOST).min(table.count);
        let (mut found, mut seen) = (Vec::new(), 0);
        while found.len() < SAMPLE && seen < table.count {
            let first = room.next.unwrap_or_else(|| chance() % table.count);
            let words = table.some_marked(first, run.min(table.count - first))?;
            let end = first + words.len() as u64;
            room.next = Some(if end < table.count { end } else { 0 });
            seen += words.len() as u64;
            found.extend((first..).zip(words).filter(|(_, (word, _))| !word.is_none()).map(|(number, (_, mark))| (number, mark)));
            if found.len() < SAMPLE {
                run = (2 * run).min(RUN_MOST);
            }
        }
        room.words += seen;
        // The next look begins with about as many words as it needs.
        self.run.store(if found.len() > 2 * SAMPLE { run / 2 } else { run }, Ordering::Relaxed);
        Ok(found)
    }

    fn ranked(&self, table: &Table, words: &[(u64, Mark)], now: u64) -> std::result::Result<Vec<Leaving>, Fault> {
        if self.evict != Evict::Ttl {
            let leaving = |(number, mark): &(u64, Mark)| Leaving { rank: mark.rank(self.evict, now), number: *number };
            return Ok(words.iter().map(leaving).collect());
        }
        let numbers: Vec<u64> = words.iter().map(|(number, _)| *number).collect();
        let mut leaving = Vec::new();
        for (number, looked) in numbers.iter().zip(table.look_many(&numbers)?) {
            let Some(looked) = looked else { continue };
            let ends = Entries::of(&looked.raw).flatten().filter(|entry| entry.value.times.expires != 0);
            let unpinned = ends.filter(|entry| !entry.value.times.is_pinned(now));
            leaving.extend(unpinned.map(|entry| Leaving { rank: entry.value.times.expires, number: *number }));
        }
        Ok(leaving)
    }

    /// Lets a word's keys go, or those that end first. Returns the number of bytes.
    fn let_go(&self, table: &Arc<Table>, leaving: &Leaving, now: u64) -> std::result::Result<u64, Fault> {
        let looked = table.look_from(&Here, leaving.number)?;
        let by_end = self.evict == Evict::Ttl;
        let leaves = |entry: &Entry<'_>| {
            let times = entry.value.times;
            !times.is_pinned(now) && (!by_end || times.expires != 0 && times.expires <= leaving.rank)
        };
        let Some(plan) = Plan::new(leaving.number, &looked, leaves, None)? else { return Ok(0) };
        let after = if plan.writing.count == 0 { 0 } else { plan.writing.block_len() };
        let before = looked.word.block_len().unwrap_or(looked.raw.len() as u64);
        let freed = plan.freed.iter().map(|(_, len)| len).sum::<u64>() + before.saturating_sub(after);
        match table.carry_out_from(&Here, plan, false)? {
            Some(_) => Ok(freed),
            None => Err(Fault::Changed),
        }
    }
}
