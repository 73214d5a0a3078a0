//! Links over UCX. It has InfiniBand, RoCE and other networks between hosts, shared memory on one host, and TCP as the last choice.
//!
//! Two sides meet over TCP, greet and prove the key as always ([`crate::tcp`]). Then [`crate::agree`] decides whether the link goes over
//! UCX. The TCP connection stays open beside it, because the kernel closes it when a process dies.
//!
//! Beyond a host, frames are sealed under the keys of that greeting: heads, commands with their grants, short bodies. Long bodies go from
//! window to window, as they are, if both sides were told so. Otherwise they go in sealed frames, too.
//!
//! Use of UCX: active messages for small parts (eager, 8 KiB at most). Long parts of bodies go by tagged messages and rendezvous, from
//! the sender's window to the sink's. No put, no get, no lists of pieces. Put and get of memory that UCX did not allocate need the
//! target's processor all the same, and version 1.13 moves wrong bytes when one is given a list.
//!
//! | module | holds |
//! |---|---|
//! | `bindings` | the functions of UCX 1.13 that are used, as bindgen wrote them |
//! | `library` | finding and opening the library |
//! | `context` | UCX initialised, with the settings a link needs; the transports of the machine |
//! | `endpoint` | one link's worker and endpoint: the calls of the library |
//! | `frame` | the form of a frame: a piece of the stream, counters, the length of bytes that follow from a window |
//! | `cover` | frames sealed |
//! | `arrivals` | frames put in order |
//! | `sender`, `receiver` | the two halves of a link |
//! | `life` | the peer's life, as a table |
//! | `link` | the link |
//! | `exchange` | how two sides connect |
//!
//! Version 1.13 and later. `HANARE_UCX` names the library, or a folder such as that of the Python package `libucx-cu12`.

mod arrivals;
mod bindings;
mod context;
mod cover;
mod endpoint;
mod exchange;
mod frame;
mod library;
mod life;
mod link;
mod receiver;
mod sender;
#[cfg(test)]
pub(crate) mod tests;

#[cfg(any(test, fuzzing))]
pub(crate) use frame::fuzz_frame;
pub use link::UcxLink;

use crate::kind::{Fabric, FabricInfo, Reason};
use std::path::Path;

/// The fabric, as two sides agree on it.
pub const FABRIC: Fabric = Fabric {
    name: "ucx",
    about: "InfiniBand, RoCE, Slingshot, and whatever else UCX knows",
    package: "Debian: libucx0",
    may_be_fast: may_have_rdma,
    available,
    connect: |beside, peer, deadline| Ok(Box::new(exchange::connect(beside, peer, deadline)?)),
};

/// True if this machine may have a card with RDMA: UCX looks for its cards there. Without one it is not worth opening, unless it is asked
/// for.
///
/// **Cost**: two system calls.
fn may_have_rdma() -> bool {
    let has_any = |folder: &str| std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    has_any("/sys/class/infiniband") || Path::new("/dev/kgni0").exists()
}

/// The UCX of this machine, or why there is none.
///
/// **Cost**: the first call opens and initialises the library, some 10 ms. Later ones print and read a page of text.
pub fn available() -> Result<FabricInfo, Reason> {
    context::context().map(context::Context::info)
}
