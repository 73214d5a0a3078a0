//! ICC, the arbiter's cache of directory entries: which blocks' entries are present, within its capacity.
use std::collections::{BTreeMap, HashMap};

use super::Block;

/// How entries find their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Organisation {
    /// Any entry anywhere; the least recently used goes.
    Lru,
    /// One place for each entry, by its block's number.
    Direct,
}

/// Presence of directory entries.
// FEATURE: EU-F11
pub struct Icc {
    capacity: u64,
    organisation: Organisation,
    /// Age of each entry present (LRU), or the block in each place (direct).
    present: HashMap<u64, u64>,
    by_age: BTreeMap<u64, u64>,
    clock: u64,
}

impl Icc {
    /// An empty cache of `capacity` entries.
    pub fn new(capacity: u64, organisation: Organisation) -> Icc {
        Icc { capacity: capacity.max(1), organisation, present: HashMap::new(), by_age: BTreeMap::new(), clock: 0 }
    }

    /// Whether the entry of `block` is present; a hit makes it the youngest.
    pub fn is_hit(&mut self, block: Block) -> bool {
        match self.organisation {
            Organisation::Direct => self.present.get(&(block.0 % self.capacity)) == Some(&block.0),
            Organisation::Lru => {
                let Some(age) = self.present.get(&block.0).copied() else { return false };
                self.by_age.remove(&age);
                self.insert_youngest(block);
                true
            }
        }
    }

    /// Puts the entry of `block` in, and drives another out where there is no room.
    pub fn fill(&mut self, block: Block) {
        match self.organisation {
            Organisation::Direct => {
                self.present.insert(block.0 % self.capacity, block.0);
            }
            Organisation::Lru => {
                if let Some(age) = self.present.get(&block.0).copied() {
                    self.by_age.remove(&age);
                }
                self.insert_youngest(block);
                if self.present.len() as u64 > self.capacity
                    && let Some((_, oldest)) = self.by_age.pop_first()
                {
                    self.present.remove(&oldest);
                }
            }
        }
    }

    fn insert_youngest(&mut self, block: Block) {
        self.clock += 1;
        self.present.insert(block.0, self.clock);
        self.by_age.insert(self.clock, block.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_finite_in_both_organisations() {
        let mut lru = Icc::new(2, Organisation::Lru);
        lru.fill(Block(1));
        lru.fill(Block(3));
        assert!(lru.is_hit(Block(1)));
        lru.fill(Block(5));
        assert!(lru.is_hit(Block(1)) && !lru.is_hit(Block(3)) && lru.is_hit(Block(5)));

        let mut direct = Icc::new(2, Organisation::Direct);
        direct.fill(Block(1));
        direct.fill(Block(2));
        direct.fill(Block(3));
        assert!(!direct.is_hit(Block(1)) && direct.is_hit(Block(2)) && direct.is_hit(Block(3)));
    }
}
