//! A node's side of membership. It decides whether the node is a member, which extents it keeps, and which client gets which reply.
//!
//! ```text
//!            Welcome (nothing to grant anew)
//!   Joining ---------------------------------> Member <--+ Renewed
//!      |                                        |  ^
//!      |            LeaseEnds, Disconnected,    |  | Welcome
//!      | WelcomeAnew            Unknown         v  |
//!      +------------> Regranting <----------- Lapsed
//!                         |     WelcomeAnew     ^
//!                         +---------------------+
//!                           Regranted, LeaseEnds, Disconnected, Unknown
//! ```
//!
//! (`Leave` leads from every state to `Left`.)
//!
//! - `Lapsed`: the coordinator is away, or was. Extents stay, grants of the epoch stay valid, data goes on; only naming waits.
//! - `Regranting`: the coordinator gave a new epoch, because it had reported the old one's end. The driver makes new grants for the extents
//!   that are kept ([`Output::NewEpoch`]) and gives them back ([`Member::regranted`]). Then the node joins again, and its `held` list
//!   carries the fresh grants. No other message carries grants than `Join` and `Obeyed`.
//! - Only members obey orders. A welcome judges exactly the extents that its own join listed. It never frees an extent that was made after
//!   that list was sent.
//!
//! The driver has one connection to the coordinator at a time ([`Member::connected`], [`Member::disconnected`]) and acts on outputs
//! in order.

mod asks;
mod clients;
mod orders;

use crate::copies::HolderSet;
use crate::error::{Error, Result};
use crate::id::{Asker, ClientId, Epoch, Gid, Incarnation, JobRank, NodeId, Slot};
use crate::limits;
use crate::lock::Recalled;
use crate::table::{self, Row};
use crate::usage::UsedElsewhere;
use crate::versions::OLDEST;
use crate::wire::control::{
    Answer, FromNode, Memory, NodeAddress, NodeJoin, NodeStatus, Order, OwnStatus, PERSISTS_SINCE, ReportedExtent, Request,
    ToNode,
};
use crate::wire::copies::{CopiedExtent, FromHolder, ToHolder};
use asks::{ForwardedRequests, GivenUp};
use clients::Clients;
use orders::{OrderArrival, ReceivedOrders};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The states of a node's membership, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Never welcomed in this life.
    Joining,
    /// Its lease holds.
    Member,
    /// The node has a new epoch, for which its extents have no grants yet.
    Regranting,
    /// The node was a member and asks to be one again.
    Lapsed,
    /// The node went in good order.
    Left,
}

/// An event of a node's membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The coordinator takes it in, and its grants are of the epoch.
    Welcome,
    /// The coordinator takes it in, in an epoch for which it must grant its extents anew.
    WelcomeAnew,
    /// Its extents are granted anew.
    Regranted,
    /// Its lease is kept.
    Renewed,
    /// Its lease ends by its own clock.
    LeaseEnds,
    /// The connection to the coordinator closes.
    Disconnected,
    /// The coordinator does not know it.
    Unknown,
    /// The node goes.
    Leave,
}

/// Every transition of a node's membership.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Welcome, from: &[Phase::Joining, Phase::Lapsed], to: Phase::Member },
    Row { event: Event::WelcomeAnew, from: &[Phase::Joining, Phase::Lapsed], to: Phase::Regranting },
    Row { event: Event::Regranted, from: &[Phase::Regranting], to: Phase::Lapsed },
    Row { event: Event::Renewed, from: &[Phase::Member], to: Phase::Member },
    Row { event: Event::LeaseEnds, from: &[Phase::Member, Phase::Regranting], to: Phase::Lapsed },
    Row { event: Event::Disconnected, from: &[Phase::Member, Phase::Regranting], to: Phase::Lapsed },
    Row { event: Event::Unknown, from: &[Phase::Member, Phase::Regranting], to: Phase::Lapsed },
    Row { event: Event::Leave, from: &[Phase::Joining, Phase::Member, Phase::Regranting, Phase::Lapsed], to: Phase::Left },
];

/// Settings of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The process's life: random.
    pub incarnation: Incarnation,
    /// Its name, the same in every life.
    pub name: String,
    /// Address for others.
    pub address: String,
    /// The number that it would have in its pool, if that is free.
    pub wish: Option<NodeId>,
    /// The life whose extents it brings ([`Member::with_extents`]).
    pub restores: Option<Incarnation>,
    /// True if it writes down what it holds, for its next life.
    pub persists: bool,
    /// Time to wait for a reply of the coordinator, in milliseconds.
    pub answer_ms: u64,
    /// After how many milliseconds something unanswered is sent again.
    pub repeat_ms: u64,
}

impl Settings {
    /// The defaults of [`limits`].
    pub fn new(incarnation: Incarnation, name: &str, address: &str) -> Settings {
        let (name, address) = (name.to_owned(), address.to_owned());
        Settings {
            incarnation,
            name,
            address,
            wish: None,
            restores: None,
            persists: false,
            answer_ms: limits::ANSWER_MS,
            repeat_ms: limits::REPEAT_MS,
        }
    }
}

/// An action for the node's driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send to the coordinator.
    Send(FromNode),
    /// Make extents, all or none, with grants of the present epoch, and call [`Member::made`].
    Make {
        /// The order's number.
        order: u64,
        /// The region.
        gid: Gid,
        /// Their lengths in bytes.
        lens: Vec<u64>,
        /// See [`Order::Make`].
        copied: Option<(CopiedExtent, HolderSet)>,
    },
    /// Make extents ready for copies, or end that, and call [`Member::made_ready`]. A lost connection to the coordinator, or a new epoch, ends it undone.
    MakeReady {
        /// The order's number.
        order: u64,
        /// The region.
        gid: Gid,
        /// Their first holders: this node alone. See [`Order::MakeReady`].
        set: Option<HolderSet>,
        /// Their names and slots.
        extents: Vec<(CopiedExtent, Slot)>,
    },
    /// The coordinator's message on an extent with copies.
    Holder {
        /// The extent.
        extent: CopiedExtent,
        /// Addresses of the nodes that the message names.
        nodes: Vec<NodeAddress>,
        /// The message.
        message: ToHolder,
    },
    /// Free extents: their grants fail from here on, and their memory is wiped before anybody gets it.
    Free {
        /// Their slots.
        slots: Vec<Slot>,
    },
    /// The node has this number and epoch: grants of any other epoch fail from here on. Make new grants for the extents that it still holds
    /// and call [`Member::regranted`]. If it holds none, no call is needed.
    NewEpoch {
        /// The node's number.
        node: NodeId,
        /// Its epoch.
        epoch: Epoch,
        /// The extents it still holds.
        held: Vec<Slot>,
    },
    /// The node is a member, at first or again.
    Joined {
        /// Its number.
        node: NodeId,
        /// Its epoch.
        epoch: Epoch,
        /// Bytes that each user may have in the pool; `None` for no limit.
        quota: Option<u64>,
    },
    /// The coordinator refuses the node as things are; it goes on asking.
    Refused(Error),
    /// A request has its answer.
    AskDone {
        /// Its number.
        request: u64,
        /// The requesting client.
        client: ClientId,
        /// The request's result.
        result: Result<Answer>,
    },
    /// Address of the coordinator's own node.
    Home(NodeAddress),
    /// Another node's epoch ended.
    NodeLost {
        /// The node.
        node: NodeId,
        /// The epoch that ended.
        epoch: Epoch,
        /// The sign by which it was noticed.
        reason: String,
    },
    /// A lock's home wants it back, and it is leased to a client here. Look at its word, and call [`Member::recalled`].
    Recall {
        /// The client.
        client: ClientId,
        /// Its number of the taking.
        number: u64,
        /// The home.
        home: NodeId,
    },
    /// A client's node reports whether the client has a lock that [`Member::recall_lock`] asked for.
    Recalled {
        /// The client.
        client: ClientId,
        /// Its number of the taking.
        number: u64,
        /// The node's report.
        recalled: Recalled,
    },
    /// The node is no member any more: no client may take a lock again that is lent to it.
    RecallAll,
}

/// State of the membership, with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Joining,
    Member { lease_until_ms: u64 },
    Regranting { lease_until_ms: u64 },
    Lapsed,
    Left,
}

/// A list of extents that was sent with a join and not judged yet.
#[derive(Clone, Debug)]
struct Attempt {
    held: Vec<ReportedExtent>,
    sent_ms: u64,
}

/// A node's membership. See the module.
///
/// - `was` is the number and epoch that the grants in `held` are of.
/// - `held` are all extents that exist at the node, but those being made.
#[derive(Clone, Debug)]
pub struct Member {
    settings: Settings,
    state: State,
    is_connected: bool,
    /// Version of the wire that the coordinator and this node speak.
    spoken: u32,
    was: Option<(NodeId, Epoch)>,
    /// The epoch that is being granted for.
    next: Option<(NodeId, Epoch)>,
    held: BTreeMap<Slot, ReportedExtent>,
    attempts: u64,
    attempt: Option<Attempt>,
    lease_ms: u64,
    renew_sent_ms: Option<u64>,
    /// When the renewal that the lease was last counted from was sent.
    renew_first_ms: Option<u64>,
    memory: Memory,
    orders: ReceivedOrders,
    asks: ForwardedRequests,
    clients: Clients,
    home: Option<NodeAddress>,
    /// Bytes that each user may have in the pool.
    quota: Option<u64>,
    outputs: VecDeque<Output>,
}

impl Member {
    /// A node that is about to join.
    pub fn new(settings: Settings) -> Member {
        Member {
            settings,
            state: State::Joining,
            is_connected: false,
            spoken: OLDEST,
            was: None,
            next: None,
            held: BTreeMap::new(),
            attempts: 0,
            attempt: None,
            lease_ms: limits::LEASE_MS,
            renew_sent_ms: None,
            renew_first_ms: None,
            memory: Memory::default(),
            orders: ReceivedOrders::default(),
            asks: ForwardedRequests::default(),
            clients: Clients::default(),
            home: None,
            quota: None,
            outputs: VecDeque::new(),
        }
    }

    /// The same for one that has extents already, which the life before wrote down.
    pub fn with_extents(settings: Settings, held: Vec<ReportedExtent>) -> Member {
        Member { held: held.into_iter().map(|extent| (extent.slot, extent)).collect(), ..Member::new(settings) }
    }

    /// Phase of the membership.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Joining => Phase::Joining,
            State::Member { .. } => Phase::Member,
            State::Regranting { .. } => Phase::Regranting,
            State::Lapsed => Phase::Lapsed,
            State::Left => Phase::Left,
        }
    }

    /// The node's number and epoch, once it has been welcomed: those that its grants are of.
    pub fn identity(&self) -> Option<(NodeId, Epoch)> {
        self.was
    }

    /// Address of the coordinator's own node, once known.
    pub fn home(&self) -> Option<&NodeAddress> {
        self.home.as_ref()
    }

    /// The node's knowledge of itself and the pool, once it has been welcomed. Keepers are the driver's knowledge.
    pub fn own_status(&self) -> Option<OwnStatus> {
        let ((node, epoch), coordinator) = (self.was?, self.home.clone()?);
        let (name, address) = (self.settings.name.clone(), self.settings.address.clone());
        let (alive, memory, stays) = (self.phase() == Phase::Member, self.memory, Vec::new());
        let leaving = memory.used.saturating_sub(memory.lent);
        let own = NodeStatus { node, name, address, epoch, alive, drains: false, memory, leaving, stays };
        let regions: BTreeSet<Gid> = self.held.values().map(|extent| extent.gid).collect();
        Some(OwnStatus { own, regions: regions.len() as u64, coordinator, keepers: Vec::new() })
    }

    /// The extents that the node holds.
    pub fn held(&self) -> impl Iterator<Item = &ReportedExtent> {
        self.held.values()
    }

    /// Requests without an answer, for checks.
    pub fn ask_count(&self) -> usize {
        self.asks.count()
    }

    /// True if the coordinator hears, by the join, that the node writes down what it holds.
    pub fn says_it_persists(&self) -> bool {
        self.settings.persists && self.spoken >= PERSISTS_SINCE
    }

    /// Sets the memory that the node lends; told with the next join or renewal.
    pub fn set_memory(&mut self, memory: Memory) {
        self.memory = memory;
    }

    /// The connection to the coordinator is there, where both speak a version of the wire. One that was there before is given up.
    pub fn connected(&mut self, now_ms: u64, spoken: u32) {
        self.disconnected();
        (self.is_connected, self.spoken) = (true, spoken);
        self.asks.resend();
        if matches!(self.state, State::Joining | State::Lapsed) {
            self.join(now_ms);
        }
    }

    /// The connection to the coordinator closed. Data goes on; the driver connects again.
    pub fn disconnected(&mut self) {
        self.is_connected = false;
        self.attempt = None;
        self.lapse(Event::Disconnected);
    }

    /// Forwards a client's request; the answer comes as [`Output::AskDone`] with the number returned.
    ///
    /// **Errors**: those of the request. [`Error::NoCoordinator`] if it could not be sent within [`Settings::answer_ms`].
    /// [`Error::Timeout`] if it was sent and not answered within that time.
    pub fn ask(&mut self, now_ms: u64, user: impl Into<Asker>, client: ClientId, what: Request) -> u64 {
        let request = self.asks.add(now_ms, user.into(), client, what);
        self.send_due(now_ms);
        request
    }

    /// A client of a job attached to the node.
    pub fn client_came(&mut self, now_ms: u64, client: ClientId, job: JobRank) {
        self.clients.came(client, job);
        self.send_due(now_ms);
    }

    /// A client of a job is gone; it `died` where it did not detach first.
    pub fn client_gone(&mut self, now_ms: u64, client: ClientId, job: JobRank, reason: &str, died: bool) {
        self.clients.gone(client, job, reason, died);
        self.send_due(now_ms);
    }

    /// The driver made the extents of [`Output::Make`], or could not.
    pub fn made(&mut self, order: u64, result: Result<Vec<ReportedExtent>>) {
        let wanted = self.orders.made(order, &result);
        let made = result.as_deref().unwrap_or(&[]);
        self.held.extend(made.iter().map(|extent| (extent.slot, *extent)));
        if !wanted {
            return self.free(made.iter().map(|extent| extent.slot).collect());
        }
        if self.phase() == Phase::Member
            && let OrderArrival::Done(message) = self.orders.arrived(order)
        {
            self.send(message);
        }
    }

    /// The driver carried out [`Output::MakeReady`], or could not. The extents have new grants.
    pub fn made_ready(&mut self, order: u64, result: Result<Vec<ReportedExtent>>) {
        for ready in result.iter().flatten() {
            self.held.entry(ready.slot).and_modify(|extent| *extent = *ready);
        }
        if let Some(message) = self.orders.made_ready(order, result)
            && self.phase() == Phase::Member
        {
            self.send(message);
        }
    }

    /// The driver granted all held extents anew for the epoch of [`Output::NewEpoch`].
    pub fn regranted(&mut self, now_ms: u64, epoch: Epoch, held: Vec<ReportedExtent>) {
        if self.next.is_none_or(|(_, next)| next != epoch) {
            return;
        }
        for extent in held {
            self.held.entry(extent.slot).and_modify(|known| *known = extent);
        }
        self.was = self.next.take();
        if self.phase() == Phase::Regranting {
            self.step(Event::Regranted, State::Lapsed);
        }
        self.join(now_ms);
    }

    /// Until when locks that are lent to clients here may be taken again; zero where the node is no member. A lease beyond the usual one is
    /// cut. The home's own node has one without end, and the home may die.
    pub fn leases_until_ms(&self, now_ms: u64) -> u64 {
        match self.state {
            State::Member { lease_until_ms } => lease_until_ms.min(now_ms.saturating_add(limits::LEASE_MS)),
            _ => 0,
        }
    }

    /// Until when homes of extents with copies answer here; zero where the node is no member. Beyond that another node may be home.
    pub fn homes_until_ms(&self) -> u64 {
        match self.state {
            State::Member { lease_until_ms } => limits::home_until_ms(lease_until_ms, self.lease_ms),
            _ => 0,
        }
    }

    /// Reports on a recalled lock of a client here.
    pub fn recalled(&mut self, home: NodeId, client: ClientId, number: u64, recalled: Recalled) {
        self.send(FromNode::Recalled { client, number, recalled, home });
    }

    /// Tells the coordinator something about an extent with copies. It is told in vain where this node is no member; it says so again when
    /// it is one ([`Output::Joined`]).
    pub fn say_as_holder(&mut self, extent: CopiedExtent, message: FromHolder) {
        self.send(FromNode::Holder { extent, message });
    }

    /// Tells the coordinator which extents other hosts use most, where it knows the message. Nothing is told where this node is no member.
    pub fn say_used_elsewhere(&mut self, extents: Vec<UsedElsewhere>) {
        if self.phase() == Phase::Member && !extents.is_empty() {
            self.send(FromNode::UsedElsewhere(extents));
        }
    }

    /// Has a client's node asked about a lock that this node lent to the client, by way of the coordinator. It is asked in vain where it is
    /// no member, or this node is none: the driver repeats it.
    pub fn recall_lock(&mut self, client: ClientId, number: u64) {
        self.send(FromNode::RecallLock { client, number });
    }

    /// Leaves in good order, with a message to the coordinator. The node's extents are lost to their regions, unless it keeps them for its
    /// next start.
    pub fn leave(&mut self, keeps: bool) {
        if self.phase() != Phase::Left {
            self.step(Event::Leave, State::Left);
            self.send(FromNode::Leave { keeps });
        }
    }

    /// A message of the coordinator arrives.
    pub fn handle(&mut self, now_ms: u64, message: ToNode) {
        if self.phase() == Phase::Left {
            return;
        }
        match message {
            ToNode::Welcome { incarnation, attempt, node, epoch, lease_ms, keep, settled, home, quota } => {
                if incarnation == self.settings.incarnation && attempt == self.attempts {
                    self.on_welcome(now_ms, Welcome { node, epoch, lease_ms, keep, settled, home, quota });
                }
            }
            ToNode::Refused { incarnation, error } => {
                if incarnation == self.settings.incarnation && self.attempt.is_some() {
                    self.outputs.push_back(Output::Refused(error));
                }
            }
            ToNode::Renewed { epoch } => self.on_renewed(epoch),
            ToNode::Unknown => {
                self.lapse(Event::Unknown);
                if self.attempt.is_none() {
                    self.join(now_ms);
                }
            }
            // The driver looks for the coordinator.
            ToNode::Elsewhere { .. } | ToNode::Keepers(_) => {}
            ToNode::Reply { request, result } => {
                if let Some(client) = self.asks.answered(request) {
                    self.outputs.push_back(Output::AskDone { request, client, result });
                }
            }
            ToNode::Order { order, settled, epoch, what } => self.on_order(order, settled, epoch, what),
            ToNode::ClientKnown { client, gone } => self.clients.known(client, gone),
            ToNode::NodeLost { node, epoch, reason } => self.outputs.push_back(Output::NodeLost { node, epoch, reason }),
            ToNode::Holder { extent, nodes, message } => {
                // Messages to a node that is no member any more are of an epoch before.
                if self.phase() == Phase::Member {
                    self.outputs.push_back(Output::Holder { extent, nodes, message });
                }
            }
            ToNode::Recall { client, number, home } => self.outputs.push_back(Output::Recall { client, number, home }),
            ToNode::Recalled { client, number, recalled } => {
                self.outputs.push_back(Output::Recalled { client, number, recalled });
            }
        }
    }

    /// Time passes. To be called at [`Member::next_deadline`] or sooner.
    pub fn tick(&mut self, now_ms: u64) {
        if let State::Member { lease_until_ms } | State::Regranting { lease_until_ms } = self.state
            && lease_until_ms <= now_ms
        {
            self.lapse(Event::LeaseEnds);
            self.join(now_ms);
        }
        let late = self.asks.give_up(now_ms, self.settings.answer_ms);
        self.give_up(late);
        self.repeat_join(now_ms);
        self.renew(now_ms);
        self.send_due(now_ms);
    }

    /// When [`Member::tick`] has something to do, in milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        let repeat_ms = self.settings.repeat_ms;
        let lease = match self.state {
            State::Member { lease_until_ms } | State::Regranting { lease_until_ms } => Some(lease_until_ms),
            _ => None,
        };
        let speaks = self.is_connected && self.phase() == Phase::Member;
        let renew = self.renew_due_ms().filter(|_| speaks);
        let join = self.attempt.as_ref().map(|attempt| attempt.sent_ms + repeat_ms);
        let clients = if speaks { self.clients.deadline(repeat_ms) } else { None };
        let asks = self.asks.deadline(self.settings.answer_ms, speaks.then_some(repeat_ms));
        [lease, renew, join, clients, asks].into_iter().flatten().min()
    }

    /// The next action, in order.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Makes a transition; the table must allow it.
    fn step(&mut self, event: Event, to: State) {
        let from = self.phase();
        self.state = to;
        assert_eq!(table::next(TABLE, from, event), Some(self.phase()), "{event:?} in {from:?}");
    }

    /// The membership ends for now, where there is one.
    fn lapse(&mut self, event: Event) {
        if matches!(self.state, State::Member { .. } | State::Regranting { .. }) {
            self.step(event, State::Lapsed);
            self.outputs.push_back(Output::RecallAll);
        }
    }

    /// Sends a new list of what the node holds and asks to be a member.
    fn join(&mut self, now_ms: u64) {
        // While fresh grants are being made there is no list that the coordinator could take.
        if !self.is_connected || self.phase() == Phase::Left || self.next.is_some() {
            return;
        }
        self.attempts += 1;
        let held = self.held.values().copied().collect();
        self.attempt = Some(Attempt { held, sent_ms: now_ms });
        self.send_join();
    }

    fn repeat_join(&mut self, now_ms: u64) {
        if let Some(attempt) = &mut self.attempt
            && attempt.sent_ms + self.settings.repeat_ms <= now_ms
        {
            attempt.sent_ms = now_ms;
            self.send_join();
        }
    }

    fn send_join(&mut self) {
        let Some(Attempt { held, .. }) = self.attempt.clone() else { return };
        let Settings { incarnation, name, address, wish, restores, .. } = self.settings.clone();
        let (attempt, memory, was) = (self.attempts, self.memory, self.was);
        let join = NodeJoin { incarnation, attempt, name, address, memory, was, held, wish, restores };
        self.send(if self.says_it_persists() { FromNode::JoinPersisting(join) } else { join.into() });
    }

    /// The coordinator takes the node in.
    fn on_welcome(&mut self, now_ms: u64, welcome: Welcome) {
        let Some(attempt) = self.attempt.take() else { return };
        let Welcome { node, epoch, lease_ms, keep, settled, home, quota } = welcome;
        let unwanted: Vec<Slot> = attempt.held.iter().map(|extent| extent.slot).filter(|slot| !keep.contains(slot)).collect();
        self.free(unwanted);
        let orphans = self.orders.settle(settled);
        self.free(orphans);
        self.lease_ms = lease_ms;
        let lease_until_ms = attempt.sent_ms + lease_ms;
        self.set_home(home);
        self.quota = quota;
        if self.was == Some((node, epoch)) {
            return self.begin_membership(now_ms, lease_until_ms, (node, epoch));
        }
        let held: Vec<Slot> = self.held.keys().copied().collect();
        let is_bare = held.is_empty();
        self.outputs.push_back(Output::NewEpoch { node, epoch, held });
        if is_bare {
            return self.begin_membership(now_ms, lease_until_ms, (node, epoch));
        }
        self.next = Some((node, epoch));
        self.step(Event::WelcomeAnew, State::Regranting { lease_until_ms });
    }

    fn begin_membership(&mut self, now_ms: u64, lease_until_ms: u64, identity: (NodeId, Epoch)) {
        self.was = Some(identity);
        self.step(Event::Welcome, State::Member { lease_until_ms });
        (self.renew_sent_ms, self.renew_first_ms) = (Some(now_ms), None);
        let (node, epoch) = identity;
        self.outputs.push_back(Output::Joined { node, epoch, quota: self.quota });
        self.clients.forget_known();
        self.send_due(now_ms);
    }

    fn set_home(&mut self, home: NodeAddress) {
        if self.home.as_ref() != Some(&home) {
            self.home = Some(home.clone());
            self.outputs.push_back(Output::Home(home));
        }
    }

    /// When the node renews next, as parts of its lease. They are those of [`limits::RENEW_MS`], or of [`limits::REPEAT_MS`] without an
    /// answer.
    fn renew_due_ms(&self) -> Option<u64> {
        let part = if self.renew_first_ms.is_some() { limits::REPEAT_MS } else { limits::RENEW_MS };
        self.renew_sent_ms.map(|sent_ms| sent_ms + (self.lease_ms * part / limits::LEASE_MS).max(1))
    }

    fn renew(&mut self, now_ms: u64) {
        let Some((_, epoch)) = self.was.filter(|_| self.phase() == Phase::Member) else { return };
        if self.renew_due_ms().is_none_or(|due_ms| due_ms <= now_ms) {
            self.renew_sent_ms = Some(now_ms);
            // An answer cannot be told from a later one's, so the lease counts from the oldest renewal without an answer.
            self.renew_first_ms.get_or_insert(now_ms);
            self.send(FromNode::Renew { epoch, memory: self.memory });
        }
    }

    fn on_renewed(&mut self, epoch: Epoch) {
        if let State::Member { lease_until_ms } = self.state
            && self.was.is_some_and(|(_, was)| was == epoch)
            && let Some(first_ms) = self.renew_first_ms.take()
        {
            let lease_until_ms = lease_until_ms.max(first_ms + self.lease_ms);
            self.step(Event::Renewed, State::Member { lease_until_ms });
        }
    }

    /// An order arrives. Only a member of its epoch obeys.
    fn on_order(&mut self, order: u64, settled: u64, epoch: Epoch, what: Order) {
        if self.phase() != Phase::Member || self.was.is_none_or(|(_, was)| was != epoch) {
            return;
        }
        let orphans = self.orders.settle(settled);
        self.free(orphans);
        match (self.orders.arrived(order), what) {
            (OrderArrival::Known, _) => {}
            (OrderArrival::Done(message), _) => self.send(message),
            (OrderArrival::New, Order::Make { gid, lens, copied }) => {
                self.orders.making(order);
                self.outputs.push_back(Output::Make { order, gid, lens, copied });
            }
            (OrderArrival::New, Order::MakeReady { gid, set, extents }) => {
                self.orders.making(order);
                self.outputs.push_back(Output::MakeReady { order, gid, set, extents });
            }
            (OrderArrival::New, Order::Free { slots }) => {
                self.free(slots);
                let message = self.orders.done(order);
                self.send(message);
            }
        }
    }

    /// Frees those of the slots that hold an extent.
    fn free(&mut self, mut slots: Vec<Slot>) {
        slots.retain(|slot| self.held.remove(slot).is_some());
        if !slots.is_empty() {
            self.outputs.push_back(Output::Free { slots });
        }
    }

    /// Sends requests and news of clients that are due; only members are listened to.
    fn give_up(&mut self, given_up: Vec<GivenUp>) {
        let done = |GivenUp { request, client, error }| Output::AskDone { request, client, result: Err(error) };
        self.outputs.extend(given_up.into_iter().map(done));
    }

    fn send_due(&mut self, now_ms: u64) {
        if !self.is_connected || self.phase() != Phase::Member {
            return;
        }
        let unknown = self.asks.take_unknown(self.spoken);
        self.give_up(unknown);
        let repeat_ms = self.settings.repeat_ms;
        let due = self.asks.due(now_ms, repeat_ms).into_iter().chain(self.clients.due(now_ms, repeat_ms));
        self.outputs.extend(due.map(Output::Send));
    }

    fn send(&mut self, message: FromNode) {
        if self.is_connected && message.since() <= self.spoken {
            self.outputs.push_back(Output::Send(message));
        }
    }
}

/// The fields of [`ToNode::Welcome`].
struct Welcome {
    node: NodeId,
    epoch: Epoch,
    lease_ms: u64,
    keep: Vec<Slot>,
    settled: u64,
    home: NodeAddress,
    quota: Option<u64>,
}

#[cfg(test)]
mod tests;
