//! Links between two processes of one host. A link is two rings and their flags in one sealed memory file, and a socket pair that wakes.
//!
//! A message is a run of records. The first begins with the head, the next ones go on with the body. Both sides copy once; that is right
//! for small messages, and large bodies are mapped instead.
//!
//! | module | holds |
//! |---|---|
//! | `layout` | where everything lies in the file |
//! | `side` | one side of the shared memory: rings, flags, the closing word |
//! | `bell` | what wakes a sleeping side, and tells of the other's death |
//! | `channel` | the link itself |

mod bell;
mod channel;
mod layout;
mod side;

pub use channel::ShmLink;
pub use side::ShmParts;
#[cfg(test)]
pub(crate) use side::Side;
