//! Where blocks lie in the pool: regions of this run, cut into slots of a block each, counted by the programs that read them.
//!
//! A slot that parent and child of a fork share is never written: a block that changes takes another slot.

use super::block::{Block, PAGES, Slot, cut, runs};
use hanare::{CreateOptions, Error, NodeList, Placement, Pool, Region, Result, Rights};
use hanare_protocol::limits::{PAGE_LEN, PLACEMENT_NODE_COUNT_MAX};
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Fewest and most slots of a region, 64 MiB and 1 GiB: each is as long as all before it, so that few are made.
const REGION_SLOTS: (u32, u32) = (1 << 8, 1 << 12);

/// Fewest slots that are tried when the pool is nearly full: 1 MiB.
const REGION_SLOTS_LAST: u32 = 4;

/// How names of such regions begin. What follows is the host, the keeper's process and a number.
const BEGINNING: &str = "main-memory";

#[derive(Default)]
struct Slots {
    /// The regions, each with its first slot.
    regions: Vec<(u32, Arc<Region>)>,
    /// How many programs read each slot.
    readers: Vec<u32>,
    free: Vec<u32>,
}

/// What a thread reads by: connections of its own. On those of others its answer would wait behind their bytes, and for a thread of
/// theirs to be woken first.
pub struct Lane {
    socket: String,
    /// Attached when the first block is read: most small programs read none.
    pool: OnceLock<Option<Pool>>,
    regions: Mutex<HashMap<usize, Arc<Region>>>,
}

impl Lane {
    /// One to the node at that address.
    pub fn new(socket: &str) -> Lane {
        Lane { socket: socket.to_owned(), pool: OnceLock::new(), regions: Mutex::default() }
    }

    /// A region as this lane reaches it, opened once; `shared` where there is no connection for it.
    fn open(&self, index: usize, shared: Arc<Region>) -> Arc<Region> {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(region) = regions.get(&index) {
            return region.clone();
        }
        let pool = self.pool.get_or_init(|| Pool::attach_to(&self.socket, None).ok());
        let own = pool.as_ref().and_then(|pool| pool.open_for(shared.name(), Rights::Read).ok());
        let region = own.map_or(shared, Arc::new);
        regions.insert(index, region.clone());
        region
    }
}

/// A block that leaves its program, with its dirty pages' bytes at their places.
pub struct Leaving<'a> {
    /// It gets another slot where others read its own.
    pub block: &'a mut Block,
    /// As many as a block has.
    pub bytes: &'a mut [u8],
}

/// The regions of a run; they go with it.
pub struct SlotStore {
    pool: Pool,
    process: u32,
    slots: Mutex<Slots>,
}

impl SlotStore {
    /// Nothing is made before it is needed. What runs of this host left that were killed goes.
    pub fn new(pool: &Pool) -> SlotStore {
        sweep(pool);
        SlotStore { pool: pool.clone(), process: std::process::id(), slots: Mutex::default() }
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
        // Where the pool is gone, so are they.
        self.slots().regions.iter().for_each(|(_, region)| drop(self.pool.remove(region.name())));
    }

    fn is_own(&self, slot: Slot) -> bool {
        self.slots().readers[slot.0 as usize] == 1
    }

    /// The region of a slot, with its number, and where in it the slot is.
    fn place(&self, slot: Slot) -> (usize, Arc<Region>, u64) {
        let slots = self.slots();
        let index = slots.regions.partition_point(|(first, _)| *first <= slot.0) - 1;
        let (first, region) = &slots.regions[index];
        (index, region.clone(), u64::from(slot.0 - first) * BLOCK_LEN)
    }

    /// Reads pages: of each slot those from a page on. **Cost**: one message to each node that has some.
    pub fn read<'b>(&self, lane: &Lane, pieces: impl IntoIterator<Item = (Slot, u32, &'b mut [u8])>) -> Result<()> {
        self.pool.batch(|batch| {
            pieces.into_iter().try_for_each(|(slot, first, bytes)| {
                let (index, region, at) = self.place(slot);
                batch.get(&lane.open(index, region), at + u64::from(first) * PAGE_LEN, bytes)
            })
        })
    }

    /// Keeps the dirty pages of blocks. **Cost**: one message to each node that is to have some.
    ///
    /// **Errors**: the pool's; the blocks lie where they lay.
    pub fn write(&self, blocks: &mut [Leaving<'_>]) -> Result<()> {
        let mut targets = Vec::with_capacity(blocks.len());
        let written = self.choose(blocks, &mut targets).and_then(|()| {
            self.pool.batch(|batch| {
                blocks.iter().zip(&targets).try_for_each(|(leaving, (target, pages))| {
                    let (_, region, at) = self.place(*target);
                    runs(*pages).try_for_each(|run| {
                        let range = run.start as usize * PAGE_LEN as usize..run.end as usize * PAGE_LEN as usize;
                        batch.put(&region, at + range.start as u64, &leaving.bytes[range])
                    })
                })
            })
        });
        for (leaving, (target, _)) in blocks.iter_mut().zip(targets) {
            let slot = &mut leaving.block.slot;
            if *slot != Some(target) {
                let unused = if written.is_ok() { slot.replace(target) } else { Some(target) };
                unused.into_iter().for_each(|slot| self.release(slot));
            }
        }
        written
    }

    /// Chooses the slots of blocks, and which pages to write there: dirty ones where a block has a slot of its own, all that the pool has
    /// of it where others read its slot.
    fn choose(&self, blocks: &mut [Leaving<'_>], targets: &mut Vec<(Slot, u64)>) -> Result<()> {
        for Leaving { block, bytes } in blocks {
            let (target, rest) = match block.slot {
                Some(slot) if self.is_own(slot) => (slot, 0),
                slot => {
                    let rest = block.kept & !block.dirty;
                    if let Some(old) = slot {
                        let (_, region, at) = self.place(old);
                        cut(bytes, rest).try_for_each(|(run, bytes)| region.get(at + u64::from(run.start) * PAGE_LEN, bytes))?;
                    }
                    (self.take()?, rest)
                }
            };
            targets.push((target, block.dirty | rest));
        }
        Ok(())
    }

    /// A slot of nobody.
    fn take(&self) -> Result<Slot> {
        let mut slots = self.slots();
        if slots.free.is_empty() {
            self.grow(&mut slots)?;
        }
        let slot = slots.free.pop().expect("it has grown");
        slots.readers[slot as usize] = 1;
        Ok(Slot(slot))
    }

    fn grow(&self, slots: &mut Slots) -> Result<()> {
        let first = slots.readers.len() as u32;
        let mut count = first.clamp(REGION_SLOTS.0, REGION_SLOTS.1);
        let options = CreateOptions { placement: self.elsewhere()?, ..CreateOptions::default() };
        let name = format!("{}-{}", beginning(self.process), slots.regions.len());
        let region = loop {
            match self.pool.create(&name, u64::from(count) * BLOCK_LEN, &options) {
                Err(Error::PoolFull { .. }) if count > REGION_SLOTS_LAST => count /= 2,
                other => break other?,
            }
        };
        slots.regions.push((first, Arc::new(region)));
        slots.readers.resize((first + count) as usize, 0);
        slots.free.extend((first..first + count).rev());
        Ok(())
    }

    /// Over all nodes but this host's; on this host's, if there is no other.
    fn elsewhere(&self) -> Result<Placement> {
        let own = self.pool.node();
        let others = self.pool.status()?.nodes.into_iter().filter(|node| node.alive && node.node != own);
        let others: Vec<_> = others.map(|node| node.node).take(PLACEMENT_NODE_COUNT_MAX).collect();
        Ok(NodeList::new(&others).map_or(Placement::Local, |list| Placement::Nodes(list, BLOCK_LEN)))
    }
}

/// How the names of a keeper's regions begin.
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

const _: () = assert!(PAGES == 64 && REGION_SLOTS.0 >= REGION_SLOTS_LAST);
