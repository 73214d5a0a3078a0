//! The simulated pool: virtual time, events, and coordinator, members and the home of job barriers, driven as by a node's process. The
//! network loses, delays, reorders, duplicates and partitions.
//!
//! Processes die at any output, restart, and stop for a while; clients ask at random and ranks of jobs meet at barriers and die.
//! After every event a naive model judges what came out. At the end all faults heal, and nothing may be left over: no extent
//! without a region, no request without an answer, no rank that waits.

mod checks;
mod faults;
mod home;
mod jobs;
mod journal;
mod judge;
mod lender;
mod lives;
mod messages;
mod node;
mod process;
mod work;

use crate::check::{Check, check};
use crate::cluster::checks::Checks;
use crate::cluster::jobs::{JobService, Programs};
use crate::cluster::journal::Journal;
use crate::cluster::process::{Home, Host, Process, name};
use crate::harness::{Course, World, defects, on_course};
use crate::network::Connections;
use hanare_protocol::coordinator::{self, Coordinator, Peer};
use hanare_protocol::group::{PartyReply, RankAt};
use hanare_protocol::id::{Epoch, Gid, Incarnation, NodeId};
use hanare_protocol::member;
use hanare_protocol::wire::control::{Answer, FromNode, ReportedExtent, ToNode};
use hanare_protocol::wire::sync::Arrival;

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
    Commit { life: u64, through: u64 },
    TickNode { node: usize, life: u64 },
    Made { node: usize, life: u64, order: u64, gid: Gid, lens: Vec<u64> },
    Regranted { node: usize, life: u64, epoch: Epoch },
    Work { node: usize, life: u64, client: usize },
    Launch,
    Rank { job: usize, rank: usize },
    RankDies { job: usize, rank: usize },
    RankEnded { job: usize, rank: usize },
    Arrive { life: u64, arrival: Arrival },
    BarrierAnswer { reply: PartyReply<RankAt> },
    Fault,
    Restart { node: usize },
    TakeOver { node: usize },
    Resume { node: usize },
    Heal { node: usize },
}

defects! {
    /// The coordinator's process acts on outputs before their records are committed.
    SpeakEarly,
    /// A node does not free extents.
    FreeNothing,
    /// A node goes on with the grants of its old epoch.
    KeepGrants,
    /// A node forgets extents when its connection closes.
    ForgetExtents,
    /// The barrier's home releases a rank when the first arrives.
    ReleaseEarly,
    /// A node answers requests of its clients never.
    SwallowAnswers,
    /// A new life of a node claims to be the old one.
    ReuseIncarnation,
}

/// Names, leases and barriers of jobs.
pub(crate) struct Cluster {
    course: Course<Event, Defect>,
    pub hosts: Vec<Host>,
    pub home: Option<Home>,
    /// The host of the coordinator, or of the last one.
    pub home_at: usize,
    pub connections: Connections,
    pub journal: Journal,
    pub checks: Checks,
    pub programs: Programs,
    deferred: Vec<Event>,
    lives: u64,
}

on_course!(Cluster);

impl World for Cluster {
    const NAME: &'static str = "pool";
    type Event = Event;
    type Defect = Defect;

    fn begin(mut course: Course<Event, Defect>) -> Cluster {
        course.throw_weather();
        let nodes = course.plan.nodes;
        let mut cluster = Cluster {
            course,
            hosts: (0..nodes).map(|_| Host::default()).collect(),
            home: None,
            home_at: 0,
            connections: Connections::default(),
            journal: Journal::default(),
            checks: Checks::default(),
            programs: Programs::default(),
            deferred: Vec::new(),
            lives: 0,
        };
        for node in 0..cluster.hosts.len() {
            cluster.at(node as u64, Event::Restart { node });
        }
        cluster.at(500, Event::Fault);
        cluster.at(1000, Event::Launch);
        cluster
    }

    fn act(&mut self, event: Event) -> Check {
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
            Event::Commit { life, through } => self.on_commit(life, through),
            Event::TickNode { node, life } => self.on_tick_node(node, life),
            Event::Made { node, life, order, gid, lens } => self.on_made(node, life, order, gid, &lens),
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
                self.hosts[node].is_partitioned = false;
                Ok(())
            }
        }
    }

    /// No new work comes.
    fn calm(&mut self) -> Check {
        self.heal();
        Ok(())
    }

    fn judge(&mut self) -> Check {
        self.is_true()
    }

    fn judge_rest(&mut self) -> Check {
        self.is_at_rest()
    }
}

impl Cluster {
    /// Delivers the events that waited for a stopped process.
    pub fn resume_deferred(&mut self) {
        for event in std::mem::take(&mut self.deferred) {
            self.at(0, event);
        }
    }

    /// The host whose process an event needs, if it needs one.
    fn place_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::ToHome { .. }
            | Event::ClosedAtHome { .. }
            | Event::TickHome { .. }
            | Event::Commit { .. }
            | Event::Arrive { .. } => Some(self.home_at),
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
}

#[cfg(test)]
mod tests;
