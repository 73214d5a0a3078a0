//! The record of which parameters and facts a computation reads.
//!
//! [`Parameters`](crate::parameters::Parameters) and [`facts`](crate::facts) write here whenever a number leaves them. [`during`] returns what a computation read, so a
//! claim's calibration is observed and never typed. [`memo`](mod@crate::memo) keeps results together with their reads: a result that is used
//! again counts as read again.
use std::cell::RefCell;
use std::collections::BTreeSet;

/// What a computation read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Keys of parameters.
    pub parameters: BTreeSet<&'static str>,
    /// Keys of facts: read as such, or as the source of a parameter.
    pub facts: BTreeSet<&'static str>,
}

impl Reads {
    fn add(&mut self, other: &Reads) {
        self.parameters.extend(&other.parameters);
        self.facts.extend(&other.facts);
    }
}

thread_local! {
    static OPEN: RefCell<Vec<Reads>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a parameter was read, and with it the facts it is or was chosen from.
pub(crate) fn parameter(key: &'static str, facts: impl Iterator<Item = &'static str>) {
    OPEN.with_borrow_mut(|open| {
        if let Some(reads) = open.last_mut() {
            reads.parameters.insert(key);
            reads.facts.extend(facts);
        }
    });
}

/// Notes that a fact was read as an input.
pub(crate) fn fact(key: &'static str) {
    OPEN.with_borrow_mut(|open| {
        if let Some(reads) = open.last_mut() {
            reads.facts.insert(key);
        }
    });
}

/// Closes the innermost record even where the computation panics.
struct Scope {
    depth: usize,
}

impl Drop for Scope {
    fn drop(&mut self) {
        OPEN.with_borrow_mut(|open| open.truncate(self.depth));
    }
}

/// Runs `compute` and returns its result with what it read. An outer record receives the same reads.
pub fn during<T>(compute: impl FnOnce() -> T) -> (T, Reads) {
    let depth = OPEN.with_borrow_mut(|open| {
        open.push(Reads::default());
        open.len() - 1
    });
    let scope = Scope { depth };
    let result = compute();
    let reads = OPEN.with_borrow_mut(|open| std::mem::take(&mut open[depth]));
    drop(scope);
    replay(&reads);
    (result, reads)
}

/// Notes what a computation read whose result is used again.
pub(crate) fn replay(reads: &Reads) {
    OPEN.with_borrow_mut(|open| {
        if let Some(outer) = open.last_mut() {
            outer.add(reads);
        }
    });
}
