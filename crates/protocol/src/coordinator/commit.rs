//! Outputs that wait until the records before them are committed: decides when the driver may act on what a coordinator says.
//!
//! A *pass* is everything that a coordinator gives out at once: its records, which are one batch of the journal, and its other outputs.
//! Those leave when the journal has committed the batch and all batches before it. So nobody sees what the next coordinator may not know.

use super::{Coordinator, Output, Record};
use std::collections::VecDeque;

/// The number of a batch of a journal, in the order in which batches were appended; zero comes before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchNumber(pub u64);

/// A journal as coordinators see it: batches are committed in the order in which they were appended, at once or later.
pub trait Commits {
    /// Reasons why a batch was not appended. Nothing more may be acknowledged then.
    type Error;

    /// Appends the records of one pass, all or none of which are committed. A pass without records waits for the passes before it. A journal
    /// that others may write, too, proves first that nobody else did.
    ///
    /// **Errors**: the journal's.
    fn append(&mut self, records: Vec<Record>) -> Result<BatchNumber, Self::Error>;

    /// The last batch that is committed.
    fn committed(&self) -> BatchNumber;
}

/// Outputs of a coordinator, in order, each with the batch that it waits for.
#[derive(Clone, Debug, Default)]
pub struct WaitingOutputs {
    waiting: VecDeque<(BatchNumber, Output)>,
}

impl WaitingOutputs {
    /// Takes a pass: appends its records, and has its outputs wait for them. So nobody waits for a write for each of many others.
    ///
    /// **Errors**: the journal's.
    pub fn take<J: Commits>(&mut self, machine: &mut Coordinator, journal: &mut J) -> Result<(), J::Error> {
        let (mut records, mut outputs) = (Vec::new(), Vec::new());
        while let Some(output) = machine.poll() {
            match output {
                Output::Journal(record) => records.push(record),
                output => outputs.push(output),
            }
        }
        if records.is_empty() && outputs.is_empty() {
            return Ok(());
        }
        let number = journal.append(records)?;
        self.waiting.extend(outputs.into_iter().map(|output| (number, output)));
        Ok(())
    }

    /// The next output whose records are committed.
    pub fn next(&mut self, committed: BatchNumber) -> Option<Output> {
        let (number, _) = self.waiting.front()?;
        if *number > committed { None } else { self.waiting.pop_front().map(|(_, output)| output) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::{Peer, Settings};
    use crate::id::Incarnation;
    use crate::wire::control::{FromNode, Memory, ToNode};

    #[derive(Default)]
    struct Late {
        batches: Vec<Vec<Record>>,
        committed: BatchNumber,
    }

    impl Commits for Late {
        type Error = ();

        fn append(&mut self, records: Vec<Record>) -> Result<BatchNumber, ()> {
            if !records.is_empty() {
                self.batches.push(records);
            }
            Ok(BatchNumber(self.batches.len() as u64))
        }

        fn committed(&self) -> BatchNumber {
            self.committed
        }
    }

    fn join(name: &str) -> FromNode {
        let (incarnation, name, address) = (Incarnation(7), name.to_owned(), String::new());
        let (memory, was, held, wish, restores) = (Memory::default(), None, Vec::new(), None, None);
        FromNode::Join { incarnation, attempt: 1, name, address, memory, was, held, wish, restores }
    }

    #[test]
    fn outputs_wait_for_their_batch_and_for_those_before_it() {
        let (mut machine, mut journal) = (Coordinator::new(Settings::new("a")), Late::default());
        let mut outputs = WaitingOutputs::default();
        outputs.take(&mut machine, &mut journal).unwrap();
        machine.handle(0, Peer(0), join("a"));
        outputs.take(&mut machine, &mut journal).unwrap();
        assert_eq!(journal.batches.len(), 2, "that it began, and that a node joined");
        // An answer without records of its own.
        machine.handle(0, Peer(9), FromNode::Leave { keeps: false });
        outputs.take(&mut machine, &mut journal).unwrap();
        assert_eq!(journal.batches.len(), 2);
        journal.committed = BatchNumber(1);
        assert_eq!(outputs.next(journal.committed()), None);
        journal.committed = BatchNumber(2);
        assert!(matches!(outputs.next(journal.committed()), Some(Output::Send(Peer(0), ToNode::Welcome { .. }))));
        assert_eq!(outputs.next(journal.committed()), Some(Output::Send(Peer(9), ToNode::Unknown)));
        assert_eq!(outputs.next(journal.committed()), None);
    }
}
