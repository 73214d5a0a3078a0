//! Lives of nodes: which are over.

use crate::id::{Epoch, Incarnation};

/// A life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    /// The epoch in which it joined.
    pub epoch: Epoch,
    /// The process, once it has been heard.
    pub process: Option<Incarnation>,
}

/// The lives of a node that are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Lives of epochs up to this one, as the membership says.
    UpTo(Epoch),
    /// All but this one, which answers at its address.
    AllBut(Incarnation),
    /// The node cannot be reached.
    All,
}

impl Life {
    /// True if it is one of the lives that are over.
    pub fn is_over(self, over: Over) -> bool {
        match over {
            Over::UpTo(epoch) => self.epoch <= epoch,
            Over::AllBut(process) => self.process != Some(process),
            Over::All => true,
        }
    }
}
