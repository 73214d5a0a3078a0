//! The node's data path: vector commands of clients and their barriers, served by one thread.
//!
//! ```text
//! link ──> Inbox: commands admitted, operands taken in ──> Finished ──> Replies: the rest done, results sent ──> link
//!           └─ Need ──> pages that hosts have come home          Need ─┤
//!                                                                         └─ Fetch ──> Peer ──> the node that a copy's source is on
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `inbox` | where a message's bytes go, and what it asks for |
//! | `work` | one admitted command, and what is left of it |
//! | `replies` | answers under way, a stage at a time |
//! | `gathering` | bytes of extents on their way to a link, or to another extent |
//! | `later` | answers that nobody waits for, which go together |
//! | `sums` | what the commands of a message are together, and its limits |
//! | `session` | one link of a client, with its inbox and replies |
//! | `fetches` | bytes that copies need of other nodes, and the links to those |
//! | `peers` | how such links are made |
//! | `reach` | bytes of an extent, and the pages that a stage of a command needs at home |
//! | `seat` | what sits at a link: a client or a peer |
//! | `ended_links` | what is known of connections that have ended |
//! | `service` | the thread: which link to move, when to park |
//! | `memory` | the node's memory as its home reaches it |
//!
//! Locks, groups, words, heaps and ports of queues are decided by `hanare-home`, which `service` drives.

mod ended_links;
mod fetches;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod gathering;
mod inbox;
mod later;
mod memory;
mod peers;
mod reach;
mod replies;
mod seat;
mod service;
mod session;
mod sums;
mod work;

pub(crate) use service::{Service, ServiceTerms};
