//! Words that clients wait for: looked at after commands, which may have changed them, and every millisecond, since programs
//! that map them store directly.

use super::inbox::lost_memory;
use super::sync::{Answered, Waiter, deadline};
use crate::node::extents::Extents;
use hanare_memory::vector;
use hanare_protocol::id::{Grant, Rights, Slot};
use hanare_protocol::limits::{LINK_WORD_COUNT_MAX, WORD_LOOK_MS, WORD_WAIT_COUNT_MAX};
use hanare_protocol::wire::sync::{SyncAnswer, Wait};
use hanare_protocol::{Error, Result};
use std::time::{Duration, Instant};

/// Words looked at after a client's turn: about a microsecond's worth.
const LOOKS_PER_TURN: usize = 64;

/// A word, and what is waited for.
#[derive(Clone, Copy)]
pub(crate) struct Watched {
    pub slot: Slot,
    pub grant: Grant,
    pub offset: u64,
    pub until: Wait,
}

struct Watch {
    waiter: Waiter,
    word: Watched,
    bound: Option<(Instant, u64)>,
}

#[derive(Default)]
pub(crate) struct Words {
    watches: Vec<Watch>,
    /// Where the next turn's looks begin.
    next: usize,
    /// When all were looked at last.
    looked: Option<Instant>,
}

impl Watched {
    /// The word, if it is as wanted. It is found anew each time: a region that was removed is not waited for.
    fn look(&self, extents: &Extents) -> Result<Option<u64>> {
        let held = extents.open(self.slot, self.grant, Rights::Read)?;
        let len = self.until.word().len();
        if !self.offset.is_multiple_of(len) || held.len().checked_sub(len).is_none_or(|last| self.offset > last) {
            let reason = format!("no word of {len} bytes is at offset {} of its extent", self.offset);
            return Err(Error::BadUse { region: "of a peer".to_owned(), reason });
        }
        let seen = vector::load_word(held.reach().window(), self.offset, len).map_err(|lost| lost_memory(&lost))?;
        Ok(self.until.is_met(seen).then_some(seen))
    }
}

impl Words {
    /// A client waits for a word; answered at once where it is as wanted already.
    pub fn wait(
        &mut self,
        word: Watched,
        bound_ms: Option<u64>,
        waiter: Waiter,
        extents: &Extents,
    ) -> Result<Option<SyncAnswer>> {
        if let Some(seen) = word.look(extents)? {
            return Ok(Some(SyncAnswer::Word { seen }));
        }
        let full = |what: &str, limit: usize| Err(Error::LimitReached { what: what.to_owned(), limit: limit as u64 });
        if self.watches.len() >= WORD_WAIT_COUNT_MAX {
            return full("words of one node that are waited for", WORD_WAIT_COUNT_MAX);
        }
        if self.watches.iter().filter(|watch| watch.waiter.session == waiter.session).count() >= LINK_WORD_COUNT_MAX {
            return full("words of one node that one client waits for", LINK_WORD_COUNT_MAX);
        }
        let bound = bound_ms.and_then(|ms| Some((deadline(ms)?, ms)));
        self.watches.push(Watch { waiter, word, bound });
        Ok(None)
    }

    /// A link ended: nobody is told anything there.
    pub fn forget(&mut self, session: u64) {
        self.watches.retain(|watch| watch.waiter.session != session);
    }

    /// When all are to be looked at.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let next = self.looked.map_or(now, |looked| looked + Duration::from_millis(WORD_LOOK_MS));
        (!self.watches.is_empty()).then_some(next)
    }

    /// Looks at some, after a turn that may have changed them.
    pub fn look_at_some(&mut self, extents: &Extents, answers: &mut impl Extend<Answered>) {
        let count = self.watches.len().min(LOOKS_PER_TURN);
        self.look(count, None, extents, answers);
    }

    /// Looks at all, if that is due.
    pub fn tick(&mut self, now: Instant, extents: &Extents, answers: &mut impl Extend<Answered>) {
        if self.next_deadline(now).is_some_and(|next| next <= now) {
            self.looked = Some(now);
            self.look(self.watches.len(), Some(now), extents, answers);
        }
    }

    /// Looks at `count` of them; bounds are looked at where the time is told.
    fn look(&mut self, count: usize, now: Option<Instant>, extents: &Extents, answers: &mut impl Extend<Answered>) {
        for _ in 0..count {
            if self.next >= self.watches.len() {
                self.next = 0;
            }
            let Some(watch) = self.watches.get(self.next) else { return };
            let is_over = |(until, _): &(Instant, u64)| now.is_some_and(|now| *until <= now);
            let outcome = match (watch.word.look(extents), watch.bound.filter(is_over)) {
                (Ok(Some(seen)), _) => Ok(SyncAnswer::Word { seen }),
                (Err(error), _) => Err(error),
                (Ok(None), Some((_, after_ms))) => Err(Error::NotInTime { what: "the word".to_owned(), after_ms }),
                (Ok(None), None) => {
                    self.next += 1;
                    continue;
                }
            };
            answers.extend([(watch.waiter, outcome)]);
            self.watches.swap_remove(self.next);
        }
    }
}
