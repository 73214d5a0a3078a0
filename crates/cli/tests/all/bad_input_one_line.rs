//! What cannot be done is refused in one line that says what and why, with exit status 1; wrong usage with 2.

use crate::pool;

use pool::{Nodes, command, run};

#[test]
fn requests_that_the_pool_refuses() {
    let nodes = Nodes::start(1);
    nodes.hanare(&["region", "create", "taken", "4K"]).done();
    let long = "x".repeat(256);
    for (words, told) in [
        (&["region", "stat", "nowhere"][..], &["'nowhere'", "does not exist"][..]),
        (&["region", "rm", "nowhere"], &["'nowhere'"]),
        (&["region", "create", "taken", "4K"], &["'taken'", "exists", "4 KiB"]),
        (&["region", "create", "a/b", "4K"], &["a/b"]),
        (&["region", "create", &long, "4K"], &["255"]),
        (&["region", "create", "big", "1TiB"], &["1 TiB", "free"]),
        (&["region", "create", "far", "4K", "--place", "node=9"], &["node=9"]),
        (&["region", "resize", "taken", "1K"], &["'taken'", "1 KiB"]),
        (&["region", "cp", "taken", "taken"], &["same region"]),
        (&["region", "cp", "a.bin", "b.bin"], &["files"]),
        (&["region", "cp", "taken", "copy", "--dtype", "f8"], &[".npy"]),
        (&["region", "cp", "/", "copy"], &["folder"]),
    ] {
        nodes.hanare(words).refused(told);
    }
}

#[test]
fn requests_without_a_pool() {
    for (words, told) in [
        (&["status"][..], &["no node answers", "/nonexistent/hanare/node.sock", "hanare run"][..]),
        (&["region", "ls"], &["no node answers"]),
        (&["run", "--", "no-such-program"], &["no-such-program", "PATH"]),
        (&["run", "--", "/no/such"], &["/no/such"]),
        (&["run", "--nodes", "0", "--", "true"], &["1 to 1024"]),
        (&["run", "--nodes", "1", "--memory", "1000TiB", "--", "true"], &["node 0"]),
        (&["node", "--memory", "1000TiB", "--socket", "@hanare-test-never"], &["memory"]),
        (&["node", "--memory", "1M", "--join", "127.0.0.1:1", "--socket", "@hanare-test-never"], &["pool.key", "copy", "--key"]),
        (&["node", "--memory", "1M", "--key", "/no/such", "--socket", "@hanare-test-never"], &["/no/such"]),
        (&["node", "--memory", "1M", "--listen", "nonsense", "--socket", "@hanare-test-never"], &["nonsense"]),
        (&["demo", "memory", "--data", "1M"], &["a program works on at least"]),
    ] {
        let state = tempfile::tempdir().unwrap();
        run(command(words).env("HANARE_STATE", state.path())).refused(told);
    }
    run(command(&["run", "--fabric", "ucx", "--", "true"]).env("HANARE_UCX", "/no/such")).refused(&["ucx fabric", "/no/such"]);
    run(command(&["run", "--", "true"]).env("HANARE_NODE", "@hanare-test-nobody")).refused(&["@hanare-test-nobody"]);
}

#[test]
fn wrong_usage() {
    for words in [
        &[][..],
        &["fly"],
        &["run"],
        &["node"],
        &["region", "create", "a", "lots"],
        &["region", "create", "a", "0"],
        &["region", "create", "a", "1", "--place", "nearby"],
        &["region", "create", "a", "1", "--mode", "rw"],
        &["completions", "cmd.exe"],
    ] {
        let ended = run(&mut command(words));
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{words:?}");
    }
}
