//! What travels between clients and nodes. Every decoder takes any bytes and returns a value or a reason.
//!
//! A stream carries messages: a [`head::Head`], then `body_len` bytes. The body of a request is its
//! [`command::Command`]s, then the bytes of its puts in order; the body of a reply is the bytes of its gets in order.
//! Control messages ([`control`]) and what clients ask of each other ([`sync`], [`queue`]) are one postcard value in the body. A stream begins with a [`greeting`].

pub mod command;
pub mod control;
pub mod greeting;
pub mod head;
pub mod page;
pub mod queue;
pub mod sync;

/// Version of everything in this module; builds with another one are refused at the greeting.
pub const VERSION: u32 = 7;

pub use crate::malformed::Malformed;
