//! A program of a node, in a process of its own, that does what it is told to with a coherently mapped region.
#![allow(dead_code)]

use hanare::{Consistency, Pool, SharedMapping};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Words of a page.
pub const WORDS: u64 = 512;
/// The word of a page that actors read and write.
pub const WORD: u64 = 5;
/// To a process: the region that it maps.
const REGION: &str = "ACTOR_REGION";
/// How long an answer may take: longer than anything that a program is promised.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// 1 while it does what it was told to, 2 from then on; looked at from outside.
static PHASE: AtomicU64 = AtomicU64::new(0);
pub const DOING: u64 = 1;
pub const DONE: u64 = 2;

/// What an actor is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Map,
    Unmap,
    Flush,
    /// Loads [`WORD`] of a page; `done` says what it was.
    Read(u64),
    /// Stores to it, in a page.
    Write(u64, u64),
    /// Loads it of so many pages, from one on; `done` says the first.
    ReadOn(u64, u64),
    /// Stores to it, in so many pages, from one on.
    WriteOn(u64, u64, u64),
}

/// A program that runs.
pub struct Actor {
    process: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
    /// What it says on its standard error output, to its end.
    complaints: Receiver<String>,
    /// The thread that does what is told, and where its [`PHASE`] is.
    pub thread: i32,
    pub phase: usize,
}

impl Actor {
    /// A program of the node at `socket`, with `region` mapped; it waits `bound_ms` for answers.
    pub fn start(socket: &str, region: &str, bound_ms: u64) -> Actor {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(hanare_testkit::words("actor::acts"));
        command.env("HANARE_NODE", socket).env(REGION, region).env("HANARE_ANSWER_MS", bound_ms.to_string());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let answers = lines_of(process.stdout.take().unwrap());
        let complaints = lines_of(process.stderr.take().unwrap());
        let orders = process.stdin.take().unwrap();
        let mut actor = Actor { process, orders, answers, complaints, thread: 0, phase: 0 };
        let said = actor.hear("ready ").expect("a program gets ready");
        let (thread, phase) = said.split_once(' ').unwrap();
        (actor.thread, actor.phase) = (thread.parse().unwrap(), phase.parse().unwrap());
        actor
    }

    /// Tells it to do something.
    pub fn tell(&mut self, act: Act) {
        let line = match act {
            Act::Map => "map".to_owned(),
            Act::Unmap => "unmap".to_owned(),
            Act::Flush => "flush".to_owned(),
            Act::Read(page) => format!("read {page} 1"),
            Act::ReadOn(page, count) => format!("read {page} {count}"),
            Act::Write(page, value) => format!("write {page} 1 {value}"),
            Act::WriteOn(page, count, value) => format!("write {page} {count} {value}"),
        };
        writeln!(self.orders, "{line}").unwrap();
    }

    /// What it did, once it has: the value that it loaded. `None` if it is dead.
    pub fn done(&mut self) -> Option<u64> {
        Some(self.hear("done ")?.parse().unwrap())
    }

    /// Tells it, and waits for it.
    pub fn act(&mut self, act: Act) -> u64 {
        self.tell(act);
        self.done().unwrap_or_else(|| panic!("the program died of {act:?}"))
    }

    fn hear(&mut self, start: &str) -> Option<String> {
        loop {
            match self.answers.recv_timeout(ANSWER_TIME) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(start) {
                        return Some(rest.to_owned());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("a program hangs: no answer within {ANSWER_TIME:?}"),
            }
        }
    }

    pub fn stop(&self) {
        kill_process(Pid::from_child(&self.process), Signal::STOP).unwrap();
    }

    pub fn go_on(&self) {
        kill_process(Pid::from_child(&self.process), Signal::CONT).unwrap();
    }

    pub fn id(&self) -> i32 {
        self.process.id() as i32
    }

    /// Kills it; it need not be dead when this returns.
    pub fn strike(&mut self) {
        self.process.kill().unwrap();
    }

    /// All that it complained of, once it is dead.
    pub fn complaints(&self) -> String {
        self.complaints.iter().collect::<Vec<_>>().join("\n")
    }

    /// Waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Lines, as they come.
fn lines_of(from: impl Read + Send + 'static) -> Receiver<String> {
    let (said, heard) = channel();
    std::thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
    heard
}

/// A word of a mapping.
pub fn word(mapping: &SharedMapping, page: u64, at: u64) -> &AtomicU64 {
    assert!((page * WORDS + at + 1) * 8 <= mapping.len());
    // SAFETY: an aligned word inside the mapping, which is borrowed as long; all use atomics.
    unsafe { AtomicU64::from_ptr(mapping.ptr().cast::<u64>().add((page * WORDS + at) as usize)) }
}

/// A system call that does nothing, at which who looks from outside finds that the phase is another.
fn show(phase: u64) {
    PHASE.store(phase, SeqCst);
    let _ = rustix::process::getppid();
}

pub fn acts() {
    let Ok(region) = std::env::var(REGION) else { return };
    let pool = Pool::attach_alone().unwrap();
    let region = pool.open(&region).unwrap();
    let map = || region.map(Consistency::Coherent).unwrap();
    let mut mapping = None;
    println!("\nready {} {}", rustix::thread::gettid().as_raw_nonzero(), (&raw const PHASE).addr());
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let mut seen = 0;
        show(DOING);
        match words[0] {
            "map" => mapping = Some(map()),
            "unmap" => mapping = None,
            "flush" => mapping.iter().for_each(|mapping: &SharedMapping| mapping.flush(0, mapping.len()).unwrap()),
            "read" => {
                let mapping = mapping.as_ref().unwrap();
                for page in number(1)..number(1) + number(2) {
                    let value = word(mapping, page, WORD).load(Relaxed);
                    seen = if page == number(1) { value } else { seen };
                }
            }
            "write" => {
                let mapping = mapping.as_ref().unwrap();
                (number(1)..number(1) + number(2)).for_each(|page| word(mapping, page, WORD).store(number(3), Relaxed));
            }
            other => panic!("an order that nobody knows: {other}"),
        }
        show(DONE);
        println!("\ndone {seen}");
    }
    // As a program that ends without letting anything go.
    std::process::exit(0);
}
