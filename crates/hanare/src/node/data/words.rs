//! Words that clients wait for: looked at after commands, which may have changed them, and every millisecond, since programs
//! that map them store directly. A word that hosts map is looked at when its page is at home.

use super::waiter::{Answered, Waiter, deadline};
use crate::node::extents::{Extents, Opened};
use crate::node::lost::lost_memory;
use crate::node::pages::{Asker, Need, Recall, SharedRegions};
use hanare_memory::vector;
use hanare_protocol::id::{Grant, Rights, Slot};
use hanare_protocol::limits::{LINK_WORD_COUNT_MAX, PAGE_LEN, WORD_LOOK_MS, WORD_WAIT_COUNT_MAX};
use hanare_protocol::page::{Access, Face};
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
    /// Its page is on its way home.
    recall: Option<Face>,
}

/// What a look brought.
enum Look {
    Seen(u64),
    NotYet,
    Waits(Face),
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
    /// The word, if it is as wanted and its page is at home. It is found anew each time: a region that was removed is not waited for.
    fn look(&self, (extents, pages): (&Extents, &mut SharedRegions)) -> Result<Look> {
        let opened = self.find(extents)?;
        if !opened.is_by_pages() {
            return self.load(&opened);
        }
        let (gid, slot, page) = (opened.held().gid(), opened.slot(), self.offset / PAGE_LEN);
        match pages.recall(Asker::Word, Need { gid, slot, access: Access::Read, pages: vec![page] })? {
            Recall::Waits(face) => Ok(Look::Waits(face)),
            Recall::Ready(face) => {
                let look = self.load(&opened);
                pages.release(face);
                look
            }
        }
    }

    /// Its extent.
    fn find(&self, extents: &Extents) -> Result<Opened> {
        let opened = extents.open(self.slot, self.grant, Rights::Read)?;
        let held = opened.held();
        let len = self.until.word().len();
        if !self.offset.is_multiple_of(len) || held.len().checked_sub(len).is_none_or(|last| self.offset > last) {
            let reason = format!("no word of {len} bytes is at offset {} of its extent", self.offset);
            return Err(Error::BadUse { region: "of a peer".to_owned(), reason });
        }
        Ok(opened)
    }

    fn load(&self, opened: &Opened) -> Result<Look> {
        let reach = opened.held().reach();
        let seen = vector::load_word(reach.window(), self.offset, self.until.word().len()).map_err(|lost| lost_memory(&lost))?;
        Ok(if self.until.is_met(seen) { Look::Seen(seen) } else { Look::NotYet })
    }
}

impl Words {
    /// A client waits for a word; answered at once where it is as wanted already.
    pub fn wait(
        &mut self,
        word: Watched,
        bound_ms: Option<u64>,
        waiter: Waiter,
        (extents, pages): (&Extents, &mut SharedRegions),
    ) -> Result<Option<SyncAnswer>> {
        let recall = match word.look((extents, pages))? {
            Look::Seen(seen) => return Ok(Some(SyncAnswer::Word { seen })),
            Look::NotYet => None,
            Look::Waits(face) => Some(face),
        };
        let full = |what: &str, limit: usize| Err(Error::LimitReached { what: what.to_owned(), limit: limit as u64 });
        if self.watches.len() >= WORD_WAIT_COUNT_MAX {
            return full("words of one node that are waited for", WORD_WAIT_COUNT_MAX);
        }
        if self.watches.iter().filter(|watch| watch.waiter.session == waiter.session).count() >= LINK_WORD_COUNT_MAX {
            return full("words of one node that one client waits for", LINK_WORD_COUNT_MAX);
        }
        let bound = bound_ms.and_then(|ms| Some((deadline(ms)?, ms)));
        self.watches.push(Watch { waiter, word, bound, recall });
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
    pub fn look_at_some(&mut self, memory: (&Extents, &mut SharedRegions), answers: &mut impl Extend<Answered>) {
        let count = self.watches.len().min(LOOKS_PER_TURN);
        self.look(count, None, memory, answers);
    }

    /// The page of a word is at home, or will not come.
    pub fn recalled(&mut self, face: Face, outcome: Result<()>, extents: &Extents, answers: &mut impl Extend<Answered>) {
        let Some(at) = self.watches.iter().position(|watch| watch.recall == Some(face)) else { return };
        let Watch { waiter, word, recall, .. } = &mut self.watches[at];
        *recall = None;
        let waiter = *waiter;
        match outcome.and_then(|()| word.load(&word.find(extents)?)) {
            Ok(Look::Seen(seen)) => answers.extend([(waiter, Ok(SyncAnswer::Word { seen }))]),
            Err(error) => answers.extend([(waiter, Err(error))]),
            Ok(Look::NotYet | Look::Waits(_)) => return,
        }
        self.watches.swap_remove(at);
    }

    /// Looks at all, if that is due.
    pub fn tick(&mut self, now: Instant, memory: (&Extents, &mut SharedRegions), answers: &mut impl Extend<Answered>) {
        if self.next_deadline(now).is_some_and(|next| next <= now) {
            self.looked = Some(now);
            self.look(self.watches.len(), Some(now), memory, answers);
        }
    }

    /// Looks at `count` of them; bounds are looked at where the time is told.
    fn look(
        &mut self,
        count: usize,
        now: Option<Instant>,
        (extents, pages): (&Extents, &mut SharedRegions),
        answers: &mut impl Extend<Answered>,
    ) {
        for _ in 0..count {
            if self.next >= self.watches.len() {
                self.next = 0;
            }
            let Some(watch) = self.watches.get_mut(self.next) else { return };
            let is_over = |(until, _): &(Instant, u64)| now.is_some_and(|now| *until <= now);
            let look = match watch.recall {
                Some(face) => Ok(Look::Waits(face)),
                None => watch.word.look((extents, &mut *pages)),
            };
            if let Ok(Look::Waits(face)) = look {
                watch.recall = Some(face);
            }
            let outcome = match (look, watch.bound.filter(is_over)) {
                (Ok(Look::Seen(seen)), _) => Ok(SyncAnswer::Word { seen }),
                (Err(error), _) => Err(error),
                (Ok(_), Some((_, after_ms))) => Err(Error::NotInTime { what: "the word".to_owned(), after_ms }),
                (Ok(_), None) => {
                    self.next += 1;
                    continue;
                }
            };
            answers.extend([(watch.waiter, outcome)]);
            self.watches.swap_remove(self.next);
        }
    }
}
