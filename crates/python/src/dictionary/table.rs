//! A table of words: how a key is looked up, and how its entry is changed.
//!
//! A writer makes the bucket anew in another block and swaps the word in one step, in one message where one node has both; another who was faster
//! has it try again. A reader checks that what it read is the bucket that the word stood for. So neither needs a lock, and a writer that is killed
//! leaves the old entry or the new one.

use super::blocks::{Blocks, Heaps, node_of};
use super::bucket::{self, Entries, Entry, HEAD_LEN, Value, Word, Writing, rounded};
use super::digest::digest;
use super::plan::{Looked, Plan, SPARE, spare};
use super::{Fault, key, step};
use crate::memory::BRIEF_LEN;
use crate::region::Region;
use hanare::{Element, Error, Lineage, NodeId, Strided};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The kind of values that are bytes as they are.
pub const PLAIN: u8 = 0;

/// Words of another host's table that a program remembers: some 20 bytes each.
const SEEN_COUNT: usize = 1 << 13;

/// Buckets of another host's table that a program remembers for its next write, of up to so many bytes each.
const RECENT_COUNT: u64 = 64;
const RECENT_LEN: usize = 4096;

/// How long such a bucket is good for a write that does not read it first. A swap that succeeds says that the word is the one that was read: that it
/// never changed, or 32,768 times. A change takes a writer of the word's own host a microsecond, so that many take ten times as long as this.
const RECENT: Duration = Duration::from_millis(2);

/// Words that are looked at between two looks for signals.
const LOOK_COUNT: u64 = 1 << 10;

/// What this program saw of another host's table.
#[derive(Default)]
struct Seen {
    words: HashMap<u64, Word>,
    /// By the last digits of their numbers.
    recent: HashMap<u64, (u64, Looked, Instant)>,
}

/// An entry as Python has it: key, kind, value, its length, far, checksum.
type EntryTuple<'py> = (Bound<'py, PyBytes>, u8, Bound<'py, PyBytes>, u64, u64, u32);

/// A value as Python gives it: kind, value, its length, far, checksum.
type ValueTuple<'py> = (u8, Bound<'py, PyBytes>, u64, u64, u32);

/// A key's word: its number, its code, and the key's entry.
type FoundTuple<'py> = (u64, u64, Option<EntryTuple<'py>>);

/// A table of words, and the heaps that they lead to. A child made by fork opens another.
#[pyclass(frozen, module = "hanare._hanare")]
pub struct Table {
    pool: hanare::Pool,
    words: Arc<hanare::Region>,
    #[pyo3(get)]
    count: u64,
    seed: u64,
    buckets: Arc<Heaps>,
    values: Arc<Heaps>,
    is_here: bool,
    /// The node that has all words, if there is one.
    node: Option<NodeId>,
    lineage: Lineage,
    seen: Mutex<Seen>,
}

impl Table {
    fn number_of_key(&self, coded: &[u8]) -> u64 {
        digest(self.seed, coded) % self.count
    }

    fn read_word(&self, number: u64) -> Result<Word, Fault> {
        let mut code = [0; 8];
        self.words.get(8 * number, &mut code)?;
        Ok(Word(u64::from_le_bytes(code)))
    }

    /// The bytes of a bucket, of which `raw` was read. **Errors**: [`Fault::Changed`] where it is another's memory by now.
    fn bucket(&self, number: u64, word: Word, raw: Option<Vec<u8>>) -> Result<Vec<u8>, Fault> {
        if word.is_none() {
            return Ok(Vec::new());
        }
        let mut raw = match raw {
            Some(raw) => raw,
            None => {
                let mut raw = SPARE.take();
                self.buckets.read(word.at(), word.block_len().unwrap_or(HEAD_LEN as u64), &mut raw)?;
                raw
            }
        };
        let len = bucket::whole_len(&raw, number, word)?;
        if len > raw.len() {
            self.buckets.read(word.at(), len as u64, &mut raw)?;
            if bucket::whole_len(&raw, number, word)? != len {
                return Err(Fault::Changed);
            }
        }
        raw.truncate(len);
        bucket::check(&raw)?;
        Ok(raw)
    }

    /// A word and its bucket, without the interpreter's lock where that may wait or move much.
    fn look_from(&self, py: Python<'_>, number: u64) -> PyResult<Looked> {
        if !self.is_here {
            return step(py, true, || self.look(number));
        }
        let word = self.read_word(number)?;
        let is_short = word.block_len().is_some_and(|len| len <= BRIEF_LEN as u64);
        let is_quick = word.is_none() || is_short && self.buckets.is_here(word.at());
        step(py, !is_quick, || Ok(Looked { word, raw: self.bucket(number, word, None)? }))
    }

    /// A word and its bucket: in one message where the word is the one that this program saw last, else in two.
    ///
    /// What is remembered may be of any age, because the bucket counts only where the word that was read with it leads there. One node reads
    /// both, the word first. A bucket that was read before its word could be one of 32,768 changes ago, whose tag is the same.
    fn look(&self, number: u64) -> Result<Looked, Fault> {
        let begun = Instant::now();
        let seen = self.seen().words.get(&number).copied();
        let again = seen
            .and_then(|seen| self.look_again(number, seen).ok().map(|(word, raw)| (word, Some(raw).filter(|_| word == seen))));
        let (word, raw) = match again {
            Some(found) => found,
            None => (self.read_word(number)?, None),
        };
        let looked = Looked { word, raw: self.bucket(number, word, raw)? };
        self.note(number, looked.clone(), begun);
        Ok(looked)
    }

    /// Reads a word, and what lies where it led when it was seen. **Errors**: among others where a grant was refused, because a batch is not
    /// repeated with the grants of today, as single reads are.
    fn look_again(&self, number: u64, seen: Word) -> Result<(Word, Vec<u8>), Fault> {
        let segment = self.buckets.segment(seen.at().segment)?;
        let (mut code, mut raw) = ([0; 8], vec![0; seen.block_len().unwrap_or(0) as usize]);
        self.pool.batch(|batch| {
            batch.get(&self.words, 8 * number, &mut code)?;
            batch.get(&segment.region, seen.at().offset(), &mut raw)
        })?;
        Ok((Word(u64::from_le_bytes(code)), raw))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what was there after that moment, where that spares a message.
    fn note(&self, number: u64, looked: Looked, begun: Instant) {
        if self.is_here {
            return;
        }
        let word = looked.word;
        let has_both = word.block_len().is_some() && !word.is_none() && self.node.is_some();
        let is_one_message = has_both && self.buckets.segment(word.at().segment).is_ok_and(|segment| segment.node == self.node);
        let mut seen = self.seen();
        if seen.words.len() >= SEEN_COUNT {
            seen.words.clear();
        }
        match is_one_message {
            true => drop(seen.words.insert(number, word)),
            false => drop(seen.words.remove(&number)),
        }
        if looked.raw.len() <= RECENT_LEN && !word.is_frozen() {
            seen.recent.insert(number % RECENT_COUNT, (number, looked, begun));
        }
    }

    /// Takes what the bucket was a moment ago, once; and until when it is good for a write.
    fn take_recent(&self, number: u64) -> Option<(Looked, Instant)> {
        let (its, looked, begun) = self.seen().recent.remove(&(number % RECENT_COUNT))?;
        (its == number).then(|| (looked, begun + RECENT))
    }

    /// Changes an entry; the entries that its bucket has then. `None` where there was nothing to do.
    fn change_there(&self, number: u64, coded: &[u8], fresh: Option<Value<'_>>, may_grow: bool) -> Result<Option<u32>, Fault> {
        if let Some((recent, until)) = self.take_recent(number)
            && Instant::now() < until
            && let Some(plan) = Plan::new(number, &recent, coded, fresh)?
            && let Some(count) = self.carry_out(Plan { until: Some(until), ..plan }, may_grow)?
        {
            return Ok(Some(count));
        }
        match Plan::new(number, &self.look(number)?, coded, fresh)? {
            Some(plan) => self.carry_out(plan, may_grow)?.map(Some).ok_or(Fault::Changed),
            None => Ok(None),
        }
    }

    /// Puts a bucket in another's place; how many entries it has. `None` where another program was faster, or its time is over.
    fn carry_out(&self, plan: Plan, may_grow: bool) -> Result<Option<u32>, Fault> {
        let Plan { number, word, writing, freed, until } = plan;
        let count = writing.count;
        let (fresh, raw) = match count {
            0 => (Word::to_none(word.next_tag()), Vec::new()),
            _ => self.prepare(number, word.next_tag(), writing, may_grow)?,
        };
        // To take a block may have lasted.
        let begun = Instant::now();
        let is_first = match until {
            Some(until) if begun >= until => false,
            _ if count == 0 => self.swap(number, word, fresh)?,
            _ => self.put_and_swap(number, (word, fresh), &raw)?,
        };
        if !is_first {
            self.free_bucket(fresh);
            return Ok(None);
        }
        self.note(number, Looked { word: fresh, raw }, begun);
        self.free_bucket(word);
        if let Some((at, len)) = freed {
            self.values.free(at, len);
        }
        Ok(Some(count))
    }

    /// Takes a block for a bucket: the word that is to lead to it, and its bytes.
    fn prepare(&self, number: u64, tag: u16, writing: Writing, may_grow: bool) -> Result<(Word, Vec<u8>), Fault> {
        let too_long =
            || Error::LimitReached { what: "bytes of keys and short values in one bucket".to_owned(), limit: u32::MAX.into() };
        let len = writing.block_len();
        let raw = writing.finish(number, tag).ok_or_else(too_long)?;
        let at = self.buckets.take(len, may_grow)?;
        match Word::to(tag, at, len) {
            Some(word) => Ok((word, raw)),
            None => {
                self.buckets.free(at, len);
                let what = "granules of a heap of buckets".to_owned();
                Err(Error::LimitReached { what, limit: bucket::PLACE }.into())
            }
        }
    }

    /// Writes a bucket, and has the word lead there if it is still the old one. One message does both where one node has both. A reader may find
    /// the word before the bucket then; the bucket's checksum tells.
    fn put_and_swap(&self, number: u64, (old, fresh): (Word, Word), raw: &[u8]) -> Result<bool, Fault> {
        let segment = self.buckets.segment(fresh.at().segment)?;
        let offset = fresh.at().offset();
        if !self.is_here && self.node.is_some() && segment.node == self.node {
            let (mut before, word) = ([0; 8], Strided::contiguous(8 * number, 8));
            let (expected, new) = (old.0.to_le_bytes(), fresh.0.to_le_bytes());
            let done = self.pool.batch(|batch| {
                batch.put(&segment.region, offset, raw)?;
                batch.compare_and_swap(&self.words, word, Element::U64, &expected, &new, &mut before)
            });
            return match done {
                // Nothing was done. The next look asks for the grants of today.
                Err(Error::GrantRefused { .. }) => Ok(false),
                other => Ok(other.map(|()| before == expected)?),
            };
        }
        segment.region.put(offset, raw)?;
        self.swap(number, old, fresh)
    }

    fn swap(&self, number: u64, old: Word, fresh: Word) -> Result<bool, Fault> {
        Ok(self.words.compare_and_swap_word(8 * number, old.0, fresh.0)? == old.0)
    }

    /// Gives back the block that no word leads to any more.
    fn free_bucket(&self, word: Word) {
        self.buckets.free(word.at(), block_len_of(word));
    }

    /// Bytes of blocks that some words lead to: of buckets, and of values.
    fn linked_by(&self, first: u64, codes: &[u8]) -> Result<(u64, u64), Fault> {
        let (mut buckets, mut values) = (0, 0);
        let (codes, _) = codes.as_chunks::<8>();
        for (number, code) in (first..).zip(codes) {
            let word = Word(u64::from_le_bytes(*code));
            let raw = match self.bucket(number, word, None) {
                Ok(raw) => raw,
                Err(Fault::Changed) => continue,
                Err(error) => return Err(error),
            };
            buckets += word.block_len().unwrap_or(rounded(raw.len() as u64));
            for entry in Entries::of(&raw) {
                match entry {
                    Ok(Entry { value, .. }) if value.far != 0 => values += rounded(value.len.into()),
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
            spare(raw);
        }
        Ok((buckets, values))
    }

    /// A handle that this process's parent had is none here: another is opened.
    fn check_here(&self) -> Result<(), Fault> {
        if self.lineage.is_here() { Ok(()) } else { Err(Fault::Changed) }
    }

    fn find_entry<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>, is_plain_told: bool) -> PyResult<Bound<'py, PyAny>> {
        self.check_here()?;
        let coded = key::encode(key)?;
        let number = self.number_of_key(&coded);
        let looked = self.look_from(py, number)?;
        let found = self.told_of(py, number, &coded, &looked, is_plain_told);
        spare(looked.raw);
        found
    }

    fn told_of<'py>(
        &self,
        py: Python<'py>,
        number: u64,
        coded: &[u8],
        looked: &Looked,
        is_plain_told: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = looked.find(coded)?;
        if let Some(Value { kind: PLAIN, far: 0, bytes, .. }) = value
            && is_plain_told
            && !looked.word.is_frozen()
        {
            return Ok(PyBytes::new(py, bytes).into_any());
        }
        let entry = value.map(|value| told(py, &Entry { key: coded, value }));
        let found: FoundTuple<'py> = (number, looked.word.0, entry);
        Ok(found.into_pyobject(py)?.into_any())
    }
}

#[pymethods]
impl Table {
    #[new]
    fn new(pool: &crate::pool::Pool, words: &Region, seed: u64, buckets: &Blocks, values: &Blocks) -> PyResult<Table> {
        let region = words.region.clone();
        let count = region.len() / 8;
        if count == 0 {
            let reason = "it is too short for a table of a dictionary".to_owned();
            return Err(crate::errors::raise(Error::BadUse { region: region.name().to_owned(), reason }));
        }
        Ok(Table {
            pool: pool.pool.clone(),
            count,
            seed,
            buckets: buckets.heaps.clone(),
            values: values.heaps.clone(),
            is_here: region.is_local(),
            node: node_of(&region),
            words: region,
            lineage: Lineage::here(),
            seen: Mutex::default(),
        })
    }

    /// A key's value, where it is bytes in its bucket; else what `find` tells.
    fn get<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.find_entry(py, key, true)
    }

    /// A key's word: its number, its code, and the key's entry, or `None` without one.
    fn find<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.find_entry(py, key, false)
    }

    /// Sets a key's value, or takes the key away with `None`; how many entries its bucket has then, or `None` where there was nothing to do.
    #[pyo3(signature = (key, fresh, may_grow))]
    fn change(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        fresh: Option<ValueTuple<'_>>,
        may_grow: bool,
    ) -> PyResult<Option<u32>> {
        self.check_here()?;
        let coded = key::encode(key)?;
        let number = self.number_of_key(&coded);
        let fresh = fresh.as_ref().map(value_of).transpose()?;
        if !self.is_here {
            return step(py, true, || self.change_there(number, &coded, fresh, may_grow));
        }
        let looked = self.look_from(py, number)?;
        let plan = Plan::new(number, &looked, &coded, fresh)?;
        spare(looked.raw);
        let Some(plan) = plan else { return Ok(None) };
        let len = if plan.writing.count == 0 { 0 } else { plan.writing.block_len() };
        let freed_len = if plan.word.is_none() { 0 } else { block_len_of(plan.word) };
        let is_quick = plan.freed.is_none() && self.buckets.spares_messages(len, freed_len);
        let done = step(py, !is_quick, || self.carry_out(plan, may_grow)?.ok_or(Fault::Changed));
        done.map(Some)
    }

    /// The number of a key's word; the key as bytes.
    fn number_of(&self, coded: &Bound<'_, PyBytes>) -> u64 {
        self.number_of_key(coded.as_bytes())
    }

    /// A word's code.
    fn word(&self, py: Python<'_>, number: u64) -> PyResult<u64> {
        step(py, !self.is_here, || Ok(self.read_word(number)?.0))
    }

    /// The entries of a bucket. **Errors**: `Changed` where it is another's memory by now.
    fn entries<'py>(&self, py: Python<'py>, number: u64, word: u64) -> PyResult<Vec<EntryTuple<'py>>> {
        let raw = step(py, true, || self.bucket(number, Word(word), None))?;
        Entries::of(&raw).map(|entry| Ok(told(py, &entry?))).collect()
    }

    /// Writes a bucket; the code of the word that leads to it.
    fn write(&self, py: Python<'_>, number: u64, tag: u16, entries: Vec<EntryTuple<'_>>, may_grow: bool) -> PyResult<u64> {
        let mut writing = Writing::new();
        for (key, kind, bytes, len, far, checksum) in &entries {
            let value = (*kind, bytes.clone(), *len, *far, *checksum);
            writing.push(&Entry { key: key.as_bytes(), value: value_of(&value)? });
        }
        step(py, true, || {
            let (word, raw) = self.prepare(number, tag, writing, may_grow)?;
            self.buckets.segment(word.at().segment)?.region.put(word.at().offset(), &raw)?;
            Ok(word.0)
        })
    }

    /// Bytes of blocks that the table leads to: of buckets, and of values.
    fn linked(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let mut sum = (0, 0);
        for first in (0..self.count).step_by(LOOK_COUNT as usize) {
            let part = step(py, true, || {
                let mut codes = vec![0; 8 * LOOK_COUNT.min(self.count - first) as usize];
                self.words.get(8 * first, &mut codes)?;
                self.linked_by(first, &codes)
            })?;
            sum = (sum.0 + part.0, sum.1 + part.1);
            py.check_signals()?;
        }
        Ok(sum)
    }
}

/// Bytes of the block that a word leads to, or at least so many that it is none of those that are kept.
fn block_len_of(word: Word) -> u64 {
    word.block_len().unwrap_or(super::blocks::VIEWED_LEN_MIN)
}

/// A value as Python gave it. **Errors**: `LimitReached` for more bytes than an entry can say.
fn value_of<'a>((kind, bytes, len, far, checksum): &'a ValueTuple<'_>) -> PyResult<Value<'a>> {
    let too_long = |_| Error::LimitReached { what: "bytes of a value of a dictionary".to_owned(), limit: u32::MAX.into() };
    let (bytes, len) = if *far == 0 { (bytes.as_bytes(), bytes.as_bytes().len() as u64) } else { (&[] as &[u8], *len) };
    let len = u32::try_from(len).map_err(too_long).map_err(crate::errors::raise)?;
    Ok(Value { kind: *kind, bytes, len, far: *far, checksum: *checksum })
}

fn told<'py>(py: Python<'py>, entry: &Entry<'_>) -> EntryTuple<'py> {
    let Entry { key, value } = entry;
    let (key, bytes) = (PyBytes::new(py, key), PyBytes::new(py, value.bytes));
    (key, value.kind, bytes, value.len.into(), value.far, value.checksum)
}
