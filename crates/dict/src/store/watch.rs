//! Waiting for a change of a key's value.
//!
//! A watch reads the key's word and its value, then waits until the word is another one. The value decides, because keys share words.
//! Nothing is missed: a change between the read and the wait has changed the word. An end by time changes no word, so the wait ends then.

use super::Store;
use crate::Fault;
use crate::bucket::{Value, Word};
use crate::digest::Digest;
use crate::key::Key;
use crate::table::Table;
use crate::times::now_ms;
use crate::waiter::Here;
use hanare::{Error, Result, Wait};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait before a look whether the store is still there: no change of a word tells of its removal.
const LOOK: Duration = Duration::from_secs(2);
/// Longest wait while a sweep copies the table, whose words do not change any more.
const SWEPT_LOOK: Duration = Duration::from_millis(20);

/// A key's value as it was at a moment. Two different values of a key have different stamps, but for one chance in 2^63; one in 2^32 for
/// values with a block of their own, if the same block was taken again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The stamp of a key that is not there.
    pub const ABSENT: Stamp = Stamp(0);

    fn of(value: Option<Value<'_>>) -> Stamp {
        let Some(Value { kind, bytes, len, far, checksum, .. }) = value else { return Stamp::ABSENT };
        let mut digest = Digest::new(u64::from(checksum) << 8 | u64::from(kind));
        digest.update(&far.to_le_bytes());
        digest.update(&len.to_le_bytes());
        digest.update(bytes);
        Stamp(digest.finish().max(1))
    }
}

/// A key's word and value as a watch found them.
struct WatchedKey {
    number: u64,
    word: Word,
    stamp: Stamp,
    /// Time until the value ends.
    ends: Option<Duration>,
}

impl Store {
    /// The stamp of a key's value. Not a use. **Cost**: as for a get of a short value.
    pub fn stamp(&self, key: &Key<'_>) -> Result<Stamp> {
        Ok(self.see(key)?.1.stamp)
    }

    /// Waits until a key's value is another than at `since`: it was put, removed, evicted, or has ended. Returns its stamp then; `None` after
    /// the deadline. Not a use.
    ///
    /// Take the stamp, then read the value, then watch: no change is missed. A value that changes and changes back before this call looks is
    /// not seen. A put of the same bytes, or a sweep, may end the call.
    ///
    /// **Cost**: on this host a look at the word, with pauses of 1 ms at most. Elsewhere a message each way, and one or two for a look at the
    /// value. As much again each 2 s, and for each change of another key of the same word. Each 2 s a look whether the store is still there:
    /// a message to the coordinator. **Errors**: [`Error::UnknownRegion`] where the store was removed; [`Error::NodeLost`];
    /// [`Error::LimitReached`] where too many wait for words of one node.
    pub fn watch(&self, key: &Key<'_>, since: Stamp, deadline: Option<Duration>) -> Result<Option<Stamp>> {
        self.watch_while(key, since, deadline, || true)
    }

    /// [`Store::watch`] that also ends where `is_wanted`, asked every 2 s, says so.
    pub fn watch_while(
        &self,
        key: &Key<'_>,
        since: Stamp,
        deadline: Option<Duration>,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Stamp>> {
        let begun = Instant::now();
        let mut looked = begun;
        loop {
            let (table, WatchedKey { number, word, stamp, ends }) = self.see(key)?;
            if stamp != since {
                return Ok(Some(stamp));
            }
            let left = deadline.map(|deadline| deadline.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) || !is_wanted() {
                return Ok(None);
            }
            let look = if word.is_frozen() { SWEPT_LOOK } else { LOOK };
            let wait = left.into_iter().chain(ends).fold(look, Duration::min).max(Duration::from_millis(1));
            match table.words.wait_until(table.offset(number), Wait::NotEqual(hanare::Word::U64(word.0)), Some(wait)) {
                Ok(_) | Err(Error::NotInTime { .. }) => {}
                Err(error) => self.dict.unless_moved(&table, error)?,
            }
            if looked.elapsed() >= LOOK {
                match self.dict.check_there() {
                    // Names are away for a while; the store's bytes are there.
                    Err(Error::NoCoordinator { .. }) | Ok(()) => looked = Instant::now(),
                    Err(error) => return Err(error),
                }
            }
        }
    }

    fn see(&self, key: &Key<'_>) -> Result<(Arc<Table>, WatchedKey)> {
        for turn in 0..self.dict.tries {
            let table = self.dict.table()?;
            match self.see_once(&table, key) {
                Ok(seen) => return Ok((table, seen)),
                Err(Fault::Pool(error)) => self.dict.unless_moved(&table, error)?,
                Err(_) => self.dict.give_way(turn)?,
            }
        }
        Err(self.dict.garbage())
    }

    fn see_once(&self, table: &Arc<Table>, key: &Key<'_>) -> std::result::Result<WatchedKey, Fault> {
        let (number, now) = (table.number_of(key.coded()), now_ms());
        let looked = table.look_from(&Here, number)?;
        if looked.word.is_frozen() && self.dict.has_moved(table)? {
            return Err(Fault::Moved);
        }
        let value = looked.find(key.coded())?.filter(|value| !value.times.is_over(now));
        let expires = value.map_or(0, |value| value.times.expires);
        let ends = (expires != 0).then(|| Duration::from_millis(expires.saturating_sub(now)));
        Ok(WatchedKey { number, word: looked.word, stamp: Stamp::of(value), ends })
    }
}
