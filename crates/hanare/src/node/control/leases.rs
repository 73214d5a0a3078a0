//! Locks that are lent to clients of this host: how long they may be taken again, and what the pool's home is answered.

use super::event_loop::ControlLoop;
use hanare_protocol::id::ClientId;

impl ControlLoop {
    /// Locks that are lent to clients here may be taken again as long as the node is a member.
    pub(super) fn hold_leases(&mut self) {
        let now_ms = self.now_ms();
        self.extents.seats.hold_for(self.member.leases_until_ms(now_ms).saturating_sub(now_ms));
    }

    /// The pool's home wants a lock back. It asks again where nothing is known of it.
    pub(super) fn recall(&mut self, client: ClientId, number: u64) {
        if let Some(recalled) = self.extents.seats.recall(client, number) {
            self.member.recalled(client, number, recalled);
        }
    }
}
