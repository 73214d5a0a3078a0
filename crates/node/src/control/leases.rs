//! Locks that are lent: how long clients of this host may take theirs again, what homes of locks are answered, and what this home asks.

use super::event_loop::ControlLoop;
use crate::notices::ToService;
use hanare_protocol::id::{ClientId, NodeId};
use hanare_ring::thread_slots::monotonic_ns;

impl ControlLoop {
    /// Locks that are lent to clients here may be taken again as long as the node is a member, and homes of extents with copies answer.
    pub(super) fn hold_leases(&mut self) {
        let now_ms = self.now_ms();
        let left_ms = self.member.leases_until_ms(now_ms).saturating_sub(now_ms);
        self.extents.thread_slots().hold_for(left_ms, monotonic_ns());
        self.extents.hold_leases(left_ms, self.member.homes_until_ms().saturating_sub(now_ms));
    }

    /// The node is no member any more: nothing that is lent to clients here may be taken again, and what this node asks may not be heard.
    pub(super) fn lapsed(&mut self) {
        self.cancel_all_ready();
        self.extents.thread_slots().recall_all();
        self.service.notify(ToService::Member(false));
    }

    /// A home of locks wants one back. It asks again where nothing is known of it.
    pub(super) fn recall(&mut self, home: NodeId, client: ClientId, number: u64) {
        if let Some(recalled) = self.extents.thread_slots().recall(client, number) {
            self.member.recalled(home, client, number, recalled);
        }
    }

    /// Recalls a lock's lease. The node looks at words of its own host itself, member or not.
    pub(super) fn recall_lock(&mut self, client: ClientId, number: u64) {
        if self.member.identity().is_none_or(|(node, _)| node != client.node()) {
            self.member.recall_lock(client, number);
        } else if let Some(recalled) = self.extents.thread_slots().recall(client, number) {
            self.service.notify(ToService::Recalled { client, number, recalled });
        }
    }
}
