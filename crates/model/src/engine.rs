//! The event queue of every event model: a heap keyed by time, then by the order of scheduling.
//!
//! The sequence number makes runs repeat byte for byte: two events of one picosecond come back in the order in which
//! they were scheduled, whatever the heap does inside. A model is a loop over [`Engine::pop`] with a `match` on its
//! own event type; there are no boxed callbacks, which would cost more than a hop of a message.
use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::Picos;

struct Entry<E> {
    at: Picos,
    seq: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.seq) == (other.at, other.seq)
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed, because the standard heap yields its greatest entry first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.seq).cmp(&(self.at, self.seq))
    }
}

/// Events of type `E` in the order of their time.
///
/// **Ordering**: by time, then by the order of scheduling.
/// **Cost**: O(log n) for each of [`schedule`](Engine::schedule) and [`pop`](Engine::pop); no allocation once the heap has grown.
pub struct Engine<E> {
    heap: BinaryHeap<Entry<E>>,
    now: Picos,
    seq: u64,
}

impl<E> Engine<E> {
    /// An empty queue at time zero.
    pub fn new() -> Engine<E> {
        Engine { heap: BinaryHeap::new(), now: Picos::ZERO, seq: 0 }
    }

    /// The time of the event popped last.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// The number of events scheduled so far, popped or not.
    pub fn event_count(&self) -> u64 {
        self.seq
    }

    /// Whether no event is left.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Puts an event at a time that is not before [`now`](Engine::now); an earlier time is a defect of the model and panics.
    pub fn schedule(&mut self, at: Picos, event: E) {
        assert!(at >= self.now, "an event at {at} was scheduled at {}", self.now);
        self.heap.push(Entry { at, seq: self.seq, event });
        self.seq += 1;
    }

    /// Puts an event `span` after [`now`](Engine::now).
    pub fn schedule_in(&mut self, span: Picos, event: E) {
        self.schedule(self.now + span, event);
    }

    /// Takes the earliest event and moves [`now`](Engine::now) to its time.
    pub fn pop(&mut self) -> Option<(Picos, E)> {
        let entry = self.heap.pop()?;
        self.now = entry.at;
        Some((entry.at, entry.event))
    }
}

impl<E> Default for Engine<E> {
    fn default() -> Self {
        Engine::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_scheduling() {
        let mut engine = Engine::new();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b')] {
            engine.schedule(Picos(at), name);
        }
        let order: Vec<_> = std::iter::from_fn(|| engine.pop()).collect();
        assert_eq!(order, [(Picos(1), 'a'), (Picos(1), 'b'), (Picos(5), 'c'), (Picos(5), 'd')]);
        assert_eq!(engine.event_count(), 4);
    }

    #[test]
    fn order_equals_a_stable_sort() {
        // A small linear congruential sequence; its seed is part of the test.
        let mut state = 42_u64;
        let mut engine = Engine::new();
        let mut expected = Vec::new();
        for index in 0..1_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = Picos((state >> 33) % 50);
            engine.schedule(at, index);
            expected.push((at, index));
        }
        expected.sort_by_key(|&(at, _)| at);
        let order: Vec<_> = std::iter::from_fn(|| engine.pop()).collect();
        assert_eq!(order, expected);
    }

    #[test]
    #[should_panic(expected = "was scheduled at")]
    fn the_past_is_refused() {
        let mut engine = Engine::new();
        engine.schedule(Picos(5), ());
        engine.pop();
        engine.schedule(Picos(4), ());
    }
}
