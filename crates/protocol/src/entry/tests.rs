//! The table, and what a home keeps, tells and refuses.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]

use super::*;
use crate::id::Gid;
use crate::limits::{PAGE_LEN, RELEASE_COUNT_MAX, RELEASE_LEN_MAX, RELEASE_LINE_COUNT_MAX, RELEASE_RANGE_COUNT_MAX};
use crate::lock::{Claim, Recalled};
use crate::shape::Strided;

fn shape(offset: u64, len: u64) -> BoundShape {
    BoundShape { gid: Gid(1), shape: Strided::contiguous(offset, len) }
}

fn range(offset: u64, len: u64) -> BoundRange {
    BoundRange { gid: Gid(1), offset, len }
}

fn bytes(offset: u64, those: &[u8]) -> Stores {
    Stores::Bytes(vec![range(offset, those.len() as u64)], those.to_vec())
}

/// A home with its locks, each taken and given back by calls.
struct Home {
    locks: Locks,
    data: BoundData,
    next: u64,
    /// Whose programs call.
    uid: u32,
}

impl Home {
    fn new() -> Home {
        Home { locks: Locks::new(), data: BoundData::new(7), next: 0, uid: 1 }
    }

    fn take(&mut self, name: &str, mode: Mode, known: Option<Stamp>) -> (Claimant, Option<DataGrant>) {
        self.next += 1;
        let who = Claimant { link: self.next, number: 0 };
        self.locks.on_lock(name, Claim { who, thread: 0, mode }, false).unwrap();
        (who, self.data.on_grant(name, known, self.uid).map(|grant| *grant))
    }

    fn publish(&mut self, who: Claimant, changes: Stores, binding: Option<Vec<BoundShape>>) -> Result<Stamp> {
        self.data.on_publish(&self.locks, who, self.uid, Publication { changes, binding })
    }

    fn give(&mut self, who: Claimant) {
        self.data.on_unlock(&self.locks, who);
        self.locks.on_unlock(who).unwrap();
    }

    fn die(&mut self, who: Claimant) {
        self.data.on_link_gone(who.link);
        self.locks.on_link_gone(who.link);
    }

    /// A whole section that releases.
    fn release(&mut self, name: &str, changes: Stores, binding: Option<Vec<BoundShape>>) -> Stamp {
        let (who, _) = self.take(name, Mode::Exclusive, None);
        let stamp = self.publish(who, changes, binding).unwrap();
        self.give(who);
        stamp
    }

    /// What one hears that knows a version.
    fn hear(&mut self, name: &str, known: Option<Stamp>) -> Option<DataGrant> {
        let (who, grant) = self.take(name, Mode::Shared, known);
        self.give(who);
        grant
    }
}

#[test]
fn the_table_is_this() {
    assert_eq!(table::contradiction(TABLE), None);
    assert_eq!(
        table::print(TABLE),
        "\
Publish        Whole, Torn                        -> Publishing
Commit         Publishing                         -> Whole
Lose           Publishing                         -> Redo
Tear           Publishing                         -> Torn
Redone         Redo                               -> Whole
Distrust       Redo                               -> Torn
Mend           Torn                               -> Whole
"
    );
}

#[test]
fn who_knows_a_version_hears_what_came_after_it_and_others_all() {
    let mut home = Home::new();
    assert_eq!(home.hear("a", None), None, "nothing is bound");
    let first = home.release("a", Stores::NONE, Some(vec![shape(0, 100)]));
    let all = home.hear("a", None).unwrap();
    assert_eq!((all.stamp, all.bound, all.changes), (first, Some(vec![shape(0, 100)]), Stores::All));
    let second = home.release("a", bytes(3, b"xyz"), None);
    let third = home.release("a", bytes(4, b"w"), None);
    let hear = |home: &mut Home, known| {
        let DataGrant { stamp, bound, changes, condition } = home.hear("a", Some(known)).unwrap();
        assert_eq!((stamp, bound, condition), (third, None, Condition::Whole));
        changes
    };
    assert_eq!(hear(&mut home, first), Stores::Bytes(vec![range(3, 3), range(4, 1)], b"xyzw".to_vec()));
    assert_eq!(hear(&mut home, second), bytes(4, b"w"));
    assert_eq!(hear(&mut home, third), Stores::NONE);
    for stranger in [Stamp { life: 8, ..third }, Stamp { version: third.version + 1, ..third }] {
        let told = home.hear("a", Some(stranger)).unwrap();
        assert_eq!((told.bound.is_some(), told.changes), (true, Stores::All), "of another life, or not yet");
    }
    // A release whose bytes are too many is known by its places.
    home.release("a", Stores::Ranges(vec![range(50, 9)]), None);
    let told = home.hear("a", Some(second)).unwrap().changes;
    assert_eq!(told, Stores::Ranges(vec![range(4, 1), range(50, 9)]));
}

#[test]
// FEATURE: RF-F16
fn those_who_wait_are_served_in_the_order_in_which_they_came_each_with_what_it_misses() {
    let mut home = Home::new();
    let first = home.release("a", Stores::NONE, Some(vec![shape(0, 8)]));
    let (holder, _) = home.take("a", Mode::Exclusive, Some(first));
    let came: Vec<Claimant> = [30, 10, 20].map(|link| Claimant { link, number: 0 }).to_vec();
    for who in &came {
        let claimed = home.locks.on_lock("a", Claim { who: *who, thread: 0, mode: Mode::Exclusive }, true);
        assert_eq!(claimed, Ok(crate::lock::Claimed::Waits));
    }
    let (mut last, mut misses) = (holder, Vec::new());
    for (turn, who) in (1..).zip(came) {
        home.publish(last, bytes(turn, &[turn as u8]), None).unwrap();
        home.give(last);
        misses.push(turn as u8);
        assert_eq!(home.locks.poll().map(|grant| grant.who), Some(who));
        let Stores::Bytes(_, told) = home.data.on_grant("a", Some(first), home.uid).unwrap().changes else {
            panic!("with the bytes")
        };
        assert_eq!(told, misses);
        last = who;
    }
}

#[test]
fn what_is_bound_anew_is_told_to_all_and_what_is_bound_no_more_is_forgotten() {
    let mut home = Home::new();
    let first = home.release("a", Stores::NONE, Some(vec![shape(0, 8)]));
    let second = home.release("a", bytes(2, b"z"), Some(vec![shape(100, 8)]));
    let told = home.hear("a", Some(first)).unwrap();
    assert_eq!((told.stamp, told.bound, told.changes), (second, Some(vec![shape(100, 8)]), Stores::All));
    home.release("a", Stores::NONE, Some(vec![]));
    assert_eq!((home.hear("a", Some(second)), home.data.phase("a")), (None, None));
    let again = home.release("a", Stores::NONE, Some(vec![shape(0, 8)]));
    assert!(again > second, "a version stands for one release of one binding");
    assert_eq!(home.hear("a", Some(second)).unwrap().changes, Stores::All);
}

#[test]
fn a_holder_that_dies_has_released_all_or_nothing() {
    let mut home = Home::new();
    let first = home.release("a", Stores::NONE, Some(vec![shape(0, 8)]));
    let (dies, _) = home.take("a", Mode::Exclusive, None);
    home.die(dies);
    assert_eq!(home.hear("a", Some(first)).unwrap().changes, Stores::NONE, "it had published nothing");
    let (dies, _) = home.take("a", Mode::Exclusive, Some(first));
    let stamp = home.publish(dies, bytes(1, b"ab"), None).unwrap();
    home.die(dies);
    // Whoever comes redoes it, until one says that it has.
    for _ in 0..2 {
        let (also, told) = home.take("a", Mode::Exclusive, Some(first));
        let told = told.unwrap();
        assert_eq!((told.stamp, told.changes), (stamp, Stores::Ranges(vec![])));
        assert_eq!(told.condition, Condition::Redo(bytes(1, b"ab")));
        assert!(home.publish(also, bytes(1, b"c"), None).is_err(), "not before it has redone that");
        home.die(also);
    }
    let (redoes, _) = home.take("a", Mode::Shared, None);
    home.data.on_redone(&home.locks, redoes).unwrap();
    home.give(redoes);
    let told = home.hear("a", Some(first)).unwrap();
    assert_eq!((told.changes, told.condition), (bytes(1, b"ab"), Condition::Whole));
}

#[test]
fn more_than_goes_with_a_lock_is_torn_by_a_death_and_said_until_one_gives_it_back() {
    let mut home = Home::new();
    let first = home.release("a", Stores::NONE, Some(vec![shape(0, 8)]));
    let (dies, _) = home.take("a", Mode::Exclusive, Some(first));
    home.publish(dies, Stores::Ranges(vec![range(0, 8)]), None).unwrap();
    home.die(dies);
    for _ in 0..2 {
        let told = home.hear("a", Some(first)).unwrap();
        assert_eq!((told.changes, told.condition), (Stores::All, Condition::Torn), "who only reads mends nothing");
    }
    // One that dies in its turn leaves it torn, whatever it said.
    let (dies, _) = home.take("a", Mode::Exclusive, None);
    home.publish(dies, bytes(0, b"a"), None).unwrap();
    home.die(dies);
    assert_eq!(home.hear("a", None).unwrap().condition, Condition::Torn);
    home.release("a", bytes(0, b"b"), None);
    assert_eq!(home.hear("a", None).unwrap().condition, Condition::Whole);
}

#[test]
fn who_gives_up_in_the_middle_of_a_release_is_like_one_that_died() {
    let mut home = Home::new();
    home.release("a", Stores::NONE, Some(vec![shape(0, 8)]));
    let (who, _) = home.take("a", Mode::Exclusive, None);
    home.publish(who, bytes(0, b"a"), None).unwrap();
    home.data.on_withdraw(who);
    home.locks.on_withdraw(who);
    assert_eq!(home.hear("a", None).unwrap().condition, Condition::Redo(bytes(0, b"a")));
}

#[test]
fn what_one_may_not_publish_is_refused_and_changes_nothing() {
    let mut home = Home::new();
    home.release("a", Stores::NONE, Some(vec![shape(8, 8), shape(100, 8)]));
    let before = home.data.clone();
    let nobody = Claimant { link: 99, number: 0 };
    assert!(matches!(home.publish(nobody, Stores::NONE, None), Err(Error::LockMisused { .. })));
    assert!(home.data.on_redone(&home.locks, nobody).is_err());
    let (reads, _) = home.take("a", Mode::Shared, None);
    assert!(matches!(home.publish(reads, bytes(8, b"a"), None), Err(Error::LockMisused { .. })));
    home.give(reads);
    let (who, _) = home.take("a", Mode::Exclusive, None);
    for beside in [range(7, 1), range(16, 1), range(8, 9), range(50, 1), BoundRange { gid: Gid(2), ..range(8, 1) }] {
        let changes = Stores::Bytes(vec![beside], vec![0; beside.len as usize]);
        assert!(home.publish(who, changes, None).is_err(), "{beside:?}");
    }
    let wrong = [
        Stores::Bytes(vec![range(8, 2)], b"a".to_vec()),
        Stores::Bytes(vec![range(8, 1); RELEASE_RANGE_COUNT_MAX + 1], vec![0; RELEASE_RANGE_COUNT_MAX + 1]),
        Stores::Ranges(vec![range(u64::MAX, 2)]),
    ];
    for changes in wrong {
        assert!(home.publish(who, changes, None).is_err());
    }
    let many = Strided { offset: 0, block: 1, count: 5000, stride: 2 };
    assert!(home.publish(who, Stores::NONE, Some(vec![BoundShape { gid: Gid(1), shape: many }])).is_err());
    assert!(home.publish(who, Stores::NONE, Some(vec![shape(0, 1); 65])).is_err());
    home.publish(who, bytes(8, b"a"), None).unwrap();
    home.give(who);
    assert_eq!(home.data.entries.len(), before.entries.len());
}

#[test]
fn who_publishes_again_says_that_its_changes_of_before_are_at_their_homes() {
    let mut home = Home::new();
    home.release("a", Stores::NONE, Some(vec![shape(0, 8)]));
    let (who, _) = home.take("a", Mode::Exclusive, None);
    let first = home.publish(who, bytes(0, b"a"), None).unwrap();
    assert!(home.publish(who, bytes(1, b"b"), None).unwrap().version > first.version);
    home.die(who);
    assert_eq!(home.hear("a", Some(first)).unwrap().condition, Condition::Redo(bytes(1, b"b")));
}

#[test]
fn a_leased_lock_that_is_only_kept_has_been_released() {
    for (is_detached, recalled) in
        [(false, Recalled::Kept), (true, Recalled::Kept), (true, Recalled::Held), (false, Recalled::Unknown)]
    {
        let mut home = Home::new();
        home.release("a", Stores::NONE, Some(vec![shape(0, 8)]));
        let (who, _) = home.take("a", Mode::Exclusive, None);
        assert!(home.locks.on_lend(who));
        home.publish(who, bytes(0, b"a"), None).unwrap();
        home.locks.on_recall("a");
        if is_detached {
            home.die(who);
        }
        match recalled {
            Recalled::Kept => home.data.on_yield(&home.locks, who),
            Recalled::Unknown => home.data.on_withdraw(who),
            Recalled::Held => {}
        }
        home.locks.on_recalled(who, recalled);
        let condition = if recalled == Recalled::Kept { Condition::Whole } else { Condition::Redo(bytes(0, b"a")) };
        assert_eq!(home.hear("a", None).unwrap().condition, condition, "{recalled:?}, {is_detached}");
    }
}

#[test]
fn a_range_may_lie_on_several_shapes_that_touch() {
    let mut home = Home::new();
    home.release("a", Stores::NONE, Some(vec![shape(50, 10), shape(8, 8), shape(16, 4)]));
    let (who, _) = home.take("a", Mode::Exclusive, None);
    assert!(home.publish(who, bytes(10, &[1; 11]), None).is_err());
    home.publish(who, bytes(10, &[1; 10]), None).unwrap();
}

#[test]
fn what_is_kept_of_releases_is_bounded_for_each_lock_and_for_all() {
    let mut home = Home::new();
    let first = home.release("a", Stores::NONE, Some(vec![shape(0, 1 << 20)]));
    let second = home.release("a", bytes(0, b"0"), None);
    for _ in 0..RELEASE_COUNT_MAX {
        home.release("a", bytes(0, b"1"), None);
    }
    assert_eq!(home.hear("a", Some(first)).unwrap().changes, Stores::All);
    assert!(matches!(home.hear("a", Some(second)).unwrap().changes, Stores::Bytes(..)));
    // Long releases of many locks: those of the one that was used least recently go first.
    let long = bytes(0, &vec![7; RELEASE_LEN_MAX]);
    let lines = long.line_count();
    let mut stamps = Vec::new();
    for number in 0..RELEASE_LINE_COUNT_MAX / lines + 2 {
        let name = format!("lock{number}");
        let bound = home.release(&name, Stores::NONE, Some(vec![shape(0, 1 << 20)]));
        home.release(&name, long.clone(), None);
        stamps.push((name, bound));
        home.hear("a", None);
        assert!(home.data.releases.line_count() <= RELEASE_LINE_COUNT_MAX);
    }
    let (oldest, newest) = (stamps[0].clone(), stamps.last().unwrap().clone());
    assert_eq!(home.hear(&oldest.0, Some(oldest.1)).unwrap().changes, Stores::All);
    assert_eq!(home.hear(&newest.0, Some(newest.1)).unwrap().changes, long);
    assert!(matches!(home.hear("a", Some(second)).unwrap().changes, Stores::Bytes(..)), "it was used all the time");
}

#[test]
fn bytes_of_one_user_s_release_go_to_its_own_programs_alone() {
    let mut home = Home::new();
    let first = home.release("a", bytes(0, b"x"), Some(vec![shape(0, 64)]));
    let second = home.release("a", bytes(4, b"yz"), None);
    assert_eq!(home.hear("a", Some(first)).unwrap().changes, bytes(4, b"yz"));
    home.uid = 2;
    assert_eq!(home.hear("a", Some(first)).unwrap().changes, Stores::Ranges(vec![range(4, 2)]), "its region's home has them");
    home.uid = 0;
    home.release("a", bytes(8, b"r"), None);
    home.uid = 2;
    assert_eq!(home.hear("a", Some(second)).unwrap().changes, bytes(8, b"r"), "root is believed by all");
}

#[test]
fn nobody_puts_at_a_home_what_another_user_left() {
    let mut home = Home::new();
    home.release("a", bytes(0, b"x"), Some(vec![shape(0, 64)]));
    let die = |home: &mut Home| {
        let (who, _) = home.take("a", Mode::Exclusive, None);
        home.publish(who, bytes(4, b"evil"), None).unwrap();
        home.die(who);
    };
    die(&mut home);
    home.uid = 2;
    let (who, grant) = home.take("a", Mode::Exclusive, None);
    assert_eq!((grant.unwrap().condition, home.data.phase("a")), (Condition::Torn, Some(Phase::Torn)));
    home.publish(who, bytes(8, b"own"), None).unwrap();
    home.give(who);
    assert_eq!(home.hear("a", None).unwrap().condition, Condition::Whole);
    assert_eq!(home.data.releases.staged_count(), 0);
    // Programs of the same user redo it.
    home.uid = 1;
    die(&mut home);
    assert!(matches!(home.hear("a", None).unwrap().condition, Condition::Redo(_)));
    home.uid = 2;
    assert_eq!(home.hear("a", None).unwrap().condition, Condition::Torn, "also to who shares the lock");
    home.uid = 1;
    assert_eq!(home.hear("a", None).unwrap().condition, Condition::Torn, "until a holder has mended it");
    home.uid = 0;
    die(&mut home);
    home.uid = 1;
    assert_eq!(home.hear("a", None).unwrap().condition, Condition::Torn, "torn bytes are not to be redone");
    let (who, _) = home.take("a", Mode::Exclusive, None);
    home.give(who);
    home.uid = 0;
    die(&mut home);
    home.uid = 1;
    assert!(matches!(home.hear("a", None).unwrap().condition, Condition::Redo(_)));
    home.uid = *crate::tenant::TENANT_NUMBERS.start();
    assert_eq!(home.hear("a", None).unwrap().condition, Condition::Torn, "a tenant does not see all regions of root's");
}

#[test]
fn no_user_has_all_locks_with_data() {
    let mut home = Home::new();
    let bind = || Some(vec![shape(0, 64)]);
    for number in 0..USER_BOUND_LOCK_COUNT_MAX {
        home.release(&format!("a{number}"), Stores::NONE, bind());
    }
    let (who, _) = home.take("b", Mode::Exclusive, None);
    let refused = home.publish(who, Stores::NONE, bind());
    assert!(
        matches!(refused, Err(Error::LimitReached { limit, .. }) if limit == USER_BOUND_LOCK_COUNT_MAX as u64),
        "{refused:?}"
    );
    home.give(who);
    home.uid = 2;
    home.release("c", Stores::NONE, bind());
    home.uid = 1;
    home.release("a0", Stores::NONE, Some(Vec::new()));
    home.release("b", Stores::NONE, bind());
}

#[test]
fn no_user_has_all_room_for_releases_under_way() {
    let mut home = Home::new();
    let long = || (bytes(0, &vec![1; RELEASE_LEN_MAX]), Some(vec![shape(0, RELEASE_LEN_MAX as u64)]));
    let publish = |home: &mut Home, name: &str| {
        let (who, _) = home.take(name, Mode::Exclusive, None);
        let (changes, binding) = long();
        home.publish(who, changes, binding).unwrap();
        who
    };
    let count = RELEASE_LINE_COUNT_MAX * PAGE_LEN as usize / RELEASE_LEN_MAX;
    let all: Vec<Claimant> = (0..count).map(|number| publish(&mut home, &format!("a{number}"))).collect();
    home.uid = 2;
    let own = publish(&mut home, "b");
    home.die(own);
    assert_eq!(home.data.phase("b"), Some(Phase::Redo), "another user's is kept whole");
    all.into_iter().for_each(|who| home.die(who));
    let kept = (0..count).filter(|number| home.data.phase(&format!("a{number}")) == Some(Phase::Redo)).count();
    assert!((1..=count / 4).contains(&kept), "{kept} of {count}");
}
