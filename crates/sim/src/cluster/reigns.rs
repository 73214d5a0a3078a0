//! Coordinators of keepers that lead, driven as a keeper's process drives them.

use super::jobs::JobService;
use super::keepers::KeeperLife;
use super::process::{Home, Process, ProcessLife, name};
use super::{Cluster, Defect, Event, QUOTA, tenants};
use crate::check::{Check, check};
use hanare_protocol::coordinator::{
    Batch, BatchNumber, Commits, Coordinator, LeaderRounds, OwnReign, Record, Reign, Rule, Settings, WaitingOutputs,
};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::LEASE_MS;
use hanare_protocol::member::Phase;
use std::collections::VecDeque;
use std::convert::Infallible;

/// Time without a word of a coordinator after which a node that is no member tries another keeper.
const SILENT_MS: u64 = 1_000;

/// The journal of a coordinator in its reign.
struct ReignJournal<'a> {
    now_ms: u64,
    ours: &'a mut OwnReign,
    rounds: &'a mut LeaderRounds,
    /// The batch of the pass, and the number of the pass, if there was one.
    batch: Option<Batch>,
    pass: Option<BatchNumber>,
}

impl Commits for ReignJournal<'_> {
    type Error = Infallible;

    fn append(&mut self, records: Vec<Record>) -> Result<BatchNumber, Infallible> {
        let pass = if records.is_empty() {
            self.ours.ask(self.rounds.want(), self.now_ms)
        } else {
            let (pass, batch) = self.ours.append(records, false, self.now_ms);
            self.batch = Some(batch);
            pass
        };
        self.pass = Some(pass);
        Ok(pass)
    }

    fn committed(&self) -> BatchNumber {
        self.ours.committed()
    }
}

impl Cluster {
    /// A keeper's reign begins and ends as its leadership does, and its coordinator goes on.
    pub(super) fn turn_keeper(&mut self, host: usize) -> Check {
        let (now_ms, may_begin) = (self.now_ms, self.majority().contains(&host));
        let Some(keeper) = self.keepers_mut().running.get_mut(&host) else { return Ok(()) };
        let is_over = |ours: &OwnReign| keeper.leads != Some(ours.reign().term) || ours.is_over(keeper.history.reign(), now_ms);
        if keeper.ours.as_ref().is_some_and(is_over) {
            keeper.ours = None;
        }
        let mut first = None;
        if let Some(term) = keeper.leads.filter(|_| keeper.ours.is_none() && may_begin) {
            keeper.turns += 1;
            let reign = Reign { edition: 1, term, keeper: host as u64 + 1, life: 1, turn: keeper.turns };
            keeper.rounds.cancel();
            let (ours, batch) = OwnReign::begin(reign, now_ms);
            (keeper.ours, first) = (Some(ours), Some(batch));
        }
        let rule = keeper.ours.as_ref().map_or(Rule::None, OwnReign::rule);
        first.into_iter().for_each(|batch| self.propose(host, batch));
        let reign = if let Rule::Reigns(reign) = rule { Some(reign) } else { None };
        if self.homes.get(&host).map(|home| home.reign) != reign.map(Some) {
            self.end_reign(host)?;
            if let Some(reign) = reign {
                self.begin_reign(host, reign)?;
            }
        }
        self.drain_home(host)
    }

    fn begin_reign(&mut self, host: usize, reign: Reign) -> Check {
        let keepers = self.keepers_mut();
        let is_new = keepers.reigns.insert(reign, None).is_none();
        check(is_new, || format!("{reign:?} begins twice"))?;
        let today = keepers.truth.reign();
        if today > reign {
            keepers.reigns.insert(reign, Some(0));
        }
        let Some(keeper) = keepers.running.get(&host) else { return Ok(()) };
        let (life_of_node, mut records) = (keeper.life, keeper.history.records().to_vec());
        if self.has(Defect::GiveGidsAgain) {
            records.retain(|record| !matches!(record, Record::GidsReserved { .. }));
        }
        // Before the first reign of all nobody was home of names.
        let names_at_ms = self.now_ms + if records.is_empty() { 0 } else { LEASE_MS };
        self.note(format!("{} reigns in {reign:?}", name(host)));
        self.count("reigns");
        self.lose_connection(host)?;
        self.lives += 1;
        let settings = Settings { quota: Some(QUOTA), ..Settings::new(&name(host)) };
        let records = tenants::as_forgotten(self.defect, &records);
        let mut coordinator = Coordinator::restore(settings, records, self.now_ms);
        if !self.has(Defect::ForgetKeepers) {
            coordinator.set_keepers(self.known_keepers());
        }
        let (outputs, planned) = (WaitingOutputs::default(), BatchNumber::default());
        let (mut jobs, passes, tick_at, life) = (JobService::new(self.lives), VecDeque::new(), None, self.lives);
        jobs.set_home(self.now_ms, NodeId(0), false);
        let home = Home { life, coordinator, outputs, planned, jobs, reign: Some(reign), passes, tick_at };
        self.homes.insert(host, home);
        if today <= reign {
            self.home_at = host;
        }
        self.plan_reign_of_names(host, Some(names_at_ms))?;
        self.on_connect(host, life_of_node)
    }

    fn end_reign(&mut self, host: usize) -> Check {
        let Some(home) = self.homes.remove(&host) else { return Ok(()) };
        self.note(format!("{} reigns no more", name(host)));
        self.plan_reign_of_names(host, None)?;
        self.lose_connection(host)?;
        self.close_home((host, home.life));
        Ok(())
    }

    /// A node's process closes its connection to the coordinator.
    fn lose_connection(&mut self, node: usize) -> Check {
        let Some(peer) = self.hosts[node].process.as_ref().and_then(|process| process.connection) else { return Ok(()) };
        let after = self.dice.between(0, 50);
        self.at(after, Event::ClosedAtHome { peer });
        self.on_closed_at_node(peer)
    }

    /// A node that is no member, and hears nothing, tries another keeper.
    pub(super) fn leave_silent(&mut self, node: usize) -> Check {
        let now_ms = self.now_ms;
        let is_silent =
            |process: &Process| process.member.phase() != Phase::Member && now_ms.saturating_sub(process.heard_ms) > SILENT_MS;
        if self.keepers.is_none() || !self.hosts[node].process.as_ref().is_some_and(is_silent) {
            return Ok(());
        }
        self.lose_connection(node)
    }

    /// A keeper's node goes to the keeper that leads.
    pub(super) fn go_to_leader(&mut self, node: usize, leader: usize) -> Check {
        let peer = self.hosts[node].process.as_ref().and_then(|process| process.connection);
        let at = peer.and_then(|peer| self.connections.open.get(&peer)).map(|connection| connection.home.0);
        if at.is_none_or(|at| at == leader || at == node) || !self.homes.contains_key(&leader) || !self.dice.chance(3_000) {
            return Ok(());
        }
        self.lose_connection(node)
    }

    /// The keeper with a coordinator to which a node comes. Several may take themselves for the leader.
    pub(super) fn reign_for(&mut self, node: usize) -> Option<ProcessLife> {
        let homes: Vec<ProcessLife> = self.homes.iter().map(|(at, home)| (*at, home.life)).collect();
        if let Some(own) = homes.iter().find(|(at, _)| *at == node) {
            return Some(*own);
        }
        let is_away = |host: usize| self.hosts[host].is_partitioned;
        let reached: Vec<ProcessLife> =
            homes.into_iter().filter(|(at, _)| !is_away(node) && !is_away(*at) && !self.hosts[*at].is_stopped).collect();
        if reached.is_empty() { None } else { Some(self.dice.pick(&reached)) }
    }

    /// The coordinator's passes go to the log. What may be told leaves, in order.
    pub(super) fn drain_reign(&mut self, host: usize) -> Check {
        let now_ms = self.now_ms;
        let (Some(home), Some(keepers)) = (self.homes.get_mut(&host), self.keepers.as_mut()) else { return Ok(()) };
        let Some(keeper) = keepers.running.get_mut(&host) else { return Ok(()) };
        let (Some(ours), rounds) = (keeper.ours.as_mut(), &mut keeper.rounds) else { return Ok(()) };
        let mut journal = ReignJournal { now_ms, ours, rounds, batch: None, pass: None };
        let Ok(()) = home.outputs.take(&mut home.coordinator, &mut journal);
        let ReignJournal { batch, pass, ours, .. } = journal;
        if self.course.has(Defect::SkipRounds) {
            ours.settle(u64::MAX, now_ms);
        }
        home.passes.extend(pass.map(|pass| (pass, now_ms)));
        batch.into_iter().for_each(|batch| self.propose(host, batch));
        self.ask_round(host);
        if !self.tell_passes(host)? {
            return Ok(());
        }
        self.compact_log(host);
        self.schedule_home(host);
        Ok(())
    }

    /// Returns false where the process has died meanwhile.
    fn tell_passes(&mut self, host: usize) -> Result<bool, String> {
        loop {
            let committed = self.may_tell(host);
            let Some(home) = self.homes.get_mut(&host) else { return Ok(false) };
            let Some((pass, decided_ms)) = home.passes.front().copied().filter(|(pass, _)| *pass <= committed) else {
                return Ok(true);
            };
            let Some(output) = home.outputs.next(pass) else {
                home.passes.pop_front();
                continue;
            };
            let reign = home.reign.unwrap_or_default();
            let ended = self.keepers_mut().reigns.get(&reign).copied().flatten();
            check(ended.is_none_or(|ended_ms| decided_ms <= ended_ms), || {
                format!("{} says in {reign:?}, which is over: {output:?}", name(host))
            })?;
            if !self.act_on(host, output, decided_ms)? {
                return Ok(false);
            }
        }
    }

    /// The last pass that may be told.
    fn may_tell(&mut self, host: usize) -> BatchNumber {
        let speaks_early = self.has(Defect::SpeakEarly) || self.has(Defect::AnswerUndecided);
        let ours = self.keepers_mut().running.get(&host).and_then(|keeper| keeper.ours.as_ref());
        match ours {
            Some(_) if speaks_early => BatchNumber(u64::MAX),
            ours => ours.map_or(BatchNumber::default(), OwnReign::committed),
        }
    }

    /// Sometimes a batch with all that counts takes the place of what was before it.
    fn compact_log(&mut self, host: usize) {
        let now_ms = self.now_ms;
        if !self.is_rough || !self.dice.chance(20) {
            return;
        }
        let (Some(home), Some(keepers)) = (self.homes.get(&host), self.keepers.as_mut()) else { return };
        let Some(ours) = keepers.running.get_mut(&host).and_then(|keeper| keeper.ours.as_mut()) else { return };
        if ours.waits() {
            return;
        }
        let (_, batch) = ours.append(home.coordinator.snapshot(), true, now_ms);
        self.count("journals compacted");
        self.propose(host, batch);
    }

    /// True if nothing that the coordinator of today has said is under way, and it has read all.
    pub(super) fn is_settled(&self, home: &Home) -> bool {
        let Some(keepers) = &self.keepers else { return !self.journal.is_behind() };
        let is_read =
            |keeper: &KeeperLife| keeper.read == keepers.decided() && keeper.ours.as_ref().is_some_and(|ours| !ours.waits());
        home.reign == Some(keepers.truth.reign()) && keepers.running.get(&self.home_at).is_some_and(is_read)
    }
}
