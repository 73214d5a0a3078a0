//! Changes of a dictionary: sets or removes a key's value, and tries again where another program was faster.

use super::bucket::{At, Value, rounded};
use super::dict::Dict;
use super::digest::Digest;
use super::key::Key;
use super::table::Table;
use super::times::Times;
use super::waiter::{Waiter, step};
use super::{BRIEF_LEN, Fault};
use hanare::{Error, Happened, Result};
use std::sync::Arc;

/// Longest value that lies in its bucket: one more block costs a message, and each change copies a longer bucket.
pub(crate) const INLINE_LEN: usize = 1024;

/// A change that was made.
struct Changed {
    table: Arc<Table>,
    /// Entries of the bucket.
    count: u32,
}

impl<W: Waiter> Dict<W> {
    /// Sets a key's value.
    pub fn set(&self, key: &Key<'_>, kind: u8, bytes: &[u8]) -> Result<()> {
        self.set_parts(key, kind, &[bytes])
    }

    /// Sets a key's value to bytes in parts that follow each other.
    ///
    /// **Errors**: [`Error::LimitReached`] for 4 GiB or more.
    pub fn set_parts(&self, key: &Key<'_>, kind: u8, parts: &[&[u8]]) -> Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len <= INLINE_LEN {
            let joined;
            let bytes = match parts {
                [only] => *only,
                _ => {
                    joined = parts.concat();
                    &joined
                }
            };
            let value = Value { kind, bytes, len: len as u32, far: 0, checksum: 0, times: Times::default() };
            let changed = self.change(key, Some(value), None).map_err(|fault| self.error_of(fault))?;
            return self.finish(changed).map(drop);
        }
        let what = || "bytes of a value of a dictionary".to_owned();
        let len = u32::try_from(len).map_err(|_| Error::LimitReached { what: what(), limit: u32::MAX.into() })?;
        let sum = step(
            &self.waiter,
            || len as usize > BRIEF_LEN,
            || {
                let mut digest = Digest::new(0);
                parts.iter().for_each(|part| digest.update(part));
                digest.finish() as u32
            },
        );
        self.set_far(key, parts, Value { kind, bytes: &[], len, far: 0, checksum: sum, times: Times::default() })
    }

    /// Writes a value into a block of its own, and links it to its key.
    fn set_far(&self, key: &Key<'_>, parts: &[&[u8]], value: Value<'_>) -> Result<()> {
        let free = |table: &Table, at| self.waiter.wait(|| table.values.free(at, rounded(value.len.into())));
        for _ in 0..self.tries {
            let table = self.table()?;
            let at = match self.write_value(&table, parts) {
                Ok(at) => at,
                Err(Fault::Pool(error)) => {
                    self.unless_moved(&table, error)?;
                    continue;
                }
                Err(_) => continue,
            };
            match self.change(key, Some(Value { far: at.far(), ..value }), Some(&table)) {
                // From here on the block is linked.
                Ok(changed) => return self.finish(changed).map(drop),
                Err(Fault::Pool(error)) => {
                    if error.happened() == Happened::No {
                        free(&table, at);
                    }
                    self.unless_moved(&table, error)?;
                }
                Err(_) => free(&table, at),
            }
        }
        Err(self.busy())
    }

    /// **Errors**: [`Fault::Moved`] after a sweep.
    fn write_value(&self, table: &Arc<Table>, parts: &[&[u8]]) -> std::result::Result<At, Fault> {
        match table.values.write(&self.waiter, parts, false) {
            Err(Fault::Full) => match self.waiter.wait(|| self.sweep_if_worth(table, &table.values))? {
                true => Err(Fault::Moved),
                false => table.values.write(&self.waiter, parts, true),
            },
            other => other,
        }
    }

    /// Removes a key and its value. Returns true if it was there.
    pub fn remove(&self, key: &Key<'_>) -> Result<bool> {
        let changed = self.change(key, None, None).map_err(|fault| self.error_of(fault))?;
        self.finish(changed)
    }

    /// Removes all keys that are there.
    pub fn clear(&self) -> Result<()> {
        self.keys().try_for_each(|key| self.remove(&Key::from_coded(&key?)).map(drop))
    }

    /// Sets a key's value, or removes the key. Returns the table, and the bucket's number of entries; `None` where there was nothing to do.
    ///
    /// **Errors**: [`Fault::Moved`] where the value was `made_for` another table.
    fn change(
        &self,
        key: &Key<'_>,
        fresh: Option<Value<'_>>,
        made_for: Option<&Arc<Table>>,
    ) -> std::result::Result<Option<Changed>, Fault> {
        let mut may_grow = false;
        for turn in 0..self.tries {
            let table = self.table()?;
            if made_for.is_some_and(|wanted| !Arc::ptr_eq(wanted, &table)) {
                return Err(Fault::Moved);
            }
            match table.change(&self.waiter, key.coded(), fresh, may_grow) {
                Ok(count) => return Ok(count.map(|count| Changed { table, count })),
                Err(Fault::Frozen) => self.waiter.wait(|| self.renew_unless_moved(&table))?,
                Err(Fault::Full) => may_grow = !self.waiter.wait(|| self.sweep_if_worth(&table, &table.buckets))?,
                Err(Fault::Pool(error)) => self.unless_moved(&table, error)?,
                Err(Fault::Changed | Fault::Moved) => self.give_way(turn)?,
            }
        }
        Err(self.busy().into())
    }

    /// Makes the table grow where a change found it crowded. Returns true if there was a change.
    fn finish(&self, changed: Option<Changed>) -> Result<bool> {
        let Some(Changed { table, count }) = changed else { return Ok(false) };
        self.grow_if_crowded(&table, count).map(|()| true)
    }

    pub(crate) fn busy(&self) -> Error {
        let what = format!("a change of dictionary '{}', whose bucket others change all the time; nothing was done", self.name);
        Error::NotInTime { what, after_ms: 2 * u64::from(self.tries) }
    }
}
