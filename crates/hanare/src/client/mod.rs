//! The client's side: a program attached to its host's node.
//!
//! ```text
//! Pool ── Session ── control questions ──> this host's node (Unix socket)
//!   │
//! Region ── plan ──┬─ bytes of this host: mapped extents, copied directly
//!                  └─ Drafts ── Request ── Remote ── link ──> the node that holds them
//! ```

mod batch;
mod call;
mod checks;
mod commands;
mod completion;
mod copy;
mod drafting;
mod drafts;
mod group;
mod heap;
mod joins;
mod locks;
mod mapping;
mod plan;
mod pool;
mod region;
mod remote;
mod request;
mod session;
mod shared;
mod spread;
mod subject;
mod words;

pub use batch::Batch;
pub use checks::fit_buffer;
pub use commands::Modify;
pub use completion::Completion;
pub use group::{Group, Part};
pub use heap::Heap;
pub use locks::LockGuard;
pub use mapping::LocalMapping;
pub use pool::{CreateOptions, Pool};
pub use region::Region;
pub use shared::{Explicit, MapOptions, PageCounts, SharedMapping};
pub(crate) use shared::{LOSS_SEAT, seat};
pub use words::{WordGuard, WordLock};
