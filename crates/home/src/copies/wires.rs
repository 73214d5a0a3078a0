//! Connections of this node to nodes with copies of its extents, and of nodes with homes to this one.
//!
//! Frames that a connection loses are not kept here: a home sends again what a copy lacks when the connection is there again.

use super::CopyOutput;
use crate::wire_frame::WireFrame;
use crate::wire_output::WireOutput;
use hanare_protocol::id::NodeId;
use hanare_protocol::page::Dialing;
use hanare_protocol::page::dialing::{Dialed, Phase};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A connection to a node with copies.
#[derive(Debug, Default)]
struct CopyWire {
    address: String,
    dialing: Dialing<u64>,
    /// The version of the wire that the last connection spoke.
    spoken: Option<u32>,
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct CopyWires {
    now: Duration,
    to: BTreeMap<NodeId, CopyWire>,
    from: BTreeMap<u64, NodeId>,
}

impl CopyWires {
    pub fn set_now(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// The time of the last event.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// A node is reached at that address.
    pub fn know(&mut self, node: NodeId, address: String) {
        self.to.entry(node).or_default().address = address;
    }

    /// Sends a frame where there is a connection; else one is made.
    pub fn send<A>(&mut self, node: NodeId, frame: impl FnOnce() -> WireFrame, outputs: &mut VecDeque<CopyOutput<A>>) {
        let now_ms = self.now.as_millis() as u64;
        // The coordinator's message with the address may come after the first write. It is sent again.
        let Some(wire) = self.to.get_mut(&node) else { return tracing::debug!("{node} has a copy and no address yet") };
        if let Some(place) = wire.dialing.place() {
            outputs.push_back(WireOutput::Send { place, frame: frame() }.into());
        } else if wire.dialing.want(now_ms) {
            outputs.push_back(WireOutput::Dial { node, address: wire.address.clone() }.into());
        }
    }

    /// The version of the wire that a node speaks. Where that is not known, a connection is made.
    pub fn spoken<A>(&mut self, node: NodeId, outputs: &mut VecDeque<CopyOutput<A>>) -> Option<u32> {
        let now_ms = self.now.as_millis() as u64;
        let wire = self.to.get_mut(&node)?;
        if wire.spoken.is_none() && wire.dialing.want(now_ms) {
            outputs.push_back(WireOutput::Dial { node, address: wire.address.clone() }.into());
        }
        wire.spoken
    }

    /// True if a node is known to speak that version.
    pub fn speaks(&self, node: NodeId, since: u32) -> bool {
        self.to.get(&node).and_then(|wire| wire.spoken).is_some_and(|spoken| spoken >= since)
    }

    /// A try to reach a node ended: with the connection's place, and the version that it speaks.
    pub fn dialed(&mut self, node: NodeId, made: Option<(u64, u32)>, now: Duration) -> Dialed {
        let Some(wire) = self.to.get_mut(&node) else { return Dialed::Spare };
        wire.spoken = made.map(|(_, spoken)| spoken).or(wire.spoken);
        wire.dialing.tried(made.map(|(place, _)| place), now.as_millis() as u64)
    }

    /// A node with homes has made a connection.
    pub fn came(&mut self, node: NodeId, place: u64) {
        self.from.insert(place, node);
    }

    /// The node that made a connection.
    pub fn caller(&self, place: u64) -> Option<NodeId> {
        self.from.get(&place).copied()
    }

    /// The node to which this node made a connection.
    pub fn dialed_node(&self, place: u64) -> Option<NodeId> {
        self.to.iter().find(|(_, wire)| wire.dialing.place() == Some(place)).map(|(node, _)| *node)
    }

    /// A connection has ended. Returns the node to be dialed again.
    pub fn gone(&mut self, place: u64, now: Duration) -> Option<(NodeId, String)> {
        self.from.remove(&place);
        let now_ms = now.as_millis() as u64;
        let ended =
            self.to.iter_mut().find_map(|(node, wire)| wire.dialing.ended(place, now_ms).then_some((node, &wire.address)));
        ended.map(|(node, address)| (*node, address.clone()))
    }

    /// Returns true if a node is to be dialed again.
    pub fn waits(&self) -> bool {
        self.to.values().any(|wire| wire.dialing.phase() == Phase::Waiting)
    }

    /// Time passes. The nodes to be dialed again.
    pub fn tick(&mut self, now: Duration) -> impl Iterator<Item = (NodeId, String)> {
        let now_ms = now.as_millis() as u64;
        self.to.iter_mut().filter_map(move |(node, wire)| wire.dialing.is_due(now_ms).then(|| (*node, wire.address.clone())))
    }
}
