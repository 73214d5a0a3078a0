//! Sending and receiving a known length before a deadline: for greetings only, which may wait.
//!
//! Safety invariant of this module: a stream is given slices only, borrowed for the call.

use crate::stream::Stream;
use hanare_protocol::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::time::Instant;

/// A greeting under way: the stream, who is there, and until when.
pub(crate) struct Exact<'a, S> {
    pub(crate) stream: &'a mut S,
    pub(crate) peer: &'a str,
    pub(crate) begun: Instant,
    pub(crate) deadline: Instant,
}

impl<S: Stream> Exact<'_, S> {
    /// Sends all of the bytes.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            // SAFETY: the piece is a slice, which the stream only reads.
            match unsafe { self.stream.send(&[piece]) } {
                Ok(len) => bytes = &bytes[len..],
                Err(error) => self.after(&error, PollFlags::OUT)?,
            }
        }
        while self.stream.unsent_len() > 0 {
            self.wait(PollFlags::OUT)?;
            self.stream.flush().or_else(|error| self.after(&error, PollFlags::OUT))?;
        }
        Ok(())
    }

    /// Receives as many bytes as there is room for.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> Result<(), Error> {
        let mut have = 0;
        while have < into.len() {
            let rest = &mut into[have..];
            let place = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
            // SAFETY: the place is a slice that is borrowed for writing.
            match unsafe { self.stream.receive(&[place]) } {
                Ok(0) => return Err(self.gone("it closed the connection during the greeting")),
                Ok(len) => have += len,
                Err(error) => self.after(&error, PollFlags::IN)?,
            }
        }
        Ok(())
    }

    /// Waits where the call found nothing to do; other errors end the greeting.
    fn after(&self, error: &io::Error, flags: PollFlags) -> Result<(), Error> {
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::WouldBlock => self.wait(flags),
            _ => Err(self.gone(&error.to_string())),
        }
    }

    pub(crate) fn wait(&self, flags: PollFlags) -> Result<(), Error> {
        let rest = self.deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(self.late());
        }
        let timeout = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        match poll(&mut [PollFd::from_borrowed_fd(self.stream.as_fd(), flags)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::System { what: "waiting for a greeting".into(), reason: errno.to_string() }),
        }
    }

    fn late(&self) -> Error {
        let after_ms = self.deadline.saturating_duration_since(self.begun).as_millis() as u64;
        Error::Timeout { peer: self.peer.to_owned(), what: "the greeting".into(), after_ms }
    }

    fn gone(&self, reason: &str) -> Error {
        Error::NoNode { address: self.peer.to_owned(), reason: reason.to_owned() }
    }
}
