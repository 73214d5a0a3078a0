//! Calls whose updates were done. A call that is repeated at the next home of its bytes counts once, and has its first result.
//!
//! Every holder of an extent keeps the same table, because each notes the same writes in the same order. A program says with each call which of
//! its calls have their results: those are forgotten. So a table has few entries.

use crate::limits::{DONE_CLIENT_COUNT_MAX, DONE_OLDS_LEN_MAX, DONE_PART_COUNT_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A call of a program whose updates count once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpdateCall {
    /// The program: a number that nobody can guess.
    pub client: u64,
    /// The call's number; a program counts its calls up.
    pub number: u64,
    /// All calls of the program below this number have their results.
    pub lowest: u64,
    /// True if it was sent before.
    pub is_repeat: bool,
}

/// A part of a call: one write in one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Once {
    /// The call.
    pub call: UpdateCall,
    /// The write's first byte among all bytes that the call writes on the extent, in the order of its commands.
    pub at: u64,
}

impl Once {
    /// The same part from `len` bytes on.
    #[must_use]
    pub fn behind(self, len: u64) -> Once {
        Once { at: self.at.saturating_add(len), ..self }
    }
}

/// The part of a write that was done before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DoneBefore {
    /// No byte.
    Nothing,
    /// A number of bytes; with the elements before, where the operation gives them.
    Bytes {
        /// The number.
        len: u64,
        /// The elements.
        olds: Vec<u8>,
    },
    /// Unknown: others had too many calls since.
    Unknown,
}

/// Bytes of a call on this extent that were done in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Done {
    at: u64,
    len: u64,
    /// The elements before: as many bytes, or none.
    #[serde(with = "crate::packed_bytes")]
    olds: Vec<u8>,
}

/// The parts of a call, ascending.
type DoneParts = Vec<Done>;

/// Calls of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct ClientCalls {
    /// The note of its last write; notes are counted.
    used: u64,
    /// The highest call that was forgotten although its result may be missing.
    forgotten: u64,
    calls: BTreeMap<u64, DoneParts>,
}

/// The calls that were done on one extent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DoneCalls {
    clients: BTreeMap<u64, ClientCalls>,
    notes: u64,
    olds_len: u64,
    /// The highest call of the programs that were forgotten.
    forgotten: u64,
}

impl DoneCalls {
    /// The part of the next `len` bytes of a call that was done before.
    pub fn before(&self, once: &Once, len: u64) -> DoneBefore {
        let Once { call, at } = once;
        let client = self.clients.get(&call.client);
        let parts = client.and_then(|client| client.calls.get(&call.number));
        if let Some(done) = parts.and_then(|parts| parts.iter().find(|done| done.has(*at))) {
            let end = done.end().min(at.saturating_add(len));
            let [from, to] = [*at, end].map(|byte| byte.saturating_sub(done.at) as usize);
            return DoneBefore::Bytes {
                len: end.saturating_sub(*at),
                olds: done.olds.get(from..to).unwrap_or_default().to_vec(),
            };
        }
        let is_forgotten = call.number <= client.map_or(self.forgotten, |client| client.forgotten);
        // A call that was sent once is not done before, though its first parts are forgotten by now.
        if call.is_repeat && is_forgotten { DoneBefore::Unknown } else { DoneBefore::Nothing }
    }

    /// A write of `len` bytes of a call was done.
    pub fn note(&mut self, once: &Once, len: u64, olds: &[u8]) {
        let Once { call, at } = once;
        self.notes = self.notes.saturating_add(1);
        let new = ClientCalls { forgotten: self.forgotten, ..ClientCalls::default() };
        let client = self.clients.entry(call.client).or_insert(new);
        client.used = self.notes;
        let later = client.calls.split_off(&call.lowest);
        let answered = std::mem::replace(&mut client.calls, later);
        let freed: u64 = answered.values().flatten().map(Done::olds_len).sum();
        self.olds_len = self.olds_len.saturating_sub(freed);
        let new = Done { at: *at, len, olds: olds.to_vec() };
        let olds_len = new.olds_len();
        if add(client.calls.entry(call.number).or_default(), new) {
            self.olds_len = self.olds_len.saturating_add(olds_len);
        }
        self.forget_some(call);
    }

    /// Forgets calls that are too many.
    fn forget_some(&mut self, now: &UpdateCall) {
        if let Some(client) = self.clients.get_mut(&now.client) {
            while client.part_count() > DONE_PART_COUNT_MAX {
                self.olds_len = self.olds_len.saturating_sub(client.forget_first().unwrap_or(0));
            }
        }
        while self.clients.len() > DONE_CLIENT_COUNT_MAX || self.olds_len > DONE_OLDS_LEN_MAX {
            let others = self.clients.iter().filter(|(client, _)| **client != now.client);
            let Some(oldest) = others.min_by_key(|(_, calls)| calls.used).map(|(client, _)| *client) else {
                let Some(own) = self.clients.get_mut(&now.client).and_then(ClientCalls::forget_first) else { return };
                self.olds_len = self.olds_len.saturating_sub(own);
                continue;
            };
            let gone = self.clients.remove(&oldest).unwrap_or_default();
            let last = gone.calls.last_key_value().map_or(0, |(number, _)| *number);
            self.forgotten = self.forgotten.max(gone.forgotten).max(last);
            self.olds_len = self.olds_len.saturating_sub(gone.calls.values().flatten().map(Done::olds_len).sum());
        }
    }

    /// Returns true if a table of another node keeps the limits.
    pub fn is_within_limits(&self) -> bool {
        let parts = self.clients.values().flat_map(|client| client.calls.values()).flatten();
        let olds = parts.map(Done::olds_len).fold(0, u64::saturating_add);
        let is_short = |client: &ClientCalls| client.part_count() <= DONE_PART_COUNT_MAX;
        let is_counted = olds == self.olds_len && olds <= DONE_OLDS_LEN_MAX;
        self.clients.len() <= DONE_CLIENT_COUNT_MAX && is_counted && self.clients.values().all(is_short)
    }
}

impl ClientCalls {
    /// Forgets the first call. Returns the bytes of its elements; `None` if there is no call.
    fn forget_first(&mut self) -> Option<u64> {
        let (number, parts) = self.calls.pop_first()?;
        self.forgotten = self.forgotten.max(number);
        Some(parts.iter().map(Done::olds_len).sum())
    }

    fn part_count(&self) -> usize {
        self.calls.values().map(Vec::len).sum()
    }
}

/// Adds a part, or lets the part before it go on. Returns false for bytes that a part has already.
fn add(parts: &mut DoneParts, new: Done) -> bool {
    let place = parts.partition_point(|done| done.at < new.at);
    let (before, behind) = parts.split_at_mut(place);
    if behind.first().is_some_and(|next| next.at < new.end()) || before.last().is_some_and(|last| last.end() > new.at) {
        return false;
    }
    match before.last_mut().filter(|last| last.end() == new.at && last.has_olds() == new.has_olds()) {
        Some(last) => {
            last.len = last.len.saturating_add(new.len);
            last.olds.extend_from_slice(&new.olds);
        }
        None => parts.insert(place, new),
    }
    true
}

impl Done {
    fn end(&self) -> u64 {
        self.at.saturating_add(self.len)
    }

    fn has(&self, at: u64) -> bool {
        (self.at..self.end()).contains(&at)
    }

    fn has_olds(&self) -> bool {
        self.olds_len() == self.len
    }

    fn olds_len(&self) -> u64 {
        self.olds.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(client: u64, number: u64, lowest: u64) -> UpdateCall {
        UpdateCall { client, number, lowest, is_repeat: false }
    }

    fn once(call: UpdateCall, at: u64) -> Once {
        Once { call, at }
    }

    fn repeated(call: UpdateCall, at: u64) -> Once {
        Once { call: UpdateCall { is_repeat: true, ..call }, at }
    }

    #[test]
    fn a_repeated_call_has_the_result_of_the_first_time() {
        let mut done = DoneCalls::default();
        let first = call(1, 5, 5);
        assert_eq!(done.before(&once(first, 0), 16), DoneBefore::Nothing);
        done.note(&once(first, 0), 16, &[3; 16]);
        assert_eq!(done.before(&repeated(first, 0), 16), DoneBefore::Bytes { len: 16, olds: vec![3; 16] });
        // Stages may have other lengths the second time.
        assert_eq!(done.before(&repeated(first, 8), 100), DoneBefore::Bytes { len: 8, olds: vec![3; 8] });
        assert_eq!(done.before(&repeated(first, 16), 8), DoneBefore::Nothing);
        assert_eq!(done.before(&repeated(first, 24), 8), DoneBefore::Nothing, "a command behind it may come first");
        done.note(&once(first, 16), 8, &[4; 8]);
        assert_eq!(done.before(&repeated(first, 8), 16), DoneBefore::Bytes { len: 16, olds: [[3; 8], [4; 8]].concat() });
        assert_eq!(done.before(&once(call(2, 5, 5), 0), 16), DoneBefore::Nothing, "another program's");
    }

    #[test]
    fn calls_with_results_are_forgotten() {
        let mut done = DoneCalls::default();
        for number in 1..10_000 {
            done.note(&once(call(1, number, number.saturating_sub(2)), 0), 8, &[0; 8]);
        }
        assert_eq!((done.clients[&1].calls.len(), done.olds_len), (3, 24));
        assert!(done.is_within_limits() && done.forgotten == 0 && done.clients[&1].forgotten == 0);
    }

    #[test]
    fn what_was_forgotten_too_early_is_not_done_twice() {
        let mut done = DoneCalls::default();
        let count = DONE_PART_COUNT_MAX as u64;
        (1..=count + 1).for_each(|number| done.note(&once(call(1, number, 1), 0), 8, &[]));
        assert_eq!(done.before(&repeated(call(1, 1, 1), 0), 8), DoneBefore::Unknown);
        assert!(matches!(done.before(&repeated(call(1, 2, 1), 0), 8), DoneBefore::Bytes { len: 8, .. }));
        assert_eq!(done.before(&repeated(call(1, count + 2, 1), 0), 8), DoneBefore::Nothing, "it never came");
        for client in 2..DONE_CLIENT_COUNT_MAX as u64 + 2 {
            done.note(&once(call(client, 1, 1), 0), 8, &[]);
        }
        assert_eq!(done.before(&repeated(call(1, 2, 1), 0), 8), DoneBefore::Unknown, "its program was forgotten");
        assert_eq!(done.before(&once(call(1, count + 3, 1), 0), 8), DoneBefore::Nothing, "what is new is done");
        assert!(done.is_within_limits());
    }

    #[test]
    fn old_elements_have_a_bound() {
        let mut done = DoneCalls::default();
        let len = DONE_OLDS_LEN_MAX / 4;
        for client in 0..20 {
            for number in 1..4 {
                done.note(&once(call(client, number, 1), 0), len, &vec![0; len as usize]);
                assert!(done.olds_len <= DONE_OLDS_LEN_MAX && done.is_within_limits());
            }
        }
        done.note(&once(call(7, 9, 1), 0), 9 * len, &vec![0; 9 * len as usize]);
        assert!(done.olds_len <= DONE_OLDS_LEN_MAX, "one that is too long alone is forgotten, too");
    }

    #[test]
    fn a_call_that_is_forgotten_while_it_is_done_goes_on_but_is_not_repeated() {
        let mut done = DoneCalls::default();
        let long = call(1, 1, 1);
        done.note(&once(long, 0), 8, &[0; 8]);
        for client in 2..DONE_CLIENT_COUNT_MAX as u64 + 2 {
            done.note(&once(call(client, 1, 1), 0), 8, &[]);
        }
        assert_eq!(done.before(&once(long, 8), 8), DoneBefore::Nothing, "its second part comes the first time");
        done.note(&once(long, 8), 8, &[0; 8]);
        assert!(done.is_within_limits());
        for at in [0, 16] {
            assert_eq!(done.before(&repeated(long, at), 8), DoneBefore::Unknown, "from byte {at} on");
        }
        assert_eq!(done.before(&repeated(long, 8), 8), DoneBefore::Bytes { len: 8, olds: vec![0; 8] });
    }

    #[test]
    fn commands_of_a_call_are_known_in_whatever_order_they_are_done() {
        let mut done = DoneCalls::default();
        let call = call(1, 5, 5);
        // Two puts, a fetch behind them that is done first, and one of which nothing is done.
        for (at, len, olds) in [(32, 8, &[7; 8][..]), (0, 16, &[]), (16, 16, &[])] {
            assert_eq!(done.before(&once(call, at), len), DoneBefore::Nothing);
            done.note(&once(call, at), len, olds);
        }
        assert_eq!(done.clients[&1].part_count(), 2, "what goes on is one part");
        assert_eq!(done.before(&repeated(call, 0), 16), DoneBefore::Bytes { len: 16, olds: vec![] });
        assert_eq!(done.before(&repeated(call, 24), 8), DoneBefore::Bytes { len: 8, olds: vec![] });
        assert_eq!(done.before(&repeated(call, 32), 8), DoneBefore::Bytes { len: 8, olds: vec![7; 8] });
        assert_eq!(done.before(&repeated(call, 40), 8), DoneBefore::Nothing);
        done.note(&repeated(call, 24), 16, &[]);
        assert_eq!(done.before(&repeated(call, 32), 8), DoneBefore::Bytes { len: 8, olds: vec![7; 8] }, "bytes are noted once");
        assert!(done.is_within_limits() && done.olds_len == 8);
    }

    #[test]
    fn a_call_of_too_many_parts_is_forgotten_whole() {
        let mut done = DoneCalls::default();
        let many = call(1, 5, 5);
        for part in 0..3 * DONE_PART_COUNT_MAX as u64 {
            done.note(&once(many, part.saturating_mul(16)), 8, &[1; 8]);
            assert!(done.is_within_limits());
        }
        assert_eq!(done.before(&repeated(many, 0), 8), DoneBefore::Unknown);
        assert_eq!(done.before(&once(call(1, 6, 6), 0), 8), DoneBefore::Nothing);
        done.note(&once(call(1, 6, 6), u64::MAX), u64::MAX, &[]);
        assert!(done.is_within_limits());
    }

    #[test]
    fn calls_without_elements_do_not_keep_those_with_many() {
        let mut done = DoneCalls::default();
        done.note(&once(call(1, 1, 1), 0), 8, &[]);
        done.note(&once(call(1, 2, 1), 0), DONE_OLDS_LEN_MAX + 1, &vec![0; DONE_OLDS_LEN_MAX as usize + 1]);
        assert!(done.is_within_limits());
        assert_eq!(done.before(&repeated(call(1, 2, 1), 0), 8), DoneBefore::Unknown);
    }
}
