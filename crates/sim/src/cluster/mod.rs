//! The simulated pool: virtual time, events, and coordinator, members and the home of job barriers, driven as by a node's process. The
//! network loses, delays, reorders, duplicates and partitions.
//!
//! Processes die at any output, restart, and stop for a while; clients ask at random and ranks of jobs meet at barriers and die.
//! After every event a naive model judges what came out. At the end all faults heal, and nothing may be left over: no extent
//! without a region, no request without an answer, no rank that waits.

mod budget;
mod checks;
mod commands;
mod data;
mod defects;
mod entries;
mod faults;
mod followers;
mod home;
mod jobs;
mod journal;
mod judge;
mod keepers;
mod lender;
mod lives;
mod locks;
mod memory;
mod messages;
mod node;
mod process;
mod queues;
mod reigns;
mod releases;
mod senders;
mod served_link;
mod shortages;
mod tampering;
mod tenants;
mod words;
mod work;

use crate::check::{Check, check};
use crate::cluster::checks::Checks;
use crate::cluster::jobs::{JobService, Programs};
use crate::cluster::journal::Journal;
use crate::cluster::process::{Home, Host, Process, ProcessLife, name};
use crate::dice::Dice;
use crate::harness::{Course, World, on_course};
use crate::network::Connections;
use crate::wires::Wires;
use defects::Defect;
use entries::{Entries, EntryEvent};
use followers::{FollowEvent, Followers};
use hanare_protocol::coordinator::{self, Coordinator, Peer};
use hanare_protocol::copies::HolderSet;
use hanare_protocol::group::{PartyReply, RankAt};
use hanare_protocol::id::{Epoch, Gid, Incarnation, NodeId};
use hanare_protocol::member;
use hanare_protocol::wire::control::{FromNode, ReportedExtent, ToNode};
use hanare_protocol::wire::copies::CopiedExtent;
use hanare_protocol::wire::sync::Arrival;
use keepers::{KeeperEvent, Keepers};
use locks::{LockEvent, LockPrograms};
use queues::{QueueEvent, QueuePrograms};
use releases::{ReleaseEvent, Releases};
use senders::{SendEvent, Senders};
use shortages::ShortageEvent;
use std::collections::{BTreeMap, BTreeSet};
use tenants::{TenantEvent, Tenants};
use words::{WordAsk, WordPrograms};

/// Bytes that a user may have in regions.
pub(crate) const QUOTA: u64 = 2 << 20;
/// Least number of nodes where words have copies: three holders, and one more to make a copy at.
const NODE_COUNT_MIN: u32 = 4;

/// Something that happens at a moment.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A message of a node comes to a coordinator.
    ToHome { peer: Peer, message: FromNode },
    /// The other way.
    ToNode { peer: Peer, message: ToNode },
    /// A coordinator sees that a connection has ended.
    ClosedAtHome { peer: Peer },
    /// A node sees it.
    ClosedAtNode { peer: Peer },
    /// A node connects to the coordinator.
    Connect { node: usize, life: u64 },
    /// The deadline of a coordinator has come.
    TickHome { at: ProcessLife },
    /// The journal has the batches up to that one.
    Commit { life: u64, through: u64 },
    /// The deadline of a membership has come.
    TickNode { node: usize, life: u64 },
    /// Extents that an order asks for are made.
    Made { node: usize, life: u64, order: u64, gid: Gid, lens: Vec<u64>, copied: Copied },
    /// Extents that an order makes ready for copies have no command under way.
    Quiet { at: ProcessLife, order: u64 },
    /// The grants of an epoch are made.
    Regranted { node: usize, life: u64, epoch: Epoch },
    /// A client does its next thing.
    Work { node: usize, life: u64, client: usize },
    /// A job begins.
    Launch,
    /// A rank does its next thing.
    Rank { job: usize, rank: usize },
    /// A rank dies.
    RankDies { job: usize, rank: usize },
    /// Its node sees that.
    RankEnded { job: usize, rank: usize },
    /// An arrival comes to the home of a barrier.
    Arrive { life: u64, arrival: Arrival },
    /// The answer comes to the rank.
    BarrierAnswer { reply: PartyReply<RankAt> },
    /// Something goes wrong.
    Fault,
    /// A process starts on a host.
    Restart { node: usize },
    /// A node may go on as the coordinator.
    TakeOver { node: usize },
    /// A process goes on that stood still.
    Resume { node: usize },
    /// A host is reached again.
    Heal { node: usize },
    /// The deadline of a node's home has come.
    Serve { at: ProcessLife },
    /// A node's try to reach another ends.
    Dialed { from: ProcessLife, node: NodeId, address: String },
    /// A node has made a connection to this one.
    Came { place: u64, node: NodeId },
    /// A frame arrives at an end of a connection between nodes.
    Frame { place: u64, frame: FrameBox },
    /// An end of such a connection is seen to have ended.
    WireEnded { place: u64 },
    /// A program of words has its turn.
    Word { program: usize },
    /// Its request comes to a node.
    Asked(WordAsk),
    /// The answer comes to the program.
    Answered { program: usize, number: u64, value: u64 },
    /// An event of locks.
    Lock(LockEvent),
    /// An event of data bound to locks.
    Entry(EntryEvent),
    /// An event of queues.
    Queue(QueueEvent),
    /// An event of senders.
    Send(SendEvent),
    /// An event of keepers.
    Keeper(KeeperEvent),
    /// An event of hosts short of memory.
    Shortage(ShortageEvent),
    /// An event of regions that follow their users.
    Follow(FollowEvent),
    /// An event of releases.
    Release(ReleaseEvent),
    /// An event of tenants.
    Tenant(TenantEvent),
}

/// The extent that is made, where others hold it, too.
pub(crate) type Copied = Option<(CopiedExtent, HolderSet)>;

/// A frame, of which a trail shows the length alone.
#[derive(Clone)]
pub(crate) struct FrameBox(Vec<u8>);

impl std::fmt::Debug for FrameBox {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} bytes", self.0.len())
    }
}

/// Terms of a run, by the dice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    /// Connections to the coordinator lose, repeat and reorder messages. No region has copies, and no node is drained.
    Harsh,
    /// Connections keep order until they break, and regions have copies.
    Ordered,
    /// The same, and no fault takes the last well holder of programs' words.
    Budget,
}

/// The pool.
pub(crate) struct Cluster {
    course: Course<Event, Defect>,
    pub hosts: Vec<Host>,
    /// Coordinators by their hosts: several where keepers hold the journal, and one does not know yet that it leads no more.
    pub homes: BTreeMap<usize, Home>,
    /// The host of the coordinator, or of the last one.
    pub home_at: usize,
    /// The journal of several nodes, where they have one.
    pub keepers: Option<Keepers>,
    pub connections: Connections,
    pub journal: Journal,
    pub checks: Checks,
    pub programs: Programs,
    deferred: Vec<Event>,
    lives: u64,
    terms: Terms,
    /// True if no programs work but those with locks: more of their runs fit into the same time.
    locks_alone: bool,
    /// Between nodes.
    wires: Wires<ProcessLife>,
    wires_ever: u64,
    /// Hosts whose nodes are drained no more, at the end.
    ended_drains: BTreeSet<usize>,
    pub words: WordPrograms,
    pub locks: LockPrograms,
    /// Data bound to locks, in runs with some.
    entries: Option<Entries>,
    /// Queues and their programs, in runs with some.
    queues: Option<QueuePrograms>,
    /// Programs that send messages of commands, in runs with some.
    senders: Option<Senders>,
    /// True if the last event was one of locks or senders.
    is_beside_coordinator: bool,
    /// Dice of hosts that run short of memory, in runs with some.
    shortages: Option<Dice>,
    /// Users of regions that follow them, in runs with some.
    followers: Option<Followers>,
    /// Releases of hosts, in runs with two.
    releases: Option<Releases>,
    /// Tenants, in runs with some.
    tenants: Option<Tenants>,
    /// Copies that are made, where a defect wants to know.
    making: BTreeSet<(ProcessLife, ProcessLife, CopiedExtent)>,
}

on_course!(Cluster);

impl World for Cluster {
    const NAME: &'static str = "cluster";
    type Event = Event;
    type Defect = Defect;

    fn begin(mut course: Course<Event, Defect>) -> Cluster {
        let terms = course.dice.pick(&[Terms::Harsh, Terms::Harsh, Terms::Ordered, Terms::Budget, Terms::Budget]);
        let is_of_locks = course.defect.is_some_and(Defect::is_of_locks);
        let is_of_keepers = course.defect.is_some_and(Defect::is_of_keepers);
        let terms = if is_of_locks || (is_of_keepers && terms == Terms::Harsh) { Terms::Ordered } else { terms };
        let terms = if course.defect.is_some_and(Defect::is_of_words) { Terms::Budget } else { terms };
        let locks_alone = terms == Terms::Ordered && (is_of_locks || course.dice.chance(5_000));
        let locks_alone = locks_alone && !tenants::are_played(course.plan, course.defect);
        let least = if terms == Terms::Budget { NODE_COUNT_MIN } else { 1 };
        let nodes = course.plan.nodes.max(least);
        let queues = queues::queues(course.plan, terms, course.defect);
        let senders = senders::senders(course.plan, terms, course.defect);
        let entries = entries::entries(course.plan, terms, course.defect);
        let mut cluster = Cluster {
            course,
            hosts: (0..nodes).map(|_| Host::default()).collect(),
            homes: BTreeMap::new(),
            home_at: 0,
            keepers: None,
            connections: Connections::default(),
            journal: Journal::default(),
            checks: Checks::default(),
            programs: Programs::default(),
            deferred: Vec::new(),
            lives: 0,
            terms,
            locks_alone,
            wires: Wires::default(),
            wires_ever: 0,
            ended_drains: BTreeSet::new(),
            words: WordPrograms::default(),
            locks: LockPrograms::default(),
            entries,
            queues,
            senders,
            is_beside_coordinator: false,
            shortages: None,
            followers: None,
            releases: None,
            tenants: None,
            making: BTreeSet::new(),
        };
        cluster.followers = followers::followers(cluster.plan, terms, cluster.hosts.len(), cluster.defect);
        cluster.begin_followers();
        cluster.shortages = shortages::dice(cluster.plan, terms, cluster.defect).filter(|_| cluster.followers.is_none());
        if cluster.shortages.is_some() {
            cluster.at(3_000, Event::Shortage(ShortageEvent::Next));
        }
        cluster.begin_keepers();
        cluster.begin_tenants();
        cluster.begin_releases();
        cluster.change_weather();
        if terms == Terms::Budget {
            cluster.begin_words();
        }
        cluster.begin_queues();
        cluster.begin_senders();
        cluster.begin_entries();
        if cluster.has_locks() {
            cluster.at(1_000, Event::Lock(LockEvent::Fault));
        }
        for node in 0..cluster.hosts.len() {
            cluster.at(node as u64, Event::Restart { node });
        }
        cluster.at(500, Event::Fault);
        if !cluster.locks_alone && cluster.has_jobs() {
            cluster.at(1000, Event::Launch);
        }
        cluster
    }

    fn act(&mut self, event: Event) -> Check {
        self.is_beside_coordinator = matches!(event, Event::Lock(_) | Event::Entry(_) | Event::Send(_));
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
            Event::TickHome { at } => self.on_tick_home(at),
            Event::Commit { life, through } => self.on_commit(life, through),
            Event::TickNode { node, life } => self.on_tick_node(node, life),
            Event::Made { node, life, order, gid, lens, copied } => self.on_made((node, life), order, gid, &lens, copied),
            Event::Quiet { at, order } => self.on_quiet(at, order),
            Event::Regranted { node, life, epoch } => self.on_regranted(node, life, epoch),
            Event::Work { node, life, client } => self.on_work(node, life, client),
            Event::Launch => self.on_launch(),
            Event::Rank { job, rank } => self.on_rank(job, rank),
            Event::RankDies { job, rank } => self.on_rank_dies(job, rank),
            Event::RankEnded { job, rank } => self.on_rank_ended(job, rank),
            Event::Arrive { life, arrival } => self.on_arrive(life, arrival),
            Event::BarrierAnswer { reply } => self.on_barrier_answer(reply),
            Event::Fault => self.on_fault(),
            Event::Restart { node } => self.on_restart(node),
            Event::TakeOver { node } => self.on_take_over(node),
            Event::Resume { node } => self.on_resume(node),
            Event::Heal { node } => {
                (self.hosts[node].is_partitioned, self.hosts[node].is_alone) = (false, false);
                Ok(())
            }
            Event::Serve { at } => self.on_serve(at),
            Event::Dialed { from, node, address } => self.on_dialed(from, node, &address),
            Event::Came { place, node } => self.on_came(place, node),
            Event::Frame { place, frame } => self.on_frame(place, frame.0),
            Event::WireEnded { place } => self.on_wire_ended(place),
            Event::Word { program } => self.on_word(program),
            Event::Asked(ask) => self.on_asked(ask),
            Event::Answered { program, number, value } => self.on_word_answered(program, number, value),
            Event::Lock(event) => self.on_lock_event(event),
            Event::Entry(event) => self.on_entry_event(event),
            Event::Queue(event) => self.on_queue_event(event),
            Event::Send(event) => self.on_sending(event),
            Event::Keeper(event) => self.on_keeper_event(event),
            Event::Shortage(event) => self.on_shortage(event),
            Event::Follow(event) => self.on_follow(event),
            Event::Release(event) => self.on_release(event),
            Event::Tenant(event) => self.on_tenant_event(event),
        }
    }

    /// No new work comes.
    fn calm(&mut self) -> Check {
        self.heal();
        self.last_shortage();
        self.calm_tenants();
        Ok(())
    }

    fn judge(&mut self) -> Check {
        // Events of locks and senders change nothing of the coordinator.
        if !self.is_beside_coordinator {
            self.is_true()?;
        }
        self.judge_senders()?;
        self.judge_locks()
    }

    fn judge_rest(&mut self) -> Check {
        self.is_at_rest()?;
        self.judge_senders_at_rest()
    }
}

impl Cluster {
    /// The coordinator of today, as far as somebody looks from outside.
    pub fn home(&self) -> Option<&Home> {
        self.homes.get(&self.home_at)
    }

    pub fn home_mut(&mut self) -> Option<&mut Home> {
        self.homes.get_mut(&self.home_at)
    }

    /// Delivers the events that waited for a stopped process, in their order.
    pub fn resume_deferred(&mut self, node: usize) -> Check {
        let all = std::mem::take(&mut self.deferred);
        let (its, others) = all.into_iter().partition(|event| self.place_of(event) == Some(node));
        self.deferred = others;
        let its: Vec<Event> = its;
        its.into_iter().try_for_each(|event| self.act(event))?;
        self.is_beside_coordinator = false;
        Ok(())
    }

    /// A stopped process has died: what waited for it finds nobody.
    pub fn drop_deferred(&mut self, node: usize) {
        let all = std::mem::take(&mut self.deferred);
        self.deferred = all.into_iter().filter(|event| self.place_of(event) != Some(node)).collect();
    }

    /// The host whose process an event needs, if it needs one.
    fn place_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::ToHome { peer, .. } | Event::ClosedAtHome { peer } => {
                self.connections.open.get(peer).map(|connection| connection.home.0)
            }
            Event::TickHome { at } => Some(at.0),
            Event::Commit { .. } => Some(self.home_at),
            Event::Arrive { life, .. } => self.homes.iter().find(|(_, home)| home.life == *life).map(|(at, _)| *at),
            Event::Keeper(event) => event.host(),
            Event::Follow(event) => event.host(),
            Event::ToNode { peer, .. } | Event::ClosedAtNode { peer } => {
                self.connections.open.get(peer).map(|connection| connection.node)
            }
            Event::Frame { place, .. } | Event::Came { place, .. } | Event::WireEnded { place } => {
                self.wires.at(*place).map(|(node, _)| node)
            }
            Event::Dialed { from: (node, _), .. } | Event::Serve { at: (node, _) } | Event::Quiet { at: (node, _), .. } => {
                Some(*node)
            }
            Event::Asked(ask) => Some(ask.host()),
            Event::Lock(event) => self.host_of_lock(event),
            Event::Entry(EntryEvent::Access(access)) => Some(access.at.0),
            Event::Queue(event) => self.host_of_queue(event),
            Event::Send(event) => self.host_of_sending(event),
            Event::Connect { node, .. }
            | Event::TickNode { node, .. }
            | Event::Made { node, .. }
            | Event::Regranted { node, .. }
            | Event::Work { node, .. } => Some(*node),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
