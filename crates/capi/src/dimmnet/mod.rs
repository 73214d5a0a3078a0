//! `dimmnet.h`: shared regions with explicit consistency, and vector memory.
//!
//! ```text
//!            one shared region, as one rank sees it
//!   pointer ─> │ mapped: bytes of this host │ copy: bytes of other nodes │ mapped … │
//!                                             twin: the copy as it was at the last dn_malloc, flush or update
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`rank`] | the process as a rank: init, barrier, finalize |
//! | [`memory`] | `dn_malloc` and its kin: which pointer is which region |
//! | [`shared`] | one shared region: the map, the copy and the twin |
//! | [`diff`] | which bytes differ, as runs and patterns of runs |
//! | [`board`] | a rank's vector memory, and that of others |
//! | [`vector`] | `VL` and its kin |
//! | [`report`] | failures go to the standard error output |
//! | [`size`] | sizes in settings |

pub mod board;
pub mod diff;
pub mod memory;
pub mod rank;
pub mod report;
pub mod shared;
pub mod size;
pub mod vector;
