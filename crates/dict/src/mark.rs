//! Marks of a store: when a key's word was last used, or how often. Each stands behind its word, so that one read brings both.
//!
//! ```text
//! mark    milliseconds since 1970, 48 bits | uses, 16 bits
//! ```
//!
//! Keys of one word share its mark. Marks are hints: two programs that write one at a time lose a use.

use std::str::FromStr;

/// The rule by which a store makes room for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evict {
    /// The longest unused leave first.
    Lru,
    /// The least often used leave first. Uses count half after each minute.
    Lfu,
    /// The first to expire leave first. Keys without an expiry stay.
    Ttl,
}

impl Evict {
    /// Its name, as in [`Evict::from_str`].
    pub fn name(self) -> &'static str {
        match self {
            Evict::Lru => "lru",
            Evict::Lfu => "lfu",
            Evict::Ttl => "ttl",
        }
    }
}

impl FromStr for Evict {
    type Err = hanare::Error;

    fn from_str(name: &str) -> hanare::Result<Evict> {
        [Evict::Lru, Evict::Lfu, Evict::Ttl].into_iter().find(|evict| evict.name() == name).ok_or_else(|| {
            hanare::Error::BadSetting {
                key: "evict".to_owned(),
                value: name.to_owned(),
                reason: "give 'lru', 'lfu' or 'ttl'".to_owned(),
            }
        })
    }
}

/// Uses that count half after so many milliseconds.
const HALF_MS: u64 = 60_000;

/// Uses of a key that was just put. It needs a chance before older keys have more.
const FIRST_USES: u64 = 4;

/// A mark is not written again within this number of milliseconds, where that costs no message, and where it does.
const FRESH_MS: u64 = 1;
const FRESH_AFAR_MS: u64 = 1000;

const USES_MOST: u64 = 0xffff;

/// A word's mark; 0 in a dictionary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(pub u64);

impl Mark {
    fn of(ms: u64, uses: u64) -> Mark {
        Mark(ms << 16 | uses.min(USES_MOST))
    }

    fn ms(self) -> u64 {
        self.0 >> 16
    }

    /// Uses that still count, and the moment from which they are counted on.
    fn uses(self, now: u64) -> (u64, u64) {
        let halves = now.saturating_sub(self.ms()) / HALF_MS;
        ((self.0 & USES_MOST) >> halves.min(16), self.ms() + halves * HALF_MS)
    }

    /// The mark of a word that gets its first key.
    pub fn first(now: u64) -> Mark {
        Mark::of(now, FIRST_USES)
    }

    /// The mark after a put. That of a word with keys keeps their uses.
    pub fn put(self, evict: Evict, now: u64, has_keys: bool) -> Mark {
        if has_keys { self.used(evict, now, true).unwrap_or(self) } else { Mark::first(now) }
    }

    /// The mark after a use; `None` where the change is not worth its cost.
    pub fn used(self, evict: Evict, now: u64, is_here: bool) -> Option<Mark> {
        match evict {
            Evict::Ttl => None,
            Evict::Lru => (now >= self.ms() + if is_here { FRESH_MS } else { FRESH_AFAR_MS }).then(|| Mark::of(now, 0)),
            Evict::Lfu => {
                let (uses, since) = self.uses(now);
                (uses < USES_MOST).then(|| Mark::of(since, uses + 1))
            }
        }
    }

    /// The order of leaving, lowest first.
    pub fn rank(self, evict: Evict, now: u64) -> u64 {
        match evict {
            Evict::Lru | Evict::Ttl => self.ms(),
            Evict::Lfu => self.uses(now).0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_and_the_least_often_used_come_first() {
        let now = 1_700_000_000_000;
        let (old, new) = (Mark::first(now - 5000), Mark::first(now));
        assert!(old.rank(Evict::Lru, now) < new.rank(Evict::Lru, now));
        let again = old.used(Evict::Lru, now + 20, true).unwrap();
        assert!(again.rank(Evict::Lru, now) > new.rank(Evict::Lru, now));
        assert_eq!((again.used(Evict::Lru, now + 20, true), again.used(Evict::Lru, now + 500, false)), (None, None));
        let often = (0..100).fold(old, |mark, _| mark.used(Evict::Lfu, now, true).unwrap());
        assert_eq!((often.rank(Evict::Lfu, now), new.rank(Evict::Lfu, now)), (104, 4));
        assert_eq!((often.put(Evict::Lfu, now, true).rank(Evict::Lfu, now), often.put(Evict::Lfu, now, false)), (105, new));
        assert_eq!(often.rank(Evict::Lfu, now - 5000 + 2 * HALF_MS), 26, "half of a half");
        assert_eq!(often.rank(Evict::Lfu, now + 100 * HALF_MS), 0);
        assert_eq!(Mark(u64::MAX).used(Evict::Lfu, u64::MAX >> 16, true), None);
        for evict in ["lru", "lfu", "ttl"] {
            assert_eq!(evict.parse::<Evict>().unwrap().name(), evict);
        }
        assert!("LRU".parse::<Evict>().is_err());
    }
}
