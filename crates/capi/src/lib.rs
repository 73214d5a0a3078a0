//! The C face: `hanare.h`, `dimmnet.h` and `rhinet.h`.
//!
//! The headers are the contract; this crate holds them to it. Each exported function checks its arguments, turns
//! them into a call of the crate `hanare`, and turns what comes of it into a code and a message ([`border`]).
//!
//! | module | holds |
//! |---|---|
//! | [`border`] | the one way in and out: panics stop here, errors become codes and messages |
//! | [`code`] | the numbers of errors |
//! | [`argument`] | C pointers and strings, checked |
//! | [`shape`], [`element`] | shapes, and kinds of numbers, as C gives them |
//! | [`recorded`] | a command as C gave it: checked, run, or kept in a batch |
//! | `calls` | the two calls that every command has: now, and in a batch |
//! | [`pool`], [`region`], [`naming`], [`attribute`], [`command`], [`moves`], [`numbers`], [`words`], [`request`], [`batch`], [`map`], [`sync`], [`queue`], [`dict`], [`store`], [`group`], [`message`] | `hanare.h`, by its headings |
//! | [`dimmnet`], [`rhinet`] | `dimmnet.h`, `rhinet.h` |
//!
//! Safety invariants of the crate:
//!
//! 1. A handle that C holds is a `Box` turned into a pointer, given out once, and turned back by the one call that the
//!    header names for it. That C does not use it afterwards is the caller's promise.
//! 2. Any other pointer is used during the call only, for the length that came with it. The exceptions: the header says that the bytes
//!    belong to the library until `hanare_wait` or `hanare_wait_sent`, a batch keeps them ([`recorded`]), or they are a registered buffer
//!    ([`rhinet`]).
//! 3. No panic leaves an exported function.

pub mod argument;
pub mod attribute;
pub mod batch;
pub mod border;
mod calls;
pub mod code;
pub mod command;
pub mod dict;
pub mod dimmnet;
pub mod element;
pub mod group;
mod group_ranks;
pub mod map;
mod mapped;
pub mod message;
pub mod moves;
pub mod naming;
pub mod numbers;
pub mod pool;
pub mod queue;
pub mod recorded;
pub mod region;
pub mod request;
pub mod rhinet;
pub mod shape;
pub mod store;
pub mod sync;
pub mod words;
