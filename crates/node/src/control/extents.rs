//! Extents that the coordinator orders.

use super::event_loop::ControlLoop;
use super::readying_extents::ReadyingExtents;
use crate::extents::{Readiness, ReadyExtents};
use crate::notices::ToService;
use hanare_protocol::Error;
use hanare_protocol::copies::HolderSet;
use hanare_protocol::id::{Gid, NodeId, Slot};
use hanare_protocol::limits::READY_MS;
use hanare_protocol::wire::copies::{CopiedExtent, ToHolder};

/// Time between looks at commands that are under way on extents that are made ready for copies.
const LOOK_MS: u64 = 2;

impl ControlLoop {
    /// Makes extents of a region, all or none. The service hears of one with copies before the coordinator does.
    pub(super) fn make_extents(&mut self, order: u64, gid: Gid, lens: &[u64], copied: Option<(CopiedExtent, HolderSet)>) {
        let result = self.extents.make(gid, lens, copied.is_some());
        if let (Some((extent, set)), Ok([made])) = (copied, result.as_deref()) {
            self.copied_slots.note(extent, made.slot);
            self.service.notify(ToService::Copied { extent, set, order, slot: made.slot });
        }
        self.member.made(order, result);
    }

    /// Begins to make extents ready for copies, or to end that. A coordinator must know that this node writes them down. Others would move them
    /// to nodes that do not, and would take old bytes from a later life.
    pub(super) fn begin_ready(&mut self, order: u64, gid: Gid, set: Option<HolderSet>, extents: Vec<(CopiedExtent, Slot)>) {
        if let Some(set) = set.as_ref().filter(|_| self.keeper.is_some() && !self.member.says_it_persists()) {
            let reason = format!(
                "{} writes it down (--persist), and the pool's coordinator is of a release that moves no such regions",
                set.home
            );
            return self.member.made_ready(order, Err(Error::BadUse { region: gid.to_string(), reason }));
        }
        let until_ms = self.now_ms().saturating_add(READY_MS);
        self.readying.push(ReadyingExtents { order, gid, set, extents, until_ms, is_told: false });
        self.tick_readying();
    }

    /// Looks again at extents whose commands were under way. Orders on one region are carried out in turn.
    pub(super) fn tick_readying(&mut self) {
        let now_ms = self.now_ms();
        for mut readying in std::mem::take(&mut self.readying) {
            if self.readying.iter().any(|before| before.gid == readying.gid) {
                self.readying.push(readying);
                continue;
            }
            let slots: Vec<Slot> = readying.extents.iter().map(|(_, slot)| *slot).collect();
            match self.extents.make_ready(readying.gid, &slots, readying.set.is_some()) {
                Ok(Readiness::Changed(ready)) => self.made_ready(readying, ready),
                Ok(waits) if now_ms < readying.until_ms => {
                    if matches!(waits, Readiness::Quiet) && !std::mem::replace(&mut readying.is_told, true) {
                        self.end_copies(&readying.extents);
                    }
                    self.readying.push(readying);
                }
                Ok(_) => {
                    let node = self.member.identity().map_or(NodeId(0), |(node, _)| node);
                    self.cancel_ready(
                        readying,
                        format!("{node} has commands on it under way that do not end; see to the programs that began them"),
                    );
                }
                Err(error) => self.fail_ready(&readying, error),
            }
        }
    }

    /// The service hears of them before the coordinator does.
    fn made_ready(&mut self, readying: ReadyingExtents, ready: ReadyExtents) {
        let ReadyingExtents { order, set, extents, .. } = readying;
        let set = set.iter();
        for (set, (extent, slot)) in set.flat_map(|set| extents.iter().map(move |extent| (set, *extent))) {
            // The service hears of extents that were ready before, too: their home may have a set of a higher term.
            self.copied_slots.note(extent, slot);
            self.service.notify(ToService::Copied { extent, set: set.clone(), order, slot });
        }
        self.member.made_ready(order, Ok(ready.reports));
    }

    fn cancel_ready(&mut self, readying: ReadyingExtents, reason: String) {
        self.extents.cancel_ready(readying.gid);
        self.fail_ready(&readying, Error::BadUse { region: readying.gid.to_string(), reason });
    }

    /// Extents are as they were. Those that are still ready have their order of writes again.
    fn fail_ready(&mut self, readying: &ReadyingExtents, error: Error) {
        if readying.is_told {
            let home = self.member.identity().map_or(NodeId(0), |(node, _)| node);
            let ready = readying.extents.iter().copied().filter(|(extent, slot)| self.extents.has_copies(extent.gid, *slot));
            for (extent, slot) in ready {
                let set = HolderSet::alone(home);
                self.service.notify(ToService::Copied { extent, set, order: readying.order, slot });
            }
        }
        self.member.made_ready(readying.order, Err(error));
    }

    /// The coordinator says who holds an extent with copies. The only holder writes it down, soon if it has just become that.
    pub(super) fn note_holders(&mut self, extent: CopiedExtent, message: &ToHolder) {
        let (ToHolder::Set(set) | ToHolder::Elect { set, .. }) = message else { return };
        let Some((node, _)) = self.member.identity() else { return };
        let is_alone = set.home == node && set.copies.is_empty();
        let has_become = self.copied_slots.slot(extent).is_some_and(|slot| self.extents.set_alone(extent.gid, slot, is_alone));
        if let Some(schedule) = self.schedule.as_ref().filter(|_| has_become) {
            schedule.write_soon();
        }
    }

    /// Lets go of extents.
    pub(super) fn free_extents(&mut self, slots: &[Slot]) {
        self.copied_slots.forget(slots);
        self.extents.free(slots);
        self.service.notify(ToService::Freed);
    }

    /// The service lets go of extents whose order of writes ends.
    fn end_copies(&self, extents: &[(CopiedExtent, Slot)]) {
        extents.iter().for_each(|(extent, _)| self.service.notify(ToService::CopiesEnd { extent: *extent }));
    }

    /// The node joins anew: the coordinator knows the grants that extents had before.
    pub(super) fn cancel_all_ready(&mut self) {
        for readying in std::mem::take(&mut self.readying) {
            self.cancel_ready(readying, "the node joined the pool anew meanwhile".to_owned());
        }
    }

    /// When [`ControlLoop::tick_readying`] is due.
    pub(super) fn readying_due_ms(&self) -> Option<u64> {
        (!self.readying.is_empty()).then(|| self.now_ms().saturating_add(LOOK_MS))
    }
}
