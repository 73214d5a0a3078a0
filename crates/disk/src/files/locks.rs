//! Locks on ranges of files (`fcntl`, `flock`), across all mounts. Part of the state that the log builds.
//!
//! Like all network file systems on Linux, this one makes `flock` a lock on the whole range, which excludes `fcntl` locks too.

use super::record::{Claim, SessionId};
use serde::{Deserialize, Serialize};

/// The locks of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locks {
    claims: Vec<Claim>,
}

impl Locks {
    /// A claim of another owner that keeps this one out.
    pub fn conflict(&self, claim: Claim) -> Option<Claim> {
        let is_other = |held: &&Claim| (held.session, held.owner) != (claim.session, claim.owner);
        let meets = |held: &&Claim| held.start <= claim.end && claim.start <= held.end;
        let excludes = |held: &&Claim| held.exclusive || claim.exclusive;
        self.claims.iter().filter(is_other).filter(meets).find(excludes).copied()
    }

    /// Takes a range in place of what its owner had there. Refused where others keep it out.
    pub fn take(&mut self, claim: Claim) -> bool {
        if claim.start > claim.end || self.conflict(claim).is_some() {
            return false;
        }
        self.give_back(claim);
        self.claims.push(claim);
        true
    }

    /// Gives back what an owner has of a range.
    pub fn give_back(&mut self, range: Claim) {
        let mut left = Vec::with_capacity(self.claims.len() + 1);
        for held in self.claims.drain(..) {
            let is_own = (held.session, held.owner) == (range.session, range.owner);
            if !is_own || held.end < range.start || range.end < held.start {
                left.push(held);
                continue;
            }
            if held.start < range.start {
                left.push(Claim { end: range.start - 1, ..held });
            }
            if range.end < held.end {
                left.push(Claim { start: range.end + 1, ..held });
            }
        }
        self.claims = left;
    }

    /// Gives back all that a mount has.
    pub fn end(&mut self, session: SessionId) {
        self.claims.retain(|held| held.session != session);
    }

    /// True if an owner has a lock.
    pub fn has(&self, session: SessionId, owner: u64) -> bool {
        self.claims.iter().any(|held| (held.session, held.owner) == (session, owner))
    }

    /// True if claims could have built them: ranges that do not exclude each other.
    pub fn are_sound(&self) -> bool {
        self.claims.iter().all(|held| held.start <= held.end && self.conflict(*held).is_none())
    }

    /// True if there is no lock.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Byte by byte, the locks are what a table of bytes and owners says.
        #[test]
        fn ranges_are_bytes(steps in prop::collection::vec((0u8..3, 0u64..3, 0u64..16, 0u64..16), 1..60)) {
            let mut locks = Locks::default();
            // For each byte and owner: nothing, shared, exclusive.
            let mut naive = [[0u8; 3]; 32];
            for (what, owner, start, len) in steps {
                let end = start + len;
                let claim = Claim { session: owner % 2, owner, pid: 0, start, end, exclusive: what == 2 };
                let range = start as usize..=end as usize;
                if what == 0 {
                    locks.give_back(claim);
                    naive[range].iter_mut().for_each(|byte| byte[owner as usize] = 0);
                } else {
                    let free = naive[range.clone()].iter().all(|byte| {
                        byte.iter().enumerate().all(|(other, held)| other == owner as usize || *held == 0 || (*held == 1 && what == 1))
                    });
                    prop_assert_eq!(locks.take(claim), free);
                    if free { naive[range].iter_mut().for_each(|byte| byte[owner as usize] = what); }
                }
                for owner in 0..3 {
                    prop_assert_eq!(locks.has(owner % 2, owner), naive.iter().any(|byte| byte[owner as usize] > 0));
                }
            }
        }
    }
}
