//! Hanare: memory in addition to main memory. One pool of RAM that many machines lend, used as if it were near.
//!
//! ```no_run
//! use hanare::{CreateOptions, Pool};
//!
//! let pool = Pool::attach()?;
//! let region = pool.create_or_attach("greeting", 4096, &CreateOptions::default())?;
//! region.put(0, b"hello")?;
//! let mut back = [0; 5];
//! region.get(0, &mut back)?;
//! assert_eq!(&back, b"hello");
//! # Ok::<(), hanare::Error>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`Pool`], [`Region`] | the client's side: what a program does |
//! | `node` | the process of one host that lends memory and serves its clients: crate `hanare-node`, feature `node`, on by default |
//! | [`launch`] | which rank of which job a process is |
//! | [`last_word`] | how a rank ends its whole job |
//! | [`face`] | which face of the pool a program uses, for nodes' counts |
//! | [`settings`] | every `HANARE_…` variable |
//!
//! Not here: state machines (crate `protocol`), kernels and mappings (`memory`), rings (`ring`), sockets of the data path (`fabric`),
//! files and blocks, models.

mod client;
pub mod face;
pub mod last_word;
pub mod launch;
mod trace;

pub use client::{
    Batch, Body, CacheLine, Command, Completion, CopyDifference, CreateOptions, Explicit, Group, Heap, LaneStat, LastingBody,
    LocalMapping, LockGuard, Mailbox, MailboxOptions, MapAddress, MapOptions, Message, Modify, Number, PageCache, PageCounts,
    Part, Pool, PushedPage, Queue, QueueEvent, QueueSet, QueueStat, Queues, ReadPort, ReceiveId, Region, RegionLock, ScrubReport,
    SendId, SharedMapping, Signal, Trust, Unread, WritePort,
};
#[doc(inline)]
pub use hanare_fabric::Traffic;
pub use hanare_fabric::agree as fabrics;
pub use hanare_fabric::settings;
/// Names and keys of tenants, and the files that hold them.
pub use hanare_fabric::tenant_file;
#[doc(inline)]
pub use hanare_memory::Window;
#[doc(inline)]
pub use hanare_memory::capacity::available as available_memory;
#[doc(inline)]
pub use hanare_memory::fork::Lineage;
/// NUMA nodes of this host, and those that this process may use.
#[doc(inline)]
pub use hanare_memory::numa::topology as numa_topology;
#[cfg(feature = "node")]
#[doc(inline)]
pub use hanare_node as node;
pub use trace::timeline_files;
/// Features of this kernel's userfaultfd for mappings, tried with this process's rights.
pub mod userfaultfd {
    pub use hanare_memory::uffd::{Features, PARTS, Part};
}
#[doc(inline)]
pub use hanare_memory::file::Huge;
#[doc(inline)]
pub use hanare_protocol::array::Array;
#[doc(inline)]
pub use hanare_protocol::attributes::Attributes;
#[doc(inline)]
pub use hanare_protocol::element::{Element, Operator, Range, Summary, Value};
#[doc(inline)]
pub use hanare_protocol::entry::BoundShape;
#[doc(inline)]
pub use hanare_protocol::error::Happened;
#[doc(inline)]
pub use hanare_protocol::id::{ClientId, Epoch, Gid, JobId, JobRank, NodeId, Rank, Rights, User};
pub use hanare_protocol::limits::HEAP_WISH_COUNT_MAX;
#[doc(inline)]
pub use hanare_protocol::message::{Envelope, Wanted};
pub use hanare_protocol::page::Consistency;
#[doc(inline)]
pub use hanare_protocol::placement::{Extent, Layout, NodeList, Placement};
#[doc(inline)]
pub use hanare_protocol::queue::{Overflow, QueueForm, Unit};
#[doc(inline)]
pub use hanare_protocol::shape::{Dim, Indexed, Indices, Shape, Strided, Subarray};
#[doc(inline)]
pub use hanare_protocol::wire::backing::{Backing, BackingKind, BackingPages, Residence};
#[doc(inline)]
pub use hanare_protocol::wire::control::{
    Changes, DrainStatus, DrainWish, Memory, NodeStatus, OwnStatus, PageRun, PageStat, PoolStatus, RegionStat,
};
#[doc(inline)]
pub use hanare_protocol::wire::face::{FaceCounts, ProgramFace};
#[doc(inline)]
pub use hanare_protocol::wire::look::{LockStat, ProgramStat, Seen};
#[doc(inline)]
pub use hanare_protocol::wire::rebalance::{ExtentMove, FailedMove, RebalanceStatus, RebalanceWish};
pub use hanare_protocol::wire::sync::{Wait, Word};
#[doc(inline)]
pub use hanare_protocol::wire::tenant::{TenantStat, TenantWish};
#[doc(inline)]
pub use hanare_protocol::{Error, Result};
/// Traits of values that may lie in a region ([`Region::put_values`]), and their conversion to bytes for all other commands.
pub use zerocopy;

/// The programs of the README and of the book, compiled by `cargo test --doc`.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/tutorial.md")]
    struct Tutorial;
    #[doc = include_str!("../../../docs/queues.md")]
    struct QueuesPage;
    #[doc = include_str!("../../../docs/messages.md")]
    struct MessagesPage;
    #[doc = include_str!("../../../docs/commands.md")]
    struct Commands;
}
