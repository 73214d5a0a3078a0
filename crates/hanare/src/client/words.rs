//! Waiting for a word of a region.

use super::locks::{ended, milliseconds, patience};
use super::region::{Region, Way};
use super::remote::Remote;
use super::repetition::{Breaks, Refusals, is_moving};
use crate::client::cut::plan::parts;
use hanare_memory::vector;
use hanare_protocol::error::Happened;
use hanare_protocol::limits::{DEATH_LOOK_MS, LEASE_MS, SPIN_YIELD_US, WAIT_WORD_COUNT_MAX, WORD_LOOK_MS};
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest, Wait, WaitedWord, Word};
use hanare_protocol::{Error, Result};
use hanare_ring::wait::{Backoff, Step};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between looks for dead ranks of the job while a rank waits for a word.
const DEATH_LOOK: Duration = Duration::from_millis(DEATH_LOOK_MS);

/// Time between looks for the home of bytes with copies while a program waits for a word of them.
const HOME_LOOK: Duration = Duration::from_millis(LEASE_MS / 3);

/// Time of a wait at one of several places before the next.
const TURN: Duration = Duration::from_millis(4);

/// Words that are looked at together.
enum WordLocation {
    Here(Vec<LocalWord>),
    /// At a node, each with its place among the words that are waited for.
    There(Arc<Remote>, Vec<(usize, WaitedWord)>),
}

/// A word of this host, with its place among the words that are waited for.
struct LocalWord {
    index: usize,
    offset: u64,
    until: Wait,
}

impl Region {
    /// Waits until the word at `offset`, a multiple of its length, is as wanted. Returns the seen word, as an unsigned number of its
    /// length. `bound` is in whole milliseconds, `None` for ever.
    ///
    /// A word that changes and changes back while nobody looks is not seen. Wait for one that stays, like a count that grows. On memory
    /// that is mapped here nothing but the word is looked at. Without a bound, the wait goes on even for a removed or lost region. A rank
    /// of a job hears that another has died, which may have been about to change the word.
    ///
    /// **Ordering**: this thread then sees writes from before the word. **Cost**: on memory that is mapped here, loads: a pause apart, then
    /// a yield, then a sleep that grows to a millisecond. Else one message each way. The word's node looks after each command of a client,
    /// and every millisecond. **Errors**: [`Error::NotInTime`]. [`Error::OutOfRange`]. [`Error::BadElement`] at an odd offset.
    /// [`Error::UnknownRegion`] when the region is removed meanwhile, where it is not mapped. [`Error::NodeLost`]. [`Error::RankGone`] if
    /// the wait lasts and a rank of this program's job has died: it failed, or ended without detaching.
    pub fn wait_until(&self, offset: u64, until: Wait, bound: Option<Duration>) -> Result<u64> {
        self.wait_for_any(&[(offset, until)], bound).map(|(_, seen)| seen)
    }

    /// Waits until one of some words is as wanted; returns which, and the word that was seen. Of several the first that is found is named.
    ///
    /// **Cost**: as for [`Region::wait_until`] where all words are on one node, or on this host. Else each node is asked in turn, for
    /// some milliseconds each. **Errors**: as there; [`Error::LimitReached`] for no word, or more than
    /// [`WAIT_WORD_COUNT_MAX`].
    pub fn wait_for_any(&self, words: &[(u64, Wait)], bound: Option<Duration>) -> Result<(usize, u64)> {
        if words.is_empty() || words.len() > WAIT_WORD_COUNT_MAX {
            let what = "words of one wait, of which there is at least one".to_owned();
            return Err(Error::LimitReached { what, limit: WAIT_WORD_COUNT_MAX as u64 });
        }
        words.iter().try_for_each(|(offset, until)| self.check_place(*offset, until.word()))?;
        let begun = Instant::now();
        let left = || bound.map(|bound| bound.saturating_sub(begun.elapsed()));
        let places = words.iter().map(|(offset, _)| offset.to_string()).collect::<Vec<_>>().join(" or ");
        let late = || Error::NotInTime {
            what: format!("the word at offset {places} of region '{}'", self.name()),
            after_ms: bound.map_or(0, milliseconds),
        };
        let (mut refusals, mut breaks, mut looked) = (Refusals::default(), Breaks::default(), begun);
        loop {
            let locations = self.locations(words)?;
            let count = locations.len();
            for location in locations {
                // Several places are waited at in turn, for a while each.
                let turn = (count > 1).then_some(TURN);
                match self.wait_at(location, left().into_iter().chain(turn).min()) {
                    Ok(Some(found)) => return Ok(found),
                    Ok(None) => (refusals, breaks) = Default::default(),
                    Err(error) if self.copies() > 1 && is_moving(&error) && breaks.may_repeat_moved() => {
                        match self.refresh_after(&ended(error)) {
                            // The coordinator names the next home, so it is waited for.
                            Ok(_) | Err(Error::NoCoordinator { .. } | Error::Timeout { .. }) => break,
                            Err(other) => return Err(other),
                        }
                    }
                    Err(Error::GrantRefused { .. }) if refusals.may_repeat() => self.refresh()?,
                    Err(error) => return Err(ended(error)),
                }
            }
            if left().is_some_and(|left| milliseconds(left) == 0) {
                return Err(late());
            }
            self.shared.check_deaths()?;
            // A home of bytes with copies that says nothing may be home no more.
            if self.copies() > 1 && looked.elapsed() >= HOME_LOOK {
                self.refresh_unless_away()?;
                looked = Instant::now();
            }
        }
    }

    /// Asks for the grants of today. The coordinator, and the next home, may be away for a while.
    fn refresh_unless_away(&self) -> Result<()> {
        match self.refresh() {
            Err(Error::NoCoordinator { .. } | Error::Timeout { .. } | Error::NodeLost { .. }) => Ok(()),
            other => other,
        }
    }

    /// Waits until all of some words are as wanted at one look, one after the other. Returns the words that were seen.
    ///
    /// **Cost**: for each word, as for [`Region::wait_until`]. As much again for each that changed during the wait for another. **Errors**:
    /// as for [`Region::wait_for_any`].
    pub fn wait_for_all(&self, words: &[(u64, Wait)], bound: Option<Duration>) -> Result<Vec<u64>> {
        let begun = Instant::now();
        let left = || bound.map(|bound| bound.saturating_sub(begun.elapsed()));
        if words.is_empty() || words.len() > WAIT_WORD_COUNT_MAX {
            // The same words as there.
            self.wait_for_any(words, bound)?;
        }
        let mut seen = vec![0; words.len()];
        // The words before `next` were as wanted at their last look, `met` of them.
        let (mut met, mut next) = (0, 0);
        while met < words.len() {
            let (offset, until) = words[next];
            let is_at_once = match self.wait_until(offset, until, Some(Duration::ZERO)) {
                Ok(word) => {
                    seen[next] = word;
                    true
                }
                Err(Error::NotInTime { .. }) => {
                    seen[next] = self.wait_until(offset, until, left())?;
                    false
                }
                Err(error) => return Err(error),
            };
            met = if is_at_once { met + 1 } else { 1 };
            next = (next + 1) % words.len();
        }
        Ok(seen)
    }

    /// The words by where they are looked at: those of this host together, those of each other node together.
    fn locations(&self, words: &[(u64, Wait)]) -> Result<Vec<WordLocation>> {
        let way = self.way();
        let mut locations: Vec<WordLocation> = Vec::new();
        for (index, (offset, until)) in words.iter().enumerate() {
            let (extent, at) = self.place_of(&way, *offset, until.word())?;
            match way.local(extent)? {
                Some(_) => {
                    let word = LocalWord { index, offset: *offset, until: *until };
                    match locations
                        .iter_mut()
                        .find_map(|location| if let WordLocation::Here(words) = location { Some(words) } else { None })
                    {
                        Some(words) => words.push(word),
                        None => locations.push(WordLocation::Here(vec![word])),
                    }
                }
                None => {
                    let route = self.extent_route(extent);
                    let word = WaitedWord { slot: route.slot, grant: route.grant, offset: at, until: *until };
                    let of_node = |location: &&mut WordLocation| matches!(location, WordLocation::There(remote, _) if remote.node() == route.remote.node());
                    match locations.iter_mut().find(of_node) {
                        Some(WordLocation::There(_, words)) => words.push((index, word)),
                        _ => locations.push(WordLocation::There(route.remote, vec![(index, word)])),
                    }
                }
            }
        }
        Ok(locations)
    }

    /// Waits at one place for so long. `None` if no word of it was as wanted by then, or the connection broke.
    fn wait_at(&self, location: WordLocation, bound: Option<Duration>) -> Result<Option<(usize, u64)>> {
        let (remote, words) = match location {
            WordLocation::Here(words) => {
                let begun = Instant::now();
                let left = || bound.map(|bound| bound.saturating_sub(begun.elapsed()));
                return crate::trace::slice("wait for a word", || self.watch(&words, left));
            }
            WordLocation::There(remote, words) => (remote, words),
        };
        // A rank looks from time to time how the others of its job are.
        let turn = self.shared.job.map(|_| DEATH_LOOK).or((self.copies() > 1).then_some(HOME_LOOK));
        let bound_ms = bound.into_iter().chain(turn).min().map(milliseconds);
        let request = SyncRequest::Wait { words: words.iter().map(|(_, word)| *word).collect(), bound_ms };
        let answer = crate::trace::slice("wait for a word", || remote.ask_sync(&request, patience(bound_ms)));
        match answer {
            Ok((SyncAnswer::Word { index, seen }, _)) if usize::from(index) < words.len() => {
                Ok(Some((words[usize::from(index)].0, seen)))
            }
            Ok(_) => Err(Error::Garbage { peer: remote.node().to_string(), reason: "no word".to_owned() }),
            Err(Error::Broken { happened: Happened::No | Happened::Yes, .. } | Error::NotInTime { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Looks at a word once, where it may be reached here. This thread is at work no longer than the look.
    fn look(&self, offset: u64, word: Word) -> Result<Option<u64>> {
        let way = self.way();
        let (extent, at) = self.place_of(&way, offset, word)?;
        let Some(window) = way.local(extent)? else { return Ok(None) };
        vector::load_word(window, at, word.len()).map(Some).map_err(|lost| self.lost(lost))
    }

    /// Looks at words of this host until one is as wanted. `None` where no time is left, or one may be reached here no more.
    fn watch(&self, words: &[LocalWord], left: impl Fn() -> Option<Duration>) -> Result<Option<(usize, u64)>> {
        let mut backoff = Backoff::new();
        let mut nap = Duration::from_micros(SPIN_YIELD_US);
        let mut looked = Instant::now();
        loop {
            for LocalWord { index, offset, until } in words {
                let Some(seen) = self.look(*offset, until.word())? else { return Ok(None) };
                if until.is_met(seen) {
                    return Ok(Some((*index, seen)));
                }
            }
            let left = left();
            if left == Some(Duration::ZERO) {
                return Ok(None);
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
}
