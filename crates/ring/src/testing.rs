//! Memory of one thread, in which a side can be stopped before any of its stores. For tests and the simulator.

use crate::layout::WORD_LEN;
use crate::words::{Exchange, Words};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Memory of one thread, in which the side that uses it can be stopped before any of its stores.
#[derive(Clone, Debug)]
pub struct Steps {
    bytes: Rc<RefCell<Vec<u8>>>,
    /// Stores that still work; those after them are lost, as those of a killed process are.
    left: Rc<Cell<usize>>,
}

impl Steps {
    /// Memory of zeros.
    pub fn new(len: usize) -> Steps {
        Steps { bytes: Rc::new(RefCell::new(vec![0; len])), left: Rc::new(Cell::new(usize::MAX)) }
    }

    /// True if stores are lost.
    #[cfg(test)]
    pub fn has_stopped(&self) -> bool {
        self.left.get() == 0
    }

    /// Loses all stores but the next `count`.
    pub fn stop_after(&self, count: usize) {
        self.left.set(count);
    }

    /// The same memory as another process sees it, which is not stopped.
    pub fn other_process(&self) -> Steps {
        Steps { bytes: Rc::clone(&self.bytes), left: Rc::new(Cell::new(usize::MAX)) }
    }

    fn may_store(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }
}

impl Words for Steps {
    fn count(&self) -> usize {
        self.bytes.borrow().len() / WORD_LEN
    }

    fn load(&self, word: usize) -> u64 {
        u64::from_le_bytes(self.bytes.borrow()[word * WORD_LEN..][..WORD_LEN].try_into().unwrap())
    }

    fn store(&self, word: usize, value: u64) {
        if self.may_store() {
            self.bytes.borrow_mut()[word * WORD_LEN..][..WORD_LEN].copy_from_slice(&value.to_le_bytes());
        }
    }

    fn swap(&self, word: usize, value: u64) -> u64 {
        let old = self.load(word);
        self.store(word, value);
        old
    }

    fn fence(&self) {}

    fn read(&self, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.bytes.borrow()[at..at + into.len()]);
    }

    /// Byte by byte, so that a side can be stopped within a record.
    fn write(&self, at: usize, from: &[u8]) {
        for (k, byte) in from.iter().enumerate() {
            if self.may_store() {
                self.bytes.borrow_mut()[at + k] = *byte;
            }
        }
    }
}

impl Exchange for Steps {
    /// A lost exchange returns success: its process is dead and will not know.
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<u64, u64> {
        let now = self.load(word);
        if now != old {
            return Err(now);
        }
        self.store(word, new);
        Ok(old)
    }
}
