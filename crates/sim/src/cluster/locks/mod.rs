//! Locks and named groups. Threads of programs take, share and give back locks and meet in groups, over connections to their home.
//! Connections keep order and lose nothing until they break.
//!
//! Half of the programs use names, at the pool's home. The others use bytes of a region, at its node. A connection ends for its two sides at
//! different moments. Messages under way are lost from one of them on. A home that comes back knows nothing. It tells the first program with a
//! lock that another may have it. A program whose connection broke asks again over the next one, by another number. Where keepers hold the journal,
//! the home of names moves with the keeper that leads. A former home refuses those who wait.
//!
//! Some locks have data ([`super::entries`]); they are not leased.
//!
//! Programs and nodes have the tables of the product for leases ([`hanare_ring::lease`]). Homes ask for leases by way of the coordinator.
//!
//! | module | holds |
//! |---|---|
//! | `clients` | what threads do, and what comes of answers |
//! | `beliefs` | what threads take themselves to have: never more than their homes let in |
//! | `leases` | words that programs share with their nodes; what homes ask, and nodes answer |
//! | `links` | connections: messages in order, breaks, and who hears of them when |
//! | `service` | the home's side: what crosses its border, as the judge hears it |
//! | `judge` | a naive model of who has what: never two, nobody forgotten, the dead told of |
//! | `names` | which node is the home of names, and since when |

mod beliefs;
mod clients;
mod judge;
mod leases;
mod links;
mod names;
mod service;

use super::process::ProcessLife;
use super::{Cluster, Defect, Event, Terms};
use crate::check::{Check, check};
use crate::links::Links;
use clients::Client;
pub(super) use clients::{REGION, UID};
use hanare_protocol::Result as Outcome;
use hanare_protocol::id::ClientId;
use hanare_protocol::lock::{Claimant, Recalled};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use links::LockLink;
use service::LockService;
use std::collections::{BTreeMap, BTreeSet};

/// Programs of each node.
const PROGRAM_COUNT: u64 = 2;
/// Most programs of a pool: who waits for hundreds waits longer than a run.
const PROGRAM_COUNT_MAX: usize = 24;

/// Something that happens to locks.
#[derive(Clone, Debug)]
pub(crate) enum LockEvent {
    /// A message of a program arrives.
    ToHome { link: u64, seq: u64, request: SyncRequest },
    /// An answer arrives.
    ToClient { link: u64, seq: u64, answer: Outcome<SyncAnswer> },
    /// A home sees that a connection has ended.
    ClosedAtHome { link: u64 },
    /// A program sees that a connection has ended.
    ClosedAtClient { link: u64 },
    /// A program connects to the home of its locks.
    Connect { client: u64 },
    /// A thread does its next thing.
    Thread { client: u64, thread: usize },
    /// A thread has waited long beyond its bound.
    Forsake { client: u64, thread: usize, seq: u64 },
    /// A program begins on a node.
    Begin { at: ProcessLife },
    /// A node sees that a program has ended.
    Ended { at: ProcessLife, client: ClientId },
    /// The home's own node says whether its client has a lock.
    Recalled { at: ProcessLife, client: ClientId, number: u64, recalled: Recalled },
    /// The next coordinator's node becomes the home of names.
    Names { at: ProcessLife },
    /// Something goes wrong.
    Fault,
}

/// All programs, and the homes of their locks.
#[derive(Debug, Default)]
pub(crate) struct LockPrograms {
    links: Links<LockLink>,
    clients: BTreeMap<u64, Client>,
    client_count: u64,
    homes: BTreeMap<ProcessLife, LockService>,
    /// The home of names.
    names: Option<ProcessLife>,
    /// The home and the taking of each lease, by client and by the client's number.
    leases: BTreeMap<(ClientId, u64), (ProcessLife, Claimant)>,
    /// Takings whose node did not answer in time: who has them may go on.
    given_up: BTreeSet<Claimant>,
    /// Leases that were asked for.
    asked: BTreeSet<(ProcessLife, ClientId, u64)>,
}

impl Cluster {
    /// True if programs use locks. Runs that look for another defect have none, so that more of them fit into the same time.
    pub(super) fn has_locks(&self) -> bool {
        self.terms != Terms::Harsh && !self.defect.is_some_and(Defect::is_of_others)
    }

    /// A process has begun, and is the home of names or not.
    pub(super) fn begin_locks(&mut self, at: ProcessLife, is_home: bool, was_home: bool) {
        if is_home {
            self.locks.names = Some(at);
            self.locks.homes.insert(at, LockService::new(was_home));
        }
        if self.has_locks() {
            (0..PROGRAM_COUNT).for_each(|program| self.at(program, Event::Lock(LockEvent::Begin { at })));
        }
    }

    /// A process has died: its programs die with it, and its home is gone.
    pub(super) fn end_locks(&mut self, at: ProcessLife) {
        self.locks.homes.remove(&at);
        self.end_entries_at(at);
        self.locks.names.take_if(|home| *home == at);
        self.lose_links(at);
        let own: Vec<u64> = self.locks.clients.iter().filter(|(_, client)| client.at == at).map(|(id, _)| *id).collect();
        own.into_iter().for_each(|client| self.kill(client));
    }

    /// The host whose process an event needs, if it needs one.
    pub(super) fn host_of_lock(&self, event: &LockEvent) -> Option<usize> {
        match event {
            LockEvent::ToHome { link, .. } | LockEvent::ClosedAtHome { link } => {
                self.locks.links.get(*link).map(|link| link.home.0)
            }
            LockEvent::Begin { at } | LockEvent::Ended { at, .. } | LockEvent::Recalled { at, .. } | LockEvent::Names { at } => {
                Some(at.0)
            }
            _ => None,
        }
    }

    pub(super) fn on_lock_event(&mut self, event: LockEvent) -> Check {
        match event {
            LockEvent::ToHome { link, seq, request } => self.on_request(link, seq, request),
            LockEvent::ToClient { link, seq, answer } => self.on_answer(link, seq, answer),
            LockEvent::ClosedAtHome { link } => self.on_link_closed_at_home(link),
            LockEvent::ClosedAtClient { link } => self.on_link_closed_at_client(link),
            LockEvent::Connect { client } => self.on_program_connects(client),
            LockEvent::Thread { client, thread } => self.on_thread(client, thread),
            LockEvent::Forsake { client, thread, seq } => self.on_forsake(client, thread, seq),
            LockEvent::Begin { at } => self.on_begin(at),
            LockEvent::Ended { at, client } => {
                if let Some(process) = self.process(at) {
                    process.leases.end(client);
                }
                Ok(())
            }
            LockEvent::Recalled { at, client, number, recalled } => self.on_lease_answer(at, client, number, recalled),
            LockEvent::Names { at } => self.on_names(at),
            LockEvent::Fault => self.on_lock_fault(),
        }
    }

    /// Something goes wrong, and the next thing is planned.
    fn on_lock_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(100, 4_000);
        self.at(after, Event::Lock(LockEvent::Fault));
        let clients: Vec<u64> = self.locks.clients.keys().copied().collect();
        match self.dice.below(10) {
            0..2 => self.stall_link(),
            2..4 => self.break_link(),
            4 | 5 => self.break_connection(),
            6 | 7 => {
                let node = self.course.dice.below(self.hosts.len() as u64) as usize;
                if self.may_lose(node) {
                    self.cut_off(node);
                }
            }
            _ if !clients.is_empty() => {
                let client = self.dice.pick(&clients);
                self.kill(client);
                self.count("programs of locks that died");
            }
            _ => {}
        }
        Ok(())
    }

    /// After every event of a home that runs.
    pub(super) fn judge_locks(&self) -> Check {
        let runs = |(host, _): &ProcessLife| !self.hosts[*host].is_stopped;
        self.locks.homes.iter().filter(|(at, _)| runs(at)).try_for_each(|(_, service)| service.model.judge(self.now_ms))
    }

    /// At the end nobody waits, but for parties that never came.
    pub(super) fn judge_locks_at_rest(&self) -> Check {
        for (id, client) in &self.locks.clients {
            self.judge_client(*id, client)?;
        }
        for (at, service) in &self.locks.homes {
            let process = self.hosts[at.0].process.as_ref().ok_or("a home without a process")?;
            let (counts, orphans, leased) = (process.served.counts(), service.model.orphan_count(), service.model.lease_count());
            check(counts.lock_waits == 0, || format!("the home has somebody waiting for a lock: {service:?}"))?;
            check((counts.locks, counts.leases) == (orphans + leased, leased), || {
                format!("{orphans} locks were abandoned, {leased} are leased, and the home has {counts:?}")
            })?;
        }
        Ok(())
    }
}
