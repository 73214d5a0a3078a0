//! Room for what programs may write, reserved before memory is handed out. So a block that leaves finds a slot. A program without room
//! hears so from the call that asks for memory, not from a touch.
//!
//! ```text
//! all blocks that programs may write   <=   slots + a quarter of the limit,   or all of them fit into the limit
//! ```
//!
//! A child of a fork may write all that it has of its parent, and so may its parent: a child reserves as much again. A block for which
//! no slot is free stays here. Such blocks are half of the limit at most. A slot that `k` programs share keeps `k` of their blocks here
//! at most, and `k - 1` of them count as part of the quarter.

use super::Shared;
use super::outage::{Waiter, try_again};
use super::store::SlotStore;
use hanare::{Error, NodeList, Placement, Result};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::{PAGE_LEN, PLACEMENT_NODE_COUNT_MAX};
use hanare_protocol::wire::control::NodeStatus;
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Fewest and most slots of a region that is made for less, 64 MiB and 1 GiB: each is as long as all before it, so that few are made.
const REGION_SLOTS: (u64, u64) = (1 << 8, 1 << 12);

/// Blocks that programs have reserved, and how many that may be.
pub struct Room {
    reserved: Mutex<u64>,
    /// Blocks that fit into the limit together, so that none of them ever leaves.
    fitting: u64,
    /// Blocks beyond the slots.
    beyond: u64,
    /// Held by the thread that makes regions.
    growth: Mutex<()>,
}

impl Room {
    /// The room of a run which keeps `limit` pages here, with `reserve` of them free.
    pub fn new(limit: u64, reserve: u64) -> Room {
        const PAGES: u64 = BLOCK_LEN / PAGE_LEN;
        Room { reserved: Mutex::new(0), fitting: (limit - reserve) / PAGES, beyond: limit / PAGES / 4, growth: Mutex::new(()) }
    }

    fn reserved(&self) -> MutexGuard<'_, u64> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves blocks where they fit beside so many slots, and further ones without. **Errors**: how many slots are missing.
    fn try_reserve(&self, blocks: u64, slots: u64, without: u64) -> Result<(), u64> {
        let mut reserved = self.reserved();
        let wanted = reserved.saturating_add(blocks);
        let most = slots.saturating_add(without).max(self.fitting);
        if wanted > most {
            return Err(wanted - slots);
        }
        *reserved = wanted;
        Ok(())
    }
}

/// Blocks that one program may write. They are given back when it is dropped.
pub struct Reservation {
    shared: Arc<Shared>,
    blocks: u64,
}

impl Reservation {
    /// No reservation yet.
    pub fn new(shared: &Arc<Shared>) -> Reservation {
        Reservation { shared: shared.clone(), blocks: 0 }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Reserves more. **Errors**: [`Error::PoolFull`], and those of a region's creation; nothing is reserved then.
    ///
    /// **Cost**: a look, where slots are left; else a region is made.
    pub fn extend(&mut self, blocks: u64, waiter: &dyn Waiter) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        self.shared.store.reserve(&self.shared.room_of_blocks, blocks, waiter)?;
        self.blocks += blocks;
        Ok(())
    }

    /// Gives so many back, or all that there are.
    pub fn shrink(&mut self, blocks: u64) {
        let blocks = blocks.min(self.blocks);
        self.blocks -= blocks;
        *self.shared.room_of_blocks.reserved() -= blocks;
    }

    /// All of it, for another program.
    pub fn take(&mut self) -> Reservation {
        Reservation { shared: self.shared.clone(), blocks: std::mem::take(&mut self.blocks) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(u64::MAX);
    }
}

/// A node that takes regions of the run, and how many slots it has room for.
#[derive(Clone, Copy, Debug)]
struct Lender {
    node: NodeId,
    slots: u64,
    /// Bytes that it does not lend because its host runs short of memory.
    withheld: u64,
}

impl SlotStore {
    /// Bytes that other nodes have free; this host's own node, if there is no other.
    pub fn free_len(&self) -> Result<u64> {
        Ok(self.lenders()?.iter().map(|lender| lender.slots * BLOCK_LEN).sum())
    }

    fn reserve(&self, room: &Room, blocks: u64, waiter: &dyn Waiter) -> Result<()> {
        if room.try_reserve(blocks, self.count(), 0).is_ok() {
            return Ok(());
        }
        let _growth = room.growth.lock().unwrap_or_else(PoisonError::into_inner);
        // A slot for each, or else for all but those that may stay here.
        let outcome = match self.reserve_beside(room, blocks, 0, waiter) {
            Err(Error::PoolFull { .. }) => self.reserve_beside(room, blocks, room.beyond, waiter),
            other => other,
        };
        outcome.map_err(|error| match error {
            Error::PoolFull { free, withheld, .. } => {
                let free = room.left(self.count() + free / BLOCK_LEN) * BLOCK_LEN;
                Error::PoolFull { asked: blocks.saturating_mul(BLOCK_LEN), free, withheld }
            }
            other => other,
        })
    }

    /// Makes regions until blocks can be reserved of which so many are `without` a slot.
    fn reserve_beside(&self, room: &Room, blocks: u64, without: u64, waiter: &dyn Waiter) -> Result<()> {
        while let Err(missing) = room.try_reserve(blocks, self.count(), without) {
            try_again(waiter, |_| self.grow(missing.saturating_sub(without)))?;
        }
        Ok(())
    }

    /// Makes a region of `missing` slots, or more if there are few so far; of fewer where that many find no room together.
    ///
    /// **Errors**: [`Error::PoolFull`] where all lenders together have not as many.
    fn grow(&self, missing: u64) -> Result<()> {
        let lenders = self.lenders()?;
        let (free, first) = (lenders.iter().map(|lender| lender.slots).sum::<u64>(), self.count());
        let withheld = lenders.iter().map(|lender| lender.withheld).fold(0, u64::saturating_add);
        let full = || Error::PoolFull { asked: missing.saturating_mul(BLOCK_LEN), free: free * BLOCK_LEN, withheld };
        if missing > free || first + free > u64::from(u32::MAX) {
            return Err(full());
        }
        let mut count = missing.max(first.clamp(REGION_SLOTS.0, REGION_SLOTS.1)).min(free);
        let (name, region) = loop {
            let made = match placement(&lenders, count) {
                Some(placement) => self.create(count, placement),
                None => Err(full()),
            };
            match made {
                Err(Error::PoolFull { .. }) if count > 1 => count /= 2,
                Err(Error::PoolFull { .. }) => return Err(full()),
                other => break other?,
            }
        };
        self.add(count as u32, name, region);
        Ok(())
    }

    /// The nodes that take regions, those with most room first.
    fn lenders(&self) -> Result<Vec<Lender>> {
        let own = self.pool.node();
        let alive = self.pool.status()?.nodes.into_iter().filter(|node| node.alive);
        let slots = |lent: u64, used: u64| lent.saturating_sub(used) / BLOCK_LEN;
        let lender = |node: NodeStatus| {
            let memory = node.memory;
            Lender { node: node.node, slots: slots(memory.lent, memory.used), withheld: memory.withheld() }
        };
        let all = alive.map(lender);
        let (mut others, here): (Vec<Lender>, Vec<Lender>) = all.partition(|lender| lender.node != own);
        if others.is_empty() {
            return Ok(here);
        }
        others.sort_by_key(|lender| std::cmp::Reverse(lender.slots));
        others.truncate(PLACEMENT_NODE_COUNT_MAX);
        Ok(others)
    }
}

/// Over as many of the lenders as have room for their share.
fn placement(lenders: &[Lender], count: u64) -> Option<Placement> {
    let most = lenders.len().min(usize::try_from(count).unwrap_or(usize::MAX));
    let has_room = |used: &usize| lenders[used - 1].slots >= count.div_ceil(*used as u64);
    let used = (1..=most).rev().find(has_room)?;
    let nodes: Vec<NodeId> = lenders[..used].iter().map(|lender| lender.node).collect();
    Some(Placement::Nodes(NodeList::new(&nodes).ok()?, BLOCK_LEN))
}

impl Room {
    /// Blocks that may be reserved still, beside so many slots.
    fn left(&self, slots: u64) -> u64 {
        (slots + self.beyond).max(self.fitting).saturating_sub(*self.reserved())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lenders(slots: &[u64]) -> Vec<Lender> {
        slots.iter().enumerate().map(|(node, slots)| Lender { node: NodeId(node as u32), slots: *slots, withheld: 0 }).collect()
    }

    fn nodes(slots: &[u64], count: u64) -> Option<usize> {
        placement(&lenders(slots), count).map(|placement| match placement {
            Placement::Nodes(list, BLOCK_LEN) => list.nodes().len(),
            other => panic!("{other}"),
        })
    }

    #[test]
    fn a_region_lies_on_all_nodes_that_have_room_for_their_share() {
        assert_eq!(nodes(&[100, 100, 3], 9), Some(3));
        assert_eq!(nodes(&[100, 100, 3], 12), Some(2));
        assert_eq!(nodes(&[100, 7, 3], 90), Some(1));
        assert_eq!(nodes(&[100, 7, 3], 101), None);
        assert_eq!((nodes(&[5, 5, 5], 2), nodes(&[], 1)), (Some(2), None), "no more nodes than slots");
    }

    #[test]
    fn what_fits_needs_no_slot_and_what_does_not_has_one_but_for_a_quarter() {
        // 64 blocks, of which 56 fit.
        let room = Room::new(64 * 64, 8 * 64);
        assert_eq!(room.try_reserve(56, 0, 0), Ok(()));
        assert_eq!(room.try_reserve(1, 0, 0), Err(57), "a slot for each of them");
        assert_eq!((room.try_reserve(1, 41, room.beyond), room.left(41)), (Ok(()), 0));
        assert_eq!(room.try_reserve(1, 41, room.beyond), Err(17));
        assert_eq!(room.try_reserve(1, 58, 0), Ok(()));
        assert_eq!(room.try_reserve(u64::MAX, 58, room.beyond), Err(u64::MAX - 58));
        assert_eq!(*room.reserved(), 58);
    }
}
