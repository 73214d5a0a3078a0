//! Extents that the coordinator orders.

use super::event_loop::ControlLoop;
use crate::notices::ToService;
use hanare_protocol::copies::HolderSet;
use hanare_protocol::id::Gid;
use hanare_protocol::wire::copies::CopiedExtent;

impl ControlLoop {
    /// Makes extents of a region, all or none. The service hears of one with copies before the coordinator does.
    pub(super) fn make_extents(&mut self, order: u64, gid: Gid, lens: &[u64], copied: Option<(CopiedExtent, HolderSet)>) {
        let result = self.extents.make(gid, lens, copied.is_some());
        if let (Some((extent, set)), Ok([made])) = (copied, result.as_deref()) {
            self.service.notify(ToService::Copied { extent, set, order, slot: made.slot });
        }
        self.member.made(order, result);
    }
}
