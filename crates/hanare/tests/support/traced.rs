//! One thread of another process, let go from step to step: from one system call to the next, or one instruction at a time.
//!
//! Safety invariant of this module: `ptrace` reads and writes memory of the other process alone; what it writes here is an
//! integer that it returns, or a structure of the kernel's size that it is given.

#![allow(dead_code)]

use std::io::{Error, Result};
use std::time::{Duration, Instant};

/// How long a thread may take from one stop to the next.
const STOP_TIME: Duration = Duration::from_secs(60);

/// A thread that stands still unless it is let go.
pub struct Traced {
    thread: i32,
    /// The signal that it gets when it goes on.
    signal: i32,
}

/// Where a thread came to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// About to make a system call.
    Before(u64),
    /// A system call has returned that.
    After(i64),
    /// It is about to get a signal.
    Signal(i32),
    /// An instruction was run.
    Step,
    /// It is no more.
    Ended,
}

impl Traced {
    /// Takes a thread, by its number, wherever it is, and has it stand still. This thread alone may use what is returned.
    ///
    /// **Errors**: where this system does not permit it.
    pub fn take(thread: i32) -> Result<Traced> {
        let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
        let mut traced = Traced { thread, signal: 0 };
        traced.ask(libc::PTRACE_SEIZE, 0, options as usize)?;
        traced.ask(libc::PTRACE_INTERRUPT, 0, 0)?;
        traced.wait();
        Ok(traced)
    }

    /// To its next system call, or out of the one that it is in.
    pub fn next_call(&mut self) -> Stop {
        self.go(libc::PTRACE_SYSCALL)
    }

    /// Through one instruction.
    pub fn step(&mut self) -> Stop {
        self.go(libc::PTRACE_SINGLESTEP)
    }

    /// On its own from here.
    pub fn let_go(self) {
        self.ask(libc::PTRACE_DETACH, 0, self.signal as usize).unwrap();
    }

    /// After its process was killed: until it is gone, unless it is the one that the process is waited for by.
    pub fn bury(mut self, process: i32) {
        while self.thread != process && self.wait() != Stop::Ended {}
    }

    /// A word of its memory.
    pub fn peek(&self, at: usize) -> u64 {
        self.ask(libc::PTRACE_PEEKDATA, at, 0).unwrap() as u64
    }

    fn go(&mut self, how: libc::c_uint) -> Stop {
        let signal = std::mem::take(&mut self.signal);
        match self.ask(how, 0, signal as usize) {
            Ok(_) => self.wait(),
            // It was killed where it stood.
            Err(_) => Stop::Ended,
        }
    }

    fn wait(&mut self) -> Stop {
        let begun = Instant::now();
        let mut looks = 0;
        loop {
            let mut status = 0;
            // SAFETY: the status is this function's own.
            match unsafe { libc::waitpid(self.thread, &mut status, libc::__WALL | libc::WNOHANG) } {
                0 if looks < 1000 => {
                    looks += 1;
                    std::thread::yield_now();
                }
                0 => std::thread::sleep(Duration::from_micros(200)),
                thread if thread < 0 => return Stop::Ended,
                _ => return self.stop(status),
            }
            assert!(begun.elapsed() < STOP_TIME, "thread {} came to no stop within {STOP_TIME:?}", self.thread);
        }
    }

    fn stop(&mut self, status: i32) -> Stop {
        if !libc::WIFSTOPPED(status) {
            return Stop::Ended;
        }
        match libc::WSTOPSIG(status) {
            call if call == libc::SIGTRAP | 0x80 => self.call(),
            libc::SIGTRAP => Stop::Step,
            signal => {
                self.signal = signal;
                Stop::Signal(signal)
            }
        }
    }

    fn call(&self) -> Stop {
        // SAFETY: all zeros are a structure of the kernel's.
        let mut about: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
        self.ask(libc::PTRACE_GET_SYSCALL_INFO, size_of_val(&about), (&raw mut about).addr()).unwrap();
        match about.op {
            // SAFETY: that is what the kernel filled in.
            libc::PTRACE_SYSCALL_INFO_ENTRY => Stop::Before(unsafe { about.u.entry.nr }),
            // SAFETY: as above.
            _ => Stop::After(unsafe { about.u.exit.sval }),
        }
    }

    fn ask(&self, what: libc::c_uint, at: usize, with: usize) -> Result<i64> {
        // SAFETY: errno is this thread's own; the arguments are the invariant's.
        let answer = unsafe {
            *libc::__errno_location() = 0;
            libc::ptrace(what, self.thread, at, with)
        };
        let error = Error::last_os_error();
        if answer == -1 && error.raw_os_error() != Some(0) { Err(error) } else { Ok(answer) }
    }
}
