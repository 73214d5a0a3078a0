//! Two nodes that start at once in one control group that has memory for one: one is refused in a line, the other uses all that it lends.

use crate::pool::group::Group;
use crate::pool::{HANARE, Running, command, run, wait_until};
use std::path::Path;

const LIMIT: u64 = 400 << 20;

fn node(group: &Group, folder: &Path, number: usize) -> Running {
    let state = folder.join(format!("state-{number}"));
    std::fs::create_dir(&state).unwrap();
    let mut command = group.command(HANARE);
    command
        .args(["node", "--memory", "300MiB", "--listen", "127.0.0.1:0", "--socket"])
        .arg(folder.join(format!("{number}.sock")));
    Running::start(command.env("XDG_RUNTIME_DIR", folder).env("HANARE_STATE", state))
}

#[test]
fn of_two_nodes_that_start_at_once_one_is_refused_and_the_other_has_its_memory() {
    let Some(group) = Group::new(LIMIT) else { return hanare_testkit::unable("no control group of memory can be made here") };
    let folder = tempfile::tempdir().unwrap();
    let mut nodes: Vec<Running> = (0..2).map(|number| node(&group, folder.path(), number)).collect();
    let ended = |nodes: &mut Vec<Running>| nodes.iter_mut().position(|node| node.child.try_wait().unwrap().is_some());
    wait_until("one is refused", || ended(&mut nodes).is_some());
    let refused = ended(&mut nodes).unwrap();
    let ended = nodes.remove(refused).wait();
    assert!(!ended.status.success());
    assert!(ended.stderr.contains("no other node may take") && ended.stderr.contains("300 MiB"), "{}", ended.stderr);
    let socket = folder.path().join(format!("{}.sock", 1 - refused));
    wait_until("the other begins", || socket.exists());
    let whole = folder.path().join("whole");
    std::fs::File::create(&whole).unwrap().set_len(280 << 20).unwrap();
    for words in [&["region", "create", "all", "280MiB"][..], &["region", "cp", whole.to_str().unwrap(), "all"]] {
        run(command(words).env("HANARE_NODE", &socket)).done();
    }
    let mut node = nodes.pop().unwrap();
    assert!(node.child.try_wait().unwrap().is_none(), "it runs");
    node.child.kill().unwrap();
    node.wait();
}
