//! Calls that may still use earlier state: counts those of this moment and of the one before.
//!
//! A call enters and leaves. [`Gate::turn`] begins a new moment; [`Gate::is_past`] says when no call of the one before is left.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts calls under way.
#[derive(Default)]
pub struct Gate {
    moment: AtomicU64,
    inside: [AtomicU64; 2],
}

/// A call under way.
pub struct Inside<'g> {
    gate: &'g Gate,
    side: usize,
}

impl Gate {
    /// Enters. **Cost**: a few atomic operations.
    pub fn enter(&self) -> Inside<'_> {
        loop {
            let moment = self.moment.load(Ordering::SeqCst);
            let side = (moment % 2) as usize;
            self.inside[side].fetch_add(1, Ordering::SeqCst);
            // ORDERING: pairs with `turn`: either it sees this call, or the call sees the new moment.
            if self.moment.load(Ordering::SeqCst) == moment {
                return Inside { gate: self, side };
            }
            self.inside[side].fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Begins a new moment. Only when the last turn is past, and by one thread.
    pub fn turn(&self) {
        self.moment.fetch_add(1, Ordering::SeqCst);
    }

    /// True if all calls of the moment before have left.
    pub fn is_past(&self) -> bool {
        let before = (self.moment.load(Ordering::SeqCst).wrapping_add(1) % 2) as usize;
        self.inside[before].load(Ordering::SeqCst) == 0
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.gate.inside[self.side].fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_past_when_the_calls_of_before_have_left_and_not_later() {
        let gate = Gate::default();
        let before = gate.enter();
        gate.turn();
        let after = gate.enter();
        assert!(!gate.is_past());
        drop(before);
        assert!(gate.is_past());
        gate.turn();
        assert!(!gate.is_past());
        drop(after);
        assert!(gate.is_past());
    }
}
