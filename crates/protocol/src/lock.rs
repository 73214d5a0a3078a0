//! Locks by name: decides for clients who has one, who is next, and that nobody waits for a holder that is gone.
//!
//! It lives at the pool's home node. A lock is taken exclusively, or shared with others that share it; who comes first is
//! served first, and one that would share does not overtake one that waits to have it alone.
//!
//! ```text
//!             Enter                 Take
//!      +---------------- Free ----------------+
//!      |    Last         ^  ^        Give     |
//!      |  +--------------+  +---------------+ |
//!      v  |                                 | v
//!     Shared <---- Enter ---- Orphaned ---- Take ---> Alone
//!      (Enter, Part, Wait, Quit)   ^  ^  ^          (Wait, Quit)
//!       |                          |  |  +-- Die, Waive --+
//!       +--------- Waive ----------+  +---- Doubt (from Free)
//! ```
//!
//! | event | what follows |
//! |---|---|
//! | `Enter`, `Take` | the grant; from `Orphaned` it says that the lock was abandoned, to this one alone |
//! | `Wait` | nothing yet |
//! | `Part`, `Last`, `Give`, `Die` | when that leaves the lock free: grants to those who are first in the queue |
//! | `Quit` | when that was the first in the queue: grants to those behind it that may enter |
//! | `Waive` | as `Give`; the next one is told of the abandonment that the one before did not hear of |
//! | `Doubt` | the grant to the first that asks, which says that the lock was abandoned |
//!
//! A home that began again has lost its locks, and holders of its life before may be at work still: nothing tells them, and no
//! time bounds them. So the first to take each lock is told that it was abandoned. Waiting would cost every first taker a lease
//! and still let it in beside a holder that takes longer.
//!
//! A lock that is free and was not abandoned is not kept. A reader that dies changed nothing, so it leaves like one that parts.

mod line;
mod listing;

pub use listing::Listed;

use crate::error::{Error, Result};
use crate::limits::{CLAIM_COUNT_MAX, LINK_CLAIM_COUNT_MAX, LOCK_COUNT_MAX};
use crate::table::{self, Row};
use line::Line;
pub(crate) use line::one_less;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// Whether others may have a lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// Nobody else has it.
    Exclusive,
    /// Others may have it in this mode.
    Shared,
}

/// The states of a lock, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nobody has it.
    Free,
    /// Nobody has it, and the last one that had it alone died with it.
    Orphaned,
    /// Some share it.
    Shared,
    /// One has it alone.
    Alone,
}

/// What happens to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// One gets it to share.
    Enter,
    /// One gets it alone.
    Take,
    /// One joins the queue.
    Wait,
    /// One leaves the queue, because its bound is over or it is gone.
    Quit,
    /// One of several that share it gives it back, or is gone.
    Part,
    /// The last that shared it gives it back, or is gone.
    Last,
    /// The one that had it alone gives it back.
    Give,
    /// The one that had it alone is gone.
    Die,
    /// The last one goes that has it, and somebody was told of an abandonment in vain: it had given up waiting.
    Waive,
    /// It is asked for first at a home that began again: somebody may have it from before.
    Doubt,
}

/// Every transition of a lock.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Enter, from: &[Phase::Free, Phase::Orphaned, Phase::Shared], to: Phase::Shared },
    Row { event: Event::Take, from: &[Phase::Free, Phase::Orphaned], to: Phase::Alone },
    Row { event: Event::Wait, from: &[Phase::Shared], to: Phase::Shared },
    Row { event: Event::Wait, from: &[Phase::Alone], to: Phase::Alone },
    Row { event: Event::Quit, from: &[Phase::Shared], to: Phase::Shared },
    Row { event: Event::Quit, from: &[Phase::Alone], to: Phase::Alone },
    Row { event: Event::Part, from: &[Phase::Shared], to: Phase::Shared },
    Row { event: Event::Last, from: &[Phase::Shared], to: Phase::Free },
    Row { event: Event::Give, from: &[Phase::Alone], to: Phase::Free },
    Row { event: Event::Die, from: &[Phase::Alone], to: Phase::Orphaned },
    Row { event: Event::Waive, from: &[Phase::Shared, Phase::Alone], to: Phase::Orphaned },
    Row { event: Event::Doubt, from: &[Phase::Free], to: Phase::Orphaned },
];

/// Who takes a lock, or has a place in a group: a connection of a client, and the client's number, never used twice on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claimant {
    /// The home's number of the connection, never used twice.
    pub link: u64,
    /// The client's number.
    pub number: u64,
}

impl Claimant {
    /// All of one connection.
    pub(crate) fn all_of(link: u64) -> RangeInclusive<Claimant> {
        Claimant { link, number: 0 }..=Claimant { link, number: u64::MAX }
    }
}

/// What one asks of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Who.
    pub who: Claimant,
    /// Its thread: a thread does not wait for itself.
    pub thread: u64,
    /// How it would have the lock.
    pub mode: Mode,
}

/// What comes of a claim at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It has the lock.
    Granted {
        /// Whether the one that last had it alone died with it.
        abandoned: bool,
    },
    /// Others have it, and it would not wait.
    Busy,
    /// Its answer follows by [`Locks::poll`].
    Waits,
}

/// What one that waited is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Who.
    pub who: Claimant,
    /// Whether the one that last had the lock alone died with it.
    pub abandoned: bool,
}

/// One that has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Holder {
    claim: Claim,
    /// Whether its grant says that the lock was abandoned.
    is_told: bool,
}

/// How one lets a lock go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parting {
    InOrder,
    Dead,
    /// It gave up waiting before it heard of its grant.
    Unused,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Free {
        abandoned: bool,
    },
    Shared {
        /// Those that share it; never empty.
        holders: BTreeMap<Claimant, Holder>,
        /// Whether the next grant says that it was abandoned, because the one that said so was not heard of.
        abandoned: bool,
    },
    Alone {
        holder: Holder,
    },
}

/// One lock.
///
/// - The queue is empty where the lock is free.
/// - Where some share the lock, the first in the queue would have it alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lock {
    state: State,
    queue: Line,
    /// Order of abandonment, for forgetting the oldest.
    orphaned: u64,
}

impl Lock {
    fn new() -> Lock {
        Lock { state: State::Free { abandoned: false }, queue: Line::default(), orphaned: 0 }
    }

    fn phase(&self) -> Phase {
        match &self.state {
            State::Free { abandoned: false } => Phase::Free,
            State::Free { abandoned: true } => Phase::Orphaned,
            State::Shared { .. } => Phase::Shared,
            State::Alone { .. } => Phase::Alone,
        }
    }

    /// Makes a transition of the table.
    fn step(&mut self, event: Event, change: impl FnOnce(&mut Lock)) {
        let from = self.phase();
        change(self);
        assert_eq!(table::next(TABLE, from, event), Some(self.phase()), "{event:?} in {from:?}");
    }

    /// How a thread of a client has it, if it does. **Cost**: a look at each that the client has.
    fn held_by(&self, link: u64, thread: u64) -> Option<Mode> {
        let is_its = |holder: &Holder| (holder.claim.who.link, holder.claim.thread) == (link, thread);
        match &self.state {
            State::Free { .. } => None,
            State::Shared { holders, .. } => {
                holders.range(Claimant::all_of(link)).any(|(_, holder)| is_its(holder)).then_some(Mode::Shared)
            }
            State::Alone { holder } => is_its(holder).then_some(Mode::Exclusive),
        }
    }

    /// Whether one has it.
    fn is_held_by(&self, who: Claimant) -> bool {
        match &self.state {
            State::Free { .. } => false,
            State::Shared { holders, .. } => holders.contains_key(&who),
            State::Alone { holder } => holder.claim.who == who,
        }
    }

    /// Whether one that comes now gets it at once.
    fn is_open_to(&self, mode: Mode) -> bool {
        match self.state {
            State::Free { .. } => true,
            State::Shared { .. } => mode == Mode::Shared && self.queue.is_empty(),
            State::Alone { .. } => false,
        }
    }

    /// Gives it to one for whom it is open; says whether it was abandoned.
    fn grant(&mut self, claim: Claim) -> bool {
        let (State::Free { abandoned: is_told } | State::Shared { abandoned: is_told, .. }) = self.state else {
            unreachable!("nobody has it alone");
        };
        let holder = Holder { claim, is_told };
        match claim.mode {
            Mode::Exclusive => self.step(Event::Take, |lock| lock.state = State::Alone { holder }),
            Mode::Shared => self.step(Event::Enter, |lock| match &mut lock.state {
                State::Shared { holders, abandoned } => {
                    holders.insert(claim.who, holder);
                    *abandoned = false;
                }
                state => *state = State::Shared { holders: BTreeMap::from([(claim.who, holder)]), abandoned: false },
            }),
        }
        is_told
    }

    /// Gives it to those who are first in the queue.
    fn advance(&mut self, grants: &mut VecDeque<Grant>) {
        while let Some(next) = self.queue.first() {
            let is_open = matches!(self.state, State::Free { .. })
                || matches!(self.state, State::Shared { .. }) && next.mode == Mode::Shared;
            if !is_open {
                return;
            }
            self.queue.remove(next.who);
            let abandoned = self.grant(next);
            grants.push_back(Grant { who: next.who, abandoned });
        }
    }

    /// One that has it, or waits for it, lets go.
    fn let_go(&mut self, who: Claimant, how: Parting) {
        if self.queue.has(who) {
            return self.step(Event::Quit, |lock| {
                lock.queue.remove(who);
            });
        }
        match &mut self.state {
            State::Free { .. } => unreachable!("nobody has it"),
            State::Shared { holders, abandoned } => {
                let is_unheard = *abandoned || how == Parting::Unused && holders[&who].is_told;
                let event = match holders.len() {
                    1 if is_unheard => Event::Waive,
                    1 => Event::Last,
                    _ => Event::Part,
                };
                self.step(event, |lock| match &mut lock.state {
                    State::Shared { holders, abandoned } if event == Event::Part => {
                        holders.remove(&who);
                        *abandoned = is_unheard;
                    }
                    state => *state = State::Free { abandoned: is_unheard },
                });
            }
            State::Alone { holder } => {
                let event = match how {
                    Parting::Dead => Event::Die,
                    Parting::Unused if holder.is_told => Event::Waive,
                    Parting::InOrder | Parting::Unused => Event::Give,
                };
                self.step(event, |lock| lock.state = State::Free { abandoned: event != Event::Give });
            }
        }
    }
}

/// The locks of a pool.
///
/// A lock is made when it is taken first. Those that were abandoned are forgotten when there are too many, the oldest first:
/// their next holder is then told nothing. As many names are remembered as known by a home that began again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Locks {
    locks: BTreeMap<String, Lock>,
    /// The lock of each that has or waits for one.
    claims: BTreeMap<Claimant, String>,
    /// How many claims each connection has.
    links: BTreeMap<u64, usize>,
    orphans: u64,
    grants: VecDeque<Grant>,
    /// Names that were asked for, at a home that began again; `None` where there was no life before.
    known: Option<BTreeSet<String>>,
}

impl Locks {
    /// No lock yet, at the home of a pool that begins.
    pub fn new() -> Locks {
        Locks::default()
    }

    /// No lock is known, at a home that began again: clients may have some from before.
    pub fn after_another_life() -> Locks {
        Locks { known: Some(BTreeSet::new()), ..Locks::default() }
    }

    /// How many locks are held, waited for or abandoned.
    pub fn count(&self) -> usize {
        self.locks.len()
    }

    /// How many takings of locks a connection has.
    pub fn count_of(&self, link: u64) -> usize {
        self.links.get(&link).copied().unwrap_or_default()
    }

    /// The state of a lock.
    pub fn phase(&self, name: &str) -> Phase {
        self.locks.get(name).map_or(Phase::Free, Lock::phase)
    }

    /// One would have a lock, and waits for it where `waits`.
    ///
    /// **Cost**: a search among the locks' names. **Errors**: [`Error::LockMisused`] where its thread has the lock already,
    /// in either mode; [`Error::LimitReached`] for too many locks, or claims.
    pub fn on_lock(&mut self, name: &str, claim: Claim, waits: bool) -> Result<Claimed> {
        let misused = |reason: &str| Err(Error::LockMisused { name: name.to_owned(), reason: reason.to_owned() });
        if self.claims.contains_key(&claim.who) {
            return misused("the number of this taking has been used before");
        }
        if self.claims.len() >= CLAIM_COUNT_MAX {
            return Err(Error::LimitReached { what: "takings of locks".to_owned(), limit: CLAIM_COUNT_MAX as u64 });
        }
        if self.count_of(claim.who.link) == LINK_CLAIM_COUNT_MAX {
            return Err(Error::LimitReached { what: "locks of one client".to_owned(), limit: LINK_CLAIM_COUNT_MAX as u64 });
        }
        match (self.locks.get(name).and_then(|lock| lock.held_by(claim.who.link, claim.thread)), claim.mode) {
            (None, _) => {}
            (Some(Mode::Shared), Mode::Exclusive) => {
                return misused(
                    "this thread shares it, and two that wait so would wait for ever; give it back, then take it exclusively",
                );
            }
            (Some(_), _) => return misused("this thread has it already and would wait for itself; give it back first"),
        }
        let lock = self.lock(name)?;
        let claimed = match lock.is_open_to(claim.mode) {
            true => Claimed::Granted { abandoned: lock.grant(claim) },
            false if waits => {
                lock.step(Event::Wait, |lock| lock.queue.push(claim));
                Claimed::Waits
            }
            false => return Ok(Claimed::Busy),
        };
        self.claims.insert(claim.who, name.to_owned());
        *self.links.entry(claim.who.link).or_default() += 1;
        Ok(claimed)
    }

    /// One gives its lock back.
    ///
    /// **Errors**: [`Error::LockMisused`] where it has none.
    pub fn on_unlock(&mut self, who: Claimant) -> Result<()> {
        if !self.has(who) {
            let name = self.claims.get(&who).cloned().unwrap_or_default();
            return Err(Error::LockMisused { name, reason: "who gives it back has not got it".to_owned() });
        }
        self.let_go(who, Parting::InOrder);
        Ok(())
    }

    /// One gave up waiting and does not know whether it has the lock: it leaves the queue, or gives the lock back as it was. Nothing
    /// happens where it does neither wait nor have it.
    pub fn on_withdraw(&mut self, who: Claimant) {
        self.let_go(who, Parting::Unused);
        self.grants.retain(|grant| grant.who != who);
    }

    /// The bound of one that waits is over. Returns the lock's name, if it waited still.
    pub fn on_bound(&mut self, who: Claimant) -> Option<String> {
        let name = self.claims.get(&who)?.clone();
        let waits = self.locks[&name].queue.has(who);
        waits.then(|| {
            self.let_go(who, Parting::InOrder);
            name
        })
    }

    /// A connection ended: what was taken on it goes on to others, who are told.
    pub fn on_link_gone(&mut self, link: u64) {
        let gone: Vec<Claimant> = self.claims.range(Claimant::all_of(link)).map(|(who, _)| *who).collect();
        // First those that wait: no lock goes to one that is gone, which would take with it that the lock was abandoned.
        let (holding, waiting): (Vec<_>, Vec<_>) = gone.into_iter().partition(|who| self.has(*who));
        waiting.into_iter().chain(holding).for_each(|who| self.let_go(who, Parting::Dead));
        self.grants.retain(|grant| grant.who.link != link);
    }

    /// Whether one has the lock that it asked for.
    fn has(&self, who: Claimant) -> bool {
        self.held(who).is_some()
    }

    /// The lock that one has, and how.
    pub fn held(&self, who: Claimant) -> Option<(&str, Mode)> {
        let name = self.claims.get(&who)?;
        let lock = self.locks.get(name).filter(|lock| lock.is_held_by(who))?;
        Some((name, if lock.phase() == Phase::Alone { Mode::Exclusive } else { Mode::Shared }))
    }

    /// The next grant to one that waited.
    pub fn poll(&mut self) -> Option<Grant> {
        self.grants.pop_front()
    }

    fn let_go(&mut self, who: Claimant, how: Parting) {
        let Some(name) = self.claims.remove(&who) else { return };
        one_less(&mut self.links, who.link);
        let lock = self.locks.get_mut(&name).expect("a claim is on a lock that is kept");
        lock.let_go(who, how);
        lock.advance(&mut self.grants);
        match lock.phase() {
            Phase::Free => drop(self.locks.remove(&name)),
            Phase::Orphaned => {
                self.orphans += 1;
                lock.orphaned = self.orphans;
            }
            Phase::Shared | Phase::Alone => {}
        }
    }

    /// A lock, made when it is not there yet.
    fn lock(&mut self, name: &str) -> Result<&mut Lock> {
        if !self.locks.contains_key(name) && self.locks.len() >= LOCK_COUNT_MAX {
            let orphaned = self.locks.iter().filter(|(_, lock)| lock.phase() == Phase::Orphaned);
            let Some(oldest) = orphaned.min_by_key(|(_, lock)| lock.orphaned).map(|(name, _)| name.clone()) else {
                return Err(Error::LimitReached { what: "locks held at once".to_owned(), limit: LOCK_COUNT_MAX as u64 });
            };
            self.locks.remove(&oldest);
        }
        let is_doubtful = match &mut self.known {
            Some(known) if known.len() < LOCK_COUNT_MAX => known.insert(name.to_owned()),
            _ => false,
        };
        let lock = self.locks.entry(name.to_owned()).or_insert_with(Lock::new);
        if is_doubtful {
            lock.step(Event::Doubt, |lock| lock.state = State::Free { abandoned: true });
        }
        Ok(lock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn who(link: u64, number: u64) -> Claimant {
        Claimant { link, number }
    }

    /// One thread a link.
    fn claim(link: u64, number: u64, mode: Mode) -> Claim {
        Claim { who: who(link, number), thread: 0, mode }
    }

    const GRANTED: Result<Claimed> = Ok(Claimed::Granted { abandoned: false });
    const WAITS: Result<Claimed> = Ok(Claimed::Waits);

    fn grants(locks: &mut Locks) -> Vec<(u64, bool)> {
        std::iter::from_fn(|| locks.poll()).map(|grant| (grant.who.link, grant.abandoned)).collect()
    }

    use Mode::{Exclusive, Shared};

    #[test]
    fn the_table_is_this() {
        assert_eq!(table::contradiction(TABLE), None);
        assert_eq!(
            table::print(TABLE),
            "\
Enter          Free, Orphaned, Shared             -> Shared
Take           Free, Orphaned                     -> Alone
Wait           Shared                             -> Shared
Wait           Alone                              -> Alone
Quit           Shared                             -> Shared
Quit           Alone                              -> Alone
Part           Shared                             -> Shared
Last           Shared                             -> Free
Give           Alone                              -> Free
Die            Alone                              -> Orphaned
Waive          Shared, Alone                      -> Orphaned
Doubt          Free                               -> Orphaned
"
        );
    }

    #[test]
    fn who_comes_first_is_served_first_and_sharers_do_not_overtake() {
        let mut locks = Locks::new();
        assert_eq!(locks.on_lock("a", claim(1, 0, Shared), true), GRANTED);
        assert_eq!(locks.on_lock("a", claim(2, 0, Shared), true), GRANTED);
        assert_eq!(locks.on_lock("a", claim(3, 0, Exclusive), true), WAITS);
        assert_eq!(locks.on_lock("a", claim(4, 0, Shared), true), WAITS, "it would overtake");
        assert_eq!(locks.on_lock("a", claim(5, 0, Shared), true), WAITS);
        assert_eq!(locks.on_lock("a", claim(6, 0, Exclusive), true), WAITS);
        assert_eq!(locks.on_lock("a", claim(7, 0, Shared), false), Ok(Claimed::Busy));
        locks.on_unlock(who(1, 0)).unwrap();
        assert_eq!(grants(&mut locks), []);
        locks.on_unlock(who(2, 0)).unwrap();
        assert_eq!(grants(&mut locks), [(3, false)]);
        locks.on_unlock(who(3, 0)).unwrap();
        assert_eq!(grants(&mut locks), [(4, false), (5, false)]);
        locks.on_unlock(who(4, 0)).unwrap();
        locks.on_unlock(who(5, 0)).unwrap();
        assert_eq!(grants(&mut locks), [(6, false)]);
        locks.on_unlock(who(6, 0)).unwrap();
        assert_eq!((locks.count(), locks.claims.len()), (0, 0), "nothing is kept");
    }

    #[test]
    fn a_dead_holders_lock_is_granted_on_and_the_next_is_told_once() {
        let mut locks = Locks::new();
        assert_eq!(locks.on_lock("a", claim(1, 0, Exclusive), true), GRANTED);
        assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
        assert_eq!(locks.on_lock("a", claim(3, 0, Exclusive), true), WAITS);
        locks.on_link_gone(1);
        assert_eq!(grants(&mut locks), [(2, true)]);
        locks.on_unlock(who(2, 0)).unwrap();
        assert_eq!(grants(&mut locks), [(3, false)]);
        locks.on_link_gone(3);
        assert_eq!(locks.phase("a"), Phase::Orphaned);
        assert_eq!(locks.on_lock("a", claim(4, 0, Shared), true), Ok(Claimed::Granted { abandoned: true }));
        assert_eq!(locks.on_lock("a", claim(5, 0, Shared), true), GRANTED);
        locks.on_link_gone(4);
        locks.on_link_gone(5);
        assert_eq!(locks.count(), 0, "who only read leaves nothing half-written");
    }

    /// Found by the simulator: the second thread was granted the lock before it was found to be gone too, and was the one told.
    #[test]
    fn threads_that_die_together_do_not_take_with_them_that_a_lock_was_abandoned() {
        for waiter in [Shared, Exclusive] {
            let mut locks = Locks::new();
            assert_eq!(locks.on_lock("a", claim(1, 0, Exclusive), true), GRANTED);
            let other = Claim { thread: 1, ..claim(1, 1, waiter) };
            assert_eq!(locks.on_lock("a", other, true), WAITS);
            assert_eq!(locks.on_lock("a", claim(2, 0, Shared), true), WAITS);
            locks.on_link_gone(1);
            assert_eq!(grants(&mut locks), [(2, true)], "the one that is there, and nobody who is gone");
        }
        // Nor does one that only waited abandon anything.
        let mut locks = Locks::new();
        assert_eq!(locks.on_lock("a", claim(1, 0, Shared), true), GRANTED);
        assert_eq!(locks.on_lock("a", Claim { thread: 1, ..claim(1, 1, Exclusive) }, true), WAITS);
        assert_eq!(locks.on_lock("a", claim(2, 0, Shared), true), WAITS);
        locks.on_link_gone(1);
        assert_eq!(grants(&mut locks), [(2, false)]);
    }

    #[test]
    fn the_first_to_take_a_lock_at_a_home_that_began_again_is_told_that_somebody_may_have_it() {
        let mut locks = Locks::after_another_life();
        assert_eq!(locks.on_lock("a", claim(1, 0, Exclusive), false), Ok(Claimed::Granted { abandoned: true }));
        assert_eq!(locks.on_lock("a", claim(2, 0, Shared), true), WAITS);
        locks.on_unlock(who(1, 0)).unwrap();
        assert_eq!(grants(&mut locks), [(2, false)], "the next is not told");
        locks.on_unlock(who(2, 0)).unwrap();
        assert_eq!(locks.count(), 0);
        assert_eq!(locks.on_lock("a", claim(3, 0, Shared), true), GRANTED, "its being free is known");
        assert_eq!(locks.on_lock("b", claim(4, 0, Shared), true), Ok(Claimed::Granted { abandoned: true }));
        assert_eq!(locks.on_lock("b", claim(5, 0, Shared), true), GRANTED);
    }

    #[test]
    fn the_names_that_a_home_remembers_after_it_began_again_are_bounded() {
        let mut locks = Locks::after_another_life();
        for number in 0..=LOCK_COUNT_MAX as u64 {
            let granted = locks.on_lock(&format!("lock{number}"), claim(number, 0, Exclusive), true);
            assert_eq!(granted, Ok(Claimed::Granted { abandoned: number < LOCK_COUNT_MAX as u64 }));
            locks.on_unlock(who(number, 0)).unwrap();
        }
        assert_eq!(locks.known.as_ref().map(BTreeSet::len), Some(LOCK_COUNT_MAX));
        assert_eq!(locks.on_lock("lock7", claim(7, 1, Exclusive), true), GRANTED);
    }

    #[test]
    fn who_gives_up_takes_nothing_with_it_that_others_must_hear() {
        for (mode, next) in [(Exclusive, Exclusive), (Shared, Exclusive), (Exclusive, Shared), (Shared, Shared)] {
            let mut locks = Locks::new();
            assert_eq!(locks.on_lock("a", claim(1, 0, Exclusive), true), GRANTED);
            locks.on_link_gone(1);
            assert_eq!(locks.on_lock("a", claim(2, 0, mode), true), Ok(Claimed::Granted { abandoned: true }));
            if mode == Shared {
                // Another shares it, not told, and goes on when the first one's answer is not waited for any more.
                assert_eq!(locks.on_lock("a", claim(3, 0, Shared), true), GRANTED);
            }
            locks.on_withdraw(who(2, 0));
            if mode == Shared {
                locks.on_unlock(who(3, 0)).unwrap();
            }
            assert_eq!(locks.phase("a"), Phase::Orphaned);
            assert_eq!(locks.on_lock("a", claim(4, 0, next), true), Ok(Claimed::Granted { abandoned: true }));
            locks.on_withdraw(who(4, 1));
            locks.on_unlock(who(4, 0)).unwrap();
            assert_eq!(locks.count(), 0);
        }
        let mut locks = Locks::new();
        assert_eq!(locks.on_lock("a", claim(1, 0, Shared), true), GRANTED);
        assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
        assert_eq!(locks.on_lock("a", claim(3, 0, Shared), true), WAITS);
        locks.on_withdraw(who(2, 0));
        assert_eq!(grants(&mut locks), [(3, false)], "who it kept out may enter");
        locks.on_withdraw(who(3, 0));
        locks.on_withdraw(who(1, 0));
        assert_eq!((locks.count(), locks.claims.len()), (0, 0), "nothing is kept");
    }

    #[test]
    fn one_that_waits_and_goes_or_gives_up_is_not_waited_for() {
        let mut locks = Locks::new();
        assert_eq!(locks.on_lock("a", claim(1, 0, Shared), true), GRANTED);
        assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
        assert_eq!(locks.on_lock("a", claim(3, 0, Shared), true), WAITS);
        assert_eq!(locks.on_bound(who(2, 0)), Some("a".to_owned()));
        assert_eq!(grants(&mut locks), [(3, false)], "who it kept out may enter");
        assert_eq!(locks.on_bound(who(3, 0)), None, "it has the lock by now");
        assert_eq!(locks.on_lock("a", claim(4, 0, Exclusive), true), WAITS);
        assert_eq!(locks.on_lock("a", claim(5, 0, Shared), true), WAITS);
        locks.on_link_gone(4);
        assert_eq!(grants(&mut locks), [(5, false)]);
    }

    #[test]
    fn misuse_is_an_error_and_changes_nothing() {
        let mut locks = Locks::new();
        let misused = |outcome: Result<Claimed>, word: &str| {
            let text = outcome.unwrap_err().to_string();
            assert!(text.contains("'a'") && text.contains(word), "{text}");
        };
        locks.on_lock("a", claim(1, 0, Exclusive), true).unwrap();
        misused(locks.on_lock("a", claim(1, 1, Exclusive), true), "already");
        misused(locks.on_lock("a", claim(1, 1, Shared), true), "already");
        misused(locks.on_lock("a", claim(1, 0, Shared), true), "number");
        assert!(matches!(locks.on_unlock(who(1, 1)), Err(Error::LockMisused { .. })));
        let other_thread = Claim { thread: 1, ..claim(1, 2, Exclusive) };
        assert_eq!(locks.on_lock("a", other_thread, true), WAITS);
        assert!(matches!(locks.on_unlock(who(1, 2)), Err(Error::LockMisused { .. })), "it only waits");
        locks.on_unlock(who(1, 0)).unwrap();
        assert_eq!(grants(&mut locks), [(1, false)]);
        assert!(matches!(locks.on_unlock(who(1, 0)), Err(Error::LockMisused { .. })));
        locks.on_unlock(who(1, 2)).unwrap();
        locks.on_lock("a", claim(1, 3, Shared), true).unwrap();
        misused(locks.on_lock("a", claim(1, 4, Exclusive), true), "shares");
    }

    #[test]
    fn beyond_the_limit_abandoned_locks_are_forgotten_and_held_ones_are_not() {
        let mut locks = Locks::new();
        for link in 0..LOCK_COUNT_MAX as u64 {
            locks.on_lock(&format!("lock{link}"), claim(link, 0, Exclusive), true).unwrap();
        }
        let refused = locks.on_lock("more", claim(u64::MAX, 0, Exclusive), true);
        assert!(matches!(refused, Err(Error::LimitReached { limit, .. }) if limit == LOCK_COUNT_MAX as u64));
        locks.on_link_gone(7);
        locks.on_link_gone(3);
        assert_eq!(locks.on_lock("more", claim(u64::MAX, 0, Exclusive), true), GRANTED);
        assert_eq!((locks.phase("lock7"), locks.phase("lock3")), (Phase::Free, Phase::Orphaned), "the oldest went");
    }

    #[test]
    fn one_connection_does_not_take_all_there_is() {
        let mut locks = Locks::new();
        for number in 0..LINK_CLAIM_COUNT_MAX as u64 {
            locks.on_lock(&format!("lock{number}"), claim(1, number, Exclusive), true).unwrap();
        }
        let refused = locks.on_lock("more", claim(1, u64::MAX, Exclusive), true);
        assert!(matches!(refused, Err(Error::LimitReached { limit, .. }) if limit == LINK_CLAIM_COUNT_MAX as u64));
        assert_eq!(locks.on_lock("more", claim(2, 0, Exclusive), true), GRANTED);
        locks.on_unlock(who(1, 0)).unwrap();
        assert_eq!(locks.on_lock("again", claim(1, u64::MAX, Exclusive), true), GRANTED);
    }

    /// The rules again, as plainly as they can be said: one list of claims in order of arrival, the first of which have the lock.
    #[derive(Default)]
    struct Plain {
        claims: Vec<(Claim, bool)>,
        abandoned: bool,
    }

    impl Plain {
        fn grant(&mut self) -> Vec<(u64, bool)> {
            let mut granted = Vec::new();
            for at in 0..self.claims.len() {
                let (claim, has) = self.claims[at];
                let others_share = self.claims[..at].iter().all(|(other, has)| *has && other.mode == Shared);
                let may = at == 0 || claim.mode == Shared && others_share;
                if may && !has {
                    self.claims[at].1 = true;
                    granted.push((claim.who.link, std::mem::take(&mut self.abandoned)));
                }
            }
            granted
        }

        fn remove(&mut self, link: u64, died: bool) -> Vec<(u64, bool)> {
            self.claims.retain(|(claim, has)| {
                let is_it = claim.who.link == link;
                self.abandoned |= is_it && died && *has && claim.mode == Exclusive;
                !is_it
            });
            self.grant()
        }
    }

    proptest! {
        #[test]
        fn any_history_is_as_the_plain_rules_say(steps in prop::collection::vec((0..6u64, 0..5u32, any::<bool>()), 1..200)) {
            let (mut locks, mut plain) = (Locks::new(), Plain::default());
            // Each link is one thread that is in one place at a time; a dead one comes back under another number.
            let mut number = 0;
            for (link, action, exclusive) in steps {
                let at = plain.claims.iter().position(|(claim, _)| claim.who.link == link);
                let (told, wanted) = match (action, at) {
                    (0 | 1, None) => {
                        number += 1;
                        let claim = claim(link, number, if exclusive { Exclusive } else { Shared });
                        let claimed = locks.on_lock("a", claim, action == 0).unwrap();
                        plain.claims.push((claim, false));
                        let mut wanted = plain.grant();
                        if wanted.is_empty() && action == 1 {
                            prop_assert_eq!(claimed, Claimed::Busy);
                            wanted = plain.remove(link, false);
                        }
                        let told = match claimed {
                            Claimed::Granted { abandoned } => vec![(link, abandoned)],
                            Claimed::Busy | Claimed::Waits => Vec::new(),
                        };
                        (told, wanted)
                    }
                    (2, Some(at)) if plain.claims[at].1 => {
                        locks.on_unlock(plain.claims[at].0.who).unwrap();
                        (grants(&mut locks), plain.remove(link, false))
                    }
                    (3, Some(_)) => {
                        locks.on_link_gone(link);
                        (grants(&mut locks), plain.remove(link, true))
                    }
                    (4, Some(at)) if !plain.claims[at].1 => {
                        prop_assert!(locks.on_bound(plain.claims[at].0.who).is_some());
                        (grants(&mut locks), plain.remove(link, false))
                    }
                    _ => continue,
                };
                prop_assert_eq!(told, wanted);
                prop_assert_eq!(grants(&mut locks), vec![]);
                let kept = usize::from(!plain.claims.is_empty() || plain.abandoned);
                prop_assert_eq!((locks.count(), locks.claims.len()), (kept, plain.claims.len()));
            }
        }
    }
}
