//! Digests of pages, by which two hosts find out that they have the same bytes without sending them.
//!
//! A digest is a sum of products. For each pair of a page's words, a key word is added to each, and the two are multiplied. Without the key
//! nobody can make two pages with the same digest. Two different pages that were made without the key have the same digest for one key in
//! 2^64. The program that asks draws the key's seed, and sends it to its nodes alone.
//!
//! **Source**: NH of UMAC, with words of 64 bits [Black, Halevi, Krawczyk, Krovetz, Rogaway, CRYPTO 1999, §4]. The proof there takes a key
//! of random bits; here 4 KiB of them follow from 16 bytes.
//!
//! # Costs
//!
//! Reads the page once, at about the speed of a copy; 4 KiB for a key.

use crate::limits::PAGE_LEN;

const PAGE: usize = PAGE_LEN as usize;

/// Bytes of a pair of words.
const PAIR_LEN: usize = 16;

/// A key: two words for each pair of a page's.
pub struct PageKey(Box<[[u64; 2]; PAGE / PAIR_LEN]>);

impl PageKey {
    /// The key of a seed, the same on every host.
    pub fn new(seed: [u8; 16]) -> PageKey {
        let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|k| seed[at + k]));
        let (one, other) = (half(0), half(8));
        let mut key = Box::new([[0; 2]; PAGE / PAIR_LEN]);
        for (number, word) in key.as_flattened_mut().iter_mut().enumerate() {
            *word = mixed(one ^ mixed(other.wrapping_add(STEP.wrapping_mul(number as u64 + 1))));
        }
        PageKey(key)
    }

    /// The digest of a page. Async-signal-safe.
    pub fn digest(&self, page: &[u8; PAGE]) -> u128 {
        let word = |bytes: &[u8; PAIR_LEN], at: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[at + k]));
        let pairs = page.as_chunks::<PAIR_LEN>().0.iter().zip(&*self.0);
        pairs.fold(0, |sum: u128, (bytes, key)| {
            let (one, other) = (word(bytes, 0).wrapping_add(key[0]), word(bytes, 8).wrapping_add(key[1]));
            sum.wrapping_add(u128::from(one) * u128::from(other))
        })
    }
}

/// The step between the states of a splitmix64 generator.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The word that splitmix64 makes of a state.
fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_digest_is_the_sum_that_its_source_says(seed: [u8; 16], fill: u64) {
            let page: [u8; PAGE] = std::array::from_fn(|at| mixed(fill ^ at as u64) as u8);
            let key = PageKey::new(seed);
            let mut sum = 0u128;
            for pair in 0..PAGE / PAIR_LEN {
                let word = |at: usize| u64::from_le_bytes(page[pair * PAIR_LEN + at..][..8].try_into().unwrap());
                let with = |word: u64, key: u64| u128::from(word.wrapping_add(key));
                sum = sum.wrapping_add(with(word(0), key.0[pair][0]) * with(word(8), key.0[pair][1]));
            }
            prop_assert_eq!(key.digest(&page), sum);
        }

        #[test]
        fn pages_that_differ_have_other_digests(seed: [u8; 16], at in 0..PAGE, bit in 0..8, other in 0..PAGE) {
            let key = PageKey::new(seed);
            let page: [u8; PAGE] = std::array::from_fn(|at| mixed(at as u64) as u8);
            let (mut flipped, mut swapped) = (page, page);
            flipped[at] ^= 1u8 << bit;
            swapped.swap(at, other);
            prop_assert_eq!(key.digest(&page), PageKey::new(seed).digest(&page.clone()));
            prop_assert_ne!(key.digest(&page), key.digest(&flipped));
            prop_assert_eq!(key.digest(&page) == key.digest(&swapped), page == swapped);
            let mut next = seed;
            next[at % 16] ^= 1u8 << bit;
            prop_assert_ne!(key.digest(&page), PageKey::new(next).digest(&page));
        }
    }

    #[test]
    fn the_order_of_words_counts_and_so_do_zeros() {
        let key = PageKey::new([7; 16]);
        let with = |places: &[usize]| {
            let mut page = [0; PAGE];
            places.iter().for_each(|at| page[*at] = 1);
            key.digest(&page)
        };
        let digests = [with(&[]), with(&[0]), with(&[8]), with(&[16]), with(&[4088]), with(&[0, 16]), with(&[0, 8])];
        assert!(digests.iter().enumerate().all(|(at, digest)| !digests[..at].contains(digest)));
    }
}
