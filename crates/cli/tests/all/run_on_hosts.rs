//! `hanare run --hosts`: a node on each host, one pool with a key, the ranks in blocks, their output and input as if they were
//! here, and one line that names the host where something is wrong. The hosts are pretended; `run_on_hosts_by_sshd.rs` has an sshd.

use crate::pool;

use hanare::{CreateOptions, Error, Placement, Pool};
use pool::remote::Remote;
use pool::{HANARE, Running, run, signal};
use std::io::Write;

/// What each rank of the tests below runs: the ranks meet, and one that is told to is killed.
pub fn rank() {
    let Some(report) = std::env::var_os("RANK_REPORT").filter(|path| !path.is_empty()) else { return };
    let say = |text: String| {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(&report).unwrap();
        (&file).write_all(text.as_bytes()).unwrap();
    };
    let pool = Pool::attach().unwrap();
    let last = pool.ranks() - 1;
    if pool.rank() == 0 {
        // On the other host's node.
        let options = CreateOptions { placement: Placement::Node(hanare::NodeId(1)), ..CreateOptions::default() };
        pool.create("greeting", 1 << 20, &options).unwrap().put(77, b"from rank 0").unwrap();
    }
    pool.barrier().unwrap();
    let mut text = [0; 11];
    pool.open("greeting").unwrap().get(77, &mut text).unwrap();
    say(format!("rank {} on {}: {}\n", pool.rank(), pool.node(), String::from_utf8_lossy(&text)));
    pool.barrier().unwrap();
    if std::env::var("HANARE_TEST_END").as_deref() == Ok("killed") {
        if pool.rank() == last {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
        say(match pool.barrier() {
            Err(Error::RankGone { rank, .. }) => format!("{rank} gone\n"),
            other => format!("{other:?}\n"),
        });
    }
}

/// The lines of a report, in order.
fn report(remote: &Remote) -> Vec<String> {
    let text = std::fs::read_to_string(remote.path("report")).unwrap_or_default();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Runs this file's rank on three ranks of two hosts.
fn ranks(remote: &Remote, end: &str) -> pool::Ended {
    let own = std::env::current_exe().unwrap();
    let words = ["run", "--hosts", "a,b", "-n", "3", "--memory", "64M", "--"];
    let mut command = remote.command(&words);
    command.arg(own).args(hanare_testkit::words("run_on_hosts::rank"));
    // Variables of that name go with the launch.
    run(command.env("RANK_REPORT", remote.path("report")).env("HANARE_TEST_END", end))
}

// FEATURE: D2-F5 D2-F8
#[test]
fn ranks_of_two_hosts_meet_and_share_memory() {
    let remote = Remote::new();
    ranks(&remote, "well").done();
    let said = ["rank 0 on node 0", "rank 1 on node 0", "rank 2 on node 1"].map(|who| format!("{who}: from rank 0"));
    assert_eq!(report(&remote), said, "in blocks");
}

// FEATURE: D2-F8
#[test]
fn a_rank_that_is_killed_is_named_and_the_others_are_told() {
    let remote = Remote::new();
    let ended = ranks(&remote, "killed");
    assert_eq!(ended.status.code(), Some(137), "{}", ended.stderr);
    assert!(ended.stderr.contains("rank 2 of 3") && ended.stderr.contains("SIGKILL"), "{}", ended.stderr);
    assert_eq!(report(&remote).iter().filter(|line| *line == "rank 2 gone").count(), 2, "{:?}", report(&remote));
}

#[test]
fn blocks_follow_the_slots_of_a_host_file_and_each_rank_knows_its_place() {
    let remote = Remote::new();
    std::fs::write(remote.path("hosts"), "# two\nnoisy slots=3   # prints before anything else\nb:1\n").unwrap();
    let script = "echo $HANARE_RANK/$HANARE_RANKS $THIS_HOST $(pwd) $HANARE_ANSWER_MS";
    let words = ["run", "--hostfile", "hosts", "--memory", "64M", "--", "sh", "-c", script];
    let text = run(remote.command(&words).env("HANARE_ANSWER_MS", "12345")).done();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let folder = remote.folder.path().canonicalize().unwrap();
    let said = |rank: usize| format!("{rank}/4 {} {} 12345", if rank < 3 { "noisy" } else { "b" }, folder.display());
    assert_eq!(lines, (0..4).map(said).collect::<Vec<_>>());
}

#[test]
fn input_goes_to_rank_0_and_bytes_come_back_unchanged() {
    let remote = Remote::new();
    let bytes: Vec<u8> = (0..900_000u32).map(|k| (k.wrapping_mul(2_654_435_761) >> 9) as u8).collect();
    std::fs::write(remote.path("input"), &bytes).unwrap();
    let line = format!("{HANARE} run --hosts a,b --memory 64M -- sh -c '[ $HANARE_RANK != 0 ] || cat' < input");
    let ended = run(remote.dress(pool::clean("sh")).args(["-c", &line]));
    assert!(ended.status.success() && ended.stdout == bytes, "{} {}", ended.stdout.len(), ended.stderr);
}

#[test]
fn many_lines_of_ranks_that_end_at_once_are_all_shown() {
    let remote = Remote::new();
    let script = "i=0; while [ $i -lt 2000 ]; do echo rank$HANARE_RANK-$i; i=$((i+1)); done; echo end >&2";
    let ended = run(&mut remote.command(&["run", "--hosts", "a,b", "-n", "4", "--memory", "64M", "--", "sh", "-c", script]));
    assert_eq!(ended.stderr.matches("end\n").count(), 4);
    let text = ended.done();
    for rank in 0..4 {
        let prefix = format!("rank{rank}-");
        let numbers: Vec<u32> = text.lines().filter_map(|line| line.strip_prefix(&prefix)?.parse().ok()).collect();
        assert_eq!(numbers, (0..2000).collect::<Vec<_>>(), "rank {rank}");
    }
}

#[test]
fn signals_reach_the_ranks_of_every_host() {
    for name in ["INT", "TERM", "USR1"] {
        let remote = Remote::new();
        let script = format!("trap 'echo got $HANARE_RANK; exit 0' {name}; echo up $HANARE_RANK; while :; do sleep 0.02; done");
        let job = Running::start(&mut remote.command(&["run", "--hosts", "a,b", "--memory", "64M", "--", "sh", "-c", &script]));
        job.wait_for("up 0");
        job.wait_for("up 1");
        signal(name, job.pid());
        let text = job.wait().done();
        assert!(text.contains("got 0\n") && text.contains("got 1\n"), "{name}: {text}");
    }
}

#[test]
fn what_is_typed_at_the_terminal_reaches_what_ranks_have_started() {
    if pool::clean("script").arg("--version").output().is_err() {
        hanare_testkit::uninstalled("no `script` to make a terminal (package bsdutils)");
        return;
    }
    let remote = Remote::new();
    // The shell waits for its child, whatever it is told itself.
    let job = format!("{HANARE} run --hosts a,b --memory 64M -- sh -c 'echo up $HANARE_RANK; sleep 600'");
    let line = "(until grep -q 'up 0' out && grep -q 'up 1' out; do sleep 0.02; done; printf '\\003') | \
        script -qec \"$JOB\" /dev/null > out";
    std::fs::write(remote.path("out"), "").unwrap();
    let mut command = remote.dress(pool::clean("sh"));
    let ended = run(command.args(["-c", line]).env("JOB", job));
    let text = std::fs::read_to_string(remote.path("out")).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{text} {}", ended.stderr);
    assert!(text.contains("SIGINT"), "{text}");
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_ranks_as_a_pipe_does() {
    let remote = Remote::new();
    let line = format!("({HANARE} run --hosts a,b --memory 64M -- yes; echo status $? >&2) | head -n 1");
    let ended = run(remote.dress(pool::clean("sh")).args(["-c", &line]));
    assert_eq!(ended.stdout, b"y\n");
    assert!(ended.stderr.contains("SIGPIPE") && ended.stderr.contains("status 141"), "{}", ended.stderr);
}

#[test]
fn a_stranger_without_the_key_is_refused() {
    let remote = Remote::new();
    let script = format!("{HANARE} status --json > status && echo up && exec sleep 600");
    let job =
        Running::start(&mut remote.command(&["run", "--hosts", "a,b", "-n", "1", "--memory", "64M", "--", "sh", "-c", &script]));
    job.wait_for("up");
    let status: serde_json::Value = serde_json::from_slice(&std::fs::read(remote.path("status")).unwrap()).unwrap();
    let address = status["nodes"][0]["address"].as_str().unwrap();
    let words = ["node", "--memory", "1M", "--socket", "@hanare-test-stranger", "--join", address];
    run(pool::command(&words).env("HANARE_STATE", remote.folder.path())).refused(&["pool.key", "copy"]);
    run(pool::command(&words).env("HANARE_KEY", pool::key())).refused(&["has not the key of this pool", "copy"]);
    signal("TERM", job.pid());
    assert_eq!(job.wait().status.code(), Some(143));
}

#[test]
fn a_rank_that_fails_gives_its_status() {
    let remote = Remote::new();
    let script = "if [ $HANARE_RANK = 1 ]; then exit 7; fi; sleep 600";
    let ended = run(&mut remote.command(&["run", "--hosts", "a,b", "-n", "3", "--memory", "64M", "--", "sh", "-c", script]));
    assert_eq!(ended.status.code(), Some(7));
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines[0], "hanare: rank 1 of 3 (sh) failed: exit status 7");
    let cells =
        |line: &str| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(cells(lines[2]), ["rank 1", "0", "a", "exit status 7"], "{}", ended.stderr);
    assert_eq!(cells(lines[3]), ["ranks 0, 2", "0, 1", "a, b", "ended because of rank 1"], "{}", ended.stderr);
    assert_eq!(lines.len(), 4, "{}", ended.stderr);
}

#[test]
fn what_is_wrong_with_a_host_is_one_line_that_names_it() {
    let remote = Remote::new();
    std::fs::write(remote.path("hosts"), "a\nb slots=none\n").unwrap();
    for (words, told) in [
        (&["--hosts", "a,unreachable"][..], &["host unreachable", "No route to host"][..]),
        (&["--hosts", "badkey,b"], &["host badkey", "Host key verification failed"]),
        (&["--hosts", "a,old"], &["host old", "0.0.1", env!("CARGO_PKG_VERSION"), "same build"]),
        (&["--hosts", "a,bare"], &["host bare", "no hanare there", "same build"]),
        (&["--hosts", "a,mute"], &["host mute"]),
        (&["--hosts", "a,b", "--memory", "1000TiB"], &["host a", "node 0", "memory"]),
        (&["--hosts", "a:1,b:1", "-n", "3"], &["3 ranks", "2 slots"]),
        (&["--hosts", "a,,b"], &["a,,b"]),
        (&["--hosts", "-oProxyCommand=x"], &["-oProxyCommand=x"]),
        (&["--hostfile", "hosts"], &["hosts, line 2", "'none'"]),
        (&["--hostfile", "/no/such"], &["/no/such"]),
    ] {
        // An option that begins with a dash needs the sign.
        let joined: Vec<String> = match words {
            [name, value] if value.starts_with('-') => vec![format!("{name}={value}")],
            words => words.iter().map(|word| (*word).to_owned()).collect(),
        };
        let mut command = remote.command(&["run"]);
        run(command.args(&joined).args(["--", "true"])).refused(told);
    }
    run(&mut remote.command(&["run", "--hosts", "a,b", "--memory", "64M", "--", "no-such-program"])).refused(&[
        "host",
        "no-such-program",
        "PATH",
    ]);
    run(remote.command(&["run", "--hosts", "a", "--", "true"]).env("HANARE_SSH", "/no/such/ssh"))
        .refused(&["/no/such/ssh", "host a"]);
}
