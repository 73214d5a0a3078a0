//! State that all connections share: the store, the secret, and counts.

use hanare_dict::Store;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use subtle::ConstantTimeEq;

/// Bytes of commands that have begun, in all connections together.
const COMMANDS_LEN: usize = 512 << 20;

/// Bytes of one connection that do not count there.
const SHORT_LEN: usize = 128 << 10;

/// A secret that clients prove by telling it.
pub struct Secret(Vec<u8>);

impl Secret {
    /// A secret as a file has it: without the line's end. `None` for an empty one.
    pub fn of_file(bytes: &[u8]) -> Option<Secret> {
        let secret = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
        (!secret.is_empty()).then(|| Secret(secret.to_vec()))
    }

    /// True for the same bytes. The time that it takes tells the length alone.
    pub fn is(&self, told: &[u8]) -> bool {
        self.0.ct_eq(told).into()
    }
}

/// A stream of bytes between a client and the service.
pub trait Connection: Read + Write + Send {
    /// Bound of a read.
    fn set_read_timeout(&self, bound: Option<Duration>) -> io::Result<()>;
    /// Bound of a write.
    fn set_write_timeout(&self, bound: Option<Duration>) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn set_read_timeout(&self, bound: Option<Duration>) -> io::Result<()> {
        TcpStream::set_read_timeout(self, bound)
    }

    fn set_write_timeout(&self, bound: Option<Duration>) -> io::Result<()> {
        TcpStream::set_write_timeout(self, bound)
    }
}

impl Connection for UnixStream {
    fn set_read_timeout(&self, bound: Option<Duration>) -> io::Result<()> {
        UnixStream::set_read_timeout(self, bound)
    }

    fn set_write_timeout(&self, bound: Option<Duration>) -> io::Result<()> {
        UnixStream::set_write_timeout(self, bound)
    }
}

/// The store, the secret, and counts.
pub struct Shared {
    pub store: Store,
    pub secret: Option<Secret>,
    /// Most connections at once.
    pub most: usize,
    pub begun: Instant,
    /// Clients that are connected, and all that ever were.
    pub connected: AtomicUsize,
    pub connections: AtomicU64,
    pub commands: AtomicU64,
    /// Bytes of commands that have begun.
    begun_len: AtomicUsize,
}

impl Shared {
    pub fn new(store: Store, secret: Option<Secret>, most: usize) -> Shared {
        Shared {
            store,
            secret,
            most,
            begun: Instant::now(),
            connected: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            begun_len: AtomicUsize::new(0),
        }
    }

    /// A place in the memory of long commands.
    pub fn command_memory(&self) -> CommandMemory<'_> {
        CommandMemory { shared: self, len: 0 }
    }
}

/// Bytes of a connection's commands that have begun.
pub struct CommandMemory<'s> {
    shared: &'s Shared,
    len: usize,
}

impl CommandMemory<'_> {
    /// Counts so many bytes. Returns false where all connections together have too many.
    pub fn set(&mut self, len: usize) -> bool {
        let len = len.saturating_sub(SHORT_LEN);
        if len == self.len {
            return true;
        }
        let all = &self.shared.begun_len;
        all.fetch_add(len, Ordering::Relaxed);
        all.fetch_sub(self.len, Ordering::Relaxed);
        let is_more = len > self.len;
        self.len = len;
        !is_more || all.load(Ordering::Relaxed) <= COMMANDS_LEN
    }
}

impl Drop for CommandMemory<'_> {
    fn drop(&mut self) {
        self.shared.begun_len.fetch_sub(self.len, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_its_line() {
        let secret = Secret::of_file(b"open sesame\r\n").unwrap();
        assert!(secret.is(b"open sesame") && !secret.is(b"open sesam") && !secret.is(b"") && !secret.is(b"open sesame\r\n"));
        assert!(Secret::of_file(b"\n").is_none() && Secret::of_file(b"").is_none());
    }
}
