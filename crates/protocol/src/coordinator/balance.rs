//! The plan of moves after which all nodes are equally full.

use super::records::RegionRecord;
use crate::id::NodeId;
use crate::placement::Placement;
use crate::wire::copies::CopiedExtent;
use std::collections::{BTreeMap, BTreeSet};

/// Nodes whose parts differ by less than one in so many of their memory are left alone.
const SLACK: i128 = 20;

/// Memory of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeFill {
    pub node: NodeId,
    /// Bytes that it lends.
    pub lent: u64,
    /// Bytes of them that are in use or promised.
    pub used: u64,
    /// True if it writes down what it holds.
    pub persists: bool,
}

/// An extent on a node, which another may get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Movable {
    pub extent: CopiedExtent,
    pub node: NodeId,
    pub len: u64,
    /// The other nodes that hold it.
    pub others: Vec<NodeId>,
    /// True if a node may get it only if that writes it down.
    pub is_written_down: bool,
}

/// Reason of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MoveCause {
    /// Nodes are to be equally full.
    Rebalance,
    /// The host of its node runs short of memory.
    Shortage,
    /// The region follows its users, who are at the host of that node.
    Users(NodeId),
}

impl MoveCause {
    /// The node that is to be home afterwards.
    pub fn next_home(self) -> Option<NodeId> {
        match self {
            MoveCause::Users(by) => Some(by),
            MoveCause::Rebalance | MoveCause::Shortage => None,
        }
    }
}

/// A move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub cause: MoveCause,
    pub extent: CopiedExtent,
    pub from: NodeId,
    pub to: NodeId,
    pub len: u64,
}

/// A node with the bytes that it has beyond its part. Fewer than that are negative.
#[derive(Clone, Copy, Debug)]
struct Surplus {
    fill: NodeFill,
    bytes: i128,
}

/// Plans at most `count` moves, the longest first. Each extent moves once. `host` names a node's host: holders of an extent stay on as many hosts.
///
/// **Cost**: a sort of the extents, and for each move a search among those of its node.
pub(super) fn plan<'h>(fills: &[NodeFill], movables: Vec<Movable>, host: impl Fn(NodeId) -> &'h str, count: usize) -> Vec<Move> {
    let mut nodes = surpluses(fills);
    let slack = fills.iter().map(|fill| i128::from(fill.lent)).max().unwrap_or(0).checked_div(SLACK).unwrap_or(0);
    let mut by_node: BTreeMap<NodeId, Vec<Movable>> = BTreeMap::new();
    movables.into_iter().for_each(|movable| by_node.entry(movable.node).or_default().push(movable));
    by_node.values_mut().for_each(|list| list.sort_by_key(|movable| std::cmp::Reverse((movable.len, movable.extent))));
    let (mut moves, mut moved) = (Vec::new(), BTreeSet::new());
    while moves.len() < count {
        nodes.sort_by_key(|surplus| (std::cmp::Reverse(surplus.bytes), surplus.fill.node));
        let Some(next) = next_move(&nodes, &mut by_node, &moved, &host, slack) else { break };
        moved.insert(next.extent);
        for surplus in &mut nodes {
            let len = i128::from(next.len);
            match surplus.fill.node {
                node if node == next.from => surplus.bytes = surplus.bytes.saturating_sub(len),
                node if node == next.to => {
                    surplus.bytes = surplus.bytes.saturating_add(len);
                    surplus.fill.used = surplus.fill.used.saturating_add(next.len);
                }
                _ => {}
            }
        }
        moves.push(next);
    }
    moves
}

/// Each node's part is by the memory that it lends.
fn surpluses(fills: &[NodeFill]) -> Vec<Surplus> {
    let sum = |of: fn(&NodeFill) -> u64| fills.iter().map(|fill| i128::from(of(fill))).fold(0, i128::saturating_add);
    let (lent, used) = (sum(|fill| fill.lent).max(1), sum(|fill| fill.used));
    let part = |fill: &NodeFill| i128::from(fill.lent).saturating_mul(used).checked_div(lent).unwrap_or(0);
    fills.iter().map(|fill| Surplus { fill: *fill, bytes: i128::from(fill.used).saturating_sub(part(fill)) }).collect()
}

/// The longest extent that brings two nodes nearer to their parts. Nodes with most too much give first, to those with most too little.
fn next_move<'h>(
    nodes: &[Surplus],
    by_node: &mut BTreeMap<NodeId, Vec<Movable>>,
    moved: &BTreeSet<CopiedExtent>,
    host: &impl Fn(NodeId) -> &'h str,
    slack: i128,
) -> Option<Move> {
    for from in nodes.iter().filter(|surplus| surplus.bytes > 0) {
        let Some(list) = by_node.get_mut(&from.fill.node) else { continue };
        for to in nodes.iter().rev().filter(|surplus| surplus.bytes < 0) {
            let gap = from.bytes.saturating_sub(to.bytes);
            if gap <= slack {
                continue;
            }
            let free = to.fill.lent.saturating_sub(to.fill.used);
            // Not more than half of the gap goes over: the move cannot be undone by the next one.
            let begin = list.partition_point(|movable| i128::from(movable.len).saturating_mul(2) > gap || movable.len > free);
            let fits = |movable: &Movable| !moved.contains(&movable.extent) && may_have(movable, &to.fill, host);
            if let Some(at) = list[begin..].iter().position(fits) {
                let Movable { extent, node, len, .. } = list.remove(begin.saturating_add(at));
                return Some(Move { cause: MoveCause::Rebalance, extent, from: node, to: to.fill.node, len });
            }
        }
    }
    None
}

/// True for regions whose placement names neither nodes nor a host.
pub(super) fn may_move(region: &RegionRecord, with_local: bool) -> bool {
    match region.placement {
        Placement::Interleave(_) => true,
        Placement::Local => with_local,
        Placement::Node(_) | Placement::Nodes(..) => false,
    }
}

/// A node may have what it does not have, and not where another holder is of its host. Holders that share a host already lose nothing.
fn may_have<'h>(movable: &Movable, to: &NodeFill, host: &impl Fn(NodeId) -> &'h str) -> bool {
    let shares_host = |node: NodeId| movable.others.iter().any(|other| host(*other) == host(node));
    let has_right = to.persists || !movable.is_written_down;
    has_right && !movable.others.contains(&to.node) && (!shares_host(to.node) || shares_host(movable.node))
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::id::Gid;
    use proptest::prelude::*;

    fn extent(gid: u64) -> CopiedExtent {
        CopiedExtent { gid: Gid(gid), index: 0 }
    }

    fn fills(used: &[u64]) -> Vec<NodeFill> {
        used.iter()
            .enumerate()
            .map(|(node, used)| NodeFill { node: NodeId(node as u32), lent: 1000, used: *used, persists: false })
            .collect()
    }

    fn movable(gid: u64, node: u32, len: u64, others: &[u32]) -> Movable {
        let others = others.iter().copied().map(NodeId).collect();
        Movable { extent: extent(gid), node: NodeId(node), len, others, is_written_down: false }
    }

    /// Each node is a host.
    fn own_host(node: NodeId) -> &'static str {
        ["a", "b", "c", "d", "e", "f"][node.0 as usize]
    }

    #[test]
    fn a_new_node_gets_its_part() {
        let movables = (0..8).map(|gid| movable(gid, (gid % 2) as u32, 100, &[])).collect();
        let moves = plan(&fills(&[400, 400, 0]), movables, own_host, 100);
        assert_eq!(moves.len(), 2, "{moves:?}");
        assert!(moves.iter().all(|next| next.to == NodeId(2)) && moves[0].from != moves[1].from, "{moves:?}");
    }

    #[test]
    fn a_larger_node_has_a_larger_part() {
        let mut fills = fills(&[600, 0]);
        fills[1].lent = 3000;
        let movables = (0..60).map(|gid| movable(gid, 0, 10, &[])).collect();
        let moves = plan(&fills, movables, own_host, 100);
        // Its part is 150 of 600, and differences below a twentieth of the largest node stay.
        assert!((30..=45).contains(&moves.len()), "{}", moves.len());
    }

    #[test]
    fn nothing_moves_where_that_would_help_nobody() {
        let one = vec![movable(1, 0, 100, &[])];
        assert_eq!(plan(&fills(&[100, 0]), one.clone(), own_host, 100), [], "the other node would have it all");
        assert_eq!(plan(&fills(&[100, 80]), vec![movable(1, 0, 5, &[])], own_host, 100), [], "they are nearly equal");
        assert_eq!(plan(&fills(&[0]), Vec::new(), own_host, 100), []);
        assert_eq!(plan(&[], Vec::new(), own_host, 100), []);
        // A full node gets nothing, whatever its part is.
        let full = [NodeFill { used: 800, ..fills(&[0])[0] }, NodeFill { node: NodeId(1), lent: 20, ..fills(&[0])[0] }];
        assert_eq!(plan(&full, one, own_host, 100), []);
    }

    #[test]
    fn bytes_that_are_written_down_go_to_nodes_that_write() {
        let movables = vec![Movable { is_written_down: true, ..movable(1, 0, 100, &[]) }];
        let mut fills = fills(&[500, 0, 0]);
        assert_eq!(plan(&fills, movables.clone(), own_host, 100), []);
        fills[1].persists = true;
        let moves = plan(&fills, movables, own_host, 100);
        assert_eq!(moves.iter().map(|next| next.to).collect::<Vec<_>>(), [NodeId(1)]);
    }

    #[test]
    fn a_copy_does_not_move_beside_another_one() {
        let movables = vec![movable(1, 0, 100, &[1]), movable(2, 0, 100, &[])];
        let moves = plan(&fills(&[500, 0]), movables.clone(), own_host, 100);
        assert_eq!(moves.iter().map(|next| next.extent).collect::<Vec<_>>(), [extent(2)]);
        // Nodes 1 and 2 are of one host.
        let hosts = |node: NodeId| ["a", "b", "b"][node.0 as usize];
        let moves = plan(&fills(&[500, 0, 0]), movables, hosts, 100);
        assert_eq!(moves.iter().map(|next| next.extent).collect::<Vec<_>>(), [extent(2)]);
    }

    proptest! {
        #[test]
        fn each_move_brings_the_nodes_nearer(lens: Vec<(u32, u8)>, extra in 0u64..50) {
            let mut used = [extra; 5];
            let mut movables = Vec::new();
            for (gid, (node, len)) in lens.iter().take(40).enumerate() {
                let (node, len) = (node % 5, u64::from(*len % 20) + 1);
                used[node as usize] += len;
                // Every other one has two holders.
                let other = (gid % 2 == 1).then_some((node + 1) % 5);
                movables.push(movable(gid as u64, node, len, other.as_slice()));
                if let Some(other) = other {
                    used[other as usize] += len;
                    movables.push(movable(gid as u64, other, len, &[node]));
                }
            }
            let spread = |used: &[u64; 5]| used.iter().map(|used| used * used).sum::<u64>();
            let mut before = spread(&used);
            let moves = plan(&fills(&used), movables, own_host, 100);
            let mut moved = std::collections::BTreeSet::new();
            for next in moves {
                prop_assert!(moved.insert(next.extent), "moved twice");
                used[next.from.0 as usize] -= next.len;
                used[next.to.0 as usize] += next.len;
                let after = spread(&used);
                prop_assert!(after < before, "{used:?}");
                before = after;
            }
        }
    }
}
