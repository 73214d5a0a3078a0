//! A flush of a host, as the parts that its home writes.

use crate::pages::memory::PageBytes;
use hanare_protocol::Error;
use hanare_protocol::copies::{Once, UpdateCall};
use hanare_protocol::limits::{PAGE_LEN, STAGE_LEN};
use hanare_protocol::page::{HostId, Page};
use hanare_protocol::wire::copies::{ExtentCall, ExtentWrite};
use std::collections::BTreeSet;

/// A flush of a host.
pub(super) struct Flush {
    pub host: HostId,
    pub number: u64,
    pub pages: Vec<(Page, PageBytes)>,
    /// Parts that not all holders have.
    pub left: usize,
    /// Earlier writes of its host that not all holders have.
    pub awaits: BTreeSet<u64>,
    /// True where the parts do not count together: a node does not know that, or there is no room.
    pub in_pieces: bool,
    pub failed: Option<Error>,
}

impl Flush {
    /// Pages of one part: one write of them.
    const PART: usize = STAGE_LEN / PAGE_LEN as usize;

    /// True if the last part was given to the copies.
    pub fn is_all_given(&self) -> bool {
        self.left >= self.pages.len().div_ceil(Flush::PART)
    }

    /// The next part. `None` if there is none. All parts are given before the first is done.
    pub fn part(&mut self, share: u64, place: impl Fn(Page) -> (u64, u64)) -> Option<ExtentWrite> {
        let at = self.left * Flush::PART;
        let pages = self.pages.get(at..)?;
        let pages = &pages[..pages.len().min(Flush::PART)];
        let first = pages.first()?;
        let mut write = put(place(first.0), &first.1);
        for (page, bytes) in &pages[1..] {
            let (offset, len) = place(*page);
            match write.ranges.last_mut() {
                Some((begin, before)) if *begin + *before == offset => *before += len,
                _ => write.ranges.push((offset, len)),
            }
            write.operand.extend_from_slice(&bytes[..len as usize]);
        }
        self.left += 1;
        if self.pages.len() > Flush::PART && !self.in_pieces {
            let before: u64 = self.pages[..at].iter().map(|(page, _)| place(*page).1).sum();
            let call = UpdateCall { client: share, sequence: 0, number: self.number, is_repeat: false };
            let is_last = at + pages.len() == self.pages.len();
            (write.once, write.call) = (Some(Once { call, at: before }), Some(ExtentCall::Store { is_last }));
        }
        Some(write)
    }
}

/// A put of a page.
pub(super) fn put((offset, len): (u64, u64), bytes: &[u8]) -> ExtentWrite {
    ExtentWrite::put(vec![(offset, len)], bytes[..len as usize].to_vec())
}
