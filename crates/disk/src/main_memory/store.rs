//! Blocks in the pool: regions of this run, cut into slots of a block each, counted by the programs that read them.
//!
//! A slot that parent and child of a fork share is never written: a block that changes takes another slot.

use super::block::{Block, Slot, bits, cut, len_of, runs};
use super::outage::{Waiter, try_again};
use hanare::{Batch, CreateOptions, Placement, Pool, Region, Result, Rights};
use hanare_protocol::limits::{PAGE_LEN, PLACEMENT_NODE_COUNT_MAX};
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// First part of such regions' names. The rest is the host, the keeper's process and a number.
const BEGINNING: &str = "main-memory";

#[derive(Default)]
struct Slots {
    /// The regions, each with its first slot.
    regions: Vec<(u32, Arc<Region>)>,
    /// Number of programs that read each slot.
    readers: Vec<u32>,
    free: Vec<u32>,
}

/// A thread's own connections for reading. On others' its reply would wait behind their bytes, and for a thread of theirs to be woken
/// first.
pub struct ReadConnections {
    socket: String,
    /// Attached when the first region is made: most small programs need none.
    pool: OnceLock<Option<Pool>>,
    /// Regions that are open here.
    regions: Mutex<HashMap<usize, Arc<Region>>>,
}

impl ReadConnections {
    /// A connection to the node at that address.
    pub fn new(socket: &str) -> ReadConnections {
        ReadConnections { socket: socket.to_owned(), pool: OnceLock::new(), regions: Mutex::default() }
    }

    fn regions(&self) -> MutexGuard<'_, HashMap<usize, Arc<Region>>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a region. **Cost**: some milliseconds; nobody who reads waits for it.
    pub fn prepare(&self, fresh: &FreshRegion) {
        let pool = self.pool.get_or_init(|| Pool::attach_to(&self.socket, None).ok());
        // Without connections of its own, the lane reads by those of the others.
        let Some(region) = pool.as_ref().and_then(|pool| pool.open_for(&fresh.name, Rights::Read).ok()) else { return };
        // A first read makes the connection to a block's node, and neighbours lie on different nodes.
        let blocks = (region.len() / BLOCK_LEN).min(PLACEMENT_NODE_COUNT_MAX as u64);
        if (0..blocks).all(|block| region.get(block * BLOCK_LEN, &mut [0; 8]).is_ok()) {
            self.regions().insert(fresh.index, Arc::new(region));
        }
    }

    /// A region as this lane reaches it; `shared`, as long as it is not open here.
    fn reach(&self, index: usize, shared: Arc<Region>) -> Arc<Region> {
        self.regions().get(&index).cloned().unwrap_or(shared)
    }
}

/// Pages to read: of which slot, from which page on, and where to.
pub type Piece<'b> = (Slot, u32, &'b mut [u8]);

/// No slot is free.
pub struct NoSlot;

/// A region that was made, for lanes to open.
pub struct FreshRegion {
    index: usize,
    name: String,
}

/// Pages of a block that leave their program.
pub struct Leaving<'a> {
    /// The block; a write gives it the claimed slot.
    pub block: &'a mut Block,
    /// The slot that [`SlotStore::claim`] gave.
    pub claim: &'a mut Option<Slot>,
    /// The pages whose bytes the pool is to have.
    pub pages: u64,
    /// Bytes of these pages, one page after the other.
    pub bytes: &'a [u8],
}

impl Leaving<'_> {
    /// Pages that go from the block's slot to the claimed one.
    fn moving(&self) -> u64 {
        if self.claim.is_some() && self.block.slot.is_some() { self.block.kept & !self.pages } else { 0 }
    }
}

/// The regions of a run; they go with it.
pub struct SlotStore {
    pub(super) pool: Pool,
    process: u32,
    slots: Mutex<Slots>,
    /// Names that were used, also for regions whose creation failed: a region may be there although its answer was lost.
    names: AtomicU32,
    /// The thread that opens regions for read connections.
    fresh: Sender<FreshRegion>,
}

impl SlotStore {
    /// Makes regions only when they are needed. Leftovers of this host's killed runs go.
    pub fn new(pool: &Pool, fresh: Sender<FreshRegion>) -> SlotStore {
        sweep(pool);
        SlotStore { pool: pool.clone(), process: std::process::id(), slots: Mutex::default(), names: AtomicU32::new(0), fresh }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has one more program read a slot.
    pub fn share(&self, slot: Slot) {
        self.slots().readers[slot.0 as usize] += 1;
    }

    /// Has one program less read it; without any it is free.
    pub fn release(&self, slot: Slot) {
        let mut slots = self.slots();
        let readers = &mut slots.readers[slot.0 as usize];
        *readers -= 1;
        if *readers == 0 {
            slots.free.push(slot.0);
        }
    }

    /// Removes the regions: the run is over.
    pub fn remove(&self) {
        // The regions are gone with the pool.
        (0..self.names.load(Ordering::Relaxed)).for_each(|number| drop(self.pool.remove(&self.name(number))));
    }

    fn name(&self, number: u32) -> String {
        format!("{}-{number}", beginning(self.process))
    }

    /// Count of slots.
    pub fn count(&self) -> u64 {
        self.slots().readers.len() as u64
    }

    /// Claims a slot for a dirty block that leaves, where others read its own, or it has none. `Err` where none is free.
    pub fn claim(&self, own: Option<Slot>) -> Result<Option<Slot>, NoSlot> {
        let mut slots = self.slots();
        if own.is_some_and(|slot| slots.readers[slot.0 as usize] == 1) {
            return Ok(None);
        }
        let slot = slots.free.pop().ok_or(NoSlot)?;
        slots.readers[slot as usize] = 1;
        Ok(Some(Slot(slot)))
    }

    /// The region of a slot, with its number, and where in it the slot is.
    fn place(&self, slot: Slot) -> (usize, Arc<Region>, u64) {
        let slots = self.slots();
        let index = slots.regions.partition_point(|(first, _)| *first <= slot.0) - 1;
        let (first, region) = &slots.regions[index];
        (index, region.clone(), u64::from(slot.0 - first) * BLOCK_LEN)
    }

    /// Reads pages: of each slot those from a page on. Where a node is silent and somebody waits for it, so does this.
    ///
    /// **Cost**: one message to each node that has some.
    pub fn read(&self, lane: &ReadConnections, pieces: &mut [Piece<'_>], waiter: Option<&dyn Waiter>) -> Result<()> {
        let mut read = |is_again: bool| {
            if is_again {
                self.look(pieces.iter().map(|(slot, ..)| *slot), |index, region| lane.reach(index, region))?;
            }
            self.pool.batch(|batch| {
                pieces.iter_mut().try_for_each(|(slot, first, bytes)| {
                    let (index, region, at) = self.place(*slot);
                    batch.get(&lane.reach(index, region), at + u64::from(*first) * PAGE_LEN, bytes)
                })
            })
        };
        match waiter {
            Some(waiter) => try_again(waiter, read),
            None => read(false),
        }
    }

    /// Gets a word of each slot. Where a node refuses its grant, the get asks the coordinator for today's, and hears if the bytes are lost.
    fn look(&self, slots: impl Iterator<Item = Slot>, reach: impl Fn(usize, Arc<Region>) -> Arc<Region>) -> Result<()> {
        let mut before = None;
        for slot in slots.filter(|slot| before.replace(*slot) != Some(*slot)) {
            let (index, region, at) = self.place(slot);
            reach(index, region).get(at, &mut [0; 8])?;
        }
        Ok(())
    }

    /// Keeps pages of blocks: in a block's own slot those alone, in a claimed one all that the pool has of it. It waits for a silent
    /// node.
    ///
    /// **Cost**: one message to each node that is to have some. **Errors**: the pool's; the blocks lie where they lay.
    pub fn write(&self, blocks: &mut [Leaving<'_>], waiter: &dyn Waiter) -> Result<()> {
        try_again(waiter, |is_again| {
            if is_again {
                let slots = blocks.iter().flat_map(|leaving| [leaving.block.slot, *leaving.claim]).flatten();
                self.look(slots, |_, region| region)?;
            }
            let moved = blocks.iter().map(|leaving| self.moved(leaving)).collect::<Result<Vec<_>>>()?;
            self.pool.batch(|batch| {
                blocks.iter().zip(&moved).try_for_each(|(leaving, moved)| {
                    self.put(batch, leaving, leaving.pages, leaving.bytes)?;
                    self.put(batch, leaving, leaving.moving(), moved)
                })
            })
        })?;
        for Leaving { block, claim, .. } in blocks {
            let shared = claim.take().and_then(|claimed| block.slot.replace(claimed));
            shared.into_iter().for_each(|slot| self.release(slot));
        }
        Ok(())
    }

    /// The other pages that the pool has of a block which changes its slot.
    fn moved(&self, leaving: &Leaving<'_>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len_of(leaving.moving())];
        if let Some(old) = leaving.block.slot {
            let (_, region, at) = self.place(old);
            cut(&mut bytes, leaving.moving())
                .try_for_each(|(run, bytes)| region.get(at + u64::from(run.start) * PAGE_LEN, bytes))?;
        }
        Ok(bytes)
    }

    /// Puts pages, whose bytes lie one after the other, to where the block will be.
    fn put<'b>(&self, batch: &mut Batch<'b>, leaving: &Leaving<'_>, pages: u64, mut bytes: &'b [u8]) -> Result<()> {
        let Some(target) = leaving.claim.or(leaving.block.slot) else { return Ok(()) };
        let (_, region, at) = self.place(target);
        runs(pages).try_for_each(|run| {
            let (piece, rest) = bytes.split_at(len_of(bits(run.clone())));
            bytes = rest;
            batch.put(&region, at + u64::from(run.start) * PAGE_LEN, piece)
        })
    }

    /// Creates a region of `count` slots, under a name of its own.
    pub(super) fn create(&self, count: u64, placement: Placement) -> Result<(String, Region)> {
        let name = self.name(self.names.fetch_add(1, Ordering::Relaxed));
        let options = CreateOptions { placement, copies: 1, ..CreateOptions::default() };
        let region = self.pool.create(&name, count * BLOCK_LEN, &options)?;
        Ok((name, region))
    }

    /// Takes a region's slots into use.
    pub(super) fn add(&self, count: u32, name: String, region: Region) {
        let mut slots = self.slots();
        let first = slots.readers.len() as u32;
        // Without a thread to open it, all read by this connection.
        let _ = self.fresh.send(FreshRegion { index: slots.regions.len(), name });
        slots.regions.push((first, Arc::new(region)));
        slots.readers.resize((first + count) as usize, 0);
        slots.free.extend((first..first + count).rev());
    }
}

/// First part of the names of a keeper's regions.
fn beginning(process: u32) -> String {
    format!("{BEGINNING}-{}-{process}", rustix::system::uname().nodename().to_string_lossy())
}

/// Removes what keepers of this host left that are gone.
pub fn sweep(pool: &Pool) {
    let host = beginning(0);
    let host = host.trim_end_matches('0');
    for region in pool.list().unwrap_or_default() {
        let process = region.name.strip_prefix(host).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !std::path::Path::new(&format!("/proc/{process}")).exists()) {
            let _ = pool.remove(&region.name);
        }
    }
}
