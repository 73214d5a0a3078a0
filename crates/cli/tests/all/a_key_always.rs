//! No pool is without a key: a coordinator that is given none draws one, its user's other nodes find it, and nobody else gets in.

use crate::pool;

use pool::{Running, command, run, signal};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A user without rights, where the test may become one.
const NOBODY: u32 = 65534;

fn node(state: &Path, socket: &str, words: &[&str]) -> Command {
    let mut node =
        command(&["node", "--memory", "32M", "--listen", "127.0.0.1:0", "--socket", socket, "--name", socket, "--json"]);
    node.args(words).env("HANARE_STATE", state);
    node
}

/// Where a node that has begun says that it listens.
fn address(node: &Running) -> String {
    node.wait_for("\"address\"");
    let said: serde_json::Value = serde_json::from_str(&node.stdout()).unwrap();
    said["address"].as_str().unwrap().to_owned()
}

#[test]
fn nodes_of_one_user_find_each_other_s_key() {
    let state = tempfile::tempdir().unwrap();
    let own = std::process::id();
    let sockets = [format!("@hanare-key-{own}-a"), format!("@hanare-key-{own}-b")];
    let first = Running::start(&mut node(state.path(), &sockets[0], &[]));
    let at = address(&first);
    let key = state.path().join("pool.key");
    let about = std::fs::metadata(&key).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let drawn = std::fs::read(&key).unwrap();
    let second = Running::start(&mut node(state.path(), &sockets[1], &["--join", &at]));
    address(&second);
    let status = run(command(&["status", "--json"]).env("HANARE_NODE", &sockets[1])).json();
    assert_eq!(status["nodes"].as_array().unwrap().len(), 2);
    for node in [second, first] {
        signal("TERM", node.pid());
        node.wait().done();
    }
    // The next life of the pool has the same key, so nodes that stayed join again.
    let again = Running::start(&mut node(state.path(), &sockets[0], &[]));
    address(&again);
    assert_eq!(std::fs::read(&key).unwrap(), drawn);
    signal("TERM", again.pid());
    again.wait().done();
}

#[test]
fn another_user_s_node_is_refused_and_told_what_to_copy() {
    let (state, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let own = std::process::id();
    let socket = format!("@hanare-key-{own}-c");
    let coordinator = Running::start(&mut node(state.path(), &socket, &[]));
    let at = address(&coordinator);
    let join = |words: &[&str]| {
        let mut stranger = node(theirs.path(), &format!("@hanare-key-{own}-d"), &[&["--join", &at][..], words].concat());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(theirs.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            stranger.uid(NOBODY).gid(NOBODY);
        }
        let ended = run(&mut stranger);
        // A node that is started for its ready line says there what went wrong.
        let said = String::from_utf8(ended.stdout).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        said
    };
    let missing = join(&[]);
    assert!(missing.contains("pool.key") && missing.contains("copy"), "{missing}");
    if std::fs::metadata(theirs.path()).unwrap().uid() == NOBODY {
        let stolen = join(&["--key", state.path().join("pool.key").to_str().unwrap()]);
        assert!(stolen.contains("ermission denied"), "{stolen}");
    }
    let drawn = theirs.path().join("drawn");
    run(&mut command(&["key", "new", drawn.to_str().unwrap()])).done();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&drawn, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let refused = join(&["--key", drawn.to_str().unwrap()]);
    assert!(refused.contains("has not the key of this pool") && refused.contains("copy"), "{refused}");
    signal("TERM", coordinator.pid());
    coordinator.wait().done();
}

#[test]
fn a_key_is_drawn_once_into_a_file_for_one_user() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep/key");
    let name = file.to_str().unwrap();
    assert_eq!(run(&mut command(&["key", "new", name])).done().trim_end(), name);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let drawn = std::fs::read(&file).unwrap();
    run(&mut command(&["key", "new", name])).refused(&[name, "there already"]);
    assert_eq!(std::fs::read(&file).unwrap(), drawn);
}

#[test]
fn a_node_that_does_not_seal_says_so() {
    let first = pool::Node::start(None, &["--plain"]);
    let second = pool::Node::start(Some(&first.address), &[]);
    let status = |words: &[&str]| run(command(words).env("HANARE_NODE", &second.socket));
    // The coordinator hears of it when the node renews its lease.
    pool::wait_until("the status says so", || status(&["status"]).done().contains("not sealed (--plain): node 0"));
    let nodes = status(&["status", "--json"]).json();
    assert_eq!((&nodes["nodes"][0]["plain"], &nodes["nodes"][1]["plain"]), (&true.into(), &false.into()));
    // One that was told and one that was not still understand each other, and seal.
    status(&["region", "create", "both", "128K", "--place", "node=0"]).done();
    assert_eq!(status(&["region", "stat", "both", "--json"]).json()["size"], 131_072);
}
