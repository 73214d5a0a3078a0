//! What is said of bytes that mean nothing.

/// Why bytes from a peer are no message: they are dropped and the connection with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);
