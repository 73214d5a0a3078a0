//! A bucket as it was read, and the one that is to take its place.

use super::bucket::{At, Entries, Entry, Value, Word, Writing, rounded};
use super::mark::Mark;
use super::{BRIEF_LEN, Fault};
use std::cell::Cell;
use std::time::Instant;

/// Keeps a buffer for the next bucket that this thread reads.
pub fn spare(raw: Vec<u8>) {
    if raw.capacity() <= BRIEF_LEN {
        SPARE.set(raw);
    }
}

thread_local! {
    /// A buffer of this thread for the next bucket that it reads. The C library is slow for buffers of this length.
    pub static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A word, and the checked bytes of its bucket; no bytes where it leads to none.
#[derive(Clone)]
pub struct Looked {
    pub word: Word,
    /// The word's mark, in a store.
    pub mark: Mark,
    pub raw: Vec<u8>,
}

impl Looked {
    pub fn find(&self, coded: &[u8]) -> Result<Option<Value<'_>>, Fault> {
        for entry in Entries::of(&self.raw) {
            let entry = entry?;
            if entry.key == coded {
                return Ok(Some(entry.value));
            }
        }
        Ok(None)
    }
}

/// A bucket that takes another's place.
pub struct Plan {
    pub number: u64,
    pub word: Word,
    pub writing: Writing,
    /// The values that are linked no more, and their bytes.
    pub freed: Vec<(At, u64)>,
    /// Deadline for taking that place, where the other bucket was not read again for this plan.
    pub until: Option<Instant>,
    /// The word's mark from then on, in a store.
    pub mark: Option<Mark>,
}

impl Plan {
    /// The bucket without the entries that leave, and with fresh ones. `None` where there is nothing to do. **Errors**: [`Fault::Frozen`].
    pub fn new(
        number: u64,
        looked: &Looked,
        leaves: impl Fn(&Entry<'_>) -> bool,
        fresh: &[Entry<'_>],
    ) -> Result<Option<Plan>, Fault> {
        if looked.word.is_frozen() {
            return Err(Fault::Frozen);
        }
        let writing = Writing::with_room(looked.raw.len() + fresh.iter().map(Entry::len_max).sum::<usize>());
        let mut plan = Plan { number, word: looked.word, writing, freed: Vec::new(), until: None, mark: None };
        let mut any_left = false;
        let is_linked = |far| fresh.iter().any(|fresh| fresh.value.far == far);
        for entry in Entries::of(&looked.raw) {
            let entry = entry?;
            if !leaves(&entry) {
                plan.writing.push(&entry);
                continue;
            }
            any_left = true;
            if entry.value.far != 0 && !is_linked(entry.value.far) {
                plan.freed.push((At::of_far(entry.value.far), rounded(entry.value.len.into())));
            }
        }
        fresh.iter().for_each(|fresh| plan.writing.push(fresh));
        Ok((any_left || !fresh.is_empty()).then_some(plan))
    }

    /// Bytes of its bucket's block; 0 without entries.
    pub fn bucket_len(&self) -> u64 {
        if self.writing.count == 0 { 0 } else { self.writing.block_len() }
    }

    /// The bucket with a key's value set, or without the key.
    pub fn of_key(number: u64, looked: &Looked, coded: &[u8], fresh: Option<Value<'_>>) -> Result<Option<Plan>, Fault> {
        let fresh = fresh.map(|value| Entry { key: coded, value });
        Plan::new(number, looked, |entry| entry.key == coded, fresh.as_slice())
    }
}
