//! The simulated pool: virtual time, events, and coordinator, members and job barriers driven as a node's process drives them,
//! over a network that loses, delays, reorders, duplicates and partitions.
//!
//! Processes die at any output, restart, and stop for a while; clients ask at random and ranks of jobs meet at barriers and die.
//! After every event a naive model judges what came out. At the end all faults heal, and nothing may be left over: no extent
//! without a region, no request without an answer, no rank that waits.

mod checks;
mod faults;
mod home;
mod jobs;
mod judge;
mod lender;
mod lives;
mod messages;
mod node;
mod process;
mod work;

use crate::check::{Check, all_held, check};
use crate::cluster::checks::Checks;
use crate::cluster::jobs::Programs;
use crate::cluster::process::{Home, Host, Process, name};
use crate::dice::Dice;
use crate::network::{Connections, Weather};
use crate::report::{Counts, Failure, Plan};
use hanare_protocol::coordinator::{self, Coordinator, Peer, Record};
use hanare_protocol::group::{self, Jobs};
use hanare_protocol::id::{Epoch, Gid, Incarnation, NodeId};
use hanare_protocol::member;
use hanare_protocol::wire::control::{Answer, FromNode, HeldExtent, ToNode};
use hanare_protocol::wire::sync::Arrival;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// How many lines of the past a failure shows.
const TRAIL_LEN: usize = 60;

/// Virtual time after the faults in which everything must come to rest.
const QUIET_MS: u64 = 60_000;

/// Bytes that a user may have in regions.
pub(crate) const QUOTA: u64 = 2 << 20;

/// Something that happens at a moment.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    ToHome { peer: Peer, message: FromNode },
    ToNode { peer: Peer, message: ToNode },
    ClosedAtHome { peer: Peer },
    ClosedAtNode { peer: Peer },
    Connect { node: usize, life: u64 },
    TickHome { life: u64 },
    TickNode { node: usize, life: u64 },
    Made { node: usize, life: u64, order: u64, gid: Gid, lens: Vec<u64> },
    Regranted { node: usize, life: u64, epoch: Epoch },
    Work { node: usize, life: u64, client: usize },
    Launch,
    Rank { job: usize, rank: usize },
    RankDies { job: usize, rank: usize },
    RankEnded { job: usize, rank: usize },
    Arrive { life: u64, arrival: Arrival },
    BarrierAnswer { output: group::Output },
    Fault,
    Restart { node: usize },
    Resume { node: usize },
    Heal { node: usize },
}

/// A defect put in on purpose: the checkers must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// None: the real thing.
    None,
    /// The coordinator's process acts on outputs before its journal is durable.
    #[cfg(test)]
    JournalLate,
    /// A node does not free extents.
    #[cfg(test)]
    FreeNothing,
    /// A node goes on with the grants of its old epoch.
    #[cfg(test)]
    KeepGrants,
    /// A node forgets extents when its connection closes.
    #[cfg(test)]
    ForgetExtents,
    /// The barrier's home releases a rank when the first arrives.
    #[cfg(test)]
    ReleaseEarly,
    /// A node answers requests of its clients never.
    #[cfg(test)]
    SwallowAnswers,
    /// A new life of a node claims to be the old one.
    #[cfg(test)]
    ReuseIncarnation,
}

/// Simulates names, leases and barriers of jobs.
///
/// **Cost**: about a second for ten virtual minutes of three nodes. **Errors**: the first check that did not hold.
pub(crate) fn run(plan: Plan, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
    run_sabotaged(plan, Sabotage::None, progress)
}

fn run_sabotaged(plan: Plan, sabotage: Sabotage, progress: &mut dyn FnMut(f64)) -> Result<Counts, Failure> {
    let mut cluster = Cluster::new(plan, sabotage);
    match all_held(|| cluster.run(progress)) {
        Ok(()) => Ok(cluster.counts),
        Err(what) => Err(Failure { plan, world: "pool", at_ms: cluster.now_ms, what, trail: cluster.trail.into() }),
    }
}

/// The whole simulated world.
pub(crate) struct Cluster {
    pub plan: Plan,
    pub sabotage: Sabotage,
    pub dice: Dice,
    pub now_ms: u64,
    pub hosts: Vec<Host>,
    pub home: Option<Home>,
    pub connections: Connections,
    pub weather: Weather,
    pub journal: Vec<Record>,
    pub checks: Checks,
    pub programs: Programs,
    /// Whether faults and new work still come.
    pub is_rough: bool,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    event_next: u64,
    deferred: Vec<Event>,
    lives: u64,
    counts: Counts,
    trail: VecDeque<String>,
}

impl Cluster {
    pub fn new(plan: Plan, sabotage: Sabotage) -> Cluster {
        let mut dice = Dice::new(plan.seed);
        let weather = Weather::throw(&mut dice);
        let mut cluster = Cluster {
            plan,
            sabotage,
            dice,
            now_ms: 0,
            hosts: (0..plan.nodes).map(|_| Host::default()).collect(),
            home: None,
            connections: Connections::default(),
            weather,
            journal: Vec::new(),
            checks: Checks::default(),
            programs: Programs::default(),
            is_rough: true,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            event_next: 0,
            deferred: Vec::new(),
            lives: 0,
            counts: BTreeMap::new(),
            trail: VecDeque::new(),
        };
        for node in 0..cluster.hosts.len() {
            cluster.at(node as u64, Event::Restart { node });
        }
        cluster.at(500, Event::Fault);
        cluster.at(1000, Event::Launch);
        cluster
    }

    /// Counts something that happened.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Keeps a line of what happened for a failure's report.
    pub fn note(&mut self, line: String) {
        if self.trail.len() == TRAIL_LEN {
            self.trail.pop_front();
        }
        self.trail.push_back(format!("{:>8} ms  {line}", self.now_ms));
    }

    /// Lets an event happen after a while.
    pub fn at(&mut self, after_ms: u64, event: Event) {
        self.queue.push(Reverse((self.now_ms + after_ms, self.event_next)));
        self.events.insert(self.event_next, event);
        self.event_next += 1;
    }

    /// Runs to the end of the plan, then until all is quiet.
    pub fn run(&mut self, progress: &mut dyn FnMut(f64)) -> Check {
        let rough_ms = (self.plan.minutes * 60_000.0) as u64;
        let end_ms = rough_ms + QUIET_MS;
        let mut steps = 0_u64;
        while let Some(Reverse((at_ms, number))) = self.queue.pop() {
            if at_ms >= end_ms {
                break;
            }
            self.now_ms = at_ms;
            if self.is_rough && at_ms >= rough_ms {
                self.calm_down();
            }
            let event = self.events.remove(&number).expect("each event is queued once");
            self.happen(event)?;
            self.judge()?;
            steps += 1;
            if steps.is_multiple_of(4096) {
                progress((at_ms as f64 / end_ms as f64).min(1.0));
            }
        }
        self.counts.insert("events", steps);
        progress(1.0);
        self.judge_rest()
    }

    /// What was meant for a stopped process waits until it goes on.
    pub fn resume_deferred(&mut self) {
        for event in std::mem::take(&mut self.deferred) {
            self.at(0, event);
        }
    }

    /// The host whose process an event needs, if it needs one.
    fn place_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::ToHome { .. } | Event::ClosedAtHome { .. } | Event::TickHome { .. } | Event::Arrive { .. } => Some(0),
            Event::ToNode { peer, .. } | Event::ClosedAtNode { peer } => {
                self.connections.open.get(peer).map(|connection| connection.node)
            }
            Event::Connect { node, .. }
            | Event::TickNode { node, .. }
            | Event::Made { node, .. }
            | Event::Regranted { node, .. }
            | Event::Work { node, .. } => Some(*node),
            _ => None,
        }
    }

    fn happen(&mut self, event: Event) -> Check {
        if self.place_of(&event).is_some_and(|node| self.hosts[node].is_stopped) {
            self.deferred.push(event);
            return Ok(());
        }
        match event {
            Event::ToHome { peer, message } => self.on_to_home(peer, message),
            Event::ToNode { peer, message } => self.on_to_node(peer, message),
            Event::ClosedAtHome { peer } => self.on_closed_at_home(peer),
            Event::ClosedAtNode { peer } => self.on_closed_at_node(peer),
            Event::Connect { node, life } => self.on_connect(node, life),
            Event::TickHome { life } => self.on_tick_home(life),
            Event::TickNode { node, life } => self.on_tick_node(node, life),
            Event::Made { node, life, order, gid, lens } => self.on_made(node, life, order, gid, &lens),
            Event::Regranted { node, life, epoch } => self.on_regranted(node, life, epoch),
            Event::Work { node, life, client } => self.on_work(node, life, client),
            Event::Launch => self.on_launch(),
            Event::Rank { job, rank } => self.on_rank(job, rank),
            Event::RankDies { job, rank } => self.on_rank_dies(job, rank),
            Event::RankEnded { job, rank } => self.on_rank_ended(job, rank),
            Event::Arrive { life, arrival } => self.on_arrive(life, arrival),
            Event::BarrierAnswer { output } => self.on_barrier_answer(output),
            Event::Fault => self.on_fault(),
            Event::Restart { node } => self.on_restart(node),
            Event::Resume { node } => self.on_resume(node),
            Event::Heal { node } => {
                self.hosts[node].is_partitioned = false;
                Ok(())
            }
        }
    }
}

/// When to tick, counted from now, if that is sooner than what is scheduled already.
fn due(deadline: Option<u64>, tick_at: &mut Option<u64>, now_ms: u64) -> Option<u64> {
    let at = deadline?.max(now_ms + 1);
    if tick_at.is_some_and(|scheduled| scheduled <= at && scheduled > now_ms) {
        return None;
    }
    *tick_at = Some(at);
    Some(at - now_ms)
}

#[cfg(test)]
mod tests;
