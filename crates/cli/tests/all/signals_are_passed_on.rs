//! Signals sent to the launcher reach every rank.

use crate::pool;

use pool::{Running, command, signal};

fn launch(script: &str) -> Running {
    let job = Running::start(&mut command(&["run", "--nodes", "1", "-n", "2", "--memory", "64M", "--", "sh", "-c", script]));
    job.wait_for("up 0");
    job.wait_for("up 1");
    job
}

#[test]
fn each_is_seen_by_every_rank() {
    for name in ["INT", "TERM", "HUP", "USR1", "USR2", "WINCH"] {
        let job =
            launch(&format!("trap 'echo got $HANARE_RANK; exit 0' {name}; echo up $HANARE_RANK; while :; do sleep 0.02; done"));
        signal(name, job.pid());
        let text = job.wait().done();
        assert!(text.contains("got 0\n") && text.contains("got 1\n"), "{name}: {text}");
    }
}

#[test]
fn a_job_ended_by_one_has_its_status() {
    let job = launch("echo up $HANARE_RANK; exec sleep 600");
    signal("INT", job.pid());
    assert_eq!(job.wait().status.code(), Some(130));
}
