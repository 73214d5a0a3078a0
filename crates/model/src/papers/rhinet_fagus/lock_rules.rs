//! The shared variable of figures 3 and 4 under the product's rules: `protocol::lock` and `protocol::entry` decide, this paper's network
//! gives the times.
//!
//! | | the paper | the product |
//! |---|---|---|
//! | the server writes | it invalidates each client's copy, and each answers | it takes the lock, publishes what it changed, and gives it back: nobody is told |
//! | a client reads | a request, and the pages of the region | a claim to share the lock, and a grant with what changed since the client's version; then the lock is given back |
//! | a client writes | the server is asked | a claim, a grant, and the lock given back with what was changed |
//! | order | of arrival | of arrival |
//!
//! Leases are left out: with one, a client that writes again and again sends nothing.
use hanare_protocol::entry::{BoundData, BoundRange, BoundShape, Publication, Stamp, Stores};
use hanare_protocol::id::Gid;
use hanare_protocol::lock::{Claim, Claimant, Claimed, Locks, Mode};
use hanare_protocol::shape::Strided;

use super::coherence::{Extremes, HostCosts};
use super::transport::{Origin, Piece, Port, Transport, pair};
use crate::engine::Engine;
use crate::parameters::Parameters;
use crate::station::Station;
use crate::time::Picos;

/// The lock that the variable is bound to.
const NAME: &str = "variable";
/// The region of the variable.
const REGION: Gid = Gid(1);
/// The user of all programs.
const UID: u32 = 1;
/// The node with the lock and the variable.
const HOME: usize = 0;

/// The lock, the data bound to it, and the version that each program has.
pub struct HomedVariable {
    locks: Locks,
    data: BoundData,
    len_bytes: u64,
    known: Vec<Option<Stamp>>,
    /// Claims made so far: a claimant's number is never used twice.
    claims: Vec<u64>,
}

impl HomedVariable {
    /// A variable that the home's own program has bound and each of `nodes` programs has read.
    pub fn new(nodes: usize, len_bytes: u64) -> HomedVariable {
        let (locks, data) = (Locks::new(), BoundData::new(1));
        let mut homed = HomedVariable { locks, data, len_bytes, known: vec![None; nodes], claims: vec![0; nodes] };
        let binding = vec![BoundShape { gid: REGION, shape: Strided::contiguous(0, len_bytes) }];
        homed.claim(HOME, Mode::Exclusive).expect("nobody has the lock");
        homed.give_back(HOME, Some(Publication { changes: Stores::NONE, binding: Some(binding) }));
        for node in 0..nodes {
            homed.claim(node, Mode::Shared).expect("nobody has the lock alone");
            homed.give_back(node, None);
        }
        homed
    }

    fn who(&self, node: usize) -> Claimant {
        Claimant { link: node as u64, number: self.claims[node] }
    }

    /// A program claims the lock. Bytes of the variable that the grant brings, or none where it waits.
    pub fn claim(&mut self, node: usize, mode: Mode) -> Option<u64> {
        self.claims[node] += 1;
        let claim = Claim { who: self.who(node), thread: 0, mode };
        match self.locks.on_lock(NAME, claim, true).expect("a claim of ours") {
            Claimed::Granted { .. } => Some(self.grant(node)),
            Claimed::Waits | Claimed::Busy => None,
        }
    }

    fn grant(&mut self, node: usize) -> u64 {
        let Some(grant) = self.data.on_grant(NAME, self.known[node], UID) else { return 0 };
        self.known[node] = Some(grant.stamp);
        match &grant.changes {
            Stores::All => self.len_bytes,
            changes => changes.pieces().map(|(range, _)| range.len).sum(),
        }
    }

    /// A program gives the lock back, perhaps with what it changed. Those who get it then, with the bytes that their grants bring.
    pub fn give_back(&mut self, node: usize, publication: Option<Publication>) -> Vec<(usize, u64)> {
        let who = self.who(node);
        if let Some(publication) = publication {
            let stamp = self.data.on_publish(&self.locks, who, UID, publication).expect("a publication of ours");
            self.known[node] = Some(stamp);
        }
        self.data.on_unlock(&self.locks, who);
        self.locks.on_unlock(who).expect("it has the lock");
        let granted: Vec<usize> = std::iter::from_fn(|| self.locks.poll()).map(|grant| grant.who.link as usize).collect();
        granted.into_iter().map(|node| (node, self.grant(node))).collect()
    }

    /// A new value of the whole variable.
    pub fn value(&self) -> Publication {
        let range = BoundRange { gid: REGION, offset: 0, len: self.len_bytes };
        Publication { changes: Stores::Bytes(vec![range], vec![1; self.len_bytes as usize]), binding: None }
    }
}

/// Times and messages of a write and the reads behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteAndReads {
    /// Until the write is published and the lock is free.
    pub write: Picos,
    /// From then on until each other client has what was written.
    pub reads: Extremes,
    /// Messages of the write, and of the reads.
    pub messages: [u64; 2],
    /// Bytes of the variable that went along.
    pub bytes: u64,
}

#[derive(Clone, Copy)]
enum LockSaid {
    Claim(Mode),
    Grant(u64),
    GiveBack { has_changes: bool },
}

enum Event {
    Arrived { at: usize, from: usize, said: LockSaid, len_bytes: u64 },
    Handled { at: usize, from: usize, said: LockSaid },
}

struct World<'a> {
    transport: &'a Transport,
    costs: HostCosts,
    message_bytes: u64,
    homed: HomedVariable,
    ports: Vec<Port>,
    processors: Vec<Station>,
    /// When each client had its grant.
    granted: Vec<Picos>,
    messages: u64,
    bytes: u64,
    engine: Engine<Event>,
}

impl World<'_> {
    fn send(&mut self, now: Picos, from: usize, to: usize, said: LockSaid) {
        let more = match said {
            LockSaid::Grant(bytes) => bytes,
            LockSaid::GiveBack { has_changes: true } => self.homed.len_bytes,
            LockSaid::Claim(_) | LockSaid::GiveBack { has_changes: false } => 0,
        };
        (self.messages, self.bytes) = (self.messages + 1, self.bytes + more);
        let len_bytes = self.message_bytes + more;
        let work = self.processors[from].take(now, self.costs.sending(len_bytes));
        let piece = Piece { len_bytes, origin: Origin::Host };
        let moved = self.transport.move_piece(pair(&mut self.ports, from, to), work.end, piece);
        self.engine.schedule(moved.arrived, Event::Arrived { at: to, from, said, len_bytes });
    }

    /// Runs until nothing is under way; when that was.
    fn run(&mut self) -> Picos {
        while let Some((now, event)) = self.engine.pop() {
            match event {
                Event::Arrived { at, from, said, len_bytes } => {
                    let handled = self.processors[at].take(now, self.costs.receiving(len_bytes));
                    self.engine.schedule(handled.end, Event::Handled { at, from, said });
                }
                Event::Handled { at, from, said } => self.on_handled(now, at, from, said),
            }
        }
        self.engine.now()
    }

    fn on_handled(&mut self, now: Picos, at: usize, from: usize, said: LockSaid) {
        match said {
            LockSaid::Claim(mode) => {
                if let Some(bytes) = self.homed.claim(from, mode) {
                    self.send(now, HOME, from, LockSaid::Grant(bytes));
                }
            }
            LockSaid::Grant(_) => {
                self.granted[at] = now;
                // A writer has changed the variable, a reader has seen it.
                let mode = self.homed.locks.held(self.homed.who(at)).map(|(_, mode)| mode);
                self.send(now, at, HOME, LockSaid::GiveBack { has_changes: mode == Some(Mode::Exclusive) });
            }
            LockSaid::GiveBack { has_changes } => {
                let publication = has_changes.then(|| self.homed.value());
                for (node, bytes) in self.homed.give_back(from, publication) {
                    self.send(now, HOME, node, LockSaid::Grant(bytes));
                }
            }
        }
    }
}

/// A program writes the variable, then all clients but the writer read it at once.
pub fn write_and_read(parameters: &Parameters, transport: &Transport, nodes: usize, writer: usize) -> WriteAndReads {
    let mut world = World {
        transport,
        costs: HostCosts::new(parameters, transport),
        message_bytes: parameters.bytes("fagus.message"),
        homed: HomedVariable::new(nodes, parameters.bytes("fagus.variable")),
        ports: vec![Port::default(); nodes],
        processors: vec![Station::new(); nodes],
        granted: vec![Picos::ZERO; nodes],
        messages: 0,
        bytes: 0,
        engine: Engine::new(),
    };
    if writer == HOME {
        // Words between the home and its own program are no messages.
        world.homed.claim(HOME, Mode::Exclusive).expect("nobody has the lock");
        let value = world.homed.value();
        world.homed.give_back(HOME, Some(value));
    } else {
        world.send(Picos::ZERO, writer, HOME, LockSaid::Claim(Mode::Exclusive));
    }
    let write = world.run();
    let written = world.messages;
    let readers: Vec<usize> = (1..nodes).filter(|node| *node != writer).collect();
    readers.iter().for_each(|node| world.send(write, *node, HOME, LockSaid::Claim(Mode::Shared)));
    world.run();
    let times = || readers.iter().map(|node| world.granted[*node] - write);
    let reads = Extremes { least: times().min().unwrap_or_default(), greatest: times().max().unwrap_or_default() };
    WriteAndReads { write, reads, messages: [written, world.messages - written], bytes: world.bytes }
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    /// The product's tests of `entry` assert the same: who knows a version hears what came after it, in the order of asking.
    #[test]
    fn grants_bring_what_the_products_tests_assert() {
        let mut homed = HomedVariable::new(4, 4);
        assert_eq!(homed.claim(1, Mode::Exclusive), Some(0), "its version is the last");
        assert_eq!([3, 2].map(|node| homed.claim(node, Mode::Exclusive)), [None, None]);
        let value = homed.value();
        assert_eq!(homed.give_back(1, Some(value.clone())), [(3, 4)], "who asked first is first");
        assert_eq!(homed.give_back(3, Some(value)), [(2, 8)], "both changes that it missed");
        assert_eq!(homed.give_back(2, None), []);
        assert_eq!(homed.claim(3, Mode::Shared), Some(0), "nothing after its own");
        // A program without a version gets all.
        homed.known[1] = None;
        assert_eq!(homed.claim(1, Mode::Shared), Some(4));
    }

    #[test]
    fn a_write_tells_nobody_and_each_reader_gets_the_variable_once() {
        for transport in Transport::both(&parameters()) {
            for nodes in [2, 4] {
                let clients = nodes as u64 - 1;
                let variable = parameters().bytes("fagus.variable");
                let homes = write_and_read(&parameters(), &transport, nodes, HOME);
                assert_eq!((homes.write, homes.messages, homes.bytes), (Picos::ZERO, [0, 3 * clients], clients * variable));
                assert!(homes.reads.greatest >= homes.reads.least && homes.reads.least > Picos::ZERO);
            }
            let clients = write_and_read(&parameters(), &transport, 4, 1);
            assert!(clients.write > Picos::ZERO, "{clients:?}");
            assert_eq!((clients.messages, clients.bytes), ([3, 6], 3 * parameters().bytes("fagus.variable")));
        }
    }
}
