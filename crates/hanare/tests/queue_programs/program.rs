//! What a program does: it writes to a queue, or reads an array, and notes each unit before and after.

use super::plan::{Plan, Reads, unit};
use crate::processes::{Dice, end_with_the_test, now, say_ready};
use hanare::{Error, Pool, QueueEvent, QueueSet, ReadPort, Result, Unread, WritePort};
use hanare_testkit::Patience;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// In the folder once all writers have ended: what is there then is all.
pub const OVER: &str = "over";
/// How long nothing is found before a reader ends, after all is there: longer than nodes are stopped, because a node brings what is spilled
/// or comes from another host.
const QUIET: Duration = Duration::from_secs(2);
/// The same where another node may become home, also on a busy machine.
const QUIET_WITH_COPIES: Duration = Duration::from_secs(10);
/// How long a port waits before it looks whether all is over.
const WAIT: Duration = Duration::from_millis(30);
/// How long a place may be taken by one who has died.
const TAKEN_TIME: u64 = 30_000_000_000;

struct Log(File);

impl Log {
    fn open(path: &Path) -> Log {
        Log(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    /// One call: a line is there whole or not at all, however the program ends.
    fn note(&mut self, line: &str) {
        self.0.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// The body of a program's process.
pub fn run() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let number = |name: &str| variable(name).parse::<usize>().unwrap();
    if std::env::var_os("TEST_FOLDER").is_none() {
        return;
    }
    end_with_the_test();
    let (plan, folder) =
        (Plan::of(number("TEST_SEED") as u64, number("TEST_COPIES") as u8), PathBuf::from(variable("TEST_FOLDER")));
    let (slot, life) = (number("TEST_SLOT"), number("TEST_LIFE"));
    say_ready("");
    let is_writer = variable("TEST_ROLE") == "writer";
    let path = if is_writer { plan.log_of_writer(&folder, slot, life) } else { plan.log_of_reader(&folder, slot) };
    let mut log = Log::open(&path);
    let outcome = Pool::attach_to(&variable("TEST_SOCKET"), None).and_then(|pool| match is_writer {
        true => write(&plan, &pool, &mut log, (slot, life)),
        false => read(&plan, &pool, &mut log, (slot, life), &folder),
    });
    if let Err(error) = &outcome {
        log.note(&format!("error {error}"));
    }
    // What the test's harness would print has no reader.
    std::process::exit(i32::from(outcome.is_err()));
}

/// Opens a port, as soon as who had its place is known to be gone.
fn until_free<T>(mut open: impl FnMut() -> Result<T>) -> Result<T> {
    let begun = now();
    loop {
        match open() {
            Err(Error::SecondReader { .. } | Error::LimitReached { .. }) if now() < begun + TAKEN_TIME => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

fn write(plan: &Plan, pool: &Pool, log: &mut Log, (slot, life): (usize, usize)) -> Result<()> {
    let own = &plan.writers[slot];
    let form = plan.arrays[own.array].form;
    let queue = pool.open_queues(&format!("array{}", own.array), 0)?.queue(own.queue)?;
    let mut port = until_free(|| queue.writer())?;
    let mut dice = Dice::new(plan.seed << 16 | (slot as u64) << 8 | life as u64);
    let mut number = 0;
    while number < own.units {
        let many = (1 + dice.below(own.batch)).min(own.units - number);
        for k in number..number + many {
            claim(&mut port, log, k, &unit(&form, slot, life, k))?;
        }
        number += many;
        log.note(&format!("begun {}", number - 1));
        // Of what is not waited for nobody is promised that it is there.
        if number < own.units && dice.one_in(2) {
            port.publish_started()?;
        } else {
            port.publish()?;
            log.note(&format!("done {}", number - 1));
        }
        if dice.one_in(20) {
            std::thread::sleep(Duration::from_micros(dice.below(3000)));
        }
    }
    port.close()
}

/// Claims, fills and keeps a unit; waits while the queue is full, whether or not anybody reads it.
fn claim(port: &mut WritePort, log: &mut Log, number: u64, bytes: &[u8]) -> Result<()> {
    loop {
        // What was kept before may be committed to make room.
        log.note(&format!("begun {}", number.saturating_sub(1)));
        match port.claim(bytes.len(), Some(WAIT)) {
            Ok(()) => break,
            Err(Error::QueueFull { .. }) => port.publish()?,
            Err(Error::NotInTime { .. } | Error::ReaderGone { .. }) => {}
            Err(error) => return Err(error),
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    port.fill(0, bytes);
    port.keep();
    Ok(())
}

enum Port {
    One(Box<ReadPort>),
    Set(Box<QueueSet>),
}

impl Port {
    fn try_see(&mut self) -> Result<Option<Unread>> {
        match self {
            Port::One(port) => port.try_see(),
            Port::Set(set) => set.try_see(),
        }
    }

    fn see(&mut self) -> Result<Option<Unread>> {
        let seen = match self {
            Port::One(port) => port.see(Some(WAIT)),
            Port::Set(set) => set.see(Some(WAIT)),
        };
        match seen {
            Err(Error::NotInTime { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    fn arm(&mut self) -> Result<()> {
        match self {
            Port::One(port) => port.arm(),
            Port::Set(set) => set.arm(),
        }
    }

    fn event(&mut self) -> Result<QueueEvent> {
        match self {
            Port::One(port) => port.event(),
            Port::Set(set) => set.event(),
        }
    }

    fn take(&mut self, unread: &Unread) -> Vec<u8> {
        let mut bytes = vec![0; unread.len()];
        match self {
            Port::One(port) => port.read(unread, 0, &mut bytes),
            Port::Set(set) => set.read(unread, 0, &mut bytes),
        }
        bytes
    }

    fn free(&mut self, unread: &Unread) -> Result<()> {
        match self {
            Port::One(port) => port.free(unread),
            Port::Set(set) => set.free(unread),
        }
    }
}

fn read(plan: &Plan, pool: &Pool, log: &mut Log, (array, life): (usize, usize), folder: &Path) -> Result<()> {
    let own = &plan.arrays[array];
    let queues = pool.open_queues(&format!("array{array}"), 0)?;
    let mut port = match own.reads {
        Reads::Port | Reads::Event => Port::One(Box::new(until_free(|| queues.queue(0)?.reader())?)),
        Reads::Set | Reads::SetEvent => Port::Set(Box::new(until_free(|| queues.set())?)),
    };
    log.note("life");
    let mut dice = Dice::new(plan.seed << 16 | (array as u64) << 8 | life as u64 | 1 << 63);
    let begin_quiet = || (Instant::now(), Patience::new(QUIET));
    let mut quiet = begin_quiet();
    while if plan.copies > 1 { quiet.0.elapsed() < QUIET_WITH_COPIES } else { !quiet.1.is_over() } {
        let is_over = folder.join(OVER).exists();
        let found = match next(&mut port, own.reads) {
            Err(Error::WriterGone { .. }) => continue,
            other => other?,
        };
        let Some(unread) = found else {
            if !is_over {
                quiet = begin_quiet();
            }
            continue;
        };
        quiet = begin_quiet();
        let mut seen = vec![unread];
        while seen.len() < 4 && dice.one_in(2) {
            match port.try_see() {
                Ok(Some(unread)) => seen.push(unread),
                Ok(None) | Err(Error::WriterGone { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        let told: Vec<String> = seen.iter().map(|unread| look(plan, array, &mut port, unread)).collect();
        told.iter().for_each(|unit| log.note(&format!("seen {unit}")));
        for (unread, unit) in seen.iter().zip(&told) {
            port.free(unread)?;
            log.note(&format!("freed {unit}"));
        }
        if dice.one_in(30) {
            std::thread::sleep(Duration::from_micros(dice.below(4000)));
        }
    }
    Ok(())
}

/// What a unit is, in words, where it is whole.
fn look(plan: &Plan, array: usize, port: &mut Port, unread: &Unread) -> String {
    let bytes = port.take(unread);
    let word = |at: usize| u64::from_le_bytes(*bytes[8 * at..].first_chunk().unwrap());
    let (slot, life, number) = (word(0), word(1), word(2));
    let is_whole = bytes == unit(&plan.arrays[array].form, slot as usize, life as usize, number);
    format!("{} {slot} {life} {number} {}", unread.queue(), if is_whole { "whole" } else { "torn" })
}

fn next(port: &mut Port, reads: Reads) -> Result<Option<Unread>> {
    if matches!(reads, Reads::Port | Reads::Set) {
        return port.see();
    }
    if let Some(unread) = port.try_see()? {
        return Ok(Some(unread));
    }
    port.arm()?;
    let event = port.event()?;
    let bound = Timespec { tv_sec: 0, tv_nsec: WAIT.as_nanos() as i64 };
    poll(&mut [PollFd::new(&event, PollFlags::IN)], Some(&bound)).unwrap();
    port.try_see()
}
