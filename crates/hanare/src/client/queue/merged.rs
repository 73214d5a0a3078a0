//! The two ways of a queue's units as one. Some come by links, the others lie in their lanes.

use super::lanes::{QueueLanes, Unread};
use hanare_protocol::Result;

impl QueueLanes {
    /// Units of links go before those that lie in their lanes then: those were appended when the link had ended.
    pub(super) fn try_next_linked(&mut self) -> Result<Option<Unread>> {
        let Some(links) = &mut self.links else { return Ok(None) };
        let next = links.next().map_err(|bad| self.reach.corrupt(bad))?;
        Ok(next.map(|(lane, seen)| Unread::by_link(self.queue, lane, seen)))
    }

    /// Takes what has come by links. Whether any has.
    pub(super) fn pump(&mut self) -> Result<bool> {
        let Some(links) = &mut self.links else { return Ok(false) };
        let lanes = &self.lanes;
        links.pump(&self.reach, self.queue, |lane| lanes[lane].reader.head().wrapping_add(lanes[lane].reader.held()))
    }

    /// True if units come by links.
    pub fn are_linked(&self) -> bool {
        self.links.as_ref().is_some_and(|links| links.are_open())
    }
}
