//! Sending and receiving a known length before a deadline: for greetings only, which may wait.

use super::Socket;
use hanare_protocol::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::AsFd;
use std::time::Instant;

/// A greeting under way: the socket, who is there, and until when.
pub(crate) struct Exact<'a> {
    pub(crate) socket: &'a Socket,
    pub(crate) peer: &'a str,
    pub(crate) begun: Instant,
    pub(crate) deadline: Instant,
}

impl Exact<'_> {
    /// Sends all of the bytes.
    pub(crate) fn send(&self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match send(self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(len) => bytes = &bytes[len..],
                Err(errno) => self.after(errno, PollFlags::OUT)?,
            }
        }
        Ok(())
    }

    /// Receives as many bytes as there is room for.
    pub(crate) fn receive(&self, into: &mut [u8]) -> Result<(), Error> {
        let mut have = 0;
        while have < into.len() {
            match recv(self.socket, &mut into[have..], RecvFlags::empty()) {
                Ok((0, _)) => return Err(self.gone("it closed the connection during the greeting")),
                Ok((len, _)) => have += len,
                Err(errno) => self.after(errno, PollFlags::IN)?,
            }
        }
        Ok(())
    }

    /// Waits where the call only had nothing to do.
    fn after(&self, errno: rustix::io::Errno, flags: PollFlags) -> Result<(), Error> {
        use rustix::io::Errno;
        match errno {
            Errno::INTR => Ok(()),
            Errno::AGAIN => self.wait(flags),
            errno => Err(self.gone(&errno.to_string())),
        }
    }

    fn wait(&self, flags: PollFlags) -> Result<(), Error> {
        let rest = self.deadline.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(self.late());
        }
        let timeout = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        match poll(&mut [PollFd::from_borrowed_fd(self.socket.as_fd(), flags)], Some(&timeout)) {
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
