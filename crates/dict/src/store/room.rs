//! Keys that leave, so that another has room.
//!
//! There is no list of keys by use: gets would have to change it. Words at neighbouring numbers are a sample of all keys, because a hash
//! chose the numbers. So a program that needs room looks at some words in a row, from a random one on. It takes the lowest in rank away.
//! Redis does the same with samples of five keys; here they are of sixteen or more.

use super::Store;
use super::steps::Step;
use crate::Fault;
use crate::blocks::LooseBlocks;
use crate::bucket::{Entries, Entry};
use crate::mark::{Evict, Mark};
use crate::opening::chance;
use crate::plan::{Looked, Plan};
use crate::table::Table;
use crate::times::now_ms;
use hanare::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Fewest and most words that are read at once.
const RUN_MIN: u64 = 32;
const RUN_MOST: u64 = 1 << 14;
/// Fewest and most words in use of a sample, and the part of them that may leave.
const SAMPLE: usize = 16;
const SAMPLE_MOST: usize = 1024;
const LEAVING_PART: usize = 4;

/// Most buckets that one call looks at, while it finds none that may leave.
const LOOKS: usize = 1 << 12;
/// Most bytes that one call lets go for each byte that it wants: others may take them, or they lie in pieces.
const FREED_PART: u64 = 64;

/// Progress of one call in making room.
#[derive(Default)]
pub struct Room {
    /// Blocks that are missing, if several are.
    pub keys: usize,
    /// The next word, and the number of words that were looked at since keys left.
    next: Option<u64>,
    words: u64,
    /// Buckets that were looked at, and bytes that left.
    looks: usize,
    pub(super) freed: u64,
}

/// A word whose keys may leave.
struct Leaving {
    rank: u64,
    number: u64,
}

impl Store {
    /// Makes room for `wanted` bytes, or a part of it. **Errors**: [`Error::HeapFull`] where nothing may leave.
    pub(super) fn make_room(&self, table: &Arc<Table>, wanted: u64, room: &mut Room) -> Result<()> {
        let mut loose = LooseBlocks::default();
        let made = self.make_room_for(table, wanted, room, &mut loose);
        table.values.free_many(loose);
        made
    }

    /// The same; the blocks of keys that left are loose.
    pub(super) fn make_room_for(&self, table: &Arc<Table>, wanted: u64, room: &mut Room, loose: &mut LooseBlocks) -> Result<()> {
        let wanted = wanted.max(64);
        let most = wanted.saturating_mul(FREED_PART).max(1 << 20);
        let begun = room.freed;
        while room.freed - begun < wanted {
            let before = room.freed;
            match self.let_some_go(table, wanted - (room.freed - begun), room, loose) {
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

    /// Looks at some words, and lets the lowest in rank go together.
    fn let_some_go(
        &self,
        table: &Arc<Table>,
        wanted: u64,
        room: &mut Room,
        loose: &mut LooseBlocks,
    ) -> std::result::Result<(), Fault> {
        let now = now_ms();
        let words = self.sample(table, room)?;
        let mut leaving = self.ranked(table, &words, now)?;
        leaving.sort_unstable_by_key(|leaving| leaving.rank);
        // The next leave where all of the lowest are pinned. Others need a bucket for the keys that stay, and find no room.
        for some in leaving.chunks(leaving.len().div_ceil(LEAVING_PART).max(1)) {
            for wanted in [wanted, u64::MAX] {
                let planned = self.plans_to_leave(table, some, wanted, now)?;
                room.looks += some.len();
                let is_none = planned.is_empty();
                if carry_out_some(table, planned, room, loose)? {
                    return Ok(());
                }
                if is_none {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The next words in use, with their numbers and marks.
    fn sample(&self, table: &Table, room: &mut Room) -> std::result::Result<Vec<(u64, Mark)>, Fault> {
        let mut run = self.run.load(Ordering::Relaxed).clamp(RUN_MIN, RUN_MOST).min(table.count);
        let (mut found, mut seen) = (Vec::new(), 0);
        let wanted = SAMPLE.max(LEAVING_PART * room.keys).min(SAMPLE_MOST);
        while found.len() < wanted && seen < table.count {
            let first = room.next.unwrap_or_else(|| chance() % table.count);
            let words = table.some_marked(first, run.min(table.count - first))?;
            let end = first + words.len() as u64;
            room.next = Some(if end < table.count { end } else { 0 });
            seen += words.len() as u64;
            found.extend((first..).zip(words).filter(|(_, (word, _))| !word.is_none()).map(|(number, (_, mark))| (number, mark)));
            if found.len() < wanted {
                run = (2 * run).min(RUN_MOST);
            }
        }
        room.words += seen;
        // The next look begins with about as many words as it needs.
        self.run.store(if found.len() > 2 * wanted { run / 2 } else { run }, Ordering::Relaxed);
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

    /// Buckets without some words' keys, until these have `wanted` bytes, and the number of bytes that each sets free.
    fn plans_to_leave(
        &self,
        table: &Arc<Table>,
        leaving: &[Leaving],
        wanted: u64,
        now: u64,
    ) -> std::result::Result<Vec<(Plan, u64)>, Fault> {
        let numbers: Vec<u64> = leaving.iter().map(|leaving| leaving.number).collect();
        let (mut planned, mut sum) = (Vec::new(), 0);
        for (leaving, looked) in leaving.iter().zip(table.look_many(&numbers)?) {
            let Some(looked) = looked.filter(|_| sum < wanted) else { continue };
            let Some((plan, freed)) = self.plan_to_leave(leaving, &looked, now)? else { continue };
            planned.push((plan, freed));
            sum += freed;
        }
        Ok(planned)
    }

    /// The bucket without a word's keys, or without those that end first, and the bytes that it sets free. `None` where none may leave.
    fn plan_to_leave(&self, leaving: &Leaving, looked: &Looked, now: u64) -> std::result::Result<Option<(Plan, u64)>, Fault> {
        let by_end = self.evict == Evict::Ttl;
        let leaves = |entry: &Entry<'_>| {
            let times = entry.value.times;
            !times.is_pinned(now) && (!by_end || times.expires != 0 && times.expires <= leaving.rank)
        };
        let Some(plan) = Plan::new(leaving.number, looked, leaves, &[])? else { return Ok(None) };
        let before = looked.word.block_len().unwrap_or(looked.raw.len() as u64);
        let freed = plan.freed.iter().map(|(_, len)| len).sum::<u64>() + before.saturating_sub(plan.bucket_len());
        Ok(Some((plan, freed)))
    }
}

/// Carries plans out for whose buckets there is room. Returns false if there is none for any.
fn carry_out_some(
    table: &Table,
    planned: Vec<(Plan, u64)>,
    room: &mut Room,
    loose: &mut LooseBlocks,
) -> std::result::Result<bool, Fault> {
    let lens: Vec<u64> = planned.iter().map(|(plan, _)| plan.bucket_len()).filter(|len| *len > 0).collect();
    let mut blocks = table.buckets.take_many(&lens, loose)?.into_iter();
    let (mut steps, mut freed) = (Vec::new(), Vec::new());
    for (plan, its_freed) in planned {
        let at = if plan.bucket_len() > 0 { blocks.next().flatten() } else { None };
        if plan.bucket_len() == 0 || at.is_some() {
            steps.push(Step { plan, at, values: Vec::new() });
            freed.push(its_freed);
        }
    }
    if steps.is_empty() {
        return Ok(false);
    }
    // Some may leave, though others may let them go first.
    room.words = 0;
    let done = table.carry_out_many(steps, loose)?;
    room.freed += done.into_iter().zip(freed).filter(|(is_done, _)| *is_done).map(|(_, freed)| freed).sum::<u64>();
    Ok(true)
}
