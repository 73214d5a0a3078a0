//! Queues by the command: created, listed, described, and pipes from one host's programs to another's.

use crate::pool;

use pool::{HANARE, Nodes, Running, clean, run};
use std::process::Command;

/// A shell's line on a node's host, with `$HANARE` for the command.
fn shell(nodes: &Nodes, node: usize, line: &str) -> Command {
    let mut command = clean("sh");
    command.args(["-c", line]).env("HANARE", HANARE).env("HANARE_NODE", &nodes.nodes[node].socket);
    command
}

#[test]
fn a_queue_is_created_listed_and_described() {
    let nodes = Nodes::start(2);
    assert_eq!(nodes.hanare(&["queue", "create", "q", "--block", "64", "--depth", "8", "--ports", "2"]).done(), "");
    nodes.hanare(&["queue", "create", "r", "--record", "1K", "--overflow", "spill", "--place", "node=1"]).done();
    nodes.hanare(&["region", "create", "no-queue", "64K"]).done();
    let list = nodes.hanare_on(1, &["queue", "ls", "--json"]).json();
    let names: Vec<_> = list.as_array().unwrap().iter().map(|queue| queue["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["q", "r"]);
    assert_eq!((&list[0]["unit"], &list[0]["bytes"], &list[1]["overflow"]), (&"block".into(), &64.into(), &"spill".into()));
    assert_eq!(nodes.hanare(&["queue", "ls"]).done().lines().count(), 3, "a heading and two queues");

    run(&mut shell(&nodes, 0, "head -c 192 /dev/zero | $HANARE queue send q")).done();
    let stat = nodes.hanare_on(1, &["queue", "stat", "q", "--json"]).json();
    assert_eq!((&stat["blocks"], &stat["reader"], &stat["lanes"][0]["bytes"]), (&3.into(), &false.into(), &192.into()));
    assert!(nodes.hanare(&["queue", "stat", "q"]).done().contains("reader    none"));

    let stat = nodes.hanare_on(1, &["region", "stat", "q", "--json"]).json();
    assert_eq!((&stat["queues"]["count"], &stat["queues"]["bytes"]), (&1.into(), &64.into()));
    assert!(nodes.hanare(&["region", "stat", "r"]).done().contains("queues 1 of records of 1 KiB"));
    assert!(nodes.hanare(&["region", "stat", "no-queue", "--json"]).json()["queues"].is_null());

    nodes.hanare(&["queue", "create", "many", "--block", "16", "--depth", "2", "--ports", "1", "--count", "100000"]).done();
    assert!(nodes.hanare(&["region", "stat", "many"]).done().contains("queues 100000 of blocks of 16 B"));
    let stat = nodes.hanare_on(1, &["queue", "stat", "many", "--index", "99999", "--json"]).json();
    assert_eq!((&stat["blocks"], &stat["lanes"].as_array().unwrap().len()), (&0.into(), &1));
    nodes.hanare(&["queue", "stat", "many", "--index", "100000"]).refused(&["no number 100000"]);
    nodes.hanare(&["queue", "create", "none", "--count", "0"]).refused(&["count", "1 to"]);

    nodes.hanare(&["queue", "stat", "none"]).refused(&["'none'", "does not exist"]);
    nodes.hanare(&["queue", "stat", "no-queue"]).refused(&["no queue"]);
    nodes.hanare(&["queue", "create", "bad", "--block", "15"]).refused(&["block", "16 to 4096"]);
    run(&mut shell(&nodes, 0, "head -c 100 /dev/zero | $HANARE queue send q")).refused(&["whole number of blocks"]);
}

#[test]
fn a_pipe_crosses_hosts() {
    let nodes = Nodes::start(2);
    let receiving = Running::start(&mut shell(&nodes, 1, "$HANARE queue recv q --create | cksum"));
    let sent = run(&mut shell(&nodes, 0, "seq 1 200000 | $HANARE queue send q --create; seq 1 200000 | cksum")).done();
    assert_eq!(receiving.wait().done(), sent);
}

#[test]
fn lines_come_back_as_the_same_bytes() {
    let nodes = Nodes::start(2);
    nodes.hanare(&["queue", "create", "q", "--record", "100"]).done();
    // An empty line, and a last one without its end.
    for text in ["one\\n\\nthree\\n", "one\\ntwo"] {
        run(&mut shell(&nodes, 0, &format!("printf '{text}' | $HANARE queue send q --lines"))).done();
        let received = run(&mut shell(&nodes, 1, "$HANARE queue recv q")).done();
        assert_eq!(received, text.replace("\\n", "\n"));
    }
    // Records of others get their ends on request, and a line gets no second one.
    run(&mut shell(&nodes, 0, "printf 'bare' | $HANARE queue send q --no-end; printf 'line\\n' | $HANARE queue send q --lines"))
        .done();
    assert_eq!(run(&mut shell(&nodes, 1, "$HANARE queue recv q --lines")).done(), "bare\nline\n");
}

#[test]
fn lines_of_several_writers_stay_whole() {
    let nodes = Nodes::start(2);
    nodes.hanare(&["queue", "create", "q", "--record", "100"]).done();
    let receiving = Running::start(&mut shell(&nodes, 1, "$HANARE queue recv q --lines --writers 2 | sort -n"));
    let sending = [0, 1].map(|k| Running::start(&mut shell(&nodes, k, &format!("seq {k} 2 999 | $HANARE queue send q --lines"))));
    sending.into_iter().for_each(|sending| drop(sending.wait().done()));
    let numbers: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    assert_eq!(receiving.wait().done().trim_end(), numbers.join("\n"));
}
