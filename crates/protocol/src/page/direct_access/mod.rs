//! Direct access of programs on a home's own host to an extent's memory, past its pages. It is revoked when a host wants to map the region.
//!
//! ```text
//!             Map                Revoke               Settle
//!  Nobody ----------> Direct ------------> Revoked ------------> Idle
//!    ^ |                ^                     |                    |
//!    | +- Pin -> Pinned +-------- Map --------+---------- Map -----+     when no host maps the region any more
//!    |              |   ^
//!    |              +---+ Unpin
//!    +---- Release, from all
//! ```
//!
//! A program with the right works without a message. Before each command it says that it is at work. Then it looks at a generation in
//! memory that it shares with its node ([`Right::look`]). The node takes the right back by raising the generation. Then it looks who is at
//! work, and waits for earlier commands, for nothing else. So a program that is idle, or does not run, is not asked.
//!
//! While a program is at work, no page is taken from its bytes. No store of a command is lost, because the command ends before the region
//! is shared. A program that has given out a pointer keeps its right: no rule can tell when the pointer is used.
//!
//! A program has ended when its process has. A program may outlive its connection to the node. It uses its rights until they are revoked in
//! the words, and gets no others.
//!
//! | at | machine |
//! |---|---|
//! | the node, for each extent | [`DirectAccess`]: which programs may, who is waited for |
//! | the program, for each handle | [`Right`]: which extents it may reach |
//!
//! The words in shared memory are `hanare_ring::revoke`, tried by loom. `explore` tries all orders of threads, node and hosts, with each
//! rule switched off in turn. `table.txt` is the table as text.

#[cfg(test)]
mod explore;

use crate::table::{self, Row};
use std::collections::BTreeMap;

/// A program, as its node knows it for one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The program has no memory of the extent.
    Nobody,
    /// The program works on the memory as it is, without asking.
    Direct,
    /// Its right was taken back. Commands that it began before may be under way.
    Revoked,
    /// The program has the memory, and does not touch it.
    Idle,
    /// The program has given out a pointer.
    Pinned,
}

/// An event of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The program gets the right, and the memory if it has none.
    Map,
    /// The same for a pointer.
    Pin,
    /// Its pointers are gone; its handles are there still.
    Unpin,
    /// A host will map the region.
    Revoke,
    /// The program's earlier commands are done.
    Settle,
    /// The program has no memory of the extent any more, or has ended.
    Release,
}

/// The transitions.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Map, from: &[Phase::Nobody, Phase::Direct, Phase::Revoked, Phase::Idle], to: Phase::Direct },
    Row { event: Event::Map, from: &[Phase::Pinned], to: Phase::Pinned },
    Row {
        event: Event::Pin,
        from: &[Phase::Nobody, Phase::Direct, Phase::Revoked, Phase::Idle, Phase::Pinned],
        to: Phase::Pinned,
    },
    Row { event: Event::Unpin, from: &[Phase::Pinned], to: Phase::Direct },
    Row { event: Event::Revoke, from: &[Phase::Direct], to: Phase::Revoked },
    Row { event: Event::Settle, from: &[Phase::Revoked], to: Phase::Idle },
    Row { event: Event::Release, from: &[Phase::Direct, Phase::Revoked, Phase::Idle, Phase::Pinned], to: Phase::Nobody },
];

/// Readiness of an extent to be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No program has direct access.
    Free,
    /// Number of programs with commands under way.
    Busy(usize),
    /// Number of programs that have given out pointers.
    Pinned(usize),
}

/// The programs that have memory of one extent. The caller refuses [`DirectAccess::map`] while hosts share the extent, or are about to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DirectAccess<P> {
    programs: BTreeMap<P, Phase>,
}

impl<P> Default for DirectAccess<P> {
    fn default() -> DirectAccess<P> {
        DirectAccess { programs: BTreeMap::new() }
    }
}

impl<P: Ord + Copy> DirectAccess<P> {
    fn take(&mut self, program: P, event: Event) {
        let phase = self.programs.get(&program).copied().unwrap_or(Phase::Nobody);
        match table::next(TABLE, phase, event) {
            Some(Phase::Nobody) => drop(self.programs.remove(&program)),
            Some(next) => drop(self.programs.insert(program, next)),
            // Late news of a program that has ended, or was asked twice.
            None => {}
        }
    }

    /// A program gets the memory; `pins` if it gives a pointer out.
    pub fn map(&mut self, program: P, pins: bool) {
        self.take(program, if pins { Event::Pin } else { Event::Map });
    }

    /// A program's pointers are gone.
    pub fn unpin(&mut self, program: P) {
        self.take(program, Event::Unpin);
    }

    /// A program has no memory of the extent any more, or has ended.
    pub fn release(&mut self, program: P) {
        self.take(program, Event::Release);
    }

    /// A host will map the region. Returns the programs whose generation is to be raised: none where a pointer is in the way.
    #[must_use = "their generations are to be raised"]
    pub fn revoke(&mut self) -> Vec<P> {
        if self.count(Phase::Pinned) > 0 {
            return Vec::new();
        }
        let direct: Vec<P> = self.in_phase(Phase::Direct).collect();
        direct.iter().for_each(|program| self.take(*program, Event::Revoke));
        direct
    }

    /// The programs whose commands may be under way still.
    pub fn revoked(&self) -> Vec<P> {
        self.in_phase(Phase::Revoked).collect()
    }

    /// All that a program began before its generation was raised is done.
    pub fn settle(&mut self, program: P) {
        self.take(program, Event::Settle);
    }

    /// The extent's readiness to be shared, once [`DirectAccess::revoke`] was called.
    pub fn standing(&self) -> Standing {
        let (pinned, busy) = (self.count(Phase::Pinned), self.count(Phase::Direct) + self.count(Phase::Revoked));
        match (pinned, busy) {
            (0, 0) => Standing::Free,
            (0, busy) => Standing::Busy(busy),
            (pinned, _) => Standing::Pinned(pinned),
        }
    }

    /// The programs that have memory of it.
    pub fn programs(&self) -> impl Iterator<Item = P> + '_ {
        self.programs.keys().copied()
    }

    fn in_phase(&self, phase: Phase) -> impl Iterator<Item = P> + '_ {
        self.programs.iter().filter(move |(_, at)| **at == phase).map(|(program, _)| *program)
    }

    fn count(&self, phase: Phase) -> usize {
        self.in_phase(phase).count()
    }
}

/// Extents that a program's handle may access.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Right {
    generation: u64,
    open: Vec<bool>,
}

impl Right {
    /// No access yet, for that many extents.
    pub fn new(extents: usize, generation: u64) -> Right {
        Right { generation, open: vec![false; extents] }
    }

    /// The generation as it is: where it is another, nothing may be reached any more. Returns whether it is another.
    pub fn look(&mut self, generation: u64) -> bool {
        let is_other = self.generation != generation;
        if is_other {
            self.generation = generation;
            self.close();
        }
        is_other
    }

    /// Ends all access.
    pub fn close(&mut self) {
        self.open.fill(false);
    }

    /// True if an extent is open. The caller has said first that it is at work, and has looked after that.
    pub fn is_open(&self, extent: usize) -> bool {
        self.open[extent]
    }

    /// The node has given the right to an extent, asked when the generation was `asked`. It counts unless the last look found another, because
    /// then it may have been taken back on its way. Returns whether it counts.
    pub fn open(&mut self, extent: usize, asked: u64) -> bool {
        let counts = asked == self.generation;
        self.open[extent] |= counts;
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_in_the_text_and_says_one_thing() {
        assert_eq!(table::print(TABLE), include_str!("table.txt"));
        assert_eq!(table::contradiction(TABLE), None);
    }

    #[test]
    fn a_pointer_keeps_the_rights_of_all() {
        let mut direct_access = DirectAccess::<u8>::default();
        direct_access.map(1, false);
        direct_access.map(2, true);
        direct_access.map(2, false);
        assert_eq!((direct_access.revoke(), direct_access.standing()), (vec![], Standing::Pinned(1)));
        direct_access.unpin(2);
        assert_eq!((direct_access.revoke(), direct_access.standing()), (vec![1, 2], Standing::Busy(2)));
        assert!(direct_access.revoke().is_empty(), "once");
        direct_access.settle(1);
        direct_access.release(2);
        assert_eq!((direct_access.standing(), direct_access.programs().collect::<Vec<_>>()), (Standing::Free, vec![1]));
        direct_access.settle(2);
        direct_access.unpin(1);
        assert!(direct_access.revoke().is_empty());
    }
}
