//! The home of a queue: its lanes' memory and [`hanare_protocol::queue::Home`], driven as a node drives it.

use super::Defect;
use super::block::Block;
use super::judge::Judge;
use crate::dice::Dice;
use crate::report::Counts;
use hanare_protocol::queue::home::{LaneState, ReaderState};
use hanare_protocol::queue::{Appended, Home, NoSpill, Overflow, PortId, QueueForm, Ring, Store, Unit};
use hanare_protocol::{Error, Result as Outcome};
use std::collections::{BTreeMap, VecDeque};

/// Lanes of a queue: fewer than its writers, so that some wait for a place.
const LANE_COUNT: u32 = 2;
/// Blocks of a lane, and those that the pool has room for beside.
const DEPTH: usize = 4;
const SPILL_COUNT: usize = 12;
/// The user of all programs.
const UID: u32 = 1;

/// What a program asks.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    OpenLane {
        writer: PortId,
    },
    ResumeLane {
        lane: u32,
        writer: PortId,
    },
    CloseLane {
        lane: u32,
        writer: PortId,
    },
    Append {
        lane: u32,
        writer: PortId,
        seq: u64,
        numbers: Vec<u64>,
    },
    OpenReader {
        reader: PortId,
    },
    CloseReader {
        reader: PortId,
    },
    /// Frees what it has seen, by lane, and asks for what is there.
    Next {
        reader: PortId,
        freed: BTreeMap<u32, u64>,
    },
    Tell {
        lane: u32,
        reader: PortId,
    },
}

impl Request {
    /// The number behind the last block of an append; 0 for what is none.
    pub fn end(&self) -> u64 {
        if let Request::Append { seq, numbers, .. } = self { seq + numbers.len() as u64 } else { 0 }
    }
}

/// What the home says.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Done,
    Lane {
        lane: u32,
        accepted: u64,
    },
    Appended {
        appended: Appended,
        is_reader_dead: bool,
    },
    /// Units by lane with the position of the first, and lanes whose writers are dead and have left nothing more.
    Units {
        lanes: BTreeMap<u32, (u64, Vec<Block>)>,
        dead: Vec<u32>,
    },
}

/// A lane's memory.
#[derive(Debug, Default)]
struct Memory {
    blocks: VecDeque<Block>,
    /// The number of the first of them, of all of the lane.
    head: u64,
}

impl Ring for Memory {
    fn push(&mut self, unit: &[u8]) -> Outcome<bool> {
        let has_room = self.blocks.len() < DEPTH;
        self.blocks.extend(has_room.then(|| Block::read(unit)));
        Ok(has_room)
    }
}

#[derive(Debug)]
struct Spill {
    units: VecDeque<Vec<u8>>,
    defect: Option<Defect>,
}

impl Store for Spill {
    fn push(&mut self, unit: &[u8], _uid: u32) -> Result<(), NoSpill> {
        if self.units.len() < SPILL_COUNT {
            self.units.push_back(unit.to_vec());
            return Ok(());
        }
        if self.defect == Some(Defect::DropWhenFull) {
            return Ok(());
        }
        Err(NoSpill::PoolFull)
    }

    fn front(&mut self) -> Option<&[u8]> {
        if self.defect == Some(Defect::SpillBackwards) {
            return self.units.back().map(Vec::as_slice);
        }
        self.units.front().map(Vec::as_slice)
    }

    fn pop(&mut self) {
        if self.defect == Some(Defect::SpillBackwards) {
            self.units.pop_back();
            return;
        }
        self.units.pop_front();
    }

    fn count(&self) -> u64 {
        self.units.len() as u64
    }
}

/// A node with a queue.
#[derive(Debug)]
pub(super) struct QueueNode {
    /// Its number among the homes.
    number: usize,
    home: Home<Spill>,
    lanes: Vec<Memory>,
    /// Ports by the connection that they came on: a writer's lane, or a reader.
    ports: BTreeMap<u64, Vec<(Option<u32>, PortId)>>,
    /// It answers nobody until then.
    pub still_until_ms: u64,
    defect: Option<Defect>,
}

impl QueueNode {
    pub fn new(number: usize, dice: &mut Dice, defect: Option<Defect>) -> QueueNode {
        let overflow = dice.pick(&[Overflow::Refuse, Overflow::Wait, Overflow::Spill]);
        let form = QueueForm { unit: Unit::Blocks { len: 16 }, depth: DEPTH as u32, ports: LANE_COUNT, overflow };
        let lanes = (0..LANE_COUNT).map(|_| Memory::default()).collect();
        QueueNode { number, home: Home::new("a".to_owned(), form), lanes, ports: BTreeMap::new(), still_until_ms: 0, defect }
    }

    /// Blocks that nobody has read.
    pub fn waiting(&self) -> u64 {
        let spilled = (0..LANE_COUNT).map(|lane| self.home.spilled(0, lane)).sum::<u64>();
        spilled + self.lanes.iter().map(|lane| lane.blocks.len() as u64).sum::<u64>()
    }

    /// A connection is gone, and its ports.
    pub fn forget(&mut self, link: u64) {
        for (lane, port) in self.ports.remove(&link).into_iter().flatten() {
            match lane {
                Some(lane) => drop(self.home.break_lane(0, lane, port)),
                None => drop(self.home.break_reader(0, port)),
            }
        }
    }

    /// **Errors**: a check that does not hold.
    pub fn on_request(
        &mut self,
        link: u64,
        request: Request,
        judge: &mut Judge,
        counts: &mut Counts,
    ) -> Result<Outcome<Answer>, String> {
        let number = self.number;
        let mut count = |what: &'static str, more: u64| *counts.entry(what).or_default() += more;
        Ok(match request {
            Request::OpenLane { writer } => self.home.open_lane(0, writer, UID).map(|(lane, accepted)| {
                self.note(link, Some(lane), writer);
                count("lanes opened", 1);
                Answer::Lane { lane, accepted }
            }),
            Request::ResumeLane { lane, writer } => self.home.resume_lane(0, lane, writer).map(|accepted| {
                self.note(link, Some(lane), writer);
                count("lanes resumed", 1);
                Answer::Lane { lane, accepted }
            }),
            Request::CloseLane { lane, writer } => {
                self.home.close_lane(0, lane, writer);
                self.drop(link, writer);
                Ok(Answer::Done)
            }
            Request::Append { lane, writer, seq, numbers } => self.append(lane, writer, seq, &numbers).inspect(|answer| {
                if let Answer::Appended { appended, .. } = answer {
                    judge.on_appended(number, writer, appended.accepted);
                    count("units spilled", appended.spilled);
                    count("spills refused", appended.refused.is_some().into());
                }
            }),
            Request::OpenReader { reader } => self.home.open_reader(0, 1, reader).map(|()| {
                self.note(link, None, reader);
                Answer::Done
            }),
            Request::CloseReader { reader } => {
                self.home.close_reader(0, reader);
                self.drop(link, reader);
                Ok(Answer::Done)
            }
            Request::Next { reader, freed } => match self.check_reader(reader) {
                Ok(()) => Ok(self.next(&freed, judge)?),
                Err(error) => Err(error),
            },
            Request::Tell { lane, reader } => match self.check_reader(reader) {
                Ok(()) => {
                    if self.lanes[lane as usize].blocks.is_empty() && self.home.tell(0, lane) {
                        count("deaths told", 1);
                    }
                    Ok(Answer::Done)
                }
                Err(error) => Err(error),
            },
        })
    }

    fn note(&mut self, link: u64, lane: Option<u32>, port: PortId) {
        self.ports.entry(link).or_default().push((lane, port));
    }

    fn drop(&mut self, link: u64, port: PortId) {
        self.ports.entry(link).or_default().retain(|(_, known)| *known != port);
    }

    fn check_reader(&self, reader: PortId) -> Outcome<()> {
        let is_its = self.home.reads(0, reader);
        if is_its { Ok(()) } else { Err(Error::SecondReader { queue: "a".to_owned() }) }
    }

    fn append(&mut self, lane: u32, writer: PortId, seq: u64, numbers: &[u64]) -> Outcome<Answer> {
        let blocks: Vec<[u8; 16]> = numbers.iter().map(|number| Block { writer, number: *number }.bytes()).collect();
        let defect = self.defect;
        let seq = if defect == Some(Defect::ForgetNumbers) { self.home.open_lane(0, writer, UID)?.1 } else { seq };
        let store = || Spill { units: VecDeque::new(), defect };
        let units = blocks.iter().map(|block| &block[..]);
        let appended = self.home.append((0, lane), (writer, seq), units, &mut self.lanes[lane as usize], store)?;
        let is_reader_dead = self.home.reader(0) == ReaderState::Broken;
        Ok(Answer::Appended { appended, is_reader_dead })
    }

    fn next(&mut self, freed: &BTreeMap<u32, u64>, judge: &mut Judge) -> Result<Answer, String> {
        for (lane, position) in freed {
            self.free(*lane, *position, judge)?;
        }
        let mut lanes = BTreeMap::new();
        for lane in 0..LANE_COUNT {
            let memory = &self.lanes[lane as usize];
            if !memory.blocks.is_empty() {
                lanes.insert(lane, (memory.head, memory.blocks.iter().copied().collect::<Vec<_>>()));
            }
            if self.defect == Some(Defect::FreeUnread) {
                let end = memory.head + memory.blocks.len() as u64;
                self.free(lane, end, judge)?;
            }
        }
        let is_dead = |lane: &u32| {
            let is_read = self.lanes[*lane as usize].blocks.is_empty() && self.home.spilled(0, *lane) == 0;
            is_read && self.home.lane(0, *lane) == LaneState::Broken
        };
        let dead = (0..LANE_COUNT).filter(is_dead).collect();
        Ok(Answer::Units { lanes, dead })
    }

    /// A repeated message frees once: positions only go on.
    fn free(&mut self, lane: u32, position: u64, judge: &mut Judge) -> Result<(), String> {
        let memory = &mut self.lanes[lane as usize];
        while memory.head < position {
            let block = memory.blocks.pop_front().ok_or("a reader frees what is not there")?;
            memory.head += 1;
            judge.on_freed(block)?;
        }
        let refilled = self.home.refill(0, lane, memory);
        refilled.map(drop).map_err(|error| error.to_string())
    }
}
