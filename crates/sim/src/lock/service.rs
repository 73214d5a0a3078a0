//! The home's process: drives the home that nodes run, and tells the judge what crosses the home's border.

use super::judge::Model;
use super::{Defect, Event, LockWorld};
use crate::check::{Check, check};
use crate::served::{HomeInput, ServedHome, request};
use hanare_home::{Input, LockTerms, SyncOutput, Vector, Vectors, Waiter};
use hanare_protocol::lock::{Claimant, Recalled};
use hanare_protocol::wire::sync::{LeaseWish, Mode, Party, SyncAddress, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result as Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// A life of the home's process.
#[derive(Debug)]
pub(super) struct LockService {
    pub served: ServedHome<Vector>,
    /// Requests without an answer.
    asked: BTreeMap<Waiter, Asked>,
    /// Locks that were granted in this life.
    granted: BTreeSet<String>,
    is_member: bool,
}

/// A request without an answer, as the judge has to know it.
#[derive(Clone, Debug)]
enum Asked {
    Lock {
        name: String,
        who: Claimant,
        has_waited: bool,
    },
    /// Its program gave it up, and asked for another thing.
    Withdrawn,
    Meet(Claimant),
    Other,
}

impl LockService {
    pub fn is_at_rest(&self) -> bool {
        self.served.counts().lock_waits == 0
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
        let is_home = self.is_pools_home();
        let terms = LockTerms { is_home, was_home: life > 1 && !self.has(Defect::TrustRestart), was_lender: false };
        self.model = Model::of_life(life);
        let (asked, granted) = Default::default();
        self.home = Some(LockService { served: ServedHome::new(life, terms), asked, granted, is_member: true });
        self.rejoin_all();
        Ok(())
    }

    /// The home hears of an event, and of its place in the pool before. Returns what comes of it.
    fn tell(&mut self, input: HomeInput) -> Vec<SyncOutput> {
        let (now_ms, is_member) = (self.now_ms, self.home_is_member());
        let Some(home) = self.home.as_mut() else { return Vec::new() };
        let (memory, mut outputs) = (Vectors::default(), Vec::new());
        if std::mem::replace(&mut home.is_member, is_member) != is_member {
            outputs = home.served.handle(now_ms, Input::Member(is_member), &memory);
        }
        outputs.extend(home.served.handle(now_ms, input, &memory));
        outputs
    }

    /// Something happened that is no request.
    pub(super) fn on_input(&mut self, input: HomeInput) -> Check {
        let outputs = self.tell(input);
        self.take(outputs)
    }

    /// A request arrives.
    pub(super) fn on_request(&mut self, link: u64, seq: u64, asks: SyncRequest) -> Check {
        if !self.is_open(link, true) {
            self.count("messages lost with their connection");
            return Ok(());
        }
        self.note(format!("link {link}: {asks:?}"));
        let who = |number| Claimant { link, number };
        let asked = match &asks {
            SyncRequest::Lock { address: SyncAddress::Name(name), mode, number, bound_ms, lease, .. } => {
                self.on_lease_returned(link, *lease)?;
                let until = bound_ms.filter(|ms| *ms > 0).map(|ms| self.now_ms + ms);
                self.model.on_asked(name, who(*number), *mode, until);
                Asked::Lock { name: name.clone(), who: who(*number), has_waited: false }
            }
            SyncRequest::Withdraw { number } => {
                self.model.on_withdrawn(who(*number));
                let home = self.home.as_mut().expect("its connections are open");
                let is_it = |asked: &&mut Asked| matches!(asked, Asked::Lock { who: other, .. } if *other == who(*number));
                if let Some(asked) = home.asked.values_mut().find(is_it) {
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
        self.home.as_mut().expect("its connections are open").asked.insert(waiter, asked.clone());
        let client = self.links[&link].client;
        let outputs = input.map_or_else(Vec::new, |input| self.tell(request(waiter, client, input)));
        let own = outputs.iter().find_map(|output| match output {
            SyncOutput::Answer(to, outcome) if *to == waiter => Some(outcome.clone()),
            _ => None,
        });
        self.on_begun(waiter, &asks, own.as_ref())?;
        self.take(outputs)?;
        self.mislead(waiter, &asked, own.is_some())
    }

    /// A program returns a lease with its request, because its word says that nobody has the lock.
    fn on_lease_returned(&mut self, link: u64, lease: LeaseWish) -> Check {
        let Some(number) = lease.returns else { return Ok(()) };
        let before = Claimant { link, number };
        self.model.judge_answer(before, Recalled::Kept)?;
        self.model.on_recalled(before, Recalled::Kept);
        Ok(())
    }

    /// The judge hears what a request did at once, before it hears what others are told.
    fn on_begun(&mut self, waiter: Waiter, asks: &SyncRequest, own: Option<&Outcome<SyncAnswer>>) -> Check {
        let who = |number: &u64| Claimant { link: waiter.link, number: *number };
        match (asks, own) {
            (SyncRequest::Unlock { number }, Some(Ok(_))) => self.model.on_given_back(who(number)),
            (SyncRequest::Join { address: SyncAddress::Name(name), parties, number, .. }, Some(Ok(_))) => {
                self.model.on_joined(name, *parties, who(number))?;
            }
            (SyncRequest::Arrive(Party::Place(number), _), Some(Ok(_))) => {
                self.model.on_all_met(who(number))?;
                self.count("group rounds");
            }
            (SyncRequest::Arrive(Party::Place(number), _), None) => self.model.on_met(who(number))?,
            (SyncRequest::Arrive(Party::Place(number), _), Some(Err(error))) => {
                self.model.on_refused(who(number), error)?;
                self.count("group failures");
            }
            (SyncRequest::Leave { number }, Some(Ok(_))) => self.model.on_party_gone(who(number)),
            (SyncRequest::Lock { .. }, None) => self.count("waits for locks"),
            _ => {}
        }
        let waits = own.is_none();
        if let Some(asked) = self.home.as_mut().and_then(|home| home.asked.get_mut(&waiter)) {
            match asked {
                Asked::Lock { has_waited, .. } => *has_waited = waits,
                // The judge has heard of it.
                Asked::Meet(_) if !waits => *asked = Asked::Other,
                _ => {}
            }
        }
        Ok(())
    }

    /// The driver's own faults, each of which the judge must find.
    fn mislead(&mut self, waiter: Waiter, asked: &Asked, is_answered: bool) -> Check {
        match asked {
            Asked::Lock { .. } if !is_answered && self.has(Defect::GrantTwice) && self.dice.chance(500) => {
                let granted = SyncAnswer::Granted { abandoned: false, data: None, leased: false };
                self.send_client(waiter.link, waiter.seq, Ok(granted));
            }
            Asked::Meet(who) if !is_answered && self.has(Defect::ReleaseEarly) && self.dice.chance(1_000) => {
                self.model.on_all_met(*who)?;
            }
            Asked::Other if !is_answered && self.has(Defect::ForgetWithdrawals) => {
                self.send_client(waiter.link, waiter.seq, Ok(SyncAnswer::Done));
            }
            _ => {}
        }
        Ok(())
    }

    /// Does what the home orders, each as the judge allows it.
    fn take(&mut self, outputs: Vec<SyncOutput>) -> Check {
        for output in outputs {
            match output {
                SyncOutput::Answer(waiter, outcome) => self.on_answered(waiter, outcome)?,
                SyncOutput::Recall { client, number } => self.ask_node(client.0, number),
                SyncOutput::LeaseLost(who) => {
                    self.count("recalls without an answer");
                    self.leases.given_up.insert(who);
                    self.model.on_recalled(who, Recalled::Unknown);
                }
            }
        }
        let now_ms = self.now_ms;
        let Some(home) = self.home.as_mut() else { return Ok(()) };
        let (life, tick) = (home.served.life, home.served.next_tick(now_ms));
        if let Some(after) = tick.filter(|_| !self.has(Defect::ForgetBounds)) {
            let late = if self.has(Defect::TickLate) { 40 } else { 0 };
            self.at(after + late, Event::Tick { life });
        }
        Ok(())
    }

    fn on_answered(&mut self, waiter: Waiter, outcome: Outcome<SyncAnswer>) -> Check {
        let home = self.home.as_mut().expect("it answers");
        let asked =
            home.asked.remove(&waiter).ok_or_else(|| format!("{waiter:?} is answered what it did not ask: {outcome:?}"))?;
        match (asked, &outcome) {
            (Asked::Lock { name, who, .. }, Ok(SyncAnswer::Granted { abandoned, leased, .. })) => {
                if self.has(Defect::ForgetGrants) && self.dice.chance(200) {
                    return Ok(());
                }
                self.judge_first(&name, *abandoned)?;
                self.model.on_granted(who, *abandoned)?;
                self.count(if *abandoned { "grants of abandoned locks" } else { "grants" });
                if *leased {
                    self.model.on_leased(who);
                    self.count("locks leased");
                }
            }
            (Asked::Lock { who, has_waited, .. }, Ok(SyncAnswer::Busy)) => {
                self.model.on_busy(who)?;
                self.count(if has_waited { "locks busy after a recall" } else { "locks busy" });
            }
            (Asked::Lock { who, .. }, Err(Error::NotInTime { .. })) => {
                let now_ms = self.now_ms;
                self.model.on_late(who, now_ms)?;
                self.count("waits given up");
            }
            (Asked::Lock { who, .. }, _) => return Err(format!("{who:?} asks for a lock, and is answered {outcome:?}")),
            (Asked::Withdrawn, answer) => {
                check(matches!(answer, Err(Error::NotInTime { .. })), || format!("a wait that was given up ends by {answer:?}"))?;
            }
            (Asked::Meet(who), _) => {
                if self.has(Defect::SwallowFailures) && outcome.is_err() {
                    return Ok(());
                }
                self.model.on_told(who, &outcome.clone().map(drop))?;
                if outcome.is_err() {
                    self.count("group failures");
                }
            }
            (Asked::Other, _) => {}
        }
        self.send_client(waiter.link, waiter.seq, outcome);
        Ok(())
    }

    /// A life's first grant of a lock says that it is abandoned, where a program still believes to have it from a life before.
    fn judge_first(&mut self, name: &str, abandoned: bool) -> Check {
        let home = self.home.as_mut().expect("it grants");
        if !home.granted.insert(name.to_owned()) {
            return Ok(());
        }
        let Some(other) = self.believer(name, Mode::Exclusive) else { return Ok(()) };
        self.count("grants beside holders of a life before");
        check(abandoned, || format!("lock '{name}' is granted as if nobody had it, and another life granted it to {other:?}"))
    }

    /// The home's deadline has come.
    pub(super) fn on_tick(&mut self, life: u64) -> Check {
        match self.home.as_ref().is_some_and(|home| home.served.life == life) {
            true => self.on_input(Input::Tick),
            false => Ok(()),
        }
    }

    /// A connection ended for the home.
    pub(super) fn on_link_gone(&mut self, link: u64) -> Check {
        let claims = self.model.claims_of(link);
        self.model.on_link_gone(link);
        let Some(home) = self.home.as_mut() else { return Ok(()) };
        home.asked.retain(|waiter, _| waiter.link != link);
        if self.has(Defect::KeepDead) {
            return Ok(());
        }
        let mut outputs = Vec::new();
        if self.has(Defect::DieQuietly) {
            for (at, who) in claims.iter().enumerate() {
                let waiter = Waiter { link, seq: u64::MAX - at as u64 };
                outputs.extend(self.tell(request(waiter, 0, SyncRequest::Unlock { number: who.number })));
            }
            outputs.retain(|output| !matches!(output, SyncOutput::Answer(waiter, _) if waiter.link == link));
        }
        outputs.extend(self.tell(Input::LinkGone { link }));
        self.take(outputs)
    }
}
