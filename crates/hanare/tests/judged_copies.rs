//! Regions with copies before an outside judge: programs on all hosts use a few words while nodes are killed, stopped, cut off and drained.
//! Each word's history must be linearizable, and no program may see an error that the page on copies does not name.
//!
//! For long: `JUDGE_MINUTES=30 cargo test -p hanare --test judged_copies for_long -- --ignored --nocapture`. `HANARE_TEST_SEED` is the first seed,
//! `JUDGE_FIRST` the first round of each, and `JUDGE_ROUNDS` their number. `JUDGE_FAULTS="200 kill 1 4000, 900 stop 2 500; 200 cut 3 800"` has each
//! seed play these faults in place of those by dice: milliseconds from the one before, the fault, its nodes, and its milliseconds.

#[path = "support/apart.rs"]
mod apart;
mod judged;
#[path = "support/networks.rs"]
mod networks;
#[path = "support/processes.rs"]
mod processes;
mod support;

hanare_testkit::actors![apart::serves, client_process,];

use judged::faults::{by_dice, named};
use judged::run::{Case, run};
use judged::verdict::{is_here, judge};
use std::time::{Duration, Instant};

fn client_process() {
    judged::client::process();
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// True if hosts can have networks of their own here; otherwise the test has said why not.
fn has_networks() -> bool {
    networks::Networks::new(1).map_err(hanare_testkit::unable).is_ok()
}

#[test]
fn the_judge_refuses_what_no_order_explains() {
    if !is_here() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let verdict = |lines: &[&str]| {
        let file = folder.path().join("history");
        std::fs::write(&file, lines.join("\n")).unwrap();
        judge(&file)
    };
    let good = ["0 7 put 5 - ? 1 4", "1 7 get - - 0 2 3", "1 7 add 2 - 5 5 6", "2 7 cas 7 9 7 7 8", "2 7 get - - 9 9 10"];
    assert!(verdict(&good).is_ok());
    let open = ["0 7 add 5 - ? 1 -", "1 7 get - - 0 2 3", "1 7 get - - 5 4 5"];
    assert!(verdict(&open).is_ok(), "an open call may have its effect late");
    for (what, lines, shown) in [
        ("a stale read", ["0 7 put 5 - ? 1 2", "0 7 put 6 - ? 3 4", "1 7 get - - 5 5 6"], "get - - 5"),
        ("a lost put", ["0 7 put 5 - ? 1 2", "1 7 get - - 0 3 4", "1 8 get - - 0 3 4"], "get - - 0"),
        ("an add that was applied twice", ["0 7 add 5 - 0 1 2", "1 7 get - - 10 3 4", "1 8 get - - 0 3 4"], "get - - 10"),
        ("an open add that was applied twice", ["0 7 add 5 - ? 1 -", "1 7 get - - 5 2 3", "1 7 get - - 10 4 5"], "get - - 10"),
        ("a swap of another word", ["0 7 put 5 - ? 1 2", "1 7 cas 4 6 5 3 4", "1 7 get - - 6 5 6"], "get - - 6"),
    ] {
        let refused = verdict(&lines).expect_err(what);
        assert!(
            refused.contains("word 7: no order") && refused.contains(shown) && !refused.contains("word 8"),
            "{what}: {refused}"
        );
    }
    assert!(verdict(&["0 7 put 5 - ? 2 1"]).is_err() && verdict(&[]).is_err(), "no history");
}

/// Each node in turn is ended and begins as today's build, drains between.
const UPGRADES: &str = "200 upgrade 1 3600; 200 drain 2 1500, 1700 upgrade 2 3600; 200 upgrade 0 3600";

#[test]
fn words_with_copies_are_linearizable_while_a_pool_is_brought_up_to_date() {
    if !is_here() {
        return;
    }
    let case = Case { seed: 5, nodes: 3, copies: 2, begins_old: true, rounds: named(UPGRADES) };
    println!("{}", run(&case, has_networks()).unwrap_or_else(|why| panic!("{why}")));
}

/// A killed home, one that stands still, a host that is cut off, two that do not hear each other, and drains, beside them and alone.
const FAULTS: &str = "200 kill 1 3600; 200 stop 2 4000, 500 stop 3 700; 200 cut 3 4000, 100 drain 1 2500; \
                      200 part 1 2 1500, 100 killhost 3 3600; 100 drain 2 1500, 1000 drain 3 40, 300 kill 1 3600";

#[test]
fn words_with_copies_are_linearizable_while_nodes_die_and_are_cut_off() {
    if !is_here() {
        return;
    }
    let has_networks = has_networks();
    let rounds = if has_networks { named(FAULTS) } else { by_dice(1, 0..3, 4, 2, false) };
    let case = Case { seed: 1, nodes: 4, copies: 2, begins_old: false, rounds };
    println!("{}", run(&case, has_networks).unwrap_or_else(|why| panic!("{why}")));
}

#[test]
#[ignore = "for long"]
fn words_with_two_and_three_copies_for_long() {
    if !is_here() {
        return;
    }
    let (has_networks, begun) = (has_networks(), Instant::now());
    let bound = Duration::from_secs(60 * number("JUDGE_MINUTES").unwrap_or(5));
    let (first, count) = (number("JUDGE_FIRST").unwrap_or(0), number("JUDGE_ROUNDS").unwrap_or(6));
    let mut bad = Vec::new();
    for seed in number("HANARE_TEST_SEED").unwrap_or(1).. {
        let (nodes, copies) = if seed % 3 == 0 { (5, 3) } else { (4, 2) };
        let by_dice = |_| by_dice(seed, first..first + count, nodes, copies, has_networks);
        let rounds = std::env::var("JUDGE_FAULTS").map_or_else(by_dice, |text| named(&text));
        match run(&Case { seed, nodes, copies, begins_old: false, rounds }, has_networks) {
            Ok(told) => println!("seed {seed}: {told}"),
            Err(why) => {
                println!("BAD: {why}");
                bad.push(why);
            }
        }
        if begun.elapsed() > bound {
            break;
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n\n"));
}
