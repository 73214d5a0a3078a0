//! Stores that count together: parts that wait for the last one, at the home and at each copy.

use super::CopiedPart;
use crate::copies::Replies;
use crate::memory::Bytes;
use hanare_protocol::copies::{Once, PartRefusal, Term, UpdateCall};
use hanare_protocol::error::Happened;
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::{PENDING_LEN_MAX, PENDING_SILENT_MS};
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::copies::{ExtentCall, ExtentWrite};
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A release whose program has sent no part for so long is dropped.
const SILENT: Duration = Duration::from_millis(PENDING_SILENT_MS);

/// Programs and sequences, each with when its last part came to this home.
pub(super) type HeardStores = BTreeMap<(u64, u16), Duration>;

impl<E: Bytes, A: Copy> CopiedPart<E, A> {
    /// A part comes to this home.
    pub(super) fn hear_stores(&mut self, now: Duration, write: &ExtentWrite) {
        if let Some(place) = write.part_of_stores() {
            self.heard_stores.insert((place.once.call.client, place.once.call.sequence), now);
        }
    }

    /// Applies a part of stores: with the last one all of them. A copy that is made gets the bytes in its ranges, and the parts at its end.
    ///
    /// **Errors**: the refusal of all holders.
    pub(super) fn apply_stores(&mut self, write: &Arc<ExtentWrite>) -> Result<()> {
        let Some(place) = write.part_of_stores().filter(|_| !self.is_made_now()) else { return Ok(()) };
        let taken = self.pending.take(&place, write.clone());
        let Some(parts) = taken.map_err(|refusal| self.refused(refusal))? else { return Ok(()) };
        for part in &parts {
            self.extent.apply(part)?;
            self.touch(&part.ranges);
        }
        let first = Once { at: 0, ..place.once };
        self.done.note(&first, place.once.at.saturating_add(place.len), &[]);
        Ok(())
    }

    /// The last part of some stores will not come.
    pub(super) fn forget_stores(&mut self, call: &UpdateCall) {
        if !self.is_made_now() {
            self.pending.forget(call);
        }
    }

    pub(super) fn is_made_now(&self) -> bool {
        self.home.is_none() && self.copy.is_making()
    }

    fn refused(&self, refusal: PartRefusal) -> Error {
        let node = self.home.as_ref().map_or(NodeId(0), |home| home.node());
        match refusal {
            PartRefusal::Gone => {
                let reason = "its earlier parts are here no more".to_owned();
                Error::Broken { node, what: "a release of stores".to_owned(), reason, happened: Happened::No }
            }
            PartRefusal::NoRoom => {
                let what = "bytes of stores to an extent that wait for the last part of their release".to_owned();
                Error::LimitReached { what, limit: PENDING_LEN_MAX }
            }
        }
    }

    /// A part that waits at the home comes to this copy, which is made. **Errors**: one that no home sends.
    pub(super) fn take_pending(&mut self, term: Term, entry: Arc<ExtentWrite>) -> Result<Replies, Malformed> {
        entry.check(self.extent.len_bytes())?;
        if !self.copy.takes_range(term) {
            return Ok(Vec::new());
        }
        let place =
            entry.part_of_stores().filter(|place| !place.is_last).ok_or(Malformed("a part of stores that does not wait"))?;
        match self.pending.take(&place, entry) {
            Ok(_) => Ok(Vec::new()),
            Err(_) => Err(Malformed("parts of stores that no home has")),
        }
    }

    /// Drops stores whose programs are silent: one that is gone, or that another home served.
    pub(in crate::copies) fn look_at_stores(&mut self, now: Duration) {
        let Some(home) = &mut self.home else { return };
        let calls: Vec<UpdateCall> = self.pending.calls().collect();
        self.heard_stores.retain(|key, _| calls.iter().any(|call| (call.client, call.sequence) == *key));
        for call in calls {
            let heard = self.heard_stores.entry((call.client, call.sequence)).or_insert(now);
            if now.saturating_sub(*heard) >= SILENT {
                *heard = now;
                // A home that is not open hears of it later.
                home.write(Arc::new(ExtentWrite::call(ExtentCall::ForgetStores(call))));
            }
        }
    }
}
