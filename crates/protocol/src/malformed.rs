//! The error for bytes that mean nothing.

use thiserror::Error;

/// Memory that a peer shares has in it what no correct side writes, and is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("what lies in shared memory makes no sense: {0}")]
pub struct Corrupt(pub &'static str);

/// Why bytes from a peer are no message: they are dropped and the connection with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}
