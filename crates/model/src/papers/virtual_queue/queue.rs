//! A queue's blocks at its reader's node: shown, in the ring buffer, and saved elsewhere after an overflow.
use std::collections::VecDeque;

use crate::time::Picos;

/// A block in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// What the sender numbered it.
    pub seq: u64,
    /// When it can be read from where it is.
    pub ready: Picos,
    /// It went past main memory and exists in the read buffer only.
    pub(super) is_bypassed: bool,
}

/// A queue's blocks at its reader's node.
#[derive(Default)]
pub struct Queue {
    /// In the read buffer: head and second.
    pub(super) shown: VecDeque<Held>,
    /// In the ring buffer, in main memory.
    pub(super) ring: VecDeque<Held>,
    /// Saved elsewhere after an overflow, to come back when the read pointer reaches the trigger.
    pub(super) spilled: VecDeque<Held>,
    /// Blocks to read before the interrupt that restores the spilled ones.
    pub(super) trigger: Option<usize>,
}

impl Queue {
    /// An empty queue.
    pub const fn new() -> Queue {
        Queue { shown: VecDeque::new(), ring: VecDeque::new(), spilled: VecDeque::new(), trigger: None }
    }

    /// Blocks that take room of the ring buffer: those shown are copies of its first ones.
    pub fn len(&self) -> usize {
        self.shown.len() + self.ring.len()
    }

    /// How many blocks stay when later ones are saved: where some came after the saved ones, all before those, else half;
    /// at least one, or no read pointer would reach the trigger.
    pub(super) fn kept_by_spill(&self) -> usize {
        match self.trigger {
            Some(left) if self.len() > left => left,
            _ => (self.len() / 2).max(1),
        }
    }

    /// Whether saving later blocks would make room.
    pub fn may_spill(&self) -> bool {
        self.len() > self.kept_by_spill()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.spilled.is_empty()
    }
}
