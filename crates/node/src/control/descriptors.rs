//! The limit on this process's descriptors.

use hanare_protocol::limits::USER_CLIENT_COUNT_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of one client: its socket and its link's.
const FDS_PER_CLIENT: u64 = 3;

/// Lets this process have as many descriptors as it may allow itself. The usual soft limit of 1024 is for programs that use
/// `select`.
pub(crate) fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // After a failure fewer clients attach, and each that does not is told.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Most clients of one user: with half of all descriptors they leave room for other users and for memory.
pub(super) fn most_clients() -> usize {
    let share = getrlimit(Resource::Nofile).current.map_or(u64::MAX, |limit| limit / 2 / FDS_PER_CLIENT);
    usize::try_from(share).unwrap_or(usize::MAX).clamp(1, USER_CLIENT_COUNT_MAX)
}
