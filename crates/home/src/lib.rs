//! The home of regions: decides who waits, until when, and what is said to whom. It does no I/O.
//!
//! A node drives one [`Home`] with its requests and its clock, and the simulator drives the same object:
//!
//! ```text
//! home.handle(now, input, memory)      a request, a link that ended, a message of another node, the time
//! while let Some(output) = home.poll(memory) { ... }
//! sleep until home.deadline(), then home.handle(now, Input::Tick, memory)
//! ```
//!
//! - `now` is the time since some moment that the caller chose, and never goes back.
//! - Memory is a trait ([`Memory`]). The home reads and writes bytes through it while it handles an input, and returns at once.
//! - Outputs come in the order of their causes. Each request gets one answer, at most: a link that ended gets none.
//!
//! | module | holds |
//! |---|---|
//! | `home` | the object: each input goes to the parts that decide it |
//! | `events` | its inputs and outputs |
//! | `memory` | what a home asks of memory |
//! | `vectors` | such memory, for simulators and tests |
//! | `locks`, `words` | requests that wait for a lock, a group, a job or a word, each with its link and its deadline |
//! | `leases` | leases of locks, and the nodes that are asked for them |
//! | `commands` | vector commands of one link, fairness between links, what is known of ended links |
//! | `carried` | bytes of this home that go with an arrival at a barrier, or with a lock that is given back |
//! | `copies` | extents with copies on other nodes ([`Copies`]) |
//! | `copied_requests` | requests on those |
//! | `wire_output` | orders about connections between nodes |
//! | `open_stores` | stores to extents with copies whose last part has not come, by link |
//! | `queue_ports` | ports of queues, by link |
//! | `queue_arrays` | arrays of queues of one extent: which are in use, who may, what requests and appends do |
//! | `queue_calls` | calls on queues whose extents have copies |
//! | `queue_doubts` | ports of which a home that follows another has not heard |
//! | `queue_words` | what a home asks of queues' memory |
//! | `heaps` | heaps of regions |
//! | `pages` | shared regions ([`Pages`]): who has which page |
//! | `mapped_homes` | homes of pages beside the homes of their extents |
//! | `quotas` | what each user has of the tables |
//! | `waiter` | where an answer goes |
#![forbid(unsafe_code)]

mod carried;
mod commands;
mod copied_requests;
mod copies;
mod events;
mod heaps;
mod home;
mod leases;
mod locks;
mod mapped_homes;
mod memory;
mod open_stores;
mod pages;
mod queue_arrays;
mod queue_calls;
mod queue_doubts;
mod queue_ports;
mod queue_words;
mod quotas;
mod vectors;
mod waiter;
mod wire_frame;
mod wire_output;
mod words;

pub use commands::{
    AdmittedCommand, Answers, Arrived, Buffers, CommandExtent, CommandMemory, CopyEnd, Destination, EndedFetch, EndedLinks,
    Execution, Fetch, FetchLink, FetchPeers, FetchTarget, Finished, Incoming, LinkCommands, LinkOutcomes, Location, Next, Part,
    Parts, Response, Rounds, StageBytes, runs, stage_pages,
};
pub use copies::{Copies, CopyInput, CopyOutput};
pub use events::{Counts, Input, Output, SyncOutput};
pub use home::Home;
pub use locks::LockTerms;
pub use memory::{Bytes, Memory, Need, Recall};
pub use pages::{
    FileParts, FrameTerms, HomePages, HostFrames, NODE_SLOTS, NotShared, PageBody, PageBytes, PageInput, PageMemory, PageOutput,
    PageReply, PageTerms, PageVectors, Pages, RegionRequest, SLOTS, VectorFrames, VectorPages,
};
pub use queue_arrays::{LinkBegin, QueueArray, QueueArrays};
pub use queue_ports::LaneAt;
pub use queue_words::{QueueMemory, QueueWords};
pub use vectors::{SpillingVector, SpillingVectors, Vector, VectorExecution, Vectors, write_runs};
pub use waiter::Waiter;
pub use wire_frame::WireFrame;
pub use wire_output::WireOutput;

#[cfg(test)]
mod tests;
