//! A port of a queue, interrupted at each of its steps: its program is killed there, or held while others go on. A step is an instruction on the
//! queue's host, and a stop before or after a system call elsewhere. The program is traced, so the product has no hook for this.
//!
//! Every instruction: `cargo test -p hanare --test all -- --ignored --nocapture queue_steps::every_instruction`.

use crate::{support, traced};

use hanare::{CreateOptions, Error, NodeId, Overflow, Placement, Pool, Queue, QueueForm, ReadPort, Unit, WritePort};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use support::TestPool;
use traced::{Stop, Traced};

const SOON: Option<Duration> = Some(Duration::from_secs(20));
const BLOCKS: QueueForm = QueueForm { unit: Unit::Blocks { len: 64 }, depth: 4, ports: 4, overflow: Overflow::Wait };
const RECORDS: QueueForm = QueueForm { unit: Unit::Records { len_max: 64 }, ..BLOCKS };
/// The node of the program that is interrupted, and its queue.
const CASES: [(usize, QueueForm); 3] = [(0, BLOCKS), (0, RECORDS), (1, BLOCKS)];
/// Steps of an act at which it is interrupted, unless it is at all.
const STEPS: u64 = 30;
/// The numbers of those who write.
const TRACED: u64 = 1;
const OTHER: u64 = 2;

/// 1 while it does what it was told to, 2 from then on; looked at from outside.
static PHASE: AtomicU64 = AtomicU64::new(0);
const DOING: u64 = 1;
const DONE: u64 = 2;

fn block(who: u64, number: u64) -> [u8; 64] {
    let mut block = [who.wrapping_mul(16).wrapping_add(number) as u8; 64];
    block[..8].copy_from_slice(&who.to_le_bytes());
    block[8..16].copy_from_slice(&number.to_le_bytes());
    block
}

/// Who wrote a block, and its number; it has to be whole.
fn parts(bytes: &[u8]) -> (u64, u64) {
    let [who, number] = [0, 8].map(|at| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap()));
    assert_eq!(bytes, block(who, number), "a torn block");
    (who, number)
}

/// A program that opens a port, and does one act with it each time that it is told to.
pub fn acts() {
    let Ok(role) = std::env::var("STEPS_ROLE") else { return };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let queue = Pool::attach().unwrap().open_queue("q").unwrap();
    let mut port = match &*role {
        "writer" => (Some(queue.writer().unwrap()), None),
        _ => (None, Some(queue.reader().unwrap())),
    };
    println!("\nready {} {}", rustix::thread::gettid().as_raw_nonzero(), (&raw const PHASE).addr());
    let mut bytes = Vec::new();
    for (number, line) in std::io::stdin().lines().enumerate() {
        drop(line.unwrap());
        PHASE.store(DOING, SeqCst);
        // Seen by the one who traces: the act begins.
        rustix::thread::sched_yield();
        match &mut port {
            (Some(writer), _) => writer.send(&block(TRACED, number as u64)).unwrap(),
            (_, Some(reader)) => reader.receive(&mut bytes, None).unwrap(),
            _ => unreachable!("it has one"),
        }
        PHASE.store(DONE, SeqCst);
        println!("done");
    }
}

struct Actor {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<std::process::ChildStdout>,
    thread: i32,
    phase: usize,
}

impl Actor {
    fn start(role: &str, socket: &str) -> Actor {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(hanare_testkit::words("queue_steps::acts")).env("HANARE_NODE", socket).env("STEPS_ROLE", role);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, mut answers) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let said = loop {
            let mut line = String::new();
            assert!(answers.read_line(&mut line).unwrap() > 0, "a {role} ended before it was ready");
            if let Some(said) = line.trim().strip_prefix("ready ") {
                break said.to_owned();
            }
        };
        let (thread, phase) = said.split_once(' ').unwrap();
        Actor { process, orders, answers, thread: thread.parse().unwrap(), phase: phase.parse().unwrap() }
    }

    /// Has it begin its act, and go on for so many steps. Says how many it took, where it was through before.
    fn advance(&mut self, by_calls: bool, steps: u64) -> (Traced, Option<u64>) {
        let mut traced = Traced::take(self.thread).unwrap();
        self.orders.write_all(b"\n").unwrap();
        loop {
            let stop = traced.next_call();
            assert_ne!(stop, Stop::Ended, "it died before its act");
            if stop == Stop::Before(libc::SYS_sched_yield as u64) && traced.peek(self.phase) == DOING {
                break;
            }
        }
        for step in 0..steps {
            let stop = if by_calls { traced.next_call() } else { traced.step() };
            assert_ne!(stop, Stop::Ended, "it died of itself");
            if traced.peek(self.phase) == DONE {
                return (traced, Some(step));
            }
        }
        (traced, None)
    }

    fn is_done(&mut self) {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "done");
    }

    fn kill(mut self, traced: Traced) {
        self.process.kill().unwrap();
        traced.bury(self.process.id() as i32);
        self.process.wait().unwrap();
    }
}

/// The queue, and those of its ports that are not traced.
struct Scene {
    pool: TestPool,
    queue: Queue,
    node: usize,
}

fn receive(reader: &mut ReadPort) -> (u64, u64) {
    let mut bytes = Vec::new();
    loop {
        match reader.receive(&mut bytes, SOON) {
            Err(Error::WriterGone { .. }) => {}
            other => {
                other.unwrap();
                return parts(&bytes);
            }
        }
    }
}

impl Scene {
    /// A queue of node 0; what is traced is a program of `node`.
    fn new(node: usize, form: &QueueForm) -> Scene {
        let pool = TestPool::start(2, 16 << 20);
        let on = CreateOptions { placement: Placement::Node(NodeId(0)), ..CreateOptions::default() };
        let queue = pool.client(0).create_queue("q", form, &on).unwrap();
        Scene { pool, queue, node }
    }

    fn actor(&self, role: &str) -> Actor {
        Actor::start(role, self.pool.nodes[self.node].socket())
    }

    fn by_calls(&self) -> bool {
        self.node != 0
    }

    /// A writer is killed at a step: nobody waits for it, and what it had committed is read, once and whole.
    fn kill_writer(&self, reader: &mut ReadPort, other: &mut WritePort, step: u64) -> Option<u64> {
        let mut actor = self.actor("writer");
        let (traced, through) = actor.advance(self.by_calls(), step);
        actor.kill(traced);
        other.send_within(&block(OTHER, step), SOON).unwrap();
        let (mut of_dead, mut of_other, mut is_told, mut bytes) = (0, 0, false, Vec::new());
        while of_other == 0 || !is_told {
            match reader.receive(&mut bytes, SOON) {
                Err(Error::WriterGone { .. }) => is_told = true,
                outcome => {
                    outcome.unwrap();
                    match parts(&bytes) {
                        (OTHER, number) if number == step => of_other += 1,
                        (TRACED, 0) => of_dead += 1,
                        wrong => panic!("step {step}: {wrong:?} was read"),
                    }
                }
            }
        }
        let least = u32::from(through.is_some());
        assert!((least..=1).contains(&of_dead) && of_other == 1, "step {step}: {of_dead} of the dead, {of_other} of the other");
        assert!(reader.try_see().unwrap().is_none());
        through
    }

    /// A writer is held at a step: the other's block is read meanwhile, and its own when it goes on.
    fn hold_writer(&self, reader: &mut ReadPort, other: &mut WritePort, (actor, number): (&mut Actor, u64), step: u64) {
        let (traced, _) = actor.advance(self.by_calls(), step);
        other.send_within(&block(OTHER, number), SOON).unwrap();
        let mut seen = vec![receive(reader)];
        if seen[0].0 == TRACED {
            seen.push(receive(reader));
        }
        assert!(seen.contains(&(OTHER, number)), "held at {step}: {seen:?}");
        traced.let_go();
        actor.is_done();
        if seen.len() == 1 {
            seen.push(receive(reader));
        }
        assert!(seen.contains(&(TRACED, number)) && reader.try_see().unwrap().is_none(), "held at {step}: {seen:?}");
    }

    /// A reader is held at a step, so that the writer goes on, and killed there: its successor goes on where it was.
    fn kill_reader(&self, writer: &mut WritePort, step: u64) -> Option<u64> {
        (0..2).for_each(|number| writer.send_within(&block(OTHER, number), SOON).unwrap());
        let mut actor = self.actor("reader");
        let (traced, through) = actor.advance(self.by_calls(), step);
        (2..4).for_each(|number| writer.send_within(&block(OTHER, number), SOON).unwrap());
        actor.kill(traced);
        let mut reader = self.successor();
        let first = receive(&mut reader).1;
        // On the queue's host what was freed is freed.
        let wanted = if through.is_some() && !self.by_calls() { 1..=1 } else { 0..=1 };
        assert!(wanted.contains(&first), "step {step}: its successor goes on at {first}");
        for number in first + 1..4 {
            assert_eq!(receive(&mut reader), (OTHER, number), "step {step}");
        }
        assert!(reader.try_see().unwrap().is_none());
        reader.close().unwrap();
        through
    }

    fn successor(&self) -> ReadPort {
        let begun = Instant::now();
        loop {
            match self.queue.reader() {
                Err(Error::SecondReader { .. }) if begun.elapsed() < SOON.unwrap() => {
                    std::thread::sleep(Duration::from_millis(1))
                }
                reader => return reader.unwrap(),
            }
        }
    }
}

/// Whether this system lets a process trace another.
fn is_permitted() -> bool {
    let mut still = Command::new("sleep").arg("60").spawn().unwrap();
    let taken = Traced::take(still.id() as i32);
    still.kill().unwrap();
    still.wait().unwrap();
    if let Err(error) = &taken {
        hanare_testkit::unable(format!("this system does not let a program be traced: {error}"));
    }
    taken.is_ok()
}

fn play_writers((node, form): (usize, QueueForm), all: bool) {
    if !is_permitted() {
        return;
    }
    let scene = Scene::new(node, &form);
    let (mut reader, mut other) = (scene.queue.reader().unwrap(), scene.queue.writer().unwrap());
    let count = scene.kill_writer(&mut reader, &mut other, u64::MAX).expect("it comes to its end");
    let every = if all { 1 } else { count / STEPS + 1 };
    eprintln!("a commit from node {node} to {:?}: {count} steps", form.unit);
    let mut actor = scene.actor("writer");
    for (number, step) in (0..=count).step_by(every as usize).enumerate() {
        scene.kill_writer(&mut reader, &mut other, step);
        scene.hold_writer(&mut reader, &mut other, (&mut actor, number as u64), step);
    }
}

fn play_readers((node, form): (usize, QueueForm), all: bool) {
    if !is_permitted() {
        return;
    }
    let scene = Scene::new(node, &form);
    let mut writer = scene.queue.writer().unwrap();
    let count = scene.kill_reader(&mut writer, u64::MAX).expect("it comes to its end");
    let every = if all { 1 } else { count / STEPS + 1 };
    eprintln!("a look and a free from node {node} of {:?}: {count} steps", form.unit);
    (0..=count).step_by(every as usize).for_each(|step| {
        scene.kill_reader(&mut writer, step);
    });
}

#[test]
fn a_writer_that_stops_or_dies_at_any_step_delays_nobody_and_loses_at_most_what_it_had_not_committed() {
    CASES.into_iter().for_each(|case| play_writers(case, false));
}

#[test]
fn the_successor_of_a_reader_that_dies_at_any_step_goes_on_where_it_was() {
    CASES.into_iter().for_each(|case| play_readers(case, false));
}

#[test]
#[ignore = "some minutes"]
fn every_instruction() {
    if std::env::var_os("STEPS_ROLE").is_none() {
        for form in [BLOCKS, RECORDS] {
            play_writers((0, form), true);
            play_readers((0, form), true);
        }
    }
}
