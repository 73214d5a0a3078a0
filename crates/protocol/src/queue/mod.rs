//! Queues: streams of blocks or records from many writers to one reader, in a region's memory. **Source**: [VQ §3], [D3 §3] IPUSH.
//!
//! | module | holds |
//! |---|---|
//! | [`layout`] | what a queue is made of, and where each part lies in memory |
//! | [`appends`] | which appends a write port sends again, and which units count: decided by its program |
//! | [`allowance`] | how much a node's queues may spill for each user |
//! | [`link`] | what goes from a writer's program straight to the reader's, and how it keeps its order with what the home appends |
//! | [`ports`] | the ports of an array as a value, for nodes that have copies of it |
//! | [`home`] | who writes and who reads; what an append, a refill and a death do: decided by the node that holds the memory |
//!
//! Each writer has a *lane* of its own in the queue's memory, so that none waits for another. Blocks of one lane are read in
//! the order of their commits; lanes have no order between each other.

#[deny(clippy::arithmetic_side_effects)]
pub mod allowance;
#[deny(clippy::arithmetic_side_effects)]
pub mod appends;
#[deny(clippy::arithmetic_side_effects)]
pub mod home;
#[deny(clippy::arithmetic_side_effects)]
pub mod layout;
#[deny(clippy::arithmetic_side_effects)]
pub mod link;
#[deny(clippy::arithmetic_side_effects)]
pub mod ports;

#[cfg(test)]
mod explore;

pub use appends::{AppendOrder, AppendStep, AppendTerms, BegunAppend};
pub use home::{Appended, Home, NoSpill, PortId, Ring, Store};
pub use layout::{Overflow, QueueForm, Unit};
pub use ports::{OpenPort, PortTable};
