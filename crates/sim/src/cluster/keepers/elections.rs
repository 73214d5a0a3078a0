//! Elections: one keeper leads, others learn it late, and batches of leaders before are found, forwarded or lost.

use super::{Elected, KeeperEvent, LATE_COUNT, LOOK_MS, Proposal};
use crate::check::{Check, check};
use crate::cluster::process::name;
use crate::cluster::{Cluster, Event};

/// A leader that a majority hears reigns after that time: a pass that stalls included.
const REIGN_BOUND_MS: u64 = 5_000;

impl Cluster {
    /// True if other keepers hear that one.
    fn is_heard(&self, host: usize) -> bool {
        let running = self.keepers.as_ref().and_then(|keepers| keepers.running.get(&host));
        let (host, takes_part) = (&self.hosts[host], running.is_some_and(|keeper| keeper.takes_part));
        host.process.is_some() && takes_part && !host.is_stopped && !host.is_partitioned
    }

    /// Keepers that hear each other, if they are a majority.
    pub(in crate::cluster) fn majority(&self) -> Vec<usize> {
        let count = self.keepers.as_ref().map_or(0, |keepers| keepers.count);
        let heard: Vec<usize> = (0..count).filter(|host| self.is_heard(*host)).collect();
        if heard.len() > count / 2 { heard } else { Vec::new() }
    }

    /// The elected leader, if a majority hears it.
    pub(super) fn heard_leader(&self) -> Option<Elected> {
        let keepers = self.keepers.as_ref()?;
        let keeper = |elected: &Elected| keepers.running.get(&elected.at.0).filter(|keeper| keeper.life == elected.at.1);
        let leads = |elected: &Elected| keeper(elected).is_some_and(|keeper| keeper.leads == Some(elected.term));
        keepers.elected.filter(|elected| leads(elected) && self.majority().contains(&elected.at.0))
    }

    /// Elections, and news that keepers missed.
    pub(super) fn look_at_keepers(&mut self) -> Check {
        self.at(LOOK_MS, Event::Keeper(KeeperEvent::Look));
        let (now_ms, majority) = (self.now_ms, self.majority());
        let is_whim = self.is_rough && self.dice.chance(20);
        match self.heard_leader().filter(|_| !is_whim) {
            Some(leader) => {
                let keepers = self.keepers_mut();
                keepers.elects_at_ms = None;
                keepers.pending.iter_mut().for_each(|proposal| proposal.is_sent = true);
                let late = now_ms - leader.heard_since_ms > REIGN_BOUND_MS && !self.homes.contains_key(&leader.at.0);
                check(!late, || format!("{} leads, a majority hears it, and it does not reign", name(leader.at.0)))?;
                self.catch_up(leader)?;
            }
            None if majority.is_empty() => {
                self.count("looks without a majority");
                self.keepers_mut().elects_at_ms = None;
                self.forget_heard();
            }
            None => {
                self.forget_heard();
                let after = self.dice.between(0, 1_500);
                let due_ms = *self.keepers_mut().elects_at_ms.get_or_insert(now_ms + after);
                if is_whim || due_ms <= now_ms {
                    let next = self.dice.pick(&majority);
                    self.elect(next, &majority)?;
                }
            }
        }
        let leading: Vec<usize> =
            self.keepers_mut().running.iter().filter(|(_, keeper)| keeper.leads.is_some()).map(|(host, _)| *host).collect();
        leading
            .into_iter()
            .filter(|host| !self.hosts[*host].is_stopped)
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|host| self.turn_keeper(host))
    }

    fn forget_heard(&mut self) {
        let now_ms = self.now_ms;
        if let Some(elected) = &mut self.keepers_mut().elected {
            elected.heard_since_ms = now_ms;
        }
    }

    /// Keepers hear what they missed: entries, and that another leads. Batches of leaders before may be decided.
    fn catch_up(&mut self, leader: Elected) -> Check {
        for host in self.majority() {
            let keepers = self.keepers_mut();
            let decided = keepers.log.len();
            let Some(keeper) = keepers.running.get(&host) else { continue };
            let (at, lacks, leads) = ((host, keeper.life), keeper.read < decided, keeper.leads);
            if let Some(term) = leads.filter(|term| *term < leader.term) {
                let after = self.dice.pick(&[0, 50, 300]);
                self.at(after, Event::Keeper(KeeperEvent::Deposed { at, term }));
            }
            if lacks && self.dice.chance(5_000) {
                let after = self.dice.between(1, 50);
                self.at(after, Event::Keeper(KeeperEvent::Read { at, through: decided }));
            }
            self.go_to_leader(host, leader.at.0)?;
        }
        self.decide_late()
    }

    /// A batch of a leader before this one is forwarded by those who have it, or lost.
    fn decide_late(&mut self) -> Check {
        let late = self.keepers_mut().late.len() as u64;
        if late == 0 || !self.dice.chance(1_500) {
            return Ok(());
        }
        let which = self.dice.below(late) as usize;
        let Proposal { by, is_sent, .. } = self.keepers_mut().late[which];
        if !is_sent && self.keeper(by).is_some() && !self.is_heard(by.0) {
            return Ok(());
        }
        let has_left = is_sent || self.keeper(by).is_some();
        let Proposal { batch, .. } = self.keepers_mut().late.swap_remove(which);
        if has_left && self.dice.chance(7_000) {
            self.count("batches of deposed leaders decided late");
            return self.decide(batch);
        }
        Ok(())
    }

    /// A keeper promises itself to a leader: it leads no more itself.
    fn promise(&mut self, host: usize, term: u64) -> Check {
        let keepers = self.keepers_mut();
        keepers.promised[host] = term;
        let led = keepers.running.get(&host).and_then(|keeper| Some(((host, keeper.life), keeper.leads?)));
        led.map_or(Ok(()), |(at, term)| self.on_deposed(at, term))
    }

    /// A majority promises itself to a leader. Of the batches that the one before had under way it finds the first few, or none.
    fn elect(&mut self, host: usize, majority: &[usize]) -> Check {
        let now_ms = self.now_ms;
        let is_found = |proposal: &&Proposal| proposal.is_sent || majority.contains(&proposal.by.0);
        let found = self.keepers_mut().pending.iter().take_while(is_found).count() as u64;
        let kept = self.dice.between(0, found) as usize;
        let keepers = self.keepers_mut();
        keepers.terms += 1;
        let term = keepers.terms;
        let others: Vec<usize> = majority.iter().copied().filter(|other| *other != host).collect();
        let lost: Vec<Proposal> = keepers.pending.drain(kept..).collect();
        keepers.late.extend(lost);
        keepers.late.truncate(LATE_COUNT);
        let Some(keeper) = keepers.running.get_mut(&host) else { return Ok(()) };
        keeper.leads = Some(term);
        let at = (host, keeper.life);
        keepers.elected = Some(Elected { term, at, heard_since_ms: now_ms });
        keepers.elects_at_ms = None;
        // A majority is enough: others hear of it later.
        let needed = keepers.count / 2;
        keepers.promised[host] = term;
        for (place, other) in others.into_iter().enumerate() {
            if place < needed || self.dice.chance(5_000) {
                self.promise(other, term)?;
            }
        }
        self.note(format!("{} is elected in term {term}, and finds {kept} batches", name(host)));
        self.count("leaders elected");
        (0..kept).try_for_each(|_| self.decide_next())
    }
}
