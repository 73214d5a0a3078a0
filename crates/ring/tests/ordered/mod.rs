//! Words for loom.

use hanare_ring::layout::WORD_LEN;
use hanare_ring::{Exchange, Words};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Words whose every order of visibility loom tries. Bytes move without any ordering of their own, so a missing
/// acquire or release shows as stale bytes.
#[derive(Clone)]
pub struct Ordered(Arc<Vec<AtomicU64>>);

impl Ordered {
    pub fn new(count: usize) -> Ordered {
        Ordered(Arc::new((0..count).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl Words for Ordered {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn load(&self, word: usize) -> u64 {
        self.0[word].load(Ordering::Acquire)
    }

    fn store(&self, word: usize, value: u64) {
        self.0[word].store(value, Ordering::Release);
    }

    fn swap(&self, word: usize, value: u64) -> u64 {
        self.0[word].swap(value, Ordering::SeqCst)
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        for (k, bytes) in into.chunks_mut(WORD_LEN).enumerate() {
            let word = self.0[at / WORD_LEN + k].load(Ordering::Relaxed).to_le_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
    }

    fn write(&self, at: usize, from: &[u8]) {
        for (k, bytes) in from.chunks(WORD_LEN).enumerate() {
            let mut word = [0; WORD_LEN];
            word[..bytes.len()].copy_from_slice(bytes);
            self.0[at / WORD_LEN + k].store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }
}

impl Exchange for Ordered {
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<u64, u64> {
        self.0[word].compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }
}
