//! Copies of a region compared with their homes.

use super::region::Region;
use hanare_protocol::copies::{Comparison, DifferentPage, DigestCall};
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::{PAGE_LEN, STAGE_LEN};
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::collections::BTreeSet;

/// Differences that a report names. It counts the others.
const DIFFERENCES_TOLD: usize = 1000;

/// Tries to hear all copies of some pages: a connection between their nodes may break.
const TRIES: usize = 4;

/// Bytes of which a copy and its home have different ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyDifference {
    /// The first byte in the region: a page's.
    pub offset: u64,
    /// Number of bytes: whole pages. Some of their bytes differ.
    pub len: u64,
    /// The home, whose bytes programs read.
    pub home: NodeId,
    /// Nodes whose copies have other bytes.
    pub nodes: Vec<NodeId>,
    /// True if two copies have the same bytes and the home alone has others. Nobody's bytes are void then.
    pub is_home_alone: bool,
}

/// The findings of [`Region::scrub`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Bytes of which a copy at least was compared with its home.
    pub compared: u64,
    /// Bytes with a copy that was not heard in time. It may differ.
    pub unheard: u64,
    /// Bytes without a copy: it was lost, or is made just now.
    pub alone: u64,
    /// Bytes of pages that differ.
    pub differing: u64,
    /// Differences by region offset within each extent, the first thousand.
    pub differences: Vec<CopyDifference>,
    /// Nodes that are home or had a copy that was compared.
    pub nodes: BTreeSet<NodeId>,
    /// Nodes whose copies of extents count no more.
    pub dropped: BTreeSet<NodeId>,
}

impl Region {
    /// Compares all copies of the region with their homes, page by page, while programs use it. A copy that differs is named. If `drops`, the
    /// home goes on without it. So it is never chosen as home, and another copy is made of the home's bytes, which programs read. Where
    /// two copies agree against their home, nobody is dropped.
    ///
    /// Holders compare pages as of one place in the order of writes. So nothing is reported that a write changes meanwhile. `progress` gets the number
    /// of bytes that were looked at since its last call.
    ///
    /// **Cost**: each holder reads all bytes once. A message each way to the home and from it to each copy, for each 256 KiB. One such range is under
    /// way at a time. **Errors**: [`Error::BadUse`] for a region with one copy, and if `drops` and the region was opened for reading; as for a get.
    pub fn scrub(&self, drops: bool, mut progress: impl FnMut(u64)) -> Result<ScrubReport> {
        if drops {
            self.check_rights(Op::Put)?;
        }
        self.refresh()?;
        if self.copies() < 2 {
            let reason = "it has one copy, so there is nothing to compare; `hanare region set NAME copies=2` makes another";
            return Err(Error::BadUse { region: self.name().to_owned(), reason: reason.to_owned() });
        }
        let mut report = ScrubReport::default();
        for extent in 0..self.routes().extents().len() {
            let extent_len = self.routes().extent(extent).len;
            for offset in (0..extent_len).step_by(STAGE_LEN) {
                let len = (STAGE_LEN as u64).min(extent_len - offset);
                let seed = [hanare_memory::random::bytes::<8>()?, hanare_memory::random::bytes::<8>()?];
                let seed = std::array::from_fn(|at| seed[at / 8][at % 8]);
                self.scrub_range(extent, DigestCall { offset, len, seed, drops }, &mut report)?;
                progress(len);
            }
        }
        Ok(report)
    }

    fn scrub_range(&self, extent: usize, call: DigestCall, report: &mut ScrubReport) -> Result<()> {
        let mut comparison = self.compare_copies(extent, call)?;
        for _ in 1..TRIES {
            if comparison.unheard.is_empty() {
                break;
            }
            comparison = self.compare_copies(extent, call)?;
        }
        let home = NodeId(self.extent_route(extent).node);
        match (comparison.compared.is_empty(), comparison.unheard.is_empty()) {
            (_, false) => report.unheard += call.len,
            (true, true) => report.alone += call.len,
            (false, true) => report.compared += call.len,
        }
        report.nodes.extend(comparison.compared.iter().chain([&home]));
        report.dropped.extend(&comparison.dropped);
        for page in comparison.pages {
            self.note_difference(extent, home, page, report);
        }
        Ok(())
    }

    fn compare_copies(&self, extent: usize, call: DigestCall) -> Result<Comparison> {
        match self.ask_home(extent, true, |slot, grant| SyncRequest::Compare { slot, grant, call })? {
            SyncAnswer::Compared(comparison) => Ok(*comparison),
            _ => Err(Error::Garbage { peer: "a home".to_owned(), reason: "no comparison".to_owned() }),
        }
    }

    /// Adds a page to the report, where it lies in the region.
    fn note_difference(&self, extent: usize, home: NodeId, page: DifferentPage, report: &mut ScrubReport) {
        let extent_len = self.routes().extent(extent).len;
        // An offset is input.
        let Some(left) = extent_len.checked_sub(page.offset).filter(|left| *left > 0) else { return };
        let DifferentPage { nodes, is_home_alone, .. } = page;
        for (offset, len) in self.routes().places(extent, page.offset, PAGE_LEN.min(left)) {
            report.differing += len;
            let is_same = |last: &CopyDifference| (&last.nodes, last.is_home_alone, last.home) == (&nodes, is_home_alone, home);
            let count = report.differences.len();
            match report.differences.last_mut().filter(|last| last.offset + last.len == offset && is_same(last)) {
                Some(last) => last.len += len,
                None if count < DIFFERENCES_TOLD => {
                    report.differences.push(CopyDifference { offset, len, home, nodes: nodes.clone(), is_home_alone });
                }
                None => {}
            }
        }
    }
}
