//! What clients do: their threads take locks for a while, one or two in the order of their names, and meet in groups.
//!
//! No thread waits for its group with a lock in hand, so nobody waits for ever where the home does what it says.

use super::*;
use crate::check::check;
use crate::dice::Dice;
use hanare_protocol::id::{ClientId, NodeId, PartyName};
use hanare_protocol::limits::LATE_MS;
use hanare_protocol::wire::sync::Mode;
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
}

/// A lock that a thread has, as far as it knows.
#[derive(Clone, Debug)]
pub(super) struct Held {
    name: &'static str,
    mode: Mode,
    number: u64,
    link: u64,
}

#[derive(Debug, Default)]
struct Thread {
    held: Vec<Held>,
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
        self.clients.insert(client, Client { node, link: None, next: 0, threads, forsaken: BTreeSet::new() });
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
        let me = &mut threads[thread];
        if me.waits.is_some() {
            return Ok(());
        }
        let last = me.held.last().map(|held| (held.name, held.number));
        let begins = self.course.is_rough;
        let number = *next + 1;
        let request = match (last, me.place) {
            // Another beside it, behind it in the alphabet; or back with it.
            (Some((name, _)), _) if begins && name < LOCKS[LOCKS.len() - 1] && self.course.dice.chance(2_000) => {
                let behind: Vec<&str> = LOCKS.into_iter().filter(|other| *other > name).collect();
                let name = self.course.dice.pick(&behind);
                Some(lock(&mut self.course.dice, name, thread, number))
            }
            (Some((_, number)), _) => {
                // From here on it does not count on it.
                me.held.pop();
                Some(SyncRequest::Unlock { number })
            }
            (None, Some(number)) if begins && self.course.dice.chance(7_000) => Some(SyncRequest::Meet { number }),
            (None, Some(number)) if !begins || self.course.dice.chance(3_000) => Some(SyncRequest::Leave { number }),
            (None, None) if begins && self.course.dice.chance(1_500) => {
                let (name, parties) = self.course.dice.pick(&GROUPS);
                let name = name.to_owned();
                Some(SyncRequest::Join { name, parties, number, client: named(client) })
            }
            (None, _) if begins => {
                let name = self.course.dice.pick(&LOCKS);
                Some(lock(&mut self.course.dice, name, thread, number))
            }
            (None, _) => None,
        };
        let Some(request) = request else { return Ok(()) };
        let seq = *next;
        *next += 2;
        let link = *link;
        me.waits = Some((seq, request.clone(), link));
        self.count("requests");
        if let SyncRequest::Lock { bound_ms: Some(ms), .. } = request {
            self.at(ms + LATE_MS, Event::Forsake { client, thread, seq });
        }
        self.send_home(link, seq, request);
        Ok(())
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
            (SyncRequest::Lock { name, mode, number, .. }, Ok(SyncAnswer::Granted { .. })) => {
                let name = LOCKS.into_iter().find(|known| known == name).expect("one of them");
                me.held.push(Held { name, mode: *mode, number: *number, link });
                self.judge_belief(name)?;
            }
            (SyncRequest::Unlock { .. }, Ok(SyncAnswer::Done)) => {}
            (SyncRequest::Join { number, .. }, Ok(SyncAnswer::Joined { .. })) => me.place = Some(*number),
            (SyncRequest::Leave { .. }, Ok(SyncAnswer::Done)) => me.place = None,
            (SyncRequest::Lock { bound_ms: Some(0), .. }, Ok(SyncAnswer::Busy)) | (SyncRequest::Meet { .. }, Ok(_)) => {}
            (SyncRequest::Lock { bound_ms: Some(_), .. }, Err(Error::NotInTime { .. })) => {}
            (SyncRequest::Join { .. }, Err(Error::BadGroup { .. })) => {}
            (SyncRequest::Meet { .. }, Err(Error::PartyGone { .. })) => {}
            _ => {
                let refused = matches!(&answer, Err(error) if is_refusal(error));
                return Err(format!("{request:?} is {} {answer:?}", if refused { "refused" } else { "answered" }));
            }
        }
        let after = self.dice.pick(&[0, 3, 30, 300]);
        self.at(after, Event::Thread { client, thread });
        Ok(())
    }

    /// Of those who believe that they have a lock, over connections that the home has not given up, one alone, or all share it.
    fn judge_belief(&self, name: &str) -> Check {
        let is_open = |held: &&Held| self.links.get(&held.link).is_some_and(|link| link.is_open_at_home);
        let all = self.clients.values().flat_map(|client| &client.threads).flat_map(|thread| &thread.held);
        let have: Vec<&Held> = all.filter(|held| held.name == name).filter(is_open).collect();
        let alone = have.iter().any(|held| held.mode == Mode::Exclusive);
        check(!alone || have.len() == 1, || format!("lock '{name}' is held twice: {have:?}"))
    }

    /// One that believes to have a lock in a mode, over any connection.
    pub(super) fn believer(&self, name: &str, mode: Mode) -> Option<Held> {
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
                    Some((_, SyncRequest::Meet { number }, link)) => {
                        self.model.judge_lonely(Claimant { link: *link, number: *number })?;
                    }
                    Some(waits) => return Err(format!("client {id} has no answer to {waits:?}")),
                }
            }
        }
        let home = self.home.as_ref().ok_or("the home is not back")?;
        check(home.is_at_rest(), || format!("the home has somebody waiting for a lock: {home:?}"))?;
        let orphans = self.model.orphan_count();
        check(home.locks.count() == orphans, || format!("{} locks are kept, {orphans} were abandoned", home.locks.count()))
    }
}

fn lock(dice: &mut Dice, name: &str, thread: usize, number: u64) -> SyncRequest {
    let mode = if dice.chance(5_000) { Mode::Exclusive } else { Mode::Shared };
    let bound_ms = dice.pick(&[None, None, None, Some(0), Some(20), Some(1_000)]);
    SyncRequest::Lock { name: name.to_owned(), mode, number, thread: thread as u64, bound_ms, known: None }
}

/// What a party of this client is called.
fn named(client: u64) -> PartyName {
    PartyName { client: ClientId(client), rank: None, process: 0, node: NodeId(0) }
}
