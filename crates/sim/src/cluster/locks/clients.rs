//! Programs' acts: their threads take locks for a while, one or two in the order of their names, and meet in groups.
//!
//! No thread waits for its group with a lock in hand. So nobody waits for ever where the home does what it says.

use super::leases::ProgramTaking;
use super::{Cluster, Event, LockEvent, PROGRAM_COUNT_MAX, ProcessLife};
use crate::check::{Check, check};
use crate::cluster::process::Opener;
use crate::dice::Dice;
use hanare_protocol::attributes::Attributes;
use hanare_protocol::id::{ClientId, NodeId, PartyName};
use hanare_protocol::limits::LATE_MS;
use hanare_protocol::lock::Claimant;
use hanare_protocol::name::name_of_byte;
use hanare_protocol::placement::Placement;
use hanare_protocol::wire::control::{Answer, Existing, RegionView, Request};
use hanare_protocol::wire::sync::{LeaseWish, Mode, Party, SyncAddress, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result as Outcome};
use hanare_ring::lease::table::{Again, GrantOf, LeaseTable, LeasedLock, Wish};
use hanare_ring::lease::{LEASES_LEN, Leases};
use hanare_ring::testing::Steps;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Locks that threads fight for, by name; the same number of bytes are locks, too.
pub(super) const LOCKS: [&str; 3] = ["a", "b", "c"];
/// Groups, and their parties.
const GROUPS: [(&str, u32); 2] = [("pair", 2), ("trio", 3)];
/// Threads of a program.
const THREAD_COUNT: usize = 2;
/// The region whose bytes are locks, and the user of all programs.
pub(in crate::cluster) const REGION: &str = "locks";
pub(in crate::cluster) const UID: u32 = 600;

/// A program attached to a node.
#[derive(Debug)]
pub(super) struct Client {
    /// Its node.
    pub at: ProcessLife,
    pub id: ClientId,
    pub link: Option<u64>,
    /// The next lock, place or request.
    next: u64,
    pub threads: Vec<Thread>,
    /// Requests that nobody waits for any longer.
    forsaken: BTreeSet<u64>,
    /// Locks that are leased to it, and their words.
    pub table: LeaseTable<ProgramTaking>,
    pub words: Leases<Steps>,
    /// The region of its locks, as it opened it last, if they are bytes.
    pub region: Option<Option<RegionView>>,
    /// True if its locks have data. It has one thread then, and joins no groups.
    pub has_data: bool,
}

/// A lock that a thread has, as far as it knows.
#[derive(Clone, Debug)]
pub(super) struct GrantedLock {
    at: usize,
    pub mode: Mode,
    pub taking: Arc<ProgramTaking>,
    leased: Option<LeasedLock>,
}

/// A thread's act.
enum Act {
    GiveBack(GrantedLock),
    Take { at: usize, mode: Mode, bound_ms: Option<u64> },
    Ask(SyncRequest),
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Waits {
    seq: u64,
    pub request: SyncRequest,
    pub link: u64,
    /// The lock that is asked for, or given back.
    lock: LockAsked,
}

#[derive(Debug)]
enum LockAsked {
    None,
    Taken(usize, Wish),
    GivenBack(GrantedLock),
}

#[derive(Debug, Default)]
pub(super) struct Thread {
    pub held: Vec<GrantedLock>,
    /// Its place in a group, by number.
    place: Option<u64>,
    pub waits: Option<Waits>,
}

impl Client {
    pub fn is_by_names(&self) -> bool {
        self.region.is_none()
    }

    /// The node of the region of its locks, as it knows it.
    pub fn home_of_bytes(&self, cluster: &Cluster) -> Option<ProcessLife> {
        cluster.home_of_view(self.region.as_ref()?.as_ref()?)
    }

    /// A lock's address, and the program's key for it.
    fn address(&self, at: usize) -> Option<(SyncAddress, String)> {
        let Some(region) = &self.region else { return Some((SyncAddress::Name(LOCKS[at].to_owned()), LOCKS[at].to_owned())) };
        let (view, offset) = (region.as_ref()?, at as u64);
        let slot = view.layout.extents().next()?.slot;
        Some((SyncAddress::Byte { slot, grant: *view.grants.first()?, offset }, name_of_byte(view.gid, slot, offset)))
    }

    /// A lock is not asked for any more.
    fn fail(&mut self, lock: &LockAsked, now_ns: u64) {
        match lock {
            LockAsked::Taken(_, wish) => self.table.failed(&self.words, wish, now_ns),
            LockAsked::GivenBack(held) => self.lose(held, now_ns),
            LockAsked::None => {}
        }
    }

    /// A lock was lost with its connection: nobody can say what its home knows.
    fn lose(&mut self, held: &GrantedLock, now_ns: u64) {
        if let Some(leased) = held.leased {
            self.table.ended(&self.words, (&held.taking.name, leased), false, now_ns);
        }
    }
}

impl Cluster {
    /// A program begins.
    pub(super) fn on_begin(&mut self, at: ProcessLife) -> Check {
        let Some(process) = self.process(at) else { return Ok(()) };
        let Some((node, _)) = process.member.identity().filter(|_| self.locks.clients.len() < PROGRAM_COUNT_MAX) else {
            self.at(100, Event::Lock(LockEvent::Begin { at }));
            return Ok(());
        };
        self.locks.client_count += 1;
        let (client, memory) = (self.locks.client_count, Steps::new(LEASES_LEN));
        let id = ClientId::at(node, client as u32);
        self.process(at).expect("as just seen").leases.enter(id, Leases::new(memory.other_process(), 0));
        let words = Leases::new(memory, 0);
        let region = self.dice.chance(5_000).then_some(None);
        let has_data = self.has_entries(region.is_none());
        let threads = (0..if has_data { 1 } else { THREAD_COUNT }).map(|_| Thread::default()).collect();
        let (link, next, forsaken, table) = Default::default();
        self.locks.clients.insert(client, Client { at, id, link, next, threads, forsaken, table, words, region, has_data });
        self.at(0, Event::Lock(LockEvent::Connect { client }));
        Ok(())
    }

    /// A program asks its node for the region of its locks.
    pub(super) fn look_for_bytes(&mut self, client: u64) -> Check {
        let Some(Client { at, id, region: Some(_), .. }) = self.locks.clients.get(&client) else { return Ok(()) };
        let (at, id) = (*at, *id);
        let is_open = |opener: &Opener| matches!(opener, Opener::Locks(other) if *other == client);
        if self.hosts[at.0].is_stopped || self.process(at).is_none_or(|process| process.opens.values().any(is_open)) {
            return Ok(());
        }
        self.ask_region(at.0, (UID, id), self.lock_region(), Opener::Locks(client))
    }

    /// The request for the region of locks, which creates it where there is none.
    pub(in crate::cluster) fn lock_region(&self) -> Request {
        Request::Create {
            name: REGION.to_owned(),
            len: 4096,
            placement: Placement::Local,
            copies: self.copies_of_locks(),
            mode: 0o600,
            attributes: Attributes::default(),
            existing: Existing::AttachOrRenew,
        }
    }

    /// A program has an answer about its region.
    pub(in crate::cluster) fn on_locks_opened(&mut self, client: u64, result: Outcome<Answer>) {
        if let (Some(me), Ok(Answer::Region(view))) = (self.locks.clients.get_mut(&client), result) {
            me.region = Some(Some(view));
        }
    }

    /// A connection is there: threads go on, and repeat what they had not got.
    pub(super) fn resume(&mut self, client: u64) {
        let threads = self.locks.clients.get(&client).map_or(0, |me| me.threads.len());
        for thread in 0..threads {
            let after = self.dice.between(0, 50);
            self.at(after, Event::Lock(LockEvent::Thread { client, thread }));
        }
    }

    /// A program's connection is over: what it held is lost to it, and it knows. What is leased to it may still be kept.
    pub(super) fn on_link_lost(&mut self, client: u64, link: u64) {
        let now_ns = self.now_ns();
        let Some(me) = self.locks.clients.get_mut(&client).filter(|me| me.link == Some(link)) else { return };
        me.link = None;
        me.forsaken.clear();
        let mut lost = 0;
        for thread in 0..me.threads.len() {
            let Thread { held, waits, .. } = std::mem::take(&mut me.threads[thread]);
            waits.into_iter().for_each(|waits| me.fail(&waits.lock, now_ns));
            let (leased, others): (Vec<_>, Vec<_>) = held.into_iter().partition(|held| held.leased.is_some());
            lost += others.len();
            me.threads[thread].held = leased;
        }
        // The program opens its region anew.
        me.region = me.region.take().map(|_| None);
        (0..lost).for_each(|_| self.count("locks lost with their connection"));
        self.lose_entry(client);
        let after = self.dice.between(0, 300);
        self.at(after, Event::Lock(LockEvent::Connect { client }));
    }

    /// A thread does its next thing, if it waits for nothing.
    pub(super) fn on_thread(&mut self, client: u64, thread: usize) -> Check {
        let Some(Client { link: Some(link), threads, .. }) = self.locks.clients.get_mut(&client) else { return Ok(()) };
        let link = *link;
        if threads[thread].waits.is_some() || self.step_entry(client)? {
            return Ok(());
        }
        let Some(me) = self.locks.clients.get_mut(&client) else { return Ok(()) };
        let seq = me.next;
        me.next += 2;
        let Some(act) = self.next_act(client, thread, seq + 1) else { return Ok(()) };
        let Some((request, lock)) = self.without_message((client, thread, link), act, seq + 1)? else {
            let after = self.dice.pick(&[0, 3, 30, 300]);
            self.at(after, Event::Lock(LockEvent::Thread { client, thread }));
            return Ok(());
        };
        if let SyncRequest::Lock { bound_ms: Some(ms), .. } = request {
            self.at(ms + LATE_MS, Event::Lock(LockEvent::Forsake { client, thread, seq }));
        }
        self.wait_for_home((client, thread, link), seq, request, lock);
        Ok(())
    }

    fn wait_for_home(&mut self, (client, thread, link): (u64, usize, u64), seq: u64, request: SyncRequest, lock: LockAsked) {
        let me = &mut self.locks.clients.get_mut(&client).expect("the caller saw it").threads[thread];
        me.waits = Some(Waits { seq, request: request.clone(), link, lock });
        self.count("requests of threads");
        self.send_home(link, seq, request);
    }

    /// True if a program with data waits for the home of its locks, or is no more.
    pub(in crate::cluster) fn is_waiting(&self, client: u64) -> bool {
        self.locks.clients.get(&client).is_none_or(|me| me.threads[0].waits.is_some())
    }

    /// A program asks something about a lock with data that it has. From here on it does not count on one that it gives back.
    pub(in crate::cluster) fn ask_about_lock(&mut self, client: u64, request: SyncRequest) -> Check {
        let me = self.locks.clients.get_mut(&client).ok_or("a program that is no more asks")?;
        let (seq, link) = (me.next, me.link.ok_or("a program without a connection asks")?);
        me.next += 2;
        let lock = match &request {
            SyncRequest::Unlock { number } | SyncRequest::Release { number, .. } => {
                let held = &mut me.threads[0].held;
                let at =
                    held.iter().position(|held| held.taking.number == *number).ok_or("who gives a lock back has not got it")?;
                LockAsked::GivenBack(held.remove(at))
            }
            _ => LockAsked::None,
        };
        self.wait_for_home((client, 0, link), seq, request, lock);
        Ok(())
    }

    /// A thread's next act, by that number where it takes one.
    fn next_act(&mut self, client: u64, thread: usize, number: u64) -> Option<Act> {
        let (dice, begins) = (&mut self.course.dice, self.course.is_rough);
        let client = self.locks.clients.get_mut(&client)?;
        let (joins, has_data, party) = (client.is_by_names() && !client.has_data, client.has_data, party(client.id));
        let me = &mut client.threads[thread];
        match (me.held.last().map(|held| held.at), me.place) {
            // Another beside it, behind it in the alphabet; or back with it.
            (Some(last), _) if begins && last + 1 < LOCKS.len() && (has_data || dice.chance(2_000)) => {
                let at = dice.between(last as u64 + 1, LOCKS.len() as u64 - 1) as usize;
                Some(lock(dice, at))
            }
            // From here on it does not count on it.
            (Some(_), _) => me.held.pop().map(Act::GiveBack),
            (None, Some(number)) if begins && dice.chance(7_000) => {
                Some(Act::Ask(SyncRequest::Arrive(Party::Place(number), None)))
            }
            (None, Some(number)) if !begins || dice.chance(3_000) => Some(Act::Ask(SyncRequest::Leave { number })),
            (None, None) if begins && joins && dice.chance(1_500) => {
                let (name, parties) = dice.pick(&GROUPS);
                let address = SyncAddress::Name(name.to_owned());
                Some(Act::Ask(SyncRequest::Join { address, parties, number, client: party }))
            }
            (None, _) if begins => {
                let at = dice.below(LOCKS.len() as u64) as usize;
                Some(lock(dice, at))
            }
            (None, _) => None,
        }
    }

    /// Does it in the words that the program shares with its node, where it can; else returns what the home is asked.
    fn without_message(
        &mut self,
        (client, thread, link): (u64, usize, u64),
        act: Act,
        number: u64,
    ) -> Result<Option<(SyncRequest, LockAsked)>, String> {
        let now_ns = self.now_ns();
        let me = self.locks.clients.get_mut(&client).expect("the caller saw it");
        match act {
            Act::GiveBack(held) => {
                if held.leased.is_some_and(|leased| me.words.keep(leased, now_ns)) {
                    self.count("locks kept");
                    if let Some(service) = self.locks.homes.get_mut(&held.taking.home) {
                        service.model.on_kept(held.taking.who());
                    }
                    return Ok(None);
                }
                if held.taking.link != link {
                    me.lose(&held, now_ns);
                    self.count("locks lost with their connection");
                    return Ok(None);
                }
                Ok(Some((SyncRequest::Unlock { number: held.taking.number }, LockAsked::GivenBack(held))))
            }
            Act::Take { at, mode, bound_ms } => {
                let (address, name) = me.address(at).ok_or("a program is connected without its region")?;
                match me.table.take(&me.words, &name, mode, || now_ns) {
                    Again::Ask => {}
                    Again::Taken(lease) => {
                        let (taking, leased) = (lease.taking, Some(lease.leased));
                        me.threads[thread].held.push(GrantedLock { at, mode, taking: taking.clone(), leased });
                        return self.took_again(&taking).map(|()| None);
                    }
                    again => return Err(format!("program {client} takes '{name}', and another changes its words: {again:?}")),
                }
                let wish = me.table.wish(&me.words, &name, (mode, number), now_ns);
                let (lease, thread) = (if me.has_data { LeaseWish::default() } else { wish.wire }, thread as u64);
                let known = self.known_of(client, at);
                let request = SyncRequest::Lock { address, mode, number, thread, bound_ms, known, lease };
                Ok(Some((request, LockAsked::Taken(at, wish))))
            }
            Act::Ask(request) => Ok(Some((request, LockAsked::None))),
        }
    }

    /// A thread has a lock again that was kept.
    fn took_again(&mut self, taking: &ProgramTaking) -> Check {
        self.count("locks taken again");
        let who = taking.who();
        check(!self.locks.given_up.contains(&who), || format!("{who:?} takes '{}', which the home has given up", taking.name))?;
        if let Some(service) = self.locks.homes.get_mut(&taking.home) {
            service.model.on_taken_again(who)?;
        }
        self.judge_belief(&taking.name)
    }

    /// A thread gives up waiting for a lock that should have come long ago.
    pub(super) fn on_forsake(&mut self, client: u64, thread: usize, seq: u64) -> Check {
        let now_ns = self.now_ns();
        let Some(me) = self.locks.clients.get_mut(&client) else { return Ok(()) };
        let waits = me.threads[thread].waits.take_if(|waits| waits.seq == seq);
        let (Some(link), Some(waits)) = (me.link, waits) else { return Ok(()) };
        let SyncRequest::Lock { number, .. } = waits.request else { return Ok(()) };
        me.fail(&waits.lock, now_ns);
        let withdrawal = me.next;
        me.next += 2;
        me.forsaken.extend([seq, withdrawal]);
        self.count("waits forsaken");
        self.send_home(link, withdrawal, SyncRequest::Withdraw { number });
        self.at(0, Event::Lock(LockEvent::Thread { client, thread }));
        Ok(())
    }

    /// An answer arrives.
    pub(super) fn on_answer(&mut self, link: u64, seq: u64, answer: Outcome<SyncAnswer>) -> Check {
        let Some(client) = self.link_at(link, false).map(|link| link.client) else { return Ok(()) };
        let me = self.locks.clients.get_mut(&client).ok_or("an open connection of nobody")?;
        if me.forsaken.remove(&seq) {
            self.note(format!("program {client} does not wait any longer for {answer:?}"));
            return Ok(());
        }
        let waits = |thread: &Thread| thread.waits.as_ref().is_some_and(|waits| waits.seq == seq);
        let thread =
            me.threads.iter().position(waits).ok_or_else(|| format!("program {client} is answered twice: {answer:?}"))?;
        let Waits { request, lock, .. } = me.threads[thread].waits.take().expect("as just seen");
        self.note(format!("program {client}, thread {thread}: {request:?} is answered {answer:?}"));
        let is_there = match lock {
            LockAsked::Taken(at, wish) => self.on_asked_lock((client, thread, link), request, (at, wish), answer)?,
            LockAsked::GivenBack(held) => {
                let who = held.taking.who();
                let is_over = match &answer {
                    Ok(SyncAnswer::Done | SyncAnswer::Released(..)) => true,
                    Err(Error::LockMisused { .. }) if self.locks.given_up.contains(&who) => {
                        self.count("locks lost because no node answered");
                        true
                    }
                    // Its stores go to their homes one by one.
                    Err(Error::GrantRefused { .. } | Error::IsMapped { .. }) if is_release(&request) => false,
                    answer => return Err(format!("{request:?} is answered {answer:?}")),
                };
                self.on_asked_about(client, &request, &answer)?;
                let now_ns = self.now_ns();
                let me = self.locks.clients.get_mut(&client).expect("as just seen");
                if let Some(leased) = held.leased {
                    me.table.ended(&me.words, (&held.taking.name, leased), answer.is_ok(), now_ns);
                }
                me.threads[thread].held.extend(Some(held).filter(|_| !is_over));
                true
            }
            LockAsked::None if matches!(request, SyncRequest::Publish { .. } | SyncRequest::Redone { .. }) => {
                let is_over =
                    matches!(answer, Err(Error::LockMisused { .. })) && self.locks.given_up.iter().any(|who| who.link == link);
                if !is_over {
                    self.on_asked_about(client, &request, &answer)?;
                }
                !is_over
            }
            LockAsked::None => {
                let me = &mut self.locks.clients.get_mut(&client).expect("as just seen").threads[thread];
                let is_there = !matches!(answer, Err(Error::NoCoordinator { .. }));
                match (&request, &answer) {
                    _ if !is_there => {}
                    (SyncRequest::Join { number, .. }, Ok(SyncAnswer::Joined { .. })) => me.place = Some(*number),
                    (SyncRequest::Leave { .. }, Ok(SyncAnswer::Done)) => me.place = None,
                    (SyncRequest::Arrive(..), Ok(_) | Err(Error::PartyGone { .. })) => {}
                    (SyncRequest::Join { .. }, Err(Error::BadGroup { .. })) => {}
                    _ => return Err(format!("{request:?} is answered {answer:?}")),
                }
                is_there
            }
        };
        if !is_there {
            // The program looks for its region at other nodes, or for the home of names.
            return self.on_link_closed_at_client(link);
        }
        let after = self.dice.pick(&[0, 3, 30, 300]);
        self.at(after, Event::Lock(LockEvent::Thread { client, thread }));
        Ok(())
    }

    /// A request for a lock is answered. Returns false where its home is another one by now.
    fn on_asked_lock(
        &mut self,
        (client, thread, link): (u64, usize, u64),
        request: SyncRequest,
        (at, wish): (usize, Wish),
        answer: Outcome<SyncAnswer>,
    ) -> Result<bool, String> {
        let SyncRequest::Lock { mode, number, bound_ms, .. } = request else {
            return Err(format!("{request:?} asks for a lock"));
        };
        let (now_ns, home) = (self.now_ns(), self.locks.links.get(link).expect("its link is open").home);
        let me = self.locks.clients.get_mut(&client).expect("its link is open");
        let (_, name) = me.address(at).ok_or("a program is connected without its region")?;
        let (connection, has_data) = (u128::from(link), false);
        match answer {
            Ok(SyncAnswer::Granted { leased, data, .. }) => {
                let taking = Arc::new(ProgramTaking { name: name.clone(), number, link, home });
                let grant = GrantOf { connection, leased: leased.then_some(&taking), has_data };
                let leased = me.table.answered(&me.words, (&name, wish), grant, now_ns);
                me.threads[thread].held.push(GrantedLock { at, mode, taking, leased });
                self.judge_belief(&name)?;
                self.enter(client, Claimant { link, number }, (at, mode), data.map(|data| *data))?;
            }
            Ok(SyncAnswer::Busy) if bound_ms == Some(0) => {
                let grant = GrantOf { connection, leased: None, has_data };
                me.table.answered(&me.words, (&name, wish), grant, now_ns);
            }
            Err(Error::NotInTime { .. }) if bound_ms.is_some_and(|ms| ms > 0) => me.table.failed(&me.words, &wish, now_ns),
            Err(Error::NoCoordinator { .. }) if me.is_by_names() => {
                me.table.failed(&me.words, &wish, now_ns);
                return Ok(false);
            }
            Err(Error::GrantRefused { .. } | Error::UnknownRegion { .. }) if !me.is_by_names() => {
                me.table.failed(&me.words, &wish, now_ns);
                self.count("locks whose bytes are elsewhere");
                return Ok(false);
            }
            answer => return Err(format!("{request:?} is answered {answer:?}")),
        }
        Ok(true)
    }
}

fn is_release(request: &SyncRequest) -> bool {
    matches!(request, SyncRequest::Release { .. })
}

fn lock(dice: &mut Dice, at: usize) -> Act {
    let mode = dice.pick(&[Mode::Exclusive, Mode::Exclusive, Mode::Shared, Mode::OneOf(2)]);
    let bound_ms = dice.pick(&[None, None, None, Some(0), Some(20), Some(1_000)]);
    Act::Take { at, mode, bound_ms }
}

/// Name of a party of this program.
fn party(client: ClientId) -> PartyName {
    PartyName { client, rank: None, process: 0, node: NodeId(0) }
}
