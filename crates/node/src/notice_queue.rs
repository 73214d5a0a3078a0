//! Notices from one thread to another that sleeps in epoll.

use hanare_protocol::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

/// A queue of notices, with a bell that epoll watches.
pub(crate) struct NoticeQueue<T> {
    notices: Mutex<Vec<T>>,
    bell: OwnedFd,
}

impl<T> NoticeQueue<T> {
    pub fn new() -> Result<NoticeQueue<T>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| Error::System { what: "make an event".to_owned(), reason: errno.to_string() })?;
        Ok(NoticeQueue { notices: Mutex::default(), bell })
    }

    /// Leaves a notice and rings.
    pub fn send(&self, notice: T) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
        // The only failure is a counter at its maximum, which is readable all the same.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Takes all notices.
    pub fn take(&self) -> Vec<T> {
        // Emptied before the notices are taken: a notice that comes between rings again.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if there are notices. Costs no system call.
    pub fn has_some(&self) -> bool {
        !self.notices.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Readable while there are notices.
    pub fn bell(&self) -> &OwnedFd {
        &self.bell
    }
}
