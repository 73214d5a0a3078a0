//! Who waits for which lock, group or job, on which link and for how long: the driver of their state machines.

use super::waiter::{Answered, Waiter, deadline};
use hanare_protocol::group::{self, Groups, Jobs, Met, Output, PartyPlace};
use hanare_protocol::id::{ClientId, JobId, PartyName, Rank, Rights, User};
use hanare_protocol::limits::{LOOK_CLAIM_COUNT_MAX, LOOK_COUNT_MAX};
use hanare_protocol::lock::{self, Claim, Claimant, Claimed, LockGrant};
use hanare_protocol::name::check_name;
use hanare_protocol::name_owners::NameOwners;
use hanare_protocol::wire::look::LockStat;
use hanare_protocol::wire::sync::{Arrival, Mode, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

#[derive(Default)]
pub(crate) struct Locks {
    locks: lock::Locks,
    groups: Groups,
    names: NameOwners,
    /// Those that wait for a lock.
    waiting: HashMap<Claimant, WaitingLock>,
    /// Those that wait for their group, and the number of their request.
    meeting: HashMap<Claimant, u64>,
    jobs: Jobs,
    /// Ranks that wait for their job, and the generation of their barrier.
    arrived: HashMap<(JobId, Rank, u64), Waiter>,
    /// By session, those that wait for the death of a rank of a job, and the number of their request.
    deaths: HashMap<u64, (JobId, u64)>,
    /// When whose bound is over.
    bounds: BTreeSet<(Instant, Claimant)>,
    answers: VecDeque<Answered>,
}

struct WaitingLock {
    seq: u64,
    /// When its bound is over, and what it was in milliseconds.
    bound: Option<(Instant, u64)>,
}

/// What is answered at once; `None` where that comes later.
pub(crate) type AtOnce = Result<Option<SyncAnswer>>;

impl Locks {
    /// None yet, at a home that began again or is the first of its pool.
    pub fn new(began_again: bool) -> Locks {
        let locks = if began_again { lock::Locks::after_another_life() } else { lock::Locks::new() };
        Locks { locks, ..Locks::default() }
    }

    /// Refuses a user the names of others.
    pub fn may(&mut self, user: User, request: &SyncRequest) -> Result<()> {
        let Locks { locks, groups, names, .. } = self;
        let is_used = |name: &str| {
            matches!(locks.phase(name), lock::Phase::Shared | lock::Phase::Alone) || groups.phase(name) != group::Phase::Empty
        };
        let (name, rights) = match request {
            SyncRequest::Lock { name, mode: Mode::Shared, .. } => (name, Rights::Read),
            SyncRequest::Lock { name, .. } | SyncRequest::Join { name, .. } => (name, Rights::Write),
            SyncRequest::Permit { name, mode } => {
                return check_name(name).and_then(|()| names.on_permit(name, user, *mode, is_used));
            }
            _ => return Ok(()),
        };
        check_name(name)?;
        names.on_use(name, user, rights, is_used)
    }

    /// The locks that a user may share, and how many there are; holders and waiters by the programs of their links.
    ///
    /// **Cost**: a look at each lock and claim; as many as [`LOOK_COUNT_MAX`] locks of memory.
    pub fn seen_by(&self, user: User, client_of: impl Fn(u64) -> ClientId) -> (Vec<LockStat>, u64) {
        let (mut seen, mut count) = (Vec::new(), 0);
        let named = |claimants: &[Claimant]| {
            claimants.iter().take(LOOK_CLAIM_COUNT_MAX).map(|claimant| client_of(claimant.link)).collect::<Vec<ClientId>>()
        };
        for listed in self.locks.listed().filter(|listed| self.names.may(listed.name, user, Rights::Read)) {
            count += 1;
            if seen.len() < LOOK_COUNT_MAX {
                seen.push(LockStat {
                    name: listed.name.to_owned(),
                    mode: listed.mode,
                    holders: named(&listed.holders),
                    waiters: named(&listed.waiters),
                    counts: (listed.holders.len() as u64, listed.waiters.len() as u64),
                });
            }
        }
        (seen, count)
    }

    /// A client would have a lock.
    pub fn lock(&mut self, name: &str, claim: Claim, bound_ms: Option<u64>, seq: u64) -> AtOnce {
        match self.locks.on_lock(name, claim, bound_ms != Some(0))? {
            Claimed::Granted { abandoned } => Ok(Some(SyncAnswer::Granted { abandoned })),
            Claimed::Busy => Ok(Some(SyncAnswer::Busy)),
            Claimed::Waits => {
                let bound = bound_ms.and_then(|ms| Some((deadline(ms)?, ms)));
                self.bounds.extend(bound.map(|(until, _)| (until, claim.who)));
                self.waiting.insert(claim.who, WaitingLock { seq, bound });
                Ok(None)
            }
        }
    }

    pub fn unlock(&mut self, who: Claimant) -> AtOnce {
        self.locks.on_unlock(who)?;
        self.settle();
        Ok(Some(SyncAnswer::Done))
    }

    /// A client gave up waiting for a lock, whether or not it was granted meanwhile.
    pub fn withdraw(&mut self, who: Claimant) -> AtOnce {
        self.locks.on_withdraw(who);
        if let Some(WaitingLock { seq, bound }) = self.waiting.remove(&who) {
            if let Some((until, _)) = bound {
                self.bounds.remove(&(until, who));
            }
            let after_ms = bound.map_or(0, |(_, ms)| ms);
            let error = Error::NotInTime { what: "a lock that was given up".to_owned(), after_ms };
            self.answers.push_back((Waiter { session: who.link, seq }, Err(error)));
        }
        self.settle();
        Ok(Some(SyncAnswer::Done))
    }

    pub fn join(&mut self, name: &str, parties: u32, who: Claimant, client: PartyName) -> AtOnce {
        let PartyPlace { sitting, party } = self.groups.on_join(name, parties, who, client)?;
        Ok(Some(SyncAnswer::Joined { sitting, party }))
    }

    pub fn meet(&mut self, who: Claimant, seq: u64) -> AtOnce {
        match self.groups.on_meet(who)? {
            Met::All => {
                self.settle();
                Ok(Some(SyncAnswer::Done))
            }
            Met::Waits => {
                self.meeting.insert(who, seq);
                Ok(None)
            }
        }
    }

    pub fn leave(&mut self, who: Claimant) -> AtOnce {
        self.groups.on_leave(who)?;
        // Who leaves while a thread of its own waits there has nobody to be told.
        self.meeting.remove(&who);
        self.settle();
        Ok(Some(SyncAnswer::Done))
    }

    pub fn arrive(&mut self, arrival: Arrival, waiter: Waiter) -> AtOnce {
        self.arrived.insert((arrival.who.job, arrival.who.rank, arrival.generation), waiter);
        self.jobs.on_arrive(arrival);
        self.settle();
        Ok(None)
    }

    /// A session waits until a rank of a job has died: once, so that nobody fills the table.
    pub fn await_death(&mut self, job: JobId, waiter: Waiter) -> AtOnce {
        if let Some(death) = self.jobs.death(job) {
            return Err(death.clone());
        }
        match self.deaths.entry(waiter.session) {
            Entry::Occupied(_) => Err(Error::LimitReached { what: "jobs that one program watches".to_owned(), limit: 1 }),
            Entry::Vacant(place) => {
                place.insert((job, waiter.seq));
                Ok(None)
            }
        }
    }

    pub fn on_rank_gone(&mut self, job: JobId, rank: Rank, ranks: Option<u32>, reason: &str, died: bool) {
        self.jobs.on_rank_gone(job, rank, ranks, reason, died);
        if let Some(death) = self.jobs.death(job) {
            let told = self.deaths.extract_if(|_, (watched, _)| *watched == job);
            self.answers.extend(told.map(|(session, (_, seq))| (Waiter { session, seq }, Err(death.clone()))));
        }
        self.settle();
    }

    /// A link ended: what was taken on it goes to others. A rank's end is told by its own node or by the launcher.
    pub fn forget(&mut self, session: u64) {
        self.arrived.retain(|_, waiter| waiter.session != session);
        self.deaths.remove(&session);
        self.meeting.retain(|who, _| who.link != session);
        self.waiting.retain(|who, waiting| {
            let stays = who.link != session;
            if let (false, Some((until, _))) = (stays, waiting.bound) {
                self.bounds.remove(&(until, *who));
            }
            stays
        });
        self.locks.on_link_gone(session);
        self.groups.on_link_gone(session);
        self.settle();
    }

    /// When the next bound is over.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.bounds.first().map(|(until, _)| *until)
    }

    /// Ends the waits whose bound is over.
    pub fn tick(&mut self, now: Instant) {
        while let Some((until, who)) = self.bounds.first().copied().filter(|(until, _)| *until <= now) {
            self.bounds.remove(&(until, who));
            if let (Some(name), Some(WaitingLock { seq, bound })) = (self.locks.on_bound(who), self.waiting.remove(&who)) {
                let after_ms = bound.map_or(0, |(_, ms)| ms);
                let error = Error::NotInTime { what: format!("lock '{name}'"), after_ms };
                self.answers.push_back((Waiter { session: who.link, seq }, Err(error)));
            }
        }
        self.settle();
    }

    /// The next answer to one that waited.
    pub fn poll(&mut self) -> Option<Answered> {
        self.answers.pop_front()
    }

    /// Answers those whom the machines have something to tell.
    fn settle(&mut self) {
        while let Some(LockGrant { who, abandoned }) = self.locks.poll() {
            let Some(WaitingLock { seq, bound }) = self.waiting.remove(&who) else { continue };
            if let Some((until, _)) = bound {
                self.bounds.remove(&(until, who));
            }
            self.answers.push_back((Waiter { session: who.link, seq }, Ok(SyncAnswer::Granted { abandoned })));
        }
        while let Some(told) = self.groups.poll() {
            let Some(seq) = self.meeting.remove(&told.who) else { continue };
            self.answers.push_back((Waiter { session: told.who.link, seq }, told.outcome.map(|()| SyncAnswer::Done)));
        }
        while let Some(output) = self.jobs.poll() {
            let (key, outcome) = match output {
                Output::Release { job, rank, generation } => ((job, rank, generation), Ok(SyncAnswer::Done)),
                Output::Fail { job, rank, generation, error } => ((job, rank, generation), Err(error)),
            };
            if let Some(waiter) = self.arrived.remove(&key) {
                self.answers.push_back((waiter, outcome));
            }
        }
    }
}
