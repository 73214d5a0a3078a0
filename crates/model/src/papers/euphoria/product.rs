//! The product's page rules on the paper's hardware: each home keeps the directory of its own memory, and no arbiter is asked.
//!
//! [`Pages`] says which letters follow an access; a block is its page. A letter is a packet on the data line between the two
//! nodes: the address packet, and behind it the data packet where the block travels. At both ends it passes OPC; a home looks
//! into its directory as long as CK does, and reads or writes memory over its bus. Lines are up: wavelengths that are not
//! shared need none of the paper's set-up, which is why times below the paper's are no verdict on its arbiter.
//!
//! A processor waits for its loads and its stores; the paper's write buffer is not here. Caches have no limit, so nothing is cast
//! out and written back.
use std::collections::{BTreeMap, HashSet, VecDeque};

use hanare_protocol::page::{Access as Wanted, Page, ToHost};

use super::bus;
use super::cluster::{Block, Op};
use super::timing::{Access, Timing};
use crate::engine::Engine;
use crate::pages::{Act, Letter, Pages, Said};
use crate::parameters::Parameters;
use crate::station::Station;
use crate::time::Picos;
use crate::topology::{Kind, Topology};

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ran {
    /// When the last program ended.
    pub end: Picos,
    /// Times of the accesses that had to leave the cache, in the order of their answers.
    pub answers: Vec<Picos>,
    /// Letters from node to node.
    pub messages: u64,
    /// Of these, with the block.
    pub blocks: u64,
}

enum Event {
    Go(usize),
    /// A letter has come out of the line.
    Arrived(Letter),
    /// The node's bus and OPC have done what the letter asks of them.
    Heard(Letter),
}

#[derive(Default)]
struct Node {
    program: VecDeque<Op>,
    /// The access that it waits for, and since when.
    waits: Option<(Block, Wanted, Picos)>,
    /// Blocks of its own memory that its cache has; the cache has no limit.
    cached: HashSet<Block>,
    opc: Station,
    bus: Station,
}

struct World {
    timing: Timing,
    engine: Engine<Event>,
    nodes: Vec<Node>,
    homes: BTreeMap<usize, Pages>,
    links: Topology,
    flags: HashSet<u32>,
    ran: Ran,
}

/// Runs the programs, one a node, over links of that kind.
///
/// A program that waits for a flag that nobody raises is a defect of the caller and panics.
pub fn run(parameters: &Parameters, topology: Kind, programs: Vec<Vec<Op>>) -> Ran {
    let count = programs.len();
    let nodes = programs.into_iter().map(|program| Node { program: program.into(), ..Node::default() });
    let mut world = World {
        timing: Timing::new(parameters),
        engine: Engine::new(),
        nodes: nodes.collect(),
        homes: BTreeMap::new(),
        links: Topology::new(topology, count),
        flags: HashSet::new(),
        ran: Ran::default(),
    };
    (0..count).for_each(|node| world.engine.schedule(Picos::ZERO, Event::Go(node)));
    while let Some((now, event)) = world.engine.pop() {
        match event {
            Event::Go(node) => world.go(node),
            Event::Arrived(letter) => world.arrived(now, letter),
            Event::Heard(letter) => world.heard(letter),
        }
    }
    let stuck = world.nodes.iter().position(|node| !node.program.is_empty() || node.waits.is_some());
    assert!(stuck.is_none(), "the program of node {stuck:?} is stuck");
    world.ran
}

impl World {
    fn pages(&mut self, home: usize) -> &mut Pages {
        let hosts = self.nodes.len();
        // Blocks are numbered inside their home; a table of the home's whole memory costs nothing before it is used.
        self.homes.entry(home).or_insert_with(|| Pages::new(home, hosts, 1 << 22))
    }

    fn page(block: Block) -> Page {
        Page(block.0 & ((1 << 22) - 1))
    }

    /// Runs a node's program until it waits.
    fn go(&mut self, node: usize) {
        let now = self.engine.now();
        while let Some(op) = self.nodes[node].program.front().copied() {
            match op {
                Op::Compute(cycles) => {
                    self.nodes[node].program.pop_front();
                    return self.engine.schedule_in(self.timing.cpu(cycles), Event::Go(node));
                }
                Op::Read(block) | Op::Write(block) => {
                    let wanted = if matches!(op, Op::Write(_)) { Wanted::Write } else { Wanted::Read };
                    if !self.pages(block.home()).has(node, Self::page(block), wanted) {
                        self.nodes[node].cached.remove(&block);
                        return self.miss(node, block, wanted);
                    }
                    if block.home() == node && self.nodes[node].cached.insert(block) {
                        self.nodes[node].program.pop_front();
                        return self.read_own(node);
                    }
                }
                // Every store is over before the program goes on.
                Op::Sync => {}
                Op::Signal(flag) => {
                    self.flags.insert(flag);
                    (0..self.nodes.len()).filter(|other| *other != node).for_each(|other| {
                        if self.nodes[other].waits.is_none() && matches!(self.nodes[other].program.front(), Some(Op::Await(_))) {
                            self.engine.schedule(now, Event::Go(other));
                        }
                    });
                }
                Op::Await(flag) if !self.flags.contains(&flag) => return,
                Op::Await(_) => {}
            }
            self.nodes[node].program.pop_front();
        }
        self.ran.end = self.ran.end.max(now);
    }

    /// The first access to a block of own memory that the rules let it have: over its bus, past CK's check.
    fn read_own(&mut self, node: usize) {
        let read = self.timing.bus(self.timing.check + bus::response(&self.timing, Access::BURST_READ, false));
        let end = self.nodes[node].bus.take(self.engine.now(), read).end;
        self.engine.schedule(end, Event::Go(node));
    }

    /// An access that the cache cannot serve: CK looks, and the rules say what follows.
    fn miss(&mut self, node: usize, block: Block, wanted: Wanted) {
        let now = self.engine.now();
        let check = self.timing.bus(self.timing.address_tenure + self.timing.check);
        let checked = self.nodes[node].bus.take(now, check).end;
        self.nodes[node].waits = Some((block, wanted, now));
        let (_, acts) = self.pages(block.home()).touch(node, Self::page(block), wanted, 0);
        self.act(block.home(), checked, acts);
    }

    /// Sends what the rules say, from `at` on.
    fn act(&mut self, home: usize, at: Picos, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Send(letter) if letter.is_message() => self.send(at, letter),
                Act::Send(letter) => {
                    let more = self.pages(home).deliver(letter);
                    self.act(home, at, more);
                }
                Act::Installed(host, page) => self.installed(home, host, page, at),
            }
        }
    }

    /// The block is here: over the bus to the processor, which goes on.
    fn installed(&mut self, home: usize, host: usize, page: Page, at: Picos) {
        let Some((block, _, since)) = self.nodes[host].waits else { return };
        if block.home() != home || Self::page(block) != page {
            return;
        }
        let timing = &self.timing;
        let read = timing.bus(bus::response(timing, Access::BURST_READ, false));
        let moved = if home == host { read } else { timing.opc(timing.beats(Access::BURST_READ)) };
        let end = self.nodes[host].bus.take(at, moved).end;
        self.nodes[host].waits = None;
        self.nodes[host].program.pop_front();
        self.ran.answers.push(end - since);
        self.engine.schedule(end, Event::Go(host));
    }

    /// A packet: memory is read where the block goes along, OPC sends, the line carries.
    fn send(&mut self, at: Picos, letter: Letter) {
        let timing = &self.timing;
        let (mut ready, mut bytes) = (at, timing.p_addr);
        self.ran.messages += 1;
        if letter.has_bytes() {
            self.ran.blocks += 1;
            bytes += timing.p_data;
            let read = timing.bus(bus::response(timing, Access::BURST_READ, false));
            ready = self.nodes[letter.from].bus.take(ready, read).end;
        }
        let pass = timing.processing + timing.crossing_out;
        let (span, way) = (timing.byte * bytes, timing.data_line() + timing.phase);
        let sent = self.nodes[letter.from].opc.take(ready, pass).end;
        let passed = self.links.send(letter.from, letter.to, sent, span, timing.data_line());
        self.engine.schedule(passed.end + way, Event::Arrived(letter));
    }

    /// OPC takes the packet, then the bus does what it asks.
    fn arrived(&mut self, now: Picos, letter: Letter) {
        let timing = &self.timing;
        let taken = timing.processing + timing.crossing_in;
        let check = timing.bus(timing.check);
        let dummy = timing.bus(timing.address_tenure + timing.check);
        let work = match &letter.said {
            Said::ToHome(message) if message.has_bytes() => check + timing.bus(bus::response(timing, Access::BURST_WRITE, false)),
            Said::ToHome(_) => check,
            // Snooping: an access of the bus that finds the block.
            Said::ToHost(ToHost::Invalidate { .. } | ToHost::Forward { .. } | ToHost::Recall { .. }) => dummy,
            Said::ToHost(_) => Picos::ZERO,
        };
        let node = &mut self.nodes[letter.to];
        let out = node.opc.take(now, taken).end;
        let done = if work == Picos::ZERO { out } else { node.bus.take(out, work).end };
        self.engine.schedule(done, Event::Heard(letter));
    }

    fn heard(&mut self, letter: Letter) {
        let home = match letter.said {
            Said::ToHome(_) => letter.to,
            Said::ToHost(_) => self.home_of(&letter),
        };
        let now = self.engine.now();
        let acts = self.pages(home).deliver(letter);
        self.act(home, now, acts);
    }

    /// The home of a letter's block. Only one home's block is under way for a host at a time, unless it has others' copies: those
    /// are told by their home itself.
    fn home_of(&self, letter: &Letter) -> usize {
        let is_told_by_home =
            matches!(letter.said, Said::ToHost(ToHost::Invalidate { .. } | ToHost::Forward { .. } | ToHost::Recall { .. }));
        match self.nodes[letter.to].waits {
            Some((block, ..)) if !is_told_by_home && Self::page(block) == letter.page => block.home(),
            _ => letter.from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::euphoria::parameters;

    /// What one access after others cost: messages, blocks, and its time.
    fn last(before: &[(usize, Op)], node: usize, op: Op) -> (u64, u64, Picos) {
        let mut programs = vec![Vec::new(); 4];
        // One access after the other, whoever makes it.
        for (turn, (node, op)) in before.iter().chain([&(node, op)]).enumerate() {
            let turn = turn as u32;
            let wait = turn.checked_sub(1).map(Op::Await);
            programs[*node].extend(wait.into_iter().chain([*op, Op::Signal(turn)]));
        }
        let with = run(&parameters(), Kind::Switch, programs.clone());
        let without = programs.iter_mut().map(|program| {
            let end = program.iter().position(|op| *op == Op::Signal(before.len() as u32));
            end.map_or(program.clone(), |end| program[..end.saturating_sub(2)].to_vec())
        });
        let without = run(&parameters(), Kind::Switch, without.collect());
        (with.messages - without.messages, with.blocks - without.blocks, with.end)
    }

    #[test]
    fn letters_are_those_that_the_products_tests_assert() {
        let block = Block::of(0, 3);
        let (read, write) = (Op::Read(block), Op::Write(block));
        let count = |before: &[(usize, Op)], node, op| {
            let (messages, blocks, _) = last(before, node, op);
            (messages, blocks)
        };
        assert_eq!(count(&[], 1, read), (2, 1), "another node's memory, clean");
        assert_eq!(count(&[(2, write)], 1, read), (4, 2), "dirty in a third");
        assert_eq!(count(&[(1, write)], 0, read), (2, 1), "own memory, dirty elsewhere");
        assert_eq!(count(&[], 1, write), (3, 1), "a write that nobody else is in the way of");
        assert_eq!(count(&[(1, read), (2, read)], 3, write), (7, 1), "a write that two have copies of");
        assert_eq!(count(&[(1, read)], 0, write), (2, 0), "own memory, with a copy elsewhere");
        assert_eq!(count(&[(1, write)], 2, write), (4, 1), "a write, dirty in a third");
    }

    #[test]
    fn a_clean_read_is_two_packets_and_a_dirty_one_three_in_a_row() {
        let block = Block::of(0, 3);
        let one = |programs| run(&parameters(), Kind::Switch, programs).answers;
        let clean = one(vec![vec![], vec![Op::Read(block)], vec![]])[0];
        let dirty = one(vec![vec![], vec![Op::Await(0), Op::Read(block)], vec![Op::Write(block), Op::Signal(0)]])[1];
        assert!(dirty.0 * 2 > clean.0 * 3 - clean.0 / 2 && dirty < clean * 2, "{clean} and {dirty}");
    }

    #[test]
    fn a_thousand_nodes_read_from_each_other_on_a_tree_and_a_torus() {
        for kind in [Kind::FatTree, Kind::Torus] {
            let programs = (0..1024).map(|node| vec![Op::Read(Block::of((node + 512) % 1024, 1))]).collect();
            let ran = run(&parameters(), kind, programs);
            assert_eq!((ran.answers.len(), ran.messages, ran.blocks), (1024, 2048, 1024));
        }
    }
}
