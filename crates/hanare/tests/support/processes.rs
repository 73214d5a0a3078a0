//! Nodes and programs as processes of their own, which can be killed and stopped: the test's own program, run again.
#![allow(dead_code)]

use hanare::node::{Node, NodeOptions};
use hanare_testkit::Patience;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// The actor that is a node.
const NODE: &str = "processes::node_process";

/// A process of the test. Killed when dropped, and with the thread that started it.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts an actor with these variables, until it says that it is ready; and what it said besides.
    pub fn start(actor: &str, variables: &[(&str, &str)]) -> (Process, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(hanare_testkit::words(actor)).envs(variables.iter().copied()).stdout(Stdio::piped());
        let mut process = Process { child: command.spawn().unwrap() };
        let mut lines = BufReader::new(process.child.stdout.take().unwrap()).lines();
        let said = lines.find_map(|line| line.ok()?.strip_prefix("ready").map(|rest| rest.trim().to_owned()));
        (process, said.unwrap_or_else(|| panic!("{actor} ended before it was ready: {variables:?}")))
    }

    /// Ends it without a chance to give anything back.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its end, where it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end, which has to be a good one.
    pub fn join(mut self, bound: Duration, who: &str) {
        let mut patience = Patience::new(bound);
        let status = loop {
            match self.ended() {
                Some(status) => break status,
                None if patience.is_over() => panic!("{who} has not ended within {bound:?}"),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert!(status.success(), "{who} ended with {status}");
    }

    /// It runs no more, until [`Process::go_on`]: none of its threads.
    pub fn stop(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
        assert!(waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().is_some_and(|(_, status)| status.stopped()));
    }

    pub fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Stops it for so long.
    pub fn pause(&self, time: Duration) {
        self.stop();
        std::thread::sleep(time);
        self.go_on();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program does before all else, so that none outlives its test.
pub fn end_with_the_test() {
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
}

/// Tells the test that this program is ready.
pub fn say_ready(what: &str) {
    println!("\nready {what}");
}

/// Nodes as processes.
pub struct Nodes {
    pub processes: Vec<Process>,
    pub sockets: Vec<String>,
}

impl Nodes {
    /// Nodes that know each other, with so many bytes of frames where given.
    pub fn start(count: usize, frames: Option<u64>) -> Nodes {
        let mut nodes = Nodes { processes: Vec::new(), sockets: Vec::new() };
        let frames = frames.map_or(String::new(), |frames| frames.to_string());
        let mut join = String::new();
        for _ in 0..count {
            let (process, said) = Process::start(NODE, &[("TEST_JOIN", &join), ("TEST_FRAMES", &frames)]);
            let (socket, address) = said.split_once(' ').unwrap();
            if join.is_empty() {
                join = address.to_owned();
            }
            nodes.sockets.push(socket.to_owned());
            nodes.processes.push(process);
        }
        nodes
    }
}

pub fn node_process() {
    let Ok(join) = std::env::var("TEST_JOIN") else { return };
    end_with_the_test();
    let join = Some(join).filter(|address| !address.is_empty());
    let options = NodeOptions { join, ..super::support::options(32 << 20) };
    let frames = std::env::var("TEST_FRAMES").ok().and_then(|text| text.parse().ok()).unwrap_or(options.frames);
    // Nodes of one machine need names of their own.
    let name = format!("n{}", std::process::id());
    let node = Node::start(NodeOptions { frames, name, ..options }).unwrap();
    say_ready(&format!("{} {}", node.socket(), node.address()));
    loop {
        std::thread::park();
    }
}

/// Numbers that look random.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        let mut dice = Dice((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.next();
        }
        dice
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// Nanoseconds of the clock that all processes of a machine have in common.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
