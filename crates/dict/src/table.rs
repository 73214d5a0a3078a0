//! A table of words: looks a key up, and changes its entry.
//!
//! A writer makes a new bucket in another block and swaps the word in one step. That is one message if one node has both. A slower writer
//! tries again. A reader checks that it read the bucket of the word. So neither needs a lock, and a writer that is killed leaves the old
//! entry or the new one.

use super::blocks::{Heaps, VIEWED_LEN_MIN, Writers, is_here, node_of};
use super::bucket::{self, Entries, Entry, HEAD_LEN, PLACE, Value, Word, Writing, rounded};
use super::digest::digest;
use super::mark::{Evict, Mark};
use super::plan::{Looked, Plan, SPARE, spare};
use super::root::Root;
use super::times::about_now_ms;
use super::waiter::{Here, Waiter, step};
use super::{BRIEF_LEN, Fault};
use hanare::{Element, Error, Modify, NodeId, Operator, Pool, Region, Rights, Strided};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Words of another host's table that a program remembers: some 20 bytes each.
const SEEN_COUNT: usize = 1 << 13;

/// Most buckets of another host's table that a program remembers for its next write, and most bytes of each.
const RECENT_COUNT: u64 = 64;
const RECENT_LEN: usize = 4096;

/// Time that such a bucket is good for a write that does not read it first. A swap that succeeds proves that the word never changed, or
/// 32,768 times. A change takes a writer of the word's own host a microsecond. So that number of changes takes ten times as long as this.
const RECENT: Duration = Duration::from_millis(2);

/// Words that are read at once in a look at a whole table.
const LOOK_COUNT: u64 = 1 << 10;

/// Words in a sample of a table, and the percentage of them in use from which it is crowded. That is two keys to a word.
const SAMPLE_COUNT: u64 = 64;
const CROWDED: u64 = 85;

/// The operation that freezes words, with [`Word::FROZEN`].
pub const FREEZE: Modify = Modify { operator: Operator::Or, element: Element::U64 };

/// The program's view of another host's table.
#[derive(Default)]
struct Seen {
    words: HashMap<u64, Word>,
    /// Buckets by the last digits of their numbers.
    recent: HashMap<u64, (u64, Looked, Instant)>,
}

/// A table of words, and the heaps that they lead to.
pub struct Table {
    pub root: Root,
    pub(super) pool: Pool,
    pub(super) words: Region,
    pub count: u64,
    seed: u64,
    /// The rule of a store, whose words have marks behind them.
    pub(super) evict: Option<Evict>,
    pub buckets: Arc<Heaps>,
    /// A store has one row of heaps for both.
    pub values: Arc<Heaps>,
    /// The users that may have written the dictionary's root and the words.
    writers: Writers,
    pub(super) is_here: bool,
    /// The node that has all words, if there is one.
    node: Option<NodeId>,
    seen: Mutex<Seen>,
}

impl Table {
    /// **Errors**: [`Error::BadUse`] for a region without a word.
    pub fn new(
        pool: &Pool,
        root: Root,
        words: Region,
        (seed, evict): (u64, Option<Evict>),
        heaps: (Arc<Heaps>, Arc<Heaps>),
        writers: Writers,
    ) -> hanare::Result<Table> {
        let count = words.len() / word_len(evict);
        if count == 0 {
            let reason = "it is too short for a table of a dictionary".to_owned();
            return Err(Error::BadUse { region: words.name().to_owned(), reason });
        }
        Ok(Table {
            root,
            pool: pool.clone(),
            count,
            seed,
            evict,
            buckets: heaps.0,
            values: heaps.1,
            writers: writers.and(Writers::of(pool, &words)),
            is_here: is_here(&words),
            node: node_of(&words),
            words,
            seen: Mutex::default(),
        })
    }

    /// The number of a key's word.
    pub fn number_of(&self, coded: &[u8]) -> u64 {
        digest(self.seed, coded) % self.count
    }

    /// The users that may have written its regions, as far as they are open.
    pub fn writers(&self) -> Writers {
        self.writers.and(self.buckets.writers()).and(self.values.writers())
    }

    /// True if one node has all words.
    pub(super) fn is_at_one_node(&self) -> bool {
        self.node.is_some()
    }

    /// Offset of a word.
    pub(super) fn offset(&self, number: u64) -> u64 {
        word_len(self.evict) * number
    }

    /// A word as it is at this moment.
    pub fn word(&self, number: u64) -> Result<Word, Fault> {
        Ok(self.marked_word(number)?.0)
    }

    /// A word and its mark.
    fn marked_word(&self, number: u64) -> Result<(Word, Mark), Fault> {
        let mut code = [0; 16];
        let len = word_len(self.evict) as usize;
        self.words.get(self.offset(number), &mut code[..len])?;
        Ok(marked(&code))
    }

    /// The bytes of a bucket, of which `raw` was read. **Errors**: [`Fault::Changed`] where the memory has another use by now.
    pub fn bucket(&self, number: u64, word: Word, raw: Option<Vec<u8>>) -> Result<Vec<u8>, Fault> {
        if word.is_none() {
            return Ok(Vec::new());
        }
        let mut raw = match raw {
            Some(raw) => raw,
            None => {
                let mut raw = SPARE.take();
                self.buckets.read(&Here, word.at(), word.block_len().unwrap_or(HEAD_LEN as u64), &mut raw)?;
                raw
            }
        };
        let len = bucket::whole_len(&raw, number, word)?;
        if len > raw.len() {
            self.buckets.read(&Here, word.at(), len as u64, &mut raw)?;
            if bucket::whole_len(&raw, number, word)? != len {
                return Err(Fault::Changed);
            }
        }
        raw.truncate(len);
        bucket::check(&raw)?;
        Ok(raw)
    }

    /// A word and its bucket.
    pub fn look_from<W: Waiter>(&self, waiter: &W, number: u64) -> Result<Looked, Fault> {
        if !self.is_here {
            return waiter.wait(|| self.look(number));
        }
        let (word, mark) = self.marked_word(number)?;
        let is_short = word.block_len().is_some_and(|len| len <= BRIEF_LEN as u64);
        let may_last = || !(word.is_none() || is_short && self.buckets.is_here(word.at()));
        step(waiter, may_last, || Ok(Looked { word, mark, raw: self.bucket(number, word, None)? }))
    }

    /// A word and its bucket. One message if the word is the one that this program saw last, else two.
    ///
    /// A remembered word may have any age: a bucket counts only if the word that was read with it leads there. One node reads both, the
    /// word first. A bucket read before its word could be that of 32,768 changes ago, whose tag is the same.
    fn look(&self, number: u64) -> Result<Looked, Fault> {
        let begun = Instant::now();
        let seen = self.seen().words.get(&number).copied();
        let again = seen.and_then(|seen| {
            self.look_again(number, seen).ok().map(|(found, raw)| (found, Some(raw).filter(|_| found.0 == seen)))
        });
        let ((word, mark), raw) = match again {
            Some(found) => found,
            None => (self.marked_word(number)?, None),
        };
        let looked = Looked { word, mark, raw: self.bucket(number, word, raw)? };
        self.note(number, looked.clone(), Some(begun));
        Ok(looked)
    }

    /// Reads a word, and the bytes where it led when it was last seen. **Errors**: those of a batch.
    fn look_again(&self, number: u64, seen: Word) -> Result<((Word, Mark), Vec<u8>), Fault> {
        let segment = self.buckets.segment(seen.at().segment)?;
        let (mut code, mut raw) = ([0; 16], vec![0; seen.block_len().unwrap_or(0) as usize]);
        self.pool.batch(|batch| {
            batch.get(&self.words, self.offset(number), &mut code[..word_len(self.evict) as usize])?;
            batch.get(&segment.region, seen.at().offset(), &mut raw)
        })?;
        Ok((marked(&code), raw))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a word of another host and its bucket as of `begun`, where that spares a message.
    pub(super) fn note(&self, number: u64, looked: Looked, begun: Option<Instant>) {
        let Some(begun) = begun else { return };
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

    /// Takes the remembered bucket, once, with the deadline for a write that uses it.
    fn take_recent(&self, number: u64) -> Option<(Looked, Instant)> {
        let (its, looked, begun) = self.seen().recent.remove(&(number % RECENT_COUNT))?;
        (its == number).then(|| (looked, begun + RECENT))
    }

    /// Sets a key's value, or removes the key. Returns its bucket's number of entries; `None` where there was nothing to do.
    pub fn change<W: Waiter>(
        &self,
        waiter: &W,
        coded: &[u8],
        fresh: Option<Value<'_>>,
        may_grow: bool,
    ) -> Result<Option<u32>, Fault> {
        let number = self.number_of(coded);
        if !self.is_here {
            return waiter.wait(|| self.change_there(number, coded, fresh, may_grow));
        }
        let looked = self.look_from(waiter, number)?;
        let plan = Plan::of_key(number, &looked, coded, fresh)?;
        spare(looked.raw);
        let Some(plan) = plan else { return Ok(None) };
        self.carry_out_from(waiter, plan, may_grow)?.map(Some).ok_or(Fault::Changed)
    }

    /// Carries a plan out, by the waiter where that may last.
    pub(super) fn carry_out_from<W: Waiter>(&self, waiter: &W, plan: Plan, may_grow: bool) -> Result<Option<u32>, Fault> {
        let len = plan.bucket_len();
        let freed_len = if plan.word.is_none() { 0 } else { block_len_of(plan.word) };
        let is_quick = self.is_here && plan.freed.is_empty();
        let may_last = || !is_quick || !self.buckets.spares_messages(len, freed_len);
        step(waiter, may_last, || self.carry_out(plan, may_grow))
    }

    /// [`Table::change`] of another host's table.
    fn change_there(&self, number: u64, coded: &[u8], fresh: Option<Value<'_>>, may_grow: bool) -> Result<Option<u32>, Fault> {
        if let Some((recent, until)) = self.take_recent(number)
            && Instant::now() < until
            && let Some(plan) = Plan::of_key(number, &recent, coded, fresh)?
            && let Some(count) = self.carry_out(Plan { until: Some(until), ..plan }, may_grow)?
        {
            return Ok(Some(count));
        }
        match Plan::of_key(number, &self.look(number)?, coded, fresh)? {
            Some(plan) => self.carry_out(plan, may_grow)?.map(Some).ok_or(Fault::Changed),
            None => Ok(None),
        }
    }

    /// Puts a bucket in another's place. Returns its number of entries; `None` where another program was faster, or the deadline has
    /// passed.
    fn carry_out(&self, plan: Plan, may_grow: bool) -> Result<Option<u32>, Fault> {
        let Plan { number, word, writing, freed, until, mark } = plan;
        let count = writing.count;
        let (fresh, raw) = match count {
            0 => (Word::to_none(word.next_tag()), Vec::new()),
            _ => self.prepare(number, word.next_tag(), writing, may_grow)?,
        };
        // To take a block may have lasted. Words of this host are not remembered.
        let begun = if self.is_here { None } else { Some(Instant::now()) };
        let is_first = match until.zip(begun) {
            Some((until, begun)) if begun >= until => false,
            _ if count == 0 => self.swap(number, word, fresh)?,
            _ => self.put_and_swap(number, (word, fresh), &raw, mark)?,
        };
        if !is_first {
            self.free_bucket(fresh);
            return Ok(None);
        }
        self.note(number, Looked { word: fresh, mark: mark.unwrap_or_default(), raw }, begun);
        self.free_bucket(word);
        freed.into_iter().for_each(|(at, len)| self.values.free(at, len));
        Ok(Some(count))
    }

    /// Takes a block for a bucket. Returns the word that will lead to it, and its bytes.
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

    /// Writes a bucket, and swaps the word to it if that is still the old one. One message does both where one node has both. A reader may
    /// then find the word before the bucket; the bucket's checksum shows it.
    ///
    /// A slower writer sets the mark, too, where one message does all. Marks are hints, and its use of the word is as young.
    fn put_and_swap(&self, number: u64, (old, fresh): (Word, Word), raw: &[u8], mark: Option<Mark>) -> Result<bool, Fault> {
        let segment = self.buckets.segment(fresh.at().segment)?;
        let offset = fresh.at().offset();
        if !self.is_here && self.node.is_some() && segment.node == self.node {
            let (mut before, word) = ([0; 8], Strided::contiguous(self.offset(number), 8));
            let (expected, new) = (old.0.to_le_bytes(), fresh.0.to_le_bytes());
            let mark = mark.map(|mark| mark.0.to_le_bytes());
            let done = self.pool.batch(|batch| {
                batch.put(&segment.region, offset, raw)?;
                if let Some(mark) = &mark {
                    batch.put(&self.words, self.offset(number) + 8, mark)?;
                }
                batch.compare_and_swap(&self.words, word, Element::U64, &expected, &new, &mut before)
            });
            return match done {
                // The node did nothing. The next look asks for the grants of today.
                Err(Error::GrantRefused { .. }) => Ok(false),
                other => Ok(other.map(|()| before == expected)?),
            };
        }
        segment.region.put(offset, raw)?;
        let is_first = self.swap(number, old, fresh)?;
        if let Some(mark) = mark.filter(|_| is_first) {
            self.put_mark(number, mark);
        }
        Ok(is_first)
    }

    /// Notes that a key of the word was used, in a store. A program that may only read notes nothing.
    pub(super) fn note_use(&self, number: u64, looked: &Looked) {
        let Some(evict) = self.evict else { return };
        if let Some(mark) = looked.mark.used(evict, about_now_ms(), self.is_here) {
            self.put_mark(number, mark);
        }
    }

    /// Sets a word's mark. A mark is a hint: where it cannot be set, the next call says why.
    pub(super) fn put_mark(&self, number: u64, mark: Mark) {
        if self.words.rights() == Rights::Write {
            let _ = self.words.put(self.offset(number) + 8, &mark.0.to_le_bytes());
        }
    }

    /// Some words and their marks, by one message to each node.
    pub(super) fn words_of(&self, numbers: &[u64]) -> Result<Vec<(Word, Mark)>, Fault> {
        let mut codes = vec![[0; 16]; numbers.len()];
        let len = word_len(self.evict) as usize;
        self.pool.batch(|batch| {
            let each = numbers.iter().zip(&mut codes);
            each.into_iter().try_for_each(|(number, code)| batch.get(&self.words, self.offset(*number), &mut code[..len]))
        })?;
        Ok(codes.iter().map(|code| marked(code)).collect())
    }

    fn swap(&self, number: u64, old: Word, fresh: Word) -> Result<bool, Fault> {
        Ok(self.words.compare_and_swap_word(self.offset(number), old.0, fresh.0)? == old.0)
    }

    /// Gives back the block that no word leads to any more.
    pub(super) fn free_bucket(&self, word: Word) {
        self.buckets.free(word.at(), block_len_of(word));
    }

    /// True if the word is unchanged. An atomic step, which all programs see after this program's earlier steps.
    pub fn is_still(&self, number: u64, word: Word) -> Result<bool, Fault> {
        self.swap(number, word, word)
    }

    /// Writes a bucket that no other program knows. Returns the word that will lead to it.
    pub fn write(&self, number: u64, writing: Writing) -> Result<Word, Fault> {
        let (word, raw) = self.prepare(number, 0, writing, true)?;
        self.buckets.segment(word.at().segment)?.region.put(word.at().offset(), &raw)?;
        Ok(word)
    }

    /// Some words, as each is at a moment.
    pub(super) fn some(&self, first: u64, count: u64) -> hanare::Result<Vec<Word>> {
        Ok(self.some_marked(first, count)?.into_iter().map(|(word, _)| word).collect())
    }

    /// Some words and their marks.
    pub(super) fn some_marked(&self, first: u64, count: u64) -> hanare::Result<Vec<(Word, Mark)>> {
        let len = word_len(self.evict);
        let mut codes = vec![0; (len * count) as usize];
        self.words.get(self.offset(first), &mut codes)?;
        Ok(codes.chunks_exact(len as usize).map(marked).collect())
    }

    /// All words.
    pub fn words(&self) -> hanare::Result<Vec<Word>> {
        self.some(0, self.count)
    }

    /// Sets all words, and their marks, of a table that no other program knows.
    pub fn fill(&self, words: &[(Word, Mark)]) -> hanare::Result<()> {
        let len = word_len(self.evict) as usize;
        let mut codes = vec![0; len * words.len()];
        for (code, (word, mark)) in codes.chunks_exact_mut(len).zip(words) {
            code[..8].copy_from_slice(&word.0.to_le_bytes());
            code[8..].copy_from_slice(&mark.0.to_le_bytes()[..len - 8]);
        }
        self.words.put(0, &codes)
    }

    /// Freezes all words, so that later swaps fail. Returns the words, which do not change any more, and their marks.
    pub fn freeze(&self) -> hanare::Result<Vec<(Word, Mark)>> {
        self.words.update(self.all(), FREEZE, &Word::FROZEN.to_le_bytes())?;
        self.some_marked(0, self.count)
    }

    /// Takes [`Table::freeze`] back.
    pub fn thaw(&self) -> hanare::Result<()> {
        let modify = Modify { operator: Operator::And, element: Element::U64 };
        self.words.update(self.all(), modify, &(!Word::FROZEN).to_le_bytes())
    }

    fn all(&self) -> Strided {
        Strided { offset: 0, block: 8, count: self.count, stride: word_len(self.evict) }
    }

    /// True if there are about two keys or more to a word, by a sample of words that `chance` chooses.
    pub fn is_crowded(&self, chance: u64) -> hanare::Result<bool> {
        let count = SAMPLE_COUNT.min(self.count);
        let words = self.some(chance % (self.count - count + 1), count)?;
        Ok(100 * words.iter().filter(|word| word.0 & PLACE != 0).count() as u64 >= CROWDED * count)
    }

    /// Bytes of blocks that the table leads to: of buckets, and of values. `None` where the waiter ended it.
    pub fn linked<W: Waiter>(&self, waiter: &W) -> Result<Option<(u64, u64)>, Fault> {
        let mut sum = (0, 0);
        for first in (0..self.count).step_by(LOOK_COUNT as usize) {
            let words = self.some(first, LOOK_COUNT.min(self.count - first))?;
            let part = self.linked_by(first, &words)?;
            sum = (sum.0 + part.0, sum.1 + part.1);
            if !waiter.goes_on() {
                return Ok(None);
            }
        }
        Ok(Some(sum))
    }

    /// Bytes of blocks that some words lead to: of buckets, and of values.
    fn linked_by(&self, first: u64, words: &[Word]) -> Result<(u64, u64), Fault> {
        let (mut buckets, mut values) = (0, 0);
        for (number, word) in (first..).zip(words.iter().copied()) {
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
}

/// Bytes of the block that a word leads to. For a block of unknown length, enough that it is not kept as a spare.
fn block_len_of(word: Word) -> u64 {
    word.block_len().unwrap_or(VIEWED_LEN_MIN)
}

/// Bytes of a word, and of its mark in a store.
pub(super) fn word_len(evict: Option<Evict>) -> u64 {
    if evict.is_some() { 16 } else { 8 }
}

/// A word, and its mark if there is one behind it.
fn marked(code: &[u8]) -> (Word, Mark) {
    let number = |at: usize| code.get(at..).and_then(|code| code.first_chunk()).map_or(0, |code| u64::from_le_bytes(*code));
    (Word(number(0)), Mark(number(8)))
}
