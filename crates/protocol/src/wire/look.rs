//! A program's look at a node, and the reply: commands, programs, locks, and page counts. One postcard value in the body of a
//! [`Kind::Look`](super::head::Kind::Look), and one in the body of its reply.
//!
//! A reply has only what its requesting user may read:
//!
//! | what | is told to |
//! |---|---|
//! | counts of commands | everybody but tenants; those of tenants' commands the node's own user and root alone |
//! | a region's name, what happened to its pages, and which of them went to and fro | who brings a grant to read it; the user whose programs map it there; the node's own user and root |
//! | programs | the user whose they are, and root |
//! | locks | users who may share them |

use super::control::{NodeCounts, PageStat};
use crate::id::{ClientId, Grant, JobRank, Slot};
use crate::lock::Mode;
use serde::{Deserialize, Serialize};

/// A program's question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Extents of the node with the right to read them: pages of their regions are told of. At most
    /// [`LOOK_COUNT_MAX`](crate::limits::LOOK_COUNT_MAX).
    pub readable: Vec<(Slot, Grant)>,
    /// Number of cells for the map of the first of those regions; 0 for no map.
    pub cells: u32,
}

/// A node's reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Counts of its commands since its start.
    pub counts: NodeCounts,
    /// Programs of its host, by number.
    pub programs: Vec<ProgramStat>,
    /// Locks by name that somebody has, where the node is home to them.
    pub locks: Vec<LockStat>,
    /// Number of locks that the user may see.
    pub lock_count: u64,
    /// Page counts of regions that it shares, or is home of.
    pub pages: Vec<PageStat>,
    /// Counts of moves of pages, summed over as many pages a cell as the question asked. Empty if the node is no home of them.
    pub map: Vec<u32>,
}

/// A program that is attached to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStat {
    /// Its number in the pool.
    pub client: ClientId,
    /// Its process on the node's host, as the kernel says.
    pub process: u32,
    /// The owner's user id.
    pub user: u32,
    /// Its place in a job, if it has one.
    pub job: Option<JobRank>,
}

/// A lock that somebody has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockStat {
    /// Its name.
    pub name: String,
    /// Mode in which it is held.
    pub mode: Mode,
    /// Programs that have it, at most [`LOOK_CLAIM_COUNT_MAX`](crate::limits::LOOK_CLAIM_COUNT_MAX); a number of 0 is a node's own.
    pub holders: Vec<ClientId>,
    /// Programs that wait for it, in the order in which they come to have it; as many at most.
    pub waiters: Vec<ClientId>,
    /// Numbers of holders and of waiters.
    pub counts: (u64, u64),
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::id::{Gid, JobId, NodeId, Rank};
    use crate::limits::{
        LOOK_CLAIM_COUNT_MAX, LOOK_COUNT_MAX, LOOK_LEN_MAX, MAP_CELL_COUNT_MAX, NAME_LEN_MAX, PAGE_RUN_COUNT_MAX,
    };
    use crate::page::Consistency;
    use crate::wire::command::OP_KINDS;
    use crate::wire::control::{self, BUCKETS_US, CommandCount, CommandOrigin, PageRun};

    #[test]
    fn the_longest_question_is_within_its_limit() {
        let look = Look { readable: vec![(Slot(u32::MAX), Grant([255; 16])); LOOK_COUNT_MAX], cells: u32::MAX };
        let bytes = control::encode(&look);
        assert!(bytes.len() as u64 <= LOOK_LEN_MAX, "{} bytes", bytes.len());
        assert_eq!(control::decode(&bytes), Ok(look));
    }

    #[test]
    fn the_longest_answer_is_within_its_limit() {
        let nodes = (0..64).map(|node| NodeId(u32::MAX - node)).collect();
        let run = PageRun { first: u64::MAX, count: u64::MAX, returns: u64::MAX, micros: u64::MAX, nodes };
        let name = "x".repeat(NAME_LEN_MAX);
        let pages = PageStat {
            name: name.clone(),
            contended: vec![run; PAGE_RUN_COUNT_MAX],
            programs: u32::MAX,
            hosts: u32::MAX,
            ..PageStat::new(Gid(u64::MAX), String::new(), Consistency::Explicit)
        };
        let clients = vec![ClientId(u64::MAX); LOOK_CLAIM_COUNT_MAX];
        let lock =
            LockStat { name, mode: Mode::Shared, holders: clients.clone(), waiters: clients, counts: (u64::MAX, u64::MAX) };
        let job = Some(JobRank { job: JobId(u128::MAX), rank: Rank(u32::MAX), ranks: u32::MAX });
        let program = ProgramStat { client: ClientId(u64::MAX), process: u32::MAX, user: u32::MAX, job };
        let count = CommandCount {
            kind: "compare".to_owned(),
            from: CommandOrigin::OtherHost,
            count: u64::MAX,
            bytes: u64::MAX,
            micros: u64::MAX,
            buckets: vec![u64::MAX; BUCKETS_US.len()],
        };
        let refused = vec![("grant_refused".to_owned(), u64::MAX); 8];
        let seen = Seen {
            counts: NodeCounts { commands: vec![count; 2 * OP_KINDS.len()], refused },
            programs: vec![program; LOOK_COUNT_MAX],
            locks: vec![lock; LOOK_COUNT_MAX],
            lock_count: u64::MAX,
            pages: vec![pages; LOOK_COUNT_MAX],
            map: vec![u32::MAX; MAP_CELL_COUNT_MAX],
        };
        // Counts of faults, each as long as it can be.
        let more = 10 * 10 * LOOK_COUNT_MAX as u64;
        let bytes = control::encode(&seen);
        assert!(bytes.len() as u64 + more <= LOOK_LEN_MAX, "{} bytes", bytes.len());
        assert_eq!(control::decode(&bytes), Ok(seen));
    }
}
