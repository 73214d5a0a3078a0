//! Puts and removals of many keys, by as few messages as of one.
//!
//! Words and buckets are looked up together, blocks taken together, bytes put together, and words swapped together. A key whose word another
//! program changed meanwhile is in the next turn; after some turns it is changed alone.

use super::Store;
use super::many::{Item, SOME};
use super::room::Room;
use super::steps::Step;
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
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Turns of a batch. One is enough where no two of its keys share a word, and no other program changes the words.
const TURNS: usize = 4;

/// A key's change in a batch.
#[derive(Clone, Copy)]
struct Wish<'v> {
    key: &'v Key<'v>,
    /// The value, its kind and its end; `None` to remove the key.
    put: Option<(u8, &'v [u8], u64)>,
    /// True if a key that is there keeps its value.
    only_new: bool,
}

/// A wish whose bucket was read.
struct Planned<'v> {
    /// Index of the wish.
    index: usize,
    number: u64,
    looked: Looked,
    /// The value, if it is a put; without its block.
    value: Option<Value<'v>>,
    /// Bytes of its own block, where it needs one, and of its bucket's.
    far_len: u64,
    bucket_len: u64,
}

/// Blocks of a wish: of its value, and of its bucket, where it needs them and there was room.
struct Blocks {
    value: Option<At>,
    bucket: Option<At>,
}

impl Store {
    /// Puts values by keys. Returns true for each that was put, and false where there was no room. Of a batch that is longer than the store,
    /// some keys find none. Of a key that stands twice, the later value stays.
    ///
    /// **Cost**: on this host a message where blocks are taken, and one where some go back. Elsewhere six for each 256 keys, and five where
    /// keys leave. A store of more than 64 MiB has several heaps, each of which takes a message. **Errors**: as for [`Store::put`]; what was
    /// put before an error is there.
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
            if only_new && self.contains(item.key)? {
                return Ok(true);
            }
            match self.put(item.key, item.kind, item.bytes, ttl) {
                Ok(()) => Ok(true),
                Err(Error::HeapFull { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        };
        let wishes = items.iter().map(|item| Wish { key: item.key, put: Some((item.kind, item.bytes, expires)), only_new });
        let done = self.change_many(&wishes.collect::<Vec<_>>())?;
        items.iter().zip(done).map(|(item, done)| done.map_or_else(|| alone(item), Ok)).collect()
    }

    /// Removes keys. Returns true for each that was there. **Cost**: as for [`Store::put_many`].
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

    /// A turn: the first wish of each word that is not done.
    fn change_some(
        &self,
        table: &Arc<Table>,
        wishes: &[Wish<'_>],
        done: &mut [Option<bool>],
        loose: &mut LooseBlocks,
    ) -> std::result::Result<(), Fault> {
        let now = now_ms();
        let mut words = HashSet::new();
        let left = (0..wishes.len()).filter(|index| done[*index].is_none());
        let firsts: Vec<(usize, u64)> = left
            .map(|index| (index, table.number_of(wishes[index].key.coded())))
            .filter(|(_, number)| words.insert(*number))
            .collect();
        let numbers: Vec<u64> = firsts.iter().map(|(_, number)| *number).collect();
        let mut planned = Vec::with_capacity(firsts.len());
        for ((index, number), looked) in firsts.into_iter().zip(table.look_many(&numbers)?) {
            let Some(looked) = looked else { continue };
            let wish = &wishes[index];
            let old = looked.find(wish.key.coded())?.filter(|value| !value.times.is_over(now));
            match old {
                Some(_) if wish.only_new => {
                    table.note_use(number, &looked);
                    done[index] = Some(true);
                }
                None if wish.put.is_none() => done[index] = Some(false),
                _ => {
                    let pinned = old.map_or(0, |old| old.times.pinned);
                    planned.push(planned_of(table, wish, (index, number, pinned), looked, now)?);
                }
            }
        }
        let taken = self.take_blocks(table, &planned, loose)?;
        let mut steps = Vec::with_capacity(planned.len());
        let mut indices = Vec::with_capacity(planned.len());
        for (planned, Blocks { value: far, bucket }) in planned.into_iter().zip(taken) {
            if planned.far_len > 0 && far.is_none() || planned.bucket_len > 0 && bucket.is_none() {
                far.into_iter().for_each(|at| loose.add(at, planned.far_len));
                bucket.into_iter().for_each(|at| loose.add(at, planned.bucket_len));
                // No other key may leave.
                done[planned.index] = wishes[planned.index].put.map(|_| false);
                continue;
            }
            let wish = &wishes[planned.index];
            let value = planned.value.map(|value| Value { far: far.map_or(0, At::far), ..value });
            let mark = value.map(|_| planned.looked.mark.put(self.evict, now, !planned.looked.raw.is_empty()));
            let Some(plan) = plan_of(wish, planned.number, &planned.looked, value, now)? else { continue };
            let bytes = wish.put.map_or(&[][..], |(_, bytes, _)| bytes);
            indices.push(planned.index);
            steps.push(Step { plan: Plan { mark, ..plan }, at: bucket, value: far.map(|at| (at, bytes)) });
        }
        for (index, is_done) in indices.into_iter().zip(table.carry_out_many(steps, loose)?) {
            if is_done {
                done[index] = Some(true);
            }
        }
        Ok(())
    }

    /// Takes blocks for values and buckets. Keys leave where there is no room; `None` where that does not help.
    fn take_blocks(
        &self,
        table: &Arc<Table>,
        planned: &[Planned<'_>],
        loose: &mut LooseBlocks,
    ) -> std::result::Result<Vec<Blocks>, Fault> {
        let wanted: Vec<u64> = planned.iter().flat_map(|planned| [planned.far_len, planned.bucket_len]).collect();
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
            match self.make_room_for(table, lacking.iter().sum(), &mut room, loose) {
                Ok(()) => {}
                Err(Error::HeapFull { .. }) => break Ok(()),
                Err(error) => break Err(error.into()),
            }
        };
        if outcome.is_err() {
            taken.iter().zip(&wanted).for_each(|(at, len)| at.iter().for_each(|at| loose.add(*at, *len)));
        }
        outcome.map(|()| taken.chunks_exact(2).map(|pair| Blocks { value: pair[0], bucket: pair[1] }).collect())
    }
}

/// A wish with the lengths of its blocks. **Errors**: [`Fault::Frozen`]; a value that is too long.
fn planned_of<'v>(
    table: &Table,
    wish: &Wish<'v>,
    (index, number, pinned): (usize, u64, u64),
    looked: Looked,
    now: u64,
) -> std::result::Result<Planned<'v>, Fault> {
    let (mut value, mut far_len) = (None, 0);
    if let Some((kind, bytes, expires)) = wish.put {
        let len = table.value_len(bytes)?;
        let times = Times { expires, pinned };
        // The place of a long value's block makes the bucket no longer or shorter.
        value = Some(match bytes.len() <= INLINE_LEN {
            true => Value { kind, bytes, len, far: 0, checksum: 0, times },
            false => Value { kind, bytes: &[], len, far: u64::MAX, checksum: checksum(bytes), times },
        });
        far_len = if bytes.len() <= INLINE_LEN { 0 } else { rounded(len.into()) };
    }
    let bucket_len = plan_of(wish, number, &looked, value, now)?.map_or(0, |plan| plan.bucket_len());
    Ok(Planned { index, number, looked, value, far_len, bucket_len })
}

/// The bucket with a wish done, and without entries that have ended.
fn plan_of(
    wish: &Wish<'_>,
    number: u64,
    looked: &Looked,
    value: Option<Value<'_>>,
    now: u64,
) -> std::result::Result<Option<Plan>, Fault> {
    let coded = wish.key.coded();
    let leaves = |entry: &Entry<'_>| entry.key == coded || entry.value.times.is_over(now);
    Plan::new(number, looked, leaves, value.map(|value| Entry { key: coded, value }))
}
