//! Digests of pages' clean bytes, to be compared with those of their homes, and counts of vain comparisons.
//!
//! ```text
//! bits 0..2     updates in a row that found it changed, at most 2
//! bit  2        the digest is that of the page's clean bytes: its frame's, or its twin's where it is dirty
//! bits 3..128   the digest, or an earlier one
//! bits 128..192 how often its clean bytes changed, came or were given up
//! ```
//!
//! A page that two updates in a row found changed is given up without a question. When it comes again its digest is compared with the one
//! before: where the page had not changed after all, the next update asks.
//!
//! A word belongs to the thread that holds its page; it is atomic so that no rule of this file is one of memory. Two different pages pass
//! for the same one with a probability of 2^-61: see `hanare_protocol::digest`.
//!
//! Safety invariant of this module: the mapping holds three words for each page for as long as it lives, reached by atomics only.

use hanare_memory::Mapping;
use hanare_memory::diff::PageBytes;
use hanare_protocol::Result;
use hanare_protocol::digest::PageKey;
use hanare_protocol::wire::command::DIGEST_SEED_LEN;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Updates in a row that find a page changed, after which none asks.
const CHANGED_COUNT: u64 = 2;

const COUNT_MASK: u64 = 0x3;
const IS_CURRENT: u64 = 1 << 2;
const DIGEST_MASK: u64 = !0x7;

/// A digest, without the bits that a page's word has for other things.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownDigest([u64; 2]);

impl KnownDigest {
    pub fn of(digest: u128) -> KnownDigest {
        KnownDigest([digest as u64 & DIGEST_MASK, (digest >> 64) as u64])
    }
}

/// Digests of a mapping's pages: 24 bytes each, as far as pages were looked at.
pub(super) struct Digests {
    mapping: Mapping,
    page_count: u64,
    key: PageKey,
    seed: [u8; DIGEST_SEED_LEN as usize],
}

impl Digests {
    /// No digests, and a key that nobody guesses.
    pub fn new(page_count: u64) -> Result<Digests> {
        let mut mapping = Mapping::reserve(page_count.saturating_mul(size_of::<[AtomicU64; 3]>() as u64))?;
        mapping.map_sparse(0, mapping.len() as u64)?;
        let seed = hanare_memory::random::bytes()?;
        Ok(Digests { mapping, page_count, key: PageKey::new(seed), seed })
    }

    /// Seed of the key.
    pub fn seed(&self) -> &[u8; DIGEST_SEED_LEN as usize] {
        &self.seed
    }

    fn words(&self, page: u64) -> &[AtomicU64; 3] {
        assert!(page < self.page_count, "page {page} of {}", self.page_count);
        // SAFETY: it lies within the mapping, aligned (a mapping begins on a page), and atomics alone reach it.
        unsafe { &*self.mapping.ptr().cast::<[AtomicU64; 3]>().add(page as usize) }
    }

    fn digest(&self, page: u64) -> KnownDigest {
        let [low, high, _] = self.words(page);
        KnownDigest([low.load(Relaxed) & DIGEST_MASK, high.load(Relaxed)])
    }

    fn set(&self, page: u64, KnownDigest(digest): KnownDigest, flags: u64) {
        let [low, high, _] = self.words(page);
        low.store(digest[0] | flags, Relaxed);
        high.store(digest[1], Relaxed);
    }

    fn flags(&self, page: u64) -> u64 {
        self.words(page)[0].load(Relaxed) & !DIGEST_MASK
    }

    /// True if the digest of the page's clean bytes is known. Held: the page, as for all that follow.
    pub fn is_known(&self, page: u64) -> bool {
        self.flags(page) & IS_CURRENT != 0
    }

    /// True if the page changes all the time, so that it is not worth a question.
    pub fn is_changing(&self, page: u64) -> bool {
        self.flags(page) & COUNT_MASK >= CHANGED_COUNT
    }

    /// Notes the digest of the page's clean bytes.
    pub fn learn(&self, page: u64, bytes: &PageBytes) {
        self.set(page, KnownDigest::of(self.key.digest(bytes)), self.flags(page) | IS_CURRENT);
    }

    /// Count of changes of the page's clean bytes: changed, come or given up. Bytes of a reply that was asked for at another count may be
    /// older than those that are here, or were.
    pub fn turn(&self, page: u64) -> u64 {
        self.words(page)[2].load(Relaxed)
    }

    /// The page's clean bytes change, come or are given up. Async-signal-safe, as all that follow.
    pub fn take_turn(&self, page: u64) {
        let turn = &self.words(page)[2];
        turn.store(turn.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// The digest that is known.
    pub fn known(&self, page: u64) -> Option<u128> {
        let KnownDigest([low, high]) = self.digest(page);
        self.is_known(page).then_some(u128::from(high) << 64 | u128::from(low))
    }

    /// The page's clean bytes came from its home. Async-signal-safe.
    ///
    /// **Cost**: a digest for a page that was given up without a question, else none.
    pub fn come(&self, page: u64, bytes: &PageBytes) {
        self.take_turn(page);
        if self.is_changing(page) {
            let digest = KnownDigest::of(self.key.digest(bytes));
            let count = if digest == self.digest(page) { 0 } else { CHANGED_COUNT };
            self.set(page, digest, count | IS_CURRENT);
        } else if self.is_known(page) {
            self.set(page, self.digest(page), self.flags(page) & !IS_CURRENT);
        }
    }

    /// Marks a change of the page's clean bytes by this program: its stores went home, or those of a release came. Async-signal-safe.
    pub fn change(&self, page: u64) {
        self.take_turn(page);
        if self.flags(page) != 0 {
            self.set(page, self.digest(page), 0);
        }
    }

    /// True if the page's clean bytes are those that its home has; `false` where they are not known any more.
    pub fn is_as_at_home(&self, page: u64, at_home: KnownDigest) -> bool {
        let is_same = self.is_known(page) && self.digest(page) == at_home;
        let count = if is_same { 0 } else { (self.flags(page) & COUNT_MASK).saturating_add(1).min(CHANGED_COUNT) };
        self.set(page, self.digest(page), self.flags(page) & IS_CURRENT | count);
        is_same
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_memory::diff::PAGE;

    fn at_home(digests: &Digests, bytes: &PageBytes) -> KnownDigest {
        KnownDigest::of(PageKey::new(*digests.seed()).digest(bytes))
    }

    #[test]
    fn a_digest_is_known_until_the_clean_bytes_change() {
        let digests = Digests::new(3).unwrap();
        let (one, two) = ([1; PAGE], [2; PAGE]);
        assert!(!digests.is_known(1) && !digests.is_as_at_home(1, at_home(&digests, &one)));
        digests.learn(1, &one);
        assert!(digests.is_as_at_home(1, at_home(&digests, &one)) && !digests.is_as_at_home(1, at_home(&digests, &two)));
        assert!(!digests.is_known(0) && !digests.is_known(2));
        digests.come(1, &one);
        assert!(!digests.is_known(1), "it may be another page now");
        digests.learn(1, &two);
        digests.change(1);
        assert!(!digests.is_known(1) && !digests.is_as_at_home(1, at_home(&digests, &two)));
    }

    #[test]
    fn a_page_that_changes_all_the_time_is_not_asked_for_until_it_stays() {
        let digests = Digests::new(1).unwrap();
        let page = |byte| [byte; PAGE];
        for byte in 0..2 {
            assert!(!digests.is_changing(0));
            digests.learn(0, &page(byte));
            assert!(!digests.is_as_at_home(0, at_home(&digests, &page(byte + 1))));
            digests.come(0, &page(byte + 1));
        }
        assert!(digests.is_changing(0) && digests.is_known(0));
        digests.come(0, &page(3));
        assert!(digests.is_changing(0), "it was another one again");
        digests.come(0, &page(3));
        assert!(!digests.is_changing(0) && digests.is_known(0), "it was given up in vain");
        assert!(digests.is_as_at_home(0, at_home(&digests, &page(3))));
        // Between two changes it stayed.
        for byte in 4..9 {
            assert!(!digests.is_as_at_home(0, at_home(&digests, &page(byte))));
            digests.learn(0, &page(byte));
            assert!(digests.is_as_at_home(0, at_home(&digests, &page(byte))) && !digests.is_changing(0));
        }
    }

    #[test]
    fn whatever_happens_to_a_page_takes_a_turn_and_a_question_takes_none() {
        let digests = Digests::new(2).unwrap();
        let turns = |act: &dyn Fn()| {
            let before = digests.turn(1);
            act();
            digests.turn(1) - before
        };
        assert_eq!(turns(&|| digests.come(1, &[1; PAGE])), 1);
        assert_eq!(turns(&|| digests.change(1)), 1);
        assert_eq!(turns(&|| digests.learn(1, &[1; PAGE])), 0);
        assert_eq!(turns(&|| assert!(!digests.is_as_at_home(1, at_home(&digests, &[2; PAGE])))), 0);
        assert_eq!(turns(&|| digests.come(0, &[1; PAGE])), 0);
        assert!(digests.known(1).map(KnownDigest::of) == Some(at_home(&digests, &[1; PAGE])));
    }

    #[test]
    fn what_this_program_changes_is_asked_for() {
        let digests = Digests::new(1).unwrap();
        for _ in 0..2 {
            digests.learn(0, &[0; PAGE]);
            digests.is_as_at_home(0, at_home(&digests, &[1; PAGE]));
        }
        assert!(digests.is_changing(0));
        digests.change(0);
        assert!(!digests.is_changing(0) && !digests.is_known(0));
    }
}
