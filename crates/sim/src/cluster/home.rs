//! The coordinator and its journal, driven as node 0's process drives them.

use super::*;
use crate::harness::due;
use hanare_home::Input;
use hanare_protocol::coordinator::{BatchNumber, Commits};

impl Cluster {
    pub(super) fn on_tick_home(&mut self, (at, life): ProcessLife) -> Check {
        let Some(home) = self.homes.get_mut(&at).filter(|home| home.life == life) else { return Ok(()) };
        home.tick_at = None;
        home.coordinator.tick(self.course.now_ms);
        self.drain_home(at)
    }

    /// Appends what the coordinator gives to its journal, and acts on outputs whose records are committed, in order. Its process may die
    /// between any two.
    pub fn drain_home(&mut self, at: usize) -> Check {
        if self.keepers.is_some() {
            return self.drain_reign(at);
        }
        let Some(home) = self.homes.get_mut(&at) else { return Ok(()) };
        let Ok(()) = home.outputs.take(&mut home.coordinator, &mut self.journal);
        self.plan_commits();
        loop {
            let speaks_early = self.has(Defect::SpeakEarly);
            let Some(home) = self.homes.get_mut(&at) else { return Ok(()) };
            let through = if speaks_early { BatchNumber(u64::MAX) } else { self.journal.committed() };
            let Some(output) = home.outputs.next(through) else {
                if self.commit_next()? {
                    continue;
                }
                break;
            };
            let now_ms = self.now_ms;
            if !self.act_on(at, output, now_ms)? {
                return Ok(());
            }
        }
        self.compact_sometimes();
        self.schedule_home(at);
        Ok(())
    }

    /// Acts on an output of a coordinator, which was decided then. Returns false where its process has died before that.
    pub(super) fn act_on(&mut self, at: usize, output: coordinator::Output, decided_ms: u64) -> Result<bool, String> {
        if self.is_rough && self.dice.chance(3) && self.may_lose(at) {
            self.crash_home_between(at);
            return Ok(false);
        }
        match output {
            coordinator::Output::Journal(_) => unreachable!("it went to the journal"),
            coordinator::Output::Send(peer, message) => {
                self.judge_message(peer, &message, decided_ms)?;
                self.transmit(peer, Event::ToNode { peer, message });
            }
            coordinator::Output::NodeLost { node, epoch, .. } => {
                self.checks.on_node_lost(node, epoch);
                self.programs.on_node_lost(node);
                self.note(format!("{node} is lost in {epoch}"));
                self.count("nodes lost");
            }
            coordinator::Output::JobRankGone { job, rank, ranks, reason, died } => {
                self.drive_jobs(at, Input::RankGone { job, rank, ranks, reason, died })?;
            }
        }
        Ok(true)
    }

    pub(super) fn schedule_home(&mut self, at: usize) {
        let Some(home) = self.homes.get_mut(&at) else { return };
        let life = home.life;
        if let Some(due) = due(home.coordinator.next_deadline(), &mut home.tick_at, self.course.now_ms) {
            self.at(due, Event::TickHome { at: (at, life) });
        }
    }
}
