//! Waiting for a word of a region, and locks that are words.

use super::locks::{ended, milliseconds, patience};
use super::region::{Region, Way};
use crate::client::cut::plan::parts;
use hanare_memory::vector;
use hanare_protocol::error::Happened;
use hanare_protocol::id::ClientId;
use hanare_protocol::limits::{DEATH_LOOK_MS, SPIN_YIELD_US, WORD_LOOK_MS};
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest, Wait, Word};
use hanare_protocol::{Error, Result};
use hanare_ring::wait::{Backoff, Step};
use std::time::{Duration, Instant};

/// How often a rank that waits for a word looks how the others of its job are.
const DEATH_LOOK: Duration = Duration::from_millis(DEATH_LOOK_MS);

/// What a look at a word brought.
enum WordLook {
    Here(u64),
    /// Its extent, and its place there.
    Elsewhere(usize, u64),
}

/// How watching a word ended.
enum WatchEnd {
    Met(u64),
    Late,
    /// It may be reached here no more.
    Moved,
}

impl Region {
    /// Waits until the word at `offset`, a multiple of its length, is as wanted; returns the word that was seen. `bound` is
    /// in whole milliseconds, `None` for ever.
    ///
    /// A word that changes and changes back while nobody looks is not seen: wait for one that stays, as a count that grows.
    /// On memory that is mapped here nothing but the word is looked at: without a bound, a region that was removed or lost is
    /// waited for as any. A rank of a job hears that another has died, which may have been to change the word.
    ///
    /// **Ordering**: what was written before the word is seen by this thread afterwards.
    /// **Cost**: on memory that is mapped here, loads: a pause apart, then a yield, then a sleep that grows to a millisecond.
    /// Else one message each way; the word's node looks after each command of a client, and every millisecond.
    /// **Errors**: [`Error::NotInTime`]; [`Error::OutOfRange`]; [`Error::BadElement`] at an odd offset;
    /// [`Error::UnknownRegion`] when the region is removed meanwhile, where it is not mapped; [`Error::NodeLost`];
    /// [`Error::RankGone`] where the wait lasts and a rank of this program's job has died: it failed, or ended without detaching.
    pub fn wait_until(&self, offset: u64, until: Wait, bound: Option<Duration>) -> Result<u64> {
        self.check_place(offset, until.word())?;
        let begun = Instant::now();
        let left = || bound.map(|bound| bound.saturating_sub(begun.elapsed()));
        let late =
            |after_ms| Error::NotInTime { what: format!("the word at offset {offset} of region '{}'", self.name()), after_ms };
        let mut is_fresh = false;
        loop {
            let (extent, at) = match self.look(offset, until.word())? {
                WordLook::Elsewhere(extent, at) => (extent, at),
                WordLook::Here(_) => match crate::trace::slice("wait for a word", || self.watch(offset, until, left))? {
                    WatchEnd::Met(seen) => return Ok(seen),
                    WatchEnd::Late => return Err(late(bound.map_or(0, milliseconds))),
                    WatchEnd::Moved => continue,
                },
            };
            let door = self.door(extent);
            // A rank looks from time to time how the others of its job are.
            let turn = self.shared.job.map(|_| DEATH_LOOK);
            let bound_ms = left().into_iter().chain(turn).min().map(milliseconds);
            let request = SyncRequest::Wait { slot: door.slot, grant: door.grant, offset: at, until, bound_ms };
            match door.remote.ask_sync(&request, patience(bound_ms)) {
                Ok((SyncAnswer::Word { seen }, _)) => return Ok(seen),
                Ok(_) => return Err(Error::Garbage { peer: door.remote.node().to_string(), reason: "no word".to_owned() }),
                Err(Error::GrantRefused { .. }) if !is_fresh => {
                    self.refresh()?;
                    is_fresh = true;
                }
                Err(Error::Broken { happened: Happened::No | Happened::Yes, .. }) => {}
                Err(Error::NotInTime { .. }) if left().is_none_or(|left| milliseconds(left) > 0) => self.shared.check_deaths()?,
                Err(Error::NotInTime { .. }) => return Err(late(bound.map_or(0, milliseconds))),
                Err(error) => return Err(ended(error)),
            }
        }
    }

    /// Looks at a word once, where it may be reached here. This thread is at work no longer than the look.
    fn look(&self, offset: u64, word: Word) -> Result<WordLook> {
        let way = self.way();
        let (extent, at) = self.place_of(&way, offset, word)?;
        match way.local(extent)? {
            Some(window) => vector::load_word(window, at, word.len()).map(WordLook::Here).map_err(|lost| self.lost(lost)),
            None => Ok(WordLook::Elsewhere(extent, at)),
        }
    }

    /// Looks at a word of this host until it is as wanted, no time is left, or it may be reached here no more.
    fn watch(&self, offset: u64, until: Wait, left: impl Fn() -> Option<Duration>) -> Result<WatchEnd> {
        let mut backoff = Backoff::new();
        let mut nap = Duration::from_micros(SPIN_YIELD_US);
        let mut looked = Instant::now();
        loop {
            let WordLook::Here(seen) = self.look(offset, until.word())? else { return Ok(WatchEnd::Moved) };
            if until.is_met(seen) {
                return Ok(WatchEnd::Met(seen));
            }
            let left = left();
            if left == Some(Duration::ZERO) {
                return Ok(WatchEnd::Late);
            }
            if backoff.step() == Step::Park {
                std::thread::sleep(left.map_or(nap, |left| left.min(nap)));
                nap = (nap * 2).min(Duration::from_millis(WORD_LOOK_MS));
                if looked.elapsed() >= DEATH_LOOK {
                    self.shared.check_deaths()?;
                    looked = Instant::now();
                }
            }
        }
    }

    /// Refuses words outside the region, or at odd offsets.
    fn check_place(&self, offset: u64, word: Word) -> Result<()> {
        let len = word.len();
        Strided::contiguous(offset, len).check(self.name(), self.len())?;
        if offset.is_multiple_of(len) { Ok(()) } else { Err(self.odd(word, format!("offset {offset} is no multiple of {len}"))) }
    }

    /// The extent of a word, and its place there.
    fn place_of(&self, way: &Way<'_>, offset: u64, word: Word) -> Result<(usize, u64)> {
        let len = word.len();
        let mut parts = parts(way.routes(), Strided::contiguous(offset, len));
        match (parts.next(), parts.next()) {
            (Some(part), None) if part.shape.offset.is_multiple_of(len) => Ok((part.extent, part.shape.offset)),
            _ => {
                let reason = format!("the word at offset {offset} lies across an odd border of two extents, made by a resize");
                Err(self.odd(word, reason))
            }
        }
    }

    fn odd(&self, word: Word, reason: String) -> Error {
        let (region, element) = (self.name().to_owned(), format!("{} bytes", word.len()));
        Error::BadElement { region, operation: "a wait".to_owned(), element, reason }
    }

    /// The 64-bit word at `offset`, a multiple of 8, as a lock: zero while it is free, else its owner's client id.
    ///
    /// For locks inside data, as many as there is room for, and cheap where the memory is mapped here. Nobody watches over
    /// them: they are not fair, a thread that takes one twice waits for itself, and one whose owner has died stays taken; see
    /// [`WordLock::break_from`]. Locks by name ([`crate::Pool::lock`]) have none of these limits.
    pub fn word_lock(&self, offset: u64) -> WordLock<'_> {
        WordLock { region: self, offset }
    }
}

/// A lock that is a word of a region.
#[derive(Clone, Copy, Debug)]
pub struct WordLock<'r> {
    region: &'r Region,
    offset: u64,
}

/// A word that this client has set to its id. Set to zero when dropped.
#[derive(Debug)]
pub struct WordGuard<'r> {
    lock: WordLock<'r>,
    is_open: bool,
}

impl<'r> WordLock<'r> {
    /// Takes it, waiting as long as others have it.
    ///
    /// **Cost**: on memory that is mapped here one compare-and-swap; else one message each way, and as many again for each
    /// that came first.
    /// **Errors**: as for [`Region::compare_and_swap_word`] and [`Region::wait_until`]. After [`Error::Broken`] the lock may
    /// be taken: [`WordLock::owner`] tells.
    pub fn lock(self) -> Result<WordGuard<'r>> {
        self.acquire(None)
    }

    /// Takes it, waiting for `bound` at most. **Errors**: as for [`WordLock::lock`], and [`Error::NotInTime`].
    pub fn lock_within(self, bound: Duration) -> Result<WordGuard<'r>> {
        self.acquire(Some(bound))
    }

    /// Takes it if it is free.
    pub fn try_lock(self) -> Result<Option<WordGuard<'r>>> {
        let before = self.region.compare_and_swap_word(self.offset, 0, self.me())?;
        Ok((before == 0).then(|| WordGuard { lock: self, is_open: true }))
    }

    /// Whose it is.
    pub fn owner(self) -> Result<Option<ClientId>> {
        let mut word = [0; 8];
        self.region.get(self.offset, &mut word)?;
        Ok(Some(ClientId(u64::from_le_bytes(word))).filter(|owner| owner.0 != 0))
    }

    /// Frees it if `owner` has it still; returns whether it was so. For owners that are known to be dead, by a barrier's
    /// error or a lock by name that was abandoned: one that lives would go on as if it held the lock. What the lock protects
    /// may be half-written.
    pub fn break_from(self, owner: ClientId) -> Result<bool> {
        Ok(self.region.compare_and_swap_word(self.offset, owner.0, 0)? == owner.0)
    }

    fn acquire(self, bound: Option<Duration>) -> Result<WordGuard<'r>> {
        let begun = Instant::now();
        loop {
            if let Some(guard) = self.try_lock()? {
                return Ok(guard);
            }
            let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
            self.region.wait_until(self.offset, Wait::Equal(Word::U64(0)), left)?;
        }
    }

    fn me(self) -> u64 {
        self.region.shared.attached.client.0
    }
}

impl WordGuard<'_> {
    /// Gives it back. **Errors**: [`Error::LockLost`] where it was another's by then, who broke it; and as for
    /// [`Region::compare_and_swap_word`].
    pub fn unlock(mut self) -> Result<()> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<()> {
        self.is_open = false;
        let WordLock { region, offset } = self.lock;
        if self.lock.break_from(ClientId(self.lock.me()))? {
            return Ok(());
        }
        let name = format!("at offset {offset} of region '{}'", region.name());
        Err(Error::LockLost { name, reason: "another client broke it".to_owned() })
    }
}

impl Drop for WordGuard<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // Who wants to know calls `unlock`.
            let _ = self.give_back();
        }
    }
}
