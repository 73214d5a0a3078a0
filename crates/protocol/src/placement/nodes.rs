//! The nodes that a placement names.

use crate::id::NodeId;
use crate::limits::PLACEMENT_NODE_COUNT_MAX;
use crate::malformed::Malformed;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Nodes that a placement names: at least one, each once, in the order of their chunks.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<NodeId>", into = "Vec<NodeId>")]
pub struct NodeList {
    nodes: [NodeId; PLACEMENT_NODE_COUNT_MAX],
    count: u8,
}

impl NodeList {
    /// The nodes. **Errors**: [`Malformed`] for none, too many, or one that comes twice.
    pub fn new(list: &[NodeId]) -> Result<NodeList, Malformed> {
        let mut nodes = [NodeId(0); PLACEMENT_NODE_COUNT_MAX];
        match nodes.get_mut(..list.len()) {
            Some(place) if !list.is_empty() => place.copy_from_slice(list),
            _ => return Err(Malformed("no nodes, or more than a placement names")),
        }
        let comes_twice = |at: usize| list.iter().take(at).any(|node| Some(node) == list.get(at));
        match (0..list.len()).any(comes_twice) {
            true => Err(Malformed("a node that comes twice")),
            false => Ok(NodeList { nodes, count: list.len() as u8 }),
        }
    }

    /// In their order.
    pub fn nodes(&self) -> &[NodeId] {
        self.nodes.get(..usize::from(self.count)).unwrap_or_default()
    }
}

impl TryFrom<Vec<NodeId>> for NodeList {
    type Error = Malformed;

    fn try_from(nodes: Vec<NodeId>) -> Result<NodeList, Malformed> {
        NodeList::new(&nodes)
    }
}

impl From<NodeList> for Vec<NodeId> {
    fn from(list: NodeList) -> Vec<NodeId> {
        list.nodes().to_vec()
    }
}

impl fmt::Debug for NodeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes()).finish()
    }
}

/// Nodes in the form `0,2,5-7`: consecutive numbers are a range.
impl fmt::Display for NodeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let follows = |pair: &[NodeId]| matches!(pair, [one, next] if one.0.checked_add(1) == Some(next.0));
        let runs = self.nodes().chunk_by(|one, next| follows(&[*one, *next]));
        for (at, run) in runs.enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match run {
                [first, .., last] => write!(f, "{comma}{}-{}", first.0, last.0)?,
                [only] => write!(f, "{comma}{}", only.0)?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl FromStr for NodeList {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<NodeList, Malformed> {
        let mut nodes = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<u32>().map_err(|_| Malformed("a node is a number, or two with - between"));
            // A node beyond the limit makes the list's own check refuse it.
            nodes.extend((number(first)?..=number(last)?).map(NodeId).take(PLACEMENT_NODE_COUNT_MAX.saturating_add(1)));
            if nodes.len() > PLACEMENT_NODE_COUNT_MAX {
                break;
            }
        }
        NodeList::new(&nodes)
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::placement::Placement;

    #[test]
    fn a_placement_on_several_nodes_is_read_as_it_is_written() {
        for (text, written) in [
            ("nodes=0,2,5:64K", "nodes=0,2,5:65536"),
            ("nodes=2-4,0,9:4096", "nodes=2-4,0,9:4096"),
            ("nodes=3,4:1MiB", "nodes=3-4:1048576"),
            ("nodes=7:4096", "nodes=7:4096"),
        ] {
            let placement: Placement = text.parse().unwrap();
            assert_eq!(placement.to_string(), written);
            assert_eq!(written.parse(), Ok(placement));
            assert_eq!(postcard::from_bytes(&postcard::to_stdvec(&placement).unwrap()), Ok(placement));
        }
        for text in [
            "nodes=",
            "nodes=0",
            "nodes=:64K",
            "nodes=0,0:64K",
            "nodes=0-40:64K",
            "nodes=0-4294967295:64K",
            "nodes=0:1000",
            "nodes=a:64K",
        ] {
            assert!(matches!(text.parse::<Placement>(), Err(Error::BadPlacement { .. })), "{text}");
        }
        assert!(postcard::from_bytes::<NodeList>(&[2, 1, 1]).is_err() && postcard::from_bytes::<NodeList>(&[0]).is_err());
        let most: Vec<NodeId> = (0..PLACEMENT_NODE_COUNT_MAX as u32).map(|k| NodeId(9999 - 2 * k)).collect();
        assert!(Placement::Nodes(NodeList::new(&most).unwrap(), 1 << 40).to_string().len() < 192);
    }
}
