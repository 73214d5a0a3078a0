//! Fairness: whose turn it is between the links of users, where one thread serves all.
//!
//! A *round* gives each user with links awake a turn. In it the user's links are served in the order in which they waited. A user with many
//! programs keeps another waiting for [`USER_TURN`], and for one link's turn that began within it. While several users move bytes the turn
//! is [`SHARED_TURN`], and stages of long commands are short. A program that waits for a small request's answer comes back soon.

use hanare_protocol::turns::Turns;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for the links of one user before those of the next. It does ten small requests and a stage of a long one.
const USER_TURN: Duration = Duration::from_micros(100);

/// The same while several users want turns: one stage, or a small request.
const SHARED_TURN: Duration = Duration::from_micros(10);

/// Users want turns for so long after they had one in which something moved.
const SHARED_FOR: Duration = Duration::from_millis(10);

/// A user's number, or the node's own links.
type Owner = Option<u32>;

/// The links that are awake, and the round that is under way.
#[derive(Debug, Default)]
pub struct Rounds {
    awake: Turns,
    /// Turns of each user's links in a row that moved nothing.
    idle: BTreeMap<Owner, usize>,
    /// Users that have no turn yet in this round.
    users_left: usize,
    turn: Option<UserTurn>,
    /// The user whose bytes moved last, and the end of the time in which another one's counts as sharing.
    mover: Owner,
    shared_until: Duration,
    now: Duration,
}

/// The turn of a user.
#[derive(Clone, Copy, Debug)]
struct UserTurn {
    user: Owner,
    begun: Duration,
    /// Links that have no turn yet in it.
    left: usize,
}

impl Rounds {
    /// A link is awake, behind the others of its user. The caller wakes none that is awake.
    pub fn push(&mut self, user: Owner, link: u64) {
        self.awake.push(user, link);
    }

    /// Returns true while no link is awake.
    pub fn is_empty(&self) -> bool {
        self.awake.is_empty()
    }

    /// The links that are awake.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.awake.iter()
    }

    /// Begins a round of the links that are awake now.
    pub fn begin(&mut self) {
        (self.users_left, self.turn) = (self.awake.user_count(), None);
    }

    /// The next link of the round, taken out. The caller pushes it again if it stays awake. `None` when the round is over.
    pub fn next(&mut self, now: Duration) -> Option<(Owner, u64)> {
        self.now = now;
        let most = if self.is_shared() { SHARED_TURN } else { USER_TURN };
        loop {
            if let Some(turn) = &mut self.turn
                && turn.left > 0
                && now.saturating_sub(turn.begun) < most
                && let Some(link) = self.awake.pop(turn.user)
            {
                turn.left -= 1;
                return Some((turn.user, link));
            }
            self.turn = None;
            self.users_left = self.users_left.checked_sub(1)?;
            let user = self.awake.next_user()?;
            self.turn = Some(UserTurn { user, begun: now, left: self.awake.count(user) });
        }
    }

    /// A link of a user had its turn.
    pub fn had_turn(&mut self, user: Owner, has_moved: bool) {
        let idle = self.idle.entry(user).or_default();
        *idle = if has_moved { 0 } else { *idle + 1 };
        if has_moved && user.is_some() && user != self.mover {
            if self.mover.is_some() {
                self.shared_until = self.now + SHARED_FOR;
            }
            self.mover = user;
        }
    }

    /// Returns true while several users have links that move. Each turn is short, and the driver looks for others' messages behind it.
    pub fn is_shared(&self) -> bool {
        self.now < self.shared_until
    }

    /// Returns true if every link that is awake had a turn in which nothing moved. A link whose turn was cut short may hold messages that
    /// no event tells of.
    pub fn is_quiet(&self) -> bool {
        self.awake.users().all(|user| self.idle.get(&user).is_some_and(|idle| *idle >= self.awake.count(user)))
    }

    /// The links that are awake, taken out.
    pub fn drain(&mut self) -> impl Iterator<Item = (Owner, u64)> {
        self.idle.clear();
        self.awake.drain()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round in which each link's turn takes so long, and the link stays awake.
    fn round(rounds: &mut Rounds, now: &mut Duration, turn: Duration) -> Vec<u64> {
        let mut links = Vec::new();
        rounds.begin();
        while let Some((user, link)) = rounds.next(*now) {
            *now += turn;
            rounds.had_turn(user, true);
            rounds.push(user, link);
            links.push(link);
        }
        links
    }

    #[test]
    fn a_user_with_many_links_has_as_much_time_as_one_with_a_single_one() {
        let (mut rounds, mut now) = (Rounds::default(), Duration::ZERO);
        (100..200).for_each(|link| rounds.push(Some(1), link));
        rounds.push(Some(2), 7);
        assert_eq!(round(&mut rounds, &mut now, USER_TURN / 2), [100, 101, 7]);
        assert_eq!(round(&mut rounds, &mut now, USER_TURN), [102, 7], "those that have waited longest");
    }

    #[test]
    fn turns_are_short_while_several_users_move() {
        let (mut rounds, mut now) = (Rounds::default(), Duration::ZERO);
        (100..200).for_each(|link| rounds.push(Some(1), link));
        rounds.push(None, 3);
        assert_eq!(round(&mut rounds, &mut now, SHARED_TURN), [&[3][..], &(100..110).collect::<Vec<u64>>()[..]].concat());
        assert!(!rounds.is_shared(), "the node's own links are no user's");
        rounds.push(Some(2), 7);
        assert_eq!(round(&mut rounds, &mut now, SHARED_TURN)[..2], [7, 3]);
        assert!(rounds.is_shared());
        assert_eq!(round(&mut rounds, &mut now, SHARED_TURN).len(), 3, "one link of each");
        assert_eq!(rounds.awake.pop(Some(2)), Some(7));
        now += SHARED_FOR;
        assert!(round(&mut rounds, &mut now, SHARED_TURN).len() > 3, "the other one asks no more");
    }

    #[test]
    fn each_link_has_one_turn_in_a_round_of_short_turns() {
        let (mut rounds, mut now) = (Rounds::default(), Duration::ZERO);
        (0..5).for_each(|link| rounds.push(None, link));
        assert_eq!(round(&mut rounds, &mut now, Duration::ZERO), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn it_is_quiet_when_each_link_had_a_turn_without_a_move() {
        let mut rounds = Rounds::default();
        (0..2).for_each(|link| rounds.push(Some(1), link));
        rounds.had_turn(Some(1), false);
        assert!(!rounds.is_quiet(), "one of two");
        rounds.had_turn(Some(1), false);
        assert!(rounds.is_quiet());
        rounds.had_turn(Some(1), true);
        assert!(!rounds.is_quiet());
        assert_eq!(rounds.drain().count(), 2);
        assert!(rounds.is_empty() && rounds.is_quiet());
    }
}
