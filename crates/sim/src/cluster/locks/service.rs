//! The home's side of locks: drives the home that nodes run, and tells the judge what crosses the home's border.

use super::clients::{LOCKS, UID};
use super::judge::Model;
use super::{Cluster, ProcessLife};
use crate::check::{Check, check};
use crate::cluster::Defect;
use hanare_home::{Bytes, Input, Memory, Output, PageVectors, SyncOutput, Waiter};
use hanare_protocol::id::{ClientId, Gid, Rights, User};
use hanare_protocol::lock::{Claimant, Recalled};
use hanare_protocol::name::{extent_of_name, name_of_byte};
use hanare_protocol::wire::copies::CopiedExtent;
use hanare_protocol::wire::sync::{LeaseWish, Mode, Party, SyncAddress, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result as Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// The state of a home as the judge knows it, as long as its process lives.
#[derive(Debug, Default)]
pub(super) struct LockService {
    pub model: Model,
    /// Requests without an answer.
    asked: BTreeMap<Waiter, Asked>,
    /// Locks that were granted here in this time as home.
    granted: BTreeSet<String>,
}

/// A request without an answer, as the judge has to know it.
#[derive(Clone, Debug)]
enum Asked {
    Lock {
        name: String,
        mode: Mode,
        who: Claimant,
        has_waited: bool,
    },
    /// Its program gave it up, and asked for another thing.
    Withdrawn,
    Meet(Claimant),
    Other,
}

impl LockService {
    /// A home of names that begins; `was_home` if there was one before.
    pub fn new(was_home: bool) -> LockService {
        let mut service = LockService::default();
        if was_home {
            service.model.doubt_words();
        }
        service
    }
}

impl Cluster {
    fn locks_at(&mut self, home: ProcessLife) -> &mut LockService {
        self.locks.homes.entry(home).or_default()
    }

    /// A request arrives.
    pub(super) fn on_request(&mut self, link: u64, seq: u64, asks: SyncRequest) -> Check {
        let Some((home, id)) = self.link_at(link, true).map(|link| (link.home, link.id)) else { return Ok(()) };
        self.note(format!("link {link}: {asks:?}"));
        let who = |number| Claimant { link, number };
        let asked = match &asks {
            SyncRequest::Lock { address, mode, number, bound_ms, lease, .. } => {
                let until = bound_ms.filter(|ms| *ms > 0).map(|ms| self.now_ms + ms);
                match self.name_at(home, address) {
                    Some(name) => {
                        self.on_lease_returned(home, link, *lease)?;
                        self.locks_at(home).model.on_asked(&name, who(*number), *mode, until);
                        Asked::Lock { name, mode: *mode, who: who(*number), has_waited: false }
                    }
                    None => Asked::Other,
                }
            }
            SyncRequest::Withdraw { number } => {
                let service = self.locks_at(home);
                service.model.on_withdrawn(who(*number));
                let is_it = |asked: &&mut Asked| matches!(asked, Asked::Lock { who: other, .. } if *other == who(*number));
                if let Some(asked) = service.asked.values_mut().find(is_it) {
                    *asked = Asked::Withdrawn;
                }
                Asked::Other
            }
            SyncRequest::Arrive(Party::Place(number), _) => Asked::Meet(who(*number)),
            _ => Asked::Other,
        };
        let waiter = Waiter { link, seq };
        let input = match &asks {
            SyncRequest::Withdraw { .. } if self.has(Defect::ForgetWithdrawals) => None,
            SyncRequest::Withdraw { number } if self.has(Defect::WithdrawLikeUnlock) => {
                Some(SyncRequest::Unlock { number: *number })
            }
            _ => Some(asks.clone()),
        };
        self.locks_at(home).asked.insert(waiter, asked.clone());
        let before = self.before_release(home, &asks);
        let outputs = input.map_or_else(Vec::new, |input| self.ask_home(home, waiter, id, input));
        self.spoil(&asks, before);
        let own = outputs.iter().find_map(|output| match output {
            Output::Sync(SyncOutput::Answer(to, outcome)) if *to == waiter => Some(outcome.clone()),
            _ => None,
        });
        self.on_begun((home, waiter), &asks, own.as_ref())?;
        self.judge_release(link, &asks, own.as_ref());
        self.take(home, outputs)?;
        self.mislead((home, waiter), &asked, own.is_some())?;
        self.drain_node(home.0)
    }

    /// The home's name for a lock, if there is such a lock.
    fn name_at(&mut self, home: ProcessLife, address: &SyncAddress) -> Option<String> {
        match address {
            SyncAddress::Name(name) => self.has_names(home).then(|| name.clone()),
            SyncAddress::Byte { slot, grant, offset } => {
                let now_ms = self.now_ms;
                let process = self.process(home)?;
                process.lender.has_lease = process.member.homes_until_ms() > now_ms;
                let extent = process.lender.open(*slot, *grant, Rights::Read).ok()?;
                Some(name_of_byte(Bytes::gid(&extent), *slot, *offset))
            }
        }
    }

    /// A home hears a request. Returns what comes of it.
    fn ask_home(&mut self, home: ProcessLife, waiter: Waiter, id: ClientId, request: SyncRequest) -> Vec<Output<PageVectors>> {
        let now_ms = self.now_ms;
        let Some(process) = self.process(home) else { return Vec::new() };
        process.lender.has_lease = process.member.homes_until_ms() > now_ms;
        let input = Input::Request { waiter, from: (id, User { uid: UID, gid: UID }), request };
        process.served.tell(now_ms, input, &process.lender)
    }

    /// A program returns a lease with its request, because its word says that nobody has the lock.
    fn on_lease_returned(&mut self, home: ProcessLife, link: u64, lease: LeaseWish) -> Check {
        let Some(number) = lease.returns else { return Ok(()) };
        let (before, model) = (Claimant { link, number }, &mut self.locks_at(home).model);
        model.judge_answer(before, Recalled::Kept)?;
        model.on_recalled(before, Recalled::Kept);
        Ok(())
    }

    /// The judge hears what a request did at once, before it hears what others are told.
    fn on_begun(
        &mut self,
        (home, waiter): (ProcessLife, Waiter),
        asks: &SyncRequest,
        own: Option<&Outcome<SyncAnswer>>,
    ) -> Check {
        let who = |number: &u64| Claimant { link: waiter.link, number: *number };
        let model = &mut self.locks_at(home).model;
        let counted = match (asks, own) {
            (SyncRequest::Unlock { number } | SyncRequest::Release { number, .. }, Some(Ok(_))) => {
                model.on_given_back(who(number));
                None
            }
            (SyncRequest::Join { address: SyncAddress::Name(name), parties, number, .. }, Some(Ok(_))) => {
                model.on_joined(name, *parties, who(number))?;
                None
            }
            (SyncRequest::Arrive(Party::Place(number), _), Some(Ok(_))) => {
                model.on_all_met(who(number))?;
                Some("group rounds")
            }
            (SyncRequest::Arrive(Party::Place(number), _), None) => {
                model.on_met(who(number))?;
                None
            }
            // The node is the home of names no more.
            (_, Some(Err(Error::NoCoordinator { .. }))) => Some("requests at former homes"),
            (SyncRequest::Arrive(Party::Place(number), _), Some(Err(error))) => {
                model.on_refused(who(number), error)?;
                Some("group failures")
            }
            (SyncRequest::Leave { number }, Some(Ok(_))) => {
                model.on_party_gone(who(number));
                None
            }
            (SyncRequest::Lock { .. }, None) => Some("waits for locks"),
            _ => None,
        };
        let waits = own.is_none();
        match self.locks_at(home).asked.get_mut(&waiter) {
            Some(Asked::Lock { has_waited, .. }) => *has_waited = waits,
            // The judge has heard of it.
            Some(asked @ Asked::Meet(_)) if !waits => *asked = Asked::Other,
            _ => {}
        }
        counted.into_iter().for_each(|what| self.count(what));
        Ok(())
    }

    /// The driver's own faults, each of which the judge must find.
    fn mislead(&mut self, (home, waiter): (ProcessLife, Waiter), asked: &Asked, is_answered: bool) -> Check {
        match asked {
            Asked::Lock { .. } if !is_answered && self.has(Defect::GrantTwice) && self.dice.chance(500) => {
                let granted = SyncAnswer::Granted { abandoned: false, data: None, leased: false };
                self.send_client(waiter.link, waiter.seq, Ok(granted));
            }
            Asked::Meet(who) if !is_answered && self.has(Defect::ReleasePartyEarly) && self.dice.chance(1_000) => {
                self.locks_at(home).model.on_all_met(*who)?;
            }
            Asked::Other if !is_answered && self.has(Defect::ForgetWithdrawals) => {
                self.send_client(waiter.link, waiter.seq, Ok(SyncAnswer::Done));
            }
            _ => {}
        }
        Ok(())
    }

    /// Does what a home orders about locks, as the judge allows it.
    pub(in crate::cluster) fn take_of_locks(&mut self, at: ProcessLife, output: SyncOutput) -> Check {
        match output {
            SyncOutput::Answer(waiter, outcome) => self.on_home_answers(at, waiter, outcome),
            SyncOutput::Recall { client, number } => self.ask_for_lease(at, client, number),
            SyncOutput::LeaseLost(who) => {
                self.count("recalls without an answer");
                self.locks.given_up.insert(who);
                self.locks_at(at).model.on_recalled(who, Recalled::Unknown);
                Ok(())
            }
        }
    }

    fn on_home_answers(&mut self, at: ProcessLife, waiter: Waiter, outcome: Outcome<SyncAnswer>) -> Check {
        let now_ms = self.now_ms;
        let service = self.locks_at(at);
        let asked =
            service.asked.remove(&waiter).ok_or_else(|| format!("{waiter:?} is answered what it did not ask: {outcome:?}"))?;
        match (asked, &outcome) {
            (Asked::Lock { name, mode, who, .. }, Ok(SyncAnswer::Granted { abandoned, leased, data })) => {
                if self.has(Defect::ForgetGrants) && self.dice.chance(200) {
                    return Ok(());
                }
                let is_first = self.judge_first(at, &name, *abandoned)?;
                if let Some(lock) = lock_at(&name) {
                    self.judge_data((at, is_first), (lock, mode), who, (*abandoned, data.as_deref()))?;
                }
                let model = &mut self.locks_at(at).model;
                model.on_granted(who, *abandoned)?;
                if *leased {
                    model.on_leased(who);
                    let id = self.locks.links.get(who.link).expect("who is granted a lock is there").id;
                    self.locks.leases.insert((id, who.number), (at, who));
                    self.count("locks leased");
                }
                self.count(if *abandoned { "grants of abandoned locks" } else { "grants" });
            }
            (Asked::Lock { who, has_waited, .. }, Ok(SyncAnswer::Busy)) => {
                service.model.on_busy(who)?;
                self.count(if has_waited { "locks busy after a recall" } else { "locks busy" });
            }
            (Asked::Lock { who, .. }, Err(Error::NotInTime { .. })) => {
                service.model.on_late(who, now_ms)?;
                self.count("waits given up");
            }
            (Asked::Lock { name, who, .. }, Err(Error::UnknownRegion { .. })) if self.is_freed(at, &name) => {
                self.locks_at(at).model.on_withdrawn(who);
                self.count("waits at bytes that are no more");
            }
            (Asked::Lock { who, .. }, Err(Error::NoCoordinator { .. } | Error::GrantRefused { .. })) => {
                self.locks_at(at).model.on_withdrawn(who);
                self.count("waits at former homes");
            }
            (Asked::Lock { who, .. }, _) => return Err(format!("{who:?} asks for a lock, and is answered {outcome:?}")),
            (Asked::Withdrawn, answer) => {
                check(matches!(answer, Err(Error::NotInTime { .. })), || format!("a wait that was given up ends by {answer:?}"))?;
            }
            (Asked::Meet(who), Err(Error::NoCoordinator { .. })) => {
                self.locks_at(at).model.on_party_gone(who);
                self.count("parties at former homes");
            }
            (Asked::Meet(who), _) => {
                if self.has(Defect::SwallowFailures) && outcome.is_err() {
                    return Ok(());
                }
                self.locks_at(at).model.on_told(who, &outcome.clone().map(drop))?;
                if outcome.is_err() {
                    self.count("group failures");
                }
            }
            (Asked::Other, _) => {}
        }
        self.send_client(waiter.link, waiter.seq, outcome);
        Ok(())
    }

    fn is_freed(&mut self, at: ProcessLife, name: &str) -> bool {
        let extent = extent_of_name(name);
        let process = self.process(at);
        extent.zip(process).is_some_and(|((gid, slot), process)| !process.lender.has(gid, slot))
    }

    /// A home's first grant of a lock says "abandoned" if a program believes to have it from another home. Returns true if this is the first.
    fn judge_first(&mut self, at: ProcessLife, name: &str, abandoned: bool) -> Result<bool, String> {
        if !self.locks_at(at).granted.insert(name.to_owned()) {
            return Ok(false);
        }
        let Some(other) = self.believer(name).map(|other| format!("{other:?}")) else { return Ok(true) };
        self.count("grants beside holders of a life before");
        check(abandoned, || format!("lock '{name}' is granted as if nobody had it, and another life granted it to {other}"))?;
        Ok(true)
    }

    /// A node may be the home of an extent from here on, where another was. `is_doubtful` where that one is lost, or left a doubt about locks.
    pub(in crate::cluster) fn judge_home(&mut self, at: ProcessLife, extent: CopiedExtent, is_doubtful: bool) {
        let Some(slot) = self.process(at).and_then(|process| process.served.home_slot(extent)) else { return };
        self.begin_granting(at, |name| extent_of_name(name) == Some((extent.gid, slot)));
        if is_doubtful {
            self.locks_at(at).model.doubt_bytes(extent.gid, slot);
            self.count("homes that doubt locks at bytes");
        }
    }

    /// A node is the home of these locks, and another may have been. What programs have from its own time as home before is void.
    pub(super) fn begin_granting(&mut self, at: ProcessLife, is_it: impl Fn(&str) -> bool) {
        let service = self.locks_at(at);
        service.granted.retain(|name| !is_it(name));
        let void = service.model.begin(is_it);
        if !void.is_empty() {
            self.count("locks of homes that are one again");
        }
        self.locks.given_up.extend(void);
    }

    /// A connection ended for the home.
    pub(super) fn on_link_gone(&mut self, home: ProcessLife, link: u64) -> Check {
        let Some(service) = self.locks.homes.get_mut(&home) else { return Ok(()) };
        let claims = service.model.claims_of(link);
        service.model.on_link_gone(link);
        service.asked.retain(|waiter, _| waiter.link != link);
        self.end_entries_of(link);
        if self.has(Defect::KeepDead) {
            return Ok(());
        }
        let mut outputs = Vec::new();
        if self.has(Defect::DieQuietly) {
            for (at, who) in claims.iter().enumerate() {
                let waiter = Waiter { link, seq: u64::MAX - at as u64 };
                outputs.extend(self.ask_home(home, waiter, ClientId(0), SyncRequest::Unlock { number: who.number }));
            }
            outputs.retain(|output| !matches!(output, Output::Sync(SyncOutput::Answer(waiter, _)) if waiter.link == link));
        }
        self.take(home, outputs)?;
        self.tell(home, Input::LinkGone { link })?;
        self.drain_node(home.0)
    }
}

/// The place of a lock, and its region where it is a byte.
fn lock_at(name: &str) -> Option<(Option<Gid>, usize)> {
    let extent = extent_of_name(name);
    let is_it = |at: &usize| extent.map_or(LOCKS[*at] == name, |(gid, slot)| name_of_byte(gid, slot, *at as u64) == name);
    (0..LOCKS.len()).find(is_it).map(|at| (extent.map(|(gid, _)| gid), at))
}
