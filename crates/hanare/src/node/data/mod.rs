//! The node's data path: vector commands of clients and their barriers, served by one thread.
//!
//! ```text
//! link ──> Inbox: commands admitted, puts written where they belong ──> Finished ──> Replies: gets gathered ──> link
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `inbox` | where a message's bytes go, and what it asks for |
//! | `replies` | answers under way, gathered a stage at a time |
//! | `session` | one link with its inbox and replies |
//! | `service` | the thread: which link to move, when to park |
//! | `barriers` | who waits at which barrier, on which link |

mod barriers;
mod inbox;
mod replies;
mod service;
mod session;

pub(crate) use service::{Mail, Service};
