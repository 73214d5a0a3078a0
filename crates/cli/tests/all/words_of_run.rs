//! How programs and their variables are given to `hanare run`, and what becomes of settings that are none.

use crate::pool;

use pool::{Nodes, command, run};

#[test]
fn a_program_needs_no_dashes_before_it_and_keeps_its_own() {
    let text = |words: &[&str]| run(&mut command(words)).done();
    assert_eq!(text(&["run", "echo", "-n", "--nodes", "7"]), "--nodes 7");
    assert_eq!(text(&["run", "-n", "1", "--", "echo", "--", "x"]), "-- x\n");
    assert_eq!(text(&["run", "--nodes", "2", "sh", "-c", "echo $HANARE_RANKS"]), "2\n2\n");
    // A misspelt option is no program.
    let ended = run(&mut command(&["run", "--nodez", "2", "true"]));
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("--nodes"), "{}", ended.stderr);
}

#[test]
fn variables_of_the_ranks_are_given_by_x() {
    let script = "echo $FIRST-$SECOND-$HANARE_ANSWER_MS";
    let mut words = command(&["run", "-x", "FIRST", "--env", "SECOND=a=b", "-x", "HANARE_ANSWER_MS=50", "sh", "-c", script]);
    assert_eq!(run(words.env("FIRST", "one")).done(), "one-a=b-50\n");
    for word in ["NOT_SET_ANYWHERE", "=x", ""] {
        let ended = run(&mut command(&["run", "-x", word, "true"]));
        assert_eq!(ended.status.code(), Some(2), "{word}: {}", ended.stderr);
    }
}

#[test]
fn settings_that_mean_nothing_are_refused_or_told() {
    let nodes = Nodes::start(1);
    let with = |variable: &str, value: &str, words: &[&str]| {
        run(command(words).env("HANARE_NODE", &nodes.nodes[0].socket).env(variable, value))
    };
    with("HANARE_ANSWER_MS", "0", &["region", "ls"]).refused(&["HANARE_ANSWER_MS", "at least 1"]);
    let told = with("HANARE_ANSWER", "5", &["region", "ls"]);
    assert!(told.status.success());
    assert_eq!(told.stderr, "hanare: HANARE_ANSWER is no setting, HANARE_ANSWER_MS is; `hanare info` lists all\n");
    let told = with("HANARE_COLOUR", "blue", &["run", "true"]).stderr;
    assert_eq!(told, "hanare: HANARE_COLOUR is no setting; `hanare info` lists all\n");
    let socket = "@hanare-test-never";
    with("HANARE_QUOTA", "much", &["node", "--memory", "1M", "--socket", socket]).refused(&["HANARE_QUOTA", "much", "GB"]);
}

#[test]
fn sizes_are_read_and_told_in_one_way() {
    let nodes = Nodes::start_with(1, &[("HANARE_QUOTA", "10MiB")]);
    nodes.hanare(&["region", "create", "a", "9M"]).done();
    nodes.hanare(&["region", "create", "b", "2MiB"]).refused(&["2 MiB", "9 MiB", "quota of 10 MiB"]);
    nodes.hanare(&["region", "create", "a", "1M"]).refused(&["'a' exists already (9 MiB)"]);
    assert!(nodes.hanare(&["region", "ls"]).done().contains("9 MiB"));
    assert!(nodes.hanare(&["region", "stat", "a"]).done().contains("size   9 MiB\n"));
    let nodes = Nodes::start(1);
    nodes.hanare(&["region", "create", "big", "100GiB"]).refused(&["cannot take 100 GiB", "64 MiB are free"]);
    nodes.hanare(&["region", "create", "odd", "8000000"]).done();
    assert!(nodes.hanare(&["region", "stat", "odd"]).done().contains("size   8000000 bytes (7.6 MiB)\n"));
}
