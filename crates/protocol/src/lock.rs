//! Locks. They decide for clients which has a lock, which is next, and that nobody waits for a holder that is gone.
//!
//! Locks live at the pool's home node, and at each node for locks at bytes of its extents. A lock is taken exclusively, or shared with
//! others that share it. The first come is served first. A claim to share does not overtake one that waits to have it alone.
//!
//! ```text
//!             Enter                 Take
//!      +---------------- Free ----------------+
//!      |    Last         ^  ^        Give     |
//!      |  +--------------+  +---------------+ |
//!      v  |                                 | v
//!     Shared <---- Enter ---- Orphaned ---- Take ---> Alone ---- Lend ---> Leased
//!      (Enter, Part, Wait, Quit)   ^  ^  ^          (Wait, Quit)            |  |
//!       |                          |  |  +-- Die, Waive --+ ^              |  |
//!       +--------- Waive ----------+  +---- Doubt           +--- Insist -- Recalled <- Wait, Recall
//!                                  ^        (from Free)                    |  |  (Wait, Quit)
//!                                  +------- Die, Waive --------------------+  | Cut
//!                                  +------- Die ----------- Detached <--------+
//! ```
//!
//! | event | what follows |
//! |---|---|
//! | `Enter`, `Take` | the grant; from `Orphaned` it says that the lock was abandoned, to this one alone |
//! | `Wait` | nothing yet |
//! | `Part`, `Last`, `Give`, `Die` | when that leaves the lock free: grants to the first in the queue |
//! | `Quit` | when that was the first in the queue: grants to the next ones that may enter |
//! | `Waive` | as `Give`; the next grant tells of the abandonment that the claimant before did not hear of |
//! | `Doubt` | the grant to the first that asks, which says that the lock was abandoned |
//! | `Lend` | its holder may give it back and take it again without a message: see [`lease`] |
//! | `Wait` or `Recall` of a leased lock, `Cut` | the home asks the holder's node whether it is held; from there on it is not taken unasked |
//! | `Yield` | it was only kept: as `Give`, from `Recalled` and `Detached` to `Free` |
//! | `Insist` | it is held, and will be given back by a message; a claimant that would not wait hears that others have it |
//!
//! A home that began again has lost its locks. Holders of its life before may still be at work: they do not know, and no deadline ends
//! them. So the first taker of each lock is told that it was abandoned. Waiting would cost every first taker a lease, and still let it in
//! beside a holder that takes longer. The same holds for locks at bytes with copies whose home was lost: see [`Locks::doubt_bytes`].
//!
//! The home grants a lease to an exclusive holder while nobody waits: if several want it in turn, recalls cost more than they save. A claim
//! during a lease waits in the queue, and the recall begins at once: order of arrival stays. If a node does not answer a recall, the home
//! waits until no lease of that host can hold, [`RECALL_MS`](crate::limits::RECALL_MS). Then the holder counts as dead, because nobody
//! knows. A home that is not the pool's home asks by way of that one. It waits longer, [`FAR_RECALL_MS`](crate::limits::FAR_RECALL_MS), and
//! gives nobody up while it is no member itself ([`RecallTimes`]).
//!
//! A lock that is free and was not abandoned is not kept. A reader that dies changed nothing, so it leaves like a reader that parts. A
//! death also gives back a place of a semaphore ([`Mode::OneOf`]), and the next taker of a place is told.
//!
//! A lock lies at a name, or at a byte of a region ([`name_of_byte`](crate::name::name_of_byte)); it is the same machine. An exclusive
//! holder may give it back and wait for a *condition* of it: see [`conditions`].

pub mod conditions;
mod doubted;
pub mod lease;
mod line;
mod listing;
mod parting;
mod recalls;
mod state;

pub use lease::Recalled;
pub use listing::Listed;
pub use recalls::{RecallDue, RecallTimes};

use crate::error::{Error, Result};
use crate::limits::{CLAIM_COUNT_MAX, LEASED_LOCK_COUNT_MAX, LINK_CLAIM_COUNT_MAX, LOCK_COUNT_MAX};
use crate::table::Row;
use conditions::Sleepers;
use doubted::Doubted;
pub(crate) use line::one_less;
use serde::{Deserialize, Serialize};
use state::{Lock, Parting, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// Sharing of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// No other claimant has it.
    Exclusive,
    /// Others may have it in this mode.
    Shared,
    /// At most this number have it in this mode: a semaphore. A claim with another number waits until it is free.
    OneOf(u32),
}

/// The states of a lock, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The lock is free.
    Free,
    /// The lock is free, and its last exclusive holder died with it.
    Orphaned,
    /// Some share it.
    Shared,
    /// The lock has one exclusive holder.
    Alone,
    /// The lock has an exclusive holder, or a lease; nobody waits.
    Leased,
    /// The same, and its node is asked which.
    Recalled,
    /// The same of one whose connection has ended.
    Detached,
}

/// An event of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A claimant gets it to share.
    Enter,
    /// A claimant gets it alone.
    Take,
    /// A claimant joins the queue.
    Wait,
    /// A claimant leaves the queue, because its time is over or it is gone.
    Quit,
    /// A sharing holder gives it back, or is gone.
    Part,
    /// The last that shared it gives it back, or is gone.
    Last,
    /// The one that had it alone gives it back.
    Give,
    /// The one that had it alone is gone.
    Die,
    /// The last one goes that has it, and somebody was told of an abandonment in vain. It had given up waiting.
    Waive,
    /// The first claim at a home that began again: an earlier holder may have it.
    Doubt,
    /// The one that has it alone may keep it when it gives it back.
    Lend,
    /// The lease is recalled, though nobody waits.
    Recall,
    /// The connection of the one that it is leased to ended.
    Cut,
    /// The one that it was leased to has not got it, and gives it up.
    Yield,
    /// The one that it was leased to has it.
    Insist,
}

/// Every transition of a lock.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Enter, from: &[Phase::Free, Phase::Orphaned, Phase::Shared], to: Phase::Shared },
    Row { event: Event::Take, from: &[Phase::Free, Phase::Orphaned], to: Phase::Alone },
    Row { event: Event::Wait, from: &[Phase::Shared], to: Phase::Shared },
    Row { event: Event::Wait, from: &[Phase::Alone], to: Phase::Alone },
    Row { event: Event::Wait, from: &[Phase::Leased, Phase::Recalled], to: Phase::Recalled },
    Row { event: Event::Wait, from: &[Phase::Detached], to: Phase::Detached },
    Row { event: Event::Quit, from: &[Phase::Shared], to: Phase::Shared },
    Row { event: Event::Quit, from: &[Phase::Alone], to: Phase::Alone },
    Row { event: Event::Quit, from: &[Phase::Recalled], to: Phase::Recalled },
    Row { event: Event::Quit, from: &[Phase::Detached], to: Phase::Detached },
    Row { event: Event::Part, from: &[Phase::Shared], to: Phase::Shared },
    Row { event: Event::Last, from: &[Phase::Shared], to: Phase::Free },
    Row { event: Event::Give, from: &[Phase::Alone, Phase::Leased, Phase::Recalled], to: Phase::Free },
    Row { event: Event::Die, from: &[Phase::Alone, Phase::Recalled, Phase::Detached], to: Phase::Orphaned },
    Row { event: Event::Waive, from: &[Phase::Shared, Phase::Alone, Phase::Leased, Phase::Recalled], to: Phase::Orphaned },
    Row { event: Event::Doubt, from: &[Phase::Free], to: Phase::Orphaned },
    Row { event: Event::Lend, from: &[Phase::Alone], to: Phase::Leased },
    Row { event: Event::Recall, from: &[Phase::Leased], to: Phase::Recalled },
    Row { event: Event::Cut, from: &[Phase::Leased, Phase::Recalled], to: Phase::Detached },
    Row { event: Event::Yield, from: &[Phase::Recalled, Phase::Detached], to: Phase::Free },
    Row { event: Event::Insist, from: &[Phase::Recalled], to: Phase::Alone },
];

/// A taker of a lock, or a party of a group. It is a client's connection, and the client's number, never used twice on it.
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

/// A claimant's request for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The claimant.
    pub who: Claimant,
    /// Its thread: a thread does not wait for itself.
    pub thread: u64,
    /// The mode to have the lock in.
    pub mode: Mode,
}

/// Immediate result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The claimant has the lock.
    Granted {
        /// True if its last exclusive holder died with it.
        abandoned: bool,
    },
    /// Others have it, and it would not wait.
    Busy,
    /// Its answer follows by [`Locks::poll`].
    Waits,
}

/// Message to a claimant that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockGrant {
    /// The claimant.
    pub who: Claimant,
    /// True if the lock's last exclusive holder died with it.
    pub abandoned: bool,
}

/// Result of asking a node about a lock's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecallStep {
    /// The node of this taking is to be asked, until there is an answer.
    Begin(Claimant),
    /// The node need not be asked any more.
    End(Claimant),
}

/// The locks of a home.
///
/// A lock is made when it is taken first. Those that were abandoned are forgotten when there are too many, the oldest first. Their next
/// holder is then told nothing. As many names are remembered as known by a home that began again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Locks {
    locks: BTreeMap<String, Lock>,
    /// The lock of each that has or waits for one.
    claims: BTreeMap<Claimant, String>,
    /// Number of claims of each connection.
    links: BTreeMap<u64, usize>,
    orphans: u64,
    grants: VecDeque<LockGrant>,
    /// Claims without a wait that found a leased lock held.
    busy: VecDeque<Claimant>,
    recalls: VecDeque<RecallStep>,
    /// The locks that were leased over connections that ended.
    detached: BTreeMap<Claimant, String>,
    /// Names that were asked for, at a home that began again; `None` where there was no life before.
    known: Option<BTreeSet<String>>,
    /// Locks that may be held from an earlier life, or at another home.
    doubted: Doubted,
    /// Claimants that wait for a condition.
    sleepers: Sleepers,
}

impl Locks {
    /// No lock yet, at the home of a pool that begins.
    pub fn new() -> Locks {
        Locks::default()
    }

    /// No lock is known, at a home that began again: clients may have some from before.
    pub fn after_another_life() -> Locks {
        Locks { known: Some(BTreeSet::new()), doubted: Doubted { names: true, ..Doubted::default() }, ..Locks::default() }
    }

    /// Number of locks that are held, waited for or abandoned.
    pub fn count(&self) -> usize {
        self.locks.len()
    }

    /// Number of a connection's takings.
    pub fn count_of(&self, link: u64) -> usize {
        self.links.get(&link).copied().unwrap_or_default()
    }

    /// The state of a lock.
    pub fn phase(&self, name: &str) -> Phase {
        self.locks.get(name).map_or(Phase::Free, Lock::phase)
    }

    /// Claims a lock, and waits for it where `waits`.
    ///
    /// **Cost**: a search among the locks' names. **Errors**: [`Error::LockMisused`] where its thread has the lock already,
    /// in either mode; [`Error::LimitReached`] for too many locks, or claims.
    pub fn on_lock(&mut self, name: &str, claim: Claim, waits: bool) -> Result<Claimed> {
        let misused = |reason: &str| Err(Error::LockMisused { name: name.to_owned(), reason: reason.to_owned() });
        if self.is_used(claim.who) {
            return misused("the number of this taking has been used before");
        }
        if claim.mode == Mode::OneOf(0) {
            return misused("nobody can have one of no places");
        }
        if self.claims.len() + self.sleepers.len() >= CLAIM_COUNT_MAX {
            return Err(Error::LimitReached { what: "takings of locks".to_owned(), limit: CLAIM_COUNT_MAX as u64 });
        }
        if self.count_of(claim.who.link) == LINK_CLAIM_COUNT_MAX {
            return Err(Error::LimitReached { what: "locks of one client".to_owned(), limit: LINK_CLAIM_COUNT_MAX as u64 });
        }
        match (self.locks.get(name).and_then(|lock| lock.held_by(claim.who.link, claim.thread)), claim.mode) {
            (None, _) => {}
            (Some(Mode::Shared | Mode::OneOf(_)), Mode::Exclusive) => {
                return misused(
                    "this thread shares it, and two that wait so would wait for ever; give it back, then take it exclusively",
                );
            }
            (Some(_), _) => return misused("this thread has it already and would wait for itself; give it back first"),
        }
        let lock = self.lock(name)?;
        let is_open = lock.is_open_to(claim.mode);
        if !is_open && !waits && !lock.is_out() {
            return Ok(Claimed::Busy);
        }
        self.claims.insert(claim.who, name.to_owned());
        *self.links.entry(claim.who.link).or_default() += 1;
        Ok(self.change(name, |lock| match is_open {
            true => Claimed::Granted { abandoned: lock.grant(claim) },
            false => {
                lock.wait(claim, waits);
                Claimed::Waits
            }
        }))
    }

    /// Asks for a lease at once after a grant. Returns true if it is given: the claimant has the lock alone, nobody waits, and not too
    /// many leases exist.
    pub fn on_lend(&mut self, who: Claimant) -> bool {
        if self.locks.len() > LEASED_LOCK_COUNT_MAX || !self.has(who) {
            return false;
        }
        let name = self.claims[&who].clone();
        self.change(&name, Lock::lend)
    }

    /// Recalls the lease of a lock though nobody waits for it, because the rights to take it have changed.
    pub fn on_recall(&mut self, name: &str) {
        if self.locks.contains_key(name) {
            self.change(name, Lock::recall);
        }
    }

    /// Takes the outcome of a recall: the node's reply, or long silence ([`RecallDue::Over`]), which is [`Recalled::Unknown`]. The
    /// program itself may say, asked or not, that it did not hold the lock. A taking without the lease changes nothing.
    pub fn on_recalled(&mut self, who: Claimant, recalled: Recalled) {
        let Some(name) = self.claims.get(&who).or_else(|| self.detached.get(&who)).cloned() else { return };
        if recalled == Recalled::Kept && self.locks[&name].is_held_by(who) {
            self.change(&name, Lock::recall);
        }
        if self.locks[&name].asked() != Some(who) {
            return;
        }
        let has_detached = self.detached.remove(&who).is_some();
        if !has_detached && recalled != Recalled::Held {
            self.claims.remove(&who);
            one_less(&mut self.links, who.link);
        }
        self.change(&name, |lock| lock.on_recalled(recalled));
    }

    /// Gives a lock back.
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

    /// Withdraws a claimant that stopped waiting and may have been granted the lock. It leaves the queue, or gives the lock back as it was.
    /// A claimant that neither waits nor has the lock changes nothing.
    pub fn on_withdraw(&mut self, who: Claimant) {
        self.forget_sleeper(who);
        self.let_go(who, Parting::Unused);
        self.grants.retain(|grant| grant.who != who);
        self.busy.retain(|busy| *busy != who);
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

    /// True if the claimant has the lock that it asked for.
    fn has(&self, who: Claimant) -> bool {
        self.held(who).is_some()
    }

    /// The lock that one has, and how.
    pub fn held(&self, who: Claimant) -> Option<(&str, Mode)> {
        let name = self.claims.get(&who)?;
        let lock = self.locks.get(name).filter(|lock| lock.is_held_by(who))?;
        Some((name, lock.mode()))
    }

    /// The lock that is leased by a taking, also over a connection that ended.
    pub fn leased(&self, who: Claimant) -> Option<&str> {
        let name = self.claims.get(&who).or_else(|| self.detached.get(&who))?;
        self.locks.get(name).filter(|lock| lock.is_leased_to(who)).map(|_| name.as_str())
    }

    /// True if the taking has a lease and nobody wants the lock.
    pub fn may_keep(&self, who: Claimant) -> bool {
        self.leased(who).is_some_and(|name| self.phase(name) == Phase::Leased)
    }

    /// The next grant to one that waited.
    pub fn poll(&mut self) -> Option<LockGrant> {
        self.grants.pop_front()
    }

    /// The next that would not wait, and is told that others have the lock.
    pub fn poll_busy(&mut self) -> Option<Claimant> {
        self.busy.pop_front()
    }

    /// The next that nodes are to be asked, or not any more.
    pub fn poll_recall(&mut self) -> Option<RecallStep> {
        self.recalls.pop_front()
    }

    /// Calls `act` on a lock that is kept, then serves the claimants that wait, and notes recalls that follow.
    fn change<R>(&mut self, name: &str, act: impl FnOnce(&mut Lock) -> R) -> R {
        let lock = self.locks.get_mut(name).expect("a claim is on a lock that is kept");
        let (asked, mut busy) = (lock.asked(), Vec::new());
        let done = act(lock);
        lock.advance(&mut self.grants, &mut busy);
        if lock.phase() == Phase::Orphaned {
            // The dead claimant may be the one to notify them.
            for claim in self.sleepers.wake_all_of(name) {
                self.claims.insert(claim.who, name.to_owned());
                lock.enter(claim, &mut self.grants);
            }
        }
        for who in busy {
            self.claims.remove(&who);
            one_less(&mut self.links, who.link);
            self.busy.push_back(who);
        }
        if asked != lock.asked() {
            self.recalls.extend(asked.map(RecallStep::End));
            self.recalls.extend(lock.asked().map(RecallStep::Begin));
        }
        match lock.phase() {
            Phase::Free => drop(self.locks.remove(name)),
            Phase::Orphaned => {
                self.orphans += 1;
                lock.orphaned = self.orphans;
            }
            _ => {}
        }
        done
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
        let may_be_held = self.doubted.has(name);
        let is_doubtful = match &mut self.known {
            Some(known) if may_be_held && known.len() < LOCK_COUNT_MAX => known.insert(name.to_owned()),
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
mod explore;
#[cfg(test)]
mod tests;
