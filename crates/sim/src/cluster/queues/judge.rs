//! A naive account of each lane and each writer, of what programs sent and heard.

use crate::check::{Check, check};
use hanare_protocol::queue::PortId;
use std::collections::BTreeMap;

/// A lane of a region's queue.
type LaneOf = (usize, u32);
/// A unit: its writer, and its number from 1 below the times that its writer had begun again.
type Unit = (PortId, u64);

/// Time for which a request may give a lane away whose answer nobody has heard.
const OPENS_MS: u64 = 30_000;

/// The judge of queues.
#[derive(Debug, Default)]
pub(super) struct QueueJudge {
    lanes: BTreeMap<LaneOf, LaneLog>,
    writers: BTreeMap<PortId, WriterLog>,
    /// Writers that asked for a lane of a region, and have no answer; and when they asked.
    openers: BTreeMap<PortId, (usize, u64)>,
}

/// A lane, as readers saw it.
#[derive(Debug, Default)]
struct LaneLog {
    /// Units by their position.
    units: Vec<Unit>,
    /// Units that readers asked to free, and those that a home said are freed.
    asked: u64,
    freed: u64,
    /// The writer that was given the lane last, as far as it heard.
    owner: Option<PortId>,
    /// When its reader told last that a writer's death was seen.
    told_ms: Option<u64>,
}

/// A writer.
#[derive(Debug, Default)]
struct WriterLog {
    /// Units that it sent, that it was told count, and that readers saw.
    sent: u64,
    told: u64,
    seen: u64,
    /// Units that counted when it began again, each time.
    restarts: Vec<u64>,
}

impl WriterLog {
    /// True if a unit of that number, sent in that generation, was not given up.
    fn is_good(&self, number: u64, generation: usize) -> bool {
        let is_later = generation == 0 || self.restarts.get(generation - 1).is_some_and(|counted| number > *counted);
        is_later && self.restarts.iter().skip(generation).all(|counted| number <= *counted)
    }
}

impl QueueJudge {
    /// A writer sends units up to that number.
    pub fn on_sent(&mut self, writer: PortId, sent: u64) {
        let log = self.writers.entry(writer).or_default();
        log.sent = log.sent.max(sent);
    }

    /// A writer is told how many of its units count. An answer to a first try may be older than others.
    pub fn on_told(&mut self, writer: PortId, accepted: u64, may_be_old: bool) -> Check {
        let log = self.writers.entry(writer).or_default();
        let is_sound = accepted <= log.sent && (may_be_old || log.told <= accepted);
        check(is_sound, || format!("{accepted} units of {writer:?} count: {log:?}"))?;
        log.told = log.told.max(accepted);
        Ok(())
    }

    /// A writer has given up all units that do not count, and begins again.
    pub fn on_restart(&mut self, writer: PortId, counted: u64) {
        self.writers.entry(writer).or_default().restarts.push(counted);
    }

    /// A writer asks for a lane.
    pub fn on_opening(&mut self, region: usize, writer: PortId, now_ms: u64) {
        self.openers.insert(writer, (region, now_ms));
    }

    /// A writer is given a lane.
    pub fn on_lane(&mut self, lane: LaneOf, writer: PortId) {
        self.openers.remove(&writer);
        self.lanes.entry(lane).or_default().owner = Some(writer);
    }

    /// A writer is given no lane.
    pub fn on_no_lane(&mut self, writer: PortId) {
        self.openers.remove(&writer);
    }

    /// A reader says that it saw a writer's death.
    pub fn on_tell(&mut self, lane: LaneOf, now_ms: u64) {
        self.lanes.entry(lane).or_default().told_ms = Some(now_ms);
    }

    /// A writer that lives has lost its lane: to another, or because its death was told.
    pub fn on_lane_lost(&self, lane: LaneOf, writer: PortId, now_ms: u64) -> Check {
        let log = self.lanes.get(&lane);
        let is_told = log.and_then(|log| log.told_ms).is_some_and(|told| now_ms < told + OPENS_MS);
        let is_anothers = log.is_some_and(|log| log.owner != Some(writer));
        let is_of_late = |(region, asked_ms): &(usize, u64)| *region == lane.0 && now_ms < asked_ms + OPENS_MS;
        let is_asked_for = self.openers.values().any(is_of_late);
        check(is_told || is_anothers || is_asked_for, || {
            format!("{writer:?} has lost lane {lane:?}, and nobody has got it: {log:?}")
        })
    }

    /// A reader sees a unit at a position.
    pub fn on_seen(&mut self, lane: LaneOf, index: u64, unit: Unit) -> Check {
        let log = self.lanes.entry(lane).or_default();
        let count = log.units.len() as u64;
        if index < count {
            let before = log.units[index as usize];
            return check(before == unit, || format!("unit {index} of lane {lane:?} is {unit:?}, and was {before:?}"));
        }
        check(index == count, || format!("units {count} to {index} of lane {lane:?} were lost before {unit:?}"))?;
        log.units.push(unit);
        let (writer, number, generation) = (unit.0, unit.1 & u64::from(u32::MAX), (unit.1 >> 32) as usize);
        let log = self.writers.get_mut(&writer).ok_or_else(|| format!("lane {lane:?} has {unit:?}, which nobody sent"))?;
        check(number == log.seen + 1, || format!("{number} of {writer:?} is read in lane {lane:?} after number {}", log.seen))?;
        log.seen = number;
        let is_good = number <= log.sent && log.is_good(number, generation);
        check(is_good, || format!("{number} of {writer:?} is read in lane {lane:?}, and was not sent, or given up: {log:?}"))
    }

    /// A reader frees units up to a position.
    pub fn on_free_asked(&mut self, lane: LaneOf, head: u64) -> Check {
        let log = self.lanes.entry(lane).or_default();
        log.asked = log.asked.max(head);
        check(head <= log.units.len() as u64, || format!("{head} units of lane {lane:?} are freed, and were not read"))
    }

    /// A home has freed units up to a position.
    pub fn on_freed(&mut self, lane: LaneOf, head: u64) {
        let log = self.lanes.entry(lane).or_default();
        log.freed = log.freed.max(head);
    }

    /// A reader that comes is told where the reader before has stopped.
    pub fn on_head(&self, lane: LaneOf, head: u64) -> Check {
        let (freed, asked) = self.lanes.get(&lane).map_or((0, 0), |log| (log.freed, log.asked));
        check((freed..=asked).contains(&head), || {
            format!("a reader of lane {lane:?} begins at unit {head}; {freed} were freed, and {asked} were to be")
        })
    }

    /// A writer comes.
    pub fn on_begun(&mut self, writer: PortId) {
        self.writers.insert(writer, WriterLog::default());
    }

    /// All is quiet: each unit that was said to count was read.
    pub fn at_rest(&self) -> Check {
        let lost = self.writers.iter().find(|(_, log)| log.seen < log.told);
        check(lost.is_none(), || format!("units that count were never read: {lost:?}"))
    }
}
