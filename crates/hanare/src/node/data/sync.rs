//! What clients share through this node: each request goes to who decides it, and each answer waits here for the service to
//! send it.

use super::locks::{AtOnce, LockTerms, Locks, SleepAsks, WantedLock};
use super::queues::QueuePorts;
use super::shares::Heaps;
use super::waiter::{Answered, Waiter};
use super::words::Words;
use crate::node::extents::Extents;
use crate::node::pages::SharedRegions;
use hanare_protocol::Result;
use hanare_protocol::id::{ClientId, JobId, Rank, Rights, User};
use hanare_protocol::lock::{Claim, Claimant, Recalled};
use hanare_protocol::page::Face;
use hanare_protocol::wire::look::LockStat;
use hanare_protocol::wire::sync::{Mode, SyncAnswer, SyncRequest};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Sync {
    locks: Locks,
    words: Words,
    queues: QueuePorts,
    heaps: Heaps,
    answers: VecDeque<Answered>,
}

impl Sync {
    /// Nothing is shared yet; `life` is a random number of this one.
    pub fn new(terms: LockTerms, life: u64) -> Sync {
        Sync { locks: Locks::new(terms, life), ..Sync::default() }
    }

    /// A client asks for something.
    pub fn on_request(
        &mut self,
        waiter: Waiter,
        (client, user): (ClientId, User),
        request: SyncRequest,
        (extents, pages): (&Extents, &mut SharedRegions),
    ) {
        let may = self.locks.may(waiter.session, user, &request);
        let outcome = may.and_then(|()| self.begin(waiter, (client, user), request, (extents, pages)));
        match outcome {
            Ok(None) => {}
            Ok(Some(answer)) => self.answers.push_back((waiter, Ok(answer))),
            Err(error) => self.answers.push_back((waiter, Err(error))),
        }
    }

    fn begin(
        &mut self,
        waiter: Waiter,
        (client, user): (ClientId, User),
        request: SyncRequest,
        (extents, pages): (&Extents, &mut SharedRegions),
    ) -> AtOnce {
        let who = |number| Claimant { link: waiter.session, number };
        match request {
            SyncRequest::Lock { site, mode, number, thread, bound_ms, known, lease } => {
                let rights = if mode == Mode::Shared { Rights::Read } else { Rights::Write };
                let name = self.locks.find(site, rights, user, extents)?;
                let wanted = WantedLock { name, known, uid: user.uid, client, lease };
                self.locks.lock(wanted, Claim { who: who(number), thread, mode }, bound_ms, waiter.seq)
            }
            SyncRequest::Sleep { number, condition, next, thread, bound_ms, known } => {
                let claim = Claim { who: who(next), thread, mode: Mode::Exclusive };
                let asks = SleepAsks { seq: waiter.seq, bound_ms, known, user, client };
                self.locks.sleep(who(number), condition, claim, asks, extents)
            }
            SyncRequest::Notify { number, condition, all } => self.locks.notify(who(number), condition, all),
            SyncRequest::Publish { number, publication } => self.locks.publish(who(number), user.uid, publication),
            SyncRequest::Release { number, publication, places, keeps } => {
                self.locks.release((who(number), user.uid, keeps), publication, &places, (extents, pages))
            }
            SyncRequest::Redone { number } => self.locks.redone(who(number)),
            SyncRequest::Unlock { number } => self.locks.unlock(who(number)),
            SyncRequest::Withdraw { number } => self.locks.withdraw(who(number)),
            SyncRequest::Join { site, parties, number, client } => {
                let name = self.locks.find(site, Rights::Write, user, extents)?;
                self.locks.join(&name, parties, who(number), client)
            }
            SyncRequest::Permit { name, mode } => self.locks.permit(&name, mode, user),
            SyncRequest::Meet { number } => self.locks.meet(who(number), waiter.seq, extents),
            SyncRequest::MeetWith(number, carried) => self.locks.meet_with(who(number), carried, waiter.seq, (extents, pages)),
            SyncRequest::Leave { number } => self.locks.leave(who(number)),
            SyncRequest::Arrive(arrival) => self.locks.arrive(arrival, waiter),
            SyncRequest::ArriveWith(arrival, carried) => self.locks.arrive_with(arrival, carried, waiter, (extents, pages)),
            SyncRequest::AwaitDeath { job } => self.locks.await_death(job, waiter),
            SyncRequest::Wait { words, bound_ms } => self.words.wait(words, bound_ms, (waiter, user.uid), (extents, pages)),
            SyncRequest::Allocate { slot, grant, region_len, len, align } => {
                let held = extents.hold(slot, grant, Rights::Write)?;
                self.heaps.enter(user.uid, &held, region_len)?;
                let offset = held.with_heap(region_len, |heap| heap.allocate(len, align))?;
                Ok(Some(SyncAnswer::Block { offset }))
            }
            SyncRequest::Free { slot, grant, region_len, offset } => {
                let held = extents.hold(slot, grant, Rights::Write)?;
                self.heaps.enter(user.uid, &held, region_len)?;
                held.with_heap(region_len, |heap| heap.free(offset))?;
                Ok(Some(SyncAnswer::Done))
            }
            SyncRequest::BlockLen { slot, grant, region_len, offset } => {
                let held = extents.hold(slot, grant, Rights::Write)?;
                self.heaps.enter(user.uid, &held, region_len)?;
                let len = held.with_heap(region_len, |heap| heap.block_len(offset))?;
                Ok(Some(SyncAnswer::BlockLen { len }))
            }
            SyncRequest::Queue(at, request) => self.queues.on_request((waiter.session, user.uid), at, request, extents).map(Some),
        }
    }

    /// A node says whether a client has a lock that is recalled.
    pub fn on_recalled(&mut self, client: ClientId, number: u64, recalled: Recalled) {
        self.locks.on_recalled(client, number, recalled);
    }

    /// The node is a member of its pool, or not any more.
    pub fn set_member(&mut self, is_member: bool) {
        self.locks.set_member(is_member);
    }

    /// The next lock that is lent and wanted: its client, and the number of the taking.
    pub fn poll_recall(&mut self) -> Option<(ClientId, u64)> {
        self.locks.poll_recall()
    }

    /// The locks that a user may see, with the programs of their links, and how many there are.
    pub fn locks_seen_by(&self, user: User, client_of: impl Fn(u64) -> ClientId) -> (Vec<LockStat>, u64) {
        self.locks.seen_by(user, client_of)
    }

    /// A link ended: what was taken on it goes to others, and nobody is told anything there.
    pub fn forget(&mut self, session: u64) {
        self.words.forget(session);
        self.queues.forget(session);
        self.locks.forget(session);
    }

    /// Extents of this node are no more.
    pub fn on_freed(&mut self, extents: &Extents) {
        self.locks.on_freed(extents);
    }

    /// A rank of a job is gone: its job's barriers fail, and who waits for a death is told where it died.
    pub fn on_rank_gone(&mut self, job: JobId, rank: Rank, ranks: Option<u32>, reason: &str, died: bool) {
        self.locks.on_rank_gone(job, rank, ranks, reason, died);
    }

    /// A client's turn may have changed words.
    pub fn on_turn(&mut self, extents: &Extents, pages: &mut SharedRegions) {
        self.words.look_at_some((extents, pages), &mut self.answers);
    }

    /// The page of a word is at home, or will not come.
    pub fn recalled(&mut self, face: Face, outcome: Result<()>, extents: &Extents) {
        self.words.recalled(face, outcome, extents, &mut self.answers);
    }

    /// How long nothing has to be done; `None` for ever.
    pub fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        let next = self.locks.next_deadline().into_iter().chain(self.words.next_deadline(now)).min();
        next.map(|next| next.saturating_duration_since(now))
    }

    /// Does what is due.
    pub fn tick(&mut self, extents: &Extents, pages: &mut SharedRegions) {
        let now = Instant::now();
        self.locks.tick(now);
        self.words.tick(now, (extents, pages), &mut self.answers);
    }

    /// The next answer.
    pub fn poll(&mut self, extents: &Extents, pages: &SharedRegions) -> Option<Answered> {
        let told = self.answers.pop_front().or_else(|| self.locks.poll());
        told.or_else(|| self.locks.poll_brought((extents, pages)))
    }
}
