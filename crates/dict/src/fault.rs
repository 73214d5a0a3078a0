//! Why a step was not done.

use hanare::Error;

/// Why a step was not done. Callers try again, after the action that the fault asks for.
#[derive(Debug, PartialEq)]
pub enum Fault {
    /// Bytes were another's by the time they were read, or another program was faster.
    Changed,
    /// The word never changes again: the table is made anew.
    Frozen,
    /// No heap that is there has room.
    Full,
    /// The table is the dictionary's no more, or another program makes one.
    Moved,
    /// The pool refused.
    Pool(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Pool(error)
    }
}
