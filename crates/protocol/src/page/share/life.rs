//! Lives of nodes: which are over.

use crate::id::{Epoch, Incarnation};

/// Which life of a node somebody belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    /// The epoch in which it joined.
    pub epoch: Epoch,
    /// The process, once it has been heard.
    pub process: Option<Incarnation>,
}

/// Which lives of a node are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Those of epochs up to this one, as the membership says.
    UpTo(Epoch),
    /// All but this one, which answers at its address.
    AllBut(Incarnation),
    /// It cannot be reached.
    All,
}

impl Life {
    /// Whether it is one of those that are over.
    pub fn is_over(self, over: Over) -> bool {
        match over {
            Over::UpTo(epoch) => self.epoch <= epoch,
            Over::AllBut(process) => self.process != Some(process),
            Over::All => true,
        }
    }
}
