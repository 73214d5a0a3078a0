//! A set of limited size that forgets what was used longest ago: a TLB, a pin-down cache, a cache of lines.
use std::collections::BTreeMap;

/// A set of limited size that drops what was used longest ago.
#[derive(Debug)]
pub struct Recent {
    len_max: usize,
    turn: u64,
    used: BTreeMap<u64, u64>,
    by_turn: BTreeMap<u64, u64>,
}

impl Recent {
    /// An empty set of at most `len_max` members.
    pub fn new(len_max: usize) -> Recent {
        Recent { len_max, turn: 0, used: BTreeMap::new(), by_turn: BTreeMap::new() }
    }

    /// Uses a member and says whether it was there; a new one may push out the one used longest ago.
    pub fn touch(&mut self, member: u64) -> bool {
        self.turn += 1;
        let before = self.used.insert(member, self.turn);
        if let Some(turn) = before {
            self.by_turn.remove(&turn);
        } else if self.used.len() > self.len_max
            && let Some((_, oldest)) = self.by_turn.pop_first()
        {
            self.used.remove(&oldest);
        }
        self.by_turn.insert(self.turn, member);
        before.is_some()
    }

    /// Whether it holds as many as it may.
    pub fn is_full(&self) -> bool {
        self.used.len() >= self.len_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_drops_what_was_used_longest_ago() {
        let mut recent = Recent::new(2);
        assert_eq!([1, 2, 1, 3, 1, 2].map(|page| recent.touch(page)), [false, false, true, false, true, false]);
        assert!(recent.is_full());
    }
}
