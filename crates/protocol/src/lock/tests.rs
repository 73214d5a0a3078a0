//! The rules of locks, beside plain ones.

use super::*;
use crate::id::{Gid, Slot};
use crate::name::name_of_byte;
use crate::table;
use proptest::prelude::*;

fn who(link: u64, number: u64) -> Claimant {
    Claimant { link, number }
}

/// One thread a link.
fn claim(link: u64, number: u64, mode: Mode) -> Claim {
    Claim { who: who(link, number), thread: 0, mode }
}

const GRANTED: Result<Claimed> = Ok(Claimed::Granted { abandoned: false });
const WAITS: Result<Claimed> = Ok(Claimed::Waits);

fn grants(locks: &mut Locks) -> Vec<(u64, bool)> {
    std::iter::from_fn(|| locks.poll()).map(|grant| (grant.who.link, grant.abandoned)).collect()
}

use Mode::{Exclusive, Shared};

#[test]
fn the_table_is_this() {
    assert_eq!(table::contradiction(TABLE), None);
    assert_eq!(
        table::print(TABLE),
        "\
Enter          Free, Orphaned, Shared             -> Shared
Take           Free, Orphaned                     -> Alone
Wait           Shared                             -> Shared
Wait           Alone                              -> Alone
Wait           Leased, Recalled                   -> Recalled
Wait           Detached                           -> Detached
Quit           Shared                             -> Shared
Quit           Alone                              -> Alone
Quit           Recalled                           -> Recalled
Quit           Detached                           -> Detached
Part           Shared                             -> Shared
Last           Shared                             -> Free
Give           Alone, Leased, Recalled            -> Free
Die            Alone, Recalled, Detached          -> Orphaned
Waive          Shared, Alone, Leased, Recalled    -> Orphaned
Doubt          Free                               -> Orphaned
Lend           Alone                              -> Leased
Recall         Leased                             -> Recalled
Cut            Leased, Recalled                   -> Detached
Yield          Recalled, Detached                 -> Free
Insist         Recalled                           -> Alone
"
    );
}

#[test]
fn who_comes_first_is_served_first_and_sharers_do_not_overtake() {
    let mut locks = Locks::new();
    assert_eq!(locks.on_lock("a", claim(1, 0, Shared), true), GRANTED);
    assert_eq!(locks.on_lock("a", claim(2, 0, Shared), true), GRANTED);
    assert_eq!(locks.on_lock("a", claim(3, 0, Exclusive), true), WAITS);
    assert_eq!(locks.on_lock("a", claim(4, 0, Shared), true), WAITS, "it would overtake");
    assert_eq!(locks.on_lock("a", claim(5, 0, Shared), true), WAITS);
    assert_eq!(locks.on_lock("a", claim(6, 0, Exclusive), true), WAITS);
    assert_eq!(locks.on_lock("a", claim(7, 0, Shared), false), Ok(Claimed::Busy));
    locks.on_unlock(who(1, 0)).unwrap();
    assert_eq!(grants(&mut locks), []);
    locks.on_unlock(who(2, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(3, false)]);
    locks.on_unlock(who(3, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(4, false), (5, false)]);
    locks.on_unlock(who(4, 0)).unwrap();
    locks.on_unlock(who(5, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(6, false)]);
    locks.on_unlock(who(6, 0)).unwrap();
    assert_eq!((locks.count(), locks.claims.len()), (0, 0), "nothing is kept");
}

#[test]
fn a_dead_holders_lock_is_granted_on_and_the_next_is_told_once() {
    let mut locks = Locks::new();
    assert_eq!(locks.on_lock("a", claim(1, 0, Exclusive), true), GRANTED);
    assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
    assert_eq!(locks.on_lock("a", claim(3, 0, Exclusive), true), WAITS);
    locks.on_link_gone(1);
    assert_eq!(grants(&mut locks), [(2, true)]);
    locks.on_unlock(who(2, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(3, false)]);
    locks.on_link_gone(3);
    assert_eq!(locks.phase("a"), Phase::Orphaned);
    assert_eq!(locks.on_lock("a", claim(4, 0, Shared), true), Ok(Claimed::Granted { abandoned: true }));
    assert_eq!(locks.on_lock("a", claim(5, 0, Shared), true), GRANTED);
    locks.on_link_gone(4);
    locks.on_link_gone(5);
    assert_eq!(locks.count(), 0, "who only read leaves nothing half-written");
}

/// Found by the simulator. The second thread was granted the lock before it was found to be gone, too, and was the one told.
#[test]
fn threads_that_die_together_do_not_take_with_them_that_a_lock_was_abandoned() {
    for waiter in [Shared, Exclusive] {
        let mut locks = Locks::new();
        assert_eq!(locks.on_lock("a", claim(1, 0, Exclusive), true), GRANTED);
        let other = Claim { thread: 1, ..claim(1, 1, waiter) };
        assert_eq!(locks.on_lock("a", other, true), WAITS);
        assert_eq!(locks.on_lock("a", claim(2, 0, Shared), true), WAITS);
        locks.on_link_gone(1);
        assert_eq!(grants(&mut locks), [(2, true)], "the one that is there, and nobody who is gone");
    }
    // Nor is a place given to one that goes, or told of twice that two go.
    let two = Mode::OneOf(2);
    let mut locks = Locks::new();
    assert_eq!(locks.on_lock("a", claim(1, 0, two), true), GRANTED);
    assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
    assert_eq!(locks.on_lock("a", Claim { thread: 1, ..claim(2, 1, two) }, true), WAITS);
    locks.on_link_gone(2);
    locks.on_unlock(who(1, 0)).unwrap();
    assert_eq!(locks.phase("a"), Phase::Free, "found by the simulator");
    assert_eq!(locks.on_lock("a", claim(3, 0, two), true), GRANTED);
    assert_eq!(locks.on_lock("a", Claim { thread: 1, ..claim(3, 1, two) }, true), GRANTED);
    assert_eq!(locks.on_lock("a", claim(4, 0, two), true), WAITS);
    locks.on_link_gone(3);
    assert_eq!(grants(&mut locks), [(4, true)]);
    locks.on_unlock(who(4, 0)).unwrap();
    assert_eq!(locks.phase("a"), Phase::Free, "said once");
    // Nor does one that only waited abandon anything.
    let mut locks = Locks::new();
    assert_eq!(locks.on_lock("a", claim(1, 0, Shared), true), GRANTED);
    assert_eq!(locks.on_lock("a", Claim { thread: 1, ..claim(1, 1, Exclusive) }, true), WAITS);
    assert_eq!(locks.on_lock("a", claim(2, 0, Shared), true), WAITS);
    locks.on_link_gone(1);
    assert_eq!(grants(&mut locks), [(2, false)]);
}

#[test]
fn the_first_to_take_a_lock_at_a_home_that_began_again_is_told_that_somebody_may_have_it() {
    let mut locks = Locks::after_another_life();
    assert_eq!(locks.on_lock("a", claim(1, 0, Exclusive), false), Ok(Claimed::Granted { abandoned: true }));
    assert_eq!(locks.on_lock("a", claim(2, 0, Shared), true), WAITS);
    locks.on_unlock(who(1, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(2, false)], "the next is not told");
    locks.on_unlock(who(2, 0)).unwrap();
    assert_eq!(locks.count(), 0);
    assert_eq!(locks.on_lock("a", claim(3, 0, Shared), true), GRANTED, "its being free is known");
    assert_eq!(locks.on_lock("b", claim(4, 0, Shared), true), Ok(Claimed::Granted { abandoned: true }));
    assert_eq!(locks.on_lock("b", claim(5, 0, Shared), true), GRANTED);
}

#[test]
fn locks_at_bytes_whose_home_was_lost_are_doubted_once_until_the_next_one_is_lost() {
    let mut locks = Locks::new();
    let [there, beside] = [Slot(3), Slot(4)].map(|slot| name_of_byte(Gid(9), slot, 64));
    for _ in 0..2 {
        locks.doubt_bytes(Gid(9), Slot(3));
        for abandoned in [true, false] {
            assert_eq!(locks.on_lock(&there, claim(1, 0, Exclusive), false), Ok(Claimed::Granted { abandoned }));
            locks.on_unlock(who(1, 0)).unwrap();
        }
        for name in ["a", &beside] {
            assert_eq!(locks.on_lock(name, claim(2, 0, Exclusive), false), GRANTED, "its home was this one all the time");
            locks.on_unlock(who(2, 0)).unwrap();
        }
    }
    locks.on_freed(|_, slot| slot == Slot(3));
    assert!(locks.doubted.has(&there));
    locks.on_freed(|_, _| false);
    assert!(!locks.doubted.has(&there), "what is no more takes no memory");
}

#[test]
fn the_names_that_a_home_remembers_after_it_began_again_are_bounded() {
    let mut locks = Locks::after_another_life();
    for number in 0..=LOCK_COUNT_MAX as u64 {
        let granted = locks.on_lock(&format!("lock{number}"), claim(number, 0, Exclusive), true);
        assert_eq!(granted, Ok(Claimed::Granted { abandoned: number < LOCK_COUNT_MAX as u64 }));
        locks.on_unlock(who(number, 0)).unwrap();
    }
    assert_eq!(locks.known.as_ref().map(BTreeSet::len), Some(LOCK_COUNT_MAX));
    assert_eq!(locks.on_lock("lock7", claim(7, 1, Exclusive), true), GRANTED);
}

#[test]
fn who_gives_up_takes_nothing_with_it_that_others_must_hear() {
    for (mode, next) in [(Exclusive, Exclusive), (Shared, Exclusive), (Exclusive, Shared), (Shared, Shared)] {
        let mut locks = Locks::new();
        assert_eq!(locks.on_lock("a", claim(1, 0, Exclusive), true), GRANTED);
        locks.on_link_gone(1);
        assert_eq!(locks.on_lock("a", claim(2, 0, mode), true), Ok(Claimed::Granted { abandoned: true }));
        if mode == Shared {
            // Another shares it, not told, and goes on when the first one's answer is not waited for any more.
            assert_eq!(locks.on_lock("a", claim(3, 0, Shared), true), GRANTED);
        }
        locks.on_withdraw(who(2, 0));
        if mode == Shared {
            locks.on_unlock(who(3, 0)).unwrap();
        }
        assert_eq!(locks.phase("a"), Phase::Orphaned);
        assert_eq!(locks.on_lock("a", claim(4, 0, next), true), Ok(Claimed::Granted { abandoned: true }));
        locks.on_withdraw(who(4, 1));
        locks.on_unlock(who(4, 0)).unwrap();
        assert_eq!(locks.count(), 0);
    }
    let mut locks = Locks::new();
    assert_eq!(locks.on_lock("a", claim(1, 0, Shared), true), GRANTED);
    assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
    assert_eq!(locks.on_lock("a", claim(3, 0, Shared), true), WAITS);
    locks.on_withdraw(who(2, 0));
    assert_eq!(grants(&mut locks), [(3, false)], "who it kept out may enter");
    locks.on_withdraw(who(3, 0));
    locks.on_withdraw(who(1, 0));
    assert_eq!((locks.count(), locks.claims.len()), (0, 0), "nothing is kept");
}

#[test]
fn one_that_waits_and_goes_or_gives_up_is_not_waited_for() {
    let mut locks = Locks::new();
    assert_eq!(locks.on_lock("a", claim(1, 0, Shared), true), GRANTED);
    assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
    assert_eq!(locks.on_lock("a", claim(3, 0, Shared), true), WAITS);
    assert_eq!(locks.on_bound(who(2, 0)), Some("a".to_owned()));
    assert_eq!(grants(&mut locks), [(3, false)], "who it kept out may enter");
    assert_eq!(locks.on_bound(who(3, 0)), None, "it has the lock by now");
    assert_eq!(locks.on_lock("a", claim(4, 0, Exclusive), true), WAITS);
    assert_eq!(locks.on_lock("a", claim(5, 0, Shared), true), WAITS);
    locks.on_link_gone(4);
    assert_eq!(grants(&mut locks), [(5, false)]);
}

#[test]
fn misuse_is_an_error_and_changes_nothing() {
    let mut locks = Locks::new();
    let misused = |outcome: Result<Claimed>, word: &str| {
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("'a'") && text.contains(word), "{text}");
    };
    locks.on_lock("a", claim(1, 0, Exclusive), true).unwrap();
    misused(locks.on_lock("a", claim(1, 1, Exclusive), true), "already");
    misused(locks.on_lock("a", claim(1, 1, Shared), true), "already");
    misused(locks.on_lock("a", claim(1, 0, Shared), true), "number");
    assert!(matches!(locks.on_unlock(who(1, 1)), Err(Error::LockMisused { .. })));
    let other_thread = Claim { thread: 1, ..claim(1, 2, Exclusive) };
    assert_eq!(locks.on_lock("a", other_thread, true), WAITS);
    assert!(matches!(locks.on_unlock(who(1, 2)), Err(Error::LockMisused { .. })), "it only waits");
    locks.on_unlock(who(1, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(1, false)]);
    assert!(matches!(locks.on_unlock(who(1, 0)), Err(Error::LockMisused { .. })));
    locks.on_unlock(who(1, 2)).unwrap();
    locks.on_lock("a", claim(1, 3, Shared), true).unwrap();
    misused(locks.on_lock("a", claim(1, 4, Exclusive), true), "shares");
}

#[test]
fn beyond_the_limit_abandoned_locks_are_forgotten_and_held_ones_are_not() {
    let mut locks = Locks::new();
    for link in 0..LOCK_COUNT_MAX as u64 {
        locks.on_lock(&format!("lock{link}"), claim(link, 0, Exclusive), true).unwrap();
    }
    let refused = locks.on_lock("more", claim(u64::MAX, 0, Exclusive), true);
    assert!(matches!(refused, Err(Error::LimitReached { limit, .. }) if limit == LOCK_COUNT_MAX as u64));
    locks.on_link_gone(7);
    locks.on_link_gone(3);
    assert_eq!(locks.on_lock("more", claim(u64::MAX, 0, Exclusive), true), GRANTED);
    assert_eq!((locks.phase("lock7"), locks.phase("lock3")), (Phase::Free, Phase::Orphaned), "the oldest went");
}

#[test]
fn one_connection_does_not_take_all_there_is() {
    let mut locks = Locks::new();
    for number in 0..LINK_CLAIM_COUNT_MAX as u64 {
        locks.on_lock(&format!("lock{number}"), claim(1, number, Exclusive), true).unwrap();
    }
    let refused = locks.on_lock("more", claim(1, u64::MAX, Exclusive), true);
    assert!(matches!(refused, Err(Error::LimitReached { limit, .. }) if limit == LINK_CLAIM_COUNT_MAX as u64));
    assert_eq!(locks.on_lock("more", claim(2, 0, Exclusive), true), GRANTED);
    locks.on_unlock(who(1, 0)).unwrap();
    assert_eq!(locks.on_lock("again", claim(1, u64::MAX, Exclusive), true), GRANTED);
}

/// A semaphore of two places, of which one dies with its holder.
#[test]
fn so_many_have_a_place_at_a_time_in_order_of_arrival_and_a_dead_ones_place_is_told_of() {
    let two = Mode::OneOf(2);
    let mut locks = Locks::new();
    assert_eq!(locks.on_lock("a", claim(1, 0, two), true), GRANTED);
    assert_eq!(locks.on_lock("a", claim(2, 0, two), true), GRANTED);
    assert_eq!(locks.on_lock("a", claim(3, 0, two), false), Ok(Claimed::Busy));
    assert_eq!(locks.on_lock("a", claim(3, 1, two), true), WAITS);
    assert_eq!(locks.on_lock("a", claim(4, 0, Mode::OneOf(3)), true), WAITS, "another number is another lock for as long");
    assert_eq!(locks.on_lock("a", claim(5, 0, Exclusive), true), WAITS);
    assert_eq!(locks.on_lock("a", claim(6, 0, two), true), WAITS);
    locks.on_link_gone(1);
    assert_eq!(grants(&mut locks), [(3, true)], "it has the place of a dead one");
    locks.on_unlock(who(2, 0)).unwrap();
    assert_eq!(grants(&mut locks), [], "the next says another number");
    locks.on_unlock(who(3, 1)).unwrap();
    assert_eq!(grants(&mut locks), [(4, false)]);
    locks.on_unlock(who(4, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(5, false)]);
    locks.on_unlock(who(5, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(6, false)]);
    locks.on_link_gone(6);
    assert_eq!(locks.phase("a"), Phase::Orphaned);
    assert_eq!(locks.on_lock("a", claim(7, 0, Shared), true), Ok(Claimed::Granted { abandoned: true }));
    assert!(matches!(locks.on_lock("b", claim(8, 0, Mode::OneOf(0)), true), Err(Error::LockMisused { .. })));
    locks.on_unlock(who(7, 0)).unwrap();
    assert_eq!((locks.count(), locks.claims.len(), locks.links.len()), (0, 0, 0), "nothing is kept");
}

/// Holds lock "a" alone, and waits for a condition.
fn sleeps(locks: &mut Locks, link: u64, condition: u64) {
    assert_eq!(locks.on_lock("a", claim(link, 0, Exclusive), true), GRANTED);
    locks.on_sleep(who(link, 0), condition, claim(link, 1, Exclusive)).unwrap();
    assert_eq!(locks.phase("a"), Phase::Free);
}

#[test]
fn who_waits_for_a_condition_goes_on_in_order_when_it_is_notified() {
    let mut locks = Locks::new();
    for (link, condition) in [(1, 7), (2, 7), (3, 7), (4, 8)] {
        sleeps(&mut locks, link, condition);
    }
    assert_eq!((locks.count(), locks.count_of(2), grants(&mut locks)), (0, 1, vec![]));
    assert_eq!(locks.on_lock("a", claim(9, 0, Exclusive), true), GRANTED);
    assert_eq!(locks.on_lock("a", claim(5, 0, Exclusive), true), WAITS);
    locks.on_notify(who(9, 0), 7, false).unwrap();
    locks.on_notify(who(9, 0), 6, true).unwrap();
    assert_eq!(grants(&mut locks), [], "who notifies has the lock");
    locks.on_notify(who(9, 0), 7, true).unwrap();
    locks.on_unlock(who(9, 0)).unwrap();
    for (link, number) in [(5, 0), (1, 1), (2, 1), (3, 1)] {
        assert_eq!(grants(&mut locks), [(link, false)]);
        locks.on_unlock(who(link, number)).unwrap();
    }
    assert_eq!(grants(&mut locks), [], "another condition was notified");
    // Its bound is over, and nobody has the lock.
    assert_eq!(locks.on_sleep_bound(who(4, 1)), Ok(true));
    assert_eq!((grants(&mut locks), locks.on_sleep_bound(who(4, 1))), (vec![(4, false)], Ok(false)));
    locks.on_unlock(who(4, 1)).unwrap();
    assert_eq!((locks.count(), locks.claims.len(), locks.links.len(), locks.sleepers.len()), (0, 0, 0, 0), "nothing is kept");
}

#[test]
fn who_waits_for_a_condition_and_goes_is_not_notified_in_place_of_others() {
    let mut locks = Locks::new();
    (1..=4).for_each(|link| sleeps(&mut locks, link, 7));
    locks.on_link_gone(1);
    locks.on_withdraw(who(2, 1));
    assert_eq!(locks.on_lock("a", claim(9, 0, Exclusive), true), GRANTED);
    assert_eq!(locks.on_sleep_bound(who(3, 1)), Ok(true));
    assert_eq!(grants(&mut locks), [], "it waits for the lock from here on");
    locks.on_notify(who(9, 0), 7, false).unwrap();
    locks.on_unlock(who(9, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(3, false)]);
    locks.on_unlock(who(3, 1)).unwrap();
    assert_eq!(grants(&mut locks), [(4, false)]);
    locks.on_link_gone(4);
    assert_eq!((locks.links.len(), locks.sleepers.len(), locks.claims.len()), (0, 0, 0));
}

#[test]
fn a_lock_that_is_abandoned_wakes_who_waits_for_its_conditions() {
    for others_wait in [false, true] {
        let mut locks = Locks::new();
        (1..=3).for_each(|link| sleeps(&mut locks, link, link % 2));
        assert_eq!(locks.on_lock("a", claim(9, 0, Exclusive), true), GRANTED);
        if others_wait {
            assert_eq!(locks.on_lock("a", claim(8, 0, Exclusive), true), WAITS);
        }
        locks.on_link_gone(9);
        if others_wait {
            assert_eq!(grants(&mut locks), [(8, true)], "who waits for the lock is told, and sees to the others");
            assert_eq!(locks.sleepers.len(), 3);
            continue;
        }
        assert_eq!((grants(&mut locks), locks.sleepers.len()), (vec![(2, true)], 0));
        locks.on_unlock(who(2, 1)).unwrap();
        assert_eq!(grants(&mut locks), [(1, false)]);
    }
}

#[test]
fn waits_for_conditions_that_are_none_change_nothing() {
    let mut locks = Locks::new();
    let misused = |outcome: Result<()>| assert!(matches!(outcome, Err(Error::LockMisused { .. })), "{outcome:?}");
    misused(locks.on_sleep(who(1, 0), 7, claim(1, 1, Exclusive)));
    misused(locks.on_notify(who(1, 0), 7, true));
    locks.on_lock("a", claim(1, 0, Shared), true).unwrap();
    misused(locks.on_sleep(who(1, 0), 7, claim(1, 1, Exclusive)));
    misused(locks.on_notify(who(1, 0), 7, true));
    locks.on_unlock(who(1, 0)).unwrap();
    locks.on_lock("a", claim(1, 2, Exclusive), true).unwrap();
    for taken in [claim(1, 2, Exclusive), claim(2, 3, Exclusive), claim(1, 3, Shared)] {
        misused(locks.on_sleep(who(1, 2), 7, taken));
    }
    locks.on_sleep(who(1, 2), 7, claim(1, 3, Exclusive)).unwrap();
    let used = locks.on_lock("b", claim(1, 3, Exclusive), true);
    assert!(matches!(used, Err(Error::LockMisused { .. })), "{used:?}");
}

/// A leased lock that its program took again without the home's knowing is given back by the wait.
#[test]
fn a_leased_lock_is_given_back_by_a_wait_and_recalled_by_a_notice() {
    let mut locks = leased();
    locks.on_sleep(who(1, 0), 7, claim(1, 1, Exclusive)).unwrap();
    assert_eq!((locks.phase("a"), recalls(&mut locks)), (Phase::Free, vec![]));
    assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), GRANTED);
    assert!(locks.on_lend(who(2, 0)));
    locks.on_notify(who(2, 0), 7, false).unwrap();
    assert_eq!((locks.phase("a"), recalls(&mut locks)), (Phase::Recalled, vec![Begin(who(2, 0))]));
    locks.on_recalled(who(2, 0), Recalled::Held);
    locks.on_unlock(who(2, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(1, false)]);
}

fn recalls(locks: &mut Locks) -> Vec<RecallStep> {
    std::iter::from_fn(|| locks.poll_recall()).collect()
}

/// A lock that is leased to the taking 0 of connection 1.
fn leased() -> Locks {
    let mut locks = Locks::new();
    assert_eq!(locks.on_lock("a", claim(1, 0, Exclusive), true), GRANTED);
    assert!(locks.on_lend(who(1, 0)));
    assert_eq!((locks.phase("a"), recalls(&mut locks)), (Phase::Leased, vec![]));
    locks
}

use RecallStep::{Begin, End};

#[test]
fn a_lock_is_leased_to_one_that_has_it_alone_while_nobody_waits() {
    let mut locks = Locks::new();
    assert_eq!(locks.on_lock("a", claim(1, 0, Shared), true), GRANTED);
    assert!(!locks.on_lend(who(1, 0)), "others may share it");
    assert!(!locks.on_lend(who(1, 1)), "nothing was taken by that");
    assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
    assert!(!locks.on_lend(who(2, 0)), "it waits");
    locks.on_unlock(who(1, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(2, false)]);
    assert_eq!(locks.on_lock("a", claim(3, 0, Exclusive), true), WAITS);
    assert!(!locks.on_lend(who(2, 0)), "others wait");
    locks.on_unlock(who(2, 0)).unwrap();
    assert!(locks.on_lend(who(3, 0)) && !locks.on_lend(who(3, 0)));
    locks.on_unlock(who(3, 0)).unwrap();
    assert_eq!((locks.count(), locks.claims.len(), recalls(&mut locks)), (0, 0, vec![]), "nothing is kept");
}

#[test]
fn who_wants_a_lock_that_is_kept_gets_it_in_order_of_arrival() {
    let mut locks = leased();
    assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
    assert_eq!(locks.on_lock("a", claim(3, 0, Exclusive), true), WAITS);
    assert_eq!(recalls(&mut locks), [Begin(who(1, 0))], "once for all that wait");
    // The program itself asks anew: it has its place behind them.
    assert_eq!(locks.on_lock("a", claim(1, 1, Exclusive), true), WAITS);
    locks.on_recalled(who(1, 0), Recalled::Kept);
    assert_eq!((grants(&mut locks), recalls(&mut locks)), (vec![(2, false)], vec![End(who(1, 0))]));
    assert_eq!(locks.phase("a"), Phase::Alone, "the next is leased nothing unasked");
    locks.on_unlock(who(2, 0)).unwrap();
    locks.on_unlock(who(3, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(3, false), (1, false)]);
    // An answer that comes twice, or late, changes nothing.
    locks.on_recalled(who(1, 0), Recalled::Kept);
    locks.on_recalled(who(1, 1), Recalled::Kept);
    locks.on_recalled(who(1, 1), Recalled::Unknown);
    assert_eq!(locks.phase("a"), Phase::Alone);
    locks.on_unlock(who(1, 1)).unwrap();
    assert_eq!((locks.count(), locks.claims.len()), (0, 0), "nothing is kept");
}

#[test]
fn a_leased_lock_that_is_held_is_waited_for() {
    let mut locks = leased();
    assert_eq!(locks.on_lock("a", claim(2, 0, Shared), true), WAITS);
    locks.on_recalled(who(1, 0), Recalled::Held);
    assert_eq!((locks.phase("a"), grants(&mut locks)), (Phase::Alone, vec![]));
    assert_eq!(recalls(&mut locks), [Begin(who(1, 0)), End(who(1, 0))]);
    // Any thread of the program may ask, and one of them is the holder: the program knows which.
    assert_eq!(locks.on_lock("a", claim(1, 1, Exclusive), true), WAITS);
    locks.on_unlock(who(1, 0)).unwrap();
    assert_eq!(grants(&mut locks), [(2, false)]);
}

#[test]
fn a_release_that_crosses_the_recall_is_one() {
    let mut locks = leased();
    assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
    locks.on_unlock(who(1, 0)).unwrap();
    assert_eq!((grants(&mut locks), recalls(&mut locks)), (vec![(2, false)], vec![Begin(who(1, 0)), End(who(1, 0))]));
    locks.on_recalled(who(1, 0), Recalled::Held);
    assert_eq!(locks.held(who(2, 0)), Some(("a", Exclusive)));
}

#[test]
fn a_program_says_itself_that_it_only_kept_a_lock() {
    for is_asked in [false, true] {
        let mut locks = leased();
        if is_asked {
            assert_eq!(locks.on_lock("a", claim(2, 0, Shared), true), WAITS);
        }
        locks.on_recalled(who(1, 0), Recalled::Kept);
        assert_eq!(grants(&mut locks), if is_asked { vec![(2, false)] } else { vec![] });
        assert_eq!(recalls(&mut locks), [Begin(who(1, 0)), End(who(1, 0))]);
        assert_eq!(locks.on_lock("a", claim(1, 1, Shared), true), GRANTED);
    }
}

#[test]
fn one_that_would_not_wait_is_told_when_it_is_known_whether_a_lock_is_held() {
    for (recalled, gets) in [(Recalled::Kept, true), (Recalled::Held, false), (Recalled::Unknown, true)] {
        let mut locks = leased();
        assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), false), WAITS);
        assert_eq!(locks.on_lock("a", claim(3, 0, Shared), false), WAITS);
        locks.on_recalled(who(1, 0), recalled);
        let told = if gets { vec![(2, recalled == Recalled::Unknown)] } else { vec![] };
        assert_eq!(grants(&mut locks), told);
        let busy: Vec<u64> = std::iter::from_fn(|| locks.poll_busy()).map(|who| who.link).collect();
        assert_eq!(busy, if gets { vec![3] } else { vec![2, 3] });
        assert_eq!(locks.claims.len(), 1);
    }
    // Those that it kept out go on.
    let mut locks = leased();
    assert_eq!(locks.on_lock("a", claim(2, 0, Shared), true), WAITS);
    assert_eq!(locks.on_lock("a", claim(3, 0, Exclusive), false), WAITS);
    assert_eq!(locks.on_lock("a", claim(4, 0, Shared), true), WAITS);
    locks.on_recalled(who(1, 0), Recalled::Kept);
    assert_eq!((grants(&mut locks), locks.poll_busy()), (vec![(2, false), (4, false)], Some(who(3, 0))));
}

#[test]
fn who_died_with_a_lock_in_hand_abandoned_it_and_who_only_kept_it_did_not() {
    for (recalled, abandoned) in [(Recalled::Kept, false), (Recalled::Held, true), (Recalled::Unknown, true)] {
        for waits_before in [false, true] {
            let mut locks = leased();
            let next = claim(2, 0, Exclusive);
            if waits_before {
                assert_eq!(locks.on_lock("a", next, true), WAITS);
            }
            locks.on_link_gone(1);
            assert_eq!((locks.phase("a"), recalls(&mut locks)), (Phase::Detached, vec![Begin(who(1, 0))]));
            assert_eq!((locks.count_of(1), locks.held(who(1, 0))), (0, None));
            if !waits_before {
                assert_eq!(locks.on_lock("a", next, true), WAITS);
            }
            locks.on_recalled(who(1, 0), recalled);
            assert_eq!((grants(&mut locks), recalls(&mut locks)), (vec![(2, abandoned)], vec![End(who(1, 0))]));
            locks.on_unlock(who(2, 0)).unwrap();
            assert_eq!((locks.count(), locks.claims.len(), locks.detached.len()), (0, 0, 0), "nothing is kept");
        }
    }
    // A node that answers nothing for long leaves it open. So the lock counts as abandoned, and its holder as gone.
    let mut locks = leased();
    assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
    locks.on_recalled(who(1, 0), Recalled::Unknown);
    assert_eq!(grants(&mut locks), [(2, true)]);
    assert!(matches!(locks.on_unlock(who(1, 0)), Err(Error::LockMisused { .. })), "its holder hears that it was lost");
}

#[test]
fn a_lock_is_recalled_though_nobody_waits_and_waits_end_while_it_is() {
    let mut locks = leased();
    locks.on_recall("a");
    locks.on_recall("b");
    assert_eq!((locks.phase("a"), recalls(&mut locks)), (Phase::Recalled, vec![Begin(who(1, 0))]));
    assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), WAITS);
    assert_eq!(locks.on_bound(who(2, 0)), Some("a".to_owned()));
    locks.on_recalled(who(1, 0), Recalled::Kept);
    assert_eq!((locks.count(), locks.claims.len()), (0, 0), "nothing is kept");
    // One that was told of an abandonment, and gives up, leaves it to the next.
    let mut locks = Locks::after_another_life();
    assert_eq!(locks.on_lock("a", claim(1, 0, Exclusive), true), Ok(Claimed::Granted { abandoned: true }));
    assert!(locks.on_lend(who(1, 0)));
    locks.on_withdraw(who(1, 0));
    assert_eq!(locks.on_lock("a", claim(2, 0, Exclusive), true), Ok(Claimed::Granted { abandoned: true }));
}

#[test]
fn leased_locks_take_no_room_of_those_that_are_held() {
    let mut locks = Locks::new();
    for link in 0..=LEASED_LOCK_COUNT_MAX as u64 {
        locks.on_lock(&format!("lock{link}"), claim(link, 0, Exclusive), true).unwrap();
        assert_eq!(locks.on_lend(who(link, 0)), link < LEASED_LOCK_COUNT_MAX as u64);
    }
}

/// The rules again, as plainly as they can be said: one list of claims in order of arrival, whose first have the lock.
#[derive(Default)]
struct Plain {
    claims: Vec<(Claim, bool)>,
    abandoned: bool,
}

impl Plain {
    fn grant(&mut self) -> Vec<(u64, bool)> {
        let mut granted = Vec::new();
        for at in 0..self.claims.len() {
            let (claim, has) = self.claims[at];
            let beside_others = self.claims[..at].iter().all(|(other, has)| *has && other.mode == claim.mode);
            let most = match claim.mode {
                Exclusive => 1,
                Shared => usize::MAX,
                Mode::OneOf(count) => count as usize,
            };
            let may = at < most && beside_others;
            if may && !has {
                self.claims[at].1 = true;
                granted.push((claim.who.link, std::mem::take(&mut self.abandoned)));
            }
        }
        granted
    }

    fn remove(&mut self, link: u64, died: bool) -> Vec<(u64, bool)> {
        self.claims.retain(|(claim, has)| {
            let is_it = claim.who.link == link;
            self.abandoned |= is_it && died && *has && claim.mode != Shared;
            !is_it
        });
        self.grant()
    }
}

proptest! {
    #[test]
    fn any_history_is_as_the_plain_rules_say(steps in prop::collection::vec((0..6u64, 0..5u32, 0..3usize), 1..200)) {
        let (mut locks, mut plain) = (Locks::new(), Plain::default());
        // Each link is one thread that is in one place at a time. A dead one comes back under another number.
        let mut number = 0;
        for (link, action, mode) in steps {
            let at = plain.claims.iter().position(|(claim, _)| claim.who.link == link);
            let (told, wanted) = match (action, at) {
                (0 | 1, None) => {
                    number += 1;
                    let claim = claim(link, number, [Exclusive, Shared, Mode::OneOf(2)][mode]);
                    let claimed = locks.on_lock("a", claim, action == 0).unwrap();
                    plain.claims.push((claim, false));
                    let mut wanted = plain.grant();
                    if wanted.is_empty() && action == 1 {
                        prop_assert_eq!(claimed, Claimed::Busy);
                        wanted = plain.remove(link, false);
                    }
                    let told = match claimed {
                        Claimed::Granted { abandoned } => vec![(link, abandoned)],
                        Claimed::Busy | Claimed::Waits => Vec::new(),
                    };
                    (told, wanted)
                }
                (2, Some(at)) if plain.claims[at].1 => {
                    locks.on_unlock(plain.claims[at].0.who).unwrap();
                    (grants(&mut locks), plain.remove(link, false))
                }
                (3, Some(_)) => {
                    locks.on_link_gone(link);
                    (grants(&mut locks), plain.remove(link, true))
                }
                (4, Some(at)) if !plain.claims[at].1 => {
                    prop_assert!(locks.on_bound(plain.claims[at].0.who).is_some());
                    (grants(&mut locks), plain.remove(link, false))
                }
                _ => continue,
            };
            prop_assert_eq!(told, wanted);
            prop_assert_eq!(grants(&mut locks), vec![]);
            let kept = usize::from(!plain.claims.is_empty() || plain.abandoned);
            prop_assert_eq!((locks.count(), locks.claims.len()), (kept, plain.claims.len()));
        }
    }
}
