//! A store of the pool for clients of Redis: strings, expiry, counters and scans, by the protocol RESP, versions 2 and 3.
//!
//! Redis' keys are the store's keys of bytes: Python's `store.get(b"name")` reads what a client set as `name`. A command that is not here is
//! refused in Redis' words.
//!
//! | module | holds |
//! |---|---|
//! | `request` | commands as bytes: bounded in number and length of their words |
//! | `reply` | replies as bytes |
//! | `shared`, `session` | what all connections share; one of them: its proof, its version of the protocol, its name |
//! | `refusal` | refusals, in Redis' words |
//! | `commands`, `strings`, `expiry`, `scan`, `about` | the commands: their table, and what they do |
//! | `serving`, `service` | the course of a connection, bounded in time; connections in threads of their own |
//!
//! All bytes of a client are input. A connection has a thread, so one that is slow holds up no other. Memory of requests and replies has a
//! bound for each connection, and long requests one for all together.

#![forbid(unsafe_code)]

mod about;
mod commands;
mod expiry;
mod refusal;
mod reply;
mod request;
mod scan;
mod service;
mod serving;
mod session;
mod shared;
mod strings;

pub use service::{Options, Service};
pub use shared::{Connection, Secret};
