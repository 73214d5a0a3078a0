//! The programs beside us: C sources compiled when a bench runs, and servers that are installed.

pub mod folders;
pub mod local;
pub mod mpi;
pub mod program;
pub mod redis;
pub mod relay;
pub mod session;
