//! The programs that the demonstration starts: this binary once more, in a process of its own.

use super::{PROGRAM, matmul};
use crate::run::rank;
use anyhow::{Context, Result, bail};
use hanare::{Consistency, Error, Pool};
use rustix::process::getpid;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Part of a process in the demonstration.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    /// Adds 1 to the first word of a region so many times, together with `parties - 1` others.
    Count {
        /// The region.
        region: &'a str,
        /// Number of turns.
        times: u64,
        /// Number of counting parties.
        parties: u32,
    },
    /// Takes a lock and keeps it.
    Hold {
        /// The lock.
        lock: &'a str,
    },
}

/// A process of the demonstration. Killed when dropped.
pub struct Playing {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Playing {
    /// Starts one, as a program on the host of the node at `socket`.
    pub fn start(socket: &str, part: Part<'_>) -> Result<Playing> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(PROGRAM).arg(getpid().to_string()).arg(socket);
        match part {
            Part::Count { region, times, parties } => {
                command.args(["count", region]).args([times.to_string(), parties.to_string()])
            }
            Part::Hold { lock } => command.args(["hold", lock]),
        };
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start a program")?;
        let stdout = child.stdout.take().context("a program's output is a pipe")?;
        Ok(Playing { child, lines: BufReader::new(stdout).lines() })
    }

    /// Waits for what it says next. **Errors**: what it says went wrong, as [`Error::NoCoordinator`] where the home of names moved; that it ended.
    pub fn hear(&mut self) -> Result<Value> {
        let line = self.lines.next().context("a program of the demonstration ended early")??;
        let said: Value = serde_json::from_str(&line).context("a program of the demonstration said something else")?;
        match said["error"].as_str() {
            Some(error) if said["home_moved"] == true => Err(Error::NoCoordinator { reason: error.to_owned() }.into()),
            Some(error) => bail!("{error}"),
            None => Ok(said),
        }
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// In that process: plays a part, and says on standard output how it went.
pub fn play(launcher: &OsStr, words: &[OsString]) -> Result<()> {
    rank::tie_to(launcher)?;
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let outcome = match words[..] {
        [socket, "count", region, times, parties] => count(socket, region, times.parse()?, parties.parse()?),
        [socket, "hold", lock] => hold(socket, lock),
        [matmul::MULTIPLY, n, into] => matmul::play(n.parse()?, into),
        _ => bail!("not started by a demonstration"),
    };
    match outcome {
        Ok(said) => println!("{said}"),
        Err(error) => println!("{}", json!({ "error": format!("{error:#}"), "home_moved": has_home_moved(&error) })),
    }
    Ok(())
}

/// True if a call failed because the home of names moved, or was none for a moment.
pub fn has_home_moved(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::NoCoordinator { .. } | Error::NodeLost { .. }))
}

fn count(socket: &str, region: &str, times: u64, parties: u32) -> Result<Value> {
    let pool = Pool::attach_to(socket, None)?;
    let together = pool.group(region, parties)?;
    let mapping = pool.open(region)?.map(Consistency::Coherent)?;
    let word = mapping.word(0)?;
    together.barrier()?;
    let begun = Instant::now();
    for _ in 0..times {
        word.fetch_add(1, Ordering::SeqCst);
    }
    together.barrier()?;
    Ok(json!({ "seconds": begun.elapsed().as_secs_f64() }))
}

fn hold(socket: &str, lock: &str) -> Result<Value> {
    let pool = Pool::attach_to(socket, None)?;
    let _held = pool.lock(lock)?;
    println!("{}", json!({ "holds": lock }));
    loop {
        std::thread::park();
    }
}
