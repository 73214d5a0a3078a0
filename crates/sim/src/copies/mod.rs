//! Extents with copies, simulated: programs add to words and read them, while nodes die, stop, are cut off and come back empty.
//!
//! Each node is the [`Copies`](hanare_home::Copies) that nodes run, and the coordinator has the product's rules of holders
//! (`hanare_protocol::copies`). Faults that take a node away wait until every extent would keep a member of its set that nothing is wrong
//! with. So no fault may cost a byte, and an extent that is lost is a failure.
//!
//! An addition is one write of two words: the word itself, and a count of the program's additions. A program asks until it has an answer, and
//! each addition counts once, with the value before it.
//!
//! | module | holds |
//! |---|---|
//! | `nodes` | a node's process: its `Copies`, told of an event, its outputs, and connections between nodes |
//! | `memory` | the extents of a node |
//! | `tampering` | frames on their way, and what defects change of them |
//! | `coordinator` | leases, sets of holders, and copies that are made anew |
//! | `programs` | what programs ask for, and how answers are judged |

mod coordinator;
mod memory;
mod nodes;
mod programs;
mod tampering;

use crate::check::Check;
use crate::dice::Dice;
use crate::harness::{Course, World, defects, on_course};
use crate::network::Ordered;
use coordinator::Coordinator;
use hanare_protocol::copies::{HolderSet, Term};
use hanare_protocol::id::{Epoch, Gid, NodeId};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::wire::copies::{CopiedExtent, FromHolder, ToHolder};
use nodes::{CopyConnection, CopyHost};
use programs::CopyProgram;
use std::collections::{BTreeMap, BTreeSet};

/// Extents of the world; each has two or three holders.
const EXTENT_COUNT: usize = 4;
/// Programs of the world.
const PROGRAM_COUNT: usize = EXTENT_COUNT * 3;
/// Words of an extent.
const WORD_COUNT: usize = 8;
/// Bytes of an extent: three ranges when a copy is made, the last one short.
const EXTENT_LEN: usize = 2 * STAGE_LEN + 4096;
/// Bytes from a word to the next: words lie in all ranges but the last.
const WORD_STEP: usize = 2 * STAGE_LEN / WORD_COUNT;
/// Least number of nodes: three holders, and one more to make a copy at.
const NODE_COUNT_MIN: usize = 4;
/// Time between two looks of a node or the coordinator.
const LOOK_MS: u64 = 100;
/// Time for which a lease lasts.
const LEASE_MS: u64 = 1000;
/// The coordinator's number as an end of a wire.
const COORDINATOR: usize = usize::MAX;

/// A message between a node and the coordinator, about one extent.
#[derive(Clone, Debug)]
enum Message {
    ToHolder(ToHolder),
    FromHolder(FromHolder),
    /// The node makes an empty extent, for a home to make a copy of it.
    MakeEmpty(HolderSet),
    /// The node of that generation has made one.
    MadeEmpty(Epoch),
    /// A node renews its lease, as of that moment.
    Renew {
        sent_ms: u64,
    },
    Renewed {
        sent_ms: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A message between a node and the coordinator.
    Deliver {
        wire: (usize, usize),
        generation: u64,
        extent: usize,
        message: MessageBox,
    },
    /// A node and the coordinator find that their connection broke, and make another.
    Reconnect {
        node: usize,
    },
    /// A frame comes to the end of a connection between nodes.
    Frame {
        place: u64,
        to: usize,
        frame: FrameBox,
    },
    /// A node's try to reach another ends.
    Dialed {
        from: usize,
        to: usize,
    },
    /// A connection has ended, as one end finds out.
    Gone {
        place: u64,
        at: usize,
    },
    Tick(usize),
    Look(usize),
    Program(usize),
    Ask {
        program: usize,
        number: u64,
        at: usize,
    },
    Answer {
        program: usize,
        number: u64,
        value: u64,
    },
    Wake(usize),
    Back(usize),
    Fault,
}

/// A message, apart from the events of the world.
#[derive(Clone, Debug)]
pub(crate) struct MessageBox(Message);

/// A frame, of which a trail shows the length alone.
#[derive(Clone)]
pub(crate) struct FrameBox(Vec<u8>);

impl std::fmt::Debug for FrameBox {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} bytes", self.0.len())
    }
}

defects! {
    /// The home applies and answers before copies have the write.
    ApplyFirst,
    /// The copy with the fewest writes is elected.
    ElectLeast,
    /// A home answers after its lease.
    ForgetLease,
    /// A write that is sent again is applied again.
    AddTwice,
    /// A home goes on without a silent copy before the coordinator has dropped it.
    DropAlone,
    /// A copy is admitted before it has all.
    AdmitEarly,
    /// A copy is admitted though its node died meanwhile, or began anew.
    AdmitDead,
    /// A copy that is made gets no writes meanwhile.
    MissWhileMade,
    /// A copy applies a write late: when the next one comes.
    ApplyLate,
    /// Messages that were lost with a connection are not sent again.
    ForgetLost,
    /// A copy that is silent is never given up.
    WaitForEver,
}

/// A connection between a node and the coordinator.
#[derive(Clone, Copy, Debug, Default)]
struct CopyWire {
    path: Ordered,
    /// Counts its connections: a message of an earlier one is lost.
    generation: u64,
    is_broken: bool,
    /// Faults break it after that: one that broke again and again would be a fault of its ends.
    rests_until_ms: u64,
}

/// Extents with copies.
#[derive(Debug)]
pub(crate) struct CopyWorld {
    course: Course<Event, Defect>,
    hosts: Vec<CopyHost>,
    coordinator: Coordinator,
    programs: Vec<CopyProgram>,
    /// Connections to the coordinator, by node.
    wires: BTreeMap<usize, CopyWire>,
    /// Between nodes, by place.
    connections: BTreeMap<u64, CopyConnection>,
    places_ever: u64,
    /// Copies that are made, where a defect wants to know: home, copy, extent.
    making: BTreeSet<(usize, usize, usize)>,
    /// Additions that were asked for, and what was seen, of each word.
    asked: Vec<[u64; WORD_COUNT]>,
    seen: Vec<[u64; WORD_COUNT]>,
    results: BTreeSet<(usize, usize, u64)>,
}

on_course!(CopyWorld);

impl World for CopyWorld {
    const NAME: &'static str = "copies";
    type Event = Event;
    type Defect = Defect;

    fn begin(mut course: Course<Event, Defect>) -> CopyWorld {
        course.dice = Dice::new(course.plan.seed ^ 0x636f_7069_6573);
        let node_count = (course.plan.nodes as usize).max(NODE_COUNT_MIN);
        let sets: Vec<HolderSet> = (0..EXTENT_COUNT).map(|extent| first_set(extent, node_count)).collect();
        let hosts = (0..node_count).map(|_| CopyHost::default()).collect();
        let program = |number: usize| {
            let extent = number % EXTENT_COUNT;
            CopyProgram::new(extent, index(sets[extent].home))
        };
        let programs = (0..PROGRAM_COUNT).map(program).collect();
        let mut world = CopyWorld {
            course,
            hosts,
            coordinator: Coordinator::new(sets.clone(), node_count),
            programs,
            wires: BTreeMap::new(),
            connections: BTreeMap::new(),
            places_ever: 0,
            making: BTreeSet::new(),
            asked: vec![[0; WORD_COUNT]; EXTENT_COUNT],
            seen: vec![[0; WORD_COUNT]; EXTENT_COUNT],
            results: BTreeSet::new(),
        };
        world.change_weather();
        (0..node_count).for_each(|node| world.begin_node(node, &sets));
        (0..node_count).for_each(|node| world.at(0, Event::Look(node)));
        (0..world.programs.len()).for_each(|program| world.at(1, Event::Program(program)));
        world.at(0, Event::Look(COORDINATOR));
        world.at(10, Event::Fault);
        world
    }

    fn act(&mut self, event: Event) -> Check {
        if !matches!(event, Event::Look(_) | Event::Tick(_)) {
            self.note(format!("{event:?}"));
        }
        match event {
            Event::Deliver { wire, generation, extent, message } => return self.on_message(wire, generation, extent, message.0),
            Event::Reconnect { node } => return self.on_reconnect(node),
            Event::Frame { place, to, frame } => self.on_frame(place, to, frame),
            Event::Dialed { from, to } => self.on_dialed(from, to),
            Event::Gone { place, at } => self.on_gone(place, at),
            Event::Tick(node) => self.on_tick(node),
            Event::Look(COORDINATOR) => self.look_as_coordinator()?,
            Event::Look(node) => self.look_as_node(node),
            Event::Program(program) => self.on_program(program),
            Event::Ask { program, number, at } => self.on_ask(program, number, at),
            Event::Answer { program, number, value } => return self.on_answer(program, number, value),
            Event::Wake(node) => {
                self.hosts[node].is_still = false;
                // All that has come meanwhile, in its order.
                return std::mem::take(&mut self.hosts[node].inbox).into_iter().try_for_each(|event| self.act(event));
            }
            Event::Back(node) => self.come_back(node),
            Event::Fault => {
                if self.is_rough {
                    self.fault();
                    let pause_ms = self.dice.between(1, 1500);
                    self.at(pause_ms, Event::Fault);
                }
            }
        }
        Ok(())
    }

    fn calm(&mut self) -> Check {
        // Nodes that stand still go on in their time: messages that they have not looked at keep their order.
        for node in 0..self.hosts.len() {
            if std::mem::take(&mut self.hosts[node].is_cut) {
                self.break_wire(node);
            }
            self.hosts[node].is_alone = false;
        }
        Ok(())
    }

    fn judge_rest(&mut self) -> Check {
        self.judge_programs()?;
        self.judge_holders()
    }
}

/// The first holders of an extent: two or three nodes, one after another.
fn first_set(extent: usize, node_count: usize) -> HolderSet {
    let at = |step: usize| node_id((extent + step) % node_count);
    HolderSet { term: Term(1), home: at(0), copies: (1..=1 + extent % 2).map(at).collect() }
}

fn name(extent: usize) -> CopiedExtent {
    CopiedExtent { gid: Gid(extent as u64), index: 0 }
}

fn number(extent: CopiedExtent) -> usize {
    extent.gid.0 as usize
}

fn node_id(index: usize) -> NodeId {
    NodeId(index as u32)
}

fn index(node: NodeId) -> usize {
    node.0 as usize
}

impl CopyWorld {
    /// Sends a message over the connection of a node and the coordinator, which keeps order and loses nothing until it breaks.
    fn send(&mut self, from: usize, to: usize, extent: usize, message: Message) {
        let (now_ms, delay_ms) = (self.now_ms, self.delay_ms());
        let wire = self.wires.entry(from.min(to)).or_default();
        if wire.is_broken {
            return;
        }
        let after = if from < to { wire.path.there(now_ms, delay_ms) } else { wire.path.back(now_ms, delay_ms) };
        let generation = wire.generation;
        self.at(after, Event::Deliver { wire: (from, to), generation, extent, message: MessageBox(message) });
    }

    fn on_message(&mut self, (from, to): (usize, usize), generation: u64, extent: usize, message: Message) -> Check {
        let node = from.min(to);
        if self.wires.get(&node).copied().unwrap_or_default().generation != generation {
            self.count("messages lost with their connection");
            return Ok(());
        }
        if self.hosts[node].is_cut {
            return Ok(());
        }
        if to == COORDINATOR {
            return self.on_coordinator(from, extent, message);
        }
        let host = &mut self.hosts[to];
        if host.is_dead {
            return Ok(());
        }
        if host.is_still {
            host.inbox.push(Event::Deliver { wire: (from, to), generation, extent, message: MessageBox(message) });
            return Ok(());
        }
        self.on_node(to, extent, message);
        Ok(())
    }

    /// The connection of a node to the coordinator breaks: what is under way is lost, and the ends find it out a little later.
    fn break_wire(&mut self, node: usize) {
        let now_ms = self.now_ms;
        let wire = self.wires.entry(node).or_default();
        if !wire.is_broken {
            (wire.generation, wire.is_broken) = (wire.generation + 1, true);
            wire.rests_until_ms = now_ms + 2 * LEASE_MS;
            let after = self.dice.between(1, 300);
            self.at(after, Event::Reconnect { node });
        }
    }

    fn on_reconnect(&mut self, node: usize) -> Check {
        self.wires.entry(node).or_default().is_broken = false;
        if self.has(Defect::ForgetLost) {
            return Ok(());
        }
        self.coordinator_reconnected(node);
        self.coordinator_met(node);
        Ok(())
    }

    fn fault(&mut self) {
        let node_count = self.hosts.len() as u64;
        let node = self.dice.below(node_count) as usize;
        match self.dice.below(9) {
            0..2 => {
                let wire = self.wires.get(&node).copied().unwrap_or_default();
                if self.now_ms >= wire.rests_until_ms {
                    self.count("connections to the coordinator broken");
                    self.break_wire(node);
                }
            }
            2..4 => self.break_one(node),
            _ if !self.may_lose(node) => {}
            4..6 => {
                self.count("node deaths");
                self.kill(node);
            }
            6 => {
                self.count("nodes that stood still");
                let still_ms = self.dice.between(100, 4000);
                self.hosts[node].is_still = true;
                self.at(still_ms, Event::Wake(node));
            }
            7 => {
                let extent = self.dice.below(EXTENT_COUNT as u64) as usize;
                self.hosts[node].memory.fail_next(extent);
            }
            _ => {
                let is_alone = self.dice.chance(5000);
                self.count(if is_alone { "nodes that programs alone reach" } else { "nodes cut off from the coordinator" });
                (self.hosts[node].is_cut, self.hosts[node].is_alone) = (true, is_alone);
                if is_alone {
                    self.break_all_of(node);
                }
                let back_ms = self.dice.between(1500, 6000);
                self.at(back_ms, Event::Back(node));
            }
        }
        if self.dice.chance(300) {
            self.change_weather();
        }
    }

    /// Longer delays would make well nodes count as lost.
    fn change_weather(&mut self) {
        self.throw_weather();
        self.weather.delay_ms_max = self.weather.delay_ms_max.min(100);
    }

    fn kill(&mut self, node: usize) {
        self.hosts[node] = CopyHost::dead();
        self.break_all_of(node);
        self.break_wire(node);
        let back_ms = self.dice.between(500, 6000);
        self.at(back_ms, Event::Back(node));
    }

    /// A node comes back empty, when the coordinator has missed it.
    fn come_back(&mut self, node: usize) {
        if self.coordinator.is_lost(node) {
            self.count("nodes that came back");
            self.break_all_of(node);
            self.hosts[node] = CopyHost::default();
            self.begin_node(node, &[]);
            self.coordinator.joins(node, self.course.now_ms);
        } else if self.hosts[node].is_dead || self.hosts[node].is_cut {
            self.at(LOOK_MS, Event::Back(node));
        }
    }

    /// True if each extent keeps a well member of its set without this node. A member that a home wants to drop is not well.
    fn may_lose(&self, node: usize) -> bool {
        let is_well = |other: usize| {
            let host = &self.hosts[other];
            other != node && !host.is_dead && !host.is_cut && !host.is_still && !self.coordinator.is_lost(other)
        };
        (0..EXTENT_COUNT).all(|extent| {
            let members = self.coordinator.members(extent);
            let is_doubted = |member: usize| self.hosts.iter().any(|host| host.doubted.contains(&(extent, member)));
            let has_failed = |member: usize| self.hosts[member].memory.has_failed(extent);
            let is_whole = |member: usize| is_well(member) && !is_doubted(member) && !has_failed(member);
            let well = members.iter().filter(|member| is_whole(**member)).count();
            !members.contains(&node) || well > 0
        })
    }
}

#[cfg(test)]
mod tests;
