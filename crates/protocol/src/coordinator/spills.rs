//! Allowances of each node's spills, by user: spilled units count towards the quota of their writer's user, as its regions do.
//!
//! A node asks ahead for more than it has spilled, so that its writers wait for nobody. What it was granted counts as used until it asks for
//! less, or its epoch ends.

use super::asks::{AskKey, Task};
use super::{Coordinator, quota};
use crate::error::Result;
use crate::id::NodeId;
use crate::wire::control::Answer;

/// A node's allowance for a user's spilled units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    /// The request by which it was granted; one before it that comes late changes nothing.
    request: u64,
    bytes: u64,
}

impl Coordinator {
    /// A node has spilled `used` bytes for the user, and would have room for `wanted`. What is spilled already is granted in any case.
    pub(super) fn reserve(&mut self, key: AskKey, task: &Task, used: u64, wanted: u64) -> Result<Answer> {
        let (uid, node) = (task.user.user.uid, task.node);
        let before = self.roster.seat(node).and_then(|seat| seat.reserved.get(&uid)).copied();
        let elsewhere = self.used_or_asked(uid).saturating_sub(before.map_or(0, |before| before.bytes));
        if let Some(before) = before.filter(|before| before.request > key.request) {
            return Ok(Answer::Reserved { granted: before.bytes, elsewhere });
        }
        let bytes = wanted.min(quota::room(self.quota_of(uid), elsewhere)).max(used);
        if let Some(seat) = self.roster.seat_mut(node) {
            match bytes {
                0 => seat.reserved.remove(&uid),
                _ => seat.reserved.insert(uid, Reservation { request: key.request, bytes }),
            };
        }
        Ok(Answer::Reserved { granted: bytes, elsewhere })
    }

    /// Bytes that all nodes may have spilled for a user.
    pub(super) fn reserved(&self, uid: u32) -> u64 {
        let all = self.roster.all().filter_map(|(_, seat)| seat.reserved.get(&uid));
        all.map(|reservation| reservation.bytes).fold(0, u64::saturating_add)
    }

    /// A node's epoch ended: what it has spilled is counted when it says so again.
    pub(super) fn forget_reserved(&mut self, node: NodeId) {
        if let Some(seat) = self.roster.seat_mut(node) {
            seat.reserved.clear();
        }
    }
}
