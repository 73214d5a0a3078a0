//! The programs beside us: C sources compiled when a bench runs, and servers that are installed.

pub mod program;
pub mod redis;
