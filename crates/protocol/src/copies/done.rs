//! Calls whose updates were done. A call that is repeated at the next home of its bytes counts once, and has its first result.
//!
//! Every holder of an extent keeps the same table, because each notes the same writes in the same order. A program's calls are in sequences: as
//! many as it has calls under way. A call of a sequence begins when the one before has its result, which is forgotten then. So a table has few
//! entries, and a call that waits for long is not forgotten because of later ones.

use crate::limits::{DONE_CLIENT_COUNT_MAX, DONE_OLDS_LEN_MAX, DONE_PART_COUNT_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A call of a program whose updates count once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UpdateCall {
    /// The program: a number that nobody can guess.
    pub client: u64,
    /// The call's sequence. It has one call under way.
    pub sequence: u16,
    /// The call's number; a program counts its calls up.
    pub number: u64,
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

/// The newest call of a sequence on this extent, with its parts, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct SequenceCall {
    number: u64,
    parts: Vec<Done>,
}

/// Calls of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct ClientCalls {
    /// The note of its last write; notes are counted.
    used: u64,
    /// The highest call that was forgotten although its result may be missing.
    forgotten: u64,
    size: DoneSize,
    sequences: BTreeMap<u16, SequenceCall>,
}

/// Memory of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct DoneSize {
    parts: u64,
    olds_len: u64,
}

/// The calls that were done on one extent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DoneCalls {
    clients: BTreeMap<u64, ClientCalls>,
    notes: u64,
    /// Memory of all programs together.
    size: DoneSize,
    /// The highest call of the programs that were forgotten.
    forgotten: u64,
}

impl DoneCalls {
    /// The part of the next `len` bytes of a call that was done before.
    pub fn before(&self, once: &Once, len: u64) -> DoneBefore {
        let Once { call, at } = once;
        let client = self.clients.get(&call.client);
        let newest = client.and_then(|client| client.sequences.get(&call.sequence));
        let parts = newest.filter(|newest| newest.number == call.number).map(|newest| &newest.parts);
        if let Some(done) = parts.and_then(|parts| parts.iter().find(|done| done.has(*at))) {
            let end = done.end().min(at.saturating_add(len));
            let [from, to] = [*at, end].map(|byte| byte.saturating_sub(done.at) as usize);
            return DoneBefore::Bytes {
                len: end.saturating_sub(*at),
                olds: done.olds.get(from..to).unwrap_or_default().to_vec(),
            };
        }
        let is_old = newest.is_some_and(|newest| call.number < newest.number);
        let is_forgotten = is_old || call.number <= client.map_or(self.forgotten, |client| client.forgotten);
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
        let before = client.size;
        client.note(call, Done { at: *at, len, olds: olds.to_vec() });
        self.size = self.size.less(before).plus(client.size);
        self.forget_some(call.client);
    }

    /// Forgets calls that are too many: all of the program that has not written for longest, or the older half of the program with most.
    fn forget_some(&mut self, now: u64) {
        while self.clients.len() > DONE_CLIENT_COUNT_MAX {
            let others = self.clients.iter().filter(|(client, _)| **client != now);
            let Some(oldest) = others.min_by_key(|(_, calls)| calls.used).map(|(client, _)| *client) else { return };
            let gone = self.clients.remove(&oldest).unwrap_or_default();
            let last = gone.sequences.values().map(|call| call.number).max().unwrap_or(0);
            self.forgotten = self.forgotten.max(gone.forgotten).max(last);
            self.size = self.size.less(gone.size);
        }
        while let Some(most) = self.size.beyond_limits() {
            let Some(client) = self.clients.values_mut().max_by_key(|client| most(&client.size)) else { return };
            let before = client.size;
            client.forget_older_half();
            self.size = self.size.less(before).plus(client.size);
            if client.size == before {
                return;
            }
        }
    }

    /// Returns true if a table of another node keeps the limits.
    pub fn is_within_limits(&self) -> bool {
        let sum = self.clients.values().fold(DoneSize::default(), |sum, client| sum.plus(client.size));
        let is_counted = sum == self.size && self.clients.values().all(|client| client.size == client.counted());
        self.clients.len() <= DONE_CLIENT_COUNT_MAX && is_counted && self.size.beyond_limits().is_none()
    }
}

impl DoneSize {
    fn of(parts: &[Done]) -> DoneSize {
        DoneSize { parts: parts.len() as u64, olds_len: parts.iter().map(Done::olds_len).fold(0, u64::saturating_add) }
    }

    fn plus(self, more: DoneSize) -> DoneSize {
        DoneSize { parts: self.parts.saturating_add(more.parts), olds_len: self.olds_len.saturating_add(more.olds_len) }
    }

    fn less(self, gone: DoneSize) -> DoneSize {
        DoneSize { parts: self.parts.saturating_sub(gone.parts), olds_len: self.olds_len.saturating_sub(gone.olds_len) }
    }

    /// The measure that is beyond its limit.
    fn beyond_limits(&self) -> Option<fn(&DoneSize) -> u64> {
        let parts: fn(&DoneSize) -> u64 = |size| size.parts;
        let olds_len: fn(&DoneSize) -> u64 = |size| size.olds_len;
        let limits = [(parts, DONE_PART_COUNT_MAX as u64), (olds_len, DONE_OLDS_LEN_MAX)];
        limits.into_iter().find(|(measure, limit)| measure(self) > *limit).map(|(measure, _)| measure)
    }
}

impl ClientCalls {
    fn note(&mut self, call: &UpdateCall, new: Done) {
        let newest = match self.sequences.entry(call.sequence) {
            // The write comes late: its program waits for it no more.
            Entry::Occupied(newest) if newest.get().number > call.number => return,
            entry => entry.or_default(),
        };
        if newest.number < call.number {
            self.size = self.size.less(DoneSize::of(&newest.parts));
            *newest = SequenceCall { number: call.number, parts: Vec::new() };
        }
        self.size = self.size.plus(add(&mut newest.parts, new));
    }

    fn counted(&self) -> DoneSize {
        self.sequences.values().fold(DoneSize::default(), |sum, call| sum.plus(DoneSize::of(&call.parts)))
    }

    fn forget_older_half(&mut self) {
        let mut numbers: Vec<u64> = self.sequences.values().map(|call| call.number).collect();
        numbers.sort_unstable();
        let last = numbers.get(numbers.len().saturating_sub(1) / 2).copied().unwrap_or(0);
        self.sequences.retain(|_, call| call.number > last);
        self.forgotten = self.forgotten.max(last);
        self.size = self.counted();
    }
}

/// Adds a part, or lets the part before it go on. Nothing for bytes that a part has already. Returns what more it takes.
fn add(parts: &mut Vec<Done>, new: Done) -> DoneSize {
    let place = parts.partition_point(|done| done.at < new.at);
    let (before, behind) = parts.split_at_mut(place);
    if behind.first().is_some_and(|next| next.at < new.end()) || before.last().is_some_and(|last| last.end() > new.at) {
        return DoneSize::default();
    }
    let more = DoneSize { parts: 1, olds_len: new.olds_len() };
    match before.last_mut().filter(|last| last.end() == new.at && last.has_olds() == new.has_olds()) {
        Some(last) => {
            last.len = last.len.saturating_add(new.len);
            last.olds.extend_from_slice(&new.olds);
            DoneSize { parts: 0, ..more }
        }
        None => {
            parts.insert(place, new);
            more
        }
    }
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

    fn call(client: u64, sequence: u16, number: u64) -> UpdateCall {
        UpdateCall { client, sequence, number, is_repeat: false }
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
        let first = call(1, 0, 5);
        assert_eq!(done.before(&once(first, 0), 16), DoneBefore::Nothing);
        done.note(&once(first, 0), 16, &[3; 16]);
        assert_eq!(done.before(&repeated(first, 0), 16), DoneBefore::Bytes { len: 16, olds: vec![3; 16] });
        // Stages may have other lengths the second time.
        assert_eq!(done.before(&repeated(first, 8), 100), DoneBefore::Bytes { len: 8, olds: vec![3; 8] });
        assert_eq!(done.before(&repeated(first, 16), 8), DoneBefore::Nothing);
        assert_eq!(done.before(&repeated(first, 24), 8), DoneBefore::Nothing, "a command behind it may come first");
        done.note(&once(first, 16), 8, &[4; 8]);
        assert_eq!(done.before(&repeated(first, 8), 16), DoneBefore::Bytes { len: 16, olds: [[3; 8], [4; 8]].concat() });
        assert_eq!(done.before(&once(call(2, 0, 5), 0), 16), DoneBefore::Nothing, "another program's");
    }

    #[test]
    fn calls_with_results_are_forgotten() {
        let mut done = DoneCalls::default();
        for number in 1..10_000 {
            done.note(&once(call(1, (number % 3) as u16, number), 0), 8, &[0; 8]);
        }
        assert_eq!(done.size, DoneSize { parts: 3, olds_len: 24 });
        assert!(done.is_within_limits() && done.forgotten == 0 && done.clients[&1].forgotten == 0);
        assert_eq!(done.before(&repeated(call(1, 0, 9), 0), 8), DoneBefore::Unknown, "its program has its result");
        done.note(&once(call(1, 0, 9), 0), 8, &[1; 8]);
        assert!(matches!(done.before(&repeated(call(1, 0, 9_999), 0), 8), DoneBefore::Bytes { .. }), "one that comes late");
    }

    #[test]
    fn a_call_that_waits_is_not_forgotten_because_of_later_ones() {
        let mut done = DoneCalls::default();
        done.note(&once(call(1, 0, 1), 0), 8, &[3; 8]);
        for number in 2..100_000 {
            done.note(&once(call(1, 1, number), 0), 8, &[0; 8]);
        }
        assert_eq!(done.before(&repeated(call(1, 0, 1), 0), 8), DoneBefore::Bytes { len: 8, olds: vec![3; 8] });
    }

    #[test]
    fn what_was_forgotten_too_early_is_not_done_twice() {
        let mut done = DoneCalls::default();
        let count = DONE_PART_COUNT_MAX as u64;
        done.note(&once(call(2, 0, 1), 0), 8, &[]);
        (1..=count).for_each(|number| done.note(&once(call(1, number as u16, number), 0), 8, &[]));
        assert_eq!(done.before(&repeated(call(1, 1, 1), 0), 8), DoneBefore::Unknown);
        let is_known = |done: &DoneCalls, call| matches!(done.before(&repeated(call, 0), 8), DoneBefore::Bytes { len: 8, .. });
        assert!(is_known(&done, call(1, count as u16, count)), "the newer half is there");
        assert!(is_known(&done, call(2, 0, 1)), "who has few calls keeps them");
        assert_eq!(done.before(&repeated(call(1, 0, count + 2), 0), 8), DoneBefore::Nothing, "it never came");
        for client in 3..DONE_CLIENT_COUNT_MAX as u64 + 3 {
            done.note(&once(call(client, 0, 1), 0), 8, &[]);
        }
        assert_eq!(done.before(&repeated(call(1, count as u16, count), 0), 8), DoneBefore::Unknown, "its program was forgotten");
        assert_eq!(done.before(&once(call(1, 0, count + 3), 0), 8), DoneBefore::Nothing, "what is new is done");
        assert!(done.is_within_limits());
    }

    #[test]
    fn old_elements_have_a_bound() {
        let mut done = DoneCalls::default();
        let len = DONE_OLDS_LEN_MAX / 4;
        for client in 0..20 {
            for number in 1..4 {
                done.note(&once(call(client, number as u16, number), 0), len, &vec![0; len as usize]);
                assert!(done.size.olds_len <= DONE_OLDS_LEN_MAX && done.is_within_limits());
            }
        }
        done.note(&once(call(7, 9, 9), 0), 9 * len, &vec![0; 9 * len as usize]);
        assert!(
            done.size.olds_len <= DONE_OLDS_LEN_MAX && done.is_within_limits(),
            "one that is too long alone is forgotten, too"
        );
    }

    #[test]
    fn a_call_that_is_forgotten_while_it_is_done_goes_on_but_is_not_repeated() {
        let mut done = DoneCalls::default();
        let long = call(1, 0, 1);
        done.note(&once(long, 0), 8, &[0; 8]);
        for client in 2..DONE_CLIENT_COUNT_MAX as u64 + 2 {
            done.note(&once(call(client, 0, 1), 0), 8, &[]);
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
        let call = call(1, 0, 5);
        // Two puts, a fetch behind them that is done first, and one of which nothing is done.
        for (at, len, olds) in [(32, 8, &[7; 8][..]), (0, 16, &[]), (16, 16, &[])] {
            assert_eq!(done.before(&once(call, at), len), DoneBefore::Nothing);
            done.note(&once(call, at), len, olds);
        }
        assert_eq!(done.size.parts, 2, "what goes on is one part");
        assert_eq!(done.before(&repeated(call, 0), 16), DoneBefore::Bytes { len: 16, olds: vec![] });
        assert_eq!(done.before(&repeated(call, 24), 8), DoneBefore::Bytes { len: 8, olds: vec![] });
        assert_eq!(done.before(&repeated(call, 32), 8), DoneBefore::Bytes { len: 8, olds: vec![7; 8] });
        assert_eq!(done.before(&repeated(call, 40), 8), DoneBefore::Nothing);
        done.note(&repeated(call, 24), 16, &[]);
        assert_eq!(done.before(&repeated(call, 32), 8), DoneBefore::Bytes { len: 8, olds: vec![7; 8] }, "bytes are noted once");
        assert!(done.is_within_limits() && done.size.olds_len == 8);
    }

    #[test]
    fn a_call_of_too_many_parts_is_forgotten_whole() {
        let mut done = DoneCalls::default();
        let many = call(1, 0, 5);
        for part in 0..3 * DONE_PART_COUNT_MAX as u64 {
            done.note(&once(many, part.saturating_mul(16)), 8, &[1; 8]);
            assert!(done.size.beyond_limits().is_none(), "part {part}");
        }
        assert!(done.is_within_limits());
        assert_eq!(done.before(&repeated(many, 0), 8), DoneBefore::Unknown);
        assert_eq!(done.before(&once(call(1, 1, 6), 0), 8), DoneBefore::Nothing);
        done.note(&once(call(1, 1, 6), u64::MAX), u64::MAX, &[]);
        assert!(done.is_within_limits());
    }

    #[test]
    fn calls_without_elements_do_not_keep_those_with_many() {
        let mut done = DoneCalls::default();
        done.note(&once(call(1, 0, 1), 0), 8, &[]);
        done.note(&once(call(1, 1, 2), 0), DONE_OLDS_LEN_MAX + 1, &vec![0; DONE_OLDS_LEN_MAX as usize + 1]);
        assert!(done.is_within_limits());
        assert_eq!(done.before(&repeated(call(1, 1, 2), 0), 8), DoneBefore::Unknown);
    }
}
