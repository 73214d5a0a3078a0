//! Makes a new table. A crowded one becomes larger; if nobody links much of the memory, the new one has new values.
//!
//! ```text
//! lock ── root: begun + 1 ── parts of nobody removed ── table and heaps made ── words frozen ── buckets copied ── words put ── root
//! swapped
//! ```
//!
//! A program that is killed in between leaves the old table, whole, frozen or not. The next one counts `begun` up: whoever began before
//! cannot finish, because its swap of the root word fails.

use super::Fault;
use super::blocks::Heaps;
use super::bucket::{At, Entries, Entry, Value, Word, Writing};
use super::dict::Dict;
use super::mark::Mark;
use super::opening::chance;
use super::root::{ATTRIBUTE, PART, Root};
use super::table::{Table, word_len};
use super::waiter::{Here, Waiter};
use hanare::{Error, LockGuard, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Growth of a crowded table, and its most words.
const GROWTH: u64 = 4;
const BUCKETS_MOST: u64 = 1 << 26;

/// A sweep comes before a further heap where nobody links more than this part of the memory: a quarter.
const SWEPT_PART: u64 = 4;

/// Time between two questions to the waiter, during a wait for the lock.
const LOOK: Duration = Duration::from_millis(100);

/// Buckets that are copied between two such questions.
const COPIES: u64 = 1 << 10;

/// Memory that a dictionary takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DictStat {
    /// Words of the table.
    pub buckets: u64,
    /// Bytes of its heaps.
    pub capacity: u64,
    /// Bytes that keys and values take.
    pub linked: u64,
    /// Bytes that nobody links. Other programs keep them for their next writes, or are about to link or free them, or were killed.
    pub unlinked: u64,
}

impl<W: Waiter> Dict<W> {
    /// Counts the memory that the dictionary takes. This program first gives its spare blocks back.
    pub fn stat(&self) -> Result<DictStat> {
        self.waiter.wait(|| {
            loop {
                let table = self.table()?;
                match self.stat_of(&table) {
                    Ok(stat) if !self.has_moved(&table)? => return Ok(stat),
                    Ok(_) => {}
                    Err(error) => self.unless_moved(&table, error)?,
                }
                self.go_on()?;
            }
        })
    }

    fn stat_of(&self, table: &Table) -> Result<DictStat> {
        let (buckets, values) = self.linked(table)?;
        let linked = buckets + values;
        let (mut taken, mut capacity) = (table.buckets.taken()?, table.buckets.capacity()?);
        if !Arc::ptr_eq(&table.buckets, &table.values) {
            taken += table.values.taken()?;
            capacity += table.values.capacity()?;
        }
        Ok(DictStat { buckets: table.count, capacity, linked, unlinked: taken.saturating_sub(linked) })
    }

    fn linked(&self, table: &Table) -> Result<(u64, u64)> {
        match table.linked(&self.waiter) {
            Ok(Some(linked)) => Ok(linked),
            Ok(None) => Err(self.interrupted()),
            Err(fault) => Err(self.error_of(fault)),
        }
    }

    /// Frees blocks that killed programs took and did not link. Returns the number of bytes that nobody linked.
    ///
    /// A sweep makes table and values again. So it needs as much free memory as the dictionary has, and writers wait for it. Changes sweep
    /// by themselves before they take memory for a further heap, if nobody links a quarter of the memory.
    ///
    /// **Errors**: [`Error::PoolFull`], [`Error::QuotaExceeded`]; the dictionary is then unchanged.
    pub fn sweep(&self) -> Result<u64> {
        let unlinked = self.stat()?.unlinked;
        self.waiter.wait(|| match unlinked {
            // Removes old tables and heaps of a program that was killed after it had made new ones.
            0 => {
                let lock = self.lock()?;
                self.remove_parts(Some(self.root()?))?;
                lock.unlock()
            }
            _ => self.renew(&self.table()?, 1, true),
        })?;
        Ok(unlinked)
    }

    /// Removes the dictionary from the pool. Programs that have it open get errors, or reach memory that no dictionary uses any more.
    pub fn destroy(&self) -> Result<()> {
        self.waiter.wait(|| {
            self.pool.remove(&self.name)?;
            self.remove_parts(None)
        })
    }

    /// Sweeps before a further heap is made, where nobody links much of the present heaps. Returns true if it did.
    pub(crate) fn sweep_if_worth(&self, table: &Arc<Table>, full: &Heaps) -> Result<bool> {
        let (buckets, values) = self.linked(table)?;
        let linked = if std::ptr::eq(full, &*table.buckets) { buckets } else { values };
        if full.taken()?.saturating_sub(linked).saturating_mul(SWEPT_PART) < full.capacity()? {
            return Ok(false);
        }
        Ok(!is_short_of_memory(self.renew(table, 1, true))?)
    }

    /// Makes a crowded table grow. `count` is a bucket's number of entries.
    pub(crate) fn grow_if_crowded(&self, table: &Arc<Table>, count: u32) -> Result<()> {
        let growth = GROWTH.min(BUCKETS_MOST / table.count);
        if count < self.crowd.load(Ordering::Relaxed) || growth < 2 {
            return Ok(());
        }
        self.waiter.wait(|| {
            let is_crowded = match table.is_crowded(chance()) {
                Err(error) => self.unless_moved(table, error).map(|()| false),
                other => other,
            };
            if is_crowded? && is_short_of_memory(self.renew(table, growth, false))? {
                // Longer buckets do for longer.
                self.crowd.fetch_add(count, Ordering::Relaxed);
            }
            Ok(())
        })
    }

    pub(crate) fn renew_unless_moved(&self, table: &Arc<Table>) -> Result<()> {
        if self.has_moved(table)? {
            return Ok(());
        }
        match self.renew(table, 1, false) {
            // A store goes on with the table that is there.
            other if self.terms.store.is_some() => is_short_of_memory(other).map(drop),
            other => other,
        }
    }

    /// Makes a new table, or waits until another program has. **Errors**: among others no memory for it; the dictionary is then unchanged.
    pub(crate) fn renew(&self, table: &Arc<Table>, growth: u64, sweeps: bool) -> Result<()> {
        let lock = self.lock()?;
        let done = match self.has_moved(table)? {
            true => Ok(()),
            false => self.make_anew(table, growth, sweeps),
        };
        match lock.unlock() {
            // Another began meanwhile: the root word was swapped by one of both.
            Ok(()) | Err(Error::LockLost { .. }) => {}
            Err(error) => return Err(error),
        }
        match done {
            // Another began, while this program had lost the lock: the words say when it is done.
            Err(Fault::Moved) => Ok(()),
            other => other.map_err(|fault| self.error_of(fault)),
        }
    }

    fn lock(&self) -> Result<LockGuard> {
        let name = format!("{ATTRIBUTE}.{}", self.root_region.gid().0);
        loop {
            match self.pool.lock_within(&name, LOOK) {
                Err(Error::NotInTime { .. }) => self.go_on()?,
                other => return other,
            }
        }
    }

    fn swap_root(&self, old: Root, new: Root) -> Result<bool> {
        Ok(self.root_region.compare_and_swap_word(0, old.word(), new.word())? == old.word())
    }

    fn make_anew(&self, old: &Arc<Table>, growth: u64, sweeps: bool) -> std::result::Result<(), Fault> {
        let root = self.root()?;
        let number = root.begun + 1;
        if number >> 20 != 0 {
            let what = format!("tables of dictionary '{}', which was made anew so often; copy it to another", self.name);
            return Err(Error::LimitReached { what, limit: 1 << 20 }.into());
        }
        let mine = Root { begun: number, ..root };
        if !self.swap_root(root, mine)? {
            return Err(Fault::Moved);
        }
        // From here on nobody who began before can finish.
        self.remove_parts(Some(root))?;
        let future = Root { table: number, values: if sweeps { number } else { root.values }, begun: number };
        let mut is_frozen = false;
        match self.make_next(old, (mine, future), growth, &mut is_frozen) {
            Ok(fresh) => {
                self.set_now(fresh);
                // The next sweep removes leftovers.
                let _ = self.remove_parts(Some(future));
                Ok(())
            }
            Err(fault) => {
                if self.root()? == mine {
                    let _ = self.remove_parts(Some(root));
                    // A program that was killed may have frozen the words of a store.
                    if is_frozen || self.terms.store.is_some() {
                        old.thaw()?;
                    }
                }
                Err(fault)
            }
        }
    }

    /// Makes the next table and puts it in the old one's place.
    fn make_next(
        &self,
        old: &Arc<Table>,
        (mine, future): (Root, Root),
        growth: u64,
        is_frozen: &mut bool,
    ) -> std::result::Result<Arc<Table>, Fault> {
        let fresh = self.make_table(future, old, old.count * growth)?;
        *is_frozen = true;
        let words = old.freeze()?;
        self.copy(old, &words, &fresh)?;
        if self.swap_root(mine, future)? { Ok(Arc::new(fresh)) } else { Err(Fault::Moved) }
    }

    fn make_table(&self, root: Root, old: &Table, count: u64) -> Result<Table> {
        let opening = self.opening();
        let name = format!("{}.t{}", self.name, root.table);
        let len = word_len(old.evict) * count;
        let words = opening.options().make_where_nodes_live(|options| self.pool.create(&name, len, options))?;
        if self.terms.store.is_some() {
            let heaps = Arc::new(opening.buckets(root, self.terms.memory));
            heaps.make_all()?;
            return Table::new(&self.pool, root, words, (self.terms.seed, old.evict), (heaps.clone(), heaps), opening.writers());
        }
        // A single heap has room for all: nothing is short of memory once the words are frozen.
        let memory = self.terms.memory;
        let buckets = opening.buckets(root, memory.max(2 * old.buckets.taken()? + 4096));
        let values = match root.values == old.root.values {
            true => old.values.clone(),
            false => Arc::new(opening.values(root, memory.max(old.values.capacity()?))),
        };
        Table::new(&self.pool, root, words, (self.terms.seed, None), (Arc::new(buckets), values), opening.writers())
    }

    /// Copies the entries of all buckets to their buckets in the next table. Copies values, too, if the next table has heaps of its own.
    fn copy(&self, old: &Table, words: &[(Word, Mark)], fresh: &Table) -> std::result::Result<(), Fault> {
        let mut table = vec![(Word(0), Mark::default()); fresh.count as usize];
        for (number, (word, mark)) in (0..).zip(words.iter().copied()) {
            if number % COPIES == 0 {
                self.go_on()?;
            }
            if word.is_none() {
                continue;
            }
            match self.copy_bucket(old, (number, word), mark, fresh, &mut table) {
                // The pieces that a store's heaps leave at their ends differ: the keys of a word leave.
                Err(Fault::Full) if self.terms.store.is_some() => {}
                other => other?,
            }
        }
        Ok(fresh.fill(&table)?)
    }

    fn copy_bucket(
        &self,
        old: &Table,
        (number, word): (u64, Word),
        mark: Mark,
        fresh: &Table,
        table: &mut [(Word, Mark)],
    ) -> std::result::Result<(), Fault> {
        // Frozen words never change, so senseless bytes stay senseless.
        let raw = old.bucket(number, word, None)?;
        let mut found: BTreeMap<u64, Writing> = BTreeMap::new();
        for entry in Entries::of(&raw) {
            let Entry { key, value } = entry?;
            let value = self.moved(value, old, fresh)?;
            found.entry(fresh.number_of(key)).or_insert_with(Writing::new).push(&Entry { key, value });
        }
        for (number, writing) in found {
            table[number as usize] = (fresh.write(number, writing)?, mark);
        }
        Ok(())
    }

    fn moved<'v>(&self, value: Value<'v>, old: &Table, fresh: &Table) -> std::result::Result<Value<'v>, Fault> {
        if value.far == 0 || Arc::ptr_eq(&old.values, &fresh.values) {
            return Ok(value);
        }
        let mut bytes = Vec::new();
        old.values.read(&Here, At::of_far(value.far), value.len.into(), &mut bytes)?;
        Ok(Value { far: fresh.values.write(&Here, &[&bytes], true)?.far(), ..value })
    }

    /// Removes all tables and heaps but those of that root.
    fn remove_parts(&self, kept: Option<Root>) -> Result<()> {
        let part = self.opening().part();
        let kept = kept.map(|root| [format!("t{}", root.table), format!("v{}", root.values)]);
        for region in self.pool.list()? {
            let Some(named) = self.part_of(&region.name) else { continue };
            let is_kept = kept.as_ref().is_some_and(|kept| kept.iter().any(|each| each == named));
            let is_ours = region.attributes.get(PART) == Some(part.as_bytes()) && self.pool.trust().includes(region.owner);
            if is_kept || !is_ours {
                continue;
            }
            match self.pool.remove(&region.name) {
                // Another user that is trusted made it: that user's programs remove it.
                Ok(()) | Err(Error::UnknownRegion { .. } | Error::NoPermission { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The table or heaps that a region of that name belongs to: `t7` of `NAME.t7` and `NAME.t7.0`.
    fn part_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        let rest = name.strip_prefix(&self.name)?.strip_prefix('.')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        let (named, segment) = rest.split_once('.').map_or((rest, "0"), |both| both);
        let number = named.strip_prefix(['t', 'v'])?;
        (is_number(number) && is_number(segment)).then_some(named)
    }
}

/// True if a step failed for want of memory, or because a name was taken.
fn is_short_of_memory(done: Result<()>) -> Result<bool> {
    match done {
        Ok(()) => Ok(false),
        Err(Error::PoolFull { .. } | Error::QuotaExceeded { .. } | Error::LimitReached { .. } | Error::NameTaken { .. }) => {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}
