//! Cutting of a shape on a region into shapes on extents. Nothing here sends or touches memory.

pub(crate) mod plan;
pub(crate) mod runs;
pub(crate) mod spread;

/// A region of spans that are so long and lie on so many nodes, for tests.
#[cfg(test)]
fn routes(spans: &[(u64, u32)]) -> hanare_protocol::placement::Routes {
    use hanare_protocol::id::{NodeId, Slot};
    use hanare_protocol::placement::{Extent, Layout, Span};
    let span = |&(len, nodes): &(u64, u32)| {
        let extents =
            Span::shares(len, 4096, u64::from(nodes)).map(|len| Extent { node: NodeId(0), slot: Slot(0), len }).collect();
        Span { len, chunk: 4096, extents }
    };
    Layout { spans: spans.iter().map(span).collect() }.into()
}
