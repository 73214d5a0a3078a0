//! Sizes and placements as people write them, and as the command prints them.

use hanare_protocol::id::NodeId;
use hanare_protocol::place::Placement;
use hanare_protocol::size::Size;
pub use hanare_protocol::size::{parse, parse_some};

/// Reads a placement: `local`, `node=K`, or `interleave=CHUNK` with the chunk written as any size.
pub fn placement(text: &str) -> Result<Placement, String> {
    let placement = match text.split_once('=') {
        Some(("interleave", chunk)) => Placement::Interleave(parse(chunk)?),
        Some(("node", number)) => Placement::Node(NodeId(number.parse().map_err(|_| format!("'{number}' is no node's number"))?)),
        None if text == "local" => Placement::Local,
        _ => return Err("write local, node=K, or interleave=CHUNK".to_owned()),
    };
    placement.check().map_err(|error| error.to_string())?;
    Ok(placement)
}

/// Writes a size for people.
pub fn show(bytes: u64) -> String {
    Size(bytes).to_string()
}

/// Writes a placement for people.
pub fn show_placement(placement: &Placement) -> String {
    match placement {
        Placement::Interleave(chunk) => format!("interleave={}", show(*chunk).replace(' ', "")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interleave_chunk_is_a_size() {
        assert_eq!(placement("interleave=64K"), Ok(Placement::Interleave(65536)));
        assert_eq!(placement("node=3"), Ok(Placement::Node(NodeId(3))));
        assert!(placement("interleave=1000").is_err() && placement("near").is_err() && placement("node=x").is_err());
        assert_eq!(show_placement(&Placement::Interleave(65536)), "interleave=64KiB");
    }
}
