//! Messages between clients and nodes. Every decoder takes any bytes and returns a value or a reason.
//!
//! A stream carries messages: a [`head::Head`], then `body_len` bytes. The body of a request is its [`command::Command`]s, then the bytes
//! of its puts in order. The body of a reply is the bytes of its gets in order. All else that goes over a data link is a query or a reply
//! of [`exchange`]. In it are what clients share ([`sync`], [`queue`]), what threads say of pages ([`page`]), and appends of a program to
//! another ([`link`]). So are what barriers and releases carry ([`carried`]), what a node has ([`look`]), and the faces of programs ([`face`]). Stores that count
//! together are in [`stores`]. Control messages
//! ([`control`]) are one postcard value in the body. What unchanged programs tell the keeper of their memory is in [`main_memory`]. A
//! stream begins with a [`greeting`].

pub mod backing;
pub mod carried;
pub mod command;
pub mod control;
pub mod copies;
pub mod exchange;
pub mod face;
pub mod greeting;
pub mod head;
pub mod link;
pub mod look;
pub mod main_memory;
pub mod page;
pub mod queue;
pub mod range_frame;
pub mod rebalance;
pub mod stores;
pub mod sync;
pub mod tenant;

pub use crate::malformed::Malformed;
