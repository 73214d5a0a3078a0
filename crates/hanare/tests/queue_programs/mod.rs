//! Programs of chance over queues: what a seed plays, what its programs do, and what their logs have to say.

pub mod judge;
pub mod plan;
pub mod program;
pub mod run;
