//! On which nodes a new span's extents go, and how long each is.

use crate::error::{Error, Result};
use crate::id::NodeId;
use crate::placement::{Placement, Span};

/// A node that may take extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub node: NodeId,
    /// Bytes of its lent memory that are in no extent.
    pub free: u64,
    /// Bytes that it does not lend because its host runs short of memory.
    pub withheld: u64,
}

/// Destinations of a span's extents, in chunk order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub chunk: u64,
    pub parts: Vec<(NodeId, u64)>,
}

/// Puts `len` bytes on one node.
pub(super) fn on_node(room: Room, len: u64) -> Result<Plan> {
    match len <= room.free {
        true => Ok(Plan { chunk: len, parts: vec![(room.node, len)] }),
        false => Err(Error::PoolFull { asked: len, free: room.free, withheld: room.withheld }),
    }
}

/// Puts `len` bytes over all nodes that have room for their share, in chunks.
///
/// A node that cannot take an even share is left out and the others take more, until the shares fit. `turn` rotates where the first
/// chunk goes, so that regions do not all begin on one node. A region of fewer chunks than nodes goes where most is free.
pub(super) fn interleave(rooms: &[Room], chunk: u64, len: u64, turn: u64) -> Result<Plan> {
    let total = rooms.iter().map(|room| room.free).fold(0, u64::saturating_add);
    let withheld = rooms.iter().map(|room| room.withheld).fold(0, u64::saturating_add);
    let full = Error::PoolFull { asked: len, free: total, withheld };
    let mut rooms: Vec<Room> = rooms.iter().copied().filter(|room| room.free > 0).collect();
    if len > total || rooms.is_empty() {
        return Err(full);
    }
    let turn = turn.checked_rem(rooms.len() as u64).unwrap_or(0) as usize;
    rooms.rotate_left(turn);
    if len.div_ceil(chunk) < rooms.len() as u64 {
        rooms.sort_by_key(|room| std::cmp::Reverse(room.free));
    }
    while !rooms.is_empty() {
        let count = (rooms.len() as u64).min(len.div_ceil(chunk));
        let used = &rooms[..count as usize];
        let shares: Vec<u64> = Span::shares(len, chunk, count).collect();
        let short = used.iter().zip(&shares).position(|(room, share)| room.free < *share);
        match short {
            None => return Ok(Plan { chunk, parts: used.iter().zip(shares).map(|(room, share)| (room.node, share)).collect() }),
            Some(short) => rooms.remove(short),
        };
    }
    Err(full)
}

/// Puts `len` bytes over these nodes, all that it takes for its chunks and no others, in their order.
pub(super) fn over(rooms: &[Room], chunk: u64, len: u64) -> Result<Plan> {
    let count = (rooms.len() as u64).min(len.div_ceil(chunk));
    let shares = || rooms.iter().zip(Span::shares(len, chunk, count));
    match shares().find(|(room, share)| room.free < *share) {
        Some((room, share)) => Err(Error::PoolFull { asked: share, free: room.free, withheld: room.withheld }),
        None => Ok(Plan { chunk, parts: shares().map(|(room, share)| (room.node, share)).collect() }),
    }
}

/// The refusal of a node that the pool does not have.
pub(super) fn unknown(placement: Placement, node: NodeId) -> Error {
    Error::BadPlacement { placement: placement.to_string(), reason: format!("the pool has no {node}; see `hanare status`") }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;

    fn rooms(free: &[u64]) -> Vec<Room> {
        free.iter().enumerate().map(|(node, free)| Room { node: NodeId(node as u32), free: *free, withheld: 0 }).collect()
    }

    #[test]
    fn shares_are_even_and_sum_up() {
        let plan = interleave(&rooms(&[1 << 20, 1 << 20, 1 << 20]), 4096, 10 * 4096 + 5, 1).unwrap();
        assert_eq!(plan.parts.iter().map(|(node, _)| node.0).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(plan.parts.iter().map(|(_, len)| len).sum::<u64>(), 10 * 4096 + 5);
    }

    #[test]
    fn a_node_without_room_is_left_out() {
        let plan = interleave(&rooms(&[1 << 20, 4096, 0]), 4096, 8 * 4096, 0).unwrap();
        assert_eq!(plan.parts, [(NodeId(0), 8 * 4096)]);
    }

    #[test]
    fn a_small_region_needs_no_more_nodes_than_chunks() {
        let plan = interleave(&rooms(&[1 << 20; 5]), 65536, 65537, 0).unwrap();
        assert_eq!(plan.parts, [(NodeId(0), 65536), (NodeId(1), 1)]);
    }

    #[test]
    fn a_small_region_goes_where_most_is_free() {
        let plan = interleave(&rooms(&[1 << 20, 3 << 20, 1 << 20, 2 << 20]), 4096, 2 * 4096, 0).unwrap();
        assert_eq!(plan.parts, [(NodeId(1), 4096), (NodeId(3), 4096)]);
    }

    #[test]
    fn named_nodes_are_taken_in_their_order_or_refused() {
        let rooms = rooms(&[1 << 20, 4096, 1 << 20]);
        let named = [rooms[2], rooms[0]];
        let plan = over(&named, 4096, 3 * 4096 + 5).unwrap();
        assert_eq!(plan.parts, [(NodeId(2), 8192), (NodeId(0), 4101)]);
        assert_eq!(over(&named, 65536, 10).unwrap().parts, [(NodeId(2), 10)], "as many nodes as chunks");
        assert_eq!(over(&rooms, 4096, 5 * 4096), Err(Error::PoolFull { asked: 8192, free: 4096, withheld: 0 }));
    }

    #[test]
    fn a_full_pool_says_how_full() {
        assert_eq!(
            interleave(&rooms(&[4096, 4096]), 4096, 8193, 0),
            Err(Error::PoolFull { asked: 8193, free: 8192, withheld: 0 })
        );
        let short = Room { withheld: 7, ..rooms(&[10])[0] };
        assert_eq!(on_node(short, 11), Err(Error::PoolFull { asked: 11, free: 10, withheld: 7 }));
        assert!(interleave(&[], 4096, 1, 0).is_err());
    }
}
