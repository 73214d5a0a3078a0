//! Every order of messages, deaths and elections of one extent on three nodes, by stateright. Answered additions stay, each counts once,
//! and no read shows what is taken back.

use super::copy::COPIES;
use super::holders::{HOLDERS, HoldersState};
use super::home_states::{HOMES, PEERS};
use super::*;
use crate::explored::{Explored, Judged, holds, is_needed, nothing_is_wrong};
use crate::id::NodeId;
use crate::table;
use stateright::{Checker, Model, Property};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const NODES: usize = 3;

/// Words of the extent, each a range of its own; client `k` adds to word `k`.
const WORDS: usize = 2;

const WRONG: &str = "an addition that was seen is gone, or counts twice";
const ELECTED_TWICE: &str = "the second elected home is open";
const MOVED: &str = "a copy is home, and nobody died";
const STUCK: &str = "the home has stopped, and nobody follows it";
const MADE: &str = "a copy that was made anew is home";

/// A rule that is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    /// The home applies when all copies have the write.
    ApplyLast,
    /// The copy with the most writes is elected.
    Best,
    /// Copies are frozen before one is elected.
    Freeze,
    /// The elected home waits until others have what it has.
    Fill,
    /// A home whose lease is over answers nothing.
    Lease,
    /// A write that is sent again is found.
    Again,
    /// A silent copy counts until it is dropped.
    Silent,
    /// Ranges are sent in the order of the writes.
    Ranges,
    /// A home that lives stops before another is elected.
    Stop,
    /// A home that is overtaken by an election says so.
    Say,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    copies: usize,
    adds: u8,
    deaths: u8,
    /// Nodes that live, and are taken for lost.
    cuts: u8,
    makes: u8,
    /// Copies that live and are dropped.
    drops: u8,
    /// Times that a copy is to follow a home that lives.
    moves: u8,
    /// Coordinators that die; the next one knows what was recorded.
    reigns: u8,
    off: Option<Off>,
}

/// An addition of a client: its number and its word.
type Entry = (u8, u8);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Message {
    Write { term: Term, position: Position, stable: Position, entry: Entry },
    Ask { term: Term },
    Make { term: Term, at: Position },
    Range { term: Term, word: usize, value: u8 },
    Made { term: Term, known: Writers<u8, u8> },
    Has { term: Term, position: Position },
    Stale { term: Term },
    Set(HolderSet),
    Freeze { term: Term },
    Elect { set: HolderSet, has: BTreeMap<NodeId, Position> },
    IsFrozen { term: Term, position: Position },
    Drop { term: Term, node: NodeId },
    Admit { term: Term, node: NodeId },
    Release(HolderSet),
    Released { term: Term },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Host {
    is_dead: bool,
    /// The coordinator has taken it for lost; its lease is over.
    is_lost: bool,
    home: Option<HomeLog<Entry>>,
    copy: CopyLog<Entry>,
    bytes: [u8; WORDS],
    known: Writers<u8, u8>,
}

/// A client's addition that is not answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    number: u8,
    /// The least that its result may be.
    floor: u8,
    at: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    hosts: Vec<Host>,
    holders: Holders,
    recorded: HolderSet,
    /// Messages by sender and receiver; the coordinator is the last.
    wires: BTreeMap<(usize, usize), VecDeque<Message>>,
    waiting: BTreeMap<u8, Waiting>,
    sent: [u8; WORDS],
    /// The values seen of each word.
    seen: [u8; WORDS],
    deaths: u8,
    cuts: u8,
    makes: u8,
    drops: u8,
    moves: u8,
    reigns: u8,
    wrong: Option<&'static str>,
}

impl Judged for World {
    fn wrong(&self) -> Option<&'static str> {
        self.wrong
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Add { client: u8, at: usize },
    Read { word: usize, at: usize },
    Deliver { from: usize, to: usize },
    Die(usize),
    Lose(usize),
    Silent { home: usize, copy: usize },
    Late,
    Make { home: usize, copy: usize },
    Range { home: usize, copy: usize },
    Surplus(usize),
    Follow,
    Reign,
}

fn node(index: usize) -> NodeId {
    NodeId(index as u32)
}

fn index(node: NodeId) -> usize {
    node.0 as usize
}

impl World {
    fn send(&mut self, from: usize, to: usize, message: Message) {
        // A node that is lost is not connected with the coordinator.
        let is_cut = |at: usize| at < NODES && (self.hosts[at].is_dead || (self.hosts[at].is_lost && from.max(to) == NODES));
        if !is_cut(from) && !is_cut(to) {
            self.wires.entry((from, to)).or_default().push_back(message);
        }
    }

    /// Carries out what the home of a node wants.
    fn drive_home(&mut self, at: usize, off: Option<Off>) {
        while let Some(output) = self.hosts[at].home.as_mut().and_then(HomeLog::poll) {
            match output {
                HomeOutput::Write { to, term, position, stable, entry } => {
                    self.send(at, index(to), Message::Write { term, position, stable, entry });
                }
                HomeOutput::Ask { to, term } => self.send(at, index(to), Message::Ask { term }),
                HomeOutput::Make { to, term, at: position } => self.send(at, index(to), Message::Make { term, at: position }),
                HomeOutput::Range { to, term, range } => {
                    let word = range as usize;
                    let value = self.hosts[at].bytes[word];
                    let range = Message::Range { term, word, value };
                    match off {
                        // Bytes overtake no write: here they come behind those that follow.
                        Some(Off::Ranges) => self.wires.entry((at, NODES + 1)).or_default().push_back(range),
                        _ => self.send(at, index(to), range),
                    }
                }
                HomeOutput::Made { to, term } => {
                    let late = self.wires.remove(&(at, NODES + 1)).unwrap_or_default();
                    late.into_iter().for_each(|range| self.send(at, index(to), range));
                    let known = self.hosts[at].known.clone();
                    self.send(at, index(to), Message::Made { term, known });
                }
                HomeOutput::Apply { entry, .. } if off != Some(Off::ApplyLast) => self.apply(at, entry),
                HomeOutput::Drop { term, node } => self.send(at, NODES, Message::Drop { term, node }),
                HomeOutput::Admit { term, node, .. } => self.send(at, NODES, Message::Admit { term, node }),
                HomeOutput::Released { .. } if off == Some(Off::Say) && self.is_overtaken(at) => {}
                HomeOutput::Released { term } => self.send(at, NODES, Message::Released { term }),
                // Clients that wait ask again, here or at the next home.
                HomeOutput::Deposed => {
                    self.waiting.values_mut().filter(|waiting| waiting.at == at).for_each(|waiting| waiting.at = NODES)
                }
                HomeOutput::Apply { .. } | HomeOutput::Open | HomeOutput::Close => {}
            }
        }
    }

    fn drive_coordinator(&mut self, off: Option<Off>) {
        while let Some(output) = self.holders.poll() {
            match output {
                HolderOutput::Set { to, set } => self.send(NODES, index(to), Message::Set(set)),
                HolderOutput::Release(set) if off == Some(Off::Stop) => self.holders.on_released(set.home, set.term, false),
                HolderOutput::Release(set) => self.send(NODES, index(set.home), Message::Release(set)),
                HolderOutput::Freeze { to, term } if off == Some(Off::Freeze) => {
                    // All answer at once.
                    let position = self.hosts[index(to)].copy.last();
                    self.holders.on_frozen(to, term, position);
                }
                HolderOutput::Freeze { to, term } => self.send(NODES, index(to), Message::Freeze { term }),
                HolderOutput::Elect { to, set, has, .. } => self.send(NODES, index(to), Message::Elect { set, has }),
                HolderOutput::Record(set) => self.recorded = set,
                HolderOutput::Lost => {}
            }
        }
    }

    /// Another coordinator follows. All nodes that live connect with it, get leases, and ask again.
    fn begin_reign(&mut self, off: Option<Off>) {
        self.wires.retain(|(from, to), _| *from.max(to) != NODES);
        self.holders = Holders::new(self.recorded.clone());
        for at in 0..NODES {
            self.hosts[at].is_lost = self.hosts[at].is_dead;
            self.free(at);
            match self.hosts[at].is_lost {
                true => self.holders.on_lost(node(at)),
                false => self.holders.on_connected(node(at)),
            }
            self.hosts[at].home.iter_mut().for_each(HomeLog::ask_again);
            self.drive_home(at, off);
        }
        self.drive_coordinator(off);
    }

    /// The coordinator takes a node for lost; `None` where too many were that live.
    fn lose(&mut self, at: usize, extent: &Extent) -> Option<()> {
        if !self.hosts[at].is_dead {
            if self.cuts >= extent.cuts {
                return None;
            }
            self.cuts = self.cuts.saturating_add(1);
        }
        self.hosts[at].is_lost = true;
        self.wires.retain(|(from, to), _| (*from, *to) != (at, NODES) && (*from, *to) != (NODES, at));
        self.holders.on_lost(node(at));
        self.drive_coordinator(extent.off);
        Some(())
    }

    /// A node that is back hears that it is none of the holders, and frees the extent.
    fn free(&mut self, at: usize) {
        let set = self.holders.set();
        if set.home != node(at) && !set.copies.contains(&node(at)) {
            (self.hosts[at].home, self.hosts[at].copy) = (None, CopyLog::default());
        }
    }

    fn is_overtaken(&self, at: usize) -> bool {
        self.hosts[at].home.as_ref().is_some_and(HomeLog::is_overtaken)
    }

    /// True if the home has stopped for good, though nobody is to follow it.
    fn has_no_home(&self) -> bool {
        let set = self.holders.set();
        let host = &self.hosts[index(set.home)];
        let lives = !host.is_dead && !host.is_lost && self.holders.state() == HoldersState::Steady;
        lives && self.wires.is_empty() && host.home.as_ref().is_some_and(HomeLog::is_deposed)
    }

    /// An addition at a node, which answers the client where that waits for this node.
    fn apply(&mut self, at: usize, (client, number): Entry) {
        let host = &mut self.hosts[at];
        let word = usize::from(client);
        let result = host.bytes[word];
        host.bytes[word] = result.saturating_add(1);
        host.known.applied(client, u64::from(number), result);
        if host.home.is_some() {
            self.answer(at, client, number, result);
        }
    }

    fn answer(&mut self, at: usize, client: u8, number: u8, result: u8) {
        let word = usize::from(client);
        let Some(waiting) = self.waiting.get(&client).filter(|waiting| waiting.at == at && waiting.number == number) else {
            return;
        };
        // No other client adds to this word.
        if result < waiting.floor || result != number {
            self.wrong = Some(WRONG);
        }
        self.waiting.remove(&client);
        self.seen[word] = self.seen[word].max(result.saturating_add(1));
    }

    fn is_open(&self, at: usize, off: Option<Off>) -> bool {
        let host = &self.hosts[at];
        let is_open = |home: &HomeLog<Entry>| match off {
            Some(Off::Fill) => !home.is_deposed(),
            _ => home.is_open(),
        };
        !host.is_dead && (!host.is_lost || off == Some(Off::Lease)) && host.home.as_ref().is_some_and(is_open)
    }

    fn add(&mut self, client: u8, at: usize, off: Option<Off>) -> Option<()> {
        let word = usize::from(client);
        let (number, floor) = match self.waiting.get(&client) {
            // The client tries the next home when the one before is gone.
            Some(waiting) if waiting.at != at => (waiting.number, waiting.floor),
            Some(_) => return None,
            None => (self.sent[word], self.seen[word]),
        };
        if !self.waiting.contains_key(&client) {
            self.sent[word] = self.sent[word].saturating_add(1);
        }
        self.waiting.insert(client, Waiting { number, floor, at });
        let known = self.hosts[at].known.result(&client, u64::from(number)).copied();
        if let Some(result) = known.filter(|_| off != Some(Off::Again)) {
            self.answer(at, client, number, result);
            return Some(());
        }
        let home = self.hosts[at].home.as_mut()?;
        home.write((client, number))?;
        if off == Some(Off::ApplyLast) {
            self.apply(at, (client, number));
        }
        self.drive_home(at, off);
        Some(())
    }

    fn on_copy_outputs(&mut self, at: usize, from: usize, outputs: impl IntoIterator<Item = CopyOutput<Entry>>) {
        for output in outputs {
            match output {
                CopyOutput::Apply { entry, .. } => self.apply(at, entry),
                CopyOutput::Has { term, position } => self.send(at, from, Message::Has { term, position }),
                CopyOutput::Stale { term } => self.send(at, from, Message::Stale { term }),
                CopyOutput::IsFrozen { term, position } => self.send(at, NODES, Message::IsFrozen { term, position }),
            }
        }
    }

    fn on_node(&mut self, from: usize, at: usize, message: Message, off: Option<Off>) {
        let host = &mut self.hosts[at];
        match message {
            Message::Write { term, position, stable, entry } if host.home.is_none() => {
                let outputs = host.copy.write(term, (position, entry), stable);
                self.on_copy_outputs(at, from, outputs);
            }
            Message::Ask { term } if host.home.is_none() => {
                let output = host.copy.ask(term);
                self.on_copy_outputs(at, from, output);
            }
            // A former home begins anew.
            Message::Make { term, at: position } if host.home.as_ref().is_none_or(|home| home.term() < term) => {
                host.home = None;
                let output = host.copy.make(term, position);
                self.on_copy_outputs(at, from, output);
            }
            Message::Range { term, word, value } if host.copy.takes_range(term) => host.bytes[word] = value,
            Message::Made { term, known } if host.home.is_none() => {
                let output = host.copy.made(term);
                host.known = known;
                self.on_copy_outputs(at, from, [output]);
            }
            Message::Freeze { term } if host.home.is_none() => {
                let output = host.copy.freeze(term);
                self.on_copy_outputs(at, from, output);
            }
            Message::Elect { set, has } => {
                if off == Some(Off::Freeze) {
                    host.copy.freeze(set.term);
                }
                if let Some(home) = &mut host.home {
                    home.on_set(&set);
                } else if let Some(log) = host.copy.elect(set.term) {
                    host.home = Some(HomeLog::elected(node(at), &set, WORDS as u64, log, &has));
                }
            }
            Message::Has { term, position } => {
                let home = host.home.as_mut();
                home.into_iter().for_each(|home| home.on_has(node(from), term, position));
            }
            Message::Stale { term } => host.home.iter_mut().for_each(|home| home.on_stale(term)),
            Message::Release(set) => host.home.iter_mut().for_each(|home| {
                home.on_set(&set);
                home.release(set.term);
            }),
            Message::Set(set) => host.home.iter_mut().for_each(|home| home.on_set(&set)),
            _ => {}
        }
        self.drive_home(at, off);
    }

    /// The next message of a wire comes.
    fn deliver(&mut self, (from, to): (usize, usize), off: Option<Off>) -> Option<()> {
        let queue = self.wires.get_mut(&(from, to))?;
        let message = queue.pop_front()?;
        if queue.is_empty() {
            self.wires.remove(&(from, to));
        }
        match to {
            NODES => self.on_coordinator(from, message, off),
            _ if !self.hosts[to].is_dead => self.on_node(from, to, message, off),
            _ => {}
        }
        Some(())
    }

    /// A home finds a copy silent; `None` where that changes nothing.
    fn silence(&mut self, home: usize, copy: usize, off: Option<Off>) -> Option<()> {
        let log = self.hosts[home].home.as_mut()?;
        let before = log.clone();
        log.on_silent(node(copy));
        if *log == before {
            return None;
        }
        if off == Some(Off::Silent) {
            let copies: BTreeSet<NodeId> = log.peers().map(|(node, _)| node).filter(|peer| *peer != node(copy)).collect();
            let set = HolderSet { term: Term(log.term().0.saturating_add(1)), home: node(home), copies };
            log.on_set(&set);
        }
        self.drive_home(home, off);
        Some(())
    }

    fn on_coordinator(&mut self, from: usize, message: Message, off: Option<Off>) {
        match message {
            Message::IsFrozen { term, position } => {
                let position = if off == Some(Off::Best) { Position(u64::MAX - position.0) } else { position };
                self.holders.on_frozen(node(from), term, position);
            }
            Message::Drop { term, node: copy } => self.holders.on_drop(node(from), term, copy),
            Message::Released { term } => self.holders.on_released(node(from), term, false),
            Message::Admit { term, node: copy } => self.holders.on_admit(node(from), term, copy),
            _ => {}
        }
        self.drive_coordinator(off);
    }
}

impl Model for Extent {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        let set = HolderSet { term: Term(1), home: node(0), copies: (1..=self.copies).map(node).collect() };
        let mut hosts = vec![Host::default(); NODES];
        let mut home = HomeLog::new(node(0), &set, WORDS as u64);
        while home.poll().is_some() {}
        hosts[0].home = Some(home);
        (1..=self.copies).for_each(|at| hosts[at].copy = CopyLog::empty(set.term));
        vec![World {
            hosts,
            holders: Holders::new(set.clone()),
            recorded: set,
            wires: BTreeMap::new(),
            waiting: BTreeMap::new(),
            sent: [0; WORDS],
            seen: [0; WORDS],
            deaths: 0,
            cuts: 0,
            makes: 0,
            drops: 0,
            moves: 0,
            reigns: 0,
            wrong: None,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Move>) {
        let nodes = 0..NODES;
        for at in nodes.clone() {
            actions.extend((0..WORDS as u8).map(|client| Move::Add { client, at }));
            actions.extend((0..WORDS).map(|word| Move::Read { word, at }));
            actions.extend([Move::Die(at), Move::Lose(at), Move::Surplus(at)]);
            for copy in nodes.clone().filter(|copy| *copy != at) {
                actions.extend([Move::Silent { home: at, copy }, Move::Make { home: at, copy }, Move::Range { home: at, copy }]);
            }
        }
        actions
            .extend(world.wires.keys().filter(|(_, to)| *to <= NODES).map(|(from, to)| Move::Deliver { from: *from, to: *to }));
        actions.extend([Move::Late, Move::Follow, Move::Reign]);
    }

    fn next_state(&self, last: &World, step: Move) -> Option<World> {
        let mut world = last.clone();
        match step {
            Move::Add { client, at } if world.is_open(at, self.off) => {
                let is_new = !world.waiting.contains_key(&client);
                if is_new && world.sent.iter().sum::<u8>() >= self.adds {
                    return None;
                }
                world.add(client, at, self.off)?;
            }
            Move::Read { word, at } if world.is_open(at, self.off) => {
                let value = world.hosts[at].bytes[word];
                if value < world.seen[word] || value > world.sent[word] {
                    world.wrong = Some(WRONG);
                } else if value == world.seen[word] {
                    return None;
                }
                world.seen[word] = value;
            }
            Move::Deliver { from, to } => world.deliver((from, to), self.off)?,
            Move::Die(at) if world.deaths < self.deaths && !world.hosts[at].is_dead => {
                world.deaths = world.deaths.saturating_add(1);
                world.hosts[at] = Host { is_dead: true, is_lost: world.hosts[at].is_lost, ..Host::default() };
                world.wires.retain(|(_, to), _| *to != at);
            }
            Move::Lose(at) if !world.hosts[at].is_lost => world.lose(at, self)?,
            Move::Silent { home, copy } if world.hosts[copy].is_dead || world.hosts[copy].is_lost || self.cuts > 0 => {
                world.silence(home, copy, self.off)?;
            }
            Move::Late if world.holders.state() == HoldersState::Electing => {
                world.holders.on_late();
                world.drive_coordinator(self.off);
            }
            Move::Make { home, copy } if world.makes < self.makes && !world.hosts[copy].is_dead && !world.hosts[copy].is_lost => {
                world.makes = world.makes.saturating_add(1);
                world.hosts[home].home.as_mut()?.make(node(copy), 1);
                world.drive_home(home, self.off);
            }
            // The copy's node frees it when it hears of that: here at once.
            Move::Surplus(at) if world.drops < self.drops && world.holders.set().copies.contains(&node(at)) => {
                world.drops = world.drops.saturating_add(1);
                world.holders.on_surplus(node(at));
                world.hosts[at].copy = CopyLog::default();
                world.drive_coordinator(self.off);
            }
            Move::Follow if world.moves < self.moves => {
                world.moves = world.moves.saturating_add(1);
                world.holders.on_move(Some(node(NODES.saturating_sub(1))));
                world.drive_coordinator(self.off);
            }
            Move::Reign if world.reigns < self.reigns => {
                world.reigns = world.reigns.saturating_add(1);
                world.begin_reign(self.off);
            }
            Move::Range { home, copy } => {
                world.hosts[home].home.as_mut()?.send_range(node(copy));
                world.drive_home(home, self.off);
            }
            _ => return None,
        }
        if world.has_no_home() {
            world.wrong = Some(STUCK);
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = nothing_is_wrong();
        all.push(Property::sometimes(ELECTED_TWICE, |_: &Extent, world: &World| {
            world.holders.set().term > Term(2) && world.deaths > 1 && (0..NODES).any(|at| world.is_open(at, None))
        }));
        all.push(Property::sometimes(MADE, |_: &Extent, world: &World| {
            world.makes > 0 && (1..NODES).any(|at| world.is_open(at, None) && world.deaths > 0)
        }));
        all.push(Property::sometimes(MOVED, |_: &Extent, world: &World| {
            world.deaths == 0 && (1..NODES).any(|at| world.is_open(at, None)) && world.seen == [1, 1]
        }));
        all
    }
}

impl Explored for Extent {}

const TWO: Extent = Extent { copies: 1, adds: 2, deaths: 1, cuts: 1, makes: 0, drops: 0, moves: 0, reigns: 0, off: None };
const THREE: Extent = Extent { copies: 2, adds: 2, deaths: 2, cuts: 0, makes: 0, drops: 0, moves: 0, reigns: 0, off: None };
const MAKING: Extent = Extent { copies: 0, adds: 2, deaths: 1, cuts: 0, makes: 1, drops: 0, moves: 0, reigns: 0, off: None };
const FEWER: Extent = Extent { copies: 2, adds: 2, deaths: 1, cuts: 0, makes: 0, drops: 1, moves: 0, reigns: 0, off: None };
const MOVING: Extent = Extent { copies: 2, adds: 2, deaths: 1, cuts: 0, makes: 0, drops: 0, moves: 1, reigns: 0, off: None };

const REIGNS: Extent = Extent { adds: 1, reigns: 1, ..TWO };
const THREE_REIGN: Extent = Extent { adds: 1, deaths: 1, cuts: 1, reigns: 1, ..THREE };

#[test]
fn the_tables() {
    assert_eq!(table::contradiction(COPIES), None);
    assert_eq!(table::contradiction(HOMES), None);
    assert_eq!(table::contradiction(PEERS), None);
    assert_eq!(table::contradiction(HOLDERS), None);
}

#[test]
fn with_two_copies_nothing_that_was_answered_is_lost() {
    holds(TWO, "two copies", 5000);
}

#[test]
fn with_three_copies_two_may_die() {
    holds(THREE, "three copies", 50_000);
    assert!(THREE.checker().spawn_bfs().join().discovery(ELECTED_TWICE).is_some());
}

#[test]
fn a_copy_that_is_made_has_all() {
    holds(MAKING, "a copy that is made", 20_000);
    assert!(MAKING.checker().spawn_bfs().join().discovery(MADE).is_some());
}

#[test]
fn a_copy_that_is_dropped_takes_nothing_along() {
    holds(FEWER, "a copy that is one too many", 5000);
}

#[test]
fn a_home_that_is_moved_leaves_nothing_behind() {
    holds(MOVING, "a home that is moved", 5000);
    assert!(MOVING.checker().spawn_bfs().join().discovery(MOVED).is_some());
}

#[test]
fn a_coordinator_that_dies_in_an_election_leaves_a_home() {
    holds(REIGNS, "a coordinator that dies", 5000);
}

#[test]
fn a_coordinator_that_dies_leaves_a_home_of_three() {
    holds(THREE_REIGN, "a coordinator that dies, three copies", 5000);
}

#[test]
fn each_rule_is_needed() {
    for off in [Off::ApplyLast, Off::Again, Off::Lease, Off::Silent] {
        is_needed(Extent { off: Some(off), ..TWO }, off, WRONG);
    }
    for off in [Off::Best, Off::Fill, Off::Freeze] {
        is_needed(Extent { off: Some(off), ..THREE }, off, WRONG);
    }
    is_needed(Extent { off: Some(Off::Ranges), ..MAKING }, Off::Ranges, WRONG);
    is_needed(Extent { off: Some(Off::Say), ..REIGNS }, Off::Say, STUCK);
    is_needed(Extent { off: Some(Off::Stop), copies: 1, ..MOVING }, Off::Stop, WRONG);
}
