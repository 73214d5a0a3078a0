//! Requests for synchronisation of clients, sent to a node.

use super::{ASK, Patience, Remote, check_lineage};
use hanare_protocol::error::Happened;
use hanare_protocol::wire::exchange::{Query, Reply};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::time::{Duration, Instant};

/// The name of a request that a broken connection had under way.
const WHAT: &str = "a request for what clients share";

/// A request for what clients share that is under way.
pub(crate) struct PostedSync {
    /// The request's number.
    pub seq: u64,
    until: Option<Instant>,
    /// The connection that it was sent on.
    pub connection: Option<u128>,
    /// The number of the lock's taking, if it is one.
    taking: Option<u64>,
}

/// Rest of a time.
fn left(until: Option<Instant>, most: Duration) -> Duration {
    until.map_or(most, |until| most.min(until.saturating_duration_since(Instant::now())))
}

impl Remote {
    /// Asks for something that clients share, and waits for the answer. Returns it with the name of its connection.
    ///
    /// **Errors**: [`Error::Broken`] where the connection broke meanwhile. It has ended at the node too, with all that was taken on it,
    /// unless what happened is unknown. [`Error::NotInTime`] if nothing came within its patience. The connection stays, and a lock that
    /// comes later is given back.
    pub fn ask_sync(&self, what: &SyncRequest, patience: Patience) -> Result<(SyncAnswer, u128)> {
        self.wait_sync(self.post_sync(what.clone(), patience)?)
    }

    /// Sends what [`Remote::ask_sync`] asks; [`Remote::wait_sync`] follows.
    pub fn post_sync(&self, what: SyncRequest, patience: Patience) -> Result<PostedSync> {
        let until = patience.end();
        let taking = if let SyncRequest::Lock { number, .. } = &what { Some(*number) } else { None };
        let mut request = self.draft();
        request.set_query(&Query::Sync(what), patience);
        check_lineage(self.lineage)?;
        let mut inner = self.lock();
        let was_there = inner.link.is_some();
        self.connect(&mut inner, left(until, self.bound))?;
        // SAFETY: such a request has no memory but its own.
        let seq = unsafe { self.post_on(&mut inner, request) }.map_err(|error| match error {
            // The node cannot have all of it: the connection had ended before.
            Error::NodeLost { node, reason } if was_there => {
                Error::Broken { node, what: WHAT.to_owned(), reason, happened: Happened::No }
            }
            other => other,
        })?;
        Ok(PostedSync { seq, until, connection: inner.name, taking })
    }

    /// Waits for the answer to what was posted. **Errors**: those of [`Remote::ask_sync`].
    pub fn wait_sync(&self, posted: PostedSync) -> Result<(SyncAnswer, u128)> {
        let PostedSync { seq, until, taking, .. } = posted;
        let mut told = (None, None);
        let outcome = self.settle(seq, self.bound, |request| told = (request.take_reply(), request.connection));
        if let (Err(Error::NotInTime { .. }), None, Some(number)) = (&outcome, told.1, taking) {
            self.withdraw(number);
        }
        self.explain(outcome, told.1, seq, WHAT, left(until, ASK))?;
        match told {
            // A request that may be repeated needs no name.
            (Some(Reply::Synced(answer)), connection) => Ok((answer, connection.unwrap_or_default())),
            _ => Err(Error::Garbage { peer: self.node.to_string(), reason: "an answer without words".to_owned() }),
        }
    }

    /// True if a request's answer has not come.
    pub fn awaits(&self, seq: u64) -> bool {
        self.lock().pending.get(seq).is_some_and(|request| request.seq == seq && !request.is_over())
    }

    /// Ends the connection: nothing of it is waited for any longer, because another node has the part of this one.
    pub fn abandon(&self, reason: &str) {
        let mut inner = self.lock();
        inner.is_abandoned = true;
        self.close(&mut inner, &Error::NodeLost { node: self.node, reason: reason.to_owned() });
    }

    /// Gives up a lock that did not come in time, and may still come.
    fn withdraw(&self, number: u64) {
        let mut inner = self.lock();
        // The node has forgotten requests of a connection that has ended.
        if inner.link.is_none() {
            return;
        }
        let mut request = inner.pending.draft();
        request.set_query(&Query::Sync(SyncRequest::Withdraw { number }), Patience::UpTo(Duration::ZERO));
        // SAFETY: such a request has no memory but its own.
        if let Ok(seq) = unsafe { self.post_on(&mut inner, request) } {
            inner.pending.forsake(seq);
        }
    }
}
