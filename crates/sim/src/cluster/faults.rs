//! Faults and their end: processes that die or stop, connections that break, hosts that are cut off, worse weather.

use crate::check::Check;
use crate::cluster::process::name;
use crate::cluster::{Cluster, Event};
use hanare_protocol::coordinator::Peer;

impl Cluster {
    /// Something goes wrong, and the next thing is planned.
    pub(crate) fn on_fault(&mut self) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.dice.between(500, 12_000);
        self.at(after, Event::Fault);
        let node = self.course.dice.below(self.hosts.len() as u64) as usize;
        match self.dice.below(10) {
            0 | 1 => self.throw_weather(),
            2 | 3 => self.break_connection(),
            4 | 5 => self.cut_off(node),
            6 | 7 => self.stop(node),
            8 => return self.leave(node),
            _ => {
                self.crash(node);
                let after = self.dice.pick(&[1, 50, 500, 2_000, 5_000, 15_000]);
                self.at(after, Event::Restart { node });
            }
        }
        Ok(())
    }

    /// A connection closes though both processes live; the two sides notice it at different times.
    fn break_connection(&mut self) {
        let home = self.home_at;
        let open: Vec<Peer> =
            self.connections.open.iter().filter(|(_, connection)| connection.node != home).map(|(peer, _)| *peer).collect();
        if open.is_empty() {
            return;
        }
        let peer = self.dice.pick(&open);
        self.note(format!("{peer:?} breaks"));
        self.count("connections broken");
        for event in [Event::ClosedAtHome { peer }, Event::ClosedAtNode { peer }] {
            let after = self.dice.pick(&[0, 10, 200, 4_000]);
            self.at(after, event);
        }
    }

    /// A host is cut off from the others for a while.
    fn cut_off(&mut self, node: usize) {
        if node != self.home_at && !self.hosts[node].is_partitioned {
            self.note(format!("{} is cut off", name(node)));
            self.count("partitions");
            self.hosts[node].is_partitioned = true;
            let after = self.dice.pick(&[200, 2_000, 4_000, 15_000]);
            self.at(after, Event::Heal { node });
        }
    }

    /// A process stops for a while: it neither hears nor speaks, and its clock goes on.
    fn stop(&mut self, node: usize) {
        if !self.hosts[node].is_stopped && self.hosts[node].process.is_some() {
            self.note(format!("{} stops", name(node)));
            self.count("processes stopped");
            self.hosts[node].is_stopped = true;
            let after = self.dice.pick(&[200, 2_000, 4_000, 12_000]);
            self.at(after, Event::Resume { node });
        }
    }

    /// A node goes in good order, and another takes its place.
    fn leave(&mut self, node: usize) -> Check {
        if node == self.home_at || self.hosts[node].is_stopped {
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
            self.resume_deferred();
        }
        Ok(())
    }

    /// Hosts are connected again, and processes go on.
    pub(crate) fn heal(&mut self) {
        for node in 0..self.hosts.len() {
            self.hosts[node].is_partitioned = false;
            self.at(0, Event::Resume { node });
            self.at(1, Event::Restart { node });
        }
    }
}
