//! Batches: gets of many keys are three messages to each node, however many they are.

use super::Store;
use crate::Fault;
use crate::bucket::{At, Value, Word};
use crate::dict::{Told, Within};
use crate::digest::checksum;
use crate::key::Key;
use crate::plan::Looked;
use crate::table::Table;
use crate::times::now_ms;
use crate::waiter::Here;
use hanare::{Error, Result};
use std::sync::Arc;

/// Keys that are looked up at once.
pub(super) const SOME: usize = 256;

/// A key to put, and its value.
#[derive(Clone, Copy, Debug)]
pub struct Item<'v> {
    /// The key.
    pub key: &'v Key<'v>,
    /// The kind of the bytes.
    pub kind: u8,
    /// The bytes.
    pub bytes: &'v [u8],
}

/// A long value of a batch, and the buffer for it.
struct Awaited<'v, 'b> {
    index: usize,
    value: Value<'v>,
    into: &'b mut [u8],
}

impl Store {
    /// True for each key that is there. Counts as a use. **Cost**: elsewhere two messages for each 256 keys.
    pub fn contains_many(&self, keys: &[Key<'_>]) -> Result<Vec<bool>> {
        let nowhere = || -> Vec<&mut [u8]> { keys.iter().map(|_| <&mut [u8]>::default()).collect() };
        Ok(self.get_many_by(keys, &mut nowhere(), false)?.into_iter().map(|told| told.is_some()).collect())
    }

    /// Number of keys, from the first on, that are all there.
    pub fn known_prefix(&self, keys: &[Key<'_>]) -> Result<usize> {
        let mut known = 0;
        for some in keys.chunks(SOME) {
            let there = self.contains_many(some)?;
            known += there.iter().take_while(|there| **there).count();
            if !there.iter().all(|there| *there) {
                break;
            }
        }
        Ok(known)
    }

    /// Reads each key's value into the buffer of the same index, as [`Store::get_into`] does.
    ///
    /// **Errors**: [`Error::BadSetting`] for another number of buffers than of keys.
    pub fn get_many(&self, keys: &[Key<'_>], into: &mut [&mut [u8]]) -> Result<Vec<Option<Told>>> {
        if keys.len() != into.len() {
            let (key, value) = ("buffers".to_owned(), into.len().to_string());
            return Err(Error::BadSetting { key, value, reason: format!("there are {} keys", keys.len()) });
        }
        self.get_many_by(keys, into, true)
    }

    fn get_many_by(&self, keys: &[Key<'_>], into: &mut [&mut [u8]], reads: bool) -> Result<Vec<Option<Told>>> {
        let one = |key: &Key<'_>, into: &mut [u8]| self.read(key, &mut Within(into));
        let mut told = Vec::with_capacity(keys.len());
        for (keys, into) in keys.chunks(SOME).zip(into.chunks_mut(SOME)) {
            let table = self.dict.table()?;
            let done = if table.is_here { None } else { self.get_some(&table, keys, into, reads).ok() };
            // Keys of which a batch knows nothing are read one by one.
            let mut done = done.unwrap_or_default().into_iter();
            for (key, into) in keys.iter().zip(into.iter_mut()) {
                told.push(match done.next().flatten() {
                    Some(told) => told,
                    None => one(key, into)?,
                });
            }
        }
        Ok(told)
    }

    /// Reads values by batches. The inner `None` is for keys that are not there, the outer for those that have to be read again.
    fn get_some(
        &self,
        table: &Arc<Table>,
        keys: &[Key<'_>],
        into: &mut [&mut [u8]],
        reads: bool,
    ) -> std::result::Result<Vec<Option<Option<Told>>>, Fault> {
        let now = now_ms();
        let numbers: Vec<u64> = keys.iter().map(|key| table.number_of(key.coded())).collect();
        let looked = table.look_many(&numbers)?;
        let mut told = Vec::with_capacity(keys.len());
        let mut awaited = Vec::new();
        for (index, (key, into)) in keys.iter().zip(into.iter_mut()).enumerate() {
            let Some(looked) = looked[index].as_ref().filter(|looked| !looked.word.is_frozen()) else {
                told.push(None);
                continue;
            };
            let Some(value) = looked.find(key.coded())?.filter(|value| !value.times.is_over(now)) else {
                told.push(Some(None));
                continue;
            };
            table.note_use(numbers[index], looked);
            let len = value.len as usize;
            told.push(Some(Some(Told { kind: value.kind, len, writers: table.writers() })));
            let Some(into) = into.get_mut(..len).filter(|_| reads) else { continue };
            match value.far {
                0 => into.copy_from_slice(value.bytes),
                _ => awaited.push(Awaited { index, value, into }),
            }
        }
        table.read_many(&mut awaited)?;
        for Awaited { index, value, into } in awaited {
            if checksum(into) != value.checksum {
                told[index] = None;
            }
        }
        Ok(told)
    }
}

impl Table {
    /// Words and their buckets: one by one on this host, else by two messages. `None` where a bucket has to be read again.
    pub(crate) fn look_many(&self, numbers: &[u64]) -> std::result::Result<Vec<Option<Looked>>, Fault> {
        if self.is_here {
            let look = |number: &u64| match self.look_from(&Here, *number) {
                Ok(looked) => Ok(Some(looked)),
                Err(Fault::Changed) => Ok(None),
                Err(fault) => Err(fault),
            };
            return numbers.iter().map(look).collect();
        }
        let words = self.words_of(numbers)?;
        let mut raws: Vec<Vec<u8>> = words.iter().map(|(word, _)| vec![0; known_len(*word) as usize]).collect();
        let segments = words.iter().map(|(word, _)| match known_len(*word) {
            0 => Ok(None),
            len => self.buckets.range(&Here, word.at(), len).map(Some),
        });
        let segments = segments.collect::<std::result::Result<Vec<_>, Fault>>()?;
        if segments.iter().any(Option::is_some) {
            self.pool.batch(|batch| {
                let each = segments.iter().zip(&mut raws).filter_map(|(segment, raw)| Some((segment.as_ref()?, raw)));
                each.into_iter().try_for_each(|((segment, offset), raw)| batch.get(&segment.region, *offset, raw))
            })?;
        }
        let each = numbers.iter().zip(words).zip(raws);
        Ok(each
            .map(|((number, (word, mark)), raw)| self.looked(*number, word, raw).map(|raw| Looked { word, mark, raw }))
            .collect())
    }

    /// The checked bytes of a bucket of known length.
    fn looked(&self, number: u64, word: Word, raw: Vec<u8>) -> Option<Vec<u8>> {
        if word.is_none() {
            return Some(Vec::new());
        }
        if raw.is_empty() { None } else { self.bucket(number, word, Some(raw)).ok() }
    }

    /// Reads long values into their buffers, by one message.
    fn read_many(&self, awaited: &mut [Awaited<'_, '_>]) -> std::result::Result<(), Fault> {
        if awaited.is_empty() {
            return Ok(());
        }
        let ranges =
            awaited.iter().map(|Awaited { value, .. }| self.values.range(&Here, At::of_far(value.far), value.len.into()));
        let ranges = ranges.collect::<std::result::Result<Vec<_>, Fault>>()?;
        Ok(self.pool.batch(|batch| {
            let each = ranges.iter().zip(awaited);
            each.into_iter().try_for_each(|((segment, offset), awaited)| batch.get(&segment.region, *offset, awaited.into))
        })?)
    }
}

/// Bytes of a bucket's block, if the word says them; else 0.
fn known_len(word: Word) -> u64 {
    if word.is_none() { 0 } else { word.block_len().unwrap_or(0) }
}
