//! Shared memory across nodes, on a client's side.
#![allow(dead_code, reason = "the resolvers of faults, which use these, come next")]

mod endpoint;
mod lanes;
