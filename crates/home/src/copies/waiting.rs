//! Commands that wait for their writes.

use hanare_protocol::copies::{Comparison, DigestCall, UpdateCall};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::DIGESTS_LEN_MAX;
use std::collections::BTreeMap;

/// A command that waits for its write.
#[derive(Debug)]
pub(super) struct WaitingCommand<A> {
    pub asker: A,
    /// Its call, if that counts once.
    pub call: Option<UpdateCall>,
    /// Elements before the part that was done when the call came first.
    olds: Vec<u8>,
    /// Digests of copies.
    digests: BTreeMap<NodeId, Vec<u8>>,
}

impl<A> WaitingCommand<A> {
    pub fn new(asker: A, call: Option<UpdateCall>, olds: Vec<u8>) -> WaitingCommand<A> {
        WaitingCommand { asker, call, olds, digests: BTreeMap::new() }
    }

    /// Elements before all that is done by now.
    pub fn olds_with(&mut self, more: Vec<u8>) -> Vec<u8> {
        self.olds.extend(more);
        std::mem::take(&mut self.olds)
    }

    /// A copy's digests have come.
    pub fn on_digests(&mut self, node: NodeId, digests: Vec<u8>) {
        if digests.len() <= DIGESTS_LEN_MAX {
            self.digests.insert(node, digests);
        }
    }

    /// Compares the home's digests with those of the nodes that have copies.
    pub fn compare(&mut self, call: &DigestCall, own: &[u8], nodes: impl Iterator<Item = NodeId>) -> Comparison {
        let copies = nodes.map(|node| (node, self.digests.remove(&node).unwrap_or_default())).collect();
        call.compare(own, &copies)
    }
}
