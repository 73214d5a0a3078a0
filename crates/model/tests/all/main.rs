//! The models against the papers' facts: a module a paper.

mod dimmnet3_model;
mod euphoria;
mod million_queues;
mod rhinet_fagus_model;
mod same_bytes;
mod virtual_queue;
