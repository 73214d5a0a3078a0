//! `hanare mount --copies 2` and `hanare nbd --copies 2`: nodes that hold files and disks are killed while programs write.

use crate::disks_by_nbdkit::cannot_serve;
use crate::keepers::Keepers;
use crate::mounted_files::{Mount, or_skip};
use crate::pool;

use hanare::{CreateOptions, NodeId, Placement, Pool};
use pool::{Nodes, Running, command, wait_until};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Bytes of a file, and of each addition to the log that a program keeps open.
const FILE_LEN: usize = 20_000;

/// What a program writes that round.
fn content(round: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at ^ round.wrapping_mul(0x9e37) ^ at >> 8) as u8).collect()
}

/// A program that writes files, and says how far it is.
#[derive(Default)]
struct Writer {
    is_over: AtomicBool,
    written: AtomicU32,
}

/// Ends a program when it is dropped, also where the test fails.
struct Stopper<'a>(&'a Writer);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Writer {
    /// Writes a file a round, as careful programs do: to another name, synced, renamed. Beside that it appends to a file that it keeps open.
    fn run(&self, folder: &Path) -> io::Result<()> {
        let mut log = File::create(folder.join("log"))?;
        while !self.is_over.load(Ordering::Relaxed) {
            let round = self.written.load(Ordering::Relaxed);
            let mut file = File::create(folder.join("fresh"))?;
            file.write_all(&content(round, FILE_LEN))?;
            file.sync_all()?;
            fs::rename(folder.join("fresh"), path(folder, round))?;
            log.write_all(&content(round, 100))?;
            log.sync_data()?;
            // What was synced a while ago is read again.
            if let Some(before) = round.checked_sub(3) {
                assert!(fs::read(path(folder, before))? == content(before, FILE_LEN), "round {before}");
            }
            self.written.store(round + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Compares all that it wrote.
    fn check(&self, folder: &Path) {
        let count = self.written.load(Ordering::Relaxed);
        for round in 0..count {
            assert!(fs::read(path(folder, round)).unwrap() == content(round, FILE_LEN), "round {round} of {count}");
        }
        let log = File::open(folder.join("log")).unwrap();
        let mut bytes = [0; 100];
        for round in 0..count {
            log.read_exact_at(&mut bytes, u64::from(round) * 100).unwrap();
            assert!(bytes[..] == content(round, 100), "round {round} of {count}");
        }
    }
}

fn path(folder: &Path, round: u32) -> PathBuf {
    folder.join(format!("file{round}"))
}

/// Programs write into folders of a mount while `fault` happens, and until they have gone on after it.
fn write_through(mount: &Mount, folders: &[&str], fault: impl FnOnce()) -> Vec<Writer> {
    let writers: Vec<Writer> = folders.iter().map(|_| Writer::default()).collect();
    let said = || fs::read_to_string(mount.said.path()).unwrap();
    std::thread::scope(|scope| {
        let runs: Vec<_> =
            writers.iter().zip(folders).map(|(writer, folder)| scope.spawn(|| writer.run(&mount.path(folder)))).collect();
        let stoppers: Vec<_> = writers.iter().map(Stopper).collect();
        let go_on = || {
            let before: Vec<u32> = writers.iter().map(|writer| writer.written.load(Ordering::Relaxed)).collect();
            wait_until("all programs go on", || {
                let mut all = writers.iter().zip(&before).zip(&runs);
                all.all(|((writer, before), run)| writer.written.load(Ordering::Relaxed) > before + 3 || run.is_finished())
            });
        };
        go_on();
        fault();
        go_on();
        drop(stoppers);
        runs.into_iter().for_each(|run| run.join().unwrap().unwrap_or_else(|error| panic!("{error}; {}", said())));
    });
    writers
}

#[test]
fn files_with_copies_are_written_and_read_on_when_a_node_that_holds_them_is_killed() {
    or_skip!();
    let mut nodes = Nodes::start(4);
    let mount = Mount::new(&nodes.nodes[2], &["--copies", "2"]);
    let refused = nodes.hanare(&["mount", "/tmp", "--copies", "3", "--", "true"]);
    assert!(!refused.status.success() && refused.stderr.contains("2 of the nodes"), "{}", refused.stderr);
    // One has its bytes on this host, one on the node that is killed, one on all.
    let folders = [("here", "local"), ("there", "node=1"), ("wide", "interleave=65536")];
    for (folder, place) in folders {
        fs::create_dir(mount.path(folder)).unwrap();
        let none = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(mount.path(folder), "user.hanare.place", place.as_bytes(), none).unwrap();
    }
    let names = folders.map(|(folder, _)| folder);
    let killed = &mut nodes.nodes[1];
    let writers = write_through(&mount, &names, || {
        killed.process.kill().unwrap();
        killed.process.wait().unwrap();
    });
    // Another host sees the same, without its kernel's cache.
    let fresh = Mount::new(&nodes.nodes[3], &[]);
    for seen in [&mount, &fresh] {
        names.iter().zip(&writers).for_each(|(folder, writer)| writer.check(&seen.path(folder)));
    }
    // Copies are made anew meanwhile, so then another may be killed.
    let pool = Pool::attach_to(&nodes.nodes[0].socket, None).unwrap();
    let is_whole = || pool.list().unwrap().iter().all(|region| region.whole_copies == region.copies);
    wait_until("all regions have their copies", is_whole);
    let killed = &mut nodes.nodes[3];
    fresh.end();
    let later = write_through(&mount, &["here"], || {
        killed.process.kill().unwrap();
        killed.process.wait().unwrap();
    });
    later[0].check(&mount.path("here"));
    names[1..].iter().zip(&writers[1..]).for_each(|(folder, writer)| writer.check(&mount.path(folder)));
    mount.end();
}

#[test]
fn files_with_copies_go_on_when_the_node_with_their_log_and_the_names_is_killed() {
    or_skip!();
    let mut keepers = Keepers::start();
    let leader = keepers.leader();
    let other = (leader + 1) % 3;
    let home = keepers.client(leader).node();
    // The first region decides where the log is.
    let options = CreateOptions { placement: Placement::Node(home), copies: 2, ..CreateOptions::default() };
    drop(keepers.client(other).create("files@super", 64 << 10, &options).unwrap());
    let mount = Mount::at(&keepers.nodes[other].socket, &["--copies", "2"]);
    fs::create_dir(mount.path("a")).unwrap();
    let writers = write_through(&mount, &["a"], || keepers.kill(leader));
    let fresh = Mount::at(&keepers.nodes[other].socket, &[]);
    for seen in [&mount, &fresh] {
        writers[0].check(&seen.path("a"));
    }
    fresh.end();
    mount.end();
}

/// Serves a disk with copies at a host, and kills a node while a program writes it. Each image that was written whole is there.
fn disk_outlives(nodes: &mut Nodes, host: usize, words: &[&str], killed: impl FnOnce(&Pool) -> NodeId) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let len = 4 << 20;
    for (name, round) in [("a", 1), ("b", 2)] {
        fs::write(file(name), content(round, len)).unwrap();
    }
    let [a, b, out, stop] = ["a", "b", "out", "stop"].map(file);
    let copies = format!("nbdcopy {a} $uri && nbdcopy {b} $uri || exit 3; echo round");
    let script = format!("while [ ! -e {stop} ]; do {copies}; done; nbdcopy $uri {out}");
    let mut serve = command(&["nbd", "disk"]);
    serve.args(words).args(["--", &script]).env("HANARE_NODE", &nodes.nodes[host].socket);
    let serving = Running::start(&mut serve);
    let rounds = || serving.stdout().matches("round").count();
    let go_on = || {
        let before = rounds();
        wait_until("the disk is written on", || rounds() > before + 1);
    };
    go_on();
    let pool = Pool::attach_to(&nodes.nodes[host].socket, None).unwrap();
    let lost = killed(&pool);
    let process = &mut nodes.nodes[lost.0 as usize].process;
    process.kill().unwrap();
    process.wait().unwrap();
    go_on();
    fs::write(&stop, "").unwrap();
    let ended = serving.wait();
    assert!(ended.status.success(), "{ended:?}");
    assert!(fs::read(&out).unwrap() == content(2, len));
    let stat = pool.stat("disk").unwrap();
    assert!(stat.nodes.iter().all(|(node, _)| *node != lost) && stat.lost.is_none(), "{stat:?}");
}

#[test]
fn a_disk_with_copies_is_written_on_when_a_node_that_holds_it_is_killed() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::uninstalled(reason);
    }
    let mut nodes = Nodes::start(3);
    let other = |pool: &Pool| {
        let stat = pool.stat("disk").unwrap();
        stat.nodes.iter().map(|(node, _)| *node).find(|node| node.0 != 0).unwrap()
    };
    disk_outlives(&mut nodes, 0, &["--create", "4M", "--copies", "2"], other);
    let refused = nodes.hanare(&["nbd", "disk", "--create", "4M", "--copies", "3", "--", "true"]);
    assert!(!refused.status.success() && refused.stderr.contains("2 of the nodes"), "{}", refused.stderr);
    // One whose home is killed.
    let mut nodes = Nodes::start(3);
    assert!(nodes.hanare(&["region", "create", "disk", "4M", "--place", "node=1", "--copies", "2"]).status.success());
    disk_outlives(&mut nodes, 0, &[], |_| NodeId(1));
}
