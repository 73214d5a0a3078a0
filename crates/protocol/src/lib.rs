//! The rules of the pool, without any I/O.
//!
//! Everything here is pure: no clock, socket, thread, page table or unseeded randomness. A caller
//! gives an input and the time, and drains outputs; the node does so for real, the simulator under
//! a seed.
//!
//! | module | holds |
//! |---|---|
//! | [`id`] | the names of things: [`id::Gid`], [`id::NodeId`], [`id::Epoch`], [`id::Grant`] … |
//! | [`limits`] | every limit and default time, in one place |
//! | [`error`] | the one error type that users see |
//! | [`place`] | placement, and how a region's bytes lie in extents |
//! | [`shape`] | contiguous and strided ranges, checked |
//! | [`wire`] | what travels: heads, commands, control messages, the greeting |
#![forbid(unsafe_code)]

pub mod error;
pub mod id;
pub mod limits;
pub mod place;
pub mod shape;
pub mod wire;

pub use error::{Error, Result};
