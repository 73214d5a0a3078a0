//! The client's side: a program attached to its host's node.
//!
//! ```text
//! Pool ── Session ── control questions ──> this host's node (Unix socket)
//!   │
//! Region ── plan ──┬─ bytes of this host: mapped extents, copied directly
//!                  └─ Drafts ── Request ── Remote ── link ──> the node that holds them
//! ```

mod attachment;
mod attributes;
mod bound;
mod call_numbers;
mod command;
mod create_options;
mod cut;
mod drafts;
mod group;
mod heap;
mod home_request;
mod local;
mod locks;
mod looks;
mod mapping;
mod message;
mod own_region;
mod page_cache;
mod pending;
mod pool;
mod queue;
mod region;
mod remote;
mod repetition;
mod request;
mod rounds;
mod route;
mod scrub;
mod session;
mod shared;
mod sync_address;
mod threads;
mod trust;
mod words;

pub use attachment::PageCounts;
pub use command::{Batch, Command, Completion, Modify, Signal};
pub use create_options::CreateOptions;
pub use group::{Body, Group, LastingBody, Mailbox, MailboxOptions, Message, Number, Part, ReceiveId, SendId};
pub use heap::Heap;
pub use local::LocalMapping;
pub use locks::{LockGuard, RegionLock};
pub use page_cache::{CacheLine, PageCache, PushedPage};
pub use pool::Pool;
pub use queue::{LaneStat, Queue, QueueEvent, QueueSet, QueueStat, Queues, ReadPort, Unread, WritePort};
pub use region::Region;
pub use scrub::{CopyDifference, ScrubReport};
pub use shared::{Explicit, MapAddress, MapOptions, SharedMapping};
pub use trust::Trust;
