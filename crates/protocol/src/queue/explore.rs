//! Every order of appends, repeats, reads and deaths at a small queue, by stateright. A block that counts is read once, in order.

use super::home::{Home, LaneState, NoSpill, PortId, Ring, Store};
use super::layout::{Overflow, QueueForm, Unit};
use crate::Result;
use stateright::{Checker, Model, Property};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A ring of so many units.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Short {
    units: VecDeque<u8>,
    most: usize,
}

impl Short {
    pub fn new(most: usize) -> Short {
        Short { units: VecDeque::new(), most }
    }

    pub fn units(&self) -> Vec<u8> {
        self.units.iter().copied().collect()
    }

    pub fn read(&mut self) -> Option<u8> {
        self.units.pop_front()
    }
}

impl Ring for Short {
    fn push(&mut self, unit: &[u8]) -> Result<bool> {
        let has_room = self.units.len() < self.most;
        self.units.extend(has_room.then_some(unit[0]));
        Ok(has_room)
    }
}

/// A store of a few units.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Kept(VecDeque<Vec<u8>>);

impl Kept {
    pub const MAX: usize = 4;
}

impl Store for Kept {
    fn push(&mut self, unit: &[u8], _uid: u32) -> Result<(), NoSpill> {
        if self.0.len() == Kept::MAX {
            return Err(NoSpill::PoolFull);
        }
        self.0.push_back(unit.to_vec());
        Ok(())
    }

    fn front(&mut self) -> Option<&[u8]> {
        self.0.front().map(Vec::as_slice)
    }

    fn pop(&mut self) {
        self.0.pop_front();
    }

    fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Writers by turns in one queue of one or two lanes.
struct Queue {
    overflow: Overflow,
    writers: u64,
    /// Blocks of each writer.
    blocks: u8,
    /// The rule that appends are numbered is switched off.
    forgets_numbers: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Writer {
    lane: u32,
    /// Blocks that were answered for.
    known: u64,
    has_died: bool,
    /// Its connection broke, which happens once.
    has_broken: bool,
    /// It has not resumed its lane since.
    is_apart: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    home: Home<Kept>,
    rings: Vec<Short>,
    writers: BTreeMap<u64, Writer>,
    /// Appends under way: writer, number. Any of them may be lost, late, or come twice.
    appends: BTreeSet<(u64, u64)>,
    /// Answers under way: writer, units that count.
    answers: BTreeSet<(u64, u64)>,
    /// What the reader has taken, by writer.
    read: BTreeMap<u64, Vec<u8>>,
    told: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Open(u64),
    Send(u64),
    Append(u64, u64),
    Answer(u64, u64),
    Kill(u64),
    Break(u64),
    Resume(u64),
    Read(u32),
    Tell(u32),
}

impl Queue {
    /// Blocks are told apart by their writer.
    fn block(writer: u64, number: u64) -> u8 {
        (writer * 16 + number + 1) as u8
    }
}

impl Model for Queue {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let ports = 2;
        let form = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 1, ports, overflow: self.overflow };
        let rings = (0..ports).map(|_| Short::new(1)).collect();
        let home = Home::new("a".to_owned(), form);
        let (writers, appends, answers, read) = Default::default();
        vec![State { home, rings, writers, appends, answers, read, told: 0 }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for writer in 0..self.writers {
            match state.writers.get(&writer) {
                None => actions.push(Action::Open(writer)),
                Some(known) if !known.has_died => {
                    actions.push(Action::Kill(writer));
                    actions.push(if known.is_apart { Action::Resume(writer) } else { Action::Break(writer) });
                    if known.known < u64::from(self.blocks) {
                        actions.push(Action::Send(writer));
                    }
                }
                Some(_) => {}
            }
        }
        actions.extend(state.appends.iter().map(|(writer, seq)| Action::Append(*writer, *seq)));
        actions.extend(state.answers.iter().map(|(writer, accepted)| Action::Answer(*writer, *accepted)));
        for lane in 0..state.rings.len() as u32 {
            actions.push(Action::Read(lane));
            actions.push(Action::Tell(lane));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Open(writer) => {
                let (lane, _) = state.home.open_lane(0, PortId(writer), 7).ok()?;
                state.writers.insert(writer, Writer { lane, known: 0, has_died: false, has_broken: false, is_apart: false });
            }
            Action::Send(writer) => {
                state.appends.insert((writer, state.writers[&writer].known));
            }
            Action::Append(writer, seq) => {
                let lane = state.writers[&writer].lane;
                let units: Vec<[u8; 1]> = (seq..u64::from(self.blocks)).take(2).map(|n| [Queue::block(writer, n)]).collect();
                let number = if self.forgets_numbers { state.home.accepted(0, lane) } else { seq };
                let (at, who) = ((0, lane), (PortId(writer), number));
                let ring = &mut state.rings[lane as usize];
                // Of one that has lost its lane to another, nothing counts.
                let appended = state.home.append(at, who, units.iter().map(|unit| &unit[..]), ring, Kept::default).ok()?;
                state.answers.insert((writer, appended.accepted));
            }
            Action::Answer(writer, accepted) => {
                state.answers.remove(&(writer, accepted));
                let writer = state.writers.get_mut(&writer)?;
                writer.known = writer.known.max(accepted);
            }
            Action::Kill(writer) => {
                let known = state.writers.get_mut(&writer)?;
                known.has_died = true;
                state.home.break_lane(0, known.lane, PortId(writer));
                // The sessions of a node see to it that nothing of the dead comes later.
                state.appends.retain(|(of, _)| *of != writer);
                state.answers.retain(|(of, _)| *of != writer);
            }
            Action::Break(writer) => {
                let known = state.writers.get_mut(&writer).filter(|known| !known.has_broken)?;
                (known.has_broken, known.is_apart) = (true, true);
                state.home.break_lane(0, known.lane, PortId(writer));
                state.appends.retain(|(of, _)| *of != writer);
                state.answers.retain(|(of, _)| *of != writer);
            }
            // It repeats what it has no answer for; one that was taken for dead meanwhile gives up.
            Action::Resume(writer) => {
                let known = state.writers.get_mut(&writer)?;
                known.is_apart = false;
                match state.home.resume_lane(0, known.lane, PortId(writer)) {
                    Ok(accepted) => assert!(accepted >= known.known, "its units count"),
                    Err(_) => known.has_died = true,
                }
            }
            Action::Read(lane) => {
                let block = state.rings[lane as usize].read()?;
                state.read.entry(u64::from(block - 1) / 16).or_default().push(block);
                state.home.refill(0, lane, &mut state.rings[lane as usize]).ok()?;
            }
            Action::Tell(lane) => {
                let is_empty = state.rings[lane as usize].units().is_empty();
                if !is_empty || !state.home.tell(0, lane) {
                    return None;
                }
                state.told += 1;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("each block once, in order", |_, state: &State| {
                state
                    .read
                    .iter()
                    .all(|(writer, blocks)| blocks.iter().enumerate().all(|(k, b)| *b == Queue::block(*writer, k as u64)))
            }),
            Property::always("what was answered for is read or waits", |_, state: &State| {
                state.writers.iter().all(|(writer, known)| {
                    let read = state.read.get(writer).map_or(0, Vec::len) as u64;
                    let waits = |unit: &&u8| u64::from(**unit - 1) / 16 == *writer;
                    let ring: u64 = state.rings.iter().map(|ring| ring.units.iter().filter(waits).count() as u64).sum();
                    read + ring + state.home.spilled(0, known.lane) >= known.known
                })
            }),
            Property::always("the living have their lanes", |_, state: &State| {
                let has_lane = |writer: &Writer| state.home.lane(0, writer.lane) == LaneState::Open;
                state.writers.values().all(|writer| writer.has_died || writer.is_apart || has_lane(writer))
            }),
            Property::sometimes("all is read", |model: &Queue, state: &State| {
                state.read.values().filter(|blocks| blocks.len() == usize::from(model.blocks)).count() as u64 == model.writers
            }),
            Property::sometimes("a death is told", |_, state: &State| state.told > 0),
        ]
    }
}

fn explore(overflow: Overflow, writers: u64, blocks: u8) {
    let model = Queue { overflow, writers, blocks, forgets_numbers: false };
    model.checker().threads(2).spawn_bfs().join().assert_properties();
}

#[test]
fn two_writers_in_every_order() {
    explore(Overflow::Refuse, 2, 3);
    explore(Overflow::Spill, 2, 3);
}

#[test]
fn three_writers_where_the_third_takes_a_dead_ones_lane() {
    explore(Overflow::Spill, 3, 2);
}

#[test]
fn without_numbers_a_repeated_append_counts_twice() {
    let model = Queue { overflow: Overflow::Spill, writers: 1, blocks: 3, forgets_numbers: true };
    assert!(model.checker().target_max_depth(9).spawn_bfs().join().discovery("each block once, in order").is_some());
}
