//! Memberships at returned homes that got all their pages. Such a home may ask again, and others may still send its pages to this host's
//! old key.
//!
//! A home that asks by a membership that is remembered here hears that it has all. By any other, it hears that this host does not know. A
//! page that comes by the old key goes straight home. Messages that such a home may have missed, because it was lost again, are kept for
//! its next return.

use crate::limits::RETURNED_COUNT_MAX;
use std::collections::VecDeque;

#[derive(Clone, Debug, PartialEq, Eq)]
struct ReturnedHome<H, M> {
    key: u64,
    share: u64,
    home: H,
    unsent: Vec<M>,
}

/// The shares that ended so. `H` says where a home is reached, `M` is a message with a page.
///
/// - At most [`RETURNED_COUNT_MAX`]; the oldest goes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnedPages<H, M>(VecDeque<ReturnedHome<H, M>>);

impl<H, M> Default for ReturnedPages<H, M> {
    fn default() -> ReturnedPages<H, M> {
        ReturnedPages(VecDeque::new())
    }
}

impl<H, M> ReturnedPages<H, M> {
    /// A home, which knew this host by that key and membership, has all its pages.
    pub fn keep(&mut self, (key, share): (u64, u64), home: H) {
        if self.0.len() >= RETURNED_COUNT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(ReturnedHome { key, share, home, unsent: Vec::new() });
    }

    /// A home asks by a key that this host has no more. Returns the messages that it may have missed, if it has all else, and the home that asked
    /// before. `None` if this host does not know what it had.
    pub fn asked(&mut self, (key, share): (u64, u64), home: H) -> Option<(Vec<M>, H)> {
        let returned = self.0.iter_mut().find(|returned| (returned.key, returned.share) == (key, share))?;
        Some((std::mem::take(&mut returned.unsent), std::mem::replace(&mut returned.home, home)))
    }

    /// Keeps a message that the home of a membership may have missed. Returns it where the membership is not remembered.
    pub fn keep_unsent(&mut self, share: u64, message: M) -> Option<M> {
        match self.0.iter_mut().find(|returned| returned.share == share) {
            Some(returned) => {
                returned.unsent.push(message);
                None
            }
            None => Some(message),
        }
    }

    /// The membership and home for a page sent to an old key.
    pub fn home_of(&self, key: u64) -> Option<(u64, &H)> {
        self.0.iter().find(|returned| returned.key == key).map(|returned| (returned.share, &returned.home))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_that_asks_again_gets_what_it_may_not_have_heard() {
        let mut returned = ReturnedPages::<char, &str>::default();
        returned.keep((1, 10), 'a');
        assert_eq!(returned.home_of(1), Some((10, &'a')));
        assert_eq!((returned.keep_unsent(10, "page"), returned.keep_unsent(11, "other")), (None, Some("other")));
        assert_eq!((returned.asked((1, 11), 'c'), returned.asked((2, 10), 'c')), (None, None), "another share, or another key");
        let asked = [returned.asked((1, 10), 'c'), returned.asked((1, 10), 'd')];
        assert_eq!(asked, [Some((vec!["page"], 'a')), Some((vec![], 'c'))]);
        (0..RETURNED_COUNT_MAX as u64).for_each(|key| returned.keep((100 + key, key), 'b'));
        assert_eq!((returned.home_of(1), returned.home_of(100)), (None, Some((0, &'b'))));
    }
}
