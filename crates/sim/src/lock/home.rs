//! The home: its locks and groups, driven as a node's process drives them.

use super::*;
use crate::check::check;
use hanare_protocol::group::{Groups, Met, PartyPlace};
use hanare_protocol::lock::{Claim, Claimed, Locks, RecallTimes};
use hanare_protocol::wire::sync::{LeaseWish, Mode, Site};
use std::collections::BTreeSet;

/// What the home's process knows.
#[derive(Debug)]
pub(super) struct Home {
    pub life: u64,
    pub locks: Locks,
    pub groups: Groups,
    /// Those that wait for a lock: their request, and their bound.
    waiting: BTreeMap<Claimant, (u64, Option<u64>)>,
    /// Those that wait for their group: their request.
    meeting: BTreeMap<Claimant, u64>,
    /// Locks that were granted in this life.
    granted: BTreeSet<String>,
    /// The clients of takings that locks are lent by.
    pub lent: BTreeMap<Claimant, u64>,
    pub recalls: RecallTimes,
}

impl Home {
    pub fn is_at_rest(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl LockWorld {
    pub(super) fn on_home_begins(&mut self) -> Check {
        if self.home.is_some() {
            return Ok(());
        }
        self.home_lives += 1;
        let life = self.home_lives;
        self.note(format!("life {life} of the home begins"));
        let is_first = life == 1 || self.has(Defect::TrustRestart);
        let locks = if is_first { Locks::new() } else { Locks::after_another_life() };
        self.model = Model::of_life(life);
        let (waiting, meeting, granted, lent) = Default::default();
        let recalls = self.recalls();
        self.home = Some(Home { life, locks, groups: Groups::new(), waiting, meeting, granted, lent, recalls });
        self.rejoin_all();
        Ok(())
    }

    /// The first that gets a lock in a life of the home is told, where somebody still believes to have it from a life before.
    fn judge_first(&mut self, name: &str, abandoned: bool) -> Check {
        let home = self.home.as_mut().expect("it grants");
        if !home.granted.insert(name.to_owned()) {
            return Ok(());
        }
        let Some(other) = self.believer(name, Mode::Exclusive) else { return Ok(()) };
        self.count("grants beside holders of a life before");
        check(abandoned, || format!("lock '{name}' is granted as if nobody had it, and another life granted it to {other:?}"))
    }

    /// A request arrives.
    pub(super) fn on_request(&mut self, link: u64, seq: u64, request: SyncRequest) -> Check {
        if !self.is_open(link, true) {
            self.count("messages lost with their connection");
            return Ok(());
        }
        self.note(format!("link {link}: {request:?}"));
        let answer = match self.begin(link, seq, request)? {
            Ok(None) => return self.settle(),
            Ok(Some(answer)) => Ok(answer),
            Err(error) => Err(error),
        };
        self.send_client(link, seq, answer);
        self.settle()
    }

    /// Does what is asked; `None` where the answer follows.
    fn begin(&mut self, link: u64, seq: u64, request: SyncRequest) -> Result<Outcome<Option<SyncAnswer>>, String> {
        let home = self.home.as_mut().expect("its connections are open");
        let who = |number| Claimant { link, number };
        let done = |()| Some(SyncAnswer::Done);
        Ok(match request {
            SyncRequest::Lock { site: Site::Name(name), mode, number, thread, bound_ms, lease, .. } => {
                let claim = Claim { who: who(number), thread, mode };
                return self.begin_lock(seq, (&name, claim), bound_ms, lease);
            }
            SyncRequest::Unlock { number } => {
                let unlocked = home.locks.on_unlock(who(number));
                if unlocked.is_ok() {
                    home.lent.remove(&who(number));
                    self.model.on_given_back(who(number));
                }
                unlocked.map(done)
            }
            SyncRequest::Withdraw { number } => {
                match self.course.has(Defect::WithdrawLikeUnlock) {
                    true => drop(home.locks.on_unlock(who(number))),
                    false => home.locks.on_withdraw(who(number)),
                }
                let waited = home.waiting.remove(&who(number));
                home.lent.remove(&who(number));
                self.model.on_withdrawn(who(number));
                if let Some((seq, bound_ms)) = waited {
                    let error = Error::NotInTime { what: "a lock".to_owned(), after_ms: bound_ms.unwrap_or_default() };
                    self.send_client(link, seq, Err(error));
                }
                Ok(done(()))
            }
            SyncRequest::Join { site: Site::Name(name), parties, number, client } => {
                let joined = home.groups.on_join(&name, parties, who(number), client);
                if joined.is_ok() {
                    self.model.on_joined(&name, parties, who(number))?;
                }
                joined.map(|PartyPlace { sitting, party }| Some(SyncAnswer::Joined { sitting, party }))
            }
            SyncRequest::Meet { number } => match home.groups.on_meet(who(number)) {
                Ok(Met::All) => {
                    self.model.on_all_met(who(number))?;
                    self.count("group rounds");
                    Ok(Some(SyncAnswer::Done))
                }
                Ok(Met::Waits) => {
                    home.meeting.insert(who(number), seq);
                    self.model.on_met(who(number))?;
                    if self.has(Defect::ReleaseEarly) && self.dice.chance(1_000) {
                        self.home.as_mut().expect("as above").meeting.remove(&who(number));
                        self.model.on_all_met(who(number))?;
                    }
                    Ok(None)
                }
                Err(error) => {
                    self.model.on_refused(who(number), &error)?;
                    self.count("group failures");
                    Err(error)
                }
            },
            SyncRequest::Leave { number } => {
                let left = home.groups.on_leave(who(number));
                home.meeting.remove(&who(number));
                if left.is_ok() {
                    self.model.on_party_gone(who(number));
                }
                left.map(done)
            }
            other => return Err(format!("nobody asks for {other:?}")),
        })
    }

    /// One asks for a lock.
    fn begin_lock(
        &mut self,
        seq: u64,
        (name, claim): (&str, Claim),
        bound_ms: Option<u64>,
        lease: LeaseWish,
    ) -> Result<Outcome<Option<SyncAnswer>>, String> {
        let home = self.home.as_mut().expect("its connections are open");
        if let Some(number) = lease.returns {
            let before = Claimant { number, ..claim.who };
            if home.lent.contains_key(&before) {
                self.model.judge_answer(before, Recalled::Kept)?;
                self.model.on_recalled(before, Recalled::Kept);
            }
            home.locks.on_recalled(before, Recalled::Kept);
            // Those that wait hear of it first.
            self.pass_on()?;
        }
        let home = self.home.as_mut().expect("its connections are open");
        let claimed = match home.locks.on_lock(name, claim, bound_ms != Some(0)) {
            Ok(claimed) => claimed,
            Err(error) => return Ok(Err(error)),
        };
        match claimed {
            Claimed::Granted { abandoned } => {
                self.judge_first(name, abandoned)?;
                self.model.on_asked(name, claim.who, claim.mode, None);
                self.model.on_granted(claim.who, abandoned)?;
                self.count_grant(abandoned);
                let home = self.home.as_mut().expect("as above");
                let lent = lease.keeps && home.locks.on_lend(claim.who);
                if lent {
                    home.lent.insert(claim.who, self.links[&claim.who.link].client);
                    self.model.on_lent(claim.who);
                    self.count("locks lent");
                }
                Ok(Ok(Some(SyncAnswer::Granted { abandoned, data: None, lent })))
            }
            Claimed::Busy => {
                self.model.on_busy(name, claim.mode)?;
                self.count("locks busy");
                Ok(Ok(Some(SyncAnswer::Busy)))
            }
            Claimed::Waits => {
                let bound_ms = bound_ms.filter(|ms| *ms > 0);
                let bound = bound_ms.map(|ms| self.course.now_ms + ms);
                home.waiting.insert(claim.who, (seq, bound_ms));
                let life = home.life;
                self.model.on_asked(name, claim.who, claim.mode, bound);
                if let Some(ms) = bound_ms {
                    self.at(ms, Event::Bound { life, who: claim.who });
                }
                if self.has(Defect::GrantTwice) && self.dice.chance(500) {
                    return Ok(Ok(Some(SyncAnswer::Granted { abandoned: false, data: None, lent: false })));
                }
                self.count("waits for locks");
                Ok(Ok(None))
            }
        }
    }

    fn count_grant(&mut self, abandoned: bool) {
        self.count(if abandoned { "grants of abandoned locks" } else { "grants" });
    }

    /// Passes on what the machines have to tell, and asks what they want to know.
    pub(super) fn settle(&mut self) -> Check {
        self.pass_on()?;
        self.ask_nodes()
    }

    /// Passes on what the machines have to tell.
    pub(super) fn pass_on(&mut self) -> Check {
        while let Some(who) = self.home.as_mut().and_then(|home| home.locks.poll_busy()) {
            self.model.on_busy_after_all(who)?;
            self.count("locks busy after a recall");
            let home = self.home.as_mut().expect("just seen");
            let (seq, _) = home.waiting.remove(&who).ok_or_else(|| format!("{who:?} does not wait, and hears of others"))?;
            self.send_client(who.link, seq, Ok(SyncAnswer::Busy));
        }
        while let Some(grant) = self.home.as_mut().and_then(|home| home.locks.poll()) {
            if self.has(Defect::ForgetGrants) && self.dice.chance(200) {
                continue;
            }
            self.model.on_granted(grant.who, grant.abandoned)?;
            self.count_grant(grant.abandoned);
            let home = self.home.as_mut().expect("just seen");
            let (seq, _) = home.waiting.remove(&grant.who).ok_or_else(|| format!("{grant:?} to one that does not wait"))?;
            self.send_client(
                grant.who.link,
                seq,
                Ok(SyncAnswer::Granted { abandoned: grant.abandoned, data: None, lent: false }),
            );
        }
        while let Some(told) = self.home.as_mut().and_then(|home| home.groups.poll()) {
            if self.has(Defect::SwallowFailures) && told.outcome.is_err() {
                continue;
            }
            self.model.on_told(told.who, &told.outcome)?;
            if told.outcome.is_err() {
                self.count("group failures");
            }
            let home = self.home.as_mut().expect("just seen");
            let seq = home.meeting.remove(&told.who).ok_or_else(|| format!("{told:?} to one that does not wait"))?;
            self.send_client(told.who.link, seq, told.outcome.map(|()| SyncAnswer::Done));
        }
        Ok(())
    }

    /// The bound of one that may wait still is over.
    pub(super) fn on_bound(&mut self, life: u64, who: Claimant) -> Check {
        if self.has(Defect::ForgetBounds) {
            return Ok(());
        }
        let Some(home) = self.home.as_mut().filter(|home| home.life == life) else { return Ok(()) };
        let Some(name) = home.locks.on_bound(who) else { return Ok(()) };
        let (seq, bound_ms) = home.waiting.remove(&who).ok_or_else(|| format!("{who:?} waited for '{name}' unknown"))?;
        self.model.on_late(who, self.now_ms)?;
        self.count("waits given up");
        let error = Error::NotInTime { what: format!("lock '{name}'"), after_ms: bound_ms.unwrap_or_default() };
        self.send_client(who.link, seq, Err(error));
        self.settle()
    }

    /// A connection ended for the home.
    pub(super) fn on_link_gone(&mut self, link: u64) -> Check {
        let claims = self.model.claims_of(link);
        self.model.on_link_gone(link);
        let Some(home) = self.home.as_mut() else { return Ok(()) };
        home.waiting.retain(|who, _| who.link != link);
        home.meeting.retain(|who, _| who.link != link);
        if self.course.has(Defect::KeepDead) {
            return Ok(());
        }
        if self.course.has(Defect::DieQuietly) {
            for who in claims {
                let _ = home.locks.on_unlock(who).is_ok() || home.locks.on_bound(who).is_some();
            }
        } else {
            home.locks.on_link_gone(link);
        }
        home.groups.on_link_gone(link);
        self.settle()
    }
}
