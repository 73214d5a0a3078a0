//! SIGTERM and Ctrl-C end a node with status 0; nothing of it stays but the journal, from which names come back.

use crate::pool;

use pool::{Running, command, run, signal};

#[test]
fn its_socket_goes_and_its_names_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let socket = path("deep/node.sock");
    let words = ["node", "--memory", "64M", "--listen", "127.0.0.1:0", "--socket", &socket];
    for name in ["TERM", "INT"] {
        let node = Running::start(command(&words).env("HANARE_STATE", path("state")));
        node.wait_for("lends 64 MiB");
        let hanare = |words: &[&str]| run(command(words).env("HANARE_NODE", &socket));
        if name == "TERM" {
            hanare(&["region", "create", "kept", "4K"]).done();
        } else {
            // The bytes went with the process: the name is there, and says so.
            assert_eq!(hanare(&["region", "stat", "kept", "--json"]).json()["lost"], 0);
        }
        signal(name, node.pid());
        node.wait().done();
        assert!(!std::path::Path::new(&socket).exists(), "the socket goes with the node");
    }
    let kept = std::fs::read_dir(folder.path().join("state")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(kept.into_iter().any(|name| name.to_string_lossy().starts_with("journal-")));
}

#[test]
fn a_second_node_at_the_same_socket_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("node.sock").to_str().unwrap().to_owned();
    let words = ["node", "--memory", "32M", "--listen", "127.0.0.1:0", "--socket", &socket];
    let node = Running::start(command(&words).env("HANARE_STATE", folder.path().join("one")));
    node.wait_for("lends");
    run(command(&words).env("HANARE_STATE", folder.path().join("two"))).refused(&[&socket]);
    signal("TERM", node.pid());
    node.wait().done();
}

#[test]
fn a_node_that_still_joins_hears_the_signal() {
    // It takes connections, and greets nobody.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap().to_string();
    let socket = format!("@hanare-joins-{}", std::process::id());
    for name in ["TERM", "INT"] {
        let words = ["node", "--memory", "32M", "--join", &at, "--socket", &socket];
        // Without a key it would not even call.
        let node = Running::start(command(&words).env("HANARE_KEY", pool::key()));
        let joining = silent.accept().unwrap();
        signal(name, node.pid());
        // Otherwise it would find out that nobody answers, and say so.
        let ended = node.wait();
        assert!(ended.stderr.contains("told to end before it was ready"), "{}", ended.stderr);
        assert_eq!(ended.status.code(), Some(0));
        drop(joining);
    }
}

/// What a member says itself is no warning: nothing of the others' is lost without notice.
#[test]
fn a_member_that_goes_in_good_order_is_not_called_lost() {
    let state = tempfile::tempdir().unwrap();
    let start = |name: &str, words: &[&str]| {
        let socket = format!("@hanare-goes-{}-{name}", std::process::id());
        let node = ["node", "--memory", "32M", "--listen", "127.0.0.1:0", "--socket", &socket, "--name", name, "--json"];
        Running::start(command(&[&node[..], words].concat()).env("HANARE_STATE", state.path()).env("HANARE_LOG", "info"))
    };
    let first = start("first", &[]);
    first.wait_for("\"address\"");
    let said: serde_json::Value = serde_json::from_str(&first.stdout()).unwrap();
    let second = start("second", &["--join", said["address"].as_str().unwrap()]);
    second.wait_for("\"address\"");
    signal("TERM", second.pid());
    second.wait().done();
    pool::wait_until("the first is told", || first.stderr().contains("has gone: it left the pool"));
    assert!(!first.stderr().contains("is lost"), "{}", first.stderr());
    signal("TERM", first.pid());
    first.wait().done();
}
