//! Lanes of queues on other hosts: what a port knows of one without its memory.

use hanare_protocol::queue::layout::{QueueForm, TAIL_AT};
use hanare_ring::layout::WORD_LEN;
use hanare_ring::{Shared, Words};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The words of a lane: in memory of this host, or as far as they are known here.
#[derive(Clone)]
pub(super) enum LaneWords {
    Here(Shared),
    Remote(Arc<RemoteLane>),
}

/// A lane's head and tail as last heard of, and its bytes where they are read here.
pub(super) struct RemoteLane {
    head_word: usize,
    tail_word: usize,
    bytes_at: usize,
    head: AtomicU64,
    tail: AtomicU64,
    bytes: Mutex<Vec<u8>>,
}

impl RemoteLane {
    /// A lane of the queue that begins at byte `at` of its array. A writer keeps no bytes of it.
    pub fn new(form: &QueueForm, at: u64, lane: u32, has_bytes: bool) -> RemoteLane {
        let bytes = if has_bytes { vec![0; form.lane_len() as usize] } else { Vec::new() };
        RemoteLane {
            head_word: (at + form.head_at(lane)) as usize / WORD_LEN,
            tail_word: (at + form.lane_at(lane) + TAIL_AT) as usize / WORD_LEN,
            bytes_at: (at + form.bytes_at(lane)) as usize,
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            bytes: Mutex::new(bytes),
        }
    }

    pub fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    pub fn tail(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    pub fn set_head(&self, head: u64) {
        self.head.store(head, Ordering::Release);
    }

    /// Takes note of a head that may have been told late: it never goes back.
    pub fn advance_head(&self, head: u64) {
        if head.wrapping_sub(self.head()) < 1 << 63 {
            self.set_head(head);
        }
    }

    pub fn set_tail(&self, tail: u64) {
        self.tail.store(tail, Ordering::Release);
    }

    /// Takes in bytes that were fetched, from byte `at` of the lane on.
    pub fn fill(&self, at: usize, with: impl FnOnce(&mut [u8])) {
        with(&mut self.bytes.lock().unwrap_or_else(PoisonError::into_inner)[at..]);
    }
}

impl Words for LaneWords {
    fn count(&self) -> usize {
        match self {
            LaneWords::Here(words) => words.count(),
            LaneWords::Remote(_) => usize::MAX,
        }
    }

    #[inline]
    fn load(&self, word: usize) -> u64 {
        match self {
            LaneWords::Here(words) => words.load(word),
            LaneWords::Remote(remote) if word == remote.head_word => remote.head(),
            LaneWords::Remote(remote) if word == remote.tail_word => remote.tail(),
            LaneWords::Remote(_) => {
                let mut bytes = [0; WORD_LEN];
                self.read(word * WORD_LEN, &mut bytes);
                u64::from_le_bytes(bytes)
            }
        }
    }

    #[inline]
    fn store(&self, word: usize, value: u64) {
        match self {
            LaneWords::Here(words) => words.store(word, value),
            LaneWords::Remote(remote) if word == remote.head_word => remote.set_head(value),
            LaneWords::Remote(remote) if word == remote.tail_word => remote.set_tail(value),
            // A writer elsewhere sends the units themselves.
            LaneWords::Remote(_) => {}
        }
    }

    fn swap(&self, word: usize, value: u64) -> u64 {
        let old = self.load(word);
        self.store(word, value);
        old
    }

    fn fence(&self) {
        if let LaneWords::Here(words) = self {
            words.fence();
        }
    }

    #[inline]
    fn will_write(&self, at: usize) {
        if let LaneWords::Here(words) = self {
            words.will_write(at);
        }
    }

    #[inline]
    fn read(&self, at: usize, into: &mut [u8]) {
        match self {
            LaneWords::Here(words) => words.read(at, into),
            LaneWords::Remote(remote) => {
                let bytes = remote.bytes.lock().unwrap_or_else(PoisonError::into_inner);
                // A lane without bytes is a writer's, which reads nothing. What stands before them only the lane's own host knows.
                let from = at.checked_sub(remote.bytes_at).and_then(|at| bytes.get(at..)?.get(..into.len()));
                if let Some(from) = from {
                    into.copy_from_slice(from);
                }
            }
        }
    }

    #[inline]
    fn write(&self, at: usize, from: &[u8]) {
        if let LaneWords::Here(words) = self {
            words.write(at, from);
        }
    }
}
