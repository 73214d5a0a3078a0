//! Messages for the user of a program: of a node that is waited for, of bytes that are gone, of memory that is refused. One line each.

use super::ProgramSpace;
use crate::main_memory::outage::{SILENT_MS, Waiter, in_words};
use hanare::Error;
use hanare_memory::uffd::Span;
use hanare_protocol::size::Size;
use std::sync::atomic::{AtomicBool, Ordering};

/// Messages that the user has had.
#[derive(Default)]
pub struct Told {
    is_gone: AtomicBool,
    is_waited_for: AtomicBool,
    is_refused: AtomicBool,
}

impl Waiter for ProgramSpace {
    fn waits_for(&self, error: &Error) -> bool {
        let is_over = self.is_over();
        if !is_over && !self.told.is_waited_for.swap(true, Ordering::Relaxed) {
            let seconds = SILENT_MS / 1000;
            self.tell(&format!("waits up to {seconds} s for memory on a node that does not answer: {}", in_words(error)));
        }
        !is_over
    }
}

impl ProgramSpace {
    /// The awaited thing came.
    pub(super) fn goes_on(&self) {
        if self.told.is_waited_for.load(Ordering::Relaxed) && self.told.is_waited_for.swap(false, Ordering::Relaxed) {
            self.tell("goes on");
        }
    }

    fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Relaxed) || self.table().is_over
    }

    /// Bytes that the program needs are gone: whoever touches them gets SIGBUS.
    pub(super) fn on_lost(&self, error: &Error, span: Span) {
        if self.is_over() {
            return;
        }
        if !self.told.is_gone.swap(true, Ordering::Relaxed) {
            self.tell(&format!("has memory that is gone and gets SIGBUS: {}", in_words(error)));
        }
        if self.reach.pager.poison(span).is_err()
            && let Some(process) = rustix::process::Pid::from_raw(self.reach.process as i32)
        {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::BUS);
        }
    }

    /// A call of the program is refused so many bytes.
    pub(super) fn on_refused(&self, what: &str, len: u64, error: &Error) {
        if !self.told.is_refused.swap(true, Ordering::Relaxed) {
            self.tell(&format!("gets ENOMEM for {what} {}: {error}", Size(len)));
        }
    }

    fn tell(&self, what: &str) {
        eprintln!("hanare: {} (process {}) {what}", self.reach.name, self.reach.process);
    }
}
