//! Vector commands of one link: which are admitted, which bytes are read or written next, and when an answer goes.
//!
//! ```text
//! message ──> Incoming: commands admitted, operands taken in as they come ──> Finished ──> Answers: the rest done, results sent
//!               └─ Need ──> pages that hosts have come home                                Need ─┤
//!                                                                                                └─ Fetch ──> bytes of another node
//! ```
//!
//! Each link has a [`LinkCommands`] of its own, so a command needs no look-up. The driver owns the buffers and the link:
//!
//! ```text
//! Incoming::place(head, at, buffers)    where the next bytes of a message belong: the driver receives them there
//! Incoming::message(head, buffers)      the message is whole
//! while let next = Answers::next(now, unsent) { ... }    what leaves next, after what was done
//! ```
//!
//! A stage of a command is of bounded length, and others have their turn behind it. The driver's [`Execution`] moves its bytes.
//!
//! | module | holds |
//! |---|---|
//! | `ahead` | writes to copies that are under way while their message goes on |
//! | `memory` | what commands ask of a home's memory |
//! | `command` | one admitted command, and what is left of it |
//! | `destination` | places of a message's bytes |
//! | `incoming` | where a message's bytes go, and what it asks for |
//! | `sums` | what the commands of a message are together, and its limits |
//! | `answers` | answers under way, a stage at a time |
//! | `current` | the answer that is being made |
//! | `later` | answers that nobody waits for, which go together |
//! | `fetch` | bytes that copies need of other nodes |
//! | `fetch_link` | the replies of one other node to those: where they belong, and when they wait for pages |
//! | `fetch_peers` | the other nodes, and the fetches that wait for a link to one |
//! | `stage_pages` | the pages that a stage needs at home |
//! | `outcomes` | what is known of requests when their connection has ended |
//! | `link` | the commands of one link |
//! | `rounds` | fairness: whose turn it is between links and users |

mod ahead;
mod answers;
mod command;
mod current;
mod destination;
mod fetch;
mod fetch_link;
mod fetch_peers;
mod incoming;
mod later;
mod link;
mod memory;
mod outcomes;
mod rounds;
mod stage_pages;
mod sums;

pub use answers::{Answers, Next, Parts, Response};
pub use command::{AdmittedCommand, Location};
pub use current::Part;
pub use destination::{Buffers, Destination};
pub use fetch::{Fetch, FetchTarget};
pub use fetch_link::{EndedFetch, FetchLink};
pub use fetch_peers::FetchPeers;
pub use incoming::{Arrived, Finished, Incoming};
pub use link::LinkCommands;
pub use memory::{CommandExtent, CommandMemory, CopyEnd, Execution, StageBytes};
pub use outcomes::{EndedLinks, LinkOutcomes};
pub use rounds::Rounds;
pub use stage_pages::{runs, stage_pages};

#[cfg(test)]
mod tests;
