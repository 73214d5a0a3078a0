//! Where blocks lie in the pool: regions of this run, cut into slots of a block each, counted by the programs that read them.
//!
//! A slot that parent and child of a fork share is never written: a block that changes takes another slot.

use super::block::{PAGES, Slot, runs};
use hanare::{CreateOptions, Error, NodeList, Placement, Pool, Region, Result};
use hanare_protocol::limits::{PAGE_LEN, PLACEMENT_NODE_COUNT_MAX};
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

    fn place(&self, slot: Slot) -> (Arc<Region>, u64) {
        let slots = self.slots();
        let at = slots.regions.partition_point(|(first, _)| *first <= slot.0) - 1;
        let (first, region) = &slots.regions[at];
        (region.clone(), u64::from(slot.0 - first) * BLOCK_LEN)
    }

    /// Reads pages of a slot, one after another.
    pub fn read(&self, slot: Slot, first: u32, into: &mut [u8]) -> Result<()> {
        let (region, at) = self.place(slot);
        region.get(at + u64::from(first) * PAGE_LEN, into)
    }

    /// Keeps the `dirty` pages of a block, whose bytes stand at their places in `bytes`; `rest` are other pages that the pool has.
    /// Returns where the block lies then.
    ///
    /// **Errors**: the pool's; the block lies where it lay.
    pub fn write(&self, slot: Option<Slot>, rest: u64, dirty: u64, bytes: &mut [u8]) -> Result<Slot> {
        let (target, pages) = match slot {
            Some(slot) if self.is_own(slot) => (slot, dirty),
            other => {
                if let Some(old) = other {
                    let (region, at) = self.place(old);
                    runs(rest).try_for_each(|run| {
                        let range = run.start as usize * PAGE_LEN as usize..run.end as usize * PAGE_LEN as usize;
                        region.get(at + range.start as u64, &mut bytes[range])
                    })?;
                }
                (self.take()?, dirty | rest)
            }
        };
        let (region, at) = self.place(target);
        let written = self.pool.batch(|batch| {
            runs(pages).try_for_each(|run| {
                let range = run.start as usize * PAGE_LEN as usize..run.end as usize * PAGE_LEN as usize;
                batch.put(&region, at + range.start as u64, &bytes[range])
            })
        });
        match written {
            Ok(()) if Some(target) != slot => {
                slot.into_iter().for_each(|old| self.release(old));
                Ok(target)
            }
            Ok(()) => Ok(target),
            Err(error) => {
                if Some(target) != slot {
                    self.release(target);
                }
                Err(error)
            }
        }
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
