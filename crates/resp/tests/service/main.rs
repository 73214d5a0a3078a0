//! A service on a store of a node of this process, at the other end of a socket: what clients send and do, good and bad.

mod bounds;
mod client;
mod order;
