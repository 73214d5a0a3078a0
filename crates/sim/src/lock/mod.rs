//! Locks and named groups, simulated. Threads of clients take, share and give back locks and meet in groups, over connections to their
//! home. Connections keep order and lose nothing until they break.
//!
//! A connection ends for its two sides at different moments; messages under way are lost from one of them on. Clients die and others
//! come, nodes die with their clients, the home dies and comes back knowing nothing. The first to get a lock then is told that another
//! may have it. A client whose connection broke repeats its open requests over the next one, by another number, as `hanare`'s clients do.
//!
//! | module | holds |
//! |---|---|
//! | `leases` | locks that are leased: the words that clients share with their nodes, and what nodes answer the home |
//! | `service` | the home's process: drives the home that nodes run |
//! | `clients` | what threads do, and what comes of answers |
//! | `links` | connections: messages in order, breaks, and who hears of them when |
//! | `judge` | a naive model of who has what: never two, nobody forgotten, the dead told of |

mod clients;
mod judge;
mod leases;
mod links;
mod service;

use crate::check::Check;
use crate::harness::{Course, World, defects, on_course};
use crate::links::Link;
use clients::Client;
use hanare_protocol::lock::{Claimant, Recalled};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result as Outcome};
use judge::{Model, most_in};
use leases::Leases;
use service::LockService;
use std::collections::BTreeMap;

/// Programs of each node.
const CLIENT_COUNT: u64 = 2;
/// Most programs of a pool: who waits for hundreds waits longer than a run.
const CLIENT_COUNT_MAX: u64 = 24;

#[derive(Clone, Debug)]
pub(crate) enum Event {
    ToHome {
        link: u64,
        seq: u64,
        request: SyncRequest,
    },
    ToClient {
        link: u64,
        seq: u64,
        answer: Outcome<SyncAnswer>,
    },
    ClosedAtHome {
        link: u64,
    },
    ClosedAtClient {
        link: u64,
    },
    Connect {
        client: u64,
    },
    /// A thread does its next thing.
    Thread {
        client: u64,
        thread: usize,
    },
    /// A thread has waited long beyond its bound.
    Forsake {
        client: u64,
        thread: usize,
        seq: u64,
    },
    /// The home's deadline has come.
    Tick {
        life: u64,
    },
    /// The home's question about a lock that is leased reaches the client's node.
    Recall {
        life: u64,
        client: u64,
        number: u64,
    },
    /// The node's answer reaches the home.
    Recalled {
        life: u64,
        client: u64,
        who: Claimant,
        recalled: Recalled,
    },
    /// A node that was cut off from the home has lost its place in the pool, or its connection to the home broke for `sure`.
    Lapse {
        node: u64,
        sure: bool,
    },
    /// A program begins on a node.
    Begin {
        node: u64,
    },
    HomeBegins,
    Fault,
}

defects! {
    /// Some grants to waiters are not passed on.
    ForgetGrants,
    /// A waiting claimant is sometimes told that it has the lock.
    GrantTwice,
    /// The home is not told of connections that end.
    KeepDead,
    /// Connections that end are taken for threads that give everything back.
    DieQuietly,
    /// The home's deadlines are not kept: its process never ticks.
    ForgetBounds,
    /// The home's deadlines are kept late.
    TickLate,
    /// The home does not hear that programs give up waiting, and they are answered.
    ForgetWithdrawals,
    /// The first party at a group's barrier is sometimes let through.
    ReleaseEarly,
    /// Parties are not told that one went.
    SwallowFailures,
    /// A home that begins again takes all locks for free.
    TrustRestart,
    /// A claimant that gives up waiting is taken for a holder that gives the lock back.
    WithdrawLikeUnlock,
    /// A node says of locks that are held that they are kept.
    YieldHeld,
    /// A node says that a lock is kept and does not take it back.
    RecallSoftly,
    /// Locks that were kept by a client that died count as abandoned.
    BuryKept,
    /// A question that is lost is not asked again.
    AskOnce,
    /// A home that nodes do not hear takes their clients' leases for over.
    GiveUpUnheard,
}

/// Locks and named groups.
#[derive(Debug)]
pub(crate) struct LockWorld {
    course: Course<Event, Defect>,
    home: Option<LockService>,
    home_lives: u64,
    links: BTreeMap<u64, Link>,
    link_count: u64,
    clients: BTreeMap<u64, Client>,
    client_count: u64,
    model: Model,
    leases: Leases,
}

on_course!(LockWorld);

impl World for LockWorld {
    const NAME: &'static str = "locks";
    type Event = Event;
    type Defect = Defect;

    fn begin(mut course: Course<Event, Defect>) -> LockWorld {
        course.throw_weather();
        let nodes = u64::from(course.plan.nodes);
        let leases = Leases::new(course.dice.chance(5_000));
        let mut world = LockWorld {
            course,
            home: None,
            home_lives: 0,
            links: BTreeMap::new(),
            link_count: 0,
            clients: BTreeMap::new(),
            client_count: 0,
            model: Model::default(),
            leases,
        };
        world.at(0, Event::HomeBegins);
        let programs = (nodes * CLIENT_COUNT).min(CLIENT_COUNT_MAX);
        (0..programs).for_each(|program| world.at(program, Event::Begin { node: program % nodes }));
        world.at(1_000, Event::Fault);
        world
    }

    fn act(&mut self, event: Event) -> Check {
        match event {
            Event::ToHome { link, seq, request } => self.on_request(link, seq, request),
            Event::ToClient { link, seq, answer } => self.on_answer(link, seq, answer),
            Event::ClosedAtHome { link } => self.on_closed_at_home(link),
            Event::ClosedAtClient { link } => self.on_closed_at_client(link),
            Event::Connect { client } => self.on_connect(client),
            Event::Thread { client, thread } => self.on_thread(client, thread),
            Event::Forsake { client, thread, seq } => self.on_forsake(client, thread, seq),
            Event::Tick { life } => self.on_tick(life),
            Event::Recall { life, client, number } => self.on_recall(life, client, number),
            Event::Recalled { life, client, who, recalled } => self.on_recalled(life, client, who, recalled),
            Event::Lapse { node, sure } => self.on_lapse(node, sure),
            Event::Begin { node } => self.on_begin(node),
            Event::HomeBegins => self.on_home_begins(),
            Event::Fault => self.on_fault(),
        }
    }

    fn calm(&mut self) -> Check {
        self.at(0, Event::HomeBegins);
        Ok(())
    }

    fn judge(&mut self) -> Check {
        let now_ms = self.now_ms;
        self.model.judge(now_ms)
    }

    fn judge_rest(&mut self) -> Check {
        self.is_at_rest()
    }
}

impl LockWorld {
    /// Something goes wrong, and the next thing is planned.
    fn on_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(100, 4_000);
        self.at(after, Event::Fault);
        let clients: Vec<u64> = self.clients.keys().copied().collect();
        match self.dice.below(11) {
            0 | 1 => self.throw_weather(),
            2 | 3 => self.stall_one(),
            4 | 5 => self.break_one(),
            6 | 7 if !clients.is_empty() => {
                let client = self.dice.pick(&clients);
                self.kill(client);
                self.count("client deaths");
            }
            8 => {
                let node = self.course.dice.below(u64::from(self.course.plan.nodes));
                self.note(format!("node {node} dies"));
                self.count("node deaths");
                for client in clients {
                    if self.clients[&client].node == node {
                        self.kill(client);
                    }
                }
                self.leases.forget_node(node);
                if node == 0 {
                    self.kill_home();
                }
            }
            9 => self.cut_node_off(),
            _ => self.kill_home(),
        }
        Ok(())
    }
}

/// True for the home's refusals of requests that no correct client makes.
fn is_refusal(error: &Error) -> bool {
    !matches!(error, Error::NotInTime { .. } | Error::PartyGone { .. } | Error::BadGroup { .. })
}

#[cfg(test)]
mod tests;
