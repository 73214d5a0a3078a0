//! Locks and named groups, simulated: threads of clients take, share and give back locks and meet in groups, over connections to
//! the pool's home that keep order and lose nothing until they break.
//!
//! A connection ends for its two sides at different moments; what was under way is lost from some message on. Clients die and
//! others come, nodes die with their clients, the home dies and comes back knowing nothing: who gets a lock first then is told that another may have it. A client whose connection broke
//! repeats over the next one what it had not got, by another number, as `hanare`'s clients do.
//!
//! | module | holds |
//! |---|---|
//! | `home` | the machines, driven as the home's process drives them |
//! | `clients` | what threads do, and what comes of answers |
//! | `links` | connections: messages in order, breaks, and who hears of them when |
//! | `judge` | a naive model of who has what: never two, nobody forgotten, the dead told of |

mod clients;
mod home;
mod judge;
mod links;

use crate::check::{Check, all_held};
use crate::dice::Dice;
use crate::network::Weather;
use crate::report::{Counts, Failure, Plan};
use clients::Client;
use hanare_protocol::lock::Claimant;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result as Outcome};
use home::Home;
use judge::Model;
use links::Link;
use std::collections::{BTreeMap, VecDeque};

/// Programs of each node.
const CLIENT_COUNT: u64 = 2;
/// Most programs of a pool: who waits for hundreds waits longer than a run.
const CLIENT_COUNT_MAX: u64 = 24;
/// Virtual time after the faults in which everything must come to rest.
const QUIET_MS: u64 = 60_000;
/// How many of the last events a failure shows.
const TRAIL_LEN: usize = 60;

#[derive(Clone, Debug)]
enum Event {
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
    /// Somebody's bound is over.
    Bound {
        life: u64,
        who: Claimant,
    },
    /// A program begins on a node.
    Begin {
        node: u64,
    },
    HomeBegins,
    Fault,
    Calm,
}

/// A defect put in on purpose: the checks must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    /// None: the real thing.
    None,
    /// Some grants to waiters are not passed on.
    #[cfg(test)]
    ForgetGrants,
    /// Who waits for a lock is sometimes told that it has it.
    #[cfg(test)]
    GrantTwice,
    /// The home is not told of connections that end.
    #[cfg(test)]
    KeepDead,
    /// Connections that end are taken for threads that give everything back.
    #[cfg(test)]
    DieQuietly,
    /// Bounds are never over.
    #[cfg(test)]
    ForgetBounds,
    /// Who arrives first at a group's barrier is sometimes let through.
    #[cfg(test)]
    ReleaseEarly,
    /// Nobody is told that a party went.
    #[cfg(test)]
    SwallowFailures,
    /// A home that begins again takes all locks for free.
    #[cfg(test)]
    TrustRestart,
    /// Who gives up waiting is taken for one that has the lock and gives it back.
    #[cfg(test)]
    WithdrawLikeUnlock,
}

#[derive(Debug)]
struct World {
    plan: Plan,
    sabotage: Sabotage,
    dice: Dice,
    weather: Weather,
    now_ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    event_count: u64,
    home: Option<Home>,
    home_lives: u64,
    links: BTreeMap<u64, Link>,
    link_count: u64,
    clients: BTreeMap<u64, Client>,
    client_count: u64,
    model: Model,
    is_rough: bool,
    counts: Counts,
    trail: VecDeque<String>,
}

/// Simulates so many nodes for so many virtual minutes, then until all is quiet.
///
/// **Cost**: about a second for ten virtual minutes of three nodes. **Errors**: the first check that did not hold.
pub(crate) fn run(plan: Plan, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
    run_sabotaged(plan, Sabotage::None, progress)
}

fn run_sabotaged(plan: Plan, sabotage: Sabotage, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
    let mut world = World::new(plan, sabotage);
    match all_held(|| world.run(progress)) {
        Ok(()) => Ok(world.counts),
        Err(what) => Err(Failure { plan, world: "locks", at_ms: world.now_ms, what, trail: world.trail.into() }),
    }
}

impl World {
    fn new(plan: Plan, sabotage: Sabotage) -> World {
        let mut dice = Dice::new(plan.seed);
        let weather = Weather::throw(&mut dice);
        let mut world = World {
            plan,
            sabotage,
            dice,
            weather,
            now_ms: 0,
            events: BTreeMap::new(),
            event_count: 0,
            home: None,
            home_lives: 0,
            links: BTreeMap::new(),
            link_count: 0,
            clients: BTreeMap::new(),
            client_count: 0,
            model: Model::default(),
            is_rough: true,
            counts: Counts::new(),
            trail: VecDeque::new(),
        };
        world.at(0, Event::HomeBegins);
        let programs = (u64::from(plan.nodes) * CLIENT_COUNT).min(CLIENT_COUNT_MAX);
        (0..programs).for_each(|program| world.at(program, Event::Begin { node: program % u64::from(plan.nodes) }));
        world.at(1_000, Event::Fault);
        world.at((plan.minutes * 60_000.0) as u64, Event::Calm);
        world
    }

    fn at(&mut self, after_ms: u64, event: Event) {
        self.event_count += 1;
        self.events.insert((self.now_ms + after_ms, self.event_count), event);
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn note(&mut self, line: String) {
        if self.trail.len() == TRAIL_LEN {
            self.trail.pop_front();
        }
        self.trail.push_back(format!("{:>8} ms  {line}", self.now_ms));
    }

    fn run(&mut self, progress: &mut dyn FnMut(f64)) -> Check {
        let end_ms = (self.plan.minutes * 60_000.0) as u64 + QUIET_MS;
        let mut steps = 0_u64;
        while let Some(((now_ms, _), event)) = self.events.pop_first() {
            if now_ms > end_ms {
                break;
            }
            self.now_ms = now_ms;
            self.act(event)?;
            self.model.judge(now_ms)?;
            steps += 1;
            if steps.is_multiple_of(4096) {
                progress((now_ms as f64 / end_ms as f64).min(1.0));
            }
        }
        self.counts.insert("events", steps);
        progress(1.0);
        self.judge_rest()
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
            Event::Bound { life, who } => self.on_bound(life, who),
            Event::Begin { node } => self.on_begin(node),
            Event::HomeBegins => self.on_home_begins(),
            Event::Fault => self.on_fault(),
            Event::Calm => {
                self.note("all faults end".to_owned());
                (self.is_rough, self.weather) = (false, Weather::FAIR);
                self.at(0, Event::HomeBegins);
                Ok(())
            }
        }
    }

    /// Something goes wrong, and the next thing is planned.
    fn on_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(100, 4_000);
        self.at(after, Event::Fault);
        let clients: Vec<u64> = self.clients.keys().copied().collect();
        match self.dice.below(10) {
            0 | 1 => self.weather = Weather::throw(&mut self.dice),
            2 | 3 => self.stall_one(),
            4 | 5 => self.break_one(),
            6 | 7 if !clients.is_empty() => {
                let client = self.dice.pick(&clients);
                self.kill(client);
                self.count("client deaths");
            }
            8 => {
                let node = self.dice.below(u64::from(self.plan.nodes));
                self.note(format!("node {node} dies"));
                self.count("node deaths");
                for client in clients {
                    if self.clients[&client].node == node {
                        self.kill(client);
                    }
                }
                if node == 0 {
                    self.kill_home();
                }
            }
            _ => self.kill_home(),
        }
        Ok(())
    }
}

/// How the home refuses what no correct client asks.
fn is_refusal(error: &Error) -> bool {
    !matches!(error, Error::NotInTime { .. } | Error::PartyGone { .. } | Error::BadGroup { .. })
}

#[cfg(test)]
mod tests;
