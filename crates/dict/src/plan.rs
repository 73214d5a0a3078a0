//! A bucket as it was read, and the one that is to take its place.

use super::bucket::{At, Entries, Entry, Value, Word, Writing, rounded};
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
    /// The value that is linked no more, and its bytes.
    pub freed: Option<(At, u64)>,
    /// Deadline for taking that place, where the other bucket was not read again for this plan.
    pub until: Option<Instant>,
}

impl Plan {
    /// The bucket with one entry set, or without it. `None` where there is nothing to do. **Errors**: [`Fault::Frozen`].
    pub fn new(number: u64, looked: &Looked, coded: &[u8], fresh: Option<Value<'_>>) -> Result<Option<Plan>, Fault> {
        if looked.word.is_frozen() {
            return Err(Fault::Frozen);
        }
        let mut plan = Plan { number, word: looked.word, writing: Writing::new(), freed: None, until: None };
        let mut was_there = false;
        for entry in Entries::of(&looked.raw) {
            let entry = entry?;
            if entry.key != coded {
                plan.writing.push(&entry);
                continue;
            }
            was_there = true;
            if entry.value.far != 0 {
                plan.freed = Some((At::of_far(entry.value.far), rounded(entry.value.len.into())));
            }
        }
        match fresh {
            Some(value) => plan.writing.push(&Entry { key: coded, value }),
            None if !was_there => return Ok(None),
            None => {}
        }
        Ok(Some(plan))
    }
}
