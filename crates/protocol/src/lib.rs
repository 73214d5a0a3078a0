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
//! | [`shape`] | which bytes a command touches: strided, N-dimensional, indexed; checked |
//! | [`element`] | numbers in regions: kinds, updates, summaries |
//! | [`page`] | the pages of a shared extent: the directory at their home, and what each host does |
//! | [`lock`], [`group`], [`heap`] | what clients share: named locks, barriers of named groups and of jobs, a heap in a region |
//! | [`coordinator`] | names, GIDs, placement, leases and epochs: what one node decides for all |
//! | [`member`] | a node's side of membership: its lease, its orders, its clients' requests |
//! | [`table`] | the form in which every state machine declares its transitions |
//! | [`wire`] | what travels: heads, commands, control messages, the greeting |
#![forbid(unsafe_code)]

pub mod coordinator;
pub mod element;
pub mod error;
pub mod group;
pub mod heap;
pub mod id;
pub mod limits;
pub mod lock;
pub mod member;
pub mod page;
pub mod place;
pub mod shape;
pub mod table;
pub mod wire;

pub use error::{Error, Result};
