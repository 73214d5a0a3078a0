//! The cluster as events: processors with caches, CK and its directory, OPC, the arbiter with ICC, and the data lines.
//!
//! One access of a node walks through these steps, packet by packet [EU §2]:
//!
//! ```text
//! own memory    CK check ──(copies elsewhere)──> request ──> arbiter ──> issue requests ──> dummy accesses, write-backs
//!                  └──(none)── memory                            └──(ICC miss)── directory from the home
//! other memory  line request ──> arbiter: the same work, then wavelengths ──> line set-up ──> access ──> read end
//! ```
//!
//! Directory contents live in one map; CK's and ICC's copies differ only in the time it takes to reach them. The arbiter
//! serves one block at a time, so no entry changes under an access that was decided on it.
mod arbiter;
mod cache;
mod coherence;
mod cpu;
mod icc;
mod lines;
pub mod log;
mod opc;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use cache::Cache;
pub use cache::Mesi;
use icc::Icc;
pub use icc::Organisation;
use lines::Lines;
use log::{Log, Part, Step};

use super::flow::Cause;
use super::timing::Timing;
use crate::engine::Engine;
use crate::parameters::Parameters;
use crate::station::Station;
use crate::time::Picos;

/// A block of the cluster's one address map: the node in the high bits, the block of its memory in the low ones.
// FEATURE: EU-F3
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(pub u64);

/// Bits of the block number inside a node; 4M blocks of 32 B make the 128 MB of a node.
const NODE_SHIFT: u32 = 22;

impl Block {
    /// Block `index` of a node's memory.
    pub fn of(node: usize, index: u64) -> Block {
        Block(((node as u64) << NODE_SHIFT) | (index & ((1 << NODE_SHIFT) - 1)))
    }

    /// The node whose memory it is.
    pub fn home(self) -> usize {
        (self.0 >> NODE_SHIFT) as usize
    }
}

/// What a processor's program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Work in registers and cache, in processor cycles.
    Compute(u64),
    /// A load from a block.
    Read(Block),
    /// A store to a block.
    Write(Block),
    /// Wait until every store of this processor is visible: ends a phase under the deferred policy.
    Sync,
    /// Raise a flag.
    Signal(u32),
    /// Wait for a flag.
    Await(u32),
}

/// A directory entry: which other nodes' caches may hold a block.
#[derive(Clone, Debug, Default)]
struct Entry {
    owner: Option<usize>,
    sharers: BTreeSet<usize>,
}

impl Entry {
    /// The nodes besides `node` that must act before it may read, or write, the block.
    fn holders(&self, node: usize, is_exclusive: bool) -> Vec<usize> {
        let owner = self.owner.into_iter();
        let sharers = self.sharers.iter().copied().filter(|_| is_exclusive);
        let all: BTreeSet<usize> = owner.chain(sharers).filter(|holder| *holder != node).collect();
        all.into_iter().collect()
    }
}

/// Why an access runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Load,
    Store,
    /// A dirty block driven out of a cache.
    CastOut,
    /// A dirty block asked for by the arbiter; carries the access that waits for it.
    Demanded(usize),
}

impl Kind {
    fn is_write_back(self) -> bool {
        matches!(self, Kind::CastOut | Kind::Demanded(_))
    }
}

/// One access that leaves the cache.
struct Running {
    node: usize,
    block: Block,
    kind: Kind,
    started: Picos,
    /// A load went ahead of it: its line will be given back unused.
    is_overtaken: bool,
    /// Its line was given back unused once; it is not overtaken again.
    was_overtaken: bool,
    /// Whether its block is locked for it.
    has_lock: bool,
    /// Nodes whose answer the arbiter awaits.
    awaited: usize,
    channel: Option<usize>,
}

/// An answered access, for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The node that asked.
    pub node: usize,
    /// The block.
    pub block: Block,
    /// The beginning.
    pub start: Picos,
    /// The answer.
    pub end: Picos,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses that left the cache for memory, own or other.
    pub misses: u64,
    /// Line and coherence requests at the arbiter.
    pub requests: u64,
    /// Directory entries fetched because ICC had none.
    pub icc_misses: u64,
    /// Lines set up.
    pub set_ups: u64,
    /// Dummy bus accesses.
    pub dummies: u64,
    /// Dirty blocks written back over a line.
    pub write_backs: u64,
    /// Accesses whose line was given back unused.
    pub overtaken: u64,
}

struct Node {
    cache: Cache,
    program: VecDeque<Op>,
    bus: Station,
    /// The processor waits for this access, or for its own next event.
    load: Option<usize>,
    /// A store that waits for its block; further stores to the block merge.
    store: Option<Block>,
    is_blocked: bool,
    is_computing: bool,
    finished: Option<Picos>,
    opc_busy: Option<usize>,
    queued: Vec<usize>,
    /// Blocks stored to under the deferred policy since the last synchronisation.
    deferred: BTreeSet<Block>,
    /// Dummy accesses to blocks on their way out.
    departing: Vec<(Block, usize)>,
    batch_awaited: usize,
}

enum Event {
    /// The processor has computed.
    Computed(usize),
    /// The processor tries to go on.
    Wake(usize),
    /// The arbiter has done a piece of work.
    Arbiter,
    /// A packet reached the arbiter.
    AtArbiter(arbiter::Message),
    /// An issue request reached a node.
    Issue { node: usize, access: usize },
    /// A batch of invalidations reached a node.
    IssueBatch { node: usize, from: usize },
    /// The line of an access is up at both ends.
    LineUp(usize),
    /// An access over the line has its answer.
    Answer(usize),
    /// A coherence result reached the node.
    Result(usize),
    /// A synchronisation's result reached the node.
    Synchronised(usize),
    /// An access to own memory has its answer.
    Own(usize),
    /// A write's channel is free.
    Release(usize),
}

/// A cluster in a run.
pub struct Cluster {
    engine: Engine<Event>,
    timing: Timing,
    nodes: Vec<Node>,
    directory: HashMap<Block, Entry>,
    icc: Icc,
    lines: Lines,
    arbiter: arbiter::Arbiter,
    running: Vec<Running>,
    /// Blocks an access was decided on and is not done with.
    locked: HashSet<Block>,
    flags: HashSet<u32>,
    is_line_kept: bool,
    is_overlapped: bool,
    is_deferred: bool,
    has_write_end: bool,
    has_overtaking: bool,
    answered: Vec<Answered>,
    counts: Counts,
    log: Log,
}

impl Cluster {
    /// An idle cluster: caches, directory and ICC empty, lines dark.
    pub fn new(p: &Parameters) -> Cluster {
        let timing = Timing::new(p);
        let blocks = (p.bytes("cache.capacity") / timing.block) as usize;
        let node = || Node {
            cache: Cache::new(blocks, p.count("cache.ways") as usize),
            program: VecDeque::new(),
            bus: Station::new(),
            load: None,
            store: None,
            is_blocked: false,
            is_computing: false,
            finished: None,
            opc_busy: None,
            queued: Vec::new(),
            deferred: BTreeSet::new(),
            departing: Vec::new(),
            batch_awaited: 0,
        };
        let organisation = [Organisation::Lru, Organisation::Direct][p.choice("icc.organisation")];
        Cluster {
            engine: Engine::new(),
            nodes: (0..p.count("node.count")).map(|_| node()).collect(),
            directory: HashMap::new(),
            icc: Icc::new(p.bytes("icc.capacity") / p.bytes("icc.entry"), organisation),
            lines: Lines::new(p.count("line.channels") as usize),
            arbiter: arbiter::Arbiter::default(),
            running: Vec::new(),
            locked: HashSet::new(),
            flags: HashSet::new(),
            is_line_kept: false,
            is_overlapped: p.is_on("arbiter.is_overlapped"),
            is_deferred: p.choice("coherence.policy") == 1,
            has_write_end: p.is_on("arbiter.write_end"),
            has_overtaking: p.choice("opc.overtaking") == 0,
            answered: Vec::new(),
            counts: Counts::default(),
            log: Log::default(),
            timing,
        }
    }

    /// Keeps the steps of the run for charts and break-downs.
    pub fn keep_log(&mut self) {
        self.log = Log::on();
    }

    /// Keeps lines up between accesses, and brings this one up.
    pub fn bring_up(&mut self, a: usize, b: usize) {
        self.is_line_kept = true;
        self.lines.bring_up(a, b);
    }

    /// Puts a block into ICC.
    pub fn warm_icc(&mut self, block: Block) {
        self.icc.fill(block);
    }

    /// Makes a node hold a block as if it had written it.
    pub fn make_dirty(&mut self, node: usize, block: Block) {
        self.nodes[node].cache.fill(block, Mesi::Modified);
        if node != block.home() {
            self.directory.insert(block, Entry { owner: Some(node), sharers: BTreeSet::new() });
        }
    }

    /// Appends to a node's program.
    pub fn load_program(&mut self, node: usize, ops: impl IntoIterator<Item = Op>) {
        self.nodes[node].program.extend(ops);
        self.nodes[node].finished = None;
    }

    /// Runs until every program has ended; returns when the last one did.
    ///
    /// Cost: a few dozen events for a remote access, none for a hit.
    pub fn run(&mut self) -> Picos {
        for node in 0..self.nodes.len() {
            self.engine.schedule(self.engine.now(), Event::Wake(node));
        }
        while let Some((_, event)) = self.engine.pop() {
            match event {
                Event::Computed(node) => {
                    self.nodes[node].is_computing = false;
                    self.advance(node);
                }
                Event::Wake(node) => self.advance(node),
                Event::Arbiter => self.on_arbiter_done(),
                Event::AtArbiter(message) => self.on_message(message),
                Event::Issue { node, access } => self.on_issue(node, access),
                Event::IssueBatch { node, from } => self.on_issue_batch(node, from),
                Event::LineUp(access) => self.on_line_up(access),
                Event::Answer(access) => self.on_answer(access),
                Event::Result(access) => self.on_result(access),
                Event::Synchronised(node) => self.on_synchronised(node),
                Event::Own(access) => self.on_own_answer(access),
                Event::Release(access) => self.release_channel(access),
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            assert!(node.program.is_empty() && node.opc_busy.is_none(), "the program of node {index} is stuck");
        }
        self.nodes.iter().filter_map(|node| node.finished).max().unwrap_or_default()
    }

    /// When a node's program ended.
    pub fn finished(&self, node: usize) -> Picos {
        self.nodes[node].finished.unwrap_or_default()
    }

    /// The accesses that had to leave a cache, in the order of their answers.
    pub fn answered(&self) -> &[Answered] {
        &self.answered
    }

    /// What happened how often.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The steps kept.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Whether no block is writable in one cache and present in another.
    pub fn is_coherent(&mut self, blocks: impl IntoIterator<Item = Block>) -> bool {
        blocks.into_iter().all(|block| {
            let held: Vec<Mesi> = self.nodes.iter_mut().filter_map(|node| node.cache.state(block)).collect();
            held.len() <= 1 || held.iter().all(|state| *state == Mesi::Shared)
        })
    }

    fn step(&mut self, access: usize, part: Part, name: &'static str, cause: Cause, start: Picos, span: Picos) -> Picos {
        self.log.step(Step { access, part, name, cause, start, end: start + span });
        start + span
    }

    /// A control packet between a node and the arbiter; returns when it arrives.
    // FEATURE: EU-F5
    fn control(&mut self, access: usize, node: usize, name: &'static str) -> Picos {
        let timing = &self.timing;
        let (serial, conversion, fibre) = (timing.byte * timing.p_control, timing.arbitration_const, timing.arbiter_fibre);
        let part = Part::ArbitrationLine(node);
        let sent = self.step(access, part, name, Cause::Serial, self.engine.now(), serial);
        let converted = self.step(access, part, name, Cause::Conversion, sent, conversion);
        self.step(access, part, name, Cause::Fibre, converted, fibre)
    }
}
