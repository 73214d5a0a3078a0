//! Locks that are given back, and parties that arrive, with bytes of this home.

use super::naming::ensure_there;
use super::{ArrivedParty, AtOnce, Locks};
use crate::carried::{Puts, bring, check_wants};
use crate::events::SyncOutput;
use crate::memory::Memory;
use crate::waiter::Waiter;
use hanare_protocol::entry::Publication;
use hanare_protocol::limits::{LINK_GRANT_LEN_MAX, RELEASE_LEN_MAX};
use hanare_protocol::lock::Claimant;
use hanare_protocol::wire::carried::{Carried, ExtentAddress};
use hanare_protocol::wire::sync::{Party, SyncAnswer};
use hanare_protocol::{Error, Result};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Pages wanted by parties that wait at barriers.
#[derive(Debug, Default)]
pub(super) struct Wants {
    /// Each by its link and request.
    waiting: BTreeMap<(u64, u64), Box<Carried>>,
    /// Pages for parties whose barrier is over.
    due: VecDeque<(Waiter, Box<Carried>)>,
}

impl Wants {
    /// Keeps what a party wants: for so many of a connection as may be answered at once. All others bring their pages themselves.
    fn keep(&mut self, waiter: Waiter, mut carried: Box<Carried>) {
        // The puts are done.
        (carried.puts, carried.bytes) = Default::default();
        let own = self.waiting.range((waiter.link, 0)..=(waiter.link, u64::MAX)).count();
        let due = self.due.iter().filter(|(other, _)| other.link == waiter.link).count();
        if !carried.wants.is_empty() && own + due < LINK_GRANT_LEN_MAX as usize / RELEASE_LEN_MAX {
            self.waiting.insert((waiter.link, waiter.seq), carried);
        }
    }

    /// A party is told how its barrier ended; the answer, unless it follows by [`Wants::poll`].
    pub fn told(&mut self, waiter: Waiter, outcome: Result<()>) -> Option<SyncOutput> {
        match (self.waiting.remove(&(waiter.link, waiter.seq)), outcome) {
            (Some(carried), Ok(())) => {
                self.due.push_back((waiter, carried));
                None
            }
            (_, outcome) => Some(SyncOutput::Answer(waiter, outcome.map(|()| SyncAnswer::Done))),
        }
    }

    /// A rank says again that it arrives: its request of before is not answered.
    pub fn forget_one(&mut self, waiter: Waiter) {
        self.waiting.remove(&(waiter.link, waiter.seq));
    }

    /// A link ended.
    pub fn forget(&mut self, link: u64) {
        self.waiting.retain(|(of, _), _| *of != link);
        self.due.retain(|(waiter, _)| waiter.link != link);
    }

    /// The next answer with pages. Where they cannot be read any more the party hears so from its own commands.
    fn poll(&mut self, memory: &impl Memory) -> Option<SyncOutput> {
        let (waiter, carried) = self.due.pop_front()?;
        let answer = bring(&carried, memory).map_or(SyncAnswer::Done, |brought| SyncAnswer::Met(Box::new(brought)));
        Some(SyncOutput::Answer(waiter, Ok(answer)))
    }
}

impl Locks {
    /// A lock is given back with what was changed of the data bound to it: all of that, or nothing. Its holder `keeps` it where it is leased to
    /// that one, and nobody wants it.
    ///
    /// **Errors**: those of [`Puts::check`], and of a publication: nothing happened. Memory that the kernel does not supply: the release
    /// counts, and the next holder redoes it.
    pub fn release(
        &mut self,
        (who, uid, keeps): (Claimant, u32, bool),
        publication: Publication,
        places: &[ExtentAddress],
        memory: &impl Memory,
    ) -> AtOnce {
        publication.check()?;
        let changes = publication.changes.clone();
        let pieces = || places.iter().copied().zip(changes.pieces().map(|(_, bytes)| bytes));
        if changes.ranges().map(<[_]>::len) != Some(places.len()) || pieces().count() != places.len() {
            let reason = format!("{} places for other ranges, or ranges without their bytes", places.len());
            return Err(Error::Garbage { peer: "a holder of a lock".to_owned(), reason });
        }
        let puts = Puts::check(pieces(), memory)?;
        let stamp = self.data.on_publish(&self.locks, who, uid, publication)?;
        puts.put()?;
        let kept = keeps && self.locks.may_keep(who);
        match kept {
            true => self.data.on_put(&self.locks, who),
            false => drop(self.unlock(who)?),
        }
        Ok(Some(SyncAnswer::Released(stamp, kept)))
    }

    /// A party arrives, perhaps with bytes. At a barrier of a job that is over they are old, and stay away.
    ///
    /// **Errors**: those of [`Puts::check`], and [`Error::BadGroup`]: it has not arrived.
    pub fn arrive(&mut self, party: Party, carried: Option<Box<Carried>>, waiter: Waiter, memory: &impl Memory) -> AtOnce {
        let is_old = matches!(party, Party::Rank(arrival) if self.jobs.is_over(arrival));
        if let Some(carried) = carried.filter(|_| !is_old) {
            self.put_carried(&carried, memory)?;
            self.wants.keep(waiter, carried);
        }
        let who = match party {
            Party::Place(number) => {
                let place = Claimant { link: waiter.link, number };
                self.meet(place, memory).inspect_err(|_| self.wants.forget_one(waiter))?;
                ArrivedParty::Place(place)
            }
            Party::Rank(arrival) => {
                self.jobs.on_arrive(arrival);
                ArrivedParty::Rank(arrival.into())
            }
        };
        self.wait_for_others(who, waiter);
        self.settle();
        Ok(None)
    }

    fn meet(&mut self, place: Claimant, memory: &impl Memory) -> Result<()> {
        if let Some(name) = self.groups.name_of(place) {
            ensure_there(name, memory)?;
        }
        self.groups.on_meet(place)
    }

    /// A rank that says again that it arrives has its answer on its new request.
    fn wait_for_others(&mut self, who: ArrivedParty, waiter: Waiter) {
        if let Some(before) = self.arrived.insert(who, waiter) {
            self.arrived_less(who, before.link);
            self.wants.forget_one(before);
        }
        if let ArrivedParty::Rank(_) = who {
            *self.arrivals.entry(waiter.link).or_default() += 1;
        }
    }

    /// A party that waits is told how its barrier ended.
    pub(super) fn tell_party(&mut self, who: ArrivedParty, outcome: Result<()>) {
        if let Some(waiter) = self.arrived.remove(&who) {
            self.arrived_less(who, waiter.link);
            self.outputs.extend(self.wants.told(waiter, outcome));
        }
    }

    fn arrived_less(&mut self, who: ArrivedParty, link: u64) {
        if let (ArrivedParty::Rank(_), Entry::Occupied(mut count)) = (who, self.arrivals.entry(link)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    fn put_carried(&self, carried: &Carried, memory: &impl Memory) -> Result<()> {
        carried.check()?;
        check_wants(&carried.wants, memory)?;
        Puts::check(carried.pieces(), memory)?.put()
    }

    /// The next answer to one that waited, with pages that it wanted.
    pub fn poll_brought(&mut self, memory: &impl Memory) -> Option<SyncOutput> {
        self.wants.poll(memory)
    }
}
