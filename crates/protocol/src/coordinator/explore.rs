//! Every order of messages between the coordinator and one node that is ordered about while it joins again, to a small depth.
//!
//! Messages are delivered in any order and any number of times up to two; the node is told at any moment that it is unknown, and loses
//! its connection at any moment. What must hold in every state: the node has each extent of each region, with a grant that opens it
//! when the region is opened; and none of a region whose removal is answered.

use super::*;
use crate::attributes::Attributes;
use crate::id::{ClientId, Grant, Incarnation, Slot, User};
use crate::member::{self, Member};
use crate::placement::Placement;
use crate::versions::NEWEST;
use crate::wire::control::{Existing, Memory, ReportedExtent};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

const OWNER: User = User { uid: 10, gid: 20 };

/// A message under way, and how often it may still arrive.
#[derive(Clone, Debug)]
enum InFlight {
    ToHome(Peer, FromNode),
    ToNode(Peer, ToNode),
}

/// What can be done to the world once, at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stimulus {
    Remove,
    Create,
    SayUnknown,
    Reconnect,
}

#[derive(Clone, Debug)]
struct World {
    coordinator: Coordinator,
    member: Member,
    /// The node's extents.
    extents: BTreeMap<Slot, ReportedExtent>,
    grants: u8,
    peer: Peer,
    in_flight: Vec<(InFlight, u8)>,
    left: Vec<Stimulus>,
    request: u64,
    /// The region that is removed, by which request, and whether that is answered.
    removed: (Gid, u64, bool),
}

impl World {
    fn new() -> World {
        let mut coordinator = Coordinator::new(Settings::new("n0"));
        coordinator.handle(0, Peer(0), join("n0", 1));
        let mut member = Member::new(member::Settings::new(Incarnation(2), "n1", "127.0.0.1:1"));
        member.set_memory(memory());
        member.connected(0, NEWEST);
        let left = vec![Stimulus::Remove, Stimulus::Create, Stimulus::SayUnknown, Stimulus::Reconnect];
        let mut world = World {
            coordinator,
            member,
            extents: BTreeMap::new(),
            grants: 0,
            peer: Peer(1),
            in_flight: Vec::new(),
            left,
            request: 0,
            removed: (Gid(0), 0, false),
        };
        world.ask(create("a"));
        world.run();
        world.ask(create("a"));
        world.run();
        let gids: Vec<Gid> = world.coordinator.regions().map(|region| region.gid).collect();
        assert_eq!(gids.len(), 1, "the exploration begins with a region");
        world.removed.0 = gids[0];
        world
    }

    /// A request of a client of node 0.
    fn ask(&mut self, what: Request) {
        self.request += 1;
        let (request, settled, user, client) = (self.request, 0, OWNER, ClientId(1));
        self.coordinator.handle(0, Peer(0), FromNode::Ask { request, settled, user: user.into(), client, what });
        self.drain();
    }

    fn run(&mut self) {
        self.drain();
        while !self.in_flight.is_empty() {
            let (flight, _) = self.in_flight.remove(0);
            self.deliver(flight);
        }
    }

    fn deliver(&mut self, flight: InFlight) {
        match flight {
            InFlight::ToHome(peer, message) => self.coordinator.handle(0, peer, message),
            InFlight::ToNode(peer, message) if peer == self.peer => self.member.handle(0, message),
            InFlight::ToNode(..) => {}
        }
        self.drain();
    }

    fn stimulate(&mut self, stimulus: Stimulus) {
        match stimulus {
            Stimulus::Remove => {
                self.removed.1 = self.request + 1;
                self.ask(Request::Remove { name: "a".to_owned() });
            }
            Stimulus::Create => self.ask(create("b")),
            Stimulus::SayUnknown => self.member.handle(0, ToNode::Unknown),
            Stimulus::Reconnect => {
                let old = self.peer;
                self.peer = Peer(old.0 + 1);
                self.in_flight.retain(|(flight, _)| !matches!(flight, InFlight::ToHome(peer, _) if *peer == old));
                self.member.connected(0, NEWEST);
                self.drain();
                self.coordinator.disconnected(0, old, "connection reset");
            }
        }
        self.drain();
    }

    fn grant(&mut self) -> Grant {
        self.grants += 1;
        Grant([self.grants; 16])
    }

    fn drain(&mut self) {
        loop {
            if let Some(output) = self.coordinator.poll() {
                match output {
                    Output::Send(Peer(0), ToNode::Reply { request, result: Ok(_) }) => {
                        self.removed.2 |= request == self.removed.1;
                        self.check_removed();
                    }
                    Output::Send(peer, message) if peer != Peer(0) => self.in_flight.push((InFlight::ToNode(peer, message), 2)),
                    _ => {}
                }
                continue;
            }
            let Some(output) = self.member.poll() else { return };
            self.act(output);
        }
    }

    fn act(&mut self, output: member::Output) {
        match output {
            member::Output::Send(message) => self.in_flight.push((InFlight::ToHome(self.peer, message), 2)),
            member::Output::Make { order, gid, lens, .. } => {
                let slot = (0..).map(Slot).find(|slot| !self.extents.contains_key(slot)).expect("slots do not end");
                let extent = ReportedExtent { slot, gid, len: lens[0], read: self.grant(), write: self.grant() };
                self.extents.insert(slot, extent);
                self.member.made(order, Ok(vec![extent]));
            }
            member::Output::Free { slots } => {
                assert!(slots.iter().all(|slot| self.extents.remove(slot).is_some()), "freed twice");
            }
            member::Output::NewEpoch { epoch, .. } => {
                let slots: Vec<Slot> = self.extents.keys().copied().collect();
                for slot in slots {
                    let (read, write) = (self.grant(), self.grant());
                    let extent = self.extents.get_mut(&slot).expect("just listed");
                    (extent.read, extent.write) = (read, write);
                }
                self.member.regranted(0, epoch, self.extents.values().copied().collect());
            }
            _ => {}
        }
    }

    /// Of a region whose removal is answered the node has nothing.
    fn check_removed(&self) {
        let (gid, _, is_answered) = self.removed;
        assert!(!is_answered || self.extents.values().all(|held| held.gid != gid), "a removal is answered early: {self:#?}");
    }

    fn check(&self) {
        self.check_removed();
        for region in self.coordinator.regions() {
            assert!(region.lost.is_empty(), "the node never died: {self:#?}");
            for extent in region.layout.extents() {
                let held = self.extents.get(&extent.slot);
                assert!(held.is_some_and(|held| held.gid == region.gid), "{} of {region:?} is gone: {self:#?}", extent.slot);
            }
        }
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{self:?}").hash(&mut hasher);
        hasher.finish()
    }

    /// All worlds that one step leads to.
    fn next(&self) -> Vec<World> {
        let mut worlds = Vec::new();
        for index in 0..self.in_flight.len() {
            let mut world = self.clone();
            world.in_flight[index].1 -= 1;
            let flight = world.in_flight[index].0.clone();
            if world.in_flight[index].1 == 0 {
                world.in_flight.remove(index);
            }
            world.deliver(flight);
            worlds.push(world);
        }
        for index in 0..self.left.len() {
            let mut world = self.clone();
            let stimulus = world.left.remove(index);
            world.stimulate(stimulus);
            worlds.push(world);
        }
        worlds
    }
}

fn memory() -> Memory {
    Memory { lent: 1 << 20, populated: 1 << 20, page: 4096, ..Memory::default() }
}

fn join(name: &str, incarnation: u128) -> FromNode {
    FromNode::Join {
        incarnation: Incarnation(incarnation),
        attempt: 1,
        name: name.to_owned(),
        address: String::new(),
        memory: memory(),
        was: None,
        held: Vec::new(),
        wish: None,
        restores: None,
    }
}

fn create(name: &str) -> Request {
    let placement = Placement::Node(NodeId(1));
    Request::Create {
        copies: 1,
        name: name.to_owned(),
        len: 4096,
        placement,
        mode: 0o600,
        attributes: Attributes::default(),
        existing: Existing::Attach,
    }
}

#[test]
fn no_order_of_messages_takes_an_extent_from_a_region() {
    let (mut seen, mut layer) = (BTreeSet::new(), vec![World::new()]);
    for _ in 0..8 {
        let mut next = Vec::new();
        for world in layer.iter().flat_map(World::next) {
            if seen.insert(world.hash()) {
                world.check();
                next.push(world);
            }
        }
        layer = next;
    }
    assert!(seen.len() > 10_000, "{} states", seen.len());
    assert!(layer.iter().any(|world| world.removed.2), "a removal is answered");
}
