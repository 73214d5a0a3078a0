//! A store of the pool for clients of Redis: strings, expiry, counters and scans, by the protocol RESP, versions 2 and 3.
//!
//! Redis' keys are the store's keys of bytes: Python's `store.get(b"name")` reads what a client set as `name`. A command that is not here is
//! refused in Redis' words.
//!
//! | module | holds |
//! |---|---|
//! | `request`, `line`, `words` | commands as bytes, in any pieces, bounded in number and length of their words |
//! | `reply` | replies as bytes |
//! | `shared`, `session` | what all connections share; a client: its proof, its version of the protocol, its name |
//! | `refusal` | refusals, in Redis' words |
//! | `commands`, `strings`, `ranges`, `expiry`, `scan`, `about` | the commands: their table, and what they do |
//! | `connection` | a connection's turn: bytes come, commands are carried out, replies go; bounded in time and memory |
//! | `event_loop`, `watch`, `service` | few threads for all connections; another thread where a command lasts |
//!
//! All bytes of a client are input. No thread waits for a client, so one that is slow holds up no other. Memory of requests and replies has
//! a bound for each connection, and long ones have one for all together.

#![forbid(unsafe_code)]

mod about;
mod commands;
mod connection;
mod event_loop;
mod expiry;
mod line;
mod ranges;
mod refusal;
mod reply;
mod request;
mod scan;
mod service;
mod session;
mod shared;
mod strings;
mod watch;
mod words;

pub use service::{Options, Service};
pub use shared::Secret;
