//! A copy of an extent: takes writes in their order, and keeps those that other copies may lack.

use super::{Position, Term};
use crate::table::{self, Row};
use std::collections::VecDeque;

/// State of a copy. A frozen one takes writes again when they come in the term that it was frozen for. Only the elected home has that term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyState {
    /// The copy has no bytes.
    Blank,
    /// A home sends the bytes.
    Making,
    /// The copy has all bytes as of its position.
    Whole,
    /// The coordinator elects a home: no write comes any more in this term.
    Frozen,
    /// The copy has become the home.
    Elected,
}

/// An event of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEvent {
    /// A home begins to make it.
    Make,
    /// The last range has come.
    Made,
    /// A write of the term, or of a higher one.
    Write,
    /// The coordinator elects a home.
    Freeze,
    /// The coordinator has elected this copy.
    Elect,
}

/// Every transition of a copy.
pub const COPIES: &[Row<CopyState, CopyEvent>] = &[
    Row {
        event: CopyEvent::Make,
        from: &[CopyState::Blank, CopyState::Making, CopyState::Whole, CopyState::Frozen, CopyState::Elected],
        to: CopyState::Making,
    },
    Row { event: CopyEvent::Made, from: &[CopyState::Making], to: CopyState::Whole },
    Row { event: CopyEvent::Write, from: &[CopyState::Making], to: CopyState::Making },
    Row { event: CopyEvent::Write, from: &[CopyState::Whole, CopyState::Frozen], to: CopyState::Whole },
    Row { event: CopyEvent::Freeze, from: &[CopyState::Whole, CopyState::Frozen], to: CopyState::Frozen },
    Row { event: CopyEvent::Elect, from: &[CopyState::Frozen], to: CopyState::Elected },
];

/// Result of an input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CopyOutput<E> {
    /// The write is applied to the copy's bytes.
    Apply {
        /// The write's place.
        position: Position,
        /// The write.
        entry: E,
    },
    /// The home is told how far this copy is.
    Has {
        /// The home's term.
        term: Term,
        /// The last write that it has.
        position: Position,
    },
    /// The sender is no home any more.
    Stale {
        /// The term that began meanwhile.
        term: Term,
    },
    /// The coordinator is told how far this copy is. It takes no writes of lower terms.
    IsFrozen {
        /// The term of the home that will be elected.
        term: Term,
        /// The last write that it has.
        position: Position,
    },
}

/// A copy of one extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyLog<E> {
    state: CopyState,
    term: Term,
    last: Position,
    /// Writes up to the last that some other copy may lack, oldest first.
    tail: VecDeque<(Position, E)>,
}

impl<E> Default for CopyLog<E> {
    fn default() -> Self {
        CopyLog { state: CopyState::Blank, term: Term::default(), last: Position::default(), tail: VecDeque::new() }
    }
}

impl<E: Clone> CopyLog<E> {
    /// A copy of an extent that was made together with its home: both are empty.
    pub fn empty(term: Term) -> CopyLog<E> {
        CopyLog { state: CopyState::Whole, term, ..CopyLog::default() }
    }

    /// State, for those who look.
    pub fn state(&self) -> CopyState {
        self.state
    }

    /// True while a home sends its bytes: they make no sense together.
    pub fn is_making(&self) -> bool {
        self.state == CopyState::Making
    }

    /// The term that it heard of last.
    pub fn term(&self) -> Term {
        self.term
    }

    /// The last write that it has.
    pub fn last(&self) -> Position {
        self.last
    }

    /// The writes that other copies may lack.
    pub fn tail(&self) -> impl Iterator<Item = &(Position, E)> {
        self.tail.iter()
    }

    fn step(&mut self, event: CopyEvent) -> bool {
        let next = table::next(COPIES, self.state, event);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    /// Takes over a higher term; false for a lower one.
    fn hears(&mut self, term: Term) -> bool {
        let is_of_today = term >= self.term;
        self.term = self.term.max(term);
        is_of_today
    }

    /// A home begins to make this copy: its bytes come as of `at`, with the writes behind that.
    pub fn make(&mut self, term: Term, at: Position) -> Option<CopyOutput<E>> {
        if !self.hears(term) {
            return Some(CopyOutput::Stale { term: self.term });
        }
        if self.step(CopyEvent::Make) {
            self.last = at;
            self.tail.clear();
        }
        None
    }

    /// True if a range of bytes of that term is for this copy.
    pub fn takes_range(&mut self, term: Term) -> bool {
        self.hears(term) && self.state == CopyState::Making
    }

    /// All ranges have come.
    pub fn made(&mut self, term: Term) -> CopyOutput<E> {
        if !self.hears(term) || !self.step(CopyEvent::Made) {
            return CopyOutput::Stale { term: self.term };
        }
        CopyOutput::Has { term, position: self.last }
    }

    /// A write comes; all copies have those up to `stable`. Outputs in order. A write beyond the next one is not taken. The home sends from
    /// the next one again when it hears the position.
    pub fn write(&mut self, term: Term, (position, entry): (Position, E), stable: Position) -> Vec<CopyOutput<E>> {
        if !self.hears(term) || !self.step(CopyEvent::Write) {
            return vec![CopyOutput::Stale { term: self.term }];
        }
        let mut outputs = Vec::new();
        if position == self.last.next() {
            self.last = position;
            self.tail.push_back((position, entry.clone()));
            outputs.push(CopyOutput::Apply { position, entry });
        }
        while self.tail.front().is_some_and(|(position, _)| *position <= stable) {
            self.tail.pop_front();
        }
        // A copy that is made says so at its end.
        if self.state == CopyState::Whole {
            outputs.push(CopyOutput::Has { term, position: self.last });
        }
        outputs
    }

    /// The home asks how far this copy is.
    pub fn ask(&mut self, term: Term) -> Option<CopyOutput<E>> {
        match self.hears(term) {
            false => Some(CopyOutput::Stale { term: self.term }),
            true if self.state != CopyState::Whole && self.state != CopyState::Frozen => None,
            true => Some(CopyOutput::Has { term, position: self.last }),
        }
    }

    /// The coordinator elects a home for a higher term.
    pub fn freeze(&mut self, term: Term) -> Option<CopyOutput<E>> {
        let is_new = term > self.term || (term == self.term && self.state == CopyState::Frozen);
        if !is_new || !self.step(CopyEvent::Freeze) {
            return None;
        }
        self.term = term;
        Some(CopyOutput::IsFrozen { term, position: self.last })
    }

    /// The coordinator has elected this copy: what its log has, for [`HomeLog::elected`](super::HomeLog::elected). The term is that of the election.
    /// It is a later one where the copy hears of it late, and others of the set were lost meanwhile. Nobody else was home since.
    pub fn elect(&mut self, term: Term) -> Option<(Position, VecDeque<(Position, E)>)> {
        if term < self.term || !self.step(CopyEvent::Elect) {
            return None;
        }
        self.term = term;
        Some((self.last, std::mem::take(&mut self.tail)))
    }
}
