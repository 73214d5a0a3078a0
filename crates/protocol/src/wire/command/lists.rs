//! Lists of commands, as they travel.

use crate::shape::{Indices, Subarray};
use zerocopy::IntoBytes;

// Index lists travel as they lie in the programs' memory.
#[cfg(not(target_endian = "little"))]
compile_error!("hanare's wire is little-endian, and so must be the machine");

/// The bytes of a shape's list that must be written out; indices are sent as they lie: see [`index_bytes`].
pub fn dims_list(shape: &Subarray) -> Vec<u8> {
    let outer = shape.dims().split_last().map_or(&[][..], |(_, outer)| outer);
    outer.iter().flat_map(|dim| [dim.count.to_le_bytes(), dim.stride.to_le_bytes()].concat()).collect()
}

/// A list of indices as it travels, without the zeros that fill it up to a multiple of 8 bytes.
pub fn index_bytes<'a>(indices: &'a Indices<'_>) -> &'a [u8] {
    match indices {
        Indices::Narrow(list) => list.as_bytes(),
        Indices::Wide(list) => list.as_bytes(),
    }
}
