//! The node's cache: fully associative with LRU, so that no miss is a conflict.
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Spreads block numbers over the table; the map's default hash would cost more than the rest of a look-up.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }
    fn write_u32(&mut self, value: u32) {
        self.0 = (self.0 ^ u64::from(value)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 ^= self.0 >> 32;
    }
}

#[derive(Clone, Copy)]
struct Slot {
    block: u32,
    newer: u32,
    older: u32,
}

const NONE: u32 = u32::MAX;

/// Which blocks are present, by age.
///
/// **Cost**: one hash look-up and a few list links for a touch.
pub struct Cache {
    index: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    slots: Vec<Slot>,
    capacity: usize,
    newest: u32,
    oldest: u32,
}

impl Cache {
    /// An empty cache of `capacity` blocks.
    pub fn new(capacity: usize) -> Cache {
        Cache { index: HashMap::default(), slots: Vec::new(), capacity: capacity.max(1), newest: NONE, oldest: NONE }
    }

    /// Whether a block is present, without touching its age.
    pub fn contains(&self, block: u32) -> bool {
        self.index.contains_key(&block)
    }

    /// Whether a block hits; afterwards it is present and the youngest, and the oldest is gone where there was no room.
    pub fn touch(&mut self, block: u32) -> bool {
        if let Some(slot) = self.index.get(&block).copied() {
            self.unlink(slot);
            self.link_newest(slot);
            return true;
        }
        let slot = if self.slots.len() < self.capacity {
            self.slots.push(Slot { block, newer: NONE, older: NONE });
            self.slots.len() as u32 - 1
        } else {
            let slot = self.oldest;
            self.unlink(slot);
            self.index.remove(&self.slots[slot as usize].block);
            self.slots[slot as usize].block = block;
            slot
        };
        self.index.insert(block, slot);
        self.link_newest(slot);
        false
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            _ => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.slots[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let older = self.newest;
        self.slots[slot as usize].newer = NONE;
        self.slots[slot as usize].older = older;
        match older {
            NONE => self.oldest = slot,
            _ => self.slots[older as usize].newer = slot,
        }
        self.newest = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_naive_lru() {
        let seed = 7_u64;
        println!("seed {seed}");
        let mut state = seed;
        let (mut cache, mut naive) = (Cache::new(8), Vec::new());
        for _ in 0..5_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let block = ((state >> 33) % 14) as u32;
            let known = naive.iter().position(|other| *other == block);
            if let Some(at) = known {
                naive.remove(at);
            }
            naive.insert(0, block);
            naive.truncate(8);
            assert_eq!(cache.touch(block), known.is_some());
            assert!((0..14).all(|other| cache.contains(other) == naive.contains(&other)));
        }
    }
}
