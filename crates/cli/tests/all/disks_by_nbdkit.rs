//! `hanare nbd`: a region as a disk, by Debian's nbdkit and the plugin that is built here.

use crate::pool;

use pool::Nodes;
use std::process::Command;

/// Why nothing can be served here, if so.
fn cannot_serve() -> Option<String> {
    for (program, package) in [("nbdkit", "nbdkit"), ("nbdcopy", "libnbd-bin"), ("nbdinfo", "libnbd-bin")] {
        if Command::new(program).arg("--version").output().is_err() {
            return Some(format!("no {program} (package {package})"));
        }
    }
    let plugin = std::path::Path::new(pool::HANARE).with_file_name("libnbdkit_hanare_plugin.so");
    (!plugin.is_file()).then(|| "the plugin is not built; the whole workspace's tests build it".to_owned())
}

#[test]
fn a_disk_is_written_read_zeroed_and_survives_the_server() {
    if let Some(reason) = cannot_serve() {
        return eprintln!("skipped: {reason}");
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
fn a_file_system_on_a_disk_is_whole_after_the_server_was_killed() {
    if let Some(reason) = cannot_serve() {
        return eprintln!("skipped: {reason}");
    }
    let has_mkfs = ["/usr/sbin", "/sbin"].iter().any(|folder| std::path::Path::new(folder).join("mkfs.ext4").exists());
    if !has_mkfs || Command::new("qemu-img").arg("--version").output().is_err() {
        return eprintln!("skipped: no mkfs.ext4 (package e2fsprogs) or no qemu-img (package qemu-utils)");
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
