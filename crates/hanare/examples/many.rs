//! How many programs one node serves: `cargo run --release -p hanare --example many -- 5000`. Prints how long an attachment takes alone, and
//! beside all the others. A node with a limit of 20000 descriptors serves 3333 programs of each user.

use hanare::node::{Node, NodeOptions};
use hanare::{CreateOptions, Pool};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Programs of one process: each attachment is what a program's is, with sockets and memory of its own.
const PER_PROCESS: usize = 500;

/// Attachments that are timed.
const TIMED: usize = 500;

fn attach(socket: &str) -> Pool {
    Pool::attach_to(socket, None).unwrap_or_else(|error| panic!("{error}"))
}

/// Median, and what 99 of 100 take at most.
fn times(socket: &str) -> (Duration, Duration) {
    let mut times: Vec<Duration> = (0..TIMED)
        .map(|_| {
            let begun = Instant::now();
            let pool = attach(socket);
            let time = begun.elapsed();
            drop(pool);
            time
        })
        .collect();
    times.sort();
    (times[TIMED / 2], times[TIMED * 99 / 100])
}

fn resident_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    (text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096) >> 20
}

/// A process with many attachments, each of which has done something; it lasts until its input ends.
fn programs(socket: &str, count: usize) {
    let pools: Vec<Pool> = (0..count).map(|_| attach(socket)).collect();
    for pool in &pools {
        let mut bytes = [0; 8];
        pool.open("r").and_then(|region| region.get(0, &mut bytes)).unwrap_or_else(|error| panic!("{error}"));
    }
    println!("ready");
    let _ = std::io::stdin().read_line(&mut String::new());
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let [_, what, socket, count] = words.as_slice()
        && what == "programs"
    {
        return programs(socket, count.parse().expect("a number"));
    }
    let count: usize = words.get(1).map_or(5000, |word| word.parse().expect("a number"));
    let folder = std::env::temp_dir().join(format!("hanare-many-{}", std::process::id()));
    let key = folder.join("key");
    hanare::node::new_key_file(&key).expect("a key");
    let socket = format!("@hanare-many-{}", std::process::id());
    let options = NodeOptions { key: Some(key), socket: socket.clone(), ..NodeOptions::new(64 << 20).expect("settings") };
    let node = Node::start(options).expect("a node");
    let own = attach(&socket);
    own.create("r", 4096, &CreateOptions { mode: 0o666, ..CreateOptions::default() }).expect("a region");
    let (median, late) = times(&socket);
    println!("alone: an attachment takes {median:?}, 99 of 100 at most {late:?}; the node has {} MiB", resident_mib());
    let begun = Instant::now();
    let mut children = Vec::new();
    for number in 0..count.div_ceil(PER_PROCESS) {
        let mut command = Command::new(std::env::current_exe().expect("procfs"));
        // One user may have half of a node's descriptors: there are two where this one may start another's programs.
        if number % 2 == 1 && rustix::process::geteuid().is_root() {
            command.uid(65_534);
        }
        let mut child = command
            .args(["programs", &socket, &PER_PROCESS.min(count).to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        children.push((child, out));
    }
    for (_, out) in &mut children {
        let mut line = String::new();
        out.read_line(&mut line).expect("a pipe");
        assert_eq!(line, "ready\n", "a program was not served");
    }
    println!("{} programs attached and got bytes within {:?}", children.len() * PER_PROCESS.min(count), begun.elapsed());
    let (median, late) = times(&socket);
    println!("beside them: an attachment takes {median:?}, 99 of 100 at most {late:?}; the node has {} MiB", resident_mib());
    for (mut child, _) in children {
        drop(child.stdin.take());
        let _ = child.wait();
    }
    drop((own, node));
    let _ = std::fs::remove_dir_all(folder);
}
