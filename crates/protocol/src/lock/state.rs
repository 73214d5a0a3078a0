//! A lock at its home: holders, lease and queue.

use super::line::Line;
use super::{Claim, Claimant, Event, LockGrant, Mode, Phase, Recalled, TABLE};
use crate::table;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The thread of a lock that is leased: any of the program's may have it.
const ANY_THREAD: u64 = u64::MAX;

/// A holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holder {
    pub claim: Claim,
    /// True if its grant says that the lock was abandoned.
    pub is_told: bool,
}

/// Manner of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parting {
    InOrder,
    Dead,
    /// The claimant gave up waiting before it heard of its grant.
    Unused,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    Free {
        abandoned: bool,
    },
    Shared {
        /// Their common mode.
        mode: Mode,
        /// The sharing holders; never empty.
        holders: BTreeMap<Claimant, Holder>,
        /// True if the next grant says that the lock was abandoned: an earlier grant that said so was not heard.
        abandoned: bool,
    },
    Alone {
        holder: Holder,
    },
    /// The claimant holds it or has its lease, and its program may take it again unasked.
    Leased {
        holder: Holder,
        /// True if its node was asked to take it back.
        is_recalled: bool,
    },
    /// The lease is from a connection that ended, and the node is asked if the lock was held.
    Detached {
        who: Claimant,
    },
}

/// A lock.
///
/// - The queue is empty where the lock is free.
/// - The queue is empty where the lock is leased and not recalled.
/// - While several share the lock, there is no place beside them for the first in the queue.
/// - All of `tries` are in the queue, and the lock is recalled or detached where there are any.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lock {
    pub state: State,
    pub queue: Line,
    /// Queued claims that would not wait for a holder: they wait until it is known if there is one.
    tries: BTreeSet<Claimant>,
    /// Order of abandonment, for forgetting the oldest.
    pub orphaned: u64,
}

impl Lock {
    pub fn new() -> Lock {
        Lock { state: State::Free { abandoned: false }, queue: Line::default(), tries: BTreeSet::new(), orphaned: 0 }
    }

    pub fn phase(&self) -> Phase {
        match &self.state {
            State::Free { abandoned: false } => Phase::Free,
            State::Free { abandoned: true } => Phase::Orphaned,
            State::Shared { .. } => Phase::Shared,
            State::Alone { .. } => Phase::Alone,
            State::Leased { is_recalled: false, .. } => Phase::Leased,
            State::Leased { is_recalled: true, .. } => Phase::Recalled,
            State::Detached { .. } => Phase::Detached,
        }
    }

    /// The taking whose node is asked whether it holds the lock.
    pub fn asked(&self) -> Option<Claimant> {
        match &self.state {
            State::Leased { holder, is_recalled: true } => Some(holder.claim.who),
            State::Detached { who } => Some(*who),
            _ => None,
        }
    }

    /// Makes a transition of the table.
    pub fn step(&mut self, event: Event, change: impl FnOnce(&mut Lock)) {
        let from = self.phase();
        change(self);
        assert_eq!(table::next(TABLE, from, event), Some(self.phase()), "{event:?} in {from:?}");
    }

    /// The mode in which a client's thread has it, if it does. **Cost**: a look at each that the client has.
    pub fn held_by(&self, link: u64, thread: u64) -> Option<Mode> {
        let is_its = |holder: &Holder| (holder.claim.who.link, holder.claim.thread) == (link, thread);
        match &self.state {
            State::Free { .. } | State::Leased { .. } | State::Detached { .. } => None,
            State::Shared { holders, mode, .. } => {
                holders.range(Claimant::all_of(link)).any(|(_, holder)| is_its(holder)).then_some(*mode)
            }
            State::Alone { holder } => is_its(holder).then_some(Mode::Exclusive),
        }
    }

    /// True if the claimant has it, or its lease.
    pub fn is_held_by(&self, who: Claimant) -> bool {
        match &self.state {
            State::Free { .. } | State::Detached { .. } => false,
            State::Shared { holders, .. } => holders.contains_key(&who),
            State::Alone { holder } | State::Leased { holder, .. } => holder.claim.who == who,
        }
    }

    /// True if the claimant has its lease, also from a connection that ended.
    pub fn is_leased_to(&self, who: Claimant) -> bool {
        match &self.state {
            State::Leased { holder, .. } => holder.claim.who == who,
            State::Detached { who: other } => *other == who,
            State::Free { .. } | State::Shared { .. } | State::Alone { .. } => false,
        }
    }

    /// Mode in which it is held.
    pub fn mode(&self) -> Mode {
        if let State::Shared { mode, .. } = self.state { mode } else { Mode::Exclusive }
    }

    /// True if a claim at this moment gets it at once.
    pub fn is_open_to(&self, mode: Mode) -> bool {
        self.queue.is_empty() && self.has_room(mode)
    }

    /// True if its holders leave room for one more.
    fn has_room(&self, wanted: Mode) -> bool {
        match &self.state {
            State::Free { .. } => true,
            State::Shared { mode, holders, .. } => {
                let is_full = matches!(mode, Mode::OneOf(most) if holders.len() >= *most as usize);
                *mode == wanted && !is_full
            }
            State::Alone { .. } | State::Leased { .. } | State::Detached { .. } => false,
        }
    }

    /// True if it is unknown whether anybody has it.
    pub fn is_out(&self) -> bool {
        matches!(self.state, State::Leased { .. } | State::Detached { .. })
    }

    /// Queues a claim, and removes it again where `waits` is false and the lock is held.
    pub fn wait(&mut self, claim: Claim, waits: bool) {
        self.step(Event::Wait, |lock| {
            lock.queue.push(claim);
            if !waits {
                lock.tries.insert(claim.who);
            }
            if let State::Leased { is_recalled, .. } = &mut lock.state {
                *is_recalled = true;
            }
        });
    }

    /// Lends it to the one that has it alone. False where others wait.
    pub fn lend(&mut self) -> bool {
        let State::Alone { holder } = self.state else { return false };
        if !self.queue.is_empty() {
            return false;
        }
        let claim = Claim { thread: ANY_THREAD, ..holder.claim };
        let holder = Holder { claim, ..holder };
        self.step(Event::Lend, |lock| lock.state = State::Leased { holder, is_recalled: false });
        true
    }

    /// Has it taken back from the one that it is leased to, though nobody waits.
    pub fn recall(&mut self) {
        if let State::Leased { holder, is_recalled: false } = self.state {
            self.step(Event::Recall, |lock| lock.state = State::Leased { holder, is_recalled: true });
        }
    }

    /// The node of the lease's program reports whether the program has the lock.
    pub fn on_recalled(&mut self, recalled: Recalled) {
        let (event, state) = match (&self.state, recalled) {
            (State::Leased { holder, .. }, Recalled::Held) => (Event::Insist, State::Alone { holder: *holder }),
            (_, Recalled::Kept) => (Event::Yield, State::Free { abandoned: false }),
            (_, Recalled::Held | Recalled::Unknown) => (Event::Die, State::Free { abandoned: true }),
        };
        self.step(event, |lock| lock.state = state);
    }

    /// Gives it to a claimant for which it is open. Returns true if it was abandoned.
    pub fn grant(&mut self, claim: Claim) -> bool {
        let (State::Free { abandoned: is_told } | State::Shared { abandoned: is_told, .. }) = self.state else {
            unreachable!("nobody has it alone");
        };
        let holder = Holder { claim, is_told };
        match claim.mode {
            Mode::Exclusive => self.step(Event::Take, |lock| lock.state = State::Alone { holder }),
            mode @ (Mode::Shared | Mode::OneOf(_)) => self.step(Event::Enter, |lock| match &mut lock.state {
                State::Shared { holders, abandoned, .. } => {
                    holders.insert(claim.who, holder);
                    *abandoned = false;
                }
                state => *state = State::Shared { mode, holders: BTreeMap::from([(claim.who, holder)]), abandoned: false },
            }),
        }
        is_told
    }

    /// Gives it to the first in the queue. Claimants that would not wait and do not get it leave.
    pub fn advance(&mut self, grants: &mut VecDeque<LockGrant>, busy: &mut Vec<Claimant>) {
        self.give_out(grants);
        if !self.is_out() && !self.tries.is_empty() {
            for who in std::mem::take(&mut self.tries) {
                if self.queue.has(who) {
                    self.quit(who);
                    busy.push(who);
                }
            }
            self.give_out(grants);
        }
    }

    /// Queues a claim that always waits: it gets the lock, or a place behind those that wait.
    pub fn enter(&mut self, claim: Claim, grants: &mut VecDeque<LockGrant>) {
        match self.is_open_to(claim.mode) {
            true => {
                let abandoned = self.grant(claim);
                grants.push_back(LockGrant { who: claim.who, abandoned });
            }
            false => self.wait(claim, true),
        }
    }

    fn quit(&mut self, who: Claimant) {
        self.step(Event::Quit, |lock| {
            lock.queue.remove(who);
            lock.tries.remove(&who);
        });
    }

    fn give_out(&mut self, grants: &mut VecDeque<LockGrant>) {
        while let Some(next) = self.queue.first() {
            if !self.has_room(next.mode) {
                return;
            }
            self.queue.remove(next.who);
            let abandoned = self.grant(next);
            grants.push_back(LockGrant { who: next.who, abandoned });
        }
    }

    /// Releases a holder, or removes a waiter.
    pub fn let_go(&mut self, who: Claimant, how: Parting) {
        if self.queue.has(who) {
            return self.quit(who);
        }
        match &mut self.state {
            State::Free { .. } | State::Detached { .. } => unreachable!("nobody has it"),
            State::Shared { mode, holders, abandoned } => {
                // A reader leaves nothing half-written.
                let is_left = how == Parting::Dead && *mode != Mode::Shared;
                let is_unheard = *abandoned || is_left || how == Parting::Unused && holders[&who].is_told;
                let event = match holders.len() {
                    1 if is_unheard => Event::Waive,
                    1 => Event::Last,
                    _ => Event::Part,
                };
                self.step(event, |lock| match &mut lock.state {
                    State::Shared { holders, abandoned, .. } if event == Event::Part => {
                        holders.remove(&who);
                        *abandoned = is_unheard;
                    }
                    state => *state = State::Free { abandoned: is_unheard },
                });
            }
            State::Leased { .. } if how == Parting::Dead => self.step(Event::Cut, |lock| lock.state = State::Detached { who }),
            State::Alone { holder } | State::Leased { holder, .. } => {
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
