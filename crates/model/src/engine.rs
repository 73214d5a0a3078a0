//! The event queue of every event model: a hierarchy of wheels keyed by the digits of time, first scheduled first among equals.
//!
//! Time never goes back, so an event's place follows from the highest digit in which its time differs from the present: a
//! wheel for each digit, a slot for each value of it. An event moves to a lower wheel only when the present reaches its
//! slot, so scheduling costs one append, and popping a few moves, however many events wait. A heap pays the logarithm of
//! their number in cache misses.
//!
//! Runs repeat byte for byte: events of one picosecond come back in the order in which they were scheduled. They always lie
//! in one slot, because they differ from the present in the same digit, and slots keep the order of appending.
//! A model is a loop over [`Engine::pop`] with a `match` on its own event type; there are no boxed callbacks.
//!
//! SOURCE: the wheels are those of G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987); the
//! choice of a wheel by the highest differing digit is that of radix heaps (Ahuja, Mehlhorn, Orlin, Tarjan, JACM 1990).
use std::collections::VecDeque;

use crate::time::Picos;

/// Bits of a digit: a wheel has as many slots as a word has bits, so that one instruction finds the next.
const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
/// Wheels for all 64 bits of a time.
const WHEELS: usize = 64_usize.div_ceil(DIGIT as usize);

/// Events of type `E` in the order of their time.
///
/// **Ordering**: by time, then by the order of scheduling.
/// **Cost**: amortised O(1) for [`schedule`](Engine::schedule); for [`pop`](Engine::pop) at most one move for each digit of
/// time, in practice three. No allocation once the slots have grown.
pub struct Engine<E> {
    /// Slot `s` of wheel `w` at `w * SLOTS + s`: times that differ from `now` first in digit `w`, where they have `s`.
    slots: Box<[Vec<(Picos, E)>]>,
    /// A bit for each slot of a wheel that is not empty.
    filled: [u64; WHEELS],
    /// A bit for each wheel that is not empty.
    wheels: u32,
    /// Events of the present, in order.
    present: VecDeque<E>,
    now: Picos,
    scheduled: u64,
}

impl<E> Engine<E> {
    /// An empty queue at time zero.
    pub fn new() -> Engine<E> {
        let slots = (0..WHEELS * SLOTS).map(|_| Vec::new()).collect();
        Engine { slots, filled: [0; WHEELS], wheels: 0, present: VecDeque::new(), now: Picos::ZERO, scheduled: 0 }
    }

    /// The time of the event popped last.
    pub fn now(&self) -> Picos {
        self.now
    }

    /// The number of events scheduled so far, popped or not.
    pub fn event_count(&self) -> u64 {
        self.scheduled
    }

    /// Whether no event is left.
    pub fn is_empty(&self) -> bool {
        self.present.is_empty() && self.wheels == 0
    }

    /// Puts an event at a time that is not before [`now`](Engine::now); an earlier time is a defect of the model and panics.
    #[inline]
    pub fn schedule(&mut self, at: Picos, event: E) {
        assert!(at >= self.now, "an event at {at} was scheduled at {}", self.now);
        self.scheduled += 1;
        self.place(at, event);
    }

    /// Puts an event `span` after [`now`](Engine::now).
    #[inline]
    pub fn schedule_in(&mut self, span: Picos, event: E) {
        self.schedule(self.now + span, event);
    }

    #[inline]
    fn place(&mut self, at: Picos, event: E) {
        let differs = at.0 ^ self.now.0;
        if differs == 0 {
            self.present.push_back(event);
            return;
        }
        let wheel = differs.ilog2() / DIGIT;
        let slot = (at.0 >> (wheel * DIGIT)) as usize % SLOTS;
        self.filled[wheel as usize] |= 1 << slot;
        self.wheels |= 1 << wheel;
        self.slots[wheel as usize * SLOTS + slot].push((at, event));
    }

    /// Takes the earliest event and moves [`now`](Engine::now) to its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(Picos, E)> {
        if let Some(event) = self.present.pop_front() {
            return Some((self.now, event));
        }
        if self.wheels == 0 {
            return None;
        }
        // The lowest wheel's first slot holds the earliest: all else differs from the present in a higher digit.
        let wheel = self.wheels.trailing_zeros() as usize;
        let slot = self.filled[wheel].trailing_zeros() as usize;
        self.filled[wheel] &= self.filled[wheel] - 1;
        if self.filled[wheel] == 0 {
            self.wheels &= self.wheels - 1;
        }
        let index = wheel * SLOTS + slot;
        if self.slots[index].len() == 1
            && let Some((at, event)) = self.slots[index].pop()
        {
            self.now = at;
            return Some((at, event));
        }
        self.spread(index);
        self.present.pop_front().map(|event| (self.now, event))
    }

    /// Moves the present to the earliest time of a slot and its events to lower wheels; the slot keeps its room.
    fn spread(&mut self, index: usize) {
        let mut events = std::mem::take(&mut self.slots[index]);
        self.now = events.iter().map(|(at, _)| *at).min().unwrap_or(self.now);
        for (at, event) in events.drain(..) {
            self.place(at, event);
        }
        self.slots[index] = events;
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
    fn any_program_of_schedules_and_pops_equals_a_sorted_map() {
        // Spans from nothing to hours, so that every wheel is used; the seed is part of the test.
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 11
        };
        let mut engine = Engine::new();
        let mut model = std::collections::BTreeMap::new();
        for seq in 0..200_000_u64 {
            if next() % 5 < 3 || engine.is_empty() {
                let span = next() >> (next() % 53);
                let at = engine.now() + Picos(span & ((1 << 52) - 1));
                engine.schedule(at, seq);
                model.insert((at, seq), ());
            } else {
                let ((at, seq), ()) = model.pop_first().unwrap();
                assert_eq!(engine.pop(), Some((at, seq)));
            }
        }
        while let Some(((at, seq), ())) = model.pop_first() {
            assert_eq!(engine.pop(), Some((at, seq)));
        }
        assert!(engine.pop().is_none() && engine.is_empty());
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
