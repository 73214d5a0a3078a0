//! Versions of the wire in a pool whose nodes are of two releases.
//!
//! A request that is younger than the oldest version may leave records in the journal. Keepers of an older build could not read them. So such
//! a request is refused until all of the pool know it: members, and keepers, which have to be members at present. From then on an older node is
//! refused, as long as the journal tells of something younger.

use super::Coordinator;
use crate::error::{Error, Result};
use crate::id::NodeId;
use crate::wire::control::Memory;

impl Coordinator {
    /// Refuses what somebody of the pool does not know, where the journal does not tell of that version already.
    ///
    /// **Errors**: [`Error::TooOld`], which names one whose build is older. [`Error::NoNode`] for a keeper that is away.
    pub(super) fn check_all_know(&self, needs: u32) -> Result<()> {
        if needs <= self.ledger.since() {
            return Ok(());
        }
        let speaks = |seat: &Memory| seat.versions.newest;
        let older = self.roster.members().find(|(_, seat)| speaks(&seat.memory) < needs);
        if let Some((node, seat)) = older {
            return Err(Error::TooOld { peer: self.named(node), speaks: speaks(&seat.memory), needs });
        }
        match self.absent_keeper() {
            None => Ok(()),
            Some(address) => {
                let reason = format!("all keepers have to speak wire version {needs} for that, and it is away");
                Err(Error::NoNode { address, reason })
            }
        }
    }

    /// Refuses a node that does not know what the journal tells.
    pub(super) fn check_joins(&self, memory: &Memory) -> Result<()> {
        match self.ledger.since() {
            needs if needs > memory.versions.newest => {
                Err(Error::TooOld { peer: "this node".to_owned(), speaks: memory.versions.newest, needs })
            }
            _ => Ok(()),
        }
    }

    /// A node by number and name, for people.
    fn named(&self, node: NodeId) -> String {
        match self.ledger.nodes.get(&node) {
            Some(record) => format!("{node} ({})", record.name),
            None => node.to_string(),
        }
    }
}
