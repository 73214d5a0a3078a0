//! The names of things: small copyable newtypes, so that no number is taken for another.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number!(
    /// Global id of a region; a location is a GID and an offset. Never used twice in a pool's life.
    /// **Source**: [RHiNET §3] GID table. `FEATURE: RF-F4`
    Gid(u64), "gid "
);
number!(
    /// A node's number in its pool, given by the coordinator at its first join. `0` is the node with which the pool began.
    NodeId(u32), "node "
);
number!(
    /// A node's generation: grants made in an older epoch fail.
    Epoch(u64), "epoch "
);
number!(
    /// A client's id: its node's number in the upper half, a count in the lower.
    ClientId(u64), "client "
);
number!(
    /// A client's number in a job of several.
    Rank(u32), "rank "
);
number!(
    /// Position of an extent in its node's table; reused, so only a grant makes it valid.
    Slot(u32), "slot "
);

impl Slot {
    /// The slot of an extent that is no more, while its successor is not known. No table is so long.
    pub const VOID: Slot = Slot(u32::MAX);
}

impl ClientId {
    /// The client of that count at a node.
    pub fn at(node: NodeId, count: u32) -> ClientId {
        ClientId(u64::from(node.0) << 32 | u64::from(count))
    }

    /// Its node, as it says.
    pub fn node(self) -> NodeId {
        NodeId((self.0 >> 32) as u32)
    }
}

/// A job: the ranks that one launch started, told apart by a random number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u128);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {:032x}", self.0)
    }
}

/// A rank's place in its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobRank {
    /// The job.
    pub job: JobId,
    /// The client's number in it, below `ranks`.
    pub rank: Rank,
    /// Number of the job's ranks.
    pub ranks: u32,
}

/// A party's name for others, should it go; chosen by the party itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartyName {
    /// The client.
    pub client: ClientId,
    /// Its rank, where it is one of a job.
    pub rank: Option<Rank>,
    /// Its process on the host of that node.
    pub process: u32,
    /// The node.
    pub node: NodeId,
}

impl fmt::Display for PartyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rank) = self.rank {
            write!(f, "{rank}, ")?;
        }
        write!(f, "process {} on the host of {}", self.process, self.node)
    }
}

/// A life of a node process: random at start, so that a restarted node is not taken for its predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u128);

/// The right to read, or to read and write, one extent in one epoch. It is 128 random bits, which the extent's node checks.
///
/// A grant is a secret: its `Debug` form hides it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant(pub [u8; 16]);

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grant(hidden)")
    }
}

/// A client's rights to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rights {
    /// Get, and map for reading.
    Read,
    /// Get and put, and map for writing.
    Write,
}

/// A user of the host's system, as the kernel vouches for it over a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
}

/// Users' numbers that are tenants'.
///
/// Numbers from 2^31 on are no user's by the conventions of Linux systems: many programs take them for negative ones. The highest 2^20 are
/// left alone, because 2^32 - 1 means nobody, and some systems use numbers just below it.
/// **Source**: [systemd, "Users, Groups, UIDs and GIDs on systemd Systems", special ranges]
pub const TENANT_NUMBERS: RangeInclusive<u32> = 0xFFE0_0000..=0xFFEF_FFFF;

/// True for the number of a tenant, and of no real user.
pub fn is_tenant(uid: u32) -> bool {
    TENANT_NUMBERS.contains(&uid)
}

/// A user in words.
pub fn who(uid: u32) -> String {
    if is_tenant(uid) { format!("tenant number {uid}") } else { format!("user {uid}") }
}

/// A user that makes a request, with all that decides its rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    /// The user.
    pub user: User,
    /// Supplementary groups, at most [`crate::limits::USER_GROUP_COUNT_MAX`] of them.
    pub groups: Vec<u32>,
}

impl Asker {
    /// True if it is in a group.
    pub fn is_in(&self, gid: u32) -> bool {
        self.user.gid == gid || self.groups.contains(&gid)
    }
}

impl From<User> for Asker {
    fn from(user: User) -> Asker {
        Asker { user, groups: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_never_printed() {
        assert_eq!(format!("{:?}", Grant([7; 16])), "Grant(hidden)");
    }

    #[test]
    fn ids_say_what_they_count() {
        assert_eq!(NodeId(3).to_string(), "node 3");
        assert_eq!(Gid(9).to_string(), "gid 9");
    }
}
