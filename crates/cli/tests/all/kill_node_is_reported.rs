//! A node that is killed is reported within five seconds, and regions that it held are lost, never zeros.

use crate::pool;

use hanare::{CreateOptions, Error, Pool};
use pool::Nodes;
use std::time::{Duration, Instant};

#[test]
fn the_pool_shows_it_lost_and_its_regions_with_it() {
    let mut nodes = Nodes::start(2);
    let client = Pool::attach_to(&nodes.nodes[0].socket, None).unwrap();
    let placed = |node: &str| CreateOptions { placement: node.parse().unwrap(), mode: 0o600, ..CreateOptions::default() };
    let gone = client.create("gone", 1 << 20, &placed("node=1")).unwrap();
    gone.put(0, &[7; 4096]).unwrap();
    let kept = client.create("kept", 1 << 20, &placed("node=0")).unwrap();
    kept.put(0, &[8; 4096]).unwrap();

    nodes.nodes[1].process.kill().unwrap();
    let killed = Instant::now();
    pool::wait_until("status shows node 1 lost", || nodes.hanare(&["status", "--json"]).json()["nodes"][1]["alive"] == false);
    assert!(killed.elapsed() < pool::paced(Duration::from_secs(5)), "reported after {:?}", killed.elapsed());

    let mut bytes = [1; 4096];
    let error = gone.get(0, &mut bytes).unwrap_err();
    assert!(matches!(error, Error::NodeLost { .. } | Error::RegionLost { .. }), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("never.bin");
    nodes.hanare(&["region", "cp", "gone", file.to_str().unwrap()]).refused(&["node 1", "lost"]);
    assert!(!file.exists());
    pool::wait_until("its lease ends and the region is lost", || {
        nodes.hanare(&["region", "stat", "gone", "--json"]).json()["lost"] == 1
    });
    kept.get(0, &mut bytes).unwrap();
    assert_eq!(bytes, [8; 4096]);
}

#[test]
fn a_launch_names_the_node_that_it_lost() {
    let script = "echo up; sleep 600";
    let job = pool::Running::start(&mut pool::command(&[
        "run", "--nodes", "2", "-n", "1", "--memory", "64M", "--", "sh", "-c", script,
    ]));
    job.wait_for("up");
    let launcher = pool::children(job.pid())[0].0;
    let node = pool::children(launcher).into_iter().find(|(_, line)| line.contains("--join")).expect("the second node").0;
    pool::signal("KILL", node);
    pool::wait_until("the node is named", || job.stderr().contains("node 1 is lost (signal 9, SIGKILL)"));
    pool::signal("TERM", job.pid());
    let ended = job.wait();
    assert_eq!(ended.status.code(), Some(143));
}
