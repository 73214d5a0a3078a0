//! The last write of each writer and its result. A write that is sent again, to this home or the next, has that result.

use std::collections::BTreeMap;

/// Last writes, by writer. Each writer numbers its writes upwards and has one at a time on the way.
///
/// Home and copies apply the same writes in the same order, so they know the same results.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Writers<W, R> {
    last: BTreeMap<W, (u64, R)>,
}

impl<W, R> Default for Writers<W, R> {
    fn default() -> Self {
        Writers { last: BTreeMap::new() }
    }
}

impl<W: Ord, R: Clone> Writers<W, R> {
    /// The result of that write, if it was applied.
    pub fn result(&self, writer: &W, number: u64) -> Option<&R> {
        self.last.get(writer).filter(|(last, _)| *last == number).map(|(_, result)| result)
    }

    /// A write was applied.
    pub fn applied(&mut self, writer: W, number: u64, result: R) {
        self.last.insert(writer, (number, result));
    }
}
