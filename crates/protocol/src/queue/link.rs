//! A link of a lane: a connection over which the reader's program takes units from the writer's, without the home. The rules that keep the order of
//! both ways, and count each unit once.
//!
//! ```text
//!            HandOver                          reader: commits k units    (g, n) -> (g, n + k)     by compare-and-swap
//!   Apart --------------> Linked               home:   fences             (g, n) -> 0              by a swap, n units count
//!     ^  <--- Fence ------- |
//!     |                     |                  Both share the lane's link word.
//!     +--- Fence: any other request of the writer for this lane
//! ```
//!
//! | rule | where |
//! |---|---|
//! | The writer links its lane while the home has answered all of its appends, and nothing is spilled | `Appends` of a program; [`super::Home::link_lane`] |
//! | The reader takes units of a link when it has seen the lane up to the tail of the hand-over | [`has_reached`] |
//! | A unit of a link counts when the swap under the link's generation succeeds | [`LinkWord::commit`] |
//! | Units that count by a link go before those of the lane behind that tail, because the home appends them after the fence | the reader |
//! | After a fence the writer sends again, by the home, what does not count | the writer |

#[cfg(test)]
mod explore;

use super::home::{Home, Lane, LaneState, PortId, ReaderState, Store};
use crate::limits::QUEUE_BEGUN_LEN_MAX;
use crate::table::{self, Row};

/// Appends that a port of a group sends by its queue's node before it has a link. A connection costs as much as some thirty of them.
pub const LINK_AFTER_COUNT: u64 = 16;

/// Appends after which a port tries again that got no link, or whose reader did not read it.
pub const LINK_AGAIN_COUNT: u64 = 256;

/// Time that appends wait on an unread link before they go by the node: several turns of a busy processor.
pub const LINK_PATIENCE_MS: u64 = 50;

/// Appends of a link that one answer answers, of those whose answers nobody waits for: half of [`QUEUE_BEGUN_COUNT_MAX`](crate::limits::QUEUE_BEGUN_COUNT_MAX).
pub const LINK_ANSWER_COUNT: u32 = 16;

/// Bytes of appends that are answered at once.
pub const LINK_ANSWER_LEN: usize = QUEUE_BEGUN_LEN_MAX / 4;

/// Most links of one reader, which looks at each by a system call. A sealed one has buffers of 160 KiB.
pub const READER_LINK_COUNT: usize = 16;

/// Most sockets of one program on which it gets links: one for each mailbox or group with operations.
pub const PROGRAM_SOCKET_COUNT: usize = 64;

/// State of a lane's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkState {
    /// Its units come by its home.
    Apart,
    /// Units come by a link.
    Linked,
}

/// An event of a lane's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// The home hands a connection of the writer to the reader.
    HandOver,
    /// The home takes the lane back.
    Fence,
}

/// Every transition of a lane's link.
pub const LINKS: &[Row<LinkState, LinkEvent>] = &[
    Row { event: LinkEvent::HandOver, from: &[LinkState::Apart], to: LinkState::Linked },
    Row { event: LinkEvent::Fence, from: &[LinkState::Linked], to: LinkState::Apart },
];

/// The word of a lane's link, which the home and the reader share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkWord {
    /// Number of the array's link; 0 for none.
    pub generation: u32,
    /// Units that the reader has taken from it.
    pub count: u32,
}

impl LinkWord {
    /// The lane has no link.
    pub const NONE: LinkWord = LinkWord { generation: 0, count: 0 };

    /// The word.
    pub fn encode(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.count)
    }

    /// Reads it. It is input: any program that may write the region may have written it.
    pub fn decode(word: u64) -> LinkWord {
        LinkWord { generation: (word >> 32) as u32, count: word as u32 }
    }

    /// The word after `units` more. `None` if the link is another by now, or has carried all that it may.
    pub fn commit(self, generation: u32, units: u32) -> Option<LinkWord> {
        let count = self.count.checked_add(units).filter(|_| self.generation == generation && generation != 0)?;
        Some(LinkWord { generation, count })
    }
}

/// True if a position of a lane is at a tail, or beyond it.
pub fn has_reached(position: u64, tail: u64) -> bool {
    position.wrapping_sub(tail) < 1 << 63
}

impl<S: Store> Lane<S> {
    fn link_state(&self) -> LinkState {
        if self.link.is_some() { LinkState::Linked } else { LinkState::Apart }
    }
}

impl<S: Store> Home<S> {
    /// A connection of a lane's writer goes to the reader, who takes units from it from here on. Returns its generation, and the units that
    /// count.
    pub fn link_lane(&mut self, queue: u64, lane: u32, writer: PortId) -> Option<(u32, u64)> {
        if self.reader(queue) != ReaderState::Held {
            return None;
        }
        let entry = self.lanes.get_mut(&(queue, lane)).filter(|lane| lane.writer == writer && lane.state == LaneState::Open)?;
        table::next(LINKS, entry.link_state(), LinkEvent::HandOver).filter(|_| entry.spilled() == 0)?;
        // 0 is the generation of none.
        self.links = self.links.checked_add(1).unwrap_or(1);
        entry.link = Some(self.links);
        Some((self.links, entry.accepted))
    }

    /// True if a writer's lane has a link, so that its home may append only after [`Home::fence_lane`].
    pub fn is_linked(&self, queue: u64, lane: u32, writer: PortId) -> bool {
        self.lanes.get(&(queue, lane)).is_some_and(|lane| lane.writer == writer && lane.link.is_some())
    }

    /// The lane of a writer that has a link.
    pub fn linked_lane(&self, queue: u64, writer: PortId) -> Option<u32> {
        let mut lanes = self.lanes.range((queue, 0)..=(queue, u32::MAX));
        lanes.find(|(_, lane)| lane.writer == writer && lane.link.is_some()).map(|((_, lane), _)| *lane)
    }

    /// The home takes a lane back from its link, whose word was `word` until then. Units that the reader has taken count.
    pub fn fence_lane(&mut self, queue: u64, lane: u32, word: LinkWord) {
        let Some(entry) = self.lanes.get_mut(&(queue, lane)) else { return };
        if table::next(LINKS, entry.link_state(), LinkEvent::Fence).is_some() {
            // A word of another generation is a reader's nonsense, who has lost what it took.
            let count = if entry.link == Some(word.generation) { word.count } else { 0 };
            (entry.accepted, entry.link) = (entry.accepted.saturating_add(count.into()), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        assert_eq!(table::contradiction(LINKS), None);
        assert_eq!(
            table::print(LINKS),
            "\
HandOver       Apart                              -> Linked
Fence          Linked                             -> Apart
"
        );
    }

    #[test]
    fn only_the_link_of_today_commits() {
        let word = LinkWord { generation: 7, count: u32::MAX - 1 };
        assert_eq!(LinkWord::decode(word.encode()), word);
        assert_eq!(word.commit(7, 1), Some(LinkWord { generation: 7, count: u32::MAX }));
        assert_eq!(word.commit(7, 2), None);
        assert_eq!(word.commit(6, 1), None);
        assert_eq!(LinkWord::NONE.commit(0, 1), None);
    }

    #[test]
    fn positions_are_compared_around_the_end_of_numbers() {
        assert!(has_reached(8, 8) && has_reached(16, 8) && has_reached(0, u64::MAX - 7));
        assert!(!has_reached(8, 16) && !has_reached(u64::MAX - 7, 0));
    }
}
