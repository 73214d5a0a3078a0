//! Keepers: the journal of several nodes, by what its contract allows.
//!
//! The engine of the product is not here. The simulator plays what its users may see of it:
//!
//! | a promise of the engine | what is played within it |
//! |---|---|
//! | entries are decided in one order | late, twice, or never; a deposed leader's may come behind those of the next one, with gaps |
//! | a leader was elected by a majority | at any time, at any keeper that a majority hears; one before it knows nothing of that until it is told |
//! | a keeper reads what is decided, in order | late; a snapshot in place of entries; again from its file when its process begins anew |
//! | a keeper that promised itself to a later leader says so | questions and answers that are lost and late |
//!
//! The rules on top of that are those of the product: [`History`], [`OwnReign`], [`LeaderRounds`]. The module `reigns` drives coordinators by
//! them. The first hosts of the pool are the keepers. The home of names and of jobs moves with them (`locks/names`).

mod elections;
mod reading;

use super::process::ProcessLife;
use super::{Cluster, Defect, Event, Terms};
use crate::check::{Check, check};
use crate::dice::Dice;
use hanare_protocol::coordinator::{Batch, History, LeaderRounds, OwnReign, Record, Reign};
use hanare_protocol::copies::{HolderSet, Term};
use hanare_protocol::wire::copies::CopiedExtent;
use std::collections::{BTreeMap, VecDeque};

/// Time between looks at who leads, and at what waits for a majority.
const LOOK_MS: u64 = 100;
/// Entries from one snapshot to the next, and snapshots that are kept.
const SNAPSHOT_COUNT: usize = 32;
const SNAPSHOTS_KEPT: usize = 8;
/// Batches of deposed leaders that may still be decided.
const LATE_COUNT: usize = 16;
/// Part of a seed that says which runs have keepers: other throws of these runs are as before.
const SALT: u64 = 0x6b65_6581;

/// Something that happens to keepers.
#[derive(Clone, Debug)]
pub(crate) enum KeeperEvent {
    /// Keepers are looked at: one may lead.
    Look,
    /// A majority has the next batch of the leader of that term.
    Decide { term: u64 },
    /// A keeper hears how many entries are decided.
    Read { at: ProcessLife, through: usize },
    /// A leader asks a keeper whether it has promised anything to a later one.
    Ask { to: ProcessLife, from: ProcessLife, term: u64, round: u64 },
    /// The keeper has promised nothing to a later one.
    NoOther { to: ProcessLife, from: usize, term: u64, round: u64 },
    /// A leader hears that it is none any more.
    Deposed { at: ProcessLife, term: u64 },
}

impl KeeperEvent {
    /// The host whose process it needs.
    pub fn host(&self) -> Option<usize> {
        match self {
            KeeperEvent::Look | KeeperEvent::Decide { .. } => None,
            KeeperEvent::Read { at, .. } | KeeperEvent::Deposed { at, .. } => Some(at.0),
            KeeperEvent::Ask { to, .. } | KeeperEvent::NoOther { to, .. } => Some(to.0),
        }
    }
}

/// The leader that a majority elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Elected {
    term: u64,
    at: ProcessLife,
    /// Since when a majority hears it.
    heard_since_ms: u64,
}

/// A batch that a leader has appended, and no majority has yet.
#[derive(Clone, Debug)]
struct Proposal {
    by: ProcessLife,
    /// Other keepers may have it.
    is_sent: bool,
    batch: Batch,
}

/// A keeper's process.
#[derive(Debug)]
pub(crate) struct KeeperLife {
    pub life: u64,
    pub history: History,
    /// Entries that it has read, and the number of the next batch that counts.
    pub read: usize,
    /// True if its build can read the log: else the others do not talk with it.
    takes_part: bool,
    next: u64,
    pub ours: Option<OwnReign>,
    pub rounds: LeaderRounds,
    pub turns: u64,
    /// The term in which it takes itself for the leader.
    pub leads: Option<u64>,
    /// From when on its node is the home of names while it reigns, and whether it is.
    pub names_at_ms: Option<u64>,
    pub is_home: bool,
}

/// All keepers.
#[derive(Debug, Default)]
pub(crate) struct Keepers {
    /// Their number: they are the first hosts.
    count: usize,
    /// The decided entries, and what they mean.
    log: Vec<Batch>,
    pub truth: History,
    /// Snapshots of the first entries, by the number of those.
    snapshots: VecDeque<(usize, History)>,
    elected: Option<Elected>,
    terms: u64,
    /// When the next leader is elected, if the last one is not heard.
    elects_at_ms: Option<u64>,
    /// Batches of the elected leader that no majority has yet, in order; and those of leaders before it.
    pending: VecDeque<Proposal>,
    late: Vec<Proposal>,
    /// The first entry that the last release could not read.
    younger_from: Option<usize>,
    /// Terms that keepers promised themselves to; and what their files have of the log.
    promised: Vec<u64>,
    filed: Vec<usize>,
    pub running: BTreeMap<usize, KeeperLife>,
    /// Reigns in which coordinators began, and when a later one's first batch was decided.
    pub reigns: BTreeMap<Reign, Option<u64>>,
    /// Sets of holders that coordinators have told.
    holders: BTreeMap<(CopiedExtent, Term), HolderSet>,
}

impl Keepers {
    /// Number of decided entries.
    pub fn decided(&self) -> usize {
        self.log.len()
    }

    /// The histories that the next leader may know: of the batches that are not decided the first few, or none.
    pub fn possible(&self) -> Vec<History> {
        let late_last = self.pending.iter().chain(&self.late).collect();
        let late_first = self.late.iter().chain(&self.pending).collect();
        [late_last, late_first].into_iter().flat_map(|order| self.chain(order)).collect()
    }

    /// The histories that these batches make one after the other.
    fn chain(&self, mut left: Vec<&Proposal>) -> Vec<History> {
        let mut all = vec![self.truth.clone()];
        loop {
            let mut next = all[all.len() - 1].clone();
            let Some(counts) = left.iter().position(|proposal| next.read(&proposal.batch)) else { return all };
            left.remove(counts);
            all.push(next);
        }
    }

    /// A coordinator tells a set of holders: no other has told another one of that term.
    pub fn on_told(&mut self, extent: CopiedExtent, set: &HolderSet) -> Check {
        let before = self.holders.entry((extent, set.term)).or_insert_with(|| set.clone());
        check(before == set, || format!("{extent:?} has the holders {before:?} and {set:?}"))
    }
}

impl Cluster {
    /// The dice say whether this pool has keepers.
    pub(super) fn begin_keepers(&mut self) {
        let mut dice = Dice::new(self.plan.seed ^ SALT);
        let is_wanted = self.defect.is_some_and(Defect::is_of_keepers) || dice.chance(5_000);
        let hosts = self.hosts.len();
        if self.terms == Terms::Harsh || hosts < 3 || !is_wanted || self.defect.is_some_and(Defect::is_of_locks) {
            return;
        }
        let count = if hosts >= 5 && dice.chance(3_000) { 5 } else { 3 };
        let (promised, filed) = (vec![0; count], vec![0; count]);
        self.keepers = Some(Keepers { count, promised, filed, ..Keepers::default() });
        self.locks_alone = false;
        self.at(0, Event::Keeper(KeeperEvent::Look));
    }

    pub(super) fn on_keeper_event(&mut self, event: KeeperEvent) -> Check {
        match event {
            KeeperEvent::Look => self.look_at_keepers(),
            KeeperEvent::Decide { term } => self.on_decide(term),
            KeeperEvent::Read { at, through } => self.on_read(at, through),
            KeeperEvent::Ask { to, from, term, round } => self.on_round_asked(to, from, term, round),
            KeeperEvent::NoOther { to, from, term, round } => self.on_no_other(to, from, term, round),
            KeeperEvent::Deposed { at, term } => self.on_deposed(at, term),
        }
    }

    /// The keepers; only called in pools that have some.
    pub(super) fn keepers_mut(&mut self) -> &mut Keepers {
        self.keepers.as_mut().expect("a pool with keepers")
    }

    /// The process of a keeper's life.
    pub(super) fn keeper(&mut self, at: ProcessLife) -> Option<&mut KeeperLife> {
        self.keepers.as_mut()?.running.get_mut(&at.0).filter(|keeper| keeper.life == at.1)
    }

    /// A process begins. A keeper reads its file.
    pub(super) fn begin_keeper(&mut self, (host, life): ProcessLife) -> Check {
        let takes_part = self.can_read(host);
        let Some(keepers) = self.keepers.as_mut().filter(|keepers| host < keepers.count) else { return Ok(()) };
        let filed = keepers.filed[host];
        let snapshot = keepers.snapshots.iter().rev().find(|(count, _)| *count <= filed).cloned();
        let (read, history) = snapshot.unwrap_or_default();
        let (ours, rounds, leads, names_at_ms, is_home) = Default::default();
        let keeper = KeeperLife { life, history, read, takes_part, next: 0, ours, rounds, turns: 0, leads, names_at_ms, is_home };
        keepers.running.insert(host, keeper);
        self.read_entries(host, filed);
        if !takes_part {
            self.count("keepers that could not read the log");
            self.plan_update((host, life));
        }
        self.judge_read(host)
    }

    pub(super) fn end_keeper(&mut self, host: usize) {
        if let Some(keepers) = &mut self.keepers {
            keepers.running.remove(&host);
        }
    }

    /// A leader appends a batch.
    pub(super) fn propose(&mut self, host: usize, batch: Batch) {
        let (is_rough, is_sent) = (self.is_rough, self.majority().contains(&host));
        let keepers = self.keepers_mut();
        let Some(keeper) = keepers.running.get(&host) else { return };
        let (at, leads) = ((host, keeper.life), keeper.leads);
        let proposal = Proposal { by: at, is_sent, batch };
        let elected = keepers.elected.filter(|elected| elected.at == at && Some(elected.term) == leads);
        let Some(elected) = elected else {
            self.count("batches of deposed leaders");
            let keepers = self.keepers_mut();
            if keepers.late.len() < LATE_COUNT {
                keepers.late.push(proposal);
            }
            return;
        };
        keepers.pending.push_back(proposal);
        let after = if is_rough { self.dice.pick(&[0, 1, 1, 5, 20, 400]) } else { 1 };
        self.at(after, Event::Keeper(KeeperEvent::Decide { term: elected.term }));
    }

    fn on_decide(&mut self, term: u64) -> Check {
        if self.keepers_mut().elected.is_none_or(|elected| elected.term != term) || self.keepers_mut().pending.is_empty() {
            return Ok(());
        }
        if self.heard_leader().is_none() {
            self.at(LOOK_MS, Event::Keeper(KeeperEvent::Decide { term }));
            return Ok(());
        }
        self.decide_next()
    }

    fn decide_next(&mut self) -> Check {
        match self.keepers_mut().pending.pop_front() {
            Some(Proposal { batch, .. }) => self.decide(batch),
            None => Ok(()),
        }
    }

    /// An entry is decided: the judge hears it at once, and keepers some time.
    fn decide(&mut self, batch: Batch) -> Check {
        self.judge_entry(&batch)?;
        if self.is_rough && self.dice.chance(50) {
            self.count("batches decided twice");
            self.keepers_mut().log.push(batch.clone());
            self.judge_decided(&batch)?;
        }
        self.judge_decided(&batch)?;
        let keepers = self.keepers_mut();
        keepers.log.push(batch);
        let decided = keepers.log.len();
        if decided.is_multiple_of(SNAPSHOT_COUNT) {
            keepers.snapshots.push_back((decided, keepers.truth.clone()));
            if keepers.snapshots.len() > SNAPSHOTS_KEPT {
                keepers.snapshots.pop_front();
            }
        }
        let leader = keepers.elected.map(|elected| elected.at);
        for host in self.majority() {
            let Some(at) = self.keepers_mut().running.get(&host).map(|keeper| (host, keeper.life)) else { continue };
            let after = match (self.is_rough, leader == Some(at)) {
                (false, _) => 1,
                (true, true) => self.dice.pick(&[0, 0, 1, 20, 300]),
                (true, false) => self.dice.pick(&[1, 50, 400]),
            };
            self.at(after, Event::Keeper(KeeperEvent::Read { at, through: decided }));
        }
        Ok(())
    }

    fn judge_decided(&mut self, batch: &Batch) -> Check {
        let now_ms = self.now_ms;
        let keepers = self.keepers_mut();
        if !keepers.truth.read(batch) {
            self.count("batches that are void");
            return Ok(());
        }
        if batch.number == 0 {
            let earlier = keepers.reigns.range_mut(..batch.reign).map(|(_, end)| end);
            earlier.for_each(|end| *end = end.or(Some(now_ms)));
        }
        if batch.is_whole {
            return Ok(());
        }
        for record in &batch.records {
            // Terms begin again with an order of writes.
            if let Record::TakesCopies { gid } | Record::EndsCopies { gid } = record {
                keepers.holders.retain(|(extent, _), _| extent.gid != *gid);
            }
        }
        self.checks.keep_version(now_ms);
        self.checks.begin_batch(now_ms);
        for record in &batch.records {
            self.checks.on_record(record)?;
            self.count("records");
        }
        self.on_journaled(&batch.records)?;
        self.note_homes(&batch.records);
        Ok(())
    }

    fn on_read(&mut self, at: ProcessLife, through: usize) -> Check {
        if self.keeper(at).is_none() || self.hosts[at.0].is_partitioned {
            return Ok(());
        }
        self.take_snapshot(at, through);
        self.read_entries(at.0, through);
        self.judge_read(at.0)?;
        self.turn_keeper(at.0)
    }

    /// A keeper that lacks entries gets a snapshot in place of them.
    fn take_snapshot(&mut self, at: ProcessLife, through: usize) {
        let (is_stale, is_rough) = (self.has(Defect::TakeStaleSnapshot), self.is_rough);
        let Some(read) = self.keeper(at).filter(|keeper| keeper.ours.is_none()).map(|keeper| keeper.read) else { return };
        let fits = |count: usize| if is_stale { count < read } else { (read + 1..=through).contains(&count) };
        let snapshot = self.keepers_mut().snapshots.iter().rev().find(|(count, _)| fits(*count)).cloned();
        let Some((count, history)) = snapshot.filter(|_| is_rough) else { return };
        if let Some(keeper) = self.keeper(at) {
            (keeper.history, keeper.read) = (history, count.max(read));
            self.count("snapshots in place of entries");
        }
    }

    fn read_entries(&mut self, host: usize, through: usize) {
        let (now_ms, counts_earlier) = (self.now_ms, self.has(Defect::CountEarlierReign));
        let Keepers { log, running, filed, .. } = self.keepers_mut();
        let Some(keeper) = running.get_mut(&host) else { return };
        let from = keeper.read.min(log.len());
        for batch in &log[from..through.clamp(from, log.len())] {
            let counts = keeper.history.read(batch);
            if counts {
                keeper.next = batch.number + 1;
            } else if counts_earlier && batch.reign < keeper.history.reign() {
                let as_if = Batch { reign: keeper.history.reign(), number: keeper.next, ..batch.clone() };
                keeper.next += u64::from(keeper.history.read(&as_if));
            }
            keeper.read += 1;
            if let Some(ours) = keeper.ours.as_mut().filter(|_| counts) {
                ours.on_decided(batch, keeper.rounds.proved(), now_ms);
            }
        }
        filed[host] = keeper.read;
    }

    /// A leader proves that it leads.
    pub(super) fn ask_round(&mut self, host: usize) {
        let now_ms = self.now_ms;
        let keepers = self.keepers_mut();
        let Some(keeper) = keepers.running.get_mut(&host) else { return };
        let (from, Some(term)) = ((host, keeper.life), keeper.leads.filter(|_| keeper.ours.is_some())) else { return };
        let Some(round) = keeper.rounds.due(now_ms) else { return };
        let others = keepers.running.iter().filter(|(other, keeper)| **other != host && keeper.takes_part);
        let others: Vec<ProcessLife> = others.map(|(other, keeper)| (*other, keeper.life)).collect();
        for to in others {
            if !self.hosts[host].is_partitioned && !self.hosts[to.0].is_partitioned {
                let after = self.delay_ms();
                self.at(after, Event::Keeper(KeeperEvent::Ask { to, from, term, round }));
            }
        }
    }

    fn on_round_asked(&mut self, to: ProcessLife, from: ProcessLife, term: u64, round: u64) -> Check {
        let is_cut = self.hosts[to.0].is_partitioned || self.hosts[from.0].is_partitioned;
        if self.keeper(to).is_some() && !is_cut && self.keepers_mut().promised[to.0] <= term {
            let after = self.delay_ms();
            self.at(after, Event::Keeper(KeeperEvent::NoOther { to: from, from: to.0, term, round }));
        }
        Ok(())
    }

    fn on_no_other(&mut self, to: ProcessLife, from: usize, term: u64, round: u64) -> Check {
        let (now_ms, count) = (self.now_ms, self.keepers_mut().count as u64);
        let is_cut = self.hosts[to.0].is_partitioned;
        let Some(keeper) = self.keeper(to).filter(|keeper| keeper.leads == Some(term) && !is_cut) else { return Ok(()) };
        keeper.rounds.on_no_other(from as u64, round, count);
        let proved = keeper.rounds.proved();
        keeper.ours.iter_mut().for_each(|ours| ours.settle(proved, now_ms));
        self.count("rounds answered");
        self.turn_keeper(to.0)
    }

    fn on_deposed(&mut self, at: ProcessLife, term: u64) -> Check {
        let Some(keeper) = self.keeper(at).filter(|keeper| keeper.leads == Some(term)) else { return Ok(()) };
        keeper.leads = None;
        self.count("leaders deposed");
        self.turn_keeper(at.0)
    }
}
