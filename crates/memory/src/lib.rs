//! Memory that others can change: lent slabs, mappings, accessors and vector kernels.
//!
//! | module | holds |
//! |---|---|
//! | [`window`] | [`Window`]: a range of such memory, never a Rust reference |
//! | [`guard`] | copies that survive SIGBUS and say what was lost |
//! | [`vector`] | the kernels: gather, scatter, copy, fill, compare, digest, reduce and update, for any shape |
//! | [`exec`] | a command's operation on memory, in stages |
//! | [`mod@file`] | sealed memory files and the kind of pages they have |
//! | [`mapping`] | a client's view of an extent: files mapped one after another |
//! | [`fault`] | the SIGBUS handler's way to whoever can resolve a fault of a registered mapping |
//! | `watched` | the mappings whose faults are resolved |
//! | [`fork`] | what children do not get: handles, connections |
//! | [`frames`] | a region's pages on one host: filled, taken from all clients, given back |
//! | [`uffd`] | userfaultfd: pages that fault to the thread that touched them, mapped and protected by call |
//! | [`thread_slot`] | a number for each thread |
//! | [`diff`] | diffs: what a program changed of a page since it was clean |
//! | [`mod@numa`] | NUMA nodes: which there are, files bound to some of them, the node of a page |
//! | [`residence`] | where a window's bytes lie in the host's memory |
//! | [`allocator`] | memory that the process keeps when it is freed |
//! | [`capacity`] | how much memory the machine and its control group have |
//! | [`prompt`] | threads that ask for short turns on the processor |
//! | [`random`] | random bytes of the kernel |
//! | [`vital`] | threads whose panic ends the process |
//! | [`lender`] | what a node lends: slabs made, populated, wiped and given back in the background; extents cut from them |
//!
//! Not here: grants, names, regions of several extents, sockets; and no threads but the lender's own.

pub mod allocator;
pub mod capacity;
pub mod diff;
pub mod exec;
pub mod fault;
pub mod file;
pub mod fork;
pub mod frames;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod guard;
pub mod lender;
pub mod mapping;
pub mod numa;
mod promise;
pub mod prompt;
pub mod random;
pub mod residence;
pub mod thread_slot;
pub mod uffd;
pub mod vector;
pub mod vital;
mod watched;
pub mod window;

pub use guard::{Lost, Side};
pub use lender::{Extent, HostShortage, HostTerms, HostWatch, KeepFree, Lender, LenderOptions, Source};
pub use mapping::Mapping;
pub use window::Window;
