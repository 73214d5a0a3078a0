//! Locks, groups and jobs. Drives their state machines, and keeps the requests that wait, each with its link and its deadline.

mod carrying;
mod naming;
mod pool_home;
mod sleeping;

use carrying::Wants;
use sleeping::Sleep;
pub(crate) use sleeping::SleepAsks;

use crate::events::SyncOutput;
use crate::leases::Leases;
use crate::quotas::{Quotas, Usage};
use crate::waiter::{Waiter, deadline};
use hanare_protocol::entry::{BoundData, Condition, Publication, Stamp};
use hanare_protocol::group::{self, Groups, Jobs, PartySlot, RankAt};
use hanare_protocol::id::{ClientId, Gid, JobId, NodeId, PartyName, Rank, Rights, Slot, User};
use hanare_protocol::limits::{
    LINK_ARRIVAL_COUNT_MAX, LINK_GRANT_LEN_MAX, LOOK_CLAIM_COUNT_MAX, LOOK_COUNT_MAX, USER_CLAIM_COUNT_MAX, USER_JOB_COUNT_MAX,
    USER_PLACE_COUNT_MAX,
};
use hanare_protocol::lock::{self, Claim, Claimant, Claimed, LockGrant, RecallDue, Recalled};
use hanare_protocol::name::extent_of_name;
use hanare_protocol::name_owners::NameOwners;
use hanare_protocol::tenant::lock_prefix;
use hanare_protocol::wire::look::LockStat;
use hanare_protocol::wire::sync::{LeaseWish, Party, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Locks {
    locks: lock::Locks,
    /// Data bound to locks.
    data: BoundData,
    leases: Leases,
    groups: Groups,
    names: NameOwners,
    /// The number of this node, where another is the pool's home: names are not found here.
    not_home: Option<NodeId>,
    quotas: Quotas,
    /// Requests that wait for a lock.
    waiting: BTreeMap<Claimant, WaitingLock>,
    jobs: Jobs,
    /// Parties that wait for their group or job.
    arrived: BTreeMap<ArrivedParty, Waiter>,
    /// Pages that some parties and ranks want with their answer.
    wants: Wants,
    /// Number of waiting ranks on each link.
    arrivals: BTreeMap<u64, usize>,
    /// Jobs by the user whose rank came first; some of them may be over.
    begun: BTreeMap<u32, BTreeSet<JobId>>,
    /// Watched job of each link, and the number of its request.
    deaths: BTreeMap<u64, (JobId, u64)>,
    /// Waits in the order in which they end.
    deadlines: BTreeSet<(Duration, Claimant)>,
    outputs: VecDeque<SyncOutput>,
    /// Answers among the outputs with locks at bytes, to those who waited. Another node may be home of the bytes by now.
    byte_grants: BTreeMap<Waiter, ByteGrant>,
}

/// A lock at a byte for one that waited.
#[derive(Debug)]
struct ByteGrant {
    who: Claimant,
    extent: (Gid, Slot),
}

/// A party that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArrivedParty {
    Place(Claimant),
    Rank(RankAt),
}

#[derive(Debug)]
struct WaitingLock {
    seq: u64,
    /// When its wait ends, and how long that was in milliseconds.
    deadline: Option<(Duration, u64)>,
    /// Present where it waits for a condition, or waited for one and was notified.
    sleep: Option<Sleep>,
    wanted: WantedLock,
}

/// A lock that somebody would have.
#[derive(Debug)]
pub(crate) struct WantedLock {
    /// Its name at this home.
    pub name: String,
    /// The version that its program has of the data bound to it.
    pub known: Option<Stamp>,
    /// The user.
    pub uid: u32,
    /// The program.
    pub client: ClientId,
    /// The program's wish for leases of it.
    pub lease: LeaseWish,
}

/// The part of a home in its pool, as far as locks depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LockTerms {
    /// True for the pool's home, which asks nodes for leases with nobody between.
    pub is_home: bool,
    /// True if an earlier life was the pool's home: clients may have locks at names from that.
    pub was_home: bool,
    /// Its regions have their bytes from a life before this one: clients may have locks at bytes from that.
    pub was_lender: bool,
}

/// An answer at once; `None` where it comes later.
pub(crate) type AtOnce = Result<Option<SyncAnswer>>;

impl Locks {
    /// Tables without entries; `life` is a random number of this life of the node.
    pub fn new(terms: LockTerms, life: u64) -> Locks {
        let locks = if terms.was_home { lock::Locks::after_another_life() } else { lock::Locks::new() };
        let locks = if terms.was_lender { locks.with_bytes_of_another_life() } else { locks };
        Locks { locks, leases: Leases::new(terms.is_home), data: BoundData::new(life), ..Locks::default() }
    }

    /// Refuses a user more than its quota.
    pub fn may(&mut self, link: u64, user: User, request: &SyncRequest) -> Result<()> {
        let usage = self.quotas.enter(link, user.uid);
        let ensure = |count: usize, what: &str, most: usize| {
            let reached = || Error::LimitReached { what: what.to_owned(), limit: most as u64 };
            if count < most { Ok(()) } else { Err(reached()) }
        };
        match request {
            SyncRequest::Lock { .. } => ensure(usage.claims, "takings of locks of one user", USER_CLAIM_COUNT_MAX),
            SyncRequest::Join { .. } => ensure(usage.places, "places of one user in groups", USER_PLACE_COUNT_MAX),
            SyncRequest::Arrive(Party::Rank(arrival), _) => {
                let waiting = self.arrivals.get(&link).copied().unwrap_or_default();
                ensure(waiting, "ranks that wait on one connection", LINK_ARRIVAL_COUNT_MAX)?;
                ensure(self.jobs_beside(user.uid, arrival.who.job), "jobs with a barrier of one user", USER_JOB_COUNT_MAX)
            }
            _ => Ok(()),
        }
    }

    /// The locks that a user may share, and how many there are. Holders and waiters stand as the programs of their links.
    ///
    /// **Cost**: a look at each lock; as many as [`LOOK_COUNT_MAX`] locks of memory.
    pub fn seen_by(&self, user: User, client_of: impl Fn(u64) -> ClientId) -> (Vec<LockStat>, u64) {
        let (mut seen, mut count) = (Vec::new(), 0);
        let named = |claimants: &[Claimant]| claimants.iter().map(|claimant| client_of(claimant.link)).collect::<Vec<ClientId>>();
        let prefix = lock_prefix(user.uid);
        for listed in self.locks.listed(LOOK_CLAIM_COUNT_MAX).filter(|listed| self.names.may(listed.name, user, Rights::Read)) {
            count += 1;
            if seen.len() < LOOK_COUNT_MAX {
                seen.push(LockStat {
                    name: listed.name.strip_prefix(&prefix).unwrap_or(listed.name).to_owned(),
                    mode: listed.mode,
                    holders: named(&listed.holders),
                    waiters: named(&listed.waiters),
                    counts: listed.counts,
                });
            }
        }
        (seen, count)
    }

    /// Number of a user's unfinished jobs, beside one that is there already; that one is its own otherwise.
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
        self.quotas.set(link, Usage { claims: self.locks.count_of(link), places: self.groups.count_of(link) });
    }

    /// A client would have a lock, and knows a version of the data bound to it.
    pub fn lock(&mut self, now: Duration, wanted: WantedLock, claim: Claim, (wait_ms, seq): (Option<u64>, u64)) -> AtOnce {
        let WantedLock { name, known, uid, client, lease } = &wanted;
        if let Some(number) = lease.returns {
            self.recalled(Claimant { number, ..claim.who }, Recalled::Kept);
        }
        let claimed = self.locks.on_lock(name, claim, wait_ms != Some(0))?;
        self.recount(claim.who.link);
        match claimed {
            Claimed::Granted { abandoned } => {
                let data = self.data.on_grant(name, *known, *uid);
                // A holder that redoes a release, or is told that it is torn, sends a message when that has ended.
                let is_whole = data.as_ref().is_none_or(|data| data.condition == Condition::Whole);
                let leased = lease.keeps && is_whole && self.locks.on_lend(claim.who);
                if leased {
                    self.leases.grant(claim.who, *client);
                }
                Ok(Some(SyncAnswer::Granted { abandoned, data, leased }))
            }
            Claimed::Busy => Ok(Some(SyncAnswer::Busy)),
            Claimed::Waits => {
                // A claim without a wait still waits for a report on the lock's holder.
                let deadline = wait_ms.filter(|ms| *ms > 0).and_then(|ms| Some((deadline(now, ms)?, ms)));
                self.wait(claim.who, WaitingLock { seq, deadline, sleep: None, wanted });
                Ok(None)
            }
        }
    }

    fn wait(&mut self, who: Claimant, waiting: WaitingLock) {
        self.deadlines.extend(waiting.deadline.map(|(until, _)| (until, who)));
        self.waiting.insert(who, waiting);
    }

    /// Ends a claimant's wait.
    fn wait_no_more(&mut self, who: Claimant) -> Option<WaitingLock> {
        let waited = self.waiting.remove(&who)?;
        if let Some((until, _)) = waited.deadline {
            self.deadlines.remove(&(until, who));
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
        // A node that knows nothing of it may be another life. The program may be at work on the lease of the life before.
        if recalled != Recalled::Unknown
            && let Some(who) = self.leases.answered(client, number)
        {
            self.recalled(who, recalled);
        }
    }

    /// The node is a member of its pool, or not any more: then it may ask for leases in vain.
    pub fn set_member(&mut self, now: Duration, is_member: bool) {
        self.leases.set_member(now, is_member);
    }

    fn recalled(&mut self, who: Claimant, recalled: Recalled) {
        match recalled {
            Recalled::Kept => self.data.on_yield(&self.locks, who),
            // The claimant counts as dead.
            Recalled::Unknown => self.data.on_withdraw(who),
            Recalled::Held => {}
        }
        self.locks.on_recalled(who, recalled);
        self.recount(who.link);
        // Waiting claimants hear of it, though the next request is another's.
        self.settle();
    }

    /// Asks nodes for leases that others wait for. Gives up leases that no node has answered for.
    ///
    /// Leases without an answer end after twice a node's lease: no program can use them any more.
    pub fn ask_for_leases(&mut self, now: Duration) {
        loop {
            while let Some(step) = self.locks.poll_recall() {
                self.leases.step(now, step);
            }
            match self.leases.next_due(now) {
                None => return,
                Some(RecallDue::Over(who)) => {
                    self.outputs.push_back(SyncOutput::LeaseLost(who));
                    self.recalled(who, Recalled::Unknown);
                }
                Some(RecallDue::Ask(who)) => {
                    let client = self.leases.client_of(who);
                    self.outputs.extend(client.map(|client| SyncOutput::Recall { client, number: who.number }));
                }
            }
        }
    }

    pub fn unlock(&mut self, who: Claimant) -> AtOnce {
        self.data.on_unlock(&self.locks, who);
        self.locks.on_unlock(who)?;
        self.leases.end(who);
        self.recount(who.link);
        self.settle();
        Ok(Some(SyncAnswer::Done))
    }

    /// A client gave up waiting for a lock, whether or not it was granted meanwhile.
    pub fn withdraw(&mut self, who: Claimant) -> AtOnce {
        self.data.on_withdraw(who);
        self.locks.on_withdraw(who);
        self.leases.end(who);
        self.recount(who.link);
        if let Some(WaitingLock { seq, deadline, .. }) = self.wait_no_more(who) {
            let after_ms = deadline.map_or(0, |(_, ms)| ms);
            let error = Error::NotInTime { what: "a lock that was given up".to_owned(), after_ms };
            self.outputs.push_back(SyncOutput::Answer(Waiter { link: who.link, seq }, Err(error)));
        }
        self.settle();
        Ok(Some(SyncAnswer::Done))
    }

    pub fn join(&mut self, name: &str, parties: u32, who: Claimant, client: PartyName) -> AtOnce {
        let PartySlot { instance, party } = self.groups.on_join(name, parties, who, client)?;
        self.recount(who.link);
        Ok(Some(SyncAnswer::Joined { instance, party }))
    }

    pub fn leave(&mut self, who: Claimant) -> AtOnce {
        self.groups.on_leave(who)?;
        self.recount(who.link);
        // A party that leaves while its own thread waits there has no receiver.
        self.arrived.remove(&ArrivedParty::Place(who));
        self.settle();
        Ok(Some(SyncAnswer::Done))
    }

    /// A link waits until a rank of a job has died: once, so that nobody fills the table.
    pub fn await_death(&mut self, job: JobId, waiter: Waiter) -> AtOnce {
        if let Some(death) = self.jobs.death(job) {
            return Err(death.clone());
        }
        match self.deaths.entry(waiter.link) {
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
            let told = self.deaths.extract_if(.., |_, (watched, _)| *watched == job);
            let told = told.map(|(link, (_, seq))| SyncOutput::Answer(Waiter { link, seq }, Err(death.clone())));
            self.outputs.extend(told);
        }
        self.settle();
    }

    /// A link ended: what was taken on it goes to others. A rank's end is told by its own node or by the launcher.
    pub fn forget(&mut self, link: u64) {
        self.arrivals.remove(&link);
        self.arrived.retain(|_, waiter| waiter.link != link);
        self.deaths.remove(&link);
        self.wants.forget(link);
        self.waiting.retain(|who, waiting| {
            let stays = who.link != link;
            if let (false, Some((until, _))) = (stays, waiting.deadline) {
                self.deadlines.remove(&(until, *who));
            }
            stays
        });
        self.data.on_link_gone(link);
        self.locks.on_link_gone(link);
        self.groups.on_link_gone(link);
        self.quotas.forget(link);
        self.settle();
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(until, _)| *until).into_iter().chain(self.leases.deadline()).min()
    }

    /// Ends the waits whose deadline has passed.
    pub fn tick(&mut self, now: Duration) {
        while let Some((until, who)) = self.deadlines.first().copied().filter(|(until, _)| *until <= now) {
            self.deadlines.remove(&(until, who));
            if self.is_over_asleep(who) {
                continue;
            }
            let over = self.locks.on_bound(who);
            self.recount(who.link);
            // A claimant that got the lock by the end of the wait before is told so.
            if let Some(name) = over
                && let Some(WaitingLock { seq, deadline, .. }) = self.waiting.remove(&who)
            {
                let after_ms = deadline.map_or(0, |(_, ms)| ms);
                let error = Error::NotInTime { what: format!("lock '{name}'"), after_ms };
                self.outputs.push_back(SyncOutput::Answer(Waiter { link: who.link, seq }, Err(error)));
            }
        }
        self.settle();
    }

    /// The outputs, in the order of their causes.
    pub fn outputs(&mut self) -> &mut VecDeque<SyncOutput> {
        &mut self.outputs
    }

    /// Numbers of locks, of leases, and of requests that wait for a lock.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.locks.count(), self.leases.count(), self.waiting.len())
    }

    /// Answers those whom the machines have something to tell.
    fn settle(&mut self) {
        // Replies to claims without a wait go before grants behind them.
        while let Some(who) = self.locks.poll_busy() {
            self.recount(who.link);
            let Some(WaitingLock { seq, .. }) = self.waiting.remove(&who) else { continue };
            self.outputs.push_back(SyncOutput::Answer(Waiter { link: who.link, seq }, Ok(SyncAnswer::Busy)));
        }
        // Many that wait on one connection may get a lock at once, for a hundred bytes that each has sent.
        let mut granted: BTreeMap<u64, u64> = BTreeMap::new();
        while let Some(LockGrant { who, abandoned }) = self.locks.poll() {
            let Some(WaitingLock { seq, sleep, wanted, .. }) = self.wait_no_more(who) else { continue };
            let mut data = self.data.on_grant(&wanted.name, wanted.known, wanted.uid);
            let sum = granted.entry(who.link).or_default();
            if *sum > LINK_GRANT_LEN_MAX / 4 {
                data = data.map(|data| Box::new(data.without_bytes()));
            }
            *sum += data.as_ref().map_or(0, |data| data.len_bytes());
            let mut answer = Ok(match sleep {
                None => SyncAnswer::Granted { abandoned, data, leased: false },
                Some(sleep) => SyncAnswer::Woken { notified: sleep == Sleep::Bounded, abandoned, data },
            });
            if *sum > LINK_GRANT_LEN_MAX {
                self.locks.on_withdraw(who);
                let what = "bytes that come with locks on one connection at once".to_owned();
                answer = Err(Error::LimitReached { what, limit: LINK_GRANT_LEN_MAX });
            }
            let waiter = Waiter { link: who.link, seq };
            let at_byte = extent_of_name(&wanted.name).map(|extent| (waiter, ByteGrant { who, extent }));
            self.byte_grants.extend(at_byte);
            self.outputs.push_back(SyncOutput::Answer(waiter, answer));
        }
        granted.into_iter().filter(|(_, sum)| *sum > LINK_GRANT_LEN_MAX).for_each(|(link, _)| self.recount(link));
        while let Some(reply) = self.groups.poll() {
            self.tell_party(ArrivedParty::Place(reply.who), reply.outcome);
        }
        while let Some(reply) = self.jobs.poll() {
            self.tell_party(ArrivedParty::Rank(reply.who), reply.outcome);
        }
    }
}
