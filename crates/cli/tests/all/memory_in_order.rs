//! Two nodes that start at once in one control group that has memory for one: one is refused in a line, the other uses all that it lends.

use crate::pool::{HANARE, Running, clean, command, run, wait_until};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: u64 = 400 << 20;

/// A control group of this test's own, below the one that it is in.
struct Group(PathBuf);

impl Group {
    /// `None` where this user may make none.
    fn new() -> Option<Group> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        for line in groups.lines() {
            let [_, kinds, path] = line.splitn(3, ':').collect::<Vec<_>>()[..] else { continue };
            let (root, limit) = match kinds {
                "memory" => (Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
                "" => (Path::new("/sys/fs/cgroup"), "memory.max"),
                _ => continue,
            };
            let folder = root.join(path.trim_start_matches('/')).join(format!("hanare-test-{}", std::process::id()));
            if std::fs::create_dir(&folder).is_ok() {
                let group = Group(folder);
                if std::fs::write(group.0.join(limit), LIMIT.to_string()).is_ok() {
                    return Some(group);
                }
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes are gone a moment after they were waited for.
        let until = Instant::now() + Duration::from_secs(5);
        while std::fs::remove_dir(&self.0).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn node(group: &Group, folder: &Path, number: usize) -> Running {
    let state = folder.join(format!("state-{number}"));
    std::fs::create_dir(&state).unwrap();
    let mut command: Command = clean("sh");
    command.args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""]).arg(&group.0).arg(HANARE);
    command
        .args(["node", "--memory", "300MiB", "--listen", "127.0.0.1:0", "--socket"])
        .arg(folder.join(format!("{number}.sock")));
    Running::start(command.env("XDG_RUNTIME_DIR", folder).env("HANARE_STATE", state))
}

#[test]
fn of_two_nodes_that_start_at_once_one_is_refused_and_the_other_has_its_memory() {
    let Some(group) = Group::new() else { return hanare_testkit::unable("no control group of memory can be made here") };
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
