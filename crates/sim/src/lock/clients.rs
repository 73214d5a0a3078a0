//! Clients' acts: their threads take locks for a while, one or two in the order of their names, and meet in groups.
//!
//! No thread waits for its group with a lock in hand, so nobody waits for ever where the home does what it says.

use super::*;
use crate::check::check;
use crate::dice::Dice;
use hanare_protocol::id::{ClientId, NodeId, PartyName};
use hanare_protocol::limits::LATE_MS;
use hanare_protocol::lock::lease::{LeaseEvent, LeasePhase};
use hanare_protocol::wire::sync::{LeaseWish, Mode, Party, SyncAddress};
use std::collections::BTreeSet;

/// Locks that threads fight for.
const LOCKS: [&str; 3] = ["a", "b", "c"];
/// Groups, and their parties.
const GROUPS: [(&str, u32); 2] = [("pair", 2), ("trio", 3)];
/// Threads of a program.
const THREAD_COUNT: usize = 2;

/// A program attached to the pool.
#[derive(Debug)]
pub(super) struct Client {
    pub node: u64,
    pub link: Option<u64>,
    /// The next lock, place or request.
    next: u64,
    threads: Vec<Thread>,
    /// Requests that nobody waits for any longer.
    forsaken: BTreeSet<u64>,
    /// Locks that are leased to it: the number of the taking, and its connection.
    leased: BTreeMap<&'static str, (u64, u64)>,
}

/// A lock that a thread has, as far as it knows.
#[derive(Clone, Debug)]
pub(super) struct GrantedLock {
    name: &'static str,
    mode: Mode,
    number: u64,
    link: u64,
    is_leased: bool,
}

/// A thread's act.
enum Act {
    GiveBack(GrantedLock),
    Ask(SyncRequest),
}

#[derive(Debug, Default)]
struct Thread {
    held: Vec<GrantedLock>,
    /// Its place in a group, by number.
    place: Option<u64>,
    /// The request under way: its number, what, and over which connection.
    waits: Option<(u64, SyncRequest, u64)>,
}

impl LockWorld {
    /// A program begins.
    pub(super) fn on_begin(&mut self, node: u64) -> Check {
        self.client_count += 1;
        let client = self.client_count;
        let threads = (0..THREAD_COUNT).map(|_| Thread::default()).collect();
        self.clients
            .insert(client, Client { node, link: None, next: 0, threads, forsaken: BTreeSet::new(), leased: BTreeMap::new() });
        self.at(0, Event::Connect { client });
        Ok(())
    }

    /// A connection is there: threads go on, and repeat what they had not got.
    pub(super) fn resume(&mut self, client: u64) -> Check {
        for thread in 0..THREAD_COUNT {
            let after = self.dice.between(0, 50);
            self.at(after, Event::Thread { client, thread });
        }
        Ok(())
    }

    /// A client's connection is over: what it held is lost to it, and it knows.
    pub(super) fn on_link_lost(&mut self, client: u64, link: u64) {
        let Some(me) = self.clients.get_mut(&client).filter(|me| me.link == Some(link)) else { return };
        me.link = None;
        me.forsaken.clear();
        let mut lost = 0;
        for thread in &mut me.threads {
            lost += thread.held.len();
            *thread = Thread::default();
        }
        (0..lost).for_each(|_| self.count("locks lost with their connection"));
        let after = self.dice.between(0, 300);
        self.at(after, Event::Connect { client });
    }

    /// A thread does its next thing, if it waits for nothing.
    pub(super) fn on_thread(&mut self, client: u64, thread: usize) -> Check {
        let Some(Client { link: Some(link), threads, next, .. }) = self.clients.get_mut(&client) else { return Ok(()) };
        let (link, seq) = (*link, *next);
        if threads[thread].waits.is_some() {
            return Ok(());
        }
        *next += 2;
        let Some(act) = self.next_act(client, thread, seq + 1) else { return Ok(()) };
        let Some(request) = self.without_message((client, thread, link), act)? else {
            let after = self.dice.pick(&[0, 3, 30, 300]);
            self.at(after, Event::Thread { client, thread });
            return Ok(());
        };
        let me = &mut self.clients.get_mut(&client).expect("as just seen").threads[thread];
        me.waits = Some((seq, request.clone(), link));
        self.count("requests");
        if let SyncRequest::Lock { bound_ms: Some(ms), .. } = request {
            self.at(ms + LATE_MS, Event::Forsake { client, thread, seq });
        }
        self.send_home(link, seq, request);
        Ok(())
    }

    /// A thread's next act, by that number where it takes one.
    fn next_act(&mut self, client: u64, thread: usize, number: u64) -> Option<Act> {
        let Course { dice, is_rough: begins, .. } = &mut self.course;
        let (me, begins) = (&mut self.clients.get_mut(&client)?.threads[thread], *begins);
        let last = me.held.last().map(|held| held.name);
        match (last, me.place) {
            // Another beside it, behind it in the alphabet; or back with it.
            (Some(name), _) if begins && name < LOCKS[LOCKS.len() - 1] && dice.chance(2_000) => {
                let behind: Vec<&str> = LOCKS.into_iter().filter(|other| *other > name).collect();
                let name = dice.pick(&behind);
                Some(Act::Ask(lock(dice, name, thread, number)))
            }
            // From here on it does not count on it.
            (Some(_), _) => me.held.pop().map(Act::GiveBack),
            (None, Some(number)) if begins && dice.chance(7_000) => {
                Some(Act::Ask(SyncRequest::Arrive(Party::Place(number), None)))
            }
            (None, Some(number)) if !begins || dice.chance(3_000) => Some(Act::Ask(SyncRequest::Leave { number })),
            (None, None) if begins && dice.chance(1_500) => {
                let (name, parties) = dice.pick(&GROUPS);
                let address = SyncAddress::Name(name.to_owned());
                Some(Act::Ask(SyncRequest::Join { address, parties, number, client: named(client) }))
            }
            (None, _) if begins => {
                let name = dice.pick(&LOCKS);
                Some(Act::Ask(lock(dice, name, thread, number)))
            }
            (None, _) => None,
        }
    }

    /// Does it in the words that the client shares with its node, where it can; else returns what the home is asked.
    fn without_message(&mut self, (client, thread, link): (u64, usize, u64), act: Act) -> Result<Option<SyncRequest>, String> {
        match act {
            Act::GiveBack(held) => {
                let who = Claimant { link: held.link, number: held.number };
                // Like the library, the program gives back by a message a lock that it could not take again.
                let holds = self.leases_hold(self.clients[&client].node);
                if held.is_leased && holds && self.leases.step(client, held.number, LeaseEvent::Keep) {
                    self.model.on_kept(who);
                    self.count("locks kept");
                    return Ok(None);
                }
                if held.link != link {
                    self.count("locks lost with their connection");
                    return Ok(None);
                }
                Ok(Some(SyncRequest::Unlock { number: held.number }))
            }
            Act::Ask(SyncRequest::Lock {
                address: SyncAddress::Name(name), mode, number, thread: own, bound_ms, known, ..
            }) => {
                let mut lease = LeaseWish::default();
                let holds = self.leases_hold(self.clients[&client].node);
                let me = self.clients.get_mut(&client).expect("the caller saw it");
                let node = me.node;
                match me.leased.get(name.as_str()).copied() {
                    None if mode == Mode::Exclusive && self.course.dice.chance(5_000) => {
                        lease.keeps = true;
                        self.leases.ask((client, node), link, number);
                    }
                    None => {}
                    Some((before, on)) => {
                        if mode == Mode::Exclusive && holds && self.leases.step(client, before, LeaseEvent::Take) {
                            let name = LOCKS.into_iter().find(|known| *known == name).expect("one of them");
                            me.threads[thread].held.push(GrantedLock { name, mode, number: before, link: on, is_leased: true });
                            return self.took_again(name, Claimant { link: on, number: before }).map(|()| None);
                        }
                        if (mode != Mode::Exclusive || !holds) && self.leases.phase(client, before) == LeasePhase::Kept {
                            self.leases.step(client, before, LeaseEvent::Recall);
                        }
                        lease.returns = (self.leases.phase(client, before) == LeasePhase::Gone).then_some(before);
                    }
                }
                let address = SyncAddress::Name(name);
                Ok(Some(SyncRequest::Lock { address, mode, number, thread: own, bound_ms, known, lease }))
            }
            Act::Ask(request) => Ok(Some(request)),
        }
    }

    /// A thread has a lock again that was kept.
    fn took_again(&mut self, name: &str, who: Claimant) -> Check {
        self.count("locks taken again");
        check(!self.leases.given_up.contains(&who), || format!("{who:?} takes '{name}', which the home has given up"))?;
        self.model.on_taken_again(who)?;
        self.judge_belief(name)
    }

    /// The home has answered a request for a lock: it knows of the lease that was returned, and of the one that was asked for.
    fn settle_leases(&mut self, client: u64, link: u64, request: &SyncRequest, leased: bool) {
        let SyncRequest::Lock { address: SyncAddress::Name(name), number, lease, .. } = request else { return };
        let Some(me) = self.clients.get_mut(&client) else { return };
        if let Some(before) = lease.returns
            && let Some((_, on)) = me.leased.get(name.as_str()).copied().filter(|(number, _)| *number == before)
        {
            me.leased.remove(name.as_str());
            if on == link {
                self.leases.step(client, before, LeaseEvent::End);
            }
        }
        if leased {
            self.leases.step(client, *number, LeaseEvent::Lend);
            let name = LOCKS.into_iter().find(|known| known == name).expect("one of them");
            me.leased.insert(name, (*number, link));
        } else if lease.keeps {
            self.leases.step(client, *number, LeaseEvent::End);
        }
    }

    /// A thread gives up waiting for a lock that should have come long ago.
    pub(super) fn on_forsake(&mut self, client: u64, thread: usize, seq: u64) -> Check {
        let Some(Client { link: Some(link), threads, next, forsaken, .. }) = self.clients.get_mut(&client) else {
            return Ok(());
        };
        let me = &mut threads[thread];
        let Some((_, SyncRequest::Lock { number, .. }, _)) = me.waits.take_if(|(other, ..)| *other == seq) else { return Ok(()) };
        let (withdrawal, link) = (*next, *link);
        *next += 2;
        forsaken.extend([seq, withdrawal]);
        self.count("waits forsaken");
        self.send_home(link, withdrawal, SyncRequest::Withdraw { number });
        self.at(0, Event::Thread { client, thread });
        Ok(())
    }

    /// An answer arrives.
    pub(super) fn on_answer(&mut self, link: u64, seq: u64, answer: Outcome<SyncAnswer>) -> Check {
        if !self.is_open(link, false) {
            self.count("messages lost with their connection");
            return Ok(());
        }
        let client = self.links[&link].client;
        let me = self.clients.get_mut(&client).ok_or("an open connection of nobody")?;
        if me.forsaken.remove(&seq) {
            self.note(format!("client {client} does not wait any longer for {answer:?}"));
            return Ok(());
        }
        let waits = |thread: &Thread| thread.waits.as_ref().is_some_and(|(other, ..)| *other == seq);
        let thread = me.threads.iter().position(waits).ok_or_else(|| format!("client {client} is answered twice: {answer:?}"))?;
        let me = &mut me.threads[thread];
        let (_, request, _) = me.waits.take().expect("as just seen");
        self.note(format!("client {client}, thread {thread}: {request:?} is answered {answer:?}"));
        let me = &mut self.clients.get_mut(&client).expect("as just seen").threads[thread];
        match (&request, &answer) {
            (
                SyncRequest::Lock { address: SyncAddress::Name(name), mode, number, .. },
                Ok(SyncAnswer::Granted { leased, .. }),
            ) => {
                let name = LOCKS.into_iter().find(|known| known == name).expect("one of them");
                me.held.push(GrantedLock { name, mode: *mode, number: *number, link, is_leased: *leased });
                self.settle_leases(client, link, &request, *leased);
                self.judge_belief(name)?;
            }
            (SyncRequest::Unlock { number }, Ok(SyncAnswer::Done)) => {
                self.leases.step(client, *number, LeaseEvent::End);
                self.clients.get_mut(&client).expect("as above").leased.retain(|_, (other, _)| other != number);
            }
            (SyncRequest::Unlock { number }, Err(Error::LockMisused { .. }))
                if self.leases.given_up.contains(&Claimant { link, number: *number }) =>
            {
                self.count("locks lost because no node answered");
            }
            (SyncRequest::Join { number, .. }, Ok(SyncAnswer::Joined { .. })) => me.place = Some(*number),
            (SyncRequest::Leave { .. }, Ok(SyncAnswer::Done)) => me.place = None,
            (SyncRequest::Lock { bound_ms: Some(0), .. }, Ok(SyncAnswer::Busy))
            | (SyncRequest::Lock { bound_ms: Some(_), .. }, Err(Error::NotInTime { .. })) => {
                self.settle_leases(client, link, &request, false);
            }
            (SyncRequest::Arrive(..), Ok(_)) => {}
            (SyncRequest::Join { .. }, Err(Error::BadGroup { .. })) => {}
            (SyncRequest::Arrive(..), Err(Error::PartyGone { .. })) => {}
            _ => {
                let refused = matches!(&answer, Err(error) if is_refusal(error));
                return Err(format!("{request:?} is {} {answer:?}", if refused { "refused" } else { "answered" }));
            }
        }
        let after = self.dice.pick(&[0, 3, 30, 300]);
        self.at(after, Event::Thread { client, thread });
        Ok(())
    }

    /// Checks the threads that believe to have a lock, over connections that the home has not given up. Either one has it alone, or all
    /// have it in one mode, and no more than that lets in.
    fn judge_belief(&self, name: &str) -> Check {
        let is_open = |held: &&GrantedLock| {
            let who = Claimant { link: held.link, number: held.number };
            self.links.get(&held.link).is_some_and(|link| link.is_open_at_home) && !self.leases.given_up.contains(&who)
        };
        let all = self.clients.values().flat_map(|client| &client.threads).flat_map(|thread| &thread.held);
        let have: Vec<&GrantedLock> = all.filter(|held| held.name == name).filter(is_open).collect();
        let most = have.iter().map(|held| most_in(held.mode)).min().unwrap_or_default();
        let is_one_mode = have.iter().all(|held| held.mode == have[0].mode);
        check(is_one_mode && have.len() <= most, || format!("lock '{name}' is held twice: {have:?}"))
    }

    /// A thread that believes to have a lock in a mode, over any connection.
    pub(super) fn believer(&self, name: &str, mode: Mode) -> Option<GrantedLock> {
        let mut all = self.clients.values().flat_map(|client| &client.threads).flat_map(|thread| &thread.held);
        all.find(|held| held.name == name && held.mode == mode).cloned()
    }

    /// At the end nobody waits, but for parties that never came.
    pub(super) fn is_at_rest(&self) -> Check {
        for (id, client) in &self.clients {
            for thread in &client.threads {
                check(thread.held.is_empty(), || format!("client {id} has not got back to giving back: {thread:?}"))?;
                match &thread.waits {
                    None => {}
                    Some((_, SyncRequest::Arrive(Party::Place(number), _), link)) => {
                        self.model.judge_lonely(Claimant { link: *link, number: *number })?;
                    }
                    Some(waits) => return Err(format!("client {id} has no answer to {waits:?}")),
                }
            }
        }
        let home = self.home.as_ref().ok_or("the home is not back")?;
        check(home.is_at_rest(), || format!("the home has somebody waiting for a lock: {home:?}"))?;
        let orphans = self.model.orphan_count();
        let (leased, counts) = (self.model.lease_count(), home.served.counts());
        check((counts.locks, counts.leases) == (orphans + leased, leased), || {
            format!("{orphans} locks were abandoned, {leased} are leased, and the home has {counts:?}")
        })?;
        self.judge_leases()
    }
}

fn lock(dice: &mut Dice, name: &str, thread: usize, number: u64) -> SyncRequest {
    let mode = dice.pick(&[Mode::Exclusive, Mode::Exclusive, Mode::Shared, Mode::OneOf(2)]);
    let bound_ms = dice.pick(&[None, None, None, Some(0), Some(20), Some(1_000)]);
    SyncRequest::Lock {
        address: SyncAddress::Name(name.to_owned()),
        mode,
        number,
        thread: thread as u64,
        bound_ms,
        known: None,
        lease: LeaseWish::default(),
    }
}

/// Name of a party of this client.
fn named(client: u64) -> PartyName {
    PartyName { client: ClientId(client), rank: None, process: 0, node: NodeId(0) }
}
