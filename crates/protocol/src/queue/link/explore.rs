//! Every order of units by a home and by links, of fences and of reads at one lane, by stateright. Each unit is read once, in order.

use super::{LinkWord, has_reached};
use crate::explored::{Explored, Judged, holds, is_needed, nothing_is_wrong};
use crate::queue::explore::{Kept, Short};
use crate::queue::home::{Home, PortId};
use crate::queue::layout::{Overflow, QueueForm, Unit};
use stateright::{Checker, Model, Property};
use std::collections::VecDeque;

const WRITER: PortId = PortId(7);
const READER: PortId = PortId(8);

const ALL: &str = "all is read";

/// A rule that is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    /// The reader waits for the lane's tail of the hand-over.
    Tail,
    /// Units of links go before those of the lane.
    RingFirst,
    /// A unit counts by a swap under the link's generation.
    Swap,
}

struct LinkedQueue {
    units: u64,
    fences: u8,
    off: Option<Off>,
}

/// A connection that the writer made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Connection {
    generation: u32,
    tail: u64,
    /// The number of the unit that the reader takes next.
    next: u64,
    wire: VecDeque<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    home: Home<Kept>,
    lane: Short,
    /// Units that the home has put into the lane, and those that were read from there.
    tail: u64,
    seen: u64,
    word: LinkWord,
    /// Units that the writer has sent, and that count as far as it knows.
    sent: u64,
    known: u64,
    is_linked: bool,
    /// At the reader's socket, and the one that it has.
    socket: VecDeque<Connection>,
    link: Option<Connection>,
    ring: VecDeque<u64>,
    read: u64,
    fences: u8,
    wrong: Option<&'static str>,
}

impl Judged for World {
    fn wrong(&self) -> Option<&'static str> {
        self.wrong
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Send,
    Dial,
    /// The writer leaves its link: it broke, or nobody reads it.
    Fence,
    PickUp,
    Commit,
    ReadRing,
    ReadLane,
}

impl World {
    /// The connection whose writing end is the writer's.
    fn written(&mut self) -> Option<&mut Connection> {
        let generation = self.word.generation;
        let at_socket = self.socket.back_mut().filter(|link| link.generation == generation);
        at_socket.or(self.link.as_mut().filter(|link| link.generation == generation))
    }

    fn append(&mut self, unit: u64) {
        let bytes = [unit as u8];
        let appended = self.home.append((0, 0), (WRITER, unit), [&bytes[..]].into_iter(), &mut self.lane, Kept::default);
        match appended {
            Ok(appended) => self.known = appended.accepted,
            Err(_) => self.wrong = Some("the home refuses the next unit"),
        }
        self.tail = self.tail.saturating_add(1);
    }

    fn take(&mut self, unit: u64) {
        if unit != self.read {
            self.wrong = Some("a unit is read twice, or out of order");
        }
        self.read = self.read.saturating_add(1);
    }
}

impl Model for LinkedQueue {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        let form = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 8, ports: 1, overflow: Overflow::Wait };
        let mut home = Home::new("a".to_owned(), form);
        home.open_lane(0, WRITER, 0).expect("the lane is free");
        home.open_reader(0, 1, READER).expect("nobody reads");
        vec![World {
            home,
            lane: Short::new(8),
            tail: 0,
            seen: 0,
            word: LinkWord::NONE,
            sent: 0,
            known: 0,
            is_linked: false,
            socket: VecDeque::new(),
            link: None,
            ring: VecDeque::new(),
            read: 0,
            fences: 0,
            wrong: None,
        }]
    }

    fn actions(&self, _: &World, actions: &mut Vec<Move>) {
        actions.extend([Move::Send, Move::Dial, Move::Fence, Move::PickUp, Move::Commit, Move::ReadRing, Move::ReadLane]);
    }

    fn next_state(&self, last: &World, step: Move) -> Option<World> {
        let mut world = last.clone();
        match step {
            Move::Send if world.sent < self.units => {
                let unit = world.sent;
                world.sent = world.sent.saturating_add(1);
                if world.is_linked {
                    world.written()?.wire.push_back(unit);
                } else {
                    world.append(unit);
                }
            }
            Move::Dial if !world.is_linked => {
                let (generation, next) = world.home.link_lane(0, 0, WRITER)?;
                world.word = LinkWord { generation, count: 0 };
                world.is_linked = true;
                world.socket.push_back(Connection { generation, tail: world.tail, next, wire: VecDeque::new() });
            }
            Move::Fence if world.is_linked && world.fences < self.fences => {
                world.fences = world.fences.saturating_add(1);
                world.is_linked = false;
                let word = std::mem::replace(&mut world.word, LinkWord::NONE);
                world.home.fence_lane(0, 0, word);
                world.known = world.home.resume_lane(0, 0, WRITER).ok()?;
                (world.known..world.sent).for_each(|unit| world.append(unit));
            }
            Move::PickUp => world.link = Some(world.socket.pop_front()?),
            Move::Commit => {
                let (seen, word) = (world.seen, world.word);
                let link = world.link.as_mut()?;
                if self.off != Some(Off::Tail) && !has_reached(seen, link.tail) {
                    return None;
                }
                let unit = *link.wire.front().filter(|unit| **unit == link.next)?;
                match word.commit(link.generation, 1) {
                    None if self.off != Some(Off::Swap) => world.link = None,
                    committed => {
                        link.wire.pop_front();
                        link.next = link.next.saturating_add(1);
                        world.ring.push_back(unit);
                        world.word = committed.unwrap_or(word);
                    }
                }
            }
            Move::ReadRing => {
                let unit = world.ring.pop_front()?;
                world.take(unit);
            }
            Move::ReadLane if world.ring.is_empty() || self.off == Some(Off::RingFirst) => {
                let unit = world.lane.read()?;
                world.seen = world.seen.saturating_add(1);
                world.take(unit.into());
            }
            _ => return None,
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = nothing_is_wrong();
        all.push(Property::sometimes(ALL, |model: &LinkedQueue, world: &World| world.read == model.units));
        all
    }
}

impl Explored for LinkedQueue {}

#[test]
fn units_by_a_home_and_by_links_are_read_once_and_in_order() {
    holds(LinkedQueue { units: 5, fences: 2, off: None }, "a lane with links", 1000);
    let few = LinkedQueue { units: 3, fences: 1, off: None };
    assert!(few.checker().spawn_bfs().join().discovery(ALL).is_some(), "all can be read");
}

#[test]
fn each_rule_is_needed() {
    for off in [Off::Tail, Off::RingFirst, Off::Swap] {
        let without = LinkedQueue { units: 3, fences: 1, off: Some(off) };
        is_needed(without, off, "a unit is read twice, or out of order");
    }
}
