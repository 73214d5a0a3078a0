//! Who waits for which lock, group or job, on which link and for how long: the driver of their state machines.

mod carrying;
mod sites;
mod sleeping;

use carrying::Wants;
use sites::ensure_there;
use sleeping::Sleep;
pub(crate) use sleeping::SleepAsks;

use super::lent::Lent;
use super::shares::{Shares, TableShare};
use super::waiter::{Answered, Waiter, deadline};
use crate::node::extents::Extents;
use hanare_protocol::entry::{BoundData, Publication, Stamp};
use hanare_protocol::group::{self, Groups, Jobs, Met, Output, PartyPlace};
use hanare_protocol::id::{ClientId, JobId, PartyName, Rank, Rights, User};
use hanare_protocol::limits::{
    LINK_ARRIVAL_COUNT_MAX, LINK_GRANT_LEN_MAX, LOOK_CLAIM_COUNT_MAX, LOOK_COUNT_MAX, USER_CLAIM_COUNT_MAX, USER_JOB_COUNT_MAX,
    USER_PLACE_COUNT_MAX,
};
use hanare_protocol::lock::{self, Claim, Claimant, Claimed, LockGrant, RecallDue, Recalled};
use hanare_protocol::name_owners::NameOwners;
use hanare_protocol::wire::look::LockStat;
use hanare_protocol::wire::sync::{Arrival, LeaseWish, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

#[derive(Default)]
pub(crate) struct Locks {
    locks: lock::Locks,
    /// Data bound to them.
    data: BoundData,
    /// Those that are lent.
    lent: Lent,
    groups: Groups,
    names: NameOwners,
    shares: Shares,
    /// Those that wait for a lock.
    waiting: HashMap<Claimant, WaitingLock>,
    /// Those that wait for their group, and the number of their request.
    meeting: HashMap<Claimant, u64>,
    jobs: Jobs,
    /// Ranks that wait for their job, and the generation of their barrier.
    arrived: HashMap<(JobId, Rank, u64), Waiter>,
    /// What some of both want with their answer.
    wants: Wants,
    /// How many ranks wait on each link.
    arrivals: HashMap<u64, usize>,
    /// Jobs by the user whose rank came first; some of them may be over.
    begun: HashMap<u32, BTreeSet<JobId>>,
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
    /// Whether it waits for a condition, or waited for one and was notified.
    sleep: Option<Sleep>,
    wanted: WantedLock,
}

/// A lock that somebody would have.
pub(crate) struct WantedLock {
    /// Its name at this home.
    pub name: String,
    /// What is known there of the data bound to it.
    pub known: Option<Stamp>,
    /// Whose program it is.
    pub uid: u32,
    /// Which one.
    pub client: ClientId,
    /// What it says of leases.
    pub lease: LeaseWish,
}

/// What a node is to its locks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LockTerms {
    /// Whether it is the pool's home, which asks nodes for locks that it lent with nobody between.
    pub is_home: bool,
    /// Whether it was the pool's home in a life before this one: clients may have locks at names from that.
    pub was_home: bool,
    /// Whether regions have their bytes from a life before this one: clients may have locks at bytes from that.
    pub was_lender: bool,
}

/// What is answered at once; `None` where that comes later.
pub(crate) type AtOnce = Result<Option<SyncAnswer>>;

impl Locks {
    /// None yet; `life` is a random number of this one.
    pub fn new(terms: LockTerms, life: u64) -> Locks {
        let locks = if terms.was_home { lock::Locks::after_another_life() } else { lock::Locks::new() };
        let locks = if terms.was_lender { locks.with_bytes_of_another_life() } else { locks };
        Locks { locks, lent: Lent::new(terms.is_home), data: BoundData::new(life), ..Locks::default() }
    }

    /// Refuses a user more than its share.
    pub fn may(&mut self, session: u64, user: User, request: &SyncRequest) -> Result<()> {
        let share = self.shares.enter(session, user.uid);
        let ensure = |count: usize, what: &str, most: usize| {
            let reached = || Error::LimitReached { what: what.to_owned(), limit: most as u64 };
            if count < most { Ok(()) } else { Err(reached()) }
        };
        match request {
            SyncRequest::Lock { .. } => ensure(share.claims, "takings of locks of one user", USER_CLAIM_COUNT_MAX),
            SyncRequest::Join { .. } => ensure(share.places, "places of one user in groups", USER_PLACE_COUNT_MAX),
            SyncRequest::Arrive(arrival) | SyncRequest::ArriveWith(arrival, _) => {
                let waiting = self.arrivals.get(&session).copied().unwrap_or_default();
                ensure(waiting, "ranks that wait on one connection", LINK_ARRIVAL_COUNT_MAX)?;
                ensure(self.jobs_beside(user.uid, arrival.who.job), "jobs with a barrier of one user", USER_JOB_COUNT_MAX)
            }
            _ => Ok(()),
        }
    }

    /// The locks that a user may share, and how many there are; holders and waiters by the programs of their links.
    ///
    /// **Cost**: a look at each lock; as many as [`LOOK_COUNT_MAX`] locks of memory.
    pub fn seen_by(&self, user: User, client_of: impl Fn(u64) -> ClientId) -> (Vec<LockStat>, u64) {
        let (mut seen, mut count) = (Vec::new(), 0);
        let named = |claimants: &[Claimant]| claimants.iter().map(|claimant| client_of(claimant.link)).collect::<Vec<ClientId>>();
        for listed in self.locks.listed(LOOK_CLAIM_COUNT_MAX).filter(|listed| self.names.may(listed.name, user, Rights::Read)) {
            count += 1;
            if seen.len() < LOOK_COUNT_MAX {
                seen.push(LockStat {
                    name: listed.name.to_owned(),
                    mode: listed.mode,
                    holders: named(&listed.holders),
                    waiters: named(&listed.waiters),
                    counts: listed.counts,
                });
            }
        }
        (seen, count)
    }

    /// How many jobs a user's ranks began that are not over, beside one that is there already; that one is its own otherwise.
    fn jobs_beside(&mut self, user: u32, job: JobId) -> usize {
        if self.jobs.phase(job).is_some() {
            return 0;
        }
        let (jobs, own) = (&self.jobs, self.begun.entry(user).or_default());
        if own.len() >= USER_JOB_COUNT_MAX {
            own.retain(|job| matches!(jobs.phase(*job), Some(group::Phase::Idle | group::Phase::Gathering)));
        }
        if own.len() < USER_JOB_COUNT_MAX {
            own.insert(job);
            return 0;
        }
        own.len()
    }

    /// A link may have more of the tables, or less.
    fn recount(&mut self, link: u64) {
        self.shares.set(link, TableShare { claims: self.locks.count_of(link), places: self.groups.count_of(link) });
    }

    /// A client would have a lock, and knows a version of the data bound to it.
    pub fn lock(&mut self, wanted: WantedLock, claim: Claim, bound_ms: Option<u64>, seq: u64) -> AtOnce {
        let WantedLock { name, known, uid, client, lease } = &wanted;
        if let Some(number) = lease.returns {
            self.recalled(Claimant { number, ..claim.who }, Recalled::Kept);
        }
        let claimed = self.locks.on_lock(name, claim, bound_ms != Some(0))?;
        self.recount(claim.who.link);
        match claimed {
            Claimed::Granted { abandoned } => {
                let data = self.data.on_grant(name, *known, *uid);
                // What is bound to a lock changes hands by messages, and the lock with it.
                let lent = lease.keeps && data.is_none() && self.locks.on_lend(claim.who);
                if lent {
                    self.lent.lend(claim.who, *client);
                }
                Ok(Some(SyncAnswer::Granted { abandoned, data, lent }))
            }
            Claimed::Busy => Ok(Some(SyncAnswer::Busy)),
            Claimed::Waits => {
                // One that would not wait does so for who says whether the lock is held.
                let bound = bound_ms.filter(|ms| *ms > 0).and_then(|ms| Some((deadline(ms)?, ms)));
                self.wait(claim.who, WaitingLock { seq, bound, sleep: None, wanted });
                Ok(None)
            }
        }
    }

    fn wait(&mut self, who: Claimant, waiting: WaitingLock) {
        self.bounds.extend(waiting.bound.map(|(until, _)| (until, who)));
        self.waiting.insert(who, waiting);
    }

    /// One waits no more.
    fn wait_no_more(&mut self, who: Claimant) -> Option<WaitingLock> {
        let waited = self.waiting.remove(&who)?;
        if let Some((until, _)) = waited.bound {
            self.bounds.remove(&(until, who));
        }
        Some(waited)
    }

    /// A holder is about to put changes of what is bound to its lock at their homes.
    pub fn publish(&mut self, who: Claimant, uid: u32, publication: Publication) -> AtOnce {
        let stamp = self.data.on_publish(&self.locks, who, uid, publication)?;
        Ok(Some(SyncAnswer::Published { stamp }))
    }

    /// A holder has put at their homes what one before it left half-done.
    pub fn redone(&mut self, who: Claimant) -> AtOnce {
        self.data.on_redone(&self.locks, who)?;
        Ok(Some(SyncAnswer::Done))
    }

    /// A node says whether a client has a lock that is recalled.
    pub fn on_recalled(&mut self, client: ClientId, number: u64, recalled: Recalled) {
        // A node that knows nothing of it may be another life of it, and the program may be at work on the lease of the life before.
        if recalled != Recalled::Unknown
            && let Some(who) = self.lent.answered(client, number)
        {
            self.recalled(who, recalled);
        }
    }

    /// The node is a member of its pool, or not any more: then it may ask for locks in vain.
    pub fn set_member(&mut self, is_member: bool) {
        self.lent.set_member(is_member);
    }

    fn recalled(&mut self, who: Claimant, recalled: Recalled) {
        self.locks.on_recalled(who, recalled);
        self.recount(who.link);
        // Those that wait hear of it, though what comes next is another's request.
        self.settle();
    }

    /// The next lock that is lent and wanted: its client, and the number of the taking.
    pub fn poll_recall(&mut self) -> Option<(ClientId, u64)> {
        loop {
            while let Some(step) = self.locks.poll_recall() {
                self.lent.step(step);
            }
            match self.lent.next_due()? {
                RecallDue::Over(who) => {
                    tracing::warn!("no node says whether a lock is held that was lent, and it counts as abandoned");
                    self.recalled(who, Recalled::Unknown);
                }
                RecallDue::Ask(who) => {
                    if let Some(client) = self.lent.client_of(who) {
                        return Some((client, who.number));
                    }
                }
            }
        }
    }

    pub fn unlock(&mut self, who: Claimant) -> AtOnce {
        self.data.on_unlock(&self.locks, who);
        self.locks.on_unlock(who)?;
        self.lent.end(who);
        self.recount(who.link);
        self.settle();
        Ok(Some(SyncAnswer::Done))
    }

    /// A client gave up waiting for a lock, whether or not it was granted meanwhile.
    pub fn withdraw(&mut self, who: Claimant) -> AtOnce {
        self.data.on_withdraw(who);
        self.locks.on_withdraw(who);
        self.lent.end(who);
        self.recount(who.link);
        if let Some(WaitingLock { seq, bound, .. }) = self.wait_no_more(who) {
            let after_ms = bound.map_or(0, |(_, ms)| ms);
            let error = Error::NotInTime { what: "a lock that was given up".to_owned(), after_ms };
            self.answers.push_back((Waiter { session: who.link, seq }, Err(error)));
        }
        self.settle();
        Ok(Some(SyncAnswer::Done))
    }

    pub fn join(&mut self, name: &str, parties: u32, who: Claimant, client: PartyName) -> AtOnce {
        let PartyPlace { sitting, party } = self.groups.on_join(name, parties, who, client)?;
        self.recount(who.link);
        Ok(Some(SyncAnswer::Joined { sitting, party }))
    }

    pub fn meet(&mut self, who: Claimant, seq: u64, extents: &Extents) -> AtOnce {
        if let Some(name) = self.groups.name_of(who) {
            ensure_there(name, extents)?;
        }
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
        self.recount(who.link);
        // Who leaves while a thread of its own waits there has nobody to be told.
        self.meeting.remove(&who);
        self.settle();
        Ok(Some(SyncAnswer::Done))
    }

    pub fn arrive(&mut self, arrival: Arrival, waiter: Waiter) -> AtOnce {
        let before = self.arrived.insert((arrival.who.job, arrival.who.rank, arrival.generation), waiter);
        if let Some(before) = before {
            self.arrived_less(before.session);
            self.wants.forget_one(before);
        }
        *self.arrivals.entry(waiter.session).or_default() += 1;
        self.jobs.on_arrive(arrival);
        self.settle();
        Ok(None)
    }

    fn arrived_less(&mut self, session: u64) {
        if let Entry::Occupied(mut count) = self.arrivals.entry(session) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
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
        if self.arrivals.remove(&session).is_some() {
            self.arrived.retain(|_, waiter| waiter.session != session);
        }
        self.deaths.remove(&session);
        self.meeting.retain(|who, _| who.link != session);
        self.wants.forget(session);
        self.waiting.retain(|who, waiting| {
            let stays = who.link != session;
            if let (false, Some((until, _))) = (stays, waiting.bound) {
                self.bounds.remove(&(until, *who));
            }
            stays
        });
        self.data.on_link_gone(session);
        self.locks.on_link_gone(session);
        self.groups.on_link_gone(session);
        self.shares.forget(session);
        self.settle();
    }

    /// When the next bound is over.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.bounds.first().map(|(until, _)| *until).into_iter().chain(self.lent.deadline()).min()
    }

    /// Ends the waits whose bound is over.
    pub fn tick(&mut self, now: Instant) {
        while let Some((until, who)) = self.bounds.first().copied().filter(|(until, _)| *until <= now) {
            self.bounds.remove(&(until, who));
            if self.is_over_asleep(who) {
                continue;
            }
            let over = self.locks.on_bound(who);
            self.recount(who.link);
            if let (Some(name), Some(WaitingLock { seq, bound, .. })) = (over, self.waiting.remove(&who)) {
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
        // Many that wait on one connection may get a lock at once, for a hundred bytes that each has sent.
        let mut granted: HashMap<u64, u64> = HashMap::new();
        while let Some(LockGrant { who, abandoned }) = self.locks.poll() {
            let Some(WaitingLock { seq, sleep, wanted, .. }) = self.wait_no_more(who) else { continue };
            let mut data = self.data.on_grant(&wanted.name, wanted.known, wanted.uid);
            let sum = granted.entry(who.link).or_default();
            if *sum > LINK_GRANT_LEN_MAX / 4 {
                data = data.map(|data| Box::new(data.without_bytes()));
            }
            *sum += data.as_ref().map_or(0, |data| data.len_bytes());
            let mut answer = Ok(match sleep {
                None => SyncAnswer::Granted { abandoned, data, lent: false },
                Some(sleep) => SyncAnswer::Woken { notified: sleep == Sleep::Bounded, abandoned, data },
            });
            if *sum > LINK_GRANT_LEN_MAX {
                self.locks.on_withdraw(who);
                let what = "bytes that come with locks on one connection at once".to_owned();
                answer = Err(Error::LimitReached { what, limit: LINK_GRANT_LEN_MAX });
            }
            self.answers.push_back((Waiter { session: who.link, seq }, answer));
        }
        while let Some(who) = self.locks.poll_busy() {
            self.recount(who.link);
            let Some(WaitingLock { seq, .. }) = self.waiting.remove(&who) else { continue };
            self.answers.push_back((Waiter { session: who.link, seq }, Ok(SyncAnswer::Busy)));
        }
        granted.into_iter().filter(|(_, sum)| *sum > LINK_GRANT_LEN_MAX).for_each(|(link, _)| self.recount(link));
        while let Some(told) = self.groups.poll() {
            let Some(seq) = self.meeting.remove(&told.who) else { continue };
            self.answers.extend(self.wants.told(Waiter { session: told.who.link, seq }, told.outcome));
        }
        while let Some(output) = self.jobs.poll() {
            let (key, outcome) = match output {
                Output::Release { job, rank, generation } => ((job, rank, generation), Ok(())),
                Output::Fail { job, rank, generation, error } => ((job, rank, generation), Err(error)),
            };
            if let Some(waiter) = self.arrived.remove(&key) {
                self.arrived_less(waiter.session);
                self.answers.extend(self.wants.told(waiter, outcome));
            }
        }
    }
}
