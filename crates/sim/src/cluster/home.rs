//! The coordinator and its journal, driven as node 0's process drives them.

use super::*;
use crate::harness::due;
use hanare_home::Input;
use hanare_protocol::coordinator::{BatchNumber, Commits};

impl Cluster {
    pub(super) fn on_tick_home(&mut self, life: u64) -> Check {
        let Some(home) = self.home.as_mut().filter(|home| home.life == life) else { return Ok(()) };
        home.tick_at = None;
        home.coordinator.tick(self.course.now_ms);
        self.drain_home()
    }

    /// Appends what the coordinator gives to its journal, and acts on outputs whose records are committed, in order. Its process may die
    /// between any two.
    pub fn drain_home(&mut self) -> Check {
        let Some(home) = self.home.as_mut() else { return Ok(()) };
        let Ok(()) = home.outputs.take(&mut home.coordinator, &mut self.journal);
        self.plan_commits();
        loop {
            let speaks_early = self.has(Defect::SpeakEarly);
            let Some(home) = self.home.as_mut() else { return Ok(()) };
            let through = if speaks_early { BatchNumber(u64::MAX) } else { self.journal.committed() };
            let Some(output) = home.outputs.next(through) else {
                if self.commit_next()? {
                    continue;
                }
                break;
            };
            if self.is_rough && self.dice.chance(3) && self.may_lose(self.home_at) {
                self.crash_home_between();
                return Ok(());
            }
            match output {
                coordinator::Output::Journal(_) => unreachable!("it went to the journal"),
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

    pub(super) fn schedule_home(&mut self) {
        let Some(home) = self.home.as_mut() else { return };
        let life = home.life;
        if let Some(due) = due(home.coordinator.next_deadline(), &mut home.tick_at, self.course.now_ms) {
            self.at(due, Event::TickHome { life });
        }
    }
}
