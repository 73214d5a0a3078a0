//! Blocks of a stream, brought before they are touched.
//!
//! The first page of what is brought together stays absent, because its touch tells how far the program has come: then the next blocks
//! are asked for. That page's bytes are at hand already (the *stash*), so the touch waits for no other node.

use super::{BlockClaim, Number, ProgramSpace};
use crate::main_memory::block::{Slot, bits, cut, has};
use crate::main_memory::store::ReadConnections;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Most blocks that are brought ahead together, 1 MiB: a sweep is through them before the next have come, whatever their number.
pub const AHEAD_TOGETHER: usize = 4;

/// Blocks of a stream that has just begun: it may be none.
const AHEAD_FIRST: usize = 2;

/// Blocks that are to be brought, of one program.
#[derive(Clone, Copy)]
pub struct Order {
    first: Number,
    count: u64,
    /// Access that the blocks come for.
    access: Access,
}

impl Order {
    /// Most blocks of the order.
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl ProgramSpace {
    /// Order for a stream that has come to a block: blocks behind it that are not here; more of them where it `goes_on`.
    pub(super) fn order(&self, number: Number, goes_on: bool, access: Access) -> Order {
        let count = self.shared.ahead_count(if goes_on { AHEAD_TOGETHER } else { AHEAD_FIRST });
        let table = self.table();
        let is_known =
            |next: &Number| table.blocks.get(next).is_some_and(|block| block.is_taken() || block.here().count_ones() > 1);
        let known = (number + 1..=number + count).take_while(is_known).count() as u64;
        Order { first: number + 1 + known, count, access }
    }

    /// Brings what is ordered, in one message, and waits for nobody who has a block. `buffer` has room for [`AHEAD_TOGETHER`] blocks.
    pub fn bring_ahead(&self, order: Order, lane: &ReadConnections, buffer: &mut [u8]) {
        let mut held = self.hold_kept(order.first..order.first + order.count);
        let mut areas: Vec<&mut [u8]> = buffer.chunks_exact_mut(BLOCK_LEN as usize).take(held.len()).collect();
        let mut pieces: Vec<(Slot, u32, &mut [u8])> = Vec::new();
        for (held, area) in held.iter().zip(&mut areas) {
            let Some(slot) = held.block.slot else { continue };
            pieces.extend(cut(area, held.absent()).map(|(run, bytes)| (slot, run.start, bytes)));
        }
        let fetched: usize = pieces.iter().map(|(_, _, bytes)| bytes.len()).sum();
        // The touch itself reports blocks that do not come.
        if self.shared.store.read(lane, &mut pieces, None).is_err() {
            return;
        }
        self.counts().fetched.fetch_add(fetched as u64, Ordering::Relaxed);
        for (held, mut area) in held.iter_mut().zip(areas) {
            let mut pages = held.absent();
            let stashed = (held.number == order.first && has(pages, 0) && pages != 1).then(|| area[..PAGE_LEN as usize].into());
            let mut table = self.table();
            match stashed {
                Some(page) => {
                    pages &= !bits(0..1);
                    area = &mut area[PAGE_LEN as usize..];
                    table.stash.insert(held.number, page)
                }
                None => table.stash.remove(&held.number),
            };
            drop(table);
            held.is_stream = true;
            for (run, bytes) in cut(area, pages) {
                held.install(run, order.access, bytes);
            }
        }
    }

    /// Holds those blocks of a range that nobody has, and of which the pool has pages that are not here.
    fn hold_kept(&self, numbers: Range<Number>) -> Vec<BlockClaim<'_>> {
        let mut table = self.table();
        let table = &mut *table;
        let mut held = Vec::new();
        if table.is_frozen || table.is_over {
            return held;
        }
        for number in numbers {
            let Some(block) = table.blocks.get_mut(&number).filter(|block| !block.is_taken()) else { continue };
            if block.absent() != 0 {
                table.held += 1;
                held.push(BlockClaim::new(self, number, block));
            }
        }
        held
    }
}
