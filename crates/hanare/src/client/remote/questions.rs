//! What a node is asked about itself.

use super::{Patience, Remote};
use hanare_protocol::wire::exchange::{Query, Reply};
use hanare_protocol::wire::look::{Look, Seen};
use hanare_protocol::{Error, Result};
use std::time::Instant;

impl Remote {
    /// Asks for the node's clock, in nanoseconds since 1970.
    pub fn clock(&self) -> Result<u64> {
        let mut request = self.draft();
        request.set_query(&Query::Ping, Patience::Usual);
        // SAFETY: such a request has no memory but its own.
        let seq = unsafe { self.post(request) }?;
        let mut told = None;
        self.settle(seq, self.bound, |request| told = request.take_reply())?;
        match told {
            Some(Reply::Pong { unix_ns }) => Ok(unix_ns),
            _ => Err(Error::Garbage { peer: self.node.to_string(), reason: "an answer to another question".to_owned() }),
        }
    }

    /// Asks what the node has and did.
    ///
    /// **Errors**: [`Error::NotInTime`] where nothing came within its patience: the connection stays.
    pub fn look(&self, look: &Look, patience: Patience) -> Result<Seen> {
        let left = patience.end().map_or(self.bound, |until| self.bound.min(until.saturating_duration_since(Instant::now())));
        let mut request = self.draft();
        request.set_query(&Query::Look(look.clone()), patience);
        // SAFETY: such a request has no memory but its own.
        let seq = unsafe { self.post_within(request, left) }?;
        let mut told = None;
        self.settle(seq, self.bound, |request| told = request.take_reply())?;
        match told {
            Some(Reply::Seen(seen)) => Ok(*seen),
            _ => Err(Error::Garbage { peer: self.node.to_string(), reason: "an answer to another question".to_owned() }),
        }
    }
}
