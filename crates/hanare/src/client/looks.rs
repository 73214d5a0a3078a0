//! Questions to nodes: their state, their counts, and the memory that they lend.

use super::pool::Pool;
use super::region::Region;
use super::request::Patience;
use crate::settings;
use hanare_protocol::wire::backing::{self, Backing};
use hanare_protocol::wire::control::{NodeCounts, NodeStatus, PageStat};
use hanare_protocol::wire::face::{self, FaceCounts};
use hanare_protocol::wire::look::{Look, Seen};
use hanare_protocol::{Error, Result};
use std::time::Duration;

/// Time for a node's reply to a look: the viewer has others to look at.
const LOOK: Duration = Duration::from_secs(2);

impl Pool {
    /// Page counts of the regions that this host shares, or is home of. The node's own user and root are told of all, others of
    /// those that their programs map here; [`Pool::look`] tells of open regions.
    pub fn page_stats(&self) -> Result<Vec<PageStat>> {
        Ok(self.look_at_own()?.pages)
    }

    /// Counts of commands of this host's node since its start. Programs of its host reach mapped bytes without it.
    pub fn node_counts(&self) -> Result<NodeCounts> {
        Ok(self.look_at_own()?.counts)
    }

    fn look_at_own(&self) -> Result<Seen> {
        let gone = || Error::NodeLost { node: self.node(), reason: "its connection is gone".to_owned() };
        self.shared.own().ok_or_else(gone)?.look(&Look::default(), Patience::Usual)
    }

    /// A node's state and counts: commands, programs, locks, and pages of regions, as far as this user may see each. `regions` are open for
    /// reading; nodes that hold bytes of them tell of pages that went to and fro. With `cells` above 0 there is a map of the first region's
    /// pages, of at most that many cells.
    ///
    /// **Cost**: one message each way; the node looks at each page that has moved between hosts. **Errors**: [`Error::NotInTime`] where the
    /// node does not answer within a few seconds; [`Error::NodeLost`]; [`Error::LimitReached`] for more than
    /// [`LOOK_COUNT_MAX`](hanare_protocol::limits::LOOK_COUNT_MAX) regions.
    pub fn look(&self, node: &NodeStatus, regions: &[&Region], cells: u32) -> Result<Seen> {
        let has_first = regions.first().is_some_and(|first| first.key_on(node.node).is_some());
        let readable = regions.iter().filter_map(|region| region.key_on(node.node)).collect();
        let look = Look { readable, cells: if has_first { cells } else { 0 } };
        self.shared.remote(node.node, Some(&node.address))?.look(&look, Patience::UpTo(LOOK))
    }

    /// The memory behind what a node lends: its kind, its pages, and the host's NUMA nodes on which it lies. All of it is told, and that of
    /// `regions`, which are open for reading. `None` of a node whose version does not tell.
    ///
    /// **Cost**: one message each way; the node looks at some thousand pages. **Errors**: as for [`Pool::look`].
    pub fn backing(&self, node: &NodeStatus, regions: &[&Region]) -> Result<Option<Backing>> {
        if !knows(node, backing::SINCE)? {
            return Ok(None);
        }
        let look = Look { readable: regions.iter().filter_map(|region| region.key_on(node.node)).collect(), cells: 0 };
        self.shared.remote(node.node, Some(&node.address))?.backing(&look, Patience::UpTo(LOOK)).map(Some)
    }

    /// A node's counts of commands since its start, by the face that sent them: those that this user is told of. `None` of a node whose
    /// version does not tell.
    ///
    /// **Cost**: one message each way. **Errors**: as for [`Pool::look`].
    pub fn face_counts(&self, node: &NodeStatus) -> Result<Option<FaceCounts>> {
        if !knows(node, face::SINCE)? {
            return Ok(None);
        }
        self.shared.remote(node.node, Some(&node.address))?.face_counts(Patience::UpTo(LOOK)).map(Some)
    }
}

/// True if the node and this program speak that version of the wire.
fn knows(node: &NodeStatus, since: u32) -> Result<bool> {
    Ok(node.memory.versions.newest.min(settings::versions()?.newest) >= since)
}
