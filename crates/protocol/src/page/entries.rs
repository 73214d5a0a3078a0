//! The home's record of pages: 16 bytes each, and nothing where no page near is used.

use super::hosts::{HostId, Hosts};
use super::message::{Page, Version};
use std::collections::{BTreeMap, BTreeSet};

/// Holders of a page while nothing is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    /// The bytes at home are good; the sharers may have copies of them.
    Free { sharers: Hosts },
    /// Only the owner's bytes are good. For the home's own host they are the bytes at home.
    Owned { owner: HostId },
    /// The newest bytes went with the host that owned them.
    Lost,
}

/// A page's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub version: Version,
    pub holding: Holding,
}

const IS_OWNED: u64 = 1;
const IS_LOST: u64 = 2;
const IS_WIDE: u64 = 4;
const OWNER_SHIFT: u32 = 16;
const VERSION_SHIFT: u32 = 32;

/// Pages whose words lie together: 8 KiB of them.
const CHUNK_PAGES: u64 = 512;

/// All pages of an extent.
///
/// A page is two words, all zero until it is used:
///
/// ```text
/// word 0    flags (16 bits) | owner (16) | versions since the first (32)
/// word 1    bitmap of the sharers below 64
/// ```
///
/// - Chunks of pages that nobody has used are not there: a claimed length of a region takes no memory.
/// - Sharers from 64 on are in a map beside, for the pages that have some (`IS_WIDE`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entries {
    count: u64,
    chunks: BTreeMap<u64, Box<[u64]>>,
    wide: BTreeMap<u64, BTreeSet<u16>>,
}

impl Entries {
    pub fn new(count: u64) -> Entries {
        Entries { count, chunks: BTreeMap::new(), wide: BTreeMap::new() }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The words of a page below `count`.
    fn words(&self, page: Page) -> [u64; 2] {
        debug_assert!(page.0 < self.count);
        self.chunks.get(&(page.0 / CHUNK_PAGES)).map_or([0; 2], |chunk| [chunk[at(page)], chunk[at(page) + 1]])
    }

    fn put(&mut self, page: Page, words: [u64; 2]) {
        debug_assert!(page.0 < self.count);
        let chunk = page.0 / CHUNK_PAGES;
        if words == [0; 2] && !self.chunks.contains_key(&chunk) {
            return;
        }
        let len = (self.count - chunk * CHUNK_PAGES).min(CHUNK_PAGES) as usize * 2;
        let chunk = self.chunks.entry(chunk).or_insert_with(|| vec![0; len].into());
        chunk[at(page)..][..2].copy_from_slice(&words);
    }

    pub fn get(&self, page: Page) -> Entry {
        let [first, low] = self.words(page);
        let version = Version(((first >> VERSION_SHIFT) as u32).wrapping_add(Version::FIRST.0));
        let high = || match first & IS_WIDE {
            0 => BTreeSet::new(),
            _ => self.wide.get(&page.0).cloned().unwrap_or_default(),
        };
        let holding = match first & (IS_OWNED | IS_LOST) {
            0 => Holding::Free { sharers: Hosts::from_parts(low, high()) },
            IS_OWNED => Holding::Owned { owner: HostId((first >> OWNER_SHIFT) as u16) },
            _ => Holding::Lost,
        };
        Entry { version, holding }
    }

    pub fn set(&mut self, page: Page, entry: Entry) {
        let version = u64::from(entry.version.0.wrapping_sub(Version::FIRST.0)) << VERSION_SHIFT;
        let (first, low) = match entry.holding {
            Holding::Owned { owner } => (IS_OWNED | u64::from(owner.0) << OWNER_SHIFT, 0),
            Holding::Lost => (IS_LOST, 0),
            Holding::Free { sharers } if sharers.high().is_empty() => (0, sharers.low()),
            Holding::Free { sharers } => {
                let low = sharers.low();
                self.wide.insert(page.0, sharers.into_high());
                return self.put(page, [version | IS_WIDE, low]);
            }
        };
        if self.words(page)[0] & IS_WIDE != 0 {
            self.wide.remove(&page.0);
        }
        self.put(page, [version | first, low]);
    }

    /// Pages that were used.
    ///
    /// **Cost**: a look at 16 bytes of each page whose neighbours were used.
    pub fn used(&self) -> impl Iterator<Item = Page> {
        let is_used = |(index, words): (usize, &[u64])| words.iter().any(|word| *word != 0).then_some(index as u64);
        self.chunks.iter().flat_map(move |(chunk, words)| {
            let first = *chunk * CHUNK_PAGES;
            words.chunks(2).enumerate().filter_map(is_used).map(move |index| Page(first + index))
        })
    }

    /// Pages that `host` owns or shares.
    ///
    /// **Cost**: as of [`Entries::used`]; once for each death of a host.
    pub fn with(&self, host: HostId) -> Vec<Page> {
        let is_there = |page: &Page| match self.get(*page).holding {
            Holding::Free { sharers } => sharers.has(host),
            Holding::Owned { owner } => owner == host,
            Holding::Lost => false,
        };
        self.used().filter(is_there).collect()
    }
}

/// Index of a page's words in its chunk.
fn at(page: Page) -> usize {
    (page.0 % CHUNK_PAGES) as usize * 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PAGE_LEN;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = Entry> {
        let sharers = prop::collection::vec(prop_oneof![0..64u16, 0..1024u16], 0..6).prop_map(|hosts| {
            hosts.into_iter().fold(Hosts::NONE, |mut set, host| {
                set.insert(HostId(host));
                set
            })
        });
        let holding = prop_oneof![
            sharers.prop_map(|sharers| Holding::Free { sharers }),
            any::<u16>().prop_map(|owner| Holding::Owned { owner: HostId(owner) }),
            Just(Holding::Lost),
        ];
        (any::<u32>(), holding).prop_map(|(version, holding)| Entry { version: Version(version), holding })
    }

    proptest! {
        #[test]
        fn what_is_set_is_got_and_other_pages_stay(steps in prop::collection::vec((0..4u64, entry()), 1..40)) {
            let mut entries = Entries::new(4);
            let fresh = Entry { version: Version::FIRST, holding: Holding::Free { sharers: Hosts::NONE } };
            let mut model = vec![fresh; 4];
            for (page, entry) in steps {
                entries.set(Page(page), entry.clone());
                model[page as usize] = entry;
                for (page, wanted) in model.iter().enumerate() {
                    prop_assert_eq!(&entries.get(Page(page as u64)), wanted);
                }
            }
            let wide = |entry: &&Entry| matches!(&entry.holding, Holding::Free { sharers } if !sharers.high().is_empty());
            prop_assert_eq!(entries.wide.len(), model.iter().filter(wide).count(), "no set outlives its page's use of it");
        }
    }

    #[test]
    fn pages_take_16_bytes_each_once_their_neighbours_are_used() {
        let mut entries = Entries::new(u64::MAX / PAGE_LEN);
        assert_eq!(entries.with(HostId(7)), []);
        let entry = Entry { version: Version::FIRST.next(), holding: Holding::Owned { owner: HostId(7) } };
        for page in [Page(u64::MAX / PAGE_LEN - 1), Page(0), Page(1)] {
            entries.set(page, entry.clone());
        }
        let words: usize = entries.chunks.values().map(|chunk| chunk.len()).sum();
        assert!(words as u64 <= 2 * 2 * CHUNK_PAGES, "{words}");
        assert_eq!(entries.with(HostId(7)), [Page(0), Page(1), Page(u64::MAX / PAGE_LEN - 1)]);
    }
}
