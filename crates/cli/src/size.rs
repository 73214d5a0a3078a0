//! Sizes and placements as people write them, and as the command prints them.

use clap::builder::TypedValueParser;
use hanare_protocol::limits::COPY_COUNT_MAX;
use hanare_protocol::placement::Placement;
use hanare_protocol::size::Size;
pub use hanare_protocol::size::{parse, parse_some};

/// Reads a number of nodes that hold each byte of a region.
pub fn copies() -> impl TypedValueParser<Value = u8> {
    clap::value_parser!(u8).range(1..=i64::from(COPY_COUNT_MAX))
}

/// Writes a size for people.
pub fn show(bytes: u64) -> String {
    Size(bytes).to_string()
}

/// Writes a placement for people.
pub fn show_placement(placement: &Placement) -> String {
    match placement {
        Placement::Interleave(chunk) => format!("interleave={}", show(*chunk).replace(' ', "")),
        Placement::Nodes(nodes, chunk) => format!("nodes={nodes}:{}", show(*chunk).replace(' ', "")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_shown_as_a_size() {
        assert_eq!(show_placement(&Placement::Interleave(65536)), "interleave=64KiB");
        assert_eq!(show_placement(&"nodes=0,2-4:64K".parse().unwrap()), "nodes=0,2-4:64KiB");
    }
}
