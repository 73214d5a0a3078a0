//! The cases that are explored.

use super::{Exploration, Left, Off};

#[track_caller]
fn holds(homes: usize, left: Left, at_least: usize) {
    crate::explored::holds(
        Exploration { homes, left, off: Off::Nothing },
        &format!("a host and {homes} homes with {left:?}"),
        at_least,
    );
}

const NONE: Left =
    Left { maps: 0, stores: 0, ends: 0, refusals: 0, waits: 0, gives_up: 0, silences: 0, deaths: 0, fences: 0, cuts: 0 };

#[test]
fn a_host_that_comes_and_goes() {
    holds(1, Left { maps: 3, stores: 2, ends: 1, refusals: 1, ..NONE }, 7_000);
    holds(2, Left { maps: 2, stores: 1, ends: 1, refusals: 1, ..NONE }, 8_000);
}

#[test]
fn a_region_that_is_given_up_while_homes_are_asked() {
    holds(2, Left { maps: 3, stores: 1, gives_up: 1, ..NONE }, 15_000);
}

#[test]
fn a_host_that_waits_to_be_let_in() {
    holds(1, Left { maps: 3, stores: 1, waits: 2, ends: 1, ..NONE }, 1_000);
    holds(2, Left { maps: 2, stores: 1, waits: 1, gives_up: 1, ..NONE }, 5_000);
    holds(1, Left { maps: 2, stores: 1, waits: 1, silences: 1, cuts: 1, ..NONE }, 5_000);
    holds(1, Left { maps: 2, waits: 1, fences: 1, deaths: 1, ..NONE }, 1_000);
}

#[test]
fn a_home_that_is_taken_for_lost_and_comes_back() {
    holds(1, Left { maps: 2, stores: 1, silences: 2, ends: 1, ..NONE }, 200_000);
    holds(2, Left { maps: 2, stores: 1, silences: 1, ..NONE }, 400_000);
}

#[test]
fn a_home_that_is_lost_for_good() {
    holds(2, Left { maps: 2, stores: 1, deaths: 1, ..NONE }, 9_000);
    holds(1, Left { maps: 2, stores: 1, deaths: 1, silences: 1, ..NONE }, 20_000);
}

#[test]
fn a_home_that_does_without_its_host() {
    holds(1, Left { maps: 3, stores: 1, fences: 1, ..NONE }, 8_000);
    holds(2, Left { maps: 2, stores: 1, fences: 1, ..NONE }, 50_000);
}

#[test]
fn a_host_that_is_taken_for_lost() {
    holds(1, Left { maps: 3, stores: 1, cuts: 1, silences: 1, ..NONE }, 130_000);
    holds(2, Left { maps: 2, stores: 1, cuts: 1, gives_up: 1, ..NONE }, 14_000);
}

#[track_caller]
fn is_needed(off: Off, homes: usize, left: Left, wrong: &str) {
    crate::explored::is_needed(Exploration { homes, left, off }, off, wrong);
}

#[test]
fn without_saying_that_it_forgot_a_host_lets_a_home_go_on_with_older_bytes() {
    let left = Left { maps: 1, stores: 1, silences: 1, gives_up: 1, ..NONE };
    is_needed(Off::Forgetting, 1, left, "a home goes on with older bytes");
}

#[test]
fn without_asking_a_home_that_is_back_goes_on_with_older_bytes() {
    is_needed(Off::Asking, 1, Left { maps: 1, stores: 1, silences: 1, ..NONE }, "a home goes on with older bytes");
}

#[test]
fn without_an_answer_to_stray_shares_a_home_keeps_a_host_that_is_gone() {
    is_needed(Off::Stray, 1, Left { maps: 2, fences: 1, ..NONE }, "a home knows a host that does not know it");
}

#[test]
fn a_host_that_has_left_and_waits_on_would_be_let_in_without_knowing() {
    let left = Left { maps: 2, stores: 1, waits: 1, silences: 1, cuts: 1, ..NONE };
    is_needed(Off::Waiting, 1, left, "a home knows a host that does not know it");
}
