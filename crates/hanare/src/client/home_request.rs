//! Requests to the home of one extent, which may be another one by now.

use super::region::Region;
use super::repetition::{Breaks, Refusals};
use super::request::Patience;
use hanare_protocol::error::Happened;
use hanare_protocol::id::{Grant, Slot};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};

impl Region {
    /// Asks the home of an extent. Where its bytes have copies, and the request `may_repeat`, the next home is asked when that one is lost. One that
    /// counts once is not repeated where the home may have done it, and remembers no calls any more.
    ///
    /// **Cost**: one message each way. **Errors**: those of the request, with the region's number in place of its name; as for any request.
    pub(super) fn ask_home(
        &self,
        extent: usize,
        may_repeat: bool,
        mut request: impl FnMut(Slot, Grant) -> SyncRequest,
    ) -> Result<SyncAnswer> {
        let may_repeat = may_repeat && self.copies() > 1;
        let (mut may_be_done, mut refusals, mut breaks) = (false, Refusals::default(), Breaks::default());
        loop {
            let route = self.extent_route(extent);
            let patience = if may_repeat { Patience::UpTo(breaks.patience()) } else { Patience::Usual };
            let asked = request(route.slot, route.grant);
            match route.remote.ask_sync(&asked, patience) {
                Ok((answer, _)) => return Ok(answer),
                Err(error) if may_repeat && is_of_a_lost_home(&error, &asked) && breaks.may_repeat_moved() => {
                    breaks.note(&error);
                    match self.refresh_after(&error) {
                        // The coordinator names the home, so it is waited for.
                        Ok(_) | Err(Error::NoCoordinator { .. } | Error::Timeout { .. }) => {}
                        Err(later) => return Err(later),
                    }
                    may_be_done |= !matches!(error, Error::GrantRefused { .. });
                    if self.copies() < 2 && asked.changes_heap() && may_be_done {
                        return Err(error);
                    }
                }
                Err(Error::GrantRefused { .. }) if refusals.may_repeat() => self.refresh()?,
                Err(error) => return Err(error),
            }
        }
    }
}

/// True if another node may be home by now, or soon.
fn is_of_a_lost_home(error: &Error, asked: &SyncRequest) -> bool {
    use Error::{Broken, GrantRefused, NodeLost, NotInTime, Timeout};
    let nothing_was_sent = matches!(error, Broken { happened: Happened::No, .. });
    // All that a port asks of a queue happens once.
    let is_ports = matches!((error, asked), (Broken { .. }, SyncRequest::Queue(..)));
    nothing_was_sent || is_ports || matches!(error, GrantRefused { .. } | NodeLost { .. } | NotInTime { .. } | Timeout { .. })
}
