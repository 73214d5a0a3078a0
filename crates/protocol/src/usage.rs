//! The host that uses an extent most: a region that follows its users is moved there.
//!
//! A region follows its users if its attribute [`FOLLOWS`] is [`USERS`]. Each home counts the bytes that commands move, by the host of their
//! program. In each round it tells the coordinator of extents that another host uses most. The coordinator moves those of regions that follow.
//!
//! | an extent goes to another host if | because |
//! |---|---|
//! | that host moved at least its length of late | to move it costs as much |
//! | that host moved two thirds of all bytes of late | it would come back otherwise |
//! | no program of its home reached it directly for half a minute | nobody counts those accesses |
//!
//! *Of late* means the last two minutes: each round takes a twelfth away from every count.

use crate::attributes::Attributes;
use crate::id::{Gid, NodeId, Slot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The attribute of a region that says what it follows.
pub const FOLLOWS: &str = "hanare.follows";

/// The value of [`FOLLOWS`] for a region that follows its users.
pub const USERS: &[u8] = b"users";

/// Time between two rounds.
pub const ROUND_MS: u64 = 10_000;

/// A round takes a twelfth away from each count.
const PARTS: u64 = 12;

/// Rounds without direct access after which an extent may leave.
const QUIET_ROUNDS: u32 = 3;

/// Hosts that are counted for one extent. A further host replaces the one that moved least.
const HOSTS: usize = 8;

/// True if a region follows its users.
pub fn follows_users(attributes: &Attributes) -> bool {
    attributes.get(FOLLOWS) == Some(USERS)
}

/// An extent that programs of another host use most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedElsewhere {
    /// Its region.
    pub gid: Gid,
    /// Its slot at its home.
    pub slot: Slot,
    /// The node of the programs' host.
    pub by: NodeId,
}

/// Bytes of an extent that programs of each host moved of late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    moved: BTreeMap<NodeId, u64>,
    /// Rounds since a program of its home reached it directly.
    quiet: Option<u32>,
}

impl Usage {
    /// A program of that host moved `len` bytes by a command.
    ///
    /// **Cost**: a search among eight.
    pub fn moved(&mut self, by: NodeId, len: u64) {
        if self.moved.len() >= HOSTS && !self.moved.contains_key(&by) {
            let least = self.moved.iter().min_by_key(|(_, moved)| **moved).map(|(node, _)| *node);
            least.and_then(|node| self.moved.remove(&node));
        }
        let moved = self.moved.entry(by).or_default();
        *moved = moved.saturating_add(len);
    }

    /// Ends a round at the home `here` of an extent of `len` bytes. `is_reached` says that a program of the home's host reached the extent
    /// directly in the round. Returns the node that the extent should go to.
    pub fn round(&mut self, here: NodeId, len: u64, is_reached: bool) -> Option<NodeId> {
        self.quiet = if is_reached { Some(0) } else { self.quiet.map(|rounds| rounds.saturating_add(1)) };
        let all = self.moved.values().copied().fold(0, u64::saturating_add);
        let most = self.moved.iter().max_by_key(|(_, moved)| **moved).map(|(node, moved)| (*node, *moved));
        for moved in self.moved.values_mut() {
            *moved = moved.saturating_sub(moved.div_ceil(PARTS));
        }
        self.moved.retain(|_, moved| *moved > 0);
        let is_quiet = self.quiet.is_none_or(|rounds| rounds >= QUIET_ROUNDS);
        let is_elsewhere = |(node, moved): &(NodeId, u64)| {
            *node != here && *moved >= len.max(1) && moved.saturating_mul(3) >= all.saturating_mul(2)
        };
        most.filter(is_elsewhere).filter(|_| is_quiet).map(|(node, _)| node)
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;

    const HERE: NodeId = NodeId(0);
    const THERE: NodeId = NodeId(1);
    const LEN: u64 = 1000;

    fn used(moved: &[(NodeId, u64)]) -> Usage {
        let mut usage = Usage::default();
        moved.iter().for_each(|(node, len)| usage.moved(*node, *len));
        usage
    }

    #[test]
    fn an_extent_goes_where_most_of_its_bytes_are_moved() {
        assert_eq!(used(&[(THERE, LEN)]).round(HERE, LEN, false), Some(THERE));
        assert_eq!(used(&[(THERE, LEN - 1)]).round(HERE, LEN, false), None, "a move costs more");
        assert_eq!(used(&[(THERE, 2 * LEN), (HERE, LEN)]).round(HERE, LEN, false), Some(THERE));
        assert_eq!(used(&[(THERE, 2 * LEN), (HERE, LEN + 1)]).round(HERE, LEN, false), None, "both use it");
        assert_eq!(used(&[(HERE, 5 * LEN)]).round(HERE, LEN, false), None);
        assert_eq!(used(&[]).round(HERE, 0, false), None);
    }

    #[test]
    fn an_extent_that_programs_of_its_home_reach_directly_stays_for_half_a_minute() {
        let mut usage = used(&[(THERE, 100 * LEN)]);
        assert_eq!(usage.round(HERE, LEN, true), None);
        let later: Vec<_> = (0..3).map(|_| usage.round(HERE, LEN, false)).collect();
        assert_eq!(later, [None, None, Some(THERE)]);
    }

    #[test]
    fn what_was_moved_long_ago_counts_no_more() {
        let mut usage = used(&[(THERE, 2 * LEN)]);
        let rounds = (0..100).take_while(|_| usage.round(HERE, LEN, false).is_some()).count();
        assert!((6..12).contains(&rounds), "half is left after {rounds} rounds");
        for _ in 0..200 {
            usage.round(HERE, LEN, false);
        }
        assert_eq!(usage, Usage::default());
    }

    #[test]
    fn as_many_hosts_are_counted_as_fit_and_the_least_goes() {
        let mut usage = used(&(0..8).map(|node| (NodeId(node), 10 + u64::from(node))).collect::<Vec<_>>());
        usage.moved(NodeId(99), 1);
        assert_eq!((usage.moved.len(), usage.moved.contains_key(&NodeId(0))), (8, false));
    }

    #[test]
    fn only_the_attribute_makes_a_region_follow() {
        assert!(follows_users(&Attributes::from_iter([(FOLLOWS, USERS)])));
        assert!(!follows_users(&Attributes::from_iter([(FOLLOWS, "nobody")])) && !follows_users(&Attributes::default()));
    }
}
