//! The coordinator and its journal, driven as node 0's process drives them.

use super::*;
use crate::harness::due;
use hanare_home::Input;

impl Cluster {
    pub(super) fn on_tick_home(&mut self, life: u64) -> Check {
        let Some(home) = self.home.as_mut().filter(|home| home.life == life) else { return Ok(()) };
        home.tick_at = None;
        home.coordinator.tick(self.course.now_ms);
        self.drain_home()
    }

    /// Acts on all outputs of the coordinator, in order; its process may die between any two.
    pub fn drain_home(&mut self) -> Check {
        loop {
            let Some(home) = self.home.as_mut() else { return Ok(()) };
            let Some(output) = home.coordinator.poll() else { break };
            if self.is_rough && self.dice.chance(3) {
                self.crash_home_between();
                return Ok(());
            }
            match output {
                coordinator::Output::Journal(record) => self.on_journal(record)?,
                coordinator::Output::Send(peer, message) => {
                    self.judge_message(&message)?;
                    self.transmit(peer, Event::ToNode { peer, message });
                }
                coordinator::Output::NodeLost { node, epoch, .. } => {
                    self.checks.on_node_lost(node, epoch);
                    self.programs.on_node_lost(node);
                    self.note(format!("{node} is lost in {epoch}"));
                    self.count("nodes lost");
                }
                coordinator::Output::JobRankGone { job, rank, ranks, reason, died } => {
                    self.drive_jobs(Input::RankGone { job, rank, ranks, reason, died })?;
                }
            }
        }
        self.compact_sometimes();
        self.schedule_home();
        Ok(())
    }

    /// A record is durable.
    pub(super) fn on_journal(&mut self, record: Record) -> Check {
        if self.has(Defect::JournalLate) && matches!(record, Record::Created { .. }) && self.dice.chance(5000) {
            return Ok(());
        }
        self.checks.on_record(&record)?;
        self.journal.push(record);
        self.count("records");
        Ok(())
    }

    /// Sometimes the journal is replaced by its snapshot.
    pub(super) fn compact_sometimes(&mut self) {
        if let Some(home) = self.home.as_ref()
            && self.is_rough
            && self.course.dice.chance(20)
        {
            self.journal = home.coordinator.snapshot();
            self.count("journals compacted");
        }
    }

    pub(super) fn schedule_home(&mut self) {
        let Some(home) = self.home.as_mut() else { return };
        let life = home.life;
        if let Some(due) = due(home.coordinator.next_deadline(), &mut home.tick_at, self.course.now_ms) {
            self.at(due, Event::TickHome { life });
        }
    }
}
