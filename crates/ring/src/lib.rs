//! Lock-free rings in shared memory, doorbells and the wait policy.
//!
//! | module | holds |
//! |---|---|
//! | [`layout`] | where everything lies in shared memory: offsets, magic, version |
//! | [`words`] | what a ring needs of its memory: 64-bit words and bytes |
//! | [`spsc`] | a ring of records, one producer and one consumer |
//! | [`bell`] | a doorbell that costs a system call only while the other side sleeps |
//! | [`lane`] | units of a queue from one writer to one reader, which may have successors |
//! | [`mod@array`] | an array of queues: which sleepers to wake |
//! | [`board`] | which of many queues have something |
//! | [`park`] | sleeping on a word of shared memory |
//! | [`page_word`] | the state of each page of a shared region on one host, driven by all its clients and the node |
//! | [`own_page`] | the state of each page whose frame is one process's own, driven by its threads |
//! | [`revoke`] | a right that a node takes back from programs that use it without a message |
//! | [`thread_slots`] | the memory with the words of `revoke` and `lease` of one program |
//! | [`lease`] | leases of locks, which the node may take back |
//! | [`wait`] | how to wait: pause, yield, park |
//! | [`testing`] | memory of one thread, for tests and the simulator |
//!
//! Shared memory is never trusted: a position, length or magic from the other side is input. Not here: making and passing the memory,
//! messages, the other end's identity and life.

pub mod array;
pub mod bell;
pub mod board;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod lane;
pub mod layout;
pub mod lease;
pub mod own_page;
pub mod page_word;
pub mod park;
pub mod revoke;
pub mod spsc;
pub mod testing;
pub mod thread_slots;
pub mod wait;
pub mod words;

pub use hanare_protocol::Corrupt;
pub use spsc::{Consumer, Producer, Record};
pub use wait::{Backoff, Step};
pub use words::{Exchange, Shared, Words};
