//! Stores of programs that count together, and more than one message has: the parts wait here until the last one has come.
//!
//! All holders of an extent have the same table, because all take the same parts in one order of writes. The parts outlive a home like any
//! write. The last one has its effect at all holders or at none.
//!
//! A program numbers its calls, and has one of a sequence under way. So a part of a later call of the sequence drops those of the one before.

use super::{Once, UpdateCall};
use crate::limits::{PENDING_LEN_MAX, PENDING_PART_LEN};
use std::collections::BTreeMap;

/// A part of the stores of one call, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOfStores {
    /// The call, and the first byte of the part among all bytes that the call stores to the extent.
    pub once: Once,
    /// Bytes of the part.
    pub len: u64,
    /// Bytes of memory that the part takes.
    pub memory_len: u64,
    /// True for the last part of its call.
    pub is_last: bool,
}

/// Reason that all holders refuse a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartRefusal {
    /// A part before it is not here any more, or a later call of its sequence has come.
    Gone,
    /// There is no room for it. The parts before it are dropped.
    NoRoom,
}

/// The parts of one call that have come.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PendingCall<P> {
    number: u64,
    /// Bytes of all of them.
    len: u64,
    /// Bytes of memory of all of them.
    memory_len: u64,
    parts: Vec<P>,
}

/// The parts that wait for the last one of their call, by program and sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingStores<P> {
    calls: BTreeMap<(u64, u16), PendingCall<P>>,
    memory_len: u64,
}

impl<P> Default for PendingStores<P> {
    fn default() -> Self {
        PendingStores { calls: BTreeMap::new(), memory_len: 0 }
    }
}

impl<P> PendingStores<P> {
    /// A part comes. Returns all parts of its call, in order, with the last one. A part that is here already changes nothing.
    ///
    /// **Errors**: the refusal. No part of the call has an effect.
    pub fn take(&mut self, place: &PartOfStores, part: P) -> Result<Option<Vec<P>>, PartRefusal> {
        let PartOfStores { once: Once { call, at }, len, memory_len, is_last } = *place;
        let key = (call.client, call.sequence);
        let before = self.calls.get(&key).map(|pending| (pending.number, pending.len));
        let has = match before {
            Some((number, _)) if number > call.number => return Err(PartRefusal::Gone),
            Some((number, len)) if number == call.number => len,
            _ => {
                self.drop_call(key);
                0
            }
        };
        if at < has && !is_last && at.saturating_add(len) <= has {
            return Ok(None);
        }
        if at != has {
            return Err(PartRefusal::Gone);
        }
        if is_last {
            let mut parts = self.drop_call(key);
            parts.push(part);
            return Ok(Some(parts));
        }
        let memory_len = memory_len.saturating_add(PENDING_PART_LEN);
        if self.memory_len.saturating_add(memory_len) > PENDING_LEN_MAX {
            self.drop_call(key);
            return Err(PartRefusal::NoRoom);
        }
        self.memory_len = self.memory_len.saturating_add(memory_len);
        let new = || PendingCall { number: call.number, len: 0, memory_len: 0, parts: Vec::new() };
        let pending = self.calls.entry(key).or_insert_with(new);
        pending.len = pending.len.saturating_add(len);
        pending.memory_len = pending.memory_len.saturating_add(memory_len);
        pending.parts.push(part);
        Ok(None)
    }

    /// The last part of a call will not come. Those of a later call of its sequence stay.
    pub fn forget(&mut self, call: &UpdateCall) {
        let key = (call.client, call.sequence);
        if self.calls.get(&key).is_some_and(|pending| pending.number <= call.number) {
            self.drop_call(key);
        }
    }

    fn drop_call(&mut self, key: (u64, u16)) -> Vec<P> {
        let Some(pending) = self.calls.remove(&key) else { return Vec::new() };
        self.memory_len = self.memory_len.saturating_sub(pending.memory_len);
        pending.parts
    }

    /// The calls whose last part has not come.
    pub fn calls(&self) -> impl Iterator<Item = UpdateCall> + '_ {
        let call = |(&(client, sequence), pending): (&(u64, u16), &PendingCall<P>)| UpdateCall {
            client,
            sequence,
            number: pending.number,
            is_repeat: false,
        };
        self.calls.iter().map(call)
    }

    /// All parts, those of each call in their order.
    pub fn parts(&self) -> impl Iterator<Item = &P> + '_ {
        self.calls.values().flat_map(|pending| &pending.parts)
    }

    /// True if no part waits.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 100;

    fn call(client: u64, number: u64) -> UpdateCall {
        UpdateCall { client, sequence: 0, number, is_repeat: false }
    }

    /// Part number `part` of a call, each of [`LEN`] bytes.
    fn place(call: UpdateCall, part: u64, is_last: bool) -> PartOfStores {
        PartOfStores { once: Once { call, at: part * LEN }, len: LEN, memory_len: LEN, is_last }
    }

    #[test]
    fn parts_wait_for_the_last_one() {
        let mut pending = PendingStores::default();
        let one = call(1, 5);
        assert_eq!(pending.take(&place(one, 0, false), 'a'), Ok(None));
        assert_eq!(pending.take(&place(call(2, 5), 0, true), 'x'), Ok(Some(vec!['x'])), "one that is alone");
        assert_eq!(pending.take(&place(one, 1, false), 'b'), Ok(None));
        assert_eq!(pending.take(&place(one, 0, false), '?'), Ok(None), "it is here already");
        assert_eq!(pending.parts().copied().collect::<String>(), "ab");
        assert_eq!(pending.take(&place(one, 2, true), 'c'), Ok(Some(vec!['a', 'b', 'c'])));
        assert_eq!(pending, PendingStores::default());
        assert_eq!(pending.take(&place(one, 2, true), 'c'), Err(PartRefusal::Gone));
    }

    #[test]
    fn a_part_behind_one_that_is_not_here_has_no_effect() {
        let mut pending = PendingStores::default();
        let one = call(1, 5);
        assert_eq!(pending.take(&place(one, 1, false), 'b'), Err(PartRefusal::Gone));
        assert_eq!(pending.take(&place(one, 1, true), 'b'), Err(PartRefusal::Gone));
        pending.take(&place(one, 0, false), 'a').unwrap();
        assert_eq!(pending.take(&place(one, 2, true), 'c'), Err(PartRefusal::Gone));
        assert_eq!(pending.take(&place(one, 0, true), 'a'), Err(PartRefusal::Gone), "another cut");
        assert_eq!(pending.take(&place(one, 1, true), 'b'), Ok(Some(vec!['a', 'b'])));
    }

    #[test]
    fn a_later_call_drops_the_parts_of_the_one_before() {
        let mut pending = PendingStores::default();
        pending.take(&place(call(1, 5), 0, false), 'a').unwrap();
        pending.take(&place(call(1, 6), 0, false), 'b').unwrap();
        assert_eq!(pending.take(&place(call(1, 5), 1, true), 'c'), Err(PartRefusal::Gone));
        pending.forget(&call(1, 5));
        assert_eq!(pending.calls().collect::<Vec<_>>(), [call(1, 6)]);
        pending.forget(&call(1, 6));
        assert_eq!(pending, PendingStores::default());
        assert_eq!(pending.take(&place(call(1, 6), 1, true), 'c'), Err(PartRefusal::Gone));
    }

    #[test]
    fn parts_have_a_bound_and_programs_with_room_go_on() {
        let mut pending = PendingStores::default();
        let long = |client, part| {
            let memory_len = PENDING_LEN_MAX / 4;
            PartOfStores { memory_len, ..place(call(client, 1), part, false) }
        };
        for (client, part) in [(1, 0), (1, 1), (2, 0)] {
            assert_eq!(pending.take(&long(client, part), ()), Ok(None));
        }
        assert_eq!(pending.take(&long(1, 2), ()), Err(PartRefusal::NoRoom));
        assert_eq!(pending.calls().collect::<Vec<_>>(), [call(2, 1)]);
        assert_eq!(pending.take(&long(2, 1), ()), Ok(None));
        assert!(pending.memory_len > PENDING_LEN_MAX / 2 && pending.memory_len <= PENDING_LEN_MAX);
        // Many that are short, too.
        let short = |client| PartOfStores { memory_len: 1, ..place(call(client, 1), 0, false) };
        let taken = (10..1 << 20).take_while(|client| pending.take(&short(*client), ()).is_ok()).count() as u64;
        assert!(taken <= PENDING_LEN_MAX / PENDING_PART_LEN, "{taken}");
    }
}
