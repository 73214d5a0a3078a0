//! A context cache: which contexts of one unit are on the chip; the others are in their save areas in memory.

/// How often contexts were asked for, and how often they were there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Accesses.
    pub asked: u64,
    /// Accesses that found their context.
    pub hits: u64,
}

impl Use {
    /// Hits as a share of accesses; one where there were none.
    pub fn hit_ratio(self) -> f64 {
        if self.asked == 0 { 1.0 } else { self.hits as f64 / self.asked as f64 }
    }
}

impl std::ops::Add for Use {
    type Output = Use;
    fn add(self, other: Use) -> Use {
        Use { asked: self.asked + other.asked, hits: self.hits + other.hits }
    }
}

/// What an access found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The context was there.
    Hit,
    /// It was fetched from its save area; a dirty context went to its own first, if there is one.
    Miss(Option<u32>),
}

/// Tags of a context cache: sets of ways, LRU in a set; one set is a fully associative cache.
// FEATURE: VQ-F11
pub struct ContextCache {
    sets: Vec<Vec<u32>>,
    ways: usize,
    used: Use,
}

impl ContextCache {
    /// A cache of `entries` contexts in sets of `ways`.
    pub fn new(entries: usize, ways: usize) -> ContextCache {
        let ways = ways.min(entries);
        ContextCache { sets: vec![Vec::new(); (entries / ways).max(1)], ways, used: Use::default() }
    }

    /// A fully associative cache.
    pub fn full(entries: usize) -> ContextCache {
        ContextCache::new(entries, entries)
    }

    fn set(&mut self, id: u32) -> &mut Vec<u32> {
        let index = id as usize % self.sets.len();
        &mut self.sets[index]
    }

    /// Whether a context is there, without an access.
    pub fn holds(&mut self, id: u32) -> bool {
        self.set(id).contains(&id)
    }

    /// An access: afterwards the context is there.
    pub fn access(&mut self, id: u32) -> Found {
        let ways = self.ways;
        let set = self.set(id);
        let known = set.iter().position(|other| *other == id);
        if let Some(at) = known {
            set.remove(at);
        }
        set.insert(0, id);
        let victim = if set.len() > ways { set.pop() } else { None };
        self.used.asked += 1;
        self.used.hits += u64::from(known.is_some());
        if known.is_some() { Found::Hit } else { Found::Miss(victim) }
    }

    /// Drops a context whose other copy is the valid one.
    pub fn invalidate(&mut self, id: u32) {
        self.set(id).retain(|other| *other != id);
    }

    /// Accesses and hits so far.
    pub fn used(&self) -> Use {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_lru_and_victims_are_named() {
        let mut cache = ContextCache::new(4, 2);
        assert_eq!(cache.access(0), Found::Miss(None));
        assert_eq!(cache.access(2), Found::Miss(None));
        assert_eq!(cache.access(0), Found::Hit);
        assert_eq!(cache.access(4), Found::Miss(Some(2)));
        assert!(cache.holds(0) && cache.holds(4) && !cache.holds(2));
        cache.invalidate(0);
        assert!(!cache.holds(0));
        assert_eq!(cache.used(), Use { asked: 4, hits: 1 });
    }
}
