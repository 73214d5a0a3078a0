//! Quotas: what each user has of the tables that programs fill, so that no user fills one alone.

use std::collections::BTreeMap;

/// Entries in the tables: takings of locks, and places in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub claims: usize,
    pub places: usize,
}

/// Usage by link, and its sums by user.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    links: BTreeMap<u64, (u32, Usage)>,
    users: BTreeMap<u32, Usage>,
}

impl Quotas {
    /// A user asks on a link. Returns the user's usage over all of its links.
    pub fn enter(&mut self, link: u64, user: u32) -> Usage {
        self.links.entry(link).or_insert((user, Usage::default()));
        self.users.get(&user).copied().unwrap_or_default()
    }

    /// The user of a link that has asked for something.
    pub fn user_of(&self, link: u64) -> Option<u32> {
        self.links.get(&link).map(|(user, _)| *user)
    }

    /// Sets a link's usage.
    pub fn set(&mut self, link: u64, usage: Usage) {
        let Some((user, before)) = self.links.get_mut(&link) else { return };
        let sum = self.users.entry(*user).or_default();
        sum.claims = sum.claims + usage.claims - before.claims;
        sum.places = sum.places + usage.places - before.places;
        if *sum == Usage::default() {
            self.users.remove(user);
        }
        *before = usage;
    }

    /// A link has ended.
    pub fn forget(&mut self, link: u64) {
        self.set(link, Usage::default());
        self.links.remove(&link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_a_user_are_those_of_its_links() {
        let mut quotas = Quotas::default();
        let usage = |claims, places| Usage { claims, places };
        assert_eq!(quotas.enter(1, 10), Usage::default());
        quotas.set(1, usage(3, 1));
        assert_eq!(quotas.enter(2, 10), usage(3, 1));
        quotas.set(2, usage(4, 0));
        quotas.set(1, usage(1, 2));
        assert_eq!((quotas.enter(2, 10), quotas.enter(3, 11)), (usage(5, 2), Usage::default()));
        quotas.forget(2);
        assert_eq!(quotas.enter(4, 10), usage(1, 2));
        [1, 2, 3, 4].into_iter().for_each(|link| quotas.forget(link));
        assert!(quotas.users.is_empty() && quotas.links.is_empty());
    }
}
