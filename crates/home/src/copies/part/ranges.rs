//! Ranges of bytes of which copies are made.

use super::CopiedPart;
use crate::copies::Replies;
use crate::copies::pace::Pace;
use crate::memory::Bytes;
use hanare_protocol::Result;
use hanare_protocol::copies::{PeerState, Term};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::{MAKING_LACK_LEN_MAX, STAGE_LEN};
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::copies::{CopiedExtent, ExtentWrite, FromCopy};
use hanare_protocol::wire::range_frame::RangeFrame;
use std::collections::VecDeque;
use std::time::Duration;

/// A copy, as its home looks at it.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// When it confirmed something last, or was expected to first.
    pub at: Duration,
    /// Bytes of writes that it got while it is made.
    written: u64,
    /// Ranges that were sent and not confirmed: each with those bytes before it.
    pub ranges: VecDeque<u64>,
    /// The same of the last that was confirmed.
    pub confirmed: u64,
}

impl Heard {
    pub fn new(at: Duration) -> Heard {
        Heard { at, ..Heard::default() }
    }
}

/// Ranges on their way to a copy that is made: it confirms each.
const RANGES_AT_ONCE: usize = 4;

impl<E: Bytes, A: Copy> CopiedPart<E, A> {
    /// A frame with a range comes. **Errors**: one that no home sends.
    pub fn on_range(&mut self, frame: &RangeFrame<'_>) -> Result<Replies, Malformed> {
        match self.turn_away(frame.term, false) {
            Some(replies) => Ok(replies),
            None => self.take_range(frame.term, frame.range, frame.bytes),
        }
    }

    /// A range comes to a copy that is made. **Errors**: one that no home sends.
    pub(super) fn take_range(&mut self, term: Term, range: u64, bytes: &[u8]) -> Result<Replies, Malformed> {
        let offset = range.checked_mul(STAGE_LEN as u64).ok_or(Malformed("a range beyond 64 bits"))?;
        let left = self.extent.len_bytes().checked_sub(offset).ok_or(Malformed("a range beyond the extent"))?;
        if bytes.is_empty() || bytes.len() as u64 != left.min(STAGE_LEN as u64) {
            return Err(Malformed("a range of another length"));
        }
        if !self.copy.takes_range(term) {
            return Ok(Vec::new());
        }
        match self.extent.write(offset, bytes) {
            Ok(()) => Ok(vec![FromCopy::Took { term, range }]),
            Err(error) => {
                self.break_down(&error);
                Ok(Vec::new())
            }
        }
    }

    /// Sends the next ranges of copies that are made, as fast as they may go. Returns true if there are any: their outputs wait.
    pub(super) fn send_ranges(&mut self, extent: CopiedExtent, pace: &mut Pace) -> bool {
        let Some(home) = &mut self.home else { return false };
        let (mut sent, len) = (false, self.extent.len_bytes().min(STAGE_LEN as u64));
        let making: Vec<NodeId> = home.peers().filter(|(_, state)| *state == PeerState::Making).map(|(node, _)| node).collect();
        for node in making {
            let heard = self.heard.entry(node).or_default();
            while heard.ranges.len() < RANGES_AT_ONCE {
                if !pace.may_send(extent, len) {
                    if heard.ranges.is_empty() {
                        // The copy is asked for nothing, so it does not count as silent.
                        heard.at = heard.at.max(pace.now());
                    }
                    break;
                }
                sent = true;
                if !home.send_range(node) {
                    break;
                }
                heard.ranges.push_back(heard.written);
            }
        }
        sent
    }

    /// A call has changed bytes that copies which are made get again. They count like those of a write.
    pub(super) fn touch(&mut self, ranges: &[(u64, u64)]) {
        let Some(home) = &mut self.home else { return };
        let stage = STAGE_LEN as u64;
        for (at, len) in ranges.iter().filter(|(_, len)| *len > 0) {
            for range in at / stage..at.saturating_add(*len).div_ceil(stage) {
                for node in home.touch(range) {
                    let heard = self.heard.entry(node).or_default();
                    heard.written = heard.written.saturating_add(stage);
                }
            }
        }
    }

    /// Counts a write to a copy that is made.
    pub(super) fn count_written(&mut self, node: NodeId, write: &ExtentWrite) {
        if let Some(heard) = self.heard.get_mut(&node) {
            heard.written = heard.written.saturating_add(write.memory_len());
        }
    }

    /// Writes wait while a copy that is made lacks many: else those on their way to it would fill this node's memory.
    pub(super) fn hold_back(&mut self) {
        let Some(home) = &mut self.home else { return };
        let lacks_many = |node| {
            let heard = self.heard.get(&node);
            heard.is_some_and(|heard| heard.written.saturating_sub(heard.confirmed) > MAKING_LACK_LEN_MAX)
        };
        let is_held_back = home.peers().any(|(node, state)| state == PeerState::Making && lacks_many(node));
        home.hold_back(is_held_back);
    }

    /// The frame with the bytes of a range.
    pub(super) fn frame_of(&self, extent: CopiedExtent, term: Term, range: u64) -> Result<Vec<u8>> {
        let offset = range.saturating_mul(STAGE_LEN as u64);
        let len = self.extent.len_bytes().saturating_sub(offset).min(STAGE_LEN as u64);
        RangeFrame::write((extent, term, range), len as usize, |into| self.extent.read(offset, into))
    }
}
