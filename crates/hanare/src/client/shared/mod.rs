//! Shared memory across nodes, on a client's side.

mod counters;
mod endpoint;
mod explicit;
mod lanes;
mod options;

pub(crate) use counters::FaultTraffic;
pub use counters::PageCounts;
pub use explicit::Explicit;
pub use options::MapOptions;
