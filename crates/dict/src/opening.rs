//! A dictionary's regions: how they are made and opened.

use super::blocks::{Heaps, Writers};
use super::root::{ATTRIBUTE, PART, Root, StoreTerms, Terms};
use super::table::{Table, word_len};
use hanare::{Attributes, CreateOptions, Error, Placement, Pool, Region, Result};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of the root region.
const ROOT_LEN: u64 = 64;

/// Options of making and using a dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Placement of its bytes. Used where it is made.
    pub placement: Placement,
    /// Nodes that hold each of its bytes, 1 to 3. From 2 on it outlives a node, and programs of its host read it by messages, too. Used where it
    /// is made.
    pub copies: u8,
    /// Words of the first table; it grows with the keys. Used where it is made.
    pub buckets: u64,
    /// Bytes of its first heap, 4096 at least; each further one is twice as long. Used where it is made.
    pub memory: u64,
    /// Rights, as a file's mode bits. Used where it is made; later parts get the root's mode.
    pub mode: u32,
    /// Attributes of its root region, beside its own. Used where it is made.
    pub attributes: Attributes,
    /// Tries of a call where others change the same bucket all the time. 5,000 take some seconds.
    pub tries: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            placement: Placement::Local,
            copies: 1,
            buckets: 1 << 14,
            memory: 16 << 20,
            mode: 0o600,
            attributes: Attributes::default(),
            tries: 5000,
        }
    }
}

/// Terms by which the regions of a dictionary are opened and made.
pub struct Opening<'d> {
    pub pool: &'d Pool,
    pub name: &'d str,
    pub root_region: &'d Region,
    pub terms: &'d Terms,
}

/// Opens or makes the root region of a dictionary or a store. Returns its terms, too.
pub fn root_of(pool: &Pool, name: &str, options: &Options, store: Option<StoreTerms>) -> Result<(Region, Terms)> {
    let Options { placement, copies, buckets, memory, mode, ref attributes, .. } = *options;
    if buckets == 0 || memory < 4096 {
        let (key, value) = ("dictionary".to_owned(), format!("{buckets} buckets, {memory} bytes"));
        return Err(Error::BadSetting { key, value, reason: "it has at least one bucket, and 4096 bytes of memory".to_owned() });
    }
    let terms = Terms { buckets, memory, seed: chance(), placement, store };
    let mut attributes = attributes.clone();
    attributes.set(ATTRIBUTE, terms.write());
    let made = pool.create(name, ROOT_LEN, &CreateOptions { placement, copies, mode, attributes, ..CreateOptions::default() });
    let region = match made {
        Err(Error::NameTaken { .. }) => return made_root_of(pool, name, store.is_some()),
        other => other?,
    };
    Ok((region, terms))
}

/// Opens the root region of a dictionary or a store that was made. Returns its terms, too.
pub fn made_root_of(pool: &Pool, name: &str, is_store: bool) -> Result<(Region, Terms)> {
    let region = pool.open_trusted(name)?;
    let terms = Terms::read(name, region.attributes().get(ATTRIBUTE))?;
    if terms.store.is_some() != is_store {
        let reason = if is_store { "it is a dictionary: open it as one" } else { "it is a store: open it as one" };
        return Err(Error::BadUse { region: name.to_owned(), reason: reason.to_owned() });
    }
    Ok((region, terms))
}

impl Opening<'_> {
    /// Options of its parts.
    pub fn options(&self) -> CreateOptions {
        let attributes = [(PART, self.part().into_bytes())].into_iter().collect();
        let (copies, mode) = (self.root_region.copies(), self.root_region.mode());
        CreateOptions { placement: self.terms.placement, copies, mode, attributes, ..CreateOptions::default() }
    }

    /// The attribute of the dictionary's parts, which names its root.
    pub fn part(&self) -> String {
        self.root_region.gid().0.to_string()
    }

    pub fn buckets(&self, root: Root, memory: u64) -> Heaps {
        let fixed = self.terms.store.map(|store| store.heaps);
        Heaps::new(self.pool, format!("{}.t{}", self.name, root.table), memory, fixed, self.options())
    }

    pub fn values(&self, root: Root, memory: u64) -> Heaps {
        Heaps::new(self.pool, format!("{}.v{}", self.name, root.values), memory, None, self.options())
    }

    pub fn writers(&self) -> Writers {
        Writers::of(self.pool, self.root_region)
    }

    pub fn root(&self) -> Result<Root> {
        let mut word = [0; 8];
        self.root_region.get(0, &mut word)?;
        Ok(Root::of_word(u64::from_le_bytes(word)))
    }

    /// The table that is the dictionary's now.
    pub fn first_table(&self, tries: u32) -> Result<Table> {
        for turn in 1..tries {
            let root = self.root()?;
            match self.table(root) {
                // The region was removed meanwhile, because another is the dictionary's.
                Err(Error::UnknownRegion { .. }) if !self.root()?.is_same(root) => pause(turn),
                other => return other,
            }
        }
        self.table(self.root()?)
    }

    /// The table of that root. **Errors**: [`Error::UnknownRegion`] where another is the dictionary's by now.
    pub fn table(&self, root: Root) -> Result<Table> {
        let name = format!("{}.t{}", self.name, root.table);
        let words = match root.table {
            0 => self.zeroth_words(&name)?,
            _ => self.pool.open_trusted(&name)?,
        };
        let buckets = Arc::new(self.buckets(root, self.terms.memory));
        let (values, evict) = match self.terms.store {
            None => (Arc::new(self.values(root, self.terms.memory)), None),
            Some(store) => {
                if root.table == 0 {
                    buckets.make_all()?
                } else {
                    buckets.open_all()?
                }
                (buckets.clone(), Some(store.evict))
            }
        };
        Table::new(self.pool, root, words, (self.terms.seed, evict), (buckets, values), self.writers())
    }

    /// The words of the first table. The first program that comes makes them.
    fn zeroth_words(&self, name: &str) -> Result<Region> {
        let len = word_len(self.terms.store.map(|store| store.evict)) * self.terms.buckets;
        let words = self.options().make_where_nodes_live(|options| self.pool.create_or_attach(name, len, options))?;
        // A table is removed after the root names the next. So this finds a table that a program made again because it read the root
        // before.
        if self.root()?.table == 0 {
            return Ok(words);
        }
        if words.created() {
            // Others may have removed it.
            let _ = self.pool.remove(name);
        }
        Err(Error::UnknownRegion { name: name.to_owned() })
    }
}

/// A number that other programs cannot know.
pub fn chance() -> u64 {
    RandomState::new().hash_one(Instant::now())
}

/// Lets others go first, longer each time, by chance.
pub fn pause(turn: u32) {
    let most = 10_000 << turn.min(8);
    std::thread::sleep(Duration::from_nanos(chance() % 2_000_000.min(most)));
}
