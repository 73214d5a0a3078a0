//! `hanare nbd`: a region as a disk, by Debian's nbdkit and the plugin that is built here.

use crate::pool;

use pool::{Nodes, command};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Why nothing can be served here, if so.
pub fn cannot_serve() -> Option<String> {
    for (program, package) in [("nbdkit", "nbdkit"), ("nbdcopy", "libnbd-bin"), ("nbdinfo", "libnbd-bin")] {
        if Command::new(program).arg("--version").output().is_err() {
            return Some(format!("no {program} (package {package})"));
        }
    }
    let plugin = std::path::Path::new(pool::HANARE).with_file_name("libnbdkit_hanare_plugin.so");
    (!plugin.is_file()).then(|| "the plugin is not built; the whole workspace's tests build it".to_owned())
}

// FEATURE: D3-F19
#[test]
fn a_disk_is_written_read_zeroed_and_survives_the_server() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::uninstalled(reason);
    }
    let nodes = Nodes::start(2);
    assert!(nodes.hanare(&["region", "create", "disk", "16M", "--place", "interleave=64K"]).status.success());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bytes: Vec<u8> = (0..16u32 << 20).map(|k| (k ^ k >> 8 ^ k >> 16) as u8).collect();
    std::fs::write(file("in"), &bytes).unwrap();
    let ended = nodes.hanare(&["nbd", "disk", "--", "nbdinfo --size $uri && nbdinfo $uri"]);
    assert!(ended.status.success(), "{}", ended.stderr);
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.starts_with("16777216\n") && said.contains("can_multi_conn: true"), "{said}");
    let ended = nodes.hanare(&["nbd", "disk", "--", &format!("nbdcopy {} $uri", file("in"))]);
    assert!(ended.status.success(), "{}", ended.stderr);
    // Another process on the other host reads it.
    let ended = nodes.hanare_on(1, &["nbd", "disk", "-r", "--", &format!("nbdcopy $uri {}", file("out"))]);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(std::fs::read(file("out")).unwrap() == bytes);
    let ended = nodes.hanare(&["nbd", "disk", "-r", "--", &format!("nbdcopy {} $uri", file("in"))]);
    assert!(!ended.status.success(), "a disk for reading is not written");
    let missing = nodes.hanare(&["nbd", "nodisk", "--", "true"]);
    assert!(!missing.status.success() && missing.stderr.contains("'nodisk' does not exist"), "{}", missing.stderr);
}

#[test]
fn a_command_ends_whose_disk_is_gone() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::uninstalled(reason);
    }
    let nodes = Nodes::start(1);
    let begun = Instant::now();
    let ended = nodes.hanare(&["nbd", "large", "--create", "1T", "--", "exec sleep 600"]);
    assert!(!ended.status.success() && ended.stderr.contains("cannot take 1 TiB"), "{}", ended.stderr);
    let killed = "kill -9 $(cat $(dirname $unixsocket)/begun); exec sleep 600";
    let ended = nodes.hanare(&["nbd", "disk", "--create", "1M", "--", killed]);
    assert!(!ended.status.success() && ended.stderr.contains("ending the command"), "{}", ended.stderr);
    // A process that the shell waits for has our pipes: `hanare` here returns when it has ended, too.
    let killed = "kill -9 $(cat $(dirname $unixsocket)/begun); sleep 600; sleep 600";
    let ended = nodes.hanare(&["nbd", "disk", "--create", "1M", "--", killed]);
    assert!(!ended.status.success() && ended.stderr.contains("ending the command"), "{}", ended.stderr);
    let deaf = "trap '' TERM; kill -9 $(cat $(dirname $unixsocket)/begun); sleep 600; sleep 600";
    let ended = nodes.hanare(&["nbd", "disk", "--create", "1M", "--", deaf]);
    assert!(!ended.status.success() && ended.stderr.contains("ending the command"), "{}", ended.stderr);
    assert!(begun.elapsed() < Duration::from_secs(300), "it waited for the command");
    let ended = nodes.hanare(&["nbd", "disk", "--", "exit 7"]);
    assert_eq!(ended.status.code(), Some(7), "{}", ended.stderr);
}

/// What `nbdinfo --map` says: where each part begins, its length, and whether it is a hole that reads as zeros.
fn map(said: &[u8]) -> Vec<(u64, u64, bool)> {
    let said = String::from_utf8_lossy(said);
    let part = |line: &str| {
        let mut words = line.split_ascii_whitespace().map(|word| word.parse().unwrap_or_else(|_| panic!("{said}")));
        let mut next = || words.next().unwrap_or_else(|| panic!("{said}"));
        let (offset, len, kind): (u64, u64, u64) = (next(), next(), next());
        assert!(kind == 0 || kind == 3, "{said}");
        (offset, len, kind == 3)
    };
    said.lines().map(|line| part(&line[..line.rfind(|c: char| c.is_ascii_digit()).map_or(0, |last| last + 1)])).collect()
}

#[test]
fn zeros_of_a_disk_are_holes_that_nobody_needs_to_read() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::uninstalled(reason);
    }
    const MIB: u64 = 1 << 20;
    let nodes = Nodes::start(2);
    assert!(nodes.hanare(&["region", "create", "disk", "8M", "--place", "interleave=1M"]).status.success());
    assert!(nodes.hanare(&["region", "create", "odd", "200001"]).status.success());
    let mapped = |name: &str| {
        let ended = nodes.hanare(&["nbd", name, "--", "nbdinfo --map $uri"]);
        assert!(ended.status.success(), "{}", ended.stderr);
        map(&ended.stdout)
    };
    assert_eq!(mapped("disk"), [(0, 8 * MIB, true)], "nobody wrote anything");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut bytes = vec![0; 8 << 20];
    bytes[1 << 20..2 << 20].fill(5);
    // One byte, at the end of a cell whose first words are zero.
    bytes[(5 << 20) + 65535] = 1;
    std::fs::write(file("in"), &bytes).unwrap();
    let both = format!("nbdcopy {} $uri && nbdcopy $uri {}", file("in"), file("out"));
    let ended = nodes.hanare(&["nbd", "disk", "--", &both]);
    assert!(ended.status.success(), "{}", ended.stderr);
    let cell = 64 << 10;
    let parts = [
        (0, MIB, true),
        (MIB, MIB, false),
        (2 * MIB, 3 * MIB, true),
        (5 * MIB, cell, false),
        (5 * MIB + cell, 3 * MIB - cell, true),
    ];
    assert_eq!(mapped("disk"), parts);
    assert!(std::fs::read(file("out")).unwrap() == bytes);
    let kept = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(file("out")).unwrap()) * 512;
    assert!(kept < 2 * MIB, "{kept} bytes of the copy are no hole");
    if Command::new("qemu-img").arg("--version").output().is_ok() {
        let ended = nodes.hanare(&["nbd", "disk", "--", "qemu-img map -f raw --output=json $uri"]);
        let said = String::from_utf8_lossy(&ended.stdout);
        let data = said.lines().filter(|line| line.contains("\"zero\": false"));
        let starts: Vec<bool> =
            data.map(|line| line.contains("\"start\": 1048576,") || line.contains("\"start\": 5242880,")).collect();
        assert!(ended.status.success() && starts == [true, true], "{said}{}", ended.stderr);
    }
    // A disk that is no whole number of words ends in bytes that are told as data.
    assert_eq!(mapped("odd").last().map(|(offset, len, _)| offset + len), Some(200_001));
    let ended = nodes.hanare(&["nbd", "odd", "--", &format!("nbdcopy $uri {}", file("odd"))]);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(std::fs::read(file("odd")).unwrap() == vec![0; 200_001]);
}

#[test]
fn a_file_system_on_a_disk_is_whole_after_the_server_was_killed() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::uninstalled(reason);
    }
    let has_mkfs = ["/usr/sbin", "/sbin"].iter().any(|folder| std::path::Path::new(folder).join("mkfs.ext4").exists());
    if !has_mkfs || Command::new("qemu-img").arg("--version").output().is_err() {
        return hanare_testkit::uninstalled("no mkfs.ext4 (package e2fsprogs) or no qemu-img (package qemu-utils)");
    }
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let image = image.to_str().unwrap();
    let fill = format!("truncate -s 16M {image} && PATH=$PATH:/sbin:/usr/sbin mkfs.ext4 -q {image} && nbdcopy {image} $uri");
    // The shell kills the server that runs it, when all is answered.
    let ended = nodes.hanare(&["nbd", "disk", "--create", "16M", "--", &format!("{fill} && kill -9 $PPID")]);
    assert!(!ended.status.success());
    let check = format!(
        "nbdcopy $uri {image}.2 && cmp {image} {image}.2 && PATH=$PATH:/sbin:/usr/sbin fsck.ext4 -fn {image}.2 && qemu-img info $uri"
    );
    let ended = nodes.hanare(&["nbd", "disk", "--", &check]);
    assert!(ended.status.success(), "{}{}", String::from_utf8_lossy(&ended.stdout), ended.stderr);
}

/// Every user of a host reaches a port of loopback: the region's mode does not help there.
#[test]
fn another_user_is_not_served_at_a_port() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::uninstalled(reason);
    }
    if !rustix::process::geteuid().is_root() {
        return hanare_testkit::unable("only root can be another user, too");
    }
    let nodes = Nodes::start(1);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let port = free.to_string();
    let size = |uid: u32| {
        let mut nbdinfo = pool::clean("nbdinfo");
        let ended = pool::run(nbdinfo.args(["--size", &format!("nbd://127.0.0.1:{port}")]).uid(uid).gid(uid));
        (ended.status.success(), String::from_utf8(ended.stdout).unwrap())
    };
    let own = (true, "1048576\n".to_owned());
    for is_for_anyone in [false, true] {
        let mut words = vec!["nbd", "disk", "--create", "1M", "--port", &port];
        words.extend(is_for_anyone.then_some("--anyone"));
        let server = pool::Running::start(command(&words).env("HANARE_NODE", &nodes.nodes[0].socket));
        pool::wait_until("the port is served", || size(0) == own);
        assert_eq!(size(65534) == own, is_for_anyone, "{}", server.stderr());
        assert!(is_for_anyone || server.stderr().contains("of user 65534 is refused"), "{}", server.stderr());
        pool::signal("TERM", server.pid());
        server.wait();
    }
    // Many connections, by a command that runs meanwhile.
    let copy = "nbdcopy --connections=4 $uri null: && nbdinfo --size $uri";
    let ended = nodes.hanare(&["nbd", "disk", "--port", &port, "--", copy]);
    assert_eq!((ended.status.code(), ended.stdout), (Some(0), b"1048576\n".to_vec()), "{}", ended.stderr);
}
