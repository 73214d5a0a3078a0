//! The home of an array of queues. It decides who writes each lane and who reads, and which units of an append count. It decides what
//! happens after a writer or reader has left. For the node that holds the memory.
//!
//! ```text
//! lane:          Open            Break                    reader:            Take            Break
//!          Free ------> Open <=========> Broken                     Absent ------> Held ---------> Broken
//!           ^ <-------- Close   Resume,    |                          ^ <--------- Leave  <------- Take
//!           |                   Adopt      |
//!           +--------------- Tell ---------+
//! ```
//!
//! | event | what happens |
//! |---|---|
//! | `Open` | a writer gets the lane; units that another left there are read before its own |
//! | `Resume` | the same writer opens its lane again, over another connection |
//! | `Adopt` | another writer gets the lane of a dead one, because no other is free; the reader is not told then |
//! | `Tell` | the reader has read all that a dead writer left, and was told of the death |
//! | `Take` | a reader comes; after `Break` it is the successor of a dead one, and goes on at the lanes' heads |
//!
//! Appends are numbered in units, so that one that is repeated counts once. Units for which the lane has no room are refused or spilled.
//! While a lane has spilled units, all further ones of its writer are appended behind them.

use crate::id::ClientId;
use crate::limits::{QUEUE_CLAIM_COUNT_MAX, QUEUE_PORT_COUNT_MAX};
use crate::queue::layout::{Overflow, QueueForm};
use crate::table::{self, Row};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A writer or a reader, as its home knows it; drawn at random, so that nobody speaks for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortId(pub u64);

/// The states of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LaneState {
    /// No writer has it.
    Free = 0,
    /// A writer has it.
    Open = 1,
    /// Its writer's connection ended.
    Broken = 2,
}

/// An event of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneEvent {
    /// A writer comes.
    Open,
    /// The reader leaves in good order.
    Close,
    /// Its connection ends.
    Break,
    /// The same writer goes on.
    Resume,
    /// Another takes a dead one's place.
    Adopt,
    /// The reader was told of the death.
    Tell,
}

/// Every transition of a lane.
pub const LANES: &[Row<LaneState, LaneEvent>] = &[
    Row { event: LaneEvent::Open, from: &[LaneState::Free], to: LaneState::Open },
    Row { event: LaneEvent::Close, from: &[LaneState::Open], to: LaneState::Free },
    Row { event: LaneEvent::Break, from: &[LaneState::Open], to: LaneState::Broken },
    Row { event: LaneEvent::Resume, from: &[LaneState::Broken], to: LaneState::Open },
    Row { event: LaneEvent::Adopt, from: &[LaneState::Broken], to: LaneState::Open },
    Row { event: LaneEvent::Tell, from: &[LaneState::Broken], to: LaneState::Free },
];

/// The states of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReaderState {
    /// No reader.
    Absent = 0,
    /// Somebody does.
    Held = 1,
    /// The one who did has died.
    Broken = 2,
}

/// An event of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderEvent {
    /// A reader comes.
    Take,
    /// The reader leaves in good order.
    Leave,
    /// Its connection ends.
    Break,
}

/// Every transition of a reader.
pub const READERS: &[Row<ReaderState, ReaderEvent>] = &[
    Row { event: ReaderEvent::Take, from: &[ReaderState::Absent, ReaderState::Broken], to: ReaderState::Held },
    Row { event: ReaderEvent::Leave, from: &[ReaderState::Held], to: ReaderState::Absent },
    Row { event: ReaderEvent::Break, from: &[ReaderState::Held], to: ReaderState::Broken },
];

/// A lane's memory, as its home appends to it.
pub trait Ring {
    /// Appends a unit; false where there is no room. **Errors**: what lies in the memory makes no sense.
    fn push(&mut self, unit: &[u8]) -> Result<bool>;
}

/// Spilled units of one lane.
pub trait Store {
    /// Keeps a unit of that user behind the others.
    fn push(&mut self, unit: &[u8], uid: u32) -> Result<(), NoSpill>;
    /// The first unit.
    fn front(&mut self) -> Option<&[u8]>;
    /// Drops the first unit.
    fn pop(&mut self);
    /// The number of units.
    fn count(&self) -> u64;
}

/// Why a unit that was to be spilled was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSpill {
    /// The node has no memory for it.
    PoolFull,
    /// Its writer's user would have more than its quota.
    OverQuota {
        /// Bytes that the user has, in regions and spilled.
        used: u64,
        /// The quota in bytes.
        limit: u64,
    },
    /// The node asks the coordinator just now how much the user may have spilled here. The same append may succeed in a moment.
    NotYet,
}

/// Result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Units of this writer that count, of all its appends.
    pub accepted: u64,
    /// Units of the lane in the spill.
    pub spilled: u64,
    /// Reason that the first further unit was not spilled, if one was to be.
    pub refused: Option<NoSpill>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane<S> {
    pub(super) state: LaneState,
    pub(super) writer: PortId,
    /// The writer's user, whose memory its spilled units are.
    pub(super) uid: u32,
    /// Units of this writer that count, but for those of a link that it has.
    pub(super) accepted: u64,
    /// The generation of its link.
    pub(super) link: Option<u32>,
    pub(super) spill: Option<S>,
}

impl<S: Store> Lane<S> {
    fn go(&mut self, event: LaneEvent) {
        let next = table::next(LANES, self.state, event);
        self.state = next.unwrap_or_else(|| panic!("{event:?} in {:?}", self.state));
    }

    pub(super) fn spilled(&self) -> u64 {
        self.spill.as_ref().map_or(0, Store::count)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reading {
    /// Queues that it reads, from the one by whose number it is found.
    pub(super) count: u64,
    pub(super) port: PortId,
    pub(super) state: ReaderState,
}

/// State of an array at its home: nothing of queues without users and spilled units.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Home<S> {
    form: QueueForm,
    /// Name of the array in errors.
    name: String,
    pub(super) lanes: BTreeMap<(u64, u32), Lane<S>>,
    /// Links that lanes had so far.
    pub(super) links: u32,
    pub(super) readers: BTreeMap<u64, Reading>,
    /// Programs of ports, where the next home has to know them. Those of ports that left may be among them.
    pub(super) clients: BTreeMap<PortId, ClientId>,
}

impl<S: Store> Home<S> {
    /// An array without writers and readers.
    pub fn new(name: String, form: QueueForm) -> Home<S> {
        let (lanes, readers, clients) = Default::default();
        Home { form, name, lanes, links: 0, readers, clients }
    }

    /// The form of its queues.
    pub fn form(&self) -> QueueForm {
        self.form
    }

    /// True if there is nothing to remember.
    pub fn is_idle(&self) -> bool {
        self.lanes.is_empty() && self.readers.is_empty()
    }

    /// A writer of a user comes to a queue. Returns its lane, and how many of the units that it appended there count.
    ///
    /// **Errors**: [`Error::LimitReached`] where every lane has its writer.
    pub fn open_lane(&mut self, queue: u64, writer: PortId, uid: u32) -> Result<(u32, u64)> {
        let own = self.lanes.range_mut((queue, 0)..=(queue, u32::MAX));
        let own = own.filter(|(_, lane)| lane.writer == writer && lane.state != LaneState::Free);
        if let Some(((_, lane), entry)) = own.into_iter().next() {
            if entry.state == LaneState::Broken {
                entry.go(LaneEvent::Resume);
            }
            return Ok((*lane, entry.accepted));
        }
        if self.lanes.len() >= QUEUE_CLAIM_COUNT_MAX {
            let limit = QUEUE_CLAIM_COUNT_MAX as u64;
            return Err(Error::LimitReached { what: format!("writers of all queues of {}", self.name), limit });
        }
        let rank = |lane: u32| match self.lanes.get(&(queue, lane)) {
            None => Some(0),
            Some(lane) if lane.state == LaneState::Free => Some(1),
            Some(lane) if lane.state == LaneState::Broken => Some(2),
            Some(_) => None,
        };
        let best = (0..self.form.ports.min(QUEUE_PORT_COUNT_MAX)).filter_map(|lane| Some((rank(lane)?, lane))).min();
        let (_, lane) = best.ok_or_else(|| {
            let what = format!("writers at once of queue {queue} of {}", self.name);
            Error::LimitReached { what, limit: self.form.ports.into() }
        })?;
        let entry = self.lanes.entry((queue, lane));
        let entry = entry.or_insert_with(|| Lane { state: LaneState::Free, writer, uid, accepted: 0, link: None, spill: None });
        entry.go(if entry.state == LaneState::Broken { LaneEvent::Adopt } else { LaneEvent::Open });
        (entry.writer, entry.uid, entry.accepted, entry.link) = (writer, uid, 0, None);
        Ok((lane, 0))
    }

    /// A writer goes on in its lane over another connection; gives how many of its units count.
    ///
    /// **Errors**: [`Error::NotAWriter`] where it was taken for dead and its lane given up. Nobody knows then which units of an append
    /// without an answer count, so it is not repeated.
    pub fn resume_lane(&mut self, queue: u64, lane: u32, writer: PortId) -> Result<u64> {
        let found = self.lanes.get_mut(&(queue, lane)).filter(|lane| lane.writer == writer && lane.state != LaneState::Free);
        let entry = found.ok_or_else(|| Error::NotAWriter { queue: format!("{queue} of {}", self.name), lane })?;
        if entry.state == LaneState::Broken {
            entry.go(LaneEvent::Resume);
        }
        Ok(entry.accepted)
    }

    /// A reader comes to `count` queues from the first on.
    ///
    /// **Errors**: [`Error::SecondReader`] where another reads one of them; [`Error::Garbage`] for none.
    pub fn open_reader(&mut self, first: u64, count: u64, port: PortId) -> Result<()> {
        if count == 0 {
            // An empty range would overlap none, and take the place of the reader that begins there.
            return Err(Error::Garbage { peer: "a reader".to_owned(), reason: "it reads no queue".to_owned() });
        }
        let end = first.saturating_add(count);
        // Present readers do not overlap, so only one of the earlier ones may reach in.
        let before = self.readers.range(..first).next_back().filter(|(at, reading)| first < at.saturating_add(reading.count));
        let from = before.map_or(first, |(at, _)| *at);
        if let Some(reading) = self.readers.get_mut(&first).filter(|reading| reading.port == port) {
            // The same reader goes on over another connection.
            reading.state = ReaderState::Held;
            return Ok(());
        }
        if let Some((at, _)) = self.readers.range(from..end).find(|(_, reading)| reading.state == ReaderState::Held) {
            return Err(Error::SecondReader { queue: format!("{at} of {}", self.name) });
        }
        if self.readers.len() >= QUEUE_CLAIM_COUNT_MAX {
            let limit = QUEUE_CLAIM_COUNT_MAX as u64;
            return Err(Error::LimitReached { what: format!("readers of all queues of {}", self.name), limit });
        }
        // A successor has the queues of the dead; of those that it leaves, nobody is told any more.
        self.readers.extract_if(from..end, |_, _| true).for_each(drop);
        self.readers.insert(first, Reading { count, port, state: ReaderState::Held });
        Ok(())
    }

    /// A writer leaves in good order; what it wrote stays. False where it had gone before.
    pub fn close_lane(&mut self, queue: u64, lane: u32, writer: PortId) -> bool {
        let found = self.lanes.get_mut(&(queue, lane)).filter(|lane| lane.writer == writer && lane.state != LaneState::Free);
        let Some(entry) = found else { return false };
        if entry.state == LaneState::Broken {
            entry.go(LaneEvent::Resume);
        }
        entry.go(LaneEvent::Close);
        self.forget_lane(queue, lane);
        true
    }

    /// A writer's connection ended. False where it had left before.
    pub fn break_lane(&mut self, queue: u64, lane: u32, writer: PortId) -> bool {
        let found = self.lanes.get_mut(&(queue, lane)).filter(|lane| lane.writer == writer && lane.state == LaneState::Open);
        found.map(|lane| lane.go(LaneEvent::Break)).is_some()
    }

    /// The reader was told that a lane's writer has died, and has read all that it left. False where that is not so.
    pub fn tell(&mut self, queue: u64, lane: u32) -> bool {
        let found = self.lanes.get_mut(&(queue, lane)).filter(|lane| lane.state == LaneState::Broken && lane.spilled() == 0);
        let Some(entry) = found else { return false };
        entry.go(LaneEvent::Tell);
        self.forget_lane(queue, lane);
        true
    }

    /// A free lane with nothing spilled is nothing to remember.
    fn forget_lane(&mut self, queue: u64, lane: u32) {
        let is_empty = |lane: &Lane<S>| lane.state == LaneState::Free && lane.spilled() == 0;
        if self.lanes.get(&(queue, lane)).is_some_and(is_empty) {
            self.lanes.remove(&(queue, lane));
        }
    }

    /// A reader leaves in good order. Gives how many queues it read.
    pub fn close_reader(&mut self, first: u64, port: PortId) -> Option<u64> {
        let reading = self.readers.get(&first).filter(|reading| reading.port == port)?;
        let count = reading.count;
        self.readers.remove(&first);
        Some(count)
    }

    /// A reader's connection ended. Gives how many queues it read.
    pub fn break_reader(&mut self, first: u64, port: PortId) -> Option<u64> {
        let reading = self.readers.get_mut(&first).filter(|reading| reading.port == port)?;
        reading.state = table::next(READERS, reading.state, ReaderEvent::Break)?;
        Some(reading.count)
    }

    /// The reader of a queue.
    pub fn reader(&self, queue: u64) -> ReaderState {
        let before = self.readers.range(..=queue).next_back();
        let covers = before.filter(|(at, reading)| queue.saturating_sub(**at) < reading.count);
        covers.map_or(ReaderState::Absent, |(_, reading)| reading.state)
    }

    /// True if that port reads the queue, over a connection that is there.
    pub fn reads(&self, queue: u64, port: PortId) -> bool {
        let before = self.readers.range(..=queue).next_back();
        let is_its = |reading: &Reading| reading.port == port && reading.state == ReaderState::Held;
        before.is_some_and(|(at, reading)| queue.saturating_sub(*at) < reading.count && is_its(reading))
    }

    /// The writer of a lane.
    pub fn lane(&self, queue: u64, lane: u32) -> LaneState {
        self.lanes.get(&(queue, lane)).map_or(LaneState::Free, |lane| lane.state)
    }

    /// The number of a lane's writer, 0 where nobody has the lane just now.
    pub fn writer(&self, queue: u64, lane: u32) -> u64 {
        let found = self.lanes.get(&(queue, lane)).filter(|lane| lane.state == LaneState::Open);
        found.map_or(0, |lane| lane.writer.0)
    }

    /// Units that count, of a lane's writer, but for those of its link.
    #[cfg(test)]
    pub(crate) fn accepted(&self, queue: u64, lane: u32) -> u64 {
        self.lanes.get(&(queue, lane)).map_or(0, |lane| lane.accepted)
    }

    /// Units of a lane in the spill.
    pub fn spilled(&self, queue: u64, lane: u32) -> u64 {
        self.lanes.get(&(queue, lane)).map_or(0, Lane::spilled)
    }

    /// All that is spilled, by queue and lane.
    pub fn spills(&self) -> impl Iterator<Item = ((u64, u32), &S)> {
        self.lanes.iter().filter_map(|(at, lane)| Some((*at, lane.spill.as_ref()?)))
    }

    /// A unit that a user's writer had spilled in the home's life before is spilled again. It is read before units of the lane's next
    /// writer.
    ///
    /// **Errors**: [`Error::NoQueue`] for a lane that is not there, or has a writer already; [`Error::PoolFull`].
    pub fn restore_spilled(
        &mut self,
        (queue, lane): (u64, u32),
        (unit, uid): (&[u8], u32),
        store: impl FnOnce() -> S,
    ) -> Result<()> {
        let is_free = lane < self.form.ports && self.lane(queue, lane) == LaneState::Free;
        if !is_free || self.form.overflow != Overflow::Spill {
            let reason = format!("nothing is spilled of lane {lane} of queue {queue}");
            return Err(Error::NoQueue { region: self.name.clone(), offset: 0, reason });
        }
        let entry = self.lanes.entry((queue, lane));
        let (state, writer) = (LaneState::Free, PortId(0));
        let entry = entry.or_insert_with(|| Lane { state, writer, uid, accepted: 0, link: None, spill: None });
        let kept = entry.spill.get_or_insert_with(store).push(unit, uid);
        kept.map_err(|_| Error::PoolFull { asked: unit.len() as u64, free: 0, withheld: 0 })
    }

    /// A writer appends units, the first of which is number `seq` of all that it appends. Those that were accepted before count once.
    /// The first that finds no room ends it; the writer sees from the number that counts which are left.
    ///
    /// **Errors**: [`Error::NotAWriter`] if the lane is another's, or its writer's connection has ended. Then the writer resumes its lane,
    /// and repeats the append. [`Error::Garbage`] for numbers beyond those that count. The ring's.
    pub fn append<'u>(
        &mut self,
        (queue, lane): (u64, u32),
        (writer, seq): (PortId, u64),
        units: impl Iterator<Item = &'u [u8]>,
        ring: &mut impl Ring,
        store: impl Fn() -> S,
    ) -> Result<Appended> {
        let overflow = self.form.overflow;
        let found = self.lanes.get_mut(&(queue, lane)).filter(|lane| lane.writer == writer && lane.state == LaneState::Open);
        let entry = found.ok_or_else(|| Error::NotAWriter { queue: format!("{queue} of {}", self.name), lane })?;
        let done_before = entry.accepted.checked_sub(seq).ok_or_else(|| Error::Garbage {
            peer: "a writer".to_owned(),
            reason: format!("an append from unit {seq} on, of which {} count", entry.accepted),
        })?;
        let mut refused = None;
        for unit in units.skip(usize::try_from(done_before).unwrap_or(usize::MAX)) {
            if entry.spilled() > 0 || !ring.push(unit)? {
                if overflow != Overflow::Spill {
                    break;
                }
                let spill = match &mut entry.spill {
                    Some(spill) => spill,
                    none => none.insert(store()),
                };
                refused = spill.push(unit, entry.uid).err();
                if refused.is_some() {
                    break;
                }
            }
            entry.accepted = entry.accepted.saturating_add(1);
        }
        Ok(Appended { accepted: entry.accepted, spilled: entry.spilled(), refused })
    }

    /// The reader has made room: spilled units come back, in order. Gives how many are left. **Source**: [VQ §5]: the interrupt when the
    /// read pointer arrives. **Errors**: the ring's.
    pub fn refill(&mut self, queue: u64, lane: u32, ring: &mut impl Ring) -> Result<u64> {
        let Some(entry) = self.lanes.get_mut(&(queue, lane)) else { return Ok(0) };
        let Some(spill) = &mut entry.spill else { return Ok(0) };
        while let Some(unit) = spill.front() {
            if !ring.push(unit)? {
                return Ok(spill.count());
            }
            spill.pop();
        }
        entry.spill = None;
        self.forget_lane(queue, lane);
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::explore::{Kept, Short};
    use crate::queue::layout::Unit;

    fn home(ports: u32, overflow: Overflow) -> Home<Kept> {
        Home::new("a".to_owned(), QueueForm { unit: Unit::Blocks { len: 16 }, depth: 2, ports, overflow })
    }

    #[test]
    fn the_tables() {
        assert_eq!(table::contradiction(LANES), None);
        assert_eq!(table::contradiction(READERS), None);
        assert_eq!(
            table::print(LANES) + &table::print(READERS),
            "\
Open           Free                               -> Open
Close          Open                               -> Free
Break          Open                               -> Broken
Resume         Broken                             -> Open
Adopt          Broken                             -> Open
Tell           Broken                             -> Free
Take           Absent, Broken                     -> Held
Leave          Held                               -> Absent
Break          Held                               -> Broken
"
        );
    }

    fn append(home: &mut Home<Kept>, port: u64, seq: u64, units: &[u8], ring: &mut Short) -> Result<Appended> {
        let units: Vec<[u8; 1]> = units.iter().map(|unit| [*unit]).collect();
        home.append((0, 0), (PortId(port), seq), units.iter().map(|unit| &unit[..]), ring, Kept::default)
    }

    #[test]
    fn who_reads_no_queue_takes_nobody_s_place() {
        let mut home = home(1, Overflow::Wait);
        home.open_reader(0, 1, PortId(1)).unwrap();
        assert!(matches!(home.open_reader(0, 0, PortId(2)), Err(Error::Garbage { .. })));
        assert!(home.reads(0, PortId(1)) && !home.reads(0, PortId(2)));
    }

    #[test]
    fn a_writer_that_was_taken_for_dead_is_no_writer_any_more() {
        let (mut home, mut ring) = (home(1, Overflow::Wait), Short::new(4));
        let (lane, _) = home.open_lane(0, PortId(1), 7).unwrap();
        append(&mut home, 1, 0, &[1, 2], &mut ring).unwrap();
        assert!(home.break_lane(0, lane, PortId(1)));
        assert_eq!(home.resume_lane(0, lane, PortId(1)).unwrap(), 2, "its units count, whether or not it was told");
        assert!(home.break_lane(0, lane, PortId(1)));
        while ring.read().is_some() {}
        assert!(home.tell(0, lane));
        assert!(matches!(home.resume_lane(0, lane, PortId(1)), Err(Error::NotAWriter { .. })));
    }

    #[test]
    fn a_repeated_append_counts_once_and_a_gap_is_refused() {
        let (mut home, mut ring) = (home(1, Overflow::Refuse), Short::new(4));
        home.open_lane(0, PortId(1), 7).unwrap();
        assert_eq!(append(&mut home, 1, 0, &[1, 2], &mut ring).unwrap().accepted, 2);
        assert_eq!(append(&mut home, 1, 0, &[1, 2, 3], &mut ring).unwrap().accepted, 3);
        assert_eq!(append(&mut home, 1, 1, &[2], &mut ring).unwrap().accepted, 3);
        assert_eq!(ring.units(), [1, 2, 3]);
        assert!(matches!(append(&mut home, 1, 4, &[5], &mut ring), Err(Error::Garbage { .. })));
        assert!(matches!(append(&mut home, 2, 3, &[4], &mut ring), Err(Error::NotAWriter { .. })));
        assert!(home.break_lane(0, 0, PortId(1)));
        assert!(matches!(append(&mut home, 1, 3, &[4], &mut ring), Err(Error::NotAWriter { .. })));
        assert_eq!(home.open_lane(0, PortId(1), 7), Ok((0, 3)), "it goes on where it was");
        assert_eq!(append(&mut home, 1, 2, &[3, 4], &mut ring).unwrap().accepted, 4);
    }

    #[test]
    fn what_finds_no_room_is_refused_or_spilled_and_comes_back_in_order() {
        let (mut refusing, mut ring) = (home(1, Overflow::Refuse), Short::new(2));
        refusing.open_lane(0, PortId(1), 7).unwrap();
        assert_eq!(append(&mut refusing, 1, 0, &[1, 2, 3], &mut ring).unwrap().accepted, 2);
        let (mut home, mut ring) = (home(1, Overflow::Spill), Short::new(2));
        home.open_lane(0, PortId(1), 7).unwrap();
        let appended = append(&mut home, 1, 0, &[1, 2, 3, 4], &mut ring).unwrap();
        assert_eq!(appended, Appended { accepted: 4, spilled: 2, refused: None });
        assert_eq!(ring.read(), Some(1));
        assert_eq!(append(&mut home, 1, 4, &[5], &mut ring).unwrap().spilled, 3, "behind the others, though there is room");
        let mut read = Vec::new();
        while let Some(unit) = ring.read() {
            read.push(unit);
            home.refill(0, 0, &mut ring).unwrap();
        }
        assert_eq!(read, [2, 3, 4, 5]);
        let appended = append(&mut home, 1, 5, &[6; Kept::MAX + 3], &mut ring).unwrap();
        assert_eq!((appended.accepted, appended.refused), (5 + 2 + Kept::MAX as u64, Some(NoSpill::PoolFull)));
    }

    #[test]
    fn lanes_go_to_the_next_when_their_writers_leave_or_die() {
        let mut home = home(2, Overflow::Refuse);
        assert_eq!((home.open_lane(0, PortId(1), 7), home.open_lane(0, PortId(2), 7)), (Ok((0, 0)), Ok((1, 0))));
        assert!(matches!(home.open_lane(0, PortId(3), 7), Err(Error::LimitReached { limit: 2, .. })));
        assert!(home.break_lane(0, 0, PortId(1)) && !home.break_lane(0, 0, PortId(2)));
        assert!(home.close_lane(0, 1, PortId(2)));
        assert_eq!(home.open_lane(0, PortId(3), 7), Ok((1, 0)), "a free one comes before a dead one's");
        assert_eq!(home.open_lane(0, PortId(4), 7), Ok((0, 0)));
        assert!(!home.tell(0, 0), "another has its place");
        assert!(home.break_lane(0, 0, PortId(4)) && home.tell(0, 0) && !home.tell(0, 0));
        assert!(home.close_lane(0, 1, PortId(3)) && home.is_idle());
    }

    #[test]
    fn there_is_one_reader_at_a_time() {
        let mut home = home(1, Overflow::Refuse);
        home.open_reader(10, 5, PortId(1)).unwrap();
        for (first, count) in [(10, 1), (14, 1), (0, 11), (0, 100)] {
            assert!(matches!(home.open_reader(first, count, PortId(2)), Err(Error::SecondReader { .. })), "{first} {count}");
        }
        home.open_reader(15, 1, PortId(2)).unwrap();
        assert_eq!([9, 10, 14, 15, 16].map(|queue| home.reader(queue) as u8), [0, 1, 1, 1, 0]);
        assert_eq!(home.break_reader(10, PortId(1)), Some(5));
        assert_eq!((home.reader(12), home.reads(12, PortId(1))), (ReaderState::Broken, false));
        home.open_reader(10, 5, PortId(1)).unwrap();
        assert!(home.reads(12, PortId(1)) && home.break_reader(10, PortId(1)).is_some());
        home.open_reader(12, 1, PortId(3)).unwrap();
        assert!(home.reads(12, PortId(3)) && !home.reads(10, PortId(1)));
        assert_eq!(home.close_reader(10, PortId(1)), None, "its queues went to others");
        assert_eq!((home.close_reader(12, PortId(3)), home.close_reader(15, PortId(2))), (Some(1), Some(1)));
        assert!(home.is_idle());
    }
}
