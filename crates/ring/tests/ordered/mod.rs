//! Words for loom.

use hanare_ring::layout::WORD_LEN;
use hanare_ring::{Exchange, Words};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread::ThreadId;
use std::sync::Mutex;

/// Most threads that pass light fences.
const LIGHT_COUNT: usize = 2;

/// Words whose every order of visibility loom tries. Bytes move without any ordering of their own, so a missing
/// acquire or release shows as stale bytes.
///
/// A light fence orders beside heavy ones alone, as in the product: each thread's is an exchange at a word of its own, and a heavy one exchanges
/// all of them.
#[derive(Clone)]
pub struct Ordered {
    words: Arc<Vec<AtomicU64>>,
    light: Arc<[AtomicU64; LIGHT_COUNT]>,
    /// Which of those is whose.
    threads: std::sync::Arc<Mutex<Vec<ThreadId>>>,
    /// Whether light fences are as strong as any: of three threads there would be too many orders otherwise.
    are_full: bool,
}

impl Ordered {
    pub fn new(count: usize) -> Ordered {
        let words = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
        let light = Arc::new([0, 0].map(AtomicU64::new));
        Ordered { words, light, threads: std::sync::Arc::default(), are_full: false }
    }

    /// Words whose light fences are as strong as any.
    pub fn with_full_fences(count: usize) -> Ordered {
        Ordered { are_full: true, ..Ordered::new(count) }
    }

    /// The word of this thread's light fences.
    fn own(&self) -> &AtomicU64 {
        let own = loom::thread::current().id();
        let mut threads = self.threads.lock().unwrap();
        let at = threads.iter().position(|thread| *thread == own).unwrap_or_else(|| {
            threads.push(own);
            threads.len() - 1
        });
        &self.light[at]
    }
}

impl Words for Ordered {
    fn count(&self) -> usize {
        self.words.len()
    }

    fn load(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Acquire)
    }

    fn store(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Release);
    }

    fn swap(&self, word: usize, value: u64) -> u64 {
        self.words[word].swap(value, Ordering::SeqCst)
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn light_fence(&self) {
        if self.are_full {
            self.fence();
        } else {
            self.own().fetch_add(1, Ordering::AcqRel);
        }
    }

    fn heavy_fence(&self) {
        self.fence();
        for word in self.light.iter().filter(|_| !self.are_full) {
            word.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        for (k, bytes) in into.chunks_mut(WORD_LEN).enumerate() {
            let word = self.words[at / WORD_LEN + k].load(Ordering::Relaxed).to_le_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
    }

    fn write(&self, at: usize, from: &[u8]) {
        for (k, bytes) in from.chunks(WORD_LEN).enumerate() {
            let mut word = [0; WORD_LEN];
            word[..bytes.len()].copy_from_slice(bytes);
            self.words[at / WORD_LEN + k].store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }
}

impl Exchange for Ordered {
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<u64, u64> {
        self.words[word].compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }
}
