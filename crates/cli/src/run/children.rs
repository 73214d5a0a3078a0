//! Children of this process, adopted ones included: reaping them, and leaving none behind.
//!
//! Both processes of a launch are *subreapers*: whatever a descendant leaves behind becomes their child, at whatever depth
//! it was started, and can be found and ended here.

use rustix::process::{self, Pid, Signal, WaitOptions, WaitStatus};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, Instant};

/// Time for a killed process to be gone (one in the middle of a disk access takes its time).
const GONE_MAX: Duration = Duration::from_secs(10);

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// Ended by itself, with this status.
    Exited(i32),
    /// Ended by this signal.
    Killed(i32),
    /// Ended the whole job with this status.
    Aborted(i32),
    /// Unknown: the link to its host broke.
    Lost,
}

impl End {
    /// The status that a shell would show.
    pub fn status(self) -> i32 {
        match self {
            End::Exited(status) => status,
            End::Aborted(status) => status & 0xff,
            End::Killed(signal) => 128 + signal,
            End::Lost => 1,
        }
    }

    fn from_wait(status: WaitStatus) -> Option<End> {
        status.exit_status().map(End::Exited).or_else(|| status.terminating_signal().map(End::Killed))
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exited(status) => write!(f, "exit status {status}"),
            End::Aborted(_) => write!(f, "it ended the job with status {}", self.status()),
            End::Lost => f.write_str("its host was lost"),
            End::Killed(signal) => match signal_hook::low_level::signal_name(*signal) {
                Some(name) => write!(f, "signal {signal}, {name}"),
                None => write!(f, "signal {signal}"),
            },
        }
    }
}

/// Makes this process the one that inherits what its descendants leave behind.
pub fn adopt_orphans() -> anyhow::Result<()> {
    Ok(process::set_child_subreaper(Some(process::getpid()))?)
}

/// Ties this process's life to `parent`: the kernel sends `signal` when that one ends. `false` when it has ended already.
pub fn die_with(parent: Pid, signal: Signal) -> anyhow::Result<bool> {
    process::set_parent_process_death_signal(Some(signal))?;
    Ok(process::getppid() == Some(parent))
}

/// The number of a spawned child.
pub fn pid_of(child: &std::process::Child) -> Pid {
    Pid::from_raw(child.id() as i32).expect("a child has a number")
}

/// Takes one ended child off the kernel's list, without waiting.
pub fn reap() -> Option<(Pid, End)> {
    loop {
        let (pid, status) = process::wait(WaitOptions::NOHANG).ok()??;
        if let Some(end) = End::from_wait(status) {
            return Some((pid, end));
        }
    }
}

/// Sends a signal; a process that is gone is no error.
pub fn send(pid: Pid, signal: Signal) {
    let _ = process::kill_process(pid, signal);
}

/// Kills every child but `spare` until none is left, whatever they leave behind included. Returns the ends of all that it reaped.
pub fn sweep(spare: &[Pid]) -> Vec<(Pid, End)> {
    let mut ended = Vec::new();
    let deadline = Instant::now() + GONE_MAX;
    loop {
        ended.extend(std::iter::from_fn(reap));
        let left: Vec<Pid> = children().into_iter().filter(|pid| !spare.contains(pid)).collect();
        if left.is_empty() || Instant::now() > deadline {
            return ended;
        }
        left.iter().for_each(|pid| send(*pid, Signal::KILL));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The children of this process, as `/proc` lists them.
fn children() -> Vec<Pid> {
    let own = process::getpid().as_raw_nonzero().get();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(own)).filter_map(Pid::from_raw).collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, closing parentheses too: count from the last one.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_as_a_shell_would() {
        assert_eq!(End::Exited(3).status(), 3);
        assert_eq!(End::Killed(9).status(), 137);
        assert_eq!(End::Killed(9).to_string(), "signal 9, SIGKILL");
        assert_eq!(End::Exited(0).to_string(), "exit status 0");
    }

    #[test]
    fn the_parent_is_read_whatever_the_name() {
        let own = process::getpid().as_raw_nonzero().get();
        let parent = process::getppid().map(|pid| pid.as_raw_nonzero().get());
        assert_eq!(parent_of(own), parent);
        assert_eq!(parent_of(i32::MAX), None);
    }
}
