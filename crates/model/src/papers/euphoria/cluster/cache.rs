//! A processor's cache: MESI states by block, set-associative, LRU.
use std::collections::VecDeque;

use super::Block;

/// State of a cached block; an absent block is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mesi {
    /// Newer than memory, nowhere else.
    Modified,
    /// Same as memory, nowhere else.
    Exclusive,
    /// Same as memory, perhaps elsewhere.
    Shared,
}

/// A cache of block states; it holds no data.
// FEATURE: EU-F1
pub struct Cache {
    sets: Vec<VecDeque<(Block, Mesi)>>,
    ways: usize,
}

impl Cache {
    /// A cache of `blocks` blocks; the number of sets is rounded down to at least one.
    pub fn new(blocks: usize, ways: usize) -> Cache {
        let ways = ways.min(blocks.max(1));
        Cache { sets: vec![VecDeque::new(); (blocks / ways).max(1)], ways }
    }

    fn set(&mut self, block: Block) -> &mut VecDeque<(Block, Mesi)> {
        let index = (block.0 % self.sets.len() as u64) as usize;
        &mut self.sets[index]
    }

    /// The state of a block without touching its age.
    pub fn state(&mut self, block: Block) -> Option<Mesi> {
        self.set(block).iter().find(|entry| entry.0 == block).map(|entry| entry.1)
    }

    /// The state of a block, which becomes the youngest of its set.
    pub fn touch(&mut self, block: Block) -> Option<Mesi> {
        let set = self.set(block);
        let index = set.iter().position(|entry| entry.0 == block)?;
        let entry = set.remove(index)?;
        set.push_front(entry);
        Some(entry.1)
    }

    /// Changes the state of a block that is present.
    pub fn set_state(&mut self, block: Block, state: Mesi) {
        if let Some(entry) = self.set(block).iter_mut().find(|entry| entry.0 == block) {
            entry.1 = state;
        }
    }

    /// Puts a block in as the youngest; returns what it drove out.
    pub fn fill(&mut self, block: Block, state: Mesi) -> Option<(Block, Mesi)> {
        self.remove(block);
        let ways = self.ways;
        let set = self.set(block);
        set.push_front((block, state));
        if set.len() > ways { set.pop_back() } else { None }
    }

    /// Takes a block out; returns the state it had.
    pub fn remove(&mut self, block: Block) -> Option<Mesi> {
        let set = self.set(block);
        let index = set.iter().position(|entry| entry.0 == block)?;
        set.remove(index).map(|entry| entry.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_block_goes() {
        let mut cache = Cache::new(4, 2);
        assert_eq!(cache.fill(Block(0), Mesi::Modified), None);
        assert_eq!(cache.fill(Block(2), Mesi::Shared), None);
        assert_eq!(cache.touch(Block(0)), Some(Mesi::Modified));
        assert_eq!(cache.fill(Block(4), Mesi::Shared), Some((Block(2), Mesi::Shared)));
        assert_eq!(cache.fill(Block(1), Mesi::Shared), None);
        cache.set_state(Block(0), Mesi::Shared);
        assert_eq!((cache.state(Block(0)), cache.state(Block(2))), (Some(Mesi::Shared), None));
        assert_eq!(cache.remove(Block(0)), Some(Mesi::Shared));
    }
}
