//! A node that is silent has its bytes still: who needs them waits for it, and goes on with the grants of the day when it is back.
//!
//! The coordinator says of a node whose process ended that its regions are lost, within a lease. A node that is merely silent counts as
//! lost to a program after [`SILENT_MS`].

use hanare::{Error, Result};
use hanare_protocol::limits::LEASE_MS;
use std::time::{Duration, Instant};

/// Time for which a program waits for bytes on a silent node: ten leases. A node whose process ended is known within one.
pub const SILENT_MS: u64 = 10 * LEASE_MS;

/// Between two tries: short beside a lease, long beside a message.
const PAUSE: Duration = Duration::from_millis(50);

/// The waiter.
pub trait Waiter {
    /// Hears why it waits. `false` where it need not any more.
    fn waits_for(&self, error: &Error) -> bool;
}

/// Tries until it works, or fails for good, or the waiter is over, or a silent node counts as lost. `attempt` learns whether it is a
/// further try; it changes nothing that a further try would change twice.
pub fn try_again<T>(waiter: &dyn Waiter, mut attempt: impl FnMut(bool) -> Result<T>) -> Result<T> {
    let mut until = None;
    loop {
        let error = match attempt(until.is_some()) {
            Err(error) if may_come_back(&error) => error,
            outcome => return outcome,
        };
        let now = Instant::now();
        let is_first = until.is_none();
        let end = *until.get_or_insert(now + Duration::from_millis(SILENT_MS));
        // A node that came back during the first try refuses what was granted before, and nothing else.
        if is_first && matches!(error, Error::GrantRefused { .. }) {
            continue;
        }
        if now >= end || !waiter.waits_for(&error) {
            return Err(error);
        }
        std::thread::sleep(PAUSE);
    }
}

/// True if the bytes may be there at the next try.
fn may_come_back(error: &Error) -> bool {
    matches!(
        error,
        Error::NodeLost { .. }
            | Error::Timeout { .. }
            | Error::NotInTime { .. }
            | Error::GrantRefused { .. }
            | Error::Broken { .. }
            | Error::NoCoordinator { .. }
    )
}

/// Why bytes are gone, for somebody who knows of no region.
pub fn in_words(error: &Error) -> String {
    match error {
        Error::RegionLost { node, .. } => format!("{node} ended, and what lay there with it"),
        Error::GrantRefused { node, .. } => format!("{node} came back without it"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::id::{Gid, NodeId};
    use std::cell::Cell;

    /// Waits so many times.
    struct Patient(Cell<u32>);

    impl Waiter for Patient {
        fn waits_for(&self, _: &Error) -> bool {
            let left = self.0.get();
            self.0.set(left.saturating_sub(1));
            left > 0
        }
    }

    fn refused() -> Error {
        Error::GrantRefused { gid: Gid(2), node: NodeId(1) }
    }

    fn silent() -> Error {
        Error::NodeLost { node: NodeId(1), reason: "it does not renew its lease".to_owned() }
    }

    fn lost() -> Error {
        Error::RegionLost { region: "main-memory-a-1-0".to_owned(), node: NodeId(1) }
    }

    /// The outcome of tries that fail so, one after the other, and how many there were.
    fn tried(waits: u32, errors: &[Error]) -> (Result<()>, usize) {
        let mut tries = 0;
        let outcome = try_again(&Patient(Cell::new(waits)), |is_again| {
            assert_eq!(is_again, tries > 0);
            tries += 1;
            errors.get(tries - 1).cloned().map_or(Ok(()), Err)
        });
        (outcome, tries)
    }

    #[test]
    fn a_node_that_came_back_is_asked_again_and_one_that_lost_the_bytes_is_not() {
        assert_eq!(tried(0, &[refused()]), (Ok(()), 2));
        assert_eq!(tried(2, &[silent(), silent(), refused()]), (Err(refused()), 3), "nobody waits any more");
        assert_eq!(tried(9, &[silent(), refused(), refused()]), (Ok(()), 4));
        assert_eq!(tried(9, &[silent(), lost()]), (Err(lost()), 2));
        assert_eq!(tried(9, &[lost()]), (Err(lost()), 1));
        assert_eq!(in_words(&lost()), "node 1 ended, and what lay there with it");
    }
}
