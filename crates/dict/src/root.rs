//! Content of a dictionary's root region: its word, and its attribute.

use super::mark::Evict;
use hanare::{Error, Placement, Result};

/// The attribute of a region that is the root of a dictionary.
pub const ATTRIBUTE: &str = "hanare.dict";
/// The attribute of a part, which names its root region.
pub const PART: &str = "hanare.dict.part";

/// Most heaps of a store. One user has 32 of the longest at a node.
pub const HEAPS_MOST: u32 = 16;

/// Numbers of the dictionary's table and values, and of the last that was begun: 20 bits, 20 and 24.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    pub table: u64,
    pub values: u64,
    pub begun: u64,
}

impl Root {
    pub fn of_word(word: u64) -> Root {
        Root { table: word >> 44, values: word >> 24 & 0xf_ffff, begun: word & 0xff_ffff }
    }

    pub fn word(self) -> u64 {
        self.table << 44 | self.values << 24 | self.begun
    }

    /// True if both name the same table and values.
    pub fn is_same(self, other: Root) -> bool {
        (self.table, self.values) == (other.table, other.values)
    }
}

/// Terms of a store: its memory is taken at once, and never more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreTerms {
    pub evict: Evict,
    /// Number of heaps. Each has the length of the first.
    pub heaps: u32,
}

/// Terms of a dictionary or a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Words of the first table.
    pub buckets: u64,
    /// Bytes of the first heap.
    pub memory: u64,
    /// Seed of the keys' hash.
    pub seed: u64,
    pub placement: Placement,
    /// `None` for a dictionary.
    pub store: Option<StoreTerms>,
}

impl Terms {
    pub fn write(&self) -> Vec<u8> {
        let Terms { buckets, memory, seed, placement, store } = self;
        let store = store.map(|store| format!("store={},heaps={},", store.evict.name(), store.heaps)).unwrap_or_default();
        format!("{store}buckets={buckets},memory={memory},seed={seed},place={placement}").into_bytes()
    }

    /// Reads a root's attribute. **Errors**: [`Error::BadUse`] where the region is no dictionary; [`Error::BadPlacement`].
    pub fn read(name: &str, written: Option<&[u8]>) -> Result<Terms> {
        let odd = |reason: &str| Error::BadUse { region: name.to_owned(), reason: reason.to_owned() };
        let text = written.and_then(|written| std::str::from_utf8(written).ok()).ok_or_else(|| odd("it is no dictionary"))?;
        let is_store = text.starts_with("store=");
        let terms = if is_store { 6 } else { 4 };
        let told = |term: &str| text.splitn(terms, ',').find_map(|part| part.strip_prefix(term)?.strip_prefix('='));
        let number = |term: &str, is_good: fn(u64) -> bool| {
            let digits = told(term).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
            let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| is_good(*number));
            number.ok_or_else(|| odd("it says of itself what no dictionary is"))
        };
        let buckets = number("buckets", |buckets| (1..1 << 48).contains(&buckets))?;
        let memory = number("memory", |memory| (4096..1 << 63).contains(&memory))?;
        let seed = number("seed", |_| true)?;
        let place = told("place").ok_or_else(|| odd("it says of itself what no dictionary is"))?;
        let store = match told("store") {
            Some(evict) if is_store => {
                let heaps = number("heaps", |heaps| (1..=HEAPS_MOST.into()).contains(&heaps))?;
                Some(StoreTerms { evict: evict.parse()?, heaps: heaps as u32 })
            }
            _ => None,
        };
        Ok(Terms { buckets, memory, seed, placement: place.parse()?, store })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_says_what_it_was_made_of_and_nothing_else_is_one() {
        let placement = "nodes=1,2:64K".parse().unwrap();
        for store in [None, Some(StoreTerms { evict: Evict::Lfu, heaps: HEAPS_MOST })] {
            let terms = Terms { buckets: 7, memory: 4096, seed: u64::MAX, placement, store };
            assert_eq!(Terms::read("a", Some(&terms.write())), Ok(terms));
        }
        for odd in [
            "",
            "buckets=1",
            "buckets=1,memory=4096,seed=1",
            "buckets=0,memory=4096,seed=1,place=local",
            "buckets=+1,memory=4096,seed=1,place=local",
            "buckets=1,memory=4095,seed=1,place=local",
            "buckets=1,memory=99999999999999999999999,seed=1,place=local",
            "buckets=1,memory=4096,seed=-1,place=local",
            "store=lru,buckets=1,memory=4096,seed=1,place=local",
            "store=lru,heaps=0,buckets=1,memory=4096,seed=1,place=local",
            "store=lru,heaps=17,buckets=1,memory=4096,seed=1,place=local",
        ] {
            assert!(matches!(Terms::read("a", Some(odd.as_bytes())), Err(Error::BadUse { .. })), "{odd}");
        }
        let elsewhere = Terms::read("a", Some(b"buckets=1,memory=4096,seed=1,place=moon"));
        assert!(matches!(elsewhere, Err(Error::BadPlacement { .. })));
        let root = Root { table: 3, values: 0xf_ffff, begun: 5 };
        assert_eq!(Root::of_word(root.word()), root);
    }
}
