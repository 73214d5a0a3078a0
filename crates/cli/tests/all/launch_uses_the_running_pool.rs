//! A launch uses the pool that answers at HANARE_NODE, and one of its own where `--nodes` asks for it.

use crate::pool;

use pool::{HANARE, Nodes, command, run};

#[test]
fn ranks_find_the_regions_that_are_there() {
    let nodes = Nodes::start(1);
    nodes.hanare(&["region", "create", "there", "4K"]).done();
    let script = format!("{HANARE} region stat there --json && {HANARE} region create of$HANARE_RANK 1");
    nodes.hanare(&["run", "-n", "2", "--", "sh", "-c", &script]).done();
    // The pool outlives the job, and what its ranks made stays.
    let list = nodes.hanare(&["region", "ls", "--json"]).json();
    let names: Vec<_> = list.as_array().unwrap().iter().map(|region| region["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["of0", "of1", "there"]);
}

#[test]
fn a_pool_of_its_own_is_another_one() {
    let nodes = Nodes::start(1);
    nodes.hanare(&["region", "create", "there", "4K"]).done();
    let list = nodes.hanare(&["run", "--nodes", "1", "--memory", "64M", "--", HANARE, "region", "ls", "--json"]).json();
    assert_eq!(list, serde_json::json!([]));
    nodes.hanare(&["run", "--memory", "64M", "--", "true"]).refused(&["--memory", "--nodes"]);
}

#[test]
fn ranks_know_their_number_and_node() {
    let script = "echo $HANARE_RANK/$HANARE_RANKS ${HANARE_NODE##*-} $HANARE_JOB";
    let text = run(&mut command(&["run", "--nodes", "2", "-n", "4", "--memory", "64M", "--", "sh", "-c", script])).done();
    let mut lines: Vec<_> = text.lines().map(|line| line.split(' ').collect::<Vec<_>>()).collect();
    lines.sort();
    let places: Vec<_> = lines.iter().map(|words| (words[0], words[1])).collect();
    assert_eq!(places, [("0/4", "0"), ("1/4", "1"), ("2/4", "0"), ("3/4", "1")], "round robin");
    assert!(lines.iter().all(|words| words[2].len() == 32 && words[2] == lines[0][2]), "one job: {text}");
}

#[test]
fn nodes_of_a_launch_have_its_numbers_in_the_pool() {
    // They join at the same time, in any order.
    for _ in 0..4 {
        let words = ["run", "--nodes", "4", "-n", "1", "--memory", "32M", "--", HANARE, "status", "--json"];
        let status = run(&mut command(&words)).json();
        let numbers: Vec<_> = status["nodes"].as_array().unwrap().iter().map(|node| (&node["node"], &node["name"])).collect();
        for (number, (node, name)) in numbers.iter().enumerate() {
            assert_eq!((node.as_u64(), name.as_str()), (Some(number as u64), Some(&*format!("node{number}"))), "{numbers:?}");
        }
    }
}
