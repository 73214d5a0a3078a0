//! State that all connections share: the store, the secret, counts, and bounds of memory.

use hanare_dict::Store;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use subtle::ConstantTimeEq;

/// Bytes of commands that have begun, in all connections together; the same of replies that wait for their clients.
const COMMANDS_LEN: usize = 512 << 20;
const REPLIES_LEN: usize = 512 << 20;

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
    /// Memory of commands that have begun, and of replies that wait.
    pub held: Budget,
    pub owed: Budget,
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
            held: Budget::new(COMMANDS_LEN),
            owed: Budget::new(REPLIES_LEN),
        }
    }
}

/// Bytes that all connections together may take.
#[derive(Clone)]
pub struct Budget {
    most: usize,
    taken: Arc<AtomicUsize>,
}

impl Budget {
    fn new(most: usize) -> Budget {
        Budget { most, taken: Arc::default() }
    }

    /// A connection's part, without bytes.
    pub fn part(&self) -> Part {
        Part { budget: self.clone(), len: 0 }
    }

    /// True if half of the bytes are taken.
    pub fn is_short(&self) -> bool {
        self.taken.load(Ordering::Relaxed) > self.most / 2
    }
}

/// Bytes of one connection.
pub struct Part {
    budget: Budget,
    len: usize,
}

impl Part {
    /// Counts so many bytes. Returns false where they are more than before, and all connections together have too many.
    pub fn set(&mut self, len: usize) -> bool {
        let len = len.saturating_sub(SHORT_LEN);
        if len == self.len {
            return true;
        }
        let all = &self.budget.taken;
        all.fetch_add(len, Ordering::Relaxed);
        all.fetch_sub(self.len, Ordering::Relaxed);
        let is_more = len > self.len;
        self.len = len;
        !is_more || all.load(Ordering::Relaxed) <= self.budget.most
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.len, Ordering::Relaxed);
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

    #[test]
    fn long_bytes_of_all_connections_have_a_bound() {
        let budget = Budget::new(1000);
        let (mut first, mut second) = (budget.part(), budget.part());
        assert!(first.set(SHORT_LEN) && first.set(SHORT_LEN + 600) && budget.is_short());
        assert!(!second.set(SHORT_LEN + 600), "more than the bound");
        assert!(second.set(SHORT_LEN + 500) && second.set(SHORT_LEN + 500), "fewer than before");
        drop(first);
        assert!(second.set(SHORT_LEN + 900));
        drop(second);
        assert!(!budget.is_short() && budget.taken.load(Ordering::Relaxed) == 0);
    }
}
