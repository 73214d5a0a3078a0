//! Puts and removals of many keys, by as few messages as of one.
//!
//! Words and buckets are looked up together, blocks taken together, bytes put together, and words swapped together. Keys of one word share a step.
//! A key whose word another program changed meanwhile is in the next turn; after some turns it is changed alone.

use super::Store;
use super::many::{Item, SOME};
use super::room::Room;
use super::steps::Step;
use super::update::Change;
use crate::Fault;
use crate::blocks::LooseBlocks;
use crate::bucket::{At, Entry, Value, rounded};
use crate::change::INLINE_LEN;
use crate::digest::checksum;
use crate::key::Key;
use crate::plan::{Looked, Plan};
use crate::table::Table;
use crate::times::{Times, after_ms, now_ms};
use hanare::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Turns of a batch. One is enough where no other program changes the words.
const TURNS: usize = 4;

/// A wish of a batch.
#[derive(Clone, Copy)]
struct Wish<'v> {
    key: &'v Key<'v>,
    /// The value, its kind and its end; `None` to remove the key.
    put: Option<(u8, &'v [u8], u64)>,
    /// True if a key that is there keeps its value.
    only_new: bool,
}

/// The change of one key, for all wishes of a batch on it.
struct KeyChange<'v> {
    key: &'v Key<'v>,
    /// Indices of its wishes, which end together.
    indices: Vec<usize>,
    /// The value, if it is a put; without its block.
    value: Option<Value<'v>>,
    /// Its bytes, where they need a block of their own.
    far: &'v [u8],
}

/// Changes of a word's keys, whose bucket was read.
struct Planned<'v> {
    number: u64,
    looked: Looked,
    changes: Vec<KeyChange<'v>>,
    /// Bytes of the bucket's block.
    bucket_len: u64,
}

impl Store {
    /// Puts values by keys. Returns true for each that was put, and false where there was no room. Of a batch that is longer than the store,
    /// some keys find none. Of a key that stands twice, the later value stays.
    ///
    /// **Cost**: on this host up to four messages for each 256 keys. Elsewhere five to eight, and five more where keys leave. A store of more than
    /// 64 MiB has several heaps, each of which takes a message. **Errors**: as for [`Store::put`]; what was put before an error is there.
    pub fn put_many(&self, items: &[Item<'_>], ttl: Option<Duration>) -> Result<Vec<bool>> {
        self.put_each(items, ttl, false)
    }

    /// [`Store::put_many`] that leaves the values of keys that are there. Returns true for those, too, and counts it as a use.
    pub fn put_new_many(&self, items: &[Item<'_>], ttl: Option<Duration>) -> Result<Vec<bool>> {
        self.put_each(items, ttl, true)
    }

    fn put_each(&self, items: &[Item<'_>], ttl: Option<Duration>, only_new: bool) -> Result<Vec<bool>> {
        let expires = ttl.map_or(0, |ttl| after_ms(now_ms(), ttl));
        let alone = |item: &Item<'_>| {
            let Item { key, kind, bytes, .. } = *item;
            let put = self.update(key, false, |found| match found {
                Some(_) if only_new => Ok((Change::Keep, ())),
                found => {
                    let times = Times { expires, pinned: found.map_or(0, |found| found.times.pinned) };
                    Ok((Change::Set { kind, bytes: bytes.into(), times }, ()))
                }
            });
            match put {
                Ok(()) => Ok(true),
                Err(Error::HeapFull { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        };
        let wishes = items.iter().map(|item| Wish { key: item.key, put: Some((item.kind, item.bytes, expires)), only_new });
        let done = self.change_many(&wishes.collect::<Vec<_>>())?;
        items.iter().zip(done).map(|(item, done)| done.map_or_else(|| alone(item), Ok)).collect()
    }

    /// Removes keys. Returns true for each that was there. Where a node's answer is lost, a key that this call removed may count as one that was
    /// not there. **Cost**: as for [`Store::put_many`].
    pub fn remove_many(&self, keys: &[Key<'_>]) -> Result<Vec<bool>> {
        let wishes: Vec<_> = keys.iter().map(|key| Wish { key, put: None, only_new: false }).collect();
        let done = self.change_many(&wishes)?;
        keys.iter().zip(done).map(|(key, done)| done.map_or_else(|| self.remove(key), Ok)).collect()
    }

    /// Makes changes together. `None` for those that have to be made alone.
    fn change_many(&self, wishes: &[Wish<'_>]) -> Result<Vec<Option<bool>>> {
        let mut done = vec![None; wishes.len()];
        for (wishes, done) in wishes.chunks(SOME).zip(done.chunks_mut(SOME)) {
            let table = self.dict.table()?;
            let mut loose = LooseBlocks::default();
            for _ in 0..TURNS {
                match self.change_some(&table, wishes, done, &mut loose) {
                    Ok(()) if done.iter().all(Option::is_some) => break,
                    Ok(()) => {}
                    // Alone, each finds out by itself.
                    Err(_) => break,
                }
            }
            table.values.free_many(loose);
        }
        Ok(done)
    }

    /// A turn: all wishes that are not done.
    fn change_some(
        &self,
        table: &Arc<Table>,
        wishes: &[Wish<'_>],
        done: &mut [Option<bool>],
        loose: &mut LooseBlocks,
    ) -> std::result::Result<(), Fault> {
        let now = now_ms();
        let mut words: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for index in (0..wishes.len()).filter(|index| done[*index].is_none()) {
            words.entry(table.number_of(wishes[index].key.coded())).or_default().push(index);
        }
        let numbers: Vec<u64> = words.keys().copied().collect();
        let mut planned = Vec::with_capacity(numbers.len());
        for ((number, indices), looked) in words.into_iter().zip(table.look_many(&numbers)?) {
            let Some(looked) = looked else { continue };
            let changes = changes_of(table, wishes, &indices, (number, &looked, now), done)?;
            if let Some(plan) = plan_of(&changes, number, &looked, now)? {
                planned.push(Planned { number, looked, changes, bucket_len: plan.bucket_len() });
            }
        }
        let mut taken = self.take_blocks(table, &planned, loose)?.into_iter();
        let (mut steps, mut indices) = (Vec::with_capacity(planned.len()), Vec::with_capacity(planned.len()));
        for Planned { number, looked, mut changes, bucket_len } in planned {
            let lens: Vec<u64> = lens_of(&changes, bucket_len).collect();
            let blocks: Vec<Option<At>> = taken.by_ref().take(lens.len()).collect();
            if blocks.iter().zip(&lens).any(|(at, len)| *len > 0 && at.is_none()) {
                let each = blocks.iter().zip(&lens);
                each.for_each(|(at, len)| at.iter().for_each(|at| loose.add(*at, *len)));
                // No other key may leave. Of several keys, one alone may have room.
                if let [KeyChange { indices, value: Some(_), .. }] = &changes[..] {
                    indices.iter().for_each(|index| done[*index] = Some(false));
                }
                continue;
            }
            let is_put = changes.iter().any(|change| change.value.is_some());
            let mark = is_put.then(|| looked.mark.put(self.evict, now, !looked.raw.is_empty()));
            let mut values = Vec::new();
            for (change, at) in changes.iter_mut().zip(&blocks) {
                if let (Some(value), Some(at)) = (&mut change.value, at) {
                    value.far = at.far();
                    values.push((*at, change.far));
                }
            }
            let Some(plan) = plan_of(&changes, number, &looked, now)? else { continue };
            steps.push(Step { plan: Plan { mark, ..plan }, at: blocks.last().copied().flatten(), values });
            indices.push(changes.into_iter().flat_map(|change| change.indices).collect::<Vec<_>>());
        }
        for (indices, is_done) in indices.into_iter().zip(table.carry_out_many(steps, loose)?) {
            if is_done {
                indices.into_iter().for_each(|index| done[index] = Some(true));
            }
        }
        Ok(())
    }

    /// Takes the blocks of [`lens_of`], one after another. Keys leave where there is no room; `None` where none is needed, or that does not help.
    fn take_blocks(
        &self,
        table: &Arc<Table>,
        planned: &[Planned<'_>],
        loose: &mut LooseBlocks,
    ) -> std::result::Result<Vec<Option<At>>, Fault> {
        let wanted: Vec<u64> = planned.iter().flat_map(|planned| lens_of(&planned.changes, planned.bucket_len)).collect();
        let mut taken: Vec<Option<At>> = vec![None; wanted.len()];
        let mut room = Room::default();
        let outcome = loop {
            let missing: Vec<usize> = (0..wanted.len()).filter(|at| wanted[*at] > 0 && taken[*at].is_none()).collect();
            let lens: Vec<u64> = missing.iter().map(|at| wanted[*at]).collect();
            match table.values.take_many(&lens, loose) {
                Ok(blocks) => missing.iter().zip(blocks).for_each(|(at, block)| taken[*at] = block),
                Err(fault) => break Err(fault),
            }
            let lacking: Vec<u64> = missing.iter().filter(|at| taken[**at].is_none()).map(|at| wanted[*at]).collect();
            if lacking.is_empty() {
                break Ok(());
            }
            room.keys = lacking.len();
            let before = room.freed;
            match self.make_room_for(table, lacking.iter().sum(), &mut room, loose) {
                // The table is another one by now: nothing leaves this one.
                Ok(()) if room.freed == before => break Err(Fault::Moved),
                Ok(()) => {}
                Err(Error::HeapFull { .. }) => break Ok(()),
                Err(error) => break Err(error.into()),
            }
        };
        if outcome.is_err() {
            taken.iter().zip(&wanted).for_each(|(at, len)| at.iter().for_each(|at| loose.add(*at, *len)));
        }
        outcome.map(|()| taken)
    }
}

/// Changes of a word's keys. Wishes that need none are done. **Errors**: a value that is too long.
fn changes_of<'v>(
    table: &Table,
    wishes: &[Wish<'v>],
    indices: &[usize],
    (number, looked, now): (u64, &Looked, u64),
    done: &mut [Option<bool>],
) -> std::result::Result<Vec<KeyChange<'v>>, Fault> {
    let mut changes: Vec<KeyChange<'v>> = Vec::new();
    for index in indices.iter().copied() {
        let wish = wishes[index];
        let old = looked.find(wish.key.coded())?.filter(|value| !value.times.is_over(now));
        let pinned = old.map_or(0, |old| old.times.pinned);
        let before = changes.iter_mut().find(|change| change.key.coded() == wish.key.coded());
        match (wish.put, before) {
            // An earlier wish has removed it.
            (None, Some(_)) => done[index] = Some(false),
            (None, None) if old.is_none() => done[index] = Some(false),
            (Some(_), None) if wish.only_new && old.is_some() => {
                table.note_use(number, looked);
                done[index] = Some(true);
            }
            (Some(_), Some(before)) if wish.only_new => before.indices.push(index),
            (Some(put), Some(before)) => {
                (before.value, before.far) = value_of(table, put, pinned)?;
                before.indices.push(index);
            }
            (put, None) => {
                let (value, far) = put.map_or(Ok((None, &[][..])), |put| value_of(table, put, pinned))?;
                changes.push(KeyChange { key: wish.key, indices: vec![index], value, far });
            }
        }
    }
    Ok(changes)
}

/// A value, without its block, and its bytes where these need one. **Errors**: a value that is too long.
fn value_of<'v>(
    table: &Table,
    (kind, bytes, expires): (u8, &'v [u8], u64),
    pinned: u64,
) -> std::result::Result<(Option<Value<'v>>, &'v [u8]), Fault> {
    let (len, times) = (table.value_len(bytes)?, Times { expires, pinned });
    // The place of a long value's block makes the bucket no longer or shorter.
    Ok(match bytes.len() <= INLINE_LEN {
        true => (Some(Value { kind, bytes, len, far: 0, checksum: 0, times }), &[]),
        false => (Some(Value { kind, bytes: &[], len, far: u64::MAX, checksum: checksum(bytes), times }), bytes),
    })
}

/// Bytes of the blocks of values, 0 for those that need none, and of the bucket.
fn lens_of<'c>(changes: &'c [KeyChange<'_>], bucket_len: u64) -> impl Iterator<Item = u64> + 'c {
    changes.iter().map(|change| rounded(change.far.len() as u64)).chain([bucket_len])
}

/// The bucket with changes made, and without entries that have ended. `None` where there is nothing to do. **Errors**: [`Fault::Frozen`].
fn plan_of(changes: &[KeyChange<'_>], number: u64, looked: &Looked, now: u64) -> std::result::Result<Option<Plan>, Fault> {
    if changes.is_empty() {
        return Ok(None);
    }
    let leaves =
        |entry: &Entry<'_>| entry.value.times.is_over(now) || changes.iter().any(|change| change.key.coded() == entry.key);
    let fresh = changes.iter().filter_map(|change| Some(Entry { key: change.key.coded(), value: change.value? }));
    Plan::new(number, looked, leaves, &fresh.collect::<Vec<_>>())
}
