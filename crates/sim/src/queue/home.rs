//! The node of a queue: its lanes' memory, and the home that nodes run.

use super::Defect;
use super::block::Block;
use super::judge::Judge;
use crate::dice::Dice;
use crate::report::Counts;
use crate::served::{ServedHome, request};
use hanare_home::{Bytes, Input, LockTerms, Memory, Need, Output, QueueArray, Recall, Waiter};
use hanare_protocol::id::{Gid, Grant, Rights, Slot};
use hanare_protocol::page::Face;
use hanare_protocol::queue::home::{LaneState, ReaderState};
use hanare_protocol::queue::{Appended, Home as Rules, NoSpill, Overflow, PortId, QueueForm, Ring, Store, Unit};
use hanare_protocol::wire::queue::{ArrayAt, QueueRequest};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result as Outcome};
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

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
struct Lane {
    blocks: VecDeque<Block>,
    /// The number of the first of them, of all of the lane.
    head: u64,
}

impl Ring for Lane {
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

/// An array of one queue.
#[derive(Debug)]
struct Array {
    rules: Rules<Spill>,
    lanes: Vec<Lane>,
    /// Blocks that were freed, for the judge.
    freed: Vec<Block>,
}

impl Array {
    fn check_reader(&self, reader: PortId) -> Outcome<()> {
        if self.rules.reads(0, reader) { Ok(()) } else { Err(Error::SecondReader { queue: "a".to_owned() }) }
    }

    /// A repeated message frees once: positions only go on.
    fn free_to(&mut self, lane: u32, position: u64) -> Outcome<()> {
        let memory = &mut self.lanes[lane as usize];
        while memory.head < position {
            let garbage = || Error::Garbage { peer: "a reader".to_owned(), reason: "it frees what is not there".to_owned() };
            self.freed.push(memory.blocks.pop_front().ok_or_else(garbage)?);
            memory.head += 1;
        }
        self.rules.refill(0, lane, memory).map(drop)
    }
}

impl QueueArray for Array {
    fn open_lane(&mut self, queue: u64, writer: PortId, uid: u32) -> Outcome<(u32, u64)> {
        self.rules.open_lane(queue, writer, uid)
    }

    fn resume_lane(&mut self, queue: u64, lane: u32, writer: PortId) -> Outcome<u64> {
        self.rules.resume_lane(queue, lane, writer)
    }

    fn close_lane(&mut self, queue: u64, lane: u32, writer: PortId) {
        self.rules.close_lane(queue, lane, writer);
    }

    fn break_lane(&mut self, queue: u64, lane: u32, writer: PortId) {
        self.rules.break_lane(queue, lane, writer);
    }

    fn open_reader(&mut self, first: u64, count: u64, reader: PortId) -> Outcome<()> {
        self.rules.open_reader(first, count, reader)
    }

    fn close_reader(&mut self, first: u64, reader: PortId) {
        self.rules.close_reader(first, reader);
    }

    fn break_reader(&mut self, first: u64, reader: PortId) {
        self.rules.break_reader(first, reader);
    }

    fn leave(&mut self, _queue: u64, reader: PortId) -> Outcome<()> {
        self.check_reader(reader)
    }

    fn free(&mut self, (_, lane): (u64, u32), reader: PortId, head: u64) -> Outcome<()> {
        self.check_reader(reader)?;
        self.free_to(lane, head)
    }

    fn take_ready(&mut self, reader: PortId) -> Outcome<Vec<u64>> {
        self.check_reader(reader).map(|()| Vec::new())
    }

    fn tell(&mut self, (queue, lane): (u64, u32), reader: PortId) -> Outcome<()> {
        self.check_reader(reader)?;
        if self.lanes[lane as usize].blocks.is_empty() {
            self.rules.tell(queue, lane);
        }
        Ok(())
    }
}

/// The one extent of a node, in which the array lies.
#[derive(Clone, Debug)]
struct QueueExtent(Rc<RefCell<Array>>);

const GID: Gid = Gid(1);
const SLOT: Slot = Slot(0);

impl Memory for QueueExtent {
    type Extent = QueueExtent;

    fn open(&self, _slot: Slot, _grant: Grant, _need: Rights) -> Outcome<QueueExtent> {
        Ok(self.clone())
    }

    fn find(&self, _gid: Gid, _slot: Slot) -> Option<QueueExtent> {
        Some(self.clone())
    }

    fn has(&self, _gid: Gid, _slot: Slot) -> bool {
        true
    }

    fn is_coherent(&self, _gid: Gid) -> bool {
        false
    }

    fn recall(&mut self, _need: Need) -> Outcome<Recall> {
        unreachable!("no extent is reached by pages")
    }

    fn release(&mut self, _face: Face) {}
}

impl Bytes for QueueExtent {
    fn gid(&self) -> Gid {
        GID
    }

    fn slot(&self) -> Slot {
        SLOT
    }

    fn len_bytes(&self) -> u64 {
        0
    }

    fn is_by_pages(&self) -> bool {
        false
    }

    fn read(&self, _offset: u64, _into: &mut [u8]) -> Outcome<()> {
        unreachable!("it has no bytes")
    }

    fn write(&self, _offset: u64, _bytes: &[u8]) -> Outcome<()> {
        unreachable!("it has no bytes")
    }

    fn load_word(&self, _offset: u64, _len: u64) -> Outcome<u64> {
        unreachable!("it has no bytes")
    }

    fn begin_heap(&self) -> Outcome<()> {
        Ok(())
    }

    fn with_queues<T>(&self, _offset: u64, with: impl FnOnce(&mut dyn QueueArray) -> Outcome<T>) -> Outcome<T> {
        with(&mut *self.0.borrow_mut())
    }
}

/// A node with a queue.
#[derive(Debug)]
pub(super) struct QueueNode {
    /// Its number among the homes.
    number: usize,
    served: ServedHome,
    memory: QueueExtent,
    /// It answers nobody until then.
    pub still_until_ms: u64,
    defect: Option<Defect>,
}

impl QueueNode {
    pub fn new(number: usize, dice: &mut Dice, defect: Option<Defect>) -> QueueNode {
        let overflow = dice.pick(&[Overflow::Refuse, Overflow::Wait, Overflow::Spill]);
        let form = QueueForm { unit: Unit::Blocks { len: 16 }, depth: DEPTH as u32, ports: LANE_COUNT, overflow };
        let lanes = (0..LANE_COUNT).map(|_| Lane::default()).collect();
        let array = Array { rules: Rules::new("a".to_owned(), form), lanes, freed: Vec::new() };
        let memory = QueueExtent(Rc::new(RefCell::new(array)));
        QueueNode { number, served: ServedHome::new(1, LockTerms::default()), memory, still_until_ms: 0, defect }
    }

    fn array(&self) -> RefMut<'_, Array> {
        self.memory.0.borrow_mut()
    }

    /// Blocks that nobody has read.
    pub fn waiting(&self) -> u64 {
        let array = self.array();
        let spilled = (0..LANE_COUNT).map(|lane| array.rules.spilled(0, lane)).sum::<u64>();
        spilled + array.lanes.iter().map(|lane| lane.blocks.len() as u64).sum::<u64>()
    }

    /// A connection is gone, and its ports.
    pub fn forget(&mut self, link: u64) {
        if self.defect != Some(Defect::KeepPorts) {
            self.served.handle(0, Input::LinkGone { link }, &mut self.memory);
        }
    }

    /// The home does what a port asks.
    fn ask(&mut self, link: u64, asks: QueueRequest) -> Outcome<SyncAnswer> {
        let at = ArrayAt { slot: SLOT, grant: Grant::default(), offset: 0 };
        let input = request(Waiter { link, seq: 0 }, link, SyncRequest::Queue(at, asks));
        match self.served.handle(0, input, &mut self.memory).pop() {
            Some(Output::Answer(_, outcome)) => outcome,
            other => panic!("a port is answered {other:?}"),
        }
    }

    /// **Errors**: a check that does not hold.
    pub fn on_request(
        &mut self,
        link: u64,
        asks: Request,
        judge: &mut Judge,
        counts: &mut Counts,
    ) -> Result<Outcome<Answer>, String> {
        let number = self.number;
        let mut count = |what: &'static str, more: u64| *counts.entry(what).or_default() += more;
        let outcome = match asks {
            Request::Append { lane, writer, seq, numbers } => {
                return Ok(self.append(lane, writer, seq, &numbers).inspect(|answer| {
                    if let Answer::Appended { appended, .. } = answer {
                        judge.on_appended(number, writer, appended.accepted);
                        count("units spilled", appended.spilled);
                        count("spills refused", appended.refused.is_some().into());
                    }
                }));
            }
            Request::Next { reader, freed } => return self.next(link, reader, &freed, judge),
            Request::OpenLane { writer } => {
                count("lanes opened", 1);
                self.ask(link, QueueRequest::OpenLane { queue: 0, writer: writer.0 })
            }
            Request::ResumeLane { lane, writer } => {
                let resumed = self.ask(link, QueueRequest::ResumeLane { queue: 0, lane, writer: writer.0 });
                count("lanes resumed", resumed.is_ok().into());
                resumed
            }
            Request::CloseLane { lane, writer } => self.ask(link, QueueRequest::CloseLane { queue: 0, lane, writer: writer.0 }),
            Request::OpenReader { reader } => self.ask(link, QueueRequest::OpenReader { first: 0, count: 1, reader: reader.0 }),
            Request::CloseReader { reader } => self.ask(link, QueueRequest::CloseReader { first: 0, reader: reader.0 }),
            Request::Tell { lane, reader } => {
                let before = self.array().rules.lane(0, lane);
                let told = self.ask(link, QueueRequest::Tell { queue: 0, lane, reader: reader.0 });
                count("deaths told", (before != self.array().rules.lane(0, lane)).into());
                told
            }
        };
        Ok(match outcome {
            Ok(SyncAnswer::Lane { lane, accepted }) => Ok(Answer::Lane { lane, accepted }),
            Ok(SyncAnswer::Done) => Ok(Answer::Done),
            Ok(other) => return Err(format!("a port is answered {other:?}")),
            Err(error) => Err(error),
        })
    }

    fn append(&mut self, lane: u32, writer: PortId, seq: u64, numbers: &[u64]) -> Outcome<Answer> {
        let blocks: Vec<[u8; 16]> = numbers.iter().map(|number| Block { writer, number: *number }.bytes()).collect();
        let defect = self.defect;
        let mut array = self.array();
        let Array { rules, lanes, .. } = &mut *array;
        let seq = if defect == Some(Defect::ForgetNumbers) { rules.open_lane(0, writer, UID)?.1 } else { seq };
        let store = || Spill { units: VecDeque::new(), defect };
        let units = blocks.iter().map(|block| &block[..]);
        let appended = rules.append((0, lane), (writer, seq), units, &mut lanes[lane as usize], store)?;
        let is_reader_dead = rules.reader(0) == ReaderState::Broken;
        Ok(Answer::Appended { appended, is_reader_dead })
    }

    /// A reader frees what it has seen, and gets what is there.
    fn next(
        &mut self,
        link: u64,
        reader: PortId,
        freed: &BTreeMap<u32, u64>,
        judge: &mut Judge,
    ) -> Result<Outcome<Answer>, String> {
        if let Err(error) = self.array().check_reader(reader) {
            return Ok(Err(error));
        }
        for (lane, head) in freed {
            let asks = QueueRequest::Free { queue: 0, lane: *lane, reader: reader.0, head: *head };
            self.ask(link, asks).map_err(|error| error.to_string())?;
        }
        let frees_unread = self.defect == Some(Defect::FreeUnread);
        let mut array = self.array();
        let mut lanes = BTreeMap::new();
        for lane in 0..LANE_COUNT {
            let memory = &array.lanes[lane as usize];
            let end = memory.head + memory.blocks.len() as u64;
            if !memory.blocks.is_empty() {
                lanes.insert(lane, (memory.head, memory.blocks.iter().copied().collect::<Vec<_>>()));
            }
            if frees_unread {
                array.free_to(lane, end).map_err(|error| error.to_string())?;
            }
        }
        array.freed.drain(..).try_for_each(|block| judge.on_freed(block))?;
        let is_dead = |lane: &u32| {
            let is_read = array.lanes[*lane as usize].blocks.is_empty() && array.rules.spilled(0, *lane) == 0;
            is_read && array.rules.lane(0, *lane) == LaneState::Broken
        };
        let dead = (0..LANE_COUNT).filter(is_dead).collect();
        Ok(Ok(Answer::Units { lanes, dead }))
    }
}
