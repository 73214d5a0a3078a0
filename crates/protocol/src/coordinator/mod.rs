//! The coordinator: decides for the whole pool which nodes are members, what regions' names mean and where their bytes lie.
//!
//! The coordinator runs on one node of a pool. It is driven like every machine here: [`Coordinator::handle`],
//! [`Coordinator::disconnected`] and [`Coordinator::tick`] take events and the time, [`Coordinator::poll`] yields actions.
//!
//! **Ordering**: outputs are acted on in the order in which they come. A [`Output::Journal`] must be committed before any output behind it
//! is acted on ([`WaitingOutputs`]). So an acknowledged create survives a restart.
//!
//! The coordinator's own node is a member like all others and joins by the same messages, over a [`Peer`] of its own. No node is welcomed
//! before it, because a welcome names the coordinator's node as home.
//!
//! | file | decides |
//! |---|---|
//! | `roster`, `join` | whose lease holds; what a node that joins keeps, and in which epoch |
//! | `naming`, `create`, `region` | what a region's name means; creating and growing; opening and removing |
//! | `holders`, `copy_count` | which nodes hold an extent with copies; how many do |
//! | `readying`, `endings` | regions that get their first copies, and those that have none any more |
//! | `drain`, `shortage` | nodes that hold nothing soon, or less because their hosts run short of memory |
//! | `persistence` | where bytes may go that nodes write down, and which of them come back |
//! | `rebalance`, `balance` | extents that move to nodes with more room; the plan of it |
//! | `removals`, `listing` | when a removal is answered; what is shown |
//! | `placement`, `quota`, `spills`, `permission` | where bytes go, how many, for whom |
//! | `tenants` | users whom no system knows, with names of their own |
//! | `orders`, `asks`, `ranks` | that each order and each request is carried out once; which ranks go with a node |
//! | `records`, `journal` | what lasts, and what it builds |
//! | `commit`, `keeper_changes` | when the driver may act on an output; how the list of keepers changes |
//! | `reign`, `own_reign` | which records count in a journal of several nodes; when a keeper's reign is over, and what it may tell |

mod asks;
mod balance;
mod commit;
mod copy_count;
mod create;
mod drain;
mod endings;
mod following;
mod holders;
mod join;
mod journal;
mod keeper_changes;
mod leader_rounds;
mod listing;
mod naming;
mod orders;
mod own_reign;
pub(crate) mod permission;
mod persistence;
mod placement;
mod quota;
mod ranks;
mod readying;
mod rebalance;
mod records;
mod region;
mod reign;
mod removals;
mod roster;
mod settings;
mod shortage;
mod spills;
mod tenants;
mod versions;

pub use asks::AskKey;
pub use commit::{BatchNumber, Commits, WaitingOutputs};
pub use leader_rounds::LeaderRounds;
pub use own_reign::{OwnReign, Rule};
pub use records::{Effect, Ended, ExtentCopies, NodeRecord, Record, RegionRecord, TenantRecord};
pub use reign::{Batch, History, Reign};
pub use settings::Settings;

/// The tables of the coordinator's machines, for documentation and snapshots.
pub mod tables {
    pub use super::naming::{Event as RegionEvent, Phase as RegionPhase, TABLE as REGION_TABLE};
    pub use super::roster::{Event as NodeEvent, Phase as NodePhase, TABLE as NODE_TABLE};
}

use crate::error::{Error, Result};
use crate::id::{Epoch, Gid, JobId, NodeId, Rank};
use crate::limits;
use crate::wire::control::{Answer, FromNode, Request, ToNode};
use asks::{ReceivedRequests, RequestArrival, Step, Task};
use holders::CopiedExtents;
use join::Going;
use journal::Ledger;
use keeper_changes::Keepers;
use naming::Growth;
use orders::GivenOrders;
use ranks::Ranks;
use rebalance::ExtentMoves;
use removals::Removals;
use roster::Roster;
use std::collections::{BTreeMap, VecDeque};

/// A connection to a node, numbered by the driver. A node says who it is by joining; numbers are not used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub u64);

/// An action for the coordinator's driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Have this record committed before acting on any later output.
    Journal(Record),
    /// Send a message.
    Send(Peer, ToNode),
    /// A node's epoch ended. Other members are told by messages; this is for the coordinator's own process.
    NodeLost {
        /// The node.
        node: NodeId,
        /// The epoch that ended.
        epoch: Epoch,
        /// The sign by which it was noticed.
        reason: String,
        /// True if it said itself that it goes.
        in_order: bool,
    },
    /// A rank of a job is gone; for the job's barrier.
    JobRankGone {
        /// The job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// The job's size, where it is known.
        ranks: Option<u32>,
        /// Manner of its end.
        reason: String,
        /// True if it failed, or went without detaching.
        died: bool,
    },
}

/// The coordinator's state. See the module.
// FEATURE: EU-F26
#[derive(Clone, Debug)]
pub struct Coordinator {
    settings: Settings,
    ledger: Ledger,
    roster: Roster,
    orders: GivenOrders,
    asks: ReceivedRequests,
    /// Extents in the making, by region.
    growths: BTreeMap<Gid, Growth>,
    removals: Removals,
    copied: CopiedExtents,
    moves: ExtentMoves,
    /// True if the journal takes no record of a request that can be refused.
    journal_is_full: bool,
    ranks: Ranks,
    /// The keepers; none where this node alone has the journal.
    keepers: Keepers,
    gid_next: u64,
    /// When time was looked at last, in milliseconds.
    ticked_ms: u64,
    /// Something happened that parked requests may wait for.
    changed: bool,
    outputs: VecDeque<Output>,
}

impl Coordinator {
    /// The coordinator of a pool that begins.
    pub fn new(settings: Settings) -> Coordinator {
        Coordinator::restore(settings, [], 0)
    }

    /// The coordinator of a pool whose journal holds `records`.
    ///
    /// Nodes of the journal have twice the lease to come back before they are reported lost. The node of another coordinator before this one
    /// has less: the others gave that coordinator up.
    pub fn restore(settings: Settings, records: impl IntoIterator<Item = Record>, now_ms: u64) -> Coordinator {
        let mut ledger = Ledger::default();
        records.into_iter().for_each(|record| ledger.apply(&record));
        let started = ledger.begin(&settings.home);
        ledger.apply(&started);
        let (life, roster) = (ledger.life, Roster::of_journal(&ledger, now_ms, settings.lease_ms));
        let mut coordinator = Coordinator {
            gid_next: ledger.gids_below.max(1),
            settings,
            ledger,
            roster,
            orders: GivenOrders::new(life),
            asks: ReceivedRequests::default(),
            growths: BTreeMap::new(),
            removals: Removals::default(),
            copied: CopiedExtents::default(),
            moves: ExtentMoves::default(),
            journal_is_full: false,
            ranks: Ranks::default(),
            keepers: Keepers::default(),
            ticked_ms: now_ms,
            changed: false,
            outputs: VecDeque::new(),
        };
        coordinator.record(started);
        let gids: Vec<Gid> = coordinator.ledger.regions.keys().copied().collect();
        for gid in gids {
            coordinator.take_up_holders(now_ms, gid);
            coordinator.want_ready(now_ms, gid);
        }
        coordinator.resume_endings(now_ms);
        coordinator
    }

    /// True if the journal tells of a life before this one.
    pub fn began_again(&self) -> bool {
        self.ledger.life > 1
    }

    /// A message arrives. Messages of a node that is not (or no more) a member are answered by [`ToNode::Unknown`].
    pub fn handle(&mut self, now_ms: u64, from: Peer, message: FromNode) {
        let Some(message) = self.on_joining(now_ms, from, message) else { return self.settle(now_ms) };
        let member = self.roster.node_of(from).filter(|node| self.roster.phase(*node) == roster::Phase::Member);
        let Some(node) = member else {
            self.outputs.push_back(Output::Send(from, ToNode::Unknown));
            return;
        };
        match message {
            FromNode::Join { .. } | FromNode::JoinPersisting(_) => unreachable!("handled above"),
            FromNode::Renew { epoch, memory } => self.on_renew(now_ms, node, epoch, memory),
            FromNode::Leave { keeps } => self.on_leave(now_ms, node, keeps),
            FromNode::Ask { request, settled, user, client, what } => {
                self.on_ask(now_ms, Task { node, user, client, what }, request, settled);
            }
            FromNode::Obeyed { order, result } => self.on_obeyed(now_ms, node, order, result),
            FromNode::ClientCame { client, job } => {
                self.ranks.on_client_came(node, client, job);
                self.send(node, ToNode::ClientKnown { client, gone: false });
            }
            FromNode::ClientGone { client, job, reason, died } => {
                let gone = self.ranks.on_client_gone(node, client, job);
                self.rank_gone(gone, &reason, died);
                self.send(node, ToNode::ClientKnown { client, gone: true });
            }
            // A message to a node that is no member goes nowhere: the home repeats it.
            FromNode::RecallLock { client, number } => self.send(client.node(), ToNode::Recall { client, number, home: node }),
            FromNode::Recalled { client, number, recalled, home } if client.node() == node => {
                self.send(home, ToNode::Recalled { client, number, recalled });
            }
            FromNode::Recalled { .. } => {}
            FromNode::Holder { extent, message } => self.on_holder(now_ms, node, extent, message),
            FromNode::Keeper { disk } => self.on_keeper(node, disk),
            FromNode::UsedElsewhere(extents) => self.follow(now_ms, node, &extents),
        }
        self.settle(now_ms);
    }

    /// The journal's disk is full, or not any more: regions are not made and do not grow meanwhile; all else goes on.
    pub fn set_journal_full(&mut self, is_full: bool) {
        self.journal_is_full = is_full;
    }

    /// A connection closed: a node behind it is lost at once.
    pub fn disconnected(&mut self, now_ms: u64, peer: Peer, reason: &str) {
        if let Some((node, was_member)) = self.roster.on_closed(now_ms, self.settings.lease_ms, peer) {
            if was_member {
                self.end_epoch(now_ms, node, Going::Lost(Ended::Closed, reason));
            } else if self.ledger.nodes.get(&node).is_some_and(|record| record.ended == Some(Ended::Silent)) {
                self.record(Record::EpochEnded { node, how: Ended::Closed });
            }
        }
        self.settle(now_ms);
    }

    /// Time passes. To be called at [`Coordinator::next_deadline`] or sooner. A tick that is late by a look's time stood still itself, and
    /// renewals wait unread. So every node gets one lease to be heard in. Other deadlines say nothing of that: one may lie in the past.
    pub fn tick(&mut self, now_ms: u64) {
        let late_ms = self.next_look().map_or(0, |due_ms| now_ms.saturating_sub(due_ms));
        if late_ms > self.look_ms() {
            self.roster.forgive(now_ms.saturating_add(self.settings.lease_ms));
        }
        self.ticked_ms = now_ms;
        self.close_deposed(now_ms);
        let (silent, died) = self.roster.on_tick(now_ms);
        self.changed |= self.roster.has_gathered(now_ms) || !died.is_empty();
        for node in died {
            self.on_node_away(node);
            self.lose_holder(now_ms, node, holders::Loss::MayReturn);
        }
        for node in silent {
            self.end_epoch(now_ms, node, Going::Lost(Ended::Silent, "it did not renew its lease"));
            self.lose_holder(now_ms, node, holders::Loss::MayReturn);
        }
        self.tick_holders(now_ms);
        self.give_up_slow_makes(now_ms);
        self.give_up_removals(now_ms);
        self.forget_long_gone(now_ms);
        self.fill_seat();
        for (node, message) in self.orders.repeat(now_ms) {
            self.send(node, message);
        }
        self.settle(now_ms);
    }

    /// When [`Coordinator::tick`] has something to do, in milliseconds. While leases are watched that is soon: by when a tick was due
    /// and when it came a coordinator knows that it stood still, and how long.
    pub fn next_deadline(&self) -> Option<u64> {
        let makes = self.growths.values().map(|growth| growth.since_ms.saturating_add(self.settings.make_ms)).min();
        [
            self.next_look(),
            self.orders.deadline(),
            self.removals.deadline(),
            self.copied.deadline(),
            self.moves.deadline(),
            self.asks.deadline(),
            makes,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// When leases are looked at next.
    fn next_look(&self) -> Option<u64> {
        self.roster.deadline().map(|until_ms| until_ms.min(self.ticked_ms.saturating_add(self.look_ms())))
    }

    /// Time between ticks while leases are watched. Unnoticed stalls are shorter than twice this. A lease exceeds the time for a renewal
    /// by as much.
    fn look_ms(&self) -> u64 {
        self.settings.lease_ms / 6
    }

    /// The next action; see the module for the order.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The shortest journal that restores this coordinator; it may replace all records given out and polled so far.
    pub fn snapshot(&self) -> Vec<Record> {
        self.ledger.snapshot()
    }

    /// True if [`Coordinator::snapshot`] is worth taking in place of a journal of `record_count` records.
    pub fn is_worth_compacting(&self, record_count: usize) -> bool {
        record_count / 2 > self.ledger.snapshot_len().saturating_add(512)
    }

    /// The regions of the pool, as the journal has them, for checks.
    pub fn regions(&self) -> impl Iterator<Item = &RegionRecord> {
        self.ledger.regions.values()
    }

    /// The nodes of the pool, as the journal has them, for checks.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRecord> {
        self.ledger.nodes.values()
    }

    /// Bytes of a user's complete regions.
    pub fn used(&self, uid: u32) -> u64 {
        self.ledger.used.get(&uid).copied().unwrap_or(0)
    }

    /// Bytes of attributes of a user's regions.
    fn noted(&self, uid: u32) -> u64 {
        self.ledger.noted.get(&uid).copied().unwrap_or(0)
    }

    /// Requests that are open or remembered, for checks.
    pub fn ask_count(&self) -> usize {
        self.asks.count()
    }

    /// Takes a durable fact in, and gives it out to be made durable.
    fn record(&mut self, record: Record) {
        self.ledger.apply(&record);
        self.outputs.push_back(Output::Journal(record));
    }

    /// Sends to a node, if it is connected; what matters is repeated by one side or the other.
    fn send(&mut self, node: NodeId, message: ToNode) {
        if let Some(peer) = self.roster.peer_of(node) {
            self.outputs.push_back(Output::Send(peer, message));
        }
    }

    /// The epoch that the journal has for a node.
    fn epoch(&self, node: NodeId) -> Epoch {
        self.ledger.nodes.get(&node).map_or(Epoch(0), |record| record.epoch)
    }

    /// Takes up requests whose turn it is, and parked ones, until nothing changes any more.
    fn settle(&mut self, now_ms: u64) {
        loop {
            let has_changed = std::mem::take(&mut self.changed);
            let parked = if has_changed { self.asks.unpark() } else { Vec::new() };
            let fresh = self.asks.begin(now_ms);
            if parked.is_empty() && fresh.is_empty() {
                return;
            }
            parked.into_iter().chain(fresh).for_each(|key| self.work(now_ms, key));
        }
    }

    /// A node forwards a request.
    fn on_ask(&mut self, now_ms: u64, task: Task, request: u64, settled: u64) {
        let Some(incarnation) = self.ledger.nodes.get(&task.node).map(|record| record.incarnation) else { return };
        self.asks.settle(incarnation, settled);
        self.ledger.settle(incarnation, settled);
        let key = AskKey { incarnation, request };
        match self.asks.arrived(key) {
            RequestArrival::Known => {}
            RequestArrival::Refused(error) => self.send(task.node, ToNode::Reply { request, result: Err(error) }),
            RequestArrival::TooMany => {
                let limit = limits::ASK_COUNT_MAX as u64;
                let error = Error::LimitReached { what: "requests of one node at the coordinator".to_owned(), limit };
                self.send(task.node, ToNode::Reply { request, result: Err(error) });
            }
            RequestArrival::New => {
                // `settle` begins it before this turn is over, unless its user has enough under way.
                self.asks.open(now_ms, key, task);
            }
        }
    }

    /// Works on an open request.
    fn work(&mut self, now_ms: u64, key: AskKey) {
        let Some(task) = self.asks.task(key).cloned() else { return };
        let step = match self.ledger.effects.get(&key).copied() {
            Some(Effect::Changed) if matches!(task.what, Request::Remove { .. }) => self.await_all(now_ms, key),
            Some(effect) if self.goes_on(&task.what, effect) => self.carry_out(now_ms, key, &task),
            Some(effect) => self.recall(&task, effect),
            None => self.carry_out(now_ms, key, &task),
        };
        match step {
            Step::Done(result) => self.answer(key, result),
            Step::Park => self.asks.park(key),
            Step::Ordered => {}
        }
    }

    /// Carries a request out, for the first time.
    fn carry_out(&mut self, now_ms: u64, key: AskKey, task: &Task) -> Step {
        if let Some(step) = self.await_all_know(task.what.since()) {
            return step;
        }
        let what = match self.inside(&task.user, &task.what) {
            Ok(what) if self.waits_for_removal(&task.user, &what) => return Step::Park,
            Ok(what) => what,
            Err(error) => return error.into(),
        };
        match &what {
            Request::Create { name, len, placement, copies, mode, attributes, existing } => {
                let (len, placement, copies, mode, existing) = (*len, *placement, *copies, *mode, *existing);
                let request = create::CreateRequest { name, len, placement, copies, mode, attributes, existing };
                self.create(now_ms, key, task, request)
            }
            Request::Open { which, rights } => self.open(which, &task.user, *rights),
            Request::Alter { name, changes } => self.alter(now_ms, key, &task.user, name, changes),
            Request::Stat { name } => Step::Done(self.stat(name, &task.user)),
            Request::List { after } => Step::Done(Ok(self.list(after, &task.user))),
            Request::Resize { name, len } => self.resize(now_ms, key, task, name, *len),
            Request::Remove { name } => self.remove(now_ms, key, &task.user, name),
            Request::Forget { node } => Step::Done(self.forget_lost(now_ms, &task.user, *node)),
            Request::Drain { node, wish } => Step::Done(self.drain(now_ms, *node, wish)),
            Request::Rebalance(wish) => Step::Done(self.rebalance(now_ms, *wish)),
            Request::Keepers { address, change } => self.change_keepers(key, address, *change),
            Request::Status => Step::Done(Ok(Answer::Status(self.status(&task.user)))),
            Request::Reserve { used, wanted } => Step::Done(self.reserve(key, task, *used, *wanted)),
            Request::RankEnded { job, rank, reason, died } => {
                let gone = self.ranks.on_rank_ended(*job, *rank);
                self.rank_gone([gone], reason, *died);
                Step::Done(Ok(Answer::Ok))
            }
            Request::ProveTenant { tenant, hash } => Step::Done(self.prove_tenant(tenant, hash)),
            Request::Tenants(wish) => self.tenants(now_ms, key, wish),
            Request::Attach { .. }
            | Request::AttachAs { .. }
            | Request::Detach
            | Request::Leave
            | Request::Map { .. }
            | Request::Own
            | Request::Release { .. }
            | Request::Share { .. }
            | Request::ShareFollowing { .. }
            | Request::Hold { .. }
            | Request::Link(_)
            | Request::Unshare { .. }
            | Request::FlushShared { .. }
            | Request::Prove { .. } => region::not_forwarded(task).into(),
        }
    }

    /// Answers a request and ends the work on it.
    fn answer(&mut self, key: AskKey, result: Result<Answer>) {
        let Some((node, user)) = self.asks.task(key).map(|task| (task.node, task.user.clone())) else { return };
        let result = self.outside(&user, result);
        self.asks.close(key, result.as_ref().err());
        if self.ledger.nodes.get(&node).is_some_and(|record| record.incarnation == key.incarnation) {
            self.send(node, ToNode::Reply { request: key.request, result });
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod explore;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests;
