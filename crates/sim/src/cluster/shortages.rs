//! Hosts that run short of memory, so that half of what their nodes hold leaves, and that have enough again.
//!
//! They have dice of their own, and runs with other defects have none: so the seeds that find those stay what they were.

use super::process::Process;
use super::{Cluster, Defect, Event, Terms};
use crate::check::{Check, check};
use crate::dice::Dice;
use crate::Plan;
use hanare_protocol::coordinator::RegionRecord;
use hanare_protocol::id::NodeId;

/// What happens to a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ShortageEvent {
    /// The next one runs short.
    Next,
    /// This one does, for good.
    Begins { node: usize },
    /// This one has memory enough again.
    Ends { node: usize },
}

/// The dice of a run in which hosts run short.
pub(super) fn dice(plan: Plan, terms: Terms, defect: Option<Defect>) -> Option<Dice> {
    let is_played = defect.map_or(plan.seed % 3 == 1, |defect| defect == Defect::HideShortage);
    (is_played && terms == Terms::Budget).then(|| Dice::new(plan.seed ^ 0x5407))
}

impl Cluster {
    pub(super) fn on_shortage(&mut self, event: ShortageEvent) -> Check {
        match event {
            ShortageEvent::Next => self.next_shortage(),
            ShortageEvent::Begins { node } => self.set_short(node, true),
            ShortageEvent::Ends { node } => self.set_short(node, false),
        }
        Ok(())
    }

    fn next_shortage(&mut self) {
        let (is_rough, count) = (self.is_rough, self.hosts.len() as u64);
        let Some(dice) = self.shortages.as_mut().filter(|_| is_rough) else { return };
        let (node, lasts, after) = (dice.below(count) as usize, dice.pick(&[1_000, 5_000, 20_000]), dice.between(2_000, 15_000));
        self.count("hosts short of memory");
        self.at(lasts, Event::Shortage(ShortageEvent::Ends { node }));
        self.at(after, Event::Shortage(ShortageEvent::Next));
        self.set_short(node, true);
    }

    fn set_short(&mut self, node: usize, is_short: bool) {
        if let Some(process) = self.hosts[node].process.as_mut() {
            process.lender.set_short(is_short);
            process.member.set_memory(process.lender.memory());
        }
    }

    /// At the end all hosts have memory enough, but one.
    pub(super) fn last_shortage(&mut self) {
        let count = self.hosts.len() as u64;
        let Some(dice) = self.shortages.as_mut() else { return };
        let short = dice.below(count) as usize;
        (0..self.hosts.len()).for_each(|node| self.at(2, Event::Shortage(ShortageEvent::Ends { node })));
        self.at(5_000, Event::Shortage(ShortageEvent::Begins { node: short }));
    }

    /// What a node holds beyond what it lends has left, where another node could get it.
    pub(super) fn judge_shortage(&self, process: &Process) -> Check {
        let (overhang, id) = (process.lender.overhang(), process.member.identity().map(|(id, _)| id));
        let (Some(id), Some(home)) = (id.filter(|_| overhang > 0), self.home()) else { return Ok(()) };
        let stays = home.coordinator.regions().find(|region| self.may_leave(id, region));
        check(stays.is_none(), || format!("{overhang} bytes are to leave {id}, and {stays:?} stays"))
    }

    /// True if a whole region has an extent on a node that a node without it could get.
    fn may_leave(&self, node: NodeId, region: &RegionRecord) -> bool {
        let extents = region.layout.extents().enumerate();
        let holders = extents.map(|(index, home)| {
            let copies = region.holders.get(index).map_or(&[][..], |known| &known.copies);
            std::iter::once(home).chain(copies).map(|extent| extent.node).collect::<Vec<_>>()
        });
        region.lost.is_empty() && holders.into_iter().any(|holders| holders.contains(&node) && holders.len() < self.hosts.len())
    }
}
