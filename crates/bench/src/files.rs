//! Files of the pool through the kernel. On this host's node they stand beside tmpfs, on the other beside sshfs, samba and nfs-ganesha.

use crate::Options;
use crate::compare::{bytes, compare, compare_rates};
use crate::nodes::Nodes;
use crate::peers::folders::{Ganesha, Samba, Sshfs};
use crate::report::Report;
use crate::turns::{Contestant, Figures, Outcome, take_turns};
use anyhow::{Context, Result, ensure};
use rand::RngExt;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "mount";

/// Bytes of the file, and of one sequential call.
const FILE_LEN: u64 = 256 << 20;
const FILE_LEN_QUICK: u64 = 16 << 20;
const CALL_LEN: usize = 1 << 20;

/// Random calls of a page.
const CALL_COUNT: usize = 4000;
const CALL_COUNT_QUICK: usize = 200;

/// Small files that are made, looked at, renamed and removed.
const NAME_COUNT: usize = 2000;
const NAME_COUNT_QUICK: usize = 100;

/// Memory that each node lends beyond the file.
const MEMORY_TO_SPARE: u64 = 256 << 20;

/// Goals for a local file's speed beside tmpfs: for root, and for users.
const GOALS: (f64, f64) = (0.9, 0.4);

/// Goal for a remote file's speed beside other folders of another host.
const GOAL_FAR: f64 = 1.0;

/// Amount of work.
#[derive(Clone, Copy)]
struct Work {
    len: u64,
    calls: usize,
    names: usize,
}

/// A mount that ends with the bench.
struct Mount {
    process: Child,
    folder: PathBuf,
}

impl Mount {
    fn new(options: &Options, nodes: &Nodes) -> Result<Mount> {
        let folder = std::env::temp_dir().join(format!("hanare-bench-{:016x}", rand::random::<u64>()));
        fs::create_dir(&folder)?;
        let mut command = Command::new(&options.command);
        command.arg("mount").arg(&folder).env("HANARE_NODE", nodes.socket(0)).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().context("cannot start hanare mount")?;
        let out = process.stdout.take().context("a mount's output is a pipe")?;
        let mount = Mount { process, folder };
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        ensure!(line.starts_with("files at"), "hanare mount is not ready: {line}");
        Ok(mount)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.process.wait();
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Runs it.
///
/// FEATURE: D2-F22
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let work = match options.quick {
        true => Work { len: FILE_LEN_QUICK, calls: CALL_COUNT_QUICK, names: NAME_COUNT_QUICK },
        false => Work { len: FILE_LEN, calls: CALL_COUNT, names: NAME_COUNT },
    };
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(2).max(2), work.len + MEMORY_TO_SPARE)?;
    let mount = Mount::new(options, &nodes)?;
    let place = |node: u32| -> Result<PathBuf> {
        let folder = mount.folder.join(format!("on{node}"));
        fs::create_dir(&folder)?;
        let place = format!("node={node}");
        rustix::fs::setxattr(&folder, "user.hanare.place", place.as_bytes(), rustix::fs::XattrFlags::empty())?;
        Ok(folder)
    };
    let (near, far) = (place(0)?, place(1)?);
    let tmpfs = Path::new("/dev/shm").join(mount.folder.file_name().unwrap_or_default());
    let tmpfs_turn = fs::create_dir(&tmpfs).map(|()| || turn(&tmpfs, work)).context("no tmpfs at /dev/shm");
    progress("starting sshfs, samba and nfs-ganesha");
    let sshfs = Sshfs::start().map(|sshfs| move || turn(&sshfs.folder(), work));
    let samba = Samba::start().map(|samba| move || samba.turn(work.len));
    let ganesha = Ganesha::new(options, (work.len, work.calls, work.names)).map(|ganesha| move || ganesha.turn());
    let contestants = vec![
        Contestant::ours("hanare mount, this host", || turn(&near, work)),
        Contestant::ours("hanare mount, other node", || turn(&far, work)),
        Contestant::peer("tmpfs", tmpfs_turn),
        Contestant::peer("sshfs", sshfs),
        Contestant::peer("samba, by smbclient", samba),
        Contestant::peer("nfs-ganesha, by libnfs", ganesha),
    ];
    let outcomes = take_turns(options.rounds(), contestants, progress);
    let _ = fs::remove_dir_all(&tmpfs);
    let outcomes = outcomes?;
    let [near, far, tmpfs, sshfs, samba, ganesha] = &outcomes[..] else { unreachable!("there are six contestants") };
    let mut report = Report::new(NAME);
    let goal = if rustix::process::geteuid().is_root() { GOALS.0 } else { GOALS.1 };
    report.rows = rows("this host", work, near, tmpfs, (Some(goal), None))?;
    report.rows.extend(rows("other node, tcp", work, far, tmpfs, (None, None))?);
    for peer in [sshfs, samba, ganesha] {
        report.rows.extend(rows("other node, tcp", work, far, peer, (Some(GOAL_FAR), Some(GOAL_FAR)))?);
    }
    Ok(report)
}

/// The rows of one side beside a peer, with goals for bytes and for names.
fn rows(
    host: &str,
    work: Work,
    ours: &Outcome,
    peer: &Outcome,
    (goal, goal_names): (Option<f64>, Option<f64>),
) -> Result<Vec<crate::Row>> {
    let stream = |what: &str, key: &str| {
        let case = format!("{what} {} in calls of {}, {host}", bytes(work.len), bytes(CALL_LEN as u64));
        compare_rates(case, (work.len as f64, "GB/s"), (ours, key), (peer, key), goal)
    };
    let call = |what: &str, key: &str, goal| compare(format!("{what}, {host}"), ours, key, peer, key, goal);
    Ok(vec![
        stream("write and fsync", "write")?,
        stream("read, nothing cached,", "read")?,
        call("write of 4 KiB at random", "write_page", goal)?,
        call("read of 4 KiB at random, nothing cached", "read_page", goal)?,
        call("make, stat, rename and remove a file", "names", goal_names)?,
    ])
}

fn time(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed().as_nanos() as f64)
}

/// Forgets what the kernel has cached of a file.
fn forget(file: &File) -> Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

fn turn(folder: &Path, work: Work) -> Result<Figures> {
    let path = folder.join("file");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
    let mut buffer: Vec<u8> = (0..CALL_LEN).map(|k| (k * 7) as u8).collect();
    let write = time(|| {
        (0..work.len).step_by(CALL_LEN).try_for_each(|at| file.write_all_at(&buffer, at))?;
        Ok(file.sync_all()?)
    })?;
    forget(&file)?;
    let read = time(|| Ok((0..work.len).step_by(CALL_LEN).try_for_each(|at| file.read_exact_at(&mut buffer, at))?))?;
    ensure!(buffer.iter().enumerate().all(|(k, byte)| *byte == (k * 7) as u8), "what was read is not what was written");
    let mut random = rand::rng();
    let mut places = || -> Vec<u64> { (0..work.calls).map(|_| random.random_range(0..work.len / 4096) * 4096).collect() };
    let page = [3u8; 4096];
    let write_page = time(|| Ok(places().into_iter().try_for_each(|at| file.write_all_at(&page, at))?))? / work.calls as f64;
    file.sync_all()?;
    forget(&file)?;
    let at = places();
    let mut page = [0u8; 4096];
    let read_page = time(|| Ok(at.into_iter().try_for_each(|at| file.read_exact_at(&mut page, at))?))? / work.calls as f64;
    drop(file);
    fs::remove_file(&path)?;
    let names = time(|| {
        for number in 0..work.names {
            let (one, other) = (folder.join(format!("a{number}")), folder.join(format!("b{number}")));
            File::create(&one)?;
            fs::metadata(&one)?;
            fs::rename(&one, &other)?;
            fs::remove_file(&other)?;
        }
        Ok(())
    })? / work.names as f64;
    let figures = [("write", write), ("read", read), ("write_page", write_page), ("read_page", read_page), ("names", names)];
    Ok(figures.into_iter().map(|(key, figure)| (key.to_owned(), figure)).collect())
}
