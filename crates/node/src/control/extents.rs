//! Extents that the coordinator orders.

use super::event_loop::ControlLoop;
use super::readying_extents::ReadyingExtents;
use crate::extents::ReadyExtents;
use crate::notices::ToService;
use hanare_protocol::Error;
use hanare_protocol::copies::HolderSet;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::limits::READY_MS;
use hanare_protocol::wire::copies::CopiedExtent;

/// Time between looks at commands that are under way on extents that are made ready for copies.
const LOOK_MS: u64 = 2;

impl ControlLoop {
    /// Makes extents of a region, all or none. The service hears of one with copies before the coordinator does.
    pub(super) fn make_extents(&mut self, order: u64, gid: Gid, lens: &[u64], copied: Option<(CopiedExtent, HolderSet)>) {
        let result = self.extents.make(gid, lens, copied.is_some());
        if let (Some((extent, set)), Ok([made])) = (copied, result.as_deref()) {
            self.service.notify(ToService::Copied { extent, set, order, slot: made.slot });
        }
        self.member.made(order, result);
    }

    /// Begins to make extents ready for copies. What this node writes down has none: a later life would bring old bytes.
    pub(super) fn begin_ready(&mut self, order: u64, gid: Gid, set: HolderSet, extents: Vec<(CopiedExtent, Slot)>) {
        if self.keeper.is_some() {
            let reason = format!("{} writes it down (--persist), and what is written down has no copies", set.home);
            return self.member.made_ready(order, Err(Error::BadUse { region: gid.to_string(), reason }));
        }
        let until_ms = self.now_ms().saturating_add(READY_MS);
        self.readying.push(ReadyingExtents { order, gid, set, extents, until_ms });
        self.tick_readying();
    }

    /// Looks again at extents whose commands were under way.
    pub(super) fn tick_readying(&mut self) {
        let now_ms = self.now_ms();
        for readying in std::mem::take(&mut self.readying) {
            let slots: Vec<Slot> = readying.extents.iter().map(|(_, slot)| *slot).collect();
            match self.extents.make_ready(readying.gid, &slots) {
                Ok(Some(ready)) => self.made_ready(readying, ready),
                Ok(None) if now_ms < readying.until_ms => self.readying.push(readying),
                Ok(None) => {
                    let node = readying.set.home;
                    self.cancel_ready(
                        readying,
                        format!("{node} has commands on it under way that do not end; see to the programs that began them"),
                    );
                }
                Err(error) => self.member.made_ready(readying.order, Err(error)),
            }
        }
    }

    /// The service hears of them before the coordinator does.
    fn made_ready(&mut self, readying: ReadyingExtents, ready: ReadyExtents) {
        let ReadyingExtents { order, set, extents, .. } = readying;
        for (extent, slot) in extents.into_iter().filter(|(_, slot)| ready.new.contains(slot)) {
            self.service.notify(ToService::Copied { extent, set: set.clone(), order, slot });
        }
        self.member.made_ready(order, Ok(ready.reports));
    }

    fn cancel_ready(&mut self, readying: ReadyingExtents, reason: String) {
        let ReadyingExtents { order, gid, .. } = readying;
        self.extents.cancel_ready(gid);
        self.member.made_ready(order, Err(Error::BadUse { region: gid.to_string(), reason }));
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
