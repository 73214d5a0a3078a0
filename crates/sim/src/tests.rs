//! The worlds as one run.

use super::*;

#[test]
fn a_run_goes_through_all_worlds_and_says_how_far_it_is() {
    let mut shares = vec![0.0];
    let report = run(5, 3, 0.5, &mut |share| shares.push(share)).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(report.worlds.keys().copied().collect::<Vec<_>>(), ["cluster", "pages", "queues"]);
    assert!(report.worlds.values().all(|counts| counts["events"] > 1000), "{report}");
    assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{shares:?}");
    let text = report.to_string();
    assert!(text.starts_with("hanare sim --seed 5 --nodes 3 --minutes 0.5: every check held\n"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("pages: ") && line.ends_with(" events")), "{text}");
}

#[test]
fn a_failure_names_its_world_and_the_line_that_replays_it() {
    let plan = Plan { seed: 1, nodes: 2, minutes: 0.5 };
    let failure = Failure { plan, world: "pages", at_ms: 7, what: "no".to_owned(), trail: vec!["before".to_owned()] };
    let text = "  before\nafter 7 ms of virtual time, in 'pages': no\nreplay: hanare sim --seed 1 --nodes 2 --minutes 0.5";
    assert_eq!(failure.to_string(), text);
}
