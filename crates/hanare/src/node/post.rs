//! Letters from one thread to another that sleeps in epoll.

use hanare_protocol::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

/// A letter box with a bell.
pub(crate) struct Post<T> {
    letters: Mutex<Vec<T>>,
    bell: OwnedFd,
}

impl<T> Post<T> {
    pub fn new() -> Result<Post<T>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| Error::System { what: "make an event".to_owned(), reason: errno.to_string() })?;
        Ok(Post { letters: Mutex::default(), bell })
    }

    /// Leaves a letter and rings.
    pub fn send(&self, letter: T) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        // The only failure is a counter at its maximum, which is readable all the same.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Takes all letters.
    pub fn take(&self) -> Vec<T> {
        // Emptied before the letters are taken: a letter that comes between rings again.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Readable while there are letters.
    pub fn bell(&self) -> &OwnedFd {
        &self.bell
    }
}
