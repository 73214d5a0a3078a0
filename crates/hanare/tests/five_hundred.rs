//! Five hundred programs of another user, all hostile, beside an honest one whose gets go on without an error.
//!
//! Each becomes in turn one that says nothing, says garbage, never reads, asks without pause, sends descriptors, comes and goes,
//! promises huge frames, and moves bytes without pause. They are threads of a few processes of that user: what a node sees is connections.
//!
//! They run in the session of the honest program, where the kernel shares the processors among all threads, and in sessions of their own, as
//! another user's programs do, where it shares them among sessions first. `CROWD=busy` and `CROWD=busy_apart` have as many programs that only
//! compute in their place: they show what the kernel's scheduler takes.

#[path = "support/holder.rs"]
mod holder;
#[path = "support/intruder.rs"]
mod intruder;
mod support;

hanare_testkit::actors![busy, busy_apart, hostile, hostile_apart,];

use hanare::{CreateOptions, NodeId, Placement, Pool};
use hanare_protocol::id::Gid;
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::control::{self, Request};
use intruder::frame;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::TestPool;

const COUNT: usize = 500;

/// Ways to be hostile.
const KINDS: usize = 9;
const PROCESSES: usize = 5;

/// How long a hostile program is of one kind.
const TURN: Duration = Duration::from_millis(300);

/// The user that they are: nobody, where the test may become it.
const OTHER: u32 = 65_534;

/// A get takes this long at least in the comparison: what is over in less is shorter than what the kernel counts.
const FAST: Duration = Duration::from_micros(20);

/// How many gets are timed each time.
const GETS: usize = 3_000;

fn connect(socket: &str) -> Option<UnixStream> {
    let address = SocketAddr::from_abstract_name(socket.strip_prefix('@')?).ok()?;
    let stream = UnixStream::connect_addr(&address).ok()?;
    stream.set_read_timeout(Some(TURN)).ok()?;
    stream.set_write_timeout(Some(TURN)).ok()?;
    Some(stream)
}

fn attach(socket: &str) -> Option<UnixStream> {
    let mut stream = connect(socket)?;
    stream.write_all(&frame(&Request::Attach { versions: Versions::BUILD, job: None })).ok()?;
    let mut prefix = [0; 8];
    stream.read_exact(&mut prefix).ok()?;
    let len = u32::from_le_bytes(prefix[..4].try_into().unwrap());
    stream.read_exact(&mut vec![0; len as usize]).ok()?;
    Some(stream)
}

/// One turn of one kind. What the node does to it does not matter here.
fn be_hostile(kind: usize, socket: &str) -> Option<()> {
    let until = Instant::now() + TURN;
    match kind % KINDS {
        0 => {
            let _silent = connect(socket)?;
            std::thread::sleep(TURN);
        }
        1 => {
            let mut stream = connect(socket)?;
            let mut noise = support::pattern(4096, kind as u64);
            // A length that may be, so that the rest is read.
            noise[..8].copy_from_slice(&[200, 0, 0, 0, 0, 0, 0, 0]);
            while Instant::now() < until && stream.write_all(&noise).is_ok() {}
        }
        2 => {
            let mut stream = attach(socket)?;
            let lists = frame(&Request::List { after: String::new() }).repeat(64);
            while Instant::now() < until && stream.write_all(&lists).is_ok() {}
            std::thread::sleep(TURN);
        }
        3 | 4 => {
            let mut stream = attach(socket)?;
            let request = if kind % KINDS == 3 { Request::Status } else { Request::Release { gid: Gid(1), keeps: false } };
            let many = frame(&request).repeat(64);
            let mut reading = stream.try_clone().ok()?;
            std::thread::spawn(move || while reading.read(&mut [0; 1 << 16]).is_ok_and(|len| len > 0) {});
            while Instant::now() < until && stream.write_all(&many).is_ok() {}
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        5 => {
            let mut stream = intruder::Intruder(attach(socket)?);
            while Instant::now() < until && stream.send_with_fds(&[255, 0, 0, 0, 1, 0, 0, 0], 100) {}
        }
        6 => {
            while Instant::now() < until {
                drop(connect(socket));
            }
        }
        7 => move_bytes(socket, until)?,
        _ => {
            let mut stream = connect(socket)?;
            stream.write_all(&u32::MAX.to_le_bytes()).ok()?;
            let huge = control::encode(&Request::Stat { name: "x".repeat(1 << 20) });
            while Instant::now() < until && stream.write_all(&huge).is_ok() {}
        }
    }
    Some(())
}

/// Moves bytes of a region of its own as fast as it can, and asks for a lock of its own.
fn move_bytes(socket: &str, until: Instant) -> Option<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("theirs-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let client = Pool::attach_to(socket, None).ok()?;
    let placement = Placement::Node(NodeId(COUNT.load(Ordering::Relaxed) as u32 % 2));
    let region = client.create(&name, 4096, &CreateOptions { placement, ..CreateOptions::default() }).ok()?;
    let mut bytes = [0; 4096];
    while Instant::now() < until {
        region.put(0, &bytes).ok()?;
        region.get(0, &mut bytes).ok()?;
        drop(client.try_lock(&name));
    }
    client.remove(&name).ok()
}

/// Becomes another user, in a session of its own if wanted; then a thread for each of its share of programs.
fn crowd(is_apart: bool, be: fn(usize, &str)) {
    if is_apart {
        rustix::process::setsid().unwrap();
    }
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = (rustix::process::Uid::from_raw(OTHER), rustix::process::Gid::from_raw(OTHER));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
    }
    let socket = std::env::var("HANARE_NODE").unwrap();
    for number in 0..COUNT / PROCESSES {
        let socket = socket.clone();
        // Threads have the user of the one that starts them.
        std::thread::Builder::new().stack_size(512 << 10).spawn(move || be(number, &socket)).unwrap();
    }
    holder::wait_for_death();
}

fn hostile_for_ever(first: usize, socket: &str) {
    for kind in first.. {
        if be_hostile(kind, socket).is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn busy_for_ever(_: usize, _: &str) {
    loop {
        std::hint::spin_loop();
    }
}

/// A process with its share of them; ends when it is killed.
fn hostile() {
    crowd(false, hostile_for_ever);
}

fn hostile_apart() {
    crowd(true, hostile_for_ever);
}

fn busy() {
    crowd(false, busy_for_ever);
}

fn busy_apart() {
    crowd(true, busy_for_ever);
}

/// Time that this thread, and the service threads of the nodes in this process, had to wait for a processor so far: the kernel's part of
/// what a get takes. `None` where the kernel does not count it.
fn waited() -> Option<Duration> {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.trim() == "hanare-service" || task.file_name().to_str() == Some(&own) {
            // Nanoseconds on a processor, nanoseconds of waiting for one, turns.
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            sum += text.split(' ').nth(1)?.parse::<u64>().ok()?;
        }
    }
    Some(Duration::from_nanos(sum))
}

/// What gets took.
#[derive(Clone, Copy, Default)]
struct Gets {
    /// The time that 99 of 100 take at most.
    p99: Duration,
    /// The mean, and the mean without the time in which a thread that was needed waited for a processor.
    mean: Duration,
    ours: Duration,
}

fn measure(client: &Pool, name: &str) -> Gets {
    let region = client.open(name).unwrap();
    let mut bytes = [0; 4096];
    let before = waited();
    let mut times: Vec<Duration> = (0..GETS)
        .map(|number| {
            let begun = Instant::now();
            region.get((number % 16) as u64 * 4096, &mut bytes).unwrap();
            assert_eq!(bytes, [7; 4096]);
            begun.elapsed()
        })
        .collect();
    let waited = before.zip(waited()).map_or(Duration::ZERO, |(before, after)| after.saturating_sub(before));
    let sum: Duration = times.iter().sum();
    times.sort();
    Gets { p99: times[GETS * 99 / 100], mean: sum / GETS as u32, ours: sum.saturating_sub(waited) / GETS as u32 }
}

/// What gets of the honest program take beside a crowd, at the worst.
fn measure_beside(pool: &TestPool, clients: [&Pool; 2], crowd: &str) -> [Gets; 2] {
    let crowd: Vec<_> = (0..PROCESSES).map(|_| holder::start(crowd, pool.nodes[0].socket())).collect();
    // Each is of each kind.
    let until = Instant::now() + TURN * (KINDS as u32 + 1);
    let mut beside = [Gets::default(); 2];
    while Instant::now() < until {
        for (worst, client) in beside.iter_mut().zip(clients) {
            let gets = measure(client, "honest");
            *worst = Gets { p99: gets.p99.max(worst.p99), mean: gets.mean.max(worst.mean), ours: gets.ours.max(worst.ours) };
            // Naming goes on as well, for who is there and for who comes.
            assert!(client.status().unwrap().nodes.iter().all(|node| node.alive), "no lease is lost");
        }
        let fresh = Pool::attach_to(pool.nodes[0].socket(), None).unwrap();
        fresh.open("honest").unwrap().get(0, &mut [0; 8]).unwrap();
    }
    crowd.into_iter().for_each(holder::kill);
    beside
}

#[test]
fn an_honest_program_goes_on_beside_five_hundred_hostile_ones() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: the hostile programs are of this user");
    }
    let pool = TestPool::start(2, 32 << 20);
    let (near, far) = (pool.client(0), pool.client(1));
    let region = near.create("honest", 64 << 10, &CreateOptions::default()).unwrap();
    region.put(0, &[7; 64 << 10]).unwrap();
    let before = [&near, &far].map(|client| measure(client, "honest"));
    // One kind alone, or those that only compute, for a measurement: `CROWD=busy_apart`.
    let crowds = std::env::var("CROWD").unwrap_or_else(|_| "hostile hostile_apart".to_owned());
    for who in crowds.split(' ') {
        let beside = measure_beside(&pool, [&near, &far], &format!("{}::{who}", module_path!()));
        for (what, before, beside) in [("here", before[0], beside[0]), ("elsewhere", before[1], beside[1])] {
            let times = beside.p99.as_secs_f64() / before.p99.as_secs_f64();
            println!(
                "a get of 4 KiB {what}, alone and beside {COUNT} programs ({who}): p99 {:?} {:?} ({times:.1} times), mean {:?} {:?}, \
                 without waits for a processor {:?} {:?}",
                before.p99, beside.p99, before.mean, beside.mean, before.ours, beside.ours
            );
            // Load of the machine is the kernel's part. What is left is work for others that a node puts before this program's.
            assert!(beside.ours <= 10 * before.mean.max(FAST), "a node has the honest program wait {what}");
        }
    }
}
