//! One link of a client, with what it asks and what it is told.

use super::inbox::{Asks, Inbox};
use super::replies::Replies;
use crate::node::extents::Extents;
use hanare_fabric::{Link, LinkError};
use hanare_protocol::Error;
use hanare_protocol::wire::control::Arrival;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Rounds of one turn before others get theirs.
const ROUNDS_MAX: u32 = 16;

pub(crate) struct Session {
    // Dropped first: it may hold windows of the others.
    link: Box<dyn Link>,
    inbox: Inbox,
    replies: Replies,
}

/// What a turn did.
#[derive(Default)]
pub(crate) struct Turn {
    /// Whether anything moved.
    pub moved: bool,
    /// Ranks that arrived at barriers, with the number of their request.
    pub arrivals: Vec<(u64, Arrival)>,
}

impl Session {
    pub fn new(link: Box<dyn Link>, extents: Arc<Extents>) -> Session {
        Session { link, inbox: Inbox::new(extents), replies: Replies::default() }
    }

    /// Moves messages and answers as far as they go, within a bound.
    pub fn turn(&mut self) -> Result<Turn, LinkError> {
        let mut turn = Turn::default();
        for _ in 0..ROUNDS_MAX {
            self.inbox.held_back = !self.replies.is_idle();
            let progress = self.link.progress(&mut self.inbox)?;
            for finished in self.inbox.finished.drain(..) {
                match finished.asks {
                    Asks::Arrival(arrival) => turn.arrivals.push((finished.seq, arrival)),
                    _ => self.replies.push(finished),
                }
            }
            let pumped = self.replies.pump(&mut *self.link)?;
            if progress.is_idle() && !pumped {
                break;
            }
            turn.moved = true;
            if progress.messages == 0 && self.link.unsent_len() > 0 {
                break;
            }
        }
        Ok(turn)
    }

    /// Answers an arrival.
    pub fn answer_arrival(&mut self, seq: u64, outcome: Result<(), Error>) -> Result<(), LinkError> {
        self.replies.push_barrier(seq, outcome);
        self.replies.pump(&mut *self.link).map(|_| ())
    }

    /// Whether an answer waits for the client to read.
    pub fn is_blocked(&self) -> bool {
        !self.replies.is_idle() || self.link.unsent_len() > 0
    }

    pub fn needs_write_event(&self) -> bool {
        self.link.needs_write_event()
    }

    pub fn doze(&mut self) -> bool {
        self.link.doze()
    }

    pub fn event(&self) -> BorrowedFd<'_> {
        self.link.event()
    }
}
