//! Queues of regions with copies. Programs append numbered units to lanes and read them, at the home of each moment. A queue lies behind the words of
//! its region, so its extent moves, and dies, with those. Another program of each region flushes its mapping.
//!
//! Writers send and repeat appends by the rule of the product ([`hanare_protocol::queue::appends`]). A program keeps a connection to each home that
//! it has asked. A connection ends for its two sides at different moments. Programs die with their node, or alone, and have successors.
//!
//! | module | holds |
//! |---|---|
//! | `programs` | programs that begin and end, and their calls, which go to the next home where one is lost |
//! | `writers`, `readers` | what they do, and what comes of answers |
//! | `stores` | flushes: stores in parts that count together |
//! | `links` | connections: messages in order, breaks, and who hears of them when |
//! | `service` | the home's side |
//! | `judge` | each answered unit is read once, in its writer's order, and freed when a reader has it |
//!
//! Queues have dice of their own, and runs with other defects have none. So the seeds that find those stay what they were.

mod judge;
mod links;
mod programs;
mod readers;
mod service;
mod stores;
mod writers;

use super::memory::SimExtent;
use super::process::ProcessLife;
use super::served_link::CommandLink;
use super::{Cluster, Defect, Event, Terms, words};
use crate::Plan;
use crate::check::{Check, check};
use crate::dice::Dice;
use crate::links::Links;
use hanare_home::Bytes;
use hanare_protocol::Result as Outcome;
use hanare_protocol::id::{ClientId, Grant, Slot};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::queue::{Appended, Overflow, QueueForm, Unit};
use hanare_protocol::wire::queue::QueueRequest;
use hanare_protocol::wire::stores::StorePart;
use judge::QueueJudge;
use links::{FIRST_LINK, QueueLink};
use programs::QueueProgram;
pub(super) use service::is_of_queue;
use std::collections::{BTreeMap, VecDeque};
use stores::ImageLog;

/// Regions with a queue: those of words that are made with copies.
const QUEUE_COUNT: usize = words::REGION_COUNT - 1;
/// Programs of a region: the first reads its queue, the last one flushes its mapping, the others write to the queue. There are more writers than
/// lanes.
const PROGRAM_COUNT: usize = 5;
/// First byte of the array in its region's extent, behind the counts of additions.
const ARRAY_AT: u64 = 2 * STAGE_LEN as u64 + 128;
/// Bytes of a block: its writer's number, and its own from 1.
const BLOCK_LEN: u64 = 16;
const LANE_COUNT: u32 = 2;
const DEPTH: u32 = 4;
/// Time after the faults for which readers look for units.
const READS_MS: u64 = 45_000;
/// Part of a seed that dice of queues begin with.
const SALT: u64 = 0x7175_6575;

/// An event of queues.
#[derive(Clone, Debug)]
pub(crate) enum QueueEvent {
    /// A program begins in place of the last one.
    Begin { program: usize },
    /// A program does its next thing.
    Turn { program: usize, id: ClientId },
    /// A program has had no answer for long.
    Late { program: usize, id: ClientId, seq: u64 },
    /// A node sees that a program has ended.
    Ended { at: ProcessLife, id: ClientId },
    /// A message of a program arrives.
    ToHome { link: u64, message: QueueMessage },
    /// An answer arrives.
    ToProgram { link: u64, seq: u64, outcome: Outcome<QueueReply> },
    /// A home sees that a connection has ended.
    ClosedAtHome { link: u64 },
    /// A program sees that a connection has ended.
    ClosedAtProgram { link: u64 },
    /// Something goes wrong.
    Fault,
}

/// A program's message to a home.
#[derive(Clone, Debug)]
pub(crate) struct QueueMessage {
    seq: u64,
    slot: Slot,
    grant: Grant,
    what: QueueAsk,
}

/// A program's question.
#[derive(Clone, Debug)]
pub(crate) enum QueueAsk {
    /// The array's first line is written.
    Make,
    Get {
        offset: u64,
        len: u64,
    },
    Port(QueueRequest),
    Append {
        lane: u32,
        operand: Vec<u8>,
    },
    /// A part of the stores of a flush.
    Store(StorePart),
}

#[derive(Clone, Debug)]
pub(crate) enum QueueReply {
    Done,
    Bytes(Vec<u8>),
    Lane { lane: u32, accepted: u64 },
    Appended(Appended),
}

/// Commands of a link.
#[derive(Debug)]
struct QueueCommands {
    served: CommandLink,
    /// Messages that its commands have not taken, and those without an answer.
    waiting: VecDeque<QueueMessage>,
    under_way: VecDeque<QueueMessage>,
}

impl QueueCommands {
    fn new() -> QueueCommands {
        QueueCommands { served: CommandLink::new(), waiting: VecDeque::new(), under_way: VecDeque::new() }
    }
}

/// All queues and their programs.
#[derive(Debug)]
pub(super) struct QueuePrograms {
    dice: Dice,
    overflows: [Overflow; QUEUE_COUNT],
    programs: BTreeMap<usize, QueueProgram>,
    programs_ever: u32,
    links: Links<QueueLink>,
    /// Commands of each link, at its home.
    commands: BTreeMap<u64, QueueCommands>,
    judge: QueueJudge,
    images: [ImageLog; QUEUE_COUNT],
}

/// The queues of a run that has some.
pub(super) fn queues(plan: Plan, terms: Terms, defect: Option<Defect>) -> Option<QueuePrograms> {
    let is_played = defect.map_or(plan.seed % 5 == 3, Defect::is_of_queues) && terms == Terms::Budget;
    let mut dice = Dice::new(plan.seed ^ SALT);
    let overflows = std::array::from_fn(|_| dice.pick(&[Overflow::Wait, Overflow::Refuse]));
    let links = Links::numbered_after(FIRST_LINK);
    let (programs, programs_ever, commands, judge, images) = Default::default();
    is_played.then_some(QueuePrograms { dice, overflows, programs, programs_ever, links, commands, judge, images })
}

fn region_of(program: usize) -> usize {
    program / PROGRAM_COUNT
}

fn is_reader(program: usize) -> bool {
    program.is_multiple_of(PROGRAM_COUNT)
}

fn is_storer(program: usize) -> bool {
    program % PROGRAM_COUNT == PROGRAM_COUNT - 1
}

impl QueuePrograms {
    fn form(&self, region: usize) -> QueueForm {
        let unit = Unit::Blocks { len: BLOCK_LEN as u32 };
        QueueForm { unit, depth: DEPTH, ports: LANE_COUNT, overflow: self.overflows[region] }
    }

    /// First byte of a region's queue in the extent.
    fn queue_at(&self, region: usize) -> u64 {
        ARRAY_AT + self.form(region).queue_at(1, 0)
    }
}

impl Cluster {
    pub(super) fn begin_queues(&mut self) {
        if self.queues.is_none() {
            return;
        }
        for program in 0..QUEUE_COUNT * PROGRAM_COUNT {
            self.at(1_000, Event::Queue(QueueEvent::Begin { program }));
        }
        self.at(2_000, Event::Queue(QueueEvent::Fault));
    }

    /// The queues; only called in runs that have some.
    fn queues_mut(&mut self) -> &mut QueuePrograms {
        self.queues.as_mut().expect("a run with queues")
    }

    /// The host whose process an event needs, if it needs one.
    pub(super) fn host_of_queue(&self, event: &QueueEvent) -> Option<usize> {
        match event {
            QueueEvent::ToHome { link, .. } | QueueEvent::ClosedAtHome { link } => {
                self.queues.as_ref()?.links.get(*link).map(|link| link.home.0)
            }
            QueueEvent::Ended { at, .. } => Some(at.0),
            _ => None,
        }
    }

    pub(super) fn on_queue_event(&mut self, event: QueueEvent) -> Check {
        match event {
            QueueEvent::Begin { program } => self.begin_queue_program(program),
            QueueEvent::Turn { program, id } => self.on_queue_turn(program, id),
            QueueEvent::Late { program, id, seq } => self.on_queue_late(program, id, seq),
            QueueEvent::Ended { at, id } => {
                if let Some(process) = self.process(at) {
                    process.leases.end(id);
                }
                Ok(())
            }
            QueueEvent::ToHome { link, message } => self.on_queue_message(link, message),
            QueueEvent::ToProgram { link, seq, outcome } => self.on_queue_reply(link, seq, outcome),
            QueueEvent::ClosedAtHome { link } => self.on_queue_link_closed_at_home(link),
            QueueEvent::ClosedAtProgram { link } => self.on_queue_link_closed_at_program(link),
            QueueEvent::Fault => self.on_queue_fault(),
        }
    }

    /// Something goes wrong, and the next thing is planned.
    fn on_queue_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let queues = self.queues_mut();
        let after = queues.dice.between(100, 3_000);
        let (all, fault): (Vec<usize>, u64) = (queues.programs.keys().copied().collect(), queues.dice.below(6));
        self.at(after, Event::Queue(QueueEvent::Fault));
        match fault {
            0 => self.stall_queue_link(),
            1..4 => self.break_queue_link(),
            _ if !all.is_empty() => {
                let program = self.queues_mut().dice.pick(&all);
                self.count("programs of queues that died");
                self.kill_queue_program(program);
            }
            _ => {}
        }
        Ok(())
    }

    /// A process has died: programs of its host die with it, and connections to it end.
    pub(super) fn end_queues(&mut self, at: ProcessLife) {
        let Some(queues) = &self.queues else { return };
        let own: Vec<usize> = queues.programs.iter().filter(|(_, me)| me.at == at).map(|(program, _)| *program).collect();
        own.into_iter().for_each(|program| self.kill_queue_program(program));
        self.lose_queue_links(at);
    }

    /// At rest no program waits. All units that were answered were read, and all holders have the same ports.
    pub(super) fn judge_queues(&self) -> Check {
        let Some(queues) = &self.queues else { return Ok(()) };
        for (program, me) in &queues.programs {
            check(is_reader(*program) && me.is_done_reading(), || format!("program {program} waits for ever: {me:?}"))?;
        }
        let readers = (0..QUEUE_COUNT).map(|region| region * PROGRAM_COUNT);
        readers.into_iter().try_for_each(|reader| {
            check(queues.programs.contains_key(&reader), || format!("nobody reads as program {reader}"))
        })?;
        queues.judge.at_rest()?;
        let home = self.home().ok_or("the coordinator is not back")?;
        for record in Self::word_regions(&home.coordinator) {
            let copies = record.holders.first().map_or(&[][..], |known| &known.copies);
            let holders = record.layout.extents().next().into_iter().chain(copies);
            let holders = holders.filter_map(|holder| self.holder(holder.node, record.gid, holder.slot));
            let holders: Vec<&SimExtent> = holders.collect();
            let region = words::number_of(record);
            if let Some(images) = queues.images.get(region) {
                holders.iter().try_for_each(|extent| images.judge(region, extent))?;
            }
            let mut ports = holders.iter().map(|extent| extent.ports());
            let Some(first) = ports.next() else { continue };
            check(ports.all(|other| other == first), || format!("holders of '{}' have not the same ports", record.name))?;
        }
        Ok(())
    }
}
