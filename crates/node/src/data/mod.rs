//! The node's data path: vector commands of clients and their barriers, served by one thread.
//!
//! ```text
//! link ──> Inbox: buffers of what comes in ──> LinkCommands (home): what is done next ──> Replies: buffers of what leaves ──> link
//!                                                  ├─ Need ──> pages that hosts have come home
//!                                                  └─ Fetch ──> Peer ──> the node that a copy's source is on
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `inbox` | buffers and windows of messages that come in |
//! | `execution` | the moves of a command's bytes |
//! | `replies` | buffers and windows of answers |
//! | `gathering` | bytes of results on their way to a link |
//! | `session` | one link of a client, with its inbox and replies |
//! | `fetches` | bytes that copies need of other nodes, and the links to those |
//! | `peers` | how such links are made |
//! | `connection` | what sits at a link: a client or a peer |
//! | `service` | the thread: which link to move, when to park |
//! | `memory` | the node's memory as its home reaches it |
//!
//! Locks, groups, words, heaps, queues and commands are decided by `hanare-home`, which `service` and `session` drive.

mod connection;
mod execution;
mod fetches;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod gathering;
mod inbox;
mod memory;
mod peers;
mod replies;
mod service;
mod session;

pub(crate) use service::{Service, ServiceTerms};
