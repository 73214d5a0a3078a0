//! Runs a program on hosts whose processors programs and nodes share, over a network with links.
//!
//! ```text
//! rank: work to send ──> links ──> node: queue ──> work ──> links ──> rank: work to take in, goes on
//! ```
//!
//! A host has so many processors; ranks and the node's service thread take them in the order of asking. A node's thread does
//! one request at a time. A thread that waited longer than the product's own limits has parked, and wakes late. Where a region
//! is mapped coherently the product's page rules say which messages follow ([`crate::pages`]), and its barriers of jobs
//! ([`Jobs`]) who is released.
//!
//! Every rank and every message carries its [`Path`]: what the time until now was spent on, along the chain of causes that
//! ends here. Its parts always add up to the time.
//!
//! | file | holds |
//! |---|---|
//! | `rank` | a rank: its steps, what it waits for, what it takes in |
//! | `command` | what a command becomes: work here, loads, requests |
//! | `node` | a node's thread, and the messages it answers |
//! | `touch` | pages |
//! | `lock` | the lock of a pattern |
mod command;
mod lock;
mod node;
mod rank;
#[cfg(test)]
mod tests;
mod touch;

use std::collections::{BTreeMap, BTreeSet};

use hanare_protocol::group::Jobs;
use hanare_protocol::limits::{WHAT_IF_SPAN_COUNT_MAX, WHAT_IF_STEP_COUNT_MAX};
use hanare_protocol::lock::Locks;
use hanare_protocol::lock::lease::Recalled;

use super::WhatIfError;
use super::costs::{Software, SoftwareCosts};
use super::path::{Expense, Path};
use super::program::{Lengths, Program, Step};
use crate::engine::Engine;
use crate::network::{Network, Way};
use crate::pages::{Letter, Pages};
use crate::station::Station;
use crate::time::Picos;
use crate::topology::{Kind, Topology};
use crate::trace::Trace;
use node::Node;
use rank::{Doing, Process};

/// The pieces in which long messages go from end to end: both ends copy at a time, a piece apart.
///
/// SOURCE: gets of 4 KiB, 64 KiB and 1 MiB over loopback: 0.33, 0.18 and 0.13 ns a byte, as pieces of 24 KiB give within 5 %.
const PIECE_LEN: u64 = 24 << 10;

/// A message about the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LockMessage {
    /// A rank asks the home for the lock.
    Claim,
    /// The home answers; the rank may keep the lock when it gives it back.
    Granted { leased: bool },
    /// A rank gives the lock back.
    GiveBack,
    /// The home has it.
    GivenBack,
    /// The home asks a rank's node for a lock that was leased.
    Recall,
    /// The node answers.
    Recalled(Recalled),
}

/// What a program is run on.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Machines; nodes are dealt out over them in turn.
    pub hosts: usize,
    /// Nodes of the pool.
    pub nodes: usize,
    /// Ranks, dealt out over the nodes in turn, or in blocks.
    pub ranks: usize,
    /// Whether ranks fill a node before the next: rank 0 and 1 are on node 0.
    pub is_blocked: bool,
    /// Processors of each machine.
    pub cores: usize,
    /// What is between nodes.
    pub network: Network,
    /// How its links are laid.
    pub topology: Kind,
    /// What the software costs.
    pub costs: SoftwareCosts,
    /// Ranks for each processor where the program was recorded. With no more of them its computing takes the recorded time.
    pub recorded_crowd: Option<f64>,
    /// Delays each answer by the mean delay of the calibration, beyond the median.
    pub is_held_up: bool,
    /// Whether a timeline is kept.
    pub is_traced: bool,
    /// Tells when each step began: [`Run::starts`].
    pub is_timed: bool,
}

impl Setting {
    /// The node of a rank.
    fn node_of(&self, rank: usize) -> usize {
        let Setting { ranks, nodes, .. } = *self;
        if self.is_blocked { rank * nodes / ranks.max(nodes) } else { rank % nodes }
    }
}

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Bytes, heads included.
    pub bytes: u64,
}

/// What a run came to.
pub struct Run {
    /// When the last rank ended.
    pub end: Picos,
    /// When each rank ended.
    pub ends: Vec<Picos>,
    /// The path of the rank that ended last: its parts add up to `end`.
    pub path: Path,
    /// Messages between programs and nodes, by kind.
    pub traffic: BTreeMap<&'static str, Traffic>,
    /// Times of what was waited for, from begin to the answer's arrival.
    pub times: Vec<Picos>,
    /// The share of the time in which the busiest link, and the busiest node's thread, was taken.
    pub busiest: (f64, f64),
    /// Events simulated.
    pub events: u64,
    /// When each step of each rank began, and the rank ended; empty unless it was asked for.
    pub starts: Vec<Vec<Picos>>,
    /// The timeline, where one was asked for.
    pub trace: Option<Trace>,
}

#[derive(Clone, Debug)]
enum Body {
    /// A command: what the node does for it, and the bytes of its answer.
    Command {
        work: Picos,
        /// Whose bytes the node fetches before it answers, and how many.
        pulls: Option<(usize, u64)>,
        answer: u64,
    },
    /// A node asks for bytes of a copy, and they come; then it answers the rank on the node.
    Pull {
        origin: usize,
        len: u64,
        answer: u64,
    },
    Pulled {
        origin: usize,
        answer: u64,
    },
    Answer,
    Arrive(hanare_protocol::wire::sync::Arrival),
    Released,
    Letter(Letter),
    /// About the lock, with the number of a rank's taking.
    Lock(LockMessage, u64),
    /// A page may be used: not a message, but what a rank that waits for it takes in.
    Installed,
    /// A rank has come to a moment that this one waits for.
    Told,
}

#[derive(Clone, Debug)]
struct Message {
    rank: usize,
    from: usize,
    to: usize,
    bytes: u64,
    kind: &'static str,
    begun: Picos,
    arrived: Picos,
    path: Path,
    body: Body,
}

/// A request that is made and has not left.
#[derive(Clone, Debug, PartialEq)]
struct Outgoing {
    /// Who serves it.
    node: usize,
    lengths: Lengths,
    /// What the node does beside any request's work.
    work: Picos,
    /// Whose bytes the node fetches before it answers, and how many.
    pulls: Option<(usize, u64)>,
    kind: &'static str,
}

#[derive(Debug)]
enum Event {
    /// A rank has done its piece of work.
    Ready(usize),
    /// A message reaches its node's queue.
    AtNode(Box<Message>),
    /// A node has done its piece of work for a message.
    Served(Box<Message>),
    /// A message reaches its rank.
    AtRank(Box<Message>),
}

struct World<'a> {
    program: &'a Program,
    setting: &'a Setting,
    engine: Engine<Event>,
    /// When each processor of each host is free.
    cores: Vec<Vec<Station>>,
    ranks: Vec<Process>,
    nodes: Vec<Node>,
    links: Topology,
    /// The pages of each home.
    pages: Vec<Pages>,
    jobs: Jobs,
    locks: Locks,
    traffic: BTreeMap<&'static str, Traffic>,
    times: Vec<Picos>,
    /// Moments that ranks came to.
    told: BTreeSet<u32>,
    /// The nodes and ranks of each host.
    tenants: Vec<Tenants>,
    /// Computing takes a processor that others may want.
    computing_takes_processors: bool,
    starts: Vec<Vec<Picos>>,
    trace: Option<Trace>,
}

/// Nodes and ranks that share a host's processors.
#[derive(Clone, Default)]
struct Tenants {
    nodes: Vec<usize>,
    ranks: Vec<usize>,
}

/// Runs it: the same program and setting give the same run.
///
/// **Cost**: some five events a message. **Errors**: [`WhatIfError::Refused`] for more than [`WHAT_IF_STEP_COUNT_MAX`] steps, and for ranks
/// that wait for ever.
pub fn run(program: &Program, setting: &Setting) -> Result<Run, WhatIfError> {
    let steps: u64 = (0..setting.ranks).map(|rank| program.step_count(rank)).fold(0, u64::saturating_add);
    if steps > WHAT_IF_STEP_COUNT_MAX {
        return Err(WhatIfError::Refused {
            reasons: format!("{steps} steps are more than the {WHAT_IF_STEP_COUNT_MAX} that a run may have"),
        });
    }
    let mut world = World::new(program, setting, steps);
    for rank in 0..setting.ranks {
        world.engine.schedule(Picos::ZERO, Event::Ready(rank));
    }
    while let Some((_, event)) = world.engine.pop() {
        match event {
            Event::Ready(rank) => world.on_ready(rank),
            Event::AtNode(message) => world.on_node(message),
            Event::Served(message) => world.on_served(*message),
            Event::AtRank(message) => world.on_rank(*message),
        }
    }
    world.finish()
}

impl<'a> World<'a> {
    fn new(program: &'a Program, setting: &'a Setting, steps: u64) -> World<'a> {
        let homes = if program.has(|step| matches!(step, Step::Touch { .. })) { setting.nodes } else { 0 };
        // A home's pages are every so-manieth number: the number tells the home.
        let pages = (steps + 1) * setting.nodes as u64;
        let kind = if setting.network.is_shared { Kind::Bus } else { setting.topology };
        let crowd = setting.ranks as f64 / (setting.hosts * setting.cores) as f64;
        let mut tenants = vec![Tenants::default(); setting.hosts];
        (0..setting.nodes).for_each(|node| tenants[node % setting.hosts].nodes.push(node));
        (0..setting.ranks).for_each(|rank| tenants[setting.node_of(rank) % setting.hosts].ranks.push(rank));
        World {
            program,
            setting,
            engine: Engine::new(),
            cores: vec![vec![Station::new(); setting.cores]; setting.hosts],
            ranks: (0..setting.ranks).map(|_| Process::default()).collect(),
            nodes: (0..setting.nodes).map(|_| Node::default()).collect(),
            links: Topology::new(kind, setting.nodes).with_burst(setting.network.burst_time()),
            pages: (0..homes).map(|home| Pages::new(home, setting.nodes, pages)).collect(),
            jobs: Jobs::new(),
            locks: Locks::new(),
            traffic: BTreeMap::new(),
            times: Vec::new(),
            told: BTreeSet::new(),
            tenants,
            computing_takes_processors: setting.recorded_crowd.is_none_or(|recorded| crowd > recorded),
            starts: vec![Vec::new(); if setting.is_timed { setting.ranks } else { 0 }],
            trace: setting.is_traced.then(Trace::new),
        }
    }

    fn finish(self) -> Result<Run, WhatIfError> {
        if let Some(stuck) = self.ranks.iter().position(|rank| rank.doing != Doing::Ended) {
            let reasons =
                format!("rank {stuck} waits for ever: not all ranks come to each barrier, or the clocks of a recording disagree");
            return Err(WhatIfError::Refused { reasons });
        }
        let ends: Vec<Picos> = self.ranks.iter().map(|rank| rank.path.total()).collect();
        let last = (0..ends.len()).max_by_key(|rank| (ends[*rank], std::cmp::Reverse(*rank))).unwrap_or(0);
        let end = ends[last];
        let busiest = self.nodes.iter().map(|node| node.busy).max().unwrap_or_default();
        let share = if end == Picos::ZERO { 0.0 } else { busiest.0 as f64 / end.0 as f64 };
        Ok(Run {
            end,
            path: self.ranks[last].path.clone(),
            busiest: (self.links.busiest(end), share),
            ends,
            traffic: self.traffic,
            times: self.times,
            events: self.engine.event_count(),
            starts: self.starts,
            trace: self.trace,
        })
    }

    /// The node of a rank.
    fn node_of(&self, rank: usize) -> usize {
        self.setting.node_of(rank)
    }

    /// The software that passes a message between these nodes; a node and its host's programs share memory.
    fn software(&self, from: usize, to: usize) -> Software {
        let costs = &self.setting.costs;
        if from == to || self.setting.network.way != Way::Kernel { costs.bypass } else { costs.kernel }
    }

    /// One end's half of what a message's bytes and the network's own overhead cost.
    fn at_one_end(&self, from: usize, to: usize, bytes: u64) -> Picos {
        let overhead = if from == to { Picos::ZERO } else { self.setting.network.overhead };
        Picos::from_ns_f64(self.software(from, to).byte * bytes as f64 / 2.0) + Picos(overhead.0 / 2)
    }

    /// The half of the end that takes a message in. Of a long one it does all but the last piece while that is still sent.
    fn at_the_end(&self, from: usize, to: usize, bytes: u64) -> Picos {
        self.at_one_end(from, to, bytes.min(PIECE_LEN))
    }

    /// Takes the processor of a node's host that is free first; returns start and end. Where more threads are awake than there are
    /// processors, one of them is taken from another thread first.
    fn work(&mut self, node: usize, asked: Picos, span: Picos) -> (Picos, Picos) {
        let host = node % self.setting.hosts;
        let switch = if self.is_crowded(host, asked) { Picos::from_ns_f64(self.setting.costs.switch) } else { Picos::ZERO };
        let cores = &mut self.cores[host];
        let free = (0..cores.len()).min_by_key(|core| (cores[*core].free_at().max(asked), *core)).unwrap_or(0);
        let taken = cores[free].take(asked, switch + span);
        (taken.start + switch, taken.end)
    }

    /// Programs keep the processors of a host from each other: more threads work, or wait and have not parked, than there are processors.
    /// A program alone moves from thread to thread with its request, and the others yield to it.
    fn is_crowded(&self, host: usize, asked: Picos) -> bool {
        let (now, tenants) = (self.engine.now(), &self.tenants[host]);
        let nodes = tenants.nodes.iter().filter(|node| self.nodes[**node].is_awake(now)).count();
        let ranks = tenants.ranks.iter().filter(|rank| self.ranks[**rank].is_awake(now)).count();
        // The thread that asks is awake itself.
        asked == now && ranks > 1 && nodes + ranks > self.setting.cores
    }

    fn chart(&mut self, group: &str, part: &str, name: &str, start: Picos, end: Picos) {
        if let Some(trace) = self.trace.as_mut().filter(|trace| trace.len() < WHAT_IF_SPAN_COUNT_MAX && end > start) {
            let part = trace.part(group, part);
            trace.span(part, name, start, end);
        }
    }

    fn count(&mut self, kind: &'static str, messages: u64, bytes: u64) {
        let traffic = self.traffic.entry(kind).or_default();
        traffic.messages += messages;
        traffic.bytes += bytes;
    }

    /// A message enters the network now, and reaches a rank that waits for it or a node's queue.
    fn send(&mut self, mut message: Message, is_for_rank: bool) {
        let now = self.engine.now();
        self.count(message.kind, 1, message.bytes);
        let mut arrives = now;
        if message.from != message.to {
            let network = &self.setting.network;
            let (span, latency, hop) = (network.on_line(message.bytes), network.latency, network.hop);
            let passed = self.links.send(message.from, message.to, now, span, hop);
            message.path.add(Expense::Link, passed.waited);
            message.path.add(Expense::Latency, latency + hop * passed.hops);
            // Less than the span where the link had credit.
            message.path.add(Expense::Bytes, (passed.end - now) - passed.waited - hop * passed.hops);
            arrives = passed.end + latency;
            if self.trace.is_some() {
                let part = format!("to node {}", message.to);
                self.chart("links", &part, message.kind, passed.end.since(span), passed.end);
            }
        }
        message.arrived = arrives;
        debug_assert_eq!(message.path.total(), arrives, "a message's path adds up to its arrival");
        let event = if is_for_rank { Event::AtRank } else { Event::AtNode };
        self.engine.schedule(arrives, event(Box::new(message)));
    }
}

/// The time that steps compute.
pub fn computing(steps: &[Step]) -> Picos {
    steps.iter().map(|step| if let Step::Compute(span) = step { *span } else { Picos::ZERO }).sum()
}
