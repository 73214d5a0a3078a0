//! Readers of queues: they look at lanes, fetch what was committed, and free what they have.

use super::{BLOCK_LEN, Cluster, LANE_COUNT, Outcome, QueueAsk, QueueReply, READS_MS, region_of};
use crate::check::{Check, check};
use crate::cluster::Defect;
use hanare_protocol::Error;
use hanare_protocol::queue::PortId;
use hanare_protocol::queue::home::LaneState;
use hanare_protocol::queue::layout::{HEADS_AT, LANE_STATE_AT, LINE_LEN, TAIL_AT, WORD_LEN};
use hanare_protocol::wire::queue::QueueRequest;
use std::collections::VecDeque;

/// State of a reader.
#[derive(Debug, Default)]
pub(super) struct QueueReader {
    pub is_open: bool,
    /// Its lanes, once it has read their heads.
    lanes: Vec<ReadLane>,
    /// Bytes that it fetches: lane, position, number.
    fetches: VecDeque<(u32, u64, u64)>,
    /// Frees that a defect sends.
    early: VecDeque<(u32, u64)>,
    /// Lanes of dead writers, which were read.
    dead: Vec<u32>,
    /// The request for which it takes its place again.
    again: Option<QueueRequest>,
    is_leaving: bool,
    /// True after a look that has found nothing.
    is_idle: bool,
}

/// A lane as its reader knows it.
#[derive(Clone, Copy, Debug, Default)]
struct ReadLane {
    /// Units before that are freed; those up to `known` were read.
    head: u64,
    /// The head that the home knows.
    told: u64,
    known: u64,
}

fn word(bytes: &[u8], at: u64) -> u64 {
    bytes.get(at as usize..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
}

impl Cluster {
    /// A reader does its next thing.
    pub(super) fn go_on_reading(&mut self, program: usize) -> Check {
        let (region, is_over) = (region_of(program), self.now_ms > self.plan.rough_ms() + READS_MS);
        let queues = self.queues_mut();
        let (form, queue_at) = (queues.form(region), queues.queue_at(region));
        let Some((port, me)) = self.reader(program) else { return Ok(()) };
        let ask = |request| QueueAsk::Port(request);
        let next = if !me.is_open {
            ask(QueueRequest::OpenReader { first: 0, count: 1, reader: port.0 })
        } else if let Some(request) = me.again {
            ask(request)
        } else if me.lanes.is_empty() {
            QueueAsk::Get { offset: queue_at + HEADS_AT, len: u64::from(LANE_COUNT) * WORD_LEN }
        } else if let Some((lane, head)) = me.early.pop_front() {
            ask(QueueRequest::Free { queue: 0, lane, reader: port.0, head })
        } else if let Some((lane, from, len)) = me.fetches.front() {
            QueueAsk::Get { offset: queue_at + form.bytes_at(*lane) + from % form.lane_len(), len: *len }
        } else if let Some((lane, read)) = (0u32..).zip(&me.lanes).find(|(_, lane)| lane.head != lane.told) {
            let head = read.head;
            self.queues_mut().judge.on_free_asked((region, lane), head / BLOCK_LEN)?;
            ask(QueueRequest::Free { queue: 0, lane, reader: port.0, head })
        } else if let Some(lane) = me.dead.pop() {
            let now_ms = self.now_ms;
            self.queues_mut().judge.on_tell((region, lane), now_ms);
            ask(QueueRequest::Tell { queue: 0, lane, reader: port.0 })
        } else if me.is_leaving {
            ask(QueueRequest::CloseReader { first: 0, reader: port.0 })
        } else if is_over {
            return Ok(());
        } else if std::mem::take(&mut me.is_idle) {
            self.plan_queue_turn(program, &[10, 100, 500]);
            return Ok(());
        } else {
            QueueAsk::Get { offset: queue_at + form.lane_at(0), len: u64::from(LANE_COUNT) * LINE_LEN }
        };
        self.call_queue(program, next)
    }

    /// A reader's call is answered.
    pub(super) fn on_reader_called(&mut self, program: usize, ask: QueueAsk, outcome: Outcome<QueueReply>) -> Check {
        match (ask, outcome) {
            (QueueAsk::Get { .. }, Ok(QueueReply::Bytes(bytes))) => self.on_queue_read(program, &bytes)?,
            (QueueAsk::Port(request), Ok(QueueReply::Done)) => {
                if self.on_reader_asked(program, request)? {
                    return Ok(());
                }
            }
            (QueueAsk::Port(QueueRequest::OpenReader { .. }), Err(Error::SecondReader { .. })) => {
                // The reader before is not known to be gone. One that comes again may have lost its place.
                self.count("readers that are not the first");
                self.end_queue_program(program, false);
                return Ok(());
            }
            (QueueAsk::Port(request), Err(Error::SecondReader { .. })) => {
                self.count("readers that take their place again");
                if let Some((_, me)) = self.reader(program) {
                    (me.is_open, me.again) = (false, Some(request));
                }
            }
            (_, Err(Error::NoQueue { reason, .. })) => return Err(format!("a reader's queue makes no sense: {reason}")),
            (_, Err(_)) => {
                self.count("calls of readers that failed");
                self.plan_queue_turn(program, &[20, 100, 400]);
                return Ok(());
            }
            (ask, outcome) => return Err(format!("{ask:?} is answered {outcome:?}")),
        }
        self.go_on_with_queue(program)
    }

    /// A home has done what a reader asked. Returns true where the reader has left.
    fn on_reader_asked(&mut self, program: usize, request: QueueRequest) -> Result<bool, String> {
        let region = region_of(program);
        let Some((_, me)) = self.reader(program) else { return Ok(true) };
        match request {
            QueueRequest::OpenReader { .. } => me.is_open = true,
            QueueRequest::CloseReader { .. } => {
                self.end_queue_program(program, false);
                return Ok(true);
            }
            _ => me.again = None,
        }
        if let QueueRequest::Free { lane, head, .. } = request
            && let Some(read) = me.lanes.get_mut(lane as usize).filter(|read| read.head == head)
        {
            read.told = head;
            self.queues_mut().judge.on_freed((region, lane), head / BLOCK_LEN);
        }
        Ok(false)
    }

    /// A reader has bytes that it asked for: heads, units, or lines of lanes.
    fn on_queue_read(&mut self, program: usize, bytes: &[u8]) -> Check {
        let region = region_of(program);
        let Some((_, me)) = self.reader(program) else { return Ok(()) };
        if me.lanes.is_empty() {
            let heads = (0..u64::from(LANE_COUNT)).map(|lane| word(bytes, lane * WORD_LEN));
            me.lanes = heads.map(|head| ReadLane { head, told: head, known: head }).collect();
            let heads: Vec<u64> = me.lanes.iter().map(|lane| lane.head / BLOCK_LEN).collect();
            let judge = &self.queues_mut().judge;
            return (0u32..).zip(heads).try_for_each(|(lane, head)| judge.on_head((region, lane), head));
        }
        let Some((lane, from, len)) = me.fetches.pop_front() else { return self.on_lines(program, bytes) };
        me.lanes[lane as usize].known = from + len;
        let units = bytes.as_chunks::<{ BLOCK_LEN as usize }>().0;
        for (index, unit) in (from / BLOCK_LEN..).zip(units) {
            let unit = (PortId(word(unit, 0)), word(unit, WORD_LEN));
            self.queues_mut().judge.on_seen((region, lane), index, unit)?;
            self.count("units read");
        }
        Ok(())
    }

    /// A reader has looked at its lanes.
    fn on_lines(&mut self, program: usize, bytes: &[u8]) -> Check {
        let (region, is_rough, frees_early) = (region_of(program), self.is_rough, self.has(Defect::FreeFetched));
        let queues = self.queues_mut();
        let (lane_len, frees, leaves) = (queues.form(region).lane_len(), queues.dice.chance(7_000), queues.dice.chance(200));
        let Some((_, me)) = self.reader(program) else { return Ok(()) };
        me.is_leaving = leaves && is_rough;
        for (lane, read) in (0u32..).zip(&mut me.lanes) {
            let line = u64::from(lane) * LINE_LEN;
            let (tail, state) = (word(bytes, line + TAIL_AT), word(bytes, line + LANE_STATE_AT));
            let is_sound = read.known <= tail && tail - read.head <= lane_len;
            check(is_sound, || format!("the tail of lane {lane} of region {region} is {tail}: {read:?}"))?;
            // Units seen at the last look are freed now, or later.
            if frees || me.is_leaving || read.known - read.head == lane_len {
                read.head = read.known;
            }
            let (at, fresh) = (read.known % lane_len, tail - read.known);
            let first = fresh.min(lane_len - at);
            let parts = [(lane, read.known, first), (lane, read.known + first, fresh - first)];
            me.fetches.extend(parts.into_iter().filter(|(_, _, len)| *len > 0));
            if frees_early && fresh > 0 {
                me.early.push_back((lane, tail));
            }
            if fresh == 0 && read.head == tail && state == LaneState::Broken as u64 {
                me.dead.push(lane);
            }
        }
        me.is_idle = me.fetches.is_empty();
        Ok(())
    }
}
