//! `dimmnet.h`: shared regions with explicit consistency, and vector memory.
//!
//! ```text
//!            one shared region, as one rank sees it: hanare's Explicit mapping
//!   pointer ─> │ mapped: bytes of this host │ pages of other nodes, here once they are touched │ mapped … │
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`rank`] | the process as a rank: init, barrier, finalize |
//! | [`memory`] | `dn_malloc` and its kin: which pointer is which region |
//! | [`board`] | a rank's vector memory, and that of others |
//! | [`vector`] | `VL` and its kin |
//! | [`report`] | failures go to the standard error output |

pub mod board;
pub mod memory;
pub mod rank;
pub mod report;
pub mod vector;
