//! Changes that depend on the entry before, in one step.

use super::Store;
use crate::bucket::{At, Entry, Value, rounded};
use crate::change::INLINE_LEN;
use crate::digest::checksum;
use crate::fault::Fault;
use crate::key::Key;
use crate::plan::{Plan, spare};
use crate::table::Table;
use crate::times::{Times, about_now_ms};
use crate::waiter::Here;
use hanare::{Error, Happened, Result};
use std::borrow::Cow;
use std::sync::Arc;

/// An entry as a change finds it.
#[derive(Clone, Copy, Debug)]
pub struct Found<'v> {
    /// The kind of its bytes ([`kind`](crate::kind)).
    pub kind: u8,
    /// Bytes of its value.
    pub len: usize,
    /// The bytes, where they were asked for.
    pub bytes: &'v [u8],
    /// Its end, and that of its pin.
    pub times: Times,
}

/// A change of an entry.
#[derive(Clone, Debug)]
pub enum Change<'v> {
    /// The entry stays as it is.
    Keep,
    /// The key and its value go.
    Remove,
    /// The value stays, and has other times. Without an entry nothing is done.
    Times(Times),
    /// The key has another value.
    Set {
        /// The kind of the bytes.
        kind: u8,
        /// The bytes.
        bytes: Cow<'v, [u8]>,
        /// The end, and that of the pin.
        times: Times,
    },
}

impl Store {
    /// Changes a key's entry in one step, by what it is: `decide` gets the entry, with its bytes if it `reads` them. It returns the change,
    /// and a result for the caller. It is called again where another program was faster.
    pub fn update<'v, T>(
        &self,
        key: &Key<'_>,
        reads: bool,
        decide: impl FnMut(Option<Found<'_>>) -> Result<(Change<'v>, T)>,
    ) -> Result<T> {
        self.update_in(&mut self.dict.table()?, key, reads, decide)
    }

    /// The same for some keys, one after the other. `decide` gets the key's index, too. **Errors**: that of the first which fails; the keys
    /// before it are changed.
    pub fn update_each<'v>(
        &self,
        keys: &[Key<'_>],
        reads: bool,
        mut decide: impl FnMut(usize, Option<Found<'_>>) -> Result<Change<'v>>,
    ) -> Result<()> {
        let mut table = self.dict.table()?;
        let mut update = |(index, key)| self.update_in(&mut table, key, reads, |found| Ok((decide(index, found)?, ())));
        keys.iter().enumerate().try_for_each(&mut update)
    }

    /// [`Store::update`] by a table that may be another's by now.
    fn update_in<'v, T>(
        &self,
        table: &mut Arc<Table>,
        key: &Key<'_>,
        reads: bool,
        mut decide: impl FnMut(Option<Found<'_>>) -> Result<(Change<'v>, T)>,
    ) -> Result<T> {
        let mut room = super::room::Room::default();
        for turn in 0..self.dict.tries {
            let mut wanted = 0;
            match self.try_update(table, key.coded(), reads, &mut decide, &mut wanted) {
                Ok(told) => return Ok(told),
                Err(Fault::Full) => self.make_room(table, wanted, &mut room)?,
                Err(Fault::Frozen) => self.dict.renew_unless_moved(table)?,
                Err(Fault::Pool(error)) => self.dict.unless_moved(table, error)?,
                Err(Fault::Changed | Fault::Moved) => self.dict.give_way(turn)?,
            }
            *table = self.dict.table()?;
        }
        Err(self.dict.busy())
    }

    /// A single try. `wanted` gets the number of bytes that it needs.
    fn try_update<'v, T>(
        &self,
        table: &Arc<Table>,
        coded: &[u8],
        reads: bool,
        decide: &mut impl FnMut(Option<Found<'_>>) -> Result<(Change<'v>, T)>,
        wanted: &mut u64,
    ) -> std::result::Result<T, Fault> {
        let number = table.number_of(coded);
        let looked = table.look_from(&Here, number)?;
        let old = looked.find(coded)?.filter(|value| !value.times.is_over_now());
        let mut far = Vec::new();
        if let Some(value) = old.filter(|value| reads && value.far != 0) {
            self.dict.read_value(table, (number, looked.word), value, &mut far)?;
        }
        let found = old.map(|Value { kind, bytes, len, times, far: at, .. }| {
            let bytes = if at == 0 { bytes } else { &far };
            Found { kind, len: len as usize, bytes, times }
        });
        let (change, told) = decide(found)?;
        let fresh = match (&change, old) {
            (Change::Keep, _) | (Change::Times(_) | Change::Remove, None) => return Ok(told),
            (Change::Remove, Some(_)) => None,
            (Change::Times(times), Some(value)) => Some(Value { times: *times, ..value }),
            (Change::Set { kind, bytes, times }, _) => Some(value_of(table, *kind, bytes, *times, wanted)?),
        };
        if looked.word.is_frozen() {
            free_fresh(table, &change, fresh);
            return Err(Fault::Frozen);
        }
        *wanted += looked.raw.len() as u64 + fresh.map_or(0, |fresh| fresh.bytes.len() as u64);
        let leaves = |entry: &Entry<'_>| entry.key == coded || entry.value.times.is_over_now();
        let is_set = matches!(change, Change::Set { .. });
        let mark = is_set.then(|| looked.mark.put(self.evict, about_now_ms(), !looked.raw.is_empty()));
        let entry = fresh.map(|value| Entry { key: coded, value });
        let done = Plan::new(number, &looked, leaves, entry.as_slice())
            .and_then(|plan| plan.map_or(Ok(Some(0)), |plan| table.carry_out_from(&Here, Plan { mark, ..plan }, false)));
        match done {
            Ok(Some(_)) => {
                spare(looked.raw);
                Ok(told)
            }
            Ok(None) => {
                free_fresh(table, &change, fresh);
                Err(Fault::Changed)
            }
            Err(fault) => {
                let may_be_linked = matches!(&fault, Fault::Pool(error) if error.happened() != Happened::No);
                if !may_be_linked {
                    free_fresh(table, &change, fresh);
                }
                Err(fault)
            }
        }
    }
}

/// A value to be linked. A long one is written into a block of its own.
fn value_of<'v>(
    table: &Table,
    kind: u8,
    bytes: &'v [u8],
    times: Times,
    wanted: &mut u64,
) -> std::result::Result<Value<'v>, Fault> {
    let len = table.value_len(bytes)?;
    if bytes.len() <= INLINE_LEN {
        return Ok(Value { kind, bytes, len, far: 0, checksum: 0, times });
    }
    *wanted = rounded(len.into());
    let at = table.values.write(&Here, &[bytes], false)?;
    *wanted = 0;
    Ok(Value { kind, bytes: &[], len, far: at.far(), checksum: checksum(bytes), times })
}

impl Table {
    /// The length of a value of a store. **Errors**: [`Error::LimitReached`] for one that is longer than a heap.
    pub(super) fn value_len(&self, bytes: &[u8]) -> Result<u32> {
        let most = self.values.block_len_max().min(u32::MAX.into());
        let len = u32::try_from(bytes.len()).ok().filter(|len| u64::from(*len) <= most);
        len.ok_or_else(|| Error::LimitReached { what: "bytes of a value of a store".to_owned(), limit: most })
    }
}

/// Gives back the block of a value that was not linked.
fn free_fresh(table: &Table, change: &Change<'_>, fresh: Option<Value<'_>>) {
    let made = fresh.filter(|fresh| fresh.far != 0 && matches!(change, Change::Set { .. }));
    if let Some(value) = made {
        table.values.free(At::of_far(value.far), rounded(value.len.into()));
    }
}
