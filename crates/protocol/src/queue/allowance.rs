//! Allowances of a node's spills. They decide for the node if a user may have more memory there, and when to ask the coordinator. That
//! counts users' memory in the whole pool.
//!
//! A node asks for more than it needs, and before it needs it, so that writers seldom wait. Where there is no quota nobody is asked.

use super::home::NoSpill;
use crate::id::is_tenant;
use crate::limits::{QUEUE_SPILL_LEN, SPILL_AHEAD_LEN_MAX, SPILL_REFUSED_MS};
use std::collections::BTreeMap;

/// A question to the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpillQuestion {
    /// The user.
    pub uid: u32,
    /// Bytes that are spilled for it here.
    pub used: u64,
    /// Bytes that it may become.
    pub wanted: u64,
}

/// A user's allowance.
///
/// - `asked` is what the question under way wants; there is one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Allowance {
    used: u64,
    granted: u64,
    /// Bytes that the user had in regions and at other nodes when the coordinator answered.
    elsewhere: u64,
    /// The next amount to ask for.
    wanted: Option<u64>,
    asked: Option<u64>,
    /// Less was granted than was asked for: until then nobody is asked again.
    refused_until_ms: u64,
}

/// Spilled bytes of a node's queues, by user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowances {
    /// Bytes that each user may have in the pool; `None` for no limit, and before it is known.
    quota: Option<u64>,
    users: BTreeMap<u32, Allowance>,
    total: u64,
}

impl Allowances {
    /// Bytes that are spilled in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The node is a member, at first or again. What it was granted before may be counted no more, so the coordinator is asked again.
    pub fn set_quota(&mut self, quota: Option<u64>) {
        self.quota = quota;
        for (uid, allowance) in &mut self.users {
            allowance.granted = allowance.used;
            allowance.wanted = limit_of(quota, *uid).map(|limit| allowance.used.saturating_add(ahead(limit)));
        }
    }

    /// A user's writer is about to spill `len` bytes more.
    ///
    /// **Errors**: [`NoSpill::NotYet`], with a question that is due; [`NoSpill::OverQuota`]. Nothing is taken then.
    pub fn take(&mut self, now_ms: u64, uid: u32, len: u64) -> Result<(), NoSpill> {
        let allowance = self.users.entry(uid).or_default();
        let used = allowance.used.saturating_add(len);
        if let Some(limit) = limit_of(self.quota, uid) {
            let (ahead, may_ask) = (ahead(limit), now_ms >= allowance.refused_until_ms);
            if used > allowance.granted && !may_ask {
                // The coordinator alone knows a tenant's quota: all of it is granted and elsewhere by then.
                let limit = if is_tenant(uid) { allowance.elsewhere.saturating_add(allowance.granted) } else { limit };
                return Err(NoSpill::OverQuota { used: allowance.elsewhere.saturating_add(allowance.used), limit });
            }
            if used.saturating_add(ahead / 2) > allowance.granted && may_ask {
                allowance.wanted = Some(used.saturating_add(ahead));
            }
            if used > allowance.granted {
                return Err(NoSpill::NotYet);
            }
        }
        allowance.used = used;
        self.total = self.total.saturating_add(len);
        Ok(())
    }

    /// Bytes that were taken are free again.
    pub fn give_back(&mut self, uid: u32, len: u64) {
        self.total = self.total.saturating_sub(len);
        if let Some(allowance) = self.users.get_mut(&uid) {
            allowance.used = allowance.used.saturating_sub(len);
        }
    }

    /// From time to time: what users do not need any more is given back to their quota.
    pub fn trim(&mut self) {
        let quota = self.quota;
        self.users.retain(|uid, allowance| {
            let quota = limit_of(quota, *uid);
            let needed = match (quota, allowance.used) {
                (None, _) | (_, 0) => allowance.used,
                (Some(limit), used) => used.saturating_add(ahead(limit)),
            };
            if allowance.asked.is_none() && allowance.wanted.is_none() && allowance.granted > needed {
                allowance.granted = needed;
                allowance.wanted = quota.map(|_| needed);
            }
            allowance.used > 0 || allowance.granted > 0 || allowance.wanted.is_some() || allowance.asked.is_some()
        });
    }

    /// The questions that are due; each is answered by [`Allowances::answered`].
    pub fn due(&mut self) -> Vec<SpillQuestion> {
        let mut due = Vec::new();
        for (uid, allowance) in &mut self.users {
            if allowance.asked.is_none()
                && let Some(wanted) = allowance.wanted.take()
            {
                allowance.asked = Some(wanted);
                due.push(SpillQuestion { uid: *uid, used: allowance.used, wanted });
            }
        }
        due
    }

    /// True if there are any.
    pub fn is_due(&self) -> bool {
        self.users.values().any(|allowance| allowance.asked.is_none() && allowance.wanted.is_some())
    }

    /// A question has its answer: bytes granted, and those that the user has elsewhere; `None` where the coordinator gave none.
    pub fn answered(&mut self, now_ms: u64, uid: u32, answer: Option<(u64, u64)>) {
        let Some(allowance) = self.users.get_mut(&uid) else { return };
        let asked = allowance.asked.take();
        let Some((granted, elsewhere)) = answer else { return };
        (allowance.granted, allowance.elsewhere) = (granted, elsewhere);
        if asked.is_some_and(|asked| granted < asked) {
            allowance.refused_until_ms = now_ms.saturating_add(SPILL_REFUSED_MS);
        }
    }
}

/// The most that a user may have, as far as a node knows; `None` for no limit. A tenant may have a quota of its own in any pool.
fn limit_of(quota: Option<u64>, uid: u32) -> Option<u64> {
    if is_tenant(uid) { Some(quota.unwrap_or(u64::MAX)) } else { quota }
}

/// Amount to ask for beyond the need.
fn ahead(limit: u64) -> u64 {
    (limit / 64).clamp(QUEUE_SPILL_LEN, SPILL_AHEAD_LEN_MAX)
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;

    const LIMIT: u64 = 10 << 20;

    /// The coordinator's answer to all that is due: no more than `room`.
    fn answer(all: &mut Allowances, now_ms: u64, room: u64) -> usize {
        let due = all.due();
        due.iter().for_each(|question| {
            all.answered(now_ms, question.uid, Some((question.wanted.min(room).max(question.used), LIMIT.saturating_sub(room))));
        });
        due.len()
    }

    #[test]
    fn without_a_quota_all_is_counted_and_nobody_is_asked() {
        let mut all = Allowances::default();
        assert_eq!((all.take(0, 1, 1 << 40), all.take(0, 2, 7)), (Ok(()), Ok(())));
        assert_eq!((all.total(), all.is_due(), all.due()), ((1 << 40) + 7, false, Vec::new()));
        all.give_back(1, 1 << 40);
        all.give_back(2, 7);
        all.trim();
        assert_eq!(all, Allowances::default());
    }

    #[test]
    fn a_user_beyond_the_quota_is_refused_and_others_go_on() {
        let mut all = Allowances::default();
        all.set_quota(Some(LIMIT));
        assert_eq!(all.take(0, 1, QUEUE_SPILL_LEN), Err(NoSpill::NotYet));
        assert_eq!(answer(&mut all, 0, LIMIT), 1);
        let (room, mut taken, mut asked) = (3 << 20, 0, 0);
        let refused = loop {
            match all.take(0, 1, QUEUE_SPILL_LEN) {
                Ok(()) => taken += QUEUE_SPILL_LEN,
                Err(NoSpill::NotYet) => {}
                Err(refused) => break refused,
            }
            asked += answer(&mut all, 0, room);
        };
        assert_eq!((taken, refused), (room, NoSpill::OverQuota { used: LIMIT, limit: LIMIT }));
        assert!(asked < 60, "{asked} questions");
        assert_eq!((all.take(0, 1, 1), all.is_due()), (Err(refused), false), "nobody is asked at every try");
        assert_eq!(all.take(0, 2, 1), Err(NoSpill::NotYet));
        assert_eq!(answer(&mut all, 0, LIMIT), 1);
        assert_eq!(all.take(0, 2, 1), Ok(()));
        // Something of the first was removed.
        assert_eq!((all.take(SPILL_REFUSED_MS, 1, 1), answer(&mut all, 0, LIMIT)), (Err(NoSpill::NotYet), 1));
        assert_eq!(all.take(SPILL_REFUSED_MS, 1, 1), Ok(()));
    }

    #[test]
    fn who_asks_ahead_waits_once() {
        let mut all = Allowances::default();
        all.set_quota(Some(1 << 30));
        let waits = (0..1000).filter(|_| {
            let waits = all.take(0, 1, QUEUE_SPILL_LEN) == Err(NoSpill::NotYet);
            answer(&mut all, 0, 1 << 30);
            waits
        });
        assert_eq!(waits.count(), 1);
    }

    #[test]
    fn what_is_not_needed_goes_back_and_what_is_spilled_is_told_again() {
        let mut all = Allowances::default();
        all.take(0, 1, 5 << 20).unwrap();
        all.set_quota(Some(LIMIT));
        assert_eq!(all.due(), [SpillQuestion { uid: 1, used: 5 << 20, wanted: (5 << 20) + LIMIT / 64 }]);
        assert!(!all.is_due());
        // A former life of the coordinator gave it: it is asked once more.
        all.set_quota(Some(LIMIT));
        all.answered(0, 1, Some((6 << 20, 0)));
        assert_eq!(answer(&mut all, 0, LIMIT), 1);
        all.give_back(1, 5 << 20);
        all.trim();
        assert_eq!(all.due(), [SpillQuestion { uid: 1, used: 0, wanted: 0 }]);
        assert_eq!(all.take(0, 1, 1), Err(NoSpill::NotYet), "what is given back is not taken meanwhile");
        all.answered(0, 1, None);
        assert_eq!(answer(&mut all, 0, LIMIT), 1, "a question without an answer is asked again by who needs it");
        assert_eq!(all.take(0, 1, 1), Ok(()));
    }
}
