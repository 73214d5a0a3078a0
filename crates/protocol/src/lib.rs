//! The rules of the pool, without any I/O.
//!
//! Everything here is pure: no clock, socket, thread, page table or unseeded randomness. A caller gives an input and the time, and drains
//! outputs. The node does so for real, the simulator under a seed.
//!
//! | module | holds |
//! |---|---|
//! | [`id`] | the names of things: [`id::Gid`], [`id::NodeId`], [`id::Epoch`], [`id::Grant`] … |
//! | [`name`] | which names regions, locks and nodes may have |
//! | [`limits`] | every limit and default time, in one place |
//! | [`error`] | the one error type that users see |
//! | [`attributes`], [`mod@array`] | short values that a region's owner keeps with it; those that say which array it holds |
//! | [`placement`] | placement, and how a region's bytes lie in extents |
//! | [`shape`] | which bytes a command touches: strided, N-dimensional, indexed; checked |
//! | [`size`] | sizes as people write and read them |
//! | [`element`] | numbers in regions: kinds, updates, summaries |
//! | [`page`] | the pages of a shared extent: the directory at their home, and what each host does |
//! | [`request`] | the life of a client's request |
//! | [`queue`] | queues in a region's memory: their layout, and what their home decides |
//! | [`lock`], [`group`], [`heap`] | what clients share: named locks, barriers of named groups and of jobs, a heap in a region |
//! | [`entry`] | data bound to locks: what the next holder has not seen |
//! | [`name_owners`] | owners and modes of the names of locks and groups |
//! | [`message`] | messages with a head and a body: which receive gets which |
//! | [`digest`] | 16 bytes by which two hosts find out that they have the same page |
//! | [`collective`] | who sends what to whom when a group reduces, gathers, exchanges |
//! | [`copies`] | copies of an extent: the order of its writes, and who is home when nodes are lost |
//! | [`session`] | which connections a node carries out commands for |
//! | [`coordinator`] | names, GIDs, placement, leases and epochs: what one node decides for all |
//! | [`keeper_list`] | the nodes that hold the coordinator's journal together |
//! | [`numa`] | NUMA nodes of a host, and which of them are lent from |
//! | [`member`] | a node's side of membership: its lease, its orders, its clients' requests |
//! | [`turns`] | whose turn it is, where one thread serves many: users one after another
//! | [`table`] | the form in which every state machine declares its transitions |
//! | [`versions`] | versions of the wire, so that two releases work side by side |
//! | [`wire`] | what travels: heads, commands, control messages, the greeting |
#![forbid(unsafe_code)]

pub mod array;
pub mod attributes;
pub mod collective;
#[deny(clippy::arithmetic_side_effects)]
pub mod coordinator;
pub mod copies;
pub mod digest;
pub mod element;
pub mod entry;
pub mod error;
#[cfg(test)]
mod explored;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod group;
mod happened;
pub mod heap;
pub mod id;
pub mod keeper_list;
pub mod limits;
pub mod lock;
mod malformed;
pub mod member;
pub mod message;
pub mod name;
pub mod name_owners;
pub mod numa;
mod packed_bytes;
pub mod page;
#[deny(clippy::arithmetic_side_effects)]
pub mod placement;
pub mod queue;
pub mod request;
pub mod session;
pub mod shape;
pub mod size;
pub mod table;
pub mod tenant;
pub mod turns;
#[deny(clippy::arithmetic_side_effects)]
pub mod usage;
#[deny(clippy::arithmetic_side_effects)]
pub mod versions;
pub mod wire;

pub use error::{Corrupt, Error, Result};
