//! Versions of the wire in a pool whose nodes are of two releases.
//!
//! A request that is younger than the oldest version may leave records in the journal. Keepers of an older build could not read them. So such
//! a request is refused until all of the pool know it. From then on an older node is refused, as long as the journal tells of something younger.
//!
//! | who | until it is known to be young enough |
//! |---|---|
//! | a member | refused |
//! | a keeper that is no member | refused |
//! | a node that may be back within its lease | the request waits: it would be shut out with its bytes |
//! | a node that is away for longer | refused while it may bring bytes back |
//!
//! A coordinator that begins knows no node's version before that node is back. Such a node counts as old.

use super::Coordinator;
use super::asks::Step;
use super::roster::{NodeEntry, Phase};
use crate::error::{Error, Result};
use crate::id::NodeId;
use crate::wire::control::Memory;

impl Coordinator {
    /// The next step of a request that somebody of the pool does not know; `None` if all know it, or the journal tells of its version already.
    ///
    /// **Errors**: [`Error::TooOld`], which names one whose build is older. [`Error::NoNode`] for a keeper that is away.
    pub(super) fn await_all_know(&self, needs: u32) -> Option<Step> {
        if needs <= self.ledger.since() {
            return None;
        }
        let speaks = |seat: &NodeEntry| seat.memory.versions.newest;
        let older = || self.roster.all().filter(|(_, seat)| speaks(seat) < needs);
        let too_old = |(node, seat): (NodeId, &NodeEntry), why: &str| {
            let error = Error::TooOld { peer: self.named(node) + why, speaks: speaks(seat), needs };
            Some(Step::Done(Err(error)))
        };
        if let Some(member) = older().find(|(_, seat)| seat.phase() == Phase::Member) {
            return too_old(member, "");
        }
        if older().any(|(_, seat)| matches!(seat.phase(), Phase::Awaited | Phase::Closed)) {
            return Some(Step::Park);
        }
        let may_return = |seat: &NodeEntry| matches!(seat.phase(), Phase::Silent | Phase::Dead);
        if let Some(away) = older().find(|(node, seat)| may_return(seat) && self.ledger.held_by(*node).next().is_some()) {
            let why = format!(", away with bytes that `hanare node rm {}` gives up,", away.0.0);
            return too_old(away, &why);
        }
        let address = self.absent_keeper()?;
        let reason = format!("all keepers have to speak wire version {needs} for that, and it is away");
        Some(Step::Done(Err(Error::NoNode { address, reason })))
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
