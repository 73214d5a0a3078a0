//! A home as a node serves it, under virtual time: every output is taken after every input, and ticks come when they are due.

use crate::harness::due;
use hanare_home::{Counts, Home, Input, LockTerms, Memory, Output, Waiter};
use hanare_protocol::id::{ClientId, User};
use hanare_protocol::wire::sync::SyncRequest;
use std::time::Duration;

/// A life of a home.
#[derive(Debug)]
pub(crate) struct ServedHome {
    pub life: u64,
    home: Home,
    tick_at: Option<u64>,
}

impl ServedHome {
    pub fn new(life: u64, terms: LockTerms) -> ServedHome {
        ServedHome { life, home: Home::new(terms, life), tick_at: None }
    }

    /// An event happens. Returns what comes of it, in order.
    pub fn handle(&mut self, now_ms: u64, input: Input, memory: &mut impl Memory) -> Vec<Output> {
        self.home.handle(Duration::from_millis(now_ms), input, memory);
        std::iter::from_fn(|| self.home.poll(memory)).collect()
    }

    /// After how many milliseconds a tick is to come, unless one is under way that comes in time.
    pub fn next_tick(&mut self, now_ms: u64) -> Option<u64> {
        due(self.home.deadline().map(|at| at.as_millis() as u64), &mut self.tick_at, now_ms)
    }

    pub fn counts(&self) -> Counts {
        self.home.counts()
    }
}

/// A request of a program; all programs are of one user.
pub(crate) fn request(waiter: Waiter, client: u64, request: SyncRequest) -> Input {
    Input::Request { waiter, from: (ClientId(client), User { uid: 1000, gid: 1000 }), request }
}
