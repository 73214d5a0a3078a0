//! All keys of a dictionary. It has every key that is there all the time, and some of those that come and go meanwhile.

use super::Fault;
use super::bucket::{Entries, Word};
use super::dict::Dict;
use super::table::Table;
use super::waiter::Waiter;
use hanare::Result;
use std::sync::Arc;

/// About the number of keys that are read at once.
const SOME: usize = 256;
/// Most buckets that one step looks at.
const LOOKS: u64 = 1 << 10;

/// Progress of a walk over all keys. Each key comes once, even where the table is made again meanwhile.
#[derive(Default)]
pub struct Walk {
    /// Number of words of the table where the walk began. Keys of one word lie in a later table in words at multiples of this distance.
    step: Option<u64>,
    number: u64,
    /// Number of changes of the table.
    moves: u32,
    /// The table, and its words as last seen.
    table: Option<(Arc<Table>, Vec<Word>)>,
}

impl<W: Waiter> Dict<W> {
    /// The next keys of a walk, as the dictionary has them ([`Key::from_coded`](crate::Key::from_coded)); none at its end.
    pub fn next_keys(&self, walk: &mut Walk) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        while keys.is_empty() && !self.waiter.wait(|| self.look_on(walk, &mut keys))? {
            self.go_on()?;
        }
        Ok(keys)
    }

    /// Goes some buckets on. Returns true at the end.
    fn look_on(&self, walk: &mut Walk, keys: &mut Vec<Vec<u8>>) -> Result<bool> {
        for _ in 0..LOOKS {
            let table = self.table()?;
            let step = *walk.step.get_or_insert(table.count);
            if walk.number >= step {
                return Ok(true);
            }
            match self.some_keys(walk, &table, step) {
                Ok(found) => {
                    keys.extend(found);
                    walk.number += 1;
                }
                Err(Fault::Pool(error)) if walk.moves < self.tries => {
                    walk.moves += 1;
                    self.unless_moved(&table, error)?;
                }
                Err(Fault::Moved) if walk.moves < self.tries => walk.moves += 1,
                Err(fault) => return Err(self.error_of(fault)),
            }
            if keys.len() >= SOME {
                break;
            }
        }
        Ok(false)
    }

    /// The keys of the walk's next buckets at one moment. **Errors**: [`Fault::Moved`] where the dictionary has another table by now.
    fn some_keys(&self, walk: &mut Walk, table: &Arc<Table>, step: u64) -> std::result::Result<Vec<Vec<u8>>, Fault> {
        if walk.table.as_ref().is_none_or(|(known, _)| !Arc::ptr_eq(known, table)) {
            walk.table = Some((table.clone(), table.words()?));
        }
        let Some((_, words)) = &mut walk.table else { return Err(Fault::Moved) };
        let numbers = || (walk.number..table.count).step_by(step as usize);
        for turn in 0..self.tries {
            match keys_of(table, words, numbers()) {
                Ok(keys) => {
                    let is_frozen = numbers().any(|number| words[number as usize].is_frozen());
                    return if is_frozen && self.has_moved(table)? { Err(Fault::Moved) } else { Ok(keys) };
                }
                Err(Fault::Changed) => {
                    self.give_way(turn)?;
                    for number in numbers() {
                        words[number as usize] = table.word(number)?;
                    }
                }
                Err(fault) => return Err(fault),
            }
        }
        Err(Fault::Changed)
    }

    /// All keys, as the dictionary has them.
    pub fn keys(&self) -> Keys<'_, W> {
        Keys { dict: self, walk: Walk::default(), ready: Vec::new().into_iter() }
    }

    /// Number of keys. **Cost**: all buckets are read.
    pub fn len(&self) -> Result<usize> {
        let (mut count, mut walk) = (0, Walk::default());
        loop {
            match self.next_keys(&mut walk)?.len() {
                0 => return Ok(count),
                more => count += more,
            }
        }
    }

    /// True if there is no key. **Cost**: buckets are read up to the first that has one.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.next_keys(&mut Walk::default())?.is_empty())
    }
}

fn keys_of(table: &Table, words: &[Word], numbers: impl Iterator<Item = u64>) -> std::result::Result<Vec<Vec<u8>>, Fault> {
    let mut keys = Vec::new();
    for number in numbers {
        let raw = table.bucket(number, words[number as usize], None)?;
        for entry in Entries::of(&raw) {
            keys.push(entry?.key.to_vec());
        }
    }
    Ok(keys)
}

/// All keys of a dictionary; see [`Dict::keys`].
pub struct Keys<'d, W: Waiter> {
    dict: &'d Dict<W>,
    walk: Walk,
    ready: std::vec::IntoIter<Vec<u8>>,
}

impl<W: Waiter> Iterator for Keys<'_, W> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        if self.ready.len() == 0 {
            match self.dict.next_keys(&mut self.walk) {
                Ok(keys) => self.ready = keys.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
        self.ready.next().map(Ok)
    }
}
