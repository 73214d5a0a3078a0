//! Processes that begin and die.

use super::lender::{LENT, Lender, MUCH_LENT};
use super::memory::ExtentDefects;
use super::*;
use hanare_home::LockTerms;
use hanare_protocol::coordinator::{Commits, WaitingOutputs};
use std::collections::VecDeque;

impl Cluster {
    /// A process starts on a host, with the pool's home where the host had it.
    pub fn on_restart(&mut self, node: usize) -> Check {
        if self.hosts[node].process.is_some() {
            return Ok(());
        }
        let is_home = self.keepers.is_none() && node == self.home_at && self.homes.is_empty();
        let Some(versions) = self.next_versions(node, is_home)? else { return Ok(()) };
        self.lives += 1;
        let life = self.lives;
        self.note(format!("{} starts in life {life}", name(node)));
        let incarnation = self.incarnation(node, life);
        let lent = if self.terms == Terms::Harsh { LENT } else { MUCH_LENT };
        let mut lender = Lender::new(life, lent, versions);
        lender.defects = ExtentDefects { is_late: self.has(Defect::ApplyLate), forgets_ports: self.has(Defect::ForgetPorts) };
        lender.hides_shortage = self.has(Defect::HideShortage);
        let was_home = is_home && !self.journal.records.is_empty();
        let terms = LockTerms {
            is_home: is_home || self.has(Defect::GiveUpUnheard),
            was_home: was_home && !self.has(Defect::TrustRestart),
            was_lender: false,
        };
        let process = Process::new((node, life), incarnation, lender, terms);
        let clients = if self.locks_alone { 0 } else { process.clients.len() };
        for client in 0..clients {
            let after = self.dice.between(10, 2000);
            self.at(after, Event::Work { node, life, client });
        }
        self.hosts[node].process = Some(process);
        self.begin_locks((node, life), is_home, was_home);
        self.begin_without_names((node, life))?;
        self.begin_rounds((node, life));
        if is_home {
            self.start_home(life)?;
        }
        self.begin_keeper((node, life))?;
        self.on_connect(node, life)
    }

    /// The random number of a process.
    pub(super) fn incarnation(&self, node: usize, life: u64) -> Incarnation {
        let life = if self.has(Defect::ReuseIncarnation) { 0 } else { life };
        Incarnation((u128::from(life) << 8) + node as u128 + 1)
    }

    pub(super) fn start_home(&mut self, life: u64) -> Check {
        self.settle_journal()?;
        let settings = coordinator::Settings { quota: Some(QUOTA), ..coordinator::Settings::new(&name(self.home_at)) };
        let records = tenants::as_forgotten(self.defect, &self.journal.records);
        let coordinator = Coordinator::restore(settings, records, self.now_ms);
        let (outputs, planned) = (WaitingOutputs::default(), self.journal.committed());
        let (jobs, reign, passes, tick_at) = (JobService::new(life), None, VecDeque::new(), None);
        self.homes.insert(self.home_at, Home { life, coordinator, outputs, planned, jobs, reign, passes, tick_at });
        Ok(())
    }

    /// A process dies: what it had done is done, what it was about to do is not.
    pub fn crash(&mut self, node: usize) {
        let Some(process) = self.hosts[node].process.take() else { return };
        self.note(format!("{} dies in life {}", name(node), process.life));
        self.count("process deaths");
        self.hosts[node].is_stopped = false;
        self.drop_deferred(node);
        self.break_wires_of((node, process.life));
        self.end_locks((node, process.life));
        self.end_queues((node, process.life));
        self.end_senders((node, process.life));
        self.end_release(process.lender.versions.newest);
        for (job, rank) in self.programs.on_node_died(node, process.life) {
            let after = self.dice.between(0, 5_000);
            self.at(after, Event::RankEnded { job, rank });
        }
        if let Some(peer) = process.connection {
            self.connections.close(peer, true);
            let after = self.notice_ms(node);
            self.at(after, Event::ClosedAtHome { peer });
        }
        self.end_keeper(node);
        if let Some(home) = self.homes.remove(&node) {
            if self.keepers.is_none() {
                self.plan_take_over();
            }
            self.close_home((node, home.life));
        }
    }

    /// A coordinator is gone: its connections end.
    pub(super) fn close_home(&mut self, home: ProcessLife) {
        let open = self.connections.open.iter().filter(|(_, connection)| connection.home == home);
        let open: Vec<(Peer, usize)> = open.map(|(peer, connection)| (*peer, connection.node)).collect();
        for (peer, other) in open {
            self.connections.close(peer, false);
            let after = self.notice_ms(other);
            self.at(after, Event::ClosedAtNode { peer });
        }
    }

    /// The coordinator has died: another node may go on with its journal before it is back.
    fn plan_take_over(&mut self) {
        if self.course.is_rough && self.course.dice.chance(5000) {
            let node = self.course.dice.below(self.hosts.len() as u64) as usize;
            let after = self.dice.between(300, 4_000);
            self.at(after, Event::TakeOver { node });
        }
    }

    /// A node goes on as the coordinator, if there is none yet.
    pub(super) fn on_take_over(&mut self, node: usize) -> Check {
        let host = &self.hosts[node];
        let Some(process) = host.process.as_ref().filter(|_| !host.is_stopped && !host.is_partitioned && self.homes.is_empty())
        else {
            return Ok(());
        };
        let life = process.life;
        if !self.can_take_over(node)? {
            self.count("journals that the last release could not read");
            return Ok(());
        }
        self.note(format!("{} is the coordinator", name(node)));
        self.count("coordinators at another node");
        self.home_at = node;
        self.lives += 1;
        self.start_home(self.lives)?;
        self.plan_names((node, life));
        self.on_connect(node, life)
    }

    /// Time for the other side to notice a closed connection: at once, or only when keep-alives fail.
    pub fn notice_ms(&mut self, node: usize) -> u64 {
        match self.hosts[node].is_partitioned && self.terms == Terms::Harsh {
            true => self.dice.between(5_000, 20_000),
            false => self.dice.between(0, 50),
        }
    }

    pub(super) fn crash_home_between(&mut self, node: usize) {
        self.count("coordinator deaths between two outputs");
        self.crash(node);
        let after = self.dice.between(50, 8_000);
        self.at(after, Event::Restart { node });
    }
}
