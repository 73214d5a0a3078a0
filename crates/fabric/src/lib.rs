//! Moving messages between processes and hosts: one contract, and shm, tcp and UCX behind it.
//!
//! | module | holds |
//! |---|---|
//! | [`link`] | the contract: [`Link`], [`Sink`], [`Progress`], [`LinkError`]; what passed over links, [`Traffic`] |
//! | [`tcp`] | links between any two machines: connect, listen, greet, prove |
//! | [`shm`] | links between two processes of one host: rings in shared memory |
//! | [`ucx`] | links over UCX, loaded at run time: RDMA where it is there |
//! | [`agree`], `offer`, `kind` | the fabrics; which of them a connection between hosts gets |
//! | [`stream`] | the link that `tcp` is: over any stream of bytes |
//! | `outbox`, `inbox` | what every fabric shares: the unsent part of a stream, and messages out of one |
//! | [`control_socket`] | the Unix socket between a program and its node |
//! | [`settings`] | each `HANARE_…` variable |
//! | [`tenant_file`], [`regular_file`] | a tenant's name and key; files that are opened by name |
//! | [`mod@wait`] | waiting for a link: pause, yield, park |
//!
//! # The life of a message
//!
//! ```text
//!  caller     send(head, windows)           one sending call; what does not fit stays in the outbox
//!                |                           ... extend(windows): the next stage of the same body
//!             progress                       sends the rest as the peer reads; windows are free at unsent_len() == 0
//!                |
//!  ~~~~~~~~~~ bytes ~~~~~~~~~~
//!                |
//!  peer       progress                       one receiving call: [rest of the sink's window] [buffer]
//!             Head::decode                   refuses what no peer sends: the link ends with Garbage
//!             Sink::place(head, 0)           where does the body go? the sink may refuse too
//!                |                           bytes behind the head are copied; later ones arrive in the window itself
//!             Sink::place(head, at) ...      each time a window is full
//!             Sink::message(head)            all of it is there
//! ```
//!
//! Not here: the meaning of messages, requests and their replies, names of nodes, threads, and memory of its own beyond one buffer a
//! link.

pub mod agree;
pub mod control_socket;
mod ending;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod inbox;
mod kind;
pub mod link;
mod offer;
mod outbox;
pub mod regular_file;
pub mod settings;
pub mod shm;
pub mod stream;
pub mod tcp;
pub mod tenant_file;
pub mod ucx;
pub mod wait;

pub use link::{Link, LinkError, Progress, Refusal, Sight, Sink, Traffic};
pub use wait::wait;

#[cfg(test)]
mod conformance;
