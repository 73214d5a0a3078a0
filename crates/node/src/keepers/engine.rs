//! The engine by which keepers agree, and what this keeper reads in the decided log.
//!
//! OmniPaxos elects a leader and orders entries; it has no clock, socket or file. Its leader's connection to a majority is checked by
//! heartbeats. A wrong message may make it panic. Then it begins again from the store, as after the keeper's death.

use super::entry::{LogEntry, lost_disks};
use super::store::SharedStore;
use hanare_memory::vital;
use hanare_protocol::Result;
use hanare_protocol::coordinator::{Batch, BatchNumber, History, LeaderRounds, Record, Reign};
use hanare_protocol::limits::KEEPER_ENTRY_COUNT_MAX;
use omnipaxos::ballot_leader_election::Ballot;
use omnipaxos::messages::Message;
use omnipaxos::messages::ballot_leader_election::HeartbeatMsg;
use omnipaxos::messages::sequence_paxos::PaxosMsg;
use omnipaxos::util::{LogEntry as Read, LogSync};
use omnipaxos::{ClusterConfig, OmniPaxos, OmniPaxosConfig, ServerConfig};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Time between ticks of the engine.
pub(super) const TICK_MS: u64 = 50;

/// Ticks of a round of heartbeats. A leader is missed after one round, and the next one elected in one or two more. A keeper answers within a
/// round, also while its disk is slow.
const ELECTION_TICKS: u64 = 10;

/// Ticks after which messages without an answer are sent again.
const RESEND_TICKS: u64 = 10;

/// Time without a message after which a keeper counts as out of reach: some rounds of heartbeats.
const HEARD_MS: u64 = 1_500;

/// Time after which a reign ends whose batch no majority has. Nodes then hear that there is no coordinator.
const STALL_MS: u64 = 2_000;

/// Decided entries in the log from which on a snapshot replaces them.
const SNAPSHOT_COUNT: usize = 1_024;

pub(crate) type KeeperMessage = Message<LogEntry>;

/// A pass of the coordinator of a reign, until it may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Its batch has that number.
    Batch(u64),
    /// Without records: a round proves that this keeper still leads.
    Round(u64),
}

/// The reign of the keeper here.
#[derive(Clone, Debug)]
struct OwnReign {
    reign: Reign,
    /// The number of the next batch.
    next: u64,
    /// Number of batches that are decided.
    decided: u64,
    /// Passes that wait, in order.
    passes: VecDeque<Pass>,
    /// Number of passes that may be told.
    told: u64,
    /// Since when a pass waits while none may be told.
    since_ms: u64,
}

impl OwnReign {
    fn waits(&self) -> bool {
        !self.passes.is_empty()
    }

    fn begin(&mut self, pass: Pass, now_ms: u64) -> BatchNumber {
        if !self.waits() {
            self.since_ms = now_ms;
        }
        self.passes.push_back(pass);
        BatchNumber(self.told.saturating_add(self.passes.len() as u64))
    }

    /// Passes go whose batches are decided, or whose rounds are over. A batch behind a pass proves as much as a round.
    fn settle(&mut self, proved: u64, now_ms: u64) {
        let is_decided = |pass: &Pass| matches!(pass, Pass::Batch(number) if *number < self.decided);
        let behind = self.passes.iter().rposition(is_decided).map_or(0, |at| at.saturating_add(1));
        let may_go = |pass: &Pass| matches!(pass, Pass::Round(round) if *round <= proved);
        let more = self.passes.iter().skip(behind).take_while(|pass| may_go(pass)).count();
        let count = behind.saturating_add(more);
        if count > 0 {
            self.passes.drain(..count);
            (self.told, self.since_ms) = (self.told.saturating_add(count as u64), now_ms);
        }
    }
}

/// A question of the keeper that leads: has the other one promised anything to a later leader?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedRound {
    number: u64,
    ballot: Ballot,
}

/// Part of a keeper in its reign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Another keeper leads, or nobody.
    None,
    /// Its reign's first batch is not decided yet.
    Begins,
    /// The reign of this keeper.
    Reigns(Reign),
}

/// The engine, with what this keeper read.
pub(crate) struct Engine {
    paxos: OmniPaxos<LogEntry, SharedStore>,
    store: SharedStore,
    me: u64,
    keepers: u64,
    history: History,
    /// Number of entries that were read.
    read: usize,
    /// Disks that are lost, by what was read.
    lost_disks: BTreeSet<u128>,
    ours: Option<OwnReign>,
    rounds: LeaderRounds,
    /// Reigns that this process began.
    turns: u64,
    /// When each other keeper was heard last.
    heard_ms: BTreeMap<u64, u64>,
    /// The file cannot be written.
    is_failing: bool,
    now_ms: u64,
}

fn begin(store: &SharedStore, me: u64, keepers: u64) -> OmniPaxos<LogEntry, SharedStore> {
    let cluster = ClusterConfig { configuration_id: 1, nodes: (1..=keepers).collect(), flexible_quorum: None };
    let server = ServerConfig {
        pid: me,
        election_tick_timeout: ELECTION_TICKS,
        resend_message_tick_timeout: RESEND_TICKS,
        ..ServerConfig::default()
    };
    let config = OmniPaxosConfig { cluster_config: cluster, server_config: server };
    config.build(store.clone()).expect("numbers of keepers are from 1 to their count")
}

impl Engine {
    /// Keeper number `me` of `keepers`, with the contents of its store.
    pub fn new(store: SharedStore, me: u64, keepers: u64, now_ms: u64) -> Engine {
        let paxos = begin(&store, me, keepers);
        let (history, heard_ms, lost_disks, rounds) = Default::default();
        let (read, ours, turns, is_failing) = (0, None, 0, false);
        Engine { paxos, store, me, keepers, history, read, lost_disks, ours, rounds, turns, heard_ms, is_failing, now_ms }
    }

    /// Runs the engine; after a panic in it, it begins again from the store.
    fn run<T>(&mut self, work: impl FnOnce(&mut OmniPaxos<LogEntry, SharedStore>) -> T) -> Option<T> {
        let paxos = &mut self.paxos;
        match vital::caught(|| work(paxos)) {
            Ok(done) => Some(done),
            Err(panic) => {
                tracing::error!("the keeper's engine begins again from its file: {panic}");
                self.ours = None;
                self.paxos = begin(&self.store, self.me, self.keepers);
                None
            }
        }
    }

    /// A tick is over: usually of [`TICK_MS`].
    pub fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.run(OmniPaxos::tick);
    }

    /// A message of that keeper. Returns false where it cannot be one.
    pub fn receive(&mut self, from: u64, message: KeeperMessage) -> bool {
        if message.get_sender() != from || message.get_receiver() != self.me || !is_of(&message, self.keepers) {
            return false;
        }
        self.heard_ms.insert(from, self.now_ms);
        self.run(|paxos| paxos.handle_incoming(message)).is_some()
    }

    /// Messages to or from that keeper may have been lost.
    pub fn reconnected(&mut self, keeper: u64) {
        self.run(|paxos| paxos.reconnected(keeper));
    }

    /// Writes down what the messages say, and returns them. None leave while the file cannot be written.
    pub fn take_messages(&mut self) -> Vec<KeeperMessage> {
        let mut messages = Vec::new();
        self.run(|paxos| paxos.take_outgoing_messages(&mut messages));
        let written: Result<()> = self.store.lock().flush();
        if let Err(error) = &written
            && !self.is_failing
        {
            tracing::error!("{error}; this keeper takes no part until it can write again");
        }
        self.is_failing = written.is_err();
        if self.is_failing { Vec::new() } else { messages }
    }

    /// Reads what is decided. Returns true if there was something.
    pub fn read_decided(&mut self) -> bool {
        if self.is_failing || self.paxos.get_decided_idx() <= self.read {
            return false;
        }
        let from = self.read;
        let entries = self.run(|paxos| paxos.read_decided_suffix(from)).flatten().unwrap_or_default();
        let has_read = !entries.is_empty();
        entries.into_iter().for_each(|entry| self.read_entry(entry));
        let (read, compacted) = (self.read, self.paxos.get_compacted_idx());
        if read.saturating_sub(compacted) >= SNAPSHOT_COUNT {
            let _ = self.run(|paxos| paxos.snapshot(Some(read), true));
        }
        has_read
    }

    fn read_entry(&mut self, entry: Read<LogEntry>) {
        match entry {
            Read::Decided(LogEntry(batch)) => {
                self.read = self.read.saturating_add(1);
                let counts = self.history.read(&batch);
                self.lost_disks.extend(lost_disks(&batch.records));
                if let Some(ours) = self.ours.as_mut().filter(|ours| counts && ours.reign == batch.reign) {
                    ours.decided = batch.number.saturating_add(1);
                    ours.settle(self.rounds.proved(), self.now_ms);
                }
            }
            Read::Snapshotted(snapshot) if snapshot.trimmed_idx > self.read => {
                self.read = snapshot.trimmed_idx;
                self.history = snapshot.snapshot.history();
                self.lost_disks.extend(lost_disks(self.history.records()));
            }
            Read::Snapshotted(_) | Read::Undecided(_) | Read::Trimmed(_) | Read::StopSign(..) => {}
        }
    }

    /// The keeper that leads, as far as this one knows.
    pub fn leader(&self) -> Option<u64> {
        self.paxos.get_current_leader().map(|(keeper, _)| keeper).filter(|keeper| *keeper == self.me || self.hears(*keeper))
    }

    /// True if the engine takes that keeper for its leader.
    pub fn is_led_by(&self, keeper: u64) -> bool {
        self.paxos.get_current_leader().is_some_and(|(leader, _)| leader == keeper)
    }

    /// True if that keeper was heard of lately.
    pub fn hears(&self, keeper: u64) -> bool {
        self.heard_ms.get(&keeper).is_some_and(|heard_ms| self.now_ms.saturating_sub(*heard_ms) < HEARD_MS)
    }

    /// True if this keeper and those that it hears of are a majority.
    fn has_majority(&self) -> bool {
        let heard = (1..=self.keepers).filter(|keeper| *keeper == self.me || self.hears(*keeper)).count() as u64;
        heard > self.keepers / 2
    }

    /// Ballot under which it may append, if there is one.
    fn ballot(&self) -> Option<Ballot> {
        let leads = self.paxos.get_current_leader() == Some((self.me, true));
        leads.then(|| self.paxos.get_promise())
    }

    /// Begins and ends its reign as the engine's leader changes. Returns its part.
    pub fn rule(&mut self) -> Rule {
        let ballot = self.ballot();
        if let Some(ours) = &self.ours {
            let is_led = ballot.is_some_and(|ballot| u64::from(ballot.n) == ours.reign.term);
            let is_stalled = ours.waits() && self.now_ms.saturating_sub(ours.since_ms) > STALL_MS;
            if !is_led || is_stalled || self.history.reign() > ours.reign {
                self.ours = None;
            }
        }
        if let Some(ballot) = ballot.filter(|_| self.ours.is_none() && self.has_majority() && !self.is_failing) {
            self.turns = self.turns.saturating_add(1);
            let reign = Reign { term: ballot.n.into(), keeper: self.me, turn: self.turns };
            let (passes, since_ms) = (VecDeque::new(), self.now_ms);
            self.rounds.cancel();
            self.ours = Some(OwnReign { reign, next: 0, decided: 0, passes, told: 0, since_ms });
            self.append_batch(Vec::new(), false);
        }
        match &self.ours {
            None => Rule::None,
            Some(ours) if ours.decided == 0 => Rule::Begins,
            Some(ours) => Rule::Reigns(ours.reign),
        }
    }

    /// Takes a pass of its reign: a batch, or none where it has no records. Returns its number; without a reign one that is never committed.
    pub fn append(&mut self, records: Vec<Record>, is_whole: bool) -> BatchNumber {
        if !records.is_empty() || is_whole {
            return self.append_batch(records, is_whole);
        }
        let Some(ours) = &mut self.ours else { return BatchNumber(u64::MAX) };
        ours.begin(Pass::Round(self.rounds.want()), self.now_ms)
    }

    fn append_batch(&mut self, records: Vec<Record>, is_whole: bool) -> BatchNumber {
        let now_ms = self.now_ms;
        let Some(ours) = &mut self.ours else { return BatchNumber(u64::MAX) };
        let number = ours.next;
        ours.next = number.saturating_add(1);
        let pass = ours.begin(Pass::Batch(number), now_ms);
        let entry = LogEntry(Batch { reign: ours.reign, number, is_whole, records });
        // A batch that is not appended leaves a gap: the reign stalls and ends.
        let _ = self.run(|paxos| paxos.append(entry));
        pass
    }

    /// The last pass of its reign that may be told, and all before it.
    pub fn committed(&self) -> BatchNumber {
        BatchNumber(self.ours.as_ref().map_or(0, |ours| ours.told))
    }

    /// True if all passes of its reign may be told.
    pub fn is_settled(&self) -> bool {
        self.ours.as_ref().is_some_and(|ours| !ours.waits())
    }

    /// The question for all other keepers, where a round is due.
    pub fn ask_round(&mut self) -> Option<AskedRound> {
        let ballot = self.ballot().filter(|_| self.ours.is_some())?;
        let number = self.rounds.due(self.now_ms)?;
        Some(AskedRound { number, ballot })
    }

    /// A keeper that leads asks if this one has promised anything to a later leader. Returns true if not.
    pub fn answer_round(&mut self, from: u64, asked: AskedRound) -> bool {
        self.heard_ms.insert(from, self.now_ms);
        asked.ballot.pid == from && self.paxos.get_promise() <= asked.ballot
    }

    /// A keeper had promised nothing to a later leader, when this one asked. A process before this one asked by another ballot.
    pub fn on_no_other(&mut self, from: u64, asked: AskedRound) {
        self.heard_ms.insert(from, self.now_ms);
        if self.ballot() == Some(asked.ballot) {
            self.rounds.on_no_other(from, asked.number, self.keepers);
        }
        if let Some(ours) = &mut self.ours {
            ours.settle(self.rounds.proved(), self.now_ms);
        }
    }

    /// The records that count.
    pub fn records(&self) -> &[Record] {
        self.history.records()
    }

    /// Disks of keepers that are lost.
    pub fn lost_disks(&self) -> &BTreeSet<u128> {
        &self.lost_disks
    }

    /// True if its file cannot be written.
    pub fn is_failing(&self) -> bool {
        self.is_failing
    }
}

/// True if the message names no keeper that there is not: the engine would look for its place in tables.
fn is_of(message: &KeeperMessage, keepers: u64) -> bool {
    let is_known = |ballot: &Ballot| ballot.pid <= keepers && ballot.config_id <= 1;
    let is_sound = |sync: &LogSync<LogEntry>| sync.stopsign.is_none() && sync.sync_idx <= KEEPER_ENTRY_COUNT_MAX;
    match message {
        Message::BLE(message) => match &message.msg {
            HeartbeatMsg::Request(_) => true,
            HeartbeatMsg::Reply(reply) => is_known(&reply.ballot) && is_known(&reply.leader),
        },
        Message::SequencePaxos(message) => match &message.msg {
            PaxosMsg::PrepareReq(it) => is_known(&it.n),
            PaxosMsg::Prepare(it) => is_known(&it.n) && is_known(&it.n_accepted) && it.n.pid == message.from,
            PaxosMsg::Promise(it) => is_known(&it.n) && is_known(&it.n_accepted) && it.log_sync.as_ref().is_none_or(is_sound),
            PaxosMsg::AcceptSync(it) => is_known(&it.n) && it.n.pid == message.from && is_sound(&it.log_sync),
            PaxosMsg::AcceptDecide(it) => is_known(&it.n) && it.n.pid == message.from,
            PaxosMsg::Accepted(it) => is_known(&it.n),
            PaxosMsg::NotAccepted(it) => is_known(&it.n),
            PaxosMsg::Decide(it) => is_known(&it.n) && it.n.pid == message.from,
            PaxosMsg::ProposalForward(_) => true,
            // Keepers compact by themselves, and their number does not change.
            PaxosMsg::Compaction(_) | PaxosMsg::AcceptStopSign(_) | PaxosMsg::ForwardStopSign(_) => false,
        },
    }
}

/// The engine, as the keeper and the coordinator's journal share it.
#[derive(Clone)]
pub(crate) struct SharedEngine(Arc<Mutex<Engine>>);

impl SharedEngine {
    pub fn new(engine: Engine) -> SharedEngine {
        SharedEngine(Arc::new(Mutex::new(engine)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Engine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
