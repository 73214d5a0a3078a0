//! Trails that the explorer found, and what comes of them.

use super::life::{Life, Over};
use super::sharing::{Action, MapRequest, Refused, ReturnOutcome, Sharing};
use super::table::{HomePhase, Phase};
use crate::id::{ClientId, Epoch, Incarnation, Rights};

const PATIENCE_MS: u64 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Program(u64, Rights);

impl MapRequest for Program {
    fn client(&self) -> ClientId {
        ClientId(self.0)
    }

    fn rights(&self) -> Rights {
        self.1
    }
}

type Region = Sharing<Program, &'static str>;

fn program(number: u64) -> Program {
    Program(number, Rights::Write)
}

/// A region with so many homes, all of which are asked for a program.
fn asked(homes: usize) -> Region {
    let life = Life { epoch: Epoch(1), process: None };
    let mut region = Region::new(vec![life; homes], PATIENCE_MS);
    let wanted = region.share_with(program(1)).expect("it is its turn");
    region.ask(wanted);
    assert_eq!(actions(&mut region), [Action::Ask]);
    region
}

fn life(epoch: u64, process: u128) -> Life {
    Life { epoch: Epoch(epoch), process: Some(Incarnation(process)) }
}

fn accept(region: &mut Region, home: usize) -> bool {
    region.on_accepted(home, life(1, 1), (10 + home as u64, Rights::Write))
}

/// The same, and all have let it in.
fn shared(homes: usize) -> Region {
    let mut region = asked(homes);
    (0..homes).for_each(|home| assert!(accept(&mut region, home)));
    assert_eq!(actions(&mut region), [Action::Admit(program(1))]);
    region
}

fn actions(region: &mut Region) -> Vec<Action<Program, &'static str>> {
    std::iter::from_fn(|| region.poll()).collect()
}

fn stuck() -> &'static str {
    "a program stands still"
}

#[test]
fn who_is_let_in_is_known_to_homes_that_answered_before_one_came_back() {
    let mut region = asked(2);
    accept(&mut region, 0);
    region.on_returned(0, 10, true, 0);
    assert_eq!(region.on_pages_returned(0, true, true, 0), ReturnOutcome::All);
    accept(&mut region, 1);
    let farewell = Action::Farewell { home: 0, share: 10, has_all: true };
    assert_eq!(actions(&mut region), [farewell, Action::Rename(0), Action::Refuse(program(1), Refused::Lost(0))]);
}

#[test]
fn homes_are_told_when_all_that_were_asked_have_answered() {
    let mut region = asked(2);
    accept(&mut region, 0);
    region.give_up(0);
    assert!(!region.may_empty());
    region.on_emptied(true, 0, stuck);
    assert_eq!((region.phase(), actions(&mut region)), (Phase::Emptying, vec![]));
    accept(&mut region, 1);
    assert!(region.may_empty());
    region.on_emptied(true, 0, stuck);
    let tell = |home: usize| Action::Tell { home, share: 10 + home as u64 };
    assert_eq!(actions(&mut region), [tell(0), tell(1)]);
    region.on_left(0);
    region.on_left(1);
    assert_eq!(actions(&mut region), [Action::End, Action::Again(program(1))]);
}

#[test]
fn late_news_of_a_loss_are_not_about_the_life_that_came_back() {
    let mut region = shared(1);
    assert!(region.is_over(0, Over::UpTo(Epoch(1))));
    region.on_returned(0, 10, true, 0);
    assert!(!region.is_over(0, Over::UpTo(Epoch(1))));
    assert!(region.is_over(0, Over::UpTo(Epoch(2))));
}

#[test]
fn a_home_that_is_back_and_whose_answer_never_came_has_all_that_was_here() {
    let mut region = asked(1);
    region.on_returned(0, 77, true, 0);
    let farewell = Action::Farewell { home: 0, share: 77, has_all: true };
    assert_eq!(actions(&mut region), [farewell, Action::Rename(0), Action::Refuse(program(1), Refused::Lost(0))]);
    assert!(!accept(&mut region, 0), "an answer to nobody is told so");
}

#[test]
fn one_program_is_asked_for_at_a_time_and_what_it_may_not_have_is_refused() {
    let mut region = shared(1);
    let second = region.share_with(program(2)).expect("nobody is asked for");
    region.ask(second);
    assert_eq!(region.share_with(program(3)), None);
    assert_eq!(region.share_with(program(4)), None);
    region.on_client_gone(ClientId(3));
    region.on_accepted(0, life(1, 1), (10, Rights::Read));
    assert_eq!(actions(&mut region), [Action::Ask, Action::Refuse(program(2), Refused::Rights(0)), Action::Again(program(4))]);
    assert_eq!(region.home(0), HomePhase::Shared);
}

#[test]
fn pages_that_a_program_keeps_are_waited_for_and_then_lost() {
    let mut region = shared(1);
    region.unmap(ClientId(1), true, 1_000);
    region.on_emptied(false, 1_000 + PATIENCE_MS, stuck);
    assert_eq!(actions(&mut region), []);
    region.on_emptied(false, 1_001 + PATIENCE_MS, stuck);
    region.on_left(0);
    let told = Action::Unmapped(ClientId(1), Some(stuck()));
    assert_eq!(actions(&mut region), [Action::Tell { home: 0, share: 10 }, Action::End, told]);
}

#[test]
fn a_host_that_was_taken_for_lost_asks_its_homes_anew() {
    let mut region = asked(2);
    accept(&mut region, 0);
    assert_eq!(region.share_with(program(2)), None);
    region.begin_anew(0..2);
    let refused = |number: u64| Action::Refuse(program(number), Refused::CutOff);
    assert_eq!(actions(&mut region), [Action::Rename(0), Action::Rename(1), refused(1), refused(2)]);
    assert_eq!((region.phase(), region.share(0)), (Phase::Rest, None));
}

#[test]
fn a_home_that_knows_this_host_by_another_share_did_without_it_and_is_not_believed_to_know_what_is_here() {
    let mut region = shared(1);
    let second = region.share_with(program(2)).expect("nobody is asked for");
    region.ask(second);
    assert!(!region.on_accepted(0, life(1, 1), (99, Rights::Write)), "a sharer that has nothing");
    assert_eq!((region.share(0), actions(&mut region)), (Some(10), vec![Action::Ask]));
    region.on_returned(0, 10, false, 0);
    let farewell = Action::Farewell { home: 0, share: 10, has_all: false };
    assert_eq!(actions(&mut region), [farewell, Action::Rename(0), Action::Refuse(program(2), Refused::Lost(0))]);
}

#[test]
fn a_host_that_leaves_a_home_which_did_without_it_waits_no_more_when_it_is_told() {
    let mut region = shared(1);
    region.unmap(ClientId(1), true, 0);
    region.on_emptied(true, 0, stuck);
    assert_eq!(actions(&mut region), [Action::Tell { home: 0, share: 10 }]);
    region.on_returned(0, 10, false, 0);
    let farewell = Action::Farewell { home: 0, share: 10, has_all: false };
    assert_eq!(actions(&mut region), [farewell, Action::Rename(0), Action::End, Action::Unmapped(ClientId(1), None)]);
}

#[test]
fn late_news_of_a_life_before_does_not_end_the_one_that_let_the_host_in() {
    let mut region = asked(1);
    // The host asked the life of epoch 1, and that of epoch 3 answers.
    assert!(region.on_accepted(0, life(3, 2), (10, Rights::Write)));
    assert!(!region.is_over(0, Over::UpTo(Epoch(2))) && !region.is_over(0, Over::AllBut(Incarnation(2))));
    assert!(region.is_over(0, Over::UpTo(Epoch(3))) && region.is_over(0, Over::AllBut(Incarnation(4))));
}
