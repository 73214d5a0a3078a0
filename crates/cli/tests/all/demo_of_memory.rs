//! `hanare demo memory` works on more than it may keep here, tells what it could not show, and leaves nothing behind.

use crate::main_memory::cannot_serve;
use crate::pool;

use pool::{Running, command, marked, run, signal, wait_until};
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::Mutex;

/// An ordinary user.
const NOBODY: u32 = 65534;

/// One demonstration at a time is shown with a swap file.
static SWAP: Mutex<()> = Mutex::new(());

/// What of groups and swap with our names is there: other tests run as other processes, whose numbers these are not.
fn left_of(pid: u32) -> Vec<String> {
    let mark = format!("hanare-cage-{pid}-");
    let folders = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup", "/var/tmp"];
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(Path::new(folder)).ok()).flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    names
        .filter(|name| name.starts_with(&mark))
        .chain(swaps.lines().filter(|line| line.contains(&mark)).map(str::to_owned))
        .collect()
}

#[test]
fn the_same_bytes_by_every_way_that_can_be_gone() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::unable(reason);
    }
    let _alone = SWAP.lock();
    let mark = format!("demo-memory-{}", std::process::id());
    let words = ["demo", "memory", "--data", "48M", "--at-most", "20", "--json"];
    let facts = run(command(&words).env("HANARE_TEST_MARK", &mark)).json();
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("no number in {facts}"));
    assert_eq!(number(&facts["here"]) * 3.0, number(&facts["data"]), "{facts}");
    let programs = facts["programs"].as_array().unwrap();
    assert!(programs.iter().any(|program| program["program"].as_str().unwrap().starts_with("GNU sort")), "{facts}");
    for program in programs {
        assert_eq!(program["pool"]["missing"], serde_json::Value::Null, "{facts}");
        for way in ["pool", "swap_file"].into_iter().filter(|way| program[way]["missing"].is_null()) {
            assert!(number(&program[way]["faults"]) > 1000.0, "{facts}");
            // A busy machine may be too slow for all of it. The kernel writes no pages of zeros into swap.
            let is_done = program[way]["done"].as_bool().unwrap();
            assert!(!is_done || number(&program[way]["written"]) > number(&facts["data"]) / 4.0, "{facts}");
        }
    }
    wait_until("nothing is left of the demonstration", || marked(&mark).is_empty());
}

#[test]
fn an_ordinary_user_is_told_what_the_machine_refuses_and_the_line_that_mends_it() {
    if !rustix::process::geteuid().is_root() {
        return hanare_testkit::unable("becoming another user needs root");
    }
    let told = |words: &[&str]| run(command(words).uid(NOBODY).gid(NOBODY)).done();
    let text = told(&["demo", "memory", "--data", "48M", "--at-most", "20"]);
    assert!(text.contains("need root") && text.contains("> sudo hanare demo memory"), "{text}");
    let doctor: serde_json::Value = serde_json::from_str(&told(&["doctor", "--json"])).unwrap();
    let kernel = doctor["groups"].as_array().unwrap().iter().find(|group| group["group"] == "Kernel").unwrap();
    let findings = kernel["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["name"] == "main memory in the pool").unwrap();
    if finding["usable"] == false {
        let remedy = finding["remedy"].as_str().unwrap();
        assert!(text.contains("pool of a second node, TCP: not shown") && text.contains(remedy), "{remedy}\n{text}");
    }
}

#[test]
fn of_two_with_swap_files_one_is_told_of_the_other() {
    let _alone = SWAP.lock();
    let Ok(other) = OpenOptions::new().create(true).truncate(false).write(true).open("/run/hanare-cage.lock") else {
        return hanare_testkit::unable("swap needs root");
    };
    other.lock().unwrap();
    let facts = run(&mut command(&["demo", "memory", "--data", "48M", "--at-most", "12", "--json"])).json();
    let missing = &facts["programs"][0]["swap_file"]["missing"];
    assert!(missing.as_str().unwrap().contains("another program is measured"), "{facts}");
}

#[test]
fn it_leaves_nothing_when_it_is_ended() {
    let _alone = SWAP.lock();
    let mark = format!("demo-memory-ended-{}", std::process::id());
    let running = Running::start(command(&["demo", "memory", "--data", "48M"]).env("HANARE_TEST_MARK", &mark));
    wait_until("it sorts with bounds", || running.stderr().contains("with a swap file"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let processes: Vec<u32> = marked(&mark).into_iter().map(|(pid, _)| pid).collect();
    signal("INT", running.pid());
    let ended = running.wait();
    assert!(!ended.status.success(), "{ended:?}");
    wait_until("nothing is left of the demonstration", || marked(&mark).is_empty());
    for pid in processes {
        assert_eq!(left_of(pid), Vec::<String>::new());
    }
}
