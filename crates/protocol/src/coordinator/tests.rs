//! Scenarios of the coordinator with real members at the other end, without any network between them.

use super::*;
use crate::attributes::Attributes;
use crate::copies::HolderSet;
use crate::id::{ClientId, Grant, Incarnation, JobRank, Rights, Slot, User};
use crate::limits::REGION_LEN_MAX;
use crate::lock::Recalled;
use crate::member::{self, Member};
use crate::placement::Placement;
use crate::versions::NEWEST;
use crate::wire::control::{Existing, Made, Memory, RegionStat, RegionView, ReportedExtent, Which};
use crate::wire::copies::{CopiedExtent, ToHolder};
use std::collections::BTreeSet;

mod changes;
mod copies;
mod endings;
mod following;
mod persistence;
mod readying;
mod rebalance;
mod removals;
mod shortage;
mod spills;
mod tenants;
mod versions;

const OWNER: User = User { uid: 10, gid: 20 };
const OTHER: User = User { uid: 11, gid: 21 };

/// A node: its membership and a lender that hands out slots.
struct Node {
    member: Member,
    peer: Option<Peer>,
    slots: BTreeSet<u32>,
    slot_next: u32,
    grant_next: u8,
    /// Whether it makes extents when ordered, refuses, or takes for ever.
    makes: Option<Result<()>>,
    /// Its answer to an order to make extents ready for copies; `None` while it waits.
    readies: Option<Result<()>>,
    /// Orders to make extents ready that wait.
    waiting: Vec<(u64, Vec<Slot>)>,
    answers: Vec<(u64, Result<Answer>)>,
    lost: Vec<NodeId>,
    /// Locks of its clients that were recalled, and by which home; `None` for all at once.
    recalls: Vec<Option<(NodeId, ClientId, u64)>>,
    /// What it was answered of locks that it recalled.
    recalled: Vec<(ClientId, u64, Recalled)>,
    /// What it was told of extents with copies.
    held: Vec<(CopiedExtent, ToHolder)>,
    /// The first holders of extents that it was ordered to make.
    first: Vec<HolderSet>,
    refused: usize,
}

struct Pool {
    now_ms: u64,
    settings: Settings,
    coordinator: Coordinator,
    journal: Vec<Record>,
    nodes: Vec<Node>,
    peer_next: u64,
    gone: Vec<(JobId, Rank)>,
}

fn node(name: &str, incarnation: u128) -> Node {
    let settings = member::Settings::new(Incarnation(incarnation), name, "127.0.0.1:1");
    let mut member = Member::new(settings);
    member.set_memory(Memory { lent: 1 << 20, populated: 1 << 20, page: 4096, ..Memory::default() });
    let (makes, readies) = (Some(Ok(())), Some(Ok(())));
    Node {
        member,
        peer: None,
        slots: BTreeSet::new(),
        slot_next: 0,
        grant_next: 0,
        makes,
        readies,
        waiting: Vec::new(),
        answers: Vec::new(),
        lost: Vec::new(),
        recalls: Vec::new(),
        recalled: Vec::new(),
        held: Vec::new(),
        first: Vec::new(),
        refused: 0,
    }
}

impl Node {
    fn grant(&mut self, gid: Gid, slot: u32, len: u64) -> ReportedExtent {
        self.grant_next += 1;
        let grant = |kind: u8| Grant([self.grant_next, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        ReportedExtent { slot: Slot(slot), gid, len, read: grant(0), write: grant(1) }
    }

    fn make(&mut self, order: u64, gid: Gid, lens: &[u64]) {
        let Some(may) = self.makes.clone() else { return };
        let made = lens.iter().map(|len| {
            let slot = self.slot_next;
            self.slot_next += 1;
            self.slots.insert(slot);
            self.grant(gid, slot, *len)
        });
        let result = match may {
            Ok(()) => Ok(made.collect()),
            Err(error) => Err(error),
        };
        self.member.made(order, result);
    }

    /// Carries out orders to make extents ready, unless it waits.
    fn make_ready(&mut self) {
        let Some(may) = self.readies.clone() else { return };
        for (order, slots) in std::mem::take(&mut self.waiting) {
            let held: Vec<ReportedExtent> = self.member.held().filter(|extent| slots.contains(&extent.slot)).copied().collect();
            let fresh = held.iter().map(|extent| self.grant(extent.gid, extent.slot.0, extent.len)).collect();
            self.member.made_ready(order, may.clone().map(|()| fresh));
        }
    }

    /// Acts on outputs; returns what is to be sent.
    fn drain(&mut self, now_ms: u64) -> Vec<FromNode> {
        let mut sent = Vec::new();
        while let Some(output) = self.member.poll() {
            match output {
                member::Output::Send(message) => sent.push(message),
                member::Output::Make { order, gid, lens, copied } => {
                    self.first.extend(copied.map(|(_, set)| set));
                    self.make(order, gid, &lens);
                }
                member::Output::MakeReady { order, extents, .. } => {
                    self.waiting.push((order, extents.into_iter().map(|(_, slot)| slot).collect()));
                    self.make_ready();
                }
                member::Output::Holder { extent, message, .. } => self.held.push((extent, message)),
                member::Output::Free { slots } => {
                    assert!(slots.iter().all(|slot| self.slots.remove(&slot.0)), "freed twice");
                }
                member::Output::NewEpoch { epoch, .. } => {
                    let held: Vec<ReportedExtent> = self.member.held().copied().collect();
                    let fresh = held.iter().map(|extent| self.grant(extent.gid, extent.slot.0, extent.len)).collect();
                    self.member.regranted(now_ms, epoch, fresh);
                }
                member::Output::AskDone { request, result, .. } => self.answers.push((request, result)),
                member::Output::NodeLost { node, .. } => self.lost.push(node),
                member::Output::Recall { client, number, home } => self.recalls.push(Some((home, client, number))),
                member::Output::Recalled { client, number, recalled } => self.recalled.push((client, number, recalled)),
                member::Output::RecallAll => self.recalls.push(None),
                member::Output::Refused(_) => self.refused += 1,
                member::Output::Joined { .. } | member::Output::Home(_) => {}
            }
        }
        sent
    }
}

impl Pool {
    /// A pool of `count` nodes, all members; node 0 is the coordinator's own.
    fn new(count: usize) -> Pool {
        Pool::with(count, Settings::new("n0"))
    }

    fn with(count: usize, settings: Settings) -> Pool {
        let coordinator = Coordinator::new(settings.clone());
        let nodes = (0..count).map(|number| node(&format!("n{number}"), number as u128 + 1)).collect();
        let mut pool = Pool { now_ms: 0, settings, coordinator, journal: Vec::new(), nodes, peer_next: 0, gone: Vec::new() };
        for number in 0..count {
            pool.connect(number);
        }
        pool
    }

    fn connect(&mut self, number: usize) {
        self.nodes[number].peer = Some(Peer(self.peer_next));
        self.peer_next += 1;
        self.nodes[number].member.connected(self.now_ms, NEWEST);
        self.run();
    }

    /// The connection of a node closes; the process goes on.
    fn cut(&mut self, number: usize) {
        let peer = self.nodes[number].peer.take().expect("it was connected");
        self.nodes[number].member.disconnected();
        self.coordinator.disconnected(self.now_ms, peer, "connection reset");
        self.run();
    }

    /// The process of a node dies, and a new one starts under its name.
    fn restart_node(&mut self, number: usize, incarnation: u128) {
        self.cut(number);
        self.nodes[number] = node(&format!("n{number}"), incarnation);
        self.connect(number);
    }

    /// The same where the coordinator has seen the connection close.
    fn restart_node_of_a_closed_connection(&mut self, number: usize, incarnation: u128) {
        self.nodes[number] = node(&format!("n{number}"), incarnation);
        self.connect(number);
    }

    /// The coordinator's process dies, its node with it, and comes back with its journal.
    fn restart_coordinator(&mut self) {
        self.coordinator = Coordinator::restore(self.settings.clone(), self.journal.drain(..).collect::<Vec<_>>(), self.now_ms);
        let records = self.coordinator.snapshot();
        self.journal = records;
        for node in &mut self.nodes {
            node.peer = None;
            node.member.disconnected();
        }
        let incarnation = 1000 + self.peer_next as u128;
        self.nodes[0] = node("n0", incarnation);
    }

    /// Passes messages until none is left.
    fn run(&mut self) {
        loop {
            let mut quiet = true;
            while let Some(output) = self.coordinator.poll() {
                quiet = false;
                match output {
                    Output::Journal(record) => self.journal.push(record),
                    Output::Send(peer, message) => {
                        if let Some(node) = self.nodes.iter_mut().find(|node| node.peer == Some(peer)) {
                            node.member.handle(self.now_ms, message);
                        }
                    }
                    Output::NodeLost { .. } => {}
                    Output::JobRankGone { job, rank, .. } => self.gone.push((job, rank)),
                }
            }
            for node in &mut self.nodes {
                for message in node.drain(self.now_ms) {
                    quiet = false;
                    if let Some(peer) = node.peer {
                        self.coordinator.handle(self.now_ms, peer, message);
                    }
                }
            }
            if quiet {
                return;
            }
        }
    }

    /// Time passes for the coordinator and for all nodes but those named.
    fn pass(&mut self, ms: u64, stopped: &[usize]) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            self.now_ms = (self.now_ms + 100).min(end);
            self.coordinator.tick(self.now_ms);
            for (number, node) in self.nodes.iter_mut().enumerate() {
                if !stopped.contains(&number) {
                    node.member.tick(self.now_ms);
                }
            }
            self.run();
        }
    }

    fn ask(&mut self, number: usize, user: User, what: Request) -> u64 {
        let request = self.nodes[number].member.ask(self.now_ms, user, ClientId(1), what);
        self.run();
        request
    }

    fn answer(&mut self, number: usize, request: u64) -> Option<Result<Answer>> {
        let answers = &mut self.nodes[number].answers;
        let position = answers.iter().position(|(other, _)| *other == request)?;
        Some(answers.remove(position).1)
    }

    fn call(&mut self, number: usize, user: User, what: Request) -> Result<Answer> {
        let request = self.ask(number, user, what);
        self.answer(number, request).expect("answered at once")
    }

    fn create(&mut self, number: usize, name: &str, len: u64, placement: Placement) -> Result<RegionView> {
        view(self.call(number, OWNER, create(name, len, placement, false)))
    }

    fn open(&mut self, number: usize, name: &str) -> Result<RegionView> {
        view(self.call(number, OWNER, open(name)))
    }

    fn stat(&mut self, name: &str) -> Result<RegionStat> {
        self.call(0, OWNER, Request::Stat { name: name.to_owned() }).map(|answer| match answer {
            Answer::Stat(stat) => stat,
            other => panic!("{other:?}"),
        })
    }
}

fn create(name: &str, len: u64, placement: Placement, attach: bool) -> Request {
    let existing = if attach { Existing::Attach } else { Existing::Refuse };
    Request::Create { name: name.to_owned(), len, placement, copies: 1, mode: 0o600, attributes: Attributes::default(), existing }
}

fn open(name: &str) -> Request {
    Request::Open { which: Which::Name(name.to_owned()), rights: None }
}

fn remove(name: &str) -> Request {
    Request::Remove { name: name.to_owned() }
}

fn view(answer: Result<Answer>) -> Result<RegionView> {
    answer.map(|answer| match answer {
        Answer::Region(view) => view,
        other => panic!("{other:?}"),
    })
}

#[test]
// FEATURE: RF-F4
fn a_region_is_created_opened_and_removed() {
    let mut pool = Pool::new(2);
    let made = pool.create(1, "a", 10_000, Placement::Local).unwrap();
    assert_eq!((made.made, made.rights, made.layout.len()), (Made::New, Rights::Write, 10_000));
    assert_eq!(made.layout.extents().map(|extent| extent.node).collect::<Vec<_>>(), [NodeId(1)]);
    let opened = pool.open(0, "a").unwrap();
    assert_eq!((opened.gid, opened.made, opened.grants), (made.gid, Made::Found, made.grants));
    assert!(matches!(pool.create(0, "a", 10_000, Placement::Local), Err(Error::NameTaken { len: 10_000, .. })));
    assert_eq!(pool.call(0, OWNER, remove("a")), Ok(Answer::Ok));
    assert!(pool.nodes[1].slots.is_empty(), "its memory is free again");
    assert!(matches!(pool.open(0, "a"), Err(Error::UnknownRegion { .. })));
    let again = pool.create(1, "a", 1, Placement::Local).unwrap();
    assert!(again.gid > made.gid, "a GID is used once");
}

#[test]
fn bytes_go_where_the_placement_says_or_are_refused() {
    let mut pool = Pool::new(3);
    let view = pool.create(0, "a", 9 * 4096, Placement::Interleave(4096)).unwrap();
    assert_eq!(view.layout.extents().map(|extent| extent.len).collect::<Vec<_>>(), [3 * 4096; 3]);
    assert_eq!(view.nodes.len(), 3);
    let full = pool.create(0, "b", 1 << 20, Placement::Node(NodeId(2)));
    assert_eq!(full, Err(Error::PoolFull { asked: 1 << 20, free: (1 << 20) - 3 * 4096, withheld: 0 }));
    assert!(pool.create(0, "b", (1 << 20) - 3 * 4096, Placement::Node(NodeId(2))).is_ok());
    assert!(matches!(pool.create(0, "c", 1, Placement::Node(NodeId(9))), Err(Error::BadPlacement { .. })));
    assert!(matches!(pool.create(0, "c", 1, Placement::Interleave(100)), Err(Error::BadPlacement { .. })));
    assert!(matches!(pool.create(0, "c", 0, Placement::Local), Err(Error::BadLength { .. })));
    assert!(matches!(pool.create(0, "c/d", 1, Placement::Local), Err(Error::BadName { .. })));
    assert!(matches!(pool.create(0, "c", u64::MAX, Placement::Interleave(4096)), Err(Error::PoolFull { .. })));
}

#[test]
fn nodes_that_say_they_lend_everything_break_no_sum() {
    let mut pool = Pool::new(3);
    for node in &mut pool.nodes {
        node.member.set_memory(Memory {
            lent: u64::MAX,
            lent_max: u64::MAX,
            given_back: u64::MAX,
            populated: u64::MAX,
            used: u64::MAX,
            page: 4096,
            clients: u32::MAX,
            ..Memory::default()
        });
    }
    pool.pass(2000, &[]);
    for chunk in [1 << 12, 1 << 62, 1 << 63] {
        let refused = pool.create(0, "all", u64::MAX, Placement::Interleave(chunk));
        assert!(matches!(refused, Err(Error::LimitReached { limit: REGION_LEN_MAX, .. })), "{refused:?}");
        let made = pool.create(0, &format!("chunk{chunk}"), 9000, Placement::Interleave(chunk)).unwrap();
        assert_eq!(made.layout.check(), Ok(()));
    }
    assert!(matches!(pool.create(0, "all", REGION_LEN_MAX + 1, Placement::Local), Err(Error::LimitReached { .. })));
    assert!(pool.create(0, "all", REGION_LEN_MAX, Placement::Local).is_ok());
}

#[test]
fn a_resize_appends_and_never_shrinks() {
    let mut pool = Pool::new(2);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    let resize = |len| Request::Resize { name: "a".to_owned(), len };
    let longer = view(pool.call(0, OWNER, resize(10_000))).unwrap();
    assert_eq!((longer.layout.len(), longer.layout.spans.len(), longer.grants.len()), (10_000, 2, 2));
    assert!(longer.layout.extents().all(|extent| extent.node == NodeId(1)), "local means the node it was made on");
    assert!(matches!(pool.call(0, OWNER, resize(9_999)), Err(Error::BadLength { .. })));
    assert_eq!(view(pool.call(0, OWNER, resize(10_000))).unwrap().layout, longer.layout);
    assert!(matches!(pool.call(0, OTHER, resize(20_000)), Err(Error::NoPermission { .. })));
    assert_eq!(pool.coordinator.used(OWNER.uid), 10_000);
}

#[test]
// FEATURE: EU-F26
fn a_quota_counts_each_users_bytes() {
    let mut pool = Pool::with(1, Settings { quota: Some(10_000), ..Settings::new("n0") });
    pool.create(0, "a", 6_000, Placement::Local).unwrap();
    let refused = pool.create(0, "b", 4_001, Placement::Local);
    assert_eq!(refused, Err(Error::QuotaExceeded { uid: 10, asked: 4_001, used: 6_000, limit: 10_000 }));
    assert!(view(pool.call(0, OTHER, create("c", 10_000, Placement::Local, false))).is_ok());
    pool.call(0, OWNER, remove("a")).unwrap();
    assert!(pool.create(0, "b", 10_000, Placement::Local).is_ok());
}

#[test]
fn who_may_not_is_told_so() {
    let mut pool = Pool::new(1);
    pool.create(0, "a", 1, Placement::Local).unwrap();
    assert!(matches!(view(pool.call(0, OTHER, open("a"))), Err(Error::NoPermission { uid: 11, owner: 10, .. })));
    assert!(matches!(pool.call(0, OTHER, remove("a")), Err(Error::NoPermission { .. })));
    assert!(view(pool.call(0, User { uid: 0, gid: 0 }, open("a"))).is_ok());
}

#[test]
fn create_or_attach_waits_for_a_region_that_is_being_made() {
    let mut pool = Pool::new(2);
    pool.nodes[1].makes = None;
    let first = pool.ask(0, OWNER, create("a", 100, Placement::Node(NodeId(1)), true));
    let second = pool.ask(0, OWNER, create("a", 100, Placement::Node(NodeId(1)), true));
    let opening = pool.ask(0, OWNER, open("a"));
    assert_eq!(pool.answer(0, second), None);
    let order = pool.coordinator.orders.of(NodeId(1)).next().unwrap().0;
    pool.nodes[1].makes = Some(Ok(()));
    let gid = *pool.coordinator.growths.keys().next().unwrap();
    pool.nodes[1].make(order, gid, &[100]);
    pool.run();
    let views: Vec<_> = [first, second, opening].into_iter().map(|ask| view(pool.answer(0, ask).unwrap()).unwrap()).collect();
    assert_eq!(views.iter().map(|view| view.made).collect::<Vec<_>>(), [Made::New, Made::Found, Made::Found]);
    assert!(views.iter().all(|view| view.gid == gid));
    let wrong = pool.call(0, OWNER, create("a", 101, Placement::Local, true));
    assert!(matches!(wrong, Err(Error::BadLength { .. })));
}

#[test]
fn a_create_whose_node_dies_half_way_is_undone() {
    let mut pool = Pool::new(3);
    pool.nodes[2].makes = None;
    let ask = pool.ask(0, OWNER, create("a", 3 * 4096, Placement::Interleave(4096), false));
    assert_eq!(pool.nodes[1].slots.len(), 1);
    pool.cut(2);
    assert!(matches!(pool.answer(0, ask), Some(Err(Error::NodeLost { node: NodeId(2), .. }))));
    assert!(pool.nodes.iter().all(|node| node.slots.is_empty()), "what was made is freed");
    assert_eq!(pool.nodes[1].lost, [NodeId(2)]);
    assert!(matches!(pool.stat("a"), Err(Error::UnknownRegion { .. })));
    assert!(pool.create(0, "a", 2 * 4096, Placement::Interleave(4096)).is_ok(), "its name is free");
}

#[test]
fn a_node_that_refuses_or_dawdles_ends_the_create_and_late_extents_are_freed() {
    let mut pool = Pool::new(2);
    pool.nodes[1].makes = Some(Err(Error::PoolFull { asked: 4096, free: 0, withheld: 0 }));
    let refused = pool.create(0, "a", 2 * 4096, Placement::Interleave(4096));
    assert_eq!(refused, Err(Error::PoolFull { asked: 4096, free: 0, withheld: 0 }));
    assert!(pool.nodes[0].slots.is_empty());
    pool.nodes[1].makes = None;
    let ask = pool.ask(0, OWNER, create("a", 4096, Placement::Node(NodeId(1)), false));
    let order = pool.coordinator.orders.of(NodeId(1)).next().unwrap().0;
    let gid = *pool.coordinator.growths.keys().next().unwrap();
    pool.pass(limits::MAKE_MS + 100, &[]);
    assert!(matches!(pool.answer(0, ask), Some(Err(Error::Timeout { .. }))));
    pool.nodes[1].makes = Some(Ok(()));
    pool.nodes[1].make(order, gid, &[4096]);
    pool.run();
    assert!(pool.nodes[1].slots.is_empty());
}

#[test]
fn a_silent_node_is_lost_for_now_and_comes_back_with_its_bytes_and_new_grants() {
    let mut pool = Pool::new(2);
    let made = pool.create(1, "a", 100, Placement::Local).unwrap();
    pool.pass(limits::LEASE_MS + limits::REPEAT_MS, &[1]);
    assert!(matches!(pool.open(0, "a"), Err(Error::NodeLost { node: NodeId(1), .. })));
    assert_eq!(pool.stat("a").unwrap().lost, None, "its bytes may come back");
    pool.pass(2_000, &[]);
    let opened = pool.open(0, "a").unwrap();
    assert_eq!(opened.layout, made.layout);
    assert_ne!(opened.grants, made.grants, "grants of the old epoch fail");
    assert_eq!(opened.nodes[0].epoch, Epoch(2));
    assert_eq!(pool.nodes[0].lost, [NodeId(1)]);
}

#[test]
fn a_connection_that_comes_back_within_a_lease_brings_the_bytes_one_that_does_not_loses_them() {
    let mut pool = Pool::new(2);
    pool.create(1, "a", 100, Placement::Local).unwrap();
    pool.cut(1);
    assert!(matches!(pool.open(0, "a"), Err(Error::NodeLost { .. })), "it may be the network");
    pool.connect(1);
    assert!(pool.open(0, "a").is_ok());
    pool.cut(1);
    pool.pass(limits::LEASE_MS, &[1]);
    assert!(matches!(pool.open(0, "a"), Err(Error::RegionLost { node: NodeId(1), .. })));
    assert_eq!(pool.stat("a").unwrap().lost, Some(NodeId(1)));
    pool.connect(1);
    assert!(pool.open(0, "a").is_ok(), "the same life has the same bytes");
}

#[test]
fn a_new_life_of_a_node_loses_its_regions_until_they_are_removed() {
    let mut pool = Pool::new(2);
    pool.create(1, "a", 100, Placement::Local).unwrap();
    pool.restart_node(1, 77);
    assert!(matches!(pool.open(0, "a"), Err(Error::RegionLost { node: NodeId(1), .. })));
    assert!(matches!(pool.create(0, "a", 100, Placement::Local), Err(Error::NameTaken { .. })), "never zeros in its place");
    assert_eq!(pool.coordinator.used(OWNER.uid), 100);
    assert_eq!(pool.call(0, OWNER, remove("a")), Ok(Answer::Ok));
    assert!(pool.create(1, "a", 1 << 20, Placement::Local).is_ok(), "the new life's memory is whole");
}

#[test]
fn two_live_nodes_cannot_have_one_name() {
    let mut pool = Pool::new(2);
    pool.create(1, "a", 100, Placement::Local).unwrap();
    pool.nodes.push(node("n1", 99));
    pool.connect(2);
    assert_eq!((pool.nodes[2].refused, pool.nodes[2].member.phase()), (1, member::Phase::Joining));
    assert!(pool.open(0, "a").is_ok());
}

#[test]
// FEATURE: EU-F26
fn a_restarted_coordinator_knows_what_it_acknowledged_and_nodes_resume() {
    let mut pool = Pool::new(3);
    let made = pool.create(1, "a", 8192, Placement::Node(NodeId(1))).unwrap();
    let both = pool.create(0, "b", 8192, Placement::Interleave(4096)).unwrap();
    pool.call(1, OWNER, create("c", 10, Placement::Local, false)).unwrap();
    pool.call(1, OWNER, remove("c")).unwrap();
    pool.restart_coordinator();
    pool.connect(0);
    let opening = pool.ask(0, OWNER, open("a"));
    assert_eq!(pool.answer(0, opening), None, "it waits for the node to come back");
    pool.connect(1);
    let opened = view(pool.answer(0, opening).unwrap()).unwrap();
    assert_eq!((opened.gid, opened.grants), (made.gid, made.grants), "the node kept its epoch");
    assert!(matches!(pool.stat("c"), Err(Error::UnknownRegion { .. })));
    pool.connect(2);
    assert!(both.layout.extents().any(|extent| extent.node == NodeId(0)) == pool.stat("b").unwrap().lost.is_some());
    assert!(pool.create(1, "d", 1, Placement::Local).unwrap().gid > both.gid);
}

#[test]
fn a_coordinator_at_another_node_goes_on_and_the_node_keeps_its_number() {
    let mut pool = Pool::new(3);
    let made = pool.create(1, "a", 8192, Placement::Node(NodeId(1))).unwrap();
    pool.create(0, "b", 8192, Placement::Node(NodeId(0))).unwrap();
    // The process of node 0 dies; node 1, which lives, restores the coordinator.
    pool.settings = Settings { home_life: Some(Incarnation(2)), ..Settings::new("n1") };
    pool.restart_coordinator();
    pool.connect(2);
    assert_ne!(pool.nodes[2].member.phase(), member::Phase::Member, "the coordinator's own node comes first");
    pool.connect(1);
    assert_eq!(pool.nodes[1].member.identity(), Some((NodeId(1), Epoch(1))));
    pool.pass(limits::REPEAT_MS, &[0]);
    assert_eq!(pool.nodes[2].member.home().map(|home| home.node), Some(NodeId(1)));
    let opening = pool.ask(2, OWNER, open("a"));
    assert_eq!(view(pool.answer(2, opening).unwrap()).unwrap().grants, made.grants, "the node kept its epoch");
    // The coordinator's node has no lease, the other one has.
    pool.pass(3 * limits::LEASE_MS, &[0, 1]);
    assert_eq!(pool.nodes[2].lost, [NodeId(0)]);
    // Node 0 comes back with another life, as a node like others.
    pool.connect(0);
    assert_eq!(pool.nodes[0].member.identity().map(|(node, _)| node), Some(NodeId(0)));
    assert_eq!(pool.nodes[0].member.home().map(|home| home.node), Some(NodeId(1)));
    assert!(matches!(pool.call(2, OWNER, open("b")), Err(Error::RegionLost { .. })));
    assert_ne!(pool.create(2, "c", 8192, Placement::Local).unwrap().gid, made.gid);
}

#[test]
fn a_create_that_was_carried_out_before_the_restart_is_not_refused_as_taken() {
    let mut pool = Pool::new(2);
    pool.nodes[1].answers.clear();
    let message = FromNode::Ask {
        request: 70,
        settled: 0,
        user: OWNER.into(),
        client: ClientId(1),
        what: create("a", 100, Placement::Local, false),
    };
    let ask = |pool: &mut Pool| {
        let peer = pool.nodes[1].peer.unwrap();
        pool.coordinator.handle(pool.now_ms, peer, message.clone());
        let mut replies = Vec::new();
        while let Some(output) = pool.coordinator.poll() {
            match output {
                Output::Send(to, ToNode::Reply { request: 70, result }) if to == peer => replies.push(result),
                Output::Send(to, message) => {
                    let node = pool.nodes.iter_mut().find(|node| node.peer == Some(to)).unwrap();
                    node.member.handle(pool.now_ms, message);
                    for message in node.drain(pool.now_ms) {
                        pool.coordinator.handle(pool.now_ms, to, message);
                    }
                }
                Output::Journal(record) => pool.journal.push(record),
                _ => {}
            }
        }
        replies
    };
    let first = ask(&mut pool);
    pool.restart_coordinator();
    pool.connect(0);
    pool.connect(1);
    let second = ask(&mut pool);
    assert_eq!((first.len(), &first), (1, &second));
    assert_eq!(view(second[0].clone()).unwrap().made, Made::New);
}

#[test]
fn extents_of_a_create_that_died_with_the_coordinator_are_freed() {
    let mut pool = Pool::new(3);
    pool.nodes[2].makes = None;
    let ask = pool.ask(1, OWNER, create("a", 3 * 4096, Placement::Interleave(4096), false));
    assert_eq!(pool.nodes[1].slots.len(), 1);
    pool.restart_coordinator();
    (0..3).for_each(|number| pool.connect(number));
    pool.nodes[2].makes = Some(Ok(()));
    pool.pass(2_000, &[]);
    assert!(view(pool.answer(1, ask).unwrap()).is_ok(), "the node asked again");
    assert_eq!(pool.nodes.iter().map(|node| node.slots.len()).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_node_that_leaves_is_lost_with_its_regions_at_once() {
    let mut pool = Pool::new(2);
    pool.create(1, "a", 100, Placement::Local).unwrap();
    pool.nodes[1].member.leave(false);
    pool.run();
    assert_eq!(pool.nodes[0].lost, [NodeId(1)]);
    assert!(matches!(pool.open(0, "a"), Err(Error::RegionLost { .. })));
}

#[test]
fn ranks_go_with_their_clients_and_with_their_node() {
    let mut pool = Pool::new(2);
    let job = |rank| JobRank { job: JobId(5), rank: Rank(rank), ranks: 2 };
    pool.nodes[0].member.client_came(pool.now_ms, ClientId(1), job(0));
    pool.nodes[1].member.client_came(pool.now_ms, ClientId(1 << 32), job(1));
    pool.run();
    pool.nodes[0].member.client_gone(pool.now_ms, ClientId(1), job(0), "exit status 1", true);
    pool.run();
    assert_eq!(pool.gone, [(JobId(5), Rank(0))]);
    pool.cut(1);
    assert_eq!(pool.gone, [(JobId(5), Rank(0)), (JobId(5), Rank(1))]);
}

#[test]
fn the_next_coordinator_is_told_of_ranks_that_are_gone_and_of_those_that_are_there() {
    let mut pool = Pool::new(3);
    let job = |rank| JobRank { job: JobId(5), rank: Rank(rank), ranks: 3 };
    let clients = [ClientId::at(NodeId(1), 1), ClientId::at(NodeId(1), 2), ClientId::at(NodeId(2), 1)];
    pool.nodes[1].member.client_came(0, clients[0], job(0));
    pool.nodes[1].member.client_came(0, clients[1], job(1));
    pool.nodes[2].member.client_came(0, clients[2], job(2));
    pool.run();
    pool.nodes[1].member.client_gone(0, clients[0], job(0), "killed by signal 9", true);
    pool.run();
    for _ in 0..2 {
        pool.gone.clear();
        pool.restart_coordinator();
        (0..3).for_each(|node| pool.connect(node));
        assert_eq!(pool.gone, [(JobId(5), Rank(0))]);
    }
    pool.cut(2);
    assert_eq!(pool.gone, [(JobId(5), Rank(0)), (JobId(5), Rank(2))]);
}

#[test]
fn listings_come_in_pages_by_name() {
    let mut pool = Pool::new(1);
    for name in ["b", "c", "a"] {
        pool.create(0, name, 10, Placement::Local).unwrap();
    }
    let Ok(Answer::List { regions, more }) = pool.call(0, OWNER, Request::List { after: "a".to_owned() }) else { panic!() };
    assert_eq!((regions.iter().map(|region| region.name.as_str()).collect::<Vec<_>>(), more), (vec!["b", "c"], false));
    let Ok(Answer::Status(status)) = pool.call(0, OWNER, Request::Status) else { panic!() };
    assert_eq!((status.regions, status.nodes.len(), status.nodes[0].alive), (3, 1, true));
}

#[test]
fn a_node_without_a_coordinator_keeps_its_extents_and_gives_up_requests_in_time() {
    let mut pool = Pool::new(2);
    pool.create(1, "a", 100, Placement::Local).unwrap();
    pool.cut(1);
    let ask = pool.ask(1, OWNER, open("a"));
    pool.pass(limits::ANSWER_MS - 100, &[]);
    assert_eq!(pool.answer(1, ask), None);
    pool.pass(100, &[]);
    assert!(matches!(pool.answer(1, ask), Some(Err(Error::NoCoordinator { .. }))));
    assert_eq!(pool.nodes[1].slots.len(), 1);
}

#[test]
fn an_order_to_free_that_is_repeated_after_a_resume_never_frees_its_slots_next_extent() {
    let mut pool = Pool::new(2);
    pool.create(1, "a", 100, Placement::Local).unwrap();
    // The order is lost on its way; the node resumes; the order is repeated.
    let peer = pool.nodes[1].peer.take();
    pool.ask(0, OWNER, remove("a"));
    pool.nodes[1].peer = peer;
    pool.nodes[1].member.handle(pool.now_ms, ToNode::Unknown);
    pool.run();
    assert_eq!(pool.nodes[1].slots.len(), 1, "the welcome leaves it to the order");
    pool.pass(limits::REPEAT_MS + 100, &[]);
    assert!(pool.nodes[1].slots.is_empty());
}

#[test]
fn a_node_that_resumes_keeps_its_part_of_a_region_whose_other_parts_are_still_being_made() {
    let mut pool = Pool::new(3);
    pool.nodes[2].makes = None;
    let ask = pool.ask(0, OWNER, create("a", 3 * 4096, Placement::Interleave(4096), false));
    pool.nodes[1].member.handle(pool.now_ms, ToNode::Unknown);
    pool.run();
    let (order, gid) =
        (pool.coordinator.orders.of(NodeId(2)).next().unwrap().0, *pool.coordinator.growths.keys().next().unwrap());
    pool.nodes[2].makes = Some(Ok(()));
    pool.nodes[2].make(order, gid, &[4096]);
    pool.run();
    assert!(view(pool.answer(0, ask).unwrap()).is_ok());
    assert_eq!(pool.nodes.iter().map(|node| node.slots.len()).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_coordinator_that_was_stopped_itself_blames_nobody_for_it() {
    let mut pool = Pool::new(2);
    pool.create(1, "a", 100, Placement::Local).unwrap();
    pool.now_ms += 60_000;
    pool.coordinator.tick(pool.now_ms);
    assert!(pool.open(0, "a").is_ok());
    pool.pass(limits::LEASE_MS + limits::REPEAT_MS, &[1]);
    assert!(matches!(pool.open(0, "a"), Err(Error::NodeLost { node: NodeId(1), .. })), "a node that stays silent is lost");
}

/// A stall of two thirds of a lease, at any moment between two renewals, and the renewals of that time unread until after the tick.
#[test]
fn a_coordinator_that_stood_still_for_a_part_of_a_lease_loses_nobody_either() {
    for (begin_ms, stall_ms) in (0..=limits::REPEAT_MS)
        .step_by(100)
        .flat_map(|begin| (limits::REPEAT_MS..=limits::LEASE_MS).step_by(100).map(move |stall| (begin, stall)))
    {
        let mut pool = Pool::new(2);
        pool.create(1, "a", 100, Placement::Local).unwrap();
        pool.pass(limits::REPEAT_MS + begin_ms, &[]);
        let epochs: Vec<_> = pool.coordinator.nodes().map(|node| node.epoch).collect();
        pool.now_ms += stall_ms;
        // As a node's thread does: time first, then what others sent meanwhile.
        pool.nodes[0].member.tick(pool.now_ms);
        pool.coordinator.tick(pool.now_ms);
        pool.pass(limits::REPEAT_MS, &[]);
        let after: Vec<_> = pool.coordinator.nodes().map(|node| (node.epoch, node.ended)).collect();
        let before: Vec<_> = epochs.into_iter().map(|epoch| (epoch, None)).collect();
        assert_eq!(after, before, "stood still for {stall_ms} ms, {begin_ms} ms after a renewal");
    }
}

#[test]
fn the_coordinators_own_node_is_a_member_as_long_as_the_coordinator_runs() {
    let mut pool = Pool::new(2);
    // Its renewals do not come; ticks do.
    pool.pass(10 * limits::LEASE_MS, &[0]);
    assert!(pool.coordinator.nodes().all(|node| node.ended.is_none()), "{:?}", pool.coordinator.nodes().collect::<Vec<_>>());
}

#[test]
fn nodes_have_the_numbers_that_they_wish_where_those_are_free() {
    let mut pool = Pool::new(1);
    for (name, wish, number) in
        [("c", 3, 3), ("b", 2, 2), ("again", 2, 4), ("home", 0, 5), ("far", limits::NODE_COUNT_MAX as u32, 6), ("a", 1, 1)]
    {
        let wish = Some(NodeId(wish));
        let settings = member::Settings { wish, ..member::Settings::new(Incarnation(100 + number as u128), name, "127.0.0.1:1") };
        pool.nodes.push(Node { member: Member::new(settings), ..node(name, 0) });
        pool.connect(pool.nodes.len() - 1);
        assert_eq!(pool.nodes.last().unwrap().member.identity().unwrap().0, NodeId(number), "{name}");
    }
}

#[test]
fn a_lock_that_is_lent_is_asked_for_by_its_home_at_its_clients_node_which_alone_answers() {
    let mut pool = Pool::new(4);
    let client = ClientId::at(NodeId(1), 7);
    // The pool's home, and another of locks.
    for home in [0, 3] {
        pool.nodes.iter_mut().for_each(|node| node.recalls.clear());
        pool.nodes[home].member.recall_lock(client, 5);
        pool.run();
        let asked = Some((NodeId(home as u32), client, 5));
        assert_eq!((&*pool.nodes[1].recalls, &*pool.nodes[2].recalls), (&[asked][..], &[][..]));
        for number in [2, 1] {
            pool.nodes[number].member.recalled(NodeId(home as u32), client, 5, Recalled::Kept);
            pool.run();
        }
        let heard: Vec<_> = pool.nodes.iter_mut().map(|node| std::mem::take(&mut node.recalled)).collect();
        assert_eq!(heard[home], [(client, 5, Recalled::Kept)], "another node knows nothing of it");
        assert_eq!(heard.concat().len(), 1, "nobody else hears of it");
    }
    // Leases hold as long as the node is a member, and no longer than it can be sure of that.
    let now_ms = pool.now_ms;
    let until = |pool: &Pool, number: usize| pool.nodes[number].member.leases_until_ms(now_ms);
    assert!((now_ms + 1..=now_ms + limits::LEASE_MS).contains(&until(&pool, 1)));
    assert!(until(&pool, 0) <= now_ms + limits::LEASE_MS, "the home may die, too");
    pool.cut(1);
    assert_eq!((until(&pool, 1), pool.nodes[1].recalls.last()), (0, Some(&None)));
    pool.nodes[3].member.recall_lock(client, 6);
    pool.run();
    assert_eq!(pool.nodes[1].recalls.last(), Some(&None), "it is asked again when it is back");
}

/// The kernel waits the longer before it sends the first again, the more are under way.
#[test]
fn renewals_that_are_not_answered_do_not_pile_up_and_answered_ones_go_on_soon() {
    let mut pool = Pool::new(2);
    let renewals = |pool: &mut Pool, is_answered: bool| {
        let mut count = 0;
        for _ in 0..limits::OUTAGE_MS / 50 {
            pool.now_ms += 50;
            pool.nodes[1].member.tick(pool.now_ms);
            for message in pool.nodes[1].drain(pool.now_ms) {
                count += u64::from(matches!(message, FromNode::Renew { .. }));
                if let FromNode::Renew { epoch, .. } = message
                    && is_answered
                {
                    pool.nodes[1].member.handle(pool.now_ms, ToNode::Renewed { epoch });
                }
            }
        }
        count
    };
    assert_eq!(renewals(&mut pool, true), limits::OUTAGE_MS / limits::RENEW_MS);
    assert!(renewals(&mut pool, false) <= 1 + limits::OUTAGE_MS / limits::REPEAT_MS);
}
