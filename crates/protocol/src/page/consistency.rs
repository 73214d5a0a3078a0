//! Promises of a mapping of a shared region.

use crate::placement::Layout;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Visibility of stores between programs that map a region on several hosts. A region has one at a time.
///
/// **Source**: [D2 §4] for the first, [RF §3.4] for the second, [EU §1] for the third.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Consistency {
    /// A store is visible elsewhere after `flush` there and `update` here; writers of different bytes of one page both
    /// survive.
    Explicit,
    /// Bytes that are bound to a lock are, for its holder, as the last release left them. A store to them is seen nowhere else before the
    /// lock is given back. All other bytes are as with `Explicit`.
    Entry,
    /// Visibility as between threads of one machine: coherent for each location, x86-TSO order, atomics are atomic.
    Coherent,
}

impl Consistency {
    /// True if a region may have mappings by both layouts. Extents of a region whose pages go by commands may have moved meanwhile.
    pub fn allows_both(self, one: &Layout, other: &Layout) -> bool {
        one == other || self != Consistency::Coherent && one.has_same_chunks(other)
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Consistency::Explicit => "explicit",
            Consistency::Entry => "entry",
            Consistency::Coherent => "coherent",
        })
    }
}

impl FromStr for Consistency {
    type Err = String;

    fn from_str(text: &str) -> Result<Consistency, String> {
        match text {
            "explicit" => Ok(Consistency::Explicit),
            "coherent" => Ok(Consistency::Coherent),
            _ => Err(format!("'{text}' is no consistency: write explicit or coherent")),
        }
    }
}
