//! The engine by which keepers agree, and what this keeper reads in the decided log.
//!
//! OmniPaxos elects a leader and orders entries; it has no clock, socket or file. Its leader's connection to a majority is checked by
//! heartbeats. A wrong message may make it panic. Then it begins again from the store, as after the keeper's death.
//!
//! Each edition of the list of keepers has a log and elections of its own. One ends by a batch that counts and has the next list. A keeper
//! that reads it begins the next edition, where it is in that list. One that was away gets the [`Base`] of another keeper.

use super::entry::LogEntry;
use super::store::{Base, SharedStore};
use hanare_memory::vital;
use hanare_protocol::Result;
pub(crate) use hanare_protocol::coordinator::Rule;
use hanare_protocol::coordinator::{BatchNumber, History, LeaderRounds, OwnReign, Record, Reign};
use hanare_protocol::keeper_list::KeeperList;
use hanare_protocol::limits::KEEPER_ENTRY_COUNT_MAX;
use omnipaxos::ballot_leader_election::Ballot;
use omnipaxos::messages::Message;
use omnipaxos::messages::ballot_leader_election::HeartbeatMsg;
use omnipaxos::messages::sequence_paxos::PaxosMsg;
use omnipaxos::util::{LogEntry as Read, LogSync};
use omnipaxos::{ClusterConfig, OmniPaxos, OmniPaxosConfig, ServerConfig};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
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

/// Decided entries in the log from which on a snapshot replaces them.
const SNAPSHOT_COUNT: usize = 1_024;

pub(crate) type KeeperMessage = Message<LogEntry>;

/// A question of the keeper that leads: has the other one promised anything to a later leader?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedRound {
    number: u64,
    ballot: Ballot,
}

/// The engine, with what this keeper read.
pub(crate) struct Engine {
    /// Present while this keeper takes part.
    paxos: Option<OmniPaxos<LogEntry, SharedStore>>,
    store: SharedStore,
    edition: u32,
    me: u64,
    keepers: BTreeSet<u64>,
    history: History,
    /// Number of entries that were read.
    read: usize,
    /// The list that ended this edition, once it was read.
    next: Option<KeeperList>,
    ours: Option<OwnReign>,
    rounds: LeaderRounds,
    /// The process's life, and the reigns that it began.
    life: u64,
    turns: u64,
    /// Priority in elections: one that led before goes on, so that names stay where they are.
    priority: u32,
    /// When each other keeper was heard last.
    heard_ms: BTreeMap<u64, u64>,
    /// The file cannot be written.
    is_failing: bool,
    now_ms: u64,
}

/// The rank of a ballot of an edition: later ones of that edition are greater.
fn term(ballot: Ballot) -> u64 {
    u64::from(ballot.n) << 32 | u64::from(ballot.priority)
}

impl Engine {
    /// The keeper with that store. It takes part where it is in the store's list.
    pub fn new(store: SharedStore, now_ms: u64) -> Engine {
        let life = store.lock().identity().lives;
        let (history, heard_ms, keepers, rounds) = Default::default();
        let (paxos, edition, me, read, next, ours) = (None, 0, 0, 0, None, None);
        let (turns, priority, is_failing) = (0, 0, false);
        let mut engine = Engine {
            paxos,
            store,
            edition,
            me,
            keepers,
            history,
            read,
            next,
            ours,
            rounds,
            life,
            turns,
            priority,
            heard_ms,
            is_failing,
            now_ms,
        };
        engine.begin_edition();
        engine
    }

    /// Begins the edition of the store, where this keeper takes part in it.
    fn begin_edition(&mut self) {
        let identity = self.store.lock().identity().clone();
        let (me, numbers) = (identity.number().unwrap_or(0), identity.list.numbers());
        (self.edition, self.me, self.keepers) = (identity.held(), me, numbers.collect());
        (self.history, self.read, self.next, self.ours) = (History::default(), 0, None, None);
        self.rounds.cancel();
        self.heard_ms.clear();
        self.paxos = None;
        self.begin();
    }

    fn begin(&mut self) {
        if !self.keepers.contains(&self.me) {
            return;
        }
        let nodes = self.keepers.iter().copied().collect();
        let cluster = ClusterConfig { configuration_id: self.edition, nodes, flexible_quorum: None };
        let server = ServerConfig {
            pid: self.me,
            election_tick_timeout: ELECTION_TICKS,
            resend_message_tick_timeout: RESEND_TICKS,
            leader_priority: self.priority,
            ..ServerConfig::default()
        };
        let config = OmniPaxosConfig { cluster_config: cluster, server_config: server };
        self.paxos = Some(config.build(self.store.clone()).expect("a sound list has two numbers or more, from 1"));
    }

    /// Begins the next edition, if this one has ended. Returns true if so.
    pub fn enter_next(&mut self) -> bool {
        let Some(list) = self.next.take() else { return false };
        let base = Base::begin(list, self.history.clone());
        self.enter(base)
    }

    /// Begins a later edition, whose base another keeper gave. Returns false where it is none that can follow.
    pub fn enter(&mut self, base: Base) -> bool {
        let led = self.ballot().is_some();
        if !self.store.lock().enter(base) {
            return false;
        }
        self.priority = u32::from(led);
        self.begin_edition();
        true
    }

    /// True if this keeper takes part in its edition.
    pub fn takes_part(&self) -> bool {
        self.paxos.is_some()
    }

    #[cfg(test)]
    pub fn edition(&self) -> u32 {
        self.edition
    }

    /// Runs the engine; after a panic in it, it begins again from the store.
    fn run<T>(&mut self, work: impl FnOnce(&mut OmniPaxos<LogEntry, SharedStore>) -> T) -> Option<T> {
        let paxos = self.paxos.as_mut()?;
        match vital::caught(|| work(paxos)) {
            Ok(done) => Some(done),
            Err(panic) => {
                tracing::error!("the keeper's engine begins again from its file: {panic}");
                self.ours = None;
                self.begin();
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
        if message.get_sender() != from || message.get_receiver() != self.me || !self.is_sound(&message) {
            return false;
        }
        self.heard(from);
        self.run(|paxos| paxos.handle_incoming(message)).is_some()
    }

    /// Notes that a keeper was heard of.
    pub fn heard(&mut self, from: u64) {
        self.heard_ms.insert(from, self.now_ms);
    }

    /// Messages to or from that keeper may have been lost.
    pub fn reconnected(&mut self, keeper: u64) {
        if self.keepers.contains(&keeper) {
            self.run(|paxos| paxos.reconnected(keeper));
        }
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
        let decided = self.paxos.as_ref().map_or(0, OmniPaxos::get_decided_idx);
        if self.is_failing || self.next.is_some() || decided <= self.read {
            return false;
        }
        let from = self.read;
        let entries = self.run(|paxos| paxos.read_decided_suffix(from)).flatten().unwrap_or_default();
        let has_read = !entries.is_empty();
        entries.into_iter().for_each(|entry| self.read_entry(entry));
        let (read, compacted) = (self.read, self.paxos.as_ref().map_or(0, OmniPaxos::get_compacted_idx));
        if self.next.is_none() && read.saturating_sub(compacted) >= SNAPSHOT_COUNT {
            let _ = self.run(|paxos| paxos.snapshot(Some(read), true));
        }
        has_read
    }

    fn read_entry(&mut self, entry: Read<LogEntry>) {
        match entry {
            Read::Decided(LogEntry(batch)) => {
                self.read = self.read.saturating_add(1);
                let counts = self.history.read(&batch);
                self.next = self.history.next_keepers(self.edition).cloned();
                if self.next.is_some() {
                    // No batch counts behind it. The next edition's leader answers.
                    self.ours = None;
                }
                if let Some(ours) = self.ours.as_mut().filter(|_| counts) {
                    ours.on_decided(&batch, self.rounds.proved(), self.now_ms);
                }
            }
            Read::Snapshotted(snapshot) if snapshot.trimmed_idx > self.read => {
                self.read = snapshot.trimmed_idx;
                self.history = snapshot.snapshot.history();
                self.next = self.history.next_keepers(self.edition).cloned();
            }
            Read::Snapshotted(_) | Read::Undecided(_) | Read::Trimmed(_) | Read::StopSign(..) => {}
        }
    }

    /// The keeper that leads, as far as this one knows.
    pub fn leader(&self) -> Option<u64> {
        self.elected().filter(|keeper| *keeper == self.me || self.hears(*keeper))
    }

    /// True if the engine takes that keeper for its leader.
    pub fn is_led_by(&self, keeper: u64) -> bool {
        self.elected() == Some(keeper)
    }

    fn elected(&self) -> Option<u64> {
        self.paxos.as_ref()?.get_current_leader().map(|(keeper, _)| keeper)
    }

    /// True if that keeper was heard of lately.
    pub fn hears(&self, keeper: u64) -> bool {
        self.heard_ms.get(&keeper).is_some_and(|heard_ms| self.now_ms.saturating_sub(*heard_ms) < HEARD_MS)
    }

    /// True if this keeper and those that it hears of are a majority.
    fn has_majority(&self) -> bool {
        let heard = self.keepers.iter().filter(|keeper| **keeper == self.me || self.hears(**keeper)).count();
        heard > self.keepers.len() / 2
    }

    /// Ballot under which it may append, if there is one.
    fn ballot(&self) -> Option<Ballot> {
        let paxos = self.paxos.as_ref()?;
        (paxos.get_current_leader() == Some((self.me, true))).then(|| paxos.get_promise())
    }

    /// Begins and ends its reign as the engine's leader changes. Returns its part.
    pub fn rule(&mut self) -> Rule {
        let ballot = self.ballot();
        if let Some(ours) = &self.ours {
            let is_led = ballot.is_some_and(|ballot| term(ballot) == ours.reign().term);
            if !is_led || ours.is_over(self.history.reign(), self.now_ms) {
                self.ours = None;
            }
        }
        let may_begin = self.ours.is_none() && self.next.is_none() && self.has_majority() && !self.is_failing;
        if let Some(ballot) = ballot.filter(|_| may_begin) {
            self.turns = self.turns.saturating_add(1);
            let (edition, keeper, life, turn) = (self.edition, self.me, self.life, self.turns);
            let reign = Reign { edition, term: term(ballot), keeper, life, turn };
            self.rounds.cancel();
            let (ours, first) = OwnReign::begin(reign, self.now_ms);
            self.ours = Some(ours);
            let _ = self.run(|paxos| paxos.append(LogEntry(first)));
        }
        self.ours.as_ref().map_or(Rule::None, OwnReign::rule)
    }

    /// Takes a pass of its reign: a batch, or none where it has no records. Returns its number; without a reign one that is never committed.
    pub fn append(&mut self, records: Vec<Record>, is_whole: bool) -> BatchNumber {
        let Some(ours) = &mut self.ours else { return BatchNumber(u64::MAX) };
        if records.is_empty() && !is_whole {
            return ours.ask(self.rounds.want(), self.now_ms);
        }
        let (pass, batch) = ours.append(records, is_whole, self.now_ms);
        let _ = self.run(|paxos| paxos.append(LogEntry(batch)));
        pass
    }

    /// The last pass of its reign that may be told, and all before it.
    pub fn committed(&self) -> BatchNumber {
        self.ours.as_ref().map_or(BatchNumber(0), OwnReign::committed)
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
        self.heard(from);
        let is_of_ours = asked.ballot.pid == from && asked.ballot.config_id == self.edition;
        is_of_ours && self.paxos.as_ref().is_some_and(|paxos| paxos.get_promise() <= asked.ballot)
    }

    /// A keeper had promised nothing to a later leader, when this one asked. A process before this one asked by another ballot.
    pub fn on_no_other(&mut self, from: u64, asked: AskedRound) {
        self.heard(from);
        if self.ballot() == Some(asked.ballot) {
            self.rounds.on_no_other(from, asked.number, self.keepers.len() as u64);
        }
        if let Some(ours) = &mut self.ours {
            ours.settle(self.rounds.proved(), self.now_ms);
        }
    }

    /// The records that count.
    pub fn records(&self) -> &[Record] {
        self.history.records()
    }

    /// True if its file cannot be written.
    pub fn is_failing(&self) -> bool {
        self.is_failing
    }

    /// True if the message is of this edition and of its keepers: the engine would look for others in tables.
    fn is_sound(&self, message: &KeeperMessage) -> bool {
        let is_known = |ballot: &Ballot| {
            *ballot == Ballot::default() || (self.keepers.contains(&ballot.pid) && ballot.config_id == self.edition)
        };
        let is_sync = |sync: &LogSync<LogEntry>| sync.stopsign.is_none() && sync.sync_idx <= KEEPER_ENTRY_COUNT_MAX;
        if !self.keepers.contains(&message.get_sender()) {
            return false;
        }
        match message {
            Message::BLE(message) => match &message.msg {
                HeartbeatMsg::Request(_) => true,
                HeartbeatMsg::Reply(reply) => is_known(&reply.ballot) && is_known(&reply.leader),
            },
            Message::SequencePaxos(message) => match &message.msg {
                PaxosMsg::PrepareReq(it) => is_known(&it.n),
                PaxosMsg::Prepare(it) => is_known(&it.n) && is_known(&it.n_accepted) && it.n.pid == message.from,
                PaxosMsg::Promise(it) => is_known(&it.n) && is_known(&it.n_accepted) && it.log_sync.as_ref().is_none_or(is_sync),
                PaxosMsg::AcceptSync(it) => is_known(&it.n) && it.n.pid == message.from && is_sync(&it.log_sync),
                PaxosMsg::AcceptDecide(it) => is_known(&it.n) && it.n.pid == message.from,
                PaxosMsg::Accepted(it) => is_known(&it.n),
                PaxosMsg::NotAccepted(it) => is_known(&it.n),
                PaxosMsg::Decide(it) => is_known(&it.n) && it.n.pid == message.from,
                PaxosMsg::ProposalForward(_) => true,
                // Keepers compact by themselves, and an edition ends by an entry.
                PaxosMsg::Compaction(_) | PaxosMsg::AcceptStopSign(_) | PaxosMsg::ForwardStopSign(_) => false,
            },
        }
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
