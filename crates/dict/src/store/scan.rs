//! All keys of a store, from any point on.

use super::Store;
use crate::Fault;
use crate::bucket::Entries;
use crate::table::Table;
use crate::times::now_ms;
use hanare::Result;
use std::sync::Arc;

/// Words that one step looks at.
const LOOK: u64 = 256;

impl Store {
    /// Keys from a point on, as the store has them ([`Key::from_coded`](crate::Key::from_coded)), and the next point; 0 at the end.
    ///
    /// A scan begins with point 0, and stops where it has `wanted` keys. Each key that is there all the time comes once.
    pub fn scan(&self, from: u64, wanted: usize) -> Result<(u64, Vec<Vec<u8>>)> {
        let (mut at, mut keys, mut turn) = (from, Vec::new(), 0);
        while keys.len() < wanted.max(1) {
            let table = self.dict.table()?;
            if at >= table.count {
                return Ok((0, keys));
            }
            let end = (at + LOOK).min(table.count);
            match self.scan_once(&table, at..end, &mut keys) {
                Ok(()) => (at, turn) = (end, 0),
                Err(_) if turn >= self.dict.tries => return Err(self.dict.busy()),
                Err(Fault::Pool(error)) => self.dict.unless_moved(&table, error)?,
                Err(_) => self.dict.give_way(turn)?,
            }
            turn += 1;
        }
        let is_end = at >= self.dict.table()?.count;
        Ok((if is_end { 0 } else { at }, keys))
    }

    fn scan_once(
        &self,
        table: &Arc<Table>,
        numbers: std::ops::Range<u64>,
        keys: &mut Vec<Vec<u8>>,
    ) -> std::result::Result<(), Fault> {
        let now = now_ms();
        let words = table.some_marked(numbers.start, numbers.end - numbers.start)?;
        if words.iter().any(|(word, _)| word.is_frozen()) && self.dict.has_moved(table)? {
            return Err(Fault::Moved);
        }
        let in_use: Vec<u64> = numbers.zip(&words).filter(|(_, (word, _))| !word.is_none()).map(|(number, _)| number).collect();
        let mut found = Vec::new();
        for (number, looked) in in_use.iter().zip(table.look_many(&in_use)?) {
            let looked = match looked {
                Some(looked) => looked,
                None => table.look_from(&crate::waiter::Here, *number)?,
            };
            for entry in Entries::of(&looked.raw) {
                let entry = entry?;
                if !entry.value.times.is_over(now) {
                    found.push(entry.key.to_vec());
                }
            }
        }
        keys.append(&mut found);
        Ok(())
    }

    /// Number of keys. **Cost**: all buckets are read.
    pub fn len(&self) -> Result<u64> {
        let (mut at, mut count) = (0, 0);
        loop {
            let (next, keys) = self.scan(at, 1 << 12)?;
            count += keys.len() as u64;
            if next == 0 {
                return Ok(count);
            }
            at = next;
        }
    }

    /// True if there is no key.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.scan(0, 1)?.1.is_empty())
    }

    /// Removes all keys that are there.
    pub fn clear(&self) -> Result<()> {
        let mut at = 0;
        loop {
            let (next, keys) = self.scan(at, 1 << 10)?;
            let keys: Vec<_> = keys.iter().map(|key| crate::Key::from_coded(key)).collect();
            self.remove_many(&keys)?;
            if next == 0 {
                return Ok(());
            }
            at = next;
        }
    }
}
