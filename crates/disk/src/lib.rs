//! Files: the pool for programs that nobody changed. [`files::mount`] makes a file system of the pool a folder of this host.
//!
//! Not here: a way of its own to keep or move bytes, because it stands on the library's public calls; blocks, which are nbdkit's plugin
//! (`crates/nbdkit`).

#![forbid(unsafe_code)]

pub mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod main_memory;
