//! Turns of users that one thread serves. They decide for a node's threads, so that no user makes others wait by many programs.
//!
//! Users have turns one after another, and so have the members of each user. A user with a thousand programs has as many turns as one
//! with a single program, while both want more.

use std::collections::{BTreeMap, VecDeque};

/// Members that want a turn, by the user of each; the node's own come first, as those of no user.
///
/// - Entries are unique in a queue: the caller pushes only absent ones.
/// - No queue is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    queues: BTreeMap<Option<u32>, VecDeque<u64>>,
    /// User of the last turn.
    last: Option<Option<u32>>,
}

impl Turns {
    /// An empty queue.
    pub fn new() -> Turns {
        Turns::default()
    }

    /// True if nobody wants a turn.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Number of users that want one.
    pub fn user_count(&self) -> usize {
        self.queues.len()
    }

    /// Users that want one.
    pub fn users(&self) -> impl Iterator<Item = Option<u32>> + '_ {
        self.queues.keys().copied()
    }

    /// Number of a user's members that do.
    pub fn count(&self, user: Option<u32>) -> usize {
        self.queues.get(&user).map_or(0, VecDeque::len)
    }

    /// A member wants a turn, behind the others of its user.
    pub fn push(&mut self, user: Option<u32>, member: u64) {
        self.queues.entry(user).or_default().push_back(member);
    }

    /// The user behind the one whose turn was last, if anybody wants a turn.
    pub fn next_user(&mut self) -> Option<Option<u32>> {
        let behind = self.last.and_then(|last| {
            let behind = self.queues.range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded));
            behind.map(|(user, _)| *user).next()
        });
        let user = behind.or_else(|| self.queues.keys().next().copied())?;
        self.last = Some(user);
        Some(user)
    }

    /// The member of a user that has waited longest, taken out.
    pub fn pop(&mut self, user: Option<u32>) -> Option<u64> {
        let queue = self.queues.get_mut(&user)?;
        let member = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&user);
        }
        member
    }

    /// All that want a turn, taken out.
    pub fn drain(&mut self) -> impl Iterator<Item = (Option<u32>, u64)> {
        let queues = std::mem::take(&mut self.queues);
        queues.into_iter().flat_map(|(user, queue)| queue.into_iter().map(move |member| (user, member)))
    }

    /// All that want a turn.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.queues.values().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next members, each of which wants another turn at once.
    fn turns(turns: &mut Turns, count: usize) -> Vec<u64> {
        let turn = |_| {
            let user = turns.next_user().unwrap();
            let member = turns.pop(user).unwrap();
            turns.push(user, member);
            member
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn a_user_with_many_programs_has_as_many_turns_as_one_with_a_single_one() {
        let mut all = Turns::new();
        (100..600).for_each(|member| all.push(Some(9), member));
        all.push(Some(10), 1);
        assert_eq!(turns(&mut all, 6), [100, 1, 101, 1, 102, 1]);
        assert_eq!((all.user_count(), all.count(Some(9))), (2, 500));
    }

    #[test]
    fn members_of_a_user_have_turns_one_after_another() {
        let mut all = Turns::new();
        (1..4).for_each(|member| all.push(None, member));
        assert_eq!(turns(&mut all, 7), [1, 2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn who_comes_between_waits_for_each_other_user_once() {
        let mut all = Turns::new();
        (1..4).for_each(|user| all.push(Some(user), u64::from(user)));
        assert_eq!(turns(&mut all, 2), [1, 2]);
        all.push(Some(0), 7);
        assert_eq!(turns(&mut all, 4), [3, 7, 1, 2]);
        assert_eq!(all.drain().count(), 4);
        assert!(all.is_empty() && all.next_user().is_none());
    }
}
