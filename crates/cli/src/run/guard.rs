//! The outer of a launch's two processes: it only waits, so that somebody is left to clean up when the inner one is killed.
//!
//! ```text
//! hanare run (guard) -- hanare run (launcher) -+- hanare node ...
//!                                              +- rank 0 ... rank n
//! ```
//!
//! After a kill of any of the processes, one that adopts its children is alive: the guard for those of the launcher, the launcher for
//! those of the ranks. When the guard is killed, the kernel tells the launcher, which ends the job.

use super::children::{self, End};
use super::scratch::Scratch;
use super::signals::{self, Event};
use crate::fabric;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getpid};
use std::ffi::OsString;
use std::process::Command;
use std::sync::mpsc::Receiver;

/// The first argument of the inner process; its second is the guard's number.
pub const INNER: &str = "__launch";

/// Runs this command again in an inner process, waits for it, leaves nothing behind, and returns its status.
pub fn stand_guard(arguments: impl IntoIterator<Item = OsString>) -> Result<i32> {
    let events = signals::catch()?;
    children::adopt_orphans()?;
    let scratch = Scratch::make(std::env::var_os(fabric::VARIABLE).as_deref())?;
    let launcher = Command::new("/proc/self/exe")
        .envs(scratch.as_ref().map(Scratch::variable))
        .arg(INNER)
        .arg(getpid().to_string())
        .args(arguments)
        .spawn()
        .context("cannot start the launcher's process")?;
    let launcher = children::pid_of(&launcher);
    let end = wait(launcher, &events)?;
    children::sweep(&[]);
    drop(scratch);
    if let End::Killed(_) = end {
        eprintln!("hanare: the launcher was killed ({end}); its ranks and nodes were ended");
    }
    Ok(end.status())
}

fn wait(launcher: Pid, events: &Receiver<Event>) -> Result<End> {
    loop {
        match events.recv()? {
            Event::ChildEnded => {
                if let Some((_, end)) = std::iter::from_fn(children::reap).find(|(pid, _)| *pid == launcher) {
                    return Ok(end);
                }
            }
            Event::Signal { signal, from_terminal: false } => children::send(launcher, signal),
            Event::Signal { from_terminal: true, .. } | Event::Said { .. } | Event::Aborted { .. } => {}
        }
    }
}

/// In the inner process: ties its life to the guard's and adopts what its children leave behind.
///
/// The kernel's word that the guard is gone is a TERM; [`is_guarded`] tells it from one that is meant for the ranks.
pub fn enter(guard: Pid) -> Result<()> {
    children::adopt_orphans()?;
    anyhow::ensure!(children::die_with(guard, Signal::TERM)?, "the launch was given up");
    Ok(())
}

/// True while the guard is alive.
pub fn is_guarded(guard: Pid) -> bool {
    rustix::process::getppid() == Some(guard)
}
