//! The node of a queue: its lanes' memory, and the home that nodes run.

use super::Defect;
use super::block::{BLOCK_LEN, Block};
use super::judge::Judge;
use crate::report::Counts;
use crate::served::{ServedHome, request};
use hanare_home::{Bytes, Input, LockTerms, SpillingVector, SpillingVectors, SyncOutput, Waiter};
use hanare_protocol::Result as Outcome;
use hanare_protocol::id::{Gid, Grant, Slot};
use hanare_protocol::queue::home::{LaneState, ReaderState};
use hanare_protocol::queue::layout::{LANE_STATE_AT, READER_AT, SPILLED_AT, TAIL_AT};
use hanare_protocol::queue::{Appended, NoSpill, Overflow, PortId, QueueForm, Store, Unit};
use hanare_protocol::wire::queue::{AppendFront, ArrayAt, QueueRequest};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use std::collections::{BTreeMap, VecDeque};

/// Lanes of a queue: fewer than its writers, so that some wait for a place.
const LANE_COUNT: u32 = 2;
/// Blocks of a lane, and those that the pool has room for beside.
const DEPTH: u32 = 4;
const SPILL_COUNT: usize = 12;

/// A program's question.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Asks for a lane.
    OpenLane { writer: PortId },
    /// Asks for the lane that it had.
    ResumeLane { lane: u32, writer: PortId },
    /// Gives a lane back.
    CloseLane { lane: u32, writer: PortId },
    /// Appends units of these numbers.
    Append { lane: u32, writer: PortId, seq: u64, numbers: Vec<u64> },
    /// Asks for the place of a reader.
    OpenReader { reader: PortId },
    /// Gives that place back.
    CloseReader { reader: PortId },
    /// Frees what it has seen, by lane, and asks for what is there.
    Next { reader: PortId, freed: BTreeMap<u32, u64> },
    /// Tells that the death of a lane's writer was seen.
    Tell { lane: u32, reader: PortId },
}

impl Request {
    /// The number behind the last block of an append; 0 for what is none.
    pub fn end(&self) -> u64 {
        if let Request::Append { seq, numbers, .. } = self { seq + numbers.len() as u64 } else { 0 }
    }
}

/// The home's reply.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// All is done.
    Done,
    /// A lane, and the units of it that count.
    Lane { lane: u32, accepted: u64 },
    /// The units that count.
    Appended { appended: Appended, is_reader_dead: bool },
    /// Units by lane with the position of the first, and lanes whose writers are dead and have left nothing more.
    Units { lanes: BTreeMap<u32, (u64, Vec<Block>)>, dead: Vec<u32> },
}

/// Spilled units of a lane.
#[derive(Clone, Debug)]
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

/// A node with an array of one queue.
#[derive(Debug)]
pub(super) struct QueueNode {
    /// Its number among the homes.
    number: usize,
    served: ServedHome<SpillingVector<Spill>>,
    form: QueueForm,
    memory: SpillingVectors<Spill>,
    extent: SpillingVector<Spill>,
    /// End of the home's silence.
    pub still_until_ms: u64,
}

impl QueueNode {
    pub fn new(number: usize, defect: Option<Defect>) -> QueueNode {
        let (unit, overflow) = (Unit::Blocks { len: BLOCK_LEN as u32 }, Overflow::Spill);
        let form = QueueForm { unit, depth: DEPTH, ports: LANE_COUNT, overflow };
        let len = form.array_len(1).expect("a form that can be");
        let (memory, extent) = SpillingVectors::spilling(Gid(1), len as usize, Spill { units: VecDeque::new(), defect });
        extent.write(0, &form.encode(1)).expect("a vector has its bytes");
        QueueNode { number, served: ServedHome::new(1, LockTerms::default()), form, memory, extent, still_until_ms: 0 }
    }

    /// A word of the queue.
    fn word(&self, at: u64) -> u64 {
        self.extent.load_word(self.form.queue_at(1, 0) + at, 8).expect("a vector has its bytes")
    }

    /// A word of a lane's line.
    fn lane_word(&self, lane: u32, at: u64) -> u64 {
        self.word(self.form.lane_at(lane) + at)
    }

    /// The numbers of a lane's first block, and of the one behind its last.
    fn bounds(&self, lane: u32) -> (u64, u64) {
        (self.word(self.form.head_at(lane)) / BLOCK_LEN, self.lane_word(lane, TAIL_AT) / BLOCK_LEN)
    }

    fn blocks(&self, lane: u32, (first, end): (u64, u64)) -> Vec<Block> {
        let at = |number: u64| self.form.bytes_at(lane) + number * BLOCK_LEN % self.form.lane_len();
        let words = |number: u64| [at(number), at(number) + 8].map(|at| self.word(at));
        (first..end).map(|number| Block::of(words(number))).collect()
    }

    /// Blocks that nobody has read.
    pub fn waiting(&self) -> u64 {
        let count = |(first, end)| end - first;
        (0..LANE_COUNT).map(|lane| count(self.bounds(lane)) + self.lane_word(lane, SPILLED_AT)).sum()
    }

    /// A connection is gone, and its ports.
    pub fn forget(&mut self, link: u64) {
        self.served.handle(0, Input::LinkGone { link }, &self.memory);
    }

    /// The home does what a port asks.
    fn ask(&mut self, link: u64, asks: QueueRequest) -> Outcome<SyncAnswer> {
        let at = ArrayAt { slot: Slot(0), grant: Grant::default(), offset: 0 };
        let input = request(Waiter { link, seq: 0 }, link, SyncRequest::Queue(at, asks));
        match self.served.handle(0, input, &self.memory).pop() {
            Some(SyncOutput::Answer(_, outcome)) => outcome,
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
                let before = self.lane_word(lane, LANE_STATE_AT);
                let told = self.ask(link, QueueRequest::Tell { queue: 0, lane, reader: reader.0 });
                count("deaths told", (before != self.lane_word(lane, LANE_STATE_AT)).into());
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

    fn append(&self, lane: u32, writer: PortId, seq: u64, numbers: &[u64]) -> Outcome<Answer> {
        let (appended, _) = self.extent.with_queues(0, |array| {
            let blocks = numbers.iter().flat_map(|number| Block { writer, number: *number }.bytes());
            let operand: Vec<u8> = AppendFront { queue: 0, writer, seq }.encode().into_iter().chain(blocks).collect();
            array.append(lane, &operand)
        })?;
        let is_reader_dead = self.word(READER_AT) == ReaderState::Broken as u64;
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
        if let Err(error) = self.ask(link, QueueRequest::Leave { queue: 0, reader: reader.0 }) {
            return Ok(Err(error));
        }
        for (lane, head) in freed {
            self.free(link, *lane, (reader, *head), judge)?;
        }
        let mut lanes = BTreeMap::new();
        for lane in 0..LANE_COUNT {
            let (first, end) = self.bounds(lane);
            if first < end {
                lanes.insert(lane, (first, self.blocks(lane, (first, end))));
            }
        }
        let is_dead = |lane: &u32| {
            let (first, end) = self.bounds(*lane);
            let is_read = first == end && self.lane_word(*lane, SPILLED_AT) == 0;
            is_read && self.lane_word(*lane, LANE_STATE_AT) == LaneState::Broken as u64
        };
        let dead = (0..LANE_COUNT).filter(is_dead).collect();
        Ok(Ok(Answer::Units { lanes, dead }))
    }

    /// A reader frees the blocks of a lane before number `end`.
    fn free(&mut self, link: u64, lane: u32, (reader, end): (PortId, u64), judge: &mut Judge) -> Result<(), String> {
        let freed = self.blocks(lane, (self.bounds(lane).0, end));
        let asks = QueueRequest::Free { queue: 0, lane, reader: reader.0, head: end * BLOCK_LEN };
        self.ask(link, asks).map_err(|error| error.to_string())?;
        freed.into_iter().try_for_each(|block| judge.on_freed(block))
    }
}
