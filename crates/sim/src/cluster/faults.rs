//! Faults and their end: processes that die or stop, connections that break, hosts that are cut off, worse weather.

use crate::check::Check;
use crate::cluster::memory::SimExtent;
use crate::cluster::process::name;
use crate::cluster::{Cluster, Event, Terms};
use crate::network::Connection;
use hanare_protocol::coordinator::Peer;

impl Cluster {
    /// Something goes wrong, and the next thing is planned.
    pub(crate) fn on_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = if self.terms == Terms::Budget { self.dice.between(100, 3_000) } else { self.dice.between(500, 12_000) };
        self.at(after, Event::Fault);
        let node = self.course.dice.below(self.hosts.len() as u64) as usize;
        match self.dice.below(14) {
            0 | 1 => self.change_weather(),
            2 | 3 => self.break_connection(),
            10..13 => self.break_a_wire(node),
            _ if !self.may_lose(node) => self.count("faults beyond the budget"),
            13 => self.fail_write(node),
            4 | 5 => self.cut_off(node),
            6 | 7 => self.stop(node, &[200, 2_000, 4_000, 12_000]),
            8 => return self.leave(node),
            _ => {
                self.crash(node);
                let after = self.dice.pick(&[1, 50, 500, 2_000, 5_000, 15_000]);
                self.at(after, Event::Restart { node });
            }
        }
        Ok(())
    }

    /// Longer delays would make well nodes count as lost.
    pub(super) fn change_weather(&mut self) {
        self.throw_weather();
        if self.terms != Terms::Harsh {
            self.weather.delay_ms_max = self.weather.delay_ms_max.min(100);
        }
    }

    /// The next write to an extent with copies fails.
    fn fail_write(&mut self, node: usize) {
        let process = self.hosts[node].process.as_ref();
        let all: Vec<SimExtent> = process.map_or_else(Vec::new, |process| process.lender.all_copied().cloned().collect());
        if !all.is_empty() {
            let at = self.dice.below(all.len() as u64) as usize;
            all[at].fail_next();
        }
    }

    /// A connection closes though both processes live; the two sides notice it at different times.
    pub(super) fn break_connection(&mut self) {
        let open: Vec<Peer> = self
            .connections
            .open
            .iter()
            .filter(|(_, connection)| connection.node != connection.home.0)
            .map(|(peer, _)| *peer)
            .collect();
        if open.is_empty() {
            return;
        }
        let peer = self.dice.pick(&open);
        self.note(format!("{peer:?} breaks"));
        self.count("connections broken");
        self.close_connection(peer);
    }

    /// Both ends of a connection see that it is over, each at its time.
    fn close_connection(&mut self, peer: Peer) {
        let (is_ordered, late_ms) = (self.terms != Terms::Harsh, if self.terms == Terms::Budget { 400 } else { 4_000 });
        if let Some(connection) = self.connections.open.get_mut(&peer) {
            connection.is_cut = is_ordered;
        }
        for event in [Event::ClosedAtHome { peer }, Event::ClosedAtNode { peer }] {
            let after = self.dice.pick(&[0, 10, 200, late_ms]);
            self.at(after, event);
        }
    }

    /// A host is cut off from the others for a while.
    pub(super) fn cut_off(&mut self, node: usize) {
        if (node != self.home_at || self.keepers.is_some()) && !self.hosts[node].is_partitioned {
            self.note(format!("{} is cut off", name(node)));
            self.count("partitions");
            self.hosts[node].is_partitioned = true;
            if self.terms != Terms::Harsh {
                self.cut_off_in_order(node);
            }
            let after = self.dice.pick(&[200, 2_000, 4_000, 15_000]);
            self.at(after, Event::Heal { node });
        }
    }

    /// Connections that keep order break with that. Other nodes reach the host, or do not; programs do.
    fn cut_off_in_order(&mut self, node: usize) {
        let Some(process) = &self.hosts[node].process else { return };
        let (life, own) = (process.life, process.connection);
        let is_others = |connection: &Connection| connection.home.0 == node && connection.node != node;
        let others = self.connections.open.iter().filter(|(_, connection)| is_others(connection)).map(|(peer, _)| *peer);
        let own = own.filter(|peer| self.connections.open.get(peer).is_some_and(|connection| connection.home.0 != node));
        let all: Vec<Peer> = own.into_iter().chain(others).collect();
        all.into_iter().for_each(|peer| self.close_connection(peer));
        if self.dice.chance(5_000) {
            self.count("nodes that programs alone reach");
            self.hosts[node].is_alone = true;
            self.break_wires_of((node, life));
        }
    }

    /// A process stops for a while: it neither hears nor speaks, and its clock goes on.
    pub(super) fn stop(&mut self, node: usize, lasts_ms: &[u64]) {
        if !self.hosts[node].is_stopped && self.hosts[node].process.is_some() {
            self.note(format!("{} stops", name(node)));
            self.count("processes stopped");
            self.hosts[node].is_stopped = true;
            let after = self.dice.pick(lasts_ms);
            self.at(after, Event::Resume { node });
        }
    }

    /// A node goes in good order, and another takes its place.
    pub(super) fn leave(&mut self, node: usize) -> Check {
        if self.homes.contains_key(&node) || node == self.home_at || self.hosts[node].is_stopped {
            return Ok(());
        }
        if let Some(process) = self.hosts[node].process.as_mut() {
            process.member.leave(false);
            self.drain_node(node)?;
            self.count("nodes left");
            self.crash(node);
            let after = self.dice.between(100, 5_000);
            self.at(after, Event::Restart { node });
        }
        Ok(())
    }

    /// A stopped process goes on.
    pub(crate) fn on_resume(&mut self, node: usize) -> Check {
        if self.hosts[node].is_stopped {
            self.note(format!("{} goes on", name(node)));
            self.hosts[node].is_stopped = false;
            self.extend_bounds(node);
            self.turn_names(node)?;
            return self.resume_deferred(node);
        }
        Ok(())
    }

    /// Hosts are connected again, and processes go on.
    pub(crate) fn heal(&mut self) {
        for node in 0..self.hosts.len() {
            (self.hosts[node].is_partitioned, self.hosts[node].is_alone) = (false, false);
            self.at(0, Event::Resume { node });
            self.at(1, Event::Restart { node });
        }
    }
}
