//! What each user has of the tables that programs fill, so that no user fills one alone.

use crate::node::held::Held;
use hanare_protocol::limits::USER_HEAP_LEN_MAX;
use hanare_protocol::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Takings of locks, and places in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableShare {
    pub claims: usize,
    pub places: usize,
}

/// Shares by connection, and their sums by user.
#[derive(Default)]
pub(crate) struct Shares {
    sessions: HashMap<u64, (u32, TableShare)>,
    users: HashMap<u32, TableShare>,
}

impl Shares {
    /// A user asks on a connection. Returns what the user has on all of its connections.
    pub fn enter(&mut self, session: u64, user: u32) -> TableShare {
        self.sessions.entry(session).or_insert((user, TableShare::default()));
        self.users.get(&user).copied().unwrap_or_default()
    }

    /// A connection has so much from here on.
    pub fn set(&mut self, session: u64, share: TableShare) {
        let Some((user, before)) = self.sessions.get_mut(&session) else { return };
        let sum = self.users.entry(*user).or_default();
        sum.claims = sum.claims + share.claims - before.claims;
        sum.places = sum.places + share.places - before.places;
        if *sum == TableShare::default() {
            self.users.remove(user);
        }
        *before = share;
    }

    /// A connection has ended.
    pub fn forget(&mut self, session: u64) {
        self.set(session, TableShare::default());
        self.sessions.remove(&session);
    }
}

/// A heap's table counts as so many bytes at least: a look at all of a user's stays short.
const HEAP_LEN_MIN: u64 = 64 << 10;

/// Tables of heaps by the user that began them. They lie in the node's own memory, and a program says how long they are.
#[derive(Default)]
pub(crate) struct Heaps(HashMap<u32, Vec<(Weak<Held>, u64)>>);

impl Heaps {
    /// A user asks for a block of the heap that begins in an extent.
    ///
    /// **Errors**: [`Error::LimitReached`] where the heap would begin or grow now, and the user's tables would be too long together.
    pub fn enter(&mut self, user: u32, held: &Arc<Held>, region_len: u64) -> Result<()> {
        let more = held.heap_growth(region_len);
        if more == 0 {
            return Ok(());
        }
        let own = self.0.entry(user).or_default();
        own.retain(|(held, _)| held.strong_count() > 0);
        let len = more.max(HEAP_LEN_MIN);
        if own.iter().map(|(_, len)| len).sum::<u64>() + len > USER_HEAP_LEN_MAX {
            let what = "bytes of tables of one user's heaps at a node".to_owned();
            return Err(Error::LimitReached { what, limit: USER_HEAP_LEN_MAX });
        }
        own.push((Arc::downgrade(held), len));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_a_user_are_those_of_its_connections() {
        let mut shares = Shares::default();
        let share = |claims, places| TableShare { claims, places };
        assert_eq!(shares.enter(1, 10), TableShare::default());
        shares.set(1, share(3, 1));
        assert_eq!(shares.enter(2, 10), share(3, 1));
        shares.set(2, share(4, 0));
        shares.set(1, share(1, 2));
        assert_eq!((shares.enter(2, 10), shares.enter(3, 11)), (share(5, 2), TableShare::default()));
        shares.forget(2);
        assert_eq!(shares.enter(4, 10), share(1, 2));
        [1, 2, 3, 4].into_iter().for_each(|session| shares.forget(session));
        assert!(shares.users.is_empty() && shares.sessions.is_empty());
    }
}
